/*
 * The allocator of the whole heap: which part of it belongs to which node (rule 3.1).  The heap is
 * cut into equal *parts*, two words each, in node 0's segment, where every node reads and changes
 * them itself under the pool's lock.  A node leases parts for its own allocator (heap/alloc.h); a
 * large block is parts of its own, and free from any node.
 *
 * What was free'd is taken again only by a node that has acquired the free (rule 3.2): a free part
 * remembers the node that freed it, and in which interval.
 *
 * A lease of a node that has ended is nobody's while blocks lie there.  It is *spare* if other
 * pages of it are free, and nothing there was freed since all nodes knew of all frees: then a node
 * can lease it for these pages.
 */
#ifndef ROAMI_HEAP_PARTS_H
#define ROAMI_HEAP_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/vclock.h"

#define ROAMI_HEAP_PARTS_PARTS      16384u
#define ROAMI_HEAP_PARTS_PART_BYTES 65536u /* at least */
#define ROAMI_HEAP_PARTS_LARGE      8u     /* a block of so many parts has them for itself */
#define ROAMI_HEAP_PARTS_NOBODY     0xffffu

enum roami_heap_parts_state {
	ROAMI_HEAP_PARTS_FREE,
	ROAMI_HEAP_PARTS_LEASED,
	ROAMI_HEAP_PARTS_BLOCK,
	ROAMI_HEAP_PARTS_REST
};

#define ROAMI_HEAP_PARTS_OLD_SPARE 4u /* beside these states, see roami_heap_parts_old */

/* The lock is the caller's to take around every call below. */
struct roami_heap_parts {
	_Alignas(64) _Atomic uint32_t lock; /* a struct roami_spin */
	uint32_t count;                     /* parts */
	uint64_t part;                      /* bytes of one */
	_Atomic uint32_t used;              /* parts have been taken */
	_Atomic uint32_t spares;            /* spare parts */
	_Atomic uint64_t roots;             /* region 0's: see roami_parts_roots */
	_Atomic uint64_t words[ROAMI_HEAP_PARTS_PARTS];
	_Atomic uint64_t intervals[ROAMI_HEAP_PARTS_PARTS]; /* of free parts */
};

/* A part: its state, its owner or the node that freed it, and whether it was ever in use. */
struct roami_heap_part {
	enum roami_heap_parts_state state;
	bool used;
	unsigned node;
	uint64_t interval; /* of a free part: in which `node` freed it; 0: everybody knows */
};

/* Bytes of a part of such a heap. */
uint64_t roami_heap_part(uint64_t heap_bytes);

/* All parts of a heap are free; the memory was zero. */
void roami_heap_parts_init(struct roami_heap_parts *pool, uint64_t heap_bytes);

struct roami_heap_part roami_heap_parts_look(const struct roami_heap_parts *pool, uint32_t part);

/* Parts become leases of `node`: what was handed out before there were leases. */
void roami_heap_parts_begin(struct roami_heap_parts *pool, uint32_t first, uint32_t parts,
			    unsigned node);

/*
 * Parts had blocks when the job began: `old` has the state of each.  Leases are nobody's, and those
 * that are ROAMI_HEAP_PARTS_OLD_SPARE in place of ROAMI_HEAP_PARTS_LEASED are spare.
 */
void roami_heap_parts_old(struct roami_heap_parts *pool, const uint8_t *old);

/*
 * `parts` in a row that are free as far as `clock` tells node `me`: the highest as one block, or
 * the lowest as leases of `me`.  *used_p: some were in use before, so they may not be zero.
 * False: none.
 */
bool roami_heap_parts_take(struct roami_heap_parts *pool, uint32_t parts, bool block, unsigned me,
			   const struct roami_vclock *clock, uint32_t *first_p, bool *used_p);

/* Leases come back, freed by `node` in its `interval`. */
void roami_heap_parts_put(struct roami_heap_parts *pool, uint32_t first, uint32_t parts, bool used,
			  unsigned node, uint64_t interval);

/* Frees the block that starts with part `first`; false: none does. */
bool roami_heap_parts_free(struct roami_heap_parts *pool, uint32_t first, unsigned node,
			   uint64_t interval);

enum roami_heap_parts_lives {
	ROAMI_HEAP_PARTS_EMPTY,
	ROAMI_HEAP_PARTS_SPARE, /* blocks, and enough pages without */
	ROAMI_HEAP_PARTS_FULL
};

/*
 * All nodes but 0 have ended, and all frees are known: leases of theirs, and of nodes that
 * ended before them, are nobody's from now on if blocks lie there, spare or not, else free.
 */
void roami_heap_parts_collect(struct roami_heap_parts *pool,
			      enum roami_heap_parts_lives (*lives)(void *arg, uint32_t part,
								   unsigned node),
			      void *arg);

/* Finds the first spare part, if there is one. */
bool roami_heap_parts_spare(const struct roami_heap_parts *pool, uint32_t *part_p);

/* Leases a spare part to `node`. */
void roami_heap_parts_adopt(struct roami_heap_parts *pool, unsigned node, uint32_t part);

/* A block in a part that is nobody's is about to be freed: the part is not spare any more. */
void roami_heap_parts_disturb(struct roami_heap_parts *pool, uint32_t part);

#endif
