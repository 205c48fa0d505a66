/*
 * multigrid: V-cycles of red-black Gauss-Seidel relaxation.
 *
 * All processes work on the large levels, each on its band of rows; the small ones are process 0's,
 * because a barrier costs more than they do.  Barriers stand where a process is about to read a row
 * of a neighbour, or to write one that a neighbour may still be reading.
 */
EXTERN_ENV
include(ocean.H)

#define CYCLES_MAX 60
#define COARSEST_SWEEPS 8

unsigned long now_us(void)
{
	unsigned long now;

	CLOCK(now);
	return now;
}

/* A barrier of the processes that work on a level. */
void meet(const struct worker *w, long procs)
{
	if (procs > 1)
		BARRIER(w->shared->barrier, procs)
}

/* Process `id` has the rows from first_row(id) to before first_row(id + 1). */
long first_row(long n, long procs, long id)
{
	return id < procs ? 1 + n * id / procs : n + 1;
}

static inline double larger(double a, double b)
{
	return a > b ? a : b;
}

/*
 * The largest of the processes' values.  Two sets of places are used in turn: a process that writes a
 * place again has passed the other set's barrier, which all reach after reading this set.
 */
static double largest_of_all(struct worker *w, double mine)
{
	double (*place)[8] = w->shared->largest[w->turn++ % 2];
	double largest = 0;
	long i;

	place[w->id][0] = mine;
	meet(w, w->o->procs);
	for (i = 0; i < w->o->procs; i++)
		largest = larger(largest, place[i][0]);
	return largest;
}

/*
 * One colour of one row.  Beyond a wall the border holds 0 where the mirror image -u would stand:
 * that is one more u on the diagonal for each wall of the cell, mended after the loop for columns 1
 * and n.
 */
static void relax_row(const struct level *l, double shift, long i, long colour)
{
	const double *up = l->u[i - 1], *down = l->u[i + 1], *f = l->f[i];
	double *mid = l->u[i];
	const double cell2 = l->cell2, diagonal = 4 + shift * cell2 + (i == 1) + (i == l->n);
	const double inverse = 1 / diagonal, mend = diagonal / (diagonal + 1);
	const long first = 1 + (i + colour) % 2;
	long j;

	for (j = first; j <= l->n; j += 2)
		mid[j] = (up[j] + down[j] + (mid[j - 1] + mid[j + 1]) - cell2 * f[j]) * inverse;
	mid[first == 1 ? 1 : l->n] *= mend;
}

/*
 * Red, then black, cells.  A cell's neighbours all have the other colour, so rows may be done in
 * any order; black follows red one row behind, while the rows are in the cache.  Only the outermost
 * black rows of a band need red neighbours of another process, and wait for it.
 */
static void relax(const struct worker *w, const struct level *l, int sweeps)
{
	const long first = first_row(l->n, l->procs, w->id);
	const long last = first_row(l->n, l->procs, w->id + 1) - 1;
	long i;

	for (; sweeps > 0; sweeps--) {
		for (i = first; i <= last; i++) {
			relax_row(l, w->shift, i, 0);
			if (i > first + 1)
				relax_row(l, w->shift, i - 1, 1);
		}
		meet(w, l->procs);
		if (first <= last)
			relax_row(l, w->shift, first, 1);
		if (first < last)
			relax_row(l, w->shift, last, 1);
		meet(w, l->procs);
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
	const long n = coarse->n, end = first_row(n, l->procs, w->id + 1);
	double largest = 0;
	long i, j;

	for (i = first_row(n, l->procs, w->id); i < end; i++) {
		const double south = 4 + w->shift * l->cell2 + (i == 1);
		const double north = 4 + w->shift * l->cell2 + (i == n);
		double *f = coarse->f[i];

		f[1] = mean_residual(l, south, north, 1, 0, i, 1, &largest);
		for (j = 2; j < n; j++)
			f[j] = mean_residual(l, south, north, 0, 0, i, j, &largest);
		f[n] = mean_residual(l, south, north, 0, 1, i, n, &largest);
	}
	for (i = first_row(n, coarse->procs, w->id);
	    i < first_row(n, coarse->procs, w->id + 1); i++)
		memset(coarse->u[i], 0, (size_t)(n + 2) * sizeof(double));
	return largest;
}

/*
 * Adds the coarser level's correction, interpolated between the four nearest coarse cells.  Of
 * those beyond a wall, whose border holds 0, the mirror image counts.
 */
static void prolong(const struct worker *w, const struct level *l)
{
	const struct level *coarse = l - 1;
	const long end = first_row(l->n, l->procs, w->id + 1);
	long i, j;

	for (i = first_row(l->n, l->procs, w->id); i < end; i++) {
		const double weight = i == 1 || i == l->n ? 0.5 : 0.75;
		const double *near = coarse->u[(i + 1) / 2];
		const double *far = coarse->u[i % 2 == 1 ? (i - 1) / 2 : i / 2 + 1];
		double *u = l->u[i];
		double left, here = 0, right = weight * near[1] + 0.25 * far[1];

		u[1] -= 0.25 * right;
		for (j = 1; j <= coarse->n; j++) {
			left = here;
			here = right;
			right = weight * near[j + 1] + 0.25 * far[j + 1];
			u[2 * j - 1] += 0.75 * here + 0.25 * left;
			u[2 * j] += 0.75 * here + 0.25 * right;
		}
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
		meet(w, l->procs);
	prolong(w, l);
	meet(w, l->procs);
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
	restrict_residual(w, l);
	meet(w, l->procs);
	correct(w, l);
}

/*
 * Solves laplace(u) - shift u = f, with 0 along the walls; u brings the first guess.  The residual
 * is taken on the way down, where it is computed anyhow; a solve ends there.
 */
void solve(struct worker *w, grid u, grid f, double shift)
{
	struct level *top = &w->level[w->o->levels - 1];
	const long end = first_row(top->n, top->procs, w->id + 1);
	const unsigned long before = now_us();
	double scale = 0, largest;
	long i, j, cycles;

	top->u = u;
	top->f = f;
	w->shift = shift;
	for (i = first_row(top->n, top->procs, w->id); i < end; i++)
		for (j = 1; j <= top->n; j++)
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
