/*
 * grid: which primitives lie where.  A uniform grid over the scene; a cell with many primitives has a
 * grid of its own.  A ray visits the cells along its way, and tests the primitives of each.
 */
EXTERN_ENV
include(raytrace.H)

#define CELLS_MAX 40 /* along an axis */
#define DENSE 12     /* primitives in a cell that make it a grid */
#define DEPTH_MAX 2

/* Fractions of a cell by which primitives lie in the neighbour cells too: hits are found in time. */
#define MARGIN 1e-3

/* ----------------------------------------------------------------------------------- building */

static void bounds(const struct primitive *p, struct vec *low_p, struct vec *high_p)
{
	const struct vec b = add(p->at, p->edge[0]), c = add(p->at, p->edge[1]);
	const struct vec r = vec(p->radius, p->radius, p->radius);

	if (p->kind == KIND_SPHERE) {
		*low_p = subtract(p->at, r);
		*high_p = add(p->at, r);
		return;
	}
	*low_p = vec(fmin(p->at.x, fmin(b.x, c.x)), fmin(p->at.y, fmin(b.y, c.y)),
	    fmin(p->at.z, fmin(b.z, c.z)));
	*high_p = vec(fmax(p->at.x, fmax(b.x, c.x)), fmax(p->at.y, fmax(b.y, c.y)),
	    fmax(p->at.z, fmax(b.z, c.z)));
}

static long clamp(double i, long count)
{
	return i < 0 ? 0 : i >= (double)count ? count - 1 : (long)i;
}

/* The first and the last cell in which a primitive may lie, along each axis. */
struct range {
	long first[3];
	long last[3];
};

static struct range range_of(const struct grid *grid, const struct primitive *primitive)
{
	struct vec low, high;
	struct range range;
	const long n = grid->count;

	bounds(primitive, &low, &high);
	low = subtract(low, grid->low);
	high = subtract(high, grid->low);
	range.first[0] = clamp(low.x / grid->cell.x - MARGIN, n);
	range.first[1] = clamp(low.y / grid->cell.y - MARGIN, n);
	range.first[2] = clamp(low.z / grid->cell.z - MARGIN, n);
	range.last[0] = clamp(high.x / grid->cell.x + MARGIN, n);
	range.last[1] = clamp(high.y / grid->cell.y + MARGIN, n);
	range.last[2] = clamp(high.z / grid->cell.z + MARGIN, n);
	return range;
}

/* Calls `visit` with each cell in which a primitive may lie. */
static void for_cells(struct grid *grid, struct primitive *primitive,
    void (*visit)(struct cell *cell, struct primitive *primitive))
{
	const struct range range = range_of(grid, primitive);
	long x, y, z;

	for (z = range.first[2]; z <= range.last[2]; z++)
		for (y = range.first[1]; y <= range.last[1]; y++)
			for (x = range.first[0]; x <= range.last[0]; x++)
				visit(&grid->cells[(z * grid->count + y) * grid->count + x], primitive);
}

static void count_in(struct cell *cell, struct primitive *primitive)
{
	(void)primitive;
	cell->count++;
}

static void put_in(struct cell *cell, struct primitive *primitive)
{
	if (cell->list == NULL) {
		cell->list = arena((size_t)cell->count * sizeof(struct primitive *));
		cell->count = 0;
	}
	cell->list[cell->count++] = primitive;
}

static struct grid *build(struct primitive **list, long count, struct vec low, struct vec high,
    long depth);

/* Cells with many primitives become grids. */
static void divide_cells(struct grid *grid, long count, long depth)
{
	const long n = grid->count;
	long i;

	for (i = 0; i < n * n * n; i++) {
		struct cell *cell = &grid->cells[i];
		const struct vec corner = add(grid->low, vec(grid->cell.x * (double)(i % n),
		    grid->cell.y * (double)(i / n % n), grid->cell.z * (double)(i / n / n)));

		if (cell->count > DENSE && cell->count < count && depth < DEPTH_MAX)
			cell->grid = build(cell->list, cell->count, corner, add(corner, grid->cell),
			    depth + 1);
	}
}

static struct grid *build(struct primitive **list, long count, struct vec low, struct vec high,
    long depth)
{
	struct grid *grid = arena(sizeof(*grid));
	const long n = 1 + clamp(cbrt(2 * (double)count), CELLS_MAX);
	long i;

	grid->low = low;
	grid->high = high;
	grid->cell = scale(1 / (double)n, subtract(high, low));
	grid->count = n;
	grid->cells = arena((size_t)(n * n * n) * sizeof(struct cell));
	for (i = 0; i < count; i++)
		for_cells(grid, list[i], count_in);
	for (i = 0; i < count; i++)
		for_cells(grid, list[i], put_in);
	divide_cells(grid, count, depth);
	return grid;
}

struct grid *grid_make(const struct scene *scene)
{
	struct primitive **list = own((size_t)scene->primitives * sizeof(struct primitive *));
	struct vec low = vec(INFINITY, INFINITY, INFINITY), high = scale(-1, low);
	struct grid *grid;
	long i;

	for (i = 0; i < scene->primitives; i++) {
		struct vec a, b;

		list[i] = &scene->primitive[i];
		bounds(list[i], &a, &b);
		low = vec(fmin(low.x, a.x), fmin(low.y, a.y), fmin(low.z, a.z));
		high = vec(fmax(high.x, b.x), fmax(high.y, b.y), fmax(high.z, b.z));
	}
	low = subtract(low, vec(0.001, 0.001, 0.001));
	high = add(high, vec(0.001, 0.001, 0.001));
	grid = build(list, scene->primitives, low, high, 0);
	free(list);
	return grid;
}

/* ------------------------------------------------------------------------------------- tracing */

static double hit_sphere(const struct primitive *sphere, const struct ray *ray)
{
	const struct vec to = subtract(sphere->at, ray->from);
	const double middle = dot(to, ray->along);
	const double square = middle * middle - dot(to, to) + sphere->radius * sphere->radius;
	const double half = square > 0 ? sqrt(square) : -1;

	if (half < 0)
		return INFINITY;
	return middle - half > NEAR ? middle - half : middle + half > NEAR ? middle + half : INFINITY;
}

/* Moeller and Trumbore 1997; *u_p and *v_p are where in the triangle. */
static double hit_triangle(const struct primitive *p, const struct ray *ray, double *u_p, double *v_p)
{
	const struct vec across = cross(ray->along, p->edge[1]);
	const double area = dot(p->edge[0], across);
	const struct vec to = subtract(ray->from, p->at), around = cross(to, p->edge[0]);
	double t;

	if (fabs(area) < 1e-14)
		return INFINITY;
	*u_p = dot(to, across) / area;
	*v_p = dot(ray->along, around) / area;
	t = dot(p->edge[1], around) / area;
	return *u_p >= 0 && *v_p >= 0 && *u_p + *v_p <= 1 && t > NEAR ? t : INFINITY;
}

/* Tests the primitives of a cell; those that this ray has met in another cell are done. */
static void test_cell(const struct cell *cell, struct ray *ray)
{
	long i;

	for (i = 0; i < cell->count && !(ray->any && ray->hit != NULL); i++) {
		struct primitive *p = cell->list[i];
		double t, u = 0, v = 0;

		if (ray->tested[p - ray->all] == ray->number)
			continue;
		ray->tested[p - ray->all] = ray->number;
		t = p->kind == KIND_SPHERE ? hit_sphere(p, ray) : hit_triangle(p, ray, &u, &v);
		if (t < ray->t) {
			ray->t = t;
			ray->u = u;
			ray->v = v;
			ray->hit = p;
		}
	}
}

/* A walk along one axis: the cell, the step to the next one, and at which t that begins. */
struct axis {
	long i;
	long step;
	double next;
	double delta;
};

/* Shortens the part of a ray from *t_p to *end_p to what lies between two planes. */
static void clip(double from, double along, double low, double high, double *t_p, double *end_p)
{
	const double a = (low - from) / along, b = (high - from) / along;

	if (along == 0) {
		if (from < low || from > high)
			*end_p = -INFINITY;
		return;
	}
	*t_p = fmax(*t_p, fmin(a, b));
	*end_p = fmin(*end_p, fmax(a, b));
}

static struct axis begin_axis(double from, double along, double low, double cell, long count, double t)
{
	struct axis axis = { clamp((from + t * along - low) / cell, count), 0, INFINITY, INFINITY };

	if (along == 0)
		return axis;
	axis.step = along > 0 ? 1 : -1;
	axis.delta = cell / fabs(along);
	axis.next = (low + (double)(axis.i + (along > 0)) * cell - from) / along;
	return axis;
}

/* The axis along which the next cell begins first. */
static struct axis *first_axis(struct axis *axis)
{
	struct axis *first = axis[0].next < axis[1].next ? &axis[0] : &axis[1];

	return axis[2].next < first->next ? &axis[2] : first;
}

static void walk(const struct grid *grid, struct ray *ray, double t, double end)
{
	const struct vec from = ray->from, along = ray->along, low = grid->low, high = grid->high;
	const long n = grid->count;
	struct axis axis[3];

	clip(from.x, along.x, low.x, high.x, &t, &end);
	clip(from.y, along.y, low.y, high.y, &t, &end);
	clip(from.z, along.z, low.z, high.z, &t, &end);
	if (t > end)
		return;
	axis[0] = begin_axis(from.x, along.x, low.x, grid->cell.x, n, t);
	axis[1] = begin_axis(from.y, along.y, low.y, grid->cell.y, n, t);
	axis[2] = begin_axis(from.z, along.z, low.z, grid->cell.z, n, t);
	for (;;) {
		const struct cell *cell = &grid->cells[(axis[2].i * n + axis[1].i) * n + axis[0].i];
		struct axis *next = first_axis(axis);

		if (cell->grid != NULL)
			walk(cell->grid, ray, t, fmin(next->next, end));
		else
			test_cell(cell, ray);
		t = next->next;
		next->i += next->step;
		next->next += next->delta;
		if (ray->t <= t || t >= end || next->i < 0 || next->i >= n ||
		    (ray->any && ray->hit != NULL))
			return;
	}
}

/* Finds the nearest hit before ray->t, or any one. */
void grid_trace(const struct grid *grid, struct ray *ray)
{
	walk(grid, ray, 0, ray->t);
}
