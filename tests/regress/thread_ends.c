/*
 * Threads that come and go: the 65th that ever used the heap ended the job.
 *
 * thread_ends turn NODES: on each node 100,000 threads one after the other, some of which only
 * read, some only take a lock, some register themselves and forget to unregister.  The barriers of
 * all threads wait for those that live.
 * thread_ends many NODES COUNT: so many at a time on each node.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "../multi/multi.h"

#define TURNS  100000u
#define READS  (TURNS / 100)
#define FORGET 500u /* every so many'th registers */

static uint64_t *table; /* a page for each read, after one of locks and counts */
static unsigned nodes, living;
static pthread_barrier_t local;

static uint64_t *page_of(unsigned number)
{
	return table + (1 + number) * ROAM_PAGE_SIZE / sizeof(*table);
}

static void count(unsigned slot)
{
	must(roam_lock(&table[slot]));
	table[slot]++;
	must(roam_unlock(&table[slot]));
}

static void *turn_thread(void *arg)
{
	unsigned turn = *(const unsigned *)arg;

	if (turn % 100 == 0)
		check(*page_of(turn / 100) == turn / 100);
	else
		count(roam_node());
	if (turn % FORGET == 1)
		must(roam_thread_init());
	return NULL;
}

static void turns(void)
{
	pthread_attr_t small;
	pthread_t thread;

	if (roam_node() == 0)
		for (unsigned i = 0; i < READS; i++)
			*page_of(i) = i;
	must(roam_barrier_all());
	check(pthread_attr_init(&small) == 0);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		check(pthread_create(&thread, &small, turn_thread, &turn) == 0);
		check(pthread_join(thread, NULL) == 0);
	}
	must(roam_barrier_all());
	check(table[roam_node()] == TURNS - READS);
}

static void *living_thread(void *arg)
{
	must(roam_thread_init());
	count(0);
	pthread_barrier_wait(&local);
	pthread_barrier_wait(&local); /* all nodes' threads are registered */
	must(roam_barrier_all());
	check(table[0] == (uint64_t)nodes * living);
	check(*page_of(0) == 1);
	must(roam_thread_fini());
	return arg;
}

static void crowd(void)
{
	pthread_t *threads = calloc(living, sizeof(*threads));
	pthread_attr_t small;

	check(threads != NULL && pthread_barrier_init(&local, NULL, living + 1) == 0);
	check(pthread_attr_init(&small) == 0 &&
	      pthread_attr_setstacksize(&small, 256 * 1024) == 0);
	if (roam_node() == 0)
		*page_of(0) = 1;
	for (unsigned i = 0; i < living; i++)
		check(pthread_create(&threads[i], &small, living_thread, NULL) == 0);
	pthread_barrier_wait(&local);
	must(roam_barrier(&table[8], nodes));
	pthread_barrier_wait(&local);
	must(roam_barrier_all());
	for (unsigned i = 0; i < living; i++)
		check(pthread_join(threads[i], NULL) == 0);
	free(threads);
}

int main(int argc, char **argv)
{
	check(argc >= 3);
	must(roam_start());
	nodes = number(argv[2]);
	table = must_alloc((READS + 1) * (size_t)ROAM_PAGE_SIZE);
	for (unsigned i = 0; i < nodes; i++)
		must(roam_lock_init(&table[i]));
	if (strcmp(argv[1], "many") == 0) {
		living = number(argv[3]);
		must(roam_create_all(crowd, nodes));
	} else {
		must(roam_create_all(turns, nodes));
	}
	must(roam_finish());
	return 0;
}
