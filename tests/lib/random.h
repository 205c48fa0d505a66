/*
 * Random race-free programs and their oracle.
 *
 * A program is one list of operations per thread: loads and stores of small objects packed on few
 * pages, in some programs of long ones between them, up to whole pages, and of objects in blocks
 * allocated and freed on the way, by any thread; locks, conditions, flags, full and partial
 * barriers, reductions. The generator lays the operations out in one order and allows an access
 * only if every conflicting earlier one is ordered before it by synchronisation (vector clocks), or
 * both hold the object's lock. With `scoped` it counts as ordered only what scope consistency
 * shows: a lock shows what was written in its sections, a flag shows the setter's own writes.
 *
 * A run writes a log per thread.  Every synchronisation takes a number from one counter, before it
 * releases or after it has acquired, so that the order of numbers is an order that the run may have
 * had.  The oracle replays the logs in that order on one memory and compares every value read; it
 * also proves anew that the run had no race, that locks excluded and barriers waited.
 *
 * The same program runs in a world, on threads or on processes: the harness provides the
 * operations.
 */
#ifndef ROAM_TESTS_RANDOM_H
#define ROAM_TESTS_RANDOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

#define RANDOM_THREADS_MAX  64u
#define RANDOM_LOCKS_MAX    16u
#define RANDOM_CONDS_MAX    16u
#define RANDOM_FLAGS_MAX    32u
#define RANDOM_BARRIERS_MAX 16u /* the first two are full barriers */
#define RANDOM_BLOCKS_MAX   24u
#define RANDOM_ALLOCS_MAX   48u /* of a whole program */
#define RANDOM_ALLOC_PAGES  2u  /* the most allocations of one block */

struct random_params {
	uint64_t seed;
	unsigned nodes;
	unsigned threads;                    /* of all nodes */
	uint8_t node_of[RANDOM_THREADS_MAX]; /* ascending */
	uint32_t heap_pages;
	uint32_t operations; /* about so many per thread */
	bool allocates;
	bool teams;  /* all threads take part in reductions, not only one of each node */
	bool scoped; /* counts as ordered only what scope consistency orders, see random.c */
};

struct random_program;

struct random_program *random_generate(const struct random_params *params);
void random_free(struct random_program *program);
const struct random_params *random_params_of(const struct random_program *program);

/* One entry of a log; an access has the `sequence` of the thread's last synchronisation. */
struct random_event {
	uint64_t sequence;
	uint8_t kind;
	uint16_t which;   /* object or synchronisation object */
	uint32_t episode; /* of a barrier */
	uint64_t value[2]; /* or the value that a long object's bytes stand for */
};

struct random_log {
	struct random_event *events;
	uint32_t count;
	uint32_t max;
};

/* The offsets of the blocks; shared by all threads of a run. */
struct random_places {
	_Atomic uint64_t at[RANDOM_BLOCKS_MAX];
};

/* The largest number of events that one thread of the program can log. */
uint32_t random_events_max(const struct random_program *program);

/* Makes empty logs for all threads, on the C heap. */
void random_logs_make(const struct random_program *program, struct random_log *logs);
void random_logs_free(const struct random_program *program, struct random_log *logs);

/*
 * The functions that a program needs of its harness; `self` is the thread's.  Synchronisation
 * objects are numbered from 0, each kind by itself.
 */
struct random_ops {
	void (*load)(void *self, uint64_t offset, void *out, size_t bytes);
	void (*store)(void *self, uint64_t offset, const void *in, size_t bytes);
	enum roam_err (*lock_init)(void *self, unsigned lock); /* NULL: not wanted */
	enum roam_err (*lock)(void *self, unsigned lock);
	enum roam_err (*lock_try)(void *self, unsigned lock);
	enum roam_err (*lock_within)(void *self, unsigned lock, uint64_t ns);
	enum roam_err (*unlock)(void *self, unsigned lock);
	enum roam_err (*cond_init)(void *self, unsigned cond); /* the same */
	enum roam_err (*cond_wait)(void *self, unsigned cond, unsigned lock);
	enum roam_err (*cond_wait_within)(void *self, unsigned cond, unsigned lock, uint64_t ns);
	enum roam_err (*cond_post)(void *self, unsigned cond, bool all);
	enum roam_err (*flag_set)(void *self, unsigned flag);
	enum roam_err (*flag_wait)(void *self, unsigned flag);
	enum roam_err (*flag_clear)(void *self, unsigned flag);
	enum roam_err (*barrier)(void *self, unsigned barrier, unsigned threads); /* 0: all */
	enum roam_err (*reduce)(void *self, void *values, unsigned count, enum roam_type type,
				enum roam_op op);
	enum roam_err (*alloc)(void *self, size_t bytes, uint64_t *offset_p);
	enum roam_err (*free)(void *self, uint64_t offset);
	bool spoils; /* `free` makes rubbish of the block */
	uint64_t (*sequence)(void *self); /* the next number, from 1 */
	void (*rest)(void *self);         /* all threads come here right after a full barrier */
	void (*pause)(void *self, unsigned length);
	__attribute__((noreturn)) void (*fail)(void *self, const char *text);
};

/* Runs one thread's list. */
void random_run(const struct random_program *program, unsigned thread, const struct random_ops *ops,
		void *self, struct random_places *places, struct random_log *log);

struct random_result {
	uint64_t reads;         /* checked */
	uint64_t reads_foreign; /* of a value written by another node */
	uint64_t writes;
	uint64_t syncs;
	uint64_t allocs, reuses; /* blocks; reuses: of memory that another node had freed */
	char error[512];
};

/*
 * Checks the logs of a run, one per thread; `initial` is the heap before it.  false:
 * result->error.
 */
bool random_check(const struct random_program *program, const struct random_log *logs,
		  const uint8_t *initial, struct random_result *result);

/* Prints the lists. */
void random_print(const struct random_program *program);

#endif
