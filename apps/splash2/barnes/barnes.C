/*
 * barnes: the motion of n bodies that attract each other, by the hierarchical method of Barnes and Hut,
 * after the SPLASH-2 program.
 *
 * The space of all bodies is an octree, made anew in each step; a leaf holds at most 10 bodies.  A
 * cell that looks small from a body (its side is at most theta times its distance) acts as one mass
 * with a quadrupole moment.  A step:
 *
 *	insert the own bodies into the tree; barrier; sum up the own leaves and cells, from below;
 *	barrier; find the own bodies, by cost zones; compute what pulls at them; barrier;
 *	move them, and find the box around all; barrier
 *
 * Sharing: multiple writer, fine access, many small locks.  The bodies of a process change from step to
 * step and lie scattered among those of others: their records of 112 bytes, cells and leaves are written by
 * several processes in every page.  One lock of 2,048 guards a cell's children while bodies are inserted,
 * and each body's position while it is read.  The sums of a cell written by one process are published by a
 * flag under a lock and read without it: that needs release consistency.
 *
 * The layout `pages` takes no lock to read a position: a barrier stands before the bodies move, so that
 * positions are only read meanwhile.  That saves nine of ten locks.  Main sorts the bodies by their places in
 * the tree, so that those of a process lie together.
 *
 * -p P  processes      -n N  bodies            -r R  seed of the bodies
 * -d D  time step      -T T  time to stop      -e E  softening: epsilon       -a A  opening: theta
 * -f F  room for cells per body                -l L  room for leaves per body
 * -s    energy of each step   -t  test the result    -o  print it    --layout suite|pages
 */
MAIN_ENV
include(barnes.H)

#define NAME "barnes"
#define OPTIONS "n:r:d:T:e:a:f:l:sto"
#define USAGE "[-n bodies] [-r seed] [-d time step] [-T time to stop] [-e epsilon] [-a theta] " \
	"[-f cells per body] [-l leaves per body] [-s] [-t] [-o] [--layout suite|pages]"
#define PAGES 1
include(main.H)

#define SAMPLES 64   /* bodies whose acceleration is checked */
#define SORTED_DEPTH 16 /* by the layout `pages` */
#define FARTHEST 9.0 /* from the centre of their model, as in the suite */

struct problem problem = {
	.n = 16384,
	.seed = 7,
	.step = 0.025,
	.stop = 0.075,
	.soften = 0.05,
	.open = 1.0,
	.cells = 2.0,
	.leaves = 5.0,
};
struct shared *shared;
struct body *bodies;
struct cell *cells[PROCS_MAX];
struct leaf *leaves[PROCS_MAX];
struct body **places[PROCS_MAX];

/* --------------------------------------------------------------------------------------- a step */

/* Makes the box around these corners a cube with some room. */
static void set_box(struct worker *w)
{
	const long turn = w->step % 2;
	double side = 0;
	long d;

	for (d = 0; d < 3; d++)
		side = fmax(side, shared->high[turn][d] - shared->low[turn][d]);
	w->side = side * 1.00002;
	for (d = 0; d < 3; d++)
		w->low[d] = shared->low[turn][d] - side * 0.00001;
}

/* The corners for the step after this one; those two steps ago are not read any more. */
static void clear_corners(long turn)
{
	long d;

	for (d = 0; d < 3; d++) {
		shared->low[turn][d] = INFINITY;
		shared->high[turn][d] = -INFINITY;
	}
}

/* Extends the corners of step `step` to contain the own bodies. */
static void add_corners(const struct worker *w, long step, double energy)
{
	double low[3] = { INFINITY, INFINITY, INFINITY };
	double high[3] = { -INFINITY, -INFINITY, -INFINITY };
	const long turn = step % 2;
	long i, d;

	for (i = 0; i < w->mine_count; i++)
		for (d = 0; d < 3; d++) {
			low[d] = fmin(low[d], w->mine[i]->node.position[d]);
			high[d] = fmax(high[d], w->mine[i]->node.position[d]);
		}
	LOCK(shared->sum_lock)
	for (d = 0; d < 3; d++) {
		shared->low[turn][d] = fmin(shared->low[turn][d], low[d]);
		shared->high[turn][d] = fmax(shared->high[turn][d], high[d]);
	}
	if (step > 0) {
		shared->energy[step - 1] += energy;
		shared->bodies[step - 1] += w->mine_count;
	}
	UNLOCK(shared->sum_lock)
}

/*
 * The acceleration of the own bodies.  From the second step on their velocities, which were moved on
 * with the old acceleration, get half a step of what the new one differs by.
 */
static void compute_forces(struct worker *w)
{
	const double half = 0.5 * problem.step;
	long i, d;

	for (i = 0; i < w->mine_count; i++) {
		struct body *body = w->mine[i];

		attract(w, body);
		for (d = 0; d < 3; d++) {
			if (w->step > 0)
				body->velocity[d] += half * (w->acceleration[d] - body->acceleration[d]);
			body->acceleration[d] = w->acceleration[d];
		}
		body->potential = w->potential;
		body->interactions = w->interactions;
	}
}

/* Moves the own bodies by a time step; returns their energy before it. */
static double move(const struct worker *w)
{
	const double half = 0.5 * problem.step;
	double energy = 0;
	long i, d;

	for (i = 0; i < w->mine_count; i++) {
		struct body *body = w->mine[i];

		body->node.cost = body->interactions;
		energy += 0.5 * body->node.mass * body->potential;
		for (d = 0; d < 3; d++) {
			const double kick = half * body->acceleration[d];
			const double mid = body->velocity[d] + kick;

			energy += 0.5 * body->node.mass * body->velocity[d] * body->velocity[d];
			body->node.position[d] += mid * problem.step;
			body->velocity[d] = mid + kick;
		}
	}
	return energy;
}

static void one_step(struct worker *w)
{
	double energy;

	set_box(w);
	tree_build(w);
	if (w->id == 0)
		clear_corners((w->step + 1) % 2);
	meet();
	tree_sum(w);
	meet();
	find_bodies(w);
	compute_forces(w);
	meet();
	energy = move(w);
	tree_begin(w);
	add_corners(w, w->step + 1, energy);
	if (w->step + 1 < problem.steps)
		meet();
}

/* The bodies of main's making that a process inserts first. */
static void take_first(struct worker *w)
{
	long i;

	w->mine = places[w->id];
	for (i = first_of(problem.n, w->id); i < first_of(problem.n, w->id + 1); i++)
		w->mine[w->mine_count++] = &bodies[i];
}

static void fill(long id)
{
	struct worker w = { .id = id };

	take_first(&w);
	add_corners(&w, 0, 0);
}

static void work(long id)
{
	struct worker w = { .id = id };

	take_first(&w);
	tree_begin(&w);
	meet();
	for (; w.step < problem.steps; w.step++)
		one_step(&w);
}

/* ----------------------------------------------------------------------------------- the bodies */

/* The next number of main's sequence, from `low` to before `high`. */
static double draw(double low, double high)
{
	static long next;

	return low + (high - low) * uniform((problem.seed << 32) + next++);
}

/* A vector of this length in any direction. */
static void draw_direction(double length, double *x)
{
	double square;
	long d;

	do {
		for (square = 0, d = 0; d < 3; d++) {
			x[d] = draw(-1, 1);
			square += x[d] * x[d];
		}
	} while (square > 1 || square < 1e-6);
	for (d = 0; d < 3; d++)
		x[d] *= length / sqrt(square);
}

/* A body of the Plummer model of mass 1/2 (Aarseth, Henon and Wielen 1974). */
static void draw_body(struct body *body)
{
	const double scale = 3 * acos(-1.0) / 16;
	double radius, x, y;

	do
		radius = 1 / sqrt(pow(draw(0.001, 0.999), -2.0 / 3) - 1);
	while (radius > FARTHEST);
	draw_direction(scale * radius, body->node.position);
	do {
		x = draw(0, 1);
		y = draw(0, 0.1);
	} while (y > x * x * pow(1 - x * x, 3.5));
	draw_direction(sqrt(1 / scale) * x / pow(1 + radius * radius, 0.25), body->velocity);
}

/* Two Plummer models beside each other, at rest as a whole. */
static void draw_bodies(void)
{
	double place[3] = { 0 }, speed[3] = { 0 };
	long i, d;

	for (i = 0; i < problem.n; i++) {
		struct body *body = &bodies[i];

		memset(body, 0, sizeof(*body));
		body->node.kind = KIND_BODY;
		body->node.mass = 1 / (double)problem.n;
		body->node.cost = 1;
		draw_body(body);
		for (d = 0; d < 3; d++) {
			if (i >= problem.n / 2)
				body->node.position[d] += 4;
			place[d] += body->node.position[d] / (double)problem.n;
			speed[d] += body->velocity[d] / (double)problem.n;
		}
	}
	for (i = 0; i < problem.n; i++)
		for (d = 0; d < 3; d++) {
			bodies[i].node.position[d] -= place[d];
			bodies[i].velocity[d] -= speed[d];
		}
}

/* By their places in the tree of the first step. */
static void sort_bodies(void)
{
	struct keyed *keys = own((size_t)problem.n * sizeof(*keys));
	struct worker w = { .side = 0 };
	long i, d, depth, at[3];

	for (d = 0; d < 3; d++)
		w.low[d] = bodies[0].node.position[d];
	for (i = 0; i < problem.n; i++)
		for (d = 0; d < 3; d++)
			w.low[d] = fmin(w.low[d], bodies[i].node.position[d]);
	for (i = 0; i < problem.n; i++)
		for (d = 0; d < 3; d++)
			w.side = fmax(w.side, 1.001 * (bodies[i].node.position[d] - w.low[d]));
	for (i = 0; i < problem.n; i++) {
		keys[i].from = i;
		tree_at(&w, &bodies[i], at);
		for (depth = 0; depth < SORTED_DEPTH; depth++)
			keys[i].key = keys[i].key << 3 | (uint64_t)tree_octant(at, depth);
	}
	sort_records(bodies, sizeof(*bodies), keys, problem.n);
	free(keys);
}

/* ------------------------------------------------------------------------------- verification */

/* Where the body was when its acceleration was computed: one step ago. */
static void place_before(const struct body *body, double *x)
{
	long d;

	for (d = 0; d < 3; d++)
		x[d] = body->node.position[d] - problem.step *
		    (body->velocity[d] - 0.5 * problem.step * body->acceleration[d]);
}

/* The acceleration by the sum over all bodies. */
static void direct(const struct body *body, double *sum)
{
	double here[3], there[3];
	long i, d;

	place_before(body, here);
	memset(sum, 0, 3 * sizeof(*sum));
	for (i = 0; i < problem.n; i++) {
		double square = problem.soften * problem.soften;

		place_before(&bodies[i], there);
		for (d = 0; d < 3; d++)
			square += (there[d] - here[d]) * (there[d] - here[d]);
		for (d = 0; d < 3; d++)
			sum[d] += bodies[i].node.mass * (there[d] - here[d]) / (square * sqrt(square));
	}
}

/* Root mean square of the errors of some accelerations, relative to that of the accelerations. */
static double force_error(void)
{
	const long samples = problem.n < SAMPLES ? problem.n : SAMPLES;
	double error = 0, size = 0;
	long i, d;

	for (i = 0; i < samples; i++) {
		const struct body *body = &bodies[problem.n * i / samples];
		double exact[3];

		direct(body, exact);
		for (d = 0; d < 3; d++) {
			error += (body->acceleration[d] - exact[d]) * (body->acceleration[d] - exact[d]);
			size += exact[d] * exact[d];
		}
	}
	return sqrt(error / size);
}

/*
 * Every body moved once in each step; forces as the direct sum has them; energy is kept.  What quadrupoles
 * leave out grows with the fourth power of theta.
 */
static int verify(void)
{
	const double force_limit = 0.06 * pow(problem.open, 4) + 1e-9, energy_limit = 0.005;
	const double first = shared->energy[0], last = shared->energy[problem.steps - 1];
	const double force = force_error(), energy = fabs((last - first) / first);
	long step, lost = 0;

	for (step = 0; step < problem.steps; step++)
		lost += labs(shared->bodies[step] - problem.n);
	printf("test: %ld bodies lost, error of forces %.2e, limit %.2e, of the energy %.2e, limit %.2e\n",
	    lost, force, force_limit, energy, energy_limit);
	return lost == 0 && force <= force_limit && energy <= energy_limit;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	switch (letter) {
	case 'n': return read_whole(value, &problem.n);
	case 'r': return read_whole(value, &problem.seed);
	case 'd': return read_real(value, &problem.step);
	case 'T': return read_real(value, &problem.stop);
	case 'e': return read_real(value, &problem.soften);
	case 'a': return read_real(value, &problem.open);
	case 'f': return read_real(value, &problem.cells);
	default: return read_real(value, &problem.leaves);
	}
}

static void check_options(void)
{
	if (problem.n < 2 || problem.n > 1l << 26)
		usage("-n must be 2 to 64M");
	if (procs > problem.n)
		usage("-p must be no more than the bodies");
	if (problem.seed < 0 || problem.seed > 1l << 30)
		usage("-r must be 0 to 1024M");
	if (!(problem.step > 0) || problem.stop < 0 || problem.stop / problem.step > STEPS_MAX - 2)
		usage("-d must be positive, -T at most 998 steps");
	if (problem.soften < 0 || !(problem.open >= 0 && problem.open <= 2))
		usage("-e must not be negative, -a must be 0 to 2");
	if (!(problem.cells > 0 && problem.cells <= 100 && problem.leaves > 0 && problem.leaves <= 100))
		usage("-f and -l must be above 0, at most 100");
}

static void set_up(void)
{
	long id;

	ROAM_NEEDS(RC)
	check_options();
	problem.steps = (long)(problem.stop / problem.step + 1.1);
	problem.cells_max = (long)(problem.cells * (double)problem.n) / procs + 100;
	problem.leaves_max = (long)(problem.leaves * (double)problem.n) / procs + 100;
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	ALOCKINIT(shared->lock, LOCKS)
	LOCKINIT(shared->sum_lock)
	clear_corners(0);
	bodies = (struct body *)G_MALLOC((size_t)problem.n * sizeof(*bodies))
	for (id = 0; id < procs; id++) {
		cells[id] = (struct cell *)G_MALLOC((size_t)problem.cells_max * sizeof(struct cell))
		leaves[id] = (struct leaf *)G_MALLOC((size_t)problem.leaves_max * sizeof(struct leaf))
		places[id] = (struct body **)G_MALLOC((size_t)problem.n * sizeof(struct body *))
	}
	draw_bodies();
	if (pages)
		sort_bodies();
}

static void print_times(void)
{
	long step;

	for (step = 0; step < problem.steps; step++)
		printf("step %ld: energy %.9f\n", step, shared->energy[step]);
}

static void print_result(void)
{
	long i;

	for (i = 0; i < problem.n; i++)
		printf("%.12g %.12g %.12g\n", bodies[i].node.position[0],
		    bodies[i].node.position[1], bodies[i].node.position[2]);
}

static void print_size(void)
{
	printf("n %ld steps %ld", problem.n, problem.steps);
}
