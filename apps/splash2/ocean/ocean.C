/*
 * ocean, ocean-nc: large-scale movements in a square ocean basin, after the two SPLASH-2 programs of that
 * name.
 *
 * Two layers of water driven by wind (the quasi-geostrophic equations of Holland 1978).  psi is the
 * stream function of a layer, zeta = laplace(psi) its vorticity, J Arakawa's Jacobian; F1 and F2
 * couple the layers.  A step:
 *
 *	rhs1 = wind + viscosity - J(psi1, zeta1) - beta dpsi1/dx - F1 J(psi1, psi2)
 *	rhs2 = viscosity - drag - J(psi2, zeta2) - beta dpsi2/dx + F2 J(psi1, psi2)
 *	laplace(b) = mean of rhs                     the tendency common to both layers
 *	laplace(c) - (F1 + F2) c = rhs1 - rhs2       the tendency of their difference
 *	psi += the tendencies, by second order Adams-Bashforth
 *
 * The two elliptic equations are solved by multigrid with red-black Gauss-Seidel relaxation, on
 * cells whose walls lie half a cell beyond the outermost points.  c is constant, not zero, along
 * the walls; the constant keeps the volumes of the layers, and needs a sum over the basin.
 *
 * Sharing of ocean: single writer, coarse access.  Every grid is cut into bands of rows, one per process,
 * each from a page boundary on.  A process writes its own bands only, and reads one row of each neighbour: two
 * rows travel per process and half sweep, whatever the grid.  The largest residuals of all are found under a
 * lock, on each level that all work on, and the small levels are process 0's.
 *
 * Sharing of ocean-nc (compiled with SCATTERED): multiple writer, fine access along columns.  Every grid
 * is one array, row after row, and is cut into rectangles, one per process, so that each row is written
 * by several processes.  Of 2 processes only pages with rows of both have two writers.
 *
 * The layout `pages` of ocean-nc has the bands of ocean, whatever the number of processes.
 *
 * What a row holds never depends on how points are dealt, maxima are exact, and sums are made row by
 * row in order: results are the same to the last bit for every P.
 *
 * -p P  processes            -n N  grid points a side with the borders: 2^k + 2
 * -e E  tolerance            -r R  metres between points       -t T  seconds of a time step
 * -s    times per process    -c    check the result            -o    print every solve
 * --layout suite|pages (ocean-nc)
 */
MAIN_ENV
include(ocean.H)

#if SCATTERED
#define NAME "ocean-nc"
#define LAYOUT " [--layout suite|pages]"
#define PAGES 1
#else
#define NAME "ocean"
#define LAYOUT ""
#endif
#define OPTIONS "n:e:r:t:sco"
#define USAGE "[-n points] [-e tolerance] [-r metres between points] [-t seconds of a step] " \
	"[-s] [-c] [-o]" LAYOUT
#define TEST 'c'
include(main.H)

#define ALONE_MAX 32 /* levels of at most so many rows are process 0's */

/* Private, set before CREATE and only read afterwards: the same in every process. */
static struct ocean ocean = {
	.tolerance = 1e-7,
	.width = 20000.0,
	.step_s = 7200.0,
};
static long points = 258;

static void fill(long id)
{
	start_fields(&ocean, id);
}

static void work(long id)
{
	run_model(&ocean, id);
}

/* ------------------------------------------------------------------------------ memory of a run */

static void *allocate_shared(size_t bytes)
{
	void *block = G_MALLOC(bytes)

	return block;
}

/* A grid's band of rows for each process, from a page boundary on. */
static void place_bands(grid rows, long n, long count, void *(*allocate)(size_t bytes))
{
	const long stride = (n + 2 + 7) / 8 * 8;
	long id, i;

	for (id = 0; id < count; id++) {
		const struct part part = part_of(n, count, id);
		const long first = id == 0 ? 0 : part.row;
		const long end = id == count - 1 ? n + 2 : part.row_end;
		const size_t bytes = (size_t)((end - first) * stride) * sizeof(double);
		double *band = page_start(allocate(bytes + PAGE_BYTES));

		for (i = first; i < end; i++)
			rows[i] = band + (i - first) * stride;
	}
}

/* A grid of n x n cells with its border; one array is taken from *rest_p, or allocated. */
static grid make_grid(long n, long count, void *(*allocate)(size_t bytes), double **rest_p)
{
	grid rows = own((size_t)(n + 2) * sizeof(*rows));
	double *whole;
	long i;

	if (!RECTANGLES) {
		place_bands(rows, n, count, allocate);
		return rows;
	}
	if (rest_p != NULL) {
		whole = *rest_p;
		*rest_p += (n + 2) * (n + 2);
	} else {
		whole = allocate((size_t)((n + 2) * (n + 2)) * sizeof(*whole));
	}
	for (i = 0; i < n + 2; i++)
		rows[i] = whole + i * (n + 2);
	return rows;
}

/* The levels of the solves, each with half the points of the next one along a side. */
static void build_levels(struct ocean *o, long count, void *(*allocate)(size_t bytes))
{
	const long n = points - 2;
	double *rest = NULL;
	size_t bytes = 0;
	long k;

	for (o->levels = 1; 1l << o->levels < n;)
		o->levels++;
	for (k = 0; k < o->levels; k++) {
		struct level *l = &o->level[k];
		const double cell = o->width * (double)(1l << (o->levels - 1 - k));

		l->n = n >> (o->levels - 1 - k);
		l->procs = l->n <= ALONE_MAX && k < o->levels - 1 ? 1 : count;
		l->cell2 = cell * cell;
		if (k < o->levels - 1)
			bytes += 2 * (size_t)((l->n + 2) * (l->n + 2)) * sizeof(*rest);
	}
	if (RECTANGLES)
		rest = allocate(bytes);
	for (k = 0; k < o->levels - 1; k++) {
		struct level *l = &o->level[k];

		l->u = make_grid(l->n, l->procs, allocate, &rest);
		l->f = make_grid(l->n, l->procs, allocate, &rest);
	}
}

/* Everything of a run: the tables of rows private, the rows from `allocate`. */
static void build(struct ocean *o, long count, void *(*allocate)(size_t bytes))
{
	const long n = points - 2;
	long k;

	o->procs = count;
	o->shared = allocate(sizeof(*o->shared));
	memset(o->shared, 0, sizeof(*o->shared));
	LOCKINIT(o->shared->largest_lock)
	o->shared->row_sum = allocate((size_t)(n + 2) * sizeof(double));
	build_levels(o, count, allocate);
	for (k = 0; k < 2; k++) {
		o->psi[k] = make_grid(n, count, allocate, NULL);
		o->zeta[k] = make_grid(n, count, allocate, NULL);
		o->tendency[k] = make_grid(n, count, allocate, NULL);
		o->rhs[k] = make_grid(n, count, allocate, NULL);
		o->answer[k] = make_grid(n, count, allocate, NULL);
	}
	o->unit = make_grid(n, count, allocate, NULL);
	o->level[o->levels - 1].u = o->unit;
	o->level[o->levels - 1].f = o->rhs[1];
}

/* ------------------------------------------------------------------------------- verification */

/* All bits of both stream functions. */
static uint64_t checksum(const struct ocean *o)
{
	const long n = o->level[o->levels - 1].n;
	uint64_t sum = 0;
	long i, j, k;

	for (k = 0; k < 2; k++)
		for (i = 0; i <= n + 1; i++)
			for (j = 0; j <= n + 1; j++) {
				uint64_t bits;

				memcpy(&bits, &o->psi[k][i][j], sizeof(bits));
				sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
				sum ^= sum >> 32;
			}
	return sum;
}

/* f - (laplace(u) - shift u), its own way: with the mirror images beyond the walls. */
static double residual(const struct level *top, double shift, long i, long j)
{
	grid u = top->u;
	const double here = u[i][j];
	const double south = i == 1 ? -here : u[i - 1][j];
	const double north = i == top->n ? -here : u[i + 1][j];
	const double west = j == 1 ? -here : u[i][j - 1];
	const double east = j == top->n ? -here : u[i][j + 1];

	return top->f[i][j] - (south + north + west + east - 4 * here) / top->cell2 + shift * here;
}

/* The largest residual of the last step's solves, relative to the right hand side. */
static double worst_residual(const struct ocean *o)
{
	struct level top = o->level[o->levels - 1];
	double worst = 0;
	long i, j, k;

	for (k = 0; k < 2; k++) {
		double largest = 0, scale = 0;

		top.u = o->answer[k];
		top.f = o->rhs[k];
		for (i = 1; i <= top.n; i++)
			for (j = 1; j <= top.n; j++) {
				const double r = residual(&top, k == 0 ? 0 : COUPLE, i, j);

				largest = fmax(largest, isnan(r) ? INFINITY : fabs(r));
				scale = fmax(scale, fabs(top.f[i][j]));
			}
		worst = fmax(worst, scale > 0 ? largest / scale : INFINITY);
	}
	return worst;
}

/* Residuals, then the run again by one process. */
static int verify(void)
{
	static struct ocean again;
	const double limit = 1.01 * ocean.tolerance;
	const uint64_t sum = checksum(&ocean);
	const double worst = worst_residual(&ocean);
	uint64_t sum_again;
	long i, bad = 0;

	again = ocean;
	build(&again, 1, own);
	start_fields(&again, 0);
	run_model(&again, 0);
	sum_again = checksum(&again);
	for (i = 0; i < SOLVES_MAX; i++)
		bad += !(ocean.shared->solve[i].residual <= limit) ||
		    ocean.shared->solve[i].cycles != again.shared->solve[i].cycles;
	printf("test: %ld bad solves, largest residual %.2e, limit %.2e, checksum %016llx, "
	    "alone %016llx\n", bad, worst, limit, (unsigned long long)sum,
	    (unsigned long long)sum_again);
	return bad == 0 && worst <= limit && sum == sum_again;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	if (letter == 'n')
		return read_whole(value, &points);
	return read_real(value, letter == 'e' ? &ocean.tolerance : letter == 'r' ? &ocean.width
	    : &ocean.step_s);
}

static void set_up(void)
{
	const long n = points - 2;

	ROAM_NEEDS(ScC)
	if (n < 4 || n > 1l << (LEVELS_MAX - 1) || (n & (n - 1)) != 0)
		usage("-n must be a power of 2 plus 2, 6 to 32770");
	if (procs > n)
		usage("-p must be no more than the rows");
	if (!(ocean.tolerance > 0) || !(ocean.width > 0) || !(ocean.step_s > 0))
		usage("-e, -r and -t must be positive");
	build(&ocean, procs, allocate_shared);
}

static void print_times(void)
{
	long i;

	for (i = 0; i < procs; i++)
		printf("process %ld: elliptic solves %lu us\n", i, ocean.shared->solve_us[i]);
	for (i = 0; i < ocean.levels - 1; i++)
		printf("level of %ld: largest residual %.3e\n", ocean.level[i].n,
		    ocean.shared->level_largest[i]);
}

static void print_result(void)
{
	const struct solve *solve = ocean.shared->solve;
	long i;

	printf("unit problem: %ld cycles, residual %.3e\n", solve[0].cycles, solve[0].residual);
	for (i = 1; i < SOLVES_MAX; i++)
		printf("step %ld, %s: %ld cycles, residual %.3e\n", (i + 1) / 2,
		    i % 2 == 1 ? "common" : "difference", solve[i].cycles, solve[i].residual);
	printf("interface tilt at the walls %.9e, checksum %016llx\n", ocean.shared->wall,
	    (unsigned long long)checksum(&ocean));
}

static void print_size(void)
{
	printf("n %ld", points);
}
