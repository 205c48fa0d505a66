/*
 * Barriers and reductions by message; on one host nearly all are in barrier_shm.c: see
 * barrier_enter.c.
 * Arrivals carry the notices that the next node up may lack, departures those that the arrived
 * lack. What everybody has applied at a full barrier is forgotten after it.
 */
#include <string.h>

#include "msg/msg.h"
#include "page/page.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { BARRIER_ARRIVE, BARRIER_DEPART, BARRIER_ENDED };

static unsigned barrier_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= BARRIER_ENDED);
	return roami_type(node, ROAMI_ROOM_BARRIERS, message);
}

#define TREE_ARITY 4u

struct barrier_head {
	uint64_t id;
	uint32_t threads; /* that the barrier waits for */
	uint32_t mode;    /* of an arrival; of a departure: whether all nodes took part */
	uint32_t values;
	uint16_t type;
	uint16_t op;
	/*
	 * Of an arrival: what its clocks are encoded against, see roami_log_base.  Of a departure
	 * of all nodes: its number there.
	 */
	uint64_t base;
};

enum { MODE_CALL, MODE_FLAT, MODE_TREE };

/* ------------------------------------------------------------------------------------ the tree */

static unsigned tree_parent(const struct roami_node *node)
{
	roami_contract(node->me != 0);
	return (node->me - 1) / TREE_ARITY;
}

/* Where a node's arrival goes. */
static unsigned barrier_parent(const struct roami_node *node, bool tree)
{
	return tree && node->me != 0 ? tree_parent(node) : 0;
}

static unsigned tree_first_child(const struct roami_node *node)
{
	return node->me * TREE_ARITY + 1;
}

static unsigned tree_children(const struct roami_node *node)
{
	unsigned first = tree_first_child(node);

	if (first >= node->nodes)
		return 0;
	return node->nodes - first < TREE_ARITY ? node->nodes - first : TREE_ARITY;
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

uint64_t roami_reduce_combine(uint64_t a, uint64_t b, enum roam_type type, enum roam_op op)
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

/* In node order, so that the result does not depend on the order of arrival. */
static void barrier_combine(struct roami_node *node, struct roami_barrier *barrier)
{
	roami_contract(node->me == 0 && barrier->values <= ROAM_REDUCE_MAX);
	for (uint32_t i = 0; i < barrier->values; i++)
		for (unsigned peer = 1; peer < node->nodes; peer++)
			barrier->own[i] = roami_reduce_combine(barrier->own[i],
							       barrier->child[peer].values[i],
							       (enum roam_type)barrier->type,
							       (enum roam_op)barrier->op);
}

/* ---------------------------------------------------------------------------------- departures */

static void depart_send(struct roami_node *node, struct roami_barrier *barrier, unsigned to)
{
	struct barrier_head head = {
		barrier->id, barrier->expected,   barrier->depart_all, barrier->values, 0,
		0,           barrier->depart_base};
	struct roam_part parts[3] = {{&head, sizeof(head)},
				     {&barrier->depart_wire, barrier->depart_bytes},
				     {barrier->own, barrier->values * sizeof(uint64_t)}};

	roami_contract(roami_spin_held(&barrier->spin));
	roami_contract(to < node->nodes && to != node->me);
	roami_log_send_upto(node, to, &barrier->child[to].floor, &barrier->depart_seen,
			    barrier_type(node, BARRIER_DEPART), parts, 3);
}

static void tree_depart(struct roami_node *node, struct roami_barrier *barrier)
{
	for (unsigned i = 0; i < tree_children(node); i++)
		depart_send(node, barrier, tree_first_child(node) + i);
}

/* A thread that waits at node 0 by a call. */
struct barrier_waiter {
	struct roam_request request; /* its data is not kept */
	struct roami_vclock clock;
};

/* Answers the calls: head, floor, then what the arrived know together. */
static void calls_depart(struct roami_node *node, struct roami_barrier *barrier)
{
	struct barrier_waiter *waiters = (void *)barrier->waiting.items;
	struct barrier_head head = {
		barrier->id, barrier->expected, barrier->depart_all, 0, 0, 0, barrier->depart_base};
	struct roam_part parts[2] = {{&head, sizeof(head)},
				     {&barrier->depart_wire, barrier->depart_bytes}};

	roami_contract(roami_spin_held(&barrier->spin));
	for (size_t i = 0; i < barrier->waiting.count; i++)
		roami_log_reply(node, &waiters[i].request, &waiters[i].clock, &barrier->depart_seen,
				parts, 2);
	roami_os_vec_free(&barrier->waiting, sizeof(*waiters));
}

/*
 * How everybody's floor goes out: as what differs from what the last departure of all nodes told
 * them, which is often nothing.  Where some did not take part it holds for nobody.
 */
static void depart_encode(struct roami_node *node, struct roami_barrier *barrier)
{
	struct roami_vclock before;

	roami_contract(roami_spin_held(&barrier->spin));
	barrier->depart_base = 0;
	if (barrier->depart_all)
		barrier->depart_base = roami_log_base_next(node, &barrier->depart_seen, &before);
	barrier->depart_bytes = roami_vclock_encode(
		&barrier->depart_floor, barrier->depart_all ? &before : &barrier->depart_floor,
		node->nodes, &barrier->depart_wire);
}

/* At node 0, all have arrived; the barrier's spin is held. */
static void barrier_depart(struct roami_node *node, struct roami_barrier *barrier)
{
	bool legs[ROAMI_NODES_MAX];
	bool self = barrier->self;

	roami_contract(roami_spin_held(&barrier->spin));
	roami_assert(node->me == 0);
	barrier->depart_all = true;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		legs[peer] = barrier->here[peer] && peer != 0;
		barrier->depart_all &= barrier->here[peer] || barrier->tree;
		barrier->here[peer] = false;
	}
	roami_log_saw(node, &barrier->merged);
	barrier->depart_seen = barrier->merged;
	barrier->depart_floor = barrier->floor;
	depart_encode(node, barrier);
	barrier_combine(node, barrier);
	barrier->self = false;
	barrier->children = 0;
	if (barrier->tree)
		tree_depart(node, barrier);
	for (unsigned peer = 1; !barrier->tree && peer < node->nodes; peer++)
		if (legs[peer] && barrier->by_leg[peer])
			depart_send(node, barrier, peer);
	memset(barrier->by_leg, 0, sizeof(barrier->by_leg));
	calls_depart(node, barrier);
	if (self)
		atomic_fetch_add(&barrier->departed, 1);
}

/* ------------------------------------------------------------------------------------ arrivals */

/* An arrival's clocks on the wire. */
struct barrier_clocks {
	size_t floor_bytes, seen_bytes;
	struct roami_vclock_wire floor, seen;
};

/* Returns the number of the base that they are encoded against. */
static uint64_t clocks_encode(struct roami_node *node, struct barrier_clocks *clocks,
			      const struct roami_vclock *floor, const struct roami_vclock *seen)
{
	struct roami_vclock base;
	uint64_t number = roami_log_base(node, &base);

	clocks->floor_bytes = roami_vclock_encode(floor, &base, node->nodes, &clocks->floor);
	clocks->seen_bytes = roami_vclock_encode(seen, &base, node->nodes, &clocks->seen);
	return number;
}

static void arrive_send(struct roami_node *node, struct roami_barrier *barrier)
{
	struct barrier_head head = {
		barrier->id,     barrier->expected,       barrier->tree ? MODE_TREE : MODE_FLAT,
		barrier->values, (uint16_t)barrier->type, (uint16_t)barrier->op,
		0};
	unsigned parent = barrier_parent(node, barrier->tree);
	struct roami_vclock known;
	struct barrier_clocks clocks;
	struct roam_part parts[4] = {{&head, sizeof(head)},
				     {&clocks.floor, 0},
				     {barrier->own, barrier->values * sizeof(uint64_t)},
				     {&clocks.seen, 0}};

	roami_contract(roami_spin_held(&barrier->spin));
	roami_assert(node->me != 0);
	head.base = clocks_encode(node, &clocks, &barrier->floor, &barrier->merged);
	parts[1].bytes = clocks.floor_bytes;
	parts[3].bytes = clocks.seen_bytes;
	roami_log_known(node, parent, &known);
	/*
	 * The clock is what the subtree's nodes had seen together, of which the log may have only
	 * their own notices.  Along a tree all nodes take part, so the root has them all.
	 */
	roami_log_ahead(node, parent, &known, &barrier->merged,
			barrier->tree && tree_children(node) == 0);
	roami_msg_send(node, parent, barrier_type(node, BARRIER_ARRIVE), parts, 4);
}

/* In threads: a node that comes by leg brings all of its own, as many as any other node has. */
static unsigned barrier_arrived(const struct roami_node *node, const struct roami_barrier *barrier)
{
	return (barrier->children + barrier->self) * (barrier->expected / node->nodes) +
	       (unsigned)barrier->waiting.count;
}

unsigned roami_barrier_lacks(const struct roami_node *node, unsigned expected)
{
	unsigned left = 0, gone = ROAM_NOBODY;

	for (unsigned peer = 0; peer < node->nodes; peer++) {
		const struct roami_ctl *ctl = node->segments[peer].ctl;

		if (atomic_load(&ctl->returned))
			gone = peer;
		else
			left += atomic_load(&ctl->threads);
	}
	return left < expected ? gone : ROAM_NOBODY;
}

void roami_barrier_fail(struct roami_node *node, uint64_t id, unsigned gone)
{
	char name[ROAMI_SYNC_NAME_BYTES];

	roami_sync_name(id, "at barrier ", name);
	roami_node_fail(node, "threads wait %s for node %u, which has ended", name, gone);
}

/*
 * Fails if threads wait here and fewer are left in the job than the barrier is for.  The spin is
 * held: a node that has left the barrier before it ended is not missing.
 */
static void barrier_hopeless(struct roami_node *node, const struct roami_barrier *barrier)
{
	unsigned gone;

	roami_contract(roami_spin_held(&barrier->spin));
	if (barrier->id == ROAMI_END_ID || barrier_arrived(node, barrier) == 0)
		return;
	gone = roami_barrier_lacks(node, barrier->expected);
	if (gone != ROAM_NOBODY)
		roami_barrier_fail(node, barrier->id, gone);
}

void roami_barrier_ended(struct roami_node *node)
{
	struct roami_table *table = &sync_of(node)->barriers;

	for (uint32_t i = 0; i < table->count; i++) {
		struct roami_barrier *barrier = roami_table_item(table, i);

		roami_spin_lock(node, &barrier->spin);
		barrier_hopeless(node, barrier);
		roami_spin_unlock(&barrier->spin);
	}
}

static void barrier_handle_ended(struct roami_node *node, const struct roam_request *request)
{
	roami_contract(roami_msg_polling(node));
	(void)request;
	roami_barrier_ended(node);
}

/*
 * This node ends.  Each node that counts arrivals looks whether they wait for it: this node, which
 * saw them arrive before; node 0; and in a tree the inner nodes above, as the arrivals at the end
 * pass them.
 */
void roami_barrier_tell_end(struct roami_node *node)
{
	roami_barrier_ended(node);
	if (node->options->barrier_tree == ROAMI_BARRIER_TREE && node->me != 0)
		roami_msg_send(node, 0, barrier_type(node, BARRIER_ENDED), NULL, 0);
}

/* If all have arrived: goes up the tree, or, at node 0, departs.  The barrier's spin is held. */
static void barrier_check(struct roami_node *node, struct roami_barrier *barrier)
{
	roami_contract(roami_spin_held(&barrier->spin));
	if (barrier->tree ? !barrier->self || barrier->children != tree_children(node)
			  : barrier_arrived(node, barrier) != barrier->expected) {
		barrier_hopeless(node, barrier);
		return;
	}
	if (node->me == 0) {
		barrier_depart(node, barrier);
		return;
	}
	barrier->self = false;
	barrier->children = 0;
	arrive_send(node, barrier);
}

/* Counts an arrival's bounds in: the first sets them, the others lower and raise them. */
static void barrier_bounds(struct roami_node *node, struct roami_barrier *barrier, unsigned from,
			   uint32_t threads, const struct roami_vclock *floor,
			   const struct roami_vclock *seen)
{
	roami_contract(roami_spin_held(&barrier->spin));
	roami_contract(from < node->nodes);
	if (barrier_arrived(node, barrier) == 0) {
		roami_vclock_copy(&barrier->floor, floor, node->nodes);
		roami_vclock_copy(&barrier->merged, seen, node->nodes);
		barrier->expected = threads;
	}
	if (barrier->expected != threads)
		roami_barrier_differs(node, barrier->id, barrier->expected, threads);
	roami_vclock_min(&barrier->floor, floor, node->nodes);
	roami_vclock_merge(&barrier->merged, seen, node->nodes);
	barrier->here[from] = true;
}

/* -------------------------------------------------------------------------------------- parsing */

struct barrier_leg {
	struct barrier_head head;
	const uint8_t *at, *end; /* its clocks, its values between them */
	const uint8_t *values;
	struct roami_vclock floor;
	struct roami_vclock seen;
};

/* Checks what a leg begins with. */
static void leg_read(struct roami_node *node, unsigned from, const void *data, size_t bytes,
		     struct barrier_leg *leg)
{
	roami_contract(from < node->nodes);
	leg->at = data;
	leg->end = leg->at + bytes;
	memset(&leg->head, 0, sizeof(leg->head));
	if (bytes >= sizeof(leg->head))
		memcpy(&leg->head, leg->at, sizeof(leg->head));
	if (bytes < sizeof(leg->head) || leg->head.values > ROAM_REDUCE_MAX ||
	    leg->head.type > ROAM_DOUBLE || leg->head.mode > MODE_TREE || leg->head.op > ROAM_OR)
		roami_node_fail(node, "node %u sent a malformed barrier message", from);
	leg->at += sizeof(leg->head);
}

/* Decodes the leg's clocks onto leg->floor and leg->seen, and finds its values. */
static void leg_clocks(struct roami_node *node, unsigned from, struct barrier_leg *leg)
{
	size_t value_bytes = leg->head.values * sizeof(uint64_t), used;

	roami_contract(leg->head.values <= ROAM_REDUCE_MAX);
	used = roami_vclock_decode(&leg->floor, node->nodes, leg->at, (size_t)(leg->end - leg->at));
	leg->at += used;
	leg->values = leg->at;
	if (used == 0 || (size_t)(leg->end - leg->at) <= value_bytes)
		roami_node_fail(node, "node %u sent a malformed barrier message", from);
	leg->at += value_bytes;
	used = roami_vclock_decode(&leg->seen, node->nodes, leg->at, (size_t)(leg->end - leg->at));
	if (used == 0 || leg->at + used != leg->end)
		roami_node_fail(node, "node %u sent a malformed barrier message", from);
}

/*
 * The clocks of a departure; `applied`: this node's, when it arrived.  What the arrived know
 * together and the departure does not name is what this node had applied already.
 */
static void depart_read(struct roami_node *node, struct barrier_leg *leg,
			const struct roami_vclock *applied)
{
	roami_log_bases(node, leg->head.base - 1, &leg->floor, NULL);
	roami_vclock_copy(&leg->seen, applied, node->nodes);
	leg_clocks(node, 0, leg);
	roami_log_saw(node, &leg->seen);
	if (leg->head.mode != 0)
		roami_log_base_set(node, &leg->seen, leg->head.base);
}

/* --------------------------------------------------------------------------------------- calls */

/*
 * Forgets the notices that every node has applied.  The node that sent the departure knows what it
 * told; the departures of the others may still be on their way.
 */
static void barrier_learn(struct roami_node *node, const struct roam_sync *sync, unsigned from,
			  const struct roami_vclock *seen, const struct roami_vclock *floor)
{
	roami_contract(from < node->nodes);
	if (sync->full)
		roami_log_met(node, seen);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		roami_log_know(node, peer, peer == from ? seen : floor);
	roami_log_trim(node, floor);
}

/*
 * A node of one thread, in a barrier of as many threads as nodes, or a team in a barrier of all:
 * one message up, one down.  Along the tree only if every node comes that way: others' calls go
 * past the tree.
 */
static void barrier_by_leg(struct roami_node *node, struct roami_barrier *barrier, unsigned threads,
			   const struct roam_sync *sync, bool tree)
{
	struct roami_barrier_wait wait = {&barrier->departed, atomic_load(&barrier->departed)};
	struct roami_vclock clock, seen;

	roami_contract(threads == node->nodes * sync_of(node)->team);
	roami_release(node, sync);
	roami_log_clock(node, &clock);
	roami_log_seen(node, &seen);
	roami_spin_lock(node, &barrier->spin);
	barrier->tree = tree;
	barrier_bounds(node, barrier, node->me, threads, &clock, &seen);
	if (node->me == 0 || barrier->tree) {
		barrier->self = true;
		barrier_check(node, barrier);
	} else {
		arrive_send(node, barrier);
	}
	roami_spin_unlock(&barrier->spin);
	roami_release_rest(node);
	roami_barrier_await(node, &wait);
	roami_acquire(node, sync);
	if (barrier->depart_all)
		barrier_learn(node, sync, barrier_parent(node, tree), &barrier->depart_seen,
			      &barrier->depart_floor);
}

/*
 * Each thread calls node 0, which answers when all are there: a thread of this node may be in the
 * next episode while another one's departure from the last is on its way, so nothing is counted
 * per node.
 */
static void barrier_by_call(struct roami_node *node, uint64_t id, unsigned threads,
			    const struct roam_sync *sync)
{
	struct barrier_head head = {id, threads, MODE_CALL, 0, 0, 0, 0};
	struct roami_vclock clock, known, seen;
	struct barrier_clocks clocks;
	struct roam_part parts[3] = {
		{&head, sizeof(head)}, {&clocks.floor, 0}, {&clocks.seen, 0}};
	uint8_t answer[sizeof(head) + 2 * ROAMI_VCLOCK_BYTES_MAX];
	struct barrier_leg leg;
	struct roami_call *call;
	uint64_t start = roami_os_cycles();

	roami_release(node, sync);
	roami_log_clocks(node, &seen, &clock);
	roami_log_known(node, 0, &known);
	roami_log_ahead(node, 0, &known, &seen, false);
	head.base = clocks_encode(node, &clocks, &clock, &seen);
	parts[1].bytes = clocks.floor_bytes;
	parts[2].bytes = clocks.seen_bytes;
	call = roami_msg_call_start(node, 0, barrier_type(node, BARRIER_ARRIVE), parts, 3, answer,
				    sizeof(answer));
	roami_release_rest(node);
	leg_read(node, 0, answer, roami_msg_call_end(node, call), &leg);
	ROAMI_TIME(node->stats, barrier, roami_os_cycles() - start);
	depart_read(node, &leg, &clock);
	roami_acquire(node, sync);
	if (leg.head.mode != 0)
		barrier_learn(node, sync, 0, &leg.seen, &leg.floor);
}

static void messages_wait(struct roami_node *node, struct roami_barrier *barrier, unsigned threads,
			  const struct roam_sync *sync, bool tree)
{
	bool alone = atomic_load(&node->self->ctl->threads) == 1 && threads == node->nodes;

	if (sync->full && (alone || sync_of(node)->team > 1))
		barrier_by_leg(node, barrier, threads, sync, tree);
	else
		barrier_by_call(node, barrier->id, threads, sync);
}

static void messages_reduce(struct roami_node *node, struct roami_barrier *barrier,
			    const struct roam_sync *sync)
{
	barrier_by_leg(node, barrier, node->nodes * sync_of(node)->team, sync, false);
}

const struct roami_barrier_mode roami_barrier_by_messages = {messages_wait, messages_reduce};

/* ------------------------------------------------------------------------------------ handlers */

/*
 * A thread that called.  Its notices came ahead and were complete: so is the log now, up to what
 * the caller had seen.
 */
static void call_arrive(struct roami_node *node, struct roami_barrier *barrier,
			const struct roam_request *request, const struct barrier_leg *leg)
{
	struct roami_vec *waiting = &barrier->waiting;
	struct barrier_waiter *waiter = roami_os_vec_grow(waiting, sizeof(*waiter), 1);

	roami_contract(roami_spin_held(&barrier->spin));
	roami_assert(node->me == 0);
	if (waiter == NULL)
		roami_node_fail(node, "no memory for threads that wait at a barrier");
	waiter->request = *request;
	roami_vclock_copy(&waiter->clock, &leg->floor, node->nodes);
	waiting->count++;
}

static void barrier_handle_arrive(struct roami_node *node, const struct roam_request *request)
{
	struct barrier_leg leg;
	struct roami_barrier *barrier;

	roami_contract(roami_msg_polling(node));
	leg_read(node, request->from, request->data, request->bytes, &leg);
	roami_log_bases(node, leg.head.base, &leg.floor, &leg.seen);
	leg_clocks(node, request->from, &leg);
	if (leg.head.mode != MODE_CALL &&
	    (leg.head.threads == 0 || leg.head.threads % node->nodes != 0))
		roami_node_fail(node, "node %u sent a malformed barrier message", request->from);
	barrier = roami_barrier_make(node, leg.head.id);
	roami_spin_lock(node, &barrier->spin);
	barrier_bounds(node, barrier, request->from, leg.head.threads, &leg.floor, &leg.seen);
	if (leg.head.mode == MODE_CALL) {
		barrier->tree = false;
		call_arrive(node, barrier, request, &leg);
	} else {
		barrier->tree = leg.head.mode == MODE_TREE;
		barrier->by_leg[request->from] = true;
		roami_vclock_copy(&barrier->child[request->from].floor, &leg.floor, node->nodes);
		memcpy(barrier->child[request->from].values, leg.values,
		       leg.head.values * sizeof(uint64_t));
		barrier->children++;
	}
	barrier_check(node, barrier);
	roami_spin_unlock(&barrier->spin);
	if (leg.head.id == ROAMI_END_ID)
		roami_barrier_ended(node);
}

/* Threads that still wait there wait for the next ones to arrive. */
void roami_barrier_forget(struct roami_node *node, void *item)
{
	struct roami_barrier *barrier = item;

	atomic_store(&barrier->announced, 0);
	roami_spin_lock(node, &barrier->spin);
	barrier->self = false;
	barrier->children = 0;
	memset(barrier->here, 0, sizeof(barrier->here));
	memset(barrier->by_leg, 0, sizeof(barrier->by_leg));
	roami_os_vec_free(&barrier->waiting, sizeof(struct barrier_waiter));
	if (node->me == 0 && barrier->record != NULL) {
		roami_spin_lock(node, &barrier->record->spin);
		barrier->record->arrived = 0;
		roami_spin_unlock(&barrier->record->spin);
	}
	roami_spin_unlock(&barrier->spin);
}

static void barrier_handle_depart(struct roami_node *node, const struct roam_request *request)
{
	struct barrier_leg leg;
	struct roami_barrier *barrier;
	struct roami_vclock applied;

	roami_contract(roami_msg_polling(node));
	leg_read(node, request->from, request->data, request->bytes, &leg);
	barrier = roami_barrier_make(node, leg.head.id);
	/* This node's only thread, or its team, waits for the departure. */
	roami_log_clock(node, &applied);
	depart_read(node, &leg, &applied);
	roami_spin_lock(node, &barrier->spin);
	barrier->depart_base = leg.head.base;
	barrier->depart_bytes = (size_t)(leg.values - (const uint8_t *)request->data) -
				sizeof(leg.head);
	memcpy(&barrier->depart_wire, (const uint8_t *)request->data + sizeof(leg.head),
	       barrier->depart_bytes);
	roami_vclock_copy(&barrier->depart_floor, &leg.floor, node->nodes);
	roami_vclock_copy(&barrier->depart_seen, &leg.seen, node->nodes);
	barrier->depart_all = leg.head.mode != 0;
	memcpy(barrier->own, leg.values, leg.head.values * sizeof(uint64_t));
	barrier->values = leg.head.values;
	if (barrier->tree)
		tree_depart(node, barrier);
	atomic_fetch_add(&barrier->departed, 1);
	roami_spin_unlock(&barrier->spin);
}

static const struct roam_message barriers_messages[] = {
	[BARRIER_ARRIVE] = {"arrive", barrier_handle_arrive, 2048},
	[BARRIER_DEPART] = {"depart", barrier_handle_depart, 2048},
	[BARRIER_ENDED] = {"ended", barrier_handle_ended, 0},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_barriers = {.name = "barriers", .messages = barriers_messages};
