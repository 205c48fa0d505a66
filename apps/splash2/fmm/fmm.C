/*
 * fmm: the motion of n particles in the plane that attract each other, by the adaptive fast multipole
 * method of Carrier, Greengard and Rokhlin 1988, after the SPLASH-2 program.
 *
 * The plane is a quadtree, made anew in each step, whose leaves hold at most 40 particles.  A box has an
 * expansion of the field of its particles far away from it, and one of the field in it of all that is far
 * away.  Leaves that touch act on each other particle by particle.  A step:
 *
 *	insert the own particles; barrier; sum up costs; barrier; find the own boxes, by cost
 *	zones; expansions from the leaves up; barrier; expansions down, and the field of the own
 *	particles; barrier; move them, and find the square around all; barrier
 *
 * Sharing: multiple writer, fine access, many small locks: 2,048 for the boxes.  Boxes of 2 KB are made by
 * one process and filled in by those to whose zones they and their children belong; particles of several
 * processes lie in each page.  Processes wait for each other's boxes by condition variables.  An expansion
 * is announced by a flag under a lock, and may have been written before: that needs release consistency.
 *
 * The layout `pages` takes no lock to read expansions and particles on the way down: a barrier stands before it,
 * and another before particles move.  Main sorts the particles by their places in the tree, so that those of a
 * process lie together, and so do, in the order of insertion, its boxes.
 *
 * -p P  processes      -n N  particles       -r R  seed of the particles
 * -k K  steps          -d D  time step       -e E  precision of the expansions
 * -s    particles per step        -t  test the result        -o  print it    --layout suite|pages
 */
MAIN_ENV
include(fmm.H)

#define NAME "fmm"
#define OPTIONS "n:r:k:d:e:sto"
#define USAGE "[-n particles] [-r seed] [-k steps] [-d time step] [-e precision] [-s] [-t] [-o] " \
	"[--layout suite|pages]"
#define PAGES 1
include(main.H)

#define SAMPLES 100  /* particles whose field is checked */
#define FARTHEST 9.0 /* from the centre of their model */

struct problem problem = {
	.n = 16384,
	.seed = 3,
	.steps = 5,
	.step = 0.025,
	.precision = 1e-6,
};
struct shared *shared;
struct box *boxes[PROCS_MAX];
static struct particle *particles;         /* shared */
static struct particle **places[PROCS_MAX]; /* shared: for the particles that a process moves */

/* --------------------------------------------------------------------------------------- a step */

/* Makes the square around these corners, with some room. */
static void set_square(struct worker *w)
{
	const struct complex low = shared->low[w->step % 2], high = shared->high[w->step % 2];
	const double side = fmax(high.re - low.re, high.im - low.im);

	w->side = side * 1.0001;
	w->low = minus(low, (struct complex){ 0.00005 * side, 0.00005 * side });
}

/* The corners for the step after this one; those two steps ago are not read any more. */
static void clear_corners(long turn)
{
	shared->low[turn] = (struct complex){ INFINITY, INFINITY };
	shared->high[turn] = (struct complex){ -INFINITY, -INFINITY };
}

/* Extends the corners of step `step` to contain the own particles. */
static void add_corners(const struct worker *w, long step)
{
	struct complex low = { INFINITY, INFINITY }, high = { -INFINITY, -INFINITY };
	struct complex *low_p = &shared->low[step % 2], *high_p = &shared->high[step % 2];
	long i;

	for (i = 0; i < w->mine_count; i++) {
		const struct complex at = w->mine[i]->at;

		low = (struct complex){ fmin(low.re, at.re), fmin(low.im, at.im) };
		high = (struct complex){ fmax(high.re, at.re), fmax(high.im, at.im) };
	}
	LOCK(shared->sum_lock)
	*low_p = (struct complex){ fmin(low_p->re, low.re), fmin(low_p->im, low.im) };
	*high_p = (struct complex){ fmax(high_p->re, high.re), fmax(high_p->im, high.im) };
	if (step > 0)
		shared->particles[step - 1] += w->mine_count;
	UNLOCK(shared->sum_lock)
}

/* The field is conjugate to what pulls. */
static void move(const struct worker *w)
{
	long i;

	for (i = 0; i < w->mine_count; i++) {
		struct particle *particle = w->mine[i];
		const struct complex pull = { -particle->field.re, particle->field.im };

		particle->velocity = plus(particle->velocity, scaled(problem.step, pull));
		particle->at = plus(particle->at, scaled(problem.step, particle->velocity));
	}
}

static void one_step(struct worker *w)
{
	set_square(w);
	tree_begin(w);
	if (w->id == 0)
		clear_corners((w->step + 1) % 2);
	meet();
	tree_build(w);
	meet();
	tree_sum(w);
	meet();
	tree_deal(w);
	tree_up(w);
	meet();
	tree_down(w);
	meet();
	move(w);
	add_corners(w, w->step + 1);
	if (w->step + 1 < problem.steps)
		meet();
}

/* The particles of main's making that a process inserts first. */
static struct worker begin(long id)
{
	struct worker w = { .id = id, .mine = places[id] };
	long i;

	for (i = first_of(problem.n, id); i < first_of(problem.n, id + 1); i++)
		w.mine[w.mine_count++] = &particles[i];
	return w;
}

static void fill(long id)
{
	const struct worker w = begin(id);

	add_corners(&w, 0);
}

static void work(long id)
{
	struct worker w = begin(id);

	w.own = own((size_t)(problem.boxes_max * procs) * sizeof(*w.own));
	for (; w.step < problem.steps; w.step++)
		one_step(&w);
	free(w.own);
}

/* -------------------------------------------------------------------------------- the particles */

/* Two clusters, each as the Plummer model seen from a side. */
static void draw_particles(void)
{
	const double pi = acos(-1.0);
	long i, next = problem.seed << 32;

	for (i = 0; i < problem.n; i++) {
		struct particle *particle = &particles[i];
		double radius, turn, rise;

		do
			radius = 1 / sqrt(pow(0.001 + 0.998 * uniform(next++), -2.0 / 3) - 1);
		while (radius > FARTHEST);
		turn = 2 * pi * uniform(next++);
		rise = 2 * uniform(next++) - 1;
		memset(particle, 0, sizeof(*particle));
		particle->mass = 1 / (double)problem.n;
		particle->cost = 1;
		particle->at = scaled(radius * sqrt(1 - rise * rise),
		    (struct complex){ cos(turn), sin(turn) });
		if (i >= problem.n / 2)
			particle->at = plus(particle->at, (struct complex){ 4, 4 });
		particle->velocity = (struct complex){ uniform(next) - 0.5, uniform(next + 1) - 0.5 };
		next += 2;
	}
}

/* The particle's place in the order of all boxes that a tree can have. */
static uint64_t place_of(struct complex at, struct complex low, double side)
{
	const uint64_t east = (uint64_t)((at.re - low.re) / side * 0x1p31);
	const uint64_t north = (uint64_t)((at.im - low.im) / side * 0x1p31);
	uint64_t place = 0;
	long bit;

	for (bit = 31; bit >= 0; bit--)
		place = place << 2 | (north >> bit & 1) << 1 | (east >> bit & 1);
	return place;
}

static void sort_particles(void)
{
	struct keyed *keys = own((size_t)problem.n * sizeof(*keys));
	struct complex low = { INFINITY, INFINITY }, high = { -INFINITY, -INFINITY };
	long i;

	for (i = 0; i < problem.n; i++) {
		const struct complex at = particles[i].at;

		low = (struct complex){ fmin(low.re, at.re), fmin(low.im, at.im) };
		high = (struct complex){ fmax(high.re, at.re), fmax(high.im, at.im) };
	}
	for (i = 0; i < problem.n; i++)
		keys[i] = (struct keyed){ place_of(particles[i].at, low,
		    fmax(high.re - low.re, high.im - low.im)), i };
	sort_records(particles, sizeof(*particles), keys, problem.n);
	free(keys);
}

/* ------------------------------------------------------------------------------- verification */

/* Where the particle was when its field was computed: one step ago. */
static struct complex place_before(const struct particle *particle)
{
	return minus(particle->at, scaled(problem.step, particle->velocity));
}

/* Root mean square of the errors of some fields; the field of all mass at distance 1 is 1. */
static double field_error(void)
{
	const long samples = problem.n < SAMPLES ? problem.n : SAMPLES;
	double error = 0;
	long i, k;

	for (i = 0; i < samples; i++) {
		const struct particle *particle = &particles[problem.n * i / samples];
		const struct complex here = place_before(particle);
		struct complex exact = { 0, 0 }, off;

		for (k = 0; k < problem.n; k++)
			if (&particles[k] != particle)
				exact = plus(exact, scaled(particles[k].mass,
				    inverse(minus(here, place_before(&particles[k])))));
		off = minus(exact, particle->field);
		error += off.re * off.re + off.im * off.im;
	}
	return sqrt(error / (double)samples);
}

/* Every particle moved once in each step; fields as the direct sum has them. */
static int verify(void)
{
	const double limit = problem.precision, error = field_error();
	long step, lost = 0;

	for (step = 0; step < problem.steps; step++)
		lost += labs(shared->particles[step] - problem.n);
	printf("test: %ld particles lost, error of fields %.2e, limit %.2e\n", lost, error, limit);
	return lost == 0 && error <= limit;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	switch (letter) {
	case 'n': return read_whole(value, &problem.n);
	case 'r': return read_whole(value, &problem.seed);
	case 'k': return read_whole(value, &problem.steps);
	case 'd': return read_real(value, &problem.step);
	default: return read_real(value, &problem.precision);
	}
}

static void check_options(void)
{
	if (problem.n < 2 || problem.n > 1l << 26)
		usage("-n must be 2 to 64M");
	if (procs > problem.n)
		usage("-p must be no more than the particles");
	if (problem.seed < 0 || problem.seed > 1l << 30)
		usage("-r must be 0 to 1024M");
	if (problem.steps < 1 || problem.steps > STEPS_MAX)
		usage("-k must be 1 to 1000");
	if (!(problem.step > 0))
		usage("-d must be positive");
	if (!(problem.precision >= 1e-12 && problem.precision <= 0.1))
		usage("-e must be 1e-12 to 0.1");
}

static void set_up(void)
{
	long id;

	ROAM_NEEDS(RC)
	check_options();
	problem.terms = 1 + (long)ceil(-log2(problem.precision));
	problem.boxes_max = 2 * problem.n / procs + 1000;
	expand_set_up();
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	ALOCKINIT(shared->lock, LOCKS)
	LOCKINIT(shared->sum_lock)
	clear_corners(0);
	particles = (struct particle *)G_MALLOC((size_t)problem.n * sizeof(*particles))
	for (id = 0; id < procs; id++) {
		boxes[id] = (struct box *)G_MALLOC((size_t)problem.boxes_max * sizeof(struct box))
		places[id] = (struct particle **)G_MALLOC((size_t)problem.n * sizeof(struct particle *))
	}
	draw_particles();
	if (pages)
		sort_particles();
}

static void print_times(void)
{
	long step;

	for (step = 0; step < problem.steps; step++)
		printf("step %ld: %ld particles\n", step, shared->particles[step]);
}

static void print_result(void)
{
	long i;

	for (i = 0; i < problem.n; i++)
		printf("%.12g %.12g\n", particles[i].at.re, particles[i].at.im);
}

static void print_size(void)
{
	printf("n %ld steps %ld", problem.n, problem.steps);
}
