/*
 * A server of 1,000 elements (node 0) under the load of 64 threads on four other nodes, which move
 * and observe tuples of 64 bytes; meanwhile a program computes on the server's CPU.  The other
 * nodes share the other CPU.  The program loses exactly the time that the server takes, if the
 * server runs only when it has something to do.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "roam/pastset.h"
#include "roam/roam.h"

#define CLIENTS  4u
#define THREADS  16u /* of each */
#define ELEMENTS 1000u
#define BYTES    64u
#define LATENCY  1024u /* samples kept per thread: the last ones */
#define CUT      32u   /* operations of a thread between truncations */
#define MS_MIN   20u

/* Shared by the nodes, beside roam. */
struct load_shared {
	_Atomic uint32_t ready, ended; /* counts of clients, over all rounds */
	_Atomic uint64_t operations;
	float ticks[CLIENTS * THREADS * LATENCY]; /* < 0: none */
};

struct load_state {
	struct load_shared *shared;
	struct roam_ps_element *elements[ELEMENTS]; /* a client's elements; NULL: not entered yet */
};

struct load_thread {
	struct rig_run *run;
	unsigned number; /* of all */
	uint64_t draw, operations;
};

/* What the program that computes and the server did in one span of time. */
struct load_span {
	double work, own_ns; /* the program's work, and its CPU time for that */
	double server_ns, ns, ticks;
};

static void load_must(struct rig_run *run, enum roam_err err)
{
	if (err != ROAM_OK)
		rig_fail(run, "%s", roam_strerror(err));
}

static struct load_shared *load_shared(const struct rig_run *run)
{
	return ((struct load_state *)run->state)->shared;
}

static void load_prepare(struct rig_run *run)
{
	struct load_state *state = run->state = calloc(1, sizeof(*state));

	if (state == NULL)
		rig_fail(run, "no memory");
	state->shared = mmap(NULL, sizeof(*state->shared), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (state->shared == MAP_FAILED)
		rig_fail(run, "no memory");
	scenario_prepare(run);
}

/* Called when all threads exist, roam's included. */
static void load_begin(struct rig_run *run)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(run->cpu[run->node != 0], &one);
	while (tasks != NULL && (task = readdir(tasks)) != NULL)
		if (task->d_name[0] != '.' &&
		    sched_setaffinity(atoi(task->d_name), sizeof(one), &one) != 0)
			rig_fail(run, "cannot pin to CPU %u", run->cpu[run->node != 0]);
	if (tasks != NULL)
		closedir(tasks);
}

/* -------------------------------------------------------------------------------------- clients */

static uint32_t load_flag(const struct rig_run *run)
{
	return atomic_load_explicit(&run->shared->flag, memory_order_relaxed);
}

/* Stores an operation's time in place of the oldest one. */
static void load_note(struct load_thread *thread, uint64_t start)
{
	uint64_t at = thread->operations++ % LATENCY;

	load_shared(thread->run)->ticks[thread->number * LATENCY + at] =
		(float)(floor_end() - start);
}

/* There are as many tuples as observers: no thread waits for long. */
static void load_pair(struct load_thread *thread, struct roam_ps_element *element, uint8_t *tuple)
{
	struct roam_ps_request observe = {.op = ROAM_PS_OBSERVE, .buffer = tuple, .limit = BYTES};
	uint64_t start = floor_begin();

	load_must(thread->run, roam_ps_move(element, tuple, BYTES));
	load_note(thread, start);
	start = floor_begin();
	load_must(thread->run, roam_ps_call(element, &observe));
	load_note(thread, start);
	if (thread->operations % CUT == 0)
		load_must(thread->run, roam_ps_truncate(element, observe.observed));
}

static void *load_client(void *arg)
{
	struct load_thread *thread = arg;
	struct rig_run *run = thread->run;
	const struct load_state *state = run->state;
	uint8_t tuple[BYTES] = {0};

	while (load_flag(run) < 2 * run->round) {
		thread->draw = thread->draw * 6364136223846793005u + 1442695040888963407u;
		load_pair(thread, state->elements[(thread->draw >> 33) % ELEMENTS], tuple);
	}
	atomic_fetch_add(&load_shared(run)->operations, thread->operations);
	return NULL;
}

static void load_enter(struct rig_run *run)
{
	const struct roam_ps_options options = {.place = ROAM_PS_NODE, .node = 0, .forget = true};
	struct load_state *state = run->state;
	char name[32];

	for (unsigned i = 0; i < ELEMENTS; i++) {
		snprintf(name, sizeof(name), "load %u", i);
		load_must(run, roam_ps_enter(name, "u8[64]", &options, &state->elements[i]));
	}
}

static void load_clients(struct rig_run *run)
{
	struct load_thread threads[THREADS];
	pthread_t ids[THREADS];

	if (run->round == 1)
		load_enter(run);
	atomic_fetch_add(&load_shared(run)->ready, 1);
	while (load_flag(run) + 1 < 2 * run->round)
		usleep(100);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct load_thread){run, (run->node - 1) * THREADS + i,
						  run->node * THREADS + i + run->round, 0};
		if (pthread_create(&ids[i], NULL, load_client, &threads[i]) != 0)
			rig_fail(run, "no thread");
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	atomic_fetch_add(&load_shared(run)->ended, 1);
}

/* --------------------------------------------------------------------------------------- server */

static double clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Computes for a time, without a call of roam. */
static struct load_span load_compute(unsigned ms)
{
	double own = clock_ns(CLOCK_THREAD_CPUTIME_ID), all = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	double begun = clock_ns(CLOCK_MONOTONIC), now;
	uint64_t start = floor_begin(), work = 0;
	volatile uint64_t sink = 1;
	struct load_span span;

	do {
		uint64_t value = sink;

		for (unsigned i = 0; i < 2000; i++)
			value = value * 6364136223846793005u + 1;
		sink = value;
		work++;
		now = clock_ns(CLOCK_MONOTONIC);
	} while (now - begun < ms * 1e6);
	span.ticks = (double)(floor_end() - start);
	span.work = (double)work;
	span.ns = now - begun;
	span.own_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - own;
	span.server_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - all - span.own_ns;
	return span;
}

static int ticks_order(const void *a, const void *b)
{
	float one = *(const float *)a, other = *(const float *)b;

	return (one > other) - (one < other);
}

/* The median over the last samples of all threads. */
static float load_p99(struct load_shared *shared)
{
	size_t count = sizeof(shared->ticks) / sizeof(shared->ticks[0]), none = 0;

	qsort(shared->ticks, count, sizeof(shared->ticks[0]), ticks_order);
	while (none < count && shared->ticks[none] < 0)
		none++;
	return none == count ? 0 : shared->ticks[none + (count - none) * 99 / 100];
}

/*
 * The share of its CPU that the program loses, computed from its speed when it runs alone; the CPU
 * time of other processes than the server is not counted.
 */
static double load_lost(const struct load_span *load, const struct load_span *alone)
{
	double able = alone->work / alone->own_ns * load->ns;
	double others = 1 - (load->own_ns + load->server_ns) / load->ns;

	return 1 - load->work / able - others;
}

static void load_server(struct rig_run *run)
{
	struct load_shared *shared = load_shared(run);
	unsigned ms = MS_MIN + run->samples / 5;
	struct load_span alone, load;
	double operations, ms_ticks, lost;

	for (size_t i = 0; i < sizeof(shared->ticks) / sizeof(shared->ticks[0]); i++)
		shared->ticks[i] = -1;
	atomic_store(&shared->operations, 0);
	while (atomic_load(&shared->ready) < CLIENTS * run->round)
		usleep(100);
	alone = load_compute(MS_MIN);
	rig_flag_set(run, 2 * run->round - 1);
	load = load_compute(ms);
	rig_flag_set(run, 2 * run->round);
	while (atomic_load(&shared->ended) < CLIENTS * run->round)
		usleep(100);
	lost = load_lost(&load, &alone);
	operations = (double)atomic_load(&shared->operations);
	ms_ticks = load.ticks / load.ns * 1e6;
	if (operations == 0)
		rig_fail(run, "nothing was done");
	rig_note(run, BENCH_LOAD_EACH, (uint64_t)load.ticks, operations);
	rig_note(run, BENCH_LOAD_P99, (uint64_t)load_p99(shared), 1);
	rig_note(run, BENCH_LOAD_CPU, (uint64_t)(load.server_ns * ms_ticks / 1e6), operations);
	rig_note(run, BENCH_LOAD_SHARE, (uint64_t)(load.server_ns / load.ns * ms_ticks), 1);
	rig_note(run, BENCH_LOAD_LOST,
		 lost > 0 ? (uint64_t)(lost * ms_ticks) : 0, 1);
}

static void load_round(struct rig_run *run)
{
	if (run->node == 0)
		load_server(run);
	else
		load_clients(run);
}

const struct rig_scenario bench_load = {
	.name = "load",
	.nodes = CLIENTS + 1,
	.roam = true,
	.env = "ROAM_PIN=0",
	.prepare = load_prepare,
	.begin = load_begin,
	.round = load_round,
};
