/*
 * roam bench apps: programs compared with the same sources on threads.  Programs run one after the
 * other, the kinds in turn; NAME_P is the wall time from fork to exit, NAME_P_region the time
 * between the program's own clocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/node.h"
#include "bench.h"

#define REPEATS     5u
#define KINDS       3 /* the twin, and two engines */
#define SECONDS_MAX 120u

static const char *const apps_places[] = {"../apps", "../libexec/roam/apps", "../../apps"};

struct app {
	const char *name;
	const char *arguments[4];
	const char *verify;
	double alone, pair, region; /* limits; 0: reported */
	const char *alone_goal, *pair_goal, *region_goal;
	const char *program;  /* NULL: the name */
	const char *protocol; /* NULL: the one that is benched */
	bool two;             /* on 2 nodes alone, or with 2 threads of 1 node: */
	unsigned threads;     /* of a node; 0: 1 */
};

/* The protocol has to find the placement: the first process writes all data (-f). */
#define SOR(system)                                                                                \
	{                                                                                          \
		.name = "sor", .arguments = {"-n2048", "-i50", "-f"}, .verify = "-t", .pair = 1.3, \
		.pair_goal = "<= 1.3 x threads", .program = "jump-sor", .protocol = system,        \
		.two = true,                                                                       \
	}

/* Programs in the layout of the suite: many small locks, or pages of many writers. */
#define SUITE(program, size, more, check, ratio, text)                                             \
	{                                                                                          \
		.name = program, .arguments = {size, more}, .verify = check, .alone = 1.03,        \
		.alone_goal = "<= 1.03 x sequential", .pair = ratio,                               \
		.pair_goal = "<= " text " x threads",                                              \
	}

/* Beside it, without a limit: what a layout for pages gains. */
#define PAGED(kernel, size, check)                                                                 \
	{                                                                                          \
		.name = kernel "_pages", .arguments = {size, "--layout=pages"}, .verify = check,   \
		.program = kernel, .two = true,                                                    \
	}

/* What the hardware alone costs, with a heap and synchronisation of roam's. */
#define DIRECT(kernel, size, more, check)                                                          \
	{                                                                                          \
		.name = kernel "_direct", .arguments = {size, more}, .verify = check, .pair = 1.1, \
		.pair_goal = "<= 1.1 x threads", .region = 1.03,                                   \
		.region_goal = "<= 1.03 x threads", .program = kernel, .protocol = "direct",       \
		.two = true,                                                                       \
	}

/* One node of two threads takes no fault. */
#define TEAM(kernel, size, more, check)                                                           \
	{                                                                                          \
		.name = kernel, .arguments = {size, more}, .verify = check, .pair = 1.05,          \
		.pair_goal = "<= 1.05 x threads", .two = true, .threads = 2,                       \
	}

static const struct app apps[] = {
	{"fft",
	 {"-m20"},
	 "-t",
	 1.1,
	 1.5,
	 0,
	 "<= 1.1 x sequential",
	 "<= 1.5 x threads (goal 1.3)",
	 NULL,
	 .two = false},
	{"lu",
	 {"-n2048", "-b16"},
	 "-t",
	 1.05,
	 1.3,
	 0,
	 "<= 1.05 x sequential",
	 "<= 1.3 x threads (goal 1.15)",
	 NULL,
	 .two = false},
	{"ocean",
	 {"-n1026"},
	 "-c",
	 1.05,
	 1.3,
	 0,
	 "<= 1.05 x sequential",
	 "<= 1.3 x threads (goal 1.15)",
	 NULL,
	 .two = false},
	{"radix",
	 {"-n8388608"},
	 "-t",
	 1.05,
	 1.3,
	 2,
	 "<= 1.05 x sequential",
	 "<= 1.3 x threads (goal 1.15)",
	 "<= 2 x threads (goal 1.6)",
	 .two = false},
	SOR("jump"),
	SOR("adapt"),
	SUITE("lu-nc", "-n1024", "-b16", "-t", 1.4, "1.4"),
	SUITE("ocean-nc", "-n514", NULL, "-c", 1.15, "1.15"),
	SUITE("cholesky", "-n24", NULL, "-t", 1.4, "1.4"),
	SUITE("barnes", "-n32768", NULL, "-t", 2.5, "2.5"),
	SUITE("fmm", "-n65536", NULL, "-t", 2.5, "2.5"),
	SUITE("radiosity", "-f0.03", NULL, "-t", 2.5, "2.5"),
	SUITE("raytrace", "-n256", NULL, "-t", 1.4, "1.4"),
	SUITE("volrend", "-n256", "-z768", "-t", 1.4, "1.4"),
	SUITE("water-nsquared", "-n4096", NULL, "-t", 1.15, "1.15"),
	SUITE("water-spatial", "-n32768", NULL, "-t", 1.15, "1.15"),
	PAGED("lu-nc", "-n1024", "-t"),
	PAGED("ocean-nc", "-n514", "-c"),
	PAGED("barnes", "-n32768", "-t"),
	PAGED("fmm", "-n65536", "-t"),
	PAGED("radiosity", "-f0.03", "-t"),
	PAGED("raytrace", "-n256", "-t"),
	PAGED("volrend", "-n256", "-t"),
	PAGED("water-nsquared", "-n4096", "-t"),
	DIRECT("fft", "-m20", NULL, "-t"),
	DIRECT("lu", "-n2048", "-b16", "-t"),
	DIRECT("ocean", "-n1026", NULL, "-c"),
	DIRECT("radix", "-n8388608", NULL, "-t"),
	TEAM("fft", "-m20", NULL, "-t"),
	TEAM("lu", "-n2048", "-b16", "-t"),
	TEAM("ocean", "-n1026", NULL, "-c"),
	TEAM("radix", "-n8388608", NULL, "-t"),
	TEAM("lu-nc", "-n1024", "-b16", "-t"),
	TEAM("ocean-nc", "-n514", NULL, "-c"),
	TEAM("cholesky", "-n24", NULL, "-t"),
	TEAM("barnes", "-n32768", NULL, "-t"),
	TEAM("fmm", "-n65536", NULL, "-t"),
	TEAM("radiosity", "-f0.03", NULL, "-t"),
	TEAM("raytrace", "-n256", NULL, "-t"),
	TEAM("volrend", "-n256", "-z768", "-t"),
	TEAM("water-nsquared", "-n4096", NULL, "-t"),
	TEAM("water-spatial", "-n32768", NULL, "-t"),
};

static const unsigned procs_list[] = {1, 2, 4};
#define PROCS (sizeof(procs_list) / sizeof(procs_list[0]))

/* Samples in us, by kind and number of processes. */
struct app_times {
	float wall[PROCS][KINDS][REPEATS];
	float region[PROCS][KINDS][REPEATS];
	unsigned count[PROCS][KINDS];
};

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

bool bench_apps_find(char *directory, size_t bytes)
{
	const char *given = getenv("ROAM_BENCH_APPS");
	char self[PATH_MAX], probe[2 * PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (given != NULL) {
		snprintf(directory, bytes, "%s", given);
		return true;
	}
	if (length < 0)
		return false;
	self[length] = '\0';
	*strrchr(self, '/') = '\0';
	for (size_t i = 0; i < sizeof(apps_places) / sizeof(apps_places[0]); i++) {
		snprintf(directory, bytes, "%s/%s", self, apps_places[i]);
		snprintf(probe, sizeof(probe), "%s/fft", directory);
		if (access(probe, X_OK) == 0)
			return true;
	}
	return false;
}

/* -------------------------------------------------------------------------------- one run */

struct app_run {
	const char *path;
	const struct app *app;
	unsigned procs;
	const char *engine; /* NULL: the twin */
	const char *protocol;
	bool verify;
};

__attribute__((noreturn)) static void run_child(const struct app_run *run, int out)
{
	char procs[16], threads[16];
	char *argv[8];
	unsigned count = 0;

	snprintf(procs, sizeof(procs), "-p%u", run->procs);
	snprintf(threads, sizeof(threads), "%u", run->app->threads);
	argv[count++] = (char *)(uintptr_t)run->path;
	argv[count++] = procs;
	for (unsigned i = 0; run->app->arguments[i] != NULL; i++)
		argv[count++] = (char *)(uintptr_t)run->app->arguments[i];
	if (run->verify)
		argv[count++] = (char *)(uintptr_t)run->app->verify;
	argv[count] = NULL;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(SECONDS_MAX);
	if (run->engine != NULL) {
		setenv("ROAM_FAULT", run->engine, 1);
		setenv("ROAM_PROTOCOL", run->protocol, 1);
		setenv("ROAM_PIN", "1", 1);
		if (run->app->threads > 0)
			setenv("ROAM_THREADS", threads, 1);
	}
	dup2(out, STDOUT_FILENO);
	execv(run->path, argv);
	_exit(127);
}

/* Reads the program's output to its end; keeps the beginning. */
static void run_read(int from, char *text, size_t bytes)
{
	size_t used = 0;
	char rest[512];
	ssize_t got;

	for (;;) {
		size_t room = bytes - 1 - used;

		got = room > 0 ? read(from, text + used, room) : read(from, rest, sizeof(rest));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		if (room > 0)
			used += (size_t)got;
	}
	text[used] = '\0';
}

static bool run_once(const struct app_run *run, double *wall_p, double *region_p)
{
	char text[4096];
	const char *region;
	double start;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	fflush(NULL);
	start = now_us();
	pid = fork();
	if (pid == 0)
		run_child(run, ends[1]);
	close(ends[1]);
	if (pid > 0) {
		run_read(ends[0], text, sizeof(text));
		waitpid(pid, &status, 0);
	}
	*wall_p = now_us() - start;
	close(ends[0]);
	region = pid > 0 ? strstr(text, "region_us ") : NULL;
	if (status != 0 || region == NULL || (run->verify && strstr(text, "verified ok") == NULL)) {
		fprintf(stderr, "roam bench: %s -p%u %s%s fails: %s\n", run->path, run->procs,
			run->engine != NULL ? run->engine : "",
			run->verify ? " (verified run)" : "", pid > 0 ? text : strerror(errno));
		return false;
	}
	*region_p = atof(region + strlen("region_us "));
	return true;
}

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

/* Where nothing faults one engine stands for all. */
static unsigned app_kinds(const struct bench *bench, const struct app *app)
{
	bool faults = app->threads == 0 &&
		      !roami_protocol_find(app_protocol(bench, app))->one_heap;

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

/* One run of every kind; `verify`: checked, not timed. */
static void app_turn(struct bench *bench, const struct app *app, const char *directory, bool verify,
		     struct app_times *times)
{
	char path[2 * PATH_MAX];

	for (unsigned at = 0; at < PROCS; at++)
		for (unsigned kind = 0; kind < app_kinds(bench, app); kind++) {
			struct app_run run = {
				path, app, procs_list[at], NULL, app_protocol(bench, app), verify};
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
			if (!run_once(&run, &wall, &region)) {
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

void bench_apps(struct bench *bench)
{
	char directory[PATH_MAX + 64];

	if (!bench_apps_find(directory, sizeof(directory))) {
		fprintf(stderr, "roam bench: no programs here: set ROAM_BENCH_APPS\n");
		return;
	}
	for (size_t i = 0; i < sizeof(apps) / sizeof(apps[0]); i++) {
		unsigned first = bench->report.count;
		struct app_times times;

		if (!app_wanted(bench, &apps[i]) ||
		    !bench_has(bench, apps[i].protocol, apps[i].name, true))
			continue;
		memset(&times, 0, sizeof(times));
		app_turn(bench, &apps[i], directory, true, &times);
		for (unsigned repeat = 0; repeat < REPEATS; repeat++)
			app_turn(bench, &apps[i], directory, false, &times);
		for (unsigned at = 0; at < PROCS; at++)
			for (unsigned kind = 0; kind < KINDS; kind++)
				if (times.count[at][kind] > REPEATS)
					times.count[at][kind] = 0;
		app_rows(bench, &apps[i], &times);
		if (bench->progress)
			report_table_rows(&bench->report, first);
	}
}
