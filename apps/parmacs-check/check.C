/*
 * parmacs-check: every macro of parmacs.m4 in every form that SPLASH-2 programs use, and a check of
 * its effect.  -p N processes; use 2 or more.
 *
 * Runs a round of the first generation, CREATE(fn) N - 1 times and a call, and one of the second,
 * CREATE(fn, N).  In comments the macros may stand with any arguments: LOCK, CREATE, LOCK(),
 * CREATE(a), BARRIER(a), WAIT_FOR_END(), G_MALLOC, LOCKDEC(x), CLOCK(), G_FREE(a, b, c),
 * SETPAUSE(), GETSUB(), BARINIT(one), BARINIT(one, two), MAIN_INITENV(), ALOCKINIT(), AGETL(),
 * MAIN_INITENV(a, b, c, d), ROAM_NEEDS(RC)
 */
include(check.H)
MAIN_ENV

#include <string.h>

#define PAGE_SIZE 4096 /* as programs do that do not wait for MAIN_ENV's */

struct shared *shared;
long procs = 2;
long failures;
unsigned long mark;

/* Failures of created processes reach main through shared memory. */
void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "parmacs-check: failed: %s\n", what);
	LOCK(shared->count_lock);
	shared->late++;
	UNLOCK(shared->count_lock);
}

/* The bare name in strings must survive. */
static void check_names(void)
{
	expect(strlen("LOCK") == 4 && strcmp("BARRIER", "BARRIE" "R") == 0, "names in strings");
	expect(strcmp("CREATE WAIT_FOR_END G_MALLOC", "CREAT" "E WAIT_FOR_" "END G_MALLO" "C") == 0,
	    "names in a longer string");
	expect('L' == "LOCK"[0] && '`' == "`"[0] && "'"[0] == '\'', "quotes");
}

static void check_pauses(long id)
{
	if (id == 0) {
		shared->relay = 41;
		SETPAUSE(shared->go)
		if (procs > 1) {
			WAITPAUSE(shared->done)
			CLEARPAUSE(shared->done)
			expect(shared->relay == 42, "pause carries data back");
		}
	} else if (id == 1) {
		WAITPAUSE(shared->go);
		CLEARPAUSE(shared->go);
		expect(shared->relay == 41, "pause carries data");
		shared->relay = 42;
		SETPAUSE(shared->done);
	}
	BARRIER(shared->barrier, procs);
	if (procs == 1)
		CLEARPAUSE(shared->go)
}

static void check_subscripts(void)
{
	long i = 0, round;

	for (round = 0; round < 3; round++) {
		for (;;) {
			GETSUB(shared->subscripts, i, 99, procs)
			if (i < 0)
				break;
			ALOCK(shared->slot_lock, i % 32)
			shared->taken[i]++;
			AULOCK(shared->slot_lock, i % 32)
		}
		BARRIER(shared->barrier, procs)
	}
	for (i = 0; i < 100; i++)
		expect(shared->taken[i] == 3 * shared->round, "each subscript once a round");
	BARRIER(shared->barrier, procs)
}

/* Memory made after CREATE by one process is used by the others. */
static void check_memory(long id)
{
	long i;

	if (id == procs - 1) {
		shared->given = (long *)G_MALLOC(1000 * sizeof(long), id)
		for (i = 0; i < 1000; i++)
			shared->given[i] = i;
	}
	BARRIER(shared->barrier, procs);
	for (i = id; i < 1000; i += procs)
		shared->given[i] += 7;
	BARRIER(shared->barrier, procs);
	for (i = 0; i < 1000; i++)
		expect(shared->given[i] == i + 7, "memory made after CREATE");
	BARRIER(shared->barrier, procs);
	if (id == 0)
		G_FREE(shared->given);
}

static void check_clock(void)
{
	unsigned long now;

	CLOCK(shared->clock.begin)
	CLOCK(now);
	CLOCK((shared->clock).end);
	expect(now >= shared->clock.begin && shared->clock.end >= now, "the clock runs forwards");
	expect(shared->clock.end - shared->clock.begin < 60000000, "the clock counts microseconds");
}

/* No arguments and no prototype, as SPLASH-2 functions have. */
void *work();

void *work()
{
	long id;

	LOCK(shared->id_lock)
	id = shared->next_id++;
	UNLOCK(shared->id_lock)

	BARRIER(shared->barrier, procs)
	expect(shared->next_id == procs, "as many as were created");
	SPLASH3_ROI_BEGIN();
	check_locks(id);
	check_conditions(id);
	check_pauses(id);
	check_subscripts();
	check_memory(id);
	SPLASH3_ROI_END();
	ACQUIRE_FENCE();
	RELEASE_FENCE()
	FULL_FENCE();
	if (id == 0)
		check_clock();
	BARRIER((shared)->other_barrier, (procs))
	return NULL;
}

static void set_up(void)
{
	long i;

	/* G_MALLOC before MAIN_INITENV, without and with its semicolon; as an initialiser, too. */
	shared = (struct shared *)G_MALLOC(sizeof(struct shared))
	memset(shared, 0, sizeof(*shared));
	shared->given = (long *)NU_MALLOC((unsigned long)procs * 8, 0);
	G_FREE(shared->given)
	LOCKINIT(shared->id_lock)
	LOCKINIT(shared->count_lock);
	ALOCKINIT(shared->slot_lock, 32)
	BARINIT(shared->barrier)
	BARINIT(shared->other_barrier, procs);
	PAUSEINIT(shared->go)
	PAUSEINIT(shared->done);
	GSINIT(shared->subscripts)
	for (i = 0; i < 4; i++) {
		LOCKINIT(shared->box[i].lock)
		CONDVARINIT(shared->box[i].filled);
	}
	shared->given = (long *)G_MALLOC(0);
	expect(shared->given != NULL, "an allocation of nothing");
	G_FREE(shared->given)
}

int main(int argc, char **argv)
{
	long i;

	if (argc == 3 && strcmp(argv[1], "-p") == 0)
		procs = atol(argv[2]);
	else if (argc == 2 && strncmp(argv[1], "-p", 2) == 0)
		procs = atol(argv[1] + 2);
	if (procs < 1 || procs > 64) {
		fprintf(stderr, "usage: parmacs-check [-p procs, 1 to 64]\n");
		exit(2);
	}
	mark = 0x600d;
	set_up();
	MAIN_INITENV(,64 * 1024 + sizeof(struct shared),)
	MAIN_INITENV(,1000000);
	ROAM_NEEDS(RC)
	ROAM_NEEDS(ScC);
	check_names();

	/* The first generation. */
	shared->round = 1;
	for (i = 1; i < procs; i++)
		CREATE(work)
	work();
	WAIT_FOR_END(procs - 1)

	/* The second. */
	shared->round = 2;
	shared->next_id = 0;
	CREATE(work, procs);
	WAIT_FOR_END(procs);

	failures = shared->late;
	expect(shared->count == 2 * procs * 1000, "the counter at the end");
	printf("parmacs-check: p %ld verified %s\n", procs,
	    failures == 0 && shared->late == 0 ? "ok" : "FAILED");
	if (shared->late != 0)
		exit(1);
	MAIN_END;
}
