/* An allocator that hands out memory it has on lease, and gives back parts that are free. */
#include "heap/alloc.h"

#include "alloc_shadow.h"
#include "unit.h"

#define PART (16 * PAGE)
#define PARTS 64u

/* Blocks lie in leased memory, are stale where it was used, and reclaimed memory holds none. */
struct lender {
	struct roami_alloc *alloc;
	struct shadow shadow;
	bool lent[PARTS];
	size_t lent_count;
	size_t returned;
};

static void lend_parts(struct lender *lender, uint32_t first, uint32_t count, bool foreign)
{
	bool used = false;

	for (uint32_t i = first; i < first + count; i++) {
		struct block part = {i * PART, PART};

		lender->shadow.wrong += lender->lent[i];
		if (foreign) /* another node has used it in between */
			shadow_mark(&lender->shadow, part, BEFORE);
		used |= shadow_grains(&lender->shadow, part, BEFORE) != 0;
		lender->lent[i] = true;
	}
	lender->lent_count += count;
	CU_ASSERT_EQUAL(roami_alloc_lend(lender->alloc, first * PART, count * PART, PART, used),
			ROAM_OK);
}

static void reclaim_parts(struct lender *lender, uint64_t freed)
{
	uint64_t offset, bytes;
	bool used;

	while (roami_alloc_reclaim(lender->alloc, freed, PART, &offset, &bytes, &used)) {
		struct block parts = {offset, bytes};

		lender->shadow.wrong += offset % PART != 0 || bytes % PART != 0 || bytes == 0;
		lender->shadow.wrong += shadow_grains(&lender->shadow, parts, LIVE) != 0;
		lender->shadow.wrong +=
			!used && shadow_grains(&lender->shadow, parts, BEFORE) != 0;
		for (uint64_t i = offset / PART; i < (offset + bytes) / PART; i++) {
			lender->shadow.wrong += !lender->lent[i];
			lender->lent[i] = false;
			lender->lent_count--;
		}
		lender->returned += bytes / PART;
	}
}

static bool lend_some(struct lender *lender, uint64_t *seed)
{
	uint32_t count = 1 + (uint32_t)unit_below(seed, 3), first;

	first = 1 + (uint32_t)unit_below(seed, PARTS - count - 1);
	for (uint32_t i = first; i < first + count; i++)
		if (lender->lent[i])
			return false;
	lend_parts(lender, first, count, unit_below(seed, 3) == 0);
	return true;
}

static void lend_and_reclaim(bool own)
{
	struct lender lender = {.alloc = open_slice(PARTS * PART - FIRST, own)};
	uint64_t seed = 7, end, offset;
	bool fresh;

	lender.shadow = shadow_new(PARTS * PART);
	CU_ASSERT_EQUAL(roami_alloc_cut(lender.alloc, PART, false, &end), ROAM_OK);
	roami_alloc_seal(lender.alloc);
	CU_ASSERT_EQUAL(roami_alloc_take(lender.alloc, 1, &offset, &fresh), ROAM_ENOMEM);
	for (unsigned turn = 0; turn < 20000; turn++) {
		size_t most = turn / 2000 % 2 == 0 ? 3 * PART : 3000;

		if (unit_below(&seed, 2) == 0 && lender.shadow.count > 0) {
			size_t at = unit_below(&seed, lender.shadow.count);
			uint64_t freed = lender.shadow.blocks[at].offset;

			shadow_give(&lender.shadow, lender.alloc, at);
			reclaim_parts(&lender, freed);
		} else if (shadow_take(&lender.shadow, lender.alloc,
				       1 + unit_below(&seed, most)) != ROAM_OK) {
			lend_some(&lender, &seed);
		}
	}
	while (lender.shadow.count > 0) {
		uint64_t freed = lender.shadow.blocks[0].offset;

		shadow_give(&lender.shadow, lender.alloc, 0);
		reclaim_parts(&lender, freed);
	}
	CU_ASSERT(lender.returned > 200);
	CU_ASSERT(lender.lent_count <= (own ? 16 : PARTS));
	shadow_free(&lender.shadow);
	roami_alloc_close(lender.alloc);
}

BOTH(test_leases, lend_and_reclaim)

/* What was handed out before the cut stays, up to the end of its part. */
static void test_cut(void)
{
	struct roami_alloc *alloc = open_slice(PARTS * PART - FIRST, true);
	uint64_t end, first, next;
	bool fresh;

	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 3 * PART - PAGE, &first, &fresh), ROAM_OK);
	CU_ASSERT_EQUAL(roami_alloc_cut(alloc, PART, true, &end), ROAM_OK);
	roami_alloc_seal(alloc);
	CU_ASSERT_EQUAL(end, 4 * PART);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 2 * PAGE, &next, &fresh), ROAM_ENOMEM);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, PAGE, &next, &fresh), ROAM_OK);
	CU_ASSERT(fresh);
	CU_ASSERT_EQUAL(next, end - PAGE);
	CU_ASSERT_EQUAL(roami_alloc_give(alloc, first), ROAM_OK);
	roami_alloc_close(alloc);
}

static CU_TestInfo tests[] = {
	{"lent, taken, given, reclaimed", test_leases},
	{"what was there before", test_cut},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("lease", tests, argc, argv);
}
