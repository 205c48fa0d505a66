/*
 * me: merges p sorted lists of n integers in all, after the JUMP paper.
 *
 * Two lists become one in each of log2(p) stages, from one array to the other.  In every stage
 * half of the working processes become idle, and the others read what a neighbour wrote before and
 * write pages that no process or another one had written: all of the data moves in each stage.
 *
 * Needs scope consistency (ScC): only barriers order the stages.
 */
#define NAME "jump-me"
#define N_DEFAULT (256 << 10)
#define N_MAX (4 << 20)

include(kernel.H)

static uint32_t *keys[2]; /* shared: each stage merges from one to the other */

static void allocate(void)
{
	keys[0] = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
	keys[1] = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
}

/* The steps from one key of a list to the next: N_MAX of them stay below 2^32. */
static uint32_t step(long i)
{
	return (uint32_t)(noise(i) % 1000);
}

static void fill_part(long id)
{
	uint32_t key = 0;
	long i;

	for (i = first_of(n, id); i < first_of(n, id + 1); i++) {
		keys[0][i] = key += step(i);
		if (first_fills)
			keys[1][i] = 0;
	}
}

static void merge(uint32_t *to, const uint32_t *a, const uint32_t *a_end, const uint32_t *b,
    const uint32_t *b_end)
{
	while (a < a_end && b < b_end)
		*to++ = *a <= *b ? *a++ : *b++;
	memcpy(to, a, (size_t)(a_end - a) * sizeof(*a));
	memcpy(to + (a_end - a), b, (size_t)(b_end - b) * sizeof(*b));
}

/* The first key of the list that process `id` has or, past the last one, the end. */
static long list_at(long id)
{
	return first_of(n, id < procs ? id : procs);
}

static void work(long id)
{
	long stage;

	for (stage = 0; 1l << stage < procs; stage++) {
		resume_point(&stage, id, 0);

		const long width = 1l << stage;
		const uint32_t *from = keys[stage % 2];
		uint32_t *to = keys[(stage + 1) % 2];
		const long a = list_at(id), b = list_at(id + width), end = list_at(id + 2 * width);

		/* A list without a partner is only copied. */
		if (id % (2 * width) == 0)
			merge(&to[a], &from[a], &from[b], &from[b], &from[end]);
		BARRIER(common->barrier, procs)
	}
}

/* The keys are in order, and are those of the lists: sums of mixed keys tell multisets apart. */
static int verify(void)
{
	const uint32_t *sorted;
	uint64_t before = 0, after = 0;
	long i, id, stages = 0, disorder = 0;

	while (1l << stages < procs)
		stages++;
	sorted = keys[stages % 2];
	for (id = 0; id < procs; id++) {
		uint32_t key = 0;

		for (i = first_of(n, id); i < first_of(n, id + 1); i++)
			before += noise(key += step(i));
	}
	for (i = 0; i < n; i++) {
		after += noise(sorted[i]);
		disorder += i > 0 && sorted[i - 1] > sorted[i];
	}
	printf("test: %ld keys out of order, checksum %016llx, of the input %016llx\n", disorder,
	    (unsigned long long)after, (unsigned long long)before);
	return disorder == 0 && before == after;
}
