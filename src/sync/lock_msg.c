/*
 * The queue of a lock by messages (rule 5.1): a request goes to the home, which swaps the tail and
 * sends it on to the previous one; that node keeps it as `next` until it unlocks (lock.c).
 */
#include <string.h>

#include "msg/msg.h"
#include "sync/lock.h"
#include "sync/log.h"

void roami_lock_grant(struct roami_node *node, struct roami_lock *lock)
{
	static const struct roami_vclock nothing;
	struct lock_grant grant = {lock->id, lock->scope.number};
	struct roam_part part = {&grant, sizeof(grant)};
	unsigned next = lock->next;
	struct roami_vclock clock;

	roami_contract(roami_spin_held(&lock->spin));
	roami_assert(lock->token && lock->record == NULL && next != ROAM_NOBODY);
	memcpy(clock.at, lock->next_clock, node->nodes * sizeof(clock.at[0]));
	lock->token = false;
	lock->next = ROAM_NOBODY;
	roami_log_know(node, next, &clock);
	if (roami_scoped(node)) {
		roami_scope_send(node, next, roami_lock_type(node, LOCK_NOTICES),
				 lock->id, &lock->scope, lock->next_number);
		roami_log_send_upto(node, next, &nothing, &nothing,
				    roami_lock_type(node, LOCK_GRANT), &part, 1);
		return;
	}
	roami_log_send(node, next, &clock, roami_lock_type(node, LOCK_GRANT), &part, 1);
}

void roami_lock_send(struct roami_node *node, const struct roami_lock *lock, unsigned to,
		     unsigned message, bool trying)
{
	struct lock_request request = {lock->id, node->me, trying, lock->scope.number, 0};
	struct roami_vclock_wire wire;
	struct roam_part parts[2] = {{&request, sizeof(request)}, {&wire, 0}};
	struct roami_vclock clock, base;

	roami_contract(roami_spin_held(&lock->spin));
	request.base = roami_log_base(node, &base);
	roami_log_clock(node, &clock);
	parts[1].bytes = roami_vclock_encode(&clock, &base, node->nodes, &wire);
	roami_msg_send(node, to, roami_lock_type(node, message), parts, 2);
}

unsigned roami_lock_swap_tail(struct roami_lock *lock, unsigned asker)
{
	unsigned tail = lock->tail;

	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
	lock->tail = (uint16_t)asker;
	return tail;
}

static void messages_ask(struct roami_node *node, struct roami_lock *lock, enum roami_lock_ask how)
{
	unsigned home = roami_sync_home(node, lock->id);
	bool trying = how == ROAMI_ASK_TRY;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(!lock->token && !lock->asked);
	lock->asked = true;
	lock->busy = false;
	if (home != node->me) {
		roami_lock_send(node, lock, home, LOCK_REQUEST, trying);
		return;
	}
	/* The tail is this node's to swap: the request goes straight to the previous one. */
	roami_assert(lock->tail != node->me);
	roami_lock_send(node, lock, roami_lock_swap_tail(lock, node->me), LOCK_FORWARD,
			trying);
}

/* A node that follows says so by message, before the unlock or after it. */
static void messages_pass(struct roami_node *node, struct roami_lock *lock, bool waiters,
			  bool again)
{
	(void)again;
	(void)node;
	(void)waiters;
	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
}

static void messages_ends(struct roami_node *node, struct roami_lock *lock)
{
	roami_lock_abandoned(node, lock, lock->next);
}

static void messages_give(struct roami_node *node, struct roami_lock *lock)
{
	roami_lock_grant(node, lock);
	lock->asked = false;
}

/* The token comes by itself, and goes on if no thread waits for it any more. */
static void messages_left(struct roami_node *node, struct roami_lock *lock)
{
	(void)node;
	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
}

const struct roami_lock_mode roami_lock_by_messages = {
	.ask = messages_ask, .pass = messages_pass, .give = messages_give, .left = messages_left,
	.ends = messages_ends, .due = roami_lock_due_here, .seek = roami_lock_seek_nothing};
