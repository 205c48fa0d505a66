/*
 * A region with a delta of its own: delta START NODES WINDOW OTHER, as regions.c; WINDOW is the
 * protocol that has deltas, OTHER one that has none.  Node 1 writes a page of that region, and one
 * of a region without a delta; node 0 gets the first page when the delta is over, the second one at
 * once.  A block allocated where one with a delta was freed has the job's delta, unless it gets its
 * own again; this holds for the next round of nodes, too.  The test begins with calls that are
 * refused.
 */
#include "multi.h"

#define DELTA   "ROAM_MIRAGE_DELTA=100000"
#define LONG_US 80000u
#define ROUNDS  3u
#define PAGES   3u
#define TRIES   64u

static struct slot {
	unsigned value;
} *own, *jobs;
static const char *window;
static uint64_t flags[ROUNDS];
static unsigned used;

static struct slot *make(size_t bytes, const char *option)
{
	struct roam_region region = {.protocol = window, .option = option};
	struct slot *block = roam_alloc_region(bytes, &region);

	if (block == NULL)
		must(roam_errno());
	return block;
}

/* The time in microseconds until node 1, and then node 0, has written. */
static uint64_t steal(struct slot *slot)
{
	uint64_t *flag = &flags[used++ % ROUNDS], start = roam_clock_us();

	must(roam_barrier_all());
	if (roam_node() == 1) {
		slot->value++;
		must(roam_flag_set(flag));
	}
	if (roam_node() == 0) {
		must(roam_flag_wait(flag));
		slot->value++;
		start = roam_clock_us() - start;
		must(roam_flag_clear(flag));
	}
	must(roam_barrier_all());
	return start;
}

/* The least of several times, because other programs may use the machine. */
static uint64_t least(struct slot *slot)
{
	uint64_t best = steal(slot);

	for (unsigned i = 1; i < ROUNDS; i++) {
		uint64_t took = steal(slot);

		best = took < best ? took : best;
	}
	return best;
}

/* Allocates another block in place of `own`. */
static void replace(const char *option)
{
	struct slot *blocks[TRIES];
	unsigned count = 0;

	if (roam_node() != 0)
		return;
	must(roam_free(own));
	do {
		check(count < TRIES);
		blocks[count] = make(PAGES * ROAM_PAGE_SIZE, option);
	} while (blocks[count++] != own);
	while (count-- > 1)
		must(roam_free(blocks[count - 1]));
}

static void node_main(void)
{
	uint64_t took = least(own);

	check(roam_node() != 0 || took >= LONG_US);
	took = least(own + (PAGES - 1) * ROAM_PAGE_SIZE / sizeof(*own)); /* its last page */
	check(roam_node() != 0 || took >= LONG_US);
	took = least(jobs);
	check(roam_node() != 0 || took < LONG_US);
	replace(NULL);
	took = least(own);
	check(roam_node() != 0 || took < LONG_US);
	replace(DELTA);
	took = least(own);
	check(roam_node() != 0 || took >= LONG_US);
}

static void refuse(const char *protocol, const char *option, enum roam_err err)
{
	struct roam_region region = {.protocol = protocol, .option = option};

	check(roam_alloc_region(100, &region) == NULL);
	must_fail(roam_errno(), err);
}

int main(int argc, char **argv)
{
	unsigned nodes = argc == 5 ? number(argv[2]) : 0;
	int fork;

	check(nodes >= 2);
	window = argv[3];
	fork = strcmp(argv[1], "fork") == 0;
	if (fork)
		must(roam_start_main());
	refuse(window, "ROAM_MIRAGE_DELTA=10000001", ROAM_EINVAL);
	refuse(window, "ROAM_MIRAGE_DELTA=", ROAM_EINVAL);
	refuse(window, "ROAM_MIRAGE_DELTA", ROAM_EUNKNOWN);
	refuse(window, "ROAM_IVY=fixed", ROAM_EUNKNOWN);
	refuse(argv[4], DELTA, ROAM_EUNKNOWN);
	own = make(PAGES * ROAM_PAGE_SIZE, DELTA);
	jobs = make(PAGES * ROAM_PAGE_SIZE, NULL);
	if (!fork) {
		node_main();
	} else {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	}
	must(roam_finish());
	if (roam_node() == 0)
		printf("all in time\n");
	return 0;
}
