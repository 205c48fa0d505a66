/*
 * Processes that are threads, several to a node (ROAM_THREADS): each is itself, a node's threads
 * have its statics, and all synchronise as processes of their own do.
 * team HOW PROCESSES THREADS ROUNDS; HOW
 *	all	roam_create_all
 *	loop	roam_create once per process, of two functions in turn
 *	unequal	barriers of all begin while other threads of the node come late
 *	held	as loop, and main holds the lock of stdout while nodes are forked
 *	late	as loop, and main writes a static between its CREATEs
 *	past	as all, and processes exchange tuples
 * The last process
 *	fixed	calls what only other threads may
 *	gone	ends by pthread_exit
 *	helper	has a thread of its own write
 *	child	forks and calls system()
 *	early	ends before it has met the others; cancelled: so
 *	killed	writes nowhere; aborted, divided, trapped: ends by another signal of its own;
 *		outside: by one that another program sends; leave: exits; quit: exits with status 0
 * killed-first: the last thread of node 0 writes nowhere, when all have met
 * For the checks, the last process
 *	races	writes what the first process has written, and nothing orders that
 *	mates	as races, but the other process is a thread of its node
 *	points	stores a pointer to its own stack
 *	behind	writes behind a block
 *	static	writes a static
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST   64u
#define WORDS  6000u /* of 8 bytes: some pages, each written by all */
#define TURNS  8u
#define LOCKED 40u

struct shared {
	unsigned char *blocks[MOST]; /* one of each process, which the next process frees */
	uint64_t words[WORDS];
	uint64_t seen[MOST]; /* rounds in which this process was there */
	uint64_t count;      /* under lock */
	uint64_t queue;      /* the process whose turn it is, by cond */
	uint64_t told;       /* by flag */
	uint64_t met;        /* counted by the threads of the barrier of some */
	uint64_t raced;
	uint64_t *points;
};

static struct shared *shared;
static unsigned processes, threads, round_now;
static const char *how;
static _Atomic unsigned mates; /* a static: shared only by the node's threads */
static unsigned late;          /* a static that main writes between its CREATEs */
static _Atomic unsigned own;   /* a static that a thread writes */
static unsigned long all, some, lock, cond, flag;

static uint64_t word(unsigned turn, unsigned i)
{
	return (uint64_t)round_now << 40 | (uint64_t)turn << 32 | i;
}

static void meet(void)
{
	must(roam_barrier(&all, processes));
}

/* Each process writes every word with its own number; then all read all words. */
static void exchange(unsigned me)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		for (unsigned i = me; i < WORDS; i += processes)
			shared->words[i] = word(turn, i);
		meet();
		for (unsigned i = 0; i < WORDS; i++)
			check(shared->words[i] == word(turn, i));
		meet();
	}
}

static void take_locks(void)
{
	for (unsigned i = 0; i < LOCKED; i++) {
		must(roam_lock(&lock));
		shared->count++;
		must(roam_unlock(&lock));
	}
}

/* The processes take turns, the last one first. */
static void queue_up(unsigned me)
{
	must(roam_lock(&lock));
	while (shared->queue != me)
		must(roam_cond_wait(&cond, &lock));
	shared->queue--;
	must(roam_cond_broadcast(&cond));
	must(roam_unlock(&lock));
}

/* Blocks of many sizes, each freed by the next process. */
static void trade(unsigned me)
{
	for (unsigned turn = 0; turn < TURNS; turn++) {
		size_t bytes = (size_t)40 << (turn + me) % 12;
		unsigned from = (me + 1) % processes;
		size_t theirs = (size_t)40 << (turn + from) % 12;

		shared->blocks[me] = must_alloc(bytes);
		memset(shared->blocks[me], (int)(turn + me), bytes);
		meet();
		for (size_t i = 0; i < theirs; i++)
			check(shared->blocks[from][i] == (unsigned char)(turn + from));
		must(roam_free(shared->blocks[from]));
		meet();
	}
}

/* A barrier of some: some nodes with all their threads, some with a part of them. */
static void meet_some(unsigned me)
{
	unsigned count = processes / 2 + 1;

	if (me >= count)
		return;
	if (me == 0)
		shared->met = word(0, 1);
	must(roam_barrier(&some, count));
	check(shared->met == word(0, 1));
	must(roam_barrier(&some, count));
}

/* Two sums at once, repeatedly: all processes have each result before any can begin the next. */
static void add_up(unsigned me)
{
	for (unsigned turn = 1; turn <= TURNS; turn++) {
		int64_t values[2] = {turn * me, -(int64_t)turn};
		double most = (double)(me * turn);

		must(roam_reduce(values, 2, ROAM_INT64, ROAM_SUM));
		check(values[0] == (int64_t)turn * processes * (processes - 1) / 2);
		check(values[1] == -(int64_t)turn * processes);
		must(roam_reduce(&most, 1, ROAM_DOUBLE, ROAM_MAX));
		check(most == (double)((processes - 1) * turn));
	}
}

/* Each process moves and takes equally many tuples, of whatever process. */
static void take_tuples(unsigned me, const char *name, const struct roam_ps_options *options)
{
	struct roam_ps_element *element;
	int64_t sum = 0;
	uint64_t tuple;

	must(roam_ps_enter(name, "u64", options, &element));
	for (tuple = me * TURNS; tuple < (me + 1) * TURNS; tuple++)
		must(roam_ps_move(element, &tuple, sizeof(tuple)));
	for (unsigned turn = 0; turn < TURNS; turn++) {
		must(roam_ps_observe(element, &tuple, sizeof(tuple), NULL));
		sum += (int64_t)tuple;
	}
	must(roam_reduce(&sum, 1, ROAM_INT64, ROAM_SUM));
	check(sum == (int64_t)processes * TURNS * (processes * TURNS - 1) / 2);
	roam_ps_leave(element);
}

/* A reduction's participants are processes, wherever they run. */
static void combine_tuples(unsigned me)
{
	struct roam_ps_options options = {.function = "sum", .participants = processes};
	struct roam_ps_element *element;

	must(roam_ps_enter("sum", "i64", &options, &element));
	for (unsigned turn = 0; turn < TURNS * TURNS; turn++) {
		int64_t value = turn + me;

		must(roam_ps_mob(element, &value, sizeof(value), NULL, &value, sizeof(value),
				 NULL));
		check(value == (int64_t)processes * turn + processes * (processes - 1) / 2);
	}
	roam_ps_leave(element);
}

/* Each process tells the next one, by an element at that process's node. */
static void pass_tuples(unsigned me)
{
	struct roam_ps_element *mine, *next;
	char name[32];
	uint64_t tuple;

	for (unsigned i = 0; i < 2; i++) {
		unsigned to = (me + i) % processes;
		struct roam_ps_options options = {.place = ROAM_PS_NODE, .node = to};

		snprintf(name, sizeof(name), "for process %u", to);
		must(roam_ps_enter(name, "u64", &options, i == 0 ? &mine : &next));
	}
	for (unsigned turn = 0; turn < TURNS * TURNS; turn++) {
		tuple = word(turn, me);
		must(roam_ps_move(next, &tuple, sizeof(tuple)));
		must(roam_ps_observe(mine, &tuple, sizeof(tuple), NULL));
		check(tuple == word(turn, (me + processes - 1) % processes));
		meet();
	}
	roam_ps_leave(mine);
	roam_ps_leave(next);
}

static void tuples(unsigned me)
{
	struct roam_ps_options pages = {.storage = ROAM_PS_PAGES};

	take_tuples(me, "taken", NULL);
	take_tuples(me, "taken from pages", &pages);
	combine_tuples(me);
	pass_tuples(me);
	meet();
}

/* Tries calls for threads that the seal has not fixed, and calls that end a node. */
static void refused(void)
{
	must_fail(roam_thread_init(), ROAM_ESTATE);
	must_fail(roam_thread_fini(), ROAM_ESTATE);
	must_fail(roam_create(refused), ROAM_ESTATE);
	must_fail(roam_wait_for_end(), ROAM_ESTATE);
	must_fail(roam_finish(), ROAM_ESTATE);
}

static void *helper_main(void *arg)
{
	unsigned me = *(unsigned *)arg;

	shared->seen[me]++; /* it does not synchronise; its thread of the team does */
	return NULL;
}

static void helper(unsigned me)
{
	pthread_t thread;

	shared->seen[me]--;
	check(pthread_create(&thread, NULL, helper_main, &me) == 0);
	check(pthread_join(thread, NULL) == 0);
}

static void child(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(7);
	check(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7);
	check(system("exit 5") >> 8 == 5);
}

/* What the last process does at its beginning. */
static void misbehave(void)
{
	if (strcmp(how, "cancelled") == 0) {
		pthread_cancel(pthread_self());
		for (;;)
			pause();
	}
	if (strcmp(how, "killed") == 0)
		*(volatile int *)NULL = 1;
	if (strcmp(how, "divided") == 0)
		raise(SIGFPE);
	if (strcmp(how, "trapped") == 0)
		__asm__ volatile("int3"); /* the kernel resumes behind it */
	if (strcmp(how, "aborted") == 0)
		abort();
	if (strcmp(how, "outside") == 0) {
		if (fork() == 0) {
			kill(getppid(), SIGABRT);
			_exit(0);
		}
		for (;;)
			pause(); /* else the job may be over before the signal comes */
	}
	if (strcmp(how, "leave") == 0)
		exit(3);
	if (strcmp(how, "quit") == 0)
		exit(0);
}

/* Writes after `other` has, or as `other` before the last process does. */
static void race(unsigned me, unsigned other)
{
	if (me == processes - 1)
		usleep(200000); /* at the same time one of the writes may be lost */
	if (me == processes - 1 || me == other)
		shared->raced = round_now * processes + me + 1;
}

/* What a check finds, or not. */
static void be_checked(unsigned me)
{
	bool last = me == processes - 1;
	unsigned char *block;
	uint64_t on_stack = 0;

	if (strcmp(how, "races") == 0)
		race(me, 0);
	if (strcmp(how, "mates") == 0)
		race(me, processes - 2);
	if (last && strcmp(how, "points") == 0)
		shared->points = &on_stack;
	if (last && strcmp(how, "static") == 0)
		atomic_store(&own, 1);
	if (last && strcmp(how, "behind") == 0) {
		block = must_alloc(40);
		*(volatile unsigned char *)(block + 40) = 1;
		must(roam_free(block));
	}
	meet();
}

static void begin(unsigned me)
{
	if (strcmp(how, "unequal") == 0 && me % threads != 0)
		usleep(20000 * me);
	if (strcmp(how, "held") == 0 && me == 0)
		funlockfile(stdout);
	if (strcmp(how, "held") == 0)
		printf("process %u of %u\n", me, processes);
	if (strcmp(how, "late") == 0)
		check(late == processes - 1);
	if (me != processes - 1)
		return;
	misbehave();
	if (strcmp(how, "fixed") == 0)
		refused();
	if (strcmp(how, "helper") == 0)
		helper(me);
	if (strcmp(how, "child") == 0)
		child();
}

static void node_main(void)
{
	unsigned me = roam_node();

	check(me < processes);
	if (me == processes - 1 && strcmp(how, "early") == 0)
		return;
	begin(me);
	check(++shared->seen[me] == round_now);
	meet(); /* nodes may have been forked here, with their parent's statics */
	if (strcmp(how, "killed-first") == 0 && me == threads - 1)
		*(volatile int *)NULL = 1;
	atomic_fetch_add(&mates, 1);
	meet();
	check(roam_nodes() == processes);
	check(atomic_load(&mates) == threads);
	be_checked(me);
	for (unsigned i = 0; i < processes; i++)
		check(shared->seen[i] == round_now);
	if (strcmp(how, "past") == 0)
		tuples(me);
	exchange(me);
	take_locks();
	trade(me);
	queue_up(me);
	meet_some(me);
	if (me == processes - 1) {
		shared->told = word(1, me);
		must(roam_flag_set(&flag));
	} else {
		must(roam_flag_wait(&flag));
		check(shared->told == word(1, processes - 1));
	}
	must(roam_barrier_all());
	add_up(me);
	if (strcmp(how, "gone") == 0 && me == processes - 1)
		pthread_exit(NULL);
}

/* The function of the odd processes, where each process has one. */
static void odd_main(void)
{
	check(roam_node() % 2 == 1);
	node_main();
}

/* The library has said why not. */
static void created(enum roam_err err)
{
	if (err != ROAM_OK)
		exit(EXIT_FAILURE);
}

static void run_round(void)
{
	must(roam_flag_clear(&flag));
	shared->queue = processes - 1;
	atomic_store(&mates, 0);
	late = 0;
	if (strcmp(how, "held") == 0)
		flockfile(stdout);
	if (strcmp(how, "loop") == 0 || strcmp(how, "held") == 0 || strcmp(how, "late") == 0) {
		for (unsigned i = 1; i < processes; i++) {
			created(roam_create(i % 2 == 1 ? odd_main : node_main));
			late = i;
		}
		if (strcmp(how, "held") == 0) /* the seal comes while the lock is held */
			must(roam_trylock(&lock));
		if (strcmp(how, "held") == 0)
			must(roam_unlock(&lock));
		node_main();
	} else {
		created(roam_create_all(node_main, processes));
	}
	must(roam_wait_for_end());
	check(shared->count == (uint64_t)round_now * processes * LOCKED);
	for (unsigned i = 0; i < WORDS; i++)
		check(shared->words[i] == word(TURNS - 1, i));
}

int main(int argc, char **argv)
{
	unsigned rounds;

	check(argc == 5);
	how = argv[1];
	processes = number(argv[2]);
	threads = number(argv[3]);
	rounds = number(argv[4]);
	check(processes <= MOST && threads > 0);
	must(roam_start_main());
	shared = must_alloc(sizeof(*shared));
	for (round_now = 1; round_now <= rounds; round_now++)
		run_round();
	printf("%u processes right\n", processes);
	must(roam_finish());
	return 0;
}
