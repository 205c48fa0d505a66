/* Blocks of the shared heap: allocating, freeing, placing. */
#include <stdio.h>
#include <string.h>

#include "boot/job.h"
#include "core/remote.h"

/* A remotely freed block whose free this node has acquired (RULES 3.2). */
static void job_take_back(void *arg, const struct roami_remote_free *block)
{
	struct roami_job *job = arg;

	if (roami_alloc_give(job->alloc, block->offset) != ROAM_OK)
		fprintf(stderr, "roam: node %u freed %#llx, which is not a block\n", block->freer,
			(unsigned long long)block->offset);
}

/* Before the nodes are known any that could come will do. */
static bool place_node_known(const struct roami_job *job, unsigned node)
{
	return node < (job->life == ROAMI_JOB_ALONE ? ROAMI_NODES_MAX : job->nodes);
}

/* Several threads of the node allocate. */
static void job_raise(struct roami_job *job, uint64_t end)
{
	uint64_t high = atomic_load(&job->high);

	while (high < end && !atomic_compare_exchange_weak(&job->high, &high, end))
		;
}

static void *job_alloc(struct roami_job *job, size_t bytes, enum roam_place place, unsigned node,
		       enum roam_err *err_p)
{
	uint64_t offset;
	uint32_t pages;
	bool fresh;

	*err_p = ROAM_EINVAL;
	if (place == ROAM_PLACE_NODE && !place_node_known(job, node))
		return NULL;
	roami_remote_free_drain(job->node, job_take_back, job);
	*err_p = roami_alloc_take(job->alloc, bytes, &offset, &fresh);
	if (*err_p != ROAM_OK)
		return NULL;
	job_raise(job, offset + bytes);
	ROAMI_COUNT(job->node->stats, allocs, 1);
	pages = (uint32_t)((bytes + ROAMI_PAGE - 1) / ROAMI_PAGE);
	if (bytes >= ROAMI_PAGE)
		*err_p = roami_job_place(job, (uint32_t)(offset / ROAMI_PAGE), pages, place, node);
	if (*err_p != ROAM_OK) {
		roami_alloc_give(job->alloc, offset);
		return NULL;
	}
	if (!fresh)
		memset(job->app + offset, 0, bytes);
	return job->app + offset;
}

/* The allocator of a started job changes when its nodes first synchronise. */
void *roami_job_alloc(struct roami_job *job, size_t bytes, enum roam_place place, unsigned node,
		      enum roam_err *err_p)
{
	void *block;

	if (__atomic_load_n(&job->life, __ATOMIC_ACQUIRE) != ROAMI_JOB_JOINED)
		return job_alloc(job, bytes, place, node, err_p);
	pthread_mutex_lock(&job->seal);
	block = job_alloc(job, bytes, place, node, err_p);
	pthread_mutex_unlock(&job->seal);
	return block;
}

static enum roam_err job_free(struct roami_job *job, void *block)
{
	uint64_t offset = (uint64_t)((uint8_t *)block - job->app), first, end;

	if ((uint8_t *)block < job->app || offset >= job->layout.heap_bytes)
		return ROAM_ENOTOURS;
	ROAMI_COUNT(job->node->stats, frees, 1);
	/*
	 * Before the seal of a launched job every node allocates and frees the same blocks by
	 * itself.
	 */
	for (unsigned owner = 0; owner < job->nodes && job->life != ROAMI_JOB_JOINED; owner++) {
		roami_job_slice(job, owner, &first, &end);
		if (owner != job->me && offset >= first && offset < end) {
			roami_remote_free_send(job->node, owner, offset);
			return ROAM_OK;
		}
	}
	/* Of a node of an ended round: its allocator went with it.  The range is not used again. */
	if (offset >= job->layout.heap_bytes / 2 && offset < job->upper_first && offset % 64 == 0)
		return ROAM_OK;
	return roami_alloc_give(job->alloc, offset);
}

enum roam_err roami_job_free(struct roami_job *job, void *block)
{
	enum roam_err err;

	if (__atomic_load_n(&job->life, __ATOMIC_ACQUIRE) != ROAMI_JOB_JOINED)
		return job_free(job, block);
	pthread_mutex_lock(&job->seal);
	err = job_free(job, block);
	pthread_mutex_unlock(&job->seal);
	return err;
}

/* -------------------------------------------------------------------------------------- blocks */

/* A home for one page that has none: the word of its manager, which may be anywhere. */
static void place_page(struct roami_job *job, uint32_t page, unsigned home)
{
	struct roami_segment manager;

	roami_segment_point(&manager, &job->layout, job->bases[page / 512 % job->nodes]);
	if (atomic_load(&manager.directory[page]) == ROAMI_WORD_CREATOR)
		atomic_store(&manager.directory[page], ROAMI_WORD_ASSIGNED | home);
}

static void mark_block(struct roami_job *job, uint32_t page)
{
	struct roami_segment manager;

	roami_segment_point(&manager, &job->layout, job->bases[page / 512 % job->nodes]);
	atomic_fetch_or(&manager.headers[page].where, ROAMI_HEADER_BLOCK);
}

enum roam_err roami_job_place(struct roami_job *job, uint32_t page, uint32_t pages,
			      enum roam_place place, unsigned node)
{
	struct roami_job_block *block;

	if (place == ROAM_PLACE_NODE && !place_node_known(job, node))
		return ROAM_EINVAL;
	if (job->life == ROAMI_JOB_ALONE && job->nodes == 1) {
		block = roami_os_vec_grow(&job->blocks, sizeof(*block), 1);
		if (block == NULL)
			return ROAM_ENOMEM;
		*block = (struct roami_job_block){page, pages, (uint32_t)place, node};
		job->blocks.count++;
		return ROAM_OK;
	}
	mark_block(job, page);
	if (place == ROAM_PLACE_FIRST_TOUCH)
		return ROAM_OK;
	for (uint32_t i = 0; i < pages; i++) {
		unsigned home = node;

		if (place == ROAM_PLACE_BLOCK)
			home = (unsigned)((uint64_t)i * job->nodes / pages);
		if (place == ROAM_PLACE_CYCLIC)
			home = i % job->nodes;
		place_page(job, page + i, home % job->nodes);
	}
	return ROAM_OK;
}
