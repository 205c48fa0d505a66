/* Vector clocks: order, merge and wire form, on random clocks and at the edges, also of 32 bits. */
#include "../../src/base/vclock.h"

#include <string.h>

#include "../lib/unit.h"

enum { ROUNDS = 20000 };

/* A clock of small numbers, so that equal and ordered pairs are frequent, and a few huge ones. */
static struct roami_vclock
clock_random(uint64_t *seed)
{
	static const uint64_t values[] = {
		0, 1, 2, 0xffffffff, 0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
		UINT64_MAX};
	uint64_t choices = 1 + unit_below(seed, 8);
	struct roami_vclock clock;

	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		clock.at[i] = values[unit_below(seed, choices)];
	return clock;
}

/* A clock near another one: a few entries are higher or lower. */
static struct roami_vclock
clock_near(const struct roami_vclock *other, unsigned n, uint64_t *seed)
{
	struct roami_vclock clock = *other;
	uint64_t changes = unit_below(seed, 3);
	uint64_t sign = unit_below(seed, 2) == 0 ? 1 : UINT64_MAX;

	for (; changes > 0 && n > 0; changes--)
		clock.at[unit_below(seed, n)] += sign;
	return clock;
}

/*
 * Counts, among the first n entries, those of a that are smaller and those that are greater than
 * b's.
 */
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
			uint64_t max = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
			uint64_t min = a.at[i] < b.at[i] ? a.at[i] : b.at[i];

			wrong += top.at[i] != (i < n ? max : a.at[i]);
			wrong += low.at[i] != (i < n ? min : a.at[i]);
		}
		CU_ASSERT_EQUAL(wrong, 0);
		CU_ASSERT(roami_vclock_covers(&top, &b, n) && roami_vclock_covers(&b, &low, n));
	}
}

/* The number of the first n entries that must be encoded; a NULL base is all 0. */
static uint64_t
wire_mask(const struct roami_vclock *clock, const struct roami_vclock *base, unsigned n,
          bool beyond)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t known = base == NULL ? 0 : base->at[i];

		if (beyond ? clock->at[i] > known : clock->at[i] != known)
			mask |= UINT64_C(1) << i;
	}
	return mask;
}

static size_t
wire_bytes(uint64_t mask)
{
	return 8 + 8 * (size_t)__builtin_popcountll(mask);
}

/*
 * Only entries that the base lacks are encoded.  Decoded onto the base they give the clock, or, by
 * encode_beyond, the merge of both; entries beyond n stay.
 */
static void
test_wire(void)
{
	uint64_t seed = unit_seed();

	for (unsigned round = 0; round < ROUNDS / 10; round++) {
		unsigned n = (unsigned)unit_below(&seed, ROAMI_NODES_MAX + 1), wrong = 0;
		struct roami_vclock a = clock_random(&seed), base = clock_near(&a, n, &seed), b;
		struct roami_vclock_wire wire;
		size_t bytes = roami_vclock_encode(&a, &base, n, &wire);

		CU_ASSERT_EQUAL(bytes, wire_bytes(wire_mask(&a, &base, n, false)));
		b = base;
		CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, &wire, bytes), bytes);
		for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
			wrong += b.at[i] != (i < n ? a.at[i] : base.at[i]);

		bytes = roami_vclock_encode_beyond(&a, &base, n, &wire);
		CU_ASSERT_EQUAL(bytes, wire_bytes(wire_mask(&a, &base, n, true)));
		b = base;
		CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, &wire, sizeof(wire)), bytes);
		roami_vclock_merge(&base, &a, n);
		wrong += memcmp(&b, &base, sizeof(b)) != 0;

		bytes = roami_vclock_encode(&a, NULL, n, &wire);
		CU_ASSERT_EQUAL(bytes, wire_bytes(wire_mask(&a, NULL, n, false)));
		CU_ASSERT_EQUAL(wrong, 0);
	}
}

/* Too few bytes, or a node that does not exist, change nothing. */
static void
test_wire_malformed(void)
{
	struct roami_vclock_wire wire;
	struct roami_vclock a, b;

	memset(&a, 0x11, sizeof(a));
	for (unsigned n = 1; n <= ROAMI_NODES_MAX; n++) {
		size_t bytes = roami_vclock_encode(&a, NULL, n, &wire);

		memset(&b, 0x22, sizeof(b));
		for (size_t len = 0; len < bytes; len++)
			CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, &wire, len), 0);
		CU_ASSERT_EQUAL(roami_vclock_decode(&b, n - 1, &wire, sizeof(wire)), 0);
		for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
			CU_ASSERT_EQUAL(b.at[i], 0x2222222222222222);
		CU_ASSERT_EQUAL(roami_vclock_decode(&b, n, &wire, bytes), bytes);
	}
}

static CU_TestInfo tests[] = {
	{"compare and covers", test_order},
	{"merge and min", test_merge_min},
	{"encode and decode", test_wire},
	{"malformed bytes change nothing", test_wire_malformed},
	CU_TEST_INFO_NULL,
};

int
main(int argc, char **argv)
{
	return unit_main("vclock", tests, argc, argv);
}
