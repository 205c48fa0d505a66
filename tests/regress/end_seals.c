/*
 * Node 0 synchronises for the first time in roam_wait_for_end, which seals the job.  With
 * ROAM_THREADS nodes are forked there: they inherited a lock that node 0 held, and hung when their
 * function was over.
 * end_seals
 */
#include "../multi/multi.h"

#define PROCESSES 4u

static uint64_t *count;

static void node_main(void)
{
	must(roam_lock(count));
	++*count;
	must(roam_unlock(count));
}

int main(void)
{
	count = must_alloc(sizeof(*count));
	for (unsigned i = 1; i < PROCESSES; i++)
		must(roam_create(node_main));
	must(roam_wait_for_end());
	check(*count == PROCESSES - 1);
	must(roam_finish());
	return 0;
}
