/*
 * A job that mpirun, srun or mpiexec.hydra has started: the nodes meet by what their binding lets
 * them show each other (bind.h).  First which processes they are, and where; then, when each joins,
 * what it runs; last, at what address it is reached.
 *
 * Nodes on one host open each other's segments in /proc, which refuses processes of other users.
 * Between hosts the job's key travels encrypted to a public key of each node: this hides it from
 * listeners, not from one that can change what a node and its launcher send.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/layers.h"
#include "base/transports.h"
#include "job/job.h"
#include "launch/bind.h"
#include "launch/control.h"
#include "launch/starts.h"
#include "launch/wireup.h"
#include "link/seal.h"
#include "os/os.h"

#define WIREUP_MAGIC     (UINT64_C(0x726f616d6d656574) + sizeof(struct wireup_card))
#define WIREUP_S         10u /* for all to come, unless ROAM_DEADLINE says otherwise */
#define WIREUP_JOIN_S    60u /* for all that have come to join, as said */
#define WIREUP_TURNS     5u
#define WIREUP_TURN_S    2u /* that a launcher takes to end the others */
#define WIREUP_TELL_US   300000u
#define WIREUP_SAID_US   100000u
#define NS_PER_S       UINT64_C(1000000000)

#define WIREUP_SEALED (ROAMI_KEY_BYTES + crypto_box_MACBYTES)

/* Of node 0 all, of the others without `keys`. */
struct wireup_card {
	struct roami_boot_card card;
	int32_t segment; /* its descriptor there */
	int32_t bell;    /* a pipe's, which wakes it; 0: none */
	uint8_t nonce[crypto_box_NONCEBYTES];
	uint8_t keys[ROAMI_NODES_MAX][WIREUP_SEALED]; /* the job's, for each node */
};

struct wireup_last {
	uint8_t transport[ROAM_CARD_BYTES];
	uint32_t threads;
	uint32_t spare;
};

_Static_assert(sizeof(struct wireup_card) <= ROAMI_BLOB_BYTES, "a card is one blob");

/* -------------------------------------------------------------------------------------- failing */

void roami_wireup_failed(struct roami_job *job)
{
	if (!wireup_of(job)->bound.quiet)
		fprintf(stderr, "roam: %s\n", wireup_of(job)->bound.why);
	usleep(WIREUP_TELL_US);
	_exit(ROAMI_EXIT_REPORTED);
}

static bool wireup_gone(const struct roami_bound *bound, unsigned node)
{
	struct pollfd gone = {bound->pidfds[node], POLLIN, 0};

	return bound->pidfds[node] >= 0 && poll(&gone, 1, 0) > 0;
}

/* Called while this node waits for others: checks that the processes on this host still exist. */
static bool wireup_look(struct roami_bound *bound)
{
	unsigned first = bound->me;

	for (unsigned node = bound->me; node-- > 0;)
		if (bound->pidfds[node] >= 0 && !wireup_gone(bound, node))
			first = node;
	for (unsigned node = 0; node < bound->nodes; node++)
		if (wireup_gone(bound, node)) {
			bound->quiet = first != bound->me;
			return roami_bound_fail(bound, "node %u has ended before it joined", node);
		}
	return roami_os_now_ns() < bound->until ||
	       roami_bound_fail(bound, "not all %u nodes have joined that have come (does the "
				       "program run twice in one of the launcher's processes?)",
				bound->nodes);
}

static uint64_t wireup_until(const struct roami_job *job, unsigned seconds)
{
	return roami_os_now_ns() +
	       (job->options.deadline != 0 ? job->options.deadline : seconds) * NS_PER_S;
}

void roami_wireup_gather(struct roami_job *job, const void *mine, size_t bytes, size_t least)
{
	struct roami_bound *bound = &wireup_of(job)->bound;

	roami_assert(bytes <= ROAMI_BLOB_BYTES && least <= bytes);
	if (!bound->binding->gather(bound, mine, bytes, wireup_of(job)->blobs))
		roami_wireup_failed(job);
	for (unsigned node = 0; node < bound->nodes; node++)
		if (wireup_of(job)->blobs[node].bytes < least)
			WIREUP_FAIL(job, WIREUP_OLD, node);
}

/* ---------------------------------------------------------------------------------------- hello */

static uint64_t wireup_space(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_ino : 0;
}

static void wireup_addresses(struct wireup_hello *hello)
{
	struct ifaddrs *all, *at;

	if (getifaddrs(&all) != 0)
		return;
	for (at = all; at != NULL && hello->addresses < WIREUP_ADDRESSES; at = at->ifa_next) {
		const struct sockaddr_in *address = (const void *)at->ifa_addr;
		const struct sockaddr_in *mask = (const void *)at->ifa_netmask;

		if (address == NULL || mask == NULL || address->sin_family != AF_INET ||
		    (at->ifa_flags & IFF_UP) == 0 || (at->ifa_flags & IFF_LOOPBACK) != 0)
			continue;
		hello->address[hello->addresses++] = (struct wireup_address){
			ntohl(address->sin_addr.s_addr), ntohl(mask->sin_addr.s_addr)};
	}
	freeifaddrs(all);
}

static void wireup_introduce(struct wireup_hello *hello, uint8_t *secret)
{
	FILE *boot = roami_os_file("/proc/sys/kernel/random/boot_id");

	memset(hello, 0, sizeof(*hello));
	hello->magic = WIREUP_MAGIC;
	hello->pid = getpid();
	hello->pid_space = wireup_space("/proc/self/ns/pid");
	hello->net_space = wireup_space("/proc/self/ns/net");
	if (boot != NULL && fgets(hello->boot, sizeof(hello->boot), boot) == NULL)
		hello->boot[0] = '\0';
	if (boot != NULL)
		fclose(boot);
	gethostname(hello->name, sizeof(hello->name) - 1);
	hello->aes = roami_seal_has_aes();
	wireup_addresses(hello);
	crypto_box_keypair(hello->public, secret);
}

static bool wireup_same_host(const struct wireup_hello *a, const struct wireup_hello *b)
{
	return memcmp(a->boot, b->boot, sizeof(a->boot)) == 0 && a->pid_space == b->pid_space &&
	       a->net_space == b->net_space;
}

/* The local address from which this host sends to another one; 0: there is no route. */
static uint32_t wireup_from(uint32_t to)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(to)};
	socklen_t length = sizeof(address);
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	uint32_t from = 0;

	if (fd < 0)
		return 0;
	if (connect(fd, (void *)&address, sizeof(address)) == 0 &&
	    getsockname(fd, (void *)&address, &length) == 0)
		from = ntohl(address.sin_addr.s_addr);
	close(fd);
	return from;
}

/*
 * The address at which the other nodes reach this host: in a network that is theirs, too, or the
 * one from which this host sends to them.
 */
static uint32_t wireup_address(const struct roami_job *job)
{
	const struct wireup_hello *mine = &wireup_of(job)->hello[job->boot.me], *there = NULL;

	for (unsigned node = 0; node < job->boot.nodes && there == NULL; node++)
		if (job->boot.host[node] != job->boot.host[job->boot.me])
			there = &wireup_of(job)->hello[node];
	if (there == NULL || there->net_space == mine->net_space)
		return 0; /* only processes are hidden from each other */
	for (uint32_t i = 0; i < mine->addresses; i++)
		if (wireup_near(&mine->address[i], there))
			return mine->address[i].address;
	return there->addresses > 0 ? wireup_from(there->address[0].address) : 0;
}

static void wireup_hosts(struct roami_job *job)
{
	const struct wireup_hello *hello = wireup_of(job)->hello;
	struct roami_boot *boot = &job->boot;

	boot->aes = 1;
	for (unsigned node = 0; node < boot->nodes; node++) {
		unsigned first = 0;

		while (!wireup_same_host(&hello[first], &hello[node]))
			first++;
		boot->host[node] = (uint16_t)(first < node ? boot->host[first] : boot->hosts++);
		snprintf(boot->names[node], sizeof(boot->names[node]), "%.*s", ROAMI_HOST_BYTES - 1,
			 hello[node].name);
		boot->aes = boot->aes != 0 && hello[node].aes != 0;
	}
	for (unsigned node = 0; node < boot->nodes && boot->hosts > 1; node++)
		job->host_names[node] = boot->names[node];
	boot->address = wireup_address(job);
}

/* From now on the processes of this host are watched. */
static void wireup_watch(struct roami_job *job)
{
	struct roami_bound *bound = &wireup_of(job)->bound;

	for (unsigned node = 0; node < bound->nodes; node++) {
		if (node == bound->me || job->boot.host[node] != job->boot.host[bound->me])
			continue;
		bound->pidfds[node] = roami_os_pidfd(wireup_of(job)->hello[node].pid);
		if (bound->pidfds[node] < 0 && errno == ESRCH)
			WIREUP_FAIL(job, "node %u has ended before it joined", node);
	}
	bound->look = wireup_look;
}

/* Prepares what only nodes of several hosts need. */
static void wireup_apart(struct roami_job *job)
{
	const char *named = job->options.transport;
	char reach[160], why[240];

	if (!roami_boot_apart(&job->options, why, sizeof(why)))
		WIREUP_FAIL(job, "%s", why);
	if (job->boot.address == 0 && wireup_of(job)->hello[0].addresses > 0)
		WIREUP_FAIL(job, "no network reaches the other hosts");
	if (!roami_transports_named(named)) {
		wireup_of(job)->share = roami_job_here(job) > 1;
	} else if ((roami_transport_find(named)->caps & ROAM_CAP_HOSTS) == 0) {
		roami_transports_far(reach, sizeof(reach));
		WIREUP_FAIL(job, "ROAM_TRANSPORT=%s: it does not reach other hosts; %s does", named,
			    reach);
	}
}

/* Checks what the node has said. */
static void wireup_take_hello(struct roami_job *job, unsigned node, const struct wireup_hello *mine)
{
	struct wireup *wireup = wireup_of(job);
	struct wireup_hello *hello = &wireup->hello[node];

	if (node == wireup->bound.me &&
	    memcmp(wireup->blobs[node].data, mine, sizeof(*mine)) != 0)
		WIREUP_FAIL(job, ROAMI_TWICE, node);
	memcpy(hello, wireup->blobs[node].data, sizeof(*hello));
	hello->name[sizeof(hello->name) - 1] = '\0';
	if (hello->magic != WIREUP_MAGIC || hello->addresses > WIREUP_ADDRESSES)
		WIREUP_FAIL(job, WIREUP_OLD, node);
}

static void wireup_greet(struct roami_job *job, bool creates)
{
	unsigned turn = job->boot.me < WIREUP_TURNS ? job->boot.me : WIREUP_TURNS;
	struct wireup_hello mine;

	/* One node reports that another is missing; then the launcher, if any, ends the others. */
	wireup_of(job)->bound.until += WIREUP_TURN_S * turn * NS_PER_S;
	wireup_introduce(&mine, wireup_of(job)->secret);
	if (creates && job->boot.me == 0 && job->boot.nodes > 1)
		mine.input = roami_wireup_make_relay(job);
	roami_wireup_gather(job, &mine, sizeof(mine), sizeof(mine));
	for (unsigned node = 0; node < job->boot.nodes; node++)
		wireup_take_hello(job, node, &mine);
	wireup_hosts(job);
	wireup_watch(job);
	wireup_of(job)->bound.until = wireup_until(job, WIREUP_JOIN_S);
	roami_wireup_relay(job);
	wireup_of(job)->bound.until = UINT64_MAX; /* the program may compute before it joins */
	if (job->boot.hosts > 1)
		wireup_apart(job);
}

static void wireup_say(const struct roami_job *job)
{
	const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1], *over;

	roami_transports_allowed(job->options.transport, job->options.seal == ROAMI_SEAL_OFF,
				 allowed);
	over = roami_transport_for(allowed, job->boot.hosts > 1 ? ROAMI_WHERE_AWAY
							: ROAMI_WHERE_MAPPED);
	if (job->boot.me == 0 && job->options.log >= ROAMI_LEVEL_INFO)
		fprintf(stderr, "roam: info: %u nodes on %u host%s, by %s (%s), over %s\n",
			job->boot.nodes, job->boot.hosts, job->boot.hosts > 1 ? "s" : "",
			wireup_of(job)->bound.binding->name,
			wireup_of(job)->bound.binding->marker(),
			over != NULL ? over->name : "nothing");
}

/* Which node this is, and which others there are. */
static enum roam_err wireup_first_turn(struct roami_job *job, bool creates)
{
	const struct roami_bound *bound = &wireup_of(job)->bound;

	if (bound->nodes == 0 || bound->nodes > job->options.nodes_max || bound->me >= bound->nodes)
		WIREUP_FAIL(job,
			    "the launcher started %u nodes, at most %llu are allowed "
			    "(ROAM_NODES_MAX)",
			    bound->nodes, (unsigned long long)job->options.nodes_max);
	job->boot.me = bound->me;
	job->boot.nodes = bound->nodes;
	job->key = job->boot.key;
	job->start_threads = bound->threads;
	wireup_of(job)->blobs = calloc(ROAMI_NODES_MAX, sizeof(struct roami_blob));
	if (wireup_of(job)->blobs == NULL || sodium_init() < 0)
		return ROAM_ENOMEM;
	wireup_greet(job, creates);
	roami_boot_name(job->name, wireup_of(job)->hello, sizeof(wireup_of(job)->hello));
	wireup_say(job);
	return roami_job_make_far(job);
}

static bool wireup_begin(struct roami_job *job, bool creates, enum roam_err *err_p)
{
	struct wireup *wireup = calloc(1, sizeof(*wireup));

	*err_p = ROAM_ENOMEM;
	if (wireup == NULL)
		return true;
	*err_p = roami_bind(&wireup->bound, job->options.launcher,
			    job->options.seal == ROAMI_SEAL_OFF,
			    wireup_until(job, WIREUP_S));
	if (*err_p != ROAM_OK && wireup->bound.quiet)
		usleep(WIREUP_TELL_US);
	else if (*err_p != ROAM_OK)
		fprintf(stderr, "roam: %s\n", wireup->bound.why);
	if (*err_p != ROAM_OK || wireup->bound.binding == NULL) {
		free(wireup);
		return *err_p != ROAM_OK;
	}
	job->start_state = wireup;
	*err_p = wireup_first_turn(job, creates);
	return true;
}

/* ----------------------------------------------------------------------------------------- join */

/* Node 0 draws the job's key; each other node gets it encrypted to its public key. */
static void wireup_lock_key(struct roami_job *job, struct wireup_card *card)
{
	randombytes_buf(job->boot.key, sizeof(job->boot.key));
	randombytes_buf(card->nonce, sizeof(card->nonce));
	for (unsigned node = 1; node < job->boot.nodes; node++)
		if (crypto_box_easy(card->keys[node], job->boot.key, sizeof(job->boot.key),
				    card->nonce, wireup_of(job)->hello[node].public,
				    wireup_of(job)->secret) != 0)
			WIREUP_FAIL(job, WIREUP_OLD, node);
}

static void wireup_open_key(struct roami_job *job, const struct wireup_card *first)
{
	const struct wireup_hello *from = &wireup_of(job)->hello[0];

	if (job->boot.me == 0)
		return;
	if (crypto_box_open_easy(job->boot.key, first->keys[job->boot.me], WIREUP_SEALED,
				 first->nonce, from->public, wireup_of(job)->secret) == 0)
		return;
	roami_bound_fail(&wireup_of(job)->bound, "the job's key arrived damaged");
	roami_wireup_failed(job);
}

static void wireup_compare(struct roami_job *job, const struct roami_boot_card *first,
			   unsigned node)
{
	const struct wireup_card *other = (const void *)wireup_of(job)->blobs[node].data;
	char what[ROAMI_DIFFERS_BYTES];
	const char *fix = roami_build_differs(first, &other->card, what, sizeof(what));

	if (fix != NULL)
		WIREUP_FAIL(job, "node %u on host %s %s than node 0 on host %s: %s", node,
			    job->boot.names[node], what, job->boot.names[0], fix);
}

static int wireup_segment(const struct roami_job *job, unsigned node)
{
	const struct wireup_card *card = (const void *)wireup_of(job)->blobs[node].data;
	struct stat status;
	int fd = roami_os_open_its(wireup_of(job)->hello[node].pid, card->segment, O_RDWR);

	if (fd >= 0 && (fstat(fd, &status) != 0 || (uint64_t)status.st_size != job->layout.total)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* A second process that takes itself for this node maps this segment of the next node, too. */
static void wireup_claim(struct roami_job *job)
{
	unsigned next = (job->boot.me + 1) % job->boot.nodes;
	int32_t nobody = 0, me = getpid();

	if (job->bases[next] == NULL ||
	    atomic_compare_exchange_strong(&roami_job_ctl(job, next)->before, &nobody, me))
		return;
	roami_bound_fail(&wireup_of(job)->bound, ROAMI_TWICE, job->boot.me);
	roami_wireup_failed(job);
}

/* A pipe, as it can be opened in /proc; both its ends stay open here. */
static int wireup_make_bell(struct roami_job *job)
{
	int ends[2];

	if (!wireup_of(job)->share)
		return 0;
	if (!roami_os_pipe(ends, O_NONBLOCK)) {
		roami_bound_fail(&wireup_of(job)->bound, "cannot make a pipe: %s", strerror(errno));
		roami_wireup_failed(job);
	}
	job->bells[job->boot.me] = ends[0];
	return ends[0];
}

static bool wireup_reach(struct roami_job *job, unsigned node)
{
	const struct wireup_card *card = (const void *)wireup_of(job)->blobs[node].data;

	job->fds[node] = wireup_segment(job, node);
	if (job->fds[node] >= 0 && wireup_of(job)->share)
		job->bells[node] = roami_os_open_its(wireup_of(job)->hello[node].pid, card->bell,
						     O_WRONLY | O_NONBLOCK);
	return job->fds[node] >= 0 && job->bells[node] >= 0;
}

static enum roam_err wireup_map(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	if (job->boot.hosts > 1 && !wireup_of(job)->share)
		return ROAM_OK;
	for (unsigned node = 0; node < job->boot.nodes && err == ROAM_OK; node++) {
		if (node == job->boot.me || job->boot.host[node] != job->boot.host[job->boot.me])
			continue;
		if (!wireup_reach(job, node)) {
			roami_bound_fail(&wireup_of(job)->bound,
					 "cannot open the memory of node %u (pid %d)", node,
					 (int)wireup_of(job)->hello[node].pid);
			roami_wireup_failed(job);
		}
		err = roami_job_map_segment(job, node);
	}
	if (err != ROAM_OK)
		return err;
	wireup_claim(job);
	return ROAM_OK;
}

/* Compares what all nodes run; nodes on this host map each other's segments. */
static enum roam_err wireup_join(struct roami_job *job, unsigned asked)
{
	struct wireup_card mine = {.card = {.asked = asked, .allocs = job->alloc_hash},
				   .segment = job->fds[job->me],
				   .bell = wireup_make_bell(job)};
	size_t least = offsetof(struct wireup_card, keys);
	const struct wireup_card *first = (const void *)wireup_of(job)->blobs[0].data;
	char line[200];

	roami_build_card(job, &mine.card);
	if (job->boot.me == 0)
		wireup_lock_key(job, &mine);
	roami_wireup_gather(job, &mine, job->boot.me == 0 ? sizeof(mine) : least, least);
	if (wireup_of(job)->relay != NULL)
		roami_stdin_taken(wireup_of(job)->relay);
	for (unsigned node = 1; node < job->boot.nodes; node++)
		wireup_compare(job, &first->card, node);
	if (wireup_of(job)->blobs[0].bytes != sizeof(mine))
		WIREUP_FAIL(job, WIREUP_OLD, 0);
	if (first->card.asked != 0 && first->card.asked != job->boot.nodes) {
		roami_job_says_asked(first->card.asked, roami_team_threads(job), job->boot.nodes,
				     line, sizeof(line));
		WIREUP_FAIL(job, "%s", line);
	}
	wireup_open_key(job, first);
	return wireup_map(job);
}

/* The first node of a host watches the others, and they watch it. */
static enum roam_err wireup_keep_watch(struct roami_job *job)
{
	pid_t pids[ROAMI_NODES_MAX] = {0};
	unsigned first = job->me;

	for (unsigned node = job->nodes; node-- > 0;)
		if (node != job->me && job->boot.host[node] == job->boot.host[job->me]) {
			pids[node] = wireup_of(job)->hello[node].pid;
			first = node < first ? node : first;
		}
	if (first != job->me)
		return roami_watch_first(job, first, pids[first]);
	return roami_watch_start(job, pids);
}

static enum roam_err wireup_connect(struct roami_job *job, unsigned asked)
{
	struct wireup_last mine = {.threads = atomic_load(&roami_job_ctl(job, job->me)->threads)};
	const struct wireup_last *last;

	(void)asked;
	wireup_of(job)->bound.until = wireup_until(job, WIREUP_JOIN_S);
	memcpy(mine.transport, layers_of(job->node)->card, ROAM_CARD_BYTES);
	roami_wireup_gather(job, &mine, sizeof(mine), sizeof(mine));
	for (unsigned node = 0; node < job->boot.nodes; node++) {
		last = (const void *)wireup_of(job)->blobs[node].data;
		if (node == job->me)
			continue;
		atomic_store(&job->far[node]->ctl.threads, last->threads);
		memcpy(job->far[node]->card, last->transport, ROAM_CARD_BYTES);
	}
	return wireup_keep_watch(job);
}

/* ------------------------------------------------------------------------------------------ end */

/* On several hosts node 0 and all others wait for each other. */
static void wireup_end(struct roami_job *job)
{
	struct roami_bound *bound = &wireup_of(job)->bound;

	if (job->boot.hosts == 1) {
		roami_job_end_here(job);
		return;
	}
	if (job->watch != NULL)
		roami_watch_expect_end(job->watch);
	/* Nodes that watch the first one look at it. */
	atomic_store(&roami_job_ctl(job, 0)->job, ROAMI_JOB_ENDING);
	bound->look = NULL; /* nodes may leave now; the transport notices one that dies */
	bound->until = UINT64_MAX;
	roami_wireup_gather(job, NULL, 0, 0);
}

/*
 * The binding stays until the process ends, because threads that watch other nodes may still use
 * it.
 */
static void wireup_leave(struct roami_job *job)
{
	struct wireup *wireup = wireup_of(job);

	atomic_fetch_sub(&job->real.helpers, job->start_threads); /* they end with the binding */
	job->start_threads = 0;
	if (wireup->bound.binding != NULL)
		wireup->bound.binding->close(&wireup->bound);
	wireup->bound.binding = NULL;
	free(wireup->blobs);
	wireup->blobs = NULL;
}

/* Waits a moment: the launcher may end all processes before it has read this line. */
static void wireup_abort(struct roami_job *job, unsigned lost)
{
	struct roami_bound *bound = &wireup_of(job)->bound;

	(void)lost;
	if (!roami_bound_aborts(bound))
		return;
	usleep(WIREUP_SAID_US);
	roami_bound_abort(bound);
}

const struct roami_start roami_start_binding = {
	.parent = true,
	.input_first = true,
	.begin = wireup_begin,
	.join = wireup_join,
	.connect = wireup_connect,
	.end = wireup_end,
	.leave = wireup_leave,
	.abort = wireup_abort,
};
