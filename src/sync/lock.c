/*
 * Distributed queue locks (rule 5.1): a node that holds the token serves its own threads without a
 * message.  The queue of nodes is kept in a record in shared memory (lock_shm.c) or by messages
 * (lock_msg.c).  The public calls are here.
 */
#include "sync/lock.h"
#include "sync/lock_thin.h"
#include "sync/lock_word.h"
#include "sync/sync.h"

/* The token came from another node: acquires. */
static void lock_begin(struct roami_node *node, struct roami_lock *lock,
		       const struct roam_sync *sync)
{
	roami_contract(lock->holder == node->env->thread(node) + 1);
	if (roami_scoped(node))
		roami_acquire_scope(node, sync, &lock->scope);
	else
		roami_acquire(node, sync);
}

/*
 * Returns the lock, with its spin held, if it may be taken or freed the short way; else NULL.
 * Under ScC, and for the race detector, sections begin and end with more steps.  A lock that
 * another node had last is refused soon, because the long way would do everything here again.
 */
static struct roami_lock *lock_short(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock;

	if (roami_scoped(node) || roami_race_checked(node))
		return NULL;
	lock = roami_table_find(&sync_of(node)->locks, id);
	if (lock == NULL || atomic_load_explicit(&lock->announced, memory_order_acquire) == 0)
		return NULL;
	roami_step(node);
	if (lock->record != NULL && !roami_lock_last_here(node, lock))
		return NULL;
	return roami_spin_try(&lock->spin) ? lock : NULL;
}

/* roami_lock_quick of a lock that is not thin. */
__attribute__((noinline)) static bool lock_whole_quick(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = lock_short(node, id);
	bool taken;

	if (lock == NULL)
		return false;
	if (!lock->token && !lock->asked && lock->record != NULL &&
	    lock->tickets == lock->serving)
		lock->mode->ask(node, lock, ROAMI_ASK_QUICK);
	/* A token that has something to acquire waits here for roami_lock. */
	taken = !lock->fresh && roami_lock_may_hold(lock, lock->tickets);
	if (taken) {
		lock->tickets++;
		lock->holder = node->env->thread(node) + 1;
	}
	roami_spin_unlock(&lock->spin);
	return taken;
}

bool roami_lock_quick(struct roami_node *node, uint64_t id)
{
	if (!roami_thin_take(node, id) && !lock_whole_quick(node, id))
		return false;
	ROAMI_COUNT(node->stats, lock_acquires, 1);
	return true;
}

/* roami_unlock_quick of a lock that is not thin. */
__attribute__((noinline)) static bool unlock_whole_quick(struct roami_node *node, uint64_t id,
							 bool again)
{
	struct roami_lock *lock;
	bool given;

	if (node->nodes > 1 && !roami_release_needless(node))
		return false;
	lock = lock_short(node, id);
	if (lock == NULL)
		return false;
	given = lock->holder == node->env->thread(node) + 1 &&
		lock->tickets == lock->serving + 1 && lock->next == ROAM_NOBODY;
	if (given) {
		lock->holder = 0;
		lock->serving++;
		lock->mode->pass(node, lock, false, again);
	}
	roami_spin_unlock(&lock->spin);
	return given;
}

bool roami_unlock_quick(struct roami_node *node, uint64_t id)
{
	return roami_thin_free(node, id) || unlock_whole_quick(node, id, true);
}

/* The lock that a call wants, ready to be requested. */
static struct roami_lock *lock_wanted(struct roami_node *node, const struct roam_sync *sync)
{
	struct roami_lock *lock = roami_lock_find(node, sync->id);

	if (atomic_load_explicit(&lock->announced, memory_order_acquire) == 0)
		roami_lock_ready(node, lock);
	if (roami_scoped(node)) { /* what was written before belongs to no section of this lock */
		roami_release(node, sync);
		roami_release_rest(node);
	}
	return lock;
}

/* Called when the thread holds the lock: begins to see what the last holders wrote. */
static enum roam_err lock_hold(struct roami_node *node, struct roami_lock *lock, bool fresh,
			       const struct roam_sync *sync)
{
	roami_contract(lock->holder == node->env->thread(node) + 1);
	ROAMI_COUNT(node->stats, lock_acquires, 1);
	if (fresh) {
		ROAMI_COUNT(node->stats, lock_remote, 1);
		lock_begin(node, lock, sync);
	}
	if (roami_scoped(node))
		roami_scope_enter(node, &lock->scope);
	return ROAM_OK;
}

enum roam_err roami_lock_until(struct roami_node *node, uint64_t id, uint64_t until)
{
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	struct roami_lock *lock = lock_wanted(node, &sync);
	struct roami_lock_wait wait = {.node = node, .lock = lock, .until = until};
	unsigned missing = roami_team_came(node);
	bool fresh = false, mine;

	roami_spin_lock(node, &lock->spin);
	roami_thin_whole(node, lock);
	if (lock->holder == node->env->thread(node) + 1) {
		roami_spin_unlock(&lock->spin);
		return ROAM_ESTATE;
	}
	wait.ticket = roami_lock_ticket(node, lock);
	if (missing > 0 && until == ROAMI_FOREVER)
		roami_lock_first(&wait, missing);
	if (!lock->token && !lock->asked)
		lock->mode->ask(node, lock,
				roami_lock_late(&wait) ? ROAMI_ASK_TRY : ROAMI_ASK_NOW);
	mine = roami_lock_take(node, lock, wait.ticket, &fresh);
	roami_spin_unlock(&lock->spin);
	if (!mine && !roami_lock_await(&wait, &fresh)) {
		roami_lock_leave(node, lock, wait.ticket);
		return ROAM_ETIMEDOUT;
	}
	return lock_hold(node, lock, fresh, &sync);
}

enum roam_err roami_lock(struct roami_node *node, uint64_t id)
{
	if (roami_lock_quick(node, id))
		return ROAM_OK;
	return roami_lock_until(node, id, ROAMI_FOREVER);
}

/* The previous node of the queue has granted the token, or said that its section goes on. */
static bool lock_answered(void *arg)
{
	struct roami_lock_wait *wait = arg;
	bool answered;

	roami_spin_lock(wait->node, &wait->lock->spin);
	answered = wait->lock->busy || !wait->lock->asked;
	roami_spin_unlock(&wait->lock->spin);
	return answered;
}

/*
 * Whether a trial has the token, or has asked for it.  Else it leaves nothing behind, so that no
 * handler takes its ticket for a thread that waits.  The spin is held.
 */
static bool lock_tries(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_thin_whole(node, lock);
	if (lock->asked || lock->tickets != lock->serving || lock->next != ROAM_NOBODY)
		return false;
	if (!lock->token)
		lock->mode->ask(node, lock, ROAMI_ASK_TRY);
	return lock->token || lock->asked;
}

enum roam_err roami_lock_try(struct roami_node *node, uint64_t id)
{
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	struct roami_lock *lock = lock_wanted(node, &sync);
	struct roami_lock_wait wait = {.node = node, .lock = lock, .until = ROAMI_FOREVER};
	bool fresh = false, mine;

	roami_team_came(node);
	roami_spin_lock(node, &lock->spin);
	if (!lock_tries(node, lock)) {
		roami_spin_unlock(&lock->spin);
		return ROAM_EBUSY;
	}
	wait.ticket = lock->tickets++;
	if (lock->asked) {
		roami_spin_unlock(&lock->spin);
		roami_wait(node, lock_answered, &wait);
		roami_spin_lock(node, &lock->spin);
	}
	mine = roami_lock_take(node, lock, wait.ticket, &fresh);
	roami_spin_unlock(&lock->spin);
	if (!mine) {
		roami_lock_leave(node, lock, wait.ticket);
		return ROAM_EBUSY;
	}
	return lock_hold(node, lock, fresh, &sync);
}

static bool lock_mine(struct roami_node *node, struct roami_lock *lock)
{
	uint32_t holder;

	if (sync_of(node)->thin == NULL)
		return lock->holder == node->env->thread(node) + 1;
	roami_spin_lock(node, &lock->spin);
	holder = roami_lock_holder(lock);
	roami_spin_unlock(&lock->spin);
	return holder == node->env->thread(node) + 1;
}

bool roami_lock_held(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, id);

	return lock != NULL && lock_mine(node, lock);
}

/* roami_unlock, where the quick way has not done it.  `again`: see roami_lock_pass_on. */
static enum roam_err unlock_whole(struct roami_node *node, uint64_t id, bool again)
{
	struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, id);
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	bool waiters;

	if (lock == NULL || !lock_mine(node, lock))
		return ROAM_ENOTHELD;
	roami_release(node, &sync);
	if (roami_scoped(node))
		roami_scope_leave(node, &lock->scope);
	roami_spin_lock(node, &lock->spin);
	roami_thin_whole(node, lock);
	waiters = roami_lock_let_go(node, lock, again);
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
	roami_release_rest(node);
	return ROAM_OK;
}

enum roam_err roami_unlock_whole(struct roami_node *node, uint64_t id)
{
	return unlock_whole(node, id, true);
}

enum roam_err roami_unlock(struct roami_node *node, uint64_t id)
{
	return roami_unlock_quick(node, id) ? ROAM_OK : unlock_whole(node, id, true);
}

enum roam_err roami_unlock_to_wait(struct roami_node *node, uint64_t id)
{
	if (roami_thin_free(node, id) || unlock_whole_quick(node, id, false))
		return ROAM_OK;
	return unlock_whole(node, id, false);
}
