/*
 * Slabs: 64 KiB of memory above a guard page, for the stack of a fault and for what is too large
 * for a stack.  A slab is held for a short while and is then used again.  Includes nothing
 * of ours.
 */
#ifndef ROAMI_SLAB_H
#define ROAMI_SLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ROAMI_SLAB_BYTES ((size_t)64 * 1024)
#define ROAMI_SLABS_MAX  1024u

struct roami_slab {
	_Alignas(64) _Atomic uint32_t held;
	uint8_t *bytes; /* the lowest; NULL: never used yet */
};

/* The slabs of one owner.  All bytes are zero at first. */
struct roami_slabs {
	struct roami_slab slabs[ROAMI_SLABS_MAX];
};

/*
 * Takes a free slab, number *hint_p if that one is free; *hint_p becomes its number.  Waits while
 * all are held.  NULL: no memory.  Async-signal-safe.  A forked child has copies of its parent's
 * slabs; slabs that another thread held there are lost to the child.
 */
struct roami_slab *roami_slab_take(struct roami_slabs *slabs, uint32_t *hint_p);

static inline void roami_slab_give(struct roami_slab *slab)
{
	atomic_store_explicit(&slab->held, 0, memory_order_release);
}

/* Unmaps all; none may be held. */
void roami_slabs_free(struct roami_slabs *slabs);

/* Of those used as stacks: the most bytes that were ever in use of one, for tests. */
size_t roami_slabs_depth(const struct roami_slabs *slabs);

/*
 * Runs fn(arg) on a slab as the stack, and returns when it does.  Debuggers and unwinders see
 * through it.
 */
void roami_slab_run(const struct roami_slab *slab, void (*fn)(void *arg), void *arg);

#endif
