/*
 * The memory for tuples of a node: blocks of 4 KiB times a power of two, split and joined with
 * their buddies.  Bounded; usable in handlers.
 */
#ifndef ROAMI_PAST_BUDDY_H
#define ROAMI_PAST_BUDDY_H

#include "base/node.h"

#define ROAMI_PAST_UNIT   4096u
#define ROAMI_PAST_ORDERS 7u /* of blocks: 4 KiB to 256 KiB */

/* Bytes at the beginning that are not used: unit 0 means none. */
#define ROAMI_PAST_SKIPPED (ROAMI_PAST_UNIT << (ROAMI_PAST_ORDERS - 1))

struct roami_past_buddy {
	struct roami_spin lock;
	uint8_t *base;
	uint8_t *orders; /* of each unit's block; of the first of a free one with BUDDY_FREE */
	uint32_t units;
	uint32_t fresh;                   /* units never used; those before it once were */
	uint32_t free[ROAMI_PAST_ORDERS]; /* the first of each size; 0: none */
};

/* With `bytes` of memory; nothing is touched yet.  ROAM_ENOMEM. */
enum roam_err roami_past_buddy_init(struct roami_past_buddy *buddy, uint64_t bytes);
void roami_past_buddy_fini(struct roami_past_buddy *buddy);

/* A block of 2^order units, by its first unit; not cleared.  0: there is none. */
uint32_t roami_past_buddy_take(struct roami_node *node, struct roami_past_buddy *buddy,
			      unsigned order);
void roami_past_buddy_give(struct roami_node *node, struct roami_past_buddy *buddy, uint32_t unit);

/* The order of the block that a unit is in. */
static inline unsigned roami_past_buddy_order(const struct roami_past_buddy *buddy, uint32_t unit)
{
	return buddy->orders[unit];
}

static inline void *roami_past_buddy_at(const struct roami_past_buddy *buddy, uint32_t unit)
{
	return buddy->base + (size_t)unit * ROAMI_PAST_UNIT;
}

/* The smallest order with room for `bytes`. */
static inline unsigned roami_past_buddy_fit(size_t bytes)
{
	unsigned order = 0;

	while (((size_t)ROAMI_PAST_UNIT << order) < bytes)
		order++;
	return order;
}

#endif
