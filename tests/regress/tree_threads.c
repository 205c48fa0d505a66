/*
 * Barriers along a tree while the number of threads changes: nodes with one thread and nodes with
 * more meet at barriers of as many threads as nodes, at full ones, and at the job's end.  Some
 * came along the tree, the others by calls past it, and no thread went on.
 * ROAM_BARRIER=tree tree_threads NODES; tree_threads under roam run.
 */
#include <pthread.h>

#include "../multi/multi.h"

static char *names; /* of barriers and flags */
static unsigned nodes, launched;

static void *thread_main(void *arg)
{
	must(roam_thread_init());
	must(roam_barrier(&names[0], nodes));
	must(roam_flag_set(&names[64 + roam_node()]));
	must(roam_barrier_all());
	must(roam_thread_fini());
	return arg;
}

/* Odd nodes have a second thread, and it is that one which meets the others. */
static void node_main(void)
{
	pthread_t thread;

	if (launched)
		must(roam_barrier_all()); /* one thread a node */
	if (roam_node() % 2 == 1)
		check(pthread_create(&thread, NULL, thread_main, NULL) == 0);
	else
		must(roam_barrier(&names[0], nodes));
	for (unsigned node = 1; node < nodes; node += 2)
		must(roam_flag_wait(&names[64 + node]));
	must(roam_barrier_all());
	if (roam_node() % 2 == 1)
		check(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
	must(roam_start());
	names = must_alloc(256);
	launched = argc < 2;
	nodes = launched ? roam_nodes() : number(argv[1]);
	if (launched)
		node_main();
	else
		must(roam_create_all(node_main, nodes));
	must(roam_finish());
	return 0;
}
