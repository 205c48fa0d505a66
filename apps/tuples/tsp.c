/*
 * The shortest round trip through -n towns, by branch and bound.  Tasks are the trips' first towns;
 * an idle process takes a task from a bag, and the best length so far, by which it cuts.
 */
#include "tuples.h"

#include <math.h>

#define TOWNS_MAX 16
#define AHEAD     3 /* towns of a task */
#define TASKS_MAX (TOWNS_MAX * TOWNS_MAX)

struct task {
	int32_t town[AHEAD]; /* -1: there are no more tasks */
};

static int32_t distance[TOWNS_MAX][TOWNS_MAX];
static struct task tasks[TASKS_MAX]; /* all of them, in every process */
static long tasks_count;
static int64_t best; /* the shortest trip that this process knows of */

static void search(int32_t town, long visited, uint32_t seen, int64_t length)
{
	if (length >= best)
		return;
	if (visited == size) {
		length += distance[town][0];
		best = length < best ? length : best;
		return;
	}
	for (int32_t next = 1; next < size; next++)
		if ((seen >> next & 1) == 0)
			search(next, visited + 1, seen | 1u << next, length + distance[town][next]);
}

static void task_do(const struct task *task)
{
	uint32_t seen = 0;
	int64_t length = 0;

	for (long i = 0; i < AHEAD; i++) {
		seen |= 1u << task->town[i];
		length += i > 0 ? distance[task->town[i - 1]][task->town[i]] : 0;
	}
	search(task->town[AHEAD - 1], AHEAD, seen, length);
}

/* ---------------------------------------------------------------- a bag, and a bound, of tuples */

static struct roam_ps_element *bag, *bound;

static void tuples_begin(void)
{
	bag = element("bag", "i32[3]");
	bound = element("bound", "i64");
	if (me == 0)
		put(bound, INT64_MAX);
}

/* The newest tuple of `bound` is the best; only a better one replaces it. */
static int64_t bound_newest(void)
{
	int64_t length;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_LAST,
					  .flags = ROAM_PS_PEEK,
					  .buffer = &length,
					  .limit = sizeof(length)};

	must(roam_ps_call(bound, &request));
	return length;
}

/* No other process can while the tuple is taken. */
static void bound_lower(void)
{
	int64_t length = take(bound);

	best = length < best ? length : best;
	put(bound, best);
}

static void bag_fill(void)
{
	const struct task none = {{-1, -1, -1}};

	for (long i = 0; i < tasks_count; i++)
		must(roam_ps_move(bag, &tasks[i], sizeof(tasks[i])));
	for (long i = 0; i < procs; i++)
		must(roam_ps_move(bag, &none, sizeof(none)));
}

static void tuples_work(void)
{
	struct task task;

	if (me == 0)
		bag_fill();
	for (;;) {
		must(roam_ps_observe(bag, &task, sizeof(task), NULL));
		if (task.town[0] < 0)
			break;
		int64_t known = bound_newest();

		best = known < best ? known : best;
		task_do(&task);
		if (best < known)
			bound_lower();
	}
	must(roam_barrier_all());
	best = bound_newest();
}

/* -------------------------------------------------------- pages: a counter, and a bound, locked */

struct shared_bag {
	long next; /* of tasks[]; its address names the lock */
	int64_t best;
};

static struct shared_bag *shared_bag;

/* The number of a task to do; exchanges the bound. */
static long bag_next(void)
{
	long next;

	must(roam_lock(shared_bag));
	next = shared_bag->next++;
	best = shared_bag->best < best ? shared_bag->best : best;
	shared_bag->best = best;
	must(roam_unlock(shared_bag));
	return next;
}

static void pages_work(void)
{
	for (long next; (next = bag_next()) < tasks_count;)
		task_do(&tasks[next]);
	must(roam_barrier_all());
	best = shared_bag->best;
}

/* --------------------------------------------------------------------------------------------- */

static void set_up(void)
{
	for (long a = 0; a < size; a++)
		for (long b = 0; b < size; b++) {
			double x = (double)(noise((uint64_t)a) >> 54) -
				   (double)(noise((uint64_t)b) >> 54);
			double y = (double)(noise((uint64_t)a + 64) >> 54) -
				   (double)(noise((uint64_t)b + 64) >> 54);

			distance[a][b] = (int32_t)lround(hypot(x, y));
		}
	for (int32_t a = 1; a < size; a++)
		for (int32_t b = 1; b < size; b++)
			if (a != b)
				tasks[tasks_count++] = (struct task){{0, a, b}};
	best = INT64_MAX;
	shared_bag = shared(sizeof(*shared_bag));
	shared_bag->best = INT64_MAX;
	must(roam_lock_init(shared_bag));
}

/* Process 0 searches alone; the others compare with its result. */
static bool right(void)
{
	int64_t found = best, expected = 0;

	best = INT64_MAX;
	if (me == 0) {
		search(0, 1, 1, 0);
		expected = best;
	}
	must(roam_reduce(&expected, 1, ROAM_INT64, ROAM_SUM));
	return found == expected;
}

int main(int argc, char **argv)
{
	static const struct program tsp = {
		.name = "tuples-tsp",
		.size = 12,
		.size_min = AHEAD + 1,
		.size_max = TOWNS_MAX,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = {{"tuples", tuples_begin, tuples_work}, {"pages", NULL, pages_work}},
	};

	return program_main(argc, argv, &tsp);
}
