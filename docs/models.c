/*
 * The two programs of consistency.md, on two nodes; exit status 0: the model did what it says.
 *
 *	roam run -n 2 models sc|rc
 */
#include <roam/roam.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_US 200000u
#define ROUNDS      300

static volatile int *data, *flag, *x[2], *old[2];

/* Its home is the node that reads it. */
static volatile int *page(unsigned reader, const char *name)
{
	return roam_alloc_placed(ROAM_PAGE_SIZE, ROAM_PLACE_NODE, reader, name);
}

/* Node 0 writes data, then a plain flag; node 1 spins on the flag.  Whether it saw it. */
static int plain_flag(void)
{
	uint64_t start;
	int seen = 0;

	start = roam_clock_us();
	if (roam_node() == 0) {
		*data = 42;
		*flag = 1;
		while (roam_clock_us() - start < 5 * PATIENCE_US)
			;
	} else {
		while (*flag == 0 && roam_clock_us() - start < PATIENCE_US)
			;
		seen = *flag;
		if (seen && *data != 42)
			seen = -1;
	}
	roam_barrier_all();
	return seen;
}

static void pause_us(uint64_t us)
{
	uint64_t start = roam_clock_us();

	while (roam_clock_us() - start < us)
		;
}

/*
 * Each node writes one variable and reads the other's.  The round in which both read the old
 * value; 0: never.
 */
static int both_old(void)
{
	unsigned me = roam_node();

	for (int round = 1; round <= ROUNDS; round++) {
		roam_barrier_all();
		*x[me] = round;
		pause_us(1000); /* the other has written, too */
		*old[me] = *x[1 - me] != round;
		pause_us(1000); /* the other has read, too */
		roam_barrier_all();
		if (*old[0] && *old[1])
			return round;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int sc = argc > 1 && strcmp(argv[1], "sc") == 0, seen, both;

	if (roam_start())
		return 1;
	data = page(1, "data");
	flag = page(1, "flag");
	for (unsigned i = 0; i < 2; i++) {
		x[i] = page(1 - i, "x");
		old[i] = page(i, "old");
	}
	roam_barrier_all();
	seen = plain_flag();
	both = both_old();
	if (roam_node() == 1)
		printf("the flag was %s; both read the old value: %s\n",
		       seen == 1 ? "seen" : seen == 0 ? "not seen" : "seen before the data",
		       both ? "yes" : "never");
	roam_barrier_all();
	if (roam_node() == 0)
		return 0;
	return sc ? seen != 1 || both != 0 : seen != 0 || both == 0;
}
