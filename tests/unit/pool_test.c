/* The pool of the heap's parts: which node may take what, and when. */
#include "base/parts.h"
#include "base/segment.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define MIB (UINT64_C(1) << 20)

static const struct roami_vclock nothing;

static struct roami_heap_parts *pool_new(uint64_t heap)
{
	struct roami_heap_parts *pool = aligned_alloc(64, (sizeof(*pool) + 63) & ~(size_t)63);

	CU_ASSERT_PTR_NOT_NULL_FATAL(pool);
	memset(pool, 0, sizeof(*pool));
	roami_heap_parts_init(pool, heap);
	return pool;
}

static bool take(struct roami_heap_parts *pool, uint32_t parts, bool block, unsigned me,
		 uint32_t *first)
{
	bool used;

	return roami_heap_parts_take(pool, parts, block, me, &nothing, first, &used);
}

static void test_sizes(void)
{
	struct roami_heap_parts *pool = pool_new(16 * MIB);

	CU_ASSERT_EQUAL(pool->part, ROAMI_HEAP_PARTS_PART_BYTES);
	CU_ASSERT_EQUAL(pool->count, 256);
	roami_heap_parts_init(pool, MIB * MIB);
	CU_ASSERT_EQUAL(pool->count * pool->part, MIB * MIB);
	CU_ASSERT(pool->count <= ROAMI_HEAP_PARTS_PARTS);
	free(pool);
}

static void test_whole(void)
{
	struct roami_heap_parts *pool = pool_new(16 * MIB);
	uint32_t first, other;

	roami_heap_parts_begin(pool, 0, 3, 0);
	CU_ASSERT_FALSE(take(pool, 254, true, 1, &first));
	CU_ASSERT(take(pool, 253, true, 1, &first));
	CU_ASSERT_EQUAL(first, 3);
	CU_ASSERT_FALSE(take(pool, 1, false, 0, &other));
	CU_ASSERT_FALSE(roami_heap_parts_free(pool, 4, 1, 0));
	CU_ASSERT_FALSE(roami_heap_parts_free(pool, 2, 1, 0));
	CU_ASSERT(roami_heap_parts_free(pool, 3, 1, 0));
	CU_ASSERT_FALSE(roami_heap_parts_free(pool, 3, 1, 0));
	CU_ASSERT(take(pool, 1, false, 2, &other));
	CU_ASSERT_EQUAL(other, 3);
	CU_ASSERT(take(pool, 2, true, 2, &other));
	CU_ASSERT_EQUAL(other, 254);
	CU_ASSERT(take(pool, 2, true, 2, &other));
	CU_ASSERT(roami_heap_parts_free(pool, 252, 2, 0)); /* and its neighbour is not */
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 254).state, ROAMI_HEAP_PARTS_BLOCK);
	free(pool);
}

static enum roami_heap_parts_lives lives(void *arg, uint32_t part, unsigned node)
{
	CU_ASSERT_EQUAL(node, 2);
	return part == *(uint32_t *)arg ? ROAMI_HEAP_PARTS_FULL : ROAMI_HEAP_PARTS_EMPTY;
}

/* Of three parts two are spare. */
static enum roami_heap_parts_lives some(void *arg, uint32_t part, unsigned node)
{
	(void)arg;
	CU_ASSERT_EQUAL(node, 2);
	return part == 1 ? ROAMI_HEAP_PARTS_FULL : ROAMI_HEAP_PARTS_SPARE;
}

/* A spare part stays one until it is leased, which is once, and not after a free there. */
static void test_spare(void)
{
	struct roami_heap_parts *pool = pool_new(16 * MIB);
	uint32_t part;

	CU_ASSERT(take(pool, 3, false, 2, &part));
	CU_ASSERT_FALSE(roami_heap_parts_spare(pool, &part));
	roami_heap_parts_collect(pool, some, NULL);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 2).node, ROAMI_HEAP_PARTS_NOBODY);
	CU_ASSERT(take(pool, 1, false, 3, &part));
	CU_ASSERT_EQUAL(part, 3);
	roami_heap_parts_disturb(pool, 0);
	roami_heap_parts_disturb(pool, 0);
	CU_ASSERT(roami_heap_parts_spare(pool, &part));
	CU_ASSERT_EQUAL(part, 2);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 2).node, ROAMI_HEAP_PARTS_NOBODY);
	CU_ASSERT(roami_heap_parts_spare(pool, &part));
	roami_heap_parts_adopt(pool, 1, 2);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 2).node, 1);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 2).state, ROAMI_HEAP_PARTS_LEASED);
	CU_ASSERT_FALSE(roami_heap_parts_spare(pool, &part));
	free(pool);
}

static enum roami_heap_parts_lives none(void *arg, uint32_t part, unsigned node)
{
	(void)arg;
	(void)part;
	(void)node;
	return ROAMI_HEAP_PARTS_EMPTY;
}

/*
 * Parts with blocks of an earlier job are not taken, but those with free pages can be leased; its
 * large blocks can be freed.
 */
static void test_old(void)
{
	static const uint8_t old[256] = {ROAMI_HEAP_PARTS_LEASED, ROAMI_HEAP_PARTS_FREE,
					 ROAMI_HEAP_PARTS_OLD_SPARE, ROAMI_HEAP_PARTS_FREE,
					 ROAMI_HEAP_PARTS_BLOCK, ROAMI_HEAP_PARTS_REST};
	struct roami_heap_parts *pool = pool_new(16 * MIB);
	uint32_t part;

	roami_heap_parts_begin(pool, 3, 1, 0);
	roami_heap_parts_old(pool, old);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 3).state, ROAMI_HEAP_PARTS_LEASED);
	CU_ASSERT(take(pool, 1, false, 1, &part));
	CU_ASSERT_EQUAL(part, 1);
	CU_ASSERT(take(pool, 1, false, 1, &part));
	CU_ASSERT_EQUAL(part, 6);
	CU_ASSERT_FALSE(roami_heap_parts_free(pool, 0, 1, 0));
	CU_ASSERT(roami_heap_parts_free(pool, 4, 1, 0));
	for (uint32_t i = 0; i < 3; i += 2) {
		CU_ASSERT_EQUAL(roami_heap_parts_look(pool, i).state, ROAMI_HEAP_PARTS_LEASED);
		CU_ASSERT_EQUAL(roami_heap_parts_look(pool, i).node, ROAMI_HEAP_PARTS_NOBODY);
	}
	CU_ASSERT(roami_heap_parts_spare(pool, &part));
	CU_ASSERT_EQUAL(part, 2);
	roami_heap_parts_adopt(pool, 1, 2);
	CU_ASSERT_FALSE(roami_heap_parts_spare(pool, &part));
	roami_heap_parts_collect(pool, none, NULL);
	CU_ASSERT(take(pool, 3, false, 1, &part));
	CU_ASSERT_EQUAL(part, 0);
	free(pool);
}

/* Only the node that freed parts may take them before it has acquired the free. */
static void test_clocks(void)
{
	struct roami_heap_parts *pool = pool_new(16 * MIB);
	struct roami_vclock clock = nothing;
	uint32_t first, second;
	bool used = true;

	CU_ASSERT(roami_heap_parts_take(pool, 256, true, 2, &clock, &first, &used));
	CU_ASSERT_FALSE(used);
	CU_ASSERT(roami_heap_parts_free(pool, 0, 1, 5));
	clock.at[1] = 4;
	CU_ASSERT_FALSE(roami_heap_parts_take(pool, 1, false, 2, &clock, &first, &used));
	clock.at[1] = 5;
	CU_ASSERT(roami_heap_parts_take(pool, 1, false, 2, &clock, &first, &used));
	CU_ASSERT(used);
	clock.at[1] = 0;
	CU_ASSERT(roami_heap_parts_take(pool, 255, false, 1, &clock, &first, &used));
	CU_ASSERT_EQUAL(first, 1);
	roami_heap_parts_put(pool, 1, 255, true, 2, 9);
	CU_ASSERT(roami_heap_parts_take(pool, 1, false, 2, &nothing, &second, &used));
	roami_heap_parts_collect(pool, lives, &(uint32_t){0});
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 0).node, ROAMI_HEAP_PARTS_NOBODY);
	CU_ASSERT_EQUAL(roami_heap_parts_look(pool, 1).state, ROAMI_HEAP_PARTS_FREE);
	CU_ASSERT(roami_heap_parts_take(pool, 255, true, 0, &clock, &first, &used));
	free(pool);
}

/* No address depends on how many protocols have regions in the heap. */
static void test_stretches(void)
{
	struct roami_layout few, many;

	for (uint64_t heap = 16 * MIB; heap <= (UINT64_C(1) << 40); heap *= 8) {
		roami_layout_make_regions(&few, heap, 2, 3, heap / 16, roami_heap_part(heap));
		roami_layout_make_regions(&many, heap, 2, 100, heap / 16, roami_heap_part(heap));
		for (unsigned region = 0; region <= many.regions; region++) {
			uint64_t base = roami_layout_base(&many, region);
			uint32_t first = (uint32_t)(base / ROAM_PAGE_SIZE);
			uint64_t below = roami_layout_base(&many, 0) - base;

			CU_ASSERT_EQUAL(roami_layout_region(&many, first), region);
			CU_ASSERT_EQUAL(roami_layout_region(&many, first + few.region_pages - 1),
					region);
			if (region <= few.regions)
				CU_ASSERT_EQUAL(roami_layout_base(&few, 0) -
							roami_layout_base(&few, region),
						below);
		}
	}
}

static CU_TestInfo tests[] = {
	{"stretches of protocols", test_stretches},
	{"sizes", test_sizes},
	{"all of it", test_whole},
	{"frees that are not known yet", test_clocks},
	{"parts of an earlier job", test_old},
	{"spare parts", test_spare},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("pool", tests, argc, argv);
}
