/*
 * radix: parallel radix sort of integer keys, after the SPLASH-2 suite.
 *
 * Each process owns an equal part of the keys.  One pass for each digit, the lowest first: count
 * the digits of the own keys; find, by a prefix sum over all processes, where the own keys of each
 * digit go; move them there.  The sums travel up and down a binary tree of processes, each edge of
 * it guarded by a pause.  As in the suite, barriers stand before and between the ways up and down, and
 * before and after the moves: four for each digit, although the pauses order what the tree needs.
 *
 * The moves are the communication: keys of one digit go to one place, whichever process owns them, so
 * a process writes ranges of pages all over the other array, and reads its own part in the next pass
 * after others have written it.
 *
 * -p P  processes      -n N  keys        -r R  radix, a power of 2      -m M  keys are below M
 * -s    times per process        -t    test the result        -o  print it
 */
MAIN_ENV
include(common.H)

#define NAME "radix"
#define OPTIONS "n:r:m:sto"
#define USAGE "[-n keys] [-r radix] [-m max key] [-s] [-t] [-o]"
include(main.H)

#define LEVELS_MAX 6

/*
 * A process's mailbox in the tree.  It puts the counts of its subtree into `sum` and sets `up`; its
 * parent reads them, later puts the places of its keys into `start` and sets `down`.  The pauses
 * order these accesses, so nothing here needs a lock.
 */
struct node {
	PAUSEDEC(up)
	PAUSEDEC(down)
	uint32_t *sum;   /* shared, radix numbers */
	uint32_t *start; /* shared, radix numbers */
};

/* What each process spent on the parts of a pass; arrays of their own, as in the suite. */
enum part { PART_COUNT, PART_PREFIX, PART_MOVE, PARTS };

/* Data that the processes share, besides the keys. */
struct shared {
	struct node node[PROCS_MAX];
};

/* A process's own tables of `radix` numbers each. */
struct tables {
	uint32_t *count;
	uint32_t *start;
	uint32_t *left[LEVELS_MAX];
};

/* Private variables, set before CREATE and only read afterwards: the same in every process. */
static struct shared *shared;
static unsigned long *spent_us[PARTS]; /* shared, of each process */
static uint32_t *keys[2]; /* shared: each pass moves the keys from one to the other */
static long n = 262144;
static long radix = 1024;
static long log2_radix;
static long max_key = 524288;
static long passes;

static long first_key(long id)
{
	return first_of(n, id);
}

/* ------------------------------------------------------------------------------------ the keys */

#define RANDOM_FACTOR UINT64_C(1220703125) /* 5^13 */
#define RANDOM_SEED UINT64_C(314159265)
#define RANDOM_MASK ((UINT64_C(1) << 46) - 1)

/* Element i of the random sequence of the NAS benchmarks, x(i) = 5^13 x(i - 1) mod 2^46. */
static uint64_t random_at(uint64_t i)
{
	uint64_t x = RANDOM_SEED, factor = RANDOM_FACTOR;

	for (; i > 0; i >>= 1) {
		if (i & 1)
			x = x * factor & RANDOM_MASK;
		factor = factor * factor & RANDOM_MASK;
	}
	return x;
}

/* The next key, the mean of four random numbers scaled to max_key; moves the sequence on. */
static uint32_t next_key(uint64_t *state_p)
{
	uint64_t sum = 0;
	int i;

	for (i = 0; i < 4; i++) {
		*state_p = *state_p * RANDOM_FACTOR & RANDOM_MASK;
		sum += *state_p;
	}
	return (uint32_t)(((sum >> 16) * (uint64_t)max_key) >> 32);
}

/* Each process writes its part of the first array, which makes its pages its own. */
static void fill(long id)
{
	uint64_t state = random_at(4 * (uint64_t)first_key(id));
	long i;

	for (i = first_key(id); i < first_key(id + 1); i++)
		keys[0][i] = next_key(&state);
}

/* ------------------------------------------------------------------------------------ the sort */

/* Adds the counts of the subtrees below, level by level; returns the number of levels. */
static long sum_up(long id, struct tables *tables)
{
	long level, d;

	for (level = 0; 1l << level < procs && (id >> level & 1) == 0; level++) {
		const long child = id + (1l << level);

		if (child >= procs)
			continue;
		WAITPAUSE(shared->node[child].up)
		CLEARPAUSE(shared->node[child].up)
		for (d = 0; d < radix; d++) {
			tables->left[level][d] = tables->count[d];
			tables->count[d] += shared->node[child].sum[d];
		}
	}
	return level;
}

/* Tells each subtree below where its keys start: after those of the processes left of it. */
static void send_down(long id, const struct tables *tables, long level)
{
	long d;

	while (level-- > 0) {
		const long child = id + (1l << level);

		if (child >= procs)
			continue;
		for (d = 0; d < radix; d++)
			shared->node[child].start[d] = tables->start[d] + tables->left[level][d];
		SETPAUSE(shared->node[child].down)
	}
}

/* From the counts of all processes: where this one's keys of each digit start. */
static void prefix(long id, struct tables *tables)
{
	struct node *mine = &shared->node[id];
	const size_t bytes = (size_t)radix * sizeof(uint32_t);
	const long levels = sum_up(id, tables);
	uint32_t sum = 0;
	long d;

	if (id != 0) {
		memcpy(mine->sum, tables->count, bytes);
		SETPAUSE(mine->up)
	}
	meet();
	if (id == 0) {
		for (d = 0; d < radix; d++) {
			tables->start[d] = sum;
			sum += tables->count[d];
		}
	} else {
		WAITPAUSE(mine->down)
		CLEARPAUSE(mine->down)
		memcpy(tables->start, mine->start, bytes);
	}
	send_down(id, tables, levels);
}

static void sort_digit(long id, long pass, struct tables *tables)
{
	const uint32_t *from = keys[pass % 2];
	uint32_t *to = keys[(pass + 1) % 2];
	const long shift = pass * log2_radix;
	const uint32_t mask = (uint32_t)radix - 1;
	uint32_t *count = tables->count, *start = tables->start;
	const unsigned long begin_us = now_us();
	unsigned long counted_us, summed_us, moving_us;
	long i;

	memset(count, 0, (size_t)radix * sizeof(*count));
	for (i = first_key(id); i < first_key(id + 1); i++)
		count[from[i] >> shift & mask]++;
	counted_us = now_us();
	meet();
	prefix(id, tables);
	summed_us = now_us();
	meet();
	moving_us = now_us();
	for (i = first_key(id); i < first_key(id + 1); i++)
		to[start[from[i] >> shift & mask]++] = from[i];
	spent_us[PART_COUNT][id] += counted_us - begin_us;
	spent_us[PART_PREFIX][id] += summed_us - counted_us;
	spent_us[PART_MOVE][id] += now_us() - moving_us;
	meet();
}

static void tables_init(struct tables *tables)
{
	const size_t count = (size_t)radix;
	uint32_t *block = own(count * (2 + LEVELS_MAX) * sizeof(*block));
	long i;

	tables->count = block;
	tables->start = block + count;
	for (i = 0; i < LEVELS_MAX; i++)
		tables->left[i] = block + count * (size_t)(2 + i);
}

static void work(long id)
{
	struct tables tables;
	long pass;

	tables_init(&tables);
	for (pass = 0; pass < passes; pass++)
		sort_digit(id, pass, &tables);
	free(tables.count);
}

/* ------------------------------------------------------------------------------- verification */

/*
 * Keys in order, and those that were generated: sums of noise, with a key as the number of its element,
 * tell one multiset of keys from another.
 */
static int verify(void)
{
	const uint32_t *sorted = keys[passes % 2];
	uint64_t state = random_at(0), before = 0, after = 0;
	long i, disorder = 0;

	for (i = 0; i < n; i++) {
		before += noise(next_key(&state));
		after += noise(sorted[i]);
		disorder += i > 0 && sorted[i - 1] > sorted[i];
	}
	printf("test: %ld keys out of order, checksum %016llx, of the input %016llx\n", disorder,
	    (unsigned long long)after, (unsigned long long)before);
	return disorder == 0 && before == after;
}

/* ------------------------------------------------------------------------------------ start-up */

static int read_option(int letter, const char *value)
{
	return read_whole(value, letter == 'n' ? &n : letter == 'r' ? &radix : &max_key);
}

/* Shared memory for `count` numbers, from a page boundary on, so that parts share few pages. */
static uint32_t *numbers(long count)
{
	void *block = G_MALLOC((size_t)count * sizeof(uint32_t) + PAGE_BYTES)

	return page_start(block);
}

static void set_up(void)
{
	long i;

	ROAM_NEEDS(ScC)
	if (n < 1 || n > UINT32_MAX)
		usage("-n must be 1 to 2^32 - 1");
	if (radix < 2 || radix > 1l << 20 || (radix & (radix - 1)) != 0)
		usage("-r must be a power of 2, 2 to 2^20");
	if (max_key < 1 || max_key > 1l << 31)
		usage("-m must be 1 to 2^31");
	while (1l << log2_radix < radix)
		log2_radix++;
	for (passes = 1; passes * log2_radix < 32 && (max_key - 1) >> passes * log2_radix != 0;)
		passes++;
	shared = (struct shared *)G_MALLOC(sizeof(*shared))
	memset(shared, 0, sizeof(*shared));
	for (i = 0; i < PARTS; i++) {
		spent_us[i] = (unsigned long *)G_MALLOC(sizeof(**spent_us) * PROCS_MAX)
		memset(spent_us[i], 0, sizeof(**spent_us) * PROCS_MAX);
	}
	keys[0] = numbers(n);
	keys[1] = numbers(n);
	for (i = 0; i < procs; i++) {
		PAUSEINIT(shared->node[i].up)
		PAUSEINIT(shared->node[i].down)
		shared->node[i].sum = numbers(radix);
		shared->node[i].start = numbers(radix);
	}
}

static void print_times(void)
{
	long i;

	for (i = 0; i < procs; i++)
		printf("process %ld: counting %lu us, prefix sums %lu us, moving %lu us\n", i,
		    spent_us[PART_COUNT][i], spent_us[PART_PREFIX][i], spent_us[PART_MOVE][i]);
}

static void print_result(void)
{
	long i;

	for (i = 0; i < n; i++)
		printf("%u\n", keys[passes % 2][i]);
}

static void print_size(void)
{
	printf("n %ld r %ld", n, radix);
}
