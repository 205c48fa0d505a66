/*
 * Shows that a thread whose load is interrupted for good leaves the page usable.
 * cancel WHAT NODES: threads of every node read pages of the others and are
 *	deferred, asynchronous	cancelled meanwhile
 *	longjmp	thrown out by a timer's handler
 * cancel stopped 3: two nodes read a page of node 2, which is stopped, for ever
 */
#include "multi.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGES  64u
#define ROUNDS 20u
#define WORDS  (ROAM_PAGE_SIZE / sizeof(uint64_t))

static uint64_t (*pages)[WORDS];
static char barrier;
static unsigned nodes;
static const char *what;
static sigjmp_buf out;

static uint64_t sum(void)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < PAGES; i++)
		for (unsigned of = 0; of < nodes; of++)
			all += *(volatile uint64_t *)&pages[i][of];
	return all;
}

static void *reader(void *arg)
{
	int before;

	if (strcmp(what, "asynchronous") == 0)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	sum();
	return arg;
}

static void tick(int number)
{
	(void)number;
	siglongjmp(out, 1);
}

static void cancelled(unsigned round)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, reader, NULL) == 0);
	usleep(round % 8 * 50);
	pthread_cancel(thread);
	check(pthread_join(thread, NULL) == 0);
}

static void jumped(unsigned round)
{
	struct itimerval soon = {{0, 0}, {0, 1 + round % 8 * 50}}, never = {{0, 0}, {0, 0}};

	if (sigsetjmp(out, 1) == 0) {
		setitimer(ITIMER_REAL, &soon, NULL);
		sum();
		setitimer(ITIMER_REAL, &never, NULL);
		while (setitimer(ITIMER_REAL, &never, NULL) != 0)
			continue;
	}
}

static void hang(void)
{
	if (roam_node() == 2)
		pages[0][0] = 1;
	must(roam_barrier(&barrier, nodes));
	printf("ready %u %d\n", roam_node(), (int)getpid());
	fflush(stdout);
	if (roam_node() == 2)
		kill(getpid(), SIGSTOP);
	usleep(50000); /* until node 2 is stopped */
	check(pages[0][0] == 1);
}

static void node_main(void)
{
	struct sigaction action = {.sa_handler = tick};

	sigaction(SIGALRM, &action, NULL);
	if (strcmp(what, "stopped") == 0)
		hang();
	for (unsigned round = 1; round <= ROUNDS; round++) {
		for (unsigned i = 0; i < PAGES; i++)
			pages[i][roam_node()] = round;
		must(roam_barrier(&barrier, nodes));
		if (strcmp(what, "longjmp") == 0)
			jumped(round);
		else
			cancelled(round);
		check(sum() == (uint64_t)round * PAGES * nodes);
		must(roam_barrier(&barrier, nodes));
	}
}

int main(int argc, char **argv)
{
	check(argc == 3);
	what = argv[1];
	nodes = number(argv[2]);
	must(roam_start());
	pages = must_alloc(PAGES * sizeof(*pages));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	printf("loads right\n");
	return 0;
}
