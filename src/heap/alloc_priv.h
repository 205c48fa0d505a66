/*
 * The parts of the allocator, for alloc*.c only: page ranges, runs of small blocks, and jemalloc's
 * arena.  Everything here counts in pages or grains from the start of the slice, and runs under the
 * allocator's lock.
 */
#ifndef ROAMI_ALLOC_PRIV_H
#define ROAMI_ALLOC_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/os.h"
#include "roam/roam.h"

#define ROAMI_ALLOC_GRAIN     64u /* every block starts on one */
#define ROAMI_ALLOC_GRAINS    (ROAM_PAGE_SIZE / ROAMI_ALLOC_GRAIN)
#define ROAMI_ALLOC_SMALL     2048u /* larger blocks get pages of their own */
#define ROAMI_ALLOC_CLASSES   14u
#define ROAMI_ALLOC_PAGES_MAX (1u << 30)

_Static_assert(ROAMI_ALLOC_GRAINS == 64, "a run's blocks are the bits of one word");

/* ---- page ranges: free ones in a treap by address, and `top`, above which everything is free. */
struct roami_ranges {
	struct roami_vec nodes; /* struct range; item 0 stands for none */
	uint32_t root;
	uint32_t unused; /* nodes not in the treap, linked by `left` */
	uint32_t top;
	uint32_t high; /* pages above were never handed out */
	uint32_t end;
	uint32_t live; /* extents handed out, and parts lent; free ranges are at most one more */
	uint32_t spare; /* the first page of a free part that is kept; UINT32_MAX: none */
	uint32_t spare_before; /* of one that was kept and need not be any more */
	bool lent;     /* nothing is free but what was lent to us, or was below `top` then */
	uint64_t *used; /* once lent: a bit for each page that was handed out */
};

bool roami_ranges_open(struct roami_ranges *ranges, uint32_t pages);
void roami_ranges_close(struct roami_ranges *ranges);

/* The lowest range of `pages` that is free.  False: none, or no private memory. */
bool roami_ranges_take(struct roami_ranges *ranges, uint32_t pages, uint32_t *first_p,
		       bool *fresh_p);

/* Frees one extent.  Cannot fail. */
void roami_ranges_put(struct roami_ranges *ranges, uint32_t first, uint32_t pages);

/*
 * From now on only lent parts can be handed out, and the `pages` below `top` or a little above it,
 * counted as `parts`.  False: no private memory.
 */
bool roami_ranges_cut(struct roami_ranges *ranges, uint32_t pages, uint32_t parts);

/* Pages are lent, counted as `parts`; `used`: they are not zero.  False: no private memory. */
bool roami_ranges_lend(struct roami_ranges *ranges, uint32_t first, uint32_t pages, uint32_t parts,
		       bool used);

/*
 * Pages of one part are lent, but for those that have `blocks`; all but the `zero` ones may have
 * been stored to.  Directly before, adopt_begin provides memory for so many; false: there is none.
 */
bool roami_ranges_adopt_begin(struct roami_ranges *ranges, uint32_t pages);
void roami_ranges_adopt(struct roami_ranges *ranges, uint32_t first, uint32_t pages,
			const uint32_t *blocks, const bool *zero);

/*
 * Finds free pages that are whole parts, part k being `part` pages from k * part - bias on, around
 * `page` or in a large free range, and gives them up, but for one that is kept.  False: none.
 */
bool roami_ranges_reclaim(struct roami_ranges *ranges, uint32_t page, uint32_t part, uint32_t bias,
			  uint32_t *first_p, uint32_t *parts_p, bool *used_p);

/* A live extent will be freed in two parts (false: no private memory), or two as one. */
bool roami_ranges_split(struct roami_ranges *ranges);
void roami_ranges_join(struct roami_ranges *ranges);

/* ---- runs: a page cut into equal blocks, so that no small block straddles two pages. */
struct roami_runs {
	struct roami_vec runs;              /* struct run; item 0 stands for none */
	uint32_t unused;                    /* linked by `next` */
	uint32_t some[ROAMI_ALLOC_CLASSES]; /* runs with a free block */
	uint32_t idle[ROAMI_ALLOC_CLASSES]; /* one run, all free, kept against thrashing */
};

bool roami_runs_open(struct roami_runs *runs);
void roami_runs_close(struct roami_runs *runs);

/* The class of a block of 1 .. ROAMI_ALLOC_SMALL bytes, and the bytes of a block of a class. */
unsigned roami_runs_class(size_t bytes);
size_t roami_runs_bytes(const struct roami_runs *runs, uint32_t run);

/* Takes a grain from an existing run.  False: no run of this class has a free block. */
bool roami_runs_take(struct roami_runs *runs, unsigned class, uint64_t *grain_p, bool *fresh_p);

/* Makes a run of a page, so that the next take succeeds.  0: no private memory. */
uint32_t roami_runs_add(struct roami_runs *runs, unsigned class, uint32_t page, bool fresh);

/* True if a live block of the run starts at the grain of its page. */
bool roami_runs_live(const struct roami_runs *runs, uint32_t run, unsigned grain);

/* Frees a live block.  True: its run has ended, and *page_p is the run's page. */
bool roami_runs_put(struct roami_runs *runs, uint32_t run, unsigned grain, uint32_t *page_p);

/* Ends an idle run.  False: there is none. */
bool roami_runs_trim(struct roami_runs *runs, uint32_t *page_p);

/*
 * ---- jemalloc for small blocks, with extents out of `ranges`.  It is not able if it is not built
 * in, lacks arenas_create_ext, or is told by MALLOC_CONF to touch memory that it hands out.
 */
struct roami_je;

bool roami_je_able(void);
/* NULL: not able, or no memory. */
struct roami_je *roami_je_open(struct roami_ranges *ranges);
void roami_je_close(struct roami_je *je);
bool roami_je_take(struct roami_je *je, size_t bytes, uint64_t *grain_p, bool *fresh_p);
bool roami_je_live(const struct roami_je *je, uint64_t grain);
size_t roami_je_bytes(const struct roami_je *je, uint64_t grain);
void roami_je_give(struct roami_je *je, uint64_t grain);
void roami_je_trim(struct roami_je *je); /* gives unused extents back to `ranges` */

#endif
