/*
 * Pages that cards read at their home, past its processors: in every round node 1 writes them, and
 * the others read them.  Once every page is announced and every key known, that takes one READ for
 * each page, and the reader sends no message.  With WHAT `no`, no card may read anything; with
 * `far` the first half of the nodes are on node 1's host, and need no card.
 * reads NODES yes|no|far [AREAS]: so with each of as many parts of registered memory in turn, for
 * which there may be less room together than they are long.
 */
#include <stdbool.h>
#include <unistd.h>

#include "multi.h"

#define PAGES   70u /* two parts of registered memory */
#define SOME    10u /* of a part, if there are several areas */
#define PART    (256u * 1024)
#define WORDS   (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define WARM    12u /* rounds, at most, until keys are known */
#define LONGER  30u /* or until another area's key has come back */
#define ROUNDS  6u
#define FEW     4u /* rounds without READs */
#define WARM_US 20000u
#define HOME    1u

static bool wanted, near_too;
static unsigned areas = 1, pages = PAGES, warm = WARM;
static uint64_t *all, *shared;

/* One word of each page, another one in each round. */
static void write_pages(unsigned round)
{
	for (unsigned page = 0; page < pages; page++)
		shared[page * WORDS + round % WORDS] = round * pages + page;
}

/* How many pages a card has read; UINT64_MAX: and something else went on. */
static uint64_t read_pages(unsigned round)
{
	uint64_t reads = roam_counter("card_reads"), sent = roam_counter("messages_sent"),
		 fetches = roam_counter("fetches");

	for (unsigned page = 0; page < pages; page++)
		check(shared[page * WORDS + round % WORDS] == round * pages + page);
	reads = roam_counter("card_reads") - reads;
	sent = roam_counter("messages_sent") - sent;
	fetches = roam_counter("fetches") - fetches;
	check(reads <= fetches && fetches == pages);
	check(reads == pages || sent > 0 || near_too);
	return sent == 0 ? reads : reads > 0 ? UINT64_MAX : 0;
}

static void area_main(void)
{
	bool near = near_too && roam_node() < roam_nodes() / 2;
	unsigned me = roam_node(), steady = 0, last = wanted ? warm + ROUNDS : FEW;
	uint64_t reads = 0;

	for (unsigned round = 1; round <= last; round++) {
		if (me == HOME)
			write_pages(round);
		must(roam_barrier_all());
		if (me != HOME)
			reads = read_pages(round);
		must(roam_barrier_all());
		if (me == HOME)
			continue;
		check((wanted && !near) || reads == 0);
		check(steady == 0 || reads == pages);
		steady += reads == pages;
		if (wanted && !near && steady == 0)
			usleep(WARM_US);
	}
	check(me == HOME || near || !wanted || steady >= ROUNDS);
}

static void node_main(void)
{
	uintptr_t first = ((uintptr_t)all + PART - 1) & ~(uintptr_t)(PART - 1);

	for (unsigned area = 0; area < areas; area++) {
		shared = areas == 1 ? all : (uint64_t *)(first + (uintptr_t)area * PART);
		area_main();
	}
}

int main(int argc, char **argv)
{
	check(argc == 3 || argc == 4);
	if (argc == 4) {
		areas = number(argv[3]);
		pages = SOME;
		warm = LONGER;
	}
	near_too = strcmp(argv[2], "far") == 0;
	wanted = near_too || strcmp(argv[2], "yes") == 0;
	must(roam_start_main());
	all = must_alloc((size_t)PAGES * ROAM_PAGE_SIZE + (size_t)areas * PART);
	must(roam_create_all(node_main, number(argv[1])));
	must(roam_wait_for_end());
	puts(wanted ? "one READ for each page" : "no READs");
	return 0;
}
