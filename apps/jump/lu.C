/*
 * lu: LU factorisation without pivoting of a dense n x n matrix, and the verification by one
 * process, which is part of what is measured, after the JUMP paper.
 *
 * Rows are dealt out in turn.  Step k subtracts multiples of row k from the rows below, each
 * process from its own; a barrier ends the step, and row k + 1 is finished.  So each row is
 * written by one process and read by all others once; small rows share pages.
 *
 * With -t the first process then multiplies L by U, row by row, and compares with the matrix, while
 * the others wait: it reads every page of U again for every row of the product, more than any small
 * cache of pages holds.
 *
 * Needs scope consistency (ScC): only barriers order the steps.
 */
#define NAME "jump-lu"
#define N_DEFAULT 256
#define N_MAX 8192

include(kernel.H)

#include <float.h>

static double *matrix;	  /* shared, row by row: first A, then L below the diagonal, and U */
static double *deviation; /* shared: the largest of an element of L U from that of A */

static void allocate(void)
{
	matrix = (double *)G_MALLOC((size_t)(n * n) * sizeof(*matrix))
	deviation = (double *)G_MALLOC(sizeof(*deviation))
	*deviation = -1; /* not checked */
}

/* Noise, and a diagonal heavy enough to need no pivoting. */
static double element(long row, long col)
{
	return uniform(row * n + col) - 0.5 +
	    (row == col ? (double)n : 0.0);
}

static void fill_part(long id)
{
	long i, j;

	for (i = id; i < n; i += procs)
		for (j = 0; j < n; j++)
			matrix[i * n + j] = element(i, j);
}

/* y += f x. */
static void add(double *restrict y, double f, const double *restrict x, long count)
{
	long i;

	for (i = 0; i < count; i++)
		y[i] += f * x[i];
}

/* Subtracts from a row the multiple of row k that makes its element k vanish; keeps the factor. */
static void eliminate(double *row, long k)
{
	const double *pivot = &matrix[k * n];

	row[k] /= pivot[k];
	add(&row[k + 1], -row[k], &pivot[k + 1], n - k - 1);
}

/* The largest deviation of an element of row i of L U from that of A. */
static double row_deviation(long i, double *product)
{
	double worst = 0;
	long j, k;

	memset(product, 0, (size_t)i * sizeof(*product));
	memcpy(&product[i], &matrix[i * n + i], (size_t)(n - i) * sizeof(*product));
	for (k = 0; k < i; k++)
		add(&product[k], matrix[i * n + k], &matrix[k * n + k], n - k);
	for (j = 0; j < n; j++) {
		const double off = product[j] - element(i, j);

		/* Written so that what is not a number is not taken for a small one. */
		if (!(off <= worst && -off <= worst))
			worst = off < 0 ? -off : off;
	}
	return worst;
}

static void check(void)
{
	double *product = own((size_t)n * sizeof(*product)), worst = 0;
	long i;

	for (i = 0; i < n; i++) {
		const double here = row_deviation(i, product);

		if (!(here <= worst))
			worst = here;
	}
	*deviation = worst;
	free(product);
}

static void work(long id)
{
	long i, k;

	for (k = 0; k < n - 1; k++) {
		resume_point(&k, id, 1);
		for (i = k + 1 + (id + procs - (k + 1) % procs) % procs; i < n; i += procs)
			eliminate(&matrix[i * n], k);
		BARRIER(common->barrier, procs)
	}
	if (wanted.check && id == 0)
		check();
}

static int verify(void)
{
	const double limit = 16 * DBL_EPSILON * (double)n;

	printf("test: largest deviation %.2e, limit %.2e\n", *deviation, limit);
	return *deviation >= 0 && *deviation <= limit;
}
