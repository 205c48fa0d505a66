/*
 * The sum of one number per process, which all processes get, -n times.  The models `memory`,
 * `tuples` and `xfunction` are those of figure 1 of Vinter et al. (2002), "User redefinable memory
 * semantics".
 */
#include "tuples.h"

static int64_t *sums;   /* the sums that this process got, by round */
static int64_t *totals; /* shared, by round */
static const char total_lock[1];

/* What process `id` adds in a round. */
static int64_t part(long round, long id)
{
	return (int64_t)(noise((uint64_t)(round * 64 + id)) >> 32) - (1l << 31);
}

/* -------------------------------------------------- tuples that are used as if they were memory */

static struct roam_ps_element *semaphore, *counter, *value, *result;

static void memory_begin(void)
{
	semaphore = element("semaphore", "i64");
	counter = element("counter", "i64");
	value = element("value", "i64");
	result = element("result", "i64");
	if (me != 0)
		return;
	put(semaphore, 1);
	put(counter, 0);
	put(value, 0);
}

static void memory_work(void)
{
	for (long round = 0; round < size; round++) {
		int64_t count, sum;

		take(semaphore);
		count = take(counter) + 1;
		sum = take(value) + part(round, me);
		if (count == procs)
			put(result, sum);
		put(counter, count == procs ? 0 : count);
		put(value, count == procs ? 0 : sum);
		put(semaphore, 1);
		sums[round] = look(result, (uint64_t)round + 1);
	}
}

/* -------------------------------------------------------- one tuple that goes from hand to hand */

struct partial {
	int64_t count, sum;
};

static struct roam_ps_element *partials;

static void tuples_begin(void)
{
	const struct partial none = {0, 0};

	partials = element("partials", "i64, i64");
	result = element("result", "i64");
	if (me == 0)
		must(roam_ps_move(partials, &none, sizeof(none)));
}

static void tuples_work(void)
{
	for (long round = 0; round < size; round++) {
		struct partial partial;

		must(roam_ps_observe(partials, &partial, sizeof(partial), NULL));
		partial.count++;
		partial.sum += part(round, me);
		if (partial.count == procs) {
			put(result, partial.sum);
			partial = (struct partial){0, 0};
		}
		must(roam_ps_move(partials, &partial, sizeof(partial)));
		sums[round] = look(result, (uint64_t)round + 1);
	}
}

/* ------------------------------------------------------------------------- an element that sums */

static struct roam_ps_element *sum_of_all;

static void xfunction_begin(void)
{
	sum_of_all = element_x("sum", "i64", "sum");
}

static void xfunction_work(void)
{
	for (long round = 0; round < size; round++) {
		put(sum_of_all, part(round, me));
		sums[round] = take(sum_of_all);
	}
}

/* ------------------------------------------------------------------ pages: a lock and a barrier */

static void pages_work(void)
{
	for (long round = 0; round < size; round++) {
		must(roam_lock(total_lock));
		totals[round] += part(round, me);
		must(roam_unlock(total_lock));
		must(roam_barrier_all());
		sums[round] = totals[round];
	}
}

/* ----------------------------------------------------------------------- what roam has for this */

static void reduce_work(void)
{
	for (long round = 0; round < size; round++) {
		sums[round] = part(round, me);
		must(roam_reduce(&sums[round], 1, ROAM_INT64, ROAM_SUM));
	}
}

static void set_up(void)
{
	sums = own((size_t)size * sizeof(*sums));
	totals = shared((size_t)size * sizeof(*totals));
	must(roam_lock_init(total_lock));
}

static bool right(void)
{
	for (long round = 0; round < size; round++) {
		int64_t sum = 0;

		for (long id = 0; id < procs; id++)
			sum += part(round, id);
		if (sums[round] != sum)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct program sum = {
		.name = "tuples-sum",
		.size = 300,
		.size_min = 1,
		.size_max = 1000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = {{"memory", memory_begin, memory_work},
			   {"tuples", tuples_begin, tuples_work},
			   {"xfunction", xfunction_begin, xfunction_work},
			   {"pages", NULL, pages_work},
			   {"reduce", NULL, reduce_work}},
	};

	return program_main(argc, argv, &sum);
}
