/*
 * The PMIx binding, for Open MPI's mpirun, prterun and `srun --mpi=pmix`.  libpmix is loaded when
 * it is needed: roam runs without it.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/bind.h"
#include "launch/own.h"
#include "os/os.h"

#define LIBRARY "libpmix.so.2"
#define CLAIMS  (UINT64_C(1) << 62) /* bytes below are slurm.c's */
#define LOOK_NS (ROAMI_LOOK_MS * UINT64_C(1000000))

struct client {
	void *library;
	__typeof__(PMIx_Init) *init;
	__typeof__(PMIx_Finalize) *finalize;
	__typeof__(PMIx_Put) *put;
	__typeof__(PMIx_Commit) *commit;
	__typeof__(PMIx_Fence_nb) *fence;
	__typeof__(PMIx_Get) *get;
	__typeof__(PMIx_Error_string) *error;
	pmix_proc_t self;
	struct roami_own own; /* the claim is in it */
	unsigned round;
	_Atomic uint32_t done; /* the fence has ended, with */
	pmix_status_t status;
};

/*
 * Read from the environment that the process began with: MPI_Init sets the variable in a process
 * that runs alone, too.
 */
static const char *client_marker(void)
{
	FILE *began = roami_os_file("/proc/self/environ");
	char *entry = NULL;
	size_t room = 0;
	bool found = began == NULL;

	while (began != NULL && !found && getdelim(&entry, &room, '\0', began) > 0)
		found = strncmp(entry, "PMIX_NAMESPACE=", 15) == 0;
	free(entry);
	if (began != NULL)
		fclose(began);
	return found && getenv("PMIX_NAMESPACE") != NULL ? "PMIX_NAMESPACE" : NULL;
}

/* C does not promise that a function pointer fits into an object pointer; on Linux it does. */
static bool client_find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static bool client_load(struct client *client)
{
	client->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	return client->library != NULL &&
	       client_find(client->library, "PMIx_Init", &client->init) &&
	       client_find(client->library, "PMIx_Finalize", &client->finalize) &&
	       client_find(client->library, "PMIx_Put", &client->put) &&
	       client_find(client->library, "PMIx_Commit", &client->commit) &&
	       client_find(client->library, "PMIx_Fence_nb", &client->fence) &&
	       client_find(client->library, "PMIx_Get", &client->get) &&
	       client_find(client->library, "PMIx_Error_string", &client->error);
}

static bool client_works(char *text, size_t bytes)
{
	struct client client = {.library = NULL};
	bool works = client_load(&client);

	snprintf(text, bytes, "%s", works ? LIBRARY " is there" : dlerror());
	if (client.library != NULL)
		dlclose(client.library);
	return works;
}

static bool client_failed(struct roami_bound *bound, const char *what, pmix_status_t status)
{
	struct client *client = bound->state;

	return roami_bound_fail(bound, "PMIx: cannot %s: %s", what, client->error(status));
}

/* ---------------------------------------------------------------------------------------- start */

/*
 * No other process of this host is the node.  A server counts what arrives at a fence and does not
 * look from which process, so a second process must not come as far as PMIx_Init: some nodes would
 * go on, and others wait for ever.
 */
static bool client_claim(struct roami_bound *bound)
{
	static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMIX_SERVER_URI41",
					    "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
					    "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
	struct client *client = bound->state;
	const char *rank = getenv("PMIX_RANK");
	uint64_t process = 0;

	if (!roami_own_open(bound, &client->own))
		return true; /* nothing else is kept there */
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		process = roami_own_hash(process, value != NULL ? value : "");
		process = roami_own_hash(process, "\n");
	}
	bound->me = rank != NULL ? (unsigned)strtoul(rank, NULL, 10) : 0;
	return roami_bound_claim(bound, client->own.claims, CLAIMS | process >> 2);
}

/*
 * Begins PMIx, whose threads must take none of our signals.  If this process had one thread before,
 * all others are PMIx's.
 */
static pmix_status_t client_init(struct roami_bound *bound)
{
	struct client *client = bound->state;
	unsigned held = roami_os_fds_hold(), before = roami_os_threads(), after;
	sigset_t all, old;
	pmix_status_t status;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	status = client->init(&client->self, NULL, 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	roami_os_fds_release(held);
	after = roami_os_threads();
	bound->threads = before == 1 && after > 0 ? after - 1 : 0;
	return status;
}

static void client_free(pmix_value_t *value)
{
	if (value->type == PMIX_BYTE_OBJECT)
		free(value->data.bo.bytes);
	free(value);
}

/*
 * The value that `rank` has put under `key`; NULL with *status_p: it is missing, or of another
 * type.
 */
static pmix_value_t *client_get(struct roami_bound *bound, pmix_rank_t rank, const char *key,
				pmix_data_type_t type, pmix_status_t *status_p)
{
	struct client *client = bound->state;
	pmix_proc_t from = client->self;
	pmix_value_t *value = NULL;

	from.rank = rank;
	*status_p = client->get(&from, key, NULL, 0, &value);
	if (*status_p != PMIX_SUCCESS)
		return NULL;
	if (value->type == type)
		return value;
	client_free(value);
	*status_p = PMIX_ERR_TYPE_MISMATCH;
	return NULL;
}

static bool client_size(struct roami_bound *bound)
{
	struct client *client = bound->state;
	pmix_status_t status;
	pmix_value_t *value =
		client_get(bound, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32, &status);

	if (value == NULL)
		return client_failed(bound, "learn how many nodes there are", status);
	bound->nodes = value->data.uint32;
	bound->me = client->self.rank;
	client_free(value);
	return true;
}

static bool client_open(struct roami_bound *bound)
{
	struct client *client = calloc(1, sizeof(*client));
	pmix_status_t status;

	if (client == NULL)
		return roami_bound_fail(bound, "out of memory");
	client->own.directory = client->own.claims = -1;
	bound->state = client;
	if (!client_load(client))
		return roami_bound_fail(bound, "the launcher offers PMIx, but %s", dlerror());
	if (!client_claim(bound))
		return false;
	status = client_init(bound);
	if (status != PMIX_SUCCESS)
		return client_failed(bound, "reach the launcher", status);
	return client_size(bound);
}

/* ------------------------------------------------------------------------------------ gathering */

static void client_fenced(pmix_status_t status, void *arg)
{
	struct client *client = arg;

	client->status = status;
	atomic_store(&client->done, 1);
	roami_os_futex_wake(&client->done, 1);
}

/* All have put theirs, and every server has it. */
static bool client_fence(struct roami_bound *bound)
{
	struct client *client = bound->state;
	pmix_info_t collect = {.key = PMIX_COLLECT_DATA,
			       .value = {.type = PMIX_BOOL, .data.flag = true}};
	pmix_status_t status;

	atomic_store(&client->done, 0);
	status = client->fence(NULL, 0, &collect, 1, client_fenced, client);
	if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
		return client_failed(bound, "meet the other nodes", status);
	while (status == PMIX_SUCCESS && atomic_load(&client->done) == 0) {
		if (!roami_bound_patient(bound))
			return false;
		roami_os_futex_wait(&client->done, 0, LOOK_NS);
	}
	if (status == PMIX_SUCCESS && client->status != PMIX_SUCCESS)
		return client_failed(bound, "meet the other nodes", client->status);
	return true;
}

static bool client_take(struct roami_bound *bound, unsigned node, const char *key,
			struct roami_blob *blob)
{
	struct client *client = bound->state;
	pmix_status_t status;
	pmix_value_t *value = client_get(bound, node, key, PMIX_BYTE_OBJECT, &status);
	bool good;

	if (value == NULL)
		return roami_bound_fail(
			bound,
			"PMIx: node %u has published nothing: %s (does the program run twice in "
			"one of the launcher's processes?)",
			node, client->error(status));
	good = value->data.bo.size > 0 && value->data.bo.size <= ROAMI_BLOB_BYTES + 1;
	if (good) {
		blob->bytes = (uint32_t)value->data.bo.size - 1;
		memcpy(blob->data, value->data.bo.bytes, blob->bytes);
	}
	client_free(value);
	return good || roami_bound_fail(bound, "PMIx: node %u has published malformed data", node);
}

/* A value is sent with one more byte: PMIx takes no empty ones. */
static bool client_gather(struct roami_bound *bound, const void *mine, size_t bytes,
			  struct roami_blob *all)
{
	struct client *client = bound->state;
	char data[ROAMI_BLOB_BYTES + 1] = {0}, key[32];
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT, .data.bo = {data, bytes + 1}};
	pmix_status_t status;

	snprintf(key, sizeof(key), "roam-%u", client->round++);
	if (bytes > 0)
		memcpy(data, mine, bytes);
	status = client->put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = client->commit();
	if (status != PMIX_SUCCESS)
		return client_failed(bound, "tell the launcher of this node", status);
	if (!client_fence(bound))
		return false;
	for (unsigned node = 0; node < bound->nodes; node++)
		if (!client_take(bound, node, key, &all[node]))
			return false;
	return true;
}

static void client_close(struct roami_bound *bound)
{
	struct client *client = bound->state;

	client->finalize(NULL, 0);
	roami_own_close(&client->own);
	free(client);
	bound->state = NULL;
}

const struct roami_binding roami_bind_pmix = {
	.name = "pmix",
	.launchers = "mpirun, prterun, srun --mpi=pmix",
	.marker = client_marker,
	.works = client_works,
	.open = client_open,
	.gather = client_gather,
	.close = client_close,
};
