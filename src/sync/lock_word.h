/*
 * The word of a lock's record, see lock_shm.c.  Head and tail of the queue are a node's number + 1;
 * 0: it is empty.
 */
#ifndef ROAMI_LOCK_WORD_H
#define ROAMI_LOCK_WORD_H

#include "sync/lock.h"

#define WORD_HOLDER  0xffu /* the node that had the token last, or has it; at first 0 */
#define WORD_HEAD_AT 8
#define WORD_TAIL_AT 16
#define WORD_HEAD    (UINT64_C(0xff) << WORD_HEAD_AT)
#define WORD_TAIL    (UINT64_C(0xff) << WORD_TAIL_AT)
#define WORD_TAKEN   (UINT64_C(1) << 24)
#define WORD_KEPT    (UINT64_C(1) << 25) /* see lock_shm.c */
#define WORD_CALLED  (UINT64_C(1) << 26)
#define WORD_EAGER   (UINT64_C(1) << 27)
#define WORD_DUE     (UINT64_C(1) << 28)
#define WORD_NAPS    (UINT64_C(1) << 29)
#define WORD_SERIAL  (UINT64_C(1) << 32) /* how often it was taken, from here up */
#define KEEP_NS      3000u /* so long the head leaves it to that one */
#define WORD_OF_HEAD (WORD_CALLED | WORD_EAGER | WORD_DUE | WORD_NAPS)
_Static_assert(ROAMI_NODES_MAX < 0xff, "a node's number + 1 in eight bits");

static inline uint64_t roami_lock_word(const struct roami_lock *lock)
{
	return atomic_load_explicit(&lock->record->word, memory_order_relaxed);
}

/*
 * Whether this node was the last to take the token from the record: otherwise it has something to
 * acquire, or to wait for.  Without the lock's spin; the lock is announced.
 */
static inline bool roami_lock_last_here(const struct roami_node *node,
					const struct roami_lock *lock)
{
	return (roami_lock_word(lock) & WORD_HOLDER) == node->me;
}

static inline unsigned word_holder(uint64_t word)
{
	return (unsigned)(word & WORD_HOLDER);
}

static inline unsigned word_head(uint64_t word)
{
	unsigned head = (unsigned)((word & WORD_HEAD) >> WORD_HEAD_AT);

	return head == 0 ? ROAM_NOBODY : head - 1;
}

static inline unsigned word_tail(uint64_t word)
{
	unsigned tail = (unsigned)((word & WORD_TAIL) >> WORD_TAIL_AT);

	return tail == 0 ? ROAM_NOBODY : tail - 1;
}

static inline uint64_t word_without_serial(uint64_t word)
{
	return word & (WORD_SERIAL - 1);
}

static inline bool word_free(uint64_t word)
{
	return (word & WORD_TAKEN) == 0;
}

/* Whether a thread of this node that has just come may take the token. */
static inline bool word_open(const struct roami_node *node, uint64_t word)
{
	return word_free(word) &&
	       (word_head(word) == node->me || (word & (WORD_EAGER | WORD_DUE)) == 0);
}

/*
 * Changes the word, unless it has changed; then *word_p is what it is now.  If this node was at the
 * head and is not any more, it has left the queue.  The spin is held.
 */
bool roami_record_change(struct roami_node *node, struct roami_lock *lock, uint64_t *word_p,
			 uint64_t to);

/* Takes the token, which lies in the record, unless the word has changed.  The spin is held. */
bool roami_record_take(struct roami_node *node, struct roami_lock *lock, uint64_t *word_p);

/* lock_look.c: `due` and `seek` of struct roami_lock_mode. */
bool roami_record_due(struct roami_lock_wait *wait);
void roami_record_seek(struct roami_lock_wait *wait);

#endif
