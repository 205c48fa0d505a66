/*
 * Random race-free programs on real threads: all nodes of a job are in one process, under the soft
 * engine, over the shm transport's rings, or each node uses three transports at once.  Every value
 * read is what the oracle expects; under ThreadSanitizer the core has no data race; in a build with
 * -Djitter=true threads are delayed at random (lib/jitter.h). Options: seed_options.h.  Threads are
 * not deterministic: a failing seed may need several tries.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/layers.h"
#include "base/thread.h"
#include "fault/soft.h"
#include "link/seal.h"
#include "page/page.h"
#include "random.h"
#include "random_node.h"
#include "rng.h"
#include "run/open.h"
#include "run/wait.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define NODES_MAX   8u
#define NODES_JOINED 4u /* so many that each node has peers of three kinds */
#define SECONDS_MAX 60u
#define ALLOC_BYTES (RANDOM_ALLOCS_MAX * RANDOM_ALLOC_PAGES * ROAMI_PAGE)

extern const struct roami_fault_engine roami_fault_soft;
extern const struct roam_transport roami_transport_shm;
extern const struct roam_transport roami_transport_udp;
extern const struct roam_transport roami_transport_sockets;

struct job;

struct job_thread {
	struct random_member member;
	struct job *job;
	unsigned number;
	pthread_t thread;
};

struct job {
	struct roami_options options;
	struct roami_layout layout;
	const struct roam_protocol *regions[2]; /* those of the heap's first pages */
	unsigned region_count;
	unsigned nodes;
	bool onesided;
	bool udp;
	bool joined; /* each node reaches its peers over three transports */
	struct roami_far *far;
	int bells[NODES_MAX];
	bool chaos;
	bool kind_known;
	uint32_t posts_bytes, barrier_slots; /* 0: as jobs have them */
	uint64_t seed;
	struct random_program *program;
	void *bases[NODES_MAX];
	uint8_t *initial;
	uint32_t creator_pages;
	struct roami_real reals[NODES_MAX];
	struct roami_node *opened[NODES_MAX];
	struct job_thread threads[RANDOM_THREADS_MAX];
	struct random_log logs[RANDOM_THREADS_MAX];
	_Atomic uint64_t sequence;
	struct random_slices slices;
	struct random_places places;
};

struct totals {
	uint64_t reads, foreign;
};

static char running[400]; /* what the job under way is: printed when it fails */

/* ---------------------------------------------------------------------------------- operations */

static void job_load(void *self, uint64_t offset, void *out, size_t bytes)
{
	struct job_thread *thread = self;
	struct roami_node *node = thread->member.node;

	while (!roami_soft_load(pages_of(node)->engine_state, offset, out, bytes))
		roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), false, thread->job->kind_known);
}

static void job_store(void *self, uint64_t offset, const void *in, size_t bytes)
{
	struct job_thread *thread = self;
	struct roami_node *node = thread->member.node;
	bool known = thread->job->kind_known;

	while (!roami_soft_store(pages_of(node)->engine_state, offset, in, bytes))
		roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), known, known);
}

/* Relaxed, because it must not order what the core has to order. */
static uint64_t job_sequence(void *self)
{
	struct job_thread *thread = self;

	return atomic_fetch_add_explicit(&thread->job->sequence, 1, memory_order_relaxed) + 1;
}

static void job_pause(void *self, unsigned length)
{
	struct timespec time = {0, length * 1000};

	(void)self;
	if (length < 16)
		sched_yield();
	else
		nanosleep(&time, NULL);
}

__attribute__((noreturn)) static void job_fail(void *self, const char *text)
{
	(void)self;
	fprintf(stderr, "FAILED %s\n  %s\n", text, running);
	abort();
}

static void job_on_fail(struct roami_node *node, const char *text)
{
	fprintf(stderr, "FAILED node %u: %s\n  %s\n", node->me, text, running);
	abort();
}

/* ThreadSanitizer has found a race, and goes on; its reports do not say which seed ran. */
void __tsan_on_report(void *report);

void __tsan_on_report(void *report)
{
	(void)report;
	fprintf(stderr, "FAILED race of threads\n  %s\n  %s\n", running, seed_replay());
}

static void *job_main(void *arg)
{
	struct random_ops ops = {.load = job_load,
				 .store = job_store,
				 .sequence = job_sequence,
				 .pause = job_pause,
				 .fail = job_fail};
	struct job_thread *thread = arg;

	if (thread->job->options.threads > 1)
		roami_thread_self(thread->member.node)->mate =
			thread->number % (unsigned)thread->job->options.threads;
	random_node_ops(&ops);
	random_run(thread->job->program, thread->number, &ops, thread,
		   &thread->job->places, &thread->job->logs[thread->number]);
	return NULL;
}

/* ------------------------------------------------------------------------------------ one seed */

static void job_describe(const struct job *job, const struct roam_protocol *protocol,
			 const struct random_params *params)
{
	snprintf(running, sizeof(running),
		 "%s, seed %lu, %u nodes, %u threads, %s, chaos %d, joined %d, kinds %d, "
		 "prefetch %lu, cache %lu, hot %d, tree %u",
		 protocol->name, (unsigned long)job->seed, job->nodes, params->threads,
		 job->udp ? "udp" : job->onesided ? "one-sided" : "messages", job->chaos,
		 job->joined, job->kind_known, (unsigned long)job->options.prefetch,
		 (unsigned long)job->options.cache_pages, job->options.hot,
		 (unsigned)job->options.barrier_tree);
}

/* Sends over udp, or over the rings with the same faults. */
static void job_lossy(struct job *job, struct rng *rng)
{
	static const unsigned mtus[] = {0, 600, 1500};
	static const unsigned seals[] = {ROAMI_SEAL_OFF, ROAMI_SEAL_AUTH, ROAMI_SEAL_ENCRYPT};

	job->udp = rng_one_in(rng, 2);
	job->onesided = false;
	job->options.mtu = mtus[rng_below(rng, 3)];
	snprintf(job->options.faulty, sizeof(job->options.faulty),
		 "drop=5%%,repeat=5%%,reorder=5%%,corrupt=1%%,seed=%lu",
		 (unsigned long)(job->seed % 1000000));
	job->options.seal = seals[rng_below(rng, 3)];
}

/* Puts parts under other protocols that can be beside this one; over the seeds, each of them. */
static void job_mix(struct job *job, const struct roam_protocol *own, struct rng *rng)
{
	job->region_count = 2;
	job->regions[0] = world_beside(own, job->seed);
	job->regions[1] = world_beside(own, rng_below(rng, world_others()));
}

/* Gives each node the same number of threads, as under ROAM_THREADS. */
static void job_teams(struct job *job, struct random_params *params, struct rng *rng)
{
	job->options.threads = rng_range(rng, 2, 3);
	params->teams = true;
	params->threads = job->nodes * (unsigned)job->options.threads;
	for (unsigned i = 0; i < params->threads; i++)
		params->node_of[i] = (uint8_t)(i / job->options.threads);
}

/* What a generator of its own draws, which leaves to other draws what they had without these. */
static void job_draw_more(struct job *job)
{
	struct rng rng = {job->seed ^ 0x70e5};

	if (rng_one_in(&rng, 3))
		job->options.erc = ROAMI_ERC_AUTO;
	if (job->options.cache_pages != 0 && rng_one_in(&rng, 2))
		job->options.cache_pages = 1;
	if (rng_one_in(&rng, 4))
		job->options.prefetch = 2;
	job->posts_bytes = rng_one_in(&rng, 3) ? 256 : 0;
	job->barrier_slots = rng_one_in(&rng, 4) ? 1 : 0;
}

static void job_draw(struct job *job, const struct seed_options *options,
		     const struct roam_protocol *protocol, struct random_params *params)
{
	struct rng rng = {job->seed * 3 + 5};

	job->nodes = options->nodes != 0 ? options->nodes : rng_range(&rng, 2, 4);
	if (job->nodes > NODES_MAX)
		job->nodes = NODES_MAX;
	job->joined = job->seed % 3 == 2 && options->nodes == 0;
	if (job->joined)
		job->nodes = NODES_JOINED;
	for (unsigned node = 0; node < job->nodes; node++)
		for (unsigned i = rng_range(&rng, 1, 3); i > 0; i--)
			params->node_of[params->threads++] = (uint8_t)node;
	params->seed = job->seed;
	params->nodes = job->nodes;
	params->allocates = true;
	params->heap_pages = rng_one_in(&rng, 2) ? 64 : 200;
	job->creator_pages = params->heap_pages / 2;
	params->operations = options->operations != 0 ? options->operations
						      : 1500 / params->threads;
	job->onesided = !rng_one_in(&rng, 3);
	job->chaos = rng_one_in(&rng, 2);
	job->kind_known = !rng_one_in(&rng, 3);
	roami_options_default(&job->options);
	job->options.prefetch = rng_one_in(&rng, 2) ? 64 : 0;
	job->options.cache_pages = rng_one_in(&rng, 3) ? 3 : 0;
	job->options.hot = !rng_one_in(&rng, 3);
	job->options.barrier_tree = rng_one_in(&rng, 2);
	job->options.lrc_memory = rng_one_in(&rng, 2) ? 64u << 10 : 64u << 20;
	job->options.erc = rng_one_in(&rng, 2) ? ROAMI_ERC_UPDATE : ROAMI_ERC_INVALIDATE;
	job->options.ivy = rng_one_in(&rng, 2) ? ROAMI_IVY_FIXED : ROAMI_IVY_DYNAMIC;
	job->options.mirage_delta = rng_one_in(&rng, 2) ? rng_below(&rng, 200) : 0;
	job_draw_more(job);
	if (options->teams)
		job_teams(job, params, &rng);
	if (options->lossy)
		job_lossy(job, &rng);
	if (options->mixed)
		job_mix(job, protocol, &rng);
}

/*
 * Of joined nodes each two reach each other over one of three transports, and each node has all
 * three; it sleeps at one of them and is woken for the others.
 */
static void job_join(struct job *job, unsigned me, struct roami_node_params *params,
		     const struct roam_transport **by, struct roami_far **peers)
{
	static const struct roam_transport *const kinds[] = {
		&roami_transport_shm, &roami_transport_udp, &roami_transport_sockets};

	params->near = 0;
	for (unsigned peer = 0; peer < job->nodes; peer++) {
		by[peer] = kinds[(me + peer) % 3];
		if (peer == me)
			by[peer] = kinds[job->seed / 3 % 3];
		if (by[peer]->caps & ROAM_CAP_MAPPED && job->onesided)
			params->near |= roami_nodeset_bit(peer);
		peers[peer] = &job->far[me * job->nodes + peer];
	}
	params->by = by;
	params->peers = peers;
	params->bells = job->bells;
}

/* Gives each node's card to all others, as launchers do. */
static void job_pass_cards(struct job *job)
{
	for (unsigned from = 0; from < job->nodes; from++)
		for (unsigned to = 0; to < job->nodes; to++)
			memcpy(job->far[to * job->nodes + from].card,
			       layers_of(job->opened[from])->card, ROAM_CARD_BYTES);
}

static void job_node_open(struct job *job, const struct roam_protocol *protocol, unsigned me)
{
	const struct roam_transport *by[NODES_MAX];
	struct roami_far *peers[NODES_MAX];
	static const uint8_t key[ROAMI_KEY_BYTES] = "the key of every job of threads";
	struct roami_real *real = &job->reals[me];
	struct roami_node_params params = {
		.me = me,
		.nodes = job->nodes,
		.options = &job->options,
		.env = job->chaos ? &roami_env_chaos : &roami_env_real,
		.env_state = real,
		.protocol = protocol,
		.regions = job->regions,
		.engine = &roami_fault_soft,
		.transport = job->udp ? &roami_transport_udp : &roami_transport_shm,
		.layout = job->layout,
		.bases = job->bases,
		.app = (uint8_t *)job->bases[me] + job->layout.heap,
		.fd = -1,
		.creator_pages = job->creator_pages,
		.near = job->onesided ? UINT64_MAX : 0,
		.key = key,
		.boot = job->seed,
	};
	enum roam_err err;

	if (job->joined)
		job_join(job, me, &params, by, peers);
	roami_real_init(real, job->nodes, (unsigned)job->options.threads, 20,
			job->chaos ? job->seed : 0);
	real->on_fail = job_on_fail;
	err = roami_node_open(&job->opened[me], &params);
	if (err != ROAM_OK) {
		fprintf(stderr, "node %u does not open: %s\n", me, roam_strerror(err));
		exit(EXIT_FAILURE);
	}
}

static void job_heap(struct job *job)
{
	struct rng rng = {job->seed ^ 0x5eed};

	for (uint32_t page = 0; page < job->creator_pages; page++) {
		uint8_t *bytes = job->initial + page * ROAMI_PAGE;

		for (size_t at = 0; at < ROAMI_PAGE; at++)
			bytes[at] = (uint8_t)rng_next(&rng);
		memcpy(roami_page_bytes(job->opened[0], page), bytes, ROAMI_PAGE);
		atomic_fetch_or(&job->opened[0]->self->headers[page].where, ROAMI_HEADER_BYTES);
	}
}

static void job_open(struct job *job, const struct roam_protocol *protocol,
		     const struct random_params *params)
{
	size_t heap = params->heap_pages * ROAMI_PAGE, region = heap / 4;

	roami_layout_make_regions(&job->layout,
				  heap + job->nodes * ALLOC_BYTES - job->region_count * region,
				  job->nodes, job->region_count, region, ROAMI_PAGE);
	job->slices.store = job_store;
	random_slices_open(&job->slices, job->nodes, heap, ALLOC_BYTES);
	if (job->seed % 3 == 0)
		job->layout.ring_runs = 16;
	if (job->seed % 3 == 1)
		job->layout.lock_slots = 2;
	if (job->posts_bytes != 0)
		job->layout.posts_bytes = job->posts_bytes;
	if (job->barrier_slots != 0)
		job->layout.barrier_slots = job->barrier_slots;
	job->initial = calloc(params->heap_pages, ROAMI_PAGE);
	for (unsigned i = 0; i < job->nodes; i++) {
		job->bases[i] = roami_os_reserve(job->layout.total);
		if (job->bases[i] == NULL || job->initial == NULL)
			abort();
	}
	job->far = roami_os_reserve(job->nodes * job->nodes * sizeof(*job->far));
	for (unsigned i = 0; i < job->nodes; i++)
		job->bells[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (unsigned i = 0; i < job->nodes; i++)
		job_node_open(job, protocol, i);
	if (job->joined)
		job_pass_cards(job);
	world_open_alone(job->opened[0], protocol);
	job_heap(job);
	for (unsigned i = 0; i < params->threads; i++)
		atomic_fetch_add(&job->opened[params->node_of[i]]->self->ctl->threads, 1);
	for (unsigned i = 0; i < job->nodes; i++)
		if (roami_team_set(job->opened[i], (unsigned)job->options.threads) != ROAM_OK ||
		    roami_service_start(job->opened[i]) != ROAM_OK)
			abort();
}

static void job_run(struct job *job, const struct random_params *params)
{
	for (unsigned i = 0; i < params->threads; i++) {
		struct job_thread *thread = &job->threads[i];

		thread->job = job;
		thread->number = i;
		thread->member.node = job->opened[params->node_of[i]];
		thread->member.slices = &job->slices;
		if (pthread_create(&thread->thread, NULL, job_main, thread) != 0)
			abort();
	}
	for (unsigned i = 0; i < params->threads; i++)
		pthread_join(job->threads[i].thread, NULL);
}

static void job_close(struct job *job)
{
	for (unsigned i = 0; i < job->nodes; i++)
		roami_service_stop(job->opened[i]);
	for (unsigned i = 0; i < job->nodes; i++)
		roami_node_close(job->opened[i]);
	for (unsigned i = 0; i < job->nodes; i++)
		roami_os_unmap(job->bases[i], job->layout.total);
	for (unsigned i = 0; i < job->nodes; i++)
		close(job->bells[i]);
	roami_os_unmap(job->far, job->nodes * job->nodes * sizeof(*job->far));
	random_slices_close(&job->slices);
	free(job->initial);
}

static bool job_one(const struct seed_options *options, const struct roam_protocol *protocol,
		    uint64_t seed, void *arg)
{
	struct job *job = calloc(1, sizeof(*job));
	struct random_params params = {0};
	struct random_result result = {0};
	struct totals *totals = arg;
	bool good;

	if (job == NULL)
		abort();
	alarm(SECONDS_MAX);
#ifdef ROAM_TESTS_JITTER_H
	roami_jitter_begin(seed);
#endif
	job->seed = seed;
	job_draw(job, options, protocol, &params);
	job_describe(job, protocol, &params);
	params.scoped = protocol->model == ROAM_MODEL_SCC;
	job->program = random_generate(&params);
	if (options->list)
		random_print(job->program);
	random_logs_make(job->program, job->logs);
	job_open(job, protocol, &params);
	job_run(job, &params);
	good = random_check(job->program, job->logs, job->initial, &result);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)seed, result.error,
		       running, seed_replay());
	totals->reads += result.reads;
	totals->foreign += result.reads_foreign;
	job_close(job);
	random_logs_free(job->program, job->logs);
	random_free(job->program);
	free(job);
	alarm(0);
	return good;
}

static bool job_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		     void *arg)
{
	struct totals *totals = arg;

	printf("%s: %lu seeds, %lu failed; %lu reads checked (%lu of another node's value)\n",
	       protocol->name, (unsigned long)seeds, (unsigned long)failed,
	       (unsigned long)totals->reads, (unsigned long)totals->foreign);
	memset(totals, 0, sizeof(*totals));
	return failed == 0;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, job_one, job_done, &totals);
}
