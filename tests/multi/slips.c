/*
 * Slips that are told in one line each, for starting.py.
 * slips HOW: twice, unregistered (threads), fork, fork_alone, fork_over (a child touches the heap),
 * fork_calls (it, and its child, call roam), fork_within (it returns into a call), ignores
 * (that nothing was allocated), exits, exits_first (the function ends by pthread_exit, which is no
 * slip of nodes above 0), wrlock, rdlock, once (by the thread that is in the section), realloc (of
 * no block), counts (a barrier for two threads and for three), registers (one more thread on node 1
 * than was counted), late (touches the heap after roam_finish), late_node (in the function),
 * tx (under a protocol without transactions).
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <roam/tx.h>

#include "multi.h"

#define LATE_US 300000u

static const char *how;
static int *shared;

static void *unregistered(void *arg)
{
	must_fail(roam_thread_fini(), ROAM_ESTATE);
	return arg;
}

static void calls(void)
{
	uint64_t soon = roam_clock_us() + LATE_US;

	must_fail(roam_lock(shared), ROAM_ESTATE);
	must_fail(roam_lock_until(shared, soon), ROAM_ESTATE);
	must_fail(roam_barrier_all(), ROAM_ESTATE);
	must_fail(roam_wait_for_end(), ROAM_ESTATE);
	must_fail(roam_free(shared), ROAM_ESTATE);
	must_fail(roam_touch(shared, 4, ROAM_READ), ROAM_ESTATE);
	check(roam_alloc(64) == NULL && roam_errno() == ROAM_ESTATE);
	check(roam_root("a", 64, ROAM_WRITE) == NULL && roam_errno() == ROAM_ESTATE);
	check(roam_counter("faults_read") == 0);
	must(roam_finish());
}

static void fork_touches(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		shared[0] = 1;
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGSEGV);
}

/* A child that calls roam, touches the heap by a child of its own, and ends in order. */
static void *fork_calls(void *arg)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		calls();
		if (arg == NULL)
			fork_touches();
		exit(0);
	}
	check(waitpid(pid, &status, 0) == pid && status == 0);
	return arg;
}

/* The child goes back into roam_tx. */
static void forks(void *arg)
{
	*(pid_t *)arg = fork();
}

static void fork_within(void)
{
	pid_t pid = 0;
	int status;

	must(roam_tx(forks, &pid, NULL));
	check(pid > 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	      WTERMSIG(status) == SIGSEGV);
}

static void forks_more(void)
{
	pthread_t thread;

	if (strcmp(how, "fork_within") == 0)
		fork_within();
	if (strcmp(how, "fork_calls") != 0)
		return;
	check(pthread_create(&thread, NULL, fork_calls, shared) == 0);
	check(pthread_join(thread, NULL) == 0);
	fork_calls(NULL);
}

static void again(void)
{
	must_fail(roam_once((uint32_t *)shared, again), ROAM_ESTATE);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Slips in calls that are built from others. */
static void built(void)
{
	struct roam_rwlock *rwlock = (void *)(shared + 8);

	if (strcmp(how, "tx") == 0)
		for (unsigned i = 0; i < 2; i++)
			must_fail(roam_tx(nothing, NULL, NULL), ROAM_EUNSUPPORTED);
	if (strcmp(how, "once") == 0)
		must(roam_once((uint32_t *)shared, again));
	if (strcmp(how, "realloc") == 0)
		check(roam_realloc((int *)must_alloc(64) + 1, 4, 8) == NULL);
	if (strcmp(how, "wrlock") != 0 && strcmp(how, "rdlock") != 0)
		return;
	must(roam_wrlock(rwlock));
	must_fail(strcmp(how, "wrlock") == 0 ? roam_wrlock(rwlock) : roam_rdlock(rwlock),
		  ROAM_ESTATE);
	must(roam_rwunlock(rwlock));
}

static void *registers(void *arg)
{
	must(roam_thread_init());
	sleep(5); /* the job ends before this */
	return arg;
}

/* Node 1 arrives last. */
static void counts(void)
{
	pthread_t thread;

	if (roam_node() == 1)
		usleep(LATE_US);
	if (strcmp(how, "registers") == 0 && roam_node() == 1)
		check(pthread_create(&thread, NULL, registers, NULL) == 0 && usleep(LATE_US) == 0);
	if (strcmp(how, "counts") == 0)
		must(roam_barrier(shared, 2 + roam_node()));
}

static void node_main(void)
{
	pthread_t thread;

	must(roam_barrier_all());
	if (strcmp(how, "twice") == 0 && roam_node() == 1)
		must_fail(roam_thread_init(), ROAM_ESTATE);
	if (strcmp(how, "counts") == 0 || strcmp(how, "registers") == 0)
		counts();
	if (strcmp(how, "unregistered") == 0 && roam_node() == 1) {
		check(pthread_create(&thread, NULL, unregistered, NULL) == 0);
		check(pthread_join(thread, NULL) == 0);
	}
	if (strcmp(how, "fork") == 0 && roam_node() == 1)
		fork_touches();
	if (roam_node() == 1)
		forks_more();
	if (roam_node() == 1)
		built();
	must(roam_barrier_all()); /* other threads are neither added nor removed */
	if (strcmp(how, "late_node") == 0 && roam_node() == 1) {
		must(roam_finish());
		shared[0] = 2;
		check(shared[0] == 2);
	}
	if (strcmp(how, roam_node() == 0 ? "exits_first" : "exits") == 0)
		pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	how = argv[1];
	shared = roam_alloc(64 * sizeof(*shared));
	*shared = strcmp(how, "once") != 0;
	if (strcmp(how, "fork_alone") == 0)
		fork_touches();
	must(roam_create_all(node_main, 2));
	must(roam_wait_for_end());
	if (strcmp(how, "fork_over") == 0) {
		must(roam_finish());
		fork_touches();
	}
	if (strcmp(how, "late") == 0) {
		must(roam_finish());
		shared[0] = 2;
		check(shared[0] == 2);
	}
	printf("it went on\n");
	return 0;
}
