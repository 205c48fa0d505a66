/*
 * roam bench past: the operations of PastSet.  move_*, observe_*: one operation on an element here,
 * and at another node that waits; the papers' mvlat and oblat, of 1 byte, 1 KiB and 31 KiB.
 * pingpong_*: two nodes exchange tuples by mob, both elements at one of them; one exchange.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "roam/pastset.h"
#include "roam/roam.h"

#define SIZES     3u
#define TUPLE_MAX (31u * 1024)
#define KEPT      64u /* tuples, then all are truncated */
#define TURNS     16u /* of a sample of exchanges */

static const uint32_t sizes[SIZES] = {1, 1024, TUPLE_MAX};

struct past_state {
	struct roam_ps_element *element[2];
	uint8_t out[TUPLE_MAX], in[TUPLE_MAX];
};

static void past_must(struct rig_run *run, enum roam_err err)
{
	if (err != ROAM_OK)
		rig_fail(run, "%s", roam_strerror(err));
}

/* Entered when first asked for: the nodes must be there. */
static struct past_state *past_state(struct rig_run *run, const char *text)
{
	static const char *const names[] = {"forth", "back"};
	struct roam_ps_options options = {.place = ROAM_PS_NODE, .node = run->scenario->argument};
	struct past_state *state = run->state;

	if (state != NULL)
		return state;
	state = run->state = calloc(1, sizeof(*state));
	if (state == NULL)
		rig_fail(run, "no memory");
	for (unsigned i = 0; i < 2; i++)
		past_must(run, roam_ps_enter(names[i], text, &options, &state->element[i]));
	return state;
}

/* One tuple: its size as u32, and so many bytes. */
static void past_pair(struct rig_run *run, struct past_state *state, unsigned size)
{
	struct roam_ps_element *element = state->element[0];
	uint32_t count = sizes[size] > 4 ? sizes[size] - 4 : sizes[size];
	uint64_t start;

	memcpy(state->out, &count, sizeof(count));
	start = floor_begin();
	past_must(run, roam_ps_move(element, state->out, 4 + (size_t)count));
	rig_note(run, size, floor_end() - start, 1);
	start = floor_begin();
	past_must(run, roam_ps_observe(element, state->in, sizeof(state->in), NULL));
	rig_note(run, SIZES + size, floor_end() - start, 1);
}

static void operations_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");

	for (unsigned i = 0; run->node == 1 && i < run->samples; i++) {
		for (unsigned size = 0; size < SIZES; size++)
			past_pair(run, state, size);
		if (i % KEPT == 0)
			past_must(run, roam_ps_truncate(state->element[0], UINT64_MAX));
	}
	roam_barrier_all();
}

static void exchange_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");
	struct roam_ps_element *to = state->element[run->node],
			       *from = state->element[1 - run->node];
	uint32_t count = 1;

	memcpy(state->out, &count, sizeof(count));
	for (unsigned i = 0; i < run->samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < TURNS; turn++)
			past_must(run, roam_ps_mob(to, state->out, 5, from, state->in, 5, NULL));
		if (run->node == 1)
			rig_note(run, 0, floor_end() - start, TURNS);
	}
	roam_barrier_all();
	if (run->node == 0)
		for (unsigned i = 0; i < 2; i++)
			past_must(run, roam_ps_truncate(state->element[i], UINT64_MAX));
}

static const uint8_t floor_list[] = {FLOOR_RTT, FLOOR_TWIN, FLOOR_PUT, FLOOR_KINDS_COUNT};

static const struct rig_scenario floors = {
	.name = "floors",
	.nodes = 2,
	.floors = floor_list,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};

/* The argument: the node that the elements are at. */
#define SCENARIO(identifier, title, at, function)       \
	static const struct rig_scenario identifier = { \
		.name = title,                          \
		.nodes = 2,                             \
		.roam = true,                           \
		.argument = (at),                       \
		.prepare = scenario_prepare,            \
		.round = function,                      \
	}

SCENARIO(local, "move_local", 1, operations_round);
SCENARIO(remote, "move_remote", 0, operations_round);
SCENARIO(exchange, "pingpong_lr", 0, exchange_round);

static const struct rig_scenario *const scenarios[] = {&floors, &local, &remote, &exchange, NULL};

#define LOCAL(title, channel, bytes)                                                        \
	{                                                                                   \
		title, 1, channel, {{0, FLOOR_TWIN, (bytes) / 4096.0}}, 0.3,                \
			"a copy into a pooled twin + 0.3", PLAN_LIMIT, 1, 0, 0, "<= floor", \
			.transport = "shm"                                                  \
	}
#define REMOTE(title, channel, bytes)                                                            \
	{                                                                                        \
		title, 2, channel, {{0, FLOOR_RTT, 1}, {0, FLOOR_PUT, (bytes) / 4096.0}}, 0.15,  \
			"f_rtt + the bytes put + 0.15", PLAN_LIMIT, 1.3, 0, 0, "<= 1.3 x floor", \
			.transport = "shm"                                                       \
	}

static const struct plan_row rows[] = {
	LOCAL("move_local_1", 0, 1),
	LOCAL("move_local_1k", 1, 1024),
	LOCAL("move_local_31k", 2, 31744),
	LOCAL("observe_local_1", 3, 1),
	LOCAL("observe_local_1k", 4, 1024),
	LOCAL("observe_local_31k", 5, 31744),
	REMOTE("move_remote_1", 0, 1),
	REMOTE("move_remote_1k", 1, 1024),
	REMOTE("move_remote_31k", 2, 31744),
	REMOTE("observe_remote_1", 3, 1),
	REMOTE("observe_remote_1k", 4, 1024),
	REMOTE("observe_remote_31k", 5, 31744),
	{"pingpong_lr", 3, 0, {{0, FLOOR_RTT, 1}}, 0, "f_rtt", .goal = NULL, .transport = "shm"},
};

void bench_past(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	plan_run(bench, &plan, bench->engines[0]);
}
