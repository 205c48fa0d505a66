/*
 * Staging buffers for pages that arrive by message and have no memory here yet.  Storing into such
 * a page would cost a page fault and the zeroing of a page that is overwritten at once.  So they
 * arrive in a buffer of the requesting thread, which is in the CPU's cache, and the kernel moves
 * several into place with one call.
 */
#ifndef ROAMI_STAGING_H
#define ROAMI_STAGING_H

#include "base/node.h"

#define ROAMI_STAGING_SLOTS 64u /* pages that can land for a thread at a time */

/*
 * Consecutive pages that have arrived in consecutive slots; if `count` is 0, the other fields have
 * no meaning.
 */
struct roami_staging {
	uint32_t first;
	uint32_t count;
	unsigned slot; /* of the first */
	bool open;     /* open the page for reading in the same step, if the engine can */
};

/*
 * Where the bytes of a requested page go: a slot of the calling thread's buffer, or the page itself
 * if it has memory.  No other thread fills the page meanwhile.
 */
uint8_t *roami_staging_buffer(struct roami_node *node, uint32_t page, unsigned slot);

/*
 * A page has arrived in `buffer`, which roami_staging_buffer returned for it.  It is in place when
 * roami_staging_end returns, or earlier.  `open`: it may be opened as soon as it is in place,
 * because no other thread can read it before the caller allows it.
 */
void roami_staging_add(struct roami_node *node, struct roami_staging *staging, uint32_t page,
		       unsigned slot, const uint8_t *buffer, bool open);
void roami_staging_end(struct roami_node *node, struct roami_staging *staging);

/* A slot of the calling thread's buffer, for bytes that are checked before they go anywhere. */
uint8_t *roami_staging_slot(struct roami_node *node, unsigned slot);

/* The calling thread's memory for ROAMI_STAGING_SLOTS pages that were fetched aside. */
uint8_t *roami_staging_aside(struct roami_node *node);

#endif
