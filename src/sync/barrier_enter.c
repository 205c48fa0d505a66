/*
 * Barriers and reductions as threads call them: how many threads there are, how they wait for each
 * other (by the record of a barrier or by messages), and, where nodes have teams (roami_team_set),
 * how the threads of a node come together first.
 */
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "home/placement.h"
#include "page/page.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

struct roami_barrier *roami_barrier_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->barriers, id);
}

void roami_barrier_differs(struct roami_node *node, uint64_t id, unsigned threads,
			   unsigned others)
{
	char where[ROAMI_SYNC_NAME_BYTES];

	roami_sync_name(id, "at barrier ", where);
	roami_node_fail(node, "threads arrived %s for %u threads in all, and for %u: %s", where,
			threads, others,
			id == ROAMI_ALL_ID ? "one was registered, or ended, between them"
					   : "all callers pass the same number");
}

/* The number of this node's threads: of its team, else those that are registered now. */
static unsigned node_threads(const struct roami_node *node)
{
	unsigned team = sync_of(node)->team;

	return team > 1 ? team : atomic_load(&node->self->ctl->threads);
}

static unsigned job_threads(const struct roami_node *node)
{
	unsigned threads = 0;

	if (sync_of(node)->team > 1)
		return sync_of(node)->team * node->nodes;
	if (sync_of(node)->threads_fixed)
		return node->nodes;
	for (unsigned peer = 0; peer < node->nodes; peer++)
		threads += atomic_load_explicit(&node->segments[peer].ctl->threads,
						memory_order_relaxed);
	return threads;
}

static bool barrier_moved(void *arg)
{
	struct roami_barrier_wait *wait = arg;

	return atomic_load(wait->count) != wait->was;
}

void roami_barrier_await(struct roami_node *node, struct roami_barrier_wait *wait)
{
	uint64_t start = roami_os_cycles();

	roami_wait(node, barrier_moved, wait);
	ROAMI_TIME(node->stats, barrier, roami_os_cycles() - start);
}

/*
 * How the threads of this barrier wait for each other.  At that of the end they use messages,
 * because nodes leave after it.
 */
static const struct roami_barrier_mode *barrier_mode(struct roami_node *node,
						     struct roami_barrier *barrier)
{
	const struct roami_barrier_mode *mode =
		atomic_load_explicit(&barrier->mode, memory_order_acquire);

	if (mode != NULL)
		return mode;
	roami_spin_lock(node, &barrier->spin);
	mode = barrier->mode;
	if (mode == NULL) {
		const struct roami_records *records = &sync_of(node)->barrier_records;

		if (barrier->id == ROAMI_END_ID)
			records = NULL;
		barrier->record = roami_resolve_record(node, 0, records, barrier->id);
		mode = barrier->record != NULL ? &roami_barrier_by_record
					       : &roami_barrier_by_messages;
		atomic_store_explicit(&barrier->mode, mode, memory_order_release);
	}
	roami_spin_unlock(&barrier->spin);
	return mode;
}

/*
 * A thread leaves a barrier of all.  ROAM_STATS_AFTER: the node's last thread to leave that barrier
 * makes the counters begin; no thread can have left a later barrier, which needs this thread, too.
 */
static void barrier_left(struct roami_node *node, uint64_t id)
{
	uint64_t after = node->options->stats_after;
	uint64_t left = atomic_fetch_add(&pages_of(node)->barriers_left, 1) + 1;

	if (after == 0 || id == ROAMI_END_ID || left != after * node_threads(node))
		return;
	roami_stats_begin_here(node->stats);
	ROAMI_COUNT(node->stats, barriers_before, after);
}

/* --------------------------------------------------------------------------------------- teams */

enum roam_err roami_team_set(struct roami_node *node, unsigned threads)
{
	struct roami_sync_state *sync = sync_of(node);

	roami_assert(threads > 0);
	free(sync->team_values);
	sync->team_values = NULL;
	sync->team = threads;
	roami_lock_firsts(node, threads);
	if (threads == 1)
		return ROAM_OK;
	sync->team_values = calloc((size_t)threads * ROAM_REDUCE_MAX, sizeof(uint64_t));
	return sync->team_values != NULL ? ROAM_OK : ROAM_ENOMEM;
}

/*
 * Waits for the threads of the node's team.  true: the caller is the last one, and goes on for all
 * of them, as if it were the node's only thread; the others wait here until it calls team_go.
 */
static bool team_last(struct roami_node *node, struct roami_barrier *barrier)
{
	struct roami_barrier_wait wait = {&barrier->team_left, atomic_load(&barrier->team_left)};

	roami_contract(sync_of(node)->team > 1);
	roami_team_came(node);
	if (atomic_fetch_add(&barrier->team_here, 1) + 1 < sync_of(node)->team) {
		roami_barrier_await(node, &wait);
		return false;
	}
	atomic_store(&barrier->team_here, 0);
	return true;
}

static void team_go(struct roami_node *node, struct roami_barrier *barrier)
{
	roami_contract(atomic_load(&barrier->team_here) == 0);
	atomic_fetch_add(&barrier->team_left, 1);
	roami_changed(node, node->me);
}

static void team_wait(struct roami_node *node, struct roami_barrier *barrier,
		      const struct roam_sync *sync, bool tree)
{
	if (!team_last(node, barrier))
		return;
	barrier_mode(node, barrier)->wait(node, barrier, job_threads(node), sync, tree);
	roami_met(node);
	team_go(node, barrier);
}

void roami_barrier_fix(struct roami_node *node, bool fixed)
{
	sync_of(node)->threads_fixed =
		fixed && node->options->barrier_tree == ROAMI_BARRIER_TREE;
}

/*
 * Whether arrivals may be gathered along the tree.  All nodes must know how many threads each of
 * them brings: they do at a barrier of all registered threads, with teams, and if no thread
 * registers (roam_threads_fixed).  Else a barrier of a given number of threads may begin while
 * threads register, and some nodes would arrive by leg, some by call.
 */
static bool barrier_along_tree(const struct roami_node *node, uint64_t id, unsigned threads,
			       unsigned all)
{
	bool fixed = sync_of(node)->team > 1 || sync_of(node)->threads_fixed;

	if (node->options->barrier_tree != ROAMI_BARRIER_TREE)
		return false;
	return threads == 0 ||
	       (fixed && threads == all && id != ROAMI_END_ID && id != ROAMI_SEAL_ID);
}

/* In a job of teams the first and the last barrier count nodes. */
static bool barrier_of_nodes(const struct roami_node *node, uint64_t id)
{
	return node->options->threads != 1 && (id == ROAMI_SEAL_ID || id == ROAMI_END_ID);
}

enum roam_err roami_barrier(struct roami_node *node, uint64_t id, unsigned threads)
{
	struct roami_barrier *barrier = roami_barrier_make(node, id);
	struct roam_sync sync = {ROAM_SYNC_BARRIER, true, id, false};
	unsigned all = job_threads(node);
	bool team = sync_of(node)->team > 1;
	bool tree = barrier_along_tree(node, id, threads, all);

	roami_object_announce(node, id, &barrier->announced);
	roami_placement_tell(node);
	if (threads == 0)
		threads = all;
	sync.full = threads == all || barrier_of_nodes(node, id);
	sync.idle = sync.full && id != ROAMI_END_ID &&
		    (team || atomic_load(&node->self->ctl->threads) == 1);
	roami_node_waits(node, ROAM_SYNC_BARRIER + 1, id, threads);
	if (id == ROAMI_END_ID) {
		sync_of(node)->record_mode->ended(node);
		roami_barrier_tell_end(node);
	}
	if (team && threads == all) {
		team_wait(node, barrier, &sync, tree);
	} else {
		barrier_mode(node, barrier)->wait(node, barrier, threads, &sync, tree);
		if (sync.full && id != ROAMI_END_ID)
			roami_met(node);
	}
	roami_node_waits_no_more(node);
	ROAMI_COUNT(node->stats, barriers, 1);
	if (sync.full)
		barrier_left(node, id);
	return ROAM_OK;
}

/* ---------------------------------------------------------------------------------- reductions */

static void values_read(uint64_t *words, const void *values, unsigned count, enum roam_type type)
{
	for (unsigned i = 0; i < count; i++)
		if (type == ROAM_INT32)
			words[i] = (uint64_t)(int64_t)((const int32_t *)values)[i];
		else
			memcpy(&words[i], (const uint8_t *)values + i * 8, 8);
}

static void values_write(void *values, const uint64_t *words, unsigned count, enum roam_type type)
{
	for (unsigned i = 0; i < count; i++)
		if (type == ROAM_INT32)
			((int32_t *)values)[i] = (int32_t)words[i];
		else
			memcpy((uint8_t *)values + i * 8, &words[i], 8);
}

/*
 * Combines the values of the team's threads in the order of their numbers: so the sum does not
 * depend on the order of arrival.
 */
static void team_combine(struct roami_node *node, struct roami_barrier *barrier)
{
	const uint64_t *values = sync_of(node)->team_values;

	roami_contract(barrier->values <= ROAM_REDUCE_MAX);
	memcpy(barrier->own, values, barrier->values * sizeof(*values));
	for (unsigned mate = 1; mate < sync_of(node)->team; mate++)
		for (uint32_t i = 0; i < barrier->values; i++)
			barrier->own[i] = roami_reduce_combine(
				barrier->own[i], values[mate * ROAM_REDUCE_MAX + i],
				(enum roam_type)barrier->type, (enum roam_op)barrier->op);
}

static void reduce_nodes(struct roami_node *node, struct roami_barrier *barrier)
{
	struct roam_sync sync = {ROAM_SYNC_REDUCE, true, ROAMI_REDUCE_ID, false};

	roami_contract(barrier->values <= ROAM_REDUCE_MAX);
	barrier_mode(node, barrier)->reduce(node, barrier, &sync);
	roami_met(node);
}

/* The result stays in barrier->own until all threads of the team have come again. */
static void reduce_team(struct roami_node *node, struct roami_barrier *barrier, const void *values,
			unsigned count, enum roam_type type, enum roam_op op)
{
	unsigned mate = roami_thread_self(node)->mate;

	roami_contract(mate < sync_of(node)->team);
	values_read(sync_of(node)->team_values + (size_t)mate * ROAM_REDUCE_MAX, values, count,
		    type);
	if (!team_last(node, barrier))
		return;
	barrier->values = count;
	barrier->type = type;
	barrier->op = op;
	team_combine(node, barrier);
	reduce_nodes(node, barrier);
	team_go(node, barrier);
}

enum roam_err roami_reduce(struct roami_node *node, void *values, unsigned count,
			   enum roam_type type, enum roam_op op)
{
	struct roami_barrier *barrier = roami_barrier_make(node, ROAMI_REDUCE_ID);

	roami_assert(count <= ROAM_REDUCE_MAX);
	ROAMI_COUNT(node->stats, reduces, 1);
	roami_node_waits(node, ROAM_SYNC_REDUCE + 1, ROAMI_REDUCE_ID,
			 node->nodes * sync_of(node)->team);
	if (sync_of(node)->team > 1) {
		reduce_team(node, barrier, values, count, type, op);
	} else {
		barrier->values = count;
		barrier->type = type;
		barrier->op = op;
		values_read(barrier->own, values, count, type);
		reduce_nodes(node, barrier);
	}
	roami_node_waits_no_more(node);
	barrier_left(node, ROAMI_REDUCE_ID);
	values_write(values, barrier->own, count, type);
	return ROAM_OK;
}

