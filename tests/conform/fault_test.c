/*
 * What every fault engine must do: take access away and give it, report each access without
 * permission once, keep the bytes, and withstand races and limits.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "fault_rig.h"

/* --------------------------------------------------------------------------- access and faults */

static void first_touch(struct rig *rig)
{
	CU_ASSERT_EQUAL(rig_load(rig, 3 * PAGE + 5), 0);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);
	CU_ASSERT_EQUAL(atomic_load(&rig->last_page), 3);
	CU_ASSERT_FALSE(atomic_load(&rig->last_write));

	rig_store(rig, 7 * PAGE + 4095, 9);
	CU_ASSERT_EQUAL(rig_faults(rig), rig_write_faults(rig));
	CU_ASSERT_EQUAL(atomic_load(&rig->last_page), 7);
	CU_ASSERT_EQUAL(atomic_load(&rig->last_write), atomic_load(&rig->last_known));
	CU_ASSERT_EQUAL(rig->view.runtime[7 * PAGE + 4095], 9);

	/* No other pages came along. */
	CU_ASSERT_EQUAL(rig_load(rig, 4 * PAGE), 0);
	CU_ASSERT_EQUAL(rig_load(rig, 2 * PAGE + 4095), 0);
	CU_ASSERT_EQUAL(rig_load(rig, 8 * PAGE), 0);
	CU_ASSERT_EQUAL(rig_faults(rig), 3);
}

/* The first read and the first write of a page that was never touched fault. */
static void test_first_touch(void)
{
	rig_each_engine(16, false, first_touch);
}

static void cycle(struct rig *rig)
{
	size_t at = 5 * PAGE + 100;

	for (int round = 0; round < 50; round++) {
		uint8_t value = (uint8_t)(round + 1);

		CU_ASSERT_EQUAL(rig_load(rig, at), (uint8_t)round);
		CU_ASSERT_EQUAL(rig_faults(rig), 1);
		rig_load(rig, at);
		CU_ASSERT_EQUAL(rig_faults(rig), 0);
		rig_store(rig, at, value);
		CU_ASSERT_EQUAL(rig_faults(rig), 1);
		rig_store(rig, at + 1, 0);
		CU_ASSERT_EQUAL(rig_faults(rig), 0);
		CU_ASSERT_EQUAL(rig_protect(rig, 5, 1, ROAM_WRITE, ROAM_READ), ROAM_OK);
		CU_ASSERT_EQUAL(rig_load(rig, at), value);
		CU_ASSERT_EQUAL(rig_faults(rig), 0);
		rig_store(rig, at + 1, 1);
		CU_ASSERT_EQUAL(rig_faults(rig), 1);
		CU_ASSERT_EQUAL(rig_protect(rig, 5, 1, ROAM_WRITE, ROAM_NONE), ROAM_OK);
		CU_ASSERT_EQUAL(rig_load(rig, at), value);
		CU_ASSERT_EQUAL(rig_faults(rig), 1);
		CU_ASSERT_EQUAL(rig_protect(rig, 5, 1, ROAM_READ, ROAM_NONE), ROAM_OK);
		rig_store(rig, at, value);
		CU_ASSERT_EQUAL(rig_faults(rig), rig_write_faults(rig));
		CU_ASSERT_EQUAL(rig_protect(rig, 5, 1, ROAM_WRITE, ROAM_NONE), ROAM_OK);
	}
}

/* none -> read -> write -> read -> write -> none -> read -> none -> write, each step with exactly
 * its faults. */
static void test_cycle(void)
{
	rig_each_engine(16, false, cycle);
}

static void fill_and_open(struct rig *rig)
{
	static uint8_t bytes[3 * ROAM_PAGE_SIZE];

	if (rig->engine->copy == NULL)
		return;
	memset(bytes, 7, PAGE);
	memset(bytes + PAGE, 9, 2 * PAGE);
	CU_ASSERT_EQUAL(rig->engine->copy(rig->state, 5, 1, bytes), 1);
	atomic_store(&rig->access[5], ROAM_READ);
	CU_ASSERT_EQUAL(rig_load(rig, 5 * PAGE + 4095), 7);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	CU_ASSERT_EQUAL(rig->view.runtime[5 * PAGE], 7);
	rig_store(rig, 5 * PAGE, 8);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);
	CU_ASSERT_EQUAL(rig_load(rig, 4 * PAGE), 0);
	CU_ASSERT_EQUAL(rig_load(rig, 6 * PAGE), 0);
	CU_ASSERT_EQUAL(rig_faults(rig), 2);

	/* Nothing is copied where there are bytes already. */
	rig->view.runtime[8 * PAGE] = 3;
	CU_ASSERT_EQUAL(rig->engine->copy(rig->state, 8, 1, bytes), 0);
	CU_ASSERT_EQUAL(rig_load(rig, 8 * PAGE), 3);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);

	/* Several pages are copied, up to such a page. */
	rig->view.runtime[12 * PAGE] = 4;
	CU_ASSERT_EQUAL(rig->engine->copy(rig->state, 10, 3, bytes), 2);
	atomic_store(&rig->access[10], ROAM_READ);
	atomic_store(&rig->access[11], ROAM_READ);
	CU_ASSERT_EQUAL(rig_load(rig, 10 * PAGE), 7);
	CU_ASSERT_EQUAL(rig_load(rig, 11 * PAGE + 4095), 9);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	CU_ASSERT_EQUAL(rig->view.runtime[12 * PAGE], 4);
}

/* Copies bytes into holes, and opens them for reading; other pages stay. */
static void test_fill_and_open(void)
{
	rig_each_engine(16, false, fill_and_open);
}

static void open_holes(struct rig *rig)
{
	if (rig->engine->zero == NULL)
		return;
	CU_ASSERT_EQUAL(rig->engine->zero(rig->state, 2, 3), ROAM_OK);
	for (uint32_t page = 2; page < 5; page++)
		atomic_store(&rig->access[page], ROAM_WRITE);
	CU_ASSERT_EQUAL(rig_load(rig, 3 * PAGE), 0);
	rig_store(rig, 4 * PAGE + 1, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	CU_ASSERT_EQUAL(rig->view.runtime[4 * PAGE + 1], 1);
	rig_store(rig, 5 * PAGE, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), rig_write_faults(rig));

	/* A page that has bytes already keeps them, and protect does the rest. */
	rig->view.runtime[9 * PAGE] = 3;
	CU_ASSERT_NOT_EQUAL(rig->engine->zero(rig->state, 8, 3), ROAM_OK);
	CU_ASSERT_EQUAL(rig_protect(rig, 8, 3, ROAM_NONE, ROAM_WRITE), ROAM_OK);
	CU_ASSERT_EQUAL(rig_load(rig, 9 * PAGE), 3);
	rig_store(rig, 8 * PAGE, 1);
	rig_store(rig, 10 * PAGE, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
}

static void test_open_holes(void)
{
	rig_each_engine(16, false, open_holes);
}

static blkcnt_t provided(const struct rig *rig)
{
	struct stat stat = {0};

	CU_ASSERT_EQUAL(fstat(rig->view.fd, &stat), 0);
	return stat.st_blocks / (blkcnt_t)(PAGE / 512);
}

static void fill_holes(struct rig *rig)
{
	blkcnt_t before = provided(rig);

	if (rig->engine->fill == NULL)
		return;
	rig->engine->fill(rig->state, 2, 20);
	CU_ASSERT_EQUAL(provided(rig), before + 20);
	CU_ASSERT_EQUAL(rig_protect(rig, 2, 20, ROAM_NONE, ROAM_WRITE), ROAM_OK);
	for (uint32_t page = 2; page < 22; page++) {
		CU_ASSERT_EQUAL(rig_load(rig, page * PAGE + 5), 0);
		rig_store(rig, page * PAGE, 1);
		CU_ASSERT_EQUAL(rig->view.runtime[page * PAGE], 1);
	}
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	rig_load(rig, 22 * PAGE);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);

	/* A page that has bytes stays as it is. */
	rig->view.runtime[25 * PAGE] = 3;
	rig->engine->fill(rig->state, 24, 3);
	CU_ASSERT_EQUAL(rig->view.runtime[25 * PAGE], 3);
}

static void test_fill_holes(void)
{
	rig_each_engine(32, false, fill_holes);
}

static void open_after_zap(struct rig *rig)
{
	for (int round = 0; round < 20; round++) {
		CU_ASSERT_EQUAL(rig_protect(rig, 0, 64, ROAM_NONE, ROAM_READ), ROAM_OK);
		CU_ASSERT_EQUAL(rig_protect(rig, 0, 64, ROAM_READ, ROAM_NONE), ROAM_OK);
		CU_ASSERT_EQUAL(rig_protect(rig, 0, 64, ROAM_NONE, ROAM_WRITE), ROAM_OK);
		for (size_t page = 0; page < 64; page++)
			rig_store(rig, page * PAGE, (uint8_t)round);
		CU_ASSERT_EQUAL(rig_faults(rig), 0);
		CU_ASSERT_EQUAL(rig_protect(rig, 0, 64, ROAM_WRITE, ROAM_READ), ROAM_OK);
		rig_store(rig, 9 * PAGE, 1);
		CU_ASSERT_EQUAL(rig_faults(rig), 1);
		CU_ASSERT_EQUAL(rig_protect(rig, 0, 64, ROAM_READ, ROAM_NONE), ROAM_OK);
	}
}

/* Write access given after a zap of protected pages is write access: no mark of the old protection
 * is left. */
static void test_open_after_zap(void)
{
	rig_each_engine(64, false, open_after_zap);
}

static void mixed_ranges(struct rig *rig)
{
	uint32_t expected = 0;

	/* Makes holes, pages with bytes and open pages readable, none of them writable. */
	for (uint32_t page = 0; page < 96; page += 3) {
		rig->view.runtime[page * PAGE] = (uint8_t)page;
		if (page % 2 == 0)
			CU_ASSERT_EQUAL(rig_protect(rig, page, 1, ROAM_NONE, ROAM_READ), ROAM_OK);
	}
	CU_ASSERT_EQUAL(rig_protect(rig, 0, 96, ROAM_NONE, ROAM_READ), ROAM_OK);
	for (uint32_t page = 0; page < 96; page++)
		CU_ASSERT_EQUAL(rig_load(rig, page * PAGE), page % 3 == 0 ? (uint8_t)page : 0);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);

	/* Write-protects written and readable pages. */
	for (uint32_t page = 0; page < 96; page += 5, expected++)
		rig_store(rig, page * PAGE + 1, 7);
	CU_ASSERT_EQUAL(rig_faults(rig), expected);
	CU_ASSERT_EQUAL(rig_protect(rig, 0, 96, ROAM_WRITE, ROAM_READ), ROAM_OK);
	for (uint32_t page = 0; page < 96; page++)
		rig_store(rig, page * PAGE + 2, 8);
	CU_ASSERT_EQUAL(rig_faults(rig), 96);

	/* Zaps pages of all kinds. */
	CU_ASSERT_EQUAL(rig_protect(rig, 10, 10, ROAM_WRITE, ROAM_NONE), ROAM_OK);
	CU_ASSERT_EQUAL(rig_protect(rig, 30, 10, ROAM_WRITE, ROAM_READ), ROAM_OK);
	CU_ASSERT_EQUAL(rig_protect(rig, 5, 40, ROAM_READ, ROAM_NONE), ROAM_OK);
	for (uint32_t page = 0; page < 96; page++)
		CU_ASSERT_EQUAL(rig_load(rig, page * PAGE + 2), 8);
	CU_ASSERT_EQUAL(rig_faults(rig), 40);

	/* Gives write access to readable and closed pages, as if all were closed. */
	CU_ASSERT_EQUAL(rig_protect(rig, 8, 4, ROAM_READ, ROAM_NONE), ROAM_OK);
	CU_ASSERT_EQUAL(rig_protect(rig, 5, 40, ROAM_NONE, ROAM_WRITE), ROAM_OK);
	for (uint32_t page = 5; page < 45; page++)
		rig_store(rig, page * PAGE + 3, 9);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
}

/*
 * Calls over ranges do for every page what calls for single pages do, whatever access the pages
 * had.
 */
static void test_mixed_ranges(void)
{
	rig_each_engine(96, false, mixed_ranges);
}

static void random_step(struct rig *rig, uint64_t *seed, uint8_t *bytes)
{
	uint32_t page = (uint32_t)unit_below(seed, rig->pages);
	uint32_t count = 1 + (uint32_t)unit_below(seed, 8);
	size_t at = page * PAGE + unit_below(seed, PAGE);
	enum roam_access had = atomic_load(&rig->access[page]);
	enum roam_access to = (enum roam_access)unit_below(seed, 3);

	switch (unit_below(seed, 5)) {
	case 0:
		CU_ASSERT_EQUAL(rig_load(rig, at), bytes[at]);
		CU_ASSERT_EQUAL(rig_faults(rig), had == ROAM_NONE ? 1 : 0);
		break;
	case 1:
		bytes[at] = (uint8_t)unit_random(seed);
		rig_store(rig, at, bytes[at]);
		CU_ASSERT_EQUAL(rig_faults(rig), had == ROAM_WRITE  ? 0
						 : had == ROAM_READ ? 1
								    : rig_write_faults(rig));
		break;
	case 2:
		bytes[at] = (uint8_t)unit_random(seed);
		rig->view.runtime[at] = bytes[at];
		break;
	case 3:
		if (page + count > rig->pages)
			count = rig->pages - page;
		CU_ASSERT_EQUAL(rig_protect(rig, page, count, ROAM_WRITE, ROAM_NONE), ROAM_OK);
		break;
	default:
		for (; count > 0 && page < rig->pages; count--, page++)
			CU_ASSERT_EQUAL(rig_protect(rig, page, 1, atomic_load(&rig->access[page]),
						    to),
					ROAM_OK);
	}
}

static void random_pages(struct rig *rig)
{
	uint64_t seed = unit_seed();
	uint8_t *bytes = calloc(1, rig->view.bytes);

	for (int step = 0; step < 50000; step++)
		random_step(rig, &seed, bytes);
	CU_ASSERT_EQUAL(memcmp(bytes, rig->view.runtime, rig->view.bytes), 0);
	free(bytes);
}

/* 50,000 random loads, stores, fills and protections of 1000 pages: bytes and faults as in a plain
 * model. */
static void test_random(void)
{
	rig_each_engine(1000, false, random_pages);
}

static void close_gives_back(struct rig *rig)
{
	CU_ASSERT_EQUAL(rig_protect(rig, 0, 2, ROAM_NONE, ROAM_READ), ROAM_OK);
	CU_ASSERT_EQUAL(rig_protect(rig, 1, 1, ROAM_READ, ROAM_NONE), ROAM_OK);
	rig->view.runtime[2 * PAGE] = 3;
	rig->engine->close(rig->state);
	for (size_t page = 0; page < 4; page++)
		((volatile uint8_t *)rig->view.app)[page * PAGE + 1] = 5;
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	CU_ASSERT_EQUAL(rig->view.runtime[PAGE + 1], 5);
	CU_ASSERT_EQUAL(rig->view.app[2 * PAGE], 3);
	/* The state may be used anew; closing twice does no harm. */
	rig->engine->close(rig->state);
	CU_ASSERT_EQUAL(rig->engine->open(rig->state, &rig->view, rig_fault, rig), ROAM_OK);
	CU_ASSERT_EQUAL(rig_load(rig, 2 * PAGE), 3);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);
}

/* After close the app view is plain memory with the same bytes; open takes it over again. */
static void test_close(void)
{
	rig_each_engine(4, false, close_gives_back);
}

/* An open that fails reports that, and can be closed. */
static void test_failed_open(void)
{
	for (size_t i = 0; roami_fault_engines[i] != NULL; i++) {
		const struct roami_fault_engine *engine = roami_fault_engines[i];
		uint8_t *nothing = mmap(NULL, 4 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
					0);
		struct roami_view view = {nothing, nothing, 4 * PAGE, -1, 0};
		void *state = calloc(1, engine->state_size);
		struct sigaction now;

		engine->close(state);
		munmap(nothing, 4 * PAGE);
		if (strcmp(engine->name, "soft") != 0 && rig_engine_usable(engine)) {
			CU_ASSERT_NOT_EQUAL(engine->open(state, &view, rig_fault, NULL), ROAM_OK);
			engine->close(state);
			sigaction(SIGBUS, NULL, &now);
			CU_ASSERT(WITH_ASAN || now.sa_handler == SIG_DFL);
		}
		free(state);
	}
}

static void dropped_mapping(struct rig *rig)
{
	rig_store(rig, 0, 1);
	CU_ASSERT_EQUAL(rig_load(rig, PAGE), 0);
	rig_faults(rig);
	/* Does what the kernel does to reclaim memory. */
	madvise(rig->view.app, 2 * PAGE, MADV_DONTNEED);
	CU_ASSERT_EQUAL(rig_load(rig, 0), 1);
	CU_ASSERT_EQUAL(rig_load(rig, PAGE), 0);
	rig_store(rig, 1, 2);
	CU_ASSERT(rig_faults(rig) <= 3);
	rig_store(rig, PAGE, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);
}

/* A page whose mapping the kernel dropped may fault again; giving it the access it has is enough.
 */
static void test_dropped_mapping(void)
{
	rig_each_engine(4, true, dropped_mapping);
}

/* ------------------------------------------------------------------------------------- threads */

#define WRITERS 4

struct writer {
	struct rig *rig;
	pthread_t thread;
	unsigned number;
	uint32_t *written; /* per page: stores made */
	_Atomic bool *stop;
};

/* Counts up this thread's own byte of random pages. */
static void *writer_run(void *arg)
{
	struct writer *writer = arg;
	struct rig *rig = writer->rig;
	uint64_t seed = unit_seed() + writer->number;

	while (!atomic_load(writer->stop)) {
		uint32_t page = (uint32_t)unit_below(&seed, rig->pages);
		size_t at = page * PAGE + writer->number * 64;
		uint8_t value = rig_load(rig, at);

		if (value != (uint8_t)writer->written[page])
			atomic_fetch_add(&rig->errors, 1);
		rig_store(rig, at, (uint8_t)(value + 1));
		writer->written[page]++;
	}
	return NULL;
}

/* The writers' bytes of a page, of which only the caller may change the access. */
static uint32_t page_sum(const struct rig *rig, uint32_t page)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < WRITERS; i++)
		sum = sum * 257 + ((volatile uint8_t *)rig->view.runtime)[page * PAGE + i * 64];
	return sum;
}

/* Takes access away from a run of pages, and checks that no thread writes there any more. */
static void take_away(struct rig *rig, uint64_t *seed)
{
	uint32_t count = 1 + (uint32_t)unit_below(seed, 4);
	uint32_t first = (uint32_t)unit_below(seed, rig->pages - count);
	enum roam_access to = unit_below(seed, 2) == 0 ? ROAM_NONE : ROAM_READ;
	uint32_t sums[4];

	for (uint32_t i = 0; i < count; i++)
		rig_page_lock(rig, first + i);
	for (uint32_t i = 0; i < count; i++) {
		enum roam_access from = atomic_load(&rig->access[first + i]);

		if (to == ROAM_READ && from == ROAM_NONE)
			continue;
		CU_ASSERT_EQUAL(rig_protect(rig, first + i, 1, from, to), ROAM_OK);
	}
	for (uint32_t i = 0; i < count; i++)
		sums[i] = page_sum(rig, first + i);
	for (int i = 0; i < 3; i++)
		sched_yield();
	for (uint32_t i = 0; i < count; i++)
		CU_ASSERT_EQUAL(page_sum(rig, first + i), sums[i]);
	for (uint32_t i = 0; i < count; i++)
		rig_page_unlock(rig, first + i);
}

static void concurrent(struct rig *rig)
{
	struct writer writers[WRITERS];
	_Atomic bool stop = false;
	uint64_t seed = unit_seed();
	uint64_t end = roami_os_now_ns() + 1000000000;

	for (unsigned i = 0; i < WRITERS; i++) {
		uint32_t *written = calloc(rig->pages, sizeof(*written));

		writers[i] = (struct writer){rig, 0, i, written, &stop};
		pthread_create(&writers[i].thread, NULL, writer_run, &writers[i]);
	}
	while (roami_os_now_ns() < end)
		take_away(rig, &seed);
	atomic_store(&stop, true);
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		for (uint32_t page = 0; page < rig->pages; page++)
			CU_ASSERT_EQUAL(rig->view.runtime[page * PAGE + i * 64],
					(uint8_t)writers[i].written[page]);
		free(writers[i].written);
	}
	CU_ASSERT(rig_faults(rig) > 100);
}

/* Threads fault and write while another takes access away: no write is lost, none comes after its
 * access is gone. */
static void test_concurrent(void)
{
	rig_each_engine(24, false, concurrent);
}

/* -------------------------------------------------------------------------- limits, many heaps */

#define ALTERNATING 200000u

static void alternating(struct rig *rig)
{
	enum roam_err err = ROAM_OK;
	uint32_t page;

	for (page = 0; page < rig->pages && err == ROAM_OK; page += 2)
		err = rig_protect(rig, page, 1, ROAM_NONE, ROAM_READ);
	if (strcmp(rig->engine->name, "sigsegv") != 0) {
		CU_ASSERT_EQUAL(err, ROAM_OK);
	} else if (err == ROAM_OK) {
		unit_skip("sigsegv", "vm.max_map_count is above 200,000");
	} else {
		CU_ASSERT_EQUAL(err, ROAM_ENOMEM);
	}

	/* The heap can go on with fewer. */
	CU_ASSERT_EQUAL(rig_protect(rig, 0, rig->pages, ROAM_READ, ROAM_NONE), ROAM_OK);
	rig_store(rig, 1000 * PAGE, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), rig_write_faults(rig));
	CU_ASSERT_EQUAL(rig->view.runtime[1000 * PAGE], 1);
}

/* Every second of 200,000 pages: fine, or, at the kernel's limit of mappings, an error instead of a
 * crash. */
static void test_alternating(void)
{
	rig_each_engine(ALTERNATING, false, alternating);
}

/* Several heaps in one process, under all engines: each gets its own faults. */
static void test_many_heaps(void)
{
	struct rig rigs[9];
	size_t count = 0;

	for (size_t turn = 0; turn < 3; turn++)
		for (size_t i = 0; roami_fault_engines[i] != NULL && count < 9; i++)
			if (rig_engine_usable(roami_fault_engines[i]))
				CU_ASSERT_EQUAL(rig_open(&rigs[count++], roami_fault_engines[i], 8),
						ROAM_OK);
	for (size_t round = 0; round < 8; round++) {
		for (size_t i = 0; i < count; i++) {
			rig_store(&rigs[i], round * PAGE, (uint8_t)(i + round));
			CU_ASSERT_EQUAL(rig_faults(&rigs[i]), rig_write_faults(&rigs[i]));
			CU_ASSERT_EQUAL(atomic_load(&rigs[i].last_page), round);
		}
		if (round == 4 && count > 3) { /* one heap is closed; the others stay */
			rig_close(&rigs[--count]);
			rig_close(&rigs[--count]);
		}
	}
	for (size_t i = 0; i < count; i++)
		CU_ASSERT_EQUAL(rigs[i].view.runtime[7 * PAGE], (uint8_t)(i + 7));
	while (count > 0)
		rig_close(&rigs[--count]);
}

static void soft_copies(struct rig *rig)
{
	uint64_t seed = unit_seed();
	uint8_t model[256] = {0}, in[128], out[256];

	if (!rig_is_soft(rig))
		return;
	CU_ASSERT_EQUAL(rig_protect(rig, 0, 1, ROAM_NONE, ROAM_WRITE), ROAM_OK);
	for (int i = 0; i < 5000; i++) {
		size_t at = unit_below(&seed, 128), bytes = unit_below(&seed, 100);
		size_t skew = unit_below(&seed, 8);

		for (size_t k = 0; k < bytes; k++)
			in[skew + k] = (uint8_t)unit_random(&seed);
		memcpy(model + at, in + skew, bytes);
		CU_ASSERT(roami_soft_store(rig->state, at, in + skew, bytes));
		CU_ASSERT(roami_soft_load(rig->state, 0, out, sizeof(out)));
		CU_ASSERT_EQUAL(memcmp(out, model, sizeof(model)), 0);
		CU_ASSERT(roami_soft_load(rig->state, at, out + skew, bytes));
		CU_ASSERT_EQUAL(memcmp(out + skew, model + at, bytes), 0);
	}
	CU_ASSERT_EQUAL(roami_soft_access(rig->state, 0), ROAM_WRITE);
	CU_ASSERT_EQUAL(roami_soft_access(rig->state, 1), ROAM_NONE);
}

/* Loads and stores of the soft engine copy exactly the bytes asked for, at any alignment. */
static void test_soft_copies(void)
{
	rig_each_engine(2, false, soft_copies);
}

static CU_TestInfo tests[] = {
	{"first touch faults", test_first_touch},
	{"full cycle", test_cycle},
	{"bytes into a hole", test_fill_and_open},
	{"holes opened for writing", test_open_holes},
	{"holes filled ahead", test_fill_holes},
	{"open for writing after a zap", test_open_after_zap},
	{"ranges over mixed pages", test_mixed_ranges},
	{"random pages against a model", test_random},
	{"close gives the view back", test_close},
	{"failed open", test_failed_open},
	{"dropped mapping", test_dropped_mapping},
	{"concurrent faults and protection", test_concurrent},
	{"alternating pages", test_alternating},
	{"many heaps", test_many_heaps},
	{"soft copies", test_soft_copies},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("fault", tests, argc, argv);
}
