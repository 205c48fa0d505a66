/*
 * What lock.c and the two places of a lock's queue share: a record in shared memory (lock_shm.c),
 * or the home and its nodes by messages (lock_msg.c).  Internal to src/sync.
 */
#ifndef ROAMI_LOCK_H
#define ROAMI_LOCK_H

#include "sync/sync_state.h"

/* A request on its way to the home (LOCK_REQUEST), and on to the previous tail (LOCK_FORWARD). */
enum { LOCK_REQUEST, LOCK_FORWARD, LOCK_NOTICES, LOCK_GRANT, LOCK_BUSY };

extern const struct roami_lock_mode roami_lock_in_record;   /* lock_shm.c */
extern const struct roami_lock_mode roami_lock_by_messages; /* lock_msg.c */

/* A record's word: the tail, and whether a node has the token or waits for it.  New: 0. */
#define WORD_TAIL  0xffffu
#define WORD_TAKEN 0x10000u

/* Of a record's word of a kept token: the node, + 1, for which it is kept; 0: it is not. */
#define KEPT_FOR  0xffffu
#define KEPT_NEXT 0x10000u

/*
 * Whether this node was the last to take the token from the record, or to queue there: otherwise it
 * has something to acquire, or to wait for.  Without the lock's spin; told is set.
 */
static inline bool roami_lock_last_here(const struct roami_node *node,
					const struct roami_lock *lock)
{
	return (atomic_load_explicit(&lock->record->word, memory_order_relaxed) & WORD_TAIL) ==
	       node->me;
}

/*
 * Sends this node's request for the lock, as `message`.  `trying`: node `to` answers at once, by
 * the grant or by LOCK_BUSY.  The lock's spin is held.
 */
void roami_lock_send(struct roami_node *node, const struct roami_lock *lock, unsigned to,
		     unsigned message, bool trying);

/* The token has come: this node waits no longer.  The lock's spin is held. */
void roami_lock_calm(struct roami_node *node, struct roami_lock *lock);

/* Whether a token is kept for this node: the record's word; 0: none. */
static inline uint64_t roami_lock_kept_for(const struct roami_node *node,
					   const struct roami_lock *lock)
{
	uint64_t word = atomic_load_explicit(&lock->record->kept, memory_order_relaxed);

	return (word & KEPT_FOR) == node->me + 1u ? word : 0;
}

/* At the home of a lock by messages: `asker` becomes the tail; the previous one.  Spin held. */
unsigned roami_lock_swap_tail(struct roami_lock *lock, unsigned asker);

#endif
