/*
 * Shows that a program whose first thread ends by pthread_exit goes on until its last thread ends,
 * and then ends as by exit(0): each node prints "node N: T done" when a thread is done and "node N
 * ends" in its exit handler.
 * last WAY WHO HOW
 *	WAY   run: under a launcher; fork: roam_create makes four processes
 *	WHO   the node that HOW happens to, the others return from main; or all
 *	HOW   only (no other thread), threads (two more, which go on to use the heap),
 *	      joins (a thread waits for the first one's end before), finished (roam_finish before),
 *	      stuck (a thread waits for what cannot come), waits (no other thread, and the other
 *	      nodes wait for what cannot come), serves (programs may attach); on all nodes: aside
 *	      (the first thread never calls roam, another does), late (and the first thread ends
 *	      after it)
 */
#include "multi.h"

#include <pthread.h>
#include <roam/pastset.h>
#include <unistd.h>

#define LATE_US 200000u
#define ADDS    100u

static const char *way, *who, *how;
static volatile unsigned *shared;
static pthread_t first;

static void say(const char *text)
{
	char line[64];
	int length = snprintf(line, sizeof(line), "node %u%s\n", roam_node(), text);

	check(write(STDOUT_FILENO, line, (size_t)length) == length);
}

static void ends(void)
{
	say(" ends");
}

static void add(void)
{
	must(roam_lock((void *)shared));
	shared[0]++;
	must(roam_unlock((void *)shared));
}

static int mine(void)
{
	return strcmp(who, "all") == 0 || number(who) == roam_node();
}

static void *adds(void *arg)
{
	usleep(LATE_US); /* the first thread is gone by then */
	for (unsigned i = 0; i < ADDS; i++)
		add();
	say(": a thread done");
	return arg;
}

static void *joins(void *arg)
{
	check(pthread_join(first, NULL) == 0);
	return adds(arg);
}

static void *stuck(void *arg)
{
	must(roam_thread_init());
	must(roam_flag_wait((void *)(shared + 1)));
	return arg;
}

static void thread(void *(*fn)(void *arg))
{
	pthread_t made;

	check(pthread_create(&made, NULL, fn, NULL) == 0);
}

static void begin(void)
{
	if (strcmp(way, "run") == 0)
		must(roam_start());
	else
		must(roam_start_main());
	check(atexit(ends) == 0);
	shared = must_alloc(4096);
}

static void node_main(void)
{
	add();
}

static void create(void)
{
	for (unsigned i = 1; strcmp(way, "fork") == 0 && i < 4; i++)
		must(roam_create(node_main));
	add();
}

static void *aside(void *arg)
{
	usleep(LATE_US / 2);
	begin();
	create();
	return adds(arg);
}

static void leave(void)
{
	if (strcmp(how, "finished") == 0)
		must(roam_finish());
	if (strcmp(how, "serves") == 0)
		must(roam_ps_serve("127.0.0.1:0", NULL, NULL, 0));
	if (strcmp(how, "threads") == 0)
		thread(adds);
	if (strcmp(how, "threads") == 0)
		thread(adds);
	if (strcmp(how, "joins") == 0)
		thread(joins);
	if (strcmp(how, "stuck") == 0)
		thread(stuck);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	pthread_t other;

	check(argc == 4);
	way = argv[1];
	who = argv[2];
	how = argv[3];
	first = pthread_self();
	if (strcmp(how, "aside") == 0 || strcmp(how, "late") == 0) {
		check(pthread_create(&other, NULL, aside, NULL) == 0);
		if (strcmp(how, "late") == 0)
			pthread_join(other, NULL);
		pthread_exit(NULL);
	}
	begin();
	create();
	if (mine())
		leave();
	if (strcmp(how, "waits") == 0)
		must(roam_flag_wait((void *)(shared + 1)));
	return 0;
}
