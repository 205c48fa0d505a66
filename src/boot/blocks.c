/* Blocks of the shared heap: allocating, freeing, placing. */
#include <stdio.h>
#include <string.h>

#include "boot/job.h"
#include "core/log.h"
#include "core/remote.h"

static struct roami_pool *job_pool(struct roami_job *job)
{
	return (void *)((uint8_t *)job->bases[0] + job->layout.pool);
}

static void pool_lock(struct roami_job *job)
{
	roami_spin_lock(job->node, (struct roami_spin *)(void *)&job_pool(job)->lock);
}

static void pool_unlock(struct roami_job *job)
{
	roami_spin_unlock((struct roami_spin *)(void *)&job_pool(job)->lock);
}

/* Others must have acquired what is freed now; with one node there is nobody to. */
static uint32_t job_free_interval(struct roami_job *job)
{
	return job->life == ROAMI_JOB_TOGETHER ? roami_free_interval(job->node) : 0;
}

static bool pool_take(struct roami_job *job, uint32_t parts, bool block, uint64_t *offset_p,
		      bool *used_p)
{
	struct roami_pool *pool = job_pool(job);
	struct roami_vclock clock;
	uint32_t first;
	bool ok;

	roami_log_reuse_clock(job->node, &clock);
	pool_lock(job);
	ok = roami_pool_take(pool, parts, block, job->me, &clock, &first, used_p);
	pool_unlock(job);
	*offset_p = ok ? first * pool->part : 0;
	return ok;
}

/* After `freed` was given back: free parts of this node's go back to all. */
static void pool_return(struct roami_job *job, uint64_t freed)
{
	struct roami_pool *pool = job_pool(job);
	uint64_t offset, bytes;
	bool used;

	while (job->leases &&
	       roami_alloc_reclaim(job->alloc, freed, pool->part, &offset, &bytes, &used)) {
		uint32_t interval = job_free_interval(job);

		pool_lock(job);
		roami_pool_put(pool, (uint32_t)(offset / pool->part),
			       (uint32_t)(bytes / pool->part), used, job->me, interval);
		pool_unlock(job);
	}
}

enum roam_err roami_job_lease(struct roami_job *job)
{
	struct roami_pool *pool = job_pool(job);
	uint64_t end;
	enum roam_err err;

	if (job->leases)
		return ROAM_OK;
	err = roami_alloc_cut(job->alloc, pool->part, job->me == 0, &end);
	if (err == ROAM_OK && job->me == 0) {
		uint32_t parts = (uint32_t)((end + pool->part - 1) / pool->part);

		roami_pool_begin(pool, parts < pool->count ? parts : pool->count, 0);
	}
	job->leases = err == ROAM_OK;
	return err;
}

/* From this node's leases, or, what is large, from the pool itself. */
static enum roam_err job_take(struct roami_job *job, size_t bytes, uint64_t *offset_p,
			      bool *fresh_p)
{
	struct roami_pool *pool = job_pool(job);
	uint64_t parts = bytes / pool->part + (bytes % pool->part != 0), offset;
	enum roam_err err = ROAM_ENOMEM;
	bool used;

	if (job->leases && parts > pool->count)
		return ROAM_ENOMEM;
	if (job->leases && parts >= ROAMI_POOL_LARGE) {
		if (!pool_take(job, (uint32_t)parts, true, offset_p, &used))
			return ROAM_ENOMEM;
		*fresh_p = !used;
		return ROAM_OK;
	}
	for (;;) {
		err = roami_alloc_take(job->alloc, bytes, offset_p, fresh_p);
		if (err != ROAM_ENOMEM || !job->leases ||
		    !pool_take(job, (uint32_t)parts, false, &offset, &used))
			return err;
		err = roami_alloc_lend(job->alloc, offset, parts * pool->part, pool->part, used);
		if (err != ROAM_OK)
			return err;
	}
}

/* A remotely freed block whose free this node has acquired (RULES 3.2). */
static void job_take_back(void *arg, const struct roami_remote_free *block)
{
	struct roami_job *job = arg;

	if (roami_alloc_give(job->alloc, block->offset) == ROAM_OK)
		pool_return(job, block->offset);
	else
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
	*err_p = job_take(job, bytes, &offset, &fresh);
	if (*err_p != ROAM_OK)
		return NULL;
	job_raise(job, offset + bytes);
	ROAMI_COUNT(job->node->stats, allocs, 1);
	pages = (uint32_t)((bytes + ROAMI_PAGE - 1) / ROAMI_PAGE);
	if (bytes >= ROAMI_PAGE)
		*err_p = roami_job_place(job, (uint32_t)(offset / ROAMI_PAGE), pages, place, node);
	if (*err_p != ROAM_OK) {
		roami_job_free(job, job->app + offset);
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

/* A block that lies in a lease: of this node, of another one, or of one of an ended round. */
static enum roam_err free_leased(struct roami_job *job, unsigned owner, uint64_t offset)
{
	enum roam_err err;

	if (owner == ROAMI_POOL_NOBODY) /* its allocator went with it; the range is lost */
		return offset % 64 == 0 ? ROAM_OK : ROAM_ENOTOURS;
	if (owner != job->me) {
		roami_remote_free_send(job->node, owner, offset);
		return ROAM_OK;
	}
	err = roami_alloc_give(job->alloc, offset);
	if (err == ROAM_OK)
		pool_return(job, offset);
	return err;
}

static enum roam_err free_large(struct roami_job *job, uint64_t offset)
{
	struct roami_pool *pool = job_pool(job);
	uint32_t interval = job_free_interval(job);
	bool freed = false;

	pool_lock(job);
	if (offset % pool->part == 0)
		freed = roami_pool_free(pool, (uint32_t)(offset / pool->part), job->me, interval);
	pool_unlock(job);
	return freed ? ROAM_OK : ROAM_ENOTOURS;
}

static enum roam_err job_free(struct roami_job *job, void *block)
{
	uint64_t offset = (uint64_t)((uint8_t *)block - job->app);
	struct roami_pool *pool = job_pool(job);
	struct roami_pool_part part;
	uint32_t index;

	if ((uint8_t *)block < job->app || offset >= job->layout.heap_bytes)
		return ROAM_ENOTOURS;
	ROAMI_COUNT(job->node->stats, frees, 1);
	roami_remote_free_drain(job->node, job_take_back, job);
	/*
	 * Before the seal of a launched job every node allocates and frees the same blocks by
	 * itself.
	 */
	if (!job->leases)
		return roami_alloc_give(job->alloc, offset);
	index = (uint32_t)(offset / pool->part);
	if (index >= pool->count) /* less than a part at the end, handed out before the seal */
		return free_leased(job, 0, offset);
	part = roami_pool_look(pool, index);
	if (part.state == ROAMI_POOL_LEASED)
		return free_leased(job, part.node, offset);
	return free_large(job, offset);
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

	roami_segment_point(&manager, &job->layout,
			    job->bases[roami_page_manager(page, job->nodes)]);
	if (atomic_load(&manager.directory[page]) == ROAMI_WORD_CREATOR)
		atomic_store(&manager.directory[page], ROAMI_WORD_ASSIGNED | home);
}

static void mark_block(struct roami_job *job, uint32_t page)
{
	struct roami_segment manager;

	roami_segment_point(&manager, &job->layout,
			    job->bases[roami_page_manager(page, job->nodes)]);
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
