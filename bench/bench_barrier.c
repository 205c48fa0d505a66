/* roam bench barrier: full barriers with nothing dirty. */
#include <sys/sysinfo.h>

#include "bench.h"
#include "roam/roam.h"

#define TURNS       16u
#define SMALL_BYTES ((size_t)1 << 20)
#define BIG_BYTES   ((size_t)4 << 30)

static void barrier_round(struct rig_run *run)
{
	unsigned samples = run->nodes > 8   ? (run->samples + 63) / 64
			   : run->nodes > 2 ? (run->samples + 3) / 4
					    : run->samples;

	roam_barrier_all();
	if (run->node == 1)
		rig_count_begin(run, 0);
	for (unsigned i = 0; i < samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < TURNS; turn++)
			roam_barrier_all();
		if (run->node == 1)
			rig_note(run, 0, floor_end() - start, TURNS);
	}
	if (run->node == 1)
		rig_count_end(run, 0, (double)samples * TURNS);
}

/* Node 0 touches the heap: each page has its home. */
static void touch_begin(struct rig_run *run)
{
	if (run->node == 0)
		for (uint32_t page = 0; page < run->memory_bytes / FLOOR_PAGE; page++)
			*scenario_word(run, page) = page;
	roam_barrier_all();
}

static void big_prepare(struct rig_run *run)
{
	struct sysinfo info;

	if (sysinfo(&info) == 0 && (uint64_t)info.freeram * info.mem_unit < BIG_BYTES / 2 * 3)
		rig_fail(run, "needs 6 GiB of free memory");
	scenario_prepare(run);
}

static const uint8_t rtt_list[] = {FLOOR_RTT, FLOOR_KINDS_COUNT};
static const uint8_t barrier_list[] = {FLOOR_BARRIER, FLOOR_KINDS_COUNT};

#define FLOOR_RIG(identifier, title, count, kinds)      \
	static const struct rig_scenario identifier = { \
		.name = title,                          \
		.nodes = count,                         \
		.floors = kinds,                        \
		.prepare = rig_floor_prepare,           \
		.begin = rig_floor_begin,               \
		.round = rig_floor_round,               \
	}

#define SCENARIO(identifier, title, count, size, preparing) \
	static const struct rig_scenario identifier = {     \
		.name = title,                              \
		.nodes = count,                             \
		.roam = true,                               \
		.bytes = size,                              \
		.prepare = preparing,                       \
		.begin = touch_begin,                       \
		.round = barrier_round,                     \
	}

FLOOR_RIG(floor_2, "floors", 2, rtt_list);
FLOOR_RIG(floor_4, "floors of 4", 4, barrier_list);
FLOOR_RIG(floor_8, "floors of 8", 8, barrier_list);
SCENARIO(barrier_2, "barrier_2", 2, FLOOR_PAGE, scenario_prepare);
SCENARIO(barrier_2_small, "barrier_2_big, 1 MiB", 2, SMALL_BYTES, scenario_prepare);
SCENARIO(barrier_2_big, "barrier_2_big", 2, BIG_BYTES, big_prepare);
SCENARIO(barrier_4, "barrier_4", 4, FLOOR_PAGE, scenario_prepare);
SCENARIO(barrier_8, "barrier_8", 8, FLOOR_PAGE, scenario_prepare);
SCENARIO(barrier_64, "barrier_64", 64, FLOOR_PAGE, scenario_prepare);

static const struct rig_scenario *const scenarios[] = {
	&floor_2,       &floor_4,   &floor_8,   &barrier_2, &barrier_2_small,
	&barrier_2_big, &barrier_4, &barrier_8, &barrier_64, NULL,
};

#define SHM .transport = "shm"

static const struct plan_row rows[] = {
	{"barrier_2",
	 3,
	 0,
	 {{0, FLOOR_RTT, 1}},
	 0.2,
	 "f_rtt + 0.2",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"barrier_2_big",
	 5,
	 0,
	 {{4, 0, 1}},
	 0,
	 "the same, 1 MiB of heap instead of 4 GiB",
	 PLAN_LIMIT,
	 1.1,
	 0,
	 0.1,
	 "within 10 % or 0.1 us",
	 SHM},
	{"barrier_4",
	 6,
	 0,
	 {{1, FLOOR_BARRIER, 1}},
	 0,
	 "a counting barrier that yields",
	 PLAN_LIMIT,
	 0,
	 10,
	 0,
	 "<= 10 us",
	 SHM},
	{"barrier_64",
	 8,
	 0,
	 {{7, 0, 8}},
	 0,
	 "8 times that of 8 nodes",
	 .goal = NULL,
	 SHM},
	{"barrier_8",
	 7,
	 0,
	 {{2, FLOOR_BARRIER, 1}},
	 0,
	 "a counting barrier that yields",
	 PLAN_LIMIT,
	 0,
	 10,
	 0,
	 "<= 10 us",
	 SHM},
};

void bench_barrier(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	for (const char *const *engine = bench->engines; *engine != NULL; engine++)
		plan_run(bench, &plan, *engine);
}
