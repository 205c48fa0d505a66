/* What node 0 had in the heap when the job was sealed: brought by whoever claims a page. */
#include "core/page.h"
#include "core/remote.h"
#include "msg/msg.h"

bool roami_creator_has(struct roami_node *node, uint32_t page)
{
	if (page >= node->creator_pages)
		return false;
	return !roami_near(node, 0) ||
	       (atomic_load(&node->segments[0].headers[page].where) & ROAMI_HEADER_BYTES) != 0;
}

static void creator_ask(struct roami_node *node, struct roami_query *asks, unsigned count)
{
	roami_msg_ask(node, ROAMI_TYPE_MEMORY + ROAMI_MEMORY_RAW, asks, count);
}

static void creator_near(struct roami_node *node, uint32_t page, uint8_t *to)
{
	ROAMI_COUNT(node->stats, bytes_fetched, ROAMI_PAGE);
	roami_page_copy(node, to, node->segments[0].heap + (size_t)page * ROAMI_PAGE);
}

bool roami_creator_copy(struct roami_node *node, uint32_t page, uint8_t *to)
{
	struct roami_query ask = {.what = page | ROAMI_RAW_SEAL, .page = to};
	bool came = true;

	if (!roami_creator_has(node, page))
		return false;
	if (roami_near(node, 0)) {
		creator_near(node, page, to);
	} else {
		creator_ask(node, &ask, 1);
		roami_msg_answer(node, &ask, &came);
	}
	return came;
}

void roami_creator_fetch(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	struct roami_query asks[ROAMI_CALLS_AT_ONCE];
	unsigned asked = 0;
	bool came;

	for (uint32_t i = 0; i < count && node->me != 0; i++) {
		uint32_t page = first + i * (uint32_t)stride;
		uint8_t *to = roami_page_bytes(node, page);

		if (!roami_creator_has(node, page))
			continue;
		roami_page_entry(node, page)->here = 1;
		if (roami_near(node, 0))
			creator_near(node, page, to);
		else
			asks[asked++] =
				(struct roami_query){.what = page | ROAMI_RAW_SEAL, .page = to};
	}
	creator_ask(node, asks, asked);
	for (unsigned i = 0; i < asked; i++) {
		roami_msg_answer(node, &asks[i], &came);
		if (!came)
			roami_page_entry(node, (uint32_t)asks[i].what)->here = 0;
	}
}
