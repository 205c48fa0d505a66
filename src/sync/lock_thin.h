/*
 * Thin locks: in a job of one node a lock that no thread waits for is one word, as a mutex of
 * threads is, in a table that the lock's address leads to.  The word is free, or names the thread
 * that holds the lock, or says that struct roami_lock has it: then threads wait, or one looks.
 */
#ifndef ROAMI_LOCK_THIN_H
#define ROAMI_LOCK_THIN_H

#include "sync/sync_state.h"

#define THIN_WHOLE 0x80000000u /* the token is in struct roami_lock */

struct roami_thin {
	_Atomic uint64_t id;   /* 0: none yet; never changes again */
	_Atomic uint32_t word; /* 0: free; thread + 1; THIN_WHOLE */
	uint32_t spare;
};

/*
 * Words of locks near each other are near each other, so that as many share a cache line as if they
 * lay in the locks.  Each has its place in a window, or none: such locks are never thin.
 */
#define THIN_BITS   17u
#define THIN_WINDOW 8u
#define THIN_TABLE  (((size_t)1 << THIN_BITS) + THIN_WINDOW)

static inline struct roami_thin *roami_thin_window(struct roami_thin *table, uint64_t id)
{
	uint64_t at = id / 8, turn = at >> THIN_BITS;

	return &table[(at + turn * 5) & (((size_t)1 << THIN_BITS) - 1)];
}

/* The lock's word; NULL: it has none, or none yet. */
static inline struct roami_thin *roami_thin_find(const struct roami_node *node, uint64_t id)
{
	struct roami_thin *thin = sync_of(node)->thin, *end;

	if (thin == NULL)
		return NULL;
	thin = roami_thin_window(thin, id);
	for (end = thin + THIN_WINDOW; thin < end; thin++) {
		uint64_t found = atomic_load_explicit(&thin->id, memory_order_acquire);

		if (__builtin_expect(found == id, 1))
			return thin;
		if (found == 0)
			break;
	}
	return NULL;
}

/* Takes or frees a lock that no thread waits for; false: nothing was done. */
static inline bool roami_thin_take(struct roami_node *node, uint64_t id)
{
	struct roami_thin *thin = roami_thin_find(node, id);
	uint32_t word = 0;

	if (thin == NULL)
		return false;
	roami_step(node);
	return atomic_compare_exchange_strong_explicit(&thin->word, &word,
						       node->env->thread(node) + 1,
						       memory_order_acquire, memory_order_relaxed);
}

static inline bool roami_thin_free(struct roami_node *node, uint64_t id)
{
	struct roami_thin *thin = roami_thin_find(node, id);
	uint32_t word;

	if (thin == NULL)
		return false;
	word = node->env->thread(node) + 1;
	roami_step(node);
	return atomic_compare_exchange_strong_explicit(&thin->word, &word, 0, memory_order_release,
						       memory_order_relaxed);
}

/*
 * The lock is in struct roami_lock from here on, until a thread frees it and none waits.  With the
 * lock's spin.
 */
void roami_thin_whole(struct roami_node *node, struct roami_lock *lock);

/* The thread that holds the lock, + 1; 0: none does.  With the lock's spin. */
uint32_t roami_lock_holder(const struct roami_lock *lock);

/* Begins and ends the table. */
enum roam_err roami_thin_init(struct roami_node *node, unsigned nodes);
void roami_thin_fini(struct roami_node *node);

#endif
