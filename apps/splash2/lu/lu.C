/*
 * lu: blocked LU factorisation without pivoting of a dense n x n matrix, each block contiguous in
 * memory, after the SPLASH-2 suite.
 *
 * Blocks are dealt to a grid of processes by two-dimensional scatter; a block is written by its
 * owner alone.  Step k: its owner factors the diagonal block; barrier; the owners of the blocks
 * right of it and below divide by it; barrier; every owner updates its blocks of the rest.  The
 * process that updates block (i, j) reads the finished blocks (i, k) and (k, j), which no process
 * writes any more: two barriers per step are enough.
 *
 * All blocks of a process lie in one region of its own, column after column, so that no page has
 * two writers and the blocks of a finished column are fetched as a run of pages.
 *
 * -p P  processes      -n N  rows and columns      -b B  rows and columns of a block
 * -s    times per process        -t    test the result        -o  print it
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

MAIN_ENV

#define PROCS_MAX 64
#define PAGE_BYTES 4096
#define VECTORS 3

/* Data that the processes share, besides the blocks. */
struct shared {
	BARDEC(barrier)
	LOCKDEC(id_lock)
	long next_id;
	unsigned long start_us;
	unsigned long end_us;
	unsigned long wait_us[PROCS_MAX];
};

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct shared *shared;
static double **block_at; /* block (i, j) is at block_at[i + j * blocks], shared, row by row */
static long n = 512;
static long block = 16;
static long blocks;
static long procs = 1;
static long proc_rows, proc_cols;

static long owner(long i, long j)
{
	return i % proc_rows * proc_cols + j % proc_cols;
}

static double *at(long i, long j)
{
	return block_at[i + j * blocks];
}

/* Rows of block row i (columns of block column i): the last may be short. */
static long span(long i)
{
	return n - i * block < block ? n - i * block : block;
}

static unsigned long now_us(void)
{
	unsigned long now;

	CLOCK(now);
	return now;
}

/* Meets all processes; adds the time waited to *wait_us_p. */
static void meet(unsigned long *wait_us_p)
{
	const unsigned long before = now_us();

	BARRIER(shared->barrier, procs)
	*wait_us_p += now_us() - before;
}

/* The matrix: noise, and a diagonal heavy enough to need no pivoting.  Alike in all processes. */
static double element(long row, long col)
{
	uint64_t i = ((uint64_t)(row * n + col) + 1) * 0x9e3779b97f4a7c15u;

	i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
	i = (i ^ i >> 27) * 0x94d049bb133111ebu;
	return (double)((i ^ i >> 31) >> 11) * 0x1p-53 - 0.5 + (row == col ? (double)n : 0.0);
}

/* --------------------------------------------------------------------------- work on one block */

/* y -= f * x, the inner loop of everything below. */
static inline void subtract(double *restrict y, double f, const double *restrict x, long count)
{
	long i;

	for (i = 0; i < count; i++)
		y[i] -= f * x[i];
}

/* a = L U in place; L has a unit diagonal. */
static void factor(double *a, long size)
{
	long i, k;

	for (k = 0; k < size; k++)
		for (i = k + 1; i < size; i++) {
			a[i * block + k] /= a[k * block + k];
			subtract(&a[i * block + k + 1], a[i * block + k], &a[k * block + k + 1],
			    size - k - 1);
		}
}

/* a = a U^-1: a block below the diagonal block d. */
static void divide_by_upper(double *a, const double *d, long rows, long size)
{
	long i, k;

	for (i = 0; i < rows; i++)
		for (k = 0; k < size; k++) {
			a[i * block + k] /= d[k * block + k];
			subtract(&a[i * block + k + 1], a[i * block + k], &d[k * block + k + 1],
			    size - k - 1);
		}
}

/* a = L^-1 a: a block right of the diagonal block d. */
static void divide_by_lower(double *a, const double *d, long size, long cols)
{
	long i, k;

	for (k = 0; k < size; k++)
		for (i = k + 1; i < size; i++)
			subtract(&a[i * block], d[i * block + k], &a[k * block], cols);
}

/* c -= a b. */
static void update(double *restrict c, const double *restrict a, const double *restrict b,
    long rows, long depth, long cols)
{
	long i, k;

	for (i = 0; i < rows; i++)
		for (k = 0; k < depth; k++)
			subtract(&c[i * block], a[i * block + k], &b[k * block], cols);
}

/* -------------------------------------------------------------------------- the factorisation */

static void divide_perimeter(long id, long k)
{
	const double *diagonal = at(k, k);
	long i;

	for (i = k + 1; i < blocks; i++) {
		if (owner(i, k) == id)
			divide_by_upper(at(i, k), diagonal, span(i), span(k));
		if (owner(k, i) == id)
			divide_by_lower(at(k, i), diagonal, span(k), span(i));
	}
}

static void update_interior(long id, long k)
{
	long i, j;

	for (j = k + 1; j < blocks; j++)
		for (i = k + 1; i < blocks; i++)
			if (owner(i, j) == id)
				update(at(i, j), at(i, k), at(k, j), span(i), span(k), span(j));
}

static void decompose(long id)
{
	unsigned long wait_us = 0;
	long k;

	for (k = 0; k < blocks; k++) {
		if (owner(k, k) == id)
			factor(at(k, k), span(k));
		meet(&wait_us);
		divide_perimeter(id, k);
		meet(&wait_us);
		update_interior(id, k);
	}
	shared->wait_us[id] = wait_us;
}

/* Each owner writes its blocks first, which makes their pages its own. */
static void fill(long id)
{
	long i, j, r, c;

	for (j = 0; j < blocks; j++)
		for (i = 0; i < blocks; i++)
			for (r = 0; owner(i, j) == id && r < span(i); r++)
				for (c = 0; c < span(j); c++)
					at(i, j)[r * block + c] =
					    element(i * block + r, j * block + c);
}

/* What every process runs. */
static void work(void)
{
	unsigned long ignored = 0;
	long id;

	/* A process's number in the program is its order of arrival, not its node. */
	LOCK(shared->id_lock)
	id = shared->next_id++;
	UNLOCK(shared->id_lock)

	fill(id);
	meet(&ignored);
	if (id == 0)
		CLOCK(shared->start_us);
	SPLASH3_ROI_BEGIN();
	decompose(id);
	meet(&ignored);
	SPLASH3_ROI_END();
	if (id == 0)
		CLOCK(shared->end_us);
}

/* ------------------------------------------------------------------------------- verification */

static double factored(long row, long col)
{
	return at(row / block, col / block)[row % block * block + col % block];
}

/* The largest difference between A v and L (U v), relative to the size of A v. */
static double residual(uint64_t seed)
{
	double *v = malloc((size_t)n * sizeof(*v)), *upper = calloc((size_t)n, sizeof(*upper));
	double worst = 0, largest = 0;
	long i, j;

	if (v == NULL || upper == NULL)
		return INFINITY;
	for (i = 0; i < n; i++)
		v[i] = element((long)(seed % 1000) + i + 1, i + (long)seed % 7 + 2 * n);
	for (i = 0; i < n; i++)
		for (j = i; j < n; j++)
			upper[i] += factored(i, j) * v[j];
	for (i = 0; i < n; i++) {
		double lower = upper[i], exact = 0;

		for (j = 0; j < i; j++)
			lower += factored(i, j) * upper[j];
		for (j = 0; j < n; j++)
			exact += element(i, j) * v[j];
		worst = fmax(worst, isnan(lower) ? INFINITY : fabs(lower - exact));
		largest = fmax(largest, fabs(exact));
	}
	free(v);
	free(upper);
	return worst / largest;
}

/* Called by main alone, after WAIT_FOR_END: A v = L (U v) for a random v shows wrong elements. */
static int verify(void)
{
	const double limit = 1e-15 * (double)(n + 100);
	double worst = 0;
	uint64_t seed;

	for (seed = 1; seed <= VECTORS; seed++)
		worst = fmax(worst, residual(seed * 331));
	printf("test: largest relative residual %.2e, limit %.2e\n", worst, limit);
	return worst <= limit;
}

/* ------------------------------------------------------------------------------------ start-up */

static void usage(const char *why)
{
	fprintf(stderr, "lu: %s\nusage: lu [-p procs] [-n size] [-b block size] [-s] [-t] [-o]\n",
	    why);
	exit(2);
}

/* One region per process, from a page boundary on, with its blocks column after column. */
static void place_blocks(void)
{
	const long elements = (block * block + 7) / 8 * 8;
	long id, i, j, count;

	for (id = 0; id < procs; id++) {
		char *region;
		double *next;

		for (count = 0, i = 0; i < blocks * blocks; i++)
			count += owner(i % blocks, i / blocks) == id;
		region = (char *)G_MALLOC((size_t)(count * elements) * sizeof(double) + PAGE_BYTES)
		region += (PAGE_BYTES - (uintptr_t)region % PAGE_BYTES) % PAGE_BYTES;
		next = (double *)(void *)region;
		for (j = 0; j < blocks; j++)
			for (i = 0; i < blocks; i++)
				if (owner(i, j) == id) {
					block_at[i + j * blocks] = next;
					next += elements;
				}
	}
}

static void set_up(void)
{
	if (n < 1 || n > 100000)
		usage("-n must be 1 to 100000");
	if (block < 1)
		usage("-b must be positive");
	if (procs < 1 || procs > PROCS_MAX)
		usage("-p must be 1 to 64");
	block = block < n ? block : n;
	blocks = (n + block - 1) / block;

	/* The squarest grid of processes. */
	for (proc_rows = (long)sqrt((double)procs); procs % proc_rows != 0; proc_rows--)
		;
	proc_cols = procs / proc_rows;
	block_at = malloc((size_t)(blocks * blocks) * sizeof(*block_at));
	if (block_at == NULL)
		usage("out of memory");
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	place_blocks();
	LOCKINIT(shared->id_lock)
	BARINIT(shared->barrier, procs)
}

static void print_matrix(void)
{
	long i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			printf("%.12g%c", factored(i, j), j == n - 1 ? '\n' : ' ');
}

int main(int argc, char **argv)
{
	int stats = 0, test = 0, print = 0, option;
	const char *verdict = "off";
	unsigned long total_us;
	long i;

	while ((option = getopt(argc, argv, "p:n:b:sto")) != -1) {
		switch (option) {
		case 'p': procs = atol(optarg); break;
		case 'n': n = atol(optarg); break;
		case 'b': block = atol(optarg); break;
		case 's': stats = 1; break;
		case 't': test = 1; break;
		case 'o': print = 1; break;
		default: usage("unknown option");
		}
	}
	MAIN_INITENV(,)
	ROAM_NEEDS(ScC)
	set_up();

	total_us = now_us();
	CREATE(work, procs)
	WAIT_FOR_END(procs)
	total_us = now_us() - total_us;

	for (i = 0; stats && i < procs; i++)
		printf("process %ld: waited %lu us at barriers\n", i, shared->wait_us[i]);
	if (print)
		print_matrix();
	if (test)
		verdict = verify() ? "ok" : "FAILED";
	printf("lu: n %ld b %ld p %ld total_us %lu region_us %lu verified %s\n", n, block, procs,
	    total_us, shared->end_us - shared->start_us, verdict);
	if (verdict[0] == 'F')
		exit(1);
	MAIN_END
}
