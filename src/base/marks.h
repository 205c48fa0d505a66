/*
 * Where blocks of the heap are.  A node's segment has two bits for each 64 bytes of the heap: a
 * *beginning* where a block begins that its allocators have handed out and that nobody has freed,
 * and an *end* in its last 64 bytes.  A thread that frees a block takes the beginning away, in one
 * step; so each free is one of a block that is there, whichever nodes free it.  Ends stay behind;
 * the next block over them takes them away.
 */
#ifndef ROAMI_MARKS_H
#define ROAMI_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/segment.h"

/* A new block of this segment's node.  `fresh`: no other one ever lay there, so no end does. */
void roami_marks_set(struct roami_segment *segment, uint64_t offset, uint64_t bytes, bool fresh);

/* Takes the beginning of a block away; false: no block begins there.  Does not block. */
bool roami_marks_take(struct roami_segment *segment, uint64_t offset);

/* The end of the block that begins at `offset`, or did before its beginning was taken away. */
uint64_t roami_marks_end(const struct roami_segment *segment, const struct roami_layout *layout,
			 uint64_t offset);

/*
 * Whether bytes of [first, end) are a block's.  Only blocks are seen that begin at `from` or
 * behind it; all offsets are multiples of the page size.
 */
bool roami_marks_any(const struct roami_segment *segment, const struct roami_layout *layout,
		     uint64_t from, uint64_t first, uint64_t end);

/* The blocks that begin in [first, end) of another segment are this one's, too. */
void roami_marks_copy(struct roami_segment *to, const struct roami_segment *from,
		      const struct roami_layout *layout, uint64_t first, uint64_t end);

#endif
