/*
 * cast: rays through the volume, from front to back, until little light would pass.  All run the same
 * way.  A ray samples at whole steps, so that it does not matter what it skips.
 */
EXTERN_ENV
include(volrend.H)

#define WIDTH 1.06     /* of the picture, sides of the volume */
#define DARK 0.97      /* stopped light with which a ray ends */
#define CUE 0.35       /* of the light is lost from the front to the back */
#define AMBIENT 0.12
#define DIFFUSE 0.75
#define SHINE 0.4
#define EXPONENT 24

/* From the front, turned to the right and from a little above. */
void view_turn(struct view *view, long n, long size, double degrees)
{
	const double turn = degrees * acos(-1.0) / 180, rise = 0.2, middle = 0.5 * (double)(n - 1);
	const double pixel = WIDTH * (double)n / (double)size;
	const struct vec across = vec(cos(turn), sin(turn), 0);
	const struct vec ahead = vec(-sin(turn) * cos(rise), cos(turn) * cos(rise), -sin(rise));
	const struct vec up = cross(across, ahead);

	view->ahead = ahead;
	view->right = scale(pixel, across);
	view->down = scale(-pixel, up);
	view->light = unit(add(add(scale(-0.5, across), scale(0.7, up)), scale(-1, ahead)));
	view->corner = add(vec(middle, middle, middle), scale(-0.5 * (double)(size - 1),
	    add(view->right, view->down)));
}

/* The light that a surface sends to the eye, for part of all normals. */
void shade_normals(const struct view *view, uint8_t *shade, long first, long end)
{
	const struct vec half = unit(subtract(view->light, view->ahead));
	long i;

	for (i = first; i < end; i++) {
		const struct vec normal = volume_normal(i);
		const double slant = fmax(0, dot(normal, view->light));
		const double shine = slant > 0 ? pow(fmax(0, dot(normal, half)), EXPONENT) : 0;

		shade[i] = (uint8_t)(255 * fmin(1, AMBIENT + DIFFUSE * slant + SHINE * shine));
	}
}

/* Shortens the part of a ray from *t_p to *end_p to what lies between two planes. */
static void clip(double from, double along, double high, double *t_p, double *end_p)
{
	const double a = -from / along, b = (high - from) / along;

	if (fabs(along) < 1e-12) {
		if (from < 0 || from > high)
			*end_p = -INFINITY;
		return;
	}
	*t_p = fmax(*t_p, fmin(a, b));
	*end_p = fmin(*end_p, fmax(a, b));
}

/* Between eight voxels: how much light stops, and what of it the eye gets. */
static double sample(const struct worker *w, struct vec p, const long *cell, double *light_p)
{
	const struct volume *v = w->volume;
	const double f[3] = { p.x - (double)cell[0], p.y - (double)cell[1], p.z - (double)cell[2] };
	const long corner = (cell[2] * v->n + cell[1]) * v->n + cell[0];
	double stopped = 0, light = 0;
	long k;

	for (k = 0; k < 8; k++) {
		const long at = corner + (k & 1) + (k >> 1 & 1) * v->n + (k >> 2) * v->n * v->n;
		const double part = ((k & 1) ? f[0] : 1 - f[0]) * ((k & 2) ? f[1] : 1 - f[1]) *
		    ((k & 4) ? f[2] : 1 - f[2]) * (double)v->opacity[at];

		if (v->opacity[at] == 0)
			continue;
		stopped += part;
		light += part * (double)w->shade[v->normal[at]];
	}
	*light_p = light / 255 / 255;
	return stopped / 255;
}

/* The t at which a ray leaves a cell of this side. */
static double leaves(double from, double along, long cell, long side)
{
	const double wall = (double)((along > 0 ? cell / side + 1 : cell / side) * side);

	return fabs(along) < 1e-12 ? INFINITY : (wall - from) / along;
}

/* Where the largest empty cell around this one ends; 0: it is not empty. */
static double skip(const struct volume *v, struct vec from, struct vec along, const long *cell)
{
	long k = 0, side;

	for (; k < v->levels; k++) {
		const long count = v->cells[k], by = k + 1;

		if (v->level[k][((cell[2] >> by) * count + (cell[1] >> by)) * count +
		    (cell[0] >> by)] != 0)
			break;
	}
	if (k == 0)
		return 0;
	side = 1l << k;
	return fmin(leaves(from.x, along.x, cell[0], side), fmin(leaves(from.y, along.y, cell[1], side),
	    leaves(from.z, along.z, cell[2], side)));
}

static long cell_of(double x, long n)
{
	return x < 0 ? 0 : x >= (double)(n - 1) ? n - 2 : (long)x;
}

/* The pixel's grey. */
uint8_t cast(struct worker *w, long x, long y)
{
	const struct volume *v = w->volume;
	const struct view *view = w->view;
	const double far = (double)v->n, high = (double)(v->n - 1);
	const struct vec along = view->ahead;
	/* Samples at the distances that are whole numbers from a plane in front of the volume. */
	const struct vec from = subtract(add(view->corner, add(scale((double)x, view->right),
	    scale((double)y, view->down))), scale(far, along));
	double t = 0, end = 2 * far, passes = 1, sum = 0;

	w->rays++;
	clip(from.x, along.x, high, &t, &end);
	clip(from.y, along.y, high, &t, &end);
	clip(from.z, along.z, high, &t, &end);
	for (t = ceil(t); t <= end && passes > 1 - DARK;) {
		const struct vec p = add(from, scale(t, along));
		const long cell[3] = { cell_of(p.x, v->n), cell_of(p.y, v->n), cell_of(p.z, v->n) };
		const double next = w->every ? 0 : skip(v, from, along, cell);
		double light, stopped;

		if (next > 0) {
			t = fmax(t + 1, ceil(next));
			continue;
		}
		stopped = sample(w, p, cell, &light);
		sum += passes * light * (1 + CUE * (0.5 - t / far / 2));
		passes *= 1 - stopped;
		w->samples++;
		t += 1;
	}
	return (uint8_t)(255 * fmin(1, sum) + 0.5);
}
