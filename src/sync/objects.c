/*
 * Synchronisation objects in blocks of the heap.  What a block's last user left in them must be
 * gone before the next one has it, and only the nodes that keep it know: the holder of a lock, and
 * the homes of conditions and flags.  So all nodes are asked when such a block is handed out again,
 * which comes after its free as all that was done in it does (rule 3.2).  To ask only for blocks
 * with objects, every segment has a bit for each 64 bytes of the heap, which the first node to use
 * an object there sets on every node.  Nodes whose memory is out of reach are told of whole pages,
 * for good.
 */
#include <string.h>

#include "home/reach.h"
#include "msg/msg.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { OBJECTS_ANNOUNCE, OBJECTS_FORGET };

static unsigned objects_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= OBJECTS_FORGET);
	return roami_type(node, ROAMI_ROOM_OBJECTS, message);
}

#define GRAIN (ROAMI_PAGE / 64)

struct objects_range {
	uint64_t offset;
	uint64_t bytes;
};

static size_t objects_bytes(const struct roami_node *node)
{
	return (node->layout.pages + 31u) / 32 * sizeof(uint32_t);
}

enum roam_err roami_objects_init(struct roami_node *node)
{
	sync_of(node)->pages_announced = roami_os_reserve_sparse(objects_bytes(node));
	sync_of(node)->pages_heard = roami_os_reserve_sparse(objects_bytes(node));
	return sync_of(node)->pages_announced == NULL || sync_of(node)->pages_heard == NULL
		       ? ROAM_ENOMEM
		       : ROAM_OK;
}

void roami_objects_fini(struct roami_node *node)
{
	roami_os_unmap((void *)sync_of(node)->pages_announced, objects_bytes(node));
	roami_os_unmap((void *)sync_of(node)->pages_heard, objects_bytes(node));
}

static bool page_known(const _Atomic uint32_t *pages, uint32_t page)
{
	return (atomic_load(&pages[page / 32]) >> page % 32 & 1) != 0;
}

static void page_know(_Atomic uint32_t *pages, uint32_t page)
{
	atomic_fetch_or(&pages[page / 32], 1u << page % 32);
}

/* The bits of [offset, offset + bytes) within its first page. */
static uint64_t grains(uint64_t offset, uint64_t bytes)
{
	unsigned first = (unsigned)(offset % ROAMI_PAGE / GRAIN);
	uint64_t last = (offset % ROAMI_PAGE + bytes - 1) / GRAIN;

	roami_contract(bytes > 0);
	return (last >= 63 ? UINT64_MAX : ((uint64_t)1 << (last + 1)) - 1) >> first << first;
}

/* ------------------------------------------------------------------------------------- telling */

void roami_object_announce(struct roami_node *node, uint64_t id, _Atomic uint32_t *announced_p)
{
	uint64_t offset = id - (uint64_t)(uintptr_t)node->app;
	uint32_t page = (uint32_t)(offset / ROAMI_PAGE);

	if (atomic_load_explicit(announced_p, memory_order_acquire) != 0)
		return;
	if (offset < node->layout.heap_bytes) {
		bool announced = page_known(sync_of(node)->pages_announced, page);

		for (unsigned peer = 0; peer < node->nodes; peer++)
			node->reach[peer]->objects_set(
				node, peer, page, grains(offset, 1), announced,
				objects_type(node, OBJECTS_ANNOUNCE));
		page_know(sync_of(node)->pages_announced, page);
	}
	atomic_store_explicit(announced_p, 1, memory_order_release);
}

static void objects_handle_announce(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = UINT32_MAX;

	roami_contract(roami_msg_polling(node));
	if (request->bytes == sizeof(page))
		memcpy(&page, request->data, sizeof(page));
	if (page >= node->layout.pages)
		roami_node_fail(node, "node %u announced objects in a page that does not exist",
				request->from);
	page_know(sync_of(node)->pages_heard, page);
	roami_reply(node, request, NULL, 0);
}

/* ---------------------------------------------------------------------------------- forgetting */

/* Calls fn for each page of the range, with the range's bits there, until fn returns true. */
static bool each_page(struct roami_node *node, const struct objects_range *range,
		      bool (*fn)(struct roami_node *node, uint32_t page, uint64_t bits))
{
	uint64_t end = range->offset + range->bytes, next;

	roami_contract(range->bytes > 0 && range->bytes <= node->layout.heap_bytes - range->offset);
	for (uint64_t at = range->offset; at < end; at = next) {
		next = (at / ROAMI_PAGE + 1) * ROAMI_PAGE;
		if (fn(node, (uint32_t)(at / ROAMI_PAGE), grains(at, end - at)))
			return true;
	}
	return false;
}

static bool page_has(struct roami_node *node, uint32_t page, uint64_t bits)
{
	roami_contract(page < node->layout.pages);
	return (atomic_load(&node->self->objects[page]) & bits) != 0 ||
	       page_known(sync_of(node)->pages_heard, page);
}

static bool page_clear(struct roami_node *node, uint32_t page, uint64_t bits)
{
	roami_contract(page < node->layout.pages && bits != 0);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		node->reach[peer]->objects_clear(node, peer, page, bits);
	return false;
}

/* At this node. */
static void objects_drop(struct roami_node *node, const struct objects_range *range)
{
	uint64_t first = (uint64_t)(uintptr_t)node->app + range->offset;
	uint64_t end = first + range->bytes;
	struct roami_sync_state *sync = sync_of(node);

	roami_contract(range->bytes > 0 && range->bytes <= node->layout.heap_bytes - range->offset);
	roami_table_each(node, &sync->locks, first, end, roami_lock_forget);
	roami_table_each(node, &sync->barriers, first, end, roami_barrier_forget);
	roami_table_each(node, &sync->conds, first, end, roami_cond_forget);
	roami_table_each(node, &sync->flags, first, end, roami_flag_forget);
}

void roami_objects_forget(struct roami_node *node, uint64_t offset, size_t bytes)
{
	struct objects_range range = {offset, bytes};
	struct roam_part part = {&range, sizeof(range)};

	if (!each_page(node, &range, page_has))
		return;
	objects_drop(node, &range);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (peer != node->me)
			roami_msg_call(node, peer, objects_type(node, OBJECTS_FORGET), &part, 1,
				       NULL, 0);
	each_page(node, &range, page_clear);
}

static void objects_handle_forget(struct roami_node *node, const struct roam_request *request)
{
	struct objects_range range = {0, 0};

	roami_contract(roami_msg_polling(node));
	if (request->bytes == sizeof(range))
		memcpy(&range, request->data, sizeof(range));
	if (range.bytes == 0 || range.offset >= node->layout.heap_bytes ||
	    range.bytes > node->layout.heap_bytes - range.offset)
		roami_node_fail(node, "node %u sent a malformed request to forget objects",
				request->from);
	objects_drop(node, &range);
	roami_reply(node, request, NULL, 0);
}

static const struct roam_message objects_messages[] = {
	[OBJECTS_ANNOUNCE] = {"objects", objects_handle_announce, 4},
	[OBJECTS_FORGET] = {"forget", objects_handle_forget, 16},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_objects = {.name = "objects", .messages = objects_messages};
