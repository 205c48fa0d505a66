/*
 * Pages of a heap that the program uses at a second address (statics in the heap, job/shared.h): an
 * engine around another one, which does to such pages at both addresses what it is asked to do, and
 * reports a touch at the second address as one of the page (rule 1.10).
 */
#ifndef ROAMI_FAULT_ALIAS_H
#define ROAMI_FAULT_ALIAS_H

#include "fault/engine.h"

#define ROAMI_ALIASES_MAX 16u

/* `count` pages of the heap, from `first` on, are mapped at `app` as well. */
struct roami_alias {
	uint8_t *app;
	uint32_t first;
	uint32_t count;
};

struct roami_aliases {
	unsigned count;
	struct roami_alias of[ROAMI_ALIASES_MAX];
};

/*
 * The engine around `inner`; it is a part of its state, of so many bytes, zeroed, which the caller
 * allocates, and frees after `close`.
 */
size_t roami_fault_alias_bytes(const struct roami_fault_engine *inner,
			       const struct roami_aliases *aliases);
const struct roami_fault_engine *roami_fault_alias(const struct roami_fault_engine *inner,
						   const struct roami_aliases *aliases,
						   void *state);

#endif
