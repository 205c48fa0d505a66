/*
 * Several threads of a started node make its first synchronisation at once.  One of them joins the
 * job to the others, and the node gets an allocator of its own; threads that did not wait for that
 * took blocks from the allocator that went away, the same ones as other nodes.
 * Under roam run.  seal_threads
 */
#include <pthread.h>

#include "../multi/multi.h"

#define THREADS 6u
#define BLOCKS  20u
#define NODES   8u

static uint64_t (*table)[THREADS][BLOCKS]; /* addresses, by node */
static pthread_barrier_t local;

static void *thread_main(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	uint64_t *blocks[BLOCKS];

	pthread_barrier_wait(&local);
	must(roam_thread_init());
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = must_alloc(64);
		*blocks[i] = roam_node() * 1000000 + me * 1000 + i;
		table[roam_node()][me][i] = (uint64_t)(uintptr_t)blocks[i];
	}
	must(roam_flag_set(&table[roam_node()][me]));
	for (unsigned node = 0; node < roam_nodes(); node++)
		for (unsigned thread = 0; thread < THREADS; thread++) {
			must(roam_flag_wait(&table[node][thread]));
			for (unsigned i = 0; i < BLOCKS; i++)
				check(*(uint64_t *)(uintptr_t)table[node][thread][i] ==
				      node * 1000000 + thread * 1000 + i);
		}
	must(roam_thread_fini());
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	must(roam_start());
	table = must_alloc(NODES * sizeof(*table));
	check(roam_nodes() <= NODES);
	check(pthread_barrier_init(&local, NULL, THREADS) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		check(pthread_join(threads[i], NULL) == 0);
	must(roam_finish());
	return 0;
}
