/*
 * fft: complex one-dimensional FFT of n = 2^m points, the six-step algorithm of the SPLASH-2 suite.
 *
 * The points are a root x root matrix, root = 2^(m/2), and each process owns a band of rows:
 *
 *	transpose; FFT of each row; multiply by the twiddle factors; barrier; transpose; FFT of each
 *	row; barrier; transpose; barrier; copy the result to where the points were
 *
 * The twiddle factors are a matrix, too, and the root's roots a shared table of which a process makes a copy.
 * Row FFTs touch a process's own rows only.  All communication is in the transposes, where each
 * process reads a block of columns from every other one and writes its own rows: data is written by
 * its owner alone, so its pages stay where they are and only readers fetch.
 *
 * -p P  processes            -m M  log2 of the points, even
 * -n N  cache lines          -l L  log2 of a line's bytes (N and L set the tile of the transposes)
 * -s    times per process    -t    test the result            -o  print it
 */
MAIN_ENV
include(common.H)

#define NAME "fft"
#define OPTIONS "m:n:l:sto"
#define USAGE "[-m even log2 of points] [-n cache lines] [-l log2 line bytes] [-s] [-t] [-o]"
include(main.H)

struct point {
	double re;
	double im;
};

/*
 * Private variables.  Set before CREATE, they are the same in every process; afterwards each
 * process has its own copy, so nothing written here after CREATE is seen by another one.
 */
static unsigned long *transpose_us; /* shared: of each process */
static unsigned long *all_us;
static struct point *data;    /* shared: the input, root rows, and the result */
static struct point *scratch; /* shared: the transposed matrix */
static struct point *twiddle; /* shared: w(n)^(jk) in row j, column k */
static struct point *table;   /* shared: that of `roots` */
static struct point *roots;   /* roots[k] = w(root)^k */
static struct point *fine;    /* fine[k] = w(n)^k */
static long log2_n = 10;
static long n, root;
static long tile, lines = 512, log2_line = 6;

static long first_row(long id)
{
	return first_of(root, id);
}

static struct point times(struct point a, struct point b)
{
	return (struct point){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
}

/* w(n)^e from two small private tables. */
static struct point root_of_n(long e)
{
	return times(roots[e / root], fine[e % root]);
}

/* Input point i, the same in every process. */
static struct point input(long i)
{
	return (struct point){ 2 * uniform(2 * i) - 1, 2 * uniform(2 * i + 1) - 1 };
}

/* ------------------------------------------------------------------------------ the transform */

/*
 * One row's FFT in natural order (Stockham): each stage reads one buffer and writes the other.  powers[k] is w(root)^k.
 */
static void fft_row(struct point *row, struct point *spare, const struct point *powers)
{
	struct point *restrict x = row, *restrict y = spare, *swap;
	long half, run, p, q;

	for (half = root / 2, run = 1; half >= 1; half /= 2, run *= 2) {
		for (p = 0; p < half; p++) {
			const struct point w = powers[p * run];
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
 * The whole transform of x, by way of y.  A barrier stands between the last write of a row and its reading
 * by others: a process that passes it has finished reading the matrix written next.
 */
static void transform(struct point *x, struct point *y, long id)
{
	struct point *buffer = own(sizeof(*buffer) * (size_t)(2 * root + tile * tile));
	struct point *spare = buffer + tile * tile, *powers = spare + root;
	const unsigned long before = now_us();
	const long first = first_row(id) * root, end = first_row(id + 1) * root;
	unsigned long spent_us = 0;
	long j, k;

	memcpy(powers, table, (size_t)root * sizeof(*powers));
	transpose_timed(x, y, buffer, id, &spent_us);
	for (j = first_row(id); j < first_row(id + 1); j++) {
		fft_row(&y[j * root], spare, powers);
		for (k = 0; k < root; k++)
			y[j * root + k] = times(y[j * root + k], twiddle[j * root + k]);
	}
	meet();
	transpose_timed(y, x, buffer, id, &spent_us);
	for (j = first_row(id); j < first_row(id + 1); j++)
		fft_row(&x[j * root], spare, powers);
	meet();
	transpose_timed(x, y, buffer, id, &spent_us);
	meet();
	memcpy(&x[first], &y[first], (size_t)(end - first) * sizeof(*x));
	transpose_us[id] = spent_us;
	all_us[id] = now_us() - before;
	free(buffer);
}

/* Each process writes its own rows first, which makes their pages its own. */
static void fill(long id)
{
	long i;

	for (i = first_row(id) * root; i < first_row(id + 1) * root; i++) {
		data[i] = input(i);
		twiddle[i] = root_of_n(i / root * (i % root));
	}
}

static void work(long id)
{
	transform(data, scratch, id);
}

/* ------------------------------------------------------------------------------- verification */

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
		worst = worse(worst, hypot(sum.re - data[k].re, sum.im - data[k].im));
	}
	return worst / sqrt((double)n);
}

/* The inverse of the result, by conjugation, against the input.  Destroys the result. */
static double worst_inverse(void)
{
	double worst = 0;
	long i;

	for (i = 0; i < n; i++)
		data[i].im = -data[i].im;
	transform(data, scratch, 0);
	for (i = 0; i < n; i++) {
		const struct point x = input(i);

		worst = worse(worst, hypot(data[i].re / (double)n - x.re,
		    -data[i].im / (double)n - x.im));
	}
	return worst;
}

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

static int read_option(int letter, const char *value)
{
	return read_whole(value, letter == 'm' ? &log2_n : letter == 'n' ? &lines : &log2_line);
}

/* Shared memory for the matrices, from a page boundary on: bands of rows then share no page. */
static struct point *matrix(void)
{
	void *block = G_MALLOC((size_t)n * sizeof(struct point) + PAGE_BYTES)

	return page_start(block);
}

static void set_up(void)
{
	long line_points, k;

	ROAM_NEEDS(ScC)
	if (log2_n < 2 || log2_n > 40 || log2_n % 2 != 0)
		usage("-m must be even, 2 to 40");
	if (lines < 1 || log2_line < 4 || log2_line > 12)
		usage("-n must be positive, -l 4 to 12");
	n = 1l << log2_n;
	root = 1l << log2_n / 2;
	if (procs > root)
		usage("-p must be no more than the square root of the points");

	/* The largest tile of whole lines that fills no more than half the cache. */
	line_points = (1l << log2_line) / (long)sizeof(struct point);
	for (tile = line_points; 8 * tile * tile <= lines * line_points; tile *= 2)
		;
	roots = own((size_t)root * sizeof(*roots));
	fine = own((size_t)root * sizeof(*fine));
	table = (struct point *)G_MALLOC((size_t)root * sizeof(*table))
	for (k = 0; k < root; k++) {
		const double turn = -2 * acos(-1.0) * (double)k;

		roots[k] = (struct point){ cos(turn / (double)root), sin(turn / (double)root) };
		fine[k] = (struct point){ cos(turn / (double)n), sin(turn / (double)n) };
		table[k] = roots[k];
	}
	transpose_us = (unsigned long *)G_MALLOC(sizeof(*transpose_us) * PROCS_MAX)
	all_us = (unsigned long *)G_MALLOC(sizeof(*all_us) * PROCS_MAX)
	data = matrix();
	scratch = matrix();
	twiddle = matrix();
}

static void print_times(void)
{
	long i;

	for (i = 0; i < procs; i++)
		printf("process %ld: transposes %lu us of %lu\n", i, transpose_us[i], all_us[i]);
}

static void print_result(void)
{
	long i;

	for (i = 0; i < n; i++)
		printf("%ld %.12g %.12g\n", i, data[i].re, data[i].im);
}

static void print_size(void)
{
	printf("n %ld", n);
}
