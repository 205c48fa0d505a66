/*
 * bk: bucket sort of n integers into 256 buckets per process, after the JUMP paper.
 *
 * Each bucket holds a range of keys.  A process counts its keys of each bucket and reserves room
 * for them in the bucket's total; the totals of one process's 256 buckets are guarded by one lock,
 * so that a page of totals passes from process to process.  After a barrier all processes know where
 * the buckets begin; each writes its keys into them, all over the other array; after another barrier
 * it sorts its own buckets by bubble sort, which is most of the work.
 *
 * Needs scope consistency (ScC): totals are written under their lock, read after a barrier.
 */
#define NAME "jump-bk"
#define N_DEFAULT (256 << 10)
#define N_MAX (4 << 20)

include(kernel.H)

#define BUCKETS 256 /* of each process */

/* Each lock guards the totals of one process's buckets. */
struct totals {
	ALOCKDEC(lock, PROCS_MAX)
	uint32_t keys[PROCS_MAX * BUCKETS];
};

static struct totals *totals;
static uint32_t *keys;	 /* shared, as they come */
static uint32_t *sorted; /* shared, bucket after bucket */

static void allocate(void)
{
	totals = (struct totals *)G_MALLOC(sizeof(*totals))
	memset(totals, 0, sizeof(*totals));
	ALOCKINIT(totals->lock, procs)
	keys = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
	sorted = (uint32_t *)G_MALLOC((size_t)n * sizeof(uint32_t))
}

static uint32_t key_at(long i)
{
	return (uint32_t)noise(i);
}

static void fill_part(long id)
{
	long i;

	for (i = first_of(n, id); i < first_of(n, id + 1); i++) {
		keys[i] = key_at(i);
		if (first_fills)
			sorted[i] = 0;
	}
}

static long bucket_of(uint32_t key)
{
	return (long)((uint64_t)key * (uint64_t)(procs * BUCKETS) >> 32);
}

/* Adds the counts to the totals; place[b] becomes how many keys others have in bucket b before. */
static void reserve(long id, const uint32_t *count, uint32_t *place)
{
	long step, b;

	for (step = 0; step < procs; step++) {
		const long owner = (id + step) % procs;

		ALOCK(totals->lock, owner)
		for (b = owner * BUCKETS; b < (owner + 1) * BUCKETS; b++) {
			place[b] = totals->keys[b];
			totals->keys[b] += count[b];
		}
		AULOCK(totals->lock, owner)
	}
}

/* Writes this process's keys into the buckets. */
static void distribute(long id, uint32_t *place)
{
	uint32_t begin = 0;
	long i, b;

	for (b = 0; b < procs * BUCKETS; b++) {
		place[b] += begin;
		begin += totals->keys[b];
	}
	for (i = first_of(n, id); i < first_of(n, id + 1); i++)
		sorted[place[bucket_of(keys[i])]++] = keys[i];
}

static void bubble_sort(uint32_t *key, long count)
{
	long i, last;

	for (; count > 1; count = last) {
		last = 0;
		for (i = 1; i < count; i++) {
			const uint32_t left = key[i - 1], right = key[i];

			if (left <= right)
				continue;
			key[i - 1] = right;
			key[i] = left;
			last = i;
		}
	}
}

static void sort_buckets(long id)
{
	uint32_t begin = 0;
	long b;

	for (b = 0; b < (id + 1) * BUCKETS; b++) {
		if (b >= id * BUCKETS)
			bubble_sort(&sorted[begin], totals->keys[b]);
		begin += totals->keys[b];
	}
}

static void work(long id)
{
	const size_t buckets = (size_t)(procs * BUCKETS);
	uint32_t *count = own(2 * buckets * sizeof(*count)), *place = count + buckets;
	long i;

	for (i = first_of(n, id); i < first_of(n, id + 1); i++)
		count[bucket_of(keys[i])]++;
	reserve(id, count, place);
	BARRIER(common->barrier, procs)
	distribute(id, place);
	BARRIER(common->barrier, procs)
	sort_buckets(id);
	free(count);
}

/* The keys are in order, and are those generated: sums of mixed keys tell multisets apart. */
static int verify(void)
{
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
