/*
 * A job of one node has no page faults and no memory for twins, but roam_touch and roam_prefetch
 * went to the protocol: under those whose pages have no homes, twins were then written over what
 * lay behind.
 * lone_touches; run by roam run -n 1
 */
#include "../multi/multi.h"

#define PAGES 300u
#define WORDS (ROAM_PAGE_SIZE / sizeof(uint64_t))

int main(void)
{
	uint64_t(*pages)[WORDS];

	must(roam_start());
	check(roam_nodes() == 1);
	pages = must_alloc(PAGES * sizeof(*pages));
	roam_prefetch(pages, PAGES * sizeof(*pages));
	for (unsigned i = 0; i < PAGES; i++) {
		must(roam_touch(pages[i], sizeof(pages[i]), i % 2 == 0 ? ROAM_WRITE : ROAM_READ));
		pages[i][0] = i;
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < PAGES; i++)
		check(pages[i][0] == i);
	check(roam_counter("read_faults") == 0 && roam_counter("write_faults") == 0);
	check(roam_counter("twins") == 0);
	must(roam_finish());
	return 0;
}
