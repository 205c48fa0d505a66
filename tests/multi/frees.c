/*
 * Shows that roam_free says of every address whether a block of the program begins there: not of
 * one within a block, not of one freed before, by this node or another one, not of one that was
 * never a block; for blocks of all sizes, of all nodes, also after those have ended.  Then, that
 * what nodes have allocated and freed is there again in the next round: neither the heap nor this
 * process's memory runs out.
 * frees HOW NODES ROUNDS
 *	HOW	fork; run: under roam run, on one host or several, one round
 */
#include "multi.h"

#include <unistd.h>

#define BIG ((size_t)5 << 20)

static const size_t sizes[] = {1,    16,   64,    65,    200,    1000, 4095,
				4096, 4097, 10000, 65536, 300000, BIG};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct shared {
	char *freed[8][SIZES]; /* allocated by the node before */
	char *kept[8][SIZES];  /* kept until the end, where node 0 frees them */
};

static struct shared *shared;
static unsigned nodes, count; /* of the sizes */

static void within(char *block, size_t bytes)
{
	must_fail(roam_free(block + 1), ROAM_ENOTOURS);
	must_fail(roam_free(block + 8), ROAM_ENOTOURS);
	if (bytes > 64)
		must_fail(roam_free(block + 64), ROAM_ENOTOURS);
	if (bytes > 4096)
		must_fail(roam_free(block + 4096), ROAM_ENOTOURS);
	if (bytes > 8192)
		must_fail(roam_free(block + bytes / 2 / 4096 * 4096), ROAM_ENOTOURS);
}

static void node_main(void)
{
	unsigned me = roam_node(), next = (me + 1) % nodes;

	for (unsigned i = 0; i < count; i++) {
		shared->freed[me][i] = must_alloc(sizes[i]);
		shared->kept[me][i] = must_alloc(sizes[i]);
		memset(shared->kept[me][i], 1, sizes[i] < 9999 ? sizes[i] : 9999);
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < count; i++) {
		within(shared->freed[next][i], sizes[i]);
		within(shared->freed[me][i], sizes[i]);
		must_fail(roam_free(shared->freed[next][i] + BIG + 64), ROAM_ENOTOURS);
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < count; i++) {
		must(roam_free(shared->freed[next][i]));
		must_fail(roam_free(shared->freed[next][i]), ROAM_ENOTOURS);
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < count; i++)
		for (unsigned node = 0; node < nodes; node++)
			must_fail(roam_free(shared->freed[node][i]), ROAM_ENOTOURS);
	must(roam_barrier_all());
}

/* Blocks of nodes that have ended, and of this one. */
static void end_round(void)
{
	for (unsigned node = 0; node < nodes; node++)
		for (unsigned i = 0; i < count; i++) {
			within(shared->kept[node][i], sizes[i]);
			must_fail(roam_free(shared->freed[node][i]), ROAM_ENOTOURS);
			must(roam_free(shared->kept[node][i]));
			must_fail(roam_free(shared->kept[node][i]), ROAM_ENOTOURS);
		}
}

/* Pages of this process's memory. */
static long resident(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	long all, here;

	check(file != NULL && fscanf(file, "%ld %ld", &all, &here) == 2);
	fclose(file);
	return here;
}

int main(int argc, char **argv)
{
	unsigned rounds;
	long before = 0, grown;

	check(argc == 4);
	nodes = number(argv[2]);
	rounds = number(argv[3]);
	count = rounds < 100 ? SIZES : SIZES - 2; /* the pages of large blocks in memory vary */
	must(roam_start_main());
	shared = must_alloc(sizeof(*shared));
	for (unsigned round = 0; round < rounds; round++) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
		end_round();
		if (round == rounds / 4)
			before = resident();
	}
	grown = resident() - before;
	check(rounds < 100 || grown < 64);
	must(roam_finish());
	printf("%u rounds of frees right\n", rounds);
	return 0;
}
