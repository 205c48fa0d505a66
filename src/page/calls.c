/* Calls, answers and requests that are about pages: their bytes, and the pending mark. */
#include "base/region.h"
#include "msg/msg.h"
#include "page/page.h"

#define PARTS_MAX 8u

/* `page`: the bytes, for an answer of kind ROAMI_ANSWER_PAGE. */
static void reply_bringing(struct roami_node *node, const struct roam_request *request,
			   uint32_t answer, const uint8_t *page, const struct roam_part *parts,
			   unsigned count)
{
	struct roam_part all[PARTS_MAX];

	roami_assert(count < PARTS_MAX);
	for (unsigned i = 0; i < count; i++)
		all[i] = parts[i];
	all[count] = (struct roam_part){page, ROAMI_PAGE};
	roami_msg_reply_page(node, request, answer, all, count + (answer == ROAMI_ANSWER_PAGE));
}

void roami_reply_page(struct roami_node *node, const struct roam_request *request, uint32_t page,
		      const struct roam_part *parts, unsigned count)
{
	roami_assert(request->origin < node->nodes);
	reply_bringing(node, request, roami_msg_answers(node, request->origin)->left,
		       roami_page_bytes(node, page), parts, count);
}

uint8_t *roami_reply_buffer(struct roami_node *node, const struct roam_request *request,
			    uint32_t page, uint8_t *spare)
{
	roami_assert(request->origin < node->nodes);
	return roami_msg_answers(node, request->origin)->buffer(node, request->origin, page, spare);
}

void roami_reply_filled(struct roami_node *node, const struct roam_request *request,
			const uint8_t *buffer, const struct roam_part *parts, unsigned count)
{
	uint32_t answer = roami_msg_answers(node, request->origin)->put;

	roami_assert(buffer != NULL);
	reply_bringing(node, request, answer, buffer, parts, count);
	ROAMI_COUNT(node->stats, bytes_sent, answer == ROAMI_ANSWER_PAGE ? 0 : ROAMI_PAGE);
}

void roami_pages_ask(struct roami_node *node, struct roam_page_call *calls, unsigned count)
{
	roami_assert(count <= ROAM_PAGES_ONCE);
	for (unsigned i = 0; i < count; i++) {
		struct roam_page_call *call = &calls[i];
		unsigned first = roami_region_of(node, call->page)->types;

		roami_contract_pending(node, call->page);
		roami_contract(call->to < node->nodes);
		roami_page_entry(node, call->page)->here = 1;
		call->started = roami_msg_call_page_start(
			node, call->to, first + call->type, &call->part, 1, call->reply,
			call->reply_max, roami_page_bytes(node, call->page));
	}
}

static void page_call_end(struct roami_node *node, struct roam_page_call *call)
{
	uint32_t at;

	roami_assert(call->started != NULL);
	roami_contract_pending(node, call->page);
	call->bytes = roami_msg_call_page_end(node, call->started, &at);
	call->started = NULL;
	call->came = at != 0;
	if (call->came)
		roami_fetched(node);
	if (at > 1) {
		roami_assert(at - 2 < node->nodes);
		roami_step(node);
		ROAMI_COUNT(node->stats, bytes_fetched, ROAMI_PAGE);
		roami_page_copy(node, roami_page_bytes(node, call->page),
				node->segments[at - 2].heap + (size_t)call->page * ROAMI_PAGE);
	}
}

struct pages_wait {
	struct roam_page_call *calls;
	unsigned count;
};

static bool pages_some(void *arg)
{
	const struct pages_wait *wait = arg;

	for (unsigned i = 0; i < wait->count; i++)
		if (wait->calls[i].started != NULL &&
		    roami_msg_call_answered(wait->calls[i].started))
			return true;
	return false;
}

unsigned roami_pages_await(struct roami_node *node, struct roam_page_call *calls, unsigned count)
{
	struct pages_wait wait = {calls, count};
	unsigned left = 0;

	roami_assert(count > 0 && count <= ROAM_PAGES_ONCE);
	roami_wait(node, pages_some, &wait);
	for (unsigned i = 0; i < count; i++)
		if (calls[i].started != NULL && roami_msg_call_answered(calls[i].started))
			page_call_end(node, &calls[i]);
		else
			left += calls[i].started != NULL;
	return left;
}

void roami_pages_call(struct roami_node *node, struct roam_page_call *calls, unsigned count)
{
	roami_assert(count > 0);
	roami_wait_begin(node);
	roami_pages_ask(node, calls, count);
	while (roami_pages_await(node, calls, count) > 0)
		;
	roami_wait_end(node);
}

size_t roami_call_page(struct roami_node *node, unsigned to, unsigned type, uint32_t page,
		       void *reply, size_t reply_max, bool *came_p)
{
	struct roam_page_call call = {.page = page,
				      .to = to,
				      .type = type,
				      .part = {&page, sizeof(page)},
				      .reply = reply,
				      .reply_max = reply_max};

	roami_contract_pending(node, page);
	roami_pages_call(node, &call, 1);
	*came_p = call.came;
	return call.bytes;
}

void roami_park(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	struct roami_page *entry = &node->table[page];

	roami_contract_locked(node, page);
	roami_step(node);
	roami_msg_keep(node, request, page, 0);
	roami_assert(atomic_fetch_or(&entry->flags, ROAMI_PAGE_PARKED) & ROAMI_PAGE_PENDING);
}
