/*
 * Processes 2i and 2i + 1 pass a number to each other, -n times back and forth; each adds one.  A
 * process without a partner does nothing.
 */
#include "tuples.h"

#include <stdio.h>

static int64_t ball; /* the number when this process had it last */
static long other;   /* its partner */

static bool plays(void)
{
	other = me ^ 1;
	return other < procs;
}

/* ----------------------------------------------------------------------------- one mob each way */

static struct roam_ps_element *forth, *back;

static void tuples_begin(void)
{
	char name[64];

	if (!plays())
		return;
	snprintf(name, sizeof(name), "from %ld", me);
	forth = element_at(name, "i64", me & ~1l);
	snprintf(name, sizeof(name), "from %ld", other);
	back = element_at(name, "i64", me & ~1l);
}

static void tuples_work(void)
{
	if (!plays())
		return;
	for (long turn = 0; turn < size; turn++) {
		if (me % 2 == 1)
			ball = take(back);
		ball++;
		if (me % 2 == 1)
			put(forth, ball);
		else
			must(roam_ps_mob(forth, &ball, sizeof(ball), back, &ball, sizeof(ball),
					 NULL));
	}
}

/* ------------------------------------------------------------------ pages: a condition variable */

/* The state of a pair, on its own page.  The bytes of `lock` and `moved` only name them. */
struct table {
	int64_t ball;
	int64_t turn; /* whose it is: 0 or 1 */
	char lock, moved;
	char rest[ROAM_PAGE_SIZE - 18];
};

static struct table *tables;

static void table_await(struct table *table)
{
	must(roam_lock(&table->lock));
	while (table->turn != me % 2)
		must(roam_cond_wait(&table->moved, &table->lock));
	ball = table->ball;
}

static void table_hand_over(struct table *table)
{
	table->ball = ++ball;
	table->turn = 1 - me % 2;
	must(roam_cond_signal(&table->moved));
	must(roam_unlock(&table->lock));
}

static void pages_work(void)
{
	struct table *table = &tables[me / 2];

	if (!plays())
		return;
	for (long turn = 0; turn < size; turn++) {
		table_await(table);
		table_hand_over(table);
	}
	if (me % 2 == 0) {
		table_await(table);
		must(roam_unlock(&table->lock));
	}
}

static void set_up(void)
{
	tables = shared((size_t)(procs + 1) / 2 * sizeof(*tables));
	for (long pair = 0; pair < (procs + 1) / 2; pair++) {
		must(roam_lock_init(&tables[pair].lock));
		must(roam_cond_init(&tables[pair].moved));
	}
}

static bool right(void)
{
	return !plays() || ball == 2 * size;
}

int main(int argc, char **argv)
{
	static const struct program pingpong = {
		.name = "tuples-pingpong",
		.size = 300,
		.size_min = 1,
		.size_max = 1000000,
		.procs_min = 2,
		.set_up = set_up,
		.right = right,
		.models = {{"tuples", tuples_begin, tuples_work}, {"pages", NULL, pages_work}},
	};

	return program_main(argc, argv, &pingpong);
}
