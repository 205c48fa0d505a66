/*
 * The memory for tuples against a naive model, and the tuples of an element: a million of them,
 * found by number, tagged and truncated at random; all memory comes back.
 */
#include "pastset/tuple.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define UNITS 4096u
#define MIB   (1u << 20)

static struct roami_past_pool *pool_new(uint64_t bytes)
{
	struct roami_past_pool *pool = calloc(1, sizeof(*pool));

	CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
	CU_ASSERT_EQUAL_FATAL(roami_past_pool_init(pool, bytes), ROAM_OK);
	return pool;
}

static void pool_free(struct roami_past_pool *pool)
{
	roami_past_pool_fini(pool);
	free(pool);
}

/* The locks are free: no node is asked to wait. */
static uint32_t take(struct roami_past_pool *pool, unsigned order)
{
	return roami_past_pool_take(NULL, pool, order);
}

/* How many units can be had, one by one. */
static unsigned units_left(struct roami_past_pool *pool)
{
	static uint32_t units[UNITS];
	unsigned count = 0;

	while (count < UNITS && (units[count] = take(pool, 0)) != 0)
		count++;
	for (unsigned i = 0; i < count; i++)
		roami_past_pool_give(NULL, pool, units[i]);
	return count;
}

/* Blocks never overlap, keep their bytes, and are whole again when all are given back. */
static void test_pool(void)
{
	struct roami_past_pool *pool = pool_new(4 * MIB);
	static uint8_t owner[UNITS];
	uint32_t blocks[256] = {0};
	uint64_t random = unit_seed();
	unsigned all = units_left(pool), largest = 0;

	memset(owner, 0, sizeof(owner));
	for (unsigned round = 0; round < 200000; round++) {
		unsigned at = (unsigned)unit_below(&random, 255) + 1;
		unsigned order = (unsigned)unit_below(&random, ROAMI_PAST_ORDERS);

		if (blocks[at] != 0) {
			order = roami_past_pool_order(pool, blocks[at]);
			for (uint32_t i = 0; i < 1u << order; i++) {
				CU_ASSERT_EQUAL_FATAL(owner[blocks[at] + i], at);
				owner[blocks[at] + i] = 0;
			}
			roami_past_pool_give(NULL, pool, blocks[at]);
			blocks[at] = 0;
			continue;
		}
		blocks[at] = take(pool, order);
		for (uint32_t i = 0; blocks[at] != 0 && i < 1u << order; i++) {
			CU_ASSERT_EQUAL_FATAL(owner[blocks[at] + i], 0);
			owner[blocks[at] + i] = (uint8_t)at;
			memset(roami_past_pool_at(pool, blocks[at] + i), (int)at, 16);
		}
	}
	for (unsigned at = 0; at < 256; at++)
		if (blocks[at] != 0)
			roami_past_pool_give(NULL, pool, blocks[at]);
	while (take(pool, ROAMI_PAST_ORDERS - 1) != 0)
		largest++;
	CU_ASSERT_EQUAL(largest << (ROAMI_PAST_ORDERS - 1), all);
	pool_free(pool);
}

static bool append(struct roami_past_pool *pool, struct roami_tuples *tuples, uint64_t value,
		   uint32_t bytes)
{
	roami_record record = roami_tuples_reserve(NULL, pool, tuples, bytes);

	if (record == 0)
		return false;
	memset(roami_record_data(pool, record), (int)value, bytes);
	if (roami_tuples_append(NULL, pool, tuples, record))
		return true;
	roami_record_rele(NULL, pool, record);
	return false;
}

/* A million tuples in one element, each found by its number. */
static void test_million(void)
{
	struct roami_past_pool *pool = pool_new(256 * MIB);
	struct roami_tuples tuples;
	unsigned bad = 0;

	roami_tuples_init(&tuples);
	for (uint64_t i = 1; i <= 1000000; i++)
		CU_ASSERT_FATAL(append(pool, &tuples, i, 1 + (uint32_t)i % 40));
	for (uint64_t i = 1; i <= 1000000; i++) {
		roami_record record = roami_tuples_find(pool, &tuples, i);

		bad += roami_record_bytes(pool, record) != 1 + i % 40 ||
		       *roami_record_data(pool, record) != (uint8_t)i;
	}
	CU_ASSERT_EQUAL(bad, 0);
	CU_ASSERT_EQUAL(tuples.last, 1000000);
	CU_ASSERT_EQUAL(tuples.first, 1);
	for (uint64_t i = 1000000; i > 1; i--)
		roami_tuples_tag(pool, &tuples, i);
	CU_ASSERT_EQUAL(tuples.first, 1);
	roami_tuples_tag(pool, &tuples, 1);
	CU_ASSERT_EQUAL(tuples.first, 1000001);
	roami_tuples_truncate(NULL, pool, &tuples, UINT64_MAX);
	CU_ASSERT_EQUAL(tuples.bytes, 0);
	CU_ASSERT(append(pool, &tuples, 7, 8));
	CU_ASSERT_EQUAL(tuples.last, 1000001);
	pool_free(pool);
}

/* What a slow, plain account of one element says. */
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
	struct roami_past_pool *pool = pool_new(1 * MIB);
	struct plain *plain = calloc(1, sizeof(*plain));
	struct roami_tuples tuples;
	roami_record held = 0;
	uint64_t random = unit_seed(), value = 0;
	unsigned full = 0, all = units_left(pool);

	CU_ASSERT_PTR_NOT_NULL_FATAL(plain);
	roami_tuples_init(&tuples);
	*plain = (struct plain){.oldest = 1, .first = 1};
	while (plain->last < 90000) {
		uint64_t draw = unit_below(&random, 100);
		uint64_t live = plain->last + 1 - plain->oldest;

		if (draw < 60) {
			uint32_t bytes = (uint32_t)unit_below(&random, draw < 2 ? 20000 : 60);

			if (append(pool, &tuples, plain->last + 1, bytes))
				plain->last++;
			else
				full++;
		} else if (draw < 98 && live > 0) {
			uint64_t number = plain->oldest + unit_below(&random, live);

			plain->tagged[number] = 1;
			roami_tuples_tag(pool, &tuples, number);
		} else if (draw == 98 && live > 0 && held == 0) {
			value = plain->oldest + unit_below(&random, live);
			held = roami_tuples_find(pool, &tuples, value);
			roami_record_hold(pool, held);
		} else if (draw == 99 && unit_below(&random, 60) == 0) {
			uint64_t to = plain->oldest + unit_below(&random, live * 2 + 2);

			roami_tuples_truncate(NULL, pool, &tuples, to);
			plain->oldest = to > plain->last ? plain->last + 1 : to;
			if (held != 0) {
				for (uint32_t i = 0; i < roami_record_bytes(pool, held); i++)
					CU_ASSERT_EQUAL_FATAL(roami_record_data(pool, held)[i],
							      (uint8_t)value);
				roami_record_rele(NULL, pool, held);
			}
			held = 0;
		}
		plain_first(plain);
		CU_ASSERT_FATAL(tuples.first == plain->first && tuples.last == plain->last &&
				tuples.oldest == plain->oldest);
	}
	CU_ASSERT(full > 0);
	if (held != 0)
		roami_record_rele(NULL, pool, held);
	roami_tuples_truncate(NULL, pool, &tuples, UINT64_MAX);
	/* What an empty element keeps: a chunk of at most 16 units, the index, a unit of slots. */
	CU_ASSERT(units_left(pool) + 18 >= all);
	free(plain);
	pool_free(pool);
}

static CU_TestInfo tests[] = {{"blocks of the pool", test_pool},
			      {"a million tuples", test_million},
			      {"random work in little memory", test_random},
			      CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("past_tuple", tests, argc, argv);
}
