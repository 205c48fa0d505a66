/*
 * Shows that each wrong call is refused with the error that the header promises, and that the job
 * goes on.
 * misuse START NODES; START fork: roam_create_all; run: under roam run.
 */
#include "multi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

static unsigned nodes;
static char *block;                          /* 64 KiB, of node 0 */
static uint64_t good, free_locks[64], other_good; /* names */

static void locks(void)
{
	must_fail(roam_unlock(&good), ROAM_ENOTHELD); /* a lock that no thread holds */
	for (unsigned i = 0; i < 64; i++)             /* addresses with homes at every node */
		must_fail(roam_unlock(&free_locks[i]), ROAM_ENOTHELD);
	must(roam_barrier_all());
	must(roam_lock(&good));
	must_fail(roam_lock(&good), ROAM_ESTATE);
	must(roam_unlock(&good));
	must_fail(roam_unlock(&good), ROAM_ENOTHELD);
	must(roam_barrier_all());
	if (roam_node() == nodes - 1)
		must(roam_lock(&good));
	must(roam_barrier_all());
	if (roam_node() != nodes - 1)
		must_fail(roam_unlock(&good), ROAM_ENOTHELD); /* a lock that another node holds */
	must(roam_barrier_all());
	if (roam_node() == nodes - 1)
		must(roam_unlock(&good));
	must_fail(roam_cond_wait(&other_good, &good), ROAM_ENOTHELD);
	must(roam_barrier_all());
	for (unsigned i = 0; i < 64; i++) {
		must(roam_lock(&free_locks[i]));
		must(roam_unlock(&free_locks[i]));
	}
	must(roam_barrier_all());
}

/*
 * A thread that was refused is not in the queue: the signal goes to one that waits with the lock.
 */
static void signals(void)
{
	unsigned waiter = nodes - 1;

	if (roam_node() == 0)
		for (unsigned i = 0; i < 3; i++)
			must_fail(roam_cond_wait(&other_good, &good), ROAM_ENOTHELD);
	must(roam_barrier_all());
	if (roam_node() == waiter) {
		must(roam_lock(&good));
		block[0] = 1;
		while (block[0] != 2)
			must(roam_cond_wait(&other_good, &good));
		must(roam_unlock(&good));
	} else if (roam_node() == 0) {
		bool told = false;

		while (!told) {
			must(roam_lock(&good));
			told = block[0] == 1;
			if (told) {
				block[0] = 2;
				must(roam_cond_signal(&other_good));
			}
			must(roam_unlock(&good));
		}
	}
	must(roam_barrier_all());
}

static void node_main(void);

static void arguments(void)
{
	static struct roam_rwlock own_rw;
	static uint32_t own;
	int values[ROAM_REDUCE_MAX + 1] = {0};
	double real = 1;

	must_fail(roam_lock(NULL), ROAM_EINVAL);
	must_fail(roam_unlock(NULL), ROAM_EINVAL);
	must_fail(roam_lock_init(NULL), ROAM_EINVAL);
	must_fail(roam_cond_wait(&other_good, NULL), ROAM_EINVAL);
	must_fail(roam_barrier(NULL, 1), ROAM_EINVAL);
	must_fail(roam_barrier(&good, 0), ROAM_EINVAL);
	must_fail(roam_barrier(&good, 1000000), ROAM_EINVAL); /* more threads than there can be */
	must_fail(roam_flag_set(NULL), ROAM_EINVAL);
	must_fail(roam_once(&own, node_main), ROAM_ENOTOURS);
	must_fail(roam_rdlock(&own_rw), ROAM_ENOTOURS);
	must_fail(roam_rwunlock((struct roam_rwlock *)(void *)(block + 4096)), ROAM_ENOTHELD);
	must_fail(roam_reduce(NULL, 1, ROAM_INT32, ROAM_SUM), ROAM_EINVAL);
	must_fail(roam_reduce(values, 0, ROAM_INT32, ROAM_SUM), ROAM_EINVAL);
	must_fail(roam_reduce(values, ROAM_REDUCE_MAX + 1, ROAM_INT32, ROAM_SUM), ROAM_EINVAL);
	must_fail(roam_reduce(&real, 1, ROAM_DOUBLE, ROAM_AND), ROAM_EINVAL);
	must_fail(roam_create(NULL), ROAM_EINVAL);
	must_fail(roam_create_all(NULL, 2), ROAM_EINVAL);
	must_fail(roam_home(block, 1, 64), ROAM_EINVAL);
	must_fail(roam_home(&good, 1, 0), ROAM_ENOTOURS);
	must_fail(roam_touch(&good, 1, ROAM_READ), ROAM_ENOTOURS);
	must_fail(roam_touch(block, SIZE_MAX, ROAM_READ), ROAM_ENOTOURS);
	must(roam_touch(block, 0, ROAM_WRITE));
	roam_prefetch(&good, 100);
	roam_prefetch(block, SIZE_MAX);
	check(roam_counter("no_such_counter") == 0);
	check(strcmp(roam_strerror((enum roam_err)12345), "unknown error") == 0);
}

static void refuse_alloc(size_t bytes, enum roam_err err)
{
	check(roam_alloc(bytes) == NULL);
	must_fail(roam_errno(), err);
}

static void memory(void)
{
	char *mine;
	int foreign;

	refuse_alloc(0, ROAM_EINVAL);
	refuse_alloc(SIZE_MAX, ROAM_ENOMEM);
	refuse_alloc(SIZE_MAX - 4095, ROAM_ENOMEM);
	refuse_alloc((size_t)1 << 63, ROAM_ENOMEM);
	refuse_alloc((size_t)1 << 45, ROAM_ENOMEM);
	check(roam_alloc_placed(100, (enum roam_place)77, 0, NULL) == NULL);
	must_fail(roam_errno(), ROAM_EINVAL);
	check(roam_alloc_placed(8192, ROAM_PLACE_NODE, 1000, NULL) == NULL);
	must_fail(roam_errno(), ROAM_EINVAL);
	must(roam_free(NULL));
	must_fail(roam_free(&foreign), ROAM_ENOTOURS);
	must_fail(roam_free((void *)(uintptr_t)1), ROAM_ENOTOURS);
	must_fail(roam_free((void *)UINTPTR_MAX), ROAM_ENOTOURS);
	mine = must_alloc(100);
	must_fail(roam_free(mine + 1), ROAM_ENOTOURS);
	must_fail(roam_free(mine + 64), ROAM_ENOTOURS);
	must(roam_free(mine));
	must_fail(roam_free(mine), ROAM_ENOTOURS);
	mine = must_alloc(100000);
	must_fail(roam_free(mine + 4096), ROAM_ENOTOURS);
	must(roam_free(mine));
	must_fail(roam_free(mine), ROAM_ENOTOURS);
	mine = must_alloc(100000); /* and it still works */
	memset(mine, 1, 100000);
	must(roam_free(mine));
}

/* It waits for nobody, so that nothing is counted wrongly. */
static void *stranger(void *arg)
{
	must(roam_barrier(arg, 1));
	return NULL;
}

static void threads(void)
{
	static char alone; /* a name */
	pthread_t thread;

	if (roam_node() == 0) {
		check(pthread_create(&thread, NULL, stranger, &alone) == 0);
		check(pthread_join(thread, NULL) == 0);
	}
	must(roam_barrier_all());
}

static void node_main(void)
{
	locks();
	signals();
	arguments();
	memory();
	threads();
	must_fail(roam_create(node_main), ROAM_ESTATE);
	must(roam_barrier_all());
	must(roam_barrier(&good, nodes));
	block[roam_node() * 4096u + 1] = 1;
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	check(argc == 3);
	must_fail(roam_thread_fini(), ROAM_ESTATE);
	check(roam_counter("read_faults") == 0);
	nodes = number(argv[2]);
	must(roam_start());
	must(roam_start());                  /* a second call does nothing */
	must(roam_free(must_alloc(100000))); /* each node calls it by itself */
	must_fail(roam_create_all(node_main, 0), ROAM_EINVAL);
	block = must_alloc(65536);
	must(roam_lock_init(&good));
	must(roam_cond_init(&other_good));
	if (strcmp(argv[1], "fork") == 0)
		must(roam_create_all(node_main, nodes));
	else
		node_main();
	must(roam_finish());
	must(roam_finish());
	must_fail(roam_lock(&good), ROAM_ESTATE);
	if (roam_node() == 0)
		printf("all refused\n");
	return 0;
}
