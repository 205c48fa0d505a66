/*
 * water-spatial: the motion of n water molecules in a box that repeats in all directions, with pairs
 * sought nearby only, after the SPLASH-2 program.
 *
 * Space is cut into boxes at least as wide as the cutoff, and each box has a list of its molecules.  A
 * process has a block of boxes; it computes all forces on the molecules in them, from those in the 27
 * boxes around each: each pair twice, so that no force is written by two processes.  A molecule that has
 * moved into another box goes over to its list; boxes have locks for that.
 *
 * Sharing: multiple writer, fine access, coarse synchronisation.  Records of molecules and links of lists
 * are in blocks of their own, allocated in the order of the first places: those of several processes lie in
 * each page.
 *
 * -p P  processes      -n N  molecules, a cube      -k K  steps           -d D  fs of a step
 * -c C  cutoff         -r R  seed of velocities     -i I  steps between energies
 * -s    energies       -t    test the result        -o    print places
 */
MAIN_ENV
include(water.H)

#define NAME "water-spatial"
#define OPTIONS "n:k:d:c:r:i:sto"
#define USAGE "[-n molecules] [-k steps] [-d fs of a step] [-c cutoff] [-r seed] " \
	"[-i steps between energies] [-s] [-t] [-o]"
include(main.H)
include(water_main.H)

struct link {
	struct molecule molecule;
	struct link *next;
};

struct box {
	LOCKDEC(lock)
	struct link *list;
};

/* An entry of a process's list of its boxes. */
struct place {
	long at[3];
	struct place *next;
};

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct box ***boxes;         /* shared: box x, y, z is boxes[x][y][z] */
static struct link **links;         /* of each molecule; the links are shared */
static long side;                   /* boxes along each axis */
static long grid[3];                /* processes along each axis */
static struct place **places;       /* shared: the first of each process's boxes */

struct molecule *molecule_at(long i)
{
	return &links[i]->molecule;
}

static struct box *box_at(const long *at)
{
	return &boxes[at[0]][at[1]][at[2]];
}

static void find_box(const struct molecule *molecule, long *at)
{
	long d;

	for (d = 0; d < 3; d++) {
		at[d] = (long)(molecule->at[0][d][OXYGEN] / model.box * (double)side);
		at[d] = at[d] < side ? at[d] : side - 1;
	}
}

/* The process to whose block a box belongs. */
static long owner(const long *at)
{
	long id = 0, d;

	if (procs == 1)
		return 0;
	for (d = 0; d < 3; d++)
		id = id * grid[d] + at[d] * grid[d] / side;
	return id;
}

static void free_boxes(long id)
{
	struct place *place = places[id];

	while (place != NULL) {
		struct place *next = place->next;

		G_FREE(place)
		place = next;
	}
}

/* Makes the list of a process's boxes: a block for each entry, as in the suite. */
void take_boxes(long id)
{
	struct place **end = &places[id];
	long at[3];

	free_boxes(id);
	for (at[0] = 0; at[0] < side; at[0]++)
		for (at[1] = 0; at[1] < side; at[1]++)
			for (at[2] = 0; at[2] < side; at[2]++) {
				struct place *place;

				if (owner(at) != id)
					continue;
				place = (struct place *)G_MALLOC(sizeof(*place))
				memcpy(place->at, at, sizeof(at));
				*end = place;
				end = &place->next;
			}
	*end = NULL;
}

void own_molecules(long id, void (*visit)(struct molecule *molecule, double *sum), double *sum)
{
	const struct place *place;
	struct link *link;

	for (place = places[id]; place != NULL; place = place->next)
		for (link = box_at(place->at)->list; link != NULL; link = link->next)
			visit(&link->molecule, sum);
}

/* ------------------------------------------------------------------------------------ the pairs */

/* The distinct boxes around one, along one axis, with itself; returns how many. */
static long around(long at, long *to)
{
	const long count = side < 3 ? side : 3;
	long i;

	for (i = 0; i < count; i++)
		to[i] = side < 3 ? i : (at + i + side - 1) % side;
	return count;
}

struct totals {
	double energy;
	double virial;
};

/* One molecule with all of a box; adds to its forces. */
static void with_box(const struct molecule *molecule, const struct box *box, double force[3][ATOMS],
    struct totals *totals)
{
	double other[3][ATOMS] = { { 0 } }; /* forces that its own process computes */
	const struct link *link;

	for (link = box->list; link != NULL; link = link->next)
		if (&link->molecule != molecule)
			model_inter(molecule->at[0], link->molecule.at[0], force, other,
			    &totals->energy, &totals->virial);
}

/* The molecules of one box with all around. */
static void with_neighbours(const long *at, int add, struct totals *totals)
{
	long x[3], y[3], z[3], count = around(at[0], x), i, d, a;
	struct link *link;

	around(at[1], y);
	around(at[2], z);
	for (link = box_at(at)->list; link != NULL; link = link->next) {
		double force[3][ATOMS] = { { 0 } };

		for (i = 0; i < count * count * count; i++)
			with_box(&link->molecule, &boxes[x[i / count / count]][y[i / count % count]]
			    [z[i % count]], force, totals);
		for (d = 0; add && d < 3; d++)
			for (a = 0; a < ATOMS; a++)
				link->molecule.at[FORCE][d][a] += force[d][a];
	}
}

static struct totals all_pairs(long id, int add)
{
	struct totals totals = { 0, 0 };
	const struct place *place;

	for (place = places[id]; place != NULL; place = place->next)
		with_neighbours(place->at, add, &totals);
	return totals;
}

/* Half of what was found: each pair was met from both sides. */
double add_pairs(long id)
{
	return all_pairs(id, 1).virial / 2;
}

double pair_energy(long id)
{
	return all_pairs(id, 0).energy / 2;
}

/* ---------------------------------------------------------------------------- from box to box */

/* Takes the molecules that have left from the lists of the own boxes. */
void *leave_boxes(long id)
{
	const struct place *place;
	struct link *left = NULL;
	long at[3];

	for (place = places[id]; place != NULL; place = place->next) {
		struct link **link_p = &box_at(place->at)->list;

		while (*link_p != NULL) {
			struct link *link = *link_p;

			find_box(&link->molecule, at);
			if (memcmp(at, place->at, sizeof(at)) == 0) {
				link_p = &link->next;
				continue;
			}
			*link_p = link->next;
			link->next = left;
			left = link;
		}
	}
	return left;
}

static void enter(struct box *box, struct link *link)
{
	LOCK(box->lock)
	link->next = box->list;
	box->list = link;
	UNLOCK(box->lock)
}

void enter_boxes(void *left)
{
	struct link *link = left;
	long at[3];

	while (link != NULL) {
		struct link *next = link->next;

		find_box(&link->molecule, at);
		enter(box_at(at), link);
		link = next;
	}
}

/* ------------------------------------------------------------------------------------- start-up */

/* By main: no locks. */
void place_molecules(void)
{
	long at[3], i;

	for (i = 0; i < side * side * side; i++)
		boxes[i / side / side][i / side % side][i % side].list = NULL;
	for (i = 0; i < model.n; i++) {
		struct box *box;

		model_place(&links[i]->molecule, i);
		find_box(&links[i]->molecule, at);
		box = box_at(at);
		links[i]->next = box->list;
		box->list = links[i];
	}
}

/* The grid of processes with the smallest sides, all of which have boxes. */
static void find_grid(void)
{
	long best = 0, x, y;

	for (x = 1; x <= procs; x++)
		for (y = 1; procs % x == 0 && y <= procs / x; y++) {
			const long z = procs / x / y;

			if (procs / x % y != 0 || x > side || y > side || z > side)
				continue;
			if (best == 0 || x + y + z < best) {
				best = x + y + z;
				grid[0] = x;
				grid[1] = y;
				grid[2] = z;
			}
		}
	if (best == 0)
		usage("-p: no grid of so many processes fits the boxes");
}

static void allocate_boxes(void)
{
	long x, y, z;

	boxes = (struct box ***)G_MALLOC((size_t)side * sizeof(*boxes))
	for (x = 0; x < side; x++) {
		boxes[x] = (struct box **)G_MALLOC((size_t)side * sizeof(**boxes))
		for (y = 0; y < side; y++) {
			boxes[x][y] = (struct box *)G_MALLOC((size_t)side * sizeof(***boxes))
			for (z = 0; z < side; z++)
				LOCKINIT(boxes[x][y][z].lock)
		}
	}
}

static void set_up(void)
{
	long i;

	ROAM_NEEDS(ScC)
	model_set_up();
	side = (long)(model.box / model.cutoff);
	find_grid();
	steps_set_up();
	allocate_boxes();
	places = (struct place **)G_MALLOC((size_t)procs * sizeof(*places))
	for (i = 0; i < procs; i++)
		places[i] = NULL;
	links = own((size_t)model.n * sizeof(*links));
	for (i = 0; i < model.n; i++)
		links[i] = (struct link *)G_MALLOC(sizeof(struct link))
	place_molecules();
}

static void fill(long id)
{
	(void)id;
}
