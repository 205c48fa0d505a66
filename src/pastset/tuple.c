/*
 * Records lie one after the other in chunks, which grow with the element; a chunk goes back to the
 * pool with its last record.  Slots, one for each number, say where a tuple's record is and whether
 * it was observed.  512 of them are a unit of the pool, and the units of an element stand in a ring
 * by number: the reverse i-nodes of the papers, with one level.
 */
#include "pastset/tuple.h"

#include <string.h>

#define CHUNK_ORDER_MAX 4u /* 64 KiB */
#define SLOTS           (ROAMI_PAST_UNIT / sizeof(uint64_t))
#define SLOT_TAGGED     (1ull << 63)

/*
 * Begins a chunk.  `live`: records and holds.  While records are put there it is CHUNK_OPEN and the
 * holds, less what was let go; tuples->chunk_put counts the records, with no atomic operation.
 */
#define CHUNK_OPEN (1u << 31)

struct chunk {
	_Atomic uint32_t live;
	uint32_t spare;
};

struct record {
	uint32_t bytes;
	uint32_t seen; /* by so many participants */
	uint8_t data[];
};

_Static_assert(ROAM_PS_TUPLE_MAX + sizeof(struct chunk) + sizeof(struct record) <=
		       (size_t)ROAMI_PAST_UNIT << CHUNK_ORDER_MAX,
	       "a tuple fits into a chunk");

/* -------------------------------------------------------------------------------------- records */

static struct record *record_at(const struct roami_past_pool *pool, roami_record record)
{
	return (struct record *)(void *)(pool->base + record);
}

static struct chunk *record_chunk(const struct roami_past_pool *pool, roami_record record,
				  uint32_t *unit_p)
{
	uint32_t unit = (uint32_t)(record / ROAMI_PAST_UNIT);

	*unit_p = unit & ~((1u << roami_past_pool_order(pool, unit)) - 1);
	return roami_past_pool_at(pool, *unit_p);
}

uint8_t *roami_record_data(const struct roami_past_pool *pool, roami_record record)
{
	return record_at(pool, record)->data;
}

uint32_t roami_record_bytes(const struct roami_past_pool *pool, roami_record record)
{
	return record_at(pool, record)->bytes;
}

uint32_t roami_record_seen(const struct roami_past_pool *pool, roami_record record)
{
	return ++record_at(pool, record)->seen;
}

static void chunk_rele(struct roami_node *node, struct roami_past_pool *pool, uint32_t unit,
		       uint32_t count)
{
	struct chunk *chunk = roami_past_pool_at(pool, unit);

	if (atomic_fetch_sub(&chunk->live, count) == count)
		roami_past_pool_give(node, pool, unit);
}

void roami_record_hold(const struct roami_past_pool *pool, roami_record record)
{
	uint32_t unit;

	atomic_fetch_add(&record_chunk(pool, record, &unit)->live, 1);
}

void roami_record_rele(struct roami_node *node, struct roami_past_pool *pool, roami_record record)
{
	uint32_t unit;

	record_chunk(pool, record, &unit);
	chunk_rele(node, pool, unit, 1);
}

/* A new chunk, twice as large as the one before, with room for `need`. */
static bool chunk_begin(struct roami_node *node, struct roami_past_pool *pool,
			struct roami_tuples *tuples, size_t need)
{
	unsigned fit = roami_past_pool_fit(need + sizeof(struct chunk)), order = fit;
	uint32_t unit;

	if (tuples->chunk != 0 && roami_past_pool_order(pool, tuples->chunk) >= order)
		order = roami_past_pool_order(pool, tuples->chunk) + 1;
	if (order > CHUNK_ORDER_MAX)
		order = CHUNK_ORDER_MAX;
	unit = roami_past_pool_take(node, pool, order);
	if (unit == 0 && order > fit)
		unit = roami_past_pool_take(node, pool, fit);
	if (unit == 0)
		return false;
	if (tuples->chunk != 0)
		chunk_rele(node, pool, tuples->chunk, CHUNK_OPEN - tuples->chunk_put);
	atomic_store(&((struct chunk *)roami_past_pool_at(pool, unit))->live, CHUNK_OPEN);
	tuples->chunk = unit;
	tuples->chunk_put = 0;
	tuples->chunk_used = sizeof(struct chunk);
	return true;
}

roami_record roami_tuples_reserve(struct roami_node *node, struct roami_past_pool *pool,
				  struct roami_tuples *tuples, uint32_t bytes)
{
	uint32_t need = ((uint32_t)sizeof(struct record) + bytes + 7) & ~7u;
	roami_record record;

	if (tuples->chunk == 0 ||
	    tuples->chunk_used + need > ROAMI_PAST_UNIT
						<< roami_past_pool_order(pool, tuples->chunk))
		if (!chunk_begin(node, pool, tuples, need))
			return 0;
	record = (roami_record)tuples->chunk * ROAMI_PAST_UNIT + tuples->chunk_used;
	tuples->chunk_used += need;
	record_at(pool, record)->bytes = bytes;
	record_at(pool, record)->seen = 0;
	tuples->chunk_put++;
	return record;
}

/* ---------------------------------------------------------------------------------------- slots */

static uint32_t *slots_unit(const struct roami_past_pool *pool, struct roami_tuples *tuples,
			    uint64_t number)
{
	uint32_t *units = tuples->index == 0 ? tuples->few
					     : roami_past_pool_at(pool, tuples->index);

	return &units[number / SLOTS & (tuples->index_size - 1)];
}

static uint64_t *slot_at(const struct roami_past_pool *pool, struct roami_tuples *tuples,
			 uint64_t number)
{
	uint64_t *slots = roami_past_pool_at(pool, *slots_unit(pool, tuples, number));

	return &slots[number % SLOTS];
}

/* Makes room in the ring for the units of numbers from `oldest` to `last`. */
static bool index_fit(struct roami_node *node, struct roami_past_pool *pool,
		      struct roami_tuples *tuples, uint64_t last)
{
	uint64_t need = last / SLOTS - tuples->oldest / SLOTS + 1;
	struct roami_tuples grown = *tuples;
	unsigned order = 0;

	if (need <= tuples->index_size)
		return true;
	if (tuples->index != 0)
		order = roami_past_pool_order(pool, tuples->index) + 1;
	grown.index = order < ROAMI_PAST_ORDERS ? roami_past_pool_take(node, pool, order) : 0;
	if (grown.index == 0)
		return false;
	grown.index_size = (ROAMI_PAST_UNIT << order) / (uint32_t)sizeof(uint32_t);
	memset(roami_past_pool_at(pool, grown.index), 0, (size_t)ROAMI_PAST_UNIT << order);
	for (uint64_t at = tuples->oldest / SLOTS; at <= tuples->last / SLOTS; at++)
		*slots_unit(pool, &grown, at * SLOTS) = *slots_unit(pool, tuples, at * SLOTS);
	if (tuples->index != 0)
		roami_past_pool_give(node, pool, tuples->index);
	tuples->index = grown.index;
	tuples->index_size = grown.index_size;
	return true;
}

bool roami_tuples_room(struct roami_node *node, struct roami_past_pool *pool,
		       struct roami_tuples *tuples)
{
	uint32_t *unit;

	if (!index_fit(node, pool, tuples, tuples->last + 1))
		return false;
	unit = slots_unit(pool, tuples, tuples->last + 1);
	if (*unit == 0)
		*unit = roami_past_pool_take(node, pool, 0);
	return *unit != 0;
}

bool roami_tuples_append(struct roami_node *node, struct roami_past_pool *pool,
			 struct roami_tuples *tuples, roami_record record)
{
	if (!roami_tuples_room(node, pool, tuples))
		return false;
	tuples->last++;
	tuples->bytes += roami_record_bytes(pool, record);
	*slot_at(pool, tuples, tuples->last) = record;
	return true;
}

roami_record roami_tuples_find(const struct roami_past_pool *pool, struct roami_tuples *tuples,
			       uint64_t number)
{
	roami_assert(number >= tuples->oldest && number <= tuples->last);
	return *slot_at(pool, tuples, number) & ~SLOT_TAGGED;
}

static void tuples_first(const struct roami_past_pool *pool, struct roami_tuples *tuples)
{
	while (tuples->first <= tuples->last &&
	       (*slot_at(pool, tuples, tuples->first) & SLOT_TAGGED) != 0)
		tuples->first++;
}

bool roami_tuples_tagged(const struct roami_past_pool *pool, struct roami_tuples *tuples,
			 uint64_t number)
{
	return (*slot_at(pool, tuples, number) & SLOT_TAGGED) != 0;
}

void roami_tuples_tag(const struct roami_past_pool *pool, struct roami_tuples *tuples,
		      uint64_t number)
{
	*slot_at(pool, tuples, number) |= SLOT_TAGGED;
	tuples_first(pool, tuples);
}

void roami_tuples_truncate(struct roami_node *node, struct roami_past_pool *pool,
			   struct roami_tuples *tuples, uint64_t number)
{
	if (number > tuples->last)
		number = tuples->last + 1;
	for (; tuples->oldest < number; tuples->oldest++) {
		roami_record record = roami_tuples_find(pool, tuples, tuples->oldest);
		uint32_t *unit = slots_unit(pool, tuples, tuples->oldest);

		tuples->bytes -= roami_record_bytes(pool, record);
		roami_record_rele(node, pool, record);
		if (tuples->oldest % SLOTS == SLOTS - 1) {
			roami_past_pool_give(node, pool, *unit);
			*unit = 0;
		}
	}
	if (tuples->first < tuples->oldest)
		tuples->first = tuples->oldest;
	tuples_first(pool, tuples);
}

void roami_tuples_init(struct roami_tuples *tuples)
{
	memset(tuples, 0, sizeof(*tuples));
	tuples->index_size = sizeof(tuples->few) / sizeof(tuples->few[0]);
	roami_tuples_begin(tuples, 0);
}

void roami_tuples_begin(struct roami_tuples *tuples, uint64_t last)
{
	tuples->last = last;
	tuples->oldest = tuples->first = last + 1;
}
