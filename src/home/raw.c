#include "home/raw.h"

#include <string.h>

#include "page/page.h"
#include "page/staging.h"

void roami_raw_ask(struct roami_node *node, struct roami_query *asks, struct roami_raw_head *heads,
		   unsigned count)
{
	roami_assert(count > 0 && count <= ROAMI_CALLS_AT_ONCE);
	for (unsigned i = 0; i < count; i++) {
		asks[i].reply = &heads[i];
		asks[i].reply_max = sizeof(heads[i]);
	}
	roami_msg_ask(node, roami_type(node, ROAMI_ROOM_RAW, 0), asks, count);
}

void roami_raw_answer(struct roami_node *node, struct roami_query *ask)
{
	const struct roami_raw_head *head = ask->reply;
	bool came;

	roami_assert(ask->reply != NULL && ask->to != node->me);
	if (roami_msg_answer(node, ask, &came) != sizeof(*head) || !came || head->page != ask->what)
		roami_node_fail(node, "node %u: malformed reply to a read of a page", ask->to);
}

static void raw_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_raw_head head = {0, 0};
	struct roam_part parts[2] = {{&head, sizeof(head)}, {NULL, ROAMI_PAGE}};

	if (request->bytes >= sizeof(head.page))
		memcpy(&head.page, request->data, sizeof(head.page));
	if (request->bytes < sizeof(head.page) || head.page >= node->layout.pages)
		roami_node_fail(node, "node %u asked for a page beyond the heap", request->from);
	parts[1].data = roami_page_bytes(node, (uint32_t)head.page);
	roami_msg_reply_page(node, request, ROAMI_ANSWER_PAGE, parts, 2);
}

/* Awaits the pages of a part that were asked for, if any. */
static void raw_land(struct roami_node *node, struct roami_raw_part *part)
{
	struct roami_staging staging = {.count = 0};

	roami_assert(part->count <= ROAMI_RAW_AT_ONCE);
	for (uint32_t i = 0; i < part->count; i++) {
		struct roami_query *ask = &part->asks[i];

		roami_raw_answer(node, ask);
		roami_staging_add(node, &staging, (uint32_t)ask->what, part->slot + i, ask->page,
				  false);
	}
	roami_staging_end(node, &staging);
	part->count = 0;
}

/* Asks for the pages of the filled part, then awaits the other part, which is filled next. */
static void raw_turn(struct roami_node *node, struct roami_raw *raw)
{
	struct roami_raw_part *part = &raw->parts[raw->turn];

	if (part->count > 0)
		roami_raw_ask(node, part->asks, part->heads, part->count);
	raw->turn ^= 1;
	raw_land(node, &raw->parts[raw->turn]);
}

void roami_raw_begin(struct roami_raw *raw)
{
	raw->turn = 0;
	for (unsigned i = 0; i < 2; i++) {
		raw->parts[i].slot = i * ROAMI_RAW_AT_ONCE;
		raw->parts[i].count = 0;
	}
}

void roami_raw_add(struct roami_node *node, struct roami_raw *raw, unsigned from, uint32_t page)
{
	struct roami_raw_part *part = &raw->parts[raw->turn];

	roami_assert(from < node->nodes && from != node->me);
	roami_contract(part->count < ROAMI_RAW_AT_ONCE);
	part->asks[part->count] = (struct roami_query){
		.to = from,
		.what = page,
		.page = roami_staging_buffer(node, page, part->slot + part->count)};
	if (++part->count == ROAMI_RAW_AT_ONCE)
		raw_turn(node, raw);
}

void roami_raw_end(struct roami_node *node, struct roami_raw *raw)
{
	raw_turn(node, raw);
	raw_turn(node, raw);
}

static const struct roam_message raw_messages[] = {
	{"raw", raw_handle, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_raw = {.name = "raw", .messages = raw_messages};
