/*
 * scene: the scenes.  `balls` is the sphereflake of Haines' standard procedural databases, in whose files
 * the suite has it; `car` was made for this program: superellipsoids of triangles.
 */
EXTERN_ENV
include(raytrace.H)

enum { GROUND, WALL, PAINT, GLASS, RUBBER, CHROME, MATERIALS };

static const struct material materials[MATERIALS] = {
	[GROUND] = { { 0.75, 0.72, 0.65 }, 0.8, 0, 1, 0.15, 0, 1, 1 },
	[WALL] = { { 0.55, 0.6, 0.66 }, 0.8, 0, 1, 0.05, 0, 1, 0 },
	[PAINT] = { { 0.75, 0.05, 0.05 }, 0.7, 0.6, 40, 0.3, 0, 1, 0 },
	[GLASS] = { { 0.2, 0.25, 0.3 }, 0.2, 0.8, 80, 0.3, 0.5, 1.1, 0 },
	[RUBBER] = { { 0.08, 0.08, 0.09 }, 0.8, 0.1, 8, 0.1, 0, 1, 0 },
	[CHROME] = { { 0.6, 0.62, 0.66 }, 0.4, 0.9, 100, 0.6, 0, 1, 0 },
};

/* A list that grows; private until the scene is complete. */
struct list {
	struct primitive *primitive;
	long count;
	long room;
};

static struct primitive *append(struct list *list, enum kind kind, long material)
{
	struct primitive *added;

	if (list->count == list->room) {
		list->room = list->room > 0 ? 2 * list->room : 1024;
		list->primitive = realloc(list->primitive,
		    (size_t)list->room * sizeof(*list->primitive));
		if (list->primitive == NULL)
			usage("out of memory");
	}
	added = &list->primitive[list->count++];
	memset(added, 0, sizeof(*added));
	added->kind = kind;
	added->material = material;
	return added;
}

static void append_sphere(struct list *list, long material, struct vec at, double radius)
{
	struct primitive *sphere = append(list, KIND_SPHERE, material);

	sphere->at = at;
	sphere->radius = radius;
}

/* Of no area: nothing. */
static void append_triangle(struct list *list, long material, const struct vec *corner,
    const struct vec *normal)
{
	const struct vec a = subtract(corner[1], corner[0]), b = subtract(corner[2], corner[0]);
	const struct vec across = cross(a, b);
	struct primitive *triangle;

	if (dot(across, across) < 1e-20)
		return;
	triangle = append(list, KIND_TRIANGLE, material);
	triangle->at = corner[0];
	triangle->edge[0] = a;
	triangle->edge[1] = b;
	memcpy(triangle->normal, normal, sizeof(triangle->normal));
}

/* A rectangle from its middle and half of its sides. */
static void append_rectangle(struct list *list, long material, struct vec middle, struct vec a,
    struct vec b)
{
	const struct vec across = unit(cross(a, b));
	const struct vec normal[3] = { across, across, across };
	const struct vec corner[4] = { subtract(subtract(middle, a), b), add(subtract(middle, b), a),
		add(add(middle, a), b), add(subtract(middle, a), b) };
	const struct vec second[3] = { corner[0], corner[2], corner[3] };

	append_triangle(list, material, corner, normal);
	append_triangle(list, material, second, normal);
}

/* A square of this half side on the ground. */
static void append_ground(struct list *list, double side)
{
	append_rectangle(list, GROUND, vec(0, 0, 0), vec(side, 0, 0), vec(0, side, 0));
}

/* Four walls and a ceiling. */
static void append_room(struct list *list, double side, double height)
{
	const struct vec x = vec(side, 0, 0), y = vec(0, side, 0), z = vec(0, 0, height / 2);

	append_rectangle(list, WALL, add(x, z), y, z);
	append_rectangle(list, WALL, subtract(z, x), z, y);
	append_rectangle(list, WALL, add(y, z), z, x);
	append_rectangle(list, WALL, subtract(z, y), x, z);
	append_rectangle(list, WALL, scale(2, z), x, y);
}

/* ---------------------------------------------------------------------------------------- balls */

/* A sphere and, `below` times more, nine of a third of its radius around it; `axis` is upwards. */
static void append_flake(struct list *list, struct vec at, double radius, struct vec axis, long below)
{
	const struct vec other = fabs(axis.z) < 0.9 ? vec(0, 0, 1) : vec(1, 0, 0);
	const struct vec a = unit(cross(axis, other)), b = cross(axis, a);
	long i;

	append_sphere(list, CHROME, at, radius);
	for (i = 0; below > 0 && i < 9; i++) {
		const double turn = acos(-1.0) / 3 * (i < 6 ? (double)i : 2 * (double)(i - 6) + 0.5);
		const double rise = i < 6 ? 0 : 0.8165, out = i < 6 ? 1 : 0.5774;
		const struct vec to = unit(add(scale(rise, axis),
		    scale(out, add(scale(cos(turn), a), scale(sin(turn), b)))));

		append_flake(list, add(at, scale(4 * radius / 3, to)), radius / 3, to, below - 1);
	}
}

static void make_balls(struct scene *scene, struct list *list, long detail)
{
	static const struct light lights[] = {
		{ { 4, 3, 6 }, 0.4 }, { { 1, -4, 5 }, 0.4 }, { { -3, 1, 5 }, 0.4 },
	};

	scene->eye = vec(2.1, 1.3, 1.7);
	scene->target = vec(0, 0, 0.65);
	scene->field = 45;
	scene->lights = sizeof(lights) / sizeof(lights[0]);
	memcpy(scene->light, lights, sizeof(lights));
	append_ground(list, 12);
	append_flake(list, vec(0, 0, 0.75), 0.5, vec(0, 0, 1), detail);
}

/* ------------------------------------------------------------------------------------------ car */

/* |f|^e with the sign of f. */
static double power(double f, double e)
{
	return f < 0 ? -pow(-f, e) : pow(f, e);
}

struct solid {
	long material;
	struct vec at;
	struct vec size; /* half of it */
	double round[2]; /* exponents: 1 an ellipsoid, near 0 a block */
};

/* The point of a superellipsoid at latitude u and longitude v, and the normal there. */
static struct vec solid_point(const struct solid *solid, double u, double v, struct vec *normal_p)
{
	const double *e = solid->round;
	const struct vec size = solid->size;
	const double cu = power(cos(u), e[0]), cv = power(cos(v), e[1]), sv = power(sin(v), e[1]);
	const double nu = power(cos(u), 2 - e[0]), nv = power(cos(v), 2 - e[1]);
	const struct vec normal = vec(nu * nv / size.x, nu * power(sin(v), 2 - e[1]) / size.y,
	    power(sin(u), 2 - e[0]) / size.z);

	*normal_p = unit(normal);
	return add(solid->at, vec(size.x * cu * cv, size.y * cu * sv, size.z * power(sin(u), e[0])));
}

/* The four-cornered facet between two latitudes and longitudes. */
static void append_facet(struct list *list, const struct solid *solid, const double *u, const double *v)
{
	static const int order[2][3] = { { 0, 1, 3 }, { 0, 3, 2 } };
	struct vec corner[4], normal[4];
	long i, k;

	for (i = 0; i < 4; i++)
		corner[i] = solid_point(solid, u[i / 2], v[i % 2], &normal[i]);
	for (i = 0; i < 2; i++) {
		struct vec corners[3], normals[3];

		for (k = 0; k < 3; k++) {
			corners[k] = corner[order[i][k]];
			normals[k] = normal[order[i][k]];
		}
		append_triangle(list, solid->material, corners, normals);
	}
}

static void append_solid(struct list *list, const struct solid *solid, long facets)
{
	const double pi = acos(-1.0);
	long i, j;

	for (i = 0; i < facets; i++)
		for (j = 0; j < 2 * facets; j++) {
			const double u[2] = { pi * ((double)i / (double)facets - 0.5),
			    pi * ((double)(i + 1) / (double)facets - 0.5) };
			const double v[2] = { pi * ((double)j / (double)facets - 1),
			    pi * ((double)(j + 1) / (double)facets - 1) };

			append_facet(list, solid, u, v);
		}
}

static void make_car(struct scene *scene, struct list *list, long detail)
{
	static const struct light lights[] = {
		{ { 8, -9, 7 }, 0.25 }, { { -9, -6, 7 }, 0.2 }, { { 2, 10, 7 }, 0.15 },
		{ { 0, 0, 7.5 }, 0.2 }, { { 11, 3, 4 }, 0.1 }, { { -2, -12, 3 }, 0.1 },
		{ { 9, 10, 6 }, 0.1 }, { { -11, 8, 5 }, 0.1 },
	};
	static const struct solid solids[] = {
		{ PAINT, { 0, 0, 0.66 }, { 2.2, 0.9, 0.36 }, { 0.5, 0.5 } },
		{ GLASS, { -0.25, 0, 1.1 }, { 1.25, 0.72, 0.42 }, { 0.8, 0.5 } },
		{ PAINT, { -0.3, 0, 1.48 }, { 0.75, 0.6, 0.06 }, { 0.6, 0.6 } },
		{ CHROME, { 2.12, 0, 0.48 }, { 0.16, 0.8, 0.08 }, { 0.6, 0.4 } },
		{ CHROME, { -2.12, 0, 0.48 }, { 0.16, 0.8, 0.08 }, { 0.6, 0.4 } },
	};
	long i;

	scene->eye = vec(5.2, -5.6, 2.6);
	scene->target = vec(0, 0, 0.7);
	scene->field = 38;
	scene->lights = sizeof(lights) / sizeof(lights[0]);
	memcpy(scene->light, lights, sizeof(lights));
	append_ground(list, 14);
	append_room(list, 14, 8);
	for (i = 0; i < (long)(sizeof(solids) / sizeof(solids[0])); i++)
		append_solid(list, &solids[i], 6 * detail);
	for (i = 0; i < 4; i++) {
		const double x = i < 2 ? 1.35 : -1.35, y = i % 2 == 0 ? 0.82 : -0.82;
		const struct solid wheel = { RUBBER, { x, y, 0.36 }, { 0.36, 0.14, 0.36 }, { 0.9, 0.9 } };

		append_solid(list, &wheel, 4 * detail);
		append_sphere(list, CHROME, vec(x, y + (y < 0 ? -0.06 : 0.06), 0.36), 0.16);
		if (i < 2)
			append_sphere(list, CHROME, vec(2.1, 0.75 * y, 0.74), 0.13);
	}
}

int scene_make(struct scene *scene, const char *name, long detail)
{
	struct list list = { NULL, 0, 0 };

	if (strcmp(name, "car") == 0)
		make_car(scene, &list, detail);
	else if (strcmp(name, "balls") == 0)
		make_balls(scene, &list, detail);
	else
		return 0;
	scene->material = arena(sizeof(materials));
	memcpy(scene->material, materials, sizeof(materials));
	scene->primitives = list.count;
	scene->primitive = arena((size_t)list.count * sizeof(*list.primitive));
	memcpy(scene->primitive, list.primitive, (size_t)list.count * sizeof(*list.primitive));
	free(list.primitive);
	scene->grid = grid_make(scene);
	return 1;
}
