/*
 * The allocator hands out offsets that never overlap, and takes back only what it handed out.
 * Every test runs with roam's own allocator and, where it is built in, with jemalloc.
 */
#include "heap/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef ROAMI_HAVE_JEMALLOC
#include <jemalloc/jemalloc.h>
#endif

#include "alloc_shadow.h"
#include "os/os.h"
#include "unit.h"

/* Mostly small blocks, some of a few pages, rarely large ones. */
static size_t random_bytes(uint64_t *seed)
{
	uint64_t kind = unit_below(seed, 100);

	if (kind < 60)
		return 1 + unit_below(seed, 300);
	if (kind < 85)
		return 1 + unit_below(seed, 5000);
	if (kind < 99)
		return 1 + unit_below(seed, 16 * PAGE);
	return 1 + unit_below(seed, MIB);
}

/* ---- tests */

static void random_ops(bool own)
{
	const uint64_t bytes = 64 * MIB;
	struct roami_alloc *alloc = open_slice(bytes, own);
	struct shadow shadow = shadow_new(bytes);
	uint64_t seed = unit_seed();
	size_t failed = 0, whole;

	for (unsigned i = 0; i < 200000; i++) {
		bool more = unit_below(&seed, 100) < (i / 25000 % 2 == 0 ? 70 : 30);

		if (i == 20000)
			roami_alloc_seal(alloc);
		if (more || shadow.count == 0)
			failed += shadow_take(&shadow, alloc, random_bytes(&seed)) != ROAM_OK;
		else
			shadow_give(&shadow, alloc, unit_below(&seed, shadow.count));
	}
	CU_ASSERT(failed > 0);
	CU_ASSERT(shadow.fresh > 300);
	CU_ASSERT(shadow.stale > 1000);
	while (shadow.count > 0)
		shadow_give(&shadow, alloc, unit_below(&seed, shadow.count));
	whole = (size_t)bytes;
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, whole), ROAM_OK);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

/* 200,000 takes and gives match the shadow: no overlap, aligned, inside, and fresh is true. */
BOTH(test_random, random_ops)

struct bump_result {
	uint64_t hash;
	uint64_t bumped;
	uint64_t offsets; /* a sum computed here, too, in case the hash is wrong */
};

/*
 * A fixed sequence of takes and gives, with private memory in another state each time.  One take
 * asks for `odd` bytes less, which changes no offset.
 */
static struct bump_result bump_sequence(unsigned noise, unsigned odd)
{
	struct bump_result result = {0, 0, 0};
	struct roami_alloc *alloc;
	uint64_t seed = 7, kept[64] = {0};
	bool fresh;

	for (unsigned i = 0; i < noise; i++)
		if (malloc(100 + i) == NULL || roami_os_reserve(PAGE) == NULL)
			return result;
	if (roami_alloc_open(&alloc, FIRST, FIRST + 256 * MIB, false) != ROAM_OK)
		return result;
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t *slot = &kept[unit_below(&seed, 64)];
		size_t bytes = i == 100 ? 64 - odd : random_bytes(&seed);

		if (*slot != 0 && roami_alloc_give(alloc, *slot) != ROAM_OK)
			return result;
		if (roami_alloc_take(alloc, bytes, slot, &fresh) != ROAM_OK)
			return result;
		result.offsets = result.offsets * 31 + *slot;
	}
	result.hash = roami_alloc_hash(alloc);
	result.bumped = roami_alloc_bumped(alloc);
	return result;
}

static struct bump_result bump_in_child(unsigned noise, unsigned odd)
{
	struct bump_result result = {0, 0, 0};
	int ends[2], status = -1;
	pid_t child;

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		result = bump_sequence(noise, odd);
		_exit(write(ends[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
	}
	close(ends[1]);
	CU_ASSERT_EQUAL(read(ends[0], &result, sizeof(result)), (ssize_t)sizeof(result));
	close(ends[0]);
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	return result;
}

/* The same calls give the same offsets in every process, and the hash tells other calls apart. */
static void test_bump_same(void)
{
	struct bump_result a = bump_in_child(0, 0), b = bump_in_child(1000, 0);
	struct bump_result c = bump_in_child(0, 1);

	CU_ASSERT(a.hash != 0 && a.bumped > FIRST);
	CU_ASSERT_EQUAL(a.hash, b.hash);
	CU_ASSERT_EQUAL(a.bumped, b.bumped);
	CU_ASSERT_EQUAL(a.offsets, b.offsets);
	CU_ASSERT_EQUAL(a.offsets, c.offsets);
	CU_ASSERT_NOT_EQUAL(a.hash, c.hash);
}

/* What is skipped is never handed out, also when leases begin. */
static void test_bump_skip(void)
{
	struct roami_alloc *alloc = open_slice(4 * MIB, true);
	uint64_t offset, end;
	bool fresh;

	roami_alloc_skip(alloc, FIRST + MIB);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 64, &offset, &fresh), ROAM_OK);
	CU_ASSERT_EQUAL(offset, FIRST + MIB);
	CU_ASSERT(fresh);
	roami_alloc_seal(alloc);
	CU_ASSERT_EQUAL(roami_alloc_cut(alloc, MIB, true, &end), ROAM_OK);
	while (roami_alloc_take(alloc, 8192, &offset, &fresh) == ROAM_OK)
		CU_ASSERT(offset > FIRST + MIB && offset < end);
	roami_alloc_close(alloc);
}

static void bump_range(bool own)
{
	struct roami_alloc *alloc = open_slice(4 * MIB, own);
	struct shadow shadow = shadow_new(4 * MIB);
	uint64_t hash = roami_alloc_hash(alloc), bumped, end = FIRST;

	CU_ASSERT_EQUAL(roami_alloc_bumped(alloc), FIRST);
	for (size_t bytes = 1; bytes < 3 * PAGE; bytes += 61) {
		CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, bytes), ROAM_OK);
		CU_ASSERT_NOT_EQUAL(roami_alloc_hash(alloc), hash);
		hash = roami_alloc_hash(alloc);
	}
	CU_ASSERT_EQUAL(shadow.stale, 0);
	for (size_t i = 0; i < shadow.count; i++)
		if (shadow.blocks[i].offset + shadow.blocks[i].bytes > end)
			end = shadow.blocks[i].offset + shadow.blocks[i].bytes;
	bumped = roami_alloc_bumped(alloc);
	CU_ASSERT(bumped >= end && bumped < end + PAGE && bumped % PAGE == 0);
	roami_alloc_seal(alloc);
	for (unsigned i = 0; i < 100; i++)
		CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, 3 * PAGE), ROAM_OK);
	CU_ASSERT_EQUAL(roami_alloc_bumped(alloc), bumped);
	CU_ASSERT_NOT_EQUAL(roami_alloc_hash(alloc), hash);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

/*
 * In the bump phase all memory is fresh; the end of that phase is known, and stays when the job is
 * sealed.
 */
BOTH(test_bump_range, bump_range)

static void bump_give_later(bool own)
{
	struct roami_alloc *alloc = open_slice(MIB, own);
	struct shadow shadow = shadow_new(MIB);
	size_t blocks;

	while (shadow_take(&shadow, alloc, 64) == ROAM_OK)
		continue;
	blocks = shadow.count;
	CU_ASSERT_EQUAL(blocks, MIB / 64);
	roami_alloc_seal(alloc);
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, 64), ROAM_ENOMEM);
	for (unsigned i = 0; i < 10; i++)
		shadow_give(&shadow, alloc, i * 100);
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, 64), ROAM_OK);
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, 64), ROAM_ENOMEM);
	while (shadow.count > 0)
		shadow_give(&shadow, alloc, shadow.count - 1);
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, MIB), ROAM_OK);
	CU_ASSERT_EQUAL(shadow.fresh, blocks);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

/* Blocks of the bump phase can be given back after it, and are used again. */
BOTH(test_bump_give_later, bump_give_later)

static void exhaust(bool own, size_t bytes)
{
	const uint64_t slice = 8 * MIB;
	struct roami_alloc *alloc = open_sealed(slice, own);
	struct shadow shadow = shadow_new(slice);
	size_t first_round;

	while (shadow_take(&shadow, alloc, bytes) == ROAM_OK)
		continue;
	first_round = shadow.count;
	CU_ASSERT(first_round * (bytes + 63) >= slice / 2);
	while (shadow.count > 0)
		shadow_give(&shadow, alloc, shadow.count / 2);
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, slice), ROAM_OK);
	CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, 1), ROAM_ENOMEM);
	shadow_give(&shadow, alloc, 0);
	while (shadow_take(&shadow, alloc, bytes) == ROAM_OK)
		continue;
	CU_ASSERT_EQUAL(shadow.count, first_round);
	CU_ASSERT_EQUAL(shadow.fresh, first_round);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

static void exhaust_sizes(bool own)
{
	static const size_t sizes[] = {1, 64, 65, 200, 1000, 1344, 1345, 2048, 2049, 4096, 4097,
				       10000, 100000};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		exhaust(own, sizes[i]);
}

/* A full slice refuses; when all is given back, one block can have all of it. */
BOTH(test_exhaustion, exhaust_sizes)

static void holes(bool own)
{
	const unsigned pages = 1024;
	struct roami_alloc *alloc = open_sealed(pages * PAGE, own);
	struct shadow shadow = shadow_new(pages * PAGE);
	uint64_t offset;
	bool fresh;

	while (shadow_take(&shadow, alloc, PAGE) == ROAM_OK)
		continue;
	CU_ASSERT_EQUAL_FATAL(shadow.count, pages);
	for (unsigned i = 0; i < pages; i += 2)
		CU_ASSERT_EQUAL(roami_alloc_give(alloc, FIRST + i * PAGE), ROAM_OK);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, PAGE + 1, &offset, &fresh), ROAM_ENOMEM);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, PAGE, &offset, &fresh), ROAM_OK);
	CU_ASSERT_EQUAL(offset, FIRST);
	CU_ASSERT_FALSE(fresh);
	CU_ASSERT_EQUAL(roami_alloc_give(alloc, FIRST + 501 * PAGE), ROAM_OK);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 3 * PAGE, &offset, &fresh), ROAM_OK);
	CU_ASSERT_EQUAL(offset, FIRST + 500 * PAGE);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 2 * PAGE, &offset, &fresh), ROAM_ENOMEM);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

/* Neighbouring free ranges become one, others do not; the lowest that fits is used. */
BOTH(test_holes, holes)

static void many(bool own)
{
	const uint32_t count = 200000;
	struct roami_alloc *alloc = open_sealed(count * PAGE, own);
	uint64_t *offsets = calloc(count, sizeof(*offsets)), seed = unit_seed();
	clock_t started;
	uint32_t wrong = 0;
	bool fresh;

	CU_ASSERT_PTR_NOT_NULL_FATAL(offsets);
	started = clock();
	for (uint32_t i = 0; i < count; i++)
		wrong += roami_alloc_take(alloc, PAGE, &offsets[i], &fresh) != ROAM_OK || !fresh;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint64_t *other = &offsets[unit_below(&seed, i + 1)], offset = *other;

		*other = offsets[i];
		offsets[i] = offset;
	}
	for (uint32_t i = 0; i < count; i++)
		wrong += roami_alloc_give(alloc, offsets[i]) != ROAM_OK;
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT((clock() - started) / CLOCKS_PER_SEC < 10);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, count * PAGE, &offsets[0], &fresh), ROAM_OK);
	free(offsets);
	roami_alloc_close(alloc);
}

/* Giving back 200,000 blocks in random order does not take minutes, as it would with a list. */
BOTH(test_many, many)

static void bad_sizes(bool own)
{
	static const size_t absurd[] = {MIB + 1, SIZE_MAX, SIZE_MAX - PAGE + 2, SIZE_MAX / 2 + 1,
					(size_t)1 << 44, ((size_t)1 << 44) + 1};
	struct roami_alloc *alloc = open_sealed(MIB, own);
	uint64_t hash = roami_alloc_hash(alloc), offset = 1;
	bool fresh = true;

	CU_ASSERT_EQUAL(roami_alloc_take(alloc, 0, &offset, &fresh), ROAM_EINVAL);
	for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++)
		CU_ASSERT_EQUAL(roami_alloc_take(alloc, absurd[i], &offset, &fresh), ROAM_ENOMEM);
	CU_ASSERT_EQUAL(offset, 1);
	CU_ASSERT_EQUAL(roami_alloc_hash(alloc), hash);
	CU_ASSERT_EQUAL(roami_alloc_take(alloc, MIB, &offset, &fresh), ROAM_OK);
	roami_alloc_close(alloc);
	CU_ASSERT_EQUAL(roami_alloc_open(&alloc, 1, 2 * PAGE, own), ROAM_EINVAL);
	CU_ASSERT_EQUAL(roami_alloc_open(&alloc, 0, 2 * PAGE + 1, own), ROAM_EINVAL);
	CU_ASSERT_EQUAL(roami_alloc_open(&alloc, PAGE, PAGE, own), ROAM_EINVAL);
	CU_ASSERT_EQUAL(roami_alloc_open(&alloc, 2 * PAGE, PAGE, own), ROAM_EINVAL);
	CU_ASSERT_EQUAL(roami_alloc_open(&alloc, 0, UINT64_C(1) << 52, own), ROAM_EINVAL);
}

/* Zero and absurd sizes are refused, and change nothing. */
BOTH(test_bad_sizes, bad_sizes)

/* Every grain that is not the start of a block is refused; then so are double frees. */
static void bad_gives(bool own)
{
	struct roami_alloc *alloc = open_slice(MIB, own);
	struct shadow shadow = shadow_new(MIB);
	uint8_t *starts = calloc(MIB / GRAIN, 1);

	CU_ASSERT_PTR_NOT_NULL_FATAL(starts);
	for (unsigned round = 0; round < 2; round++) {
		for (size_t bytes = 1; bytes < 2 * PAGE; bytes = bytes * 4 / 3 + 1)
			CU_ASSERT_EQUAL(shadow_take(&shadow, alloc, bytes), ROAM_OK);
		roami_alloc_seal(alloc);
	}
	for (size_t i = 0; i < shadow.count; i++)
		starts[(shadow.blocks[i].offset - FIRST) / GRAIN] = 1;
	for (uint64_t offset = FIRST; offset < FIRST + MIB; offset += GRAIN) {
		bool start = starts[(offset - FIRST) / GRAIN] != 0;

		shadow.wrong += roami_alloc_give(alloc, offset + 1) != ROAM_ENOTOURS;
		shadow.wrong += !start && roami_alloc_give(alloc, offset) != ROAM_ENOTOURS;
		shadow.wrong += (roami_alloc_bytes(alloc, offset) != 0) != start;
	}
	CU_ASSERT_EQUAL(roami_alloc_give(alloc, FIRST - PAGE), ROAM_ENOTOURS);
	CU_ASSERT_EQUAL(roami_alloc_give(alloc, FIRST + MIB), ROAM_ENOTOURS);
	CU_ASSERT_EQUAL(roami_alloc_give(alloc, UINT64_MAX - 63), ROAM_ENOTOURS);
	while (shadow.count > 0) {
		uint64_t offset = shadow.blocks[0].offset;

		shadow_give(&shadow, alloc, 0);
		shadow.wrong += roami_alloc_give(alloc, offset) != ROAM_ENOTOURS;
		shadow.wrong += roami_alloc_bytes(alloc, offset) != 0;
	}
	shadow_free(&shadow);
	free(starts);
	roami_alloc_close(alloc);
}

/* Middles of blocks, foreign offsets and double frees are refused. */
BOTH(test_bad_gives, bad_gives)

/* ---- threads */

#define THREADS 4
#define SLOTS 512

struct crew {
	struct roami_alloc *alloc;
	_Atomic uint64_t slots[SLOTS]; /* live blocks; any thread may give them back */
	_Atomic uint8_t *owned;        /* for each grain */
	_Atomic uint32_t wrong;
	_Atomic uint64_t seeds;
};

static void crew_mark(struct crew *crew, uint64_t offset, uint8_t from, uint8_t to)
{
	size_t bytes = roami_alloc_bytes(crew->alloc, offset);

	if (bytes == 0)
		atomic_fetch_add(&crew->wrong, 1);
	for (size_t i = 0; i < bytes / GRAIN; i++)
		if (atomic_exchange(&crew->owned[(offset - FIRST) / GRAIN + i], to) != from)
			atomic_fetch_add(&crew->wrong, 1);
}

static void *crew_main(void *arg)
{
	struct crew *crew = arg;
	uint64_t seed = atomic_fetch_add(&crew->seeds, 1) + unit_seed() * 1000;

	for (unsigned i = 0; i < 20000; i++) {
		uint64_t offset = 0, old;
		bool fresh;

		if (roami_alloc_take(crew->alloc, 1 + unit_below(&seed, 6000), &offset, &fresh) ==
		    ROAM_OK)
			crew_mark(crew, offset, 0, 1);
		old = atomic_exchange(&crew->slots[unit_below(&seed, SLOTS)], offset);
		if (old == 0)
			continue;
		crew_mark(crew, old, 1, 0);
		if (roami_alloc_give(crew->alloc, old) != ROAM_OK)
			atomic_fetch_add(&crew->wrong, 1);
	}
	return NULL;
}

static void threads(bool own)
{
	const uint64_t slice = 4 * MIB;
	struct crew *crew = calloc(1, sizeof(*crew));
	pthread_t ids[THREADS];
	uint64_t offset;
	bool fresh;

	CU_ASSERT_PTR_NOT_NULL_FATAL(crew);
	crew->alloc = open_sealed(slice, own);
	crew->owned = calloc(slice / GRAIN, 1);
	CU_ASSERT_PTR_NOT_NULL_FATAL(crew->owned);
	for (unsigned i = 0; i < THREADS; i++)
		CU_ASSERT_EQUAL_FATAL(pthread_create(&ids[i], NULL, crew_main, crew), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	CU_ASSERT_EQUAL(atomic_load(&crew->wrong), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		if (crew->slots[i] != 0)
			CU_ASSERT_EQUAL(roami_alloc_give(crew->alloc, crew->slots[i]), ROAM_OK);
	CU_ASSERT_EQUAL(roami_alloc_take(crew->alloc, slice, &offset, &fresh), ROAM_OK);
	roami_alloc_close(crew->alloc);
	free((void *)crew->owned);
	free(crew);
}

/* Threads that take blocks, and give back what others took, never own the same grain. */
BOTH(test_threads, threads)

/* ---- processes */

static void after_fork(bool own)
{
	struct roami_alloc *alloc = open_sealed(4 * MIB, own);
	struct shadow shadow = shadow_new(4 * MIB);
	uint64_t seed = unit_seed();
	int status = -1;
	pid_t child;

	for (unsigned i = 0; i < 500; i++)
		shadow_take(&shadow, alloc, 1 + unit_below(&seed, 3000));
	child = fork();
	for (unsigned i = 0; i < 5000; i++) {
		if (unit_below(&seed, 2) == 0)
			shadow_take(&shadow, alloc, 1 + unit_below(&seed, 3000));
		else if (shadow.count > 0)
			shadow_give(&shadow, alloc, unit_below(&seed, shadow.count));
	}
	if (child == 0) {
		roami_alloc_close(alloc);
		_exit(shadow.wrong == 0 ? 0 : 1);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}

/* A forked process goes on with a copy of its own. */
BOTH(test_after_fork, after_fork)

/* Returns 0 if takes end in ROAM_ENOMEM and all that was taken can be given back. */
static int starve(struct roami_alloc *alloc, uint64_t *offsets, size_t room)
{
	struct rlimit none = {0, 0};
	enum roam_err err = ROAM_OK;
	size_t count = 0;
	bool fresh;

	if (setrlimit(RLIMIT_AS, &none) != 0)
		return 1;
	while (count < room && err == ROAM_OK) {
		err = roami_alloc_take(alloc, PAGE, &offsets[count], &fresh);
		count += err == ROAM_OK;
	}
	if (err != ROAM_ENOMEM || count == 0)
		return 2;
	for (size_t i = 0; i < count; i += 2)
		if (roami_alloc_give(alloc, offsets[i]) != ROAM_OK)
			return 3;
	for (size_t i = 1; i < count; i += 2)
		if (roami_alloc_give(alloc, offsets[i]) != ROAM_OK)
			return 4;
	return roami_alloc_take(alloc, PAGE, &offsets[0], &fresh) == ROAM_OK ? 0 : 5;
}

static void no_memory(bool own)
{
	const size_t room = 20000;
	struct roami_alloc *alloc = open_sealed(room * PAGE, own);
	uint64_t *offsets = roami_os_reserve(room * sizeof(*offsets));
	int status = -1;
	pid_t child;

	CU_ASSERT_PTR_NOT_NULL_FATAL(offsets);
	child = fork();
	if (child == 0)
		_exit(starve(alloc, offsets, room));
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_EQUAL(status, 0);
	roami_os_unmap(offsets, room * sizeof(*offsets));
	roami_alloc_close(alloc);
}

/* Without private memory a take fails, but a give does not. */
BOTH(test_no_memory, no_memory)

static void reopen(bool own)
{
	for (unsigned i = 0; i < 5000; i++) {
		struct roami_alloc *alloc = open_sealed(MIB, own);
		uint64_t offset;
		bool fresh;

		CU_ASSERT_EQUAL(roami_alloc_take(alloc, 100, &offset, &fresh), ROAM_OK);
		CU_ASSERT(fresh);
		roami_alloc_close(alloc);
	}
	roami_alloc_close(NULL);
}

/* More allocators can be opened and closed than jemalloc has arenas. */
BOTH(test_reopen, reopen)

/* ---- jemalloc */

/* The allocator that a fresh process with this MALLOC_CONF would use; NULL: it failed. */
static const char *name_under(const char *conf)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		setenv("MALLOC_CONF", conf, 1);
		execl("/proc/self/exe", "alloc_test", "--name", (char *)NULL);
		_exit(9);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return "failed";
	return WEXITSTATUS(status) == 1 ? "jemalloc" : WEXITSTATUS(status) == 0 ? "own" : "failed";
}

/*
 * The exit status stands for the name; blocks are used, too, as a wrong name would show by a crash.
 */
static int print_name(void)
{
	static uint64_t kept[ROAM_PAGE_SIZE];
	uint64_t offset;
	struct roami_alloc *alloc;
	bool fresh;
	int name;

	if (roami_alloc_open(&alloc, 0, 16 * MIB, false) != ROAM_OK)
		return 2;
	roami_alloc_seal(alloc);
	for (size_t bytes = 1; bytes < PAGE; bytes++)
		if (roami_alloc_take(alloc, bytes, &kept[bytes], &fresh) != ROAM_OK)
			return 3;
	for (size_t i = 1; i < PAGE; i++)
		if (roami_alloc_give(alloc, kept[i * 7 % PAGE]) != ROAM_OK)
			return 4;
	if (roami_alloc_take(alloc, 16 * MIB, &offset, &fresh) != ROAM_OK)
		return 5;
	name = strcmp(roami_alloc_name(alloc), "jemalloc") == 0;
	roami_alloc_close(alloc);
	return name;
}

#ifdef ROAMI_HAVE_JEMALLOC
/* If the program purges all arenas, that must not change our page ranges. */
static void *purge_main(void *arg)
{
	_Atomic bool *stop = arg;

	while (!atomic_load(stop))
		if (mallctl("arena.4096.purge", NULL, NULL, NULL, 0) != 0)
			return arg;
	return NULL;
}

static void purge_meanwhile(void)
{
	struct roami_alloc *alloc = open_sealed(16 * MIB, false);
	struct shadow shadow = shadow_new(16 * MIB);
	_Atomic bool stop = false;
	uint64_t seed = unit_seed();
	void *failed = NULL;
	pthread_t id;

	CU_ASSERT_EQUAL_FATAL(pthread_create(&id, NULL, purge_main, &stop), 0);
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 3000; i++)
			shadow_take(&shadow, alloc, 1 + unit_below(&seed, 2500));
		while (shadow.count > 0)
			shadow_give(&shadow, alloc, unit_below(&seed, shadow.count));
	}
	atomic_store(&stop, true);
	pthread_join(id, &failed);
	CU_ASSERT_PTR_NULL(failed);
	shadow_free(&shadow);
	roami_alloc_close(alloc);
}
#else
static void purge_meanwhile(void)
{
	unit_skip("jemalloc", "not built in");
}
#endif

/* jemalloc is used if it will not touch the heap, else roam's own allocator. */
static void test_jemalloc(void)
{
	static const char *const harmless[] = {
		"", "retain:false", "background_thread:true,dirty_decay_ms:0", "narenas:1",
		"percpu_arena:percpu", "tcache:false", "hpa:true",
		"slab_sizes:1-4096:17", "san_guard_small:1,san_guard_large:1",
	};
	static const char *const filling[] = {"junk:true", "junk:free", "junk:alloc", "zero:true"};
	const char *able = jemalloc_built_in() ? "jemalloc" : "own";

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		CU_ASSERT_STRING_EQUAL(name_under(harmless[i]), able);
	for (size_t i = 0; i < sizeof(filling) / sizeof(filling[0]); i++)
		CU_ASSERT_STRING_EQUAL(name_under(filling[i]), "own");
	purge_meanwhile();
}

static CU_TestInfo tests[] = {
	{"random takes and gives match the shadow", test_random},
	{"bump: the same in every process", test_bump_same},
	{"bump: what is skipped", test_bump_skip},
	{"bump: its range and freshness", test_bump_range},
	{"bump: blocks given back later", test_bump_give_later},
	{"exhaustion and recovery", test_exhaustion},
	{"holes", test_holes},
	{"many blocks", test_many},
	{"bad sizes", test_bad_sizes},
	{"bad gives", test_bad_gives},
	{"threads", test_threads},
	{"after fork", test_after_fork},
	{"no memory", test_no_memory},
	{"reopen", test_reopen},
	{"jemalloc", test_jemalloc},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--name") == 0)
		return print_name();
	return unit_main("alloc", tests, argc, argv);
}
