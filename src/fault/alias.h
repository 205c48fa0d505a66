/*
 * Pages of the heap that the program uses at a second address (statics in the heap, job/shared.h).
 * This is an engine around another one: it changes the access to such pages at both addresses, and
 * reports a touch at the second address as a touch of the page (rule 1.10).
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
 * Makes the engine around `inner` in `state`: roami_fault_alias_bytes zeroed bytes, which the
 * caller allocates, and frees after `close`.
 */
size_t roami_fault_alias_bytes(const struct roami_fault_engine *inner,
			       const struct roami_aliases *aliases);
const struct roami_fault_engine *roami_fault_alias(const struct roami_fault_engine *inner,
						   const struct roami_aliases *aliases,
						   void *state);

#endif
