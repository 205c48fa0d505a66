#include "home/remote.h"

#include <string.h>

#include "base/region.h"
#include "home/far.h"
#include "home/provisional.h"
#include "home/reach.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/race.h"
#include "sync/sync.h"

/* ----------------------------------------------------------------------------- directory words */

static uint64_t word_do(struct roami_node *node, const struct roami_word_op *op)
{
	unsigned manager = roami_manager(node, op->page);

	roami_step(node);
	return node->reach[manager]->word(node, manager, op);
}

uint64_t roami_word_load(struct roami_node *node, uint32_t page)
{
	struct roami_word_op op = {page, 0, 0, 0};

	return word_do(node, &op);
}

uint64_t roami_word_swap(struct roami_node *node, uint32_t page, uint64_t from, uint64_t to)
{
	struct roami_word_op op = {page, 1, from, to};

	return word_do(node, &op);
}

uint32_t roami_memory_page(struct roami_node *node, const struct roam_request *request,
			   size_t bytes)
{
	uint32_t page;

	if (request->bytes < bytes)
		roami_node_fail(node, "node %u sent a short request", request->from);
	memcpy(&page, request->data, sizeof(page));
	if (page >= node->layout.pages)
		roami_node_fail(node, "node %u asked for page %u, beyond the heap", request->from,
				page);
	return page;
}

static void word_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_word_op op;
	uint64_t found;
	struct roam_part part = {&found, sizeof(found)};

	roami_memory_page(node, request, sizeof(op));
	memcpy(&op, request->data, sizeof(op));
	found = roami_word_apply(node, node->me, &op);
	roami_reply(node, request, &part, 1);
}

/* ------------------------------------------------------------------------------------ adoption */

void roami_adopt_header(struct roami_node *node, struct roami_header *header)
{
	atomic_store(&header->version, node->version_begin + 1);
	atomic_fetch_or(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY |
						node->epoch_begin << ROAMI_HEADER_EPOCH);
}

static void adopt_handle(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_memory_page(node, request, 8);

	if (request->bytes == 8 + ROAMI_PAGE)
		memcpy(roami_page_bytes(node, page), (const uint8_t *)request->data + 8,
		       ROAMI_PAGE);
	roami_adopt_header(node, &node->self->headers[page]);
	roami_reply(node, request, NULL, 0);
}

void roami_adopt(struct roami_node *node, unsigned home, uint32_t page)
{
	uint8_t bytes[ROAM_PAGE_SIZE];
	bool has = home != 0 && roami_creator_copy(node, page, bytes);

	node->reach[home]->adopt(node, home, page, has ? bytes : NULL);
}

/* ------------------------------------------------------------------------------------- flushes */

void roami_flush(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		 size_t count)
{
	size_t asks = 0;

	for (unsigned i = 0; node->reaches[i] != NULL; i++)
		asks += node->reaches[i]->flush(node, node->reaches[i], dirty, homes, count);
	if (asks > 0)
		roami_flush_send(node, dirty, homes, count);
}

bool roami_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	roami_assert(roami_homes_here(node) == ROAM_HOMES_MOVING);
	return node->reach[home]->flush_pinned(node, dirty, home);
}

const struct roam_message roami_memory_messages[] = {
	[ROAMI_MEMORY_WORD] = {"word", word_handle, sizeof(struct roami_word_op)},
	[ROAMI_MEMORY_FETCH] = {"fetch", roami_fetch_handle, 8},
	[ROAMI_MEMORY_RAW] = {"raw", roami_raw_handle, 8},
	[ROAMI_MEMORY_MARKS] = {"marks", roami_marks_handle, 8},
	[ROAMI_MEMORY_DIFFS] = {"diffs", roami_diffs_handle, ROAMI_MSG_MAX},
	[ROAMI_MEMORY_ADOPT] = {"adopt", adopt_handle, 8 + ROAM_PAGE_SIZE},
	[ROAMI_MEMORY_FREE] = {"free", roami_free_handle, sizeof(struct roami_remote_free)},
	[ROAMI_MEMORY_PARTS] = {"parts", roami_parts_handle, 1024},
	[ROAMI_MEMORY_PLACE] = {"place", roami_place_handle, sizeof(struct roami_place)},
	[ROAMI_MEMORY_CLAIM] = {"claim", roami_claim_handle, 16},
	[ROAMI_MEMORY_CLAIMS] = {"claims", roami_claims_handle, 16},
	[ROAMI_MEMORY_PUBLISH] = {"publish", roami_publish_handle, 16},
	[ROAMI_MEMORY_WORDS] = {"words", roami_words_handle, 8},
	[ROAMI_MEMORY_TAKE] = {"take", roami_take_handle, 16},
	[ROAMI_MEMORY_BLOCK] = {"block", roami_block_handle, ROAMI_BLOCK_BYTES},
	[ROAMI_MEMORY_TYPES] = {NULL, NULL, 0},
};
