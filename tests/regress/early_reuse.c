/*
 * Nodes of a launched job free blocks and allocate again before they first synchronise, one of them
 * later than the others.  It got memory that had been freed and zeroed that, as each node did; what
 * others had written there by then was lost.
 * Under roam run.  early_reuse
 */
#include <unistd.h>

#include "../multi/multi.h"

#define BLOCKS 6u

int main(void)
{
	static const size_t sizes[BLOCKS] = {64, 100, 2000, 5000, 300000, 3 << 20};
	unsigned char *blocks[BLOCKS];

	must(roam_start());
	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < BLOCKS; i++)
			blocks[i] = must_alloc(sizes[i]);
		for (unsigned i = 0; i < BLOCKS; i++)
			must(roam_free(blocks[i]));
		must_fail(roam_free(blocks[turn]), ROAM_ENOTOURS);
	}
	if (roam_node() == roam_nodes() - 1)
		usleep(100000);
	for (unsigned i = 0; i < BLOCKS; i++) {
		blocks[i] = must_alloc(sizes[i]);
		check(blocks[i][roam_node()] == 0);
		blocks[i][roam_node()] = (unsigned char)(roam_node() + 1);
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < BLOCKS; i++)
		for (unsigned node = 0; node < roam_nodes(); node++)
			check(blocks[i][node] == node + 1);
	must(roam_barrier_all());
	for (unsigned i = 0; i < BLOCKS && roam_node() == 0; i++)
		must(roam_free(blocks[i]));
	for (unsigned i = 0; i < 100 && roam_node() == 0; i++) { /* of what was held, too */
		blocks[0] = must_alloc(sizes[i % BLOCKS]);
		for (size_t at = 0; at < sizes[i % BLOCKS]; at++)
			check(blocks[0][at] == 0);
	}
	must(roam_finish());
	return 0;
}
