/*
 * Changes that cards write into pages at their home, past its processors: in every round each node
 * but node 1 writes a few stretches of every page, which node 1 has, and then node 1 looks at them.
 * Once every key is known, all changes go so; with WHAT `no`, none.
 * writes NODES yes|no
 */
#include <stdbool.h>
#include <unistd.h>

#include "multi.h"

#define PAGES    70u /* two parts of registered memory */
#define WORDS    (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define STRETCHES 2u /* of a page, of a node: few, so that all puts of a round have room */
#define APART    9u  /* words between them, and those of the nodes beside them */
#define WARM     12u /* rounds, at most, until keys are known */
#define ROUNDS   6u
#define FEW      4u /* rounds without */
#define WARM_US  20000u
#define HOME     1u

static bool wanted;
static uint64_t *shared;

static uint64_t *word_of(unsigned page, unsigned stretch, unsigned node)
{
	return &shared[page * WORDS + stretch * APART + node];
}

static uint64_t value_of(unsigned round, unsigned page, unsigned stretch, unsigned node)
{
	return ((round * PAGES + page) * STRETCHES + stretch) * roam_nodes() + node + 1;
}

static void write_pages(unsigned round)
{
	for (unsigned page = 0; page < PAGES; page++)
		for (unsigned i = 0; i < STRETCHES; i++)
			*word_of(page, i, roam_node()) = value_of(round, page, i, roam_node());
}

static void check_pages(unsigned round)
{
	for (unsigned page = 0; page < PAGES; page++)
		for (unsigned i = 0; i < STRETCHES; i++)
			for (unsigned node = 0; node < roam_nodes(); node++)
				check(node == HOME || *word_of(page, i, node) ==
							      value_of(round, page, i, node));
}

/* One round of a node; how many pages a card wrote. */
static uint64_t round_main(unsigned round)
{
	uint64_t diffs = roam_counter("diffs"), cards = roam_counter("card_diffs");

	if (roam_node() != HOME)
		write_pages(round);
	must(roam_barrier_all());
	diffs = roam_counter("diffs") - diffs;
	cards = roam_counter("card_diffs") - cards;
	check(roam_node() == HOME ? diffs == 0 : diffs == PAGES);
	if (roam_node() == HOME)
		check_pages(round);
	must(roam_barrier_all());
	return cards;
}

static void node_main(void)
{
	unsigned steady = 0, last = wanted ? WARM + ROUNDS : FEW;
	uint64_t most = 0;

	if (roam_node() == HOME)
		for (unsigned page = 0; page < PAGES; page++)
			shared[page * WORDS + WORDS - 1] = page + 1;
	must(roam_barrier_all());
	for (unsigned round = 1; round <= last; round++) {
		uint64_t cards = round_main(round);

		check(cards == 0 || (wanted && roam_node() != HOME));
		steady += cards == PAGES;
		most = cards > most ? cards : most;
		if (wanted && steady == 0)
			usleep(WARM_US);
	}
	if (wanted && roam_node() != HOME && steady < ROUNDS)
		printf("node %u: all of %u pages in %u rounds, at most %lu in one\n", roam_node(),
		       PAGES, steady, (unsigned long)most);
	check(!wanted || roam_node() == HOME || steady >= ROUNDS);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	wanted = strcmp(argv[2], "yes") == 0;
	must(roam_start_main());
	shared = must_alloc((size_t)PAGES * ROAM_PAGE_SIZE);
	must(roam_create_all(node_main, number(argv[1])));
	must(roam_wait_for_end());
	puts(wanted ? "changes written by cards" : "no changes written by cards");
	return 0;
}
