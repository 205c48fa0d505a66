/*
 * ocean: large-scale movements in a square ocean basin, after the SPLASH-2 program of that name.
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
 * Sharing: every grid is cut into bands of rows, one per process, each from a page boundary on.  A
 * process writes its own bands only, and reads one row of each neighbour: two rows travel per
 * process and half sweep, whatever the grid.  What a row holds never depends on how rows are dealt,
 * maxima are exact, and sums are made row by row in order: results are the same to the last bit for
 * every P.
 *
 * -p P  processes            -n N  grid points a side with the borders: 2^k + 2
 * -e E  tolerance            -r R  metres between points       -t T  seconds of a time step
 * -s    times per process    -c    check the result            -o    print every solve
 */
MAIN_ENV
include(ocean.H)

#define ALONE_MAX 64 /* levels of at most so many rows are process 0's */

/* Private, set before CREATE and only read afterwards: the same in every process. */
static struct ocean ocean = {
	.procs = 1,
	.tolerance = 1e-7,
	.width = 20000.0,
	.step_s = 7200.0,
};
static long points = 258;

/* What every process runs. */
static void work(void)
{
	struct shared *shared = ocean.shared;
	long id;

	/* A process's number in the program is its order of arrival, not its node. */
	LOCK(shared->id_lock)
	id = shared->next_id++;
	UNLOCK(shared->id_lock)
	run(&ocean, id);
}

/* ------------------------------------------------------------------------------ memory of a run */

static void *allocate_private(size_t bytes)
{
	void *block = calloc(1, bytes);

	if (block == NULL) {
		fprintf(stderr, "ocean: out of memory\n");
		exit(1);
	}
	return block;
}

static void *allocate_shared(size_t bytes)
{
	void *block = G_MALLOC(bytes)

	return block;
}

/* A grid of n x n cells with its border: a band per process, from a page boundary on. */
static grid make_grid(long n, long procs, void *(*allocate)(size_t bytes))
{
	const long stride = (n + 2 + 7) / 8 * 8;
	grid rows = allocate_private((size_t)(n + 2) * sizeof(*rows));
	long id, i;

	for (id = 0; id < procs; id++) {
		const long first = first_stored(n, procs, id), end = first_stored(n, procs, id + 1);
		const size_t bytes = (size_t)((end - first) * stride) * sizeof(double);
		char *band = allocate(bytes + PAGE_BYTES);

		band += (PAGE_BYTES - (uintptr_t)band % PAGE_BYTES) % PAGE_BYTES;
		for (i = first; i < end; i++)
			rows[i] = (double *)(void *)band + (i - first) * stride;
	}
	return rows;
}

/* Everything of a run: the tables of rows private, the rows from `allocate`. */
static void build(struct ocean *o, long procs, void *(*allocate)(size_t bytes))
{
	const long n = points - 2;
	long k;

	o->procs = procs;
	o->shared = allocate(sizeof(*o->shared));
	memset(o->shared, 0, sizeof(*o->shared));
	o->shared->row_sum = allocate((size_t)(n + 2) * sizeof(double));
	for (o->levels = 1; 1l << o->levels < n;)
		o->levels++;
	for (k = 0; k < o->levels; k++) {
		struct level *l = &o->level[k];
		const double cell = o->width * (double)(1l << (o->levels - 1 - k));

		l->n = n >> (o->levels - 1 - k);
		l->procs = l->n <= ALONE_MAX ? 1 : procs;
		l->cell2 = cell * cell;
		if (k < o->levels - 1) {
			l->u = make_grid(l->n, l->procs, allocate);
			l->f = make_grid(l->n, l->procs, allocate);
		}
	}
	o->level[o->levels - 1].procs = procs;
	for (k = 0; k < 2; k++) {
		o->psi[k] = make_grid(n, procs, allocate);
		o->zeta[k] = make_grid(n, procs, allocate);
		o->tendency[k] = make_grid(n, procs, allocate);
		o->rhs[k] = make_grid(n, procs, allocate);
		o->answer[k] = make_grid(n, procs, allocate);
	}
	o->unit = make_grid(n, procs, allocate);
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

/* Called by main alone, after WAIT_FOR_END: residuals, then the run again by one process. */
static int verify(void)
{
	static struct ocean again;
	const double limit = 1.01 * ocean.tolerance;
	const uint64_t sum = checksum(&ocean);
	const double worst = worst_residual(&ocean);
	uint64_t sum_again;
	long i, bad = 0;

	again = ocean;
	build(&again, 1, allocate_private);
	run(&again, 0);
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

static void usage(const char *why)
{
	fprintf(stderr, "ocean: %s\nusage: ocean [-p procs] [-n points] [-e tolerance] "
	    "[-r metres between points] [-t seconds of a step] [-s] [-c] [-o]\n", why);
	exit(2);
}

static void print_solves(void)
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

static void set_up(void)
{
	const long n = points - 2;

	if (n < 4 || n > 1l << (LEVELS_MAX - 1) || (n & (n - 1)) != 0)
		usage("-n must be a power of 2 plus 2, 6 to 32770");
	if (ocean.procs < 1 || ocean.procs > PROCS_MAX || ocean.procs > n)
		usage("-p must be 1 to 64 and no more than the rows");
	if (!(ocean.tolerance > 0) || !(ocean.width > 0) || !(ocean.step_s > 0))
		usage("-e, -r and -t must be positive");
	build(&ocean, ocean.procs, allocate_shared);
	LOCKINIT(ocean.shared->id_lock)
	BARINIT(ocean.shared->barrier, ocean.procs)
}

int main(int argc, char **argv)
{
	int stats = 0, check = 0, print = 0, option;
	const char *verdict = "off";
	unsigned long total_us;
	long i;

	while ((option = getopt(argc, argv, "p:n:e:r:t:sco")) != -1) {
		switch (option) {
		case 'p': ocean.procs = atol(optarg); break;
		case 'n': points = atol(optarg); break;
		case 'e': ocean.tolerance = atof(optarg); break;
		case 'r': ocean.width = atof(optarg); break;
		case 't': ocean.step_s = atof(optarg); break;
		case 's': stats = 1; break;
		case 'c': check = 1; break;
		case 'o': print = 1; break;
		default: usage("unknown option");
		}
	}
	MAIN_INITENV(,)
	ROAM_NEEDS(ScC)
	set_up();

	total_us = now_us();
	CREATE(work, ocean.procs)
	WAIT_FOR_END(ocean.procs)
	total_us = now_us() - total_us;

	for (i = 0; stats && i < ocean.procs; i++)
		printf("process %ld: elliptic solves %lu us\n", i, ocean.shared->solve_us[i]);
	if (print)
		print_solves();
	if (check)
		verdict = verify() ? "ok" : "FAILED";
	printf("ocean: n %ld p %ld total_us %lu region_us %lu verified %s\n", points, ocean.procs,
	    total_us, ocean.shared->end_us - ocean.shared->start_us, verdict);
	if (verdict[0] == 'F')
		exit(1);
	MAIN_END
}
