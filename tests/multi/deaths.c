/*
 * Shows nothing by itself: a job in which one node comes to a bad end while the others wait or
 * compute.
 * deaths START NODES WHO HOW OTHERS
 *	START   fork: roam_create_all; run: under roam run
 *	WHO     the node that HOW happens to
 *	HOW     kill, abort, exit3, exit0, _exit0, _exit3, null, wild, beyond, leap,
 *		first0 (exit(0) while the others are still far from waiting),
 *		never (it sleeps, for signals from outside),
 *		finish (roam_finish, then its function returns), pthread (pthread_exit),
 *		beside0 (another thread of it calls exit(0) while its function returns),
 *		inside0 (another thread of it calls exit(0), and the function waits for it),
 *		flush0 (its function returns; its process ends, status 0, when output is flushed)
 *	OTHERS  barrier, partial, lock, late (lock, once WHO has ended), flag, cond, reduce,
 *		compute, end (they return and serve), slow (they return late)
 * Each node prints "ready NODE PID" once all run.
 */
#include "multi.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static unsigned nodes, who;
static const char *how, *others;
static volatile uint64_t *shared;
static uint64_t barrier, lock, flag, cond, other_lock; /* names only */

static void *exit_beside(void *arg)
{
	(void)arg;
	exit(0);
}

static ssize_t exit_flushing(void *cookie, const char *text, size_t bytes)
{
	(void)cookie;
	(void)text;
	(void)bytes;
	_exit(0);
}

/*
 * Ends that harm nobody.  Returns whether `how` is one of those after which the function returns.
 */
static int end_well(void)
{
	pthread_t thread;
	FILE *file;

	if (strcmp(how, "pthread") == 0)
		pthread_exit(NULL);
	if (strcmp(how, "finish") == 0)
		return roam_finish() == ROAM_OK;
	if (strcmp(how, "beside0") == 0)
		return pthread_create(&thread, NULL, exit_beside, NULL) == 0;
	if (strcmp(how, "inside0") == 0) {
		check(pthread_create(&thread, NULL, exit_beside, NULL) == 0);
		pthread_join(thread, NULL);
	}
	if (strcmp(how, "flush0") == 0) {
		file = fopencookie(NULL, "w", (cookie_io_functions_t){.write = exit_flushing});
		check(file != NULL && fputs("x", file) >= 0);
		return 1;
	}
	return 0;
}

static void end_badly(void)
{
	static const uint64_t wild = 0x123456789000;

	if (strcmp(how, "kill") == 0)
		kill(getpid(), SIGKILL);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "exit3") == 0)
		exit(3);
	if (strcmp(how, "exit0") == 0 || strcmp(how, "first0") == 0)
		exit(0);
	if (strcmp(how, "_exit0") == 0)
		_exit(0);
	if (strcmp(how, "_exit3") == 0)
		_exit(3);
	if (strcmp(how, "null") == 0)
		*(volatile int *)(uintptr_t)getenv("NO_SUCH_VARIABLE") = 1;
	if (strcmp(how, "wild") == 0)
		*(volatile int *)(uintptr_t)wild = 1;
	if (strcmp(how, "beyond") == 0)
		*(volatile char *)((uintptr_t)shared + strtoull(getenv("BEYOND"), NULL, 0)) = 1;
	if (strcmp(how, "leap") == 0)
		((void (*)(void))(uintptr_t)shared)();
	for (;;)
		pause();
}

static void do_other(void)
{
	double values[2] = {1, 2};

	if (strcmp(others, "barrier") == 0)
		must(roam_barrier_all());
	if (strcmp(others, "partial") == 0)
		must(roam_barrier(&barrier, nodes));
	if (strcmp(others, "lock") == 0)
		must(roam_lock(&lock));
	if (strcmp(others, "late") == 0) {
		usleep(300000);
		must(roam_lock(&lock));
	}
	if (strcmp(others, "flag") == 0)
		must(roam_flag_wait(&flag));
	if (strcmp(others, "cond") == 0) {
		must(roam_lock(&other_lock));
		must(roam_cond_wait(&cond, &other_lock));
	}
	if (strcmp(others, "reduce") == 0)
		must(roam_reduce(values, 2, ROAM_DOUBLE, ROAM_SUM));
	if (strcmp(others, "compute") == 0)
		for (;;)
			shared[64 * roam_node()]++;
}

/* Whether the main thread of a process sleeps, which means, here, that it waits. */
static int sleeps(long pid)
{
	char path[64], stat[512] = "";
	const char *end;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	if (fgets(stat, sizeof(stat), file) == NULL)
		stat[0] = '\0';
	fclose(file);
	end = strrchr(stat, ')');
	return end != NULL && end[2] == 'S';
}

/* Waits until the other nodes wait, unless they compute. */
static void await_others(void)
{
	for (unsigned node = 0; node < nodes; node++)
		for (int i = 0; node != who && strcmp(others, "compute") != 0 && i < 10000 &&
				!sleeps((long)shared[64 * node + 1]);
		     i++)
			usleep(1000);
	usleep(20000);
}

static void node_main(void)
{
	char line[64];
	int length;

	shared[64 * roam_node()] = 1;
	shared[64 * roam_node() + 1] = (uint64_t)getpid();
	if (roam_node() == who && (strcmp(others, "lock") == 0 || strcmp(others, "late") == 0))
		must(roam_lock(&lock));
	must(roam_barrier_all());
	length = snprintf(line, sizeof(line), "ready %u %d\n", roam_node(), (int)getpid());
	if (write(STDOUT_FILENO, line, (size_t)length) != length)
		exit(WRONG);
	must(roam_barrier_all());
	if (roam_node() != who) {
		if (strcmp(how, "first0") == 0 || strcmp(others, "slow") == 0)
			usleep(300000);
		do_other();
		return;
	}
	if (strcmp(how, "first0") != 0)
		await_others();
	if (!end_well())
		end_badly();
}

int main(int argc, char **argv)
{
	check(argc == 6);
	nodes = number(argv[2]);
	who = number(argv[3]);
	how = argv[4];
	others = argv[5];
	must(strcmp(argv[1], "fork") == 0 ? roam_start_main() : roam_start());
	shared = must_alloc(64 * 8 * nodes);
	must(roam_lock_init(&lock));
	must(roam_lock_init(&other_lock));
	must(roam_cond_init(&cond));
	if (strcmp(argv[1], "fork") == 0)
		must(roam_create_all(node_main, nodes));
	else
		node_main();
	must(roam_finish());
	return 0;
}
