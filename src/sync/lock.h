/*
 * What the files of locks share: the calls (lock.c), whose turn it is at a node (lock_turn.c),
 * waiting threads (lock_wait.c), handlers (lock_serve.c), and the places of a lock's queue: a
 * record in shared memory (lock_shm.c), the home and its nodes by messages (lock_msg.c), or, where
 * no thread waits in a job of one node, a word (lock_thin.c).  Internal to src/sync.
 */
#ifndef ROAMI_LOCK_H
#define ROAMI_LOCK_H

#include "sync/sync_state.h"

/*
 * A request on its way to the home (LOCK_REQUEST), and on to the previous tail (LOCK_FORWARD);
 * LOCK_CALL: the receiver is at the head of the queue, and the token lies in the record, or is with
 * a node that has ended.
 */
enum { LOCK_REQUEST, LOCK_FORWARD, LOCK_NOTICES, LOCK_GRANT, LOCK_BUSY, LOCK_CALL };

extern const struct roami_lock_mode roami_lock_in_record;   /* lock_shm.c */
extern const struct roami_lock_mode roami_lock_by_messages; /* lock_msg.c */
extern const struct roami_lock_mode roami_lock_thin;        /* lock_thin.c */

/* What request and forward carry, before the requester's clock. */
struct lock_request {
	uint64_t id;
	uint32_t node;
	uint32_t trying; /* the requester wants to hear if it must wait for a section */
	uint64_t number; /* the last notice of the lock's list that it has */
	uint64_t base;   /* what its clock is encoded against, see roami_log_base */
};

/* What a grant carries, before the granter's clock. */
struct lock_grant {
	uint64_t id;
	uint64_t number; /* of the newest notice that was ever in the lock's list */
};

/* The wait of a thread for its turn. */
struct roami_lock_wait {
	struct roami_node *node;
	struct roami_lock *lock;
	uint32_t ticket;
	uint64_t until; /* of env->now; ROAMI_FOREVER */

	/* Of a thread that is the next one of its node, where the queue is kept in a record. */
	uint64_t start; /* of env->now: it began to look; 0: not yet */
	uint64_t doze;  /* it may sleep from then on: its node is called; 0: it may */
	uint64_t nap;   /* it sleeps until then at most, though not called; 0: it does not */
	uint32_t missed; /* calls that came when the token had been taken again */
	uint64_t now;   /* when it looked last, */
	uint64_t word;  /* the record's word then, */
	uint64_t since; /* and when it saw the token so first */
	uint32_t holder; /* of the word, when it sought last */

	uint64_t alarm; /* it looks again then though nothing changes; ROAMI_FOREVER */
	bool shown;     /* in reports, */
	bool ends;      /* as a wait that ends by itself */
};

static inline unsigned roami_lock_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= LOCK_CALL);
	return roami_type(node, ROAMI_ROOM_LOCKS, message);
}

/* -------------------------------------------------------------------- lock_turn.c: at this node */

struct roami_lock *roami_lock_find(struct roami_node *node, uint64_t id); /* or a new one */

/* Finds out where the queue is kept.  The lock's spin is held. */
void roami_lock_resolve(struct roami_node *node, struct roami_lock *lock);

/* The first use at this node. */
void roami_lock_ready(struct roami_node *node, struct roami_lock *lock);

/* Whether the thread with this ticket may hold the lock now.  The spin is held. */
static inline bool roami_lock_may_hold(const struct roami_lock *lock, uint32_t ticket)
{
	roami_contract(roami_spin_held(&lock->spin));
	return lock->token && lock->serving == ticket && lock->holder == 0 &&
	       !(lock->next != ROAM_NOBODY && ticket == lock->next_after);
}

/*
 * A ticket for the calling thread.  A thread that gave up a ticket whose turn has not come gets
 * that one again: so no thread leaves more than one behind.  The spin is held.
 */
uint32_t roami_lock_ticket(struct roami_node *node, struct roami_lock *lock);

/*
 * So many tickets behind those that were given, for threads that have none yet, less those that are
 * reserved already: they are the next ones to be given, or else are passed over when their turn
 * comes.  The spin is held.
 */
void roami_lock_reserve(struct roami_node *node, struct roami_lock *lock, unsigned tickets);

/* The calling thread no longer waits for the turn of its ticket. */
void roami_lock_leave(struct roami_node *node, struct roami_lock *lock, uint32_t ticket);

/*
 * Takes the lock for the calling thread if its turn has come; the acquire is still to be done if
 * *fresh_p.  The spin is held.
 */
bool roami_lock_take(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
		     bool *fresh_p);

/*
 * The token is here and no thread holds the lock: passes it on, to the next node if it is that
 * node's turn.  Returns whether own threads wait.  `again`: the calling thread may take it again
 * soon.  The spin is held.
 */
bool roami_lock_pass_on(struct roami_node *node, struct roami_lock *lock, bool again);

/* Frees the lock and passes it on, in the same way. */
bool roami_lock_let_go(struct roami_node *node, struct roami_lock *lock, bool again);

/*
 * `due` and `seek` of struct roami_lock_mode where the token comes by itself: by message, or from
 * the node's own threads.
 */
bool roami_lock_due_here(struct roami_lock_wait *wait);
void roami_lock_seek_nothing(struct roami_lock_wait *wait);

/* --------------------------------------------------------------------------------- lock_wait.c */

/* Whether the wait ends by itself now. */
bool roami_lock_late(const struct roami_lock_wait *wait);

/* Waits for the turn of wait->ticket and takes the lock; false: it is too late. */
bool roami_lock_await(struct roami_lock_wait *wait, bool *fresh_p);

/* -------------------------------------------------------------------------------- lock_first.c */

/*
 * The calling thread, which has its ticket, waits a while for the `missing` others of its team, for
 * which it has tickets reserved.  The spin is held, and free meanwhile.
 */
void roami_lock_first(const struct roami_lock_wait *wait, unsigned missing);

/*
 * ------------------------------------------------------------- lock_msg.c: the queue by messages
 */

/*
 * Sends this node's request for the lock, as `message`.  `trying`: node `to` answers at once, by
 * the grant or by LOCK_BUSY.  The lock's spin is held.
 */
void roami_lock_send(struct roami_node *node, const struct roami_lock *lock, unsigned to,
		     unsigned message, bool trying);

/* At the home of a lock by messages: `asker` becomes the tail; the previous one.  Spin held. */
unsigned roami_lock_swap_tail(struct roami_lock *lock, unsigned asker);

/* Sends the token to `next`, with the notices it lacks; the lock's spin is held.  Any thread. */
void roami_lock_grant(struct roami_node *node, struct roami_lock *lock);

/* Fails if this node has ended holding the lock, so that `next` waits for ever.  Spin held. */
void roami_lock_abandoned(struct roami_node *node, const struct roami_lock *lock, unsigned next);

/*
 * ------------------------------------------------------------- lock_shm.c: the queue in a record
 */

/* This node was called (LOCK_CALL).  The lock's spin is held. */
void roami_lock_called(struct roami_node *node, struct roami_lock *lock);

#endif
