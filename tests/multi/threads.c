/*
 * Shows that several threads of each node count right: every thread's increments under locks,
 * every thread's arrival at barriers of all, of one thread a node, and of those that registered
 * last.
 * threads MODE NODES THREADS ROUNDS WHEN
 *	MODE  fork: roam_create_all; run: under roam run
 *	WHEN  settled: no barrier before all threads have registered; at-once: threads wait at a
 *	      barrier while others have yet to register
 */
#include "multi.h"

#include <pthread.h>
#include <stdbool.h>

#define THREADS_MAX 8u
#define LOCKS       5u

struct shared {
	uint64_t counts[LOCKS]; /* packed: one page, five locks */
	uint64_t slots[64 * THREADS_MAX];
	uint64_t sums[64];
	char all, some, first; /* names of barriers */
	char locks[LOCKS];
	char here[64]; /* names of flags */
};

static struct shared *shared;
static unsigned threads, rounds, nodes;
static bool settled;            /* wait until all have registered, before the first barrier */
static pthread_barrier_t local; /* how many threads of the node have registered */

/* Every thread adds under each lock, in an order of its own. */
static void add_under_locks(unsigned me)
{
	for (unsigned i = 0; i < LOCKS; i++) {
		unsigned at = (i + me) % LOCKS;

		must(roam_lock(&shared->locks[at]));
		shared->counts[at]++;
		must(roam_unlock(&shared->locks[at]));
	}
}

/*
 * Every thread writes a slot beside its neighbours' slots; after the barrier all values are there.
 */
static void write_and_read(unsigned me, unsigned round)
{
	unsigned all = nodes * threads;

	shared->slots[me] = (uint64_t)round << 32 | me;
	must(roam_barrier(&shared->all, all));
	for (unsigned i = 0; i < all; i++)
		check(shared->slots[i] == ((uint64_t)round << 32 | i));
	must(roam_barrier(&shared->all, all));
}

/* One thread of each node meets at a barrier of their own, while the others work under locks. */
static void meet_some(unsigned thread, unsigned me, unsigned round)
{
	if (thread != round % threads) {
		add_under_locks(me);
		return;
	}
	shared->sums[roam_node()] = round + roam_node();
	must(roam_barrier(&shared->some, nodes));
	for (unsigned i = 0; i < nodes; i++)
		check(shared->sums[i] == round + i);
	must(roam_barrier(&shared->some, nodes));
	add_under_locks(me);
}

/* Waits until all threads of all nodes have registered. */
static void collect(unsigned thread)
{
	pthread_barrier_wait(&local);
	if (thread == 0)
		must(roam_flag_set(&shared->here[roam_node()]));
	for (unsigned i = 0; i < nodes; i++)
		must(roam_flag_wait(&shared->here[i]));
}

static void thread_work(unsigned thread)
{
	unsigned me = roam_node() * threads + thread;

	if (settled)
		collect(thread);
	must(roam_barrier(&shared->first, nodes * threads));
	for (unsigned round = 1; round <= rounds; round++) {
		add_under_locks(me);
		write_and_read(me, round);
		meet_some(thread, me, round);
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < LOCKS; i++)
		check(shared->counts[i] == (uint64_t)2 * rounds * threads * nodes);
	must(roam_barrier_all());
}

static void *thread_main(void *arg)
{
	must(roam_thread_init());
	thread_work((unsigned)(uintptr_t)arg);
	must(roam_thread_fini());
	return NULL;
}

static void node_main(void)
{
	pthread_t others[THREADS_MAX];

	check(pthread_barrier_init(&local, NULL, threads) == 0);
	for (unsigned i = 1; i < threads; i++)
		check(pthread_create(&others[i], NULL, thread_main, (void *)(uintptr_t)i) == 0);
	thread_work(0);
	for (unsigned i = 1; i < threads; i++)
		check(pthread_join(others[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	check(argc == 6);
	nodes = number(argv[2]);
	threads = number(argv[3]);
	rounds = number(argv[4]);
	settled = strcmp(argv[5], "settled") == 0;
	check(threads >= 1 && threads <= THREADS_MAX && nodes >= 1 && nodes <= 64);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	for (unsigned i = 0; i < LOCKS; i++)
		must(roam_lock_init(&shared->locks[i]));
	if (strcmp(argv[1], "fork") == 0)
		must(roam_create_all(node_main, nodes));
	else
		node_main();
	must(roam_finish());
	if (roam_node() == 0)
		printf("counted right\n");
	return 0;
}
