/*
 * Shows that a program may have very many locks: each exists from its first use on, costs memory
 * only if it is used, and still excludes.  Every node takes all of them, each node beginning with
 * another one.  locks fork|run NODES LOCKS
 */
#include "multi.h"

static uint64_t *counts; /* shared: each word is the name of its lock, and what that lock guards */
static unsigned nodes, locks;

static void node_main(void)
{
	unsigned first = locks / nodes * roam_node();

	for (unsigned i = roam_node(); i < locks; i += nodes)
		must(roam_lock_init(&counts[i]));
	must(roam_barrier_all());
	for (unsigned i = 0; i < locks; i++) {
		unsigned at = (first + i) % locks;

		must(roam_lock(&counts[at]));
		counts[at]++;
		must(roam_unlock(&counts[at]));
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < locks; i++)
		check(counts[i] == nodes);
}

int main(int argc, char **argv)
{
	check(argc == 4);
	nodes = number(argv[2]);
	locks = number(argv[3]);
	must(roam_start());
	counts = must_alloc(locks * sizeof(*counts));
	if (strcmp(argv[1], "fork") == 0) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	} else {
		node_main();
	}
	must(roam_finish());
	printf("%u locks right\n", locks);
	return 0;
}
