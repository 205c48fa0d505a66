/*
 * The end of a job of forked nodes: their pages return to the creator (RULES 2.2).
 *
 * Long runs of one owner's pages are not copied.  The owner's memory takes their place in the
 * creator's app view, where it stays until nodes are created again (lone.c brings the bytes back
 * then).  Short ones are copied: every run mapped is a mapping of the process.
 */
#include <string.h>
#include <sys/mman.h>

#include "boot/job.h"
#include "core/remote.h"

#define RUN_MAPPED 16u   /* pages; shorter runs are copied */
#define RUNS_MAX   8192u /* mapped at most: vm.max_map_count is 65530 */

/* Whose bytes of `page` are the right ones: its home's, or the creator's if it has none. */
static unsigned settle_owner(const struct roami_job *job, uint32_t page)
{
	const struct roami_node *node = job->node;
	uint64_t word = atomic_load(&node->segments[roami_manager(node, page)].directory[page]);

	if ((word & ROAMI_WORD_STATE) != ROAMI_WORD_READY || (word & 0xffffu) >= job->nodes)
		return 0;
	return (unsigned)(word & 0xffffu);
}

/* The end of the run of pages from `first` with the same owner. */
static uint32_t settle_run(const struct roami_job *job, uint32_t first, uint32_t end,
			   unsigned *owner_p)
{
	uint32_t at = first + 1;

	*owner_p = settle_owner(job, first);
	while (at < end && settle_owner(job, at) == *owner_p)
		at++;
	return at;
}

/* Calls `each` with all runs of allocated pages. */
static void settle_walk(struct roami_job *job, void (*each)(struct roami_job *job, unsigned owner,
							    uint32_t first, uint32_t end))
{
	for (unsigned node = 0; node < job->nodes; node++) {
		const struct roami_ctl *ctl = job->bases[node];
		uint64_t first, limit, end = atomic_load(&ctl->slice_end);
		uint32_t at;

		roami_job_slice(job, node, &first, &limit);
		at = (uint32_t)(first / ROAMI_PAGE);
		while (at < end / ROAMI_PAGE) {
			unsigned owner;
			uint32_t next = settle_run(job, at, (uint32_t)(end / ROAMI_PAGE), &owner);

			each(job, owner, at, next);
			at = next;
		}
	}
}

/* The bytes of this process's own segment in the pages [first, end). */
static uint8_t *settle_own(const struct roami_job *job, uint32_t first)
{
	return (uint8_t *)job->bases[job->me] + job->layout.heap + (size_t)first * ROAMI_PAGE;
}

static void settle_take(struct roami_job *job, unsigned owner, uint32_t first, uint32_t end)
{
	uint64_t at = (uint64_t)first * ROAMI_PAGE, bytes = (uint64_t)(end - first) * ROAMI_PAGE;

	if (owner == 0)
		return;
	if (end - first >= RUN_MAPPED && job->lone.count < RUNS_MAX) {
		/* What is left here are copies; lone.c takes holes for zeroes. */
		roami_os_discard(settle_own(job, first), bytes);
		if (roami_lone_take(job, at, at + bytes, job->fds[owner]))
			return;
	}
	memcpy(settle_own(job, first), (uint8_t *)job->bases[owner] + job->layout.heap + at, bytes);
}

void roami_settle_take(struct roami_job *job)
{
	for (unsigned node = 1; node < job->nodes; node++) {
		const struct roami_ctl *ctl = job->bases[node];

		if (atomic_load(&ctl->slice_end) > job->upper_used)
			job->upper_used = atomic_load(&ctl->slice_end);
	}
	if (job->node->protocol->settle == NULL)
		settle_walk(job, settle_take);
}

static void settle_drop(struct roami_job *job, unsigned owner, uint32_t first, uint32_t end)
{
	if (owner != job->me)
		roami_os_discard(settle_own(job, first), (uint64_t)(end - first) * ROAMI_PAGE);
}

void roami_settle_leave(struct roami_job *job)
{
	if (job->node->protocol->settle == NULL)
		settle_walk(job, settle_drop);
}
