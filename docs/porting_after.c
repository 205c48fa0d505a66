/*
 * docs/porting_before.c, ported as docs/porting.md says: what threads shared as statics is a struct
 * in the heap, and each call of POSIX threads is its counterpart.  porting_after NODES, 2 at least;
 * under `roam run -n NODES`, on one host or several; with ROAM_THREADS=2.
 */
#include <roam/roam.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS   3000u
#define ROOM   16u
#define CHAINS 64u
#define ROWS   64u
#define COLS   512u
#define STEPS  40u

struct queue {
	char lock, filled, emptied; /* names: their bytes are never used */
	unsigned items[ROOM], head, count;
	int closed;
};

struct entry {
	unsigned key, times;
	struct entry *next;
};

struct chain {
	char lock;
	struct entry *first;
};

/* What threads shared as statics; zero at first, as those. */
struct shared {
	struct queue queue;
	struct chain chains[CHAINS];
	double grids[2][ROWS + 2][COLS];
};

static struct shared *shared; /* set before the nodes exist: each has it */
static unsigned threads;

/* ---------------------------------------------------------------------------------- the queue */

static void queue_put(unsigned item)
{
	roam_lock(&shared->queue.lock);
	while (shared->queue.count == ROOM)
		roam_cond_wait(&shared->queue.emptied, &shared->queue.lock);
	shared->queue.items[(shared->queue.head + shared->queue.count++) % ROOM] = item;
	roam_cond_signal(&shared->queue.filled);
	roam_unlock(&shared->queue.lock);
}

static void queue_close(void)
{
	roam_lock(&shared->queue.lock);
	shared->queue.closed = 1;
	roam_cond_broadcast(&shared->queue.filled);
	roam_unlock(&shared->queue.lock);
}

/* 0: closed and empty. */
static int queue_take(unsigned *item)
{
	int found;

	roam_lock(&shared->queue.lock);
	while (shared->queue.count == 0 && !shared->queue.closed)
		roam_cond_wait(&shared->queue.filled, &shared->queue.lock);
	found = shared->queue.count > 0;
	if (found) {
		*item = shared->queue.items[shared->queue.head++ % ROOM];
		shared->queue.count--;
		roam_cond_signal(&shared->queue.emptied);
	}
	roam_unlock(&shared->queue.lock);
	return found;
}

/* ---------------------------------------------------------------------------------- the table */

static void table_count(unsigned key)
{
	struct chain *chain = &shared->chains[key % CHAINS];
	struct entry *entry;

	roam_lock(&chain->lock);
	for (entry = chain->first; entry != NULL && entry->key != key; entry = entry->next)
		;
	if (entry == NULL) {
		entry = roam_alloc(sizeof(*entry));
		*entry = (struct entry){key, 0, chain->first};
		chain->first = entry;
	}
	entry->times++;
	roam_unlock(&chain->lock);
}

/* How many steps n takes to 1 in Collatz's sequence. */
static unsigned collatz(unsigned long n)
{
	unsigned steps = 0;

	for (; n != 1; steps++)
		n = n % 2 == 0 ? n / 2 : 3 * n + 1;
	return steps;
}

/* ------------------------------------------------------------------------------------- the heat */

static void heat(unsigned me)
{
	unsigned first = 1 + ROWS * me / threads, last = 1 + ROWS * (me + 1) / threads;

	for (unsigned turn = 0; turn < STEPS; turn++) {
		double (*from)[COLS] = shared->grids[turn % 2];
		double (*to)[COLS] = shared->grids[(turn + 1) % 2];

		for (unsigned row = first; row < last; row++)
			for (unsigned col = 1; col < COLS - 1; col++)
				to[row][col] = (from[row - 1][col] + from[row + 1][col] +
						from[row][col - 1] + from[row][col + 1]) / 4;
		roam_barrier_all();
	}
}

/* ----------------------------------------------------------------------------------------- all */

static void worker(void)
{
	unsigned me = roam_node(), item;

	if (me == 0) {
		for (unsigned i = 1; i <= JOBS; i++)
			queue_put(i);
		queue_close();
	}
	while (queue_take(&item))
		table_count(collatz(item));
	heat(me);
}

static void report(void)
{
	unsigned keys = 0, times = 0;
	double warm = 0;

	for (unsigned i = 0; i < CHAINS; i++)
		for (struct entry *entry = shared->chains[i].first; entry != NULL;
		     entry = entry->next) {
			keys++;
			times += entry->times;
		}
	for (unsigned row = 1; row <= ROWS; row++)
		for (unsigned col = 0; col < COLS; col++)
			warm += shared->grids[STEPS % 2][row][col];
	printf("%u lengths of %u numbers; heat %.6f\n", keys, times, warm);
}

int main(int argc, char **argv)
{
	threads = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
	if (threads < 2 || threads > 64)
		return 1;
	shared = roam_alloc(sizeof(*shared));
	if (shared == NULL)
		return 1;
	for (unsigned col = 0; col < COLS; col++)
		shared->grids[0][0][col] = shared->grids[1][0][col] = 100;
	if (roam_create_all(worker, threads) != ROAM_OK)
		return 1;
	roam_wait_for_end();
	report();
	return 0;
}
