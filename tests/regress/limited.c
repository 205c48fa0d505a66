/*
 * A program that limits the size of its files after the start: the limit holds for the heap's
 * memory, too, and the next fetch of a page ended its node by SIGXFSZ.
 * limited ROUNDS
 */
#include <sys/resource.h>

#include "written.h"

#define PAGES 64u

static uint64_t (*pages)[WORDS];
static unsigned rounds;

static void node_main(void)
{
	const struct rlimit limit = {ROAM_PAGE_SIZE, ROAM_PAGE_SIZE};

	check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	written_rounds(pages, PAGES, rounds);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	rounds = number(argv[1]);
	pages = must_alloc(PAGES * sizeof(*pages));
	must(roam_create_all(node_main, NODES));
	must(roam_wait_for_end());
	return 0;
}
