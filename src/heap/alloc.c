#include "heap/alloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "heap/alloc_priv.h"

#define ALLOC_MAGIC 0x616c6f63u

/*
 * alloc->pages of a page: 0, the number of pages of the live block that starts here, a run, or how
 * many blocks of nodes that have ended lie there.
 */
#define ALLOC_RUN  0x80000000u
#define ALLOC_LEFT 0x40000000u
_Static_assert(ROAMI_ALLOC_PAGES_MAX <= ALLOC_LEFT, "no block has so many pages");

struct roami_alloc {
	uint32_t magic;
	bool sealed;
	bool jemalloc; /* use jemalloc for small blocks once sealed */
	uint64_t first;
	uint64_t end;
	uint32_t *pages;
	struct roami_ranges ranges;
	struct roami_runs runs;
	struct roami_je *je;
	_Atomic uint64_t hash;
	_Atomic uint64_t bumped;
	pthread_mutex_t lock;
};

struct alloc_got {
	uint64_t grain; /* from the start of the slice */
	bool fresh;
};

static uint32_t alloc_page_count(const struct roami_alloc *alloc)
{
	return (uint32_t)((alloc->end - alloc->first) / ROAM_PAGE_SIZE);
}

static bool alloc_parts_open(struct roami_alloc *alloc)
{
	uint32_t pages = alloc_page_count(alloc);

	alloc->pages = roami_os_reserve_sparse(pages * sizeof(*alloc->pages));
	return alloc->pages != NULL && roami_ranges_open(&alloc->ranges, pages) &&
	       roami_runs_open(&alloc->runs) && pthread_mutex_init(&alloc->lock, NULL) == 0;
}

static void alloc_parts_close(struct roami_alloc *alloc)
{
	roami_runs_close(&alloc->runs);
	roami_ranges_close(&alloc->ranges);
	roami_os_unmap(alloc->pages, alloc_page_count(alloc) * sizeof(*alloc->pages));
	roami_os_unmap(alloc, sizeof(*alloc));
}

enum roam_err roami_alloc_open(struct roami_alloc **alloc_p, uint64_t first, uint64_t end, bool own)
{
	struct roami_alloc *alloc;

	assert(alloc_p != NULL);
	if (first % ROAM_PAGE_SIZE != 0 || end % ROAM_PAGE_SIZE != 0 || first >= end)
		return ROAM_EINVAL;
	if ((end - first) / ROAM_PAGE_SIZE > ROAMI_ALLOC_PAGES_MAX)
		return ROAM_EINVAL;
	alloc = roami_os_reserve(sizeof(*alloc));
	if (alloc == NULL)
		return ROAM_ENOMEM;
	alloc->magic = ALLOC_MAGIC;
	alloc->first = first;
	alloc->end = end;
	alloc->jemalloc = !own && roami_je_able();
	atomic_init(&alloc->hash, UINT64_C(0x726f616d));
	atomic_init(&alloc->bumped, first);
	if (!alloc_parts_open(alloc)) {
		alloc_parts_close(alloc);
		return ROAM_ENOMEM;
	}
	*alloc_p = alloc;
	return ROAM_OK;
}

void roami_alloc_close(struct roami_alloc *alloc)
{
	if (alloc == NULL)
		return;
	assert(alloc->magic == ALLOC_MAGIC);
	if (alloc->je != NULL)
		roami_je_close(alloc->je);
	pthread_mutex_destroy(&alloc->lock);
	alloc->magic = 0;
	alloc_parts_close(alloc);
}

/* The arena is made only now: made before CREATE, each process would get a useless copy. */
void roami_alloc_seal(struct roami_alloc *alloc)
{
	assert(alloc->magic == ALLOC_MAGIC);
	pthread_mutex_lock(&alloc->lock);
	if (!alloc->sealed && alloc->jemalloc) {
		alloc->je = roami_je_open(&alloc->ranges);
		alloc->jemalloc = alloc->je != NULL;
	}
	alloc->sealed = true;
	pthread_mutex_unlock(&alloc->lock);
}

void roami_alloc_skip(struct roami_alloc *alloc, uint64_t offset)
{
	uint32_t pages;

	assert(alloc->magic == ALLOC_MAGIC && !alloc->sealed && alloc->ranges.live == 0);
	if (offset <= alloc->first)
		return;
	pages = (uint32_t)((offset - alloc->first) / ROAM_PAGE_SIZE);
	assert(offset % ROAM_PAGE_SIZE == 0 && pages <= alloc->ranges.end);
	alloc->ranges.top = alloc->ranges.high = pages;
}

const char *roami_alloc_name(const struct roami_alloc *alloc)
{
	assert(alloc->magic == ALLOC_MAGIC);
	return alloc->jemalloc ? "jemalloc" : "own";
}

uint64_t roami_alloc_hash(const struct roami_alloc *alloc)
{
	return atomic_load_explicit(&alloc->hash, memory_order_relaxed);
}

uint64_t roami_alloc_bumped(const struct roami_alloc *alloc)
{
	return atomic_load_explicit(&alloc->bumped, memory_order_relaxed);
}

/* ---- taking */

static bool alloc_take_pages(struct roami_alloc *alloc, size_t bytes, struct alloc_got *got)
{
	uint32_t pages = (uint32_t)((bytes + ROAM_PAGE_SIZE - 1) / ROAM_PAGE_SIZE);
	uint32_t page;

	if (!roami_ranges_take(&alloc->ranges, pages, &page, &got->fresh))
		return false;
	assert(alloc->pages[page] == 0);
	alloc->pages[page] = pages;
	got->grain = (uint64_t)page * ROAMI_ALLOC_GRAINS;
	return true;
}

static bool alloc_add_run(struct roami_alloc *alloc, unsigned class)
{
	uint32_t page, run;
	bool fresh;

	if (!roami_ranges_take(&alloc->ranges, 1, &page, &fresh))
		return false;
	run = roami_runs_add(&alloc->runs, class, page, fresh);
	if (run == 0) {
		roami_ranges_put(&alloc->ranges, page, 1);
		return false;
	}
	assert(alloc->pages[page] == 0);
	alloc->pages[page] = ALLOC_RUN | run;
	return true;
}

/*
 * Runs of the bump phase are used up even if jemalloc serves small blocks, and so are the last
 * pages.
 */
static bool alloc_take_small(struct roami_alloc *alloc, size_t bytes, struct alloc_got *got)
{
	unsigned class = roami_runs_class(bytes);

	if (roami_runs_take(&alloc->runs, class, &got->grain, &got->fresh))
		return true;
	if (alloc->je != NULL && roami_je_take(alloc->je, bytes, &got->grain, &got->fresh))
		return true;
	return alloc_add_run(alloc, class) &&
	       roami_runs_take(&alloc->runs, class, &got->grain, &got->fresh);
}

static bool alloc_take_any(struct roami_alloc *alloc, size_t bytes, struct alloc_got *got)
{
	return bytes > ROAMI_ALLOC_SMALL ? alloc_take_pages(alloc, bytes, got)
					 : alloc_take_small(alloc, bytes, got);
}

static void alloc_put_run_page(struct roami_alloc *alloc, uint32_t page)
{
	assert((alloc->pages[page] & ALLOC_RUN) != 0);
	alloc->pages[page] = 0;
	roami_ranges_put(&alloc->ranges, page, 1);
}

/* Turns pages kept for future small blocks into free pages. */
static void alloc_trim(struct roami_alloc *alloc)
{
	uint32_t page;

	while (roami_runs_trim(&alloc->runs, &page))
		alloc_put_run_page(alloc, page);
	if (alloc->je != NULL)
		roami_je_trim(alloc->je);
}

static uint64_t alloc_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0xbf58476d1ce4e5b9);
	return hash ^ (hash >> 29);
}

static void alloc_note(struct roami_alloc *alloc, size_t bytes, uint64_t offset)
{
	uint64_t hash = atomic_load_explicit(&alloc->hash, memory_order_relaxed);
	uint64_t high = alloc->first + (uint64_t)alloc->ranges.high * ROAM_PAGE_SIZE;

	hash = alloc_mix(alloc_mix(hash, bytes), offset);
	atomic_store_explicit(&alloc->hash, hash, memory_order_relaxed);
	if (!alloc->sealed)
		atomic_store_explicit(&alloc->bumped, high, memory_order_relaxed);
}

enum roam_err roami_alloc_take(struct roami_alloc *alloc, size_t bytes, uint64_t *offset_p,
			       bool *fresh_p)
{
	struct alloc_got got;
	bool ok;

	assert(alloc->magic == ALLOC_MAGIC);
	if (bytes == 0)
		return ROAM_EINVAL;
	if (bytes > alloc->end - alloc->first)
		return ROAM_ENOMEM;
	pthread_mutex_lock(&alloc->lock);
	ok = alloc_take_any(alloc, bytes, &got);
	if (!ok) {
		alloc_trim(alloc);
		ok = alloc_take_any(alloc, bytes, &got);
	}
	if (ok) {
		*offset_p = alloc->first + got.grain * ROAMI_ALLOC_GRAIN;
		*fresh_p = got.fresh;
		alloc_note(alloc, bytes, *offset_p);
	}
	pthread_mutex_unlock(&alloc->lock);
	return ok ? ROAM_OK : ROAM_ENOMEM;
}

/* ---- leases */

enum roam_err roami_alloc_cut(struct roami_alloc *alloc, uint64_t part, bool first,
			      uint64_t *end_p)
{
	uint64_t top, end;
	bool ok;

	assert(alloc->magic == ALLOC_MAGIC && part % ROAM_PAGE_SIZE == 0);
	pthread_mutex_lock(&alloc->lock);
	top = alloc->first + (uint64_t)alloc->ranges.top * ROAM_PAGE_SIZE;
	end = first ? (top + part - 1) / part * part : alloc->first;
	if (end > alloc->end)
		end = alloc->end;
	ok = roami_ranges_cut(&alloc->ranges, (uint32_t)((end - alloc->first) / ROAM_PAGE_SIZE),
			      first ? (uint32_t)((end + part - 1) / part - alloc->first / part)
				    : 0);
	pthread_mutex_unlock(&alloc->lock);
	*end_p = end;
	return ok ? ROAM_OK : ROAM_ENOMEM;
}

enum roam_err roami_alloc_lend(struct roami_alloc *alloc, uint64_t offset, uint64_t bytes,
			       uint64_t part, bool used)
{
	bool ok;

	assert(alloc->magic == ALLOC_MAGIC && offset >= alloc->first);
	assert(offset + bytes <= alloc->end);
	pthread_mutex_lock(&alloc->lock);
	ok = roami_ranges_lend(&alloc->ranges, (uint32_t)((offset - alloc->first) / ROAM_PAGE_SIZE),
			       (uint32_t)(bytes / ROAM_PAGE_SIZE), (uint32_t)(bytes / part), used);
	pthread_mutex_unlock(&alloc->lock);
	return ok ? ROAM_OK : ROAM_ENOMEM;
}

enum roam_err roami_alloc_adopt_begin(struct roami_alloc *alloc, uint32_t pages)
{
	assert(alloc->magic == ALLOC_MAGIC);
	pthread_mutex_lock(&alloc->lock);
	if (roami_ranges_adopt_begin(&alloc->ranges, pages))
		return ROAM_OK;
	pthread_mutex_unlock(&alloc->lock);
	return ROAM_ENOMEM;
}

void roami_alloc_adopt(struct roami_alloc *alloc, uint64_t offset, uint32_t pages,
		       const uint32_t *blocks, const bool *zero)
{
	uint32_t first = (uint32_t)((offset - alloc->first) / ROAM_PAGE_SIZE);

	assert(alloc->magic == ALLOC_MAGIC && offset >= alloc->first);
	roami_ranges_adopt(&alloc->ranges, first, pages, blocks, zero);
	for (uint32_t i = 0; i < pages; i++) {
		assert(alloc->pages[first + i] == 0);
		if (blocks[i] != 0)
			alloc->pages[first + i] = ALLOC_LEFT | blocks[i];
	}
}

void roami_alloc_adopt_end(struct roami_alloc *alloc)
{
	pthread_mutex_unlock(&alloc->lock);
}

bool roami_alloc_reclaim(struct roami_alloc *alloc, uint64_t freed, uint64_t part,
			 uint64_t *offset_p, uint64_t *bytes_p, bool *used_p)
{
	uint32_t first, parts;
	bool some;

	assert(alloc->magic == ALLOC_MAGIC);
	pthread_mutex_lock(&alloc->lock);
	some = roami_ranges_reclaim(&alloc->ranges,
				    (uint32_t)((freed - alloc->first) / ROAM_PAGE_SIZE),
				    (uint32_t)(part / ROAM_PAGE_SIZE),
				    (uint32_t)(alloc->first / ROAM_PAGE_SIZE), &first, &parts,
				    used_p);
	pthread_mutex_unlock(&alloc->lock);
	if (some) {
		*offset_p = alloc->first + (uint64_t)first * ROAM_PAGE_SIZE;
		*bytes_p = parts * part;
	}
	return some;
}

/* ---- giving back */

/* Whether in a page lie only blocks of nodes that have ended. */
static bool alloc_is_left(uint32_t what)
{
	return (what & (ALLOC_RUN | ALLOC_LEFT)) == ALLOC_LEFT;
}

static size_t alloc_live_bytes(const struct roami_alloc *alloc, uint64_t grain)
{
	uint32_t what = alloc->pages[grain / ROAMI_ALLOC_GRAINS];
	unsigned within = (unsigned)(grain % ROAMI_ALLOC_GRAINS);

	if (alloc_is_left(what))
		return 0;

	if ((what & ALLOC_RUN) != 0) {
		uint32_t run = what & ~ALLOC_RUN;

		return roami_runs_live(&alloc->runs, run, within)
			       ? roami_runs_bytes(&alloc->runs, run)
			       : 0;
	}
	if (what != 0)
		return within == 0 ? (size_t)what * ROAM_PAGE_SIZE : 0;
	if (alloc->je != NULL && roami_je_live(alloc->je, grain))
		return roami_je_bytes(alloc->je, grain);
	return 0;
}

/* `grain` is the start of a live block. */
static void alloc_put(struct roami_alloc *alloc, uint64_t grain)
{
	uint32_t page = (uint32_t)(grain / ROAMI_ALLOC_GRAINS);
	uint32_t what = alloc->pages[page];
	unsigned within = (unsigned)(grain % ROAMI_ALLOC_GRAINS);

	if ((what & ALLOC_RUN) != 0) {
		if (roami_runs_put(&alloc->runs, what & ~ALLOC_RUN, within, &page))
			alloc_put_run_page(alloc, page);
	} else if (what != 0) {
		alloc->pages[page] = 0;
		roami_ranges_put(&alloc->ranges, page, what);
	} else {
		roami_je_give(alloc->je, grain);
	}
}

/* The grain of an offset; false if no block can start there. */
static bool alloc_grain(const struct roami_alloc *alloc, uint64_t offset, uint64_t *grain_p)
{
	if (offset < alloc->first || offset >= alloc->end || offset % ROAMI_ALLOC_GRAIN != 0)
		return false;
	*grain_p = (offset - alloc->first) / ROAMI_ALLOC_GRAIN;
	return true;
}

enum roam_err roami_alloc_give(struct roami_alloc *alloc, uint64_t offset)
{
	uint64_t grain;
	bool live;

	assert(alloc->magic == ALLOC_MAGIC);
	if (!alloc_grain(alloc, offset, &grain))
		return ROAM_ENOTOURS;
	pthread_mutex_lock(&alloc->lock);
	live = alloc_live_bytes(alloc, grain) != 0;
	if (live)
		alloc_put(alloc, grain);
	pthread_mutex_unlock(&alloc->lock);
	return live ? ROAM_OK : ROAM_ENOTOURS;
}

enum roam_err roami_alloc_give_left(struct roami_alloc *alloc, uint64_t offset, uint64_t end)
{
	uint32_t first = (uint32_t)((offset - alloc->first) / ROAM_PAGE_SIZE);
	uint32_t last = (uint32_t)((end - 1 - alloc->first) / ROAM_PAGE_SIZE);
	bool left;

	assert(alloc->magic == ALLOC_MAGIC && offset < end);
	if (offset < alloc->first || end > alloc->end)
		return ROAM_ENOTOURS;
	pthread_mutex_lock(&alloc->lock);
	left = alloc_is_left(alloc->pages[first]);
	for (uint32_t page = first; left && page <= last; page++) {
		if (!alloc_is_left(alloc->pages[page]) || --alloc->pages[page] != ALLOC_LEFT)
			continue;
		alloc->pages[page] = 0;
		roami_ranges_put(&alloc->ranges, page, 1);
	}
	pthread_mutex_unlock(&alloc->lock);
	return left ? ROAM_OK : ROAM_ENOTOURS;
}

size_t roami_alloc_bytes(struct roami_alloc *alloc, uint64_t offset)
{
	uint64_t grain;
	size_t bytes;

	assert(alloc->magic == ALLOC_MAGIC);
	if (!alloc_grain(alloc, offset, &grain))
		return 0;
	pthread_mutex_lock(&alloc->lock);
	bytes = alloc_live_bytes(alloc, grain);
	pthread_mutex_unlock(&alloc->lock);
	return bytes;
}
