/*
 * srun without PMI: its variables say which node this is, and where node 0 listens for the others.
 * On one host that is a socket in a directory that no other user may enter.  Between hosts it is a
 * TCP port, where any process could answer: only with ROAM_SEAL=off.
 */
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "launch/own.h"
#include "launch/hub.h"
#include "os/os.h"

#define PORT_FIRST 20000u
#define PORT_COUNT 12000u
#define PORT_STEP  997u
#define SOCKET     "slurm-"

struct slurm {
	struct roami_hub hub;
	struct roami_own own;
	bool one_host;
	char socket[sizeof(SOCKET) + 64]; /* its name in our directory: of node 0, on one host */
};

/* A number in the environment; `other` if there is none. */
static unsigned slurm_number(const char *name, unsigned other)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return other;
	value = strtoul(text, &end, 10);
	return *end == '\0' && value < UINT32_MAX ? (unsigned)value : other;
}

/* A step of one task may be a shell whose programs are jobs of their own. */
static const char *slurm_marker(void)
{
	return getenv("SLURM_STEP_ID") != NULL && slurm_number("SLURM_STEP_NUM_TASKS", 0) > 1
		       ? "SLURM_STEP_ID"
		       : NULL;
}

static bool slurm_works(char *text, size_t bytes)
{
	snprintf(text, bytes,
		 "node 0 listens for the others; several hosts with ROAM_SEAL=off only");
	return true;
}

/* The byte that node `node` of a step has claimed. */
static uint64_t slurm_byte(uint64_t job, unsigned node)
{
	_Static_assert(ROAMI_NODES_MAX <= 64, "a step's bytes are its own");
	return (job & ((UINT64_C(1) << 56) - 1)) << 6 | node;
}

/*
 * Removes the sockets of jobs whose node 0 was killed while they began.  While this process holds
 * the byte, no process becomes that node 0 and binds the socket again.
 */
static void slurm_sweep(const struct slurm *slurm)
{
	int fd = roami_os_fd(openat(slurm->own.directory, ".", O_RDONLY | O_CLOEXEC));
	DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	while (all != NULL && (entry = readdir(all)) != NULL) {
		uint64_t byte;

		if (strncmp(entry->d_name, SOCKET, strlen(SOCKET)) != 0 ||
		    strcmp(entry->d_name, slurm->socket) == 0)
			continue;
		byte = slurm_byte(roami_own_hash(0, entry->d_name + strlen(SOCKET)), 0);
		if (!roami_own_hold(&slurm->own, byte))
			continue;
		unlinkat(slurm->own.directory, entry->d_name, 0);
		roami_own_free(&slurm->own, byte);
	}
	if (all != NULL)
		closedir(all);
	else if (fd >= 0)
		close(fd);
}

/* No other process of this host is the node, and nothing is left of one that was killed. */
static bool slurm_claim(struct roami_bound *bound, struct slurm *slurm)
{
	if (!roami_own_open(bound, &slurm->own)) {
		bound->quiet = slurm->one_host && bound->me != 0; /* all see the same */
		return false;
	}
	if (!roami_bound_claim(bound, slurm->own.claims, slurm_byte(slurm->hub.job, bound->me)))
		return false;
	if (bound->me != 0)
		return true;
	unlinkat(slurm->own.directory, slurm->socket, 0);
	slurm_sweep(slurm);
	return true;
}

/*
 * By way of the descriptor: the path may be longer than a socket address can be, or name another
 * directory by now.
 */
static void slurm_here(struct slurm *slurm)
{
	struct sockaddr_un *address = (void *)&slurm->hub.addresses[0];

	_Static_assert(sizeof(slurm->socket) + sizeof("/proc/self/fd/2147483647/") <=
			       sizeof(address->sun_path),
		       "it fits");
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/%s",
		 slurm->own.directory, slurm->socket);
	slurm->hub.address_bytes = sizeof(*address);
	slurm->hub.address_count = 1;
}

/* The first of SLURM_STEP_NODELIST, as in n[01-03,7],m5. */
static bool slurm_first_host(char *host, size_t bytes)
{
	const char *list = getenv("SLURM_STEP_NODELIST");
	size_t name, digits;

	if (list == NULL)
		return false;
	name = strcspn(list, ",[");
	digits = list[name] == '[' ? strcspn(list + name + 1, ",-]") : 0;
	if (name + digits == 0 || name + digits >= bytes)
		return false;
	memcpy(host, list, name);
	memcpy(host + name, list + name + 1, digits);
	host[name + digits] = '\0';
	return true;
}

static bool slurm_far(struct roami_bound *bound, struct slurm *slurm)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char host[256];

	if (!bound->open_network) {
		bound->quiet = bound->me != 0;
		return roami_bound_fail(bound,
					"srun without PMI cannot bring a key to other hosts: "
					"add --mpi=pmix or --mpi=pmi2, or set ROAM_SEAL=off "
					"in a network that you trust");
	}
	if (!slurm_first_host(host, sizeof(host)) || getaddrinfo(host, NULL, &hints, &found) != 0)
		return roami_bound_fail(bound, "SLURM_STEP_NODELIST: no host that is known here");
	for (unsigned i = 0; i < ROAMI_HUB_ADDRESSES; i++) {
		struct sockaddr_in *address = (void *)&slurm->hub.addresses[i];
		uint64_t port = (slurm->hub.job + i * PORT_STEP) % PORT_COUNT;

		memcpy(address, found->ai_addr, sizeof(*address));
		if (bound->me == 0)
			address->sin_addr.s_addr = htonl(INADDR_ANY);
		address->sin_port = htons((uint16_t)(PORT_FIRST + port));
	}
	freeaddrinfo(found);
	slurm->hub.address_bytes = sizeof(struct sockaddr_in);
	slurm->hub.address_count = ROAMI_HUB_ADDRESSES;
	return true;
}

static bool slurm_open(struct roami_bound *bound)
{
	struct slurm *slurm = calloc(1, sizeof(*slurm));
	const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	char name[64];

	if (slurm == NULL)
		return roami_bound_fail(bound, "out of memory");
	bound->state = slurm;
	slurm->hub.listener = slurm->hub.fd = -1;
	slurm->own.directory = slurm->own.claims = -1;
	slurm->one_host = slurm_number("SLURM_STEP_NUM_NODES", 0) == 1;
	bound->nodes = slurm_number("SLURM_STEP_NUM_TASKS", 0);
	bound->me = slurm_number("SLURM_PROCID", UINT32_MAX);
	if (job == NULL || strchr(job, '/') != NULL || strchr(step, '/') != NULL ||
	    bound->me >= bound->nodes ||
	    snprintf(name, sizeof(name), "%s.%s", job, step) >= (int)sizeof(name))
		return roami_bound_fail(bound,
					"SLURM_JOB_ID or SLURM_PROCID: missing or malformed");
	if (bound->nodes > ROAMI_NODES_MAX)
		return true; /* too many: not for us to say */
	slurm->hub.job = roami_own_hash(0, name);
	snprintf(slurm->socket, sizeof(slurm->socket), SOCKET "%s", name);
	if (!slurm_claim(bound, slurm))
		return false;
	if (!slurm->one_host)
		return slurm_far(bound, slurm);
	slurm_here(slurm);
	return true;
}

static bool slurm_gather(struct roami_bound *bound, const void *mine, size_t bytes,
			 struct roami_blob *all)
{
	struct slurm *slurm = bound->state;
	bool good = roami_hub_gather(bound, &slurm->hub, mine, bytes, all);

	/* All know each other now, or never will. */
	if (slurm->one_host && bound->me == 0 && slurm->hub.round == 1)
		unlinkat(slurm->own.directory, slurm->socket, 0);
	return good;
}

static void slurm_close(struct roami_bound *bound)
{
	struct slurm *slurm = bound->state;

	roami_hub_close(bound, &slurm->hub);
	roami_own_close(&slurm->own);
	free(slurm);
	bound->state = NULL;
}

const struct roami_binding roami_bind_slurm = {
	.name = "slurm",
	.launchers = "srun without PMI",
	.marker = slurm_marker,
	.works = slurm_works,
	.open = slurm_open,
	.gather = slurm_gather,
	.close = slurm_close,
};
