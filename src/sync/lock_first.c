/*
 * The first locks of a team.  Many programs number their processes by a counter under a lock,
 * before anything else, and neighbours by these numbers share pages.  So a thread that comes to
 * its first lock waits a while for the other threads of its node, and keeps tickets for them: what
 * the lock's queue brings from other nodes meanwhile follows all of them (rule 5.9).
 */
#include "base/thread.h"
#include "sync/lock.h"
#include "sync/sync.h"

#define FIRST_NS 10000000u /* threads that begin together may be some time slices apart */

void roami_lock_firsts(struct roami_node *node, unsigned threads)
{
	struct roami_firsts *firsts = &sync_of(node)->firsts;

	atomic_store(&firsts->missing, threads);
	atomic_store(&firsts->until, 0);
	atomic_store(&firsts->open, threads > 1 && node->nodes > 1);
}

unsigned roami_team_came(struct roami_node *node)
{
	struct roami_firsts *firsts = &sync_of(node)->firsts;
	struct roami_thread *self;
	uint32_t missing;

	if (!atomic_load_explicit(&firsts->open, memory_order_relaxed))
		return 0;
	self = roami_thread_self(node);
	if (self->came)
		return 0;
	self->came = true;
	missing = atomic_fetch_sub(&firsts->missing, 1) - 1;
	if (missing > 0 && missing < sync_of(node)->team) /* else a thread of no team came, too */
		return missing;
	atomic_store(&firsts->open, false);
	roami_changed(node, node->me);
	return 0;
}

/* All have come, or it took too long. */
static bool first_over(void *arg)
{
	struct roami_node *node = arg;
	const struct roami_firsts *firsts = &sync_of(node)->firsts;

	return !atomic_load(&firsts->open) || node->env->now(node) >= atomic_load(&firsts->until);
}

void roami_lock_first(const struct roami_lock_wait *wait, unsigned missing)
{
	struct roami_node *node = wait->node;
	struct roami_firsts *firsts = &sync_of(node)->firsts;
	uint64_t start = roami_os_cycles(), none = 0;

	roami_lock_reserve(node, wait->lock, missing);
	roami_spin_unlock(&wait->lock->spin);
	roami_node_waits(node, ROAM_SYNC_LOCK + 1, wait->lock->id, ROAMI_WAITS_ENDS);
	atomic_compare_exchange_strong(&firsts->until, &none, node->env->now(node) + FIRST_NS);
	roami_wait_until(node, atomic_load(&firsts->until));
	roami_wait(node, first_over, node);
	roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	atomic_store(&firsts->open, false);
	ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	roami_spin_lock(node, &wait->lock->spin);
}
