/*
 * Records lie one after the other in chunks, which grow with the element; a chunk goes back to the
 * allocator with its last record.  Slots, one for each number, say where a tuple's record is and
 * whether it was observed.  512 slots are a unit of the allocator, and the units of an element
 * stand in a ring by number: the reverse i-nodes of the papers, with one level.
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

static struct record *record_at(const struct roami_past_buddy *buddy, roami_record record)
{
	return (struct record *)(void *)(buddy->base + record);
}

static struct chunk *record_chunk(const struct roami_past_buddy *buddy, roami_record record,
				  uint32_t *unit_p)
{
	uint32_t unit = (uint32_t)(record / ROAMI_PAST_UNIT);

	*unit_p = unit & ~((1u << roami_past_buddy_order(buddy, unit)) - 1);
	return roami_past_buddy_at(buddy, *unit_p);
}

uint8_t *roami_record_data(const struct roami_past_buddy *buddy, roami_record record)
{
	return record_at(buddy, record)->data;
}

uint32_t roami_record_bytes(const struct roami_past_buddy *buddy, roami_record record)
{
	return record_at(buddy, record)->bytes;
}

uint32_t roami_record_seen(const struct roami_past_buddy *buddy, roami_record record)
{
	return ++record_at(buddy, record)->seen;
}

static void chunk_rele(struct roami_node *node, struct roami_past_buddy *buddy, uint32_t unit,
		       uint32_t count)
{
	struct chunk *chunk = roami_past_buddy_at(buddy, unit);
	uint32_t live = atomic_fetch_sub(&chunk->live, count);

	roami_assert(live >= count); /* more was let go than was held */
	if (live == count)
		roami_past_buddy_give(node, buddy, unit);
}

void roami_record_hold(const struct roami_past_buddy *buddy, roami_record record)
{
	uint32_t unit;

	atomic_fetch_add(&record_chunk(buddy, record, &unit)->live, 1);
}

void roami_record_rele(struct roami_node *node, struct roami_past_buddy *buddy, roami_record record)
{
	uint32_t unit;

	record_chunk(buddy, record, &unit);
	chunk_rele(node, buddy, unit, 1);
}

/* A new chunk, twice as large as the one before, with room for `need`. */
static bool chunk_begin(struct roami_node *node, struct roami_past_buddy *buddy,
			struct roami_tuples *tuples, size_t need)
{
	unsigned fit = roami_past_buddy_fit(need + sizeof(struct chunk)), order = fit;
	uint32_t unit;

	if (tuples->chunk != 0 && roami_past_buddy_order(buddy, tuples->chunk) >= order)
		order = roami_past_buddy_order(buddy, tuples->chunk) + 1;
	if (order > CHUNK_ORDER_MAX)
		order = CHUNK_ORDER_MAX;
	unit = roami_past_buddy_take(node, buddy, order);
	if (unit == 0 && order > fit)
		unit = roami_past_buddy_take(node, buddy, fit);
	if (unit == 0)
		return false;
	if (tuples->chunk != 0)
		chunk_rele(node, buddy, tuples->chunk, CHUNK_OPEN - tuples->chunk_put);
	atomic_store(&((struct chunk *)roami_past_buddy_at(buddy, unit))->live, CHUNK_OPEN);
	tuples->chunk = unit;
	tuples->chunk_put = 0;
	tuples->chunk_used = sizeof(struct chunk);
	return true;
}

roami_record roami_tuples_reserve(struct roami_node *node, struct roami_past_buddy *buddy,
				  struct roami_tuples *tuples, uint32_t bytes)
{
	uint32_t need = ((uint32_t)sizeof(struct record) + bytes + 7) & ~7u;
	roami_record record;

	if (tuples->chunk == 0 ||
	    tuples->chunk_used + need > ROAMI_PAST_UNIT
						<< roami_past_buddy_order(buddy, tuples->chunk))
		if (!chunk_begin(node, buddy, tuples, need))
			return 0;
	record = (roami_record)tuples->chunk * ROAMI_PAST_UNIT + tuples->chunk_used;
	tuples->chunk_used += need;
	record_at(buddy, record)->bytes = bytes;
	record_at(buddy, record)->seen = 0;
	tuples->chunk_put++;
	return record;
}

/* ---------------------------------------------------------------------------------------- slots */

static uint32_t *slots_unit(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			    uint64_t number)
{
	uint32_t *units = tuples->index == 0 ? tuples->few
					     : roami_past_buddy_at(buddy, tuples->index);

	return &units[number / SLOTS & (tuples->index_size - 1)];
}

static uint64_t *slot_at(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			 uint64_t number)
{
	uint64_t *slots = roami_past_buddy_at(buddy, *slots_unit(buddy, tuples, number));

	return &slots[number % SLOTS];
}

/* Makes room in the ring for the units of numbers from `oldest` to `last`. */
static bool index_fit(struct roami_node *node, struct roami_past_buddy *buddy,
		      struct roami_tuples *tuples, uint64_t last)
{
	uint64_t need = last / SLOTS - tuples->oldest / SLOTS + 1;
	struct roami_tuples grown = *tuples;
	unsigned order = 0;

	if (need <= tuples->index_size)
		return true;
	if (tuples->index != 0)
		order = roami_past_buddy_order(buddy, tuples->index) + 1;
	grown.index = order < ROAMI_PAST_ORDERS ? roami_past_buddy_take(node, buddy, order) : 0;
	if (grown.index == 0)
		return false;
	grown.index_size = (ROAMI_PAST_UNIT << order) / (uint32_t)sizeof(uint32_t);
	memset(roami_past_buddy_at(buddy, grown.index), 0, (size_t)ROAMI_PAST_UNIT << order);
	for (uint64_t at = tuples->oldest / SLOTS; at <= tuples->last / SLOTS; at++)
		*slots_unit(buddy, &grown, at * SLOTS) = *slots_unit(buddy, tuples, at * SLOTS);
	if (tuples->index != 0)
		roami_past_buddy_give(node, buddy, tuples->index);
	tuples->index = grown.index;
	tuples->index_size = grown.index_size;
	return true;
}

bool roami_tuples_buffer(struct roami_node *node, struct roami_past_buddy *buddy,
			 struct roami_tuples *tuples)
{
	uint32_t *unit;

	if (!index_fit(node, buddy, tuples, tuples->last + 1))
		return false;
	unit = slots_unit(buddy, tuples, tuples->last + 1);
	if (*unit == 0)
		*unit = roami_past_buddy_take(node, buddy, 0);
	return *unit != 0;
}

bool roami_tuples_append(struct roami_node *node, struct roami_past_buddy *buddy,
			 struct roami_tuples *tuples, roami_record record)
{
	roami_assert(record != 0);
	if (!roami_tuples_buffer(node, buddy, tuples))
		return false;
	tuples->last++;
	tuples->bytes += roami_record_bytes(buddy, record);
	*slot_at(buddy, tuples, tuples->last) = record;
	return true;
}

roami_record roami_tuples_find(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			       uint64_t number)
{
	roami_assert(number >= tuples->oldest && number <= tuples->last);
	return *slot_at(buddy, tuples, number) & ~SLOT_TAGGED;
}

static void tuples_first(const struct roami_past_buddy *buddy, struct roami_tuples *tuples)
{
	while (tuples->first <= tuples->last &&
	       (*slot_at(buddy, tuples, tuples->first) & SLOT_TAGGED) != 0)
		tuples->first++;
}

bool roami_tuples_tagged(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
			 uint64_t number)
{
	roami_assert(number >= tuples->oldest && number <= tuples->last);
	return (*slot_at(buddy, tuples, number) & SLOT_TAGGED) != 0;
}

void roami_tuples_tag(const struct roami_past_buddy *buddy, struct roami_tuples *tuples,
		      uint64_t number)
{
	roami_assert(number >= tuples->oldest && number <= tuples->last);
	*slot_at(buddy, tuples, number) |= SLOT_TAGGED;
	tuples_first(buddy, tuples);
}

void roami_tuples_truncate(struct roami_node *node, struct roami_past_buddy *buddy,
			   struct roami_tuples *tuples, uint64_t number)
{
	if (number > tuples->last)
		number = tuples->last + 1;
	for (; tuples->oldest < number; tuples->oldest++) {
		roami_record record = roami_tuples_find(buddy, tuples, tuples->oldest);
		uint32_t *unit = slots_unit(buddy, tuples, tuples->oldest);

		tuples->bytes -= roami_record_bytes(buddy, record);
		roami_record_rele(node, buddy, record);
		if (tuples->oldest % SLOTS == SLOTS - 1) {
			roami_past_buddy_give(node, buddy, *unit);
			*unit = 0;
		}
	}
	if (tuples->first < tuples->oldest)
		tuples->first = tuples->oldest;
	tuples_first(buddy, tuples);
}

void roami_tuples_init(struct roami_tuples *tuples)
{
	memset(tuples, 0, sizeof(*tuples));
	tuples->index_size = sizeof(tuples->few) / sizeof(tuples->few[0]);
	roami_tuples_begin(tuples, 0);
}

void roami_tuples_begin(struct roami_tuples *tuples, uint64_t last)
{
	roami_assert(tuples->chunk == 0); /* there is no tuple yet */
	tuples->last = last;
	tuples->oldest = tuples->first = last + 1;
}
