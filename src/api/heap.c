/* The public API of the heap: blocks, and pages that a program brings or places. */
#include <stdlib.h>

#include "api/api.h"
#include "job/job.h"
#include "page/page.h"
#include "roam/roam.h"
#include "sync/tx.h"

static struct roami_job *const job = &roami_api_job;
static __thread enum roam_err alloc_err;

/*
 * The reason why roam does not start was printed; a program that does not check for NULL would
 * crash after that line, so it ends here.
 */
static void *job_alloc_unready(void)
{
	if (job->life != ROAMI_JOB_NEW)
		return NULL;
	roami_inside_leave();
	exit(EXIT_FAILURE);
}

/* In a transaction, which may be doomed: the allocators are not left in the middle. */
static void *alloc_transacts(size_t bytes, const struct roam_region *region, const void *from)
{
	void *block = NULL;

	if ((job->options.check & ROAMI_CHECK_HEAP) != 0) {
		alloc_err = ROAM_EUNSUPPORTED;
		return NULL;
	}
	roami_tx_hold(job->node);
	block = roami_guard_alloc(job, bytes, region, from, &alloc_err);
	return roami_api_tx_allocated(block, from);
}

void *roami_api_alloc(size_t bytes, const struct roam_region *region, const void *from)
{
	static const struct roam_region plain = {.place = ROAM_PLACE_FIRST_TOUCH};
	void *block = NULL;

	roami_assert(roami_inside.call != NULL);
	if (region == NULL)
		region = &plain;
	alloc_err = roami_api_begin();
	if (alloc_err != ROAM_OK)
		return job_alloc_unready();
	if (bytes == 0 || (unsigned)region->place > ROAM_PLACE_NODE)
		alloc_err = ROAM_EINVAL;
	else if (roami_api_transacts())
		block = alloc_transacts(bytes, region, from);
	else
		block = roami_guard_alloc(job, bytes, region, from, &alloc_err);
	return block;
}

void *roam_alloc_region(size_t bytes, const struct roam_region *region)
{
	INSIDE;

	return roami_api_alloc(bytes, region, CALLER);
}

void *roam_alloc_placed(size_t bytes, enum roam_place place, unsigned node, const char *name)
{
	INSIDE;
	const struct roam_region region = {.place = place, .node = node, .name = name};

	return roami_api_alloc(bytes, &region, CALLER);
}

void *roam_alloc(size_t bytes)
{
	INSIDE;

	return roami_api_alloc(bytes, NULL, CALLER);
}

enum roam_err roam_errno(void)
{
	return alloc_err;
}

/* No heap: not yet, or no more. */
static enum roam_err heap_missing(void)
{
	return job->life == ROAMI_JOB_OVER ? ROAM_ESTATE : ROAM_ENOTOURS;
}

enum roam_err roami_api_free(void *block, const void *from)
{
	roami_assert(roami_inside.call != NULL);
	if (block == NULL)
		return ROAM_OK;
	if (job->node == NULL)
		return heap_missing();
	if (!roami_api_transacts() || tx_calls_of(job->node)->now)
		return roami_guard_free(job, block, from);
	return roami_api_shared(block, 1) ? roami_api_tx_free(block, from) : ROAM_ENOTOURS;
}

void roami_api_free_now(void *block)
{
	roami_guard_free(job, block, NULL);
}

enum roam_err roam_free(void *block)
{
	INSIDE;
	enum roam_err err = roami_api_free(block, CALLER);

	return err != ROAM_ENOTOURS
		       ? err
		       : roami_misused(roami_api_node_now(), ROAMI_MISUSE_FREE, err, __func__,
				       block, __builtin_return_address(0));
}

/* The pages of [addr, addr + bytes); false if it is not in the heap. */
static bool heap_pages(const void *addr, size_t bytes, uint32_t *first_p, uint32_t *count_p)
{
	uint64_t offset = (uint64_t)((const uint8_t *)addr - job->app);

	if (job->app == NULL || bytes == 0)
		return false;
	if (((const uint8_t *)addr < job->app || offset >= job->layout.heap_bytes ||
	     bytes > job->layout.heap_bytes - offset) &&
	    !roami_shared_offset(job, addr, bytes, &offset))
		return false;
	*first_p = (uint32_t)(offset / ROAMI_PAGE);
	*count_p = (uint32_t)((offset + bytes - 1) / ROAMI_PAGE) - *first_p + 1;
	return true;
}

/*
 * Whether pages come to this node, so that it can be told which to bring: a node that is alone has
 * them all, and no memory for twins.
 */
static bool heap_comes(void)
{
	return (job->life == ROAMI_JOB_TOGETHER || job->life == ROAMI_JOB_JOINED) &&
	       job->node->nodes > 1 && !roami_one_heap(job->node);
}

enum roam_err roam_touch(const void *addr, size_t bytes, enum roam_access access)
{
	INSIDE;
	uint32_t first, count;

	if (job->life == ROAMI_JOB_OVER)
		return ROAM_ESTATE;
	if (bytes == 0 || access == ROAM_NONE)
		return ROAM_OK;
	if (!heap_pages(addr, bytes, &first, &count))
		return ROAM_ENOTOURS;
	if (!heap_comes())
		return ROAM_OK;
	for (uint32_t page = first; page < first + count; page++)
		while (roami_page_access(job->node, page) < access)
			roami_fault(job->node, page, access == ROAM_WRITE, true);
	return ROAM_OK;
}

bool roami_api_shared(const void *addr, size_t bytes)
{
	uint32_t first, count;

	return !roami_api_over() && heap_pages(addr, bytes, &first, &count);
}

void roam_prefetch(const void *addr, size_t bytes)
{
	INSIDE;
	uint32_t first, count;

	if (!heap_comes())
		return;
	if (!heap_pages(addr, bytes, &first, &count))
		return;
	roami_prefetch(job->node, first, count);
}

enum roam_err roam_home(const void *addr, size_t bytes, unsigned node)
{
	INSIDE;
	uint32_t first, count;

	if (job->node == NULL)
		return heap_missing();
	if (!heap_pages(addr, bytes, &first, &count))
		return ROAM_ENOTOURS;
	return roami_job_place(job,
			       &(struct roami_placement){first, count, ROAM_PLACE_NODE, node, 0});
}

void roami_api_errno(enum roam_err err)
{
	alloc_err = err;
}
