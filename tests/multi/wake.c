/*
 * Shows that a node that sleeps is woken at once by a message of another one: the first two nodes
 * meet again and again, each time one of them so late that the other one sleeps; the other nodes
 * wait.  wake NODES
 */
#include "multi.h"

#include <unistd.h>

#define TURNS   40
#define LATE_US 20000
#define MOST_MS 100 /* length of a turn, on average */

static uint64_t *meeting;

static void node_main(void)
{
	unsigned me = roam_node();
	double start;

	must(roam_barrier_all());
	start = now_ms();
	for (unsigned turn = 0; turn < TURNS && me < 2; turn++) {
		if (turn % 2 == me)
			usleep(LATE_US);
		must(roam_barrier(meeting, 2));
	}
	if (me < 2)
		check(now_ms() - start < TURNS * MOST_MS);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	check(argc == 2);
	must(roam_start());
	meeting = must_alloc(sizeof(*meeting));
	must(roam_create_all(node_main, number(argv[1])));
	must(roam_wait_for_end());
	printf("woken at once\n");
	return 0;
}
