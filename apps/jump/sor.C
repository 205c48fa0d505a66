/*
 * sor: red-black successive over-relaxation on two n x n matrices, 20 rounds, after the JUMP paper.
 *
 * The points of a grid of n rows and 2 n columns are red and black like a chessboard, each colour
 * in a matrix of its own.  The four neighbours of a red point are black: half a round changes one
 * colour from the other, and ends in a barrier.  Each process has a band of rows; it reads one row
 * of each neighbour's band, and writes its own alone.
 *
 * Needs scope consistency (ScC): only barriers order the half rounds.
 */
#define NAME "jump-sor"
#define N_DEFAULT 512
#define N_MAX 16384
#define ROUNDS 20

include(kernel.H)

#define OMEGA 1.25f /* how far a point goes towards, and beyond, the mean of its neighbours */

/* The two colours.  Point (i, j) of red is in column 2 j + i % 2 of the grid, of black beside it. */
struct grid {
	float *red;
	float *black;
};

static struct grid grid; /* private pointers to shared matrices */

static void allocate(void)
{
	grid.red = (float *)G_MALLOC((size_t)(n * n) * sizeof(float))
	grid.black = (float *)G_MALLOC((size_t)(n * n) * sizeof(float))
}

static void fill_rows(struct grid to, long first, long end)
{
	long i;

	for (i = first * n; i < end * n; i++) {
		to.red[i] = (float)(noise(i) % 1000);
		to.black[i] = (float)(noise(n * n + i) % 1000);
	}
}

static void fill_part(long id)
{
	fill_rows(grid, first_of(n, id), first_of(n, id + 1));
}

/*
 * Relaxes the inner points of a row of one colour.  Between points j - 1 and j of the other colour
 * is point j - right of this one: `right` is 1 where this colour stands to the right of the other.
 */
static void relax_row(float *restrict row, const float *restrict other, long right)
{
	const float *above = other - n, *below = other + n;
	long j;

	for (j = 1 - right; j < n - right; j++) {
		const float sum = above[j] + below[j] + other[j - 1 + right] + other[j + right];

		row[j] += OMEGA * (0.25f * sum - row[j]);
	}
}

/* Half a round; the rows at the edges stay as they are. */
static void relax(float *colour, const float *other, long first, long end, long is_black)
{
	long i;

	for (i = first > 1 ? first : 1; i < end && i < n - 1; i++)
		relax_row(&colour[i * n], &other[i * n], (i + is_black) % 2);
}

static void work(long id)
{
	const long first = first_of(n, id), end = first_of(n, id + 1);
	long round;

	for (round = 0; round < rounds; round++) {
		resume_point(&round, id, 1);
		relax(grid.red, grid.black, first, end, 0);
		BARRIER(common->barrier, procs)
		relax(grid.black, grid.red, first, end, 1);
		BARRIER(common->barrier, procs)
	}
}

/* One process repeats the run in private memory: every bit must be equal. */
static int verify(void)
{
	const size_t bytes = (size_t)(n * n) * sizeof(float);
	struct grid alone = {own(bytes), own(bytes)};
	long round, i, wrong = 0;

	fill_rows(alone, 0, n);
	for (round = 0; round < rounds; round++) {
		relax(alone.red, alone.black, 0, n, 0);
		relax(alone.black, alone.red, 0, n, 1);
	}
	for (i = 0; i < n * n; i++)
		wrong += memcmp(&alone.red[i], &grid.red[i], sizeof(float)) != 0 ||
		    memcmp(&alone.black[i], &grid.black[i], sizeof(float)) != 0;
	printf("test: %ld points differ from a run by one process\n", wrong);
	free(alone.red);
	free(alone.black);
	return wrong == 0;
}
