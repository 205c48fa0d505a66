/*
 * mm: multiplies two n x n matrices by partial sums, after the JUMP paper.
 *
 * The columns of P and the rows of Q are dealt out, not the rows of the result: process k
 * multiplies its n x w panel of P by its w x n panel of Q, which gives a term of the whole result
 * in private memory.  The p terms are added up in the shared result, band of rows by band, each
 * band under a lock of its own.  Q is kept transposed, so that both panels are read along rows.
 *
 * The panels are read by their owner alone.  The communication is the result: every band passes
 * through all processes, which begin at different ones.
 *
 * Needs scope consistency (ScC): a band is written under its lock only.
 */
#define NAME "jump-mm"
#define N_DEFAULT 256
#define N_MAX 4096

include(kernel.H)

#define VECTORS 3

/* Each lock guards a band of the result. */
struct bands {
	ALOCKDEC(lock, PROCS_MAX)
};

static struct bands *bands;
static double *p, *q; /* panel after panel, q transposed */
static double *result;

/* Small whole numbers: no sum of them is rounded, in whatever order. */
static double p_element(long row, long col)
{
	return (double)(noise(row * n + col) % 100);
}

static double q_element(long row, long col)
{
	return (double)(noise(n * n + row * n + col) % 100);
}

static void allocate(void)
{
	const size_t bytes = (size_t)(n * n) * sizeof(double);

	bands = (struct bands *)G_MALLOC(sizeof(*bands))
	ALOCKINIT(bands->lock, procs)
	p = (double *)G_MALLOC(bytes)
	q = (double *)G_MALLOC(bytes)
	result = (double *)G_MALLOC(bytes)
}

static void fill_part(long id)
{
	const long first = first_of(n, id), width = first_of(n, id + 1) - first;
	double *p_panel = &p[n * first], *q_panel = &q[n * first];
	long i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < width; k++) {
			p_panel[i * width + k] = p_element(i, first + k);
			q_panel[i * width + k] = q_element(first + k, i);
		}
	for (i = n * first; i < n * (first + width); i++)
		result[i] = 0;
}

static void multiply(long id, double *term)
{
	const long first = first_of(n, id), width = first_of(n, id + 1) - first;
	const double *p_panel = &p[n * first], *q_panel = &q[n * first];
	long i, j, k;

	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++) {
			double sum = 0;

			for (k = 0; k < width; k++)
				sum += p_panel[i * width + k] * q_panel[j * width + k];
			term[i * n + j] = sum;
		}
}

static void work(long id)
{
	double *term = own((size_t)(n * n) * sizeof(*term));
	long step, i;

	multiply(id, term);
	for (step = 0; step < procs; step++) {
		const long band = (id + step) % procs;

		ALOCK(bands->lock, band)
		for (i = n * first_of(n, band); i < n * first_of(n, band + 1); i++)
			result[i] += term[i];
		AULOCK(bands->lock, band)
	}
	free(term);
}

/* Whether R v = P (Q v): with no 0 in v, a single wrong element of R shows. */
static long wrong_rows(long seed)
{
	double *v = own((size_t)n * sizeof(*v)), *qv = own((size_t)n * sizeof(*qv));
	long i, j, wrong = 0;

	for (i = 0; i < n; i++)
		v[i] = (double)(1 + noise(seed + i) % 1000);
	for (i = 0; i < n; i++)
		for (j = 0; j < n; j++)
			qv[i] += q_element(i, j) * v[j];
	for (i = 0; i < n; i++) {
		double exact = 0, sum = 0;

		for (j = 0; j < n; j++) {
			exact += p_element(i, j) * qv[j];
			sum += result[i * n + j] * v[j];
		}
		wrong += sum != exact;
	}
	free(v);
	free(qv);
	return wrong;
}

static int verify(void)
{
	long vector, wrong = 0;

	for (vector = 1; vector <= VECTORS; vector++)
		wrong += wrong_rows(vector * 1000003);
	printf("test: %ld rows wrong\n", wrong);
	return wrong == 0;
}
