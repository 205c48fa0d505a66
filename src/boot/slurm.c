/*
 * srun without PMI: its variables say which node this is, node 0 is where the others look for it.
 * On one host that is a socket in a directory of ours that nobody else may enter.  Between hosts it
 * is a TCP port, at which anybody could answer: only with ROAM_SEAL=off.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "boot/hub.h"
#include "os/os.h"

#define PORT_FIRST 20000u
#define PORT_COUNT 12000u
#define PORT_STEP  997u
#define STALE_S    60
#define CLAIM_US   1000

struct slurm {
	struct roami_hub hub;
	int claim; /* the socket whose name says that this process is the node; -1: none */
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* of the socket; "": none */
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

/* A step of one task may be a shell, in which programs are alone. */
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

static uint64_t slurm_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

/* Made if it is not there; ours alone. */
static bool slurm_directory(struct roami_bound *bound, const char *path)
{
	struct stat status;

	if ((mkdir(path, 0700) != 0 && errno != EEXIST) || lstat(path, &status) != 0)
		return roami_bound_fail(bound, "%s: %s", path, strerror(errno));
	return (S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
		(status.st_mode & 077) == 0) ||
	       roami_bound_fail(bound, "%s: not a directory of this user alone", path);
}

/* Whether nobody listens there any more.  A job that has just bound its socket has time to. */
static bool slurm_stale(const struct sockaddr_un *place)
{
	struct stat status;
	int fd = roami_os_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	bool stale = fd >= 0 && lstat(place->sun_path, &status) == 0 &&
		     status.st_mtime + STALE_S < time(NULL) &&
		     connect(fd, (const void *)place, sizeof(*place)) != 0 && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return stale;
}

/* Sockets that jobs which were killed as they began have left. */
static void slurm_sweep(const char *directory)
{
	int fd = roami_os_fd(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	while (all != NULL && (entry = readdir(all)) != NULL) {
		struct sockaddr_un place = {.sun_family = AF_UNIX};
		int length = snprintf(place.sun_path, sizeof(place.sun_path), "%s/%s", directory,
				      entry->d_name);

		if (strncmp(entry->d_name, "slurm-", 6) == 0 && length > 0 &&
		    (size_t)length < sizeof(place.sun_path) && slurm_stale(&place))
			unlink(place.sun_path);
	}
	if (all != NULL)
		closedir(all);
}

/* The process that has the name; 0: it is about to have it, or has just ended. */
static int claim_holder(const struct sockaddr_un *place, socklen_t bytes)
{
	struct ucred peer = {0, 0, 0};
	socklen_t room = sizeof(peer);
	int fd = roami_os_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));

	if (fd < 0 || connect(fd, (const void *)place, bytes) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &room) != 0)
		peer.pid = 0;
	if (fd >= 0)
		close(fd);
	return (int)peer.pid;
}

/*
 * No other process of this host is the node, as long as we have the name of its number: one without
 * a file, so that nothing is left of who is killed.
 */
static bool slurm_claim(struct roami_bound *bound, struct slurm *slurm, const char *name)
{
	struct sockaddr_un place = {.sun_family = AF_UNIX};
	int length = snprintf(place.sun_path + 1, sizeof(place.sun_path) - 1, "roam-%u-slurm-%s.%u",
			      (unsigned)geteuid(), name, bound->me);
	socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	slurm->claim = roami_os_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (slurm->claim < 0 || (size_t)length >= sizeof(place.sun_path) - 1)
		return roami_bound_fail(bound, "SLURM_JOB_ID or SLURM_STEP_ID: malformed");
	while (bind(slurm->claim, (void *)&place, bytes) != 0) {
		int holder = errno == EADDRINUSE ? claim_holder(&place, bytes) : -1;

		if (holder > 0)
			return roami_bound_twice(bound, holder);
		if (holder == 0 && !roami_bound_patient(bound))
			return false;
		if (holder < 0)
			return roami_bound_fail(bound, "cannot be node %u: %s", bound->me,
						strerror(errno));
		usleep(CLAIM_US);
	}
	return listen(slurm->claim, 1) == 0 ||
	       roami_bound_fail(bound, "cannot be node %u: %s", bound->me, strerror(errno));
}

static bool slurm_here(struct roami_bound *bound, struct slurm *slurm, const char *name)
{
	struct sockaddr_un *place = (void *)&slurm->hub.places[0];
	char directory[64];
	int length;

	snprintf(directory, sizeof(directory), P_tmpdir "/roam-%u", (unsigned)geteuid());
	if (!slurm_directory(bound, directory))
		return false;
	place->sun_family = AF_UNIX;
	length = snprintf(place->sun_path, sizeof(place->sun_path), "%s/slurm-%s", directory, name);
	if (length < 0 || (size_t)length >= sizeof(place->sun_path))
		return roami_bound_fail(bound, "SLURM_JOB_ID or SLURM_STEP_ID: malformed");
	slurm->hub.place_bytes = sizeof(*place);
	slurm->hub.place_count = 1;
	if (bound->me != 0)
		return true;
	slurm_sweep(directory);
	memcpy(slurm->path, place->sun_path, sizeof(slurm->path));
	return true;
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
	for (unsigned i = 0; i < ROAMI_HUB_PLACES; i++) {
		struct sockaddr_in *place = (void *)&slurm->hub.places[i];
		uint64_t port = (slurm->hub.job + i * PORT_STEP) % PORT_COUNT;

		memcpy(place, found->ai_addr, sizeof(*place));
		if (bound->me == 0)
			place->sin_addr.s_addr = htonl(INADDR_ANY);
		place->sin_port = htons((uint16_t)(PORT_FIRST + port));
	}
	freeaddrinfo(found);
	slurm->hub.place_bytes = sizeof(struct sockaddr_in);
	slurm->hub.place_count = ROAMI_HUB_PLACES;
	return true;
}

static bool slurm_open(struct roami_bound *bound)
{
	struct slurm *slurm = calloc(1, sizeof(*slurm));
	const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	bool one_host = slurm_number("SLURM_STEP_NUM_NODES", 0) == 1;
	char name[64];

	if (slurm == NULL)
		return roami_bound_fail(bound, "out of memory");
	bound->state = slurm;
	slurm->hub.listener = slurm->hub.fd = slurm->claim = -1;
	bound->nodes = slurm_number("SLURM_STEP_NUM_TASKS", 0);
	bound->me = slurm_number("SLURM_PROCID", UINT32_MAX);
	if (job == NULL || strchr(job, '/') != NULL || strchr(step, '/') != NULL ||
	    bound->me >= bound->nodes ||
	    snprintf(name, sizeof(name), "%s.%s", job, step) >= (int)sizeof(name))
		return roami_bound_fail(bound,
					"SLURM_JOB_ID or SLURM_PROCID: missing or malformed");
	if (bound->nodes > ROAMI_NODES_MAX)
		return true; /* too many: not for us to say */
	slurm->hub.job = slurm_hash(name);
	if (!slurm_claim(bound, slurm, name))
		return false;
	return one_host ? slurm_here(bound, slurm, name) : slurm_far(bound, slurm);
}

static bool slurm_gather(struct roami_bound *bound, const void *mine, size_t bytes,
			 struct roami_blob *all)
{
	struct slurm *slurm = bound->state;
	bool good = roami_hub_gather(bound, &slurm->hub, mine, bytes, all);

	/* All know each other now. */
	if (slurm->path[0] != '\0')
		unlink(slurm->path);
	slurm->path[0] = '\0';
	return good;
}

static void slurm_close(struct roami_bound *bound)
{
	struct slurm *slurm = bound->state;

	roami_hub_close(bound, &slurm->hub);
	if (slurm->claim >= 0)
		close(slurm->claim);
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
