/* Blocks of the shared heap: allocating, freeing, placing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/marks.h"
#include "home/remote.h"
#include "job/job.h"
#include "sync/frees.h"
#include "sync/log.h"
#include "sync/sync.h"

/* How a region is cut into parts; node 0's segment also records which node has which part. */
struct roami_heap_parts *roami_job_pool(const struct roami_job *job, unsigned number)
{
	unsigned node = job->bases[0] != NULL ? 0 : job->me;
	struct roami_heap_parts *pools = (void *)((uint8_t *)job->bases[node] + job->layout.pool);

	return &pools[number];
}

/* The heap offset of a part of a region. */
static uint64_t pool_offset(const struct roami_job *job, unsigned number, uint32_t part)
{
	return roami_layout_base(&job->layout, number) + part * roami_job_pool(job, number)->part;
}

static uint32_t pool_index(const struct roami_job *job, unsigned number, uint64_t offset)
{
	return (uint32_t)((offset - roami_layout_base(&job->layout, number)) /
			  roami_job_pool(job, number)->part);
}

static unsigned job_region(const struct roami_job *job, uint64_t offset)
{
	return roami_layout_region(&job->layout, (uint32_t)(offset / ROAMI_PAGE));
}

/* The interval that a node must have acquired before it reuses a block freed now; alone: 0. */
static uint64_t job_free_interval(struct roami_job *job, uint64_t offset)
{
	return job->life == ROAMI_JOB_TOGETHER ? roami_free_interval(job->node, offset) : 0;
}

static bool pool_take(struct roami_job *job, unsigned number, uint32_t parts, bool block,
		      uint64_t *offset_p, bool *used_p)
{
	struct roami_vclock clock;
	uint32_t first;
	bool ok;

	roami_log_reuse_clock(job->node, &clock);
	ok = roami_parts_take(job->node, number, parts, block, &clock, &first, used_p);
	*offset_p = ok ? pool_offset(job, number, first) : 0;
	return ok;
}

/* Returns free parts of this node to the pool, after `freed` was given back. */
static void pool_return(struct roami_job *job, unsigned number, uint64_t freed)
{
	struct roami_heap_parts *pool = roami_job_pool(job, number);
	uint64_t offset, bytes;
	bool used;

	while (job->leases && roami_alloc_reclaim(job->allocs[number], freed, pool->part, &offset,
						  &bytes, &used)) {
		uint64_t interval = job_free_interval(job, offset);

		roami_stored_tell(job);
		roami_parts_put(job->node, number, pool_index(job, number, offset),
				(uint32_t)(bytes / pool->part), used, interval);
	}
}

/* ---------------------------------------------------------------------------------- allocators */

static enum roam_err alloc_open(struct roami_job *job, unsigned number,
				struct roami_alloc **alloc_p)
{
	uint64_t base = roami_layout_base(&job->layout, number);
	uint64_t end = base + roami_layout_bytes(&job->layout, number);

	/* A heap without regions hands out nothing at its very start. */
	return roami_alloc_open(alloc_p, base == 0 && number == 0 ? ROAMI_PAGE : base, end,
				job->options.alloc == ROAMI_ALLOC_OWN);
}

static unsigned alloc_count(const struct roami_job *job)
{
	return job->allocs != NULL ? 1 + job->layout.regions : 0;
}

enum roam_err roami_job_open_alloc(struct roami_job *job)
{
	if (job->allocs == NULL)
		job->allocs = calloc(1 + job->layout.regions, sizeof(*job->allocs));
	if (job->allocs == NULL)
		return ROAM_ENOMEM;
	job->leases = false;
	return alloc_open(job, 0, &job->allocs[0]);
}

void roami_job_close_allocs(struct roami_job *job)
{
	for (unsigned i = 0; i < alloc_count(job); i++) {
		roami_alloc_close(job->allocs[i]);
		job->allocs[i] = NULL;
	}
}

void roami_job_seal_allocs(struct roami_job *job)
{
	for (unsigned i = 0; i < alloc_count(job); i++)
		if (job->allocs[i] != NULL)
			roami_alloc_seal(job->allocs[i]);
}

uint64_t roami_job_hash_allocs(struct roami_job *job)
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < alloc_count(job); i++)
		if (job->allocs[i] != NULL)
			hash = hash * 31 + i + roami_alloc_hash(job->allocs[i]);
	return hash;
}

/* The parts that node 0 handed out in the region before there were leases stay its own. */
static enum roam_err region_lease(struct roami_job *job, unsigned number)
{
	struct roami_heap_parts *pool = roami_job_pool(job, number);
	uint64_t base = roami_layout_base(&job->layout, number), end;
	enum roam_err err = roami_alloc_cut(job->allocs[number], pool->part, job->me == 0, &end);
	uint64_t parts = (end - base + pool->part - 1) / pool->part;
	uint32_t first = job->stored != NULL ? job->stored->first : 0;

	parts = parts < pool->count ? parts : pool->count;
	if (err == ROAM_OK && job->me == 0 && parts > first)
		roami_heap_parts_begin(pool, first, (uint32_t)parts - first, 0);
	return err;
}

enum roam_err roami_job_lease_first(struct roami_job *job)
{
	uint64_t end;
	enum roam_err err = roami_alloc_cut(job->allocs[0], roami_job_pool(job, 0)->part, false,
					    &end);

	roami_alloc_seal(job->allocs[0]);
	job->leases = err == ROAM_OK;
	return err;
}

enum roam_err roami_job_lease(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	if (job->leases)
		return ROAM_OK;
	for (unsigned i = 0; i < alloc_count(job) && err == ROAM_OK; i++)
		if (job->allocs[i] != NULL)
			err = region_lease(job, i);
	job->leases = err == ROAM_OK;
	return err;
}

/* The allocator of a region, opened when it is first needed. */
static enum roam_err region_open(struct roami_job *job, unsigned number)
{
	struct roami_alloc *alloc;
	enum roam_err err;
	uint64_t end;

	err = alloc_open(job, number, &alloc);
	if (err == ROAM_OK && job->leases) {
		err = roami_alloc_cut(alloc, roami_job_pool(job, number)->part, false, &end);
		roami_alloc_seal(alloc);
	}
	if (err == ROAM_OK)
		__atomic_store_n(&job->allocs[number], alloc, __ATOMIC_RELEASE);
	return err;
}

static enum roam_err region_ready(struct roami_job *job, unsigned number)
{
	enum roam_err err = ROAM_OK;

	if (__atomic_load_n(&job->allocs[number], __ATOMIC_ACQUIRE) != NULL)
		return ROAM_OK;
	pthread_mutex_lock(&job->opening);
	if (job->allocs[number] == NULL)
		err = region_open(job, number);
	pthread_mutex_unlock(&job->opening);
	return err;
}

/*
 * Whether a block that was handed out before there are leases lies below those of an earlier job;
 * if not, it is given back.
 */
static bool stored_fits(struct roami_job *job, struct roami_alloc *alloc, uint64_t offset,
			size_t bytes)
{
	if (job->stored == NULL || job->leases || offset + bytes <= roami_stored_ends(job))
		return true;
	roami_alloc_give(alloc, offset);
	return false;
}

/* Takes a block from this node's leases, or a large one from the pool itself. */
static enum roam_err job_take(struct roami_job *job, unsigned number, size_t bytes,
			      uint64_t *offset_p, bool *fresh_p)
{
	struct roami_heap_parts *pool = roami_job_pool(job, number);
	struct roami_alloc *alloc = job->allocs[number];
	uint64_t parts = bytes / pool->part + (bytes % pool->part != 0), offset;
	enum roam_err err = ROAM_ENOMEM;
	bool used, adopts = parts == 1; /* one part: a block of pages may fit into none of them */

	if (job->leases && parts > pool->count)
		return ROAM_ENOMEM;
	if (job->leases && parts >= ROAMI_HEAP_PARTS_LARGE) {
		if (!pool_take(job, number, (uint32_t)parts, true, offset_p, &used))
			return ROAM_ENOMEM;
		*fresh_p = !used;
		roami_stored_block(job, *offset_p, parts * pool->part, *fresh_p);
		return ROAM_OK;
	}
	for (;;) {
		err = roami_alloc_take(alloc, bytes, offset_p, fresh_p);
		if (err == ROAM_OK && !stored_fits(job, alloc, *offset_p, bytes))
			return ROAM_ENOMEM;
		if (err == ROAM_OK) {
			roami_marks_set(job->node->self, *offset_p, bytes, *fresh_p);
			roami_stored_block(job, *offset_p, bytes, *fresh_p);
		}
		if (err == ROAM_ENOMEM && job->leases && adopts) {
			adopts = false;
			if (roami_left_adopt(job, alloc, pool, pool_offset(job, number, 0)))
				continue;
		}
		if (err != ROAM_ENOMEM || !job->leases ||
		    !pool_take(job, number, (uint32_t)parts, false, &offset, &used))
			return err;
		err = roami_alloc_lend(alloc, offset, parts * pool->part, pool->part, used);
		if (err != ROAM_OK)
			return err;
	}
}

/*
 * Until a launched job's nodes first synchronise, each of them allocates by itself, some later than
 * others: other nodes could already have written memory that a node then zeroes for a new block.
 * So memory freed before that is not used again: all nodes hold it.
 */
static enum roam_err job_take_new(struct roami_job *job, unsigned number, size_t bytes,
				  uint64_t *offset_p, bool *fresh_p)
{
	bool apart = job->life == ROAMI_JOB_JOINED && job->nodes > 1;
	enum roam_err err = job_take(job, number, bytes, offset_p, fresh_p);

	while (err == ROAM_OK && apart && !*fresh_p) {
		uint64_t *held = roami_os_vec_grow(&job->held, sizeof(*held), 1);

		if (held == NULL)
			return ROAM_ENOMEM;
		*held = *offset_p;
		job->held.count++;
		roami_marks_take(job->node->self, *offset_p); /* no program's block */
		err = job_take(job, number, bytes, offset_p, fresh_p);
	}
	return err;
}

static bool part_left(const struct roami_job *job, unsigned number, uint32_t part)
{
	struct roami_heap_part at = roami_heap_parts_look(roami_job_pool(job, number), part);

	return at.state == ROAMI_HEAP_PARTS_LEASED && at.node == ROAMI_HEAP_PARTS_NOBODY;
}

/*
 * Whether a block of `owner` lies in a part.  The block may begin in an earlier part, which then
 * belongs to no node.
 */
static bool part_lives(const struct roami_job *job, unsigned number, uint32_t part,
		       const struct roami_segment *owner)
{
	uint32_t first = part;

	/* Of an earlier job a block of any length may be nobody's. */
	while (first > 0 && (part - first < ROAMI_HEAP_PARTS_LARGE || job->stored != NULL) &&
	       part_left(job, number, first - 1))
		first--;
	return roami_marks_any(owner, &job->layout, pool_offset(job, number, first),
			       pool_offset(job, number, part), pool_offset(job, number, part + 1));
}

/* Whether there may be blocks of nodes that have ended, or of an earlier job. */
static bool job_has_left(const struct roami_job *job)
{
	return job->rounds > 0 || job->stored != NULL;
}

/* Gives a block back to the allocator of this node that it came from. */
static enum roam_err job_give(struct roami_job *job, unsigned number, uint64_t offset)
{
	enum roam_err err = ROAM_ENOTOURS;

	if (job->allocs[number] != NULL)
		err = roami_alloc_give(job->allocs[number], offset);
	if (err == ROAM_ENOTOURS && job->allocs[number] != NULL && job_has_left(job))
		err = roami_alloc_give_left(job->allocs[number], offset,
					    roami_left_end(job, offset));
	if (err == ROAM_OK) {
		roami_stored_freed(job, offset);
		pool_return(job, number, offset);
	}
	return err;
}

void roami_job_give_held(struct roami_job *job)
{
	const uint64_t *held = (const void *)job->held.items;

	roami_assert(job->me == 0 && job->leases);
	for (size_t i = 0; i < job->held.count; i++)
		job_give(job, job_region(job, held[i]), held[i]);
	job->held.count = 0;
}

/* Takes back a block that another node freed, once this node has acquired the free (rule 3.2). */
static void job_take_back(void *arg, const struct roami_remote_free *block)
{
	struct roami_job *job = arg;

	if (job_give(job, job_region(job, block->offset), block->offset) != ROAM_OK)
		fprintf(stderr, "roam: node %u freed %#llx, which is not a block\n", block->freer,
			(unsigned long long)block->offset);
}

void roami_job_settle(struct roami_job *job)
{
	if (job->stored == NULL)
		return;
	roami_remote_free_drain(job->node, job_take_back, job);
	roami_stored_tell(job);
}

/* Whether a process's node exists; before the nodes are known, any possible one counts. */
static bool place_node_known(const struct roami_job *job, unsigned process)
{
	unsigned nodes = job->life == ROAMI_JOB_ALONE ? ROAMI_NODES_MAX : job->nodes;

	return roami_team_node(job, process) < nodes;
}

/* Raises job->high; several threads of the node may allocate at once. */
static void job_raise(struct roami_job *job, uint64_t end)
{
	uint64_t high = atomic_load(&job->high);

	while (high < end && !atomic_compare_exchange_weak(&job->high, &high, end))
		;
}

static enum roam_err job_place(struct roami_job *job, const struct roami_placement *place,
			       bool block);

/* Places a new block, and clears the option that a freed block may have left there. */
static enum roam_err job_place_block(struct roami_job *job, unsigned number, uint64_t offset,
				     size_t bytes, const struct roam_region *region,
				     uint64_t option)
{
	struct roami_placement place = {.page = (uint32_t)(offset / ROAMI_PAGE),
					.policy = (uint32_t)region->place,
					.home = region->node,
					.option = option};

	place.pages = (uint32_t)((offset + bytes - 1) / ROAMI_PAGE) - place.page + 1;
	if (option == 0 && job->node->regions[number].protocol->region_option != NULL &&
	    roami_placement_has_option(job->node, &place))
		place.option = ROAMI_OPTION_JOBS;
	if (bytes < ROAMI_PAGE && place.option == 0)
		return ROAM_OK;
	if (bytes < ROAMI_PAGE)
		place.policy = ROAM_PLACE_FIRST_TOUCH;
	return job_place(job, &place, true);
}

static enum roam_err job_free(struct roami_job *job, void *block);

static void *job_alloc(struct roami_job *job, unsigned number, size_t bytes,
		       const struct roam_region *region, uint64_t option, enum roam_err *err_p)
{
	uint64_t offset;
	bool fresh;

	*err_p = ROAM_EINVAL;
	if (region->place == ROAM_PLACE_NODE && !place_node_known(job, region->node))
		return NULL;
	roami_remote_free_drain(job->node, job_take_back, job);
	*err_p = region_ready(job, number);
	if (*err_p == ROAM_OK)
		*err_p = job_take_new(job, number, bytes, &offset, &fresh);
	if (*err_p != ROAM_OK)
		return NULL;
	job_raise(job, offset + bytes);
	ROAMI_COUNT(job->node->stats, allocs, 1);
	*err_p = job_place_block(job, number, offset, bytes, region, option);
	if (*err_p != ROAM_OK) {
		job_free(job, job->app + offset); /* not roami_job_free: `seal` may be held */
		return NULL;
	}
	if (fresh)
		roami_job_fill(job, offset, bytes);
	if (!fresh) {
		roami_objects_forget(job->node, offset, bytes);
		memset(job->app + offset, 0, bytes);
		roami_stored_zero(job, offset, bytes);
	}
	roami_stored_handed(job);
	return job->app + offset;
}

/*
 * The allocator of a started job changes when the nodes first synchronise, and it is replaced when
 * an undecided program is decided.
 */
static bool job_changes(struct roami_job *job)
{
	return roami_job_undecided(job) ||
	       __atomic_load_n(&job->life, __ATOMIC_ACQUIRE) == ROAMI_JOB_JOINED;
}

void *roami_job_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
		      enum roam_err *err_p)
{
	uint64_t option = 0;
	unsigned number;
	void *block;

	*err_p = roami_job_region(job, region->protocol, &number);
	if (*err_p == ROAM_OK && region->option != NULL)
		*err_p = roami_job_option(job, number, region->option, &option);
	if (*err_p != ROAM_OK)
		return NULL;
	if (option != 0) /* smaller blocks share a page, which has one option */
		bytes = bytes < ROAMI_PAGE ? ROAMI_PAGE : bytes;
	if (!job_changes(job))
		return job_alloc(job, number, bytes, region, option, err_p);
	pthread_mutex_lock(&job->seal);
	block = job_alloc(job, number, bytes, region, option, err_p);
	pthread_mutex_unlock(&job->seal);
	return block;
}

/*
 * Frees a block that an ended node left behind; node 0 keeps its mark.  A part without blocks
 * becomes free again, but only when all other nodes have ended: one of them may just have freed
 * another block in it.
 */
static enum roam_err free_left(struct roami_job *job, unsigned number, uint64_t offset)
{
	struct roami_segment *self = job->node->self;
	uint64_t end;

	if (!roami_block_take(job->node, 0, offset))
		return ROAM_ENOTOURS;
	roami_stored_freed(job, offset);
	if (job->nodes > 1)
		return ROAM_OK;
	end = roami_marks_end(self, &job->layout, offset);
	for (uint32_t i = pool_index(job, number, offset); pool_offset(job, number, i) < end; i++)
		if (!part_lives(job, number, i, self))
			roami_left_put(job, roami_job_pool(job, number), i,
				       job_free_interval(job, offset));
	return ROAM_OK;
}

struct collecting {
	struct roami_job *job;
	unsigned number; /* region */
};

/*
 * Whether a part leased by `node`, or by nobody, has blocks; an ended node's marks become node 0's.
 */
static enum roami_heap_parts_lives collect_part(void *arg, uint32_t part, unsigned node)
{
	const struct collecting *it = arg;
	struct roami_job *job = it->job;
	struct roami_segment there;
	uint64_t first = pool_offset(job, it->number, part);
	uint64_t bytes = roami_job_pool(job, it->number)->part;

	/* Node 0 has the marks of far nodes already. */
	if (node < job->nodes && job->bases[node] != NULL) {
		roami_segment_point(&there, &job->layout, job->bases[node]);
		roami_marks_copy(job->node->self, &there, &job->layout, first, first + bytes);
	}
	if (!part_lives(job, it->number, part, job->node->self))
		return ROAMI_HEAP_PARTS_EMPTY;
	return roami_left_spare(job, first, bytes) ? ROAMI_HEAP_PARTS_SPARE
						   : ROAMI_HEAP_PARTS_FULL;
}

/* Node 0 takes over the marks of a region's parts that nodes of other hosts have leased. */
static void fetch_marks(struct roami_job *job, unsigned number)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, number);

	for (uint32_t i = 0; atomic_load(&pool->used) != 0 && i < pool->count; i++) {
		struct roami_heap_part part = roami_heap_parts_look(pool, i);

		if (part.state == ROAMI_HEAP_PARTS_LEASED && part.node < job->nodes &&
		    job->bases[part.node] == NULL)
			roami_marks_fetch(
				job->node, part.node,
				(uint32_t)(pool_offset(job, number, i) / ROAMI_PAGE),
				(uint32_t)(pool_offset(job, number, i + 1) / ROAMI_PAGE));
	}
}

void roami_job_fetch_marks(struct roami_job *job)
{
	for (unsigned i = 0; i < job->node->region_count; i++)
		fetch_marks(job, i);
}

void roami_job_collect_parts(struct roami_job *job)
{
	for (unsigned i = 0; i < job->node->region_count; i++) {
		struct collecting it = {job, i};

		roami_heap_parts_collect(roami_job_pool(job, i), collect_part, &it);
	}
}

/* Takes the mark of a block that lay in a part when the node leased it. */
static bool left_take(struct roami_job *job, unsigned owner, uint64_t offset)
{
	return job_has_left(job) && owner != 0 && roami_block_take(job->node, 0, offset);
}

/* Frees a block in a lease of this node, of another one, or of a node of an ended round. */
static enum roam_err free_leased(struct roami_job *job, unsigned number, unsigned owner,
				 uint64_t offset)
{
	uint32_t part = pool_index(job, number, offset);

	/* Without node 0's memory there are no spare parts. */
	if (owner == ROAMI_HEAP_PARTS_NOBODY &&
	    (job->bases[0] == NULL ||
	     roami_left_disturb(job, roami_job_pool(job, number), part)))
		return free_left(job, number, offset);
	if (owner == ROAMI_HEAP_PARTS_NOBODY)
		owner = roami_parts_look(job->node, number, part).node;
	if (!roami_block_take(job->node, owner, offset) && !left_take(job, owner, offset))
		return ROAM_ENOTOURS;
	if (owner == job->me)
		return job_give(job, number, offset);
	roami_remote_free_send(job->node, owner, offset);
	return ROAM_OK;
}

static enum roam_err free_large(struct roami_job *job, unsigned number, uint64_t offset)
{
	uint32_t part = pool_index(job, number, offset);
	uint64_t interval = job_free_interval(job, offset);

	if (offset != pool_offset(job, number, part) ||
	    roami_parts_look(job->node, number, part).state != ROAMI_HEAP_PARTS_BLOCK)
		return ROAM_ENOTOURS;
	roami_stored_freed(job, offset);
	roami_stored_tell(job);
	return roami_parts_free(job->node, number, part, interval) ? ROAM_OK : ROAM_ENOTOURS;
}

/* Before there are leases only blocks of an earlier job are in the pool. */
static bool part_stored(const struct roami_job *job, uint32_t index)
{
	return job->stored != NULL && index < roami_job_pool(job, 0)->count &&
	       (index < job->stored->first || index >= job->stored->end);
}

static enum roam_err job_free(struct roami_job *job, void *block)
{
	uint64_t offset = (uint64_t)((uint8_t *)block - job->app);
	unsigned number = job_region(job, offset);
	struct roami_heap_parts *pool = roami_job_pool(job, number);
	struct roami_heap_part part;
	uint32_t index;

	if ((uint8_t *)block < job->app || offset >= job->layout.heap_bytes ||
	    offset < roami_layout_base(&job->layout, number))
		return ROAM_ENOTOURS;
	ROAMI_COUNT(job->node->stats, frees, 1);
	roami_remote_free_drain(job->node, job_take_back, job);
	/*
	 * Before the seal of a launched job every node allocates and frees the same blocks itself.
	 */
	index = pool_index(job, number, offset);
	if (!job->leases && !part_stored(job, index))
		return free_leased(job, number, job->me, offset);
	if (!job->leases && job->me != 0)
		return ROAM_OK; /* node 0 frees it */
	if (index >= pool->count) /* the rest behind the last part: handed out before the seal */
		return free_leased(job, number, 0, offset);
	part = roami_parts_look(job->node, number, index);
	if (part.state == ROAMI_HEAP_PARTS_LEASED)
		return free_leased(job, number, part.node, offset);
	return free_large(job, number, offset);
}

enum roam_err roami_job_free(struct roami_job *job, void *block)
{
	enum roam_err err;

	if (!job_changes(job))
		return job_free(job, block);
	pthread_mutex_lock(&job->seal);
	err = job_free(job, block);
	pthread_mutex_unlock(&job->seal);
	return err;
}

/* -------------------------------------------------------------------------------------- blocks */

/* A placement with nodes as homes; noted placements name processes. */
static struct roami_placement placement_of(const struct roami_job *job,
					   const struct roami_placement *noted)
{
	struct roami_placement place = *noted;

	if (place.policy == ROAM_PLACE_NODE)
		place.home = roami_team_node(job, place.home);
	return place;
}

static enum roam_err job_place(struct roami_job *job, const struct roami_placement *place,
			       bool block)
{
	struct roami_placement there = placement_of(job, place);
	bool alone = job->life == ROAMI_JOB_ALONE && job->nodes == 1;
	enum roam_err err = ROAM_OK;

	if (place->policy == ROAM_PLACE_NODE && !place_node_known(job, place->home))
		return ROAM_EINVAL;
	if (roami_one_heap(job->node)) /* such pages have no homes, and no options */
		return ROAM_OK;
	/*
	 * Homes apply to the present nodes only; an option also applies to those of later rounds.
	 */
	if (alone || (job->me == 0 && place->option != 0))
		err = roami_notes_add(job, place, block);
	if (err == ROAM_OK && alone)
		roami_placement_option(job->node->self, &there);
	else if (err == ROAM_OK)
		roami_placement_all(job->node, &there);
	return err;
}

enum roam_err roami_job_place(struct roami_job *job, const struct roami_placement *place)
{
	return job_place(job, place, false);
}

void roami_job_collect_blocks(struct roami_job *job)
{
	const struct roami_note *notes = (const void *)job->notes.items;
	struct roami_segment there;

	for (unsigned node = 0; node < job->nodes; node++) {
		if (job->bases[node] == NULL)
			continue;
		roami_segment_point(&there, &job->layout, job->bases[node]);
		for (size_t i = 0; i < job->notes.count; i++) {
			struct roami_placement place = placement_of(job, &notes[i].place);

			roami_placement_words(&there, job->layout.pages, node, job->nodes, &place);
		}
	}
}

void roami_job_mark_bytes(struct roami_job *job)
{
	struct roami_segment self;
	uint64_t heap = job->layout.heap, at = heap, data;

	if (roami_one_heap(job->node)) /* nobody copies them */
		return;
	roami_segment_point(&self, &job->layout, job->bases[0]);
	while (roami_os_data(job->fds[0], &at, heap + job->layout.heap_bytes, &data))
		for (uint64_t page = (data - heap) / ROAMI_PAGE; page * ROAMI_PAGE < at - heap;
		     page++)
			atomic_fetch_or(&self.headers[page].where, ROAMI_HEADER_BYTES);
}
