/*
 * model: flexible water of the SPC kind (Toukan and Rahman 1985: three charges, Lennard-Jones between
 * oxygens, harmonic bonds and angle), cut off smoothly with the distance of the oxygens; and Gear's
 * predictor and corrector of sixth order, as the suite has it.
 */
EXTERN_ENV
include(water.H)

#define VOLUME 29.96          /* of a molecule in the liquid */
#define BOND 1.0
#define BOND_FORCE 1054.2
#define ANGLE 1.91061         /* 109.47 degrees */
#define ANGLE_FORCE 75.9
#define CHARGE_OXYGEN -0.82
#define CHARGE_HYDROGEN 0.41
#define COULOMB 332.0637      /* energy of two unit charges at distance 1 */
#define DEPTH 0.15535         /* of the Lennard-Jones potential, and where it is 0 */
#define SIGMA 3.166
#define MASS_OXYGEN 15.9994
#define MASS_HYDROGEN 1.00794
#define UNIT 4.184e-4         /* kcal/mol in atomic mass units * angstrom^2 / fs^2 */
#define HEAT 0.59616          /* k T at 300 K */
#define PAIR_MIN 0.8          /* of the cutoff: from here on pairs fade out */

static const double charge[ATOMS] = { CHARGE_HYDROGEN, CHARGE_OXYGEN, CHARGE_HYDROGEN };
static const double mass[ATOMS] = { MASS_HYDROGEN, MASS_OXYGEN, MASS_HYDROGEN };

struct model model = {
	.n = 512,
	.steps = 3,
	.print = 3,
	.seed = 1,
	.step = 0.15,
};

int model_option(int letter, const char *value)
{
	switch (letter) {
	case 'n': return read_whole(value, &model.n);
	case 'k': return read_whole(value, &model.steps);
	case 'i': return read_whole(value, &model.print);
	case 'r': return read_whole(value, &model.seed);
	case 'd': return read_real(value, &model.step);
	default: return read_real(value, &model.cutoff);
	}
}

/* The suite's cutoff, 6.2 for 512 molecules, if none was given. */
void model_set_up(void)
{
	if (model.n < 8 || model.n > 1l << 21)
		usage("-n must be 8 to 2M");
	model.side = lround(cbrt((double)model.n));
	if (model.side * model.side * model.side != model.n)
		usage("-n must be a cube");
	if (procs > model.n)
		usage("-p must be no more than the molecules");
	if (model.steps < 0 || model.print < 1)
		usage("-k must not be negative, -i must be positive");
	if (model.seed < 0 || model.seed > 1l << 30)
		usage("-r must be 0 to 1024M");
	if (!(model.step > 0 && model.step <= 1))
		usage("-d must be above 0, at most 1 fs");
	model.box = cbrt((double)model.n * VOLUME);
	if (model.cutoff == 0)
		model.cutoff = fmin(6.212752, 0.5 * model.box);
	if (!(model.cutoff > 0 && model.cutoff <= 0.5 * model.box))
		usage("-c must be above 0, at most half the box");
}

/* ------------------------------------------------------------------------------------ the start */

/* A number with the distribution of Gauss. */
static double gauss(long i)
{
	const double u = uniform(2 * i), v = uniform(2 * i + 1);

	return sqrt(-2 * log(1 - u)) * cos(2 * acos(-1.0) * v);
}

/* Molecule i at its place in the cubic lattice, with random velocities of 300 K. */
void model_place(struct molecule *molecule, long i)
{
	const double apart = model.box / (double)model.side;
	const double middle[3] = {
		((double)(i % model.side) + 0.5) * apart,
		((double)(i / model.side % model.side) + 0.5) * apart,
		((double)(i / model.side / model.side) + 0.5) * apart,
	};
	const double along = BOND * cos(ANGLE / 2), across = BOND * sin(ANGLE / 2);
	long d, a;

	memset(molecule, 0, sizeof(*molecule));
	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++) {
			const long number = (model.seed << 32) + (3 * i + d) * ATOMS + a;

			molecule->at[0][d][a] = middle[d];
			molecule->at[1][d][a] = model.step * sqrt(HEAT * UNIT / mass[a]) *
			    gauss(number);
		}
	molecule->at[0][0][HYDROGEN_1] += across;
	molecule->at[0][0][HYDROGEN_2] -= across;
	molecule->at[0][2][HYDROGEN_1] += along;
	molecule->at[0][2][HYDROGEN_2] += along;
}

/* ----------------------------------------------------------------------------------- the forces */

/* A bond's energy; its force pulls one way at the hydrogen and the other way at the oxygen. */
static double bond(const double at[3][ATOMS], double force[3][ATOMS], long hydrogen, double *virial_p)
{
	double x[3], square = 0, length, strength;
	long d;

	for (d = 0; d < 3; d++) {
		x[d] = at[d][hydrogen] - at[d][OXYGEN];
		square += x[d] * x[d];
	}
	length = sqrt(square);
	strength = -BOND_FORCE * (length - BOND) / length;
	for (d = 0; d < 3; d++) {
		force[d][hydrogen] += strength * x[d];
		force[d][OXYGEN] -= strength * x[d];
	}
	*virial_p += strength * square;
	return 0.5 * BOND_FORCE * (length - BOND) * (length - BOND);
}

/* The energy of the angle between the bonds; its forces have no virial. */
static double bend(const double at[3][ATOMS], double force[3][ATOMS])
{
	double x[2][3], length[2], dot = 0, cosine, angle, strength;
	long d;

	for (d = 0; d < 3; d++) {
		x[0][d] = at[d][HYDROGEN_1] - at[d][OXYGEN];
		x[1][d] = at[d][HYDROGEN_2] - at[d][OXYGEN];
		dot += x[0][d] * x[1][d];
	}
	length[0] = sqrt(x[0][0] * x[0][0] + x[0][1] * x[0][1] + x[0][2] * x[0][2]);
	length[1] = sqrt(x[1][0] * x[1][0] + x[1][1] * x[1][1] + x[1][2] * x[1][2]);
	cosine = dot / (length[0] * length[1]);
	angle = acos(cosine);
	strength = ANGLE_FORCE * (angle - ANGLE) / sqrt(1 - cosine * cosine);
	for (d = 0; d < 3; d++) {
		const double f1 = strength / length[0] *
		    (x[1][d] / length[1] - cosine * x[0][d] / length[0]);
		const double f2 = strength / length[1] *
		    (x[0][d] / length[0] - cosine * x[1][d] / length[1]);

		force[d][HYDROGEN_1] += f1;
		force[d][HYDROGEN_2] += f2;
		force[d][OXYGEN] -= f1 + f2;
	}
	return 0.5 * ANGLE_FORCE * (angle - ANGLE) * (angle - ANGLE);
}

/* Adds the forces within a molecule to `force`; returns their energy. */
double model_intra(const double at[3][ATOMS], double force[3][ATOMS], double *virial_p)
{
	return bond(at, force, HYDROGEN_1, virial_p) + bond(at, force, HYDROGEN_2, virial_p) +
	    bend(at, force);
}

/* How much of a pair's energy counts at a distance of its oxygens, and how that changes. */
static double fade(double distance, double *slope_p)
{
	const double low = PAIR_MIN * model.cutoff, width = model.cutoff - low;
	const double x = (distance - low) / width;

	if (x <= 0) {
		*slope_p = 0;
		return 1;
	}
	*slope_p = -30 * x * x * (1 - x) * (1 - x) / width;
	return 1 - x * x * x * (10 - 15 * x + 6 * x * x);
}

/* Adds what the charges of two molecules do; b is seen from a moved by `shift`. */
static double charges(const double a[3][ATOMS], const double b[3][ATOMS], const double *shift,
    double fa[3][ATOMS], double fb[3][ATOMS])
{
	double energy = 0;
	long i, j;

	for (i = 0; i < ATOMS; i++)
		for (j = 0; j < ATOMS; j++) {
			const double x = a[0][i] - b[0][j] - shift[0];
			const double y = a[1][i] - b[1][j] - shift[1];
			const double z = a[2][i] - b[2][j] - shift[2];
			const double square = x * x + y * y + z * z;
			const double part = COULOMB * charge[i] * charge[j] / sqrt(square);
			const double strength = part / square;

			fa[0][i] += strength * x;
			fa[1][i] += strength * y;
			fa[2][i] += strength * z;
			fb[0][j] -= strength * x;
			fb[1][j] -= strength * y;
			fb[2][j] -= strength * z;
			energy += part;
		}
	return energy;
}

/*
 * Adds the forces between two molecules, or their nearest images, to fa and fb; 0: they are too far
 * apart.  The virial is that of whole molecules.
 */
int model_inter(const double a[3][ATOMS], const double b[3][ATOMS], double fa[3][ATOMS],
    double fb[3][ATOMS], double *energy_p, double *virial_p)
{
	double raw_a[3][ATOMS] = { { 0 } }, raw_b[3][ATOMS] = { { 0 } };
	double shift[3], apart[3], square = 0, distance, energy, six, strength, part, slope;
	long d, i;

	for (d = 0; d < 3; d++) {
		apart[d] = a[d][OXYGEN] - b[d][OXYGEN];
		shift[d] = model.box * rint(apart[d] / model.box);
		apart[d] -= shift[d];
		square += apart[d] * apart[d];
	}
	if (square >= model.cutoff * model.cutoff)
		return 0;
	energy = charges(a, b, shift, raw_a, raw_b);
	six = SIGMA * SIGMA / square;
	six = six * six * six;
	energy += 4 * DEPTH * (six * six - six);
	strength = 24 * DEPTH * (2 * six * six - six) / square;
	distance = sqrt(square);
	part = fade(distance, &slope);
	strength = part * strength - energy * slope / distance;
	for (d = 0; d < 3; d++) {
		double whole = strength * apart[d];

		for (i = 0; i < ATOMS; i++) {
			fa[d][i] += part * raw_a[d][i];
			fb[d][i] += part * raw_b[d][i];
			whole += part * raw_a[d][i];
		}
		fa[d][OXYGEN] += strength * apart[d];
		fb[d][OXYGEN] -= strength * apart[d];
		*virial_p += whole * apart[d];
	}
	*energy_p += part * energy;
	return 1;
}

/* ------------------------------------------------------------------------------- the integrator */

/* The accelerations at the start. */
void model_begin(struct molecule *molecule)
{
	const double half = 0.5 * model.step * model.step * UNIT;
	long d, a;

	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++)
			molecule->at[2][d][a] = half * molecule->at[FORCE][d][a] / mass[a];
}

/* Each order from the higher ones: Taylor's series for one step. */
void model_predict(struct molecule *molecule)
{
	long from, k, d, a;

	for (from = 0; from < ORDERS - 1; from++)
		for (k = ORDERS - 2; k >= from; k--)
			for (d = 0; d < 3; d++)
				for (a = 0; a < ATOMS; a++)
					molecule->at[k][d][a] += molecule->at[k + 1][d][a];
}

/* Brings the orders in line with the forces (Gear 1971, equations of second order). */
void model_correct(struct molecule *molecule)
{
	static const double weight[ORDERS] = { 863.0 / 6048, 665.0 / 1008, 1, 25.0 / 36, 35.0 / 144,
		1.0 / 24, 1.0 / 360 };
	const double half = 0.5 * model.step * model.step * UNIT;
	long k, d, a;

	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++) {
			const double wrong = half * molecule->at[FORCE][d][a] / mass[a] -
			    molecule->at[2][d][a];

			for (k = 0; k < ORDERS; k++)
				molecule->at[k][d][a] += weight[k] * wrong;
		}
}

/* Brings a molecule that has left the box back on the other side. */
void model_wrap(struct molecule *molecule)
{
	long d, a;

	for (d = 0; d < 3; d++) {
		const double out = model.box * floor(molecule->at[0][d][OXYGEN] / model.box);

		for (a = 0; out != 0 && a < ATOMS; a++)
			molecule->at[0][d][a] -= out;
	}
}

/* Adds a molecule's kinetic energy along each axis. */
void model_kinetic(const struct molecule *molecule, double *kinetic)
{
	const double scale = 0.5 / (model.step * model.step * UNIT);
	long d, a;

	for (d = 0; d < 3; d++)
		for (a = 0; a < ATOMS; a++)
			kinetic[d] += scale * mass[a] * molecule->at[1][d][a] * molecule->at[1][d][a];
}
