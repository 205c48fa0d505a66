/*
 * Pi by -n darts, thrown at a square: how many of all processes' darts have hit the circle?  Dart i
 * takes the same path in every process, so the count is exact.
 */
#include "tuples.h"

static int64_t hits; /* of all processes; what is to be computed */

static int64_t throw(uint64_t first, uint64_t end)
{
	int64_t count = 0;

	for (uint64_t dart = first; dart < end; dart++) {
		uint64_t at = noise(dart);
		uint64_t x = at >> 32, y = at & UINT32_MAX;

		count += x * x / 2 + y * y / 2 < 1ull << 63;
	}
	return count;
}

static int64_t throw_mine(void)
{
	return throw((uint64_t)first_of(size, me), (uint64_t)first_of(size, me + 1));
}

/* ---------------------------------------------------------------- process 0 collects the counts */

static struct roam_ps_element *counts, *total;

static void tuples_begin(void)
{
	counts = element("counts", "i64");
	total = element("total", "i64");
}

static void tuples_work(void)
{
	put(counts, throw_mine());
	if (me == 0) {
		for (long i = 0; i < procs; i++)
			hits += take(counts);
		put(total, hits);
	}
	hits = look(total, 1);
}

static struct roam_ps_element *sum;

static void xfunction_begin(void)
{
	sum = element_x("hits", "i64", "sum");
}

static void xfunction_work(void)
{
	put(sum, throw_mine());
	hits = take(sum);
}

/* ----------------------------------------------------------------- pages: one word under a lock */

static int64_t *shared_hits;

static void pages_work(void)
{
	int64_t mine = throw_mine();

	must(roam_lock(shared_hits));
	*shared_hits += mine;
	must(roam_unlock(shared_hits));
	must(roam_barrier_all());
	hits = *shared_hits;
}

static void reduce_work(void)
{
	hits = throw_mine();
	must(roam_reduce(&hits, 1, ROAM_INT64, ROAM_SUM));
}

static void set_up(void)
{
	shared_hits = shared(sizeof(*shared_hits));
	must(roam_lock_init(shared_hits));
}

/* Process 0 throws all darts again; the others compare with its result. */
static bool right(void)
{
	int64_t expected = me == 0 ? throw(0, (uint64_t)size) : 0;

	must(roam_reduce(&expected, 1, ROAM_INT64, ROAM_SUM));
	return hits == expected;
}

int main(int argc, char **argv)
{
	static const struct program pi = {
		.name = "tuples-pi",
		.size = 4000000,
		.size_min = 1,
		.size_max = 1000000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = {{"tuples", tuples_begin, tuples_work},
			   {"xfunction", xfunction_begin, xfunction_work},
			   {"pages", NULL, pages_work},
			   {"reduce", NULL, reduce_work}},
	};

	return program_main(argc, argv, &pi);
}
