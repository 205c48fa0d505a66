/*
 * Nodes write bands of one array, one node after the other.  Claims that ran ahead made a node home
 * of pages at the beginning of the next band, of which the next node then sent diffs for ever.
 * bands NODES
 */
#include "../multi/multi.h"

#define BAND (300 * 4096u) /* bytes; no part of the heap, which has other boundaries */

static char *bytes, *names;
static unsigned nodes;

static void write_band(char value)
{
	for (unsigned at = 0; at < BAND; at += 64)
		bytes[roam_node() * BAND + at] = value;
}

static void node_main(void)
{
	unsigned me = roam_node();
	uint64_t diffs;

	if (me > 0)
		must(roam_flag_wait(&names[64 + me]));
	write_band(1);
	if (me + 1 < nodes)
		must(roam_flag_set(&names[64 + me + 1]));
	must(roam_barrier(names, nodes));
	diffs = roam_counter("diffs");
	write_band(2);
	must(roam_barrier(names, nodes));
	check(roam_counter("diffs") == diffs);
	for (unsigned at = 0; at < nodes * BAND; at += 64)
		check(bytes[at] == 2);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	nodes = number(argv[1]);
	must(roam_start_main());
	bytes = must_alloc((size_t)nodes * BAND);
	names = must_alloc(256);
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	must(roam_finish());
	return 0;
}
