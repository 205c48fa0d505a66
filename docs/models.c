/*
 * The two programs of consistency.md, on two nodes.  Exit status 0: both nodes saw what the model
 * allows.
 *
 *	ROAM_PROTOCOL=hlrc models rc;  ROAM_PROTOCOL=onecopy models sc
 *
 * Without an acquire rc allows the old value and the new one.  Where pages stay at their homes a
 * node is certain to see the old one: `models old` demands that, too.
 *
 * The nodes tell each other how far they are through memory outside of roam, which orders nothing
 * for roam: so no node has to guess how long the other one takes.
 */
#include <roam/roam.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define ROUNDS 200

static volatile int *data, *flag, *x[2], *saw[2];
static _Atomic int *outside; /* how often the nodes have met */
static int sc, must_be_old, wrong;

/* A page of its own, whose home is the node that reads it. */
static volatile int *page(unsigned reader, const char *name)
{
	return roam_alloc_placed(ROAM_PAGE_SIZE, ROAM_PLACE_NODE, reader, name);
}

/* Both nodes are here; no release, no acquire. */
static void meet(void)
{
	int turn = atomic_fetch_add(outside, 1) / 2;

	while (atomic_load(outside) < 2 * (turn + 1))
		sched_yield();
}

/* Node 0 writes data, then a plain flag; node 1 looks when both are written. */
static void plain_flag(void)
{
	int seen = 0, after = 0;

	if (roam_node() == 0) {
		*data = 42;
		*flag = 1;
	}
	meet();
	if (roam_node() == 1) {
		seen = *flag;
		after = *data;
	}
	meet();
	roam_barrier_all();
	if (roam_node() == 0)
		return;
	printf("the flag was %sseen, data was %d; after a barrier they are %d and %d\n",
	       seen ? "" : "not ", after, *flag, *data);
	if ((sc && (!seen || after != 42)) || (must_be_old && seen))
		wrong = 1;
	if ((after != 0 && after != 42) || *flag != 1 || *data != 42)
		wrong = 1;
}

/*
 * Each node writes one variable and reads the other's.  In odd rounds both have written before
 * either reads, in even ones nobody waits.
 */
static void both_old(void)
{
	unsigned me = roam_node();
	int old = 0;

	for (int round = 1; round <= ROUNDS; round++) {
		roam_barrier_all();
		*x[me] = round;
		if (round % 2 == 1)
			meet();
		*saw[me] = *x[1 - me];
		if (*saw[me] != round && *saw[me] != round - 1)
			wrong = 1; /* what no node wrote, or older than the last barrier */
		if (round % 2 == 1)
			meet();
		roam_barrier_all();
		if (*saw[0] != round && *saw[1] != round)
			old++;
		else if (must_be_old && round % 2 == 1)
			wrong = 1; /* nothing has told a node of the other's write */
	}
	if (me == 1)
		printf("both read the old value in %d rounds of %d\n", old, ROUNDS);
	if (sc && old > 0)
		wrong = 1;
}

static void node_main(void)
{
	plain_flag();
	both_old();
	roam_reduce(&wrong, 1, ROAM_INT32, ROAM_MAX);
}

int main(int argc, char **argv)
{
	sc = argc > 1 && strcmp(argv[1], "sc") == 0;
	must_be_old = argc > 1 && strcmp(argv[1], "old") == 0;
	outside = mmap(NULL, ROAM_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (outside == MAP_FAILED || roam_start() != ROAM_OK)
		return 1;
	data = page(1, "data");
	flag = page(1, "flag");
	for (unsigned i = 0; i < 2; i++) {
		x[i] = page(1 - i, "x");
		saw[i] = page(i, "saw");
	}
	if (roam_create_all(node_main, 2) != ROAM_OK || roam_finish() != ROAM_OK)
		return 1;
	printf("%s\n", wrong ? "the model did not hold" : "as the model says");
	return wrong;
}
