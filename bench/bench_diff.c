/* roam bench diff: comparing a page with its twin, hot (in the first level cache) and cold. */
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "page/diff.h"

#define TURNS        16u
#define SET_PAGES    16384u /* 64 MiB, and as much for twins */
#define SET_BYTES    ((size_t)SET_PAGES * FLOOR_PAGE)
#define SPARSE       16u
#define SPARSE_BYTES (8 + FLOOR_PAGE / 64 * (8 + 64 / SPARSE)) /* encoded */

/* Channels: each measurement, followed by its floor. */
enum {
	SAME,
	SAME_FLOOR,
	SPARSE_ENCODE,
	SPARSE_FLOOR,
	SPARSE_PUT,
	SPARSE_PUT_FLOOR,
	COLD_SAME,
	COLD_SAME_FLOOR,
	COLD_SPARSE,
	COLD_SPARSE_FLOOR
};

static const char *const simds[] = {"avx512", "avx2", "scalar"};

struct diff_state {
	const struct roami_diff_ops *ops;
	uint8_t *same, *changed, *twin; /* sets of pages */
	uint8_t *out;
	uint64_t random;
	uint64_t sum; /* keeps the compiler from removing results */
};

static uint8_t *memory_new(struct rig_run *run, size_t bytes)
{
	uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

	if (memory == MAP_FAILED)
		rig_fail(run, "no memory");
	return memory;
}

static void diff_prepare(struct rig_run *run)
{
	struct diff_state *state = (void *)memory_new(run, FLOOR_PAGE);

	run->state = state;
	state->ops = roami_diff_choose(simds[run->scenario->argument]);
	state->random = 1;
	state->same = memory_new(run, SET_BYTES);
	state->changed = memory_new(run, SET_BYTES);
	state->twin = memory_new(run, SET_BYTES);
	state->out = memory_new(run, 2 * FLOOR_PAGE);
	memset(state->out, 1, 2 * FLOOR_PAGE);
	for (size_t i = 0; i < SET_BYTES; i += 8) {
		uint64_t word = (i + 1) * 0x9e3779b97f4a7c15u;

		memcpy(state->same + i, &word, 8);
		memcpy(state->twin + i, &word, 8);
		word ^= i % SPARSE == 0 ? 1 : 0;
		memcpy(state->changed + i, &word, 8);
	}
}

static size_t random_page(struct diff_state *state)
{
	state->random = state->random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((state->random >> 33) % SET_PAGES) * FLOOR_PAGE;
}

static uint64_t put_ticks(struct diff_state *state, const uint8_t *page, const uint8_t *twin,
			  unsigned turns)
{
	uint64_t start = floor_begin();

	for (unsigned i = 0; i < turns; i++)
		state->sum += state->ops->put(state->out, page, twin, FLOOR_PAGE);
	return floor_end() - start;
}

static uint64_t encode_ticks(struct diff_state *state, const uint8_t *page, const uint8_t *twin,
			     unsigned turns)
{
	uint64_t start = floor_begin();

	for (unsigned i = 0; i < turns; i++)
		state->sum += state->ops->encode(state->out, page, twin, FLOOR_PAGE);
	return floor_end() - start;
}

static void hot_sample(struct rig_run *run, struct diff_state *state)
{
	const uint8_t *same = state->same, *changed = state->changed, *twin = state->twin;

	put_ticks(state, same, twin, TURNS);
	rig_note(run, SAME, put_ticks(state, same, twin, TURNS), TURNS);
	rig_note(run, SAME_FLOOR, floor_memcmp_ticks(same, twin, FLOOR_PAGE, TURNS), TURNS);
	encode_ticks(state, changed, twin, TURNS);
	rig_note(run, SPARSE_ENCODE, encode_ticks(state, changed, twin, TURNS), TURNS);
	floor_memcpy_ticks(state->out, changed, FLOOR_PAGE, TURNS);
	rig_note(run, SPARSE_FLOOR, floor_memcpy_ticks(state->out, changed, FLOOR_PAGE, TURNS),
		 TURNS);
	put_ticks(state, changed, twin, TURNS);
	rig_note(run, SPARSE_PUT, put_ticks(state, changed, twin, TURNS), TURNS);
	rig_note(run, SPARSE_PUT_FLOOR, floor_memcpy_ticks(state->out, changed, FLOOR_PAGE, TURNS),
		 TURNS);
}

static void cold_sample(struct rig_run *run, struct diff_state *state)
{
	size_t page = random_page(state);

	rig_note(run, COLD_SAME, put_ticks(state, state->same + page, state->twin + page, 1), 1);
	page = random_page(state);
	rig_note(run, COLD_SAME_FLOOR,
		 floor_memcmp_ticks(state->same + page, state->twin + page, FLOOR_PAGE, 1), 1);
	page = random_page(state);
	rig_note(run, COLD_SPARSE,
		 encode_ticks(state, state->changed + page, state->twin + page, 1), 1);
	page = random_page(state);
	rig_note(run, COLD_SPARSE_FLOOR,
		 floor_memcpy_ticks(state->out, state->changed + page, FLOOR_PAGE, 1), 1);
}

/* Checks that the measured functions do their work. */
static void diff_check(struct rig_run *run, struct diff_state *state)
{
	const struct roami_diff_ops *ops = state->ops;

	if (ops->put(state->out, state->same, state->twin, FLOOR_PAGE) != 0 ||
	    ops->put(state->out, state->changed, state->twin, FLOOR_PAGE) != FLOOR_PAGE / SPARSE ||
	    ops->encode(state->out, state->changed, state->twin, FLOOR_PAGE) != SPARSE_BYTES)
		rig_fail(run, "a wrong number of changed bytes");
}

static void diff_round(struct rig_run *run)
{
	struct diff_state *state = run->state;

	diff_check(run, state);
	for (unsigned i = 0; i < run->samples; i++)
		hot_sample(run, state);
	for (unsigned i = 0; i < run->samples; i++)
		cold_sample(run, state);
}

#define SCENARIO(number)                                                                 \
	{                                                                                \
		.name = "diff", .nodes = 1, .argument = number, .prepare = diff_prepare, \
		.round = diff_round,                                                     \
	}

static const struct rig_scenario scenario[] = {SCENARIO(0), SCENARIO(1), SCENARIO(2)};

/* `factor` 0: reported. */
static void diff_rows(struct bench *bench, unsigned simd, double same, double sparse,
		      const char *goal)
{
	const struct rig_scenario *const list[] = {&scenario[simd], NULL};
	enum plan_rule same_rule = same > 0 ? PLAN_LIMIT : PLAN_REPORTED;
	enum plan_rule sparse_rule = sparse > 0 ? PLAN_LIMIT : PLAN_REPORTED;
	const char *same_goal = same > 0 ? "<= 1.4 x memcmp" : NULL;
	struct plan_row rows[] = {
		{"diff_same",
		 0,
		 SAME,
		 {{0, SAME_FLOOR, 1}},
		 0,
		 "memcmp",
		 same_rule,
		 same,
		 0,
		 0,
		 same_goal,
		 .variant = simds[simd]},
		{"diff_sparse16",
		 0,
		 SPARSE_ENCODE,
		 {{0, SPARSE_FLOOR, 1}},
		 0,
		 "memcpy",
		 sparse_rule,
		 sparse,
		 0,
		 0,
		 goal,
		 .variant = simds[simd]},
		{"diff_sparse16_put",
		 0,
		 SPARSE_PUT,
		 {{0, SPARSE_PUT_FLOOR, 1}},
		 0,
		 "memcpy",
		 .variant = simds[simd]},
		{"diff_same_cold",
		 0,
		 COLD_SAME,
		 {{0, COLD_SAME_FLOOR, 1}},
		 0,
		 "memcmp",
		 .variant = simds[simd]},
		{"diff_sparse16_cold",
		 0,
		 COLD_SPARSE,
		 {{0, COLD_SPARSE_FLOOR, 1}},
		 0,
		 "memcpy",
		 .variant = simds[simd]},
	};
	const struct plan plan = {list, rows, sizeof(rows) / sizeof(rows[0])};

	if (roami_diff_choose(simds[simd]) != NULL)
		plan_run(bench, &plan, NULL);
}

void bench_diff(struct bench *bench)
{
	diff_rows(bench, 0, 1.4, 4, "<= 4 x memcpy");
	diff_rows(bench, 1, 1.4, 16, "<= 16 x memcpy");
	diff_rows(bench, 2, 0, 0, NULL);
}
