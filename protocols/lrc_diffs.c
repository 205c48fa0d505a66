/* lrc: the diffs that a writer keeps, and their order. */
#include "lrc.h"

#include <string.h>

/* ------------------------------------------------------------------------------------ the store */

uint64_t lrc_room(void)
{
	return lrc_store_need(ROAM_DIFF_MAX);
}

/* The store is locked in lrc_append, lrc_remove, lrc_put and lrc_used. */
static void lrc_append(struct roami_node *node, uint32_t record)
{
	struct lrc_node *lrc = roami_node_state(node);

	roami_contract(lrc_diff(node, record)->page < roami_pages(node));
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

	roami_assert(lrc->oldest != 0 && lrc->newest != 0);
	if (diff->older != 0)
		lrc_diff(node, diff->older)->newer = diff->newer;
	else
		lrc->oldest = diff->newer;
	if (diff->newer != 0)
		lrc_diff(node, diff->newer)->older = diff->older;
	else
		lrc->newest = diff->older;
	lrc_store_drop(node, record);
}

static uint32_t lrc_put(struct roami_node *node, const struct lrc_diff *diff, const uint8_t *bytes)
{
	uint32_t record = lrc_store_put(node, bytes, diff->bytes);

	roami_assert(record != 0); /* it was reserved */
	*lrc_diff(node, record) = *diff;
	lrc_append(node, record);
	return record;
}

uint64_t lrc_used(struct roami_node *node)
{
	const struct lrc_node *lrc = roami_node_state(node);

	return lrc->total - lrc_store_left(node) + lrc->reserved;
}

void lrc_keep_twin(struct roami_node *node, uint32_t page)
{
	struct lrc_node *lrc = roami_node_state(node);
	struct lrc_diff diff = {.page = page, .first = roami_interval(node)};

	roami_contract_locked(node, page);
	roami_assert(lrc_page(node, page)->twin == 0);
	roami_contract(roami_page_has_twin(node, page));
	roami_memory_lock(node);
	lrc_page(node, page)->twin = lrc_put(node, &diff, NULL);
	lrc->reserved += lrc_room();
	roami_memory_unlock(node);
}

size_t lrc_seal(struct roami_node *node, uint32_t page, uint8_t *bytes)
{
	struct lrc_node *lrc = roami_node_state(node);
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_from *own = &data->from[roami_me(node)];
	uint64_t open = roami_interval(node);
	uint32_t record = 0;
	struct lrc_diff diff = {.page = page, .first = open, .last = open};

	roami_contract_locked(node, page);
	roami_contract(roami_page_has_twin(node, page));
	roami_contract(roami_page_access(node, page) != ROAM_WRITE);
	diff.bytes = (uint32_t)roami_diff_make(node, page, bytes, false);
	roami_twin_drop(node, page);
	roami_memory_lock(node);
	if (data->twin != 0) {
		diff.first = lrc_diff(node, data->twin)->first;
		if (diff.first < open)
			diff.last = open - 1; /* also writes of the open interval */
		lrc_remove(node, data->twin);
		roami_assert(lrc->reserved >= lrc_room());
		lrc->reserved -= lrc_room();
		data->twin = 0;
	}
	if (diff.bytes > 0) {
		roami_assert(own->mark.key <= data->key);
		diff.key = own->mark.key = own->top = ++data->key;
		record = lrc_put(node, &diff, bytes);
		if (data->first == 0)
			data->first = record;
		else
			lrc_diff(node, data->last)->next = record;
		data->last = record;
	}
	roami_memory_unlock(node);
	return diff.bytes;
}

/* A handler may call this while the page is open for writing. */
void lrc_seal_open(struct roami_node *node, uint32_t page)
{
	uint8_t bytes[ROAM_DIFF_MAX];

	roami_page_close(node, &page, 1, ROAM_READ);
	lrc_seal(node, page, bytes);
}

/* ----------------------------------------------------------------------------- diffs for others */

size_t lrc_gather(struct roami_node *node, const struct lrc_ask *ask, uint8_t *out)
{
	struct lrc_page *data = lrc_page(node, ask->page);
	struct lrc_answer answer = {.gone = ask->after < data->gone, .have = ask->upto};
	size_t used = sizeof(answer);
	uint64_t first;
	uint32_t at;

	roami_contract_locked(node, ask->page);
	roami_memory_lock(node);
	first = data->twin != 0 ? lrc_diff(node, data->twin)->first : UINT64_MAX;
	roami_memory_unlock(node);
	if (first <= ask->upto)
		lrc_seal_open(node, ask->page);
	roami_memory_lock(node);
	for (at = answer.gone ? 0 : data->first; at != 0 && answer.next == 0;
	     at = lrc_diff(node, at)->next) {
		const struct lrc_diff *diff = lrc_diff(node, at);
		struct lrc_item item = {diff->key, roami_me(node), diff->bytes};

		if (diff->key <= ask->after)
			continue;
		if (diff->first > ask->upto && diff->key > ask->upto_key)
			break;
		if (used + sizeof(item) + lrc_padded(diff->bytes) > LRC_REPLY) {
			answer.next = diff->key;
			continue;
		}
		memcpy(out + used, &item, sizeof(item));
		lrc_store_get(node, at, out + used + sizeof(item), item.bytes);
		used += sizeof(item) + lrc_padded(item.bytes);
		if (answer.have < diff->last && diff->first <= ask->upto)
			answer.have = diff->last;
	}
	roami_memory_unlock(node);
	memcpy(out, &answer, sizeof(answer));
	return used;
}

void lrc_diffs(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(struct lrc_ask));
	uint8_t out[LRC_REPLY];
	struct roam_part part = {out, 0};
	struct lrc_ask ask;

	memcpy(&ask, request->data, sizeof(ask));
	roami_page_lock(node, page);
	part.bytes = lrc_gather(node, &ask, out);
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

void lrc_forget(struct roami_node *node, uint32_t page, uint64_t key)
{
	struct lrc_page *data = lrc_page(node, page);

	roami_page_lock(node, page);
	roami_memory_lock(node);
	while (data->first != 0 && lrc_diff(node, data->first)->key <= key) {
		uint32_t next = lrc_diff(node, data->first)->next;

		lrc_remove(node, data->first);
		data->first = next;
	}
	if (data->first == 0)
		data->last = 0;
	if (data->gone < key)
		data->gone = key;
	roami_memory_unlock(node);
	roami_page_unlock(node, page);
}

/* -------------------------------------------------------------------------------------- streams */

static void lrc_stream(struct roami_node *node, struct lrc_stream *stream, unsigned writer,
		       const uint8_t *in, size_t bytes)
{
	roami_assert(writer < LRC_NODES_MAX);
	stream->writer = writer;
	stream->at = in + sizeof(stream->answer);
	stream->end = in + bytes;
	if (bytes < sizeof(stream->answer))
		roami_node_fail(node, "node %u: malformed answer about diffs", writer);
	memcpy(&stream->answer, in, sizeof(stream->answer));
}

bool lrc_item(struct roami_node *node, const uint8_t *at, const uint8_t *end, struct lrc_item *item)
{
	if (at == end)
		return false;
	if ((size_t)(end - at) < sizeof(*item))
		roami_node_fail(node, "malformed diff");
	memcpy(item, at, sizeof(*item));
	if (item->bytes > ROAM_DIFF_MAX || item->writer >= roami_count(node) ||
	    lrc_padded(item->bytes) > (size_t)(end - at) - sizeof(*item))
		roami_node_fail(node, "malformed diff");
	return true;
}

bool lrc_next(struct roami_node *node, struct lrc_stream *streams, unsigned count,
	      struct lrc_item *item, const uint8_t **bytes_p)
{
	struct lrc_stream *least = NULL;
	uint64_t limit = UINT64_MAX;

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

void lrc_patch_one(struct roami_node *node, uint32_t page, const struct lrc_item *item,
		   const uint8_t *bytes)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_from *from = &data->from[item->writer];

	roami_contract_locked(node, page);
	if (item->key <= from->mark.key)
		return;
	if (!roami_diff_patch(node, page, bytes, item->bytes))
		roami_node_fail(node, "node %u: malformed diff", item->writer);
	from->mark.key = item->key;
	if (from->top < item->key)
		from->top = item->key;
	if (data->key < item->key)
		data->key = item->key;
}

unsigned lrc_call(struct roami_node *node, struct lrc_ask *asks, const bool *wanted,
		  struct lrc_stream *streams, bool *gone_p)
{
	struct roam_call calls[LRC_NODES_MAX];
	struct roam_part parts[LRC_NODES_MAX];
	unsigned used = 0, count = 0, me = roami_me(node);
	uint8_t *scratch = roami_scratch(node);

	*gone_p = false;
	for (unsigned i = 0; i < roami_count(node); i++) {
		if (!wanted[i] || i == me)
			continue;
		parts[used] = (struct roam_part){&asks[i], sizeof(asks[i])};
		calls[used] = (struct roam_call){
			i, LRC_DIFFS, &parts[used], 1, scratch + i * LRC_PATCH_BYTES, LRC_REPLY, 0};
		used++;
	}
	roami_call_all(node, calls, used);
	for (unsigned i = 0; i < used; i++)
		lrc_stream(node, &streams[count++], calls[i].to, calls[i].reply, calls[i].bytes);
	if (wanted[me]) {
		uint8_t *own = scratch + me * LRC_PATCH_BYTES;
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
