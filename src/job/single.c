/*
 * A process that is alone needs no segment of its own behind every page of its app view.  In a job
 * that stays at one node, what its blocks have not touched yet becomes anonymous memory, which
 * costs less to touch and to give back; after nodes have ended, their pages stay in their memory
 * (collect.c).  If nodes are created after all, the bytes return to the segment first.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "job/job.h"

struct single_range {
	uint64_t first;
	uint64_t end;
	bool anonymous; /* over a hole of the segment; else the segment may have old bytes */
};

size_t roami_single_count(const struct roami_job *job)
{
	return job->single.count;
}

void roami_single_range(const struct roami_job *job, size_t i, uint64_t *first_p, uint64_t *end_p)
{
	const struct single_range *ranges = (const void *)job->single.items;

	roami_assert(i < job->single.count);
	*first_p = ranges[i].first;
	*end_p = ranges[i].end;
}

bool roami_single_take(struct roami_job *job, uint64_t first, uint64_t end, int fd)
{
	struct single_range *range = roami_os_vec_grow(&job->single, sizeof(*range), 1);
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	roami_assert(first < end && (first | end) % ROAMI_PAGE == 0);
	off_t offset = fd < 0 ? 0 : (off_t)(job->layout.heap + first);

	if (range == NULL || mmap(job->app + first, end - first, PROT_READ | PROT_WRITE,
				  flags | MAP_NORESERVE | MAP_FIXED, fd, offset) == MAP_FAILED)
		return false;
	roami_os_dontfork(job->app + first, end - first);
	if (fd >= 0)
		roami_os_dontdump(job->app + first, end - first);
	*range = (struct single_range){first, end, fd < 0};
	job->single.count++;
	return true;
}

void roami_single_begin(struct roami_job *job)
{
	uint64_t heap = job->layout.heap, at = roami_layout_base(&job->layout, 0) + ROAMI_PAGE;
	uint64_t high = (job->high + ROAMI_PAGE - 1) & ~(uint64_t)(ROAMI_PAGE - 1);

	roami_assert(job->life == ROAMI_JOB_ALONE);
	if (job->single.count > 0 || job->stored != NULL)
		return;
	while (at < high) {
		off_t hole = lseek(job->fds[0], (off_t)(heap + at), SEEK_HOLE), data;
		uint64_t first, end;

		if (hole < 0 || (uint64_t)hole - heap >= high)
			return;
		first = (uint64_t)hole - heap;
		data = lseek(job->fds[0], hole, SEEK_DATA);
		end = data < 0 || (uint64_t)data - heap > high ? high : (uint64_t)data - heap;
		if (!roami_single_take(job, first, end, -1))
			return;
		at = end;
	}
}

/* Copies the pages; anonymous ones never touched read as zero and stay holes. */
static void single_return(struct roami_job *job, const struct single_range *range)
{
	static const uint8_t zero[ROAM_PAGE_SIZE];
	uint8_t *segment = (uint8_t *)job->bases[0] + job->layout.heap;

	for (uint64_t at = range->first; at < range->end; at += ROAMI_PAGE)
		if (!range->anonymous || memcmp(job->app + at, zero, ROAMI_PAGE) != 0)
			memcpy(segment + at, job->app + at, ROAMI_PAGE);
}

enum roam_err roami_single_end(struct roami_job *job)
{
	struct single_range *ranges = (void *)job->single.items;

	for (size_t i = 0; i < job->single.count; i++) {
		size_t bytes = ranges[i].end - ranges[i].first;
		uint8_t *at = job->app + ranges[i].first;

		single_return(job, &ranges[i]);
		if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
			 job->fds[0], (off_t)(job->layout.heap + ranges[i].first)) == MAP_FAILED)
			return ROAM_ESYSTEM;
		roami_os_dontfork(at, bytes);
		roami_os_dontdump(at, bytes);
	}
	roami_os_vec_free(&job->single, sizeof(*ranges));
	return ROAM_OK;
}
