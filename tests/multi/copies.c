/*
 * What node 0 finds after WAIT_FOR_END in pages of which it had copies: it read them, and then
 * others wrote them, under locks that node 0 never took or at the very end, or node 0 wrote, too.
 * copies NODES.
 */
#include "multi.h"

#define PAGES 96u
#define WORDS (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define KINDS 4u /* written early; with a lock; at the end; by node 0, too */

static unsigned nodes;
static uint64_t *shared;
static char lock;

static uint64_t *word(unsigned page, unsigned node)
{
	return shared + (size_t)page * WORDS + node * 8;
}

/* The value that `node` has written in the page at the end. */
static uint64_t value(unsigned page, unsigned node)
{
	return 1000 * node + page + (page % KINDS == 0 ? 1 : 2);
}

static void write_all(unsigned me, unsigned kind, uint64_t less)
{
	for (unsigned page = 0; page < PAGES; page++)
		if (kind == KINDS || page % KINDS == kind)
			*word(page, me) = value(page, me) - (page % KINDS == 0 ? 0 : less);
}

static void node_main(void)
{
	unsigned me = roam_node();

	if (me != 0) /* so that the other nodes are the homes */
		write_all(me, KINDS, 1);
	must(roam_barrier_all());
	if (me == 0)
		for (unsigned page = 0; page < PAGES; page++)
			check(*word(page, nodes - 1) != 0);
	if (me == 0)
		write_all(0, 3, 0);
	must(roam_barrier_all());
	if (me == 0) /* copies that were dropped are fetched again */
		for (unsigned page = 0; page < PAGES; page++)
			check(*word(page, 1) != 0);
	must(roam_barrier_all());
	if (me == 0)
		return;
	must(roam_lock(&lock));
	write_all(me, 1, 0);
	must(roam_unlock(&lock));
	write_all(me, 2, 0);
	write_all(me, 3, 0);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	nodes = number(argv[1]);
	must(roam_start_main());
	shared = must_alloc(PAGES * ROAM_PAGE_SIZE);
	must(roam_lock_init(&lock));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	for (unsigned page = 0; page < PAGES; page++)
		for (unsigned node = page % KINDS == 3 ? 0 : 1; node < nodes; node++)
			check(*word(page, node) == value(page, node));
	puts("all as it was written");
	return 0;
}
