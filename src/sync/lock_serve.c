/*
 * Handlers of locks, and what becomes of locks at the end of a node, a thread or a block.
 *
 * Under ScC the token brings the lock's list of notices instead of a clock (scope.h), always by
 * message.
 */
#include <string.h>

#include "msg/msg.h"
#include "sync/lock.h"
#include "sync/lock_thin.h"
#include "sync/log.h"

void roami_lock_abandoned(struct roami_node *node, const struct roami_lock *lock, unsigned next)
{
	roami_contract(roami_spin_held(&lock->spin));
	if (lock->holder != 0 && next != ROAM_NOBODY && atomic_load(&node->self->ctl->returned))
		roami_node_fail(node, "ended holding lock %#llx, which node %u waits for",
				(unsigned long long)lock->id, next);
}

/* fn(node, lock, arg) for each lock that a thread here holds, under its spin, until it is true. */
static bool locks_held(struct roami_node *node,
		       bool (*fn)(struct roami_node *node, struct roami_lock *lock, uint32_t arg),
		       uint32_t arg)
{
	struct roami_table *table = &sync_of(node)->locks;
	uint32_t count = atomic_load(&table->count);
	bool found = false;

	for (uint32_t i = 0; i < count && !found; i++) {
		struct roami_lock *lock = roami_table_item(table, i);

		roami_spin_lock(node, &lock->spin);
		found = roami_lock_holder(lock) != 0 && fn(node, lock, arg);
		roami_spin_unlock(&lock->spin);
	}
	return found;
}

static bool held_ends(struct roami_node *node, struct roami_lock *lock, uint32_t arg)
{
	(void)arg;
	lock->mode->ends(node, lock);
	return false;
}

/* `holder` 0: by any thread. */
static bool held_is(struct roami_node *node, struct roami_lock *lock, uint32_t holder)
{
	(void)node;
	return holder == 0 || roami_lock_holder(lock) == holder;
}

void roami_lock_check_end(struct roami_node *node)
{
	roami_assert(atomic_load(&node->self->ctl->returned) != 0);
	locks_held(node, held_ends, 0);
}

bool roami_lock_holds(struct roami_node *node, unsigned thread)
{
	roami_assert(thread < ROAMI_THREADS_MAX);
	return locks_held(node, held_is, thread + 1);
}

bool roami_locks_held(struct roami_node *node)
{
	return locks_held(node, held_is, 0);
}

void roami_lock_forget(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;

	atomic_store(&lock->announced, 0);
	roami_spin_lock(node, &lock->spin);
	roami_thin_whole(node, lock);
	if (lock->holder != 0 && roami_lock_let_go(node, lock, false))
		roami_changed_ticket(node, lock->serving);
	roami_spin_unlock(&lock->spin);
}

static void lock_parse(struct roami_node *node, const struct roam_request *request,
		       struct lock_request *ask, struct roami_vclock *clock)
{
	size_t clock_bytes = request->bytes - sizeof(*ask);

	roami_contract(roami_msg_polling(node));
	if (request->bytes <= sizeof(*ask))
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
	memcpy(ask, request->data, sizeof(*ask));
	roami_log_bases(node, ask->base, clock, NULL);
	if (ask->node >= node->nodes ||
	    roami_vclock_decode(clock, node->nodes, (const uint8_t *)request->data + sizeof(*ask),
				clock_bytes) != clock_bytes)
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
}

static void lock_handle_request(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roam_part part = {request->data, request->bytes};
	struct roami_lock *lock;
	unsigned tail;

	lock_parse(node, request, &ask, &clock);
	lock = roami_lock_find(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	roami_lock_resolve(node, lock);
	if (lock->record != NULL)
		roami_node_fail(node, "node %u requests lock %#llx by message, not in its record",
				request->from, (unsigned long long)ask.id);
	tail = roami_lock_swap_tail(lock, ask.node);
	roami_spin_unlock(&lock->spin);
	roami_msg_send(node, tail, roami_lock_type(node, LOCK_FORWARD), &part, 1);
}

static void lock_handle_forward(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roami_lock *lock;

	lock_parse(node, request, &ask, &clock);
	lock = roami_lock_find(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	roami_lock_abandoned(node, lock, ask.node);
	if (lock->record != NULL) { /* linked: only told because this node has ended */
		roami_spin_unlock(&lock->spin);
		return;
	}
	if (lock->next != ROAM_NOBODY || ask.node == node->me)
		roami_node_fail(node, "lock %#llx: two nodes follow this one in its queue",
				(unsigned long long)ask.id);
	lock->next = (uint16_t)ask.node;
	memcpy(lock->next_clock, clock.at, node->nodes * sizeof(clock.at[0]));
	lock->next_number = ask.number;
	lock->next_after = lock->tickets;
	if (lock->token && lock->serving == lock->tickets) {
		roami_lock_grant(node, lock);
		lock->asked = false;
	} else if (ask.trying != 0) {
		struct roam_part part = {&ask.id, sizeof(ask.id)};

		roami_msg_send(node, ask.node, roami_lock_type(node, LOCK_BUSY), &part, 1);
	}
	roami_spin_unlock(&lock->spin);
}

/* The lock that this node tried to get does not come at once. */
static void lock_handle_busy(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(id))
		roami_node_fail(node, "node %u sent a malformed answer about a lock",
				request->from);
	memcpy(&id, request->data, sizeof(id));
	lock = roami_lock_find(node, id);
	roami_spin_lock(node, &lock->spin);
	lock->busy = true;
	roami_spin_unlock(&lock->spin);
}

static void lock_handle_notices(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes < sizeof(id))
		roami_node_fail(node, "node %u sent malformed lock notices", request->from);
	memcpy(&id, request->data, sizeof(id));
	lock = roami_lock_find(node, id);
	roami_spin_lock(node, &lock->spin);
	roami_scope_learn(node, &lock->scope, request, sizeof(id));
	roami_spin_unlock(&lock->spin);
}

static void lock_handle_grant(struct roami_node *node, const struct roam_request *request)
{
	struct roami_vclock clock = {{0}};
	struct roami_lock *lock;
	struct lock_grant grant;
	bool waiters = false;

	roami_contract(roami_msg_polling(node));
	if (request->bytes <= sizeof(grant) ||
	    roami_vclock_decode(&clock, node->nodes, (const uint8_t *)request->data + sizeof(grant),
				request->bytes - sizeof(grant)) != request->bytes - sizeof(grant))
		roami_node_fail(node, "node %u sent a malformed lock grant", request->from);
	memcpy(&grant, request->data, sizeof(grant));
	roami_log_saw(node, &clock);
	lock = roami_lock_find(node, grant.id);
	roami_spin_lock(node, &lock->spin);
	if (lock->token || !lock->asked)
		roami_node_fail(node, "node %u granted lock %#llx, which was not requested",
				request->from, (unsigned long long)grant.id);
	lock->scope.number = grant.number;
	lock->token = true;
	lock->asked = false;
	lock->fresh = true;
	if (lock->serving == lock->tickets ||
	    (lock->next != ROAM_NOBODY && lock->serving == lock->next_after))
		waiters = roami_lock_pass_on(node, lock, false); /* all have given up */
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
}

static void lock_handle_call(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(id))
		roami_node_fail(node, "node %u sent a malformed call for a lock", request->from);
	memcpy(&id, request->data, sizeof(id));
	lock = roami_lock_find(node, id);
	roami_spin_lock(node, &lock->spin);
	roami_lock_resolve(node, lock);
	if (lock->record == NULL)
		roami_node_fail(node, "node %u calls for lock %#llx, which has no record",
				request->from, (unsigned long long)id);
	roami_lock_called(node, lock);
	roami_spin_unlock(&lock->spin);
}

static const struct roam_message locks_messages[] = {
	[LOCK_REQUEST] = {"lock request", lock_handle_request, 1024},
	[LOCK_FORWARD] = {"lock forward", lock_handle_forward, 1024},
	[LOCK_NOTICES] = {"lock notices", lock_handle_notices, ROAMI_MSG_MAX},
	[LOCK_GRANT] = {"lock grant", lock_handle_grant, 1024},
	[LOCK_BUSY] = {"lock busy", lock_handle_busy, 8},
	[LOCK_CALL] = {"lock call", lock_handle_call, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_locks = {.name = "locks", .messages = locks_messages};
