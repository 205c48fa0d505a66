/*
 * The queue of a lock by messages (rule 5.1): a request goes to the home, which swaps the tail and
 * sends it on to the previous one; that node keeps it as `next` until it unlocks (lock.c).
 */
#include "sync/lock.h"

unsigned roami_lock_swap_tail(struct roami_lock *lock, unsigned asker)
{
	unsigned tail = lock->tail;

	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
	lock->tail = (uint16_t)asker;
	return tail;
}

static void messages_ask(struct roami_node *node, struct roami_lock *lock, bool trying)
{
	unsigned home = roami_sync_home(node, lock->id);

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
static void messages_pass(struct roami_node *node, struct roami_lock *lock, bool waiters)
{
	(void)node;
	(void)waiters;
	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
}

/* The node that follows could take nothing by itself. */
static bool messages_keep(struct roami_node *node, struct roami_lock *lock)
{
	(void)node;
	roami_contract(roami_spin_held(&lock->spin) && lock->token);
	return false;
}

static bool messages_seize(struct roami_node *node, struct roami_lock *lock, bool hurry)
{
	(void)node;
	(void)hurry;
	roami_contract(roami_spin_held(&lock->spin) && !lock->token);
	return false;
}

static unsigned messages_follower(struct roami_node *node, const struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	(void)node;
	return lock->next;
}

const struct roami_lock_mode roami_lock_by_messages = {
	messages_ask, messages_pass, messages_keep, messages_seize, messages_follower};
