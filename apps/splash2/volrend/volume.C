/*
 * volume: a head of ellipsoids, as a scanner would see it; how much light stops at each voxel, and
 * which way its surface faces (Levoy 1988); a pyramid of cells that says where nothing is.
 */
EXTERN_ENV
include(volrend.H)

#define EDGE 2.5       /* voxels in which a tissue passes into the next one */
#define FULL_CHANGE 25 /* of density between neighbours: a surface without doubt */
#define TEETH 14       /* in a jaw */

enum { AIR = 0, FLUID = 40, SKIN = 90, BRAIN = 140, BONE = 215, TOOTH = 250 };

/* In a cube from -1 to 1: x to the left ear, y to the back, z up. */
struct ellipsoid {
	struct vec at;
	struct vec radius;
	long density;
	double folds; /* depth of furrows, of the radius */
};

/* A later one replaces what lies there. */
static const struct ellipsoid tissues[] = {
	{ { 0, 0.14, -0.8 }, { 0.34, 0.36, 0.7 }, SKIN, 0 },
	{ { 0, 0.05, 0.15 }, { 0.68, 0.82, 0.76 }, SKIN, 0 },
	{ { 0, -0.27, -0.36 }, { 0.46, 0.5, 0.44 }, SKIN, 0 },
	{ { 0, -0.76, -0.13 }, { 0.11, 0.18, 0.13 }, SKIN, 0 },
	{ { 0, -0.72, 0.02 }, { 0.07, 0.12, 0.2 }, SKIN, 0 },
	{ { 0, -0.73, -0.37 }, { 0.17, 0.07, 0.045 }, SKIN, 0 },
	{ { 0, -0.72, -0.47 }, { 0.15, 0.07, 0.045 }, SKIN, 0 },
	{ { 0.71, 0.1, 0 }, { 0.07, 0.17, 0.23 }, SKIN, 0 },
	{ { -0.71, 0.1, 0 }, { 0.07, 0.17, 0.23 }, SKIN, 0 },
	{ { 0, 0.24, -0.8 }, { 0.12, 0.13, 0.7 }, BONE, 0 },
	{ { 0, 0.24, -0.8 }, { 0.05, 0.05, 0.7 }, SKIN, 0 },
	{ { 0, 0.08, 0.2 }, { 0.6, 0.73, 0.66 }, BONE, 0 },
	{ { 0, -0.26, -0.34 }, { 0.37, 0.42, 0.36 }, BONE, 0 },
	{ { 0.33, -0.42, -0.12 }, { 0.17, 0.19, 0.09 }, BONE, 0 },
	{ { -0.33, -0.42, -0.12 }, { 0.17, 0.19, 0.09 }, BONE, 0 },
	{ { 0, -0.2, -0.42 }, { 0.29, 0.43, 0.3 }, SKIN, 0 },
	{ { 0.24, -0.62, 0.06 }, { 0.15, 0.22, 0.13 }, SKIN, 0 },
	{ { -0.24, -0.62, 0.06 }, { 0.15, 0.22, 0.13 }, SKIN, 0 },
	{ { 0.23, -0.53, 0.05 }, { 0.1, 0.1, 0.1 }, BRAIN, 0 },
	{ { -0.23, -0.53, 0.05 }, { 0.1, 0.1, 0.1 }, BRAIN, 0 },
	{ { 0, -0.62, -0.14 }, { 0.08, 0.14, 0.13 }, SKIN, 0 },
	/* The skull is open at the left, so that the brain is seen. */
	{ { 0.62, -0.3, 0.78 }, { 0.6, 0.72, 0.6 }, AIR, 0 },
	{ { 0, 0.09, 0.2 }, { 0.545, 0.67, 0.6 }, FLUID, 0 },
	{ { 0.65, -0.32, 0.8 }, { 0.58, 0.7, 0.58 }, AIR, 0 },
	{ { 0.235, 0.09, 0.24 }, { 0.25, 0.58, 0.48 }, BRAIN, 0.16 },
	{ { -0.235, 0.09, 0.24 }, { 0.25, 0.58, 0.48 }, BRAIN, 0.16 },
	{ { 0, 0.4, -0.12 }, { 0.3, 0.2, 0.16 }, BRAIN, 0.06 },
	{ { 0, 0.22, -0.2 }, { 0.09, 0.09, 0.3 }, BRAIN, 0 },
};

/* ----------------------------------------------------------------------------------- density */

/* The furrows of a brain: a wave bent by other waves. */
static double furrow(struct vec at)
{
	const double bent = 19 * at.y + 3.1 * sin(9 * at.z + 2 * at.x) + 2.3 * sin(13 * at.x + 5 * at.y);
	const double other = 17 * at.z + 2.9 * sin(11 * at.y) + 7 * at.x;
	const double wave = sin(bent) * cos(other);

	return 1 - fabs(wave) > 0.72 ? (1 - fabs(wave) - 0.72) / 0.28 : 0;
}

/* How much of voxel (x, y, z) is in the ellipsoid. */
static double inside(const struct ellipsoid *e, long n, long x, long y, long z)
{
	const double half = 0.5 * (double)(n - 1);
	const struct vec at = vec(((double)x - half) / half, ((double)y - half) / half,
	    ((double)z - half) / half);
	const struct vec from = subtract(at, e->at);
	const struct vec part = vec(from.x / e->radius.x, from.y / e->radius.y, from.z / e->radius.z);
	const double far = sqrt(dot(part, part));
	const double least = fmin(e->radius.x, fmin(e->radius.y, e->radius.z));
	double depth = 1 - far;

	if (e->folds > 0 && depth > -e->folds)
		depth -= e->folds * furrow(at);
	return fmin(1, fmax(0, 0.5 + depth * least * half / EDGE));
}

static void put(struct volume *v, const struct ellipsoid *e)
{
	const double half = 0.5 * (double)(v->n - 1), edge = EDGE + 1;
	const double centre[3] = { e->at.x, e->at.y, e->at.z };
	const double radius[3] = { e->radius.x, e->radius.y, e->radius.z };
	const double least = fmin(radius[0], fmin(radius[1], radius[2]));
	long first[3], last[3], x, y, z;

	for (x = 0; x < 3; x++) {
		const double reach = radius[x] * (1 + edge / (least * half));

		first[x] = (long)fmax(0, half * (1 + centre[x] - reach));
		last[x] = (long)fmin((double)(v->n - 1), half * (1 + centre[x] + reach) + 1);
	}
	for (z = first[2]; z <= last[2]; z++)
		for (y = first[1]; y <= last[1]; y++)
			for (x = first[0]; x <= last[0]; x++) {
				uint8_t *voxel = &v->density[(z * v->n + y) * v->n + x];
				const double part = inside(e, v->n, x, y, z);

				*voxel = (uint8_t)(*voxel + part * (double)(e->density - *voxel) + 0.5);
			}
}

/* Teeth in an arc, above and below. */
static void put_teeth(struct volume *v)
{
	long i;

	for (i = 0; i < 2 * TEETH; i++) {
		const double turn = acos(-1.0) * ((double)(i % TEETH) + 0.5) / TEETH;
		const struct ellipsoid tooth = { { 0.25 * cos(turn), -0.33 - 0.31 * sin(turn),
			i < TEETH ? -0.375 : -0.475 }, { 0.03, 0.035, 0.05 }, TOOTH, 0 };

		put(v, &tooth);
	}
}

void volume_fill(struct volume *v)
{
	size_t i;

	memset(v->density, AIR, (size_t)(v->n * v->n * v->n));
	for (i = 0; i < sizeof(tissues) / sizeof(tissues[0]); i++)
		put(v, &tissues[i]);
	put_teeth(v);
}

/* ------------------------------------------------------------------------ normals and opacity */

/* Directions on an octahedron that is unfolded to a square. */
static uint16_t index_of(struct vec normal)
{
	const double sum = fabs(normal.x) + fabs(normal.y) + fabs(normal.z);
	double u = normal.x / sum, v = normal.y / sum;

	if (normal.z < 0) {
		const double folded = (1 - fabs(v)) * (u < 0 ? -1 : 1);

		v = (1 - fabs(u)) * (v < 0 ? -1 : 1);
		u = folded;
	}
	return (uint16_t)((long)((v + 1) / 2 * (NORMAL_SIDE - 1) + 0.5) * NORMAL_SIDE +
	    (long)((u + 1) / 2 * (NORMAL_SIDE - 1) + 0.5));
}

struct vec volume_normal(long index)
{
	double u = 2 * (double)(index % NORMAL_SIDE) / (NORMAL_SIDE - 1) - 1;
	double v = 2 * (double)(index / NORMAL_SIDE) / (NORMAL_SIDE - 1) - 1;
	const double z = 1 - fabs(u) - fabs(v);

	if (z < 0) {
		const double folded = (1 - fabs(v)) * (u < 0 ? -1 : 1);

		v = (1 - fabs(u)) * (v < 0 ? -1 : 1);
		u = folded;
	}
	return unit(vec(u, v, z));
}

/* How much light stops at a surface of this density: skin lets most of it through. */
static double stops(double density)
{
	static const double at[][2] = { { 0, 0 }, { 20, 0 }, { 50, 0.09 }, { 100, 0.07 }, { 130, 0.6 },
		{ 190, 0.85 }, { 255, 0.95 } };
	long i = 1;

	while (density > at[i][0])
		i++;
	return at[i - 1][1] + (at[i][1] - at[i - 1][1]) * (density - at[i - 1][0]) /
	    (at[i][0] - at[i - 1][0]);
}

/* A voxel between others: a surface is where the density changes, and faces where it falls. */
static void classify(struct volume *v, long at)
{
	const uint8_t *d = &v->density[at];
	const long row = v->n, plane = v->n * v->n;
	const struct vec falls = vec((double)(d[-1] - d[1]), (double)(d[-row] - d[row]),
	    (double)(d[-plane] - d[plane]));
	const double change = sqrt(dot(falls, falls)) / 2;

	v->normal[at] = change > 0 ? index_of(falls) : 0;
	v->opacity[at] = change > 0 ? (uint8_t)(255 * stops(*d) * fmin(1, change / FULL_CHANGE) + 0.5) : 0;
}

/* Planes of voxels; the outermost voxels are air. */
static void classify_planes(struct volume *v, long z, long end)
{
	const long n = v->n;
	long x, y;

	for (; z < end; z++)
		for (y = 0; y < n; y++)
			for (x = 0; x < n; x++) {
				const long at = (z * n + y) * n + x;

				if (x > 0 && y > 0 && z > 0 && x < n - 1 && y < n - 1 && z < n - 1) {
					classify(v, at);
					continue;
				}
				v->normal[at] = 0;
				v->opacity[at] = 0;
			}
}

/* ----------------------------------------------------------------------------------- pyramid */

/* Whether any of some things of a cube with this side, of which `n` are in a row, is not zero. */
static uint8_t any(const uint8_t *all, long n, const long *low, long side)
{
	long x, y, z;

	for (z = low[2]; z < low[2] + side && z < n; z++)
		for (y = low[1]; y < low[1] + side && y < n; y++)
			for (x = low[0]; x < low[0] + side && x < n; x++)
				if (all[(z * n + y) * n + x] != 0)
					return 1;
	return 0;
}

/* Planes of cells: of the voxels, or of a level's cells. */
static void fill_level(struct volume *v, long k, long z, long end)
{
	const long count = v->cells[k];
	long x, y;

	for (; z < end; z++)
		for (y = 0; y < count; y++)
			for (x = 0; x < count; x++) {
				const long low[3] = { 2 * x, 2 * y, 2 * z };

				v->level[k][(z * count + y) * count + x] = k == 0
				    ? any(v->opacity, v->n, low, 3)
				    : any(v->level[k - 1], v->cells[k - 1], low, 2);
			}
}

void volume_prepare(struct volume *v, long id)
{
	long k;

	classify_planes(v, first_of(v->n, id), first_of(v->n, id + 1));
	for (k = 0; k < v->levels; k++) {
		meet();
		fill_level(v, k, first_of(v->cells[k], id), first_of(v->cells[k], id + 1));
	}
}
