/*
 * Sets of nodes behave as an array of 64 booleans does.
 */
#include "../../src/base/nodeset.h"

#include <string.h>

#include "../lib/unit.h"

/* The naive set. */
struct naive {
	bool has[ROAMI_NODES_MAX];
};

static void
check_equal(struct roami_nodeset set, const struct naive *naive)
{
	unsigned count = 0, node, last = 0, wrong = 0;

	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++) {
		count += naive->has[i];
		wrong += roami_nodeset_has(set, i) != naive->has[i];
	}
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(roami_nodeset_count(set), count);
	CU_ASSERT_EQUAL(roami_nodeset_empty(set), count == 0);
	ROAMI_NODESET_EACH(node, set) {
		CU_ASSERT(naive->has[node] && (node >= last));
		last = node + 1;
		count--;
	}
	CU_ASSERT_EQUAL(count, 0);
}

/* Adding and removing at random gives the same members, count and order as the naive set. */
static void
test_random(void)
{
	struct roami_nodeset set = {0};
	struct naive naive = {{false}};
	uint64_t seed = unit_seed();

	check_equal(set, &naive);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned node = (unsigned)unit_below(&seed, ROAMI_NODES_MAX);
		bool add = unit_below(&seed, 1000) < (i / 2000 % 2 == 0 ? 800 : 200);

		if (add)
			roami_nodeset_add(&set, node);
		else
			roami_nodeset_remove(&set, node);
		naive.has[node] = add;
		check_equal(set, &naive);
	}
}

/* first(n) has the first n nodes, for every n; next finds members from any node on, and the end. */
static void
test_first(void)
{
	for (unsigned nodes = 0; nodes <= ROAMI_NODES_MAX; nodes++) {
		struct roami_nodeset set = roami_nodeset_first(nodes);
		struct naive naive = {{false}};

		for (unsigned i = 0; i < nodes; i++)
			naive.has[i] = true;
		check_equal(set, &naive);
		for (unsigned i = 0; i <= ROAMI_NODES_MAX; i++) {
			unsigned next = i < nodes ? i : ROAMI_NODES_MAX;

			CU_ASSERT_EQUAL(roami_nodeset_next(set, i), next);
		}
	}
}

/* Members may be removed while the set is walked. */
static void
test_remove_in_loop(void)
{
	struct roami_nodeset set = roami_nodeset_first(ROAMI_NODES_MAX);
	unsigned node, seen = 0;

	ROAMI_NODESET_EACH(node, set) {
		roami_nodeset_remove(&set, node);
		if (node + 1 < ROAMI_NODES_MAX)
			roami_nodeset_remove(&set, node + 1);
		seen++;
	}
	CU_ASSERT_EQUAL(seen, ROAMI_NODES_MAX / 2);
	CU_ASSERT(roami_nodeset_empty(set));
}

/* The text names single nodes and runs, and the longest text fits. */
static void
test_text(void)
{
	char text[ROAMI_NODESET_TEXT_MAX];
	struct roami_nodeset set = {0};

	CU_ASSERT_STRING_EQUAL(roami_nodeset_text(set, text), "none");
	roami_nodeset_add(&set, 63);
	CU_ASSERT_STRING_EQUAL(roami_nodeset_text(set, text), "63");
	set.bits = 0x8f;
	CU_ASSERT_STRING_EQUAL(roami_nodeset_text(set, text), "0-3,7");
	set.bits = UINT64_C(0xc000000000001801);
	CU_ASSERT_STRING_EQUAL(roami_nodeset_text(set, text), "0,11-12,62-63");
	set = roami_nodeset_first(ROAMI_NODES_MAX);
	CU_ASSERT_STRING_EQUAL(roami_nodeset_text(set, text), "0-63");
	set.bits = UINT64_C(0xaaaaaaaaaaaaaaaa);
	CU_ASSERT_EQUAL(strlen(roami_nodeset_text(set, text)), 5 * 2 + 27 * 3 - 1);
	for (unsigned shift = 0; shift < 3; shift++) {
		set.bits = UINT64_C(0xdb6db6db6db6db6d) << shift;
		CU_ASSERT(strlen(roami_nodeset_text(set, text)) < sizeof(text));
	}
}

static CU_TestInfo tests[] = {
	{"random adds and removes match a naive set", test_random},
	{"the first n nodes, and next", test_first},
	{"members may be removed in the loop", test_remove_in_loop},
	{"text", test_text},
	CU_TEST_INFO_NULL,
};

int
main(int argc, char **argv)
{
	return unit_main("nodeset", tests, argc, argv);
}
