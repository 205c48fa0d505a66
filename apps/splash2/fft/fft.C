/*
 * fft: complex one-dimensional FFT of n = 2^m points, the six-step algorithm of the SPLASH-2 suite.
 *
 * The points are a root x root matrix, root = 2^(m/2), and each process owns a band of rows:
 *
 *	transpose; FFT of each row; multiply by the twiddle factors; transpose; FFT of each row;
 *	transpose
 *
 * Row FFTs touch a process's own rows only.  All communication is in the transposes, where each
 * process reads a block of columns from every other one and writes its own rows: data is written by
 * its owner alone, so its pages stay where they are and only readers fetch.
 *
 * -p P  processes            -m M  log2 of the points, even
 * -n N  cache lines          -l L  log2 of a line's bytes (N and L set the tile of the transposes)
 * -s    times per process    -t    test the result            -o  print it
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

struct point {
	double re;
	double im;
};

/* Data that the processes share, besides the matrices. */
struct shared {
	BARDEC(barrier)
	LOCKDEC(id_lock)
	long next_id;
	unsigned long start_us;
	unsigned long end_us;
	unsigned long transpose_us[PROCS_MAX];
};

/*
 * Private variables.  Set before CREATE, they are the same in every process; afterwards each
 * process has its own copy, so nothing written here after CREATE is seen by another one.
 */
static struct shared *shared;
static struct point *data;    /* shared: the input, root rows */
static struct point *scratch; /* shared: the transposed matrix, and the result */
static struct point *roots;   /* roots[k] = w(root)^k */
static struct point *fine;    /* fine[k] = w(n)^k */
static long procs = 1;
static long log2_n = 10;
static long n, root;
static long tile;

static long first_row(long id)
{
	return root * id / procs;
}

/* A barrier of all processes; none when main works alone after WAIT_FOR_END. */
static void meet(void)
{
	if (procs > 1)
		BARRIER(shared->barrier, procs)
}

static unsigned long now_us(void)
{
	unsigned long now;

	CLOCK(now);
	return now;
}

static struct point times(struct point a, struct point b)
{
	return (struct point){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* w(n)^e from two small private tables, instead of a shared table of n roots. */
static struct point root_of_n(long e)
{
	return times(roots[e / root], fine[e % root]);
}

static double noise(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15u;
	i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
	i = (i ^ i >> 27) * 0x94d049bb133111ebu;
	return (double)((i ^ i >> 31) >> 11) * 0x1p-52 - 1.0;
}

/* Input point i, the same in every process. */
static struct point input(long i)
{
	return (struct point){ noise(2 * (uint64_t)i), noise(2 * (uint64_t)i + 1) };
}

/* ------------------------------------------------------------------------------ the transform */

/* One row's FFT in natural order (Stockham): each stage reads one buffer and writes the other. */
static void fft_row(struct point *row, struct point *spare)
{
	struct point *restrict x = row, *restrict y = spare, *swap;
	long half, run, p, q;

	for (half = root / 2, run = 1; half >= 1; half /= 2, run *= 2) {
		for (p = 0; p < half; p++) {
			const struct point w = roots[p * run];
			const struct point *a = &x[run * p], *b = &x[run * (p + half)];
			struct point *sum = &y[run * 2 * p], *difference = sum + run;

			for (q = 0; q < run; q++) {
				const double re = a[q].re - b[q].re, im = a[q].im - b[q].im;

				sum[q].re = a[q].re + b[q].re;
				sum[q].im = a[q].im + b[q].im;
				difference[q].re = re * w.re - im * w.im;
				difference[q].im = re * w.im + im * w.re;
			}
		}
		swap = x;
		x = y;
		y = swap;
	}
	if (x != row)
		memcpy(row, x, (size_t)root * sizeof(*row));
}

/* to[col][row] = from[row][col] for one tile, through a buffer that both sides cross in lines. */
static void transpose_tile(const struct point *restrict from, struct point *restrict to,
    struct point *restrict buffer, long rows, long cols)
{
	long r, c;

	for (r = 0; r < rows; r++)
		for (c = 0; c < cols; c++)
			buffer[c * tile + r] = from[r * root + c];
	for (c = 0; c < cols; c++)
		memcpy(&to[c * root], &buffer[c * tile], (size_t)rows * sizeof(*to));
}

/*
 * Fills this process's rows of `to` from the columns of `from`.  Starting with its successor's
 * band, not with band 0, keeps all processes from reading the same owner at once.  Down the columns
 * first: the pages of another owner are met at a constant stride of one row.
 */
static void transpose(const struct point *from, struct point *to, struct point *buffer, long id)
{
	const long col_end = first_row(id + 1);
	long k, row, col;

	for (k = 1; k <= procs; k++) {
		const long owner = (id + k) % procs;
		const long row_end = first_row(owner + 1);

		for (col = first_row(id); col < col_end; col += tile) {
			const long cols = col_end - col < tile ? col_end - col : tile;

			for (row = first_row(owner); row < row_end; row += tile) {
				const long rows = row_end - row < tile ? row_end - row : tile;

				transpose_tile(&from[row * root + col], &to[col * root + row],
				    buffer, rows, cols);
			}
		}
	}
}

static void transpose_timed(const struct point *from, struct point *to, struct point *buffer,
    long id, unsigned long *spent_us)
{
	const unsigned long before = now_us();

	transpose(from, to, buffer, id);
	*spent_us += now_us() - before;
}

/*
 * The whole transform, data -> scratch.  One barrier between the last write of a row and its reading
 * by others is enough: a process that passes it has finished reading the matrix written next.
 */
static void transform(struct point *x, struct point *y, long id)
{
	struct point *buffer = malloc(sizeof(*buffer) * (size_t)(root + tile * tile));
	struct point *spare = buffer + tile * tile;
	unsigned long spent_us = 0;
	long j, k;

	if (buffer == NULL) {
		fprintf(stderr, "fft: out of memory\n");
		exit(1);
	}
	transpose_timed(x, y, buffer, id, &spent_us);
	for (j = first_row(id); j < first_row(id + 1); j++) {
		fft_row(&y[j * root], spare);
		for (k = 0; k < root; k++)
			y[j * root + k] = times(y[j * root + k], root_of_n(j * k));
	}
	meet();
	transpose_timed(y, x, buffer, id, &spent_us);
	for (j = first_row(id); j < first_row(id + 1); j++)
		fft_row(&x[j * root], spare);
	meet();
	transpose_timed(x, y, buffer, id, &spent_us);
	shared->transpose_us[id] = spent_us;
	free(buffer);
}

/* What every process runs. */
static void work(void)
{
	long id, i;

	/* A process's number in the program is its order of arrival, not its node. */
	LOCK(shared->id_lock)
	id = shared->next_id++;
	UNLOCK(shared->id_lock)

	/* Each process writes its own rows first, which makes their pages its own. */
	for (i = first_row(id) * root; i < first_row(id + 1) * root; i++)
		data[i] = input(i);
	meet();
	if (id == 0)
		CLOCK(shared->start_us);
	SPLASH3_ROI_BEGIN();
	transform(data, scratch, id);
	meet();
	SPLASH3_ROI_END();
	if (id == 0)
		CLOCK(shared->end_us);
}

/* ------------------------------------------------------------------------------- verification */

/* The larger of two; not a number counts as the largest. */
static double worse(double a, double b)
{
	return isnan(a) || isnan(b) ? INFINITY : fmax(a, b);
}

/* A few points of the result against the definition, computed from the input anew. */
static double worst_known(void)
{
	const long sample[] = { 0, 1, n / 2 + 1, n - root - 1 };
	double worst = 0;
	size_t s;
	long j;

	for (s = 0; s < sizeof(sample) / sizeof(sample[0]); s++) {
		const long k = sample[s];
		struct point sum = { 0, 0 };

		for (j = 0; j < n; j++) {
			const struct point term = times(input(j), root_of_n(j * k % n));

			sum.re += term.re;
			sum.im += term.im;
		}
		worst = worse(worst, hypot(sum.re - scratch[k].re, sum.im - scratch[k].im));
	}
	return worst / sqrt((double)n);
}

/* The inverse of the result, by conjugation, against the input.  Destroys both matrices. */
static double worst_inverse(void)
{
	double worst = 0;
	long i;

	for (i = 0; i < n; i++)
		scratch[i].im = -scratch[i].im;
	transform(scratch, data, 0);
	for (i = 0; i < n; i++) {
		const struct point x = input(i);

		worst = worse(worst, hypot(data[i].re / (double)n - x.re,
		    -data[i].im / (double)n - x.im));
	}
	return worst;
}

/* Main alone, after WAIT_FOR_END. */
static int verify(void)
{
	const double limit = 1e-12 * (double)log2_n;
	double known, inverse;

	procs = 1;
	known = worst_known();
	inverse = worst_inverse();
	printf("test: largest error of sampled points %.2e, of the inverse %.2e, limit %.2e\n",
	    known, inverse, limit);
	return known <= limit && inverse <= limit;
}

/* ------------------------------------------------------------------------------------ start-up */

static void usage(const char *why)
{
	fprintf(stderr, "fft: %s\nusage: fft [-p procs] [-m even log2 of points] [-n cache lines] "
	    "[-l log2 line bytes] [-s] [-t] [-o]\n", why);
	exit(2);
}

/* Shared memory for the matrices, from a page boundary on: bands of rows then share no page. */
static struct point *matrix(void)
{
	char *block = (char *)G_MALLOC((size_t)n * sizeof(struct point) + PAGE_BYTES)

	block += (PAGE_BYTES - (uintptr_t)block % PAGE_BYTES) % PAGE_BYTES;
	return (struct point *)(void *)block;
}

static void set_up(long lines, long log2_line)
{
	const long line_points = (1l << log2_line) / (long)sizeof(struct point);
	long k;

	if (log2_n < 2 || log2_n > 40 || log2_n % 2 != 0)
		usage("-m must be even, 2 to 40");
	if (lines < 1 || log2_line < 4 || log2_line > 12)
		usage("-n must be positive, -l 4 to 12");
	n = 1l << log2_n;
	root = 1l << log2_n / 2;
	if (procs < 1 || procs > PROCS_MAX || procs > root)
		usage("-p must be 1 to 64 and no more than the square root of the points");

	/* The largest tile of whole lines that fills no more than half the cache. */
	for (tile = line_points; 8 * tile * tile <= lines * line_points; tile *= 2)
		;
	roots = malloc((size_t)root * sizeof(*roots));
	fine = malloc((size_t)root * sizeof(*fine));
	if (roots == NULL || fine == NULL)
		usage("out of memory");
	for (k = 0; k < root; k++) {
		const double turn = -2 * acos(-1.0) * (double)k;

		roots[k] = (struct point){ cos(turn / (double)root), sin(turn / (double)root) };
		fine[k] = (struct point){ cos(turn / (double)n), sin(turn / (double)n) };
	}
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	data = matrix();
	scratch = matrix();
	LOCKINIT(shared->id_lock)
	BARINIT(shared->barrier, procs)
}

int main(int argc, char **argv)
{
	long lines = 512, log2_line = 6, i;
	int stats = 0, test = 0, print = 0, option;
	const char *verdict = "off";
	unsigned long total_us;

	while ((option = getopt(argc, argv, "p:m:n:l:sto")) != -1) {
		switch (option) {
		case 'p': procs = atol(optarg); break;
		case 'm': log2_n = atol(optarg); break;
		case 'n': lines = atol(optarg); break;
		case 'l': log2_line = atol(optarg); break;
		case 's': stats = 1; break;
		case 't': test = 1; break;
		case 'o': print = 1; break;
		default: usage("unknown option");
		}
	}
	MAIN_INITENV(,)
	ROAM_NEEDS(ScC)
	set_up(lines, log2_line);

	total_us = now_us();
	CREATE(work, procs)
	WAIT_FOR_END(procs)
	total_us = now_us() - total_us;

	for (i = 0; stats && i < procs; i++)
		printf("process %ld: transposes %lu us\n", i, shared->transpose_us[i]);
	for (i = 0; print && i < n; i++)
		printf("%ld %.12g %.12g\n", i, scratch[i].re, scratch[i].im);
	i = procs;
	if (test)
		verdict = verify() ? "ok" : "FAILED";
	printf("fft: n %ld p %ld total_us %lu region_us %lu verified %s\n", n, i, total_us,
	    shared->end_us - shared->start_us, verdict);
	if (verdict[0] == 'F')
		exit(1);
	MAIN_END
}
