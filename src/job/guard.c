/* Red zones of shared blocks. */
#include "job/guard.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "page/page.h"
#include "page/race.h"
#include "sync/sync.h"

#define LIVE       UINT64_C(0x65636f6c62206d61)
#define FREED      UINT64_C(0x6465657266206d61)
#define RED        0xfd /* bytes that the program must not write */
#define FREE       0xdb /* of a freed block */
#define SMALL      64u  /* space before a block smaller than a page */
#define BEHIND     64u
#define FILL_BYTES ((size_t)1 << 20) /* bytes checked at the start of a freed block */
#define KEPT_BYTES ((uint64_t)64 << 20)

/* The last 64 bytes before a block. */
struct guard_head {
	uint64_t state; /* LIVE, FREED; anything else was overwritten */
	uint64_t bytes; /* of the block */
	uint64_t before; /* red bytes before the block, this head included */
	uint64_t behind;
	uint64_t freer; /* node */
	uint64_t freed_by; /* roami_race_code */
	uint64_t unused;
	uint64_t sum; /* of the others */
};
_Static_assert(sizeof(struct guard_head) == SMALL, "blocks are aligned to 64 bytes");

static bool guard_wanted(const struct roami_job *job)
{
	return (job->options.check & ROAMI_CHECK_HEAP) != 0;
}

#define SUM_BEGIN 14695981039346656037u

static uint64_t sum_add(uint64_t sum, uint64_t word)
{
	return (sum ^ word) * 1099511628211u;
}

static uint64_t head_sum(const struct guard_head *head)
{
	const uint64_t *words = &head->state;
	uint64_t sum = SUM_BEGIN;

	for (unsigned i = 0; i < 7; i++)
		sum = sum_add(sum, words[i]);
	return sum;
}

static struct guard_head *head_of(const struct roami_job *job, uint64_t offset)
{
	return (void *)(job->app + offset - sizeof(struct guard_head));
}

static bool head_good(const struct guard_head *head)
{
	return (head->state == LIVE || head->state == FREED) && head->sum == head_sum(head);
}

/* The index of the first byte that is not `wanted`; `bytes` if there is none. */
static size_t odd_byte(const uint8_t *at, size_t bytes, uint8_t wanted)
{
	size_t i = 0;

	while (i < bytes && at[i] == wanted)
		i++;
	return i;
}

/* ------------------------------------------------------------------------------------- reports */

/*
 * The newest record that this node has of a block at `offset`, or NULL.  With `allocated` it is the
 * record of an allocation; else it may be that of a free, which has 0 bytes.
 */
static const struct roami_block *guard_newest(const struct roami_job *job, uint64_t offset,
					      bool allocated)
{
	for (uint32_t i = roami_race_blocks(job->node); i-- > 0;) {
		const struct roami_block *block = roami_race_block_at(job->node, i);

		if (block != NULL && block->offset == offset && !(allocated && block->bytes == 0))
			return block;
	}
	return NULL;
}

/* "0x200000000040 (list, of 24 bytes, allocated at prog+0x11b5)": the newest block there. */
static void guard_name(const struct roami_job *job, uint64_t offset, char *text, size_t bytes)
{
	const struct roami_block *block = guard_newest(job, offset, true);
	char code[ROAMI_OS_POSITION_BYTES] = "";

	if (block != NULL)
		roami_race_code_text(job->node, block->code, code);
	snprintf(text, bytes, "%p (%s%s%llu bytes%s%s)", (void *)(job->app + offset),
		 block != NULL ? block->name : "", block != NULL && block->name[0] ? ", " : "",
		 (unsigned long long)(block != NULL ? block->bytes : 0),
		 code[0] != '\0' ? ", allocated at " : "", code);
}

/*
 * What makes two errors alike: the same is wrong with blocks of one name that one place in the
 * program has allocated, and `by` is the same place.  Never 0.
 */
static uint64_t guard_kind(const struct roami_job *job, uint64_t offset, const char *wrong,
			   uint64_t by)
{
	const struct roami_block *block = guard_newest(job, offset, true);
	uint64_t sum = sum_add(sum_add(SUM_BEGIN, (uintptr_t)wrong), by);

	sum = sum_add(sum, block != NULL ? block->code : 0);
	for (const char *c = block != NULL ? block->name : ""; *c != '\0'; c++)
		sum = sum_add(sum, (uint8_t)*c);
	return sum | 1;
}

/* Whether this process has printed such an error already; notes it otherwise. */
static bool guard_said(struct roami_guard *guard, uint64_t kind)
{
	for (unsigned i = 0; i < ROAMI_GUARD_REPORTS; i++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&guard->said[i], &there, kind))
			return false;
		if (there == kind)
			return true;
	}
	return true; /* that is enough */
}

__attribute__((format(printf, 4, 5))) static void
guard_say(struct roami_job *job, uint64_t offset, uint64_t by, const char *format, ...)
{
	char line[800], what[300], name[260];
	va_list args;
	int length;

	ROAMI_COUNT(job->node->stats, heap_errors, 1);
	atomic_fetch_add(&job->guard.found, 1);
	if (guard_said(&job->guard, guard_kind(job, offset, format, by))) {
		ROAMI_COUNT(job->node->stats, heap_alike, 1);
		atomic_fetch_add(&job->guard.alike, 1);
		return;
	}
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	guard_name(job, offset, name, sizeof(name));
	length = snprintf(line, sizeof(line), "roam: heap: block %s %s\n", name, what);
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* "node 1, at prog+0x11b5" */
static void guard_freer(const struct roami_job *job, const struct guard_head *head, char *text,
			size_t bytes)
{
	char code[ROAMI_OS_POSITION_BYTES];

	roami_race_code_text(job->node, head->freed_by, code);
	snprintf(text, bytes, "node %u%s%s", (unsigned)head->freer, code[0] != '\0' ? ", at " : "",
		 code);
}

/*
 * Reports what was written outside of the block, or into it after it was freed.  false: the head of
 * the block was overwritten, so nothing else can be checked.
 */
static bool guard_look(struct roami_job *job, uint64_t offset, const char *when)
{
	const struct guard_head *head = head_of(job, offset);
	uint8_t *block = job->app + offset;
	char freer[200];
	size_t odd, fill;

	if (!head_good(head)) {
		guard_say(job, offset, 0, "was written before its beginning; seen %s", when);
		return false;
	}
	odd = odd_byte(block - head->before, head->before - sizeof(*head), RED);
	if (odd < head->before - sizeof(*head)) {
		guard_say(job, offset, 0, "was written before its beginning, at - %#zx; seen %s",
			  (size_t)head->before - odd, when);
		memset(block - head->before, RED, head->before - sizeof(*head)); /* said */
	}
	odd = odd_byte(block + head->bytes, head->behind, RED);
	if (odd < head->behind) {
		guard_say(job, offset, 0, "was written behind its end, at + %#zx; seen %s",
			  (size_t)head->bytes + odd, when);
		memset(block + head->bytes, RED, head->behind);
	}
	fill = head->bytes < FILL_BYTES ? head->bytes : FILL_BYTES;
	if (head->state != FREED || (odd = odd_byte(block, fill, FREE)) == fill)
		return true;
	guard_freer(job, head, freer, sizeof(freer));
	guard_say(job, offset, head->freed_by,
		  "was written at + %#zx after it was freed (by %s); seen %s", odd, freer, when);
	return true;
}

/* ---------------------------------------------------------------------------------- allocating */

/*
 * Whether this node writes red zones: before the seal all nodes allocate the same blocks and would
 * write the same bytes, so only node 0 does.
 */
static bool guard_writes(const struct roami_job *job)
{
	return job->life != ROAMI_JOB_JOINED || job->me == 0;
}

void *roami_guard_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
			const void *from, enum roam_err *err_p)
{
	size_t before = bytes < ROAMI_PAGE ? SMALL : ROAMI_PAGE;
	size_t whole = (before + bytes + BEHIND + SMALL - 1) / SMALL * SMALL;
	struct guard_head head = {.state = LIVE, .bytes = bytes, .before = before};
	uint8_t *block;

	if (!guard_wanted(job) || whole < bytes) {
		block = roami_job_alloc(job, bytes, region, err_p);
	} else {
		block = roami_job_alloc(job, whole, region, err_p);
		head.behind = whole - before - bytes;
		head.sum = head_sum(&head);
	}
	if (block == NULL)
		return NULL;
	if (head.sum != 0) {
		if (guard_writes(job)) {
			memset(block, RED, before - sizeof(head));
			memcpy(block + before - sizeof(head), &head, sizeof(head));
			memset(block + before + bytes, RED, head.behind);
		}
		block += before;
	}
	roami_race_block(job->node, (uint64_t)(block - job->app), bytes, region->name, from,
			 job->life == ROAMI_JOB_TOGETHER);
	return block;
}

/* ------------------------------------------------------------------------------------- freeing */

/* Frees the block: from now on its memory may be another block's. */
static enum roam_err guard_forget(struct roami_job *job, uint64_t offset, uint64_t before)
{
	roami_race_block(job->node, offset, 0, NULL, NULL, job->life == ROAMI_JOB_TOGETHER);
	return roami_job_free(job, job->app + offset - before);
}

/* Keeps a freed block; if too many are kept, frees the oldest ones. */
static void guard_keep(struct roami_job *job, uint64_t offset, uint64_t bytes)
{
	struct roami_guard *guard = &job->guard;

	pthread_mutex_lock(&job->opening);
	if (guard->owner != job->me)
		guard->first = guard->end = guard->bytes = 0;
	guard->owner = job->me;
	while (guard->first < guard->end &&
	       (guard->end - guard->first == ROAMI_GUARD_KEPT || guard->bytes > KEPT_BYTES)) {
		uint64_t old = guard->kept[guard->first % ROAMI_GUARD_KEPT].offset;

		guard->bytes -= guard->kept[guard->first++ % ROAMI_GUARD_KEPT].bytes;
		pthread_mutex_unlock(&job->opening); /* guard_look may fault and send */
		if (guard_look(job, old, "before its memory was used again"))
			guard_forget(job, old, head_of(job, old)->before);
		pthread_mutex_lock(&job->opening);
	}
	guard->kept[guard->end % ROAMI_GUARD_KEPT].offset = offset;
	guard->kept[guard->end++ % ROAMI_GUARD_KEPT].bytes = bytes;
	guard->bytes += bytes;
	pthread_mutex_unlock(&job->opening);
}

/* Whether a block begins at `offset`, as far as this node has heard. */
static bool guard_begins(const struct roami_job *job, uint64_t offset)
{
	const struct roami_block *block = guard_newest(job, offset, false);

	return block != NULL && block->bytes != 0;
}

static void guard_freed(struct roami_job *job, uint64_t offset, const void *from)
{
	struct guard_head *head = head_of(job, offset), next = *head;

	memset(job->app + offset, FREE, head->bytes < FILL_BYTES ? head->bytes : FILL_BYTES);
	next.state = FREED;
	next.freer = job->me;
	next.freed_by = roami_race_code(job->node, from);
	next.sum = head_sum(&next);
	*head = next;
	guard_keep(job, offset, next.bytes);
}

/* Before the nodes of a launched job synchronise, each of them frees the same blocks itself. */
static enum roam_err guard_free_alike(struct roami_job *job, uint64_t offset)
{
	const struct roami_block *block = guard_newest(job, offset, false);

	if (block == NULL || block->bytes == 0)
		return ROAM_ENOTOURS;
	return guard_forget(job, offset, block->bytes < ROAMI_PAGE ? SMALL : ROAMI_PAGE);
}

enum roam_err roami_guard_free(struct roami_job *job, void *block, const void *from)
{
	uint64_t offset = (uint64_t)((uint8_t *)block - job->app);
	char when[64], freer[200], code[ROAMI_OS_POSITION_BYTES];
	const struct guard_head *head;

	if (!guard_wanted(job) || (uint8_t *)block < job->app ||
	    offset >= job->layout.heap_bytes || offset < SMALL || offset % SMALL != 0)
		return roami_job_free(job, block);
	if (job->life == ROAMI_JOB_JOINED && job->nodes > 1)
		return guard_free_alike(job, offset);
	head = head_of(job, offset);
	if (!head_good(head) && !guard_begins(job, offset))
		return ROAM_ENOTOURS;
	snprintf(when, sizeof(when), "when node %u freed it", job->me);
	if (head_good(head) && head->state == FREED) {
		guard_freer(job, head, freer, sizeof(freer));
		roami_race_code_text(job->node, roami_race_code(job->node, from), code);
		guard_say(job, offset, roami_race_code(job->node, from),
			  "was freed twice: by node %u%s%s, after %s", job->me,
			  code[0] != '\0' ? ", at " : "", code, freer);
		return ROAM_ENOTOURS;
	}
	if (guard_look(job, offset, when)) /* a block with a broken head is never freed */
		guard_freed(job, offset, from);
	return ROAM_OK;
}

/* -------------------------------------------------------------------------------------- the end */

static int order_compare(const void *a, const void *b, void *arg)
{
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	const struct roami_block *one = roami_race_block_at(arg, first);
	const struct roami_block *two = roami_race_block_at(arg, second);

	if (one == NULL || two == NULL)
		return (one != NULL) - (two != NULL);
	if (one->offset != two->offset)
		return one->offset < two->offset ? -1 : 1;
	return first < second ? -1 : 1;
}

/* Whether the scan has not reported this block at the end of an earlier round. */
static bool guard_is_new(struct roami_guard *guard, uint64_t offset)
{
	uint32_t i = 0;

	while (i < guard->scanned_count && guard->scanned[i] != offset)
		i++;
	return i == guard->scanned_count;
}

static bool guard_is_static(const struct roami_job *job, uint64_t offset)
{
	uint32_t page = (uint32_t)(offset / ROAMI_PAGE);

	return roami_shared_in(job, page, page + 1);
}

static void guard_scan_one(struct roami_job *job, const struct roami_block *block)
{
	struct roami_guard *guard = &job->guard;
	uint64_t before = atomic_load(&guard->found);

	if (block->bytes == 0 || !guard_is_new(guard, block->offset) ||
	    guard_is_static(job, block->offset))
		return;
	guard_look(job, block->offset, "at the end");
	if (atomic_load(&guard->found) > before && guard->scanned_count < ROAMI_GUARD_REPORTS)
		guard->scanned[guard->scanned_count++] = block->offset;
}

void roami_guard_scan(struct roami_job *job)
{
	uint32_t count = roami_race_blocks(job->node);
	uint32_t *order;

	if (!guard_wanted(job) || count == 0)
		return;
	order = malloc(count * sizeof(*order));
	if (order == NULL)
		return;
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	qsort_r(order, count, sizeof(*order), order_compare, job->node);
	for (uint32_t i = 0; i < count; i++) {
		const struct roami_block *next =
			i + 1 < count ? roami_race_block_at(job->node, order[i + 1]) : NULL;
		const struct roami_block *block = roami_race_block_at(job->node, order[i]);

		/* Keeps only the newest block at each address. */
		if (block != NULL && (next == NULL || next->offset != block->offset))
			guard_scan_one(job, block);
	}
	free(order);
}

void roami_guard_serve(struct roami_job *job)
{
	if (!guard_wanted(job) || job->main->ended != NULL)
		return;
	roami_barrier(job->node, ROAMI_SEAL_ID, job->nodes);
	if (job->me == 0)
		roami_guard_scan(job);
}

void roami_guard_count(struct roami_job *job)
{
	for (unsigned i = 0; i < job->nodes && guard_wanted(job); i++) {
		const struct roami_stats *stats = &roami_job_ctl(job, i)->stats;

		if (i == job->me)
			continue;
		job->guard.others += roami_stats_sum(stats, ROAMI_STAT_heap_errors);
		job->guard.others_alike += roami_stats_sum(stats, ROAMI_STAT_heap_alike);
	}
}

void roami_guard_report(struct roami_job *job)
{
	uint64_t found = atomic_load(&job->guard.found) + job->guard.others;
	uint64_t alike = atomic_load(&job->guard.alike) + job->guard.others_alike;

	if (!guard_wanted(job) || job->me != 0 || job->guard.reported == found + 1)
		return;
	job->guard.reported = found + 1;
	job->found = job->found || found > 0;
	roami_check_verdict("heap", found - alike, alike, STDERR_FILENO);
}
