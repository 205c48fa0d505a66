/*
 * Transactions on real processes, and what runs beside them.  tx_beside START TEST NODES [COUNT];
 * START: fork, or run (roam run).
 *
 *	spins	doomed functions that touch nothing: alone, and in malloc, printf and qsort
 *	clash	two nodes write one page, which a check names
 *	threads	other threads of the node are held; one that is not registered is refused
 *	mates	transactions of a node's threads that wait for each other's locks and stores
 */
#include "tx_work.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define MEETING ((const void *)(uintptr_t)pair)

/* ---------------------------------------------------------------------------------------- spins */

#define SORTED 300u /* more than qsort sorts on the stack */

static FILE *sink;
static volatile unsigned spun;

/* Each attempt but the last one would never end. */
static void spins(void *arg)
{
	struct work *work = arg;

	work->last = pair[0];
	work->attempts++;
	while (work->attempts <= work->seed)
		spun++;
}

static int compares(const void *one, const void *two)
{
	const int *a = one, *b = two;

	for (unsigned i = 0; i < 20; i++)
		spun++;
	return *a < *b ? -1 : *a > *b;
}

static void sorts(unsigned seed)
{
	int of[SORTED];

	for (unsigned i = 0; i < SORTED; i++)
		of[i] = (int)draw(&seed, 1000);
	qsort(of, SORTED, sizeof(of[0]), compares);
	for (unsigned i = 1; i < SORTED; i++)
		check(of[i - 1] <= of[i]);
}

/* Mostly in calls of roam, and doomed there; then as spins: nothing asks again. */
static void calls_then_spins(void *arg)
{
	struct work *work = arg;

	for (unsigned i = draw(&work->seed, 2000); i > 0; i--)
		must_fail(roam_tx_on_abort(NULL, NULL), ROAM_EINVAL);
	work->last = pair[0];
	work->attempts++;
	for (unsigned i = draw(&work->seed, 2000); i > 0; i--)
		must_fail(roam_tx_on_abort(NULL, NULL), ROAM_EINVAL);
	while (work->attempts % 4 != 0)
		spun++;
}

/* In the C library for most of its time, and doomed at any moment of that. */
static void calls_libraries(void *arg)
{
	struct work *work = arg;
	unsigned char *block;

	work->last = pair[0];
	work->attempts++;
	for (unsigned i = 0; i < 5; i++) {
		size_t bytes = 1 + draw(&work->seed, i == 0 ? 200000 : 2000);

		block = malloc(bytes);
		check(block != NULL);
		block[0] = block[bytes - 1] = 1;
		fprintf(sink, "%p %zu %f\n", (void *)block, bytes, (double)bytes / 3);
		sorts(work->seed);
		free(block);
	}
}

/* The last node dooms the others until they are done: `turns` says so. */
static void dooms(void)
{
	long others = (long)roam_nodes() - 1, done = 0;

	while (done < others) {
		pair[0]++;
		if (pair[0] % 8 == 0)
			usleep(1); /* now and then an attempt gets on */
		done = 0;
		for (long i = 0; i < others; i++)
			done += turns[64 * i] != 0;
	}
}

static void spinning(void)
{
	struct work work = {.seed = 3};

	sink = fopen("/dev/null", "w");
	check(sink != NULL);
	must(roam_barrier_all());
	if (roam_node() == roam_nodes() - 1) {
		dooms();
	} else {
		for (unsigned i = 0; i < count / 20 + 2; i++) {
			work.attempts = 0;
			must(roam_tx(spins, &work, NULL));
			check(work.attempts == 4);
		}
		check(roam_counter("tx_interrupts") > 0);
		for (unsigned i = 0; i < count / 20 + 2; i++) {
			work.attempts = 0;
			must(roam_tx(calls_then_spins, &work, NULL));
		}
		for (unsigned i = 0; i < count; i++)
			must(roam_tx(calls_libraries, &work, NULL));
		turns[64 * roam_node()] = 1;
	}
	must(roam_barrier_all());
	fclose(sink);
}

/* ---------------------------------------------------------------------------------------- clash */

static void adds_one(void *arg)
{
	(void)arg;
	baton[roam_node()]++;
}

static void clash(void)
{
	for (unsigned i = 0; i < count; i++)
		must(roam_tx(adds_one, NULL, NULL));
	must(roam_barrier_all());
}

/* -------------------------------------------------------------------------------------- threads */

struct beside {
	volatile bool over;
	long written; /* by this thread, into a page of transactions */
};

/*
 * Reads and writes, mostly without faults, what transactions write: nothing of an attempt is seen,
 * and nothing is undone with one.
 */
static void *beside(void *arg)
{
	struct beside *beside = arg;
	volatile long *own = &pair[PAGE / 2 + 8 * roam_node()];

	must(roam_thread_init());
	while (!beside->over) {
		long first = pair[0], second = pair[PAGE];

		check(second >= first); /* written after the other one, together */
		++*own;
		check(*own == ++beside->written);
		if (beside->written % 64 == 0) {
			must(roam_lock(LOCK));
			*turns += 1;
			must(roam_unlock(LOCK));
			free(malloc(2000));
		}
		if (beside->written % 512 == 0)
			usleep(10);
	}
	must(roam_thread_fini());
	return NULL;
}

/* Another node must not find the two in the order in which they are stored. */
static void both(void *arg)
{
	struct work *work = arg;
	long a = pair[0];

	notes(work);
	pair[0] = a + 1;
	for (unsigned i = 0; i < draw(&work->seed, 2000); i++)
		spun++;
	check(pair[PAGE] == a);
	pair[PAGE] = a + 1;
}

static void *takes_turns(void *arg)
{
	must(roam_thread_init());
	for (unsigned i = 0; i < count; i++)
		must(roam_tx(both, arg, NULL));
	must(roam_thread_fini());
	return NULL;
}

static void waits_for_mate(void *arg)
{
	(void)arg;
	if (turns[64 * roam_node()] == 0)
		roam_tx_retry();
}

static void *mate_writes(void *arg)
{
	(void)arg;
	must(roam_thread_init());
	usleep(20000);
	turns[64 * roam_node()] = 1;
	must(roam_thread_fini());
	return NULL;
}

static void *unregistered(void *arg)
{
	sem_t *sems = arg;

	turns[6 * PAGE + roam_node()] = 1; /* for the first time: it faults */
	sem_post(&sems[0]);
	sem_wait(&sems[1]);
	return NULL;
}

static void starts(pthread_t *thread, void *(*fn)(void *arg), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg) != 0)
		exit(WRONG);
}

/* Signals that the kernel has queued for the user's processes. */
static long queued(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[200];
	long found = -1;

	check(status != NULL);
	while (found < 0 && fgets(line, sizeof(line), status) != NULL)
		sscanf(line, "SigQ: %ld", &found);
	fclose(status);
	return found;
}

/* Blocks signals before it is registered, not after that: it is held as others are. */
static void *masked(void *arg)
{
	struct beside *beside = arg;
	volatile long *written = &beside->written;

	must(roam_thread_init());
	while (!beside->over)
		*written = 1;
	must(roam_thread_fini());
	return NULL;
}

static void holds_masked(void)
{
	struct beside other = {0};
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* the transaction faults */
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	starts(&thread, masked, &other);
	while (*(volatile long *)&other.written == 0)
		;
	must(roam_tx(nested, NULL, NULL)); /* from a thread that blocks them, too */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	other.over = true;
	pthread_join(thread, NULL);
}

/* Is not held, and waited for: it gets one signal, not one for each time that it is looked at. */
static void *blocks_signals(void *arg)
{
	sigset_t all;
	long before;

	must(roam_thread_init());
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	before = queued();
	sem_post(arg);
	usleep(100000);
	check(before >= 0 && queued() - before < 50);
	must(roam_thread_fini());
	return NULL;
}

static void waits_for_blocked(void)
{
	pthread_t thread;
	sem_t sem;

	sem_init(&sem, 0, 0);
	starts(&thread, blocks_signals, &sem);
	while (sem_wait(&sem) != 0)
		;
	must(roam_tx(nested, NULL, NULL));
	pthread_join(thread, NULL);
}

/* Holds a lock of a library for longer than any signal takes, and again and again. */
static void *prints(void *arg)
{
	const struct beside *beside = arg;

	must(roam_thread_init());
	while (!beside->over) {
		fprintf(sink, "%*d", 20000000, 1);
		for (unsigned i = 0; i < 2000000; i++)
			spun++;
	}
	must(roam_thread_fini());
	return NULL;
}

static void prints_in_turn(void *arg)
{
	(void)arg;
	fprintf(sink, "%d", 1);
}

static void shares_library(void)
{
	struct beside other = {0};
	pthread_t thread;

	sink = fopen("/dev/null", "w");
	check(sink != NULL);
	starts(&thread, prints, &other);
	for (unsigned i = 0; i < 5; i++) {
		usleep(3000);
		must(roam_tx(prints_in_turn, NULL, NULL));
	}
	other.over = true;
	pthread_join(thread, NULL);
	fclose(sink);
}

/* A thread that cannot be held. */
static void refuses(void)
{
	pthread_t thread;
	sem_t sems[2];

	sem_init(&sems[0], 0, 0);
	sem_init(&sems[1], 0, 0);
	starts(&thread, unregistered, sems);
	while (sem_wait(&sems[0]) != 0)
		;
	must_fail(roam_tx(nested, NULL, NULL), ROAM_ESTATE);
	sem_post(&sems[1]);
	pthread_join(thread, NULL);
	must(roam_tx(nested, NULL, NULL));
}

/* Waits for the lock after its transaction, while a thread that holds it waits for its turn. */
static void then_locks(void *arg)
{
	(void)arg;
	must(roam_lock(LOCK));
	*turns += 1;
	must(roam_unlock(LOCK));
}

static void adds_then_locks(void *arg)
{
	baton[roam_node()]++;
	must(roam_tx_on_commit(then_locks, arg));
}

static void *adds_under_lock(void *arg)
{
	must(roam_thread_init());
	for (unsigned i = 0; i < count / 4; i++) {
		must(roam_lock(LOCK));
		must(roam_tx(nested, NULL, NULL));
		must(roam_unlock(LOCK));
	}
	must(roam_thread_fini());
	return arg;
}

/* The threads of all nodes in turn: those of a node wait at the same time. */
static void passes(void *arg)
{
	struct work *work = arg;
	long at = pair[PAGE];

	pair[0] += work->seed;
	if (at % (2 * (long)roam_nodes()) != (long)work->seed)
		roam_tx_retry();
	pair[PAGE] = at + 1;
	work->last = at;
}

static void *takes_part(void *arg)
{
	must(roam_thread_init());
	for (unsigned i = 0; i < count / 4; i++)
		must(roam_tx(passes, arg, NULL));
	must(roam_thread_fini());
	return arg;
}

static void parts(void)
{
	struct work one = {.seed = 2 * roam_node()}, two = {.seed = 2 * roam_node() + 1};
	pthread_t mate;

	starts(&mate, takes_part, &two);
	for (unsigned i = 0; i < count / 4; i++)
		must(roam_tx(passes, &one, NULL));
	pthread_join(mate, NULL);
	must(roam_barrier(MEETING, roam_nodes()));
	check(pair[PAGE] == (long)(count / 4 * 2 * roam_nodes()));
}

static void mates(void)
{
	pthread_t mate;

	parts();
	starts(&mate, adds_under_lock, NULL);
	for (unsigned i = 0; i < count / 4; i++)
		must(roam_tx(adds_then_locks, NULL, NULL));
	pthread_join(mate, NULL);
	must(roam_barrier(MEETING, roam_nodes()));
	check(*turns == (long)(count / 4 * roam_nodes()));
}

static void threads(void)
{
	struct beside other = {0};
	struct work one = {.seed = roam_node() + 1}, two = {.seed = roam_node() + 77};
	pthread_t reader, mate;

	starts(&reader, beside, &other);
	starts(&mate, takes_turns, &two);
	for (unsigned i = 0; i < count; i++)
		must(roam_tx(both, &one, NULL));
	pthread_join(mate, NULL);
	other.over = true;
	pthread_join(reader, NULL);
	check(one.committed == count && two.committed == count);
	must(roam_barrier(MEETING, roam_nodes()));
	check(pair[0] == 2 * (long)count * roam_nodes() && pair[PAGE] == pair[0]);
	check(pair[PAGE / 2 + 8 * roam_node()] == other.written);
	must(roam_barrier(MEETING, roam_nodes()));
	turns[64 * roam_node()] = 0;
	starts(&mate, mate_writes, NULL);
	must(roam_tx(waits_for_mate, NULL, NULL));
	pthread_join(mate, NULL);
	waits_for_blocked();
	holds_masked();
	shares_library();
	refuses();
	must(roam_barrier(MEETING, roam_nodes()));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {{"spins", spinning}, {"clash", clash}, {"threads", threads},
	       {"mates", mates}};
	unsigned nodes = argc > 3 ? number(argv[3]) : 2, test = 0;
	bool runs = argc > 1 && strcmp(argv[1], "run") == 0, first = true;

	if (argc > 4)
		count = number(argv[4]);
	while (test < 3 && argc > 2 && strcmp(tests[test].name, argv[2]) != 0)
		test++;
	if (runs)
		must(roam_start());
	work_alloc();
	if (runs) {
		tests[test].fn();
		first = roam_node() == 0;
		must(roam_finish());
	} else {
		must(roam_create_all(tests[test].fn, nodes));
		must(roam_wait_for_end());
	}
	if (first)
		printf("done\n");
	return 0;
}
