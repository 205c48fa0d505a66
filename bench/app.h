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
	bool two;             /* on 2 nodes alone, or with 2 threads of 1 node: */
	unsigned threads;     /* of a node; 0: 1 */
	bool rivals;          /* compared with other protocols, not with threads */
};

struct app_run {
	const char *path;
	const struct app *app;
	unsigned procs;
	const char *engine; /* NULL: the twin */
	const char *protocol;
	bool verify;
	unsigned seconds; /* it is ended then */
};

/* Where the programs are, to `directory`; false: they are not found. */
bool apps_find(char *directory, size_t bytes);

/* Runs a program, and times it; false: it failed, which is reported unless `seconds` were over. */
bool app_run_once(const struct app_run *run, double *wall_p, double *region_p);

/* The app's protocol beside each other one that its program may run under: one row. */
void bench_rivals(struct bench *bench, const struct app *app, const char *directory);

#endif
