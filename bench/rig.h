/*
 * A rig: the processes that measure one scenario; they sleep until the bench calls a round.
 * Scenarios of roam and floors are separate rigs, so that the bench can call them in turn, and
 * changes of the machine's speed affect both alike.
 */
#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "floor.h"

#define RIG_CHANNELS  FLOOR_KINDS_COUNT
#define RIG_ROUND     1024u /* most samples of a round */
#define RIG_NODES_MAX 64

/* What roam counted on the measuring node, and for how many operations. */
struct rig_counts {
	double operations;
	double faults;
	double messages;
	double syscalls;
	double twins;
	double diffs;
};

struct rig_channel {
	struct floor_out out;
	struct rig_counts counts;
};

/* Shared by the processes of a rig. */
struct rig_shared {
	_Alignas(64) _Atomic uint32_t round; /* the round wanted; RIG_QUIT: no more */
	_Alignas(64) _Atomic uint32_t done;
	_Alignas(64) _Atomic uint32_t flag; /* for the scenario */
	_Alignas(64) _Atomic uint32_t asleep;
	_Alignas(64) char error[160];
	struct rig_channel channel[RIG_CHANNELS];
};

#define RIG_QUIT UINT32_MAX

struct rig_scenario;

/* A rig as one of its processes sees it. */
struct rig_run {
	const struct rig_scenario *scenario;
	struct rig_shared *shared;
	unsigned node;
	unsigned nodes;
	unsigned round;   /* 1, 2, ... */
	unsigned rounds;  /* how many rounds there will be */
	unsigned samples; /* samples wanted of a round, at most RIG_ROUND */
	unsigned cpu[2];
	enum floor_engine engine;
	uint8_t *memory; /* the scenario's shared memory */
	size_t memory_bytes;
	void *state; /* the scenario's own */
	uint32_t order[FLOOR_PAGES];
	struct floor_pair floor;
};

struct rig_scenario {
	const char *name;
	unsigned nodes;
	bool roam;                            /* processes are nodes of roam; else plain */
	const char *env;                      /* "NAME=VALUE NAME=VALUE" */
	const char *protocol;                 /* NULL: the benched one */
	size_t bytes;                         /* of shared memory */
	unsigned argument;                    /* the scenario's own */
	const uint8_t *floors;                /* kinds, ended by FLOOR_KINDS_COUNT */
	/* What the scenario needs that is missing here; NULL: nothing is.  The slot may be NULL. */
	const char *(*missing)(void);
	void (*prepare)(struct rig_run *run); /* before the fork; may be NULL */
	void (*begin)(struct rig_run *run);   /* in each process; may be NULL */
	void (*round)(struct rig_run *run);   /* in each */
};

struct rig {
	struct rig_run run;
	pid_t pid;   /* of the first process; 0: it has ended */
	pid_t group; /* of all processes */
	size_t shared_bytes;
	bool failed;
};

struct rig_params {
	const char *engine; /* ROAM_FAULT and the floors': "uffd" or "sigsegv" */
	const char *protocol;
	unsigned rounds;
	unsigned samples; /* of a round */
	unsigned cpu[2];
	double overhead;
};

/* Starts the processes and waits until they are ready.  false: reported on stderr. */
bool rig_open(struct rig *rig, const struct rig_scenario *scenario,
	      const struct rig_params *params);
/* Runs one round; false if it failed, or an earlier one did. */
bool rig_round(struct rig *rig);
void rig_close(struct rig *rig);

/* ---- for scenarios, in the processes */

/* Ends the rig. */
__attribute__((noreturn, format(printf, 2, 3))) void rig_fail(struct rig_run *run,
							      const char *format, ...);
static inline void rig_note(struct rig_run *run, unsigned channel, uint64_t ticks,
			    double operations)
{
	floor_note(&run->shared->channel[channel].out, ticks, operations);
}
/* The operations between the two calls, to which roam's counts belong. */
void rig_count_begin(struct rig_run *run, unsigned channel);
void rig_count_end(struct rig_run *run, unsigned channel, double operations);
/* Waits asleep, outside roam, until the flag has the value. */
void rig_flag_await(struct rig_run *run, uint32_t value);
void rig_flag_set(struct rig_run *run, uint32_t value);

/* The functions of scenarios that are floors. */
void rig_floor_prepare(struct rig_run *run);
void rig_floor_begin(struct rig_run *run);
void rig_floor_round(struct rig_run *run);

#endif
