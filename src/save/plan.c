#include "save/plan.h"

#include <stdlib.h>

#include "base/marks.h"
#include "base/region.h"
#include "home/placement.h"
#include "home/reach.h"
#include "home/remote.h"
#include "job/job.h"
#include "msg/msg.h"
#include "save/file.h"

#define GRAIN 64u
#define GROUP ROAMI_WORDS_MAX /* pages */

/* -------------------------------------------------------------------------------------- blocks */

static void live_range(struct roami_save_plan *plan, uint64_t first, uint64_t end)
{
	uint64_t range[2] = {first, end};

	plan->hash = plan->hash * 31 + roami_save_hash(range, sizeof(range));
	for (uint64_t at = first; at < end;) {
		uint64_t page = at / ROAMI_PAGE, next = (page + 1) * ROAMI_PAGE;
		uint64_t bits = UINT64_MAX << at % ROAMI_PAGE / GRAIN;

		if (end < next)
			bits &= UINT64_MAX >> (next - end) / GRAIN;
		plan->live[page] |= bits;
		roami_save_set(plan->some, (uint32_t)(page / GROUP));
		at = next;
	}
}

/* Blocks that begin in [first, end), by the marks of node 0. */
static void live_marked(struct roami_save_plan *plan, const struct roami_segment *marks,
			uint64_t first, uint64_t end)
{
	const struct roami_layout *layout = &plan->job->layout;

	for (uint64_t page = first / ROAMI_PAGE; page < end / ROAMI_PAGE; page++)
		for (uint64_t bits = atomic_load(&marks->blocks[page]); bits != 0;
		     bits &= bits - 1) {
			uint64_t at = page * ROAMI_PAGE + (uint64_t)__builtin_ctzll(bits) * GRAIN;

			live_range(plan, at, roami_marks_end(marks, layout, at));
		}
}

/* Blocks in the parts of a region; a large block has parts of its own, and no marks. */
static void live_parts(struct roami_save_plan *plan, const struct roami_segment *marks,
		       unsigned number)
{
	const struct roami_layout *layout = &plan->job->layout;
	const struct roami_heap_parts *pool = &marks->pool[number];
	uint64_t base = roami_layout_base(layout, number), at = base;

	for (uint32_t part = 0; part < pool->count; part++, at += pool->part) {
		enum roami_heap_parts_state state = roami_heap_parts_look(pool, part).state;

		if (state == ROAMI_HEAP_PARTS_LEASED)
			live_marked(plan, marks, at, at + pool->part);
		else if (state != ROAMI_HEAP_PARTS_FREE)
			live_range(plan, at, at + pool->part);
	}
	live_marked(plan, marks, at, base + roami_layout_bytes(layout, number));
}

static void plan_blocks(struct roami_save_plan *plan)
{
	struct roami_job *job = plan->job;
	struct roami_segment marks;

	roami_segment_point(&marks, &job->layout, job->bases[0]);
	for (unsigned i = 0; i <= job->layout.regions; i++) {
		uint64_t base = roami_layout_base(&job->layout, i);

		if (job->leases && atomic_load(&marks.pool[i].used) != 0)
			live_parts(plan, &marks, i);
		else if (job->allocs[i] != NULL && !job->leases)
			live_marked(plan, &marks, base,
				    (roami_alloc_bumped(job->allocs[i]) + ROAMI_PAGE - 1) /
					    ROAMI_PAGE * ROAMI_PAGE);
	}
}

/* --------------------------------------------------------------------------------------- pages */

/* Pages of [first, end) in which a segment's file has bytes. */
static void used_in_file(struct roami_save_plan *plan, int fd, uint32_t first, uint32_t end)
{
	uint64_t heap = plan->job->layout.heap, at = heap + first * ROAMI_PAGE, data;

	while (roami_os_data(fd, &at, heap + end * ROAMI_PAGE, &data))
		for (uint64_t page = (data - heap) / ROAMI_PAGE; page * ROAMI_PAGE < at - heap;
		     page++)
			roami_save_set(plan->used, (uint32_t)page);
}

/* Without a directory: pages in which any node of this host has bytes; all, if there are others. */
static void used_by_files(struct roami_save_plan *plan, uint32_t first, uint32_t end)
{
	struct roami_job *job = plan->job;
	bool sees = true;

	for (unsigned i = 0; i < job->nodes; i++)
		sees = sees && job->bases[i] != NULL;
	for (uint32_t page = first; !sees && page < end; page++)
		roami_save_set(plan->used, page);
	for (unsigned i = 0; sees && i < job->nodes; i++)
		used_in_file(plan, job->fds[i], first, end);
	for (size_t i = 0; i < roami_single_count(job); i++) {
		uint64_t from, to;

		roami_single_range(job, i, &from, &to);
		for (uint64_t page = from / ROAMI_PAGE; page < to / ROAMI_PAGE; page++)
			if (page >= first && page < end)
				roami_save_set(plan->used, (uint32_t)page);
	}
}

unsigned roami_save_writers(const struct roami_job *job, unsigned *mine_p)
{
	unsigned count = 0;

	*mine_p = 0;
	for (unsigned i = 0; i < job->nodes; i++) {
		if (i == job->me)
			*mine_p = count;
		count += job->bases[i] != NULL;
	}
	return count;
}

/* Nodes that write have runs of pages in turn. */
static void mine_in_turn(struct roami_save_plan *plan, uint32_t first, uint32_t end)
{
	unsigned mine, count = roami_save_writers(plan->job, &mine);

	for (uint32_t page = first; page < end; page++)
		if (roami_save_bit(plan->used, page) && page / ROAMI_SAVE_CHUNK % count == mine)
			roami_save_set(plan->mine, page);
}

static void plan_word(struct roami_save_plan *plan, uint32_t page, uint64_t word)
{
	struct roami_job *job = plan->job;
	unsigned home = (unsigned)(word & 0xffffu);

	if (plan->live[page] == 0)
		return;
	if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_READY) {
		roami_save_set(plan->used, page);
		home = home < job->nodes && job->bases[home] != NULL ? home : 0;
	} else if (roami_creator_may_have(job->node, page)) {
		roami_save_set(plan->used, page);
		roami_save_set(plan->bare, page);
		home = 0;
	} else {
		return;
	}
	if (home == job->me)
		roami_save_set(plan->mine, page);
}

/* By the directory; [first, end) has one manager. */
static void plan_words(struct roami_save_plan *plan, uint32_t first, uint32_t end)
{
	uint64_t words[ROAMI_WORDS_MAX];
	struct roami_node *node = plan->job->node;

	roami_assert(end - first <= ROAMI_WORDS_MAX);
	for (unsigned turn = 0;; turn++) {
		roami_words_read(node, first, end - first, words);
		if (roami_words_final(words, end - first))
			break;
		node->env->spin(node, turn);
	}
	for (uint32_t page = first; page < end; page++)
		plan_word(plan, page, words[page - first]);
}

/* [first, end) lies in one region. */
static void plan_run(struct roami_save_plan *plan, uint32_t first, uint32_t end)
{
	struct roami_job *job = plan->job;
	const struct roam_protocol *protocol =
		roami_region_of(job->node, first)->protocol;
	bool words = job->nodes > 1 && !roami_one_heap(job->node) && protocol != NULL &&
		     protocol->homes != ROAM_HOMES_NONE;

	for (uint32_t at = first; words && at < end;) {
		uint32_t next = (at / ROAMI_WORDS_MAX + 1) * ROAMI_WORDS_MAX;

		next = next < end ? next : end;
		plan_words(plan, at, next);
		at = next;
	}
	if (!words)
		used_by_files(plan, first, end);
	if (!words)
		mine_in_turn(plan, first, end);
}

/* Plans the runs of pages with blocks. */
static void plan_pages(struct roami_save_plan *plan)
{
	struct roami_node *node = plan->job->node;

	for (unsigned i = 0; i < node->region_count; i++) {
		uint32_t end = node->regions[i].end, first = node->regions[i].first;

		while (first < end) {
			uint32_t next = first + 1;

			if (!roami_save_bit(plan->some, first / GROUP)) {
				first = (first / GROUP + 1) * GROUP;
				continue;
			}
			if (plan->live[first] == 0) {
				first++;
				continue;
			}
			while (next < end && plan->live[next] != 0)
				next++;
			plan_run(plan, first, next);
			first = next;
		}
	}
}

/* ---------------------------------------------------------------------------------------- plan */

bool roami_save_writes(const struct roami_job *job)
{
	return job->bases[0] != NULL;
}

unsigned roami_save_heir(const struct roami_job *job, unsigned was, unsigned nodes)
{
	unsigned heir = was < nodes ? was * job->nodes / nodes : 0;

	return heir < job->nodes && job->bases[heir] != NULL ? heir : 0;
}

static size_t plan_bytes(const struct roami_job *job)
{
	size_t words = (size_t)job->layout.pages / 64 + 1;

	return ((size_t)job->layout.pages + 5 * words) * sizeof(uint64_t);
}

bool roami_save_plan(struct roami_save_plan *plan, struct roami_job *job)
{
	size_t words = (size_t)job->layout.pages / 64 + 1;

	*plan = (struct roami_save_plan){.job = job, .room = plan_bytes(job)};
	plan->live = roami_os_reserve_sparse(plan->room);
	if (plan->live == NULL)
		return false;
	plan->used = plan->live + job->layout.pages;
	plan->mine = plan->used + words;
	plan->bare = plan->mine + words;
	plan->saved = plan->bare + words;
	plan->some = plan->saved + words;
	plan_blocks(plan);
	plan_pages(plan);
	return true;
}

void roami_save_plan_end(struct roami_save_plan *plan)
{
	if (plan->live != NULL)
		roami_os_unmap(plan->live, plan->room);
	plan->live = NULL;
}

/*
 * Whether the part with this page is one that this node has leased itself: its own marks of other
 * parts are from before the seal, when all processes allocated alike.
 */
static bool strange_part(struct roami_job *job, uint64_t page)
{
	unsigned number = roami_layout_region(&job->layout, (uint32_t)page);
	uint64_t base = roami_layout_base(&job->layout, number);
	const struct roami_heap_parts *pool = &job->node->self->pool[number];
	uint64_t part = (page * ROAMI_PAGE - base) / pool->part;
	struct roami_heap_part found;

	if (part >= pool->count)
		return false;
	found = roami_parts_look(job->node, number, (uint32_t)part);
	return found.state == ROAMI_HEAP_PARTS_LEASED && found.node == job->me;
}

/* Node 0's: large blocks of others, of which it has the parts. */
static unsigned strange_large(const struct roami_job *job)
{
	struct roami_segment marks;
	unsigned count = 0;

	roami_segment_point(&marks, &job->layout, job->bases[0]);
	for (unsigned i = 0; job->leases && i <= job->layout.regions; i++)
		for (uint32_t part = 0; atomic_load(&marks.pool[i].used) != 0 &&
					part < marks.pool[i].count; part++) {
			struct roami_heap_part found = roami_heap_parts_look(&marks.pool[i], part);

			count += found.state == ROAMI_HEAP_PARTS_BLOCK && found.node != 0;
		}
	return count;
}

/* Small blocks that this node has allocated since the seal, by its marks. */
static unsigned strange_small(struct roami_job *job)
{
	const _Atomic uint64_t *blocks = job->node->self->blocks;
	uint64_t begin = job->layout.blocks, end = begin + (uint64_t)job->layout.pages * 8;
	uint64_t at = begin, data;
	unsigned count = 0;

	while (roami_os_data(job->fds[job->me], &at, end, &data))
		for (uint64_t page = (data - begin) / 8; page * 8 < at - begin; page++) {
			uint64_t bits = atomic_load(&blocks[page]);

			if (bits != 0 && strange_part(job, page))
				count += (unsigned)__builtin_popcountll(bits);
		}
	return count;
}

unsigned roami_save_strange(struct roami_job *job)
{
	return job->me == 0 ? strange_large(job) : strange_small(job);
}
