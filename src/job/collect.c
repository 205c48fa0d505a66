/*
 * The end of a job of forked nodes: their pages return to the creator (rule 2.2).
 *
 * Long runs of one owner's pages are not copied.  The owner's memory takes their place in the
 * creator's app view, where it stays until nodes are created again (single.c brings the bytes back
 * then).  Very short ones are copied: every run mapped is a mapping of the process.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/parts.h"
#include "base/region.h"
#include "home/placement.h"
#include "home/raw.h"
#include "home/reach.h"
#include "home/remote.h"
#include "job/job.h"
#include "msg/msg.h"
#include "page/page.h"

#define RUN_MAPPED  4u     /* pages; shorter runs are copied */
#define RUN_DROPPED 64u    /* pages; copies in shorter runs stay until the memory goes */
#define FETCHES_MIN 16384u /* pages; dropping fewer copies is not worth the time */
#define RUNS_MAX    8192u  /* the most runs mapped: vm.max_map_count is 65530 */

/* Whether this process maps the segments of all nodes, and so sees the headers of every page. */
static bool collect_sees(const struct roami_job *job)
{
	for (unsigned i = 0; i < job->nodes; i++)
		if (job->bases[i] == NULL)
			return false;
	return true;
}

static bool collect_is_home(const struct roami_job *job, unsigned owner, uint32_t page)
{
	const struct roami_header *headers = job->node->segments[owner].headers;

	return (atomic_load_explicit(&headers[page].where, memory_order_relaxed) &
		ROAM_HEADER_HOME) != 0;
}

/*
 * The home of a page: the one that the directory names, or, if it moved and this process can see
 * that, the node it moved to.
 */
static unsigned collect_home(const struct roami_job *job, unsigned first, uint32_t page)
{
	unsigned owner = 0;

	if (collect_is_home(job, first, page))
		return first;
	while (owner < job->nodes && !collect_is_home(job, owner, page))
		owner++;
	return owner < job->nodes ? owner : first;
}

/* The node whose bytes of a page with this word are right: its home, or the creator. */
static unsigned collect_owner(const struct roami_job *job, uint32_t page, uint64_t word, bool sees)
{
	unsigned first = (unsigned)(word & 0xffffu);

	if ((word & ROAMI_WORD_STATE) != ROAMI_WORD_READY || first >= job->nodes)
		return 0;
	return sees ? collect_home(job, first, page) : first;
}

typedef void collect_fn(struct roami_job *job, uint32_t first, uint32_t end);

/*
 * A page without any block may stay where it is.  A last part of less than full size is always
 * brought.
 */
static void collect_each(struct roami_job *job, unsigned region, collect_fn *each)
{
	const struct roami_heap_parts *pool = &job->node->segments[0].pool[region];
	uint32_t pages = (uint32_t)(pool->part / ROAMI_PAGE);
	uint32_t base = job->node->regions[region].first, first = base;

	if (atomic_load(&pool->used) == 0)
		return;
	for (uint32_t part = 0; part < pool->count; part++)
		if (roami_heap_parts_look(pool, part).state == ROAMI_HEAP_PARTS_FREE) {
			if (first < base + part * pages)
				each(job, first, base + part * pages);
			first = base + (part + 1) * pages;
		}
	if (first < job->node->regions[region].end)
		each(job, first, job->node->regions[region].end);
}

/* Brings, one by one, the pages of a protocol that says how. */
static void gather(struct roami_job *job, uint32_t first, uint32_t end)
{
	struct roami_node *node = job->node;
	struct roami_region *region = roami_region_of(node, first);
	unsigned was = roami_region_enter(node, region);

	for (uint32_t page = first; page < end; page++) {
		roami_page_hold(node, page);
		region->protocol->collect(node, page);
		roami_page_done(node, page);
	}
	roami_region_leave(node, was);
}

/* Whether a protocol has to bring the pages; else the directory says which node has them. */
static bool collect_asks(const struct roami_job *job, const struct roam_protocol *protocol)
{
	return protocol != NULL && protocol->collect != NULL &&
	       !(roami_homes_move(protocol) && collect_sees(job));
}

void roami_collect_gather(struct roami_job *job)
{
	roami_assert(job->me == 0);
	for (unsigned i = 0; i < job->node->region_count; i++)
		if (collect_asks(job, job->node->regions[i].protocol))
			collect_each(job, i, gather);
}

/*
 * Whether the core knows which node's bytes are right, so that no protocol has to bring pages.  If
 * all nodes have one heap, it is node 0's already.
 */
static void collect_by_directory(struct roami_job *job, collect_fn *each)
{
	if (roami_one_heap(job->node))
		return;
	for (unsigned i = 0; i < job->node->region_count; i++)
		if (!collect_asks(job, job->node->regions[i].protocol))
			collect_each(job, i, each);
}

static void collect_words(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words)
{
	do {
		roami_words_ended(node, first, count, words);
		roami_msg_poll(node);
	} while (!roami_words_final(words, count));
}

/* Calls `each` with the runs of one owner's pages in [first, end). */
static void collect_runs(struct roami_job *job, uint32_t first, uint32_t end,
			 void (*each)(struct roami_job *job, unsigned owner, uint32_t first,
				      uint32_t end))
{
	uint64_t words[ROAMI_WORDS_MAX];
	uint32_t read = first, known = first, run = first; /* words[] has [read, known) */
	bool sees = collect_sees(job) &&
		    roami_homes_move(roami_region_of(job->node, first)->protocol);
	unsigned owner = 0;

	for (uint32_t at = first; at < end; at++) {
		unsigned next;

		if (at == known) {
			read = at;
			known = (at / ROAMI_WORDS_MAX + 1) * ROAMI_WORDS_MAX;
			known = known < end ? known : end;
			collect_words(job->node, read, known - read, words);
		}
		next = collect_owner(job, at, words[at - read], sees);
		if (next != owner && run < at)
			each(job, owner, run, at);
		if (next != owner)
			run = at;
		owner = next;
	}
	if (run < end)
		each(job, owner, run, end);
}

/* The bytes of this process's own segment in the pages [first, end). */
static uint8_t *collect_own(const struct roami_job *job, uint32_t first)
{
	return (uint8_t *)job->bases[job->me] + job->layout.heap + (size_t)first * ROAMI_PAGE;
}

/* Frees this node's copies of pages that belong to another node from now on. */
static void drop_run(struct roami_job *job, uint32_t first, uint32_t end)
{
	if (end - first >= RUN_DROPPED &&
	    roami_stats_sum(job->node->stats, ROAMI_STAT_fetches) >= FETCHES_MIN)
		roami_os_discard(collect_own(job, first), (uint64_t)(end - first) * ROAMI_PAGE);
}

/*
 * Whether this node's copy of another host's page equals its home's: after the barrier at the end,
 * every copy that may still be read here does.
 */
static bool collect_has(struct roami_node *node, uint32_t page)
{
	const struct roam_protocol *protocol = roami_region_of(node, page)->protocol;

	return protocol->homes == ROAM_HOMES_FIXED && protocol->model == ROAM_MODEL_RC &&
	       roami_page_access(node, page) != ROAM_NONE;
}

static void fetch_run(struct roami_job *job, unsigned owner, uint32_t first, uint32_t end)
{
	for (uint32_t page = first; page < end; page++)
		if (!collect_has(job->node, page))
			roami_raw_add(job->node, job->raw, owner, page);
}

static void take_run(struct roami_job *job, unsigned owner, uint32_t first, uint32_t end)
{
	uint64_t at = (uint64_t)first * ROAMI_PAGE, bytes = (uint64_t)(end - first) * ROAMI_PAGE;

	if (owner == 0)
		return;
	if (job->bases[owner] == NULL) {
		fetch_run(job, owner, first, end);
		return;
	}
	drop_run(job, first, end);
	if (job->stored == NULL && end - first >= RUN_MAPPED && job->single.count < RUNS_MAX &&
	    !roami_shared_in(job, first, end) &&
	    roami_single_take(job, at, at + bytes, job->fds[owner]))
		return;
	memcpy(collect_own(job, first), (uint8_t *)job->bases[owner] + job->layout.heap + at,
	       bytes);
}

static void take_runs(struct roami_job *job, uint32_t first, uint32_t end)
{
	collect_runs(job, first, end, take_run);
}

void roami_collect_take(struct roami_job *job)
{
	struct roami_raw raw;

	roami_assert(job->me == 0);
	roami_raw_begin(&raw);
	job->raw = &raw;
	collect_by_directory(job, take_runs);
	roami_raw_end(job->node, &raw);
	job->raw = NULL;
}

static void leave_run(struct roami_job *job, unsigned owner, uint32_t first, uint32_t end)
{
	if (owner != job->me)
		drop_run(job, first, end);
}

static void leave_runs(struct roami_job *job, uint32_t first, uint32_t end)
{
	collect_runs(job, first, end, leave_run);
}

void roami_collect_leave(struct roami_job *job)
{
	roami_assert(job->me != 0);
	collect_by_directory(job, leave_runs);
}
