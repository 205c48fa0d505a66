/*
 * Statics in the shared heap (ROAM_SHARED), of two files and a library: section HOW PROCS.  HOW:
 * fork: roam_create_all, two rounds; spmd: main on every node, after roam_start; either: main on
 * every node, but roam learns of it late; touch: a child that the program forks touches one; sync:
 * reads one by a system call; race: all add to one, which nothing orders; stuck: all wait for
 * others.
 */
#include "section.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <roam/roam.h>

#define BIG 100000

struct link {
	struct link *next;
	long value;
};

static long own_before = 11; /* private neighbours in the data segment */
ROAM_SHARED static long counter = 5;
ROAM_SHARED double view[3] = {1, 2, 3};
ROAM_SHARED static char big[BIG];
ROAM_SHARED static struct link *root;
ROAM_SHARED static long lock_here, meet_here; /* names of a lock and a barrier */
ROAM_SHARED static long first_pid;             /* differs between nodes until roam starts */
ROAM_SHARED static unsigned failed;
static long own_after = 12;
static long own_zero;
static char own_room[5000];

static long procs;

static void expect(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "section: node %u: failed: %s\n", roam_node(), what);
	roam_lock(&failed);
	failed++;
	roam_unlock(&failed);
}

#define EXPECT(holds) expect((holds) != 0, #holds)
#define WRONG(what)   expect(0, what)

static long calls(void)
{
	ROAM_SHARED static long made = 100;

	return made++;
}

/* Private statics around the section keep each node's values. */
static void neighbours(long me)
{
	EXPECT(own_before == 11 && own_after == 12);
	own_before = own_after = own_zero = me;
	memset(own_room, (int)me, sizeof(own_room));
	roam_barrier(&meet_here, (unsigned)procs);
	EXPECT(own_before == me && own_after == me && own_zero == me);
	for (size_t i = 0; i < sizeof(own_room); i++)
		if (own_room[i] != (char)me)
			WRONG("a private array is private");
	own_before = 11;
	own_after = 12;
}

static void add(long me)
{
	struct link *link;

	for (long i = 0; i < 50; i++) {
		roam_lock(&lock_here);
		counter++;
		section_other_add(2);
		section_library_add(3);
		calls();
		if (i == 0) {
			link = roam_alloc(sizeof(*link));
			link->next = root;
			link->value = me;
			root = link;
		}
		roam_unlock(&lock_here);
	}
	for (long i = me; i < BIG; i += procs)
		big[i] = (char)(i % 100 + 1);
}

static void work(void)
{
	long me = (long)roam_node(), links = 0;

	EXPECT(view[0] == 1 && view[2] == 3); /* before any synchronisation */
	EXPECT(section_other_name()[0] == 'o');
	add(me);
	roam_barrier(&meet_here, (unsigned)procs);
	EXPECT(me != 0 || first_pid == getpid());
	EXPECT(me == 0 || first_pid != getpid());
	neighbours(me);
	roam_barrier(&meet_here, (unsigned)procs);
	for (long i = 0; i < BIG; i++)
		if (big[i] != (char)(i % 100 + 1))
			WRONG("bytes of all nodes");
	for (const struct link *link = root; link != NULL; link = link->next)
		links++;
	EXPECT(links % procs == 0 && links > 0);
	roam_barrier(&meet_here, (unsigned)procs);
	if (me == procs - 1)
		view[1] = 22;
	roam_barrier(&meet_here, (unsigned)procs);
	EXPECT(view[1] == 22);
}

static void check(long rounds)
{
	long all = 50 * procs * rounds;

	EXPECT(counter == 6 + all);
	EXPECT(section_other_add(0) == 70 + 2 * all);
	EXPECT(section_library_add(0) == 1000 + 3 * all);
	roam_lock(&lock_here);
	EXPECT(calls() == 100 + all + rounds - 1); /* this call does */
	roam_unlock(&lock_here);
}

static void forks(void)
{
	for (long round = 1; round <= 2; round++) {
		if (roam_create_all(work, (unsigned)procs) || roam_wait_for_end())
			exit(3);
		EXPECT(view[1] == 22);
		check(round);
		EXPECT(system("true") == 0);
		roam_lock(&lock_here);
		root = NULL;
		memset(big, 0, sizeof(big));
		view[1] = 2;
		roam_unlock(&lock_here);
		section_reset();
		if (getenv("ROAM_BOOT") != NULL)
			return;
	}
}

/* Called in main on every node. */
static void everywhere(void)
{
	work();
	roam_barrier_all();
	if (roam_node() == 0)
		check(1);
	roam_barrier_all();
}

static void touch(void)
{
	pid_t child;
	int status;

	if (roam_create_all(work, (unsigned)procs))
		exit(3);
	child = fork();
	if (child == 0)
		_exit((int)counter);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
		exit(4);
	roam_wait_for_end();
}

static void reads(void)
{
	int fd = open("/dev/zero", O_RDONLY);

	roam_barrier(&meet_here, (unsigned)procs);
	if (roam_node() == 1) {
		EXPECT(roam_read(fd, big, BIG) == BIG);
		EXPECT(roam_touch(view, sizeof(view), ROAM_WRITE) == ROAM_OK);
		EXPECT(roam_home(big, 4096, 0) == ROAM_OK);
		EXPECT(roam_touch(own_room, 1, ROAM_READ) == ROAM_ENOTOURS);
	}
	roam_barrier(&meet_here, (unsigned)procs);
	for (long i = 0; i < BIG; i++)
		if (big[i] != 0)
			WRONG("what a system call has read");
	close(fd);
}

static void races(void)
{
	roam_barrier(&meet_here, (unsigned)procs);
	view[1] += 1 + roam_node();
	roam_barrier(&meet_here, (unsigned)procs);
}

static void stuck(void)
{
	if (roam_node() == 0)
		roam_lock(&lock_here);
	roam_barrier_all();
	if (roam_node() != 0)
		roam_lock(&lock_here);
	roam_barrier(&meet_here, (unsigned)procs);
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[1] : "";

	procs = argc > 2 ? atol(argv[2]) : 1;
	counter++; /* before roam starts it is an ordinary static */
	first_pid = getpid();
	if (strcmp(how, "spmd") == 0) {
		if (roam_start())
			return 2;
		everywhere();
	} else if (strcmp(how, "either") == 0) {
		if (roam_alloc(100) == NULL)
			return 2;
		everywhere();
	} else if (strcmp(how, "touch") == 0) {
		touch();
	} else if (strcmp(how, "sync") == 0) {
		memset(big, 1, sizeof(big));
		if (roam_create_all(reads, (unsigned)procs) || roam_wait_for_end())
			return 3;
	} else if (strcmp(how, "race") == 0 || strcmp(how, "stuck") == 0) {
		if (roam_create_all(how[0] == 'r' ? races : stuck, (unsigned)procs) ||
		    roam_wait_for_end())
			return 3;
	} else {
		if (roam_start_main())
			return 2;
		forks();
	}
	if (roam_node() == 0 && strcmp(how, "touch") != 0)
		printf("section: %s\n", failed == 0 ? "ok" : "FAILED");
	roam_finish();
	counter++; /* and after roam's end, too */
	return failed != 0 || view[2] != 3;
}
