/*
 * Shared buffers in system calls, while pages come and go: two threads of each node write and read
 * ranges of several pages by pipes, sockets and files, and all of them write beside these on the
 * same pages.  With a small ROAM_CACHE_PAGES, or a page that others write, calls returned EFAULT,
 * or less than they should.
 * pins: two nodes.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../multi/multi.h"

#define THREADS 2u
#define ROUNDS  12u
#define BYTES   (5 * (size_t)ROAM_PAGE_SIZE)
#define RANGE   (6 * (size_t)ROAM_PAGE_SIZE) /* with what others write */
#define BESIDE  64u

static uint8_t *heap;

struct worker {
	uint8_t *from, *to;
	unsigned number;
};

/* Pages of all threads alternate, so that each one's ends have neighbours. */
static uint8_t *range_of(unsigned number, bool to)
{
	return heap + (number * 2 + to) * RANGE + BESIDE;
}

static void fill(struct worker *worker, unsigned round)
{
	for (size_t i = 0; i < BYTES; i++)
		worker->from[i] = (uint8_t)(i * 7 + round + worker->number);
	memset(worker->to, 0xee, BYTES);
}

static void same(const struct worker *worker, unsigned round)
{
	for (size_t i = 0; i < BYTES; i++)
		check(worker->to[i] == (uint8_t)(i * 7 + round + worker->number));
}

/* What the other node's thread wrote before this range is not touched, nor its own there. */
static void beside(const struct worker *worker, unsigned round)
{
	unsigned other = (worker->number + THREADS) % (2 * THREADS);

	range_of(other, false)[-1] = (uint8_t)round;
	range_of(other, true)[-1] = (uint8_t)round;
	range_of(other, false)[BYTES] = (uint8_t)round;
}

#define whole(call) check((call) == (ssize_t)BYTES)

static void by_pipe(struct worker *worker)
{
	struct iovec out[2] = {{worker->from, 5000}, {worker->from + 5000, BYTES - 5000}};
	struct iovec in[2] = {{worker->to, 9000}, {worker->to + 9000, BYTES - 9000}};
	int ends[2];

	check(pipe(ends) == 0);
	whole(roam_write(ends[1], worker->from, BYTES));
	whole(roam_read(ends[0], worker->to, BYTES));
	whole(roam_writev(ends[1], out, 2));
	memset(worker->to, 0, BYTES);
	whole(roam_readv(ends[0], in, 2));
	close(ends[0]);
	close(ends[1]);
}

static void by_socket(struct worker *worker)
{
	int ends[2];

	check(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	whole(roam_send(ends[1], worker->from, BYTES, 0));
	whole(roam_recv(ends[0], worker->to, BYTES, 0));
	check(roam_recv(ends[0], worker->to, BYTES, MSG_DONTWAIT) == -1 && errno == EAGAIN);
	close(ends[0]);
	close(ends[1]);
}

static void by_file(struct worker *worker)
{
	FILE *file = tmpfile();

	check(file != NULL && roam_fwrite(worker->from, 16, BYTES / 16, file) == BYTES / 16);
	rewind(file);
	check(roam_fread(worker->to, 16, BYTES / 16, file) == BYTES / 16);
	fclose(file);
}

static void by_pin(struct worker *worker)
{
	uint8_t *from = roam_pin(worker->from, BYTES, ROAM_READ);
	uint8_t *to = roam_pin(worker->to, BYTES, ROAM_WRITE);

	check(from != NULL && to != NULL);
	memcpy(to, from, BYTES);
	must_fail(roam_unpin(to, BYTES + 1), ROAM_EINVAL);
	must(roam_unpin(to, BYTES));
	must_fail(roam_unpin(from, 1), ROAM_EINVAL);
	must(roam_unpin(from, 0));
}

static void *worker_main(void *arg)
{
	static void (*const ways[])(struct worker *worker) = {by_pipe, by_socket, by_file, by_pin};
	unsigned number = roam_node() * THREADS + *(const unsigned *)arg;
	struct worker worker = {range_of(number, false), range_of(number, true), number};

	if (number % THREADS != 0)
		must(roam_thread_init());
	must(roam_barrier(heap, 2 * THREADS)); /* from here on all are counted */
	for (unsigned round = 0; round < ROUNDS; round++) {
		fill(&worker, round);
		must(roam_barrier_all());
		beside(&worker, round);
		ways[round % 4](&worker);
		same(&worker, round);
		must(roam_barrier_all());
		check(worker.from[-1] == round && worker.to[-1] == round &&
		      worker.from[BYTES] == round);
	}
	if (number % THREADS != 0)
		must(roam_thread_fini());
	return NULL;
}

static void node_main(void)
{
	unsigned first = 0, second = 1;
	pthread_t thread;

	check(pthread_create(&thread, NULL, worker_main, &second) == 0);
	worker_main(&first);
	check(pthread_join(thread, NULL) == 0);
}

int main(void)
{
	check(roam_pin(NULL, 1, ROAM_READ) == NULL);
	heap = must_alloc(4 * THREADS * RANGE);
	check(roam_pin(heap, 0, ROAM_READ) == NULL && roam_errno() == ROAM_EINVAL);
	check(roam_pin(&heap, 1, ROAM_READ) == NULL && roam_errno() == ROAM_ENOTOURS);
	must(roam_create_all(node_main, 2));
	must(roam_finish());
	return 0;
}
