/*
 * Barriers and reductions on one host: the threads meet in a record in node 0's segment.  An
 * arriving thread counts itself in and leaves its clocks; the last one publishes all of them, ends
 * the episode, and wakes the threads that sleep.  The others poll the episode; only the last one's
 * CPU is on their critical path.
 */
#include <string.h>

#include "home/home_state.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

struct meet {
	struct roami_node *node;
	struct roami_barrier_record *record;
	struct roami_departure *departure;
	uint64_t episode; /* that this thread takes part in */
	uint32_t ended;   /* nodes that have come to the end, when last looked at */
};

static void shm_begin(struct meet *meet, struct roami_node *node, struct roami_barrier *barrier)
{
	roami_assert(barrier->record != NULL);
	meet->node = node;
	meet->record = barrier->record;
	meet->departure = (void *)((uint8_t *)barrier->record +
				   roami_barrier_record_bytes(node->nodes));
	meet->ended = 0;
}

/* -------------------------------------------------------------------------------------- arrival */

/*
 * Merges this node's clocks into the record, whose spin is held.  `clocks` never falls from one
 * episode to the next: a thread slow to leave an episode may read the clocks of the next one, of
 * other nodes.
 */
static void shm_bounds(struct meet *meet, unsigned threads, const struct roami_vclock *seen,
		       const struct roami_vclock *applied)
{
	struct roami_barrier_record *record = meet->record;
	unsigned nodes = meet->node->nodes;
	uint64_t *floor = record->clocks + nodes;

	roami_contract(roami_spin_held(&record->spin));
	if (record->arrived == 0) {
		record->expected = threads;
		record->here = 0;
		memcpy(floor, applied->at, nodes * sizeof(floor[0]));
	}
	if (record->expected != threads)
		roami_barrier_differs(meet->node, atomic_load(&record->id), record->expected,
				      threads);
	for (unsigned i = 0; i < nodes; i++) {
		if (record->clocks[i] < seen->at[i])
			record->clocks[i] = seen->at[i];
		if (floor[i] > applied->at[i])
			floor[i] = applied->at[i];
	}
	record->here |= roami_nodeset_bit(meet->node->me);
	roami_step(meet->node);
}

/*
 * All have arrived: ends the episode.  A thread still leaving the episode before last, whose clocks
 * are overwritten here, detects that, because the last episode has ended.  The record's spin is
 * held.
 */
static void shm_end(struct meet *meet)
{
	struct roami_barrier_record *record = meet->record;
	unsigned nodes = meet->node->nodes;
	bool all = record->here == roami_nodeset_first(nodes).bits;
	_Atomic uint64_t *to = meet->departure->clocks + (meet->episode % 2) * 2 * nodes;

	roami_contract(roami_spin_held(&record->spin));
	roami_contract(record->arrived == record->expected);
	for (unsigned i = 0; i < nodes; i++) {
		atomic_store_explicit(&to[i], record->clocks[i], memory_order_relaxed);
		atomic_store_explicit(&to[nodes + i], all ? record->clocks[nodes + i] : 0,
				      memory_order_relaxed);
		roami_step(meet->node);
	}
	record->arrived = 0;
	atomic_store_explicit(&meet->departure->episode, meet->episode + 1, memory_order_release);
}

/* `comers` of the barrier's threads are here: the caller, or all of its team. */
static void shm_arrive(struct meet *meet, unsigned threads, unsigned comers)
{
	struct roami_barrier_record *record = meet->record;
	struct roami_node *node = meet->node;
	struct roami_vclock seen, applied;
	uint64_t here = 0;

	roami_log_clocks(node, &seen, &applied);
	roami_spin_lock(node, &record->spin);
	meet->episode = atomic_load_explicit(&meet->departure->episode, memory_order_relaxed);
	shm_bounds(meet, threads, &seen, &applied);
	roami_contract(record->arrived < record->expected);
	record->arrived += comers;
	if (record->arrived == record->expected) {
		here = record->here;
		shm_end(meet);
	}
	roami_spin_unlock(&record->spin);
	for (unsigned peer = 0; here != 0 && peer < node->nodes; peer++)
		if ((here >> peer & 1) != 0)
			roami_changed(node, peer);
}

/* ------------------------------------------------------------------------------------ departure */

static bool shm_over(const struct meet *meet)
{
	return atomic_load_explicit(&meet->departure->episode, memory_order_acquire) !=
	       meet->episode;
}

static _Atomic uint32_t *shm_ended_count(const struct meet *meet)
{
	return &meet->node->segments[0].ctl->ended;
}

static bool shm_moved(void *arg)
{
	const struct meet *meet = arg;

	return shm_over(meet) || atomic_load(shm_ended_count(meet)) != meet->ended;
}

/* Fails if fewer threads are left in the job than the barrier is for. */
static void shm_hopeless(struct meet *meet, unsigned threads)
{
	unsigned gone = roami_barrier_lacks(meet->node, threads);

	/* A node that left the barrier before it ended is not missing. */
	if (gone != ROAM_NOBODY && !shm_over(meet))
		roami_barrier_fail(meet->node, atomic_load(&meet->record->id), gone);
}

static void shm_await(struct meet *meet, unsigned threads)
{
	uint64_t start;

	if (shm_over(meet))
		return;
	start = roami_os_cycles();
	do {
		roami_wait(meet->node, shm_moved, meet);
		if (atomic_load(shm_ended_count(meet)) != meet->ended) {
			meet->ended = atomic_load(shm_ended_count(meet));
			shm_hopeless(meet, threads);
		}
	} while (!shm_over(meet));
	ROAMI_TIME(meet->node->stats, barrier, roami_os_cycles() - start);
}

/* The clocks of the episode that ended last: this thread's if true, else a later one's. */
static bool shm_read(struct meet *meet, struct roami_vclock *seen, struct roami_vclock *floor)
{
	unsigned nodes = meet->node->nodes;
	struct roami_departure *departure = meet->departure;
	uint64_t episode, now = atomic_load_explicit(&departure->episode, memory_order_acquire);

	do {
		_Atomic uint64_t *from = departure->clocks + ((now - 1) % 2) * 2 * nodes;

		episode = now;
		for (unsigned i = 0; i < nodes; i++) {
			seen->at[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
			floor->at[i] = atomic_load_explicit(&from[nodes + i], memory_order_relaxed);
			roami_step(meet->node);
		}
		atomic_thread_fence(memory_order_acquire);
		now = atomic_load_explicit(&departure->episode, memory_order_acquire);
	} while (now != episode);
	roami_contract(episode > meet->episode);
	return episode == meet->episode + 1;
}

static void shm_leave(struct meet *meet, const struct roam_sync *sync)
{
	struct roami_vclock seen, floor;
	bool ours = shm_read(meet, &seen, &floor);

	roami_log_saw(meet->node, &seen);
	roami_acquire(meet->node, sync);
	if (ours && sync->full)
		roami_log_met(meet->node, &seen);
	roami_log_trim(meet->node, &floor);
}

static void record_meet(struct roami_node *node, struct roami_barrier *barrier, unsigned threads,
			const struct roam_sync *sync, bool tree)
{
	struct meet meet;

	(void)tree;
	shm_begin(&meet, node, barrier);
	roami_release(node, sync);
	shm_arrive(&meet, threads, sync->full ? sync_of(node)->team : 1);
	roami_release_rest(node);
	shm_await(&meet, threads);
	shm_leave(&meet, sync);
}

void roami_barrier_shm_ended(struct roami_node *node)
{
	if (!home_of(node)->records)
		return;
	atomic_fetch_add(&node->segments[0].ctl->ended, 1);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		roami_changed(node, peer);
}

/* ----------------------------------------------------------------------------------- reductions */

/* Where a node leaves its values; not used again before every node has read them. */
static uint64_t *shm_values(const struct meet *meet, uint64_t episode, unsigned from)
{
	uint64_t *values = (void *)(meet->node->segments[0].base + meet->node->layout.reductions);

	roami_contract(from < meet->node->nodes);
	return values + ((episode % 2) * meet->node->nodes + from) * ROAM_REDUCE_MAX;
}

/* Each node combines for itself, in node order: the results are the same. */
static void shm_combine(const struct meet *meet, struct roami_barrier *barrier)
{
	size_t bytes = barrier->values * sizeof(uint64_t);

	roami_contract(shm_over(meet) && barrier->values <= ROAM_REDUCE_MAX);
	memcpy(barrier->own, shm_values(meet, meet->episode, 0), bytes);
	for (unsigned peer = 1; peer < meet->node->nodes; peer++) {
		const uint64_t *values = shm_values(meet, meet->episode, peer);

		for (uint32_t i = 0; i < barrier->values; i++)
			barrier->own[i] = roami_reduce_combine(barrier->own[i], values[i],
							       (enum roam_type)barrier->type,
							       (enum roam_op)barrier->op);
	}
}

static void record_reduce(struct roami_node *node, struct roami_barrier *barrier,
			  const struct roam_sync *sync)
{
	unsigned team = sync_of(node)->team, threads = node->nodes * team;
	struct meet meet;
	uint64_t episode;

	shm_begin(&meet, node, barrier);
	roami_release(node, sync);
	episode = atomic_load_explicit(&meet.departure->episode, memory_order_relaxed);
	memcpy(shm_values(&meet, episode, node->me), barrier->own,
	       barrier->values * sizeof(uint64_t));
	shm_arrive(&meet, threads, team);
	roami_release_rest(node);
	shm_await(&meet, threads);
	shm_combine(&meet, barrier);
	shm_leave(&meet, sync);
}

const struct roami_barrier_mode roami_barrier_by_record = {record_meet, record_reduce};
