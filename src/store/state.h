/*
 * What a page server has in memory: the latest version of each page that was ever committed, and of
 * each name.  One thread uses it at a time.
 */
#ifndef ROAMI_STORE_STATE_H
#define ROAMI_STORE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/frames.h"

struct roami_store_name {
	uint32_t name_bytes, bytes;
	uint8_t text[]; /* the name, then its value */
};

struct roami_store_state {
	uint64_t heap_bytes; /* 0: not yet made */
	uint8_t *heap;
	uint64_t *have; /* a bit of each page */
	uint64_t *changed; /* of each page: by which commit last */
	uint64_t named; /* the last commit that changed a name */
	uint64_t pages; /* that there are */
	struct roami_store_name *names[ROAMI_STORE_NAMES_MAX];
	uint32_t name_count; /* in no order */
};

/* false: no memory. */
bool roami_state_make(struct roami_store_state *state, uint64_t heap_bytes);
void roami_state_free(struct roami_store_state *state);

/* Whether these bytes are whole entries that this heap can have. */
bool roami_state_fits(const struct roami_store_state *state, const uint8_t *entries, size_t bytes);

/* How many names these entries, which fit, may add at most: one that comes twice counts twice. */
uint32_t roami_state_new_names(const struct roami_store_state *state, const uint8_t *entries,
			       size_t bytes);

/* Applies entries of a commit, which fit.  false: no memory for a name, or too many. */
bool roami_state_apply(struct roami_store_state *state, uint64_t serial, const uint8_t *entries,
		       size_t bytes);

static inline bool roami_state_has(const struct roami_store_state *state, uint32_t page)
{
	return (state->have[page / 64] >> page % 64 & 1) != 0;
}

static inline uint32_t roami_state_heap_pages(const struct roami_store_state *state)
{
	return (uint32_t)(state->heap_bytes / ROAMI_STORE_PAGE);
}

/* The first page from there on that there is; the heap's end: none. */
uint32_t roami_state_next(const struct roami_store_state *state, uint32_t page);

/*
 * Writes entries of pages that a commit behind `since` changed, or names, from `first` on, as far
 * as there is room; returns their bytes, and what to go on with.
 */
size_t roami_state_pages(const struct roami_store_state *state, uint64_t since, uint32_t first,
			 uint32_t end, uint8_t *entries, size_t room, uint32_t *next_p);
size_t roami_state_names(const struct roami_store_state *state, uint32_t first, uint8_t *entries,
			 size_t room, uint32_t *next_p);

#endif
