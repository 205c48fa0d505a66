#include "pastset/buddy.h"

#include <string.h>

#define POOL_FREE 0x80u
#define TOP       (ROAMI_PAST_ORDERS - 1)

/* Begins a free block. */
struct pool_link {
	uint32_t next, before; /* 0: none */
};

enum roam_err roami_past_pool_init(struct roami_past_pool *pool, uint64_t bytes)
{
	/* Unit 0 means none: the first of the largest blocks is not used. */
	pool->units = (uint32_t)((bytes / ROAMI_PAST_UNIT >> TOP) + 1) << TOP;
	pool->fresh = 1u << TOP;
	pool->base = roami_os_reserve_sparse((size_t)pool->units * ROAMI_PAST_UNIT);
	pool->orders = roami_os_reserve_sparse(pool->units);
	return pool->base == NULL || pool->orders == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_past_pool_fini(struct roami_past_pool *pool)
{
	roami_os_unmap(pool->base, (size_t)pool->units * ROAMI_PAST_UNIT);
	roami_os_unmap(pool->orders, pool->units);
}

/* ------------------------------------------------------------------- lists; the lock is held */

static struct pool_link *pool_link(struct roami_past_pool *pool, uint32_t unit)
{
	return roami_past_pool_at(pool, unit);
}

static void pool_push(struct roami_past_pool *pool, uint32_t unit, unsigned order)
{
	struct pool_link *link = pool_link(pool, unit);

	link->next = pool->free[order];
	link->before = 0;
	if (link->next != 0)
		pool_link(pool, link->next)->before = unit;
	pool->free[order] = unit;
	pool->orders[unit] = (uint8_t)(POOL_FREE | order);
}

static void pool_pull(struct roami_past_pool *pool, uint32_t unit, unsigned order)
{
	struct pool_link *link = pool_link(pool, unit);

	if (link->next != 0)
		pool_link(pool, link->next)->before = link->before;
	if (link->before != 0)
		pool_link(pool, link->before)->next = link->next;
	else
		pool->free[order] = link->next;
}

/* Takes the smallest free block of at least that order out of its list; 0: there is none. */
static uint32_t pool_find(struct roami_past_pool *pool, unsigned *order_p)
{
	for (unsigned order = *order_p; order <= TOP; order++) {
		uint32_t unit = pool->free[order];

		if (unit == 0)
			continue;
		pool_pull(pool, unit, order);
		*order_p = order;
		return unit;
	}
	if (pool->fresh == pool->units)
		return 0;
	*order_p = TOP;
	pool->fresh += 1u << TOP;
	return pool->fresh - (1u << TOP);
}

uint32_t roami_past_pool_take(struct roami_node *node, struct roami_past_pool *pool, unsigned order)
{
	unsigned found = order;
	uint32_t unit;

	roami_spin_lock(node, &pool->lock);
	unit = pool_find(pool, &found);
	for (; unit != 0 && found > order; found--)
		pool_push(pool, unit + (1u << (found - 1)), found - 1);
	if (unit != 0)
		memset(pool->orders + unit, (int)order, (size_t)1 << order);
	roami_spin_unlock(&pool->lock);
	return unit;
}

void roami_past_pool_give(struct roami_node *node, struct roami_past_pool *pool, uint32_t unit)
{
	unsigned order;

	roami_spin_lock(node, &pool->lock);
	order = pool->orders[unit];
	roami_assert(order <= TOP && unit % (1u << order) == 0);
	for (; order < TOP; order++) {
		uint32_t buddy = unit ^ 1u << order;

		if (pool->orders[buddy] != (POOL_FREE | order))
			break;
		pool_pull(pool, buddy, order);
		unit &= ~(1u << order);
	}
	pool_push(pool, unit, order);
	roami_spin_unlock(&pool->lock);
}
