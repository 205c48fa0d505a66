/*
 * Red-black successive over-relaxation of an n x n grid (-n), 20 rounds; each process has a band of
 * rows.  After each half round neighbours need each other's border rows.
 */
#include "tuples.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS 20
#define OMEGA  1.5

static double *grid; /* where this process works: n x n, private or shared */
static double *shared_grid;
static long first, end; /* the band: rows first to end - 1 */

static double start_value(long i)
{
	return (double)(noise((uint64_t)i) >> 40);
}

static size_t row_bytes(void)
{
	return (size_t)size * sizeof(double);
}

/* The points of one colour in rows from .. to - 1; the rim of the grid stays as it is. */
static void relax(double *at, long from, long to, long colour)
{
	for (long i = from > 1 ? from : 1; i < to && i < size - 1; i++)
		for (long j = 1 + (i + colour) % 2; j < size - 1; j += 2) {
			double *point = &at[i * size + j];

			*point += OMEGA / 4 *
				  (point[-1] + point[1] + point[-size] + point[size] - 4 * *point);
		}
}

static void band_begin(double *at)
{
	grid = at;
	first = first_of(size, me);
	end = first_of(size, me + 1);
}

/* ------------------------------------------------------------- rows as tuples, in private grids */

/* Rows for the processes before and after this one, and from them; NULL: no such process. */
static struct roam_ps_element *up, *down, *from_above, *from_below;

/* The elements live at the process that needs the rows. */
static struct roam_ps_element *rows(long from, long to)
{
	char name[64], text[32];

	snprintf(name, sizeof(name), "from %ld to %ld", from, to);
	snprintf(text, sizeof(text), "f64[%ld]", size);
	return element_at(name, text, to);
}

static void tuples_begin(void)
{
	band_begin(own((size_t)size * row_bytes()));
	for (long i = 0; i < size * size; i++)
		grid[i] = start_value(i);
	if (me > 0) {
		up = rows(me, me - 1);
		from_above = rows(me - 1, me);
	}
	if (me < procs - 1) {
		down = rows(me, me + 1);
		from_below = rows(me + 1, me);
	}
}

static void row_put(struct roam_ps_element *to, long row)
{
	if (to != NULL)
		must(roam_ps_move(to, &grid[row * size], row_bytes()));
}

static void row_take(struct roam_ps_element *from, long row)
{
	if (from != NULL)
		must(roam_ps_observe(from, &grid[row * size], row_bytes(), NULL));
}

static void tuples_work(void)
{
	for (long half = 0; half < 2 * ROUNDS; half++) {
		relax(grid, first, end, half % 2);
		row_put(up, first);
		row_put(down, end - 1);
		row_take(from_above, first - 1);
		row_take(from_below, end);
	}
}

/* ---------------------------------------------------------------- pages: one grid, and barriers */

static void pages_begin(void)
{
	band_begin(shared_grid);
	for (long i = first * size; i < end * size; i++)
		grid[i] = start_value(i);
}

static void pages_work(void)
{
	for (long half = 0; half < 2 * ROUNDS; half++) {
		relax(grid, first, end, half % 2);
		must(roam_barrier_all());
	}
}

static void set_up(void)
{
	shared_grid = shared((size_t)size * row_bytes());
}

/* Each process computes the whole grid, and compares its band: every bit must be the same. */
static bool right(void)
{
	double *whole = own((size_t)size * row_bytes());

	for (long i = 0; i < size * size; i++)
		whole[i] = start_value(i);
	for (long half = 0; half < 2 * ROUNDS; half++)
		relax(whole, 0, size, half % 2);
	return memcmp(&whole[first * size], &grid[first * size],
		      (size_t)(end - first) * row_bytes()) == 0;
}

int main(int argc, char **argv)
{
	static const struct program sor = {
		.name = "tuples-sor",
		.size = 512,
		.size_min = 64, /* a row for each process */
		.size_max = ROAM_PS_TUPLE_MAX / sizeof(double),
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = {{"tuples", tuples_begin, tuples_work},
			   {"pages", pages_begin, pages_work}},
	};

	return program_main(argc, argv, &sor);
}
