/*
 * A process that is alone has no page faults that could tell what it writes.  With a store its app
 * view is a private mapping of its segment, so that a page that was written is anonymous memory,
 * and the kernel's page map shows that.  A commit sends all such pages and copies them into the
 * segment; then they are the segment's again.  That would lose what a thread that is not held
 * stores between the two: beside such threads pages stay anonymous, and those that are as in the
 * segment, which has what was sent last, are not sent again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job/job.h"

#define ENTRIES 512u /* of the page map, read at a time */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define SHARED  (UINT64_C(1) << 61) /* of a file, or shared */
#define SPLIT   16384u /* pages of a commit that need not be one */

static bool apart_map(struct roami_job *job, int flags)
{
	uint64_t base = roami_layout_base(&job->layout, 0);
	uint64_t bytes = job->layout.heap_bytes - base;
	uint8_t *at = job->app + base;

	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE | MAP_FIXED, job->fds[0],
		 (off_t)(job->layout.heap + base)) == MAP_FAILED)
		return false;
	roami_os_dontfork(at, bytes);
	roami_os_dontdump(at, bytes);
	return true;
}

static enum roam_err apart_fails(struct roami_job *job, const char *what)
{
	char why[160];

	snprintf(why, sizeof(why), "no %s: %s", what, strerror(errno));
	return roami_stored_says(job, ROAM_ESYSTEM, why);
}

enum roam_err roami_stored_apart(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;

	roami_assert(!stored->apart && job->me == 0);
	if (stored->pagemap < 0)
		stored->pagemap =
			roami_os_fd(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
	roami_os_unmap(stored->sent, job->layout.pages);
	stored->sent = roami_os_reserve_sparse(job->layout.pages);
	if (stored->pagemap < 0)
		return apart_fails(job, "/proc/self/pagemap, which says what is written,");
	if (stored->sent == NULL || !apart_map(job, MAP_PRIVATE))
		return apart_fails(job, "the heap as a private mapping");
	stored->apart = true;
	return ROAM_OK;
}

static bool apart_written(uint64_t entry)
{
	return (entry & SWAPPED) != 0 || ((entry & PRESENT) != 0 && (entry & SHARED) == 0);
}

struct flush {
	struct roami_job *job;
	uint64_t pages; /* in the commit under way */
	size_t notes;   /* that there were when it began */
	bool any;
	bool splits; /* it need not be one commit */
	bool drops;  /* no other thread writes meanwhile */
};

/* A block is known before what refers to it; that it is free, behind that. */
static void flush_open(struct flush *flush)
{
	roami_stored_commit_open(flush->job);
	if (flush->splits)
		roami_stored_commit_notes(flush->job, 0);
}

/* A page that was written, perhaps before an earlier commit, and is perhaps being written. */
static void flush_page(struct flush *flush, uint32_t page)
{
	struct roami_job *job = flush->job;
	uint64_t at = (uint64_t)page * ROAMI_PAGE;
	uint8_t *kept = (uint8_t *)job->bases[0] + job->layout.heap + at, bytes[ROAMI_PAGE];

	if (job->stored->sent[page] != 0 && memcmp(kept, job->app + at, ROAMI_PAGE) == 0)
		return;
	if (flush->splits && flush->pages == SPLIT) {
		roami_stored_commit_end(job);
		flush->pages = 0;
	}
	if (flush->pages++ == 0)
		flush_open(flush);
	flush->any = true;
	memcpy(bytes, job->app + at, ROAMI_PAGE);
	roami_stored_commit_page(job, page, bytes);
	memcpy(kept, bytes, ROAMI_PAGE);
	job->stored->sent[page] = 1;
}

/* Of the pages [first, end), at most ENTRIES. */
static void read_map(const struct roami_job *job, uint32_t first, uint32_t end,
		     uint64_t map[ENTRIES])
{
	size_t bytes = (end - first) * sizeof(*map);
	uintptr_t at = (uintptr_t)job->app / ROAMI_PAGE + first;

	if (pread(job->stored->pagemap, map, bytes, (off_t)(at * sizeof(*map))) != (ssize_t)bytes)
		roami_node_fail(job->node, "the program has closed descriptors that roam had "
					   "opened, and needs for ROAM_STORE");
}

/* Pages [first, end), at most ENTRIES. */
static void flush_pages(struct flush *flush, uint32_t first, uint32_t end)
{
	struct roami_job *job = flush->job;
	uint64_t map[ENTRIES];
	bool any = false;

	read_map(job, first, end, map);
	for (uint32_t i = 0; i < end - first; i++) {
		if (!apart_written(map[i]))
			continue;
		flush_page(flush, first + i);
		any = true;
	}
	if (any && flush->drops)
		madvise(job->app + (uint64_t)first * ROAMI_PAGE,
			(size_t)(end - first) * ROAMI_PAGE, MADV_DONTNEED);
}

/* Whether memory of the part may be in use. */
static bool part_used(const struct roami_job *job, uint32_t part)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t at = roami_layout_base(&job->layout, 0) + part * pool->part;

	if (!job->leases && part >= job->stored->first && part < job->stored->end)
		return at < atomic_load(&job->high);
	return roami_heap_parts_look(pool, part).state != ROAMI_HEAP_PARTS_FREE;
}

bool roami_stored_much(struct roami_job *job)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t bytes = roami_stored_noted(job) * ROAMI_STORE_GRAIN;

	for (uint32_t part = 0; part < pool->count; part++)
		bytes += part_used(job, part) ? pool->part : 0;
	return bytes > ROAMI_STORE_COMMIT_MAX / 2;
}

bool roami_stored_flush(struct roami_job *job, bool splits, bool drops)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint32_t base = (uint32_t)(roami_layout_base(&job->layout, 0) / ROAMI_PAGE);
	uint32_t pages = (uint32_t)(pool->part / ROAMI_PAGE);
	struct flush flush = {.job = job, .splits = splits, .drops = drops};

	if (job->stored->mute)
		return false;
	flush.notes = roami_stored_noted(job);
	for (uint32_t part = 0; part < pool->count; part++) {
		uint32_t first = base + part * pages;

		for (uint32_t at = 0; part_used(job, part) && at < pages; at += ENTRIES) {
			uint32_t end = at + ENTRIES < pages ? at + ENTRIES : pages;

			flush_pages(&flush, first + at, first + end);
		}
	}
	if (flush.pages == 0 && roami_stored_noted(job) > 0)
		roami_stored_commit_open(job);
	else if (flush.pages == 0)
		return flush.any;
	roami_stored_commit_notes(job, flush.notes);
	roami_stored_commit_end(job);
	return flush.any;
}

enum roam_err roami_stored_together(struct roami_job *job)
{
	if (job->stored == NULL || !job->stored->apart)
		return ROAM_OK;
	roami_stored_flush(job, true, true);
	job->stored->apart = job->stored->mute = false;
	return apart_map(job, MAP_SHARED) ? ROAM_OK : ROAM_ESYSTEM;
}

static bool aside_pages(struct roami_job *job, struct roami_vec *pages)
{
	uint32_t page = job->layout.own_first;
	uint32_t all = (uint32_t)((atomic_load(&job->high) + ROAMI_PAGE - 1) / ROAMI_PAGE);
	uint64_t map[ENTRIES];

	for (uint32_t end; page < all; page = end) {
		end = all - page > ENTRIES ? page + ENTRIES : all;
		read_map(job, page, end, map);
		for (uint32_t i = 0; i < end - page; i++) {
			uint32_t *at = apart_written(map[i])
					       ? roami_os_vec_grow(pages, sizeof(*at), 1)
					       : NULL;

			if (at == NULL && apart_written(map[i]))
				return false;
			if (at == NULL)
				continue;
			*at = page + i;
			pages->count++;
		}
	}
	return true;
}

enum roam_err roami_stored_aside(struct roami_job *job, struct roami_stored_aside *aside)
{
	uint64_t base = roami_layout_base(&job->layout, 0);
	size_t bytes = job->layout.heap_bytes - base;
	uint8_t *at;

	if (job->stored == NULL || !job->stored->apart)
		return ROAM_OK;
	at = roami_os_reserve_sparse(bytes);
	if (at == NULL || !aside_pages(job, &aside->pages))
		return ROAM_ENOMEM;
	if (mremap(job->app + base, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
		return ROAM_ESYSTEM;
	aside->app = at - base; /* only what lies behind it is used */
	job->stored->apart = job->stored->mute = false;
	return ROAM_OK;
}

void roami_stored_aside_end(const struct roami_job *job, struct roami_stored_aside *aside)
{
	uint64_t base = roami_layout_base(&job->layout, 0);

	roami_os_unmap(aside->app + base, job->layout.heap_bytes - base);
	roami_os_vec_free(&aside->pages, sizeof(uint32_t));
	aside->app = NULL;
}
