/*
 * Slips that are told in one line each, for run.py.
 * slips HOW: twice, unregistered (threads), fork, fork_alone (a child touches the heap), ignores
 * (that nothing was allocated), exits, exits_first (the function ends by pthread_exit, which is no
 * slip of nodes above 0).
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi.h"

static const char *how;
static int *shared;

static void *unregistered(void *arg)
{
	must_fail(roam_thread_fini(), ROAM_ESTATE);
	return arg;
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

static void node_main(void)
{
	pthread_t thread;

	must(roam_barrier_all());
	if (strcmp(how, "twice") == 0 && roam_node() == 1)
		must_fail(roam_thread_init(), ROAM_ESTATE);
	if (strcmp(how, "unregistered") == 0 && roam_node() == 1) {
		check(pthread_create(&thread, NULL, unregistered, NULL) == 0);
		check(pthread_join(thread, NULL) == 0);
	}
	if (strcmp(how, "fork") == 0 && roam_node() == 1)
		fork_touches();
	must(roam_barrier_all()); /* no thread more or less is counted */
	if (strcmp(how, roam_node() == 0 ? "exits_first" : "exits") == 0)
		pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	check(argc == 2);
	how = argv[1];
	shared = roam_alloc(sizeof(*shared));
	*shared = 1;
	if (strcmp(how, "fork_alone") == 0)
		fork_touches();
	must(roam_create_all(node_main, 2));
	must(roam_wait_for_end());
	printf("it went on\n");
	return 0;
}
