/*
 * The first thread of a node waits in roam_wait_for_end while others work: these waited 10 ms for
 * it at their first lock, though it comes to no lock any more (rule 5.9).
 * With ROAM_THREADS=2.  first_ends
 */
#include <unistd.h>

#include "../multi/multi.h"

#define PROCESSES 4u
#define ROUNDS    8u
#define FIRST_US  10000u

static uint64_t *count;
static uint64_t least = UINT64_MAX; /* us that process 1, a thread of node 0, waited for the lock */

static void node_main(void)
{
	uint64_t begin, took;

	usleep(1000); /* longer than node 0 needs to wait */
	begin = roam_clock_us();
	must(roam_lock(count));
	took = roam_clock_us() - begin;
	++*count;
	must(roam_unlock(count));
	if (roam_node() == 1 && took < least)
		least = took;
}

int main(void)
{
	count = must_alloc(sizeof(*count));
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 1; i < PROCESSES; i++)
			must(roam_create(node_main));
		must(roam_wait_for_end());
	}
	check(*count == ROUNDS * (PROCESSES - 1));
	check(least < FIRST_US);
	must(roam_finish());
	return 0;
}
