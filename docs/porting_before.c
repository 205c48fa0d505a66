/*
 * A program of POSIX threads, before it is ported (docs/porting.md): a bounded queue of work with
 * condition variables, a hash table of chains, a heat solver with a barrier.  Thread 0 fills the
 * queue, the others empty it; then all compute.  porting_before THREADS, 2 at least.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS   3000u
#define ROOM   16u
#define CHAINS 64u
#define ROWS   64u
#define COLS   512u
#define STEPS  40u

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	unsigned items[ROOM], head, count;
	int closed;
};

struct entry {
	unsigned key, times;
	struct entry *next;
};

struct chain {
	pthread_mutex_t lock;
	struct entry *first;
};

static struct queue queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER,
			     PTHREAD_COND_INITIALIZER, {0}, 0, 0, 0};
static struct chain chains[CHAINS];
static double grids[2][ROWS + 2][COLS];
static pthread_barrier_t step;
static unsigned threads;

/* ---------------------------------------------------------------------------------- the queue */

static void queue_put(unsigned item)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.count == ROOM)
		pthread_cond_wait(&queue.emptied, &queue.lock);
	queue.items[(queue.head + queue.count++) % ROOM] = item;
	pthread_cond_signal(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

static void queue_close(void)
{
	pthread_mutex_lock(&queue.lock);
	queue.closed = 1;
	pthread_cond_broadcast(&queue.filled);
	pthread_mutex_unlock(&queue.lock);
}

/* 0: closed and empty. */
static int queue_take(unsigned *item)
{
	int found;

	pthread_mutex_lock(&queue.lock);
	while (queue.count == 0 && !queue.closed)
		pthread_cond_wait(&queue.filled, &queue.lock);
	found = queue.count > 0;
	if (found) {
		*item = queue.items[queue.head++ % ROOM];
		queue.count--;
		pthread_cond_signal(&queue.emptied);
	}
	pthread_mutex_unlock(&queue.lock);
	return found;
}

/* ---------------------------------------------------------------------------------- the table */

static void table_count(unsigned key)
{
	struct chain *chain = &chains[key % CHAINS];
	struct entry *entry;

	pthread_mutex_lock(&chain->lock);
	for (entry = chain->first; entry != NULL && entry->key != key; entry = entry->next)
		;
	if (entry == NULL) {
		entry = malloc(sizeof(*entry));
		*entry = (struct entry){key, 0, chain->first};
		chain->first = entry;
	}
	entry->times++;
	pthread_mutex_unlock(&chain->lock);
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
		double (*from)[COLS] = grids[turn % 2], (*to)[COLS] = grids[(turn + 1) % 2];

		for (unsigned row = first; row < last; row++)
			for (unsigned col = 1; col < COLS - 1; col++)
				to[row][col] = (from[row - 1][col] + from[row + 1][col] +
						from[row][col - 1] + from[row][col + 1]) / 4;
		pthread_barrier_wait(&step);
	}
}

/* ----------------------------------------------------------------------------------------- all */

static void *worker(void *arg)
{
	unsigned me = (unsigned)(size_t)arg, item;

	if (me == 0) {
		for (unsigned i = 1; i <= JOBS; i++)
			queue_put(i);
		queue_close();
	}
	while (queue_take(&item))
		table_count(collatz(item));
	heat(me);
	return NULL;
}

static void report(void)
{
	unsigned keys = 0, times = 0;
	double warm = 0;

	for (unsigned i = 0; i < CHAINS; i++)
		for (struct entry *entry = chains[i].first; entry != NULL; entry = entry->next) {
			keys++;
			times += entry->times;
		}
	for (unsigned row = 1; row <= ROWS; row++)
		for (unsigned col = 0; col < COLS; col++)
			warm += grids[STEPS % 2][row][col];
	printf("%u lengths of %u numbers; heat %.6f\n", keys, times, warm);
}

int main(int argc, char **argv)
{
	pthread_t others[64];

	threads = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
	if (threads < 2 || threads > 64)
		return 1;
	for (unsigned i = 0; i < CHAINS; i++)
		pthread_mutex_init(&chains[i].lock, NULL);
	for (unsigned col = 0; col < COLS; col++)
		grids[0][0][col] = grids[1][0][col] = 100;
	pthread_barrier_init(&step, NULL, threads);
	for (unsigned i = 1; i < threads; i++)
		pthread_create(&others[i], NULL, worker, (void *)(size_t)i);
	worker(NULL);
	for (unsigned i = 1; i < threads; i++)
		pthread_join(others[i], NULL);
	report();
	return 0;
}
