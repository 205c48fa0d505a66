/*
 * A program that creates its nodes, as one started across hosts sees it: main up to CREATE runs on
 * every node, and counts on node 0.
 * create WAY NODES, a number on the standard input.  WAY: all, each (one CREATE per node), uneven
 * (allocations differ before CREATE), again (a second round), sum (many more numbers follow), late
 * (nothing says before CREATE that there will be one), early (each, as an SPMD program: not to
 * be had), dies (each, and the creator is killed before the job is sealed).
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "multi.h"

#define PAGES       40u
#define SUM_NUMBERS 60000u

static unsigned nodes, input;
static pid_t first;      /* node 0's pid, on every node, by roam_distribute */
static uint64_t *shared; /* its address, as node 0 wrote it before CREATE */
static char lock;
static unsigned long barrier;

static uint64_t *page(unsigned i)
{
	return shared + i * ROAM_PAGE_SIZE / sizeof(*shared);
}

static void node_main(void)
{
	check((first == getpid()) == (roam_node() == 0));
	check(input == 4711);
	for (unsigned i = 0; i < PAGES; i++) /* no other node's main has written these */
		check(page(i)[1] == (uint64_t)first && page(i)[2] == 0);
	must(roam_barrier(&barrier, nodes));
	check(roam_nodes() == nodes);
	for (unsigned i = 0; i < PAGES; i++)
		if (i % nodes == roam_node())
			page(i)[2] = i + 1;
	must(roam_lock(&lock));
	page(0)[3] += roam_node() + 1;
	must(roam_unlock(&lock));
	printf("node %u was here\n", roam_node());
}

static void create(const char *way)
{
	if (strcmp(way, "each") != 0 && strcmp(way, "early") != 0 && strcmp(way, "dies") != 0) {
		must(roam_create_all(node_main, nodes));
		return;
	}
	for (unsigned i = 1; i < nodes; i++)
		must(roam_create(node_main));
	if (strcmp(way, "dies") == 0)
		raise(SIGKILL);
	node_main();
}

/* Reads numbers, from 1 on, to the end: more than pipes hold. */
static void add_up(void)
{
	unsigned long next, last = 0;

	while (scanf("%lu", &next) == 1)
		check(next == ++last);
	check(last == SUM_NUMBERS && feof(stdin));
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[2]);
	if (strcmp(argv[1], "early") == 0)
		must(roam_start());
	else if (strcmp(argv[1], "late") == 0)
		must(roam_free(must_alloc(64)));
	else
		must(roam_start_main());
	check(scanf("%u", &input) == 1);
	if (strcmp(argv[1], "sum") == 0)
		add_up();
	first = getpid();
	must(roam_distribute(&first, sizeof(first)));
	if (strcmp(argv[1], "uneven") == 0)
		must_alloc(((size_t)getpid() % 1000 + 1) * 64);
	shared = roam_alloc_placed(PAGES * ROAM_PAGE_SIZE, ROAM_PLACE_CYCLIC, 0, "shared");
	check(shared != NULL);
	for (unsigned i = 0; i < PAGES; i++)
		page(i)[1] = (uint64_t)getpid();
	must(roam_lock_init(&lock));
	printf("said once\n");
	create(argv[1]);
	must(roam_wait_for_end());
	for (unsigned i = 0; i < PAGES; i++)
		check(page(i)[1] == (uint64_t)getpid() && page(i)[2] == i + 1);
	check(page(0)[3] == (uint64_t)nodes * (nodes + 1) / 2);
	for (unsigned i = 0; i < PAGES; i++)
		page(i)[2] = 0;
	if (strcmp(argv[1], "again") == 0)
		create(argv[1]);
	printf("the end\n");
	must(roam_finish());
	return 0;
}
