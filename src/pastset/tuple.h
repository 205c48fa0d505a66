/*
 * The tuples of an element: records in chunks, found by number in constant time.  Nothing here
 * locks: the caller holds the element's lock, unless a comment says otherwise.
 */
#ifndef ROAMI_TUPLE_H
#define ROAMI_TUPLE_H

#include "pastset/buddy.h"
#include "roam/pastset.h"

struct roami_tuples {
	uint64_t last;
	uint64_t oldest; /* lowest number there; last + 1: none */
	uint64_t first;  /* lowest number not tagged; last + 1: none */
	uint64_t bytes;
	uint32_t few[4];     /* units of slots, in a ring by number; */
	uint32_t index;      /* where there are more, the block where their ring is; 0: none */
	uint32_t index_size; /* units of slots that the ring has room for, a power of two */
	uint32_t chunk;      /* where records are put; 0: none yet */
	uint32_t chunk_used; /* bytes */
	uint32_t chunk_put;  /* records */
};

/* A record: a place in the buddy allocator's memory; 0: none. */
typedef uint64_t roami_record;

void roami_tuples_init(struct roami_tuples *tuples);

/* The first tuple will have the number after `last`. */
void roami_tuples_begin(struct roami_tuples *tuples, uint64_t last);

/* Room for a tuple, which is no tuple yet; 0: there is none. */
roami_record roami_tuples_reserve(struct roami_node *node, struct roami_past_buddy *buddy,
				  struct roami_tuples *tuples, uint32_t bytes);

/* Whether there is room for one more number; then the next append succeeds. */
bool roami_tuples_buffer(struct roami_node *node, struct roami_past_buddy *buddy,
			 struct roami_tuples *tuples);

/* Makes the record, whose bytes are in place, the next tuple; false: no room for its number. */
bool roami_tuples_append(struct roami_node *node, struct roami_past_buddy *buddy,
			 struct roami_tuples *tuples, roami_record record);

/* The record of a number from `oldest` to `last`. */
roami_record roami_tuples_find(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			       uint64_t number);

bool roami_tuples_tagged(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			 uint64_t number);

/* Tags it as observed; `first` moves on. */
void roami_tuples_tag(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
		      uint64_t number);

/* Removes all tuples below `number`. */
void roami_tuples_truncate(struct roami_node *node, struct roami_past_buddy *buddy,
			   struct roami_tuples *tuples, uint64_t number);

/* Keeps a record's bytes although the tuple may be removed; and lets go of them, without a lock. */
void roami_record_hold(const struct roami_past_buddy *buddy, roami_record record);
void roami_record_rele(struct roami_node *node, struct roami_past_buddy *buddy,
		       roami_record record);

/* Counts one more participant that has observed it; returns how many have. */
uint32_t roami_record_seen(const struct roami_past_buddy *buddy, roami_record record);

uint8_t *roami_record_data(const struct roami_past_buddy *buddy, roami_record record);
uint32_t roami_record_bytes(const struct roami_past_buddy *buddy, roami_record record);

#endif
