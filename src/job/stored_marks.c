/*
 * Where blocks of the heap are: what the server is told of them, and how the next job finds out.
 * A node notes each block that its allocators hand out or get back; its next commit takes the notes
 * with it.  All changes of one part of the heap are noted by the node that leases it, and are at
 * the server before it gives the part back, so they come there in their order.
 */
#include <string.h>

#include "base/marks.h"
#include "job/job.h"
#include "sync/tx.h"

#define GRAIN ROAMI_STORE_GRAIN

/* A note: `count` marks become `value`. */
struct stored_mark {
	uint64_t grain;
	uint32_t count;
	uint32_t value;
};

#define INTERIOR 4u /* in `value`: these, which become 0, lie within a block handed out */

#define NOTES_MUCH ((size_t)1 << 18)
#define GAP        64u /* marks that are told once more where that makes one entry of several */

static bool marks_go(const struct roami_job *job)
{
	return job->stored != NULL && !job->stored->mute;
}

static void marks_note(struct roami_job *job, uint64_t grain, uint32_t count, uint32_t value)
{
	struct roami_stored *stored = job->stored;
	struct stored_mark *mark;

	pthread_mutex_lock(&stored->noting);
	mark = roami_os_vec_grow(&stored->notes, sizeof(*mark), 1);
	if (mark != NULL) {
		*mark = (struct stored_mark){grain, count, value};
		stored->notes.count++;
	}
	pthread_mutex_unlock(&stored->noting);
	if (mark == NULL)
		roami_node_fail(job->node, "no memory for what a page server has to be told");
}

static uint64_t marks_grain(const struct roami_job *job, uint64_t offset)
{
	return (offset - roami_layout_base(&job->layout, 0)) / GRAIN;
}

void roami_stored_block(struct roami_job *job, uint64_t offset, uint64_t bytes, bool fresh)
{
	uint64_t first, last;

	if (!marks_go(job))
		return;
	first = marks_grain(job, offset);
	last = marks_grain(job, offset + bytes - 1);
	marks_note(job, first, 1,
		   ROAMI_STORE_BEGINS | (first == last ? (unsigned)ROAMI_STORE_ENDS : 0));
	if (last > first + 1 && (!fresh || last - first <= GAP))
		marks_note(job, first + 1, (uint32_t)(last - first - 1), INTERIOR);
	if (last > first)
		marks_note(job, last, 1, ROAMI_STORE_ENDS);
}

void roami_stored_freed(struct roami_job *job, uint64_t offset)
{
	if (marks_go(job))
		marks_note(job, marks_grain(job, offset), 1, 0);
}

size_t roami_stored_noted(struct roami_job *job)
{
	size_t count;

	pthread_mutex_lock(&job->stored->noting);
	count = job->stored->notes.count;
	pthread_mutex_unlock(&job->stored->noting);
	return count;
}

/* Marks in a row, of one page: one entry of the commit. */
struct marks_run {
	uint64_t at; /* in what the server keeps */
	uint32_t bytes;
	uint8_t marks[ROAMI_PAGE];
};

static void run_send(struct roami_job *job, struct marks_run *run)
{
	if (run->bytes > 0)
		roami_stored_commit_bytes(job, (uint32_t)(run->at / ROAMI_PAGE),
					  (uint32_t)(run->at % ROAMI_PAGE), run->marks,
					  run->bytes);
	run->bytes = 0;
}

static void run_add(struct roami_job *job, struct marks_run *run, struct stored_mark mark)
{
	uint64_t at = roami_layout_bytes(&job->layout, 0) + mark.grain;
	uint8_t value = (uint8_t)(mark.value & ~INTERIOR);

	for (; mark.count > 0; mark.count--, at++) {
		if (at != run->at + run->bytes || at % ROAMI_PAGE == 0) {
			run_send(job, run);
			run->at = at;
		}
		run->marks[run->bytes++] = value;
	}
}

void roami_stored_commit_notes(struct roami_job *job, size_t upto)
{
	struct roami_vec *notes = &job->stored->notes;
	const struct stored_mark *marks;
	struct marks_run run;

	run.at = run.bytes = 0;
	pthread_mutex_lock(&job->stored->noting);
	marks = (const void *)notes->items;
	for (size_t i = 0; i < notes->count; i++)
		if (i < upto || marks[i].value != 0)
			run_add(job, &run, marks[i]);
	run_send(job, &run);
	upto = upto < notes->count ? upto : notes->count;
	if (upto > 0) {
		notes->count -= upto;
		memmove(notes->items, marks + upto, notes->count * sizeof(*marks));
	}
	pthread_mutex_unlock(&job->stored->noting);
}

void roami_stored_tell(struct roami_job *job)
{
	if (!marks_go(job) || job->stored->apart || roami_stored_noted(job) == 0)
		return;
	roami_stored_commit_begin(job);
	roami_stored_commit_end(job);
}

void roami_stored_handed(struct roami_job *job)
{
	if (!marks_go(job) || roami_tx_inside(job->node))
		return;
	if (!job->stored->apart)
		roami_stored_tell(job);
	else if (roami_stored_noted(job) > NOTES_MUCH)
		roami_stored_flush(job, true, false);
}

/* ------------------------------------------------------------------------------------ the start */

/* A block of an earlier job, [begin, end) in grains. */
static void find_block(struct roami_job *job, struct roami_stored_find *find, uint64_t begin,
		       uint64_t end)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint64_t base = roami_layout_base(&job->layout, 0), grains = pool->part / GRAIN;
	uint32_t first = (uint32_t)(begin / grains), last = (uint32_t)((end - 1) / grains);
	bool large = begin % grains == 0 && end % grains == 0 &&
		     last - first + 1 >= ROAMI_HEAP_PARTS_LARGE;
	uint8_t *old = job->stored->old;

	if (last >= pool->count) {
		find->bad = true;
		return;
	}
	if (!large)
		roami_marks_set(&find->self, base + begin * GRAIN, (end - begin) * GRAIN, true);
	for (uint32_t i = first; i <= last; i++) {
		if (large)
			old[i] = i == first ? ROAMI_HEAP_PARTS_BLOCK : ROAMI_HEAP_PARTS_REST;
		else if (i > first)
			old[i] = ROAMI_HEAP_PARTS_LEASED; /* a block reaches into it */
		else if (old[i] == ROAMI_HEAP_PARTS_FREE)
			old[i] = ROAMI_HEAP_PARTS_OLD_SPARE;
	}
}

/* One mark; they come in their order.  An end of no block is of one that was freed. */
static void find_mark(struct roami_job *job, struct roami_stored_find *find, uint64_t grain,
		      uint8_t mark)
{
	if (mark > (ROAMI_STORE_BEGINS | ROAMI_STORE_ENDS) ||
	    ((mark & ROAMI_STORE_BEGINS) != 0 && find->open)) {
		find->bad = true;
		return;
	}
	if ((mark & ROAMI_STORE_BEGINS) != 0) {
		find->open = true;
		find->begin = grain;
	}
	if ((mark & ROAMI_STORE_ENDS) == 0)
		return;
	if (find->open)
		find_block(job, find, find->begin, grain + 1);
	else if (job->me == 0)
		roami_stored_freed(job, roami_layout_base(&job->layout, 0) + grain * GRAIN);
	find->open = false;
}

void roami_stored_find_page(struct roami_job *job, struct roami_stored_find *find, uint64_t at,
			    const uint8_t *marks, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes && !find->bad; i++)
		if (marks[i] != 0)
			find_mark(job, find, at + i, marks[i]);
}

/* The most parts in a row that are free. */
static void find_free(struct roami_job *job)
{
	struct roami_stored *stored = job->stored;
	uint32_t count = roami_job_pool(job, 0)->count, run = 0;

	stored->first = stored->end = 0;
	for (uint32_t i = 0; i < count; i++) {
		run = stored->old[i] == ROAMI_HEAP_PARTS_FREE ? run + 1 : 0;
		if (run > stored->end - stored->first) {
			stored->first = i + 1 - run;
			stored->end = i + 1;
		}
	}
}

bool roami_stored_found(struct roami_job *job, struct roami_stored_find *find)
{
	const struct roami_heap_parts *pool = roami_job_pool(job, 0);
	uint32_t pages = (uint32_t)(pool->part / ROAMI_PAGE);
	uint64_t base = roami_layout_base(&job->layout, 0) / ROAMI_PAGE;
	uint8_t *old = job->stored->old;

	/* Nodes of other hosts could not lease the rest of a part safely: left.c. */
	for (uint32_t i = 0; i < pool->count; i++)
		if (old[i] == ROAMI_HEAP_PARTS_OLD_SPARE &&
		    (job->boot.hosts > 1 ||
		     !roami_left_pages_spare(&find->self, base + (uint64_t)i * pages, pages)))
			old[i] = ROAMI_HEAP_PARTS_LEASED;
	find_free(job);
	return !find->bad && !find->open;
}

uint64_t roami_stored_begins(const struct roami_job *job)
{
	return roami_layout_base(&job->layout, 0) +
	       job->stored->first * roami_job_pool(job, 0)->part;
}

uint64_t roami_stored_ends(const struct roami_job *job)
{
	return roami_layout_base(&job->layout, 0) + job->stored->end * roami_job_pool(job, 0)->part;
}
