/* scene: a room with furniture, all of it boxes; and a picture of it. */
EXTERN_ENV
include(radiosity.H)

struct box {
	double low[3];
	double high[3];
	double colour[COLOURS];
};

static const struct box boxes[] = {
	/* A table. */
	{ { 2.4, 2.2, 0.72 }, { 4.6, 3.6, 0.78 }, { 0.55, 0.35, 0.2 } },
	{ { 2.5, 2.3, 0 }, { 2.6, 2.4, 0.72 }, { 0.5, 0.3, 0.15 } },
	{ { 4.4, 2.3, 0 }, { 4.5, 2.4, 0.72 }, { 0.5, 0.3, 0.15 } },
	{ { 2.5, 3.4, 0 }, { 2.6, 3.5, 0.72 }, { 0.5, 0.3, 0.15 } },
	{ { 4.4, 3.4, 0 }, { 4.5, 3.5, 0.72 }, { 0.5, 0.3, 0.15 } },
	/* Two chairs. */
	{ { 3.2, 1.3, 0.42 }, { 3.7, 1.8, 0.47 }, { 0.2, 0.35, 0.6 } },
	{ { 3.2, 1.25, 0.47 }, { 3.7, 1.3, 1 }, { 0.2, 0.35, 0.6 } },
	{ { 3.22, 1.32, 0 }, { 3.27, 1.37, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.63, 1.32, 0 }, { 3.68, 1.37, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.22, 1.73, 0 }, { 3.27, 1.78, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.63, 1.73, 0 }, { 3.68, 1.78, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.2, 4, 0.42 }, { 3.7, 4.5, 0.47 }, { 0.6, 0.25, 0.2 } },
	{ { 3.2, 4.5, 0.47 }, { 3.7, 4.55, 1 }, { 0.6, 0.25, 0.2 } },
	{ { 3.22, 4.02, 0 }, { 3.27, 4.07, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.63, 4.02, 0 }, { 3.68, 4.07, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.22, 4.43, 0 }, { 3.27, 4.48, 0.42 }, { 0.4, 0.4, 0.4 } },
	{ { 3.63, 4.43, 0 }, { 3.68, 4.48, 0.42 }, { 0.4, 0.4, 0.4 } },
	/* A cabinet, a shelf, a chest. */
	{ { 0.05, 4.2, 0 }, { 0.6, 5.8, 2 }, { 0.6, 0.5, 0.35 } },
	{ { 1.2, 5.7, 1.3 }, { 3, 5.95, 1.36 }, { 0.6, 0.5, 0.35 } },
	{ { 6.4, 4.6, 0 }, { 7.6, 5.6, 0.6 }, { 0.25, 0.5, 0.3 } },
};

/* Three corners of each face of a box, by the bits of x, y and z: the corner, and where its edges end. */
static const int faces[6][3] = {
	{ 0, 2, 1 }, { 4, 5, 6 }, { 0, 4, 2 }, { 1, 3, 5 }, { 0, 1, 4 }, { 2, 6, 3 },
};

static struct vec corner_of(const struct box *box, int bits)
{
	struct vec corner;
	long d;

	for (d = 0; d < 3; d++)
		corner.x[d] = bits >> d & 1 ? box->high[d] : box->low[d];
	return corner;
}

static struct patch *add_patch(struct vec corner, struct vec a, struct vec b, const double *colour)
{
	struct patch *patch = &shared->patch[shared->patches];

	patch->element = scene_root(corner, along(a, -1, corner), along(b, -1, corner), shared->patches);
	memcpy(patch->reflects.part, colour, sizeof(patch->reflects.part));
	shared->patches++;
	return patch;
}

/* The faces of a box, seen from outside. */
static void add_box(const struct box *box, double shift)
{
	struct box moved = *box;
	long i;

	moved.low[0] += shift;
	moved.high[0] += shift;
	for (i = 0; i < 6; i++)
		add_patch(corner_of(&moved, faces[i][0]), corner_of(&moved, faces[i][1]),
		    corner_of(&moved, faces[i][2]), box->colour);
}

/* The room itself, seen from inside. */
static void add_room(double length)
{
	static const double colours[6][COLOURS] = {
		{ 0.5, 0.42, 0.35 }, { 0.8, 0.8, 0.8 }, { 0.7, 0.7, 0.55 }, { 0.55, 0.65, 0.7 },
		{ 0.75, 0.72, 0.7 }, { 0.75, 0.72, 0.7 },
	};
	const struct box room = { { 0, 0, 0 }, { length, 6, 3 }, { 0 } };
	long i;

	for (i = 0; i < 6; i++)
		add_patch(corner_of(&room, faces[i][0]), corner_of(&room, faces[i][2]),
		    corner_of(&room, faces[i][1]), colours[i]);
}

/* A flat lamp below the ceiling, which shines downwards. */
static void add_lamp(double shift)
{
	const double colour[COLOURS] = { 0.1, 0.1, 0.1 }, x = 3.5 + shift, y = 2.9;
	const struct vec corner = { { x - 0.6, y - 0.3, 2.8 } }, a = { { x - 0.6, y + 0.3, 2.8 } };
	const struct vec b = { { x + 0.6, y - 0.3, 2.8 } };

	add_patch(corner, a, b, colour)->emits = (struct light){ { 48, 46, 42 } };
}

void scene_make(void)
{
	const long rooms = problem.rooms > 0 ? problem.rooms : 1;
	const long count = problem.rooms > 0 ? (long)(sizeof(boxes) / sizeof(boxes[0])) : 0;
	long room, i;

	add_room(8 * (double)rooms);
	for (room = 0; room < rooms; room++) {
		for (i = 0; i < count; i++)
			add_box(&boxes[i], 8 * (double)room);
		add_lamp(8 * (double)room);
	}
	planes_make();
}

/* -------------------------------------------------------------------------------------- picture */

/* The light of the smallest element at a place of a patch. */
static struct light light_at(const struct element *e, struct vec at)
{
	while (e->child[3] != NULL) {
		const struct vec in = along(at, -1, e->corner);
		const long right = dot(in, e->edge[0]) >= 0.5 * dot(e->edge[0], e->edge[0]);
		const long up = dot(in, e->edge[1]) >= 0.5 * dot(e->edge[1], e->edge[1]);

		e = e->child[2 * up + right];
	}
	return e->light;
}

static struct light look(struct vec eye, struct vec way)
{
	double t;
	const long patch = planes_first(eye, way, &t);

	if (patch < 0)
		return (struct light){ { 0 } };
	return light_at(shared->patch[patch].element, along(eye, t, way));
}

/* By main alone, after the run: a PPM. */
void scene_write(const char *name, long size)
{
	const struct vec eye = { { 7.6, 0.5, 1.9 } };
	unsigned char *bytes = own((size_t)(COLOURS * size * size)), *next = bytes;
	long x, y, c;

	for (y = 0; y < size; y++)
		for (x = 0; x < size; x++) {
			const double right = 1.3 * ((double)x + 0.5) / (double)size - 0.65;
			const double down = 1.3 * ((double)y + 0.5) / (double)size - 0.65;
			/* Ahead, to the right of that, and down. */
			const struct vec way = { { -0.82 + 0.55 * right - 0.15 * down,
				0.55 + 0.82 * right + 0.1 * down, -0.2 - 0.98 * down } };
			const struct light light = look(eye, way);

			for (c = 0; c < COLOURS; c++)
				*next++ = (unsigned char)(255 * fmin(1, sqrt(0.55 * light.part[c])));
		}
	write_picture(name, size, size, COLOURS, bytes);
	free(bytes);
}
