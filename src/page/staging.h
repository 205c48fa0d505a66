/*
 * Pages that come by message and have no memory here yet.  To store into such a page costs a fault,
 * and a page of zeroes that nobody looks at.  So they land in a room of the thread's that asked for
 * them, which is warm, and are put in their places by the kernel, several with one call.
 */
#ifndef ROAMI_LANDING_H
#define ROAMI_LANDING_H

#include "base/node.h"

#define ROAMI_LANDING_SLOTS 64u /* pages that can land for a thread at a time */

/* Pages in a row that have come, to slots in a row; with a `count` of 0 the rest means nothing. */
struct roami_landing {
	uint32_t first;
	uint32_t count;
	unsigned slot; /* of the first */
	bool open;     /* for reading, too, where the engine can do it at the same time */
};

/*
 * Where the bytes of a page go that is asked for: a slot of the calling thread's, or, if the page
 * has memory, to the page.  Nobody else fills the page meanwhile.
 */
uint8_t *roami_landing_room(struct roami_node *node, uint32_t page, unsigned slot);

/*
 * A page has come to `room`, which roami_landing_room has returned for it; it is in place at the
 * latest when the landing ends.  `open`: no other thread can look at it before it may be seen.
 */
void roami_landing_add(struct roami_node *node, struct roami_landing *landing, uint32_t page,
		       unsigned slot, const uint8_t *room, bool open);
void roami_landing_end(struct roami_node *node, struct roami_landing *landing);

#endif
