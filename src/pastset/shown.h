/*
 * What a program in the kernel shows of small elements: the last tuple of each, in memory that the
 * program reads while this node writes, see pastset/job/show.h.
 */
#ifndef ROAMI_SHOWN_H
#define ROAMI_SHOWN_H

#include <stdatomic.h>
#include <stdint.h>

#define ROAMI_SHOWN_BYTES    240u /* of a tuple */
#define ROAMI_SHOWN_ELEMENTS 1024u /* the first ones of a node; a power of two */
#define ROAMI_SHOWN_SHIFT    8u

/* An element's last tuple; it is whole where `turn` is even, and the same before and after. */
struct roami_shown {
	_Atomic uint32_t turn;
	uint32_t bytes;
	uint64_t number; /* the tuple's; 0: ask the node */
	uint8_t tuple[ROAMI_SHOWN_BYTES];
};

_Static_assert(sizeof(struct roami_shown) == 1u << ROAMI_SHOWN_SHIFT, "struct roami_shown");

struct roami_past;
struct roami_element;

/*
 * Shows an element as it is now, before anybody learns that an operation is done.  The element's
 * lock is held.
 */
void roami_shown_put(struct roami_past *past, struct roami_element *element);

#endif
