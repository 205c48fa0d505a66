/* lrc: whole copies, and making room: the oldest diffs go to the pages' managers. */
#include "lrc.h"

#include <string.h>

/* --------------------------------------------------------------------------------- whole copies */

static size_t lrc_copy_bytes(const struct roami_node *node)
{
	return sizeof(struct lrc_copy) + roami_count(node) * sizeof(struct lrc_mark);
}

/*
 * Writes out this node's copy and its marks, without open writes; under the page lock.  Returns the
 * length.
 */
static size_t lrc_copy_out(struct roami_node *node, uint32_t page, uint8_t *out)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_copy *copy = (void *)out;
	unsigned me = roami_me(node);
	const struct lrc_from *own = &data->from[me];

	roami_contract_locked(node, page);
	if (data->twin != 0)
		lrc_seal_open(node, page);
	*copy = (struct lrc_copy){page, lrc_has(node, page), data->key};
	for (unsigned i = 0; i < roami_count(node); i++)
		copy->marks[i] = data->from[i].mark;
	if (own->mark.key == own->top) /* otherwise it lacks some own diffs again */
		copy->marks[me].have = roami_interval(node) - 1;
	roami_page_copy(node, out + lrc_copy_bytes(node), roami_page_old(node, page));
	return lrc_copy_bytes(node) + ROAM_PAGE_SIZE;
}

/*
 * Replaces this node's copy, which may have had more diffs: `top` says which to ask for again.
 * Under the page lock.
 */
static void lrc_copy_in(struct roami_node *node, uint32_t page, const uint8_t *in)
{
	struct lrc_page *data = lrc_page(node, page);
	const struct lrc_copy *copy = (const void *)in;

	roami_contract_locked(node, page);
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

void lrc_page_asked(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	_Alignas(8) uint8_t out[LRC_COPY_MAX];
	struct roam_part part = {out, 0};

	roami_page_lock(node, page);
	part.bytes = lrc_copy_out(node, page, out);
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

void lrc_fetch_page(struct roami_node *node, uint32_t page, unsigned from)
{
	uint8_t *in = roami_scratch(node);
	struct roam_part part = {&page, sizeof(page)};
	size_t bytes;

	roami_contract_pending(node, page);
	roami_assert(from != roami_me(node));
	bytes = roami_call(node, from, LRC_PAGE, &part, 1, in, LRC_COPY_MAX);
	if (bytes != lrc_copy_bytes(node) + ROAM_PAGE_SIZE ||
	    ((const struct lrc_copy *)(const void *)in)->here == 0)
		roami_node_fail(node, "node %u: malformed or no copy of page %u", from, page);
	roami_fetched(node);
	roami_page_lock(node, page);
	if (roami_manager(node, page) != roami_me(node) || !lrc_has(node, page))
		lrc_copy_in(node, page, in);
	roami_page_unlock(node, page);
}

/* ----------------------------------------------------------------------------------- collection */

/* Sends this node's copy to a manager that has none; the manager takes it if it still has none. */
static void lrc_give_base(struct roami_node *node, uint32_t page, unsigned manager)
{
	_Alignas(8) uint8_t out[LRC_COPY_MAX];
	struct roam_part part = {out, 0};

	roami_assert(manager != roami_me(node));
	roami_page_lock(node, page);
	part.bytes = lrc_copy_out(node, page, out);
	roami_page_unlock(node, page);
	roami_call(node, manager, LRC_BASE, &part, 1, NULL, 0);
}

/* Sends the diffs of the streams to the manager, in the order of their keys. */
static void lrc_send_patches(struct roami_node *node, uint32_t page, unsigned manager,
			     struct lrc_stream *streams, unsigned count)
{
	uint8_t *out = roami_scratch(node) + manager * LRC_PATCH_BYTES;
	uint64_t head = page;
	struct roam_part part = {out, sizeof(head)};
	struct lrc_item item;
	const uint8_t *bytes;

	memcpy(out, &head, sizeof(head));
	roami_assert(manager != roami_me(node));
	while (lrc_next(node, streams, count, &item, &bytes)) {
		if (part.bytes + sizeof(item) + lrc_padded(item.bytes) > LRC_PATCH_BYTES) {
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
 * Takes one step to bring the manager's copy up to `top` of all writers, with this node's diffs and
 * those that must come before them.  true: the manager has them all.
 */
static bool lrc_push_some(struct roami_node *node, uint32_t page, unsigned manager,
			  const uint64_t *top)
{
	_Alignas(8) uint8_t in[LRC_COPY_MAX];
	const struct lrc_copy *copy = (const void *)in;
	struct roam_part part = {&page, sizeof(page)};
	struct lrc_ask asks[LRC_NODES_MAX];
	struct lrc_stream streams[LRC_NODES_MAX];
	bool wanted[LRC_NODES_MAX], gone, more = false;
	unsigned count;

	roami_assert(manager != roami_me(node));
	if (roami_call(node, manager, LRC_MARKS, &part, 1, in, sizeof(in)) != lrc_copy_bytes(node))
		roami_node_fail(node, "node %u: malformed marks", manager);
	if (!copy->here) {
		lrc_give_base(node, page, manager);
		return false;
	}
	for (unsigned i = 0; i < roami_count(node); i++) {
		wanted[i] = i != manager && top[i] > copy->marks[i].key;
		asks[i] = (struct lrc_ask){page, 0, copy->marks[i].key, 0, top[i]};
		more |= wanted[i];
	}
	if (!more)
		return true;
	count = lrc_call(node, asks, wanted, streams, &gone);
	if (!gone) /* otherwise the manager has more by now */
		lrc_send_patches(node, page, manager, streams, count);
	return false;
}

/* Gives this node's diffs of a page to the page's manager.  app, in a release or acquire. */
static void lrc_push(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned manager = roami_manager(node, page), me = roami_me(node);
	uint64_t top[LRC_NODES_MAX];

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

/* Gives away diffs, the oldest first, until at most `most` bytes are in use. */
static void lrc_collect(struct roami_node *node, uint64_t most)
{
	const struct lrc_node *lrc = roami_node_state(node);

	roami_assert(most <= lrc->total / 2);
	for (;;) {
		uint32_t page = 0;
		bool done;

		roami_memory_lock(node);
		done = lrc->oldest == 0 || lrc_used(node) <= most;
		if (!done)
			page = lrc_diff(node, lrc->oldest)->page;
		roami_memory_unlock(node);
		if (done)
			return;
		lrc_push(node, page);
	}
}

/* Whether `more` bytes on top of those in use exceed one `part`th of the store. */
static bool lrc_over(struct roami_node *node, uint64_t more, unsigned part)
{
	const struct lrc_node *lrc = roami_node_state(node);
	bool over;

	roami_memory_lock(node);
	over = lrc_used(node) + more > lrc->total / part;
	roami_memory_unlock(node);
	return over;
}

void lrc_make_room(struct roami_node *node)
{
	const struct lrc_node *lrc = roami_node_state(node);

	if (lrc_over(node, lrc_room() + lrc_store_need(0), 2))
		lrc_collect(node, lrc->total / 4);
}

void lrc_make_room_early(struct roami_node *node)
{
	const struct lrc_node *lrc = roami_node_state(node);

	if (lrc_over(node, 0, 4))
		lrc_collect(node, lrc->total / 8);
}

void lrc_marks(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	_Alignas(8) uint8_t out[LRC_COPY_MAX];
	struct lrc_copy *copy = (void *)out;
	struct roam_part part = {out, lrc_copy_bytes(node)};

	roami_page_lock(node, page);
	*copy = (struct lrc_copy){page, lrc_has(node, page), lrc_page(node, page)->key};
	for (unsigned i = 0; i < roami_count(node); i++)
		copy->marks[i] = lrc_page(node, page)->from[i].mark;
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

void lrc_base(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, lrc_copy_bytes(node) + ROAM_PAGE_SIZE);

	roami_page_lock(node, page);
	if (!lrc_has(node, page))
		lrc_copy_in(node, page, request->data);
	roami_page_unlock(node, page);
	roami_reply(node, request, NULL, 0);
}

void lrc_patch(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(uint64_t));
	const uint8_t *at = (const uint8_t *)request->data + sizeof(uint64_t),
		      *end = (const uint8_t *)request->data + request->bytes;
	struct lrc_item item;

	roami_page_lock(node, page);
	for (; lrc_item(node, at, end, &item); at += sizeof(item) + lrc_padded(item.bytes))
		lrc_patch_one(node, page, &item, at + sizeof(item));
	roami_page_unlock(node, page);
	roami_reply(node, request, NULL, 0);
}
