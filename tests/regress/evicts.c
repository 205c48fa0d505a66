/*
 * A cache of one page (ROAM_CACHE_PAGES=1): an instruction that needs two pages never got on, and
 * pages that a node had evicted itself, and fetched again, stayed there for seconds, as if others
 * had taken them.
 * evicts: two nodes.
 */
#include "../multi/multi.h"

#define PAGES 6u
#define TURNS 40u
#define TRIES 5u

static volatile uint8_t *bytes;
static double least_ms = 1e9;

static volatile uint8_t *page_at(unsigned page)
{
	return bytes + page * (size_t)ROAM_PAGE_SIZE;
}

/* The last two bytes of a page and the first two of the next one, by one instruction. */
static void cross(void)
{
	for (unsigned page = 1; page < PAGES; page++) {
		const volatile void *at = page_at(page) - 2;

		check(*(const volatile uint32_t *)at == (page - 1) * 0x0101u + page * 0x01010000u);
	}
}

static void write_all(unsigned value)
{
	for (unsigned page = 0; page < PAGES; page++) {
		double start = now_ms();

		page_at(page)[100] = (uint8_t)value;
		if (page == 1 && now_ms() - start < least_ms)
			least_ms = now_ms() - start;
	}
}

static void node_main(void)
{
	for (unsigned page = 0; roam_node() == 0 && page < PAGES; page++)
		for (unsigned i = 0; i < ROAM_PAGE_SIZE; i++)
			page_at(page)[i] = (uint8_t)page;
	must(roam_barrier_all());
	if (roam_node() == 1)
		cross();
	must(roam_barrier_all());
	for (unsigned try = 1; try <= TRIES; try++) {
		if (roam_node() == 0)
			write_all(try);
		must(roam_barrier_all());
		for (unsigned turn = 0; roam_node() == 1 && turn < TURNS; turn++)
			check(page_at(turn % 2)[100] == try);
		must(roam_barrier_all());
	}
	if (roam_node() == 0)
		write_all(0);
	check(roam_node() != 0 || least_ms < 200);
}

int main(void)
{
	bytes = must_alloc(PAGES * (size_t)ROAM_PAGE_SIZE);
	must(roam_create_all(node_main, 2));
	must(roam_finish());
	return 0;
}
