/*
 * multigrid: V-cycles of red-black Gauss-Seidel relaxation.
 *
 * All processes work on the large levels, each on its part; the small ones are process 0's,
 * because a barrier costs more than they do.  Barriers stand where a process is about to read an edge
 * of a neighbour, or to write one that a neighbour may still be reading.
 */
EXTERN_ENV
include(ocean.H)

#define CYCLES_MAX 60
#define COARSEST_SWEEPS 8

/* A barrier of the processes that work on a level: all of them, or one. */
void meet_of(long count)
{
	if (count > 1)
		meet();
}

/*
 * The part of process `id` of `count`: a band of rows, or in ocean-nc one of a grid of rectangles, which are
 * an even number of columns wide.  The grid has at least as many rows as columns, as in the suite: for 2
 * processes the rectangles are bands.  If one process works on the level, the others have no rows.
 */
struct part part_of(long n, long count, long id)
{
	long rows, cols = 1;

	if (RECTANGLES)
		for (cols = (long)sqrt((double)count); count % cols != 0; cols--)
			;
	rows = count / cols;
	if (id >= count)
		return (struct part){ n + 1, n + 1, 1, n + 1 };
	return (struct part){
		1 + n * (id / cols) / rows, 1 + n * (id / cols + 1) / rows,
		1 + n / 2 * (id % cols) / cols * 2, 1 + n / 2 * (id % cols + 1) / cols * 2,
	};
}

static struct part own_part(const struct worker *w, const struct level *l)
{
	return part_of(l->n, l->procs, w->id);
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

/*
 * The largest of the processes' values, in one place under a lock, as in the suite.  Three places are used
 * in turn: the next one is cleared when all have read it, two barriers ago, and before any can use it.
 */
static double largest_of_all(struct worker *w, double mine)
{
	double *place = w->shared->largest;
	const unsigned turn = w->turn++;

	LOCK(w->shared->largest_lock)
	place[turn % 3] = larger(place[turn % 3], mine);
	UNLOCK(w->shared->largest_lock)
	if (w->id == 0)
		place[(turn + 1) % 3] = 0;
	meet_of(w->o->procs);
	return place[turn % 3];
}

/* On the way down the suite finds each level's largest residual, too: here down to the first of process 0. */
static void note_largest(const struct worker *w, const struct level *l, double mine)
{
	double *place = &w->shared->level_largest[l - w->level];

	if (l[1].procs != w->o->procs)
		return;
	LOCK(w->shared->largest_lock)
	*place = larger(*place, mine);
	UNLOCK(w->shared->largest_lock)
}

/*
 * One colour of one row.  Beyond a wall the border holds 0 where the mirror image -u would stand:
 * that is one more u on the diagonal for each wall of the cell, mended after the loop for columns 1
 * and n.
 */
static void relax_row(const struct level *l, struct part part, double shift, long i, long colour)
{
	const double *up = l->u[i - 1], *down = l->u[i + 1], *f = l->f[i];
	double *mid = l->u[i];
	const double cell2 = l->cell2, diagonal = 4 + shift * cell2 + (i == 1) + (i == l->n);
	const double inverse = 1 / diagonal, mend = diagonal / (diagonal + 1);
	const long first = part.col + (part.col + 1 + i + colour) % 2;
	long j;

	for (j = first; j < part.col_end; j += 2)
		mid[j] = (up[j] + down[j] + (mid[j - 1] + mid[j + 1]) - cell2 * f[j]) * inverse;
	if (first == 1)
		mid[1] *= mend;
	else if (j == l->n + 2)
		mid[l->n] *= mend;
}

/*
 * Red, then black, cells.  A cell's neighbours all have the other colour, so rows may be done in
 * any order; black follows red one row behind, while the rows are in the cache.  Only the outermost
 * black rows of a band need red neighbours of another process, and wait for it.
 */
static void relax_band(const struct worker *w, const struct level *l, struct part part)
{
	const long first = part.row, last = part.row_end - 1;
	long i;

	for (i = first; i <= last; i++) {
		relax_row(l, part, w->shift, i, 0);
		if (i > first + 1)
			relax_row(l, part, w->shift, i - 1, 1);
	}
	meet_of(l->procs);
	if (first <= last)
		relax_row(l, part, w->shift, first, 1);
	if (first < last)
		relax_row(l, part, w->shift, last, 1);
	meet_of(l->procs);
}

/* Of a rectangle every row has neighbours of another process. */
static void relax_rectangle(const struct worker *w, const struct level *l, struct part part)
{
	long colour, i;

	for (colour = 0; colour < 2; colour++) {
		for (i = part.row; i < part.row_end; i++)
			relax_row(l, part, w->shift, i, colour);
		meet_of(l->procs);
	}
}

static void relax(const struct worker *w, const struct level *l, int sweeps)
{
	const struct part part = own_part(w, l);

	for (; sweeps > 0; sweeps--) {
		if (RECTANGLES)
			relax_rectangle(w, l, part);
		else
			relax_band(w, l, part);
	}
}

/* f - (laplace(u) - shift u); `diagonal` counts the walls as in relax_row. */
static inline double residual(const struct level *l, double diagonal, long i, long j)
{
	const double *mid = l->u[i];
	const double sum = l->u[i - 1][j] + l->u[i + 1][j] + mid[j - 1] + mid[j + 1];

	return l->f[i][j] - (sum - diagonal * mid[j]) / l->cell2;
}

/* The mean of the four residuals below a coarse cell; *largest_p grows to the largest of them. */
static inline double mean_residual(const struct level *l, double south, double north, double west,
    double east, long i, long j, double *largest_p)
{
	const double a = residual(l, south + west, 2 * i - 1, 2 * j - 1);
	const double b = residual(l, south + east, 2 * i - 1, 2 * j);
	const double c = residual(l, north + west, 2 * i, 2 * j - 1);
	const double d = residual(l, north + east, 2 * i, 2 * j);

	*largest_p = larger(*largest_p, larger(larger(fabs(a), fabs(b)), larger(fabs(c), fabs(d))));
	return 0.25 * (a + b + c + d);
}

/*
 * The residual, cells taken four by four, becomes the right hand side of the next coarser level,
 * whose unknown starts at 0.  Returns the largest residual of the own rows.
 */
static double restrict_residual(const struct worker *w, const struct level *l)
{
	const struct level *coarse = l - 1;
	const long n = coarse->n;
	const struct part part = part_of(n, l->procs, w->id), next = own_part(w, coarse);
	const long first = part.col == 1 ? 2 : part.col;
	const long end = part.col_end == n + 1 ? n : part.col_end;
	double largest = 0;
	long i, j;

	for (i = part.row; i < part.row_end; i++) {
		const double south = 4 + w->shift * l->cell2 + (i == 1);
		const double north = 4 + w->shift * l->cell2 + (i == n);
		double *f = coarse->f[i];

		if (part.col == 1)
			f[1] = mean_residual(l, south, north, 1, 0, i, 1, &largest);
		for (j = first; j < end; j++)
			f[j] = mean_residual(l, south, north, 0, 0, i, j, &largest);
		if (part.col_end == n + 1)
			f[n] = mean_residual(l, south, north, 0, 1, i, n, &largest);
	}
	for (i = next.row; i < next.row_end; i++)
		memset(&coarse->u[i][next.col], 0, (size_t)(next.col_end - next.col) * sizeof(double));
	return largest;
}

/*
 * Adds the coarser level's correction, interpolated between the four nearest coarse cells.  Of
 * those beyond a wall, whose border holds 0, the mirror image counts.
 */
static void prolong(const struct worker *w, const struct level *l)
{
	const struct level *coarse = l - 1;
	const struct part part = own_part(w, l);
	const long first = (part.col + 1) / 2, last = (part.col_end - 1) / 2;
	long i, j;

	for (i = part.row; i < part.row_end; i++) {
		const double weight = i == 1 || i == l->n ? 0.5 : 0.75;
		const double *near = coarse->u[(i + 1) / 2];
		const double *far = coarse->u[i % 2 == 1 ? (i - 1) / 2 : i / 2 + 1];
		double *u = l->u[i];
		double left, here = weight * near[first - 1] + 0.25 * far[first - 1];
		double right = weight * near[first] + 0.25 * far[first];

		if (first == 1)
			u[1] -= 0.25 * right;
		for (j = first; j <= last; j++) {
			left = here;
			here = right;
			right = weight * near[j + 1] + 0.25 * far[j + 1];
			u[2 * j - 1] += 0.75 * here + 0.25 * left;
			u[2 * j] += 0.75 * here + 0.25 * right;
		}
		if (last == coarse->n)
			u[l->n] -= 0.25 * here;
	}
}

static void cycle(const struct worker *w, const struct level *l);

/* The coarser levels' correction of level l.  Small ones are process 0's; the others wait. */
static void correct(const struct worker *w, const struct level *l)
{
	const int all = l[-1].procs == l->procs;

	if (all || w->id == 0)
		cycle(w, l - 1);
	if (!all)
		meet_of(l->procs);
	prolong(w, l);
	meet_of(l->procs);
	relax(w, l, 1);
}

/* One V-cycle from level l down. */
static void cycle(const struct worker *w, const struct level *l)
{
	if (l == w->level) {
		relax(w, l, COARSEST_SWEEPS);
		return;
	}
	relax(w, l, 1);
	note_largest(w, l, restrict_residual(w, l));
	meet_of(l->procs);
	correct(w, l);
}

/*
 * Solves laplace(u) - shift u = f, with 0 along the walls; u brings the first guess.  The residual
 * is taken on the way down, where it is computed anyhow; a solve ends there.
 */
void solve(struct worker *w, grid u, grid f, double shift)
{
	struct level *top = &w->level[w->o->levels - 1];
	const struct part part = own_part(w, top);
	const unsigned long before = now_us();
	double scale = 0, largest;
	long i, j, cycles;

	top->u = u;
	top->f = f;
	w->shift = shift;
	for (i = part.row; i < part.row_end; i++)
		for (j = part.col; j < part.col_end; j++)
			scale = larger(scale, fabs(f[i][j]));
	scale = largest_of_all(w, scale);
	for (cycles = 1;; cycles++) {
		relax(w, top, 1);
		largest = largest_of_all(w, restrict_residual(w, top));
		if (largest <= w->o->tolerance * scale || cycles == CYCLES_MAX)
			break;
		correct(w, top);
	}
	if (w->id == 0)
		w->shared->solve[w->solves] = (struct solve){ cycles, largest / scale };
	w->solves++;
	w->shared->solve_us[w->id] += now_us() - before;
}
