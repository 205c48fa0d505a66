/*
 * radix: parallel radix sort of integer keys, after the SPLASH-2 suite.
 *
 * Each process owns an equal part of the keys.  One pass for each digit, the lowest first: count
 * the digits of the own keys; find, by a prefix sum over all processes, where the own keys of each
 * digit go; move them there.  The sums travel up and down a binary tree of processes, each edge of
 * it guarded by a pause: a process waits for its neighbours in the tree only, and there is no
 * barrier but the one that ends a pass.
 *
 * The moves are the communication: keys of one digit go to one place, whichever process owns them, so
 * a process writes ranges of pages all over the other array, and reads its own part in the next pass
 * after others have written it.
 *
 * -p P  processes      -n N  keys        -r R  radix, a power of 2      -m M  keys are below M
 * -s    times per process        -t    test the result        -o  print it
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

MAIN_ENV

#define PROCS_MAX 64
#define LEVELS_MAX 6
#define PAGE_BYTES 4096

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

/* Data that the processes share, besides the keys. */
struct shared {
	BARDEC(barrier)
	LOCKDEC(id_lock)
	long next_id;
	unsigned long start_us;
	unsigned long end_us;
	unsigned long count_us[PROCS_MAX];
	unsigned long prefix_us[PROCS_MAX];
	unsigned long move_us[PROCS_MAX];
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
static uint32_t *keys[2]; /* shared: each pass moves the keys from one to the other */
static long procs = 1;
static long n = 262144;
static long radix = 1024;
static long log2_radix;
static long max_key = 524288;
static long passes;

static long first_key(long id)
{
	return n * id / procs;
}

static unsigned long now_us(void)
{
	unsigned long now;

	CLOCK(now);
	return now;
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

	if (id == 0) {
		for (d = 0; d < radix; d++) {
			tables->start[d] = sum;
			sum += tables->count[d];
		}
	} else {
		memcpy(mine->sum, tables->count, bytes);
		SETPAUSE(mine->up)
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
	unsigned long counted_us, summed_us;
	long i;

	memset(count, 0, (size_t)radix * sizeof(*count));
	for (i = first_key(id); i < first_key(id + 1); i++)
		count[from[i] >> shift & mask]++;
	counted_us = now_us();
	prefix(id, tables);
	summed_us = now_us();
	for (i = first_key(id); i < first_key(id + 1); i++)
		to[start[from[i] >> shift & mask]++] = from[i];
	shared->count_us[id] += counted_us - begin_us;
	shared->prefix_us[id] += summed_us - counted_us;
	shared->move_us[id] += now_us() - summed_us;
}

static void tables_init(struct tables *tables)
{
	const size_t count = (size_t)radix;
	uint32_t *block = calloc(count * (2 + LEVELS_MAX), sizeof(*block));
	long i;

	if (block == NULL) {
		fprintf(stderr, "radix: out of memory\n");
		exit(1);
	}
	tables->count = block;
	tables->start = block + count;
	for (i = 0; i < LEVELS_MAX; i++)
		tables->left[i] = block + count * (size_t)(2 + i);
}

/* What every process runs. */
static void work(void)
{
	struct tables tables;
	long id, pass;

	/* A process's number in the program is its order of arrival, not its node. */
	LOCK(shared->id_lock)
	id = shared->next_id++;
	UNLOCK(shared->id_lock)

	tables_init(&tables);
	fill(id);
	BARRIER(shared->barrier, procs)
	if (id == 0)
		CLOCK(shared->start_us);
	SPLASH3_ROI_BEGIN();
	for (pass = 0; pass < passes; pass++) {
		sort_digit(id, pass, &tables);
		BARRIER(shared->barrier, procs)
	}
	SPLASH3_ROI_END();
	if (id == 0)
		CLOCK(shared->end_us);
	free(tables.count);
}

/* ------------------------------------------------------------------------------- verification */

/* Spreads a key over 64 bits, so that sums of mixed keys tell one multiset of keys from another. */
static uint64_t mix(uint64_t i)
{
	i = (i + 1) * 0x9e3779b97f4a7c15u;
	i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
	i = (i ^ i >> 27) * 0x94d049bb133111ebu;
	return i ^ i >> 31;
}

/* Called by main alone, after WAIT_FOR_END: keys in order, and those that were generated. */
static int verify(void)
{
	const uint32_t *sorted = keys[passes % 2];
	uint64_t state = random_at(0), before = 0, after = 0;
	long i, disorder = 0;

	for (i = 0; i < n; i++) {
		before += mix(next_key(&state));
		after += mix(sorted[i]);
		disorder += i > 0 && sorted[i - 1] > sorted[i];
	}
	printf("test: %ld keys out of order, checksum %016llx, of the input %016llx\n", disorder,
	    (unsigned long long)after, (unsigned long long)before);
	return disorder == 0 && before == after;
}

/* ------------------------------------------------------------------------------------ start-up */

static void usage(const char *why)
{
	fprintf(stderr, "radix: %s\nusage: radix [-p procs] [-n keys] [-r radix] [-m max key] "
	    "[-s] [-t] [-o]\n", why);
	exit(2);
}

/* Shared memory for `count` numbers, from a page boundary on, so that parts share few pages. */
static uint32_t *numbers(long count)
{
	char *block = (char *)G_MALLOC((size_t)count * sizeof(uint32_t) + PAGE_BYTES)

	block += (PAGE_BYTES - (uintptr_t)block % PAGE_BYTES) % PAGE_BYTES;
	return (uint32_t *)(void *)block;
}

static void set_up(void)
{
	long i;

	if (procs < 1 || procs > PROCS_MAX)
		usage("-p must be 1 to 64");
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
	keys[0] = numbers(n);
	keys[1] = numbers(n);
	for (i = 0; i < procs; i++) {
		PAUSEINIT(shared->node[i].up)
		PAUSEINIT(shared->node[i].down)
		shared->node[i].sum = numbers(radix);
		shared->node[i].start = numbers(radix);
	}
	LOCKINIT(shared->id_lock)
	BARINIT(shared->barrier, procs)
}

int main(int argc, char **argv)
{
	int stats = 0, test = 0, print = 0, option;
	const char *verdict = "off";
	unsigned long total_us;
	long i;

	while ((option = getopt(argc, argv, "p:n:r:m:sto")) != -1) {
		switch (option) {
		case 'p': procs = atol(optarg); break;
		case 'n': n = atol(optarg); break;
		case 'r': radix = atol(optarg); break;
		case 'm': max_key = atol(optarg); break;
		case 's': stats = 1; break;
		case 't': test = 1; break;
		case 'o': print = 1; break;
		default: usage("unknown option");
		}
	}
	MAIN_INITENV(,)
	ROAM_NEEDS(ScC)
	set_up();

	total_us = now_us();
	CREATE(work, procs)
	WAIT_FOR_END(procs)
	total_us = now_us() - total_us;

	for (i = 0; stats && i < procs; i++)
		printf("process %ld: counting %lu us, prefix sums %lu us, moving %lu us\n", i,
		    shared->count_us[i], shared->prefix_us[i], shared->move_us[i]);
	for (i = 0; print && i < n; i++)
		printf("%u\n", keys[passes % 2][i]);
	if (test)
		verdict = verify() ? "ok" : "FAILED";
	printf("radix: n %ld r %ld p %ld total_us %lu region_us %lu verified %s\n", n, radix, procs,
	    total_us, shared->end_us - shared->start_us, verdict);
	if (verdict[0] == 'F')
		exit(1);
	MAIN_END
}
