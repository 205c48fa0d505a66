/*
 * steps: the time steps of both programs, which differ in how molecules are dealt to processes and how
 * pairs are found; and the check: energy is kept, and a run by one process comes to the same.
 */
EXTERN_ENV
include(water.H)

struct shared *shared;

void steps_set_up(void)
{
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	LOCKINIT(shared->intra_lock)
	LOCKINIT(shared->inter_lock)
	LOCKINIT(shared->kinetic_lock)
	LOCKINIT(shared->potential_lock)
}

/* ---------------------------------------------------------------- what is done for each molecule */

/* The forces within the molecule, with which its forces begin. */
static void begin_forces(struct molecule *molecule, double *virial)
{
	memset(molecule->at[FORCE], 0, sizeof(molecule->at[FORCE]));
	model_intra(molecule->at[0], molecule->at[FORCE], virial);
}

static void predict(struct molecule *molecule, double *virial)
{
	model_predict(molecule);
	begin_forces(molecule, virial);
}

static void begin_acceleration(struct molecule *molecule, double *unused)
{
	(void)unused;
	model_begin(molecule);
}

static void correct(struct molecule *molecule, double *kinetic)
{
	model_correct(molecule);
	model_wrap(molecule);
	model_kinetic(molecule, kinetic);
}

static void add_intra(struct molecule *molecule, double *energy)
{
	double force[3][ATOMS], virial = 0;

	*energy += model_intra(molecule->at[0], force, &virial);
}

/* ---------------------------------------------------------------------------- the parts of a step */

static void predict_own(long id, void (*visit)(struct molecule *molecule, double *virial))
{
	double virial = 0;

	own_molecules(id, visit, &virial);
	LOCK(shared->intra_lock)
	shared->virial += virial;
	UNLOCK(shared->intra_lock)
}

static void add_forces(long id)
{
	const double virial = add_pairs(id);

	LOCK(shared->inter_lock)
	shared->virial += virial;
	UNLOCK(shared->inter_lock)
}

/* Kinetic energies are summed one axis after the other, as in the suite. */
static void correct_own(long id)
{
	double kinetic[3] = { 0 };
	long d;

	own_molecules(id, correct, kinetic);
	for (d = 0; d < 3; d++) {
		LOCK(shared->kinetic_lock)
		shared->sums.kinetic[d] += kinetic[d];
		UNLOCK(shared->kinetic_lock)
	}
}

static double potential_of(long id)
{
	double energy = pair_energy(id);

	own_molecules(id, add_intra, &energy);
	return energy;
}

static void add_potential(long id)
{
	const double energy = potential_of(id);

	LOCK(shared->potential_lock)
	shared->sums.potential += energy;
	UNLOCK(shared->potential_lock)
}

/* Process 0 takes the sums; nobody adds to them meanwhile. */
static void take_sums(long step)
{
	if (step % model.print == 0)
		shared->printed = shared->sums;
	memset(&shared->sums, 0, sizeof(shared->sums));
}

static void one_step(long id, long step)
{
	void *left;

	predict_own(id, predict);
	meet();
	add_forces(id);
	meet();
	correct_own(id);
	left = leave_boxes(id);
	meet();
	enter_boxes(left);
	meet();
	if (step % model.print == 0)
		add_potential(id);
	meet();
	if (id == 0)
		take_sums(step);
	meet();
}

static int checking; /* main runs it again, alone */

void steps_run(long id)
{
	long step;

	take_boxes(id);
	predict_own(id, begin_forces);
	meet();
	add_forces(id);
	meet();
	own_molecules(id, begin_acceleration, NULL);
	for (step = 1; step <= model.steps; step++) {
		if (!checking)
			resume_point(&step, id, 0);
		one_step(id, step);
	}
}

/* ------------------------------------------------------------------------------- verification */

/* Of all molecules; by main alone. */
static double total_energy(void)
{
	double kinetic[3] = { 0 };
	long i;

	for (i = 0; i < model.n; i++)
		model_kinetic(molecule_at(i), kinetic);
	return kinetic[0] + kinetic[1] + kinetic[2] + potential_of(0);
}

static double kinetic_of(const struct sums *sums)
{
	return sums->kinetic[0] + sums->kinetic[1] + sums->kinetic[2];
}

/* How far the atoms are from where they were in `before`, at most. */
static double farthest(const struct molecule *before)
{
	double worst = 0;
	long i, d, a;

	for (i = 0; i < model.n; i++)
		for (d = 0; d < 3; d++)
			for (a = 0; a < ATOMS; a++) {
				const double apart = molecule_at(i)->at[0][d][a] - before[i].at[0][d][a];

				worst = worse(worst, fabs(apart - model.box * rint(apart / model.box)));
			}
	return worst;
}

/*
 * The run again by main alone, which keeps the energy and comes to the same.  The energy changes in the
 * first steps only, with the square of the step: their higher orders are not known at the start.
 */
int steps_check(void)
{
	const double energy_limit = 0.2 * model.step * model.step, place_limit = 1e-8, sum_limit = 1e-10;
	struct molecule *before = own((size_t)model.n * sizeof(*before));
	const struct sums printed = shared->printed;
	double start, heat, energy, place, sum;
	long i;

	for (i = 0; i < model.n; i++)
		before[i] = *molecule_at(i);
	procs = 1;
	checking = 1;
	memset(&shared->printed, 0, sizeof(shared->printed));
	place_molecules();
	take_boxes(0);
	start = total_energy();
	steps_run(0);
	heat = kinetic_of(&shared->printed);
	energy = fabs(total_energy() - start) / (double)model.n;
	place = farthest(before);
	sum = worse(fabs(kinetic_of(&printed) - heat),
	    fabs(printed.potential - shared->printed.potential)) / (1 + fabs(heat));
	printf("test: energy of a molecule off by %.2e, limit %.2e, places by %.2e, limit %.2e, "
	    "sums by %.2e, limit %.2e\n", energy, energy_limit, place, place_limit, sum, sum_limit);
	free(before);
	return energy <= energy_limit && place <= place_limit && sum <= sum_limit;
}

void steps_print(void)
{
	const struct sums *printed = &shared->printed;

	printf("per molecule: kinetic energy %.6f, potential energy %.6f kcal/mol\n",
	    kinetic_of(printed) / (double)model.n, printed->potential / (double)model.n);
}
