/*
 * One node's allocator: over the whole heap until the seal, then over the parts of it that are lent
 * to the node.  It hands out *offsets*; its own data lies in private memory, and it never reads or
 * writes the heap (rule 3.1).  Callers on app threads only; a mutex inside makes it safe for
 * several of them.
 *
 * The room keeps rules 3.1 and, with sync/frees.h, 3.2: a freed block is used again only by a node
 * that has acquired the free.
 */
#ifndef ROAMI_ALLOC_H
#define ROAMI_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

struct roami_alloc;

/*
 * Opens an allocator over heap offsets [first, end), both multiples of the page size.  `own`:
 * roam's own allocator even where jemalloc is built in.  It starts in the *bump* phase: a
 * deterministic sequence of offsets (same calls, same offsets, in every process), blocks of a page
 * or more page-aligned, smaller ones 64-byte aligned.
 */
enum roam_err roami_alloc_open(struct roami_alloc **alloc_p, uint64_t first, uint64_t end,
			       bool own);
void roami_alloc_close(struct roami_alloc *alloc);

/*
 * The allocator of small blocks once sealed: "jemalloc" or "own".  Larger blocks always come from
 * roam's own.
 */
const char *roami_alloc_name(const struct roami_alloc *alloc);

/* In the bump phase, before the first block: nothing below this offset is handed out. */
void roami_alloc_skip(struct roami_alloc *alloc, uint64_t offset);

/* Ends the bump phase.  Blocks taken before stay valid and can be given back. */
void roami_alloc_seal(struct roami_alloc *alloc);

/*
 * ---- leases, once the job is sealed.  The allocator that has handed out blocks so far (`first`)
 * keeps the parts of `part` bytes in which it has blocks, up to *end_p; any other has none.  Then
 * parts are lent to it, `used` if they may not be zero.  ROAM_ENOMEM: no private memory.
 */
enum roam_err roami_alloc_cut(struct roami_alloc *alloc, uint64_t part, bool first,
			      uint64_t *end_p);
enum roam_err roami_alloc_lend(struct roami_alloc *alloc, uint64_t offset, uint64_t bytes,
			       uint64_t part, bool used);

/*
 * A part in which other nodes' blocks lie, `blocks[i]` of them in its page i: its other pages are
 * lent, and these when their blocks were given back.  `zero[i]`: nothing was ever stored in page i.
 * At most one between adopt_begin and adopt_end, and of at most so many pages: there the allocator
 * is locked, and has the private memory that this takes.  ROAM_ENOMEM: there is none.
 */
enum roam_err roami_alloc_adopt_begin(struct roami_alloc *alloc, uint32_t pages);
void roami_alloc_adopt(struct roami_alloc *alloc, uint64_t offset, uint32_t pages,
		       const uint32_t *blocks, const bool *zero);
void roami_alloc_adopt_end(struct roami_alloc *alloc);

/* Gives up free parts, around `freed` or anywhere, all but one.  False: there are none. */
bool roami_alloc_reclaim(struct roami_alloc *alloc, uint64_t freed, uint64_t part,
			 uint64_t *offset_p, uint64_t *bytes_p, bool *used_p);

/*
 * Running hash of every (bytes, offset) taken so far, and the end of the range handed out in the
 * bump phase.
 */
uint64_t roami_alloc_hash(const struct roami_alloc *alloc);
uint64_t roami_alloc_bumped(const struct roami_alloc *alloc);

/* A block of `bytes` > 0; *fresh_p: never handed out before, so still zero.  ROAM_ENOMEM. */
enum roam_err roami_alloc_take(struct roami_alloc *alloc, size_t bytes, uint64_t *offset_p,
			       bool *fresh_p);

/* Gives a block back.  ROAM_ENOTOURS if `offset` is not the start of a live block. */
enum roam_err roami_alloc_give(struct roami_alloc *alloc, uint64_t offset);

/* Gives back a block of [offset, end) that lay in a part when it was adopted.  ROAM_ENOTOURS. */
enum roam_err roami_alloc_give_left(struct roami_alloc *alloc, uint64_t offset, uint64_t end);

/* Usable bytes of the live block that starts at `offset`; 0 if none does. */
size_t roami_alloc_bytes(struct roami_alloc *alloc, uint64_t offset);

#endif
