/*
 * Shows that a job that waits takes no CPU: after some synchronisation every node sleeps for two
 * seconds, in its own program and, node 0 excepted, at a barrier.  idle NODES
 */
#include "multi.h"

#include <sys/resource.h>
#include <unistd.h>

#define QUIET_US 500000
#define IDLE_S   2
#define CPU_US   20000 /* 1 % */

static volatile int *shared;

static long cpu_us(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000 + use.ru_utime.tv_usec +
	       use.ru_stime.tv_usec;
}

static void idle_main(void)
{
	unsigned me = roam_node();
	long start;

	for (int i = 0; i < 100; i++) {
		shared[me * 1024] += i;
		must(roam_barrier_all());
	}
	usleep(QUIET_US);
	printf("ready %u %d\n", me, (int)getpid());
	fflush(stdout);
	start = cpu_us();
	if (me == 0)
		sleep(IDLE_S);
	must(roam_barrier_all());
	start = cpu_us() - start;
	printf("node %u: %ld us of CPU\n", me, start);
	check(start < CPU_US);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	must(roam_start());
	shared = must_alloc(64 * 4096);
	must(roam_create_all(idle_main, argc > 1 ? (unsigned)atoi(argv[1]) : 2));
	must(roam_wait_for_end());
	return 0;
}
