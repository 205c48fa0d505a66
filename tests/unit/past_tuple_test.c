/*
 * The memory for tuples against a naive model, and the tuples of an element: a million of them,
 * found by number, tagged and truncated at random; all memory comes back, but not before its last
 * user has let go.
 */
#include "pastset/element.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define UNITS 4096u
#define MIB   (1u << 20)

static struct roami_past_buddy *buddy_new(uint64_t bytes)
{
	struct roami_past_buddy *buddy = calloc(1, sizeof(*buddy));

	CU_ASSERT_PTR_NOT_NULL_FATAL(buddy);
	CU_ASSERT_EQUAL_FATAL(roami_past_buddy_init(buddy, bytes), ROAM_OK);
	return buddy;
}

static void buddy_free(struct roami_past_buddy *buddy)
{
	roami_past_buddy_fini(buddy);
	free(buddy);
}

/* The locks are free, so no node is asked to wait. */
static uint32_t take(struct roami_past_buddy *buddy, unsigned order)
{
	return roami_past_buddy_take(NULL, buddy, order);
}

/* How many units can be taken, one by one. */
static unsigned units_left(struct roami_past_buddy *buddy)
{
	static uint32_t units[UNITS];
	unsigned count = 0;

	while (count < UNITS && (units[count] = take(buddy, 0)) != 0)
		count++;
	for (unsigned i = 0; i < count; i++)
		roami_past_buddy_give(NULL, buddy, units[i]);
	return count;
}

/* Blocks never overlap, keep their bytes, and are whole again when all are given back. */
static void test_buddy(void)
{
	struct roami_past_buddy *buddy = buddy_new(4 * MIB);
	static uint8_t owner[UNITS];
	uint32_t blocks[256] = {0};
	uint64_t random = unit_seed();
	unsigned all = units_left(buddy), largest = 0;

	memset(owner, 0, sizeof(owner));
	for (unsigned round = 0; round < 200000; round++) {
		unsigned at = (unsigned)unit_below(&random, 255) + 1;
		unsigned order = (unsigned)unit_below(&random, ROAMI_PAST_ORDERS);

		if (blocks[at] != 0) {
			order = roami_past_buddy_order(buddy, blocks[at]);
			for (uint32_t i = 0; i < 1u << order; i++) {
				CU_ASSERT_EQUAL_FATAL(owner[blocks[at] + i], at);
				owner[blocks[at] + i] = 0;
			}
			roami_past_buddy_give(NULL, buddy, blocks[at]);
			blocks[at] = 0;
			continue;
		}
		blocks[at] = take(buddy, order);
		for (uint32_t i = 0; blocks[at] != 0 && i < 1u << order; i++) {
			CU_ASSERT_EQUAL_FATAL(owner[blocks[at] + i], 0);
			owner[blocks[at] + i] = (uint8_t)at;
			memset(roami_past_buddy_at(buddy, blocks[at] + i), (int)at, 16);
		}
	}
	for (unsigned at = 0; at < 256; at++)
		if (blocks[at] != 0)
			roami_past_buddy_give(NULL, buddy, blocks[at]);
	while (take(buddy, ROAMI_PAST_ORDERS - 1) != 0)
		largest++;
	CU_ASSERT_EQUAL(largest << (ROAMI_PAST_ORDERS - 1), all);
	buddy_free(buddy);
}

static bool append(struct roami_past_buddy *buddy, struct roami_tuples *tuples, uint64_t value,
		   uint32_t bytes)
{
	roami_record record = roami_tuples_reserve(NULL, buddy, tuples, bytes);

	if (record == 0)
		return false;
	memset(roami_record_data(buddy, record), (int)value, bytes);
	if (roami_tuples_append(NULL, buddy, tuples, record))
		return true;
	roami_record_rele(NULL, buddy, record);
	return false;
}

/* A million tuples in one element, each found by its number. */
static void test_million(void)
{
	struct roami_past_buddy *buddy = buddy_new(256 * MIB);
	struct roami_tuples tuples;
	unsigned bad = 0;

	roami_tuples_init(&tuples);
	for (uint64_t i = 1; i <= 1000000; i++)
		CU_ASSERT_FATAL(append(buddy, &tuples, i, 1 + (uint32_t)i % 40));
	for (uint64_t i = 1; i <= 1000000; i++) {
		roami_record record = roami_tuples_find(buddy, &tuples, i);

		bad += roami_record_bytes(buddy, record) != 1 + i % 40 ||
		       *roami_record_data(buddy, record) != (uint8_t)i;
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(tuples.last, 1000000);
	CU_ASSERT_EQUAL(tuples.first, 1);
	for (uint64_t i = 1000000; i > 1; i--)
		roami_tuples_tag(buddy, &tuples, i);
	CU_ASSERT_EQUAL(tuples.first, 1);
	roami_tuples_tag(buddy, &tuples, 1);
	CU_ASSERT_EQUAL(tuples.first, 1000001);
	roami_tuples_truncate(NULL, buddy, &tuples, UINT64_MAX);
	CU_ASSERT_EQUAL(tuples.bytes, 0);
	CU_ASSERT(append(buddy, &tuples, 7, 8));
	CU_ASSERT_EQUAL(tuples.last, 1000001);
	buddy_free(buddy);
}

/* What a slow, plain account of one element would have. */
struct plain {
	uint64_t last, oldest, first;
	uint8_t tagged[100000];
};

static void plain_first(struct plain *plain)
{
	plain->first = plain->oldest;
	while (plain->first <= plain->last && plain->tagged[plain->first])
		plain->first++;
}

/* Random appends, tags, truncations and holds in little memory: it never leaks. */
static void test_random(void)
{
	struct roami_past_buddy *buddy = buddy_new(1 * MIB);
	struct plain *plain = calloc(1, sizeof(*plain));
	struct roami_tuples tuples;
	roami_record held = 0;
	uint64_t random = unit_seed(), value = 0;
	unsigned full = 0, all = units_left(buddy);

	CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
	roami_tuples_init(&tuples);
	*plain = (struct plain){.oldest = 1, .first = 1};
	while (plain->last < 90000) {
		uint64_t draw = unit_below(&random, 100);
		uint64_t live = plain->last + 1 - plain->oldest;

		if (draw < 60) {
			uint32_t bytes = (uint32_t)unit_below(&random, draw < 2 ? 20000 : 60);

			if (append(buddy, &tuples, plain->last + 1, bytes))
				plain->last++;
			else
				full++;
		} else if (draw < 98 && live > 0) {
			uint64_t number = plain->oldest + unit_below(&random, live);

			plain->tagged[number] = 1;
			roami_tuples_tag(buddy, &tuples, number);
		} else if (draw == 98 && live > 0 && held == 0) {
			value = plain->oldest + unit_below(&random, live);
			held = roami_tuples_find(buddy, &tuples, value);
			roami_record_hold(buddy, held);
		} else if (draw == 99 && unit_below(&random, 60) == 0) {
			uint64_t to = plain->oldest + unit_below(&random, live * 2 + 2);

			roami_tuples_truncate(NULL, buddy, &tuples, to);
			plain->oldest = to > plain->last ? plain->last + 1 : to;
			if (held != 0) {
				for (uint32_t i = 0; i < roami_record_bytes(buddy, held); i++)
					CU_ASSERT_EQUAL_FATAL(roami_record_data(buddy, held)[i],
							      (uint8_t)value);
				roami_record_rele(NULL, buddy, held);
			}
			held = 0;
		}
		plain_first(plain);
		CU_ASSERT_FATAL(tuples.first == plain->first && tuples.last == plain->last &&
				tuples.oldest == plain->oldest);
	}
	CU_ASSERT(full > 0);
	if (held != 0)
		roami_record_rele(NULL, buddy, held);
	roami_tuples_truncate(NULL, buddy, &tuples, UINT64_MAX);
	/*
	 * The memory of an empty element: a chunk of at most 16 units, the index, a unit of slots.
	 */
	CU_ASSERT(units_left(buddy) + 18 >= all);
	free(plain);
	buddy_free(buddy);
}

static void element_do(struct roami_element *element, struct roami_op *op)
{
	CU_ASSERT_FATAL(roami_element_try(NULL, element, op));
	CU_ASSERT_EQUAL_FATAL(op->err, ROAM_OK);
}

static void element_move(struct roami_element *element, uint8_t value)
{
	struct roami_op op = {.ask = {.op = ROAM_PS_MOVE}};

	op.record = roami_element_reserve(NULL, element, 20000);
	CU_ASSERT_FATAL(op.record != 0);
	memset(roami_record_data(element->buddy, op.record), value, 20000);
	element_do(element, &op);
}

/* An observed tuple keeps its bytes until its observer lets go, even if it is truncated. */
static void test_held(void)
{
	struct roami_past_buddy *buddy = buddy_new(1 * MIB);
	struct roami_element element;
	struct roami_op observe = {.ask = {.op = ROAM_PS_OBSERVE, .limit = 20000}};
	struct roami_op truncate = {.ask = {.op = ROAM_PS_TRUNCATE, .number = UINT64_MAX}};
	unsigned changed = 0;

	roami_element_init(&element, buddy, 0, false);
	roami_spin_lock(NULL, &element.lock);
	element_move(&element, 1);
	element_do(&element, &observe);
	for (unsigned round = 0; round < 100; round++) {
		element_do(&element, &truncate);
		element_move(&element, 2);
	}
	for (unsigned i = 0; i < observe.bytes; i++)
		changed += roami_record_data(buddy, observe.record)[i] != 1;
	CU_ASSERT_EQUAL(observe.bytes, 20000);
	CU_ASSERT_EQUAL(changed, 0);
	roami_record_rele(NULL, buddy, observe.record);
	buddy_free(buddy);
}

static CU_TestInfo tests[] = {{"blocks of the buddy allocator", test_buddy},
			      {"a million tuples", test_million},
			      {"random work in little memory", test_random},
			      {"what is observed is held", test_held},
			      CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("past_tuple", tests, argc, argv);
}
