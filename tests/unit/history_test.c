/* The checker of PastSet histories explains what can be explained, and nothing else. */
#include "history.h"

#include <string.h>

#include "unit.h"

/* Short names for the parts of the histories below. */
#define MOVE(b, e, v, n)                                                                  \
	{                                                                                 \
		.begin = (b), .end = (e), .op = ROAM_PS_MOVE, .value = (v), .number = (n) \
	}
#define FIFO(b, e, v, n)                                                                     \
	{                                                                                    \
		.begin = (b), .end = (e), .op = ROAM_PS_OBSERVE, .value = (v), .number = (n) \
	}
#define OBSERVE(b, e, w, f, a, v, n)                                                         \
	{                                                                                    \
		.begin = (b), .end = (e), .op = ROAM_PS_OBSERVE, .which = (w), .flags = (f), \
		.argument = (a), .value = (v), .number = (n)                                 \
	}
#define FAILED(b, e, o, w, a, x)                                                               \
	{                                                                                      \
		.begin = (b), .end = (e), .op = (o), .which = (w), .argument = (a), .err = (x) \
	}
#define LOST(b, e, o, a, v)                                                           \
	{                                                                             \
		.begin = (b), .end = (e), .op = ROAM_PS_##o, .argument = (a), .value = (v), \
		.err = ROAM_ELOST                                                     \
	}
#define SET(b, e, o, a)                                              \
	{                                                            \
		.begin = (b), .end = (e), .op = (o), .argument = (a) \
	}

struct known {
	const char *what;
	bool good;
	uint64_t delta;
	struct history_event events[6];
};

static const struct known histories[] = {
	{"one after the other", true, 9, {MOVE(1, 2, 7, 1), FIFO(3, 4, 7, 1)}},
	{"observed before it was moved", false, 9, {FIFO(1, 2, 7, 1), MOVE(3, 4, 7, 1)}},
	{"waited for it", true, 9, {FIFO(1, 5, 7, 1), MOVE(3, 4, 7, 1)}},
	{"another value", false, 9, {MOVE(1, 2, 7, 1), FIFO(3, 4, 8, 1)}},
	{"two movers at once, either first", true, 9, {MOVE(1, 5, 7, 2), MOVE(2, 6, 8, 1)}},
	{"two movers in turn, numbers swapped", false, 9, {MOVE(1, 2, 7, 2), MOVE(3, 4, 8, 1)}},
	{"a number left out", false, 9, {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 3)}},
	{"two observers, one tuple",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), FIFO(3, 6, 7, 1), FIFO(4, 5, 7, 1)}},
	{"a peek does not count",
	 true,
	 9,
	 {MOVE(1, 2, 7, 1), OBSERVE(3, 4, ROAM_PS_FIFO, ROAM_PS_PEEK, 0, 7, 1), FIFO(5, 6, 7, 1)}},
	{"not the oldest", false, 9, {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 2), FIFO(5, 6, 8, 2)}},
	{"DeltaValue kept", true, 1, {MOVE(1, 2, 7, 1), MOVE(3, 8, 8, 2), FIFO(5, 6, 7, 1)}},
	{"DeltaValue broken", false, 1, {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 2), FIFO(5, 6, 7, 1)}},
	{"DeltaValue raised",
	 true,
	 1,
	 {MOVE(1, 2, 7, 1), MOVE(3, 8, 8, 2), SET(5, 6, ROAM_PS_DELTA, 2)}},
	{"timed out though it could",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), FAILED(3, 4, ROAM_PS_OBSERVE, ROAM_PS_FIFO, 0, ROAM_ETIMEDOUT)}},
	{"timed out before it could",
	 true,
	 9,
	 {MOVE(3, 6, 7, 1), FAILED(1, 4, ROAM_PS_OBSERVE, ROAM_PS_FIFO, 0, ROAM_ETIMEDOUT)}},
	{"last skips",
	 true,
	 1,
	 {MOVE(1, 2, 7, 1), OBSERVE(3, 4, ROAM_PS_LAST, ROAM_PS_SKIP, 0, 7, 1), MOVE(5, 6, 8, 2)}},
	{"last is the newest",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 2), OBSERVE(5, 6, ROAM_PS_LAST, 0, 0, 7, 1)}},
	{"truncated and gone",
	 true,
	 9,
	 {MOVE(1, 2, 7, 1), SET(3, 4, ROAM_PS_TRUNCATE, 2),
	  FAILED(5, 6, ROAM_PS_OBSERVE, ROAM_PS_NUMBER, 1, ROAM_EGONE)}},
	{"gone, but never truncated",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), FAILED(5, 6, ROAM_PS_OBSERVE, ROAM_PS_NUMBER, 1, ROAM_EGONE)}},
	{"truncated, and still there",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), SET(3, 4, ROAM_PS_TRUNCATE, 2),
	  OBSERVE(5, 6, ROAM_PS_NUMBER, 0, 1, 7, 1)}},
	{"truncating lets movers go on",
	 true,
	 1,
	 {MOVE(1, 2, 7, 1), SET(3, 4, ROAM_PS_TRUNCATE, UINT64_MAX), MOVE(5, 6, 8, 2)}},
	{"next after what was truncated, unsaid",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 2), SET(5, 6, ROAM_PS_TRUNCATE, 2),
	  OBSERVE(7, 8, ROAM_PS_NEXT, 0, 0, 8, 2)}},
	{"next, in order",
	 true,
	 9,
	 {MOVE(1, 2, 7, 1), MOVE(3, 4, 8, 2), OBSERVE(7, 8, ROAM_PS_NEXT, 0, 1, 8, 2)}},
};

static void test_known(void)
{
	for (size_t i = 0; i < sizeof(histories) / sizeof(histories[0]); i++) {
		struct history history = {.delta = histories[i].delta};

		memcpy(history.events, histories[i].events, sizeof(histories[i].events));
		while (history.count < 6 && history.events[history.count].end != 0)
			history.count++;
		if (history_explained(&history) != histories[i].good) {
			printf("\n%s:\n", histories[i].what);
			history_print(&history);
			CU_FAIL("judged wrongly");
		}
	}
}

/* The halves of a mob must not be swapped. */
static void test_mob(void)
{
	struct history history = {
		.delta = 9,
		.count = 2,
		.events = {MOVE(1, 9, 7, 1),
			   FAILED(1, 9, ROAM_PS_OBSERVE, ROAM_PS_NUMBER, 1, ROAM_ETIMEDOUT)}};

	CU_ASSERT(history_explained(&history));
	history.events[1].after = 1;
	CU_ASSERT_FALSE(history_explained(&history));
}

static const struct known unsure[] = {
	{"moved after all", true, 9, {LOST(1, 2, MOVE, 0, 7), FIFO(3, 4, 7, 1)}},
	{"not moved", true, 9, {LOST(1, 2, MOVE, 0, 7), MOVE(3, 4, 8, 1)}},
	{"moved later",
	 true,
	 9,
	 {LOST(1, 2, MOVE, 0, 7), MOVE(3, 4, 8, 1), FIFO(5, 6, 8, 1), MOVE(7, 8, 9, 3),
	  FIFO(9, 10, 7, 2)}},
	{"moved before it was called", false, 9, {FIFO(1, 2, 7, 1), LOST(3, 4, MOVE, 0, 7)}},
	{"moved twice",
	 false,
	 9,
	 {LOST(1, 2, MOVE, 0, 7), FIFO(3, 4, 7, 1), FIFO(5, 6, 7, 2)}},
	{"moved and not",
	 false,
	 9,
	 {LOST(1, 2, MOVE, 0, 7), FIFO(3, 4, 7, 1), MOVE(5, 6, 8, 1)}},
	{"another value", false, 9, {LOST(1, 2, MOVE, 0, 7), FIFO(3, 4, 8, 1)}},
	{"observed",
	 true,
	 9,
	 {MOVE(1, 2, 7, 1), LOST(3, 4, OBSERVE, 0, 0), MOVE(5, 6, 8, 2), FIFO(7, 8, 8, 2)}},
	{"one observed, not two",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), LOST(3, 4, OBSERVE, 0, 0), MOVE(5, 6, 8, 2), MOVE(7, 8, 9, 3),
	  FIFO(9, 10, 9, 3)}},
	{"truncated",
	 true,
	 9,
	 {MOVE(1, 2, 7, 1), LOST(3, 4, TRUNCATE, 2, 0),
	  FAILED(5, 6, ROAM_PS_OBSERVE, ROAM_PS_NUMBER, 1, ROAM_EGONE)}},
	{"delta set",
	 true,
	 9,
	 {LOST(1, 2, DELTA, 1, 0), MOVE(3, 4, 7, 1),
	  FAILED(5, 6, ROAM_PS_MOVE, 0, 0, ROAM_ETIMEDOUT)}},
	{"none was set",
	 false,
	 9,
	 {MOVE(1, 2, 7, 1), LOST(3, 4, DELTA, 2, 0),
	  FAILED(5, 6, ROAM_PS_MOVE, 0, 0, ROAM_ETIMEDOUT)}}};

/* An operation that may have been done explains others, or not, but excuses nothing. */
static void test_unsure(void)
{
	for (unsigned i = 0; i < sizeof(unsure) / sizeof(unsure[0]); i++) {
		struct history history = {.delta = unsure[i].delta};

		memcpy(history.events, unsure[i].events, sizeof(unsure[i].events));
		while (history.count < 6 && history.events[history.count].begin != 0)
			history.count++;
		history_trim(&history);
		if (history_explained(&history) != unsure[i].good)
			printf("%s\n", unsure[i].what);
		CU_ASSERT(history_explained(&history) == unsure[i].good);
	}
}

/* Good histories of any length are explained; the same ones with one outcome changed are not. */
static void test_long(void)
{
	uint64_t random = unit_seed();

	for (unsigned round = 0; round < 200; round++) {
		struct history history = {.delta = UINT64_MAX, .count = HISTORY_MAX};
		unsigned wrong = (unsigned)unit_below(&random, HISTORY_MAX);

		for (unsigned i = 0; i < HISTORY_MAX; i++) {
			uint64_t both = i / 2 * 30 + 20;

			history.events[i] = (struct history_event){
				.begin = both - unit_below(&random, 15),
				.end = both + 1 + unit_below(&random, 15),
				.op = i % 2 == 0 ? ROAM_PS_MOVE : ROAM_PS_OBSERVE,
				.value = i / 2,
				.number = i / 2 + 1};
		}
		CU_ASSERT(history_explained(&history));
		history.events[wrong].number += 40;
		CU_ASSERT_FALSE(history_explained(&history));
	}
}

static CU_TestInfo tests[] = {{"known good and bad histories", test_known},
			      {"halves of a mob", test_mob},
			      {"unsure outcomes", test_unsure},
			      {"long histories", test_long},
			      CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("history", tests, argc, argv);
}
