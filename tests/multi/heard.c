/*
 * Shows that a node that computes hears what is asked of it, also just after it waited often: the
 * nodes meet many times, then node 0 does not call roam while node 1 reads its pages one by one.
 * heard
 */
#include "multi.h"

#include <unistd.h>

#define MEETINGS 300
#define PAGES    64
#define PAGE     4096u
#define AWAY_US  300000
#define MOST_MS  150 /* of all reads; who is not heard is answered when node 0 is back */

static volatile uint8_t *pages;

static void node_main(void)
{
	unsigned me = roam_node();
	double start;

	for (unsigned page = 0; me == 0 && page < PAGES; page++)
		pages[page * PAGE] = (uint8_t)page;
	for (unsigned i = 0; i < MEETINGS; i++)
		must(roam_barrier_all());
	if (me == 0)
		usleep(AWAY_US);
	start = now_ms();
	for (unsigned page = 0; me != 0 && page < PAGES; page++)
		check(pages[page * PAGE] == page);
	if (me != 0)
		check(now_ms() - start < MOST_MS);
	must(roam_barrier_all());
}

int main(void)
{
	must(roam_start());
	pages = must_alloc(PAGES * PAGE);
	must(roam_create_all(node_main, 2));
	must(roam_wait_for_end());
	printf("heard\n");
	return 0;
}
