/*
 * The bytes that node 0 had in the heap when the job was sealed: a node that claims a page copies
 * them.
 */
#include <string.h>

#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"

#define PART_PAGES 4096u
#define PART_WORDS (PART_PAGES / 64)

/*
 * In which pages of a part of the heap node 0, reached by messages, had bytes.  Asked for once per
 * part.
 */
struct roami_creator_part {
	_Atomic uint64_t marks[PART_WORDS];
	_Atomic uint32_t known;
};

struct creator {
	uint32_t pages; /* that hold the creator's bytes until claimed */
	struct roami_creator_part *parts;
};

static struct creator *creator_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_CREATOR].state;
}

static size_t creator_bytes(const struct roami_node *node)
{
	return (node->layout.pages / PART_PAGES + 1) * sizeof(*creator_of(node)->parts);
}

static enum roam_err creator_init(struct roami_node *node, const struct roami_node_params *params)
{
	creator_of(node)->pages = params->creator_pages;
	creator_of(node)->parts = roami_os_reserve_sparse(creator_bytes(node));
	return creator_of(node)->parts != NULL ? ROAM_OK : ROAM_ENOMEM;
}

static void creator_fini(struct roami_node *node)
{
	roami_os_unmap(creator_of(node)->parts, creator_bytes(node));
}

static bool creator_marked(const struct roami_segment *first, uint32_t page)
{
	roami_contract(first->headers != NULL);
	return (atomic_load(&first->headers[page].where) & ROAMI_HEADER_BYTES) != 0;
}

static void marks_handle(struct roami_node *node, const struct roam_request *request)
{
	uint64_t marks[PART_WORDS] = {0}, part;
	struct roam_part answer = {marks, sizeof(marks)};
	uint32_t first;

	if (request->bytes != sizeof(part))
		roami_node_fail(node, "node %u: short request for marks", request->from);
	memcpy(&part, request->data, sizeof(part));
	if (part > (node->layout.pages - 1) / PART_PAGES)
		roami_node_fail(node, "node %u asked for pages beyond the heap", request->from);
	first = (uint32_t)part * PART_PAGES;
	for (uint32_t i = 0; i < PART_PAGES && i < node->layout.pages - first; i++)
		if (creator_marked(node->self, first + i))
			marks[i / 64] |= (uint64_t)1 << i % 64;
	roami_reply(node, request, &answer, 1);
}

static void creator_learn(struct roami_node *node, uint64_t number)
{
	struct roami_creator_part *part = &creator_of(node)->parts[number];
	struct roam_part ask = {&number, sizeof(number)};
	uint64_t marks[PART_WORDS];

	roami_assert(node->me != 0 && number <= (node->layout.pages - 1) / PART_PAGES);
	if (roami_msg_call(node, 0, roami_type(node, ROAMI_ROOM_CREATOR, 0), &ask, 1, marks,
			   sizeof(marks)) != sizeof(marks))
		roami_node_fail(node, "node 0: short reply about its pages at the seal");
	for (unsigned i = 0; i < PART_WORDS; i++)
		atomic_store_explicit(&part->marks[i], marks[i], memory_order_relaxed);
	atomic_store_explicit(&part->known, 1, memory_order_release);
}

enum roami_creator roami_near_creator_has(struct roami_node *node, uint32_t page, bool ask)
{
	roami_contract(page < creator_of(node)->pages);
	(void)ask;
	return creator_marked(&node->segments[0], page) ? ROAMI_CREATOR_HAS : ROAMI_CREATOR_NOT;
}

enum roami_creator roami_far_creator_has(struct roami_node *node, uint32_t page, bool ask)
{
	struct roami_creator_part *part = &creator_of(node)->parts[page / PART_PAGES];
	uint64_t marks;

	roami_contract(page < creator_of(node)->pages && node->me != 0);
	if (atomic_load_explicit(&part->known, memory_order_acquire) == 0) {
		if (!ask)
			return ROAMI_CREATOR_UNKNOWN;
		creator_learn(node, page / PART_PAGES);
	}
	marks = atomic_load_explicit(&part->marks[page % PART_PAGES / 64], memory_order_relaxed);
	return (marks >> page % 64 & 1) != 0 ? ROAMI_CREATOR_HAS : ROAMI_CREATOR_NOT;
}

static enum roami_creator creator_has(struct roami_node *node, uint32_t page, bool ask)
{
	roami_contract(page < node->layout.pages);
	if (page >= creator_of(node)->pages)
		return ROAMI_CREATOR_NOT;
	return node->reach[0]->creator_has(node, page, ask);
}

bool roami_creator_may_have(struct roami_node *node, uint32_t page)
{
	return creator_has(node, page, false) != ROAMI_CREATOR_NOT;
}

bool roami_creator_copy(struct roami_node *node, uint32_t page, uint8_t *to)
{
	struct roami_query ask = {.what = page, .page = to};

	roami_assert(to != NULL);
	if (creator_has(node, page, true) != ROAMI_CREATOR_HAS)
		return false;
	node->reach[0]->creator_copy(node, &ask, 1);
	return true;
}

void roami_creator_fetch(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	struct roami_query asks[ROAMI_CALLS_AT_ONCE];
	unsigned asked = 0;

	roami_assert(count <= ROAMI_CALLS_AT_ONCE);
	for (uint32_t i = 0; i < count && node->me != 0; i++) {
		uint32_t page = first + i * (uint32_t)stride;

		if (creator_has(node, page, true) != ROAMI_CREATOR_HAS)
			continue;
		roami_contract_pending(node, page);
		roami_page_entry(node, page)->here = 1;
		asks[asked++] = (struct roami_query){.what = page,
						     .page = roami_page_bytes(node, page)};
	}
	if (asked > 0)
		node->reach[0]->creator_copy(node, asks, asked);
}

static const struct roam_message creator_messages[] = {
	{"marks", marks_handle, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_creator = {
	.name = "creator",
	.messages = creator_messages,
	.state_size = sizeof(struct creator),
	.init = creator_init,
	.fini = creator_fini,
};
