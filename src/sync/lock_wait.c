/* Threads that wait for a lock: first behind others of their node, then for the token. */
#include "sync/lock.h"

bool roami_lock_late(const struct roami_lock_wait *wait)
{
	return wait->until != ROAMI_FOREVER && wait->node->env->now(wait->node) >= wait->until;
}

/* The threads of this node that came before have had the lock. */
static bool lock_next(void *arg)
{
	struct roami_lock_wait *wait = arg;

	return atomic_load(&wait->lock->serving) == wait->ticket || roami_lock_late(wait);
}

/* What the queue's place says of the wait that is under way. */
static bool lock_due(void *arg)
{
	struct roami_lock_wait *wait = arg;

	return roami_lock_late(wait) || wait->lock->mode->due(wait);
}

/* What ends by itself is no hang. */
static void lock_shown(struct roami_lock_wait *wait)
{
	bool ends = wait->until != ROAMI_FOREVER || wait->doze != 0 || wait->nap != 0;

	if (wait->shown && wait->ends == ends)
		return;
	wait->shown = true;
	wait->ends = ends;
	roami_node_waits(wait->node, ROAM_SYNC_LOCK + 1, wait->lock->id,
			 ends ? ROAMI_WAITS_ENDS : 0);
}

/*
 * Takes the token if it may be had, and the lock if its turn has come.  A thread that comes too
 * late before its turn takes nothing: no other thread would look at the token.
 */
static bool lock_look(struct roami_lock_wait *wait, bool *fresh_p)
{
	struct roami_node *node = wait->node;
	struct roami_lock *lock = wait->lock;
	bool mine;

	roami_spin_lock(node, &lock->spin);
	if (atomic_load(&lock->serving) == wait->ticket)
		lock->mode->seek(wait);
	mine = roami_lock_take(node, lock, wait->ticket, fresh_p);
	roami_spin_unlock(&lock->spin);
	return mine;
}

bool roami_lock_await(struct roami_lock_wait *wait, bool *fresh_p)
{
	struct roami_node *node = wait->node;
	uint64_t start = roami_os_cycles();
	bool mine;

	lock_shown(wait);
	if (wait->until != ROAMI_FOREVER)
		roami_wait_until(node, wait->until);
	roami_wait_ticket(node, wait->ticket, lock_next, wait);
	for (;;) {
		mine = lock_look(wait, fresh_p);
		if (mine || roami_lock_late(wait))
			break;
		lock_shown(wait);
		roami_wait_until(node, wait->alarm < wait->until ? wait->alarm : wait->until);
		roami_wait(node, lock_due, wait);
	}
	roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	return mine;
}
