/*
 * A program that keeps its memory from being swapped, as those do that must answer in time: the
 * uffd engine could not take access away from locked pages, and the job ended.
 * Nor could roam empty them: the next round began with the messages of the round before.
 * locked ROUNDS; says "skip" where it may lock no memory
 */
#include <errno.h>
#include <sys/mman.h>

#include "written.h"

#define PAGES 16u

static uint64_t (*pages)[WORDS];
static unsigned rounds;

static void node_main(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
		check(errno == EPERM || errno == ENOMEM || errno == EAGAIN);
		if (roam_node() == 0)
			printf("skip: locked: %s\n", strerror(errno));
	}
	written_rounds(pages, PAGES, rounds);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	rounds = number(argv[1]);
	pages = must_alloc(PAGES * sizeof(*pages));
	for (unsigned job = 0; job < 3; job++) {
		must(roam_create_all(node_main, NODES));
		must(roam_wait_for_end());
		if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
			check(errno == EPERM || errno == ENOMEM || errno == EAGAIN);
	}
	return 0;
}
