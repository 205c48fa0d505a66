/* The programs that `roam bench apps` runs, and one run of one of them. */
#ifndef BENCH_APP_H
#define BENCH_APP_H

#include <stdbool.h>
#include <stddef.h>

#include "bench.h"

#define APP_REPEATS     5u
#define APP_SECONDS_MAX 120u

struct app {
	const char *name;
	const char *arguments[4];
	const char *verify;
	double alone, pair, region; /* limits; 0: reported */
	const char *alone_goal, *pair_goal, *region_goal;
	const char *program;  /* NULL: the name */
	const char *protocol; /* NULL: the one that is benched */
	bool two;             /* only on 2 nodes, or as 1 node of 2 threads: */
	unsigned threads;     /* threads of a node; 0 means 1 */
	bool rivals;          /* compared with other protocols, not with threads */
};

struct app_run {
	const char *path;
	const struct app *app;
	unsigned procs;
	const char *engine; /* NULL: the twin */
	const char *protocol;
	bool verify;
	unsigned seconds; /* after which it is killed */
};

/* Writes the programs' directory to `directory`; false: it is not found. */
bool apps_find(char *directory, size_t bytes);

/* Runs a program and times it; false: it failed, which is reported unless it took all `seconds`. */
bool app_run_once(const struct app_run *run, double *wall_p, double *region_p);

/* Compares the app's protocol with every other one that its program may run under: adds one row. */
void bench_rivals(struct bench *bench, const struct app *app, const char *directory);

#endif
