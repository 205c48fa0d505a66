/*
 * A program that is saved, killed and resumed.  A grid is relaxed for STEPS steps, a table of
 * counters in small blocks is changed under locks, a static of ROAM_SHARED counts, and a block is
 * freed and another one made before CREATE; the checksum at the end depends on every byte of it.
 *
 * usage: saved fork NODES STEPS [KILL_AT]    CREATE; or
 *        saved spmd STEPS [KILL_AT]          under a launcher
 *        saved whole DIR                     roam_save, roam_load and their errors
 *        saved cut DIR                       so, and a file is damaged
 *        saved own DIR                       a node other than 0 allocates; under a launcher
 *        saved large DIR                     so, a large block
 *        saved holds DIR                     a lock is held
 *        saved rounds STEPS [KILL_AT]        CREATE twice; killed in the second round
 *        saved bytes HOW                     private bytes: none, unequal, many, null
 *        saved cancelled DIR                 threads are cancelled while they save, and load
 */
#include <pthread.h>
#include <roam/roam.h>
#include <roam/save.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SIDE   130u
#define SMALL  50u
#define SPARSE ((size_t)64 << 20)

ROAM_SHARED static unsigned long total;

static double *grid, *next;
static unsigned *small[SMALL];
static unsigned char *sparse; /* touched in few pages */
static unsigned char *idle;   /* only main touches it: a resumed run finds what was saved */
static unsigned steps, kill_at;
static const char *how; /* the first argument, or the second */

static void check(enum roam_err err, const char *what)
{
	if (err == ROAM_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, roam_strerror(err));
	exit(3);
}

static void make(void)
{
	void *gone = roam_alloc(3000);

	grid = roam_alloc(SIDE * SIDE * sizeof(*grid));
	next = roam_alloc(SIDE * SIDE * sizeof(*next));
	sparse = roam_alloc(SPARSE);
	check(roam_free(gone), "free");
	for (unsigned i = 0; i < SMALL; i++)
		small[i] = roam_alloc(1 + i % 7 * sizeof(unsigned));
	idle = roam_alloc(3 * ROAM_PAGE_SIZE);
	if (grid == NULL || next == NULL || sparse == NULL || idle == NULL)
		exit(3);
}

static void fill(void)
{
	for (unsigned i = 0; i < SIDE; i++)
		grid[i] = next[i] = i;
	memset(idle, getenv("ROAM_RESUME") == NULL ? 7 : 8, 3 * ROAM_PAGE_SIZE);
}

static void relax(const double *from, double *to, unsigned me, unsigned nodes)
{
	for (unsigned y = 1 + me; y < SIDE - 1; y += nodes)
		for (unsigned x = 1; x < SIDE - 1; x++)
			to[y * SIDE + x] = (from[y * SIDE + x - 1] + from[y * SIDE + x + 1] +
					    from[(y - 1) * SIDE + x] + from[(y + 1) * SIDE + x]) /
					   4;
}

static void step(unsigned number, unsigned me, unsigned nodes)
{
	bool odd = number % 2 != 0;

	relax(odd ? next : grid, odd ? grid : next, me, nodes);
	for (unsigned i = me; i < SMALL; i += nodes) {
		check(roam_lock(small[i]), "lock");
		*small[i] += number * i;
		check(roam_unlock(small[i]), "unlock");
	}
	if (number % nodes == me) {
		check(roam_lock(&total), "lock");
		total += number * number;
		sparse[number * (size_t)409600 % SPARSE] += (unsigned char)(number + 1);
		check(roam_unlock(&total), "unlock");
	}
	check(roam_barrier_all(), "barrier");
}

/* Memory that was used and freed before the checkpoint is free, and zero, in a resumed run. */
static void use(unsigned char filler)
{
	unsigned char *block = roam_alloc(200);

	if (block == NULL)
		exit(3);
	for (unsigned i = 0; i < 200; i++)
		if (block[i] != 0) {
			fprintf(stderr, "a new block is not zero\n");
			exit(3);
		}
	memset(block, filler, 200);
	check(roam_free(block), "free");
}

static void work(void)
{
	struct { unsigned step, mine; } at = {0, 0};
	unsigned me = roam_node(), nodes = roam_nodes();

	if (me == 0 && roam_alloc(200) == NULL) /* beside those of use() */
		exit(3);
	if (getenv("SAVED_LIMIT") != NULL)
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000});
	if (roam_resume_point(&at, sizeof(at)) && me == 0)
		printf("resumed at %u\n", at.step);
	for (; at.step < steps; at.step++, at.mine += at.step) {
		if (at.step == 0 && me == 0)
			use(0xff);
		roam_resume_point(&at, sizeof(at));
		if (at.step == kill_at && me == nodes - 1)
			kill(getpid(), SIGKILL);
		step(at.step, me, nodes);
	}
	if (at.mine != steps * (steps + 1) / 2) {
		fprintf(stderr, "node %u: private bytes are wrong: %u\n", me, at.mine);
		exit(3);
	}
}

/* The first round of two, in which a run that was saved in the second one is not resumed. */
static void first_round(void)
{
	struct { unsigned step, mine; } at = {0, 0};

	for (; at.step < 3; at.step++) {
		if (roam_resume_point(&at, sizeof(at)))
			printf("resumed in the first round\n");
		step(at.step, roam_node(), roam_nodes());
	}
}

/* Each thread passes as many private bytes as `how` says. */
static void pass_bytes(void)
{
	static char state[2 * ROAM_RESUME_BYTES_MAX];
	size_t bytes = strcmp(how, "unequal") == 0 ? 8 + roam_node()
		       : strcmp(how, "many") == 0  ? sizeof(state)
		       : strcmp(how, "null") == 0  ? 1
						   : 0;

	for (unsigned i = 0; i < (getenv("ROAM_RESUME") == NULL ? 5 : 100); i++) {
		if (roam_resume_point(bytes <= 1 ? NULL : state, bytes) != (i == 0) &&
		    getenv("ROAM_RESUME") != NULL)
			printf("resumed at %u\n", i);
		check(roam_lock(&total), "lock");
		total++;
		check(roam_unlock(&total), "unlock");
	}
}

static int bytes(const char *kind)
{
	how = kind;
	make();
	if (roam_create_all(pass_bytes, 4) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 3;
	printf("%lu in all\n", total);
	return 0;
}

static unsigned long sum(void)
{
	unsigned long sum = total + idle[5000];
	const unsigned char *bytes = (const void *)grid;

	for (size_t i = 0; i < SIDE * SIDE * sizeof(*grid); i++)
		sum = sum * 31 + bytes[i] + ((const unsigned char *)next)[i];
	for (unsigned i = 0; i < SMALL; i++)
		sum = sum * 31 + *small[i];
	use(1);
	for (size_t i = 0; i < SPARSE; i += ROAM_PAGE_SIZE)
		sum = sum * 31 + sparse[i];
	return sum;
}

/* What the calls return where they cannot do it, and that a bad one changes nothing. */
static void whole_node(void)
{
	check(roam_barrier_all(), "barrier");
}

#define CANCELLED 20u

/* What is cancelled meanwhile ends when the call is over: the other node's call needs its end. */
static void *saves_cancelled(void *arg)
{
	check(roam_save(arg), "save");
	pthread_testcancel();
	return NULL;
}

static void *loads_cancelled(void *arg)
{
	check(roam_load(arg), "load");
	pthread_testcancel();
	return NULL;
}

static void cancelled_node(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < CANCELLED; i++) {
		if (pthread_create(&thread, NULL, i % 4 < 2 ? saves_cancelled : loads_cancelled,
				   (void *)(uintptr_t)how) != 0)
			exit(3);
		if (roam_node() == i % 2) {
			usleep(i * 100);
			pthread_cancel(thread);
		}
		if (pthread_join(thread, NULL) != 0)
			exit(3);
	}
}

static int cancelled(const char *directory)
{
	how = directory;
	make();
	fill();
	if (roam_create_all(cancelled_node, 2) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 3;
	printf("heap %s\n", grid[5] == 5 && idle[5000] == 7 ? "right" : "wrong");
	return 0;
}

/* A file of pages loses its end. */
static int cut(const char *directory)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/current/pages.0", directory);
	return truncate(path, 1000);
}

static int whole(const char *directory)
{
	make();
	fill();
	if (roam_create_all(whole_node, 2) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 3;
	total = 7;
	check(roam_save(directory), "save");
	total = 8;
	grid[5] = 99;
	sparse[12345] = 1;
	check(roam_load(directory), "load");
	if (total != 7 || grid[5] != 5 || sparse[12345] != 0)
		return 3;
	if (strcmp(how, "cut") == 0 ? cut(directory) != 0 : roam_alloc(100) == NULL)
		return 3;
	printf("load %d\n", roam_load(directory));
	return grid[5] == 5 ? 0 : 3;
}

/* Node 1 has blocks that a resumed run would not have; or holds a lock. */
static int refused(const char *directory)
{
	enum roam_err err;

	check(roam_start(), "start");
	make();
	check(roam_barrier_all(), "barrier");
	if (roam_node() == 1 && strcmp(how, "own") == 0)
		for (unsigned i = 0; i < 3; i++)
			if (roam_alloc(10 + 5000 * i) == NULL)
				exit(3);
	if (roam_node() == 1 && strcmp(how, "large") == 0 && roam_alloc((size_t)1 << 20) == NULL)
		exit(3);
	if (roam_node() == 1 && strcmp(how, "holds") == 0)
		check(roam_lock(grid), "lock");
	err = roam_save(directory);
	if (roam_node() == 1 && strcmp(how, "holds") == 0)
		check(roam_unlock(grid), "unlock");
	printf("save %d\n", err);
	return 0;
}

static int forked(unsigned nodes, bool twice)
{
	make();
	fill();
	if (twice && (roam_create_all(first_round, nodes) != ROAM_OK ||
		      roam_wait_for_end() != ROAM_OK))
		return 3;
	if (roam_create_all(work, nodes) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 3;
	printf("sum %lx\n", sum());
	return 0;
}

static int launched(void)
{
	check(roam_start(), "start");
	if (getenv("SAVED_CHDIR") != NULL && chdir("/") != 0)
		return 3;
	make();
	if (roam_node() == 0)
		fill();
	check(roam_barrier_all(), "barrier");
	work();
	check(roam_barrier_all(), "barrier");
	if (roam_node() == 0)
		printf("sum %lx\n", sum());
	return 0;
}

int main(int argc, char **argv)
{
	int at = argc > 3 && strcmp(argv[1], "fork") == 0 ? 3 : 2;

	if (argc <= at)
		return 2;
	how = argv[1];
	if (strcmp(how, "whole") == 0 || strcmp(how, "cut") == 0)
		return whole(argv[2]);
	if (strcmp(how, "cancelled") == 0)
		return cancelled(argv[2]);
	if (strcmp(how, "bytes") == 0)
		return bytes(argv[2]);
	if (strcmp(how, "own") == 0 || strcmp(how, "large") == 0 || strcmp(how, "holds") == 0)
		return refused(argv[2]);
	steps = (unsigned)atoi(argv[at]);
	kill_at = argc > at + 1 ? (unsigned)atoi(argv[at + 1]) : ~0u;
	if (strcmp(how, "rounds") == 0)
		return forked(2, true);
	return strcmp(how, "fork") == 0 ? forked((unsigned)atoi(argv[2]), false) : launched();
}
