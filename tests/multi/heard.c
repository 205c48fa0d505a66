/*
 * Shows that a node that computes hears requests, even just after it has waited often: the nodes
 * meet many times, then node 0 does not call roam until node 1 has read its pages one by one, which
 * node 0 learns without roam.  heard
 */
#include "multi.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEETINGS 300
#define PAGES    640
#define PAGE     4096u
#define MOST_MS  10000 /* a node that answers by timers alone needs several times as long */

static volatile uint8_t *pages;
static _Atomic int *done; /* in memory that the nodes inherit, not in the heap */

static void reads(void)
{
	for (unsigned page = 0; page < PAGES; page++)
		check(pages[page * PAGE] == (uint8_t)page);
	atomic_store(done, 1);
}

static void stays_away(void)
{
	double start = now_ms();

	while (atomic_load(done) == 0 && now_ms() - start < MOST_MS)
		usleep(1000);
	check(atomic_load(done) != 0);
}

static void node_main(void)
{
	unsigned me = roam_node();

	for (unsigned page = 0; me == 0 && page < PAGES; page++)
		pages[page * PAGE] = (uint8_t)page;
	for (unsigned i = 0; i < MEETINGS; i++)
		must(roam_barrier_all());
	if (me == 0)
		stays_away();
	else
		reads();
	must(roam_barrier_all());
}

int main(void)
{
	done = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(done != MAP_FAILED);
	must(roam_start());
	pages = must_alloc(PAGES * PAGE);
	must(roam_create_all(node_main, 2));
	must(roam_wait_for_end());
	printf("heard\n");
	return 0;
}
