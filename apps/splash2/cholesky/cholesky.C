/*
 * cholesky: the factor L of a sparse symmetric matrix A = L L', positive definite, by supernodes and
 * task queues, after the SPLASH-2 program.
 *
 * Columns of L with the same rows form panels, dense blocks that are dealt to the processes in turn.  A
 * panel that all updates have reached is completed by its owner, which puts it on the queue of each process
 * that has a panel to be updated by it.  A process takes complete panels from its queue, updates its own
 * panels with them, and completes those whose last update that was.  No barrier stands between; a process
 * whose queue is empty waits at its condition variable.
 *
 * Sharing: single writer, coarse access: a panel is written by its owner alone, and read by others after it
 * is complete.  A panel is written outside of the lock under which it is put on a queue, and what a
 * process learns from one queue must be seen by those that learn of it from another: that needs release
 * consistency.
 *
 * -p P  processes      -n N  points of a side of the cube: N^3 unknowns      -w W  columns of a panel
 * -s    times and tasks per process        -t  test the result        -o  print it
 */
MAIN_ENV
include(cholesky.H)

#define NAME "cholesky"
#define OPTIONS "n:w:sto"
#define USAGE "[-n points of a side] [-w columns of a panel] [-s] [-t] [-o]"
include(main.H)

#define VECTORS 3

/* Complete panels for a process; each comes once, so that there is room for all of them. */
struct queue {
	LOCKDEC(lock)
	CONDVARDEC(filled)
	long first;
	long end;
	long *panel;
};

/* A process at work. */
struct worker {
	long id;
	long updates;
	unsigned long wait_us;
	long *place;   /* of a row in the panel that is being updated */
};

/* Private variables, set before CREATE and only read afterwards; what they point to is shared. */
static struct queue *queues[PROCS_MAX];
static long *left[PROCS_MAX];  /* of each process: updates of each panel that are still to come */
static uint64_t *users;        /* a bit for each process that has a panel to be updated by this one */
static long *expected;         /* panels that will come to each process by its queue */
static unsigned long *wait_us; /* of each process */
static long *updates;

/* -------------------------------------------------------------------------- work on one panel */

/* The triangle on top, then the rows below, which are divided by it. */
static void factor(struct panel *panel)
{
	const long w = panel->width;
	double *value = panel->value;
	long i, j, k;

	for (i = 0; i < panel->rows; i++) {
		double *row = value + i * w;

		for (j = 0; j < w && j <= i; j++) {
			const double *above = value + j * w;
			double sum = row[j];

			for (k = 0; k < j; k++)
				sum -= row[k] * above[k];
			row[j] = i == j ? sqrt(sum) : sum / above[j];
		}
	}
}

/* Row `a` of `from` is a column of `to`: subtracts what it adds to that column, rows a and below. */
static void update_column(const struct panel *from, struct panel *to, const long *place, long a)
{
	const long w = from->width, col = from->row[a] - to->first;
	const double *factors = from->value + a * w;
	long b, k;

	for (b = a; b < from->rows; b++) {
		const double *row = from->value + b * w;
		double sum = 0;

		for (k = 0; k < w; k++)
			sum += row[k] * factors[k];
		to->value[place[from->row[b]] * to->width + col] -= sum;
	}
}

/* All columns of `to` that are rows of `from`, of which row `a` is the first; returns the next row. */
static long update(struct worker *w, const struct panel *from, struct panel *to, long a)
{
	long i;

	for (i = 0; i < to->rows; i++)
		w->place[to->row[i]] = i;
	for (; a < from->rows && from->row[a] < to->first + to->width; a++)
		update_column(from, to, w->place, a);
	w->updates++;
	return a;
}

/* -------------------------------------------------------------------------------------- queues */

static void put(long id, long panel)
{
	struct queue *queue = queues[id];

	LOCK(queue->lock)
	queue->panel[queue->end++] = panel;
	CONDVARSIGNAL(queue->filled)
	UNLOCK(queue->lock)
}

static long take(struct worker *w)
{
	struct queue *queue = queues[w->id];
	const unsigned long before = now_us();
	long panel;

	LOCK(queue->lock)
	while (queue->first == queue->end)
		CONDVARWAIT(queue->filled, queue->lock)
	panel = queue->panel[queue->first++];
	UNLOCK(queue->lock)
	w->wait_us += now_us() - before;
	return panel;
}

/* Completes a panel, and tells those that need it. */
static void complete(struct panel *panel)
{
	uint64_t rest = users[panel - panels];

	factor(panel);
	for (; rest != 0; rest &= rest - 1)
		put(__builtin_ctzll(rest), panel - panels);
}

/* Updates the own panels by one that is complete. */
static void use(struct worker *w, const struct panel *from)
{
	long a = from->width;

	while (a < from->rows) {
		struct panel *to = &panels[panel_of[from->row[a]]];

		if (to->owner != w->id) {
			while (a < from->rows && from->row[a] < to->first + to->width)
				a++;
			continue;
		}
		a = update(w, from, to, a);
		if (--left[w->id][to - panels] == 0)
			complete(to);
	}
}

/* ------------------------------------------------------------------------------ the processes */

/* Writes the matrix into the own panels, and zeros beside it. */
static void fill(long id)
{
	long k, col, i;

	for (k = 0; k < panel_count; k++)
		left[id][k] = panels[k].updates;

	for (k = id; k < panel_count; k += procs) {
		struct panel *panel = &panels[k];

		memset(panel->value, 0, (size_t)(panel->rows * panel->width) * sizeof(double));
		for (col = panel->first; col < panel->first + panel->width; col++)
			for (i = matrix.start[col]; i < matrix.start[col + 1]; i++) {
				long row = 0;

				while (panel->row[row] != matrix.row[i])
					row++;
				panel->value[row * panel->width + col - panel->first] = matrix.value[i];
			}
	}
}

static void work(long id)
{
	struct worker w = { .id = id, .place = own((size_t)matrix.n * sizeof(long)) };
	long k;

	meet(); /* as in the suite, where the work is dealt out before it */
	for (k = id; k < panel_count; k += procs)
		if (left[id][k] == 0)
			complete(&panels[k]);
	for (k = 0; k < expected[id]; k++)
		use(&w, &panels[take(&w)]);
	wait_us[id] = w.wait_us;
	updates[id] = w.updates;
	free(w.place);
}

/* ------------------------------------------------------------------------------- verification */

/* The largest difference between A v and L (L' v), relative to the size of A v. */
static double residual(long seed)
{
	const long n = matrix.n;
	double *v = own((size_t)n * sizeof(*v)), *upper = own((size_t)n * sizeof(*upper));
	double *lower = own((size_t)n * sizeof(*lower)), *exact = own((size_t)n * sizeof(*exact));
	double worst = 0, largest = 0;
	long k, i, j;

	for (i = 0; i < n; i++)
		v[i] = uniform(seed * n + i) - 0.5;
	for (j = 0; j < n; j++)
		for (i = matrix.start[j]; i < matrix.start[j + 1]; i++) {
			exact[matrix.row[i]] += matrix.value[i] * v[j];
			if (matrix.row[i] != j)
				exact[j] += matrix.value[i] * v[matrix.row[i]];
		}
	for (k = 0; k < panel_count; k++)
		for (i = 0; i < panels[k].rows; i++)
			for (j = 0; j < panels[k].width && j <= i; j++)
				upper[panels[k].first + j] +=
				    panels[k].value[i * panels[k].width + j] * v[panels[k].row[i]];
	for (k = 0; k < panel_count; k++)
		for (i = 0; i < panels[k].rows; i++)
			for (j = 0; j < panels[k].width && j <= i; j++)
				lower[panels[k].row[i]] +=
				    panels[k].value[i * panels[k].width + j] * upper[panels[k].first + j];
	for (i = 0; i < n; i++) {
		worst = worse(worst, fabs(lower[i] - exact[i]));
		largest = fmax(largest, fabs(exact[i]));
	}
	free(v);
	free(upper);
	free(lower);
	free(exact);
	return worst / largest;
}

/* A v = L (L' v) for random v shows wrong elements. */
static int verify(void)
{
	const double limit = 1e-12;
	double worst = 0;
	long seed;

	for (seed = 1; seed <= VECTORS; seed++)
		worst = worse(worst, residual(seed));
	printf("test: largest relative residual %.2e, limit %.2e\n", worst, limit);
	return worst <= limit;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	return read_whole(value, letter == 'n' ? &side : &width);
}

/* A bit for each process that has a panel to be updated by this one. */
static uint64_t users_of(const struct panel *panel)
{
	uint64_t found = 0;
	long i;

	for (i = panel->width; i < panel->rows; i++)
		found |= UINT64_C(1) << panels[panel_of[panel->row[i]]].owner;
	return found;
}

static void allocate_queue(long id)
{
	queues[id] = (struct queue *)G_MALLOC(sizeof(struct queue))
	memset(queues[id], 0, sizeof(struct queue));
	LOCKINIT(queues[id]->lock)
	CONDVARINIT(queues[id]->filled)
	queues[id]->panel = (long *)G_MALLOC((size_t)panel_count * sizeof(long))
	left[id] = (long *)G_MALLOC((size_t)panel_count * sizeof(long))
}

static void set_up(void)
{
	long id, k;

	ROAM_NEEDS(RC)
	if (side < 1 || side > 64)
		usage("-n must be 1 to 64");
	if (width < 1 || width > 1024)
		usage("-w must be 1 to 1024");
	symbolic_matrix();
	symbolic_panels();
	wait_us = (unsigned long *)G_MALLOC(PROCS_MAX * sizeof(*wait_us))
	updates = (long *)G_MALLOC(PROCS_MAX * sizeof(*updates))
	expected = (long *)G_MALLOC(PROCS_MAX * sizeof(*expected))
	users = (uint64_t *)G_MALLOC((size_t)panel_count * sizeof(*users))
	memset(expected, 0, PROCS_MAX * sizeof(*expected));
	for (k = 0; k < panel_count; k++) {
		users[k] = users_of(&panels[k]);
		for (id = 0; id < procs; id++)
			expected[id] += (users[k] & UINT64_C(1) << id) != 0;
	}
	for (id = 0; id < procs; id++)
		allocate_queue(id);
}

static void print_times(void)
{
	long i;

	printf("%ld panels\n", panel_count);
	for (i = 0; i < procs; i++)
		printf("process %ld: %ld updates, waited %lu us for panels\n", i, updates[i],
		    wait_us[i]);
}

static void print_result(void)
{
	long k, i, j;

	for (k = 0; k < panel_count; k++)
		for (i = 0; i < panels[k].rows; i++)
			for (j = 0; j < panels[k].width && j <= i; j++)
				printf("%ld %ld %.12g\n", panels[k].row[i], panels[k].first + j,
				    panels[k].value[i * panels[k].width + j]);
}

static void print_size(void)
{
	printf("n %ld w %ld", matrix.n, width);
}
