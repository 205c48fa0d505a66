/*
 * farm: a farm of workers that share no memory, only messages between endpoints (roam/dp.h).  Node
 * 0 hands out ranges of numbers, in which the other nodes count primes; it sleeps in poll(2), in
 * which a program could wait for its other descriptors, too.
 *
 * usage: farm [NODES [LIMIT]], or by `roam run -n NODES farm - [LIMIT]`
 */
#include <poll.h>
#include <roam/dp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT  1u
#define RANGE 2000u

struct task {
	unsigned from, to; /* from 0: there is no more */
};

struct outcome {
	unsigned primes;
};

static unsigned limit = 200000;

static void must(enum roam_err err)
{
	if (err == ROAM_OK)
		return;
	fprintf(stderr, "farm: %s\n", roam_strerror(err));
	exit(1);
}

static unsigned count_primes(const struct task *task)
{
	unsigned primes = 0;

	for (unsigned n = task->from; n < task->to; n++) {
		unsigned divisor = 2;

		while (divisor * divisor <= n && n % divisor != 0)
			divisor++;
		primes += n > 1 && divisor * divisor > n;
	}
	return primes;
}

/* A worker asks by its last outcome. */
static void worker(struct roam_dp *dp)
{
	struct outcome outcome = {0};
	struct task task;

	do {
		must(roam_dp_send(dp, 0, PORT, &outcome, sizeof(outcome), 0));
		must(roam_dp_receive(dp, &task, sizeof(task), 0, NULL));
		outcome.primes = count_primes(&task);
	} while (task.from != 0);
}

/* The next range; none: from 0. */
static struct task next_task(unsigned *next_p)
{
	struct task task = {0, 0};

	if (*next_p >= limit)
		return task;
	task.from = *next_p;
	task.to = task.from + RANGE < limit ? task.from + RANGE : limit;
	*next_p = task.to;
	return task;
}

static unsigned farmer(struct roam_dp *dp)
{
	struct pollfd arrivals = {roam_dp_file(dp), POLLIN, 0};
	unsigned primes = 0, next = 1, working = roam_nodes() - 1;

	while (working > 0) {
		struct outcome outcome;
		struct roam_dp_message from;
		struct task task;
		enum roam_err err;

		poll(&arrivals, 1, -1);
		while (working > 0 && (err = roam_dp_receive(dp, &outcome, sizeof(outcome),
							     ROAM_DP_TRY, &from)) == ROAM_OK) {
			primes += outcome.primes;
			task = next_task(&next);
			working -= task.from == 0;
			must(roam_dp_send(dp, from.node, from.endpoint, &task, sizeof(task), 0));
		}
	}
	return primes;
}

static void work(void)
{
	struct roam_dp *dp;

	must(roam_dp_open(PORT, &dp));
	must(roam_barrier_all()); /* now all endpoints are open */
	if (roam_node() != 0)
		worker(dp);
	else if (roam_nodes() > 1)
		printf("%u primes below %u\n", farmer(dp), limit);
	must(roam_barrier_all());
	roam_dp_close(dp);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		limit = (unsigned)strtoul(argv[2], NULL, 10);
	if (argc > 1 && strcmp(argv[1], "-") == 0) {
		must(roam_start());
		work();
		must(roam_finish());
		return 0;
	}
	must(roam_create_all(work, argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3));
	must(roam_wait_for_end());
	return 0;
}
