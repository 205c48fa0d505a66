/*
 * Memory of large blocks, where all nodes have one heap.  Otherwise each node would take a fault
 * for every page that it touches, and the kernel takes longer to make shared memory, and to take it
 * back, than private memory.  So a new large block gets its memory when it is allocated, in runs of
 * huge pages.  If the kernel has no huge pages, or they come slowly, or little memory is free, the
 * rest of the memory comes by faults; on a machine with several NUMA domains all of it does, so
 * that pages are near to the nodes that touch them first.
 */
#include "job/job.h"
#include "os/os.h"

#define FILL_LEAST ((uint64_t)1 << 20) /* bytes of a block */
#define FILL_RUN   (16 * ROAMI_OS_HUGE) /* per call, as each interrupts all CPUs for a moment */
#define FILL_PART  4u /* all that is filled is at most this part of the free memory */

/*
 * The time that filling may take: this much for each huge page, plus a slack for all of them.  512
 * small pages take about a millisecond.
 */
#define FILL_EACH_NS  500000u
#define FILL_SLACK_NS 5000000u

/* Whether the heap stays in node 0's segment, and enough memory is free for the block. */
static bool fill_may(struct roami_job *job, uint64_t bytes)
{
	uint64_t had = atomic_load(&job->filled), room;

	if (!roami_one_heap(job->node) || bytes < FILL_LEAST || job->fills_not ||
	    (job->life == ROAMI_JOB_ALONE && job->boot.me != 0))
		return false;
	if (had == 0 && roami_os_numa()) {
		job->fills_not = true;
		return false;
	}
	room = (roami_os_memory_free() + had) / (FILL_PART * job->nodes);
	return had + bytes <= room;
}

void roami_job_fill(struct roami_job *job, uint64_t offset, uint64_t bytes)
{
	uint8_t *at = roami_os_huge_round(job->app + offset);
	uint8_t *end = roami_os_huge_round(job->app + offset + bytes + ROAMI_OS_HUGE - 1);
	uint64_t begin, limit = FILL_SLACK_NS;

	if (!fill_may(job, bytes))
		return;
	atomic_fetch_add(&job->filled, bytes);
	begin = roami_os_now_ns();
	while (at < end && roami_os_now_ns() - begin < limit) {
		size_t some = (size_t)(end - at) < FILL_RUN ? (size_t)(end - at) : FILL_RUN;

		if (at < job->app || at + some > job->app + job->layout.heap_bytes)
			return;
		if (!roami_os_huge_make(at, some)) {
			job->fills_not = true;
			return;
		}
		limit += some / ROAMI_OS_HUGE * FILL_EACH_NS;
		at += some;
	}
}
