/*
 * Barriers and reductions.  Arrivals carry the notices that the next node up may lack, departures
 * those that the arrived lack. What everybody has applied at a full barrier is forgotten after it.
 */
#include <string.h>

#include "core/log.h"
#include "core/sync.h"
#include "core/sync_state.h"
#include "msg/msg.h"

#define TREE_ARITY 4u

struct barrier_head {
	uint64_t id;
	uint32_t threads; /* 0: a full barrier */
	uint32_t values;
	uint32_t type;
	uint32_t op;
};

void roami_barrier_make(struct roami_node *node, void *item)
{
	struct roami_barrier *barrier = item;

	(void)node;
	barrier->arrived = 0;
	barrier->children = 0;
	barrier->self = false;
	barrier->values = 0;
	barrier->waiting = (struct roami_vec){0};
}

static struct roami_barrier *barrier_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &node->sync->barriers, id);
}

/* ------------------------------------------------------------------------------------ the tree */

/*
 * Reductions gather in node order at node 0, so that the result does not depend on who came first.
 */
static unsigned barrier_arity(const struct roami_node *node, uint64_t id)
{
	return node->options->barrier_tree == ROAMI_BARRIER_TREE && id != ROAMI_REDUCE_ID
		       ? TREE_ARITY
		       : ROAMI_NODES_MAX;
}

static unsigned barrier_parent(const struct roami_node *node, uint64_t id)
{
	return (node->me - 1) / barrier_arity(node, id);
}

static unsigned barrier_first_child(const struct roami_node *node, uint64_t id)
{
	return node->me * barrier_arity(node, id) + 1;
}

static unsigned barrier_children(const struct roami_node *node, uint64_t id)
{
	unsigned arity = barrier_arity(node, id), first = barrier_first_child(node, id);

	if (first >= node->nodes)
		return 0;
	return node->nodes - first < arity ? node->nodes - first : arity;
}

/* ---------------------------------------------------------------------------------- reductions */

static int64_t combine_integer(int64_t a, int64_t b, enum roam_op op)
{
	switch (op) {
	case ROAM_SUM:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	case ROAM_PRODUCT:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case ROAM_MIN:
		return a < b ? a : b;
	case ROAM_MAX:
		return a > b ? a : b;
	case ROAM_AND:
		return a & b;
	case ROAM_OR:
		return a | b;
	}
	return 0;
}

static double combine_double(double a, double b, enum roam_op op)
{
	switch (op) {
	case ROAM_SUM:
		return a + b;
	case ROAM_PRODUCT:
		return a * b;
	case ROAM_MIN:
		return a < b ? a : b;
	default:
		return a > b ? a : b;
	}
}

static uint64_t combine(uint64_t a, uint64_t b, enum roam_type type, enum roam_op op)
{
	double x, y;

	if (type != ROAM_DOUBLE)
		return (uint64_t)combine_integer((int64_t)a, (int64_t)b, op);
	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x = combine_double(x, y, op);
	memcpy(&a, &x, sizeof(a));
	return a;
}

static void barrier_combine(struct roami_node *node, struct roami_barrier *barrier)
{
	for (uint32_t i = 0; i < barrier->values; i++)
		for (unsigned peer = 1; peer < node->nodes; peer++)
			barrier->own[i] = combine(barrier->own[i], barrier->gathered[peer][i],
						  (enum roam_type)barrier->type,
						  (enum roam_op)barrier->op);
}

/* ---------------------------------------------------------------------------------- departures */

static void depart_send(struct roami_node *node, struct roami_barrier *barrier, unsigned to)
{
	struct barrier_head head = {barrier->id, 0, barrier->values, 0, 0};
	struct roam_part parts[3] = {{&head, sizeof(head)},
				     {barrier->depart_floor.at, node->nodes * sizeof(uint32_t)},
				     {barrier->own, barrier->values * sizeof(uint64_t)}};

	roami_log_send(node, to, &barrier->child_floor[to], ROAMI_TYPE_SYNC + ROAMI_SYNC_DEPART,
		       parts, 3);
}

/* Lets the children and the own threads go; the barrier's spin is held. */
static void barrier_depart(struct roami_node *node, struct roami_barrier *barrier)
{
	unsigned first = barrier_first_child(node, barrier->id);

	for (unsigned i = 0; i < barrier_children(node, barrier->id); i++)
		depart_send(node, barrier, first + i);
	atomic_fetch_add(&barrier->departed, 1);
}

/* ------------------------------------------------------------------------------------ arrivals */

static void arrive_send(struct roami_node *node, struct roami_barrier *barrier)
{
	struct barrier_head head = {barrier->id, 0, barrier->values, barrier->type, barrier->op};
	unsigned parent = barrier_parent(node, barrier->id);
	struct roami_vclock known;
	struct roam_part parts[3] = {{&head, sizeof(head)},
				     {barrier->floor.at, node->nodes * sizeof(uint32_t)},
				     {barrier->own, barrier->values * sizeof(uint64_t)}};

	roami_log_known(node, parent, &known);
	roami_log_arrive(node, parent, &known, &barrier->merged,
			 barrier_children(node, barrier->id) == 0, parts, 3);
}

/* At node 0, with some threads here: a node that has ended will never come. */
static void barrier_hopeless(struct roami_node *node, const struct roami_barrier *barrier)
{
	if (barrier->id == ROAMI_END_ID || (!barrier->self && barrier->children == 0))
		return;
	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (atomic_load(&node->segments[peer].ctl->returned))
			roami_node_fail(node, "barrier %#llx counts node %u, which has ended",
					(unsigned long long)barrier->id, peer);
}

/* A node came to the end: does another barrier wait for it? */
static void barrier_check_all(struct roami_node *node)
{
	struct roami_table *table = &node->sync->barriers;

	for (uint32_t i = 0; i < table->count; i++)
		barrier_hopeless(node, (void *)(table->items + i * table->item_bytes));
}

/* The whole subtree is here?  Then up, or, at the root, down.  The barrier's spin is held. */
static void barrier_check(struct roami_node *node, struct roami_barrier *barrier)
{
	if (!barrier->self || barrier->children != barrier_children(node, barrier->id)) {
		if (node->me == 0)
			barrier_hopeless(node, barrier);
		return;
	}
	barrier->self = false;
	barrier->children = 0;
	if (node->me != 0) {
		arrive_send(node, barrier);
		return;
	}
	/* All notices are in the log by now, whoever's arrival brought them. */
	roami_log_saw(node, &barrier->merged);
	barrier->depart_floor = barrier->floor;
	barrier->depart_seen = barrier->merged;
	barrier_combine(node, barrier);
	barrier_depart(node, barrier);
}

/* The first of a subtree to arrive sets the bounds, the others lower and raise them. */
static void barrier_bounds(struct roami_node *node, struct roami_barrier *barrier,
			   const struct roami_vclock *floor, const struct roami_vclock *seen)
{
	if (!barrier->self && barrier->children == 0) {
		barrier->floor = *floor;
		barrier->merged = *seen;
		return;
	}
	roami_vclock_min(&barrier->floor, floor, node->nodes);
	roami_vclock_merge(&barrier->merged, seen, node->nodes);
}

/* --------------------------------------------------------------------------------------- calls */

static unsigned job_threads(const struct roami_node *node)
{
	unsigned threads = 0;

	for (unsigned peer = 0; peer < node->nodes; peer++)
		threads += atomic_load_explicit(&node->segments[peer].ctl->threads,
						memory_order_relaxed);
	return threads;
}

struct barrier_wait {
	_Atomic uint32_t *count;
	uint32_t was;
};

static bool barrier_moved(void *arg)
{
	struct barrier_wait *wait = arg;

	return atomic_load(wait->count) != wait->was;
}

static void barrier_await(struct roami_node *node, struct barrier_wait *wait)
{
	uint64_t start = roami_os_cycles();

	roami_wait(node, barrier_moved, wait);
	ROAMI_TIME(node->stats, barrier, roami_os_cycles() - start);
}

/* The last thread of the node: arrives for all of them, and acquires before they go on. */
static void barrier_last(struct roami_node *node, struct roami_barrier *barrier,
			 const struct roam_sync *sync)
{
	struct barrier_wait wait = {&barrier->departed, atomic_load(&barrier->departed)};
	struct roami_vclock clock, seen;

	roami_release(node, sync);
	roami_log_clock(node, &clock);
	roami_log_seen(node, &seen);
	roami_spin_lock(node, &barrier->spin);
	barrier_bounds(node, barrier, &clock, &seen);
	barrier->self = true;
	barrier_check(node, barrier);
	roami_spin_unlock(&barrier->spin);
	barrier_await(node, &wait);
	roami_acquire(node, sync);
	roami_log_clock(node, &clock);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		roami_log_know(node, peer, &barrier->depart_seen);
	roami_log_trim(node, &barrier->depart_floor);
}

static void barrier_full(struct roami_node *node, struct roami_barrier *barrier,
			 const struct roam_sync *sync)
{
	struct barrier_wait wait = {&barrier->episode, 0};
	bool last;

	roami_spin_lock(node, &barrier->spin);
	wait.was = atomic_load(&barrier->episode);
	last = ++barrier->arrived == atomic_load(&node->self->ctl->threads);
	if (last)
		barrier->arrived = 0;
	roami_spin_unlock(&barrier->spin);
	if (!last) {
		barrier_await(node, &wait);
		return;
	}
	barrier_last(node, barrier, sync);
	atomic_fetch_add(&barrier->episode, 1);
	if (atomic_load(&node->self->ctl->threads) > 1)
		node->env->notify(node);
}

/*
 * Each thread calls node 0, which answers when all are there: a thread of this node may be in the
 * next episode while another one's departure from the last is on its way, so nothing is counted
 * per node.
 */
static void barrier_partial(struct roami_node *node, uint64_t id, unsigned threads,
			    const struct roam_sync *sync)
{
	struct barrier_head head = {id, threads, 0, 0, 0};
	struct roami_vclock clock, known, seen;
	size_t clock_bytes = node->nodes * sizeof(uint32_t);
	struct roam_part parts[3] = {
		{&head, sizeof(head)}, {clock.at, clock_bytes}, {seen.at, clock_bytes}};
	uint64_t start = roami_os_cycles();

	roami_release(node, sync);
	roami_log_clock(node, &clock);
	roami_log_known(node, 0, &known);
	roami_log_ahead(node, 0, &known, &seen);
	roami_msg_call(node, 0, ROAMI_TYPE_SYNC + ROAMI_SYNC_ARRIVE, parts, 3, seen.at,
		       clock_bytes);
	ROAMI_TIME(node->stats, barrier, roami_os_cycles() - start);
	roami_log_saw(node, &seen);
	roami_acquire(node, sync);
}

enum roam_err roami_barrier(struct roami_node *node, uint64_t id, unsigned threads)
{
	struct roami_barrier *barrier = barrier_make(node, id);
	struct roam_sync sync = {ROAM_SYNC_BARRIER, true, id};

	roami_node_waits(node, ROAM_SYNC_BARRIER, id);
	if (threads == 0 || threads == job_threads(node)) {
		barrier_full(node, barrier, &sync);
	} else {
		sync.full = false;
		barrier_partial(node, id, threads, &sync);
	}
	roami_node_waits_no_more(node);
	ROAMI_COUNT(node->stats, barriers, 1);
	return ROAM_OK;
}

enum roam_err roami_reduce(struct roami_node *node, void *values, unsigned count,
			   enum roam_type type, enum roam_op op)
{
	struct roami_barrier *barrier = barrier_make(node, ROAMI_REDUCE_ID);
	struct roam_sync sync = {ROAM_SYNC_REDUCE, true, ROAMI_REDUCE_ID};

	barrier->values = count;
	barrier->type = type;
	barrier->op = op;
	for (unsigned i = 0; i < count; i++)
		if (type == ROAM_INT32)
			barrier->own[i] = (uint64_t)(int64_t)((int32_t *)values)[i];
		else
			memcpy(&barrier->own[i], (uint8_t *)values + i * 8, 8);
	ROAMI_COUNT(node->stats, reduces, 1);
	roami_node_waits(node, ROAM_SYNC_REDUCE, ROAMI_REDUCE_ID);
	barrier_full(node, barrier, &sync);
	roami_node_waits_no_more(node);
	for (unsigned i = 0; i < count; i++)
		if (type == ROAM_INT32)
			((int32_t *)values)[i] = (int32_t)barrier->own[i];
		else
			memcpy((uint8_t *)values + i * 8, &barrier->own[i], 8);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

struct barrier_leg {
	struct barrier_head head;
	struct roami_vclock floor;
	struct roami_vclock seen;
	const uint8_t *values;
};

static void leg_parse(struct roami_node *node, const struct roam_request *request,
		      struct barrier_leg *leg)
{
	const uint8_t *at = request->data;
	size_t clock_bytes = node->nodes * sizeof(uint32_t), head_bytes = sizeof(leg->head);

	memset(leg, 0, sizeof(*leg));
	if (request->bytes >= head_bytes)
		memcpy(&leg->head, at, head_bytes);
	if (leg->head.values > ROAM_REDUCE_MAX || leg->head.type > ROAM_DOUBLE ||
	    leg->head.op > ROAM_OR ||
	    request->bytes != head_bytes + 2 * clock_bytes + leg->head.values * sizeof(uint64_t))
		roami_node_fail(node, "node %u sent a malformed arrival", request->from);
	memcpy(leg->floor.at, at + head_bytes, clock_bytes);
	leg->values = at + head_bytes + clock_bytes;
	memcpy(leg->seen.at, leg->values + leg->head.values * sizeof(uint64_t), clock_bytes);
}

/* A thread that waits at node 0 in a partial barrier. */
struct partial_waiter {
	struct roam_request request; /* its data is not kept */
	struct roami_vclock clock;
};

/* Its notices came ahead and were complete, so the log is, up to what it had seen. */
static void partial_arrive(struct roami_node *node, struct roami_barrier *barrier,
			   const struct roam_request *request, const struct barrier_leg *leg)
{
	struct roami_vec *waiting = &barrier->waiting;
	struct partial_waiter *waiters = roami_os_vec_grow(waiting, sizeof(*waiters), 1);

	if (waiters == NULL)
		roami_node_fail(node, "no memory for threads that wait at a barrier");
	*waiters = (struct partial_waiter){*request, leg->floor};
	roami_log_saw(node, &leg->seen);
	if (++waiting->count != leg->head.threads)
		return;
	waiters = (void *)waiting->items;
	for (size_t i = 0; i < waiting->count; i++)
		roami_log_reply(node, &waiters[i].request, &waiters[i].clock, NULL, 0);
	roami_os_vec_free(waiting, sizeof(*waiters));
}

void roami_barrier_handle_arrive(struct roami_node *node, const struct roam_request *request)
{
	struct barrier_leg leg;
	struct roami_barrier *barrier;

	leg_parse(node, request, &leg);
	barrier = barrier_make(node, leg.head.id);
	roami_spin_lock(node, &barrier->spin);
	if (leg.head.threads != 0) {
		partial_arrive(node, barrier, request, &leg);
	} else {
		barrier_bounds(node, barrier, &leg.floor, &leg.seen);
		barrier->child_floor[request->from] = leg.floor;
		memcpy(barrier->gathered[request->from], leg.values,
		       leg.head.values * sizeof(uint64_t));
		barrier->children++;
		barrier_check(node, barrier);
	}
	roami_spin_unlock(&barrier->spin);
	if (leg.head.id == ROAMI_END_ID && node->me == 0)
		barrier_check_all(node);
}

void roami_barrier_handle_depart(struct roami_node *node, const struct roam_request *request)
{
	struct barrier_leg leg;
	struct roami_barrier *barrier;

	leg_parse(node, request, &leg);
	barrier = barrier_make(node, leg.head.id);
	roami_log_saw(node, &leg.seen);
	roami_spin_lock(node, &barrier->spin);
	barrier->depart_floor = leg.floor;
	barrier->depart_seen = leg.seen;
	memcpy(barrier->own, leg.values, leg.head.values * sizeof(uint64_t));
	barrier->values = leg.head.values;
	barrier_depart(node, barrier);
	roami_spin_unlock(&barrier->spin);
}
