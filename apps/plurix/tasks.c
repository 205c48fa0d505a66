/*
 * A list of tasks: the sum of -n numbers, by halves.  A process that finds no task while others
 * have some waits until there is one (roam_tx_retry, or a condition variable).
 */
#include "plurix.h"

#define GRAIN 64

struct task {
	struct task *next;
	long from, to;
};

static struct bag {
	struct task *first;
	long unfinished;
	uint64_t sum;
} * bag;

struct job {
	long from, to; /* from < 0: there is none any more */
	uint64_t sum;
};

static void add(long from, long to)
{
	struct task *task = shared(sizeof(*task));

	*task = (struct task){bag->first, from, to};
	bag->first = task;
	bag->unfinished++;
}

static void next_task(void *arg)
{
	struct job *job = arg;
	struct task *task = bag->first;

	job->from = -1;
	if (task == NULL && bag->unfinished > 0)
		step_again();
	if (task == NULL)
		return;
	job->from = task->from;
	job->to = task->to;
	bag->first = task->next;
	must(roam_free(task));
}

static void halve(void *arg)
{
	const struct job *job = arg;

	add(job->from, (job->from + job->to) / 2);
	add((job->from + job->to) / 2, job->to);
	bag->unfinished--;
}

static void finish(void *arg)
{
	const struct job *job = arg;

	bag->sum += job->sum;
	bag->unfinished--;
}

static void work(void)
{
	struct job job;

	for (step(next_task, &job); job.from >= 0; step(next_task, &job)) {
		job.sum = 0;
		for (long i = job.from; i < job.to && job.to - job.from <= GRAIN; i++)
			job.sum += noise((uint64_t)i);
		step(job.to - job.from > GRAIN ? halve : finish, &job);
	}
}

static void set_up(void)
{
	bag = shared(sizeof(*bag));
	add(0, size);
}

static bool right(void)
{
	uint64_t sum = 0;

	for (long i = 0; i < size; i++)
		sum += noise((uint64_t)i);
	return bag->sum == sum && bag->first == NULL && bag->unfinished == 0;
}

int main(int argc, char **argv)
{
	static const struct program tasks = {
		.name = "plurix-tasks",
		.size = 20000,
		.size_min = 1,
		.size_max = 100000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = PLURIX_MODELS(work),
	};

	return program_main(argc, argv, &tasks);
}
