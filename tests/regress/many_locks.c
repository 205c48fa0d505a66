/*
 * A job that used more than 2^20 locks ended.
 *
 * many_locks COUNT: one thread takes and frees so many locks, each once.
 */
#include <stdlib.h>

#include "../multi/multi.h"

#define APART 64u

static char *locks;
static unsigned long count;

static void node_main(void)
{
	for (unsigned long i = 0; i < count; i++) {
		must(roam_lock(locks + i * APART));
		must(roam_unlock(locks + i * APART));
	}
}

int main(int argc, char **argv)
{
	check(argc == 2);
	count = strtoul(argv[1], NULL, 10);
	locks = must_alloc(count * APART);
	must(roam_create_all(node_main, 1));
	must(roam_wait_for_end());
	return 0;
}
