/* Plans: rigs called in turn, medians, floors, goals. */
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "roam/roam.h"
#include "sync/sync.h"

struct plan_state {
	struct bench *bench;
	const struct plan *plan;
	const char *engine;
	unsigned count;
	struct rig rigs[PLAN_RIGS];
	bool wanted[PLAN_RIGS]; /* if not, the rig is not open */
	bool sorted[PLAN_RIGS][RIG_CHANNELS];
	struct report_median medians[PLAN_RIGS][RIG_CHANNELS];
};

static struct report_median plan_median(struct plan_state *state, unsigned rig, unsigned channel)
{
	struct rig_shared *shared = state->rigs[rig].run.shared;

	if (!state->wanted[rig])
		return (struct report_median){-1, -1, -1, -1, 0};
	if (!state->sorted[rig][channel]) {
		struct floor_out *out = &shared->channel[channel].out;

		state->medians[rig][channel] = state->rigs[rig].failed
						       ? (struct report_median){-1, -1, -1, -1, 0}
						       : report_median(out->ticks, out->count,
								       state->bench->ticks_per_us);
		state->sorted[rig][channel] = true;
	}
	return state->medians[rig][channel];
}

/* Negative: a part of the floor is missing, or the row has no floor. */
static double plan_floor(struct plan_state *state, const struct plan_row *spec)
{
	double sum = 0;
	bool any = false;

	for (unsigned i = 0; i < PLAN_TERMS; i++) {
		const struct plan_term *term = &spec->term[i];
		double us;

		if (term->weight == 0)
			continue;
		us = plan_median(state, term->rig, term->channel).us;
		if (us < 0)
			return -1;
		sum += term->weight * us;
		any = true;
	}
	return any ? sum + spec->floor_plus : -1;
}

static void plan_judge(struct report_row *row, const struct plan_row *spec,
		       const struct rig_counts *counts)
{
	if (spec->rule == PLAN_REPORTED)
		return;
	row->met = REPORT_MISSED;
	if (row->us < 0)
		return;
	if (spec->rule == PLAN_SILENT) {
		if (counts->operations > 0 && counts->twins == 0 && counts->diffs == 0 &&
		    counts->messages == 0)
			row->met = REPORT_MET;
		return;
	}
	if (row->floor_us < 0 && spec->ratio > 0)
		return;
	row->limit_us = spec->plus + (spec->ratio > 0 ? spec->ratio * row->floor_us : 0);
	if (spec->slack > 0 && row->floor_us + spec->slack > row->limit_us)
		row->limit_us = row->floor_us + spec->slack;
	if (row->us <= row->limit_us)
		row->met = REPORT_MET;
}

static void plan_add(struct plan_state *state, const struct plan_row *spec)
{
	const struct rig_counts *counts =
		&state->rigs[spec->rig].run.shared->channel[spec->channel].counts;
	const struct rig_scenario *scenario = state->plan->scenarios[spec->rig];
	struct report_median median = plan_median(state, spec->rig, spec->channel);
	struct report_row *row = report_add(&state->bench->report, spec->name);

	if (row == NULL)
		return;
	row->engine = state->engine;
	row->variant = spec->variant;
	if (scenario->roam)
		row->protocol = scenario->protocol != NULL ? scenario->protocol
							   : state->bench->protocol;
	row->transport = spec->transport;
	row->us = median.us;
	row->p10 = median.p10;
	row->p90 = median.p90;
	row->n = median.n;
	if (spec->slow)
		row->us = row->p10 = row->p90 = median.p99;
	row->floor = spec->floor;
	row->floor_us = plan_floor(state, spec);
	if (counts->operations > 0) {
		row->faults = counts->faults / counts->operations;
		row->messages = counts->messages / counts->operations;
		row->syscalls = counts->syscalls / counts->operations;
	}
	if (scenario->roam && !bench_has_goal(state->bench, scenario->protocol))
		return;
	row->goal = spec->goal;
	plan_judge(row, spec, counts);
}

/* Writes the samples before they are sorted, as a line of JSON: `[name, variant, [us, ...]]`. */
static void plan_series(const struct plan_state *state, const struct plan_row *row)
{
	const struct rig *rig = &state->rigs[row->rig];
	const struct floor_out *out = &rig->run.shared->channel[row->channel].out;
	const struct bench *bench = state->bench;

	if (bench->series == NULL || rig->failed)
		return;
	fprintf(bench->series, "[\"%s\", \"%s\", [", row->name,
		row->variant != NULL ? row->variant : "");
	for (uint32_t i = 0; i < out->count; i++)
		fprintf(bench->series, "%s%.6g", i > 0 ? ", " : "",
			(double)out->ticks[i] / bench->ticks_per_us);
	fprintf(bench->series, "]]\n");
}

/* Whether a row is measured on the rig, or has a part of its floor measured there. */
static bool plan_uses(const struct plan_row *row, unsigned rig)
{
	bool uses = row->rig == rig;

	for (unsigned i = 0; i < PLAN_TERMS; i++)
		uses = uses || (row->term[i].weight != 0 && row->term[i].rig == rig);
	return uses;
}

static bool plan_asked_for(const struct bench *bench, const struct plan *plan, unsigned rig)
{
	if (bench->only == NULL || strstr(plan->scenarios[rig]->name, bench->only) != NULL)
		return true;
	for (unsigned i = 0; i < plan->row_count; i++)
		if (strstr(plan->rows[i].name, bench->only) != NULL &&
		    plan_uses(&plan->rows[i], rig))
			return true;
	return false;
}

/* Rigs with floors always run, because other rows are compared with them. */
static bool plan_wants(const struct bench *bench, const struct plan *plan, unsigned rig, bool note)
{
	const struct rig_scenario *scenario = plan->scenarios[rig];
	const char *missing;

	if (scenario->floors == NULL && scenario != &bench_udp_floor &&
	    !plan_asked_for(bench, plan, rig))
		return false;
	missing = scenario->missing != NULL ? scenario->missing() : NULL;
	if (missing != NULL && note)
		fprintf(stderr, "roam bench: %s left out: there was no %s\n", scenario->name,
			missing);
	return missing == NULL && bench_has(bench, scenario->protocol, scenario->name, note);
}

/* Whether everything that the row needs was measured. */
static bool plan_can_add(const struct plan_state *state, const struct plan_row *row)
{
	for (unsigned i = 0; i < state->count; i++)
		if (!state->wanted[i] && plan_uses(row, i))
			return false;
	return true;
}

void plan_run(struct bench *bench, const struct plan *plan, const char *engine)
{
	static struct plan_state state; /* large */
	unsigned first = bench->report.count;
	struct rig_params params = {
		.engine = engine != NULL ? engine : "uffd",
		.protocol = bench->protocol,
		.rounds = bench->rounds,
		.samples = (bench->samples + bench->rounds - 1) / bench->rounds,
		.cpu = {bench->cpu[0], bench->cpu[1]},
		.overhead = bench->overhead,
	};

	memset(&state, 0, sizeof(state));
	state.bench = bench;
	state.plan = plan;
	state.engine = engine;
	for (; plan->scenarios[state.count] != NULL && state.count < PLAN_RIGS; state.count++) {
		const struct rig_scenario *scenario = plan->scenarios[state.count];

		state.wanted[state.count] =
			plan_wants(bench, plan, state.count, engine == bench->engines[0]);
		if (state.wanted[state.count])
			rig_open(&state.rigs[state.count], scenario, &params);
	}
	for (unsigned round = 0; round < bench->rounds; round++)
		for (unsigned i = 0; i < state.count; i++)
			if (state.wanted[i])
				rig_round(&state.rigs[i]);
	for (unsigned i = 0; i < plan->row_count; i++)
		if (plan_can_add(&state, &plan->rows[i]))
			plan_series(&state, &plan->rows[i]);
	for (unsigned i = 0; i < plan->row_count; i++)
		if (plan_can_add(&state, &plan->rows[i]))
			plan_add(&state, &plan->rows[i]);
	for (unsigned i = 0; i < state.count; i++)
		rig_close(&state.rigs[i]);
	if (bench->progress)
		report_table_rows(&bench->report, first);
}

bool bench_program_there(const char *name)
{
	char path[PATH_MAX], *list = strdup(getenv("PATH") != NULL ? getenv("PATH") : "");
	char *rest = list, *folder;
	bool there = false;

	while (!there && rest != NULL && (folder = strsep(&rest, ":")) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", folder, name);
		there = access(path, X_OK) == 0;
	}
	free(list);
	return there;
}

/* -------------------------------------------------------------------- scenarios of roam */

#define CANDIDATES 1024

static char lock_names[CANDIDATES * 8];
static const void *locks[SCENARIO_LOCKS];

/* A lock's address chooses its home node: among many locks there are some for each node. */
static void locks_choose(void)
{
	static struct roami_node pair = {.nodes = 2};
	unsigned found[2] = {0, 0};

	/* Chosen before the fork, so that the names are the same in all processes. */
	for (unsigned i = 0; i < CANDIDATES; i++) {
		const void *name = &lock_names[i * 8];
		unsigned home = roami_sync_home(&pair, (uint64_t)(uintptr_t)name);

		if (found[home] < SCENARIO_LOCKS / 2)
			locks[2 * found[home]++ + home] = name;
	}
}

const void *scenario_lock(unsigned number)
{
	return locks[number % SCENARIO_LOCKS];
}

void scenario_prepare(struct rig_run *run)
{
	run->memory_bytes = run->scenario->bytes;
	if (roam_start() != ROAM_OK)
		rig_fail(run, "roam does not start");
	if (run->memory_bytes > 0) {
		run->memory = roam_alloc(run->memory_bytes);
		if (run->memory == NULL)
			rig_fail(run, "no shared memory: %s", roam_strerror(roam_errno()));
	}
	locks_choose();
	for (unsigned i = 0; i < SCENARIO_LOCKS; i++) {
		if (locks[i] == NULL)
			rig_fail(run, "no lock with its home at node %u", i % 2);
		roam_lock_init(locks[i]);
	}
}

void scenario_rewrite(struct rig_run *run, uint32_t first, uint32_t pages, uint32_t value)
{
	if (run->node != 0)
		return;
	for (uint32_t page = first; page < first + pages; page++) {
		uint8_t *bytes = scenario_page(run, page);

		memset(bytes, (int)(value & 0x7f), FLOOR_PAGE);
		*scenario_word(run, page) = ((uint64_t)value << 32) + page;
	}
}

void scenario_read_all(struct rig_run *run)
{
	for (uint32_t page = 0; page < run->memory_bytes / FLOOR_PAGE; page++)
		(void)*scenario_word(run, page);
}

void scenario_share(struct rig_run *run)
{
	scenario_rewrite(run, 0, (uint32_t)(run->memory_bytes / FLOOR_PAGE), 0);
	roam_barrier_all();
	if (run->node == 1)
		scenario_read_all(run);
	roam_barrier_all();
}

bool bench_place_make(char *place, size_t bytes, const char *parent)
{
	const char *told = getenv("TMPDIR");

	if (told != NULL && told[0] != '\0')
		parent = told;
	if (snprintf(place, bytes, "%s/roam-bench-XXXXXX", parent) >= (int)bytes) {
		errno = ENAMETOOLONG;
		return false;
	}
	return mkdtemp(place) != NULL;
}

static int path_remove(const char *path, const struct stat *is, int kind, struct FTW *at)
{
	(void)is, (void)kind, (void)at;
	return remove(path);
}

void bench_place_remove(const char *place)
{
	nftw(place, path_remove, 8, FTW_DEPTH | FTW_PHYS);
}
