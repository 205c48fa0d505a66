#include "home/remote.h"

#include <string.h>

#include "base/region.h"
#include "home/placement.h"
#include "home/home_state.h"
#include "home/reach.h"
#include "msg/msg.h"
#include "page/page.h"

/* ----------------------------------------------------------------------------- directory words */

static uint64_t word_do(struct roami_node *node, const struct roami_word_op *op)
{
	unsigned manager = roami_manager(node, op->page);

	roami_contract(op->page < node->layout.pages);
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

	roami_contract((to & ROAMI_WORD_STATE) != ROAMI_WORD_CREATOR);
	return word_do(node, &op);
}

uint32_t roami_memory_page(struct roami_node *node, const struct roam_request *request,
			   size_t bytes)
{
	uint32_t page;

	if (request->bytes < bytes)
		roami_node_fail(node, "node %u: short request about a page", request->from);
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

void roami_words_read(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words)
{
	unsigned manager = roami_manager(node, first);

	roami_assert(count <= ROAMI_WORDS_MAX && roami_manager(node, first + count - 1) == manager);
	node->reach[manager]->words(node, manager, first, count, words);
}

bool roami_words_final(const uint64_t *words, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if ((words[i] & ROAMI_WORD_STATE) == ROAMI_WORD_CLAIMED)
			return false;
	return true;
}

static void words_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_words_ask ask;
	uint64_t words[ROAMI_WORDS_MAX];
	struct roam_part part = {words, 0};

	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u: short request about a page", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.count > ROAMI_WORDS_MAX || ask.first >= node->layout.pages ||
	    ask.count > node->layout.pages - ask.first)
		roami_node_fail(node, "node %u asked for pages beyond the heap", request->from);
	node->reach[node->me]->words(node, node->me, ask.first, ask.count, words);
	part.bytes = ask.count * sizeof(words[0]);
	roami_reply(node, request, &part, 1);
}

/* ------------------------------------------------------------------------------------ adoption */

void roami_adopt_header(struct roami_node *node, struct roami_header *header)
{
	atomic_store(&header->version, home_of(node)->version_begin + 1);
	atomic_fetch_or(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY |
						home_of(node)->epoch_begin << ROAMI_HEADER_EPOCH);
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

	roami_assert(home < node->nodes && home != node->me);
	node->reach[home]->adopt(node, home, page, has ? bytes : NULL);
}

/* ------------------------------------------------------------------------------------- flushes */

void roami_flush(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		 size_t count)
{
	size_t asks = 0;

	for (unsigned i = 0; home_of(node)->reaches[i] != NULL; i++)
		asks += home_of(node)->reaches[i]->flush(node, home_of(node)->reaches[i], dirty,
							 homes, count);
	if (asks > 0)
		roami_flush_send(node, dirty, homes, count);
}

bool roami_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home)
{
	roami_assert(roami_homes_move(roami_region_current(node)->protocol));
	return node->reach[home]->flush_pinned(node, dirty, home);
}

static const struct roam_message directory_messages[] = {
	[ROAMI_DIRECTORY_WORD] = {"word", word_handle, sizeof(struct roami_word_op)},
	[ROAMI_DIRECTORY_WORDS] = {"words", words_handle, sizeof(struct roami_words_ask)},
	[ROAMI_DIRECTORY_ADOPT] = {"adopt", adopt_handle, 8 + ROAM_PAGE_SIZE},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_directory = {.name = "directory",
						.messages = directory_messages};
