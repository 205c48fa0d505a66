#include "pastset/buddy.h"

#include <string.h>

#define BUDDY_FREE 0x80u
#define TOP       (ROAMI_PAST_ORDERS - 1)

/* Begins a free block. */
struct buddy_link {
	uint32_t next, before; /* 0: none */
};

enum roam_err roami_past_buddy_init(struct roami_past_buddy *buddy, uint64_t bytes)
{
	/* Unit 0 means none: the first of the largest blocks is not used. */
	buddy->units = (uint32_t)((bytes / ROAMI_PAST_UNIT >> TOP) + 1) << TOP;
	buddy->fresh = 1u << TOP;
	buddy->base = roami_os_reserve_sparse((size_t)buddy->units * ROAMI_PAST_UNIT);
	buddy->orders = roami_os_reserve_sparse(buddy->units);
	return buddy->base == NULL || buddy->orders == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_past_buddy_fini(struct roami_past_buddy *buddy)
{
	roami_os_unmap(buddy->base, (size_t)buddy->units * ROAMI_PAST_UNIT);
	roami_os_unmap(buddy->orders, buddy->units);
}

/* ------------------------------------------------------------------- lists; the lock is held */

static struct buddy_link *buddy_link(struct roami_past_buddy *buddy, uint32_t unit)
{
	return roami_past_buddy_at(buddy, unit);
}

static void buddy_push(struct roami_past_buddy *buddy, uint32_t unit, unsigned order)
{
	struct buddy_link *link = buddy_link(buddy, unit);

	roami_assert(roami_spin_held(&buddy->lock));
	link->next = buddy->free[order];
	link->before = 0;
	if (link->next != 0)
		buddy_link(buddy, link->next)->before = unit;
	buddy->free[order] = unit;
	buddy->orders[unit] = (uint8_t)(BUDDY_FREE | order);
}

static void buddy_pull(struct roami_past_buddy *buddy, uint32_t unit, unsigned order)
{
	struct buddy_link *link = buddy_link(buddy, unit);

	roami_assert(roami_spin_held(&buddy->lock));
	if (link->next != 0)
		buddy_link(buddy, link->next)->before = link->before;
	if (link->before != 0)
		buddy_link(buddy, link->before)->next = link->next;
	else
		buddy->free[order] = link->next;
}

/* Takes the smallest free block of at least that order out of its list; 0: there is none. */
static uint32_t buddy_find(struct roami_past_buddy *buddy, unsigned *order_p)
{
	for (unsigned order = *order_p; order <= TOP; order++) {
		uint32_t unit = buddy->free[order];

		if (unit == 0)
			continue;
		buddy_pull(buddy, unit, order);
		*order_p = order;
		return unit;
	}
	if (buddy->fresh == buddy->units)
		return 0;
	*order_p = TOP;
	buddy->fresh += 1u << TOP;
	return buddy->fresh - (1u << TOP);
}

uint32_t roami_past_buddy_take(struct roami_node *node, struct roami_past_buddy *buddy,
			       unsigned order)
{
	unsigned found = order;
	uint32_t unit;

	roami_assert(order <= TOP);
	roami_spin_lock(node, &buddy->lock);
	unit = buddy_find(buddy, &found);
	for (; unit != 0 && found > order; found--)
		buddy_push(buddy, unit + (1u << (found - 1)), found - 1);
	if (unit != 0)
		memset(buddy->orders + unit, (int)order, (size_t)1 << order);
	roami_spin_unlock(&buddy->lock);
	return unit;
}

void roami_past_buddy_give(struct roami_node *node, struct roami_past_buddy *buddy, uint32_t unit)
{
	unsigned order;

	roami_spin_lock(node, &buddy->lock);
	order = buddy->orders[unit];
	roami_assert(order <= TOP && unit % (1u << order) == 0);
	for (; order < TOP; order++) {
		uint32_t other = unit ^ 1u << order;

		if (buddy->orders[other] != (BUDDY_FREE | order))
			break;
		buddy_pull(buddy, other, order);
		unit &= ~(1u << order);
	}
	buddy_push(buddy, unit, order);
	roami_spin_unlock(&buddy->lock);
}
