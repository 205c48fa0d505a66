/*
 * planes: a tree of planes that divides space, to find what a straight line meets.  All patches are
 * parallel to two of the axes; a plane is that of a patch.
 */
EXTERN_ENV
include(radiosity.H)

#define TOUCH 1e-7 /* of the line, which begins and ends on patches */

static void extent(const struct patch *patch, long axis, double *low_p, double *high_p)
{
	const struct element *e = patch->element;
	const double a = e->corner.x[axis];
	const double b = a + e->edge[0].x[axis] + e->edge[1].x[axis];

	*low_p = fmin(a, b);
	*high_p = fmax(a, b);
}

static long axis_of(const struct patch *patch)
{
	const struct vec n = patch->element->normal;

	return fabs(n.x[0]) > 0.5 ? 0 : fabs(n.x[1]) > 0.5 ? 1 : 2;
}

/* The tree of these patches: the plane of the middle one, and what is wholly on either side. */
static struct plane *divide(const long *list, long count)
{
	struct plane *plane = &shared->plane[shared->planes];
	long *sides = own((size_t)(2 * count) * sizeof(*sides)), below = 0, above = 0, i;
	double low, high;

	if (count == 0) {
		free(sides);
		return NULL;
	}
	shared->planes++;
	plane->axis = axis_of(&shared->patch[list[count / 2]]);
	extent(&shared->patch[list[count / 2]], plane->axis, &plane->at, &high);
	plane->first = shared->listed_count;
	for (i = 0; i < count; i++) {
		extent(&shared->patch[list[i]], plane->axis, &low, &high);
		if (high < plane->at - TOUCH)
			sides[below++] = list[i];
		else if (low > plane->at + TOUCH)
			sides[count + above++] = list[i];
		else
			shared->listed[shared->listed_count++] = list[i];
	}
	plane->count = shared->listed_count - plane->first;
	plane->below = divide(sides, below);
	plane->above = divide(sides + count, above);
	free(sides);
	return plane;
}

void planes_make(void)
{
	long list[PATCHES_MAX], i;

	for (i = 0; i < shared->patches; i++)
		list[i] = i;
	divide(list, shared->patches);
}

/* A line from 0 to 1, and the nearest patch that it has met. */
struct line {
	struct vec from;
	struct vec to; /* as a difference */
	double t;
	long patch;
};

static void test(struct line *line, long patch)
{
	const struct element *e = shared->patch[patch].element;
	const double slope = dot(line->to, e->normal);
	const double t = dot(along(e->corner, -1, line->from), e->normal) / slope;
	struct vec at;
	double s, u;

	if (slope == 0 || t <= TOUCH || t >= line->t)
		return;
	at = along(along(line->from, t, line->to), -1, e->corner);
	s = dot(at, e->edge[0]) / dot(e->edge[0], e->edge[0]);
	u = dot(at, e->edge[1]) / dot(e->edge[1], e->edge[1]);
	if (s < 0 || s > 1 || u < 0 || u > 1)
		return;
	line->t = t;
	line->patch = patch;
}

static void meet_below(struct line *line, const struct plane *plane, int any)
{
	const double from = line->from.x[plane->axis], to = from + line->to.x[plane->axis];
	long i;

	if (plane->below != NULL && fmin(from, to) < plane->at + TOUCH)
		meet_below(line, plane->below, any);
	for (i = plane->first; i < plane->first + plane->count && !(any && line->patch >= 0); i++)
		test(line, shared->listed[i]);
	if (plane->above != NULL && fmax(from, to) > plane->at - TOUCH && !(any && line->patch >= 0))
		meet_below(line, plane->above, any);
}

/* Whether a patch is between two points. */
int planes_between(struct vec a, struct vec b)
{
	struct line line = { a, along(b, -1, a), 1 - TOUCH, -1 };

	meet_below(&line, &shared->plane[0], 1);
	return line.patch >= 0;
}

/* The first patch on a line, or -1, and how far on it. */
long planes_first(struct vec from, struct vec to, double *t_p)
{
	struct line line = { from, to, INFINITY, -1 };

	/* As far as any patch may be. */
	line.to = along((struct vec){ { 0, 0, 0 } }, 1000, to);
	meet_below(&line, &shared->plane[0], 0);
	*t_p = 1000 * line.t;
	return line.patch;
}
