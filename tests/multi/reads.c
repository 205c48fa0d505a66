/*
 * Pages that cards read at their home, past its processors: in every round node 1 writes them, and
 * the others read them.  Once every page is announced and every key known, that takes one READ for
 * each page, and the reader sends no message.  With WHAT `no`, no card may read anything.
 * reads NODES yes|no.
 */
#include <stdbool.h>
#include <unistd.h>

#include "multi.h"

#define PAGES   70u /* two parts of registered memory */
#define WORDS   (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define WARM    12u /* rounds, at most, until keys are known */
#define ROUNDS  6u
#define FEW     4u /* rounds without READs */
#define WARM_US 20000u
#define HOME    1u

static bool wanted;
static uint64_t *shared;

/* One word of each page, another one in each round. */
static void write_pages(unsigned round)
{
	for (unsigned page = 0; page < PAGES; page++)
		shared[page * WORDS + round % WORDS] = round * PAGES + page;
}

/* How many pages a card has read; UINT64_MAX: and something else went on. */
static uint64_t read_pages(unsigned round)
{
	uint64_t reads = roam_counter("card_reads"), sent = roam_counter("messages_sent"),
		 fetches = roam_counter("fetches");

	for (unsigned page = 0; page < PAGES; page++)
		check(shared[page * WORDS + round % WORDS] == round * PAGES + page);
	reads = roam_counter("card_reads") - reads;
	sent = roam_counter("messages_sent") - sent;
	fetches = roam_counter("fetches") - fetches;
	check(reads <= fetches && fetches == PAGES);
	check(reads == PAGES || sent > 0);
	return sent == 0 ? reads : reads > 0 ? UINT64_MAX : 0;
}

static void node_main(void)
{
	unsigned me = roam_node(), steady = 0, last = wanted ? WARM + ROUNDS : FEW;
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
		check(wanted || reads == 0);
		check(steady == 0 || reads == PAGES);
		steady += reads == PAGES;
		if (wanted && steady == 0)
			usleep(WARM_US);
	}
	check(me == HOME || !wanted || steady >= ROUNDS);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	wanted = strcmp(argv[2], "yes") == 0;
	must(roam_start_main());
	shared = must_alloc(PAGES * ROAM_PAGE_SIZE);
	must(roam_create_all(node_main, number(argv[1])));
	must(roam_wait_for_end());
	puts(wanted ? "one READ for each page" : "no READs");
	return 0;
}
