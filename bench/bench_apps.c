/*
 * roam bench apps: programs compared with the same sources on threads, and adapt with other
 * protocols.  Programs run one after the other, the kinds in turn; NAME_P is the wall time from
 * fork to exit, NAME_P_region the time between the program's own clocks.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "base/node.h"
#include "bench.h"

#define REPEATS APP_REPEATS
#define KINDS   3 /* the twin, and two engines */

/* The first process writes all data (-f), so that the protocol has to find the placement. */
#define SOR(system)                                                                                \
	{                                                                                          \
		.name = "sor", .arguments = {"-n2048", "-i50", "-f"}, .verify = "-t", .pair = 1.3, \
		.pair_goal = "<= 1.3 x threads", .program = "jump-sor", .protocol = system,        \
		.two = true,                                                                       \
	}

/* Programs with the suite's layout of data. */
#define SUITE(program, size, more, check, ratio, text)                                             \
	{                                                                                          \
		.name = program, .arguments = {size, more}, .verify = check, .alone = 1.03,        \
		.alone_goal = "<= 1.03 x sequential", .pair = ratio,                               \
		.pair_goal = "<= " text " x threads",                                              \
	}

/* The same program with a layout for pages: a row without a limit. */
#define PAGED(kernel, size, more, check)                                                           \
	{                                                                                          \
		.name = kernel "_pages", .arguments = {size, "--layout=pages", more},              \
		.verify = check, .program = kernel, .two = true,                                   \
	}

/* The hardware as protocol, with roam's heap and synchronisation: shows what the hardware costs. */
#define DIRECT(kernel, size, more, check)                                                          \
	{                                                                                          \
		.name = kernel "_direct", .arguments = {size, more}, .verify = check, .pair = 1.1, \
		.pair_goal = "<= 1.1 x threads", .region = 1.03,                                   \
		.region_goal = "<= 1.03 x threads", .program = kernel, .protocol = "direct",       \
		.two = true,                                                                       \
	}

/* adapt, which finds out how pages are shared, compared with the best of the other protocols. */
#define RIVALS(kernel, size, more, check, ratio, text)                                             \
	{                                                                                          \
		.name = kernel "_adapt", .arguments = {size, more}, .verify = check, .pair = 1.1,  \
		.pair_goal = "<= 1.1 x the best of the others", .program = kernel,                 \
		.protocol = "adapt", .two = true, .rivals = true,                                  \
	}

/* As one node of two threads, which takes no faults. */
#define TEAM(kernel, size, more, check, ratio, text)                                              \
	{                                                                                          \
		.name = kernel, .arguments = {size, more}, .verify = check, .pair = 1.05,          \
		.pair_goal = "<= 1.05 x threads", .two = true, .threads = 2,                       \
	}

/* The programs of the suite, in the sizes that all are compared in, and what 2 nodes may take. */
#define EACH(ROW) \
	ROW("fft", "-m24", NULL, "-t", 1.4, "1.4"), \
	ROW("lu", "-n3072", "-b16", "-t", 1.15, "1.15"), \
	ROW("ocean", "-n2050", NULL, "-c", 1.15, "1.15"), \
	ROW("radix", "-n32M", NULL, "-t", 1.4, "1.4"), \
	ROW("lu-nc", "-n3072", "-b16", "-t", 1.4, "1.4"), \
	ROW("ocean-nc", "-n2050", NULL, "-c", 1.15, "1.15"), \
	ROW("cholesky", "-n40", NULL, "-t", 1.4, "1.4"), \
	ROW("barnes", "-n131072", NULL, "-t", 2.5, "2.5"), \
	ROW("fmm", "-n262144", NULL, "-t", 2.5, "2.5"), \
	ROW("radiosity", "-f0.01", NULL, "-t", 2.5, "2.5"), \
	ROW("raytrace", "-n512", NULL, "-t", 1.4, "1.4"), \
	ROW("volrend", "-n256", "-z768", "-t", 1.4, "1.4"), \
	ROW("water-nsquared", "-n10648", NULL, "-t", 1.15, "1.15"), \
	ROW("water-spatial", "-n97336", NULL, "-t", 1.15, "1.15")

static const struct app apps[] = {
	EACH(SUITE),
	SOR("jump"),
	SOR("adapt"),
	PAGED("lu-nc", "-n3072", "-b16", "-t"),
	PAGED("ocean-nc", "-n2050", NULL, "-c"),
	PAGED("barnes", "-n131072", NULL, "-t"),
	PAGED("fmm", "-n262144", NULL, "-t"),
	PAGED("radiosity", "-f0.01", NULL, "-t"),
	PAGED("raytrace", "-n512", NULL, "-t"),
	PAGED("volrend", "-n256", "-z768", "-t"),
	PAGED("water-nsquared", "-n10648", NULL, "-t"),
	DIRECT("fft", "-m20", NULL, "-t"),
	DIRECT("lu", "-n2048", "-b16", "-t"),
	DIRECT("ocean", "-n1026", NULL, "-c"),
	DIRECT("radix", "-n8388608", NULL, "-t"),
	EACH(TEAM),
	EACH(RIVALS),
};

static const unsigned procs_list[] = {1, 2, 4};
#define PROCS (sizeof(procs_list) / sizeof(procs_list[0]))

/* Samples in us, by kind and number of processes. */
struct app_times {
	float wall[PROCS][KINDS][REPEATS];
	float region[PROCS][KINDS][REPEATS];
	unsigned count[PROCS][KINDS];
};

/* ----------------------------------------------------------------------------------- rows */

static double median_of(float *samples, unsigned count)
{
	return report_median(samples, count, 1).us;
}

static const char *app_protocol(const struct bench *bench, const struct app *app)
{
	return app->protocol != NULL ? app->protocol : bench->protocol;
}

static bool app_runs(const struct app *app, unsigned at)
{
	return !app->two || procs_list[at] == 2;
}

/* A program without faults needs one engine only. */
static unsigned app_kinds(const struct bench *bench, const struct app *app)
{
	bool faults = app->threads == 0 &&
		      roami_protocol_find(app_protocol(bench, app))->homes !=
			      ROAM_HOMES_EVERYWHERE;

	return faults ? KINDS : 2;
}

/* What a time is compared with. */
struct app_limit {
	double floor_us;
	const char *floor;
	double ratio; /* 0: reported */
	const char *goal;
};

static void app_row(struct bench *bench, const struct app *app, const char *name,
		    const char *engine, float *samples, unsigned count, struct app_limit limit)
{
	struct report_median median = report_median(samples, count, 1);
	struct report_row *row = report_add(&bench->report, name);

	if (row == NULL)
		return;
	row->engine = engine;
	row->protocol = engine != NULL ? app_protocol(bench, app) : NULL;
	row->transport = engine != NULL ? "shm" : NULL;
	row->us = median.us;
	row->p10 = median.p10;
	row->p90 = median.p90;
	row->n = median.n;
	row->floor_us = limit.floor_us;
	row->floor = limit.floor;
	if (limit.ratio <= 0 || !bench_has_goal(bench, app->protocol))
		return;
	row->goal = limit.goal;
	row->limit_us = limit.floor_us > 0 ? limit.ratio * limit.floor_us : -1;
	row->met = row->us >= 0 && limit.floor_us > 0 && row->us <= row->limit_us ? REPORT_MET
										  : REPORT_MISSED;
}

/* Row names live as long as the program: fft_2, or fft_1x2 of one node with two threads. */
static const char *app_name(const struct app *app, const char *middle, unsigned procs,
			    const char *end)
{
	char *name = NULL, nodes[16] = "";

	if (app->threads > 0)
		snprintf(nodes, sizeof(nodes), "%ux", procs / app->threads);
	if (asprintf(&name, "%s%s_%s%u%s", app->name, middle, nodes,
		     app->threads > 0 ? app->threads : procs, end) < 0)
		return app->name;
	return name;
}

static void app_engine_rows(struct bench *bench, const struct app *app, struct app_times *times,
			    unsigned kind)
{
	const char *engine = bench->engines[kind - 1];
	const struct app_limit walls[PROCS] = {
		{median_of(times->wall[0][0], times->count[0][0]), "threads, 1", app->alone,
		 app->alone_goal},
		{median_of(times->wall[1][0], times->count[1][0]), "threads, 2", app->pair,
		 app->pair_goal},
		{median_of(times->wall[1][kind], times->count[1][kind]), "2 nodes", 2,
		 "<= 2 x 2 nodes"},
	};
	const struct app_limit regions[2] = {
		{median_of(times->region[0][0], times->count[0][0]), "threads, 1", 0, NULL},
		{median_of(times->region[1][0], times->count[1][0]), "threads, 2", app->region,
		 app->region_goal},
	};

	for (unsigned at = 0; at < PROCS; at++) {
		if (!app_runs(app, at))
			continue;
		app_row(bench, app, app_name(app, "", procs_list[at], ""), engine,
			times->wall[at][kind], times->count[at][kind], walls[at]);
		if (at < 2)
			app_row(bench, app, app_name(app, "", procs_list[at], "_region"), engine,
				times->region[at][kind], times->count[at][kind], regions[at]);
	}
}

static void app_rows(struct bench *bench, const struct app *app, struct app_times *times)
{
	const struct app_limit none = {-1, NULL, 0, NULL};

	for (unsigned at = 0; at < 2; at++) {
		if (!app_runs(app, at))
			continue;
		app_row(bench, app, app_name(app, "_pthread", procs_list[at], ""), NULL,
			times->wall[at][0], times->count[at][0], none);
		app_row(bench, app, app_name(app, "_pthread", procs_list[at], "_region"), NULL,
			times->region[at][0], times->count[at][0], none);
	}
	for (unsigned kind = 1; kind < app_kinds(bench, app) && bench->engines[kind - 1] != NULL;
	     kind++)
		app_engine_rows(bench, app, times, kind);
}

/* Makes one run of every kind; `verify`: checks the result and does not time it. */
static void app_turn(struct bench *bench, const struct app *app, const char *directory, bool verify,
		     struct app_times *times)
{
	char path[2 * PATH_MAX];

	for (unsigned at = 0; at < PROCS; at++)
		for (unsigned kind = 0; kind < app_kinds(bench, app); kind++) {
			struct app_run run = {path, app, procs_list[at], NULL,
					      app_protocol(bench, app), verify, APP_SECONDS_MAX};
			unsigned *count = &times->count[at][kind];
			double wall, region;

			if (kind > 0)
				run.engine = bench->engines[kind - 1];
			if (!app_runs(app, at) || (kind > 0 && run.engine == NULL) ||
			    (kind == 0 && at == 2))
				continue;
			snprintf(path, sizeof(path), "%s/%s%s", directory,
				 app->program != NULL ? app->program : app->name,
				 kind == 0 ? "-pthread" : "");
			if (times->count[at][kind] > REPEATS) /* failed once */
				continue;
			if (!app_run_once(&run, &wall, &region)) {
				*count = REPEATS + 1;
			} else if (!verify) {
				times->wall[at][kind][*count] = (float)wall;
				times->region[at][kind][(*count)++] = (float)region;
			}
		}
}

static bool app_wanted(const struct bench *bench, const struct app *app)
{
	char name[64];

	snprintf(name, sizeof(name), "%s%s", app->name, app->threads > 0 ? "_1x2" : "");
	return bench->only == NULL || strstr(name, bench->only) != NULL;
}

static void bench_app(struct bench *bench, const struct app *app, const char *directory)
{
	struct app_times times;

	memset(&times, 0, sizeof(times));
	app_turn(bench, app, directory, true, &times);
	for (unsigned repeat = 0; repeat < REPEATS; repeat++)
		app_turn(bench, app, directory, false, &times);
	for (unsigned at = 0; at < PROCS; at++)
		for (unsigned kind = 0; kind < KINDS; kind++)
			if (times.count[at][kind] > REPEATS)
				times.count[at][kind] = 0;
	app_rows(bench, app, &times);
}

void bench_apps(struct bench *bench)
{
	char directory[PATH_MAX + 64];

	if (!apps_find(directory, sizeof(directory))) {
		fprintf(stderr, "roam bench: no programs here: set ROAM_BENCH_APPS\n");
		return;
	}
	for (size_t i = 0; i < sizeof(apps) / sizeof(apps[0]); i++) {
		unsigned first = bench->report.count;

		if (!app_wanted(bench, &apps[i]) ||
		    !bench_has(bench, apps[i].protocol, apps[i].name, true))
			continue;
		if (apps[i].rivals)
			bench_rivals(bench, &apps[i], directory);
		else
			bench_app(bench, &apps[i], directory);
		if (bench->progress)
			report_table_rows(&bench->report, first);
	}
}
