/*
 * A program that begins with a call as programs that create their nodes do, but creates none: main
 * goes on everywhere, and nothing that it did before is lost.  either NODES, under a launcher.
 * either NODES create: begins as such a program and creates nodes after all, by which main goes on
 * on node 0 alone.
 */
#include <unistd.h>

#include "multi.h"

#define SLOTS (16u * ROAM_PAGE_SIZE)

static unsigned nodes;
static char lock;

/* A page in which only this process of the job has stored before it knew its number. */
static unsigned slot(pid_t pid)
{
	return (unsigned)pid * 4099u % SLOTS;
}

static void begin(uint8_t *marks, uint64_t *alike)
{
	must(roam_lock_init(&lock));
	marks[slot(getpid())] = 1;
	for (unsigned i = 0; i < 1000; i++)
		alike[i] = i;
	alike[500] = 0;
	alike[501] = 7;
	printf("before\n");
}

static uint64_t *sum;

static void add(void)
{
	must(roam_lock(&lock));
	sum[0] += sum[1] + roam_node();
	must(roam_unlock(&lock));
}

static int create(void)
{
	must(roam_start());
	sum = must_alloc(2 * sizeof(*sum));
	must(roam_lock_init(&lock));
	sum[1] = 100;
	must(roam_create_all(add, nodes));
	must(roam_wait_for_end());
	printf("the sum is %lu\n", (unsigned long)sum[0]);
	return 0;
}

int main(int argc, char **argv)
{
	uint8_t *marks, *later, *early;
	uint64_t *alike;
	pid_t *pids;
	unsigned marked = 0;

	check(argc == 2 || argc == 3);
	nodes = number(argv[1]);
	if (argc == 3)
		return create();
	marks = must_alloc(SLOTS);
	alike = must_alloc(1000 * sizeof(*alike));
	pids = roam_alloc_placed(nodes * sizeof(*pids), ROAM_PLACE_NODE, 1, "pids");
	must(roam_free(must_alloc(100)));
	begin(marks, alike);
	early = must_alloc(3000);
	check(roam_nodes() == nodes); /* so no node must be created */
	must(roam_free(early));
	check(marks[slot(getpid())] == 1 && alike[500] == 0 && alike[501] == 7);
	later = must_alloc(SLOTS); /* the same block everywhere, as before */
	pids[roam_node()] = getpid();
	must(roam_lock(&lock));
	later[0]++;
	must(roam_unlock(&lock));
	must(roam_barrier_all());
	check(later[0] == nodes);
	for (unsigned i = 0; i < SLOTS; i++)
		marked += marks[i];
	check(marked == nodes);
	for (unsigned i = 0; i < nodes; i++)
		check(marks[slot(pids[i])] == 1);
	for (unsigned i = 0; i < 1000; i++)
		check(alike[i] == (i == 500 ? 0 : i == 501 ? 7 : i));
	must(roam_barrier_all());
	printf("node %u of %u is right\n", roam_node(), nodes);
	return 0;
}
