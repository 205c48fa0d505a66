#include "base/parts.h"

/* A word: the state above, whether it was used, a node below. */
#define WORD_STATE 62
#define WORD_USED  (UINT64_C(1) << 61)
#define WORD_SPARE (UINT64_C(1) << 60) /* of a lease that is nobody's */

static uint64_t parts_word(const struct roami_heap_part *part)
{
	return (uint64_t)part->state << WORD_STATE | (part->used ? WORD_USED : 0) |
	       part->node;
}

static void parts_set(struct roami_heap_parts *pool, uint32_t first, uint32_t parts,
		      struct roami_heap_part part)
{
	for (uint32_t i = first; i < first + parts; i++) {
		atomic_store_explicit(&pool->intervals[i], part.interval, memory_order_relaxed);
		atomic_store_explicit(&pool->words[i], parts_word(&part), memory_order_relaxed);
	}
	if (parts > 0)
		atomic_store(&pool->used, 1);
}

uint64_t roami_heap_part(uint64_t heap_bytes)
{
	uint64_t part = ROAMI_HEAP_PARTS_PART_BYTES;

	while (part * ROAMI_HEAP_PARTS_PARTS < heap_bytes)
		part *= 2;
	return part;
}

void roami_heap_parts_init(struct roami_heap_parts *pool, uint64_t heap_bytes)
{
	pool->part = roami_heap_part(heap_bytes);
	pool->count = (uint32_t)(heap_bytes / pool->part);
}

struct roami_heap_part roami_heap_parts_look(const struct roami_heap_parts *pool, uint32_t part)
{
	uint64_t word = atomic_load_explicit(&pool->words[part], memory_order_relaxed);

	return (struct roami_heap_part){(enum roami_heap_parts_state)(word >> WORD_STATE),
					(word & WORD_USED) != 0, (unsigned)word & 0xffffu,
					atomic_load_explicit(&pool->intervals[part],
							     memory_order_relaxed)};
}

void roami_heap_parts_begin(struct roami_heap_parts *pool, uint32_t first, uint32_t parts,
			    unsigned node)
{
	parts_set(pool, first, parts,
		  (struct roami_heap_part){ROAMI_HEAP_PARTS_LEASED, true, node, 0});
}

void roami_heap_parts_old(struct roami_heap_parts *pool, const uint8_t *old)
{
	for (uint32_t i = 0; i < pool->count; i++) {
		bool spare = old[i] == ROAMI_HEAP_PARTS_OLD_SPARE;
		struct roami_heap_part part = {
			spare ? ROAMI_HEAP_PARTS_LEASED : (enum roami_heap_parts_state)old[i], true,
			0, 0};

		if (part.state == ROAMI_HEAP_PARTS_LEASED)
			part.node = ROAMI_HEAP_PARTS_NOBODY;
		if (part.state != ROAMI_HEAP_PARTS_FREE)
			parts_set(pool, i, 1, part);
		if (spare) {
			atomic_fetch_or(&pool->words[i], WORD_SPARE);
			atomic_fetch_add(&pool->spares, 1);
		}
	}
}

static bool parts_free_to(struct roami_heap_part part, unsigned me,
			  const struct roami_vclock *clock)
{
	return part.state == ROAMI_HEAP_PARTS_FREE &&
	       (part.interval == 0 || part.node == me || clock->at[part.node] >= part.interval);
}

/* Leases gather below and blocks above, so that small ones seldom lie between large ones. */
bool roami_heap_parts_take(struct roami_heap_parts *pool, uint32_t parts, bool block, unsigned me,
			   const struct roami_vclock *clock, uint32_t *first_p, bool *used_p)
{
	uint32_t run = 0, at = 0;
	bool used = false;

	for (uint32_t i = 0; i < pool->count && run < parts; i++) {
		struct roami_heap_part part;

		at = block ? pool->count - 1 - i : i;
		part = roami_heap_parts_look(pool, at);
		run = parts_free_to(part, me, clock) ? run + 1 : 0;
		used = run > 0 && (part.used || (used && run > 1));
	}
	if (parts == 0 || run < parts)
		return false;
	*first_p = block ? at : at + 1 - parts;
	*used_p = used;
	parts_set(pool, *first_p, parts,
		  (struct roami_heap_part){block ? ROAMI_HEAP_PARTS_REST : ROAMI_HEAP_PARTS_LEASED,
					   true, me, 0});
	if (block)
		parts_set(pool, *first_p, 1,
			  (struct roami_heap_part){ROAMI_HEAP_PARTS_BLOCK, true, me, 0});
	return true;
}

void roami_heap_parts_put(struct roami_heap_parts *pool, uint32_t first, uint32_t parts, bool used,
			  unsigned node, uint64_t interval)
{
	parts_set(pool, first, parts,
		  (struct roami_heap_part){ROAMI_HEAP_PARTS_FREE, used, node, interval});
}

bool roami_heap_parts_free(struct roami_heap_parts *pool, uint32_t first, unsigned node,
			   uint64_t interval)
{
	uint32_t parts = 1;

	if (first >= pool->count ||
	    roami_heap_parts_look(pool, first).state != ROAMI_HEAP_PARTS_BLOCK)
		return false;
	while (first + parts < pool->count &&
	       roami_heap_parts_look(pool, first + parts).state == ROAMI_HEAP_PARTS_REST)
		parts++;
	roami_heap_parts_put(pool, first, parts, true, node, interval);
	return true;
}

void roami_heap_parts_collect(struct roami_heap_parts *pool,
			      enum roami_heap_parts_lives (*lives)(void *arg, uint32_t part,
								   unsigned node),
			      void *arg)
{
	uint32_t spares = 0;

	for (uint32_t i = 0; atomic_load(&pool->used) != 0 && i < pool->count; i++) {
		struct roami_heap_part part = roami_heap_parts_look(pool, i);
		enum roami_heap_parts_lives kept = ROAMI_HEAP_PARTS_FULL;

		if (part.state == ROAMI_HEAP_PARTS_LEASED && part.node != 0) {
			kept = lives(arg, i, part.node);
			part.node = ROAMI_HEAP_PARTS_NOBODY;
			if (kept == ROAMI_HEAP_PARTS_EMPTY)
				part.state = ROAMI_HEAP_PARTS_FREE;
		}
		if (part.state != ROAMI_HEAP_PARTS_LEASED)
			part.node = 0; /* the node that took or freed it is no more */
		part.interval = 0;
		parts_set(pool, i, 1, part);
		if (kept == ROAMI_HEAP_PARTS_SPARE) {
			atomic_fetch_or(&pool->words[i], WORD_SPARE);
			spares++;
		}
	}
	atomic_store(&pool->spares, spares);
}

bool roami_heap_parts_spare(const struct roami_heap_parts *pool, uint32_t *part_p)
{
	uint32_t part = 0;

	if (atomic_load(&pool->spares) == 0)
		return false;
	while (part < pool->count && (atomic_load(&pool->words[part]) & WORD_SPARE) == 0)
		part++;
	*part_p = part;
	return part < pool->count;
}

void roami_heap_parts_adopt(struct roami_heap_parts *pool, unsigned node, uint32_t part)
{
	parts_set(pool, part, 1,
		  (struct roami_heap_part){ROAMI_HEAP_PARTS_LEASED, true, node, 0});
	atomic_fetch_sub(&pool->spares, 1);
}

void roami_heap_parts_disturb(struct roami_heap_parts *pool, uint32_t part)
{
	if ((atomic_fetch_and(&pool->words[part], ~WORD_SPARE) & WORD_SPARE) != 0)
		atomic_fetch_sub(&pool->spares, 1);
}
