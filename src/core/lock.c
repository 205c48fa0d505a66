/*
 * Distributed queue locks (RULES 5.1): request -> home (swap of the tail) -> the previous tail ->
 * grant straight to the requester. A node that holds the token serves its own threads without a
 * message, those first that came before a forward arrived.
 */
#include <string.h>

#include "core/log.h"
#include "core/sync.h"
#include "core/sync_state.h"
#include "msg/msg.h"

/* What request and forward carry, before the requester's clock. */
struct lock_request {
	uint64_t id;
	uint32_t node;
	uint32_t spare;
};

struct lock_wait {
	struct roami_node *node;
	struct roami_lock *lock;
	uint32_t ticket;
	uint32_t refusals; /* when it asked */
};

void roami_lock_make(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;
	bool announced = lock->announced;
	uint64_t id = lock->id;

	memset(lock, 0, sizeof(*lock));
	lock->id = id;
	lock->announced = announced;
	lock->tail = (uint16_t)roami_sync_home(node, id);
	lock->token = lock->tail == node->me;
	lock->next = ROAM_NOBODY;
}

static struct roami_lock *lock_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &node->sync->locks, id);
}

/* -------------------------------------------------------------------------------------- grants */

/* Sends the token to `next`, with the notices it lacks; the lock's spin is held.  Any thread. */
static void lock_grant(struct roami_node *node, struct roami_lock *lock)
{
	struct roam_part part = {&lock->id, sizeof(lock->id)};
	unsigned next = lock->next;

	roami_assert(lock->token && next != ROAM_NOBODY);
	lock->token = false;
	lock->next = ROAM_NOBODY;
	roami_log_know(node, next, &lock->next_clock);
	roami_log_send(node, next, &lock->next_clock, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_GRANT,
		       &part, 1);
}

/* Asks the home for the token; the lock's spin is held. */
static void lock_ask(struct roami_node *node, struct roami_lock *lock)
{
	struct lock_request request = {lock->id, node->me, 0};
	struct roami_vclock clock;
	struct roam_part parts[2] = {{&request, sizeof(request)},
				     {clock.at, node->nodes * sizeof(clock.at[0])}};

	unsigned home = roami_sync_home(node, lock->id), tail = lock->tail;

	lock->asked = true;
	roami_log_clock(node, &clock);
	if (home != node->me) {
		roami_msg_send(node, home, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_REQUEST, parts, 2);
		return;
	}
	/* We are the home: straight to the previous tail, without a message to ourselves. */
	roami_assert(tail != node->me);
	lock->tail = (uint16_t)node->me;
	roami_msg_send(node, tail, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_FORWARD, parts, 2);
}

/* The next own ticket may hold now? */
static bool lock_may_hold(const struct roami_lock *lock, uint32_t ticket)
{
	return lock->token && lock->serving == ticket && lock->holder == 0 &&
	       !(lock->next != ROAM_NOBODY && ticket == lock->next_after);
}

static bool lock_turn(void *arg)
{
	struct lock_wait *wait = arg;
	bool turn;

	roami_spin_lock(wait->node, &wait->lock->spin);
	turn = lock_may_hold(wait->lock, wait->ticket) || wait->lock->refusals != wait->refusals;
	roami_spin_unlock(&wait->lock->spin);
	return turn;
}

/* --------------------------------------------------------------------------------------- calls */

enum roam_err roami_lock_init(struct roami_node *node, uint64_t id)
{
	unsigned home = roami_sync_home(node, id);
	struct roam_part part = {&id, sizeof(id)};
	struct roami_lock *lock;

	lock = lock_make(node, id);
	lock->announced = true;
	if (home != node->me)
		roami_msg_call(node, home, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_INIT, &part, 1, NULL,
			       0);
	return ROAM_OK;
}

/*
 * Takes the lock for the calling thread if its turn has come; the acquire is still to be done if
 * *fresh_p.
 */
static bool lock_take(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
		      bool *fresh_p)
{
	bool mine;

	roami_spin_lock(node, &lock->spin);
	mine = lock_may_hold(lock, ticket);
	if (mine) {
		lock->holder = node->env->thread(node) + 1;
		*fresh_p = lock->fresh;
		lock->fresh = false;
	}
	roami_spin_unlock(&lock->spin);
	return mine;
}

enum roam_err roami_lock(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = lock_make(node, id);
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id};
	struct lock_wait wait = {node, lock, 0, 0};
	bool fresh = false;

	roami_spin_lock(node, &lock->spin);
	if (lock->holder == node->env->thread(node) + 1) {
		roami_spin_unlock(&lock->spin);
		return ROAM_ESTATE;
	}
	if (!lock->announced && roami_sync_home(node, id) == node->me) {
		roami_spin_unlock(&lock->spin);
		return ROAM_ENOTINIT;
	}
	wait.refusals = lock->refusals;
	wait.ticket = lock->tickets++;
	if (!lock->token && !lock->asked)
		lock_ask(node, lock);
	roami_spin_unlock(&lock->spin);
	if (!lock_take(node, lock, wait.ticket, &fresh)) {
		uint64_t start = roami_os_cycles();

		roami_node_waits(node, ROAM_SYNC_LOCK, id);
		do {
			if (lock->refusals != wait.refusals) {
				roami_node_waits_no_more(node);
				return ROAM_ENOTINIT;
			}
			roami_wait(node, lock_turn, &wait);
		} while (!lock_take(node, lock, wait.ticket, &fresh));
		roami_node_waits_no_more(node);
		ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	}
	ROAMI_COUNT(node->stats, lock_acquires, 1);
	if (fresh) {
		ROAMI_COUNT(node->stats, lock_remote, 1);
		roami_acquire(node, &sync);
	}
	return ROAM_OK;
}

enum roam_err roami_unlock(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(node, &node->sync->locks, id);
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id};
	bool waiters;

	if (lock == NULL || lock->holder != node->env->thread(node) + 1)
		return ROAM_ENOTHELD;
	roami_release(node, &sync);
	roami_spin_lock(node, &lock->spin);
	lock->holder = 0;
	lock->serving++;
	waiters = lock->tickets != lock->serving;
	if (lock->next != ROAM_NOBODY && lock->serving == lock->next_after) {
		lock_grant(node, lock);
		lock->asked = false;
		if (waiters)
			lock_ask(node, lock);
	}
	roami_spin_unlock(&lock->spin);
	if (waiters)
		node->env->notify(node);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

/* A held lock somebody waits for, at a node that has ended: nobody will ever unlock it. */
static void lock_abandoned(struct roami_node *node, const struct roami_lock *lock)
{
	if (atomic_load(&node->self->ctl->returned))
		roami_node_fail(node, "ended holding lock %#llx, which node %u waits for",
				(unsigned long long)lock->id, lock->next);
}

void roami_lock_check_end(struct roami_node *node)
{
	struct roami_table *table = &node->sync->locks;

	for (uint32_t i = 0; i < table->count; i++) {
		struct roami_lock *lock = (void *)(table->items + i * table->item_bytes);

		roami_spin_lock(node, &lock->spin);
		if (lock->holder != 0 && lock->next != ROAM_NOBODY)
			lock_abandoned(node, lock);
		roami_spin_unlock(&lock->spin);
	}
}

void roami_lock_handle_init(struct roami_node *node, const struct roam_request *request)
{
	uint64_t id;

	if (request->bytes != sizeof(id))
		roami_node_fail(node, "node %u sent a malformed lock init", request->from);
	memcpy(&id, request->data, sizeof(id));
	lock_make(node, id)->announced = true;
	roami_reply(node, request, NULL, 0);
}

static void lock_parse(struct roami_node *node, const struct roam_request *request,
		       struct lock_request *ask, struct roami_vclock *clock)
{
	size_t clock_bytes = node->nodes * sizeof(clock->at[0]);

	if (request->bytes != sizeof(*ask) + clock_bytes)
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
	memcpy(ask, request->data, sizeof(*ask));
	memset(clock, 0, sizeof(*clock));
	memcpy(clock->at, (const uint8_t *)request->data + sizeof(*ask), clock_bytes);
	if (ask->node >= node->nodes)
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
}

void roami_lock_handle_request(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roam_part part = {request->data, request->bytes};
	struct roami_lock *lock;
	unsigned tail;

	lock_parse(node, request, &ask, &clock);
	lock = lock_make(node, ask.id);
	if (!lock->announced) {
		part.bytes = sizeof(ask);
		roami_msg_send(node, ask.node, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_REFUSE, &part, 1);
		return;
	}
	roami_spin_lock(node, &lock->spin);
	tail = lock->tail;
	lock->tail = (uint16_t)ask.node;
	roami_spin_unlock(&lock->spin);
	roami_msg_send(node, tail, ROAMI_TYPE_SYNC + ROAMI_SYNC_LOCK_FORWARD, &part, 1);
}

void roami_lock_handle_forward(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roami_lock *lock;

	lock_parse(node, request, &ask, &clock);
	lock = lock_make(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	if (lock->next != ROAM_NOBODY || ask.node == node->me)
		roami_node_fail(node, "lock %#llx: two nodes were told to come next",
				(unsigned long long)ask.id);
	lock->next = (uint16_t)ask.node;
	lock->next_clock = clock;
	lock->next_after = lock->tickets;
	if (lock->holder != 0)
		lock_abandoned(node, lock);
	if (lock->token && lock->serving == lock->tickets) {
		lock_grant(node, lock);
		lock->asked = false;
	}
	roami_spin_unlock(&lock->spin);
}

void roami_lock_handle_grant(struct roami_node *node, const struct roam_request *request)
{
	struct roami_vclock clock = {{0}};
	struct roami_lock *lock;
	uint64_t id;

	if (request->bytes != sizeof(id) + node->nodes * sizeof(clock.at[0]))
		roami_node_fail(node, "node %u sent a malformed grant", request->from);
	memcpy(&id, request->data, sizeof(id));
	memcpy(clock.at, (const uint8_t *)request->data + sizeof(id),
	       node->nodes * sizeof(clock.at[0]));
	roami_log_saw(node, &clock);
	lock = lock_make(node, id);
	roami_spin_lock(node, &lock->spin);
	if (lock->token || !lock->asked)
		roami_node_fail(node, "node %u granted lock %#llx unasked", request->from,
				(unsigned long long)id);
	lock->token = true;
	lock->asked = false;
	lock->fresh = true;
	roami_spin_unlock(&lock->spin);
}

void roami_lock_handle_refuse(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_lock *lock;

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u sent a malformed refusal", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	lock = lock_make(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	lock->refusals++;
	lock->tickets = lock->serving; /* all who asked give up */
	lock->asked = false;
	roami_spin_unlock(&lock->spin);
}
