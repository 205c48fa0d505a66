/* Two nodes that write words of the same pages in turn, and check what the other has written. */
#ifndef REGRESS_WRITTEN_H
#define REGRESS_WRITTEN_H

#include "../multi/multi.h"

#define NODES 2u
#define WORDS (ROAM_PAGE_SIZE / sizeof(uint64_t))

/* In each round each page changes hands. */
static inline void written_rounds(uint64_t (*pages)[WORDS], unsigned count, unsigned rounds)
{
	unsigned me = roam_node();

	for (unsigned round = 1; round <= rounds; round++) {
		for (unsigned i = 0; i < count; i++)
			pages[i][me] = round;
		must(roam_barrier_all());
		for (unsigned i = 0; i < count; i++)
			for (unsigned of = 0; of < NODES; of++)
				check(pages[i][of] == round);
		must(roam_barrier_all());
	}
}

#endif
