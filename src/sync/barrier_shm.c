/*
 * Barriers and reductions on one host, by a record in node 0's segment.  An arriving thread counts
 * itself in and leaves its clocks; the last one publishes all of them, ends the episode, and wakes
 * the threads that sleep.  The others poll the episode; only the last one's
 * CPU is on their critical path.
 */
#include <string.h>

#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

struct pass {
	struct roami_node *node;
	struct roami_barrier_record *record;
	struct roami_departure *departure;
	uint64_t episode; /* that this thread takes part in */
	uint32_t ended;   /* nodes that have come to the end, when last looked at */
};

static void shm_begin(struct pass *pass, struct roami_node *node, struct roami_barrier *barrier)
{
	roami_assert(barrier->record != NULL);
	pass->node = node;
	pass->record = barrier->record;
	pass->departure = (void *)((uint8_t *)barrier->record +
				   roami_barrier_record_bytes(node->nodes));
	pass->ended = 0;
}

/* -------------------------------------------------------------------------------------- arrival */

/*
 * Merges this node's clocks into the record, whose spin is held.  `clocks` never falls from one
 * episode to the next: a thread slow to leave an episode may read the clocks of the next one, of
 * other nodes.
 */
static void shm_bounds(struct pass *pass, unsigned threads, const struct roami_vclock *seen,
		       const struct roami_vclock *applied)
{
	struct roami_barrier_record *record = pass->record;
	unsigned nodes = pass->node->nodes;
	uint64_t *floor = record->clocks + nodes;

	roami_contract(roami_spin_held(&record->spin));
	if (record->arrived == 0) {
		record->expected = threads;
		record->here = 0;
		memcpy(floor, applied->at, nodes * sizeof(floor[0]));
	}
	if (record->expected != threads)
		roami_barrier_differs(pass->node, atomic_load(&record->id), record->expected,
				      threads);
	for (unsigned i = 0; i < nodes; i++) {
		if (record->clocks[i] < seen->at[i])
			record->clocks[i] = seen->at[i];
		if (floor[i] > applied->at[i])
			floor[i] = applied->at[i];
	}
	record->here |= roami_nodeset_bit(pass->node->me);
	roami_step(pass->node);
}

/*
 * All have arrived: ends the episode.  A thread still leaving the episode before last, whose clocks
 * are overwritten here, detects that, because the last episode has ended.  The record's spin is
 * held.
 */
static void shm_end(struct pass *pass)
{
	struct roami_barrier_record *record = pass->record;
	unsigned nodes = pass->node->nodes;
	bool all = record->here == roami_nodeset_first(nodes).bits;
	_Atomic uint64_t *to = pass->departure->clocks + (pass->episode % 2) * 2 * nodes;

	roami_contract(roami_spin_held(&record->spin));
	roami_contract(record->arrived == record->expected);
	for (unsigned i = 0; i < nodes; i++) {
		atomic_store_explicit(&to[i], record->clocks[i], memory_order_relaxed);
		atomic_store_explicit(&to[nodes + i], all ? record->clocks[nodes + i] : 0,
				      memory_order_relaxed);
		roami_step(pass->node);
	}
	record->arrived = 0;
	atomic_store_explicit(&pass->departure->episode, pass->episode + 1, memory_order_release);
}

/* `comers` of the barrier's threads are here: the caller, or all of its team. */
static void shm_arrive(struct pass *pass, unsigned threads, unsigned comers)
{
	struct roami_barrier_record *record = pass->record;
	struct roami_node *node = pass->node;
	struct roami_vclock seen, applied;
	uint64_t here = 0;

	roami_log_clocks(node, &seen, &applied);
	roami_spin_lock(node, &record->spin);
	pass->episode = atomic_load_explicit(&pass->departure->episode, memory_order_relaxed);
	shm_bounds(pass, threads, &seen, &applied);
	roami_contract(record->arrived < record->expected);
	record->arrived += comers;
	if (record->arrived == record->expected) {
		here = record->here;
		shm_end(pass);
	}
	roami_spin_unlock(&record->spin);
	for (unsigned peer = 0; here != 0 && peer < node->nodes; peer++)
		if ((here >> peer & 1) != 0)
			roami_changed(node, peer);
}

/* ------------------------------------------------------------------------------------ departure */

static bool shm_over(const struct pass *pass)
{
	return atomic_load_explicit(&pass->departure->episode, memory_order_acquire) !=
	       pass->episode;
}

static _Atomic uint32_t *shm_ended_count(const struct pass *pass)
{
	return &pass->node->segments[0].ctl->ended;
}

static bool shm_moved(void *arg)
{
	const struct pass *pass = arg;

	return shm_over(pass) || atomic_load(shm_ended_count(pass)) != pass->ended;
}

/* Fails if fewer threads are left in the job than the barrier is for. */
static void shm_hopeless(struct pass *pass, unsigned threads)
{
	unsigned gone = roami_barrier_lacks(pass->node, threads);

	/* A node that left the barrier before it ended is not missing. */
	if (gone != ROAM_NOBODY && !shm_over(pass))
		roami_barrier_fail(pass->node, atomic_load(&pass->record->id), gone);
}

static void shm_await(struct pass *pass, unsigned threads)
{
	uint64_t start;

	if (shm_over(pass))
		return;
	start = roami_os_cycles();
	do {
		roami_wait(pass->node, shm_moved, pass);
		if (atomic_load(shm_ended_count(pass)) != pass->ended) {
			pass->ended = atomic_load(shm_ended_count(pass));
			shm_hopeless(pass, threads);
		}
	} while (!shm_over(pass));
	ROAMI_TIME(pass->node->stats, barrier, roami_os_cycles() - start);
}

/* The clocks of the episode that ended last: this thread's if true, else a later one's. */
static bool shm_read(struct pass *pass, struct roami_vclock *seen, struct roami_vclock *floor)
{
	unsigned nodes = pass->node->nodes;
	struct roami_departure *departure = pass->departure;
	uint64_t episode, now = atomic_load_explicit(&departure->episode, memory_order_acquire);

	do {
		_Atomic uint64_t *from = departure->clocks + ((now - 1) % 2) * 2 * nodes;

		episode = now;
		for (unsigned i = 0; i < nodes; i++) {
			seen->at[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
			floor->at[i] = atomic_load_explicit(&from[nodes + i], memory_order_relaxed);
			roami_step(pass->node);
		}
		atomic_thread_fence(memory_order_acquire);
		now = atomic_load_explicit(&departure->episode, memory_order_acquire);
	} while (now != episode);
	roami_contract(episode > pass->episode);
	return episode == pass->episode + 1;
}

static void shm_leave(struct pass *pass, const struct roam_sync *sync)
{
	struct roami_vclock seen, floor;
	bool ours = shm_read(pass, &seen, &floor);

	roami_log_saw(pass->node, &seen);
	roami_acquire(pass->node, sync);
	if (ours && sync->full)
		roami_log_met(pass->node, &seen);
	roami_log_trim(pass->node, &floor);
}

static void record_wait(struct roami_node *node, struct roami_barrier *barrier, unsigned threads,
			const struct roam_sync *sync, bool tree)
{
	struct pass pass;

	(void)tree;
	shm_begin(&pass, node, barrier);
	roami_release(node, sync);
	shm_arrive(&pass, threads, sync->full ? sync_of(node)->team : 1);
	roami_release_rest(node);
	shm_await(&pass, threads);
	shm_leave(&pass, sync);
}

void roami_barrier_shm_ended(struct roami_node *node)
{
	roami_assert(atomic_load(&node->self->ctl->returned) != 0);
	atomic_fetch_add(&node->segments[0].ctl->ended, 1);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		roami_changed(node, peer);
}

/* ----------------------------------------------------------------------------------- reductions */

/* Where a node leaves its values; not used again before every node has read them. */
static uint64_t *shm_values(const struct pass *pass, uint64_t episode, unsigned from)
{
	uint64_t *values = (void *)(pass->node->segments[0].base + pass->node->layout.reductions);

	roami_contract(from < pass->node->nodes);
	return values + ((episode % 2) * pass->node->nodes + from) * ROAM_REDUCE_MAX;
}

/* Each node combines for itself, in node order: the results are the same. */
static void shm_combine(const struct pass *pass, struct roami_barrier *barrier)
{
	size_t bytes = barrier->values * sizeof(uint64_t);

	roami_contract(shm_over(pass) && barrier->values <= ROAM_REDUCE_MAX);
	memcpy(barrier->own, shm_values(pass, pass->episode, 0), bytes);
	for (unsigned peer = 1; peer < pass->node->nodes; peer++) {
		const uint64_t *values = shm_values(pass, pass->episode, peer);

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
	struct pass pass;
	uint64_t episode;

	shm_begin(&pass, node, barrier);
	roami_release(node, sync);
	episode = atomic_load_explicit(&pass.departure->episode, memory_order_relaxed);
	memcpy(shm_values(&pass, episode, node->me), barrier->own,
	       barrier->values * sizeof(uint64_t));
	shm_arrive(&pass, threads, team);
	roami_release_rest(node);
	shm_await(&pass, threads);
	shm_combine(&pass, barrier);
	shm_leave(&pass, sync);
}

const struct roami_barrier_mode roami_barrier_by_record = {record_wait, record_reduce};
