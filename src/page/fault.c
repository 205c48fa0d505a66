/* Faults of the app view: what the touching thread does until its access may be tried again. */
#include <errno.h>
#include <string.h>

#include "base/region.h"
#include "base/thread.h"
#include "home/remote.h"
#include "os/os.h"
#include "page/page.h"

#define AHEAD_FIRST  4u
#define AHEAD_PART   8u  /* of what was read, where copies do not last */
#define STREAM_SKIPS 32u /* pages of a stream that were open already */

/* ------------------------------------------------------------------------------ fetching ahead */

/* Whether a stream that goes on at `next` has come to `page`: what lies between needs no fault. */
static bool stream_reaches(struct roami_node *node, const struct roami_stream *stream,
			   uint32_t page)
{
	int64_t beyond = (int64_t)page - stream->next;
	uint32_t at = stream->next;

	if (stream->stride == 0 || beyond % stream->stride != 0 || beyond / stream->stride < 0 ||
	    beyond / stream->stride > STREAM_SKIPS || at >= node->layout.pages)
		return false;
	for (; at != page; at += (uint32_t)stream->stride)
		if (roami_page_access(node, at) == ROAM_NONE)
			return false;
	return true;
}

/* What was fetched ahead is gone before it was read: the stream may end as soon this time. */
static void stream_again(struct roami_stream *stream)
{
	stream->first = stream->last;
	stream->ahead = 0;
}

static struct roami_stream *stream_near(struct roami_node *node, struct roami_thread *thread,
					uint32_t page)
{
	struct roami_stream *stream;

	for (unsigned i = 0; i < ROAMI_STREAMS; i++) {
		stream = &thread->streams[i];
		if (stream_reaches(node, stream, page))
			return stream;
	}
	for (unsigned i = 0; i < ROAMI_STREAMS; i++) {
		stream = &thread->streams[i];
		if (stream->stride != 0 && page - stream->last == (uint32_t)stream->stride) {
			stream_again(stream);
			return stream;
		}
	}
	stream = &thread->streams[thread->stream_next++ % ROAMI_STREAMS];
	stream->stride = (int32_t)(page - thread->last_fault);
	stream->ahead = 0;
	stream->first = thread->last_fault;
	stream->last = page;
	stream->next = page + (uint32_t)stream->stride;
	return NULL;
}

/* Pages of a small stride are brought with those between them, where the engine prefers that. */
static bool stream_bridged(const struct roami_node *node, int32_t stride)
{
	return stride > 1 && (uint32_t)stride <= node->engine->bridge;
}

/*
 * Two equal distances make a stream; it doubles each time its next expected page faults.  What is
 * fetched beyond its end is lost if copies do not last: then it is a small part of what was read.
 */
static uint32_t stream_grows(struct roami_node *node, const struct roami_stream *stream,
			     uint32_t page)
{
	if (roami_copy_is_brief(node, page))
		return (uint32_t)((int32_t)(page - stream->first) / stream->stride + 1) /
		       AHEAD_PART;
	return stream->ahead == 0 ? AHEAD_FIRST : stream->ahead * 2;
}

/* Pages fetched ahead at most: of more than half of the copies there may be, few would last. */
static uint32_t ahead_most(const struct roami_node *node)
{
	uint64_t max = node->options->prefetch, copies = node->options->cache_pages;

	return (uint32_t)(copies != 0 && copies / 2 < max ? copies / 2 : max);
}

static uint32_t stream_ahead(struct roami_node *node, struct roami_thread *thread, uint32_t page,
			     int32_t *stride_p)
{
	uint32_t max = ahead_most(node), each;
	struct roami_stream *stream;

	if (max == 0)
		return 0;
	stream = stream_near(node, thread, page);
	thread->last_fault = page;
	if (stream == NULL)
		return 0;
	each = stream_bridged(node, stream->stride) ? (uint32_t)stream->stride : 1;
	stream->ahead = stream_grows(node, stream, page);
	if (stream->ahead > max / each)
		stream->ahead = max / each;
	stream->last = page;
	stream->next = page + (stream->ahead + 1) * (uint32_t)stream->stride;
	*stride_p = stream->stride;
	return stream->ahead;
}

/* ------------------------------------------------------------------------------- coming back */

#define RETURNS_MAX 16u
#define RETURNS     (sizeof(((struct roami_returns *)0)->pages) / sizeof(uint32_t))

/*
 * A page may be gone before the access that faulted is made, if the thread does not get to run (or
 * waits for another page that the same instruction needs).  Then it faults again, having run for
 * the time of a fault's way in and out.  A write after a read of a page proves nothing: that is how
 * one instruction may do it, or two.  Nor does a page that this node has evicted: with few copies
 * threads come back to many, which others wait for.
 */
static struct roami_returns *returns_of(struct roami_node *node)
{
	return &roami_thread_self(node)->returns;
}

static struct roami_returns *returns_enter(struct roami_node *node)
{
	struct roami_returns *returns = returns_of(node);

	returns->idle = returns->ran != 0 &&
			node->env->ran(node) - returns->ran < ROAM_STAY_NS / 2;
	return returns;
}

static void returns_count(struct roami_returns *returns, uint32_t page, bool upgrade, bool evicted)
{
	bool listed = false;

	for (unsigned i = 0; i < RETURNS; i++)
		listed |= returns->pages[i] == page + 1;
	if (!listed)
		returns->pages[returns->next++ % RETURNS] = page + 1;
	if (upgrade && returns->read == page + 1)
		return;
	if (!listed || !returns->idle || evicted)
		returns->count = 0;
	else if (returns->count < RETURNS_MAX)
		returns->count++;
	returns->again = listed;
}

/* Only who comes back to a page pays for a look at the clock. */
static void returns_leave(struct roami_node *node, struct roami_returns *returns, uint32_t page,
			  bool write)
{
	returns->read = write ? 0 : page + 1;
	returns->ran = returns->again ? node->env->ran(node) : 0;
}

void roami_returns_forget(struct roami_node *node)
{
	returns_of(node)->ran = 0;
}

/* Each node another time: two that each need what the other has must not swap it for ever. */
uint64_t roami_stay_ns(struct roami_node *node)
{
	uint64_t more = ((uint64_t)ROAM_STAY_NS << returns_of(node)->count) - ROAM_STAY_NS;

	return ROAM_STAY_NS + more + more * node->me / node->nodes;
}

/* -------------------------------------------------------------------------------------- faults */

/* A write to a page that this node can read. */
static void fault_upgrade(struct roami_node *node, const struct roam_protocol *protocol,
			  uint32_t page)
{
	if (protocol->write_fault != NULL)
		protocol->write_fault(node, page);
	if (roami_page_access(node, page) == ROAM_READ &&
	    roami_writes_of(node, page) == ROAM_WRITES_DIFF)
		roami_page_upgrade(node, page);
}

static void fault_none(struct roami_node *node, const struct roam_protocol *protocol, uint32_t page,
		       bool write)
{
	if (write && roami_writes_of(node, page) == ROAM_WRITES_FAULT) {
		protocol->write_fault(node, page);
		return;
	}
	if (write)
		atomic_fetch_or(&node->table[page].flags, ROAMI_PAGE_WANT);
	protocol->read_fault(node, page);
}

/* How many of the pages first + i * stride, i < count, are the domain's, from the first one on. */
static uint32_t ahead_within(const struct roami_domain *domain, uint32_t first, uint32_t count,
			     int32_t stride)
{
	uint32_t room;

	if (first < domain->first || first >= domain->end)
		return 0;
	if (stride > 0)
		room = (domain->end - 1 - first) / (uint32_t)stride + 1;
	else
		room = (first - domain->first) / (uint32_t)-stride + 1;
	return count < room ? count : room;
}

/* Of pages that will probably be read soon, the domain's protocol gets those that are its own. */
static void ahead_ask(struct roami_node *node, const struct roami_domain *domain, uint32_t first,
		      uint32_t count, int32_t stride)
{
	count = ahead_within(domain, first, count, stride);
	if (count > 0 && domain->protocol->ahead != NULL)
		domain->protocol->ahead(node, first, count, stride);
}

/* After a fault in `domain`, which the thread is still in. */
static void fault_ahead(struct roami_node *node, const struct roami_domain *domain, uint32_t page)
{
	struct roami_thread *thread = roami_thread_self(node);
	int32_t stride = 0;
	uint32_t ahead;

	if (domain->protocol->ahead == NULL)
		return;
	ahead = stream_ahead(node, thread, page, &stride);
	if (ahead == 0)
		return;
	if (stream_bridged(node, stride))
		ahead_ask(node, domain, page + 1, ahead * (uint32_t)stride, 1);
	else
		ahead_ask(node, domain, page + (uint32_t)stride, ahead, stride);
}

void roami_prefetch(struct roami_node *node, uint32_t first, uint32_t count)
{
	uint32_t end = first + count;

	while (first < end) {
		struct roami_domain *domain = roami_domain_of(node, first);
		uint32_t until = domain->end < end ? domain->end : end;
		unsigned was = roami_domain_enter(node, domain);

		ahead_ask(node, domain, first, until - first, 1);
		roami_domain_leave(node, was);
		first = until;
	}
}

/*
 * The page table says the access is there, yet the page faulted: an engine call for a neighbour
 * took it along, or another thread got it first.  Under the page lock, and only what the table says
 * then: a handler may take it away, pending or not.
 */
static void fault_repair(struct roami_node *node, uint32_t page)
{
	enum roam_err err = ROAM_OK;
	enum roam_access has;

	roami_step(node);
	roami_page_lock(node, page);
	has = roami_page_access(node, page);
	if (has != ROAM_NONE)
		err = node->engine->protect(node->engine_state, page, 1, ROAM_NONE, ROAM_READ);
	if (err == ROAM_OK && has == ROAM_WRITE)
		err = node->engine->protect(node->engine_state, page, 1, ROAM_READ, ROAM_WRITE);
	roami_page_unlock(node, page);
	if (err != ROAM_OK)
		roami_node_fail(node, "cannot open page %u: %s", page, roam_strerror(err));
}

/* The calling thread is the only one that has used this node, and another one would wait now. */
static void solo_enter(struct roami_node *node)
{
	if (node->engine->copy == NULL)
		return;
	node->env->thread(node);
	if (atomic_load(&node->users) != 1)
		return;
	atomic_store(&node->solo, 1);
	if (atomic_load(&node->users) != 1)
		atomic_store(&node->solo, 0);
}

static void solo_leave(struct roami_node *node)
{
	if (atomic_load_explicit(&node->solo, memory_order_relaxed) != 0)
		atomic_store_explicit(&node->solo, 0, memory_order_release);
}

void roami_fault(struct roami_node *node, uint32_t page, bool write, bool kind_known)
{
	struct roami_domain *domain = roami_domain_of(node, page);
	struct roami_returns *returns = NULL;
	enum roam_access has;
	unsigned was;

	if (page < domain->first || page >= domain->end)
		roami_node_fail(node, "touch beyond the shared heap");
	if (!roami_node_dumped(node, page))
		roami_page_dump(node, page);
	roami_step(node);
	was = roami_domain_enter(node, domain);
	if (node->options->cache_pages != 0)
		roami_evict_not(node, page);
	if (domain->protocol->writes == ROAM_WRITES_FAULT)
		returns = returns_enter(node);
	roami_page_hold(node, page);
	has = roami_page_access(node, page);
	if (has == ROAM_NONE)
		solo_enter(node);
	if (!kind_known)
		write = has == ROAM_READ;
	if (returns != NULL)
		returns_count(returns, page, write && has == ROAM_READ,
			      node->table[page].evicted);
	node->table[page].evicted = 0;
	if (has == ROAM_WRITE || (has == ROAM_READ && !write)) {
		fault_repair(node, page);
	} else if (has == ROAM_READ) {
		ROAMI_COUNT(node->stats, write_faults, 1);
		fault_upgrade(node, domain->protocol, page);
	} else {
		if (write)
			ROAMI_COUNT(node->stats, write_faults, 1);
		else
			ROAMI_COUNT(node->stats, read_faults, 1);
		fault_none(node, domain->protocol, page, write);
	}
	roami_page_done(node, page);
	if (has == ROAM_NONE && !write)
		fault_ahead(node, domain, page);
	roami_domain_leave(node, was);
	if (has == ROAM_NONE)
		solo_leave(node);
	if (node->options->cache_pages != 0)
		roami_evict(node);
	if (returns != NULL)
		returns_leave(node, returns, page, write);
}

void roami_fault_entry(void *arg, uint32_t page, bool write, bool kind_known)
{
	struct roami_node *node = arg;
	uint64_t start = roami_os_cycles();
	int saved = errno;

	roami_fault(node, page, write, kind_known);
	errno = saved;
	ROAMI_TIME(node->stats, page, roami_os_cycles() - start);
}

/* ---------------------------------------------------------------------------- loads and stores */

/* Of `bytes` from `offset` on, what lies in the first page. */
static size_t heap_step(uint64_t offset, size_t bytes)
{
	size_t left = ROAMI_PAGE - offset % ROAMI_PAGE;

	return bytes < left ? bytes : left;
}

void roami_heap_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes)
{
	uint8_t *to = out;
	size_t step;

	if (node->engine->load == NULL)
		memcpy(out, node->app + offset, bytes);
	for (; node->engine->load != NULL && bytes > 0; bytes -= step) {
		step = heap_step(offset, bytes);
		roami_step(node);
		while (!node->engine->load(node->engine_state, offset, to, step))
			roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), false, true);
		offset += step;
		to += step;
	}
}

void roami_heap_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes)
{
	const uint8_t *from = in;
	size_t step;

	if (node->engine->store == NULL)
		memcpy(node->app + offset, in, bytes);
	for (; node->engine->store != NULL && bytes > 0; bytes -= step) {
		step = heap_step(offset, bytes);
		roami_step(node);
		while (!node->engine->store(node->engine_state, offset, from, step))
			roami_fault(node, (uint32_t)(offset / ROAMI_PAGE), true, true);
		offset += step;
		from += step;
	}
}
