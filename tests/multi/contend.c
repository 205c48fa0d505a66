/*
 * Threads that wait for each other, for contend.py and bench/load.py: what that takes of the
 * processors, and for how long.
 * contend locks LOAD NODES THREADS ROUNDS IN OUT
 *	every thread takes one lock so often; it computes for IN us with it and for OUT us without.
 *	Prints "N ms, M ms of processors", of all nodes together, their start left out.  Beside
 *	them LOAD processes compute: of the same session, for the kernel may share by sessions.
 * contend mutex LOAD NODES THREADS ROUNDS IN OUT
 *	the same with a mutex of POSIX threads in memory of all processes: a peer.
 * contend alone LOAD NODES MS
 *	no locks: every node computes until it has had MS of a processor.  Prints the same.
 * contend stopped NODES HOW
 *	node 0 is stopped from outside, and goes on after that; the others wait for it meanwhile:
 *	lock	it holds a lock
 *	barrier	it has not come to a barrier
 *	rounds	wherever it is: all take a lock, then meet at a barrier, again and again
 *	Each prints "ready NODE PID" before.
 * contend stuck NODES THREADS
 *	all threads of each node wait for a lock that node 0 holds at a barrier.
 */
#include "multi.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 2000u
#define LOAD_MAX    64u
#define TURNS_OF_US 700u     /* of compute: about a microsecond */
#define STOP_US     300000u  /* a thread that did not run for so long was stopped */
#define GO_ON_US    20000000u

static struct shared {
	char lock, met; /* names */
	uint64_t count;
	uint64_t round; /* the round in which the test ends */
	double cpu_ms[64];
} *shared;

static struct peer {
	pthread_mutex_t mutex;
	uint64_t count;
} *peer; /* NULL: roam's lock */

static unsigned nodes, threads, rounds, in_us, out_us, cpu_ms;
static const char *how;
static uint64_t looked_us; /* when node 0 looked last whether it was stopped */

static void compute(unsigned us)
{
	static volatile uint64_t sink;
	uint64_t x = sink;

	for (unsigned i = 0; i < us * TURNS_OF_US; i++)
		x = x * 6364136223846793005u + 1;
	sink = x;
}

/* Of this process. */
static double processor_ms(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static void *mutex_often(void *arg)
{
	for (unsigned i = 0; i < rounds; i++) {
		compute(out_us);
		check(pthread_mutex_lock(&peer->mutex) == 0);
		peer->count++;
		compute(in_us);
		check(pthread_mutex_unlock(&peer->mutex) == 0);
	}
	return arg;
}

static void *lock_often(void *arg)
{
	for (unsigned i = 0; i < rounds; i++) {
		compute(out_us);
		must(roam_lock(&shared->lock));
		shared->count++;
		compute(in_us);
		must(roam_unlock(&shared->lock));
	}
	return arg;
}

static void locks(void)
{
	static pthread_t others[THREADS_MAX];
	void *(*often)(void *arg) = peer != NULL ? mutex_often : lock_often;

	for (unsigned i = 1; i < threads; i++)
		check(pthread_create(&others[i], NULL, often, NULL) == 0);
	often(NULL);
	for (unsigned i = 1; i < threads; i++)
		check(pthread_join(others[i], NULL) == 0);
}

static void alone(void)
{
	double end = processor_ms() + cpu_ms;

	while (processor_ms() < end)
		compute(20);
}

static void measured(void (*work)(void))
{
	double began, ran, sum = 0;

	must(roam_barrier_all());
	began = now_ms();
	ran = processor_ms();
	work();
	shared->cpu_ms[roam_node()] = processor_ms() - ran;
	must(roam_barrier_all());
	if (roam_node() != 0)
		return;
	for (unsigned i = 0; i < nodes; i++)
		sum += shared->cpu_ms[i];
	check((peer != NULL ? peer->count : shared->count) == (uint64_t)nodes * threads * rounds);
	printf("%.1f ms, %.1f ms of processors\n", now_ms() - began, sum);
}

static void node_measured(void)
{
	measured(rounds > 0 ? locks : alone);
}

/* ------------------------------------------------------------------------------------- stopped */

static bool was_stopped(void)
{
	uint64_t now = roam_clock_us(), before = looked_us;

	looked_us = now;
	return before != 0 && now - before > STOP_US;
}

static void until_stopped(void)
{
	uint64_t end = roam_clock_us() + GO_ON_US;

	while (!was_stopped())
		check(roam_clock_us() < end);
}

static void stopped_rounds(void)
{
	for (uint64_t i = 1; i != shared->round; i++) {
		must(roam_lock(&shared->lock));
		shared->count++;
		if (roam_node() == 0 && was_stopped())
			shared->round = i + 1;
		must(roam_unlock(&shared->lock));
		must(roam_barrier_all());
		check(shared->count == i * nodes);
		must(roam_barrier_all());
	}
}

static void node_stopped(void)
{
	bool first = roam_node() == 0, lock = strcmp(how, "lock") == 0;

	if (first && lock)
		must(roam_lock(&shared->lock));
	must(roam_barrier_all());
	printf("ready %u %d\n", roam_node(), (int)getpid());
	fflush(stdout);
	if (strcmp(how, "rounds") == 0) {
		stopped_rounds();
		return;
	}
	if (first)
		until_stopped();
	if (lock && !first)
		must(roam_lock(&shared->lock));
	if (lock) {
		shared->count++;
		must(roam_unlock(&shared->lock));
	}
	must(roam_barrier(&shared->met, nodes));
	check(shared->count == (lock ? nodes : 0));
}

/* --------------------------------------------------------------------------------------- stuck */

static void *lock_once(void *arg)
{
	must(roam_thread_init());
	must(roam_lock(&shared->lock));
	return arg;
}

static void node_stuck(void)
{
	pthread_t other;

	if (roam_node() == 0)
		must(roam_lock(&shared->lock));
	must(roam_barrier_all());
	for (unsigned i = 1; i < threads; i++)
		check(pthread_create(&other, NULL, lock_once, NULL) == 0);
	if (roam_node() != 0)
		must(roam_lock(&shared->lock));
	must(roam_barrier(&shared->met, nodes * threads));
}

static void run(void (*node_main)(void))
{
	check(nodes >= 1 && nodes <= 64 && threads <= THREADS_MAX);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	must(roam_finish());
}

static pid_t load_begin(void)
{
	pid_t self = getpid(), child = fork();

	check(child >= 0);
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == self)
		compute(1000);
	_exit(0);
}

static void run_beside(unsigned load)
{
	pid_t loads[LOAD_MAX];

	check(load <= LOAD_MAX);
	for (unsigned i = 0; i < load; i++)
		loads[i] = load_begin();
	run(node_measured);
	for (unsigned i = 0; i < load; i++)
		kill(loads[i], SIGKILL);
	for (unsigned i = 0; i < load; i++)
		waitpid(loads[i], NULL, 0);
}

static void peer_make(void)
{
	pthread_mutexattr_t attributes;

	peer = mmap(NULL, sizeof(*peer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(peer != MAP_FAILED);
	check(pthread_mutexattr_init(&attributes) == 0 &&
	      pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0 &&
	      pthread_mutex_init(&peer->mutex, &attributes) == 0);
}

int main(int argc, char **argv)
{
	check(argc == 4 || argc == 5 || argc == 8);
	how = argv[3];
	nodes = number(argv[argc == 4 ? 2 : 3]);
	if (strcmp(argv[1], "stuck") == 0) {
		threads = number(argv[3]);
		run(node_stuck);
		return 0;
	}
	if (argc == 4) {
		run(node_stopped);
		printf("counted right\n");
		return 0;
	}
	if (argc == 5) {
		cpu_ms = number(argv[4]);
	} else {
		threads = number(argv[4]);
		rounds = number(argv[5]);
		in_us = number(argv[6]);
		out_us = number(argv[7]);
	}
	if (strcmp(argv[1], "mutex") == 0)
		peer_make();
	run_beside(number(argv[2]));
	return 0;
}
