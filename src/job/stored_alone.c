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
	bool any;
	bool splits; /* it need not be one commit */
	bool drops;  /* no other thread writes meanwhile */
};

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
		roami_stored_commit_begin(job);
	flush->any = true;
	memcpy(bytes, job->app + at, ROAMI_PAGE);
	roami_stored_commit_page(job, page, bytes);
	memcpy(kept, bytes, ROAMI_PAGE);
	job->stored->sent[page] = 1;
}

/* Pages [first, end), at most ENTRIES. */
static void flush_pages(struct flush *flush, uint32_t first, uint32_t end)
{
	struct roami_job *job = flush->job;
	uint64_t map[ENTRIES];
	size_t bytes = (end - first) * sizeof(*map);
	uint8_t *at = job->app + (uint64_t)first * ROAMI_PAGE;
	bool any = false;

	if (pread(job->stored->pagemap, map, bytes, (off_t)((uintptr_t)at / ROAMI_PAGE * 8)) !=
	    (ssize_t)bytes)
		roami_node_fail(job->node, "the program has closed descriptors that roam had "
					   "opened, and needs for ROAM_STORE");
	for (uint32_t i = 0; i < end - first; i++) {
		if (!apart_written(map[i]))
			continue;
		flush_page(flush, first + i);
		any = true;
	}
	if (any && flush->drops)
		madvise(at, (size_t)(end - first) * ROAMI_PAGE, MADV_DONTNEED);
}

/* Whether memory of the part may be in use. */
static bool part_used(const struct roami_job *job, uint32_t part)
{
	return job->stored->own[part] != ROAMI_HEAP_PARTS_FREE ||
	       roami_heap_parts_look(roami_job_pool(job, 0), part).state != ROAMI_HEAP_PARTS_FREE;
}

uint64_t roami_stored_used(const struct roami_job *job)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t bytes = 0;

	for (uint32_t part = 0; part < pool->count; part++)
		bytes += part_used(job, part) ? pool->part : 0;
	return bytes;
}

bool roami_stored_flush(struct roami_job *job, bool splits, bool drops)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint32_t base = (uint32_t)(roami_layout_base(&job->layout, 0) / ROAMI_PAGE);
	uint32_t pages = (uint32_t)(pool->part / ROAMI_PAGE);
	struct flush flush = {job, 0, false, splits, drops};

	for (uint32_t part = 0; part < pool->count; part++) {
		uint32_t first = base + part * pages;

		for (uint32_t at = 0; part_used(job, part) && at < pages; at += ENTRIES) {
			uint32_t end = at + ENTRIES < pages ? at + ENTRIES : pages;

			flush_pages(&flush, first + at, first + end);
		}
	}
	if (flush.pages > 0)
		roami_stored_commit_end(job);
	return flush.any;
}

enum roam_err roami_stored_together(struct roami_job *job)
{
	if (job->stored == NULL || !job->stored->apart)
		return ROAM_OK;
	roami_stored_flush(job, true, true);
	job->stored->apart = false;
	return apart_map(job, MAP_SHARED) ? ROAM_OK : ROAM_ESYSTEM;
}
