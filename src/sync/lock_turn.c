/*
 * Whose turn a lock is at this node: its threads by tickets, and the node that follows (rule 5.1).
 */
#include "sync/lock.h"

#define LEFT_RESERVED UINT32_MAX /* no thread's */

/* A ticket that its thread has given up, or that is reserved: no thread waits for its turn. */
struct lock_left {
	uint32_t thread;
	uint32_t ticket;
};

size_t roami_lock_item_bytes(unsigned nodes)
{
	return sizeof(struct roami_lock) + nodes * sizeof(uint64_t);
}

void roami_lock_make(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;

	roami_contract(roami_spin_held(&sync_of(node)->locks.lock));
	lock->tail = (uint16_t)roami_sync_home(node, lock->id);
	lock->next = ROAM_NOBODY;
}

void roami_lock_fini(void *item)
{
	struct roami_lock *lock = item;

	roami_scope_fini(&lock->scope);
	roami_os_vec_free(&lock->left, sizeof(struct lock_left));
}

struct roami_lock *roami_lock_find(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->locks, id);
}

void roami_lock_resolve(struct roami_node *node, struct roami_lock *lock)
{
	unsigned home = roami_sync_home(node, lock->id);

	roami_contract(roami_spin_held(&lock->spin));
	if (lock->mode != NULL)
		return;
	if (node->nodes > 1 && !roami_scoped(node))
		lock->record = roami_resolve_record(node, home, &sync_of(node)->lock_records,
						    lock->id);
	lock->token = lock->record == NULL && home == node->me;
	if (sync_of(node)->thin != NULL)
		lock->mode = &roami_lock_thin;
	else
		lock->mode = lock->record != NULL ? &roami_lock_in_record
						  : &roami_lock_by_messages;
}

void roami_lock_ready(struct roami_node *node, struct roami_lock *lock)
{
	roami_spin_lock(node, &lock->spin);
	roami_lock_resolve(node, lock);
	roami_spin_unlock(&lock->spin);
	roami_object_announce(node, lock->id, &lock->announced);
}

/* ------------------------------------------------------------------------------------- tickets */

/* The one that `thread` gave up, or else the first that is reserved; NULL. */
static struct lock_left *lock_left_for(struct roami_lock *lock, uint32_t thread)
{
	struct lock_left *left = (void *)lock->left.items, *first = NULL;

	for (size_t i = 0; i < lock->left.count; i++) {
		if (left[i].thread == thread)
			return &left[i];
		if (left[i].thread == LEFT_RESERVED &&
		    (first == NULL || (int32_t)(left[i].ticket - first->ticket) < 0))
			first = &left[i];
	}
	return first;
}

uint32_t roami_lock_ticket(struct roami_node *node, struct roami_lock *lock)
{
	struct lock_left *left = lock_left_for(lock, node->env->thread(node));
	uint32_t ticket;

	roami_contract(roami_spin_held(&lock->spin));
	if (left == NULL)
		return lock->tickets++;
	ticket = left->ticket;
	*left = ((struct lock_left *)(void *)lock->left.items)[--lock->left.count];
	return ticket;
}

/* Notes that no thread waits for the turn of this ticket. */
static void lock_leaves(struct roami_node *node, struct roami_lock *lock, uint32_t thread,
			uint32_t ticket)
{
	struct lock_left *left = roami_os_vec_grow(&lock->left, sizeof(*left), 1);

	roami_contract(roami_spin_held(&lock->spin));
	if (left == NULL)
		roami_node_fail(node, "no memory for threads that gave up a lock");
	*left = (struct lock_left){thread, ticket};
	lock->left.count++;
}

void roami_lock_reserve(struct roami_node *node, struct roami_lock *lock, unsigned tickets)
{
	const struct lock_left *left = (const void *)lock->left.items;
	unsigned reserved = 0;

	for (size_t i = 0; i < lock->left.count; i++)
		reserved += left[i].thread == LEFT_RESERVED;
	for (; reserved < tickets; reserved++)
		lock_leaves(node, lock, LEFT_RESERVED, lock->tickets++);
}

/* Passes over tickets given up whose turn has come, up to the turn of `next`.  The spin is held. */
static void lock_skip(struct roami_lock *lock)
{
	struct lock_left *left = (void *)lock->left.items;
	size_t i = 0;

	roami_contract(roami_spin_held(&lock->spin));
	while (i < lock->left.count) {
		if (left[i].ticket != lock->serving ||
		    (lock->next != ROAM_NOBODY && lock->serving == lock->next_after)) {
			i++;
			continue;
		}
		left[i] = left[--lock->left.count];
		lock->serving++;
		i = 0;
	}
}

bool roami_lock_pass_on(struct roami_node *node, struct roami_lock *lock, bool again)
{
	bool waiters;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	lock_skip(lock);
	waiters = lock->tickets != lock->serving;
	lock->mode->pass(node, lock, waiters, again);
	if (lock->next != ROAM_NOBODY && lock->serving == lock->next_after) {
		lock->mode->give(node, lock);
		lock_skip(lock);
		waiters = lock->tickets != lock->serving;
		if (waiters)
			lock->mode->ask(node, lock, ROAMI_ASK_LATER);
	}
	return waiters;
}

bool roami_lock_let_go(struct roami_node *node, struct roami_lock *lock, bool again)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	lock->holder = 0;
	lock->serving++;
	return roami_lock_pass_on(node, lock, again);
}

void roami_lock_leave(struct roami_node *node, struct roami_lock *lock, uint32_t ticket)
{
	bool waiters;

	roami_spin_lock(node, &lock->spin);
	if (ticket == lock->serving &&
	    !(lock->next != ROAM_NOBODY && ticket == lock->next_after)) {
		lock->serving++;
	} else {
		lock_leaves(node, lock, node->env->thread(node), ticket);
	}
	if (lock->token && lock->holder == 0) {
		waiters = roami_lock_pass_on(node, lock, false);
	} else {
		lock_skip(lock);
		waiters = lock->tickets != lock->serving;
	}
	if (!waiters)
		lock->mode->left(node, lock);
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
}

bool roami_lock_take(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
		     bool *fresh_p)
{
	roami_contract(lock->holder != node->env->thread(node) + 1);
	if (!roami_lock_may_hold(lock, ticket))
		return false;
	lock->holder = node->env->thread(node) + 1;
	*fresh_p = lock->fresh;
	lock->fresh = false;
	return true;
}

bool roami_lock_due_here(struct roami_lock_wait *wait)
{
	bool due;

	roami_spin_lock(wait->node, &wait->lock->spin);
	due = roami_lock_may_hold(wait->lock, wait->ticket);
	roami_spin_unlock(&wait->lock->spin);
	return due;
}

void roami_lock_seek_nothing(struct roami_lock_wait *wait)
{
	roami_contract(roami_spin_held(&wait->lock->spin) && wait->lock->record == NULL);
	wait->alarm = ROAMI_FOREVER;
}
