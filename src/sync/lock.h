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

/*
 * Sends this node's request for the lock, as `message`.  `trying`: node `to` answers at once, by
 * the grant or by LOCK_BUSY.  The lock's spin is held.
 */
void roami_lock_send(struct roami_node *node, const struct roami_lock *lock, unsigned to,
		     unsigned message, bool trying);

/* At the home of a lock by messages: `asker` becomes the tail; the previous one.  Spin held. */
unsigned roami_lock_swap_tail(struct roami_lock *lock, unsigned asker);

#endif
