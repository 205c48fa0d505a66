/* Pages that will probably be touched next: see prefetch.h. */
#include "page/prefetch.h"

#include "base/region.h"
#include "base/thread.h"
#include "page/page.h"

#define FIRST        4u  /* pages fetched along with the third touch of a stream */
#define BRIEF_PART   8u  /* part of what was read, where copies do not last */
#define SKIPS        32u /* pages of a stream that were open already */
#define AGAIN        8u  /* times that a page comes along after a fault of its own */

/* ------------------------------------------------------------------------------------- streams */

static bool stream_expects(const struct roami_stream *stream, uint32_t page)
{
	return stream->stride != 0 && page - stream->last == (uint32_t)stream->stride;
}

/*
 * Two equal distances make a stream; its length doubles each time that the expected page is
 * touched.
 */
static uint32_t stream_grown(const struct roami_stream *stream)
{
	return stream->ahead == 0 ? FIRST : stream->ahead * 2;
}

static struct roami_stream *stream_replace(struct roami_streams *streams)
{
	roami_contract(streams != NULL);
	return &streams->of[streams->turn++ % ROAMI_STREAMS];
}

/* --------------------------------------------------------------------------------------- reads */

/* Whether a stream that continues at `next` has reached `page`: the pages between are open. */
static bool read_reaches(struct roami_node *node, const struct roami_stream *stream, uint32_t page)
{
	int64_t beyond = (int64_t)page - stream->next;
	uint32_t at = stream->next;

	if (stream->stride == 0 || beyond % stream->stride != 0 || beyond / stream->stride < 0 ||
	    beyond / stream->stride > SKIPS || at >= node->layout.pages)
		return false;
	for (; at != page; at += (uint32_t)stream->stride)
		if (roami_page_access(node, at) == ROAM_NONE)
			return false;
	return true;
}

static struct roami_stream *read_find(struct roami_node *node, struct roami_streams *reads,
				      uint32_t page)
{
	struct roami_stream *stream;

	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (read_reaches(node, &reads->of[i], page))
			return &reads->of[i];
	for (unsigned i = 0; i < ROAMI_STREAMS; i++) {
		stream = &reads->of[i];
		if (!stream_expects(stream, page))
			continue;
		/* The pages fetched ahead were gone before they were read: begin anew. */
		stream->first = stream->last;
		stream->ahead = 0;
		return stream;
	}
	stream = stream_replace(reads);
	stream->stride = (int32_t)(page - reads->last);
	stream->ahead = 0;
	stream->first = reads->last;
	stream->last = page;
	stream->next = page + (uint32_t)stream->stride;
	return NULL;
}

/*
 * Whether pages at a small stride are fetched with the pages between them, as the engine prefers.
 */
static bool read_bridged(const struct roami_node *node, int32_t stride)
{
	return stride > 1 && (uint32_t)stride <= pages_of(node)->engine->bridge;
}

/*
 * Pages fetched beyond the end are wasted if copies do not last: then only a small part of the
 * stream's length.
 */
static uint32_t read_grows(struct roami_node *node, const struct roami_stream *stream,
			   uint32_t page)
{
	roami_contract(stream->stride != 0);
	if (pages_of(node)->copy_is_brief(node, page))
		return (uint32_t)((int32_t)(page - stream->first) / stream->stride + 1) /
		       BRIEF_PART;
	return stream_grown(stream);
}

/*
 * The most pages to fetch ahead: not more than half of the cache, or they would evict each other.
 */
static uint32_t read_most(const struct roami_node *node)
{
	uint64_t max = node->options->prefetch, copies = node->options->cache_pages;

	return (uint32_t)(copies != 0 && copies / 2 < max ? copies / 2 : max);
}

static uint32_t read_ahead(struct roami_node *node, struct roami_streams *reads, uint32_t page,
			   int32_t *stride_p)
{
	uint32_t max = read_most(node), each;
	struct roami_stream *stream;

	if (max == 0)
		return 0;
	stream = read_find(node, reads, page);
	reads->last = page;
	if (stream == NULL)
		return 0;
	each = read_bridged(node, stream->stride) ? (uint32_t)stream->stride : 1;
	stream->ahead = read_grows(node, stream, page);
	if (stream->ahead > max / each)
		stream->ahead = max / each;
	stream->last = page;
	stream->next = page + (stream->ahead + 1) * (uint32_t)stream->stride;
	*stride_p = stream->stride;
	return stream->ahead;
}

/* How many pages first + i * stride, i < count, from the first one on, are the region's. */
static uint32_t ahead_within(const struct roami_region *region, uint32_t first, uint32_t count,
			     int32_t stride)
{
	uint32_t room;

	roami_contract(stride != 0 && region->first < region->end);
	if (first < region->first || first >= region->end)
		return 0;
	if (stride > 0)
		room = (region->end - 1 - first) / (uint32_t)stride + 1;
	else
		room = (first - region->first) / (uint32_t)-stride + 1;
	return count < room ? count : room;
}

/* Tells the region's protocol which of its pages will probably be read soon. */
static void ahead_ask(struct roami_node *node, const struct roami_region *region, uint32_t first,
		      uint32_t count, int32_t stride)
{
	roami_contract(roami_region_current(node) == region);
	count = ahead_within(region, first, count, stride);
	if (count > 0 && region->protocol->ahead != NULL)
		region->protocol->ahead(node, first, count, stride);
}

void roami_prefetch_read(struct roami_node *node, const struct roami_region *region, uint32_t page)
{
	int32_t stride = 0;
	uint32_t ahead;

	roami_contract(roami_region_of(node, page) == region);
	if (region->protocol->ahead == NULL)
		return;
	ahead = read_ahead(node, &roami_thread_self(node)->reads, page, &stride);
	if (ahead == 0)
		return;
	if (read_bridged(node, stride))
		ahead_ask(node, region, page + 1, ahead * (uint32_t)stride, 1);
	else
		ahead_ask(node, region, page + (uint32_t)stride, ahead, stride);
}

void roami_prefetch(struct roami_node *node, uint32_t first, uint32_t count)
{
	uint32_t end = first + count;

	roami_assert(first < node->layout.pages && count <= node->layout.pages - first);
	while (first < end) {
		struct roami_region *region = roami_region_of(node, first);
		uint32_t until = region->end < end ? region->end : end;
		unsigned was = roami_region_enter(node, region);

		ahead_ask(node, region, first, until - first, 1);
		roami_region_leave(node, was);
		first = until;
	}
}

/* -------------------------------------------------------------------------------------- claims */

static bool claim_near(const struct roami_stream *stream, uint32_t page)
{
	int64_t distance = (int64_t)page - stream->last;

	return distance != 0 && distance >= -ROAMI_PREFETCH_STRIDE_MAX &&
	       distance <= ROAMI_PREFETCH_STRIDE_MAX;
}

/*
 * Whether `page` begins a column next to the one that was claimed last: a matrix is written by
 * rows, in blocks.
 */
static bool claim_beside(const struct roami_stream *stream, uint32_t page)
{
	roami_contract(stream->ahead == 0 || stream->stride != 0);
	return stream->ahead > 0 && stream->stride != 1 && page == stream->first + 1;
}

struct roami_stream *roami_prefetch_claims_expect(struct roami_streams *claims, uint32_t page)
{
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (stream_expects(&claims->of[i], page))
			return &claims->of[i];
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (claim_beside(&claims->of[i], page))
			return &claims->of[i];
	return NULL;
}

struct roami_stream *roami_prefetch_claims_find(struct roami_streams *claims, uint32_t page)
{
	struct roami_stream *stream = roami_prefetch_claims_expect(claims, page);

	if (stream != NULL)
		return stream;
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (claim_near(&claims->of[i], page))
			return &claims->of[i];
	stream = stream_replace(claims);
	stream->last = page;
	return stream;
}

struct roami_stream *roami_prefetch_claims_granted(struct roami_streams *claims)
{
	for (unsigned i = 0; i < ROAMI_STREAMS; i++)
		if (claims->of[i].granted > 0)
			return &claims->of[i];
	return NULL;
}

uint32_t roami_prefetch_claim(struct roami_stream *stream, uint32_t page, uint32_t most)
{
	roami_assert(most > 0);
	if (stream_expects(stream, page)) {
		stream->ahead = stream_grown(stream);
	} else if (claim_beside(stream, page)) {
		roami_contract(stream->stride != 0);
		stream->ahead = (stream->last - stream->first) / (uint32_t)stream->stride;
		stream->first = page;
	} else {
		stream->ahead = 0;
		stream->first = stream->last;
		stream->stride = (int32_t)(page - stream->last);
	}
	if (stream->ahead > most - 1)
		stream->ahead = most - 1;
	stream->last = page;
	roami_contract(stream->ahead < most);
	return stream->ahead;
}

/* ---------------------------------------------------------------------------------------- rows */

bool roami_prefetch_row(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	return node->options->prefetch != 0 && roami_page_wants_write(node, page) && page > 0 &&
	       roami_page_dirty(node, page - 1);
}

/*
 * How many copies may open ahead of their writes: a release of more pages than ROAMI_DEFERRED_MAX
 * takes longer, so pages that may never be written are not what makes it so.
 */
static uint32_t row_room(struct roami_node *node, uint32_t most)
{
	uint32_t dirty = atomic_load_explicit(&pages_of(node)->dirty_count, memory_order_relaxed);
	uint32_t room = dirty < ROAMI_DEFERRED_MAX ? ROAMI_DEFERRED_MAX - dirty - 1 : most;

	return room < most ? room : most;
}

uint32_t roami_page_row(struct roami_node *node, uint32_t page, uint32_t most)
{
	uint32_t run = 0, end = (uint32_t)node->layout.pages - 1;
	bool own = roami_page_is_home(node, page);

	roami_contract(page < node->layout.pages);
	most = own ? most : row_room(node, most);
	while (run < most && run < page && page + run < end &&
	       roami_page_ours(node, page - run - 1) && roami_page_ours(node, page + run + 1) &&
	       roami_page_is_home(node, page - run - 1) == own &&
	       roami_page_access(node, page - run - 1) == ROAM_WRITE)
		run++;
	return run;
}

/* --------------------------------------------------------------------------------------- again */

void roami_page_asked(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	atomic_store_explicit(&roami_page_entry(node, page)->again, AGAIN, memory_order_relaxed);
}

bool roami_page_again(struct roami_node *node, uint32_t page, unsigned home)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t again = atomic_load_explicit(&entry->again, memory_order_relaxed);

	roami_contract(home < node->nodes);
	if (again == 0 || node->options->prefetch == 0 ||
	    roami_page_access(node, page) != ROAM_NONE ||
	    atomic_load_explicit(&entry->home, memory_order_relaxed) != home + 1)
		return false;
	atomic_store_explicit(&entry->again, (uint8_t)(again - 1), memory_order_relaxed);
	return true;
}
