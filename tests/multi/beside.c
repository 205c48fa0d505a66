/*
 * Shows that a node whose first thread waits, and so answers requests, gives a page away whole,
 * while its second thread, which never calls roam, goes on writing the page.
 * beside MILLISECONDS
 */
#include "multi.h"

#include <pthread.h>
#include <stdatomic.h>

#define BURST 64u

struct shared {
	_Atomic uint64_t count; /* only node 0's second thread writes it */
	_Atomic uint64_t over;
	_Atomic uint64_t other; /* written by node 1 */
};

static struct shared *shared;
static double length_ms;

static void *beside_main(void *arg)
{
	double start = now_ms();
	uint64_t count = 0;

	for (; now_ms() - start < length_ms; count += BURST)
		for (uint64_t i = 0; i < BURST; i++) {
			check(atomic_load(&shared->count) == count + i);
			atomic_store(&shared->count, count + i + 1);
		}
	atomic_store(&shared->over, count);
	return arg;
}

static void other_main(void)
{
	uint64_t seen = 0, turns = 0;

	for (; atomic_load(&shared->over) == 0; turns++) {
		uint64_t count = atomic_load(&shared->count);

		check(count >= seen);
		seen = count;
		if (turns % 2 != 0)
			atomic_store(&shared->other, turns);
	}
	check(atomic_load(&shared->count) == atomic_load(&shared->over));
	check(turns > 1);
}

static void node_main(void)
{
	pthread_t beside;

	if (roam_node() == 0)
		check(pthread_create(&beside, NULL, beside_main, NULL) == 0);
	else
		other_main();
	must(roam_barrier_all());
	if (roam_node() == 0)
		check(pthread_join(beside, NULL) == 0);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	length_ms = number(argv[1]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	must(roam_create_all(node_main, 2));
	must(roam_wait_for_end());
	printf("nothing lost\n");
	return 0;
}
