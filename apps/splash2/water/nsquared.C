/*
 * water-nsquared: the motion of n water molecules in a box that repeats in all directions, all pairs
 * of molecules considered, after the SPLASH-2 program.
 *
 * Each process has a range of the molecules.  For each of them it computes the forces to the n / 2
 * molecules that follow, and adds them up in arrays of its own; after that it adds these sums to the
 * molecules, which are those of half of the other processes too, each under the molecule's lock.
 *
 * Sharing: multiple writer, coarse access.  A process updates a long run of molecules, one after
 * the other, under small locks.  Records of molecules have 576 bytes, and lie in one array.
 *
 * The layout `pages` locks a process's range of molecules once instead of each molecule, and keeps the
 * sums of forces in private memory instead of many small shared blocks.
 *
 * -p P  processes      -n N  molecules, a cube      -k K  steps           -d D  fs of a step
 * -c C  cutoff         -r R  seed of velocities     -i I  steps between energies
 * -s    energies       -t    test the result        -o    print places    --layout suite|pages
 */
MAIN_ENV
include(water.H)

#define NAME "water-nsquared"
#define OPTIONS "n:k:d:c:r:i:sto"
#define USAGE "[-n molecules] [-k steps] [-d fs of a step] [-c cutoff] [-r seed] " \
	"[-i steps between energies] [-s] [-t] [-o] [--layout suite|pages]"
#define PAGES 1
include(main.H)
include(water_main.H)

#define LOCKS 65536

/* Of the forces on one molecule, by axis: an array of one number for each atom. */
typedef double **forces;

struct locks {
	ALOCKDEC(molecule, LOCKS)
	ALOCKDEC(range, PROCS_MAX)
};

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct locks *locks;         /* shared */
static struct molecule *molecules;  /* shared */
static forces **sums;               /* shared, of each process and molecule */

struct molecule *molecule_at(long i)
{
	return &molecules[i];
}

void own_molecules(long id, void (*visit)(struct molecule *molecule, double *sum), double *sum)
{
	long i;

	for (i = first_of(model.n, id); i < first_of(model.n, id + 1); i++)
		visit(&molecules[i], sum);
}

/* How many of the molecules that follow molecule i make pairs with it: each pair is counted once. */
static long followers(long i)
{
	const long half = model.n / 2;

	if (model.n % 2 != 0)
		return half;
	return half - ((i % half % 2 == 0) != (i < half));
}

/* ------------------------------------------------------------------------------------ the pairs */

static void add_forces(forces to, double from[3][ATOMS])
{
	long d, a;

	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++)
			to[d][a] += from[d][a];
}

/* Molecules first to before `end`, which may go beyond n and on from 0. */
static void clear(forces *mine, long first, long end)
{
	long i, d;

	for (i = first; i < end; i++)
		for (d = 0; d < 3; d++)
			memset(mine[i % model.n][d], 0, ATOMS * sizeof(double));
}

/* The forces of all pairs of molecule i with those that follow. */
static double sum_pairs(forces *mine, long i)
{
	const long end = i + followers(i);
	double here[3][ATOMS] = { { 0 } }, energy = 0, virial = 0;
	long k;

	for (k = i + 1; k <= end; k++) {
		const long j = k % model.n;
		double there[3][ATOMS] = { { 0 } };

		if (model_inter(molecules[i].at[0], molecules[j].at[0], here, there, &energy, &virial))
			add_forces(mine[j], there);
	}
	add_forces(mine[i], here);
	return virial;
}

static void add_to(struct molecule *molecule, const forces from)
{
	long d, a;

	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++)
			molecule->at[FORCE][d][a] += from[d][a];
}

/* Each molecule under its lock. */
static void add_each(forces *mine, long first, long end)
{
	long i;

	for (i = first; i < end; i++) {
		const long j = i % model.n;

		ALOCK(locks->molecule, j % LOCKS)
		add_to(&molecules[j], mine[j]);
		AULOCK(locks->molecule, j % LOCKS)
	}
}

/* Each process's molecules under one lock. */
static void add_ranges(forces *mine, long id, long first, long end)
{
	long k, i;

	for (k = 0; k < procs; k++) {
		const long range = (id + k) % procs;

		ALOCK(locks->range, range)
		for (i = first_of(model.n, range); i < first_of(model.n, range + 1); i++)
			if (i >= first ? i < end : i + model.n < end)
				add_to(&molecules[i], mine[i]);
		AULOCK(locks->range, range)
	}
}

/* In the layout `pages` a process's sums are private. */
static forces *private_sums(void)
{
	forces *mine = own((size_t)model.n * sizeof(*mine));
	double *numbers = own((size_t)(model.n * 3 * ATOMS) * sizeof(*numbers));
	forces axes = own((size_t)(model.n * 3) * sizeof(*axes));
	long i;

	for (i = 0; i < model.n * 3; i++)
		axes[i] = numbers + i * ATOMS;
	for (i = 0; i < model.n; i++)
		mine[i] = axes + i * 3;
	return mine;
}

double add_pairs(long id)
{
	const long first = first_of(model.n, id), last = first_of(model.n, id + 1) - 1;
	long end = last + model.n / 2 + 1, i;
	forces *mine = pages ? private_sums() : sums[id];
	double virial = 0;

	end = end < first + model.n ? end : first + model.n;
	clear(mine, first, end);
	for (i = first; i <= last; i++)
		virial += sum_pairs(mine, i);
	if (pages) {
		add_ranges(mine, id, first, end);
		free(mine[0][0]);
		free(mine[0]);
		free(mine);
	} else {
		add_each(mine, first, end);
	}
	return virial;
}

double pair_energy(long id)
{
	double here[3][ATOMS], there[3][ATOMS], energy = 0, virial = 0;
	long i, k;

	memset(here, 0, sizeof(here));
	memset(there, 0, sizeof(there));
	for (i = first_of(model.n, id); i < first_of(model.n, id + 1); i++)
		for (k = i + 1; k <= i + followers(i); k++)
			model_inter(molecules[i].at[0], molecules[k % model.n].at[0], here, there,
			    &energy, &virial);
	return energy;
}

/* No molecule has a place of its own. */
void take_boxes(long id)
{
	(void)id;
}

void *leave_boxes(long id)
{
	(void)id;
	return NULL;
}

void enter_boxes(void *left)
{
	(void)left;
}

/* ------------------------------------------------------------------------------------- start-up */

void place_molecules(void)
{
	long i;

	for (i = 0; i < model.n; i++)
		model_place(&molecules[i], i);
}

/* The suite's arrays: a block for each axis of each molecule, for each process. */
static void allocate_sums(void)
{
	long id, i, d;

	sums = (forces **)G_MALLOC((size_t)procs * sizeof(*sums))
	for (id = 0; id < procs; id++) {
		sums[id] = (forces *)G_MALLOC((size_t)model.n * sizeof(forces))
		for (i = 0; i < model.n; i++) {
			sums[id][i] = (forces)G_MALLOC(3 * sizeof(double *))
			for (d = 0; d < 3; d++)
				sums[id][i][d] = (double *)G_MALLOC(ATOMS * sizeof(double))
		}
	}
}

static void set_up(void)
{
	ROAM_NEEDS(ScC)
	model_set_up();
	steps_set_up();
	locks = (struct locks *)G_MALLOC(sizeof(*locks))
	ALOCKINIT(locks->molecule, model.n < LOCKS ? model.n : LOCKS)
	ALOCKINIT(locks->range, procs)
	molecules = (struct molecule *)G_MALLOC((size_t)model.n * sizeof(*molecules))
	if (!pages)
		allocate_sums();
	place_molecules();
}

static void fill(long id)
{
	(void)id;
}
