/*
 * Vector clocks: order, merge and wire form, on random clocks and at the edges.
 */
#include "../../src/core/vclock.h"

#include <string.h>

#include "../lib/unit.h"

enum { ROUNDS = 20000 };

/* A clock of small numbers, so that equal and ordered pairs are frequent, and a few huge ones. */
static struct roami_vclock
clock_random(uint64_t *seed)
{
	static const uint32_t values[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff};
	uint64_t choices = 1 + unit_below(seed, 6);
	struct roami_vclock clock;

	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		clock.at[i] = values[unit_below(seed, choices)];
	return clock;
}

/* A clock near the other: a few entries higher or lower. */
static struct roami_vclock
clock_near(const struct roami_vclock *other, unsigned n, uint64_t *seed)
{
	struct roami_vclock clock = *other;
	uint64_t changes = unit_below(seed, 3);
	uint32_t sign = unit_below(seed, 2) == 0 ? 1 : UINT32_MAX;

	for (; changes > 0 && n > 0; changes--)
		clock.at[unit_below(seed, n)] += sign;
	return clock;
}

/* Of the first n entries, how many of a are smaller and how many are greater than b's. */
static void
count_orders(const struct roami_vclock *a, const struct roami_vclock *b, unsigned n,
             unsigned *less_p, unsigned *greater_p)
{
	*less_p = *greater_p = 0;
	for (unsigned i = 0; i < n; i++) {
		*less_p += a->at[i] < b->at[i] ? 1 : 0;
		*greater_p += a->at[i] > b->at[i] ? 1 : 0;
	}
}

/* compare and covers agree with counting; entries beyond n do not matter. */
static void
test_order(void)
{
	uint64_t seed = unit_seed();
	unsigned seen[4] = {0};

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = (unsigned)unit_below(&seed, ROAMI_NODES_MAX + 1), less, greater;
		struct roami_vclock a = clock_random(&seed);
		struct roami_vclock b = round % 2 ? clock_random(&seed)
		                                  : clock_near(&a, n, &seed);
		enum roami_vclock_order order = roami_vclock_compare(&a, &b, n);

		count_orders(&a, &b, n, &less, &greater);
		CU_ASSERT_EQUAL(order == ROAMI_VCLOCK_EQUAL, less == 0 && greater == 0);
		CU_ASSERT_EQUAL(order == ROAMI_VCLOCK_BEFORE, less > 0 && greater == 0);
		CU_ASSERT_EQUAL(order == ROAMI_VCLOCK_AFTER, less == 0 && greater > 0);
		CU_ASSERT_EQUAL(order == ROAMI_VCLOCK_CONCURRENT, less > 0 && greater > 0);
		CU_ASSERT_EQUAL(roami_vclock_covers(&a, &b, n), less == 0);
		CU_ASSERT_EQUAL(roami_vclock_covers(&b, &a, n), greater == 0);
		seen[order]++;
	}
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT(seen[i] > ROUNDS / 100);
}

/* merge is the least clock that covers both, min the greatest that both cover. */
static void
test_merge_min(void)
{
	uint64_t seed = unit_seed();

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned n = (unsigned)unit_below(&seed, ROAMI_NODES_MAX + 1), wrong = 0;
		struct roami_vclock a = clock_random(&seed), b = clock_random(&seed);
		struct roami_vclock top = a, low = a;

		roami_vclock_merge(&top, &b, n);
		roami_vclock_min(&low, &b, n);
		for (unsigned i = 0; i < ROAMI_NODES_MAX; i++) {
			uint32_t max = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
			uint32_t min = a.at[i] < b.at[i] ? a.at[i] : b.at[i];

			wrong += top.at[i] != (i < n ? max : a.at[i]);
			wrong += low.at[i] != (i < n ? min : a.at[i]);
		}
		CU_ASSERT_EQUAL(wrong, 0);
		CU_ASSERT(roami_vclock_covers(&top, &b, n) && roami_vclock_covers(&b, &low, n));
	}
}

/* What is encoded is decoded; the bytes are little-endian; nothing is written beyond them. */
static void
test_wire(void)
{
	uint64_t seed = unit_seed();

	for (unsigned round = 0; round < ROUNDS / 10; round++) {
		unsigned n = (unsigned)unit_below(&seed, ROAMI_NODES_MAX + 1), wrong = 0;
		struct roami_vclock a = clock_random(&seed), b = clock_random(&seed);
		uint8_t bytes[ROAMI_VCLOCK_BYTES_MAX + 1];

		memset(bytes, 0xa5, sizeof(bytes));
		CU_ASSERT_EQUAL(roami_vclock_encode(&a, n, bytes, 4 * n), 4 * n);
		CU_ASSERT_EQUAL(bytes[4 * n], 0xa5);
		for (unsigned i = 0; i < 4 * n; i++)
			wrong += bytes[i] != (uint8_t)(a.at[i / 4] >> (8 * (i % 4)));
		CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, bytes, 4 * n), 4 * n);
		for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
			wrong += b.at[i] != (i < n ? a.at[i] : 0);
		CU_ASSERT_EQUAL(wrong, 0);
	}
}

/* A buffer that is too short changes nothing, whatever its length. */
static void
test_wire_short(void)
{
	struct roami_vclock a, b;
	uint8_t bytes[ROAMI_VCLOCK_BYTES_MAX], untouched[ROAMI_VCLOCK_BYTES_MAX];

	memset(&a, 0x11, sizeof(a));
	memset(untouched, 0xa5, sizeof(untouched));
	for (unsigned n = 1; n <= ROAMI_NODES_MAX; n++) {
		for (size_t len = 0; len < 4 * n; len++) {
			memcpy(bytes, untouched, sizeof(bytes));
			b = a;
			CU_ASSERT_EQUAL(roami_vclock_encode(&a, n, bytes, len), 0);
			CU_ASSERT_EQUAL(memcmp(bytes, untouched, sizeof(bytes)), 0);
			CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, bytes, len), 0);
			CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof(a)), 0);
		}
	}
}

static CU_TestInfo tests[] = {
	{"compare and covers", test_order},
	{"merge and min", test_merge_min},
	{"encode and decode", test_wire},
	{"short buffers change nothing", test_wire_short},
	CU_TEST_INFO_NULL,
};

int
main(int argc, char **argv)
{
	return unit_main("vclock", tests, argc, argv);
}
