/*
 * Spins for a holder that has lost its processor, or is stopped: they leave the processor to
 * others, and soon see the end.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/wait.h"
#include "unit.h"

#define HELD_NS 400000000u
#define RAN_MAX_NS 60000000u
#define LATE_MAX_NS 20000000u /* a spin sleeps for 2 ms at most */
#define TRIES 8                /* on a busy machine the first spins may be late, but not all */

/* The processor time, in ns, of a process that spins until another one lets go. */
static uint64_t spin_ran(bool fits, uint64_t *late_p)
{
	struct roami_spin *spin = mmap(NULL, sizeof(*spin), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct roami_node *node = calloc(1, sizeof(*node));
	struct roami_real *real = calloc(1, sizeof(*real));
	uint64_t start = roami_os_now_ns();
	struct rusage usage;
	pid_t child;

	real->fits = fits;
	node->env = &roami_env_real;
	node->env_state = real;
	roami_spin_lock(node, spin);
	child = fork();
	if (child == 0) {
		roami_spin_lock(node, spin);
		_exit(0);
	}
	usleep(HELD_NS / 1000);
	roami_spin_unlock(spin);
	CU_ASSERT_EQUAL(wait4(child, NULL, 0, &usage), child);
	*late_p = roami_os_now_ns() - start - HELD_NS;
	free(real);
	free(node);
	munmap(spin, sizeof(*spin));
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

static void test_sleeps(void)
{
	for (int fits = 0; fits < 2; fits++) {
		uint64_t late, least = UINT64_MAX;

		for (int try = 0; try < TRIES && least >= LATE_MAX_NS; try++) {
			CU_ASSERT(spin_ran(fits != 0, &late) < RAN_MAX_NS);
			if (late < least)
				least = late;
		}
		CU_ASSERT(least < LATE_MAX_NS);
	}
}

static CU_TestInfo tests[] = {
	{"sleeps, and wakes soon", test_sleeps},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("spin", tests, argc, argv);
}
