/* Rigs: forking them, calling rounds, noticing that one died. */
#include "rig.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "roam/roam.h"

#define ROUND_SECONDS 60u

/* The rig of this process, because roam_create_all passes no argument. */
static struct rig_run *rig_self;

static void futex_wait(_Atomic uint32_t *word, uint32_t value, long timeout_ns)
{
	struct timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};

	syscall(SYS_futex, word, FUTEX_WAIT, value, timeout_ns != 0 ? &timeout : NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ------------------------------------------------------------------------- in the processes */

void rig_fail(struct rig_run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->shared->error, sizeof(run->shared->error), format, args);
	va_end(args);
	_exit(1);
}

void rig_flag_await(struct rig_run *run, uint32_t value)
{
	uint32_t now;

	while ((now = atomic_load(&run->shared->flag)) != value)
		futex_wait(&run->shared->flag, now, 0);
}

void rig_flag_set(struct rig_run *run, uint32_t value)
{
	atomic_store(&run->shared->flag, value);
	futex_wake(&run->shared->flag);
}

static void counts_add(struct rig_counts *counts, double sign)
{
	counts->faults += sign *
			  (double)(roam_counter("read_faults") + roam_counter("write_faults"));
	counts->messages += sign * (double)roam_counter("messages_sent");
	counts->syscalls += sign * (double)(roam_counter("protects") + roam_counter("wakes") +
					    roam_counter("sleeps"));
	counts->twins += sign * (double)roam_counter("twins");
	counts->diffs += sign * (double)roam_counter("diffs");
}

void rig_count_begin(struct rig_run *run, unsigned channel)
{
	counts_add(&run->shared->channel[channel].counts, -1);
}

void rig_count_end(struct rig_run *run, unsigned channel, double operations)
{
	counts_add(&run->shared->channel[channel].counts, 1);
	run->shared->channel[channel].counts.operations += operations;
}

static void rig_done(struct rig_run *run)
{
	atomic_fetch_add(&run->shared->done, 1);
	futex_wake(&run->shared->done);
}

static void rig_serve(struct rig_run *run)
{
	uint32_t wanted;

	for (unsigned i = 0; i < FLOOR_PAGES; i++)
		run->order[i] = i;
	run->round = 0;
	if (run->scenario->begin != NULL)
		run->scenario->begin(run);
	rig_done(run);
	for (;;) {
		while ((wanted = atomic_load(&run->shared->round)) == run->round)
			futex_wait(&run->shared->round, wanted, 0);
		if (wanted == RIG_QUIT)
			return;
		run->round = wanted;
		floor_shuffle(run->order, FLOOR_PAGES, wanted);
		run->scenario->round(run);
		rig_done(run);
	}
}

/* Also called by one of several threads of a node (ROAM_THREADS). */
static void rig_node(void)
{
	struct rig_run run = *rig_self;

	run.node = roam_node();
	rig_serve(&run);
}

static void rig_plain(struct rig_run *run)
{
	for (unsigned node = 1; node < run->nodes; node++) {
		pid_t pid = fork();

		if (pid < 0)
			rig_fail(run, "fork: %s", strerror(errno));
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run->node = node;
			break;
		}
	}
	if (!floor_pin(run->cpu[run->node % 2]))
		rig_fail(run, "cannot pin to CPU %u", run->cpu[run->node % 2]);
	rig_serve(run);
	_exit(0);
}

/* "NAME=VALUE NAME=VALUE" */
static void rig_environment(const char *env)
{
	char *copy = strdup(env), *rest = copy, *word;

	while (copy != NULL && (word = strsep(&rest, " ")) != NULL) {
		char *value = strchr(word, '=');

		if (value == NULL)
			continue;
		*value = '\0';
		setenv(word, value + 1, 1);
	}
	free(copy);
}

__attribute__((noreturn)) static void rig_child(struct rig *rig, const struct rig_params *params)
{
	struct rig_run *run = &rig->run;

	rig_self = run;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("ROAM_FAULT", params->engine, 1);
	setenv("ROAM_PROTOCOL", params->protocol, 1);
	setenv("ROAM_PIN", "1", 1);
	if (run->scenario->protocol != NULL)
		setenv("ROAM_PROTOCOL", run->scenario->protocol, 1);
	if (run->scenario->env != NULL)
		rig_environment(run->scenario->env);
	if (run->scenario->prepare != NULL)
		run->scenario->prepare(run);
	if (!run->scenario->roam) {
		rig_plain(run);
		_exit(0);
	}
	if (roam_create_all(rig_node, run->nodes) != ROAM_OK)
		rig_fail(run, "roam does not start");
	exit(0);
}

/* --------------------------------------------------------------------------------- from outside */

static bool rig_says(struct rig *rig, const char *what)
{
	fprintf(stderr, "roam bench: %s (%s): %s%s%s\n", rig->run.scenario->name,
		rig->run.engine == FLOOR_UFFD ? "uffd" : "sigsegv", what,
		rig->run.shared->error[0] != '\0' ? ": " : "", rig->run.shared->error);
	rig->failed = true;
	return false;
}

static uint64_t seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* Waits until all processes have reported for the `times`-th time. */
static bool rig_await(struct rig *rig, uint32_t times)
{
	struct rig_shared *shared = rig->run.shared;
	uint32_t want = times * rig->run.nodes, now;
	uint64_t end = seconds_now() + ROUND_SECONDS;

	while ((now = atomic_load(&shared->done)) < want) {
		futex_wait(&shared->done, now, 100000000);
		if (atomic_load(&shared->done) != now)
			continue;
		if (waitpid(rig->pid, NULL, WNOHANG) == rig->pid) {
			rig->pid = 0;
			return rig_says(rig, "a process ended");
		}
		if (seconds_now() > end)
			return rig_says(rig, "a round takes longer than a minute");
	}
	return true;
}

static bool rig_share(struct rig *rig, const struct rig_params *params)
{
	uint32_t max = params->rounds * RIG_ROUND;
	size_t head = (sizeof(struct rig_shared) + 63) & ~(size_t)63;
	float *ticks;

	rig->shared_bytes = head + (size_t)max * RIG_CHANNELS * sizeof(float);
	rig->run.shared = mmap(NULL, rig->shared_bytes, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (rig->run.shared == MAP_FAILED)
		return false;
	ticks = (float *)(void *)((uint8_t *)rig->run.shared + head);
	for (unsigned i = 0; i < RIG_CHANNELS; i++)
		rig->run.shared->channel[i].out = (struct floor_out){
			.ticks = ticks + (size_t)i * max,
			.max = max,
			.overhead = params->overhead,
		};
	return true;
}

bool rig_open(struct rig *rig, const struct rig_scenario *scenario, const struct rig_params *params)
{
	memset(rig, 0, sizeof(*rig));
	rig->run.scenario = scenario;
	rig->run.nodes = scenario->nodes;
	rig->run.rounds = params->rounds;
	rig->run.samples = params->samples;
	rig->run.cpu[0] = params->cpu[0];
	rig->run.cpu[1] = params->cpu[1];
	rig->run.engine = strcmp(params->engine, "uffd") == 0 ? FLOOR_UFFD : FLOOR_MPROTECT;
	if (!rig_share(rig, params)) {
		rig->failed = true;
		fprintf(stderr, "roam bench: no memory for samples\n");
		return false;
	}
	fflush(NULL);
	rig->pid = fork();
	if (rig->pid < 0)
		return rig_says(rig, strerror(errno));
	if (rig->pid == 0)
		rig_child(rig, params);
	rig->group = rig->pid;
	setpgid(rig->pid, rig->pid);
	return rig_await(rig, 1);
}

bool rig_round(struct rig *rig)
{
	uint32_t round;

	if (rig->failed)
		return false;
	round = atomic_fetch_add(&rig->run.shared->round, 1) + 1;
	futex_wake(&rig->run.shared->round);
	return rig_await(rig, round + 1);
}

void rig_close(struct rig *rig)
{
	uint64_t end = seconds_now() + 10;

	if (rig->run.shared == NULL || rig->run.shared == MAP_FAILED)
		return;
	atomic_store(&rig->run.shared->round, RIG_QUIT);
	futex_wake(&rig->run.shared->round);
	while (rig->pid > 0 && waitpid(rig->pid, NULL, WNOHANG) == 0) {
		if (rig->failed || seconds_now() > end) {
			kill(-rig->group, SIGKILL);
			waitpid(rig->pid, NULL, 0);
			break;
		}
		usleep(2000);
	}
	/* The rig's other processes end by themselves, some a little later. */
	while (rig->group > 0 && kill(-rig->group, 0) == 0 && seconds_now() <= end)
		usleep(1000);
	munmap(rig->run.shared, rig->shared_bytes);
	rig->run.shared = NULL;
}

/* ------------------------------------------------------------------------------------- floors */

void rig_floor_prepare(struct rig_run *run)
{
	if (!floor_pair_open(&run->floor, run->engine))
		rig_fail(run, "no memory for the floors: %s", strerror(errno));
}

void rig_floor_begin(struct rig_run *run)
{
	run->floor.cpu[0] = run->cpu[0];
	run->floor.cpu[1] = run->cpu[1];
	run->floor.samples = run->samples;
	if (!floor_pair_enter(&run->floor, run->node, run->nodes))
		rig_fail(run, "cannot enter the floors: %s", strerror(errno));
}

void rig_floor_round(struct rig_run *run)
{
#define FLOOR_FUNCTION(constant, function, text) function,
	static void (*const kinds[])(struct floor_pair *,
				     struct floor_out *) = {FLOOR_KINDS(FLOOR_FUNCTION)};
#undef FLOOR_FUNCTION
	for (const uint8_t *kind = run->scenario->floors; *kind < FLOOR_KINDS_COUNT; kind++) {
		floor_meet(&run->floor);
		kinds[*kind](&run->floor, &run->shared->channel[*kind].out);
	}
}
