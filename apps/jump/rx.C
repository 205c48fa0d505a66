/*
 * rx: radix sort of n 32-bit integers in 8 stages of 4 bits, after the JUMP paper.
 *
 * In each stage a process counts the digits of its part of the keys and writes the 16 counts where
 * all can read them; from all counts it knows where its keys go, and moves them there.  So each
 * process writes 16 ranges of the other array, which lie in the parts of all processes, and in the
 * next stage reads its own part as others have written it: all of the data moves, and the pages at
 * the ends of ranges have several writers.
 *
 * Needs scope consistency (ScC): barriers order everything.
 */
#define NAME "jump-rx"
#define N_DEFAULT (256 << 10)
#define N_MAX (4 << 20)

include(kernel.H)

#define STAGES 8
#define BITS 4
#define DIGITS (1 << BITS)

static uint32_t *keys[2];	   /* shared: each stage moves the keys from one to the other */
static uint32_t (*counts)[DIGITS]; /* shared: of each process */

static void allocate(void)
{
	keys[0] = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
	keys[1] = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
	counts = (uint32_t (*)[DIGITS])G_MALLOC((size_t)procs * sizeof(*counts))
}

static uint32_t key_at(long i)
{
	return (uint32_t)noise(i);
}

static void fill_part(long id)
{
	long i;

	for (i = first_of(n, id); i < first_of(n, id + 1); i++) {
		keys[0][i] = key_at(i);
		if (first_fills)
			keys[1][i] = 0;
	}
}

static uint32_t digit(uint32_t key, long stage)
{
	return key >> stage * BITS & (DIGITS - 1);
}

/* Where this process's keys of each digit go: after all smaller ones and those of processes left. */
static void find_places(long id, uint32_t place[DIGITS])
{
	uint32_t sum = 0;
	long d, other;

	for (d = 0; d < DIGITS; d++)
		for (other = 0; other < procs; other++) {
			if (other == id)
				place[d] = sum;
			sum += counts[other][d];
		}
}

static void sort_digit(long id, long stage)
{
	const uint32_t *from = keys[stage % 2];
	uint32_t *to = keys[(stage + 1) % 2];
	uint32_t count[DIGITS] = {0}, place[DIGITS];
	long i;

	for (i = first_of(n, id); i < first_of(n, id + 1); i++)
		count[digit(from[i], stage)]++;
	memcpy(counts[id], count, sizeof(count));
	BARRIER(common->barrier, procs)
	find_places(id, place);
	for (i = first_of(n, id); i < first_of(n, id + 1); i++)
		to[place[digit(from[i], stage)]++] = from[i];
	BARRIER(common->barrier, procs)
}

static void work(long id)
{
	long stage;

	for (stage = 0; stage < STAGES; stage++) {
		resume_point(&stage, id, 1);
		sort_digit(id, stage);
	}
}

/* The keys are in order, and are those generated: sums of mixed keys tell multisets apart. */
static int verify(void)
{
	const uint32_t *sorted = keys[STAGES % 2];
	uint64_t before = 0, after = 0;
	long i, disorder = 0;

	for (i = 0; i < n; i++) {
		before += noise(key_at(i));
		after += noise(sorted[i]);
		disorder += i > 0 && sorted[i - 1] > sorted[i];
	}
	printf("test: %ld keys out of order, checksum %016llx, of the input %016llx\n", disorder,
	    (unsigned long long)after, (unsigned long long)before);
	return disorder == 0 && before == after;
}
