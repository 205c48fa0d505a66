/* The benchmarks: their parameters, and how rigs become rows. */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "report.h"
#include "rig.h"

struct bench {
	struct report report;
	const char *engines[3]; /* NULL-terminated */
	const char *protocol;   /* of rows that have none of their own */
	bool protocol_chosen;   /* rows of other protocols are left out */
	unsigned samples;       /* of a row */
	unsigned rounds;
	bool udp;         /* nodes are reached over udp */
	bool paper;       /* for tx: show a paper's figures beside the same measured here */
	bool progress;    /* rows are printed as they come */
	FILE *series;     /* gets each row's samples in order; NULL: not wanted */
	const char *only; /* rows with this in their name, and floors; NULL: all */
	unsigned cpu[2];
	double ticks_per_us;
	double overhead;
};

/* Part of a floor: the median of a channel, times a weight. */
struct plan_term {
	unsigned rig;
	unsigned channel;
	double weight; /* 0: no term */
};

enum plan_rule {
	PLAN_REPORTED, /* no goal */
	PLAN_LIMIT,    /* at most ratio x floor + plus, or floor + slack if that is more */
	PLAN_SILENT    /* no twin, no diff, no message */
};

#define PLAN_TERMS 3

struct plan_row {
	const char *name;
	unsigned rig; /* index of the plan's scenarios */
	unsigned channel;
	struct plan_term term[PLAN_TERMS];
	double floor_plus;
	const char *floor;
	enum plan_rule rule;
	double ratio, plus, slack;
	const char *goal;
	const char *variant;
	const char *transport;
	bool slow; /* the row shows the slowest operation of a hundred */
};

struct plan {
	const struct rig_scenario *const *scenarios; /* NULL-terminated */
	const struct plan_row *rows;
	unsigned row_count;
};

#define PLAN_RIGS 32

#define BENCH_PROTOCOL "hlrc" /* the protocol that the goals of rows without a protocol are for */

/*
 * Whether rows of the protocol (NULL: the benched one) are wanted and possible.  If it is missing
 * and `note` is set, reports on stderr that `what` is left out.
 */
bool bench_has(const struct bench *bench, const char *protocol, const char *what, bool note);
/* Whether a row of the protocol (NULL: the benched one) has its goal. */
bool bench_has_goal(const struct bench *bench, const char *protocol);
/* Runs the plan's rigs in turn and adds its rows; `engine` NULL: the rows involve none. */
void plan_run(struct bench *bench, const struct plan *plan, const char *engine);

void bench_machine(struct bench *bench);
void bench_fault(struct bench *bench);
void bench_diff(struct bench *bench);
void bench_lock(struct bench *bench);
void bench_barrier(struct bench *bench);
void bench_past(struct bench *bench);
void bench_tx(struct bench *bench);
void bench_rtt(struct bench *bench);
void bench_stream(struct bench *bench);
void bench_save(struct bench *bench);
void bench_store(struct bench *bench);
void bench_apps(struct bench *bench);

/*
 * Round trips, in a table of its own: five times `trips`, over links of that MTU.  Returns the exit
 * status: of a row that could not be measured, a failure.
 */
struct bench_latency_options {
	unsigned trips, mtu;
	const char *sizes; /* NULL: the usual ones */
	bool busy, json;
};
int bench_latency(const struct bench *bench, const struct bench_latency_options *options);

/* Bare sockets, by channel: round trips of 64 bytes, a page, 64 small diffs; a stream of pages. */
enum { BENCH_UDP_64, BENCH_UDP_4K, BENCH_UDP_DIFFS, BENCH_UDP_STREAM };
extern const struct rig_scenario bench_udp_floor;

/* ---- systems compared with PastSet, and what is measured of both */

#define BENCH_SIZES     3u
#define BENCH_TUPLE_MAX (31u * 1024)
#define BENCH_TURNS     16u /* exchanges, or reductions, of a sample */

extern const uint32_t bench_sizes[BENCH_SIZES];

/* Channels: exchanges of tuples of bench_sizes, then a push of the smallest one. */
extern const struct rig_scenario bench_redis, bench_redis_one;
/* MPI_Allreduce of one int. */
extern const struct rig_scenario bench_mpi_2, bench_mpi_4, bench_mpi_tcp_2;

/*
 * A server of elements under load.  Channels: time per operation; the slowest of a hundred; the
 * server's CPU time per operation; how much of each ms of its CPU the server takes, and how much a
 * program that computes on that CPU loses.
 */
enum { BENCH_LOAD_EACH, BENCH_LOAD_P99, BENCH_LOAD_CPU, BENCH_LOAD_SHARE, BENCH_LOAD_LOST };
extern const struct rig_scenario bench_load;

/* Whether a program is in the PATH. */
bool bench_program_there(const char *name);

/* ---- shared by scenarios of roam */

/* The node that this process is. */
struct roami_node;
struct roami_node *bench_node(void);

/* The message types of rows that make calls: an extension of every node. */
extern const struct roami_room bench_calls;

static inline uint8_t *scenario_page(const struct rig_run *run, uint32_t page)
{
	return run->memory + (size_t)page * FLOOR_PAGE;
}

static inline volatile uint64_t *scenario_word(const struct rig_run *run, uint32_t page)
{
	return (volatile uint64_t *)(void *)scenario_page(run, page);
}

/* Names of locks; their bytes are never touched.  Node number % 2 is the lock's home. */
#define SCENARIO_LOCKS 16
const void *scenario_lock(unsigned number);

/* Allocates the scenario's memory and announces the locks. */
void scenario_prepare(struct rig_run *run);
/* Node 0 becomes the home of all pages, node 1 has a copy of each. */
void scenario_share(struct rig_run *run);
/* Node 0 writes every byte of `pages` pages from `first`. */
void scenario_rewrite(struct rig_run *run, uint32_t first, uint32_t pages, uint32_t value);
/* The calling node reads a word of every page. */
void scenario_read_all(struct rig_run *run);

/* Makes a directory in TMPDIR, or else in `parent`; false with errno. */
bool bench_place_make(char *place, size_t bytes, const char *parent);
/* Removes it with all that is in it. */
void bench_place_remove(const char *place);

#endif
