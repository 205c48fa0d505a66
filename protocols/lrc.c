/*
 * lrc: homeless lazy release consistency.
 *
 * Paper: Keleher, Cox, Dwarkadas and Zwaenepoel, TreadMarks: Distributed Shared Memory on Standard
 * Workstations and Operating Systems (1994).
 *
 * Idea.  No page has a home.  Releases cut a node's time into intervals and send nothing.  Write
 * notices of intervals travel with locks and barriers; who acquires makes the pages they name
 * unreadable.  A fault then asks the writers, all at once, for the diffs that are missing, and
 * applies them to the copy that is still here.  A writer makes a diff as late as it can: when it is
 * asked, or when another's notice makes its own page unreadable.  So a page that one node writes in
 * many intervals has one twin and one diff for all of them.
 *
 * Diffs are kept by their writers, in a bounded store.  At half the bound (at a quarter, at a full
 * barrier) a node gives the oldest to the pages' managers, whose copies become the base: who asks
 * for a diff that is gone takes the manager's page instead (RULES 8.1).
 *
 * Page states: start (the first bytes here at node 0, none elsewhere); stale, a copy that must not
 * be read; copy.
 *
 * Messages: diffs and page, asked by a fault; marks, base and patch, from a node that makes room to
 * a page's manager: what it has; a first copy; diffs.
 *
 * The order of diffs.  Each has a key, one more than any in the copy that it was made of.  If a
 * write in diff D happened before one in E to the same byte, E's writer had to apply D first, so D
 * has the smaller key, and diffs are applied in the order of their keys.  D is among those that a
 * node asks for when E is, for three reasons:
 * - All notices of a page that one acquire brings are noted at once.
 * - A notice counts up to the interval that the acquire shows, though the log may know a later one.
 * - Another's notice ends the diff of a page, even if the page has that diff already: a diff that
 *   went on could hold what was written after it.
 * A copy is *closed* then: with a diff, it has what happened before it.
 *
 * A copy's marks say for each writer up to which interval (have) and which diff (key) it is
 * complete; `need` is the newest interval that a notice named, `top` the key that the copy was at
 * before a base took its place.
 *
 * Handlers take page locks only, and never wait or park.
 *
 * Differences from the paper, and why:
 * - Keys instead of vector clocks order diffs: four bytes, and no search for the least one.
 * - Collection needs no second barrier, and works without barriers: see above.
 * - A node without a copy takes that of the busiest writer, stale or not, and asks for what it lacks.
 * - A page that is being written is given without its open writes: what is written and written back
 *   would be in no diff.
 */
#include "roam/protocol.h"

#include <string.h>

enum lrc_state { LRC_START, LRC_STALE, LRC_COPY };

enum { LRC_DIFFS, LRC_PAGE, LRC_MARKS, LRC_BASE, LRC_PATCH }; /* messages */

/* In the store, of each diff, and of each twin with writes of a closed interval. */
struct lrc_diff {
	uint32_t page;
	uint32_t next; /* of the page */
	uint32_t older, newer;
	uint32_t key;
	uint32_t first, last; /* intervals that it has writes of */
	uint32_t bytes;
};

_Static_assert(sizeof(struct lrc_diff) == ROAM_STORE_HEAD, "the head of a stored diff");

struct lrc_node {
	uint32_t oldest, newest; /* stored diffs, and twins */
	uint64_t total;
	uint64_t reserved; /* for the diffs of twins */
};

struct lrc_mark {
	uint32_t have;
	uint32_t key;
};

struct lrc_from {
	struct lrc_mark mark;
	uint32_t need;
	uint32_t top;
};

struct lrc_page {
	uint32_t first, last; /* own stored diffs */
	uint32_t twin;        /* the stored record of the twin; 0: it has open writes only */
	uint32_t gone;        /* key of the newest own diff that the manager has instead */
	uint32_t key;         /* the highest in the copy */
	struct lrc_from from[];
};

/* On the wire. */
struct lrc_ask {
	uint32_t page;
	uint32_t after;    /* this key: */
	uint32_t upto;     /* diffs that began by this interval */
	uint32_t upto_key; /* or have at most this key */
};

struct lrc_answer {
	uint32_t gone;
	uint32_t have; /* interval up to which it is complete */
	uint32_t next; /* key of the first that had no room; 0: all are here */
	uint32_t spare;
};

struct lrc_item {
	uint32_t key;
	uint32_t writer;
	uint32_t bytes;
	uint32_t spare;
};

struct lrc_copy {
	uint32_t page;
	uint32_t key;
	uint32_t here;
	uint32_t spare;
	struct lrc_mark marks[]; /* then the bytes */
};

#define NODES_MAX   64u
#define BATCH       256u         /* pages of an acquire handled at a time */
#define REPLY       (24u * 1024) /* bytes of an answer with diffs */
#define PATCH_BYTES (32u * 1024)
#define COPY_MAX    (sizeof(struct lrc_copy) + NODES_MAX * sizeof(struct lrc_mark) + ROAM_PAGE_SIZE)

static struct lrc_page *lrc_page(struct roami_node *node, uint32_t page)
{
	return roami_page_data(node, page);
}

static struct lrc_diff *lrc_diff(struct roami_node *node, uint32_t record)
{
	return roami_store_head(node, record);
}

/* Whether there are bytes of the page here, readable or not; under its lock. */
static bool lrc_has(struct roami_node *node, uint32_t page)
{
	return roami_page_state(node, page) != LRC_START || roami_me(node) == 0;
}

static size_t lrc_padded(size_t bytes)
{
	return (bytes + 7u) & ~(size_t)7;
}

/* -------------------------------------------------------------------------------------- the store */

/* Room for a twin's record, and then for its diff. */
static uint64_t lrc_room(void)
{
	return roami_store_need(ROAM_DIFF_MAX);
}

/* The store is locked in the next four. */
static void lrc_append(struct roami_node *node, uint32_t record)
{
	struct lrc_node *lrc = roami_node_state(node);

	lrc_diff(node, record)->older = lrc->newest;
	lrc_diff(node, record)->newer = 0;
	if (lrc->newest != 0)
		lrc_diff(node, lrc->newest)->newer = record;
	else
		lrc->oldest = record;
	lrc->newest = record;
}

static void lrc_remove(struct roami_node *node, uint32_t record)
{
	struct lrc_node *lrc = roami_node_state(node);
	const struct lrc_diff *diff = lrc_diff(node, record);

	if (diff->older != 0)
		lrc_diff(node, diff->older)->newer = diff->newer;
	else
		lrc->oldest = diff->newer;
	if (diff->newer != 0)
		lrc_diff(node, diff->newer)->older = diff->older;
	else
		lrc->newest = diff->older;
	roami_store_drop(node, record);
}

static uint32_t lrc_put(struct roami_node *node, const struct lrc_diff *diff, const uint8_t *bytes)
{
	uint32_t record = roami_store_put(node, bytes, diff->bytes);

	roami_assert(record != 0); /* it was reserved */
	*lrc_diff(node, record) = *diff;
	lrc_append(node, record);
	return record;
}

static uint64_t lrc_used(struct roami_node *node)
{
	const struct lrc_node *lrc = roami_node_state(node);

	return lrc->total - roami_store_left(node) + lrc->reserved;
}

/* Notes that the page's twin has writes of the interval that ends; under the page lock. */
static void lrc_keep_twin(struct roami_node *node, uint32_t page)
{
	struct lrc_node *lrc = roami_node_state(node);
	struct lrc_diff diff = {.page = page, .first = roami_interval(node)};

	roami_store_lock(node);
	lrc_page(node, page)->twin = lrc_put(node, &diff, NULL);
	lrc->reserved += lrc_room();
	roami_store_unlock(node);
}

/* The twin becomes a stored diff; under the page lock, and nobody can write the page. */
static void lrc_seal(struct roami_node *node, uint32_t page)
{
	struct lrc_node *lrc = roami_node_state(node);
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_from *own = &data->from[roami_me(node)];
	uint32_t open = roami_interval(node), record = 0;
	uint8_t bytes[ROAM_DIFF_MAX];
	struct lrc_diff diff = {.page = page, .first = open, .last = open};

	diff.bytes = (uint32_t)roami_diff_make(node, page, bytes, false);
	roami_twin_drop(node, page);
	roami_store_lock(node);
	if (data->twin != 0) {
		diff.first = lrc_diff(node, data->twin)->first;
		if (diff.first < open)
			diff.last = open - 1; /* and some of the open one's */
		lrc_remove(node, data->twin);
		lrc->reserved -= lrc_room();
		data->twin = 0;
	}
	if (diff.bytes > 0) {
		diff.key = own->mark.key = own->top = ++data->key;
		record = lrc_put(node, &diff, bytes);
		if (data->first == 0)
			data->first = record;
		else
			lrc_diff(node, data->last)->next = record;
		data->last = record;
	}
	roami_store_unlock(node);
}

/* The same for a page that may be written, from a handler. */
static void lrc_seal_open(struct roami_node *node, uint32_t page)
{
	roami_page_close(node, &page, 1, ROAM_READ);
	lrc_seal(node, page);
}

/* ----------------------------------------------------------------------------- diffs for others */

/* Under the page lock.  The answer, and the diffs behind it; how many bytes. */
static size_t lrc_gather(struct roami_node *node, const struct lrc_ask *ask, uint8_t *out)
{
	struct lrc_page *data = lrc_page(node, ask->page);
	struct lrc_answer answer = {.gone = ask->after < data->gone, .have = ask->upto};
	size_t used = sizeof(answer);
	uint32_t at;

	roami_store_lock(node);
	at = data->twin != 0 ? lrc_diff(node, data->twin)->first : UINT32_MAX;
	roami_store_unlock(node);
	if (at <= ask->upto)
		lrc_seal_open(node, ask->page);
	roami_store_lock(node);
	for (at = answer.gone ? 0 : data->first; at != 0 && answer.next == 0;
	     at = lrc_diff(node, at)->next) {
		const struct lrc_diff *diff = lrc_diff(node, at);
		struct lrc_item item = {diff->key, roami_me(node), diff->bytes, 0};

		if (diff->key <= ask->after)
			continue;
		if (diff->first > ask->upto && diff->key > ask->upto_key)
			break;
		if (used + sizeof(item) + lrc_padded(diff->bytes) > REPLY) {
			answer.next = diff->key;
			continue;
		}
		memcpy(out + used, &item, sizeof(item));
		roami_store_get(node, at, out + used + sizeof(item), item.bytes);
		used += sizeof(item) + lrc_padded(item.bytes);
		if (answer.have < diff->last && diff->first <= ask->upto)
			answer.have = diff->last;
	}
	roami_store_unlock(node);
	memcpy(out, &answer, sizeof(answer));
	return used;
}

static uint32_t lrc_check_page(struct roami_node *node, const struct roam_request *request,
			       size_t bytes)
{
	uint32_t page = UINT32_MAX;

	if (request->bytes >= bytes)
		memcpy(&page, request->data, sizeof(page));
	if (page >= roami_pages(node))
		roami_node_fail(node, "node %u sent a malformed request", request->from);
	return page;
}

static void lrc_diffs(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = lrc_check_page(node, request, sizeof(struct lrc_ask));
	uint8_t out[REPLY];
	struct roam_part part = {out, 0};
	struct lrc_ask ask;

	memcpy(&ask, request->data, sizeof(ask));
	roami_page_lock(node, page);
	part.bytes = lrc_gather(node, &ask, out);
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

/* ---------------------------------------------------------------------------------- whole copies */

static size_t lrc_copy_bytes(const struct roami_node *node)
{
	return sizeof(struct lrc_copy) + roami_count(node) * sizeof(struct lrc_mark);
}

/* This node's copy and its marks, without open writes; under the page lock.  How many bytes. */
static size_t lrc_copy_out(struct roami_node *node, uint32_t page, uint8_t *out)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_copy *copy = (void *)out;
	unsigned me = roami_me(node);
	const struct lrc_from *own = &data->from[me];

	if (data->twin != 0)
		lrc_seal_open(node, page);
	*copy = (struct lrc_copy){page, data->key, lrc_has(node, page), 0};
	for (unsigned i = 0; i < roami_count(node); i++)
		copy->marks[i] = data->from[i].mark;
	if (own->mark.key == own->top) /* else some own diffs are not in it again yet */
		copy->marks[me].have = roami_interval(node) - 1;
	roami_page_copy(node, out + lrc_copy_bytes(node), roami_page_old(node, page));
	return lrc_copy_bytes(node) + ROAM_PAGE_SIZE;
}

/*
 * A copy takes the place of this node's, which may have had more: `top` says what to ask for again.
 * Under the page lock.
 */
static void lrc_copy_in(struct roami_node *node, uint32_t page, const uint8_t *in)
{
	struct lrc_page *data = lrc_page(node, page);
	const struct lrc_copy *copy = (const void *)in;

	for (unsigned i = 0; i < roami_count(node); i++) {
		data->from[i].mark = copy->marks[i];
		if (data->from[i].top < copy->marks[i].key)
			data->from[i].top = copy->marks[i].key;
	}
	if (data->key < copy->key)
		data->key = copy->key;
	roami_page_copy(node, roami_page_bytes(node, page), in + lrc_copy_bytes(node));
	if (roami_page_state(node, page) == LRC_START)
		roami_page_move(node, page, LRC_STALE);
}

static void lrc_page_asked(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = lrc_check_page(node, request, sizeof(page));
	_Alignas(8) uint8_t out[COPY_MAX];
	struct roam_part part = {out, 0};

	roami_page_lock(node, page);
	part.bytes = lrc_copy_out(node, page, out);
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

/* ---------------------------------------------------------------------------------------- streams */

/* Diffs of one writer, ascending by key. */
struct lrc_stream {
	unsigned writer;
	const uint8_t *at, *end;
	struct lrc_answer answer;
};

static void lrc_stream(struct roami_node *node, struct lrc_stream *stream, unsigned writer,
		       const uint8_t *in, size_t bytes)
{
	stream->writer = writer;
	stream->at = in + sizeof(stream->answer);
	stream->end = in + bytes;
	if (bytes < sizeof(stream->answer))
		roami_node_fail(node, "node %u sent a malformed answer", writer);
	memcpy(&stream->answer, in, sizeof(stream->answer));
}

/* Reads an item at `at`, checked; false: there is none. */
static bool lrc_item(struct roami_node *node, const uint8_t *at, const uint8_t *end,
		     struct lrc_item *item)
{
	if (at == end)
		return false;
	if ((size_t)(end - at) < sizeof(*item))
		roami_node_fail(node, "a malformed diff came");
	memcpy(item, at, sizeof(*item));
	if (item->bytes > ROAM_DIFF_MAX || item->writer >= roami_count(node) ||
	    lrc_padded(item->bytes) > (size_t)(end - at) - sizeof(*item))
		roami_node_fail(node, "a malformed diff came");
	return true;
}

/*
 * Takes the diff with the least key of all; false: none is left, or one with a smaller key did not
 * fit into its writer's answer.
 */
static bool lrc_next(struct roami_node *node, struct lrc_stream *streams, unsigned count,
		     struct lrc_item *item, const uint8_t **bytes_p)
{
	struct lrc_stream *least = NULL;
	uint32_t limit = UINT32_MAX;

	for (unsigned i = 0; i < count; i++) {
		struct lrc_item one;

		if (streams[i].answer.next != 0 && streams[i].answer.next < limit)
			limit = streams[i].answer.next;
		if (lrc_item(node, streams[i].at, streams[i].end, &one) &&
		    (least == NULL || one.key < item->key)) {
			least = &streams[i];
			*item = one;
		}
	}
	if (least == NULL || item->key >= limit)
		return false;
	*bytes_p = least->at + sizeof(*item);
	least->at += sizeof(*item) + lrc_padded(item->bytes);
	return true;
}

/* Applies a diff that this copy has not; under the page lock. */
static void lrc_patch_one(struct roami_node *node, uint32_t page, const struct lrc_item *item,
			  const uint8_t *bytes)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_from *from = &data->from[item->writer];

	if (item->key <= from->mark.key)
		return;
	if (!roami_diff_patch(node, page, bytes, item->bytes))
		roami_node_fail(node, "node %u made a malformed diff", item->writer);
	from->mark.key = item->key;
	if (from->top < item->key)
		from->top = item->key;
	if (data->key < item->key)
		data->key = item->key;
}

/* -------------------------------------------------------------------------------------- faults */

static bool lrc_lacks(const struct lrc_from *from)
{
	return from->need > from->mark.have || from->top > from->mark.key;
}

/* Whether the copy must not be read; under the page lock. */
static bool lrc_stale(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned me = roami_me(node);

	for (unsigned i = 0; i < roami_count(node); i++)
		if (i == me ? data->from[i].top > data->from[i].mark.key
			    : lrc_lacks(&data->from[i]))
			return true;
	return !lrc_has(node, page);
}

/* Who has a copy for certain. */
static unsigned lrc_holder(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned holder = 0;

	for (unsigned i = 0; i < roami_count(node); i++)
		if (i != roami_me(node) && data->from[i].need > data->from[holder].need)
			holder = i;
	return holder;
}

/* Takes a whole copy of `from`'s; a manager only its first: others rely on what it has. */
static void lrc_fetch_page(struct roami_node *node, uint32_t page, unsigned from)
{
	uint8_t *in = roami_scratch(node);
	struct roam_part part = {&page, sizeof(page)};
	size_t bytes = roami_call(node, from, LRC_PAGE, &part, 1, in, COPY_MAX);

	if (bytes != lrc_copy_bytes(node) + ROAM_PAGE_SIZE ||
	    ((const struct lrc_copy *)(const void *)in)->here == 0)
		roami_node_fail(node, "node %u has no page %u", from, page);
	roami_fetched(node);
	roami_page_lock(node, page);
	if (roami_manager(node, page) != roami_me(node) || !lrc_has(node, page))
		lrc_copy_in(node, page, in);
	roami_page_unlock(node, page);
}

/*
 * Sends all questions, then waits; own diffs are among the streams if asked for.  How many streams;
 * *gone_p: somebody has no more what was asked for.
 */
static unsigned lrc_call(struct roami_node *node, struct lrc_ask *asks, const bool *wanted,
			 struct lrc_stream *streams, bool *gone_p)
{
	struct roam_call calls[NODES_MAX];
	struct roam_part parts[NODES_MAX];
	unsigned used = 0, count = 0, me = roami_me(node);
	uint8_t *scratch = roami_scratch(node);

	*gone_p = false;
	for (unsigned i = 0; i < roami_count(node); i++) {
		if (!wanted[i] || i == me)
			continue;
		parts[used] = (struct roam_part){&asks[i], sizeof(asks[i])};
		calls[used] = (struct roam_call){
			i, LRC_DIFFS, &parts[used], 1, scratch + i * PATCH_BYTES, REPLY, 0};
		used++;
	}
	roami_call_all(node, calls, used);
	for (unsigned i = 0; i < used; i++)
		lrc_stream(node, &streams[count++], calls[i].to, calls[i].reply, calls[i].bytes);
	if (wanted[me]) {
		uint8_t *own = scratch + me * PATCH_BYTES;
		size_t bytes;

		roami_page_lock(node, asks[me].page);
		bytes = lrc_gather(node, &asks[me], own);
		roami_page_unlock(node, asks[me].page);
		lrc_stream(node, &streams[count++], me, own, bytes);
	}
	for (unsigned i = 0; i < count; i++)
		*gone_p |= streams[i].answer.gone != 0;
	return count;
}

/* Brings the diffs that the copy lacks; false: some are gone. */
static bool lrc_fetch_diffs(struct roami_node *node, uint32_t page)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_ask asks[NODES_MAX];
	struct lrc_stream streams[NODES_MAX];
	bool wanted[NODES_MAX], gone;
	struct lrc_item item;
	const uint8_t *bytes;
	unsigned count;

	roami_page_lock(node, page);
	for (unsigned i = 0; i < roami_count(node); i++) {
		const struct lrc_from *from = &data->from[i];

		wanted[i] = i == roami_me(node) ? from->top > from->mark.key : lrc_lacks(from);
		asks[i] = (struct lrc_ask){page, from->mark.key,
					   i == roami_me(node) ? 0 : from->need, from->top};
	}
	roami_page_unlock(node, page);
	count = lrc_call(node, asks, wanted, streams, &gone);
	if (gone)
		return false;
	roami_page_lock(node, page);
	while (lrc_next(node, streams, count, &item, &bytes))
		lrc_patch_one(node, page, &item, bytes);
	for (unsigned i = 0; i < count; i++) {
		struct lrc_mark *mark = &data->from[streams[i].writer].mark;

		if (streams[i].answer.next == 0 && streams[i].at == streams[i].end &&
		    mark->have < streams[i].answer.have)
			mark->have = streams[i].answer.have;
	}
	roami_page_unlock(node, page);
	return true;
}

/* Makes the pending page's copy as new as the notices ask. */
static void lrc_validate(struct roami_node *node, uint32_t page)
{
	unsigned manager = roami_manager(node, page), me = roami_me(node);

	for (;;) {
		bool has, good;

		roami_page_lock(node, page);
		has = lrc_has(node, page);
		good = !lrc_stale(node, page);
		if (good && roami_page_state(node, page) != LRC_COPY)
			roami_page_move(node, page, LRC_COPY);
		roami_page_unlock(node, page);
		if (good)
			return;
		if (!has)
			lrc_fetch_page(node, page, lrc_holder(node, page));
		else if (!lrc_fetch_diffs(node, page) && manager != me)
			lrc_fetch_page(node, page, manager);
	}
}

static void lrc_read_fault(struct roami_node *node, uint32_t page)
{
	lrc_validate(node, page);
	roami_page_open(node, page, 1, ROAM_READ);
}

/* ------------------------------------------------------------------------------------ collection */

/* Drops own diffs up to `key`: the manager has them. */
static void lrc_forget(struct roami_node *node, uint32_t page, uint32_t key)
{
	struct lrc_page *data = lrc_page(node, page);

	roami_page_lock(node, page);
	roami_store_lock(node);
	while (data->first != 0 && lrc_diff(node, data->first)->key <= key) {
		uint32_t next = lrc_diff(node, data->first)->next;

		lrc_remove(node, data->first);
		data->first = next;
	}
	if (data->first == 0)
		data->last = 0;
	if (data->gone < key)
		data->gone = key;
	roami_store_unlock(node);
	roami_page_unlock(node, page);
}

/* Sends this node's copy to a manager that has none; it takes it if it still has none. */
static void lrc_give_base(struct roami_node *node, uint32_t page, unsigned manager)
{
	_Alignas(8) uint8_t out[COPY_MAX];
	struct roam_part part = {out, 0};

	roami_page_lock(node, page);
	part.bytes = lrc_copy_out(node, page, out);
	roami_page_unlock(node, page);
	roami_call(node, manager, LRC_BASE, &part, 1, NULL, 0);
}

/* Sends the streams' diffs to the manager, in their order. */
static void lrc_send_patches(struct roami_node *node, uint32_t page, unsigned manager,
			     struct lrc_stream *streams, unsigned count)
{
	uint8_t *out = roami_scratch(node) + manager * PATCH_BYTES;
	uint64_t head = page;
	struct roam_part part = {out, sizeof(head)};
	struct lrc_item item;
	const uint8_t *bytes;

	memcpy(out, &head, sizeof(head));
	while (lrc_next(node, streams, count, &item, &bytes)) {
		if (part.bytes + sizeof(item) + lrc_padded(item.bytes) > PATCH_BYTES) {
			roami_call(node, manager, LRC_PATCH, &part, 1, NULL, 0);
			part.bytes = sizeof(head);
		}
		memcpy(out + part.bytes, &item, sizeof(item));
		memcpy(out + part.bytes + sizeof(item), bytes, item.bytes);
		part.bytes += sizeof(item) + lrc_padded(item.bytes);
	}
	roami_call(node, manager, LRC_PATCH, &part, 1, NULL, 0);
}

/*
 * Brings the manager's copy up to `top` of all writers: what this node's diffs may stand on, and
 * those.  One step; true: it has them all.
 */
static bool lrc_push_some(struct roami_node *node, uint32_t page, unsigned manager,
			  const uint32_t *top)
{
	_Alignas(8) uint8_t in[COPY_MAX];
	const struct lrc_copy *copy = (const void *)in;
	struct roam_part part = {&page, sizeof(page)};
	struct lrc_ask asks[NODES_MAX];
	struct lrc_stream streams[NODES_MAX];
	bool wanted[NODES_MAX], gone, more = false;
	unsigned count;

	if (roami_call(node, manager, LRC_MARKS, &part, 1, in, sizeof(in)) != lrc_copy_bytes(node))
		roami_node_fail(node, "node %u sent malformed marks", manager);
	if (!copy->here) {
		lrc_give_base(node, page, manager);
		return false;
	}
	for (unsigned i = 0; i < roami_count(node); i++) {
		wanted[i] = i != manager && top[i] > copy->marks[i].key;
		asks[i] = (struct lrc_ask){page, copy->marks[i].key, 0, top[i]};
		more |= wanted[i];
	}
	if (!more)
		return true;
	count = lrc_call(node, asks, wanted, streams, &gone);
	if (!gone) /* else the manager has more by now */
		lrc_send_patches(node, page, manager, streams, count);
	return false;
}

/* Gives this node's diffs of a page to its manager.  app, in a release or acquire. */
static void lrc_push(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned manager = roami_manager(node, page), me = roami_me(node);
	uint32_t top[NODES_MAX];

	roami_page_lock(node, page);
	if (data->twin != 0)
		lrc_seal_open(node, page);
	for (unsigned i = 0; i < roami_count(node); i++)
		top[i] = data->from[i].top;
	roami_page_unlock(node, page);
	while (manager != me && !lrc_push_some(node, page, manager, top))
		;
	lrc_forget(node, page, top[me]);
}

/* Makes room until at most `most` bytes are in use, the oldest first. */
static void lrc_collect(struct roami_node *node, uint64_t most)
{
	const struct lrc_node *lrc = roami_node_state(node);

	for (;;) {
		uint32_t page = 0;
		bool done;

		roami_store_lock(node);
		done = lrc->oldest == 0 || lrc_used(node) <= most;
		if (!done)
			page = lrc_diff(node, lrc->oldest)->page;
		roami_store_unlock(node);
		if (done)
			return;
		lrc_push(node, page);
	}
}

/* Whether `more` bytes would be more than one `part`th of the store. */
static bool lrc_over(struct roami_node *node, uint64_t more, unsigned part)
{
	const struct lrc_node *lrc = roami_node_state(node);
	bool over;

	roami_store_lock(node);
	over = lrc_used(node) + more > lrc->total / part;
	roami_store_unlock(node);
	return over;
}

/* There is room for one more diff and the record of a twin on return. */
static void lrc_make_room(struct roami_node *node)
{
	const struct lrc_node *lrc = roami_node_state(node);

	if (lrc_over(node, lrc_room() + roami_store_need(0), 2))
		lrc_collect(node, lrc->total / 4);
}

static void lrc_marks(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = lrc_check_page(node, request, sizeof(page));
	_Alignas(8) uint8_t out[COPY_MAX];
	struct lrc_copy *copy = (void *)out;
	struct roam_part part = {out, lrc_copy_bytes(node)};

	roami_page_lock(node, page);
	*copy = (struct lrc_copy){page, lrc_page(node, page)->key, lrc_has(node, page), 0};
	for (unsigned i = 0; i < roami_count(node); i++)
		copy->marks[i] = lrc_page(node, page)->from[i].mark;
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

static void lrc_base(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = lrc_check_page(node, request, lrc_copy_bytes(node) + ROAM_PAGE_SIZE);

	roami_page_lock(node, page);
	if (!lrc_has(node, page))
		lrc_copy_in(node, page, request->data);
	roami_page_unlock(node, page);
	roami_reply(node, request, NULL, 0);
}

static void lrc_patch(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = lrc_check_page(node, request, sizeof(uint64_t));
	const uint8_t *at = (const uint8_t *)request->data + sizeof(uint64_t),
		      *end = (const uint8_t *)request->data + request->bytes;
	struct lrc_item item;

	roami_page_lock(node, page);
	for (; lrc_item(node, at, end, &item); at += sizeof(item) + lrc_padded(item.bytes))
		lrc_patch_one(node, page, &item, at + sizeof(item));
	roami_page_unlock(node, page);
	roami_reply(node, request, NULL, 0);
}

/* --------------------------------------------------------------------------- release and acquire */

static void lrc_release(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count)
{
	const struct lrc_node *lrc = roami_node_state(node);

	if (sync->kind == ROAM_SYNC_BARRIER && sync->full && lrc_over(node, 0, 4))
		lrc_collect(node, lrc->total / 8);
	for (size_t i = 0; i < count; i++) {
		uint32_t page = dirty[i].page;

		lrc_make_room(node);
		roami_page_lock(node, page);
		if (roami_page_has_twin(node, page)) {
			/* Else a diff has all of its writes, of an older interval. */
			if (lrc_page(node, page)->twin == 0)
				lrc_keep_twin(node, page);
			roami_notice_add(node, page, 0);
		}
		roami_page_unlock(node, page);
	}
}

/* What a notice means for a page. */
struct lrc_named {
	uint32_t page;
	bool stale;
	bool twin;
};

/* Makes the page pending and looks; false: it may stay as it is, and is not pending. */
static bool lrc_look(struct roami_node *node, uint32_t page, struct lrc_named *named)
{
	roami_page_hold(node, page);
	roami_page_lock(node, page);
	named->page = page;
	named->stale = roami_page_state(node, page) == LRC_COPY && lrc_stale(node, page);
	named->twin = roami_page_has_twin(node, page);
	roami_page_unlock(node, page);
	if (!named->stale && !named->twin)
		roami_page_done(node, page);
	return named->stale || named->twin;
}

/* Ends the diff of a page that nobody can write.  Open writes that are in none get a notice. */
static void lrc_end_diff(struct roami_node *node, uint32_t page)
{
	lrc_make_room(node);
	roami_page_lock(node, page);
	if (roami_page_has_twin(node, page)) {
		if (lrc_page(node, page)->twin == 0)
			roami_notice_add(node, page, 0);
		lrc_seal(node, page);
	}
	roami_page_unlock(node, page);
	roami_page_clean(node, page);
}

/*
 * Closes pages that notices named, and ends their diffs: a node that knows only the older of its
 * intervals must not get with them what was written after this acquire.
 */
static void lrc_cut(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct lrc_named named[BATCH];
	uint32_t closing[BATCH];
	size_t kept = 0, used = 0;

	for (size_t i = 0; i < count; i++)
		kept += lrc_look(node, pages[i], &named[kept]);
	for (size_t i = 0; i < kept; i++)
		if (!named[i].stale)
			closing[used++] = named[i].page;
	roami_page_close(node, closing, used, ROAM_READ);
	used = 0;
	for (size_t i = 0; i < kept; i++)
		if (named[i].stale)
			closing[used++] = named[i].page;
	roami_page_close(node, closing, used, ROAM_NONE);
	for (size_t i = 0; i < kept; i++) {
		if (named[i].twin)
			lrc_end_diff(node, named[i].page);
		roami_page_lock(node, named[i].page);
		if (named[i].stale)
			roami_page_move(node, named[i].page, LRC_STALE);
		roami_page_unlock(node, named[i].page);
		roami_page_done(node, named[i].page);
	}
}

/* Notes all notices of one page; how many. */
static size_t lrc_note(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	uint32_t page = notices[0].page;
	struct lrc_page *data = lrc_page(node, page);
	size_t at = 0;

	roami_page_lock(node, page);
	for (; at < count && notices[at].page == page; at++) {
		struct lrc_from *from = &data->from[notices[at].writer];

		if (from->need < notices[at].interval)
			from->need = notices[at].interval;
	}
	roami_page_unlock(node, page);
	return at;
}

static void lrc_acquire(struct roami_node *node, const struct roam_sync *sync,
			const struct roam_notice *notices, size_t count)
{
	uint32_t pages[BATCH];
	size_t used = 0;

	(void)sync;
	for (size_t at = 0; at < count; at += lrc_note(node, notices + at, count - at)) {
		if (used == BATCH) {
			lrc_cut(node, pages, used);
			used = 0;
		}
		pages[used++] = notices[at].page;
	}
	lrc_cut(node, pages, used);
}

static void lrc_settle(struct roami_node *node, uint32_t page)
{
	if (lrc_stale(node, page))
		lrc_validate(node, page);
}

/* --------------------------------------------------------------------------------------- tests */

/*
 * What a writer gave away its page's manager has; nobody's copy has more of a writer than it made;
 * a twin with writes of a closed interval is known to the store.
 */
static void lrc_check_page_of(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	unsigned manager = roami_manager(nodes[0], page);

	for (unsigned i = 0; i < count; i++) {
		const struct lrc_page *data = lrc_page(nodes[i], page);

		roami_assert(data->gone <= data->from[i].top);
		roami_assert(data->gone <= lrc_page(nodes[manager], page)->from[i].mark.key);
		roami_assert(data->twin == 0 || roami_page_has_twin(nodes[i], page));
		roami_assert(roami_page_state(nodes[i], page) == LRC_COPY ||
			     roami_page_access(nodes[i], page) == ROAM_NONE);
		for (unsigned j = 0; j < count; j++)
			roami_assert(data->from[j].mark.key <=
				     lrc_page(nodes[j], page)->from[j].top);
	}
}

static void lrc_check(struct roami_node *const *nodes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct lrc_node *lrc = roami_node_state(nodes[i]);

		roami_assert(lrc_used(nodes[i]) <= lrc->total / 2);
	}
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		lrc_check_page_of(nodes, count, page);
}

/* ---------------------------------------------------------------------------------------- table */

static enum roam_err lrc_init(struct roami_node *node)
{
	struct lrc_node *lrc = roami_node_state(node);

	roami_store_open(node, roami_option(node, "ROAM_LRC_MEMORY"));
	lrc->total = roami_store_left(node);
	return ROAM_OK;
}

static const struct roam_page_state lrc_states[] = {
	[LRC_START] = {"start", 1u << LRC_STALE | 1u << LRC_COPY},
	[LRC_STALE] = {"stale", 1u << LRC_COPY},
	[LRC_COPY] = {"copy", 1u << LRC_STALE},
	{NULL, 0},
};

static const struct roam_message lrc_messages[] = {
	[LRC_DIFFS] = {"diffs", lrc_diffs, sizeof(struct lrc_ask)},
	[LRC_PAGE] = {"page", lrc_page_asked, sizeof(uint32_t)},
	[LRC_MARKS] = {"marks", lrc_marks, sizeof(uint32_t)},
	[LRC_BASE] = {"base", lrc_base, COPY_MAX},
	[LRC_PATCH] = {"patch", lrc_patch, PATCH_BYTES},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_lrc = {
	.name = "lrc",
	.paper = "homeless lazy release consistency; TreadMarks, Keleher et al. 1994",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.node_size = sizeof(struct lrc_node),
	.page_size = sizeof(struct lrc_page),
	.page_node_size = sizeof(struct lrc_from),
	.scratch_size = PATCH_BYTES,
	.keeps_twins = true,
	.states = lrc_states,
	.messages = lrc_messages,
	.init = lrc_init,
	.read_fault = lrc_read_fault,
	.release = lrc_release,
	.acquire = lrc_acquire,
	.settle = lrc_settle,
	.check = lrc_check,
};
