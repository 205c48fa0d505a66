/*
 * lu, lu-nc: blocked LU factorisation without pivoting of a dense n x n matrix, after the two SPLASH-2
 * programs: lu with each block contiguous in memory, lu-nc with the matrix as one array, row after row.
 *
 * Blocks are dealt to a grid of processes by two-dimensional scatter; a block is written by its
 * owner alone.  Step k: its owner factors the diagonal block; barrier; the owners of the blocks
 * right of it and below divide by it; barrier; every owner updates its blocks of the rest.  The
 * process that updates block (i, j) reads the finished blocks (i, k) and (k, j), which no process
 * writes any more: two barriers per step are enough.
 *
 * Sharing of lu: single writer, coarse access.  All blocks of a process lie in one region of its own,
 * column after column, so that no page has two writers and the blocks of a finished column are fetched as
 * a run of pages.  Each owner writes its blocks first.
 *
 * Sharing of lu-nc (compiled with SCATTERED): multiple writer, fine access.  A block's rows of 128
 * bytes alternate with those of other owners in every page of the matrix.  Main writes the matrix before
 * CREATE, and each process reads its own blocks before the measured part, as in the suite.
 *
 * The layout `pages` of lu-nc deals rows of blocks in turn instead of blocks, begins each row of blocks with a
 * page, and lets its owner write it first: every page has a single writer, which is its home.  Some words
 * after each row keep the rows of a block out of each other's cache sets.
 *
 * -p P  processes      -n N  rows and columns      -b B  rows and columns of a block
 * -s    times per process        -t    test the result        -o  print it
 * --layout suite|pages (lu-nc)
 */
MAIN_ENV
include(common.H)

#ifdef SCATTERED
#define NAME "lu-nc"
#define LAYOUT " [--layout suite|pages]"
#define PAGES 1
#else
#define NAME "lu"
#define LAYOUT ""
#define SCATTERED 0
#endif
#define OPTIONS "n:b:sto"
#define USAGE "[-n size] [-b block size] [-s] [-t] [-o]" LAYOUT
include(main.H)

#define VECTORS 3
#define ASIDE 8 /* numbers after a row, with the layout `pages` */

/* What each process spent on the parts of a step; arrays of their own, as in the suite. */
enum part { PART_DIAGONAL, PART_PERIMETER, PART_INTERIOR, PART_WAIT, PART_ALL, PARTS };

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static unsigned long *spent_us[PARTS]; /* shared, of each process */
static double **block_at; /* block (i, j) is at block_at[i + j * blocks], shared, row by row */
static long stride;       /* from a row of a block to its next one */
static long n = 512;
static long block = 16;
static long blocks;
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

/* The matrix: noise, and a diagonal heavy enough to need no pivoting.  Alike in all processes. */
static double element(long row, long col)
{
	return uniform(row * n + col) - 0.5 + (row == col ? (double)n : 0.0);
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
			a[i * stride + k] /= a[k * stride + k];
			subtract(&a[i * stride + k + 1], a[i * stride + k], &a[k * stride + k + 1],
			    size - k - 1);
		}
}

/* a = a U^-1: a block below the diagonal block d. */
static void divide_by_upper(double *a, const double *d, long rows, long size)
{
	long i, k;

	for (i = 0; i < rows; i++)
		for (k = 0; k < size; k++) {
			a[i * stride + k] /= d[k * stride + k];
			subtract(&a[i * stride + k + 1], a[i * stride + k], &d[k * stride + k + 1],
			    size - k - 1);
		}
}

/* a = L^-1 a: a block right of the diagonal block d. */
static void divide_by_lower(double *a, const double *d, long size, long cols)
{
	long i, k;

	for (k = 0; k < size; k++)
		for (i = k + 1; i < size; i++)
			subtract(&a[i * stride], d[i * stride + k], &a[k * stride], cols);
}

/* c -= a b. */
static void update(double *restrict c, const double *restrict a, const double *restrict b,
    long rows, long depth, long cols)
{
	long i, k;

	for (i = 0; i < rows; i++)
		for (k = 0; k < depth; k++)
			subtract(&c[i * stride], a[i * stride + k], &b[k * stride], cols);
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

/* Adds the time since *since_p to the part's; *since_p moves on. */
static void spend(unsigned long *spent, enum part part, unsigned long *since_p)
{
	const unsigned long now = now_us();

	spent[part] += now - *since_p;
	*since_p = now;
}

static void work(long id)
{
	unsigned long spent[PARTS] = { 0 }, since = now_us();
	const unsigned long begin = since;
	long k, part;

	for (k = 0; k < blocks; k++) {
		if (owner(k, k) == id)
			factor(at(k, k), span(k));
		spend(spent, PART_DIAGONAL, &since);
		meet();
		spend(spent, PART_WAIT, &since);
		divide_perimeter(id, k);
		spend(spent, PART_PERIMETER, &since);
		meet();
		spend(spent, PART_WAIT, &since);
		update_interior(id, k);
		spend(spent, PART_INTERIOR, &since);
	}
	spent[PART_ALL] = since - begin;
	for (part = 0; part < PARTS; part++)
		spent_us[part][id] = spent[part];
}

/* Writes block (i, j). */
static void fill_block(long i, long j)
{
	long r, c;

	for (r = 0; r < span(i); r++)
		for (c = 0; c < span(j); c++)
			at(i, j)[r * stride + c] = element(i * block + r, j * block + c);
}

/* Whether a diagonal element of block (i, j) is too light: reads all of the block. */
static long light(long i, long j)
{
	long r, c, count = 0;

	for (r = 0; r < span(i); r++)
		for (c = 0; c < span(j); c++)
			count += at(i, j)[r * stride + c] < (i == j && r == c ? (double)n - 1 : -1);
	return count;
}

/* Owners write their blocks first, which makes their pages their own; or read what main has written. */
static void fill(long id)
{
	long i, j;

	for (j = 0; j < blocks; j++)
		for (i = 0; i < blocks; i++) {
			if (owner(i, j) != id)
				continue;
			if (!SCATTERED || pages)
				fill_block(i, j);
			else if (light(i, j) > 0)
				exit(1); /* not the matrix that main has written */
		}
}

/* ------------------------------------------------------------------------------- verification */

static double factored(long row, long col)
{
	return at(row / block, col / block)[row % block * stride + col % block];
}

/* The largest difference between A v and L (U v), relative to the size of A v. */
static double residual(uint64_t seed)
{
	double *v = own((size_t)n * sizeof(*v)), *upper = own((size_t)n * sizeof(*upper));
	double worst = 0, largest = 0;
	long i, j;

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
		worst = worse(worst, fabs(lower - exact));
		largest = fmax(largest, fabs(exact));
	}
	free(v);
	free(upper);
	return worst / largest;
}

/* A v = L (U v) for a random v shows wrong elements. */
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

static int read_option(int letter, const char *value)
{
	return read_whole(value, letter == 'n' ? &n : &block);
}

/* One region per process, from a page boundary on, with its blocks column after column. */
static void place_blocks(void)
{
	const long elements = (block * block + 7) / 8 * 8;
	long id, i, j, count;

	block_at = (double **)G_MALLOC((size_t)(blocks * blocks) * sizeof(*block_at))
	for (id = 0; id < procs; id++) {
		void *region;
		double *next;

		for (count = 0, i = 0; i < blocks * blocks; i++)
			count += owner(i % blocks, i / blocks) == id;
		region = G_MALLOC((size_t)(count * elements) * sizeof(double) + PAGE_BYTES)
		next = page_start(region);
		for (j = 0; j < blocks; j++)
			for (i = 0; i < blocks; i++)
				if (owner(i, j) == id) {
					block_at[i + j * blocks] = next;
					next += elements;
				}
	}
}

/* The whole matrix as one array, written; or each row of blocks from a page boundary on. */
static void place_array(void)
{
	const long page = PAGE_BYTES / sizeof(double);
	const long rows = pages ? (block * stride + page - 1) / page * page : block * stride;
	double *matrix = (double *)G_MALLOC((size_t)(blocks * rows + page) * sizeof(*matrix))
	long i, j;

	if (pages)
		matrix = page_start(matrix);
	block_at = own((size_t)(blocks * blocks) * sizeof(*block_at));
	for (j = 0; j < blocks; j++)
		for (i = 0; i < blocks; i++) {
			block_at[i + j * blocks] = matrix + i * rows + j * block;
			if (!pages)
				fill_block(i, j);
		}
}

static void set_up(void)
{
	long part;

	ROAM_NEEDS(ScC)
	if (n < 1 || n > 100000)
		usage("-n must be 1 to 100000");
	if (block < 1)
		usage("-b must be positive");
	block = block < n ? block : n;
	blocks = (n + block - 1) / block;
	stride = !SCATTERED ? block : pages ? n + ASIDE : n;

	/* The squarest grid of processes, or one column. */
	for (proc_rows = pages ? procs : (long)sqrt((double)procs); procs % proc_rows != 0; proc_rows--)
		;
	proc_cols = procs / proc_rows;
	for (part = 0; part < PARTS; part++)
		spent_us[part] = (unsigned long *)G_MALLOC(sizeof(**spent_us) * PROCS_MAX)
	if (SCATTERED)
		place_array();
	else
		place_blocks();
}

static void print_times(void)
{
	long i;

	for (i = 0; i < procs; i++)
		printf("process %ld: diagonal %lu us, perimeter %lu us, interior %lu us, waited %lu "
		    "us, all %lu us\n", i, spent_us[PART_DIAGONAL][i], spent_us[PART_PERIMETER][i],
		    spent_us[PART_INTERIOR][i], spent_us[PART_WAIT][i], spent_us[PART_ALL][i]);
}

static void print_result(void)
{
	long i, j;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			printf("%.12g%c", factored(i, j), j == n - 1 ? '\n' : ' ');
}

static void print_size(void)
{
	printf("n %ld b %ld", n, block);
}
