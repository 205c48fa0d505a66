/*
 * Blocks get the homes that a program names, where it wrote the block before to its end, and in
 * pages that other blocks' nodes left behind when they ended.  Claims that ran ahead took the first
 * pages of a block that was yet to be placed; an allocator that zeroed pages in which nothing had
 * ever been stored was their home before roam_home could name one.
 * homes NODES ROUNDS
 */
#include "../multi/multi.h"

#define PAGES 40u
#define BYTES (PAGES * 4096u)

static struct shared {
	char *given, *set;
	char names[64];
} *shared;
static unsigned nodes;

static void give(void)
{
	char *before = must_alloc(BYTES), *left;

	for (unsigned at = 0; at < BYTES; at += 64)
		before[at] = 1;
	shared->given = roam_alloc_placed(BYTES, ROAM_PLACE_NODE, 0, NULL);
	check(shared->given != NULL);
	shared->set = must_alloc(BYTES);
	must(roam_home(shared->set, BYTES, 0));
	left = must_alloc(64); /* stays when the node ends */
	*left = 1;
}

static void read_zero(const char *block)
{
	for (unsigned at = 0; at < BYTES; at += 64)
		check(block[at] == 0);
}

static void write_all(char *block)
{
	for (unsigned at = 0; at < BYTES; at += 4096)
		block[at] = 2;
}

static void node_main(void)
{
	uint64_t diffs;

	if (roam_node() == nodes - 1)
		give();
	must(roam_barrier(shared->names, nodes));
	read_zero(shared->given); /* all have copies, so that a home's writes matter */
	read_zero(shared->set);
	must(roam_barrier(shared->names, nodes));
	diffs = roam_counter("diffs");
	if (roam_node() == 0) {
		write_all(shared->given);
		write_all(shared->set);
	}
	must(roam_barrier(shared->names, nodes));
	check(roam_counter("diffs") == diffs);
	check(shared->given[BYTES - 4096] == 2 && shared->set[0] == 2);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[1]);
	must(roam_start_main());
	shared = must_alloc(sizeof(*shared));
	for (unsigned round = 0; round < number(argv[2]); round++) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	}
	must(roam_finish());
	return 0;
}
