/*
 * expand: the potential of charges in the plane, sum of m log(z - z_j), as series.  Outside of a circle:
 * near[0] log(z) + sum of near[k] / z^k; inside of one: sum of far[l] z^l, of which far[0] is left
 * out, because only the derivative, the field, is wanted.
 */
EXTERN_ENV
include(fmm.H)

/* Private, set before CREATE and only read afterwards: binomial[n][k]. */
static double binomial[2 * TERMS_MAX][2 * TERMS_MAX];

void expand_set_up(void)
{
	long n, k;

	for (n = 0; n < 2 * TERMS_MAX; n++)
		for (k = 0; k <= n; k++)
			binomial[n][k] = k == 0 || k == n ? 1
			    : binomial[n - 1][k - 1] + binomial[n - 1][k];
}

/* Adds a particle in the box to its expansion. */
void expand_particle(struct complex *near, struct complex from_middle, double mass)
{
	struct complex power = { mass, 0 };
	long k;

	near[0].re += mass;
	for (k = 1; k < problem.terms; k++) {
		power = times(power, from_middle);
		near[k] = minus(near[k], scaled(1 / (double)k, power));
	}
}

/* power[k] = base^k. */
static void powers(struct complex base, struct complex *power)
{
	long k;

	power[0] = (struct complex){ 1, 0 };
	for (k = 1; k < problem.terms; k++)
		power[k] = times(power[k - 1], base);
}

/* Adds a child's expansion to that of its parent. */
void expand_up(struct complex *parent, const struct complex *child, struct complex from_parent)
{
	struct complex power[TERMS_MAX];
	long l, k;

	powers(from_parent, power);
	parent[0] = plus(parent[0], child[0]);
	for (l = 1; l < problem.terms; l++) {
		struct complex sum = scaled(-1 / (double)l, times(child[0], power[l]));

		for (k = 1; k <= l; k++)
			sum = plus(sum, scaled(binomial[l - 1][k - 1], times(child[k], power[l - k])));
		parent[l] = plus(parent[l], sum);
	}
}

/* Adds the expansion of a box far away; its middle is seen from the middle of this one. */
void expand_across(struct complex *far, const struct complex *near, struct complex from_middle)
{
	struct complex power[TERMS_MAX], term[TERMS_MAX];
	long l, k;

	powers(inverse(from_middle), power);
	for (k = 1; k < problem.terms; k++)
		term[k] = scaled(k % 2 == 0 ? 1 : -1, times(near[k], power[k]));
	for (l = 1; l < problem.terms; l++) {
		struct complex sum = scaled(-1 / (double)l, near[0]);

		for (k = 1; k < problem.terms; k++)
			sum = plus(sum, scaled(binomial[l + k - 1][k - 1], term[k]));
		far[l] = plus(far[l], times(sum, power[l]));
	}
}

/* Adds the parent's expansion of what is far away to that of a child. */
void expand_down(struct complex *child, const struct complex *parent, struct complex from_parent)
{
	struct complex power[TERMS_MAX];
	long l, k;

	powers(from_parent, power);
	for (l = 1; l < problem.terms; l++)
		for (k = l; k < problem.terms; k++)
			child[l] = plus(child[l],
			    scaled(binomial[k][l], times(parent[k], power[k - l])));
}

/* Adds a single particle far away. */
void expand_far(struct complex *far, struct complex from_middle, double mass)
{
	const struct complex step = inverse(from_middle);
	struct complex power = { mass, 0 };
	long l;

	for (l = 1; l < problem.terms; l++) {
		power = times(power, step);
		far[l] = minus(far[l], scaled(1 / (double)l, power));
	}
}

/* The field outside of a box. */
struct complex expand_near_field(const struct complex *near, struct complex from_middle)
{
	const struct complex step = inverse(from_middle);
	struct complex sum = { 0, 0 };
	long k;

	for (k = problem.terms - 1; k >= 1; k--)
		sum = times(plus(sum, scaled((double)-k, near[k])), step);
	return times(plus(sum, near[0]), step);
}

/* The field in a box of what is far away. */
struct complex expand_far_field(const struct complex *far, struct complex from_middle)
{
	struct complex sum = { 0, 0 };
	long l;

	for (l = problem.terms - 1; l >= 1; l--)
		sum = plus(times(sum, from_middle), scaled((double)l, far[l]));
	return sum;
}
