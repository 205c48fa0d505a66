/*
 * Parts in which nodes that have ended left blocks.  They are nobody's, and their blocks' marks are
 * node 0's.  A part with free pages is spare: a node that needs memory leases it for these pages,
 * or a program whose nodes each leave one small block would use up a part in each round.  The
 * blocks keep their marks at node 0, and the allocator counts those of each page: it has the page
 * when they were freed.
 *
 * A node must not take a page whose block was freed by another node in the same round (rule 3.2).
 * So the marks are copied under the pool's lock, and a thread that frees a block in a part that is
 * nobody's first says so under that lock: the part is not spare from then on.
 */
#include <string.h>

#include "base/marks.h"
#include "home/placement.h"
#include "job/job.h"

#define SPARE_LEAST 8u /* of a part, its pages / this must be free */

/* The marks of a part, how many blocks lie in each of its pages, and which pages are zero. */
struct left_marks {
	uint32_t pages;
	uint64_t *begins, *ends;
	uint32_t *blocks;
	bool *zero;
};

static size_t left_bytes(uint32_t pages)
{
	return pages * (2 * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(bool));
}

static bool left_open(struct left_marks *marks, uint32_t pages)
{
	uint64_t *at = roami_os_reserve(left_bytes(pages));

	*marks = (struct left_marks){pages, at, at + pages, (void *)(at + 2 * (size_t)pages), NULL};
	marks->zero = (void *)(marks->blocks + pages);
	return at != NULL;
}

static void left_close(struct left_marks *marks)
{
	roami_os_unmap(marks->begins, left_bytes(marks->pages));
}

static void left_copy(struct left_marks *marks, const struct roami_segment *from, uint64_t page)
{
	for (uint32_t i = 0; i < marks->pages; i++) {
		marks->begins[i] = atomic_load(&from->blocks[page + i]);
		marks->ends[i] = atomic_load(&from->ends[page + i]);
	}
}

/* The last page of the block that begins at a bit of a page; `pages`: it ends in another part. */
static uint32_t left_last(const struct left_marks *marks, uint32_t page, uint64_t bit)
{
	uint64_t ends = marks->ends[page] & ~(bit - 1);

	while (ends == 0 && ++page < marks->pages)
		ends = marks->ends[page];
	return page;
}

/* Counts the blocks of each page.  false: a block leaves the part. */
static bool left_count(struct left_marks *marks)
{
	memset(marks->blocks, 0, marks->pages * sizeof(*marks->blocks));
	for (uint32_t page = 0; page < marks->pages; page++)
		for (uint64_t bits = marks->begins[page]; bits != 0; bits &= bits - 1) {
			uint32_t last = left_last(marks, page, bits & -bits);

			if (last == marks->pages)
				return false;
			for (uint32_t at = page; at <= last; at++)
				marks->blocks[at]++;
		}
	return true;
}

/* How many pages of a part have no block; 0: a block leaves it. */
static uint32_t left_free(const struct roami_segment *self, uint64_t first, uint32_t pages)
{
	uint32_t free = 0;
	bool goes_on = false; /* a block that began in an earlier page */

	for (uint32_t i = 0; i < pages; i++) {
		uint64_t begins = atomic_load(&self->blocks[first + i]);
		uint64_t ends = atomic_load(&self->ends[first + i]);

		free += begins == 0 && !goes_on;
		if (begins != 0) /* only the last of them may go on */
			goes_on = ends < UINT64_C(1) << (63 - __builtin_clzll(begins));
		else if (ends != 0)
			goes_on = false;
	}
	return goes_on ? 0 : free;
}

bool roami_left_pages_spare(const struct roami_segment *self, uint64_t first, uint32_t pages)
{
	return left_free(self, first, pages) >= pages / SPARE_LEAST;
}

bool roami_left_spare(struct roami_job *job, uint64_t offset, uint64_t bytes)
{
	uint32_t pages = (uint32_t)(bytes / ROAMI_PAGE);
	uint64_t before = job->stored != NULL ? offset : ROAMI_HEAP_PARTS_LARGE * bytes;

	/* One that begins before the part and reaches into it. */
	return !roami_marks_any(job->node->self, &job->layout,
				offset > before ? offset - before : 0, offset, offset) &&
	       roami_left_pages_spare(job->node->self, offset / ROAMI_PAGE, pages);
}

/*
 * Finds the pages without a byte of earlier rounds.  The allocator need not zero them: to zero a
 * page is to touch it first, and it would have a home before the program names one.
 */
static void left_find_zero(const struct roami_job *job, struct left_marks *marks, uint64_t page)
{
	const struct roami_header *headers = &job->node->segments[0].headers[page];

	/* Without nodes nothing was marked when the job was sealed, nor if all use one heap. */
	if (job->life != ROAMI_JOB_TOGETHER || roami_one_heap(job->node))
		return;
	for (uint32_t i = 0; i < marks->pages; i++)
		marks->zero[i] = marks->blocks[i] == 0 &&
				 (atomic_load(&headers[i].where) & ROAMI_HEADER_BYTES) == 0;
}

/* Lends the part to the allocator; under the pool's lock, which leases it in the same step. */
static bool left_lend(struct roami_job *job, struct roami_alloc *alloc, struct left_marks *marks,
		      uint64_t offset)
{
	left_copy(marks, &job->node->segments[0], offset / ROAMI_PAGE);
	if (!left_count(marks))
		return false;
	left_find_zero(job, marks, offset / ROAMI_PAGE);
	roami_alloc_adopt(alloc, offset, marks->pages, marks->blocks, marks->zero);
	return true;
}

static bool left_adopt(struct roami_job *job, struct roami_alloc *alloc,
		       struct roami_heap_parts *pool, uint64_t base, struct left_marks *marks)
{
	uint32_t part;
	bool some;

	roami_spin_lock(job->node, (struct roami_spin *)(void *)&pool->lock);
	some = roami_heap_parts_spare(pool, &part) &&
	       left_lend(job, alloc, marks, base + part * pool->part);
	if (some)
		roami_heap_parts_adopt(pool, job->me, part);
	roami_spin_unlock((struct roami_spin *)(void *)&pool->lock);
	return some;
}

/* Other nodes spin for the pool's lock: memory is requested, and the allocator locked, before. */
bool roami_left_adopt(struct roami_job *job, struct roami_alloc *alloc,
		      struct roami_heap_parts *pool, uint64_t base)
{
	struct left_marks marks;
	bool some = false;

	if (job->bases[0] == NULL || atomic_load(&pool->spares) == 0 ||
	    !left_open(&marks, (uint32_t)(pool->part / ROAMI_PAGE)))
		return false;
	if (roami_alloc_adopt_begin(alloc, marks.pages) == ROAM_OK) {
		some = left_adopt(job, alloc, pool, base, &marks);
		roami_alloc_adopt_end(alloc);
	}
	left_close(&marks);
	return some;
}

bool roami_left_disturb(struct roami_job *job, struct roami_heap_parts *pool, uint32_t part)
{
	bool nobodys;

	roami_spin_lock(job->node, (struct roami_spin *)(void *)&pool->lock);
	nobodys = roami_heap_parts_look(pool, part).node == ROAMI_HEAP_PARTS_NOBODY;
	if (nobodys)
		roami_heap_parts_disturb(pool, part);
	roami_spin_unlock((struct roami_spin *)(void *)&pool->lock);
	return nobodys;
}

void roami_left_put(struct roami_job *job, struct roami_heap_parts *pool, uint32_t part,
		    uint64_t interval)
{
	struct roami_heap_part now;

	roami_spin_lock(job->node, (struct roami_spin *)(void *)&pool->lock);
	now = roami_heap_parts_look(pool, part);
	if (now.state == ROAMI_HEAP_PARTS_LEASED && now.node == ROAMI_HEAP_PARTS_NOBODY)
		roami_heap_parts_put(pool, part, 1, true, job->me, interval);
	roami_spin_unlock((struct roami_spin *)(void *)&pool->lock);
}

uint64_t roami_left_end(const struct roami_job *job, uint64_t offset)
{
	return roami_marks_end(&job->node->segments[0], &job->layout, offset);
}
