/* physics: the equations of one time step, and the run of a model from start to end. */
EXTERN_ENV
include(ocean.H)

/* The part of a process with its part of the border. */
static struct part stored_part(long n, long count, long id)
{
	struct part part = part_of(n, count, id);

	if (id >= count)
		return part;
	part.row -= part.row == 1;
	part.col -= part.col == 1;
	part.row_end += part.row_end == n + 1;
	part.col_end += part.col_end == n + 1;
	return part;
}

static struct part own_part(const struct worker *w)
{
	return part_of(w->level[w->o->levels - 1].n, w->o->procs, w->id);
}

/* Sets the borders so that the mean of a border cell and its neighbour is `wall`. */
static void mirror(const struct worker *w, grid g, double wall)
{
	const long n = w->level[w->o->levels - 1].n;
	const struct part part = own_part(w), stored = stored_part(n, w->o->procs, w->id);
	long i, j;

	for (i = part.row; i < part.row_end; i++) {
		if (stored.col == 0)
			g[i][0] = 2 * wall - g[i][1];
		if (stored.col_end == n + 2)
			g[i][n + 1] = 2 * wall - g[i][n];
	}
	for (j = stored.col; stored.row == 0 && j < stored.col_end; j++)
		g[0][j] = 2 * wall - g[1][j];
	for (j = stored.col; stored.row_end == n + 2 && j < stored.col_end; j++)
		g[n + 1][j] = 2 * wall - g[n][j];
}

/* In cells. */
static inline double laplace(double *const *a, long i, long j)
{
	return a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1] - 4 * a[i][j];
}

/* Arakawa's Jacobian of a and b, in cells: it keeps energy and squared vorticity. */
static inline double jacobian(double *const *a, double *const *b, long i, long j)
{
	const double *as = a[i - 1], *am = a[i], *an = a[i + 1];
	const double *bs = b[i - 1], *bm = b[i], *bn = b[i + 1];
	const double plus = (am[j + 1] - am[j - 1]) * (bn[j] - bs[j]) -
	    (an[j] - as[j]) * (bm[j + 1] - bm[j - 1]);
	const double sides =
	    am[j + 1] * (bn[j + 1] - bs[j + 1]) - am[j - 1] * (bn[j - 1] - bs[j - 1]) -
	    an[j] * (bn[j + 1] - bn[j - 1]) + as[j] * (bs[j + 1] - bs[j - 1]);
	const double corners =
	    bn[j] * (an[j + 1] - an[j - 1]) - bs[j] * (as[j + 1] - as[j - 1]) -
	    bm[j + 1] * (an[j + 1] - as[j + 1]) + bm[j - 1] * (an[j - 1] - as[j - 1]);

	return (plus + sides + corners) / 12;
}

static void compute_vorticity(const struct worker *w)
{
	const struct level *top = &w->level[w->o->levels - 1];
	const struct part part = own_part(w);
	const double per_cell2 = 1 / top->cell2;
	long i, j, k;

	for (k = 0; k < 2; k++) {
		grid psi = w->o->psi[k], zeta = w->o->zeta[k];

		for (i = part.row; i < part.row_end; i++)
			for (j = part.col; j < part.col_end; j++)
				zeta[i][j] = laplace(psi, i, j) * per_cell2;
		mirror(w, zeta, 0);
	}
	meet_of(top->procs);
}

/* The right hand sides of both elliptic equations, from psi and zeta of the neighbour rows too. */
static void compute_rhs(const struct worker *w)
{
	const struct ocean *o = w->o;
	const struct level *top = &w->level[o->levels - 1];
	const struct part part = own_part(w);
	const double pi = acos(-1.0), side = o->width * (double)top->n;
	const double viscosity = VISCOSITY / top->cell2, beta = BETA / (2 * o->width);
	const double per_cell2 = 1 / top->cell2;
	grid p1 = o->psi[0], p2 = o->psi[1], z1 = o->zeta[0], z2 = o->zeta[1];
	long i, j;

	for (i = part.row; i < part.row_end; i++) {
		const double y = ((double)i - 0.5) / (double)top->n;
		const double wind = -2 * pi * WIND / (DEPTH1 * side) * sin(2 * pi * y);

		for (j = part.col; j < part.col_end; j++) {
			const double exchange = jacobian(p1, p2, i, j);
			const double rhs1 = wind + viscosity * laplace(z1, i, j) -
			    beta * (p1[i][j + 1] - p1[i][j - 1]) -
			    (jacobian(p1, z1, i, j) + COUPLE1 * exchange) * per_cell2;
			const double rhs2 = viscosity * laplace(z2, i, j) - DRAG * z2[i][j] -
			    beta * (p2[i][j + 1] - p2[i][j - 1]) -
			    (jacobian(p2, z2, i, j) - COUPLE2 * exchange) * per_cell2;

			o->rhs[0][i][j] = SHARE1 * rhs1 + SHARE2 * rhs2;
			o->rhs[1][i][j] = rhs1 - rhs2;
		}
	}
}

/*
 * The sum over the basin, the same to the last bit for any distribution of the points: a row is summed
 * from its first to its last point, by the process that has the first one.
 */
static double sum_of_all(const struct worker *w, grid g)
{
	const struct level *top = &w->level[w->o->levels - 1];
	const struct part part = own_part(w);
	double *row_sum = w->shared->row_sum, sum = 0;
	long i, j;

	for (i = part.row; part.col == 1 && i < part.row_end; i++)
		for (row_sum[i] = 0, j = 1; j <= top->n; j++)
			row_sum[i] += g[i][j];
	meet_of(top->procs);
	for (i = 1; i <= top->n; i++)
		sum += row_sum[i];
	meet_of(top->procs);
	return sum;
}

/* psi += time step x (3/2 of the new tendency - 1/2 of the last); at first the new one alone. */
static void advance(struct worker *w, long step, double wall_tendency)
{
	const struct ocean *o = w->o;
	const struct level *top = &w->level[o->levels - 1];
	const struct part part = own_part(w);
	const double now = step == 0 ? o->step_s : 1.5 * o->step_s;
	const double last = step == 0 ? 0 : -0.5 * o->step_s;
	long i, j;

	for (i = part.row; i < part.row_end; i++)
		for (j = part.col; j < part.col_end; j++) {
			const double b = o->answer[0][i][j];
			const double c = o->answer[1][i][j] + wall_tendency * o->unit[i][j];
			const double tendency1 = b + SHARE2 * c, tendency2 = b - SHARE1 * c;

			o->psi[0][i][j] += now * tendency1 + last * o->tendency[0][i][j];
			o->psi[1][i][j] += now * tendency2 + last * o->tendency[1][i][j];
			o->tendency[0][i][j] = tendency1;
			o->tendency[1][i][j] = tendency2;
		}
	w->wall += now * wall_tendency + last * w->wall_tendency;
	w->wall_tendency = wall_tendency;
	mirror(w, o->psi[0], SHARE2 * w->wall);
	mirror(w, o->psi[1], -SHARE1 * w->wall);
	meet_of(top->procs);
}

/* --------------------------------------------------------------------------------- a whole run */

/* Each process writes its parts of all grids first, which makes the pages of a band its own. */
static void clear(const struct worker *w, grid g, long n, long count)
{
	const struct part part = stored_part(n, count, w->id);
	long i;

	for (i = part.row; i < part.row_end; i++)
		memset(&g[i][part.col], 0, (size_t)(part.col_end - part.col) * sizeof(double));
}

/* Two gyres and a few eddies in the upper layer, a faint image of them below. */
static void write_fields(const struct worker *w)
{
	const struct ocean *o = w->o;
	const long n = w->level[o->levels - 1].n;
	const struct part part = own_part(w);
	const double pi = acos(-1.0);
	long i, j, k;

	for (k = 0; k < o->levels; k++) {
		clear(w, o->level[k].u, o->level[k].n, o->level[k].procs);
		clear(w, o->level[k].f, o->level[k].n, o->level[k].procs);
	}
	for (k = 0; k < 2; k++) {
		clear(w, o->psi[k], n, o->procs);
		clear(w, o->zeta[k], n, o->procs);
		clear(w, o->tendency[k], n, o->procs);
		clear(w, o->rhs[k], n, o->procs);
		clear(w, o->answer[k], n, o->procs);
	}
	for (i = part.row; i < part.row_end; i++)
		for (j = part.col; j < part.col_end; j++) {
			const double x = pi * ((double)j - 0.5) / (double)n;
			const double y = pi * ((double)i - 0.5) / (double)n;
			const double gyres = 1e5 * sin(x) * sin(2 * y);
			const double eddies = 5e3 * sin(7 * x) * sin(5 * y);

			o->psi[0][i][j] = gyres + eddies;
			o->psi[1][i][j] = 0.1 * (gyres + eddies);
		}
	mirror(w, o->psi[0], 0);
	mirror(w, o->psi[1], 0);
}

/* The solution for 1 along the walls: a right hand side in the cells at the walls only. */
static double solve_unit(struct worker *w)
{
	const struct level *top = &w->level[w->o->levels - 1];
	const struct part part = own_part(w);
	const long n = top->n;
	grid f = w->o->rhs[1];
	long i, j;

	for (i = part.row; i < part.row_end; i++)
		for (j = part.col; j < part.col_end; j++)
			f[i][j] = -2.0 * ((i == 1) + (i == n) + (j == 1) + (j == n)) / top->cell2;
	solve(w, w->o->unit, f, COUPLE);
	return sum_of_all(w, w->o->unit);
}

static struct worker make_worker(const struct ocean *o, long id)
{
	struct worker w = { .o = o, .shared = o->shared, .id = id };

	memcpy(w.level, o->level, sizeof(w.level));
	return w;
}

void start_fields(const struct ocean *o, long id)
{
	const struct worker w = make_worker(o, id);

	write_fields(&w);
}

void run_model(const struct ocean *o, long id)
{
	struct worker w = make_worker(o, id);
	double unit_sum;
	long step;

	unit_sum = solve_unit(&w);
	for (step = 0; step < STEPS; step++) {
		compute_vorticity(&w);
		compute_rhs(&w);
		solve(&w, o->answer[0], o->rhs[0], 0);
		solve(&w, o->answer[1], o->rhs[1], COUPLE);
		advance(&w, step, -sum_of_all(&w, o->answer[1]) / unit_sum);
	}
	if (id == 0)
		w.shared->wall = w.wall;
}
