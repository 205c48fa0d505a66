#include "sync/frees.h"

#include <string.h>

#include "base/marks.h"
#include "base/region.h"
#include "home/reach.h"
#include "msg/msg.h"
#include "page/page.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { FREES_FREE, FREES_UNMARK, FREES_MARKS };

#define MARKS_PAGES 256u /* whose marks are in one answer */

struct frees {
	struct roami_spin lock;
	struct roami_vec list; /* struct roami_remote_free */
};

static struct frees *frees_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_FREES].state;
}

/*
 * Under SC no node has old bytes or writes that others are still to see, and no diff can come late.
 * There nodes need not synchronise at all, and would never acquire a free.
 */
uint64_t roami_free_interval(struct roami_node *node, uint64_t offset)
{
	struct roami_vclock clock;

	roami_contract(offset < node->layout.heap_bytes);
	if (roami_region_of(node, (uint32_t)(offset / ROAMI_PAGE))->protocol->model ==
	    ROAM_MODEL_SC)
		return 0;
	roami_interval_enter(node);
	roami_log_clock(node, &clock);
	atomic_store(&release_of(node)->interval_due, 1);
	roami_interval_leave(node);
	return clock.at[node->me] + 1;
}

/* --------------------------------------------------------------------------------------- marks */

bool roami_block_take(struct roami_node *node, unsigned owner, uint64_t offset)
{
	unsigned type = roami_type(node, ROAMI_ROOM_FREES, FREES_UNMARK);

	roami_assert(owner < node->nodes && offset < node->layout.heap_bytes);
	if (!node->reach[owner]->block_unmark(node, owner, offset, type))
		return false;
	roami_spoil(node, ROAMI_SPOILT_BLOCK, roami_page_bytes(node, 0) + offset, 0);
	return true;
}

static void unmark_handle(struct roami_node *node, const struct roam_request *request)
{
	uint64_t offset = UINT64_MAX;
	uint8_t was;
	struct roam_part part = {&was, sizeof(was)};

	roami_contract(roami_msg_polling(node));
	if (request->bytes == sizeof(offset))
		memcpy(&offset, request->data, sizeof(offset));
	if (offset >= node->layout.heap_bytes)
		roami_node_fail(node, "node %u sent a malformed request to free", request->from);
	was = roami_marks_take(node->self, offset);
	roami_reply(node, request, &part, 1);
}

struct marks_ask {
	uint32_t first;
	uint32_t count;
};

void roami_marks_fetch(struct roami_node *node, unsigned from, uint32_t first, uint32_t end)
{
	unsigned type = roami_type(node, ROAMI_ROOM_FREES, FREES_MARKS);
	uint64_t words[2 * MARKS_PAGES]; /* beginnings, then ends */

	roami_assert(from != node->me && end <= node->layout.pages);
	for (uint32_t count; first < end; first += count) {
		count = end - first < MARKS_PAGES ? end - first : MARKS_PAGES;
		struct marks_ask ask = {first, count};
		struct roam_part part = {&ask, sizeof(ask)};

		if (roami_msg_call(node, from, type, &part, 1, words, sizeof(words)) !=
		    2 * count * sizeof(words[0]))
			roami_node_fail(node, "node %u: malformed answer about blocks", from);
		for (uint32_t i = 0; i < count; i++) {
			atomic_store(&node->self->blocks[first + i], words[i]);
			atomic_store(&node->self->ends[first + i], words[count + i]);
		}
	}
}

static void marks_handle(struct roami_node *node, const struct roam_request *request)
{
	struct marks_ask ask = {UINT32_MAX, 0};
	struct roam_part parts[2];

	if (request->bytes == sizeof(ask))
		memcpy(&ask, request->data, sizeof(ask));
	if (ask.count > MARKS_PAGES || ask.first > node->layout.pages ||
	    ask.count > node->layout.pages - ask.first)
		roami_node_fail(node, "node %u sent a malformed request for marks", request->from);
	parts[0].data = (void *)&node->self->blocks[ask.first];
	parts[1].data = (void *)&node->self->ends[ask.first];
	parts[0].bytes = parts[1].bytes = ask.count * sizeof(uint64_t);
	roami_reply(node, request, parts, 2);
}

/* --------------------------------------------------------------------------------------- frees */

void roami_remote_free_send(struct roami_node *node, unsigned owner, uint64_t offset)
{
	struct roami_remote_free freed = {offset, roami_free_interval(node, offset), node->me, 0};
	struct roam_part part = {&freed, sizeof(freed)};

	roami_assert(owner < node->nodes && owner != node->me);
	roami_msg_send(node, owner, roami_type(node, ROAMI_ROOM_FREES, FREES_FREE), &part, 1);
}

static void free_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_remote_free *slot;

	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(*slot))
		roami_node_fail(node, "node %u sent a malformed free request", request->from);
	roami_spin_lock(node, &frees_of(node)->lock);
	slot = roami_os_vec_grow(&frees_of(node)->list, sizeof(*slot), 1);
	if (slot == NULL)
		roami_node_fail(node, "no memory for blocks freed by other nodes");
	memcpy(slot, request->data, sizeof(*slot));
	slot->freer = request->from;
	frees_of(node)->list.count++;
	roami_spin_unlock(&frees_of(node)->lock);
}

#define POLLS_MAX 1000u

/* Takes a block out of the list whose free this node has acquired; false: there is none. */
static bool free_next(struct roami_node *node, struct roami_remote_free *freed)
{
	struct roami_remote_free *frees;
	struct roami_vclock clock;
	bool found = false;

	roami_log_reuse_clock(node, &clock);
	roami_spin_lock(node, &frees_of(node)->lock);
	frees = (void *)frees_of(node)->list.items;
	for (size_t i = 0; i < frees_of(node)->list.count && !found; i++) {
		if (clock.at[frees[i].freer] < frees[i].interval)
			continue;
		*freed = frees[i];
		frees[i] = frees[--frees_of(node)->list.count];
		found = true;
	}
	roami_spin_unlock(&frees_of(node)->lock);
	return found;
}

void roami_remote_free_drain(struct roami_node *node,
			     void (*give)(void *arg, const struct roami_remote_free *block),
			     void *arg)
{
	struct roami_remote_free freed;

	/*
	 * Frees before a synchronisation that this node has passed are in its rings by now, but may
	 * not be handled yet: that synchronisation need not have been by message.
	 */
	for (unsigned turn = 0; turn < POLLS_MAX && roami_msg_pending(node); turn++)
		if (roami_msg_poll(node) == 0)
			node->env->spin(node, turn);
	while (free_next(node, &freed))
		give(arg, &freed);
}

static const struct roam_message free_messages[] = {
	[FREES_FREE] = {"free", free_handle, sizeof(struct roami_remote_free)},
	[FREES_UNMARK] = {"unmark", unmark_handle, sizeof(uint64_t)},
	[FREES_MARKS] = {"marks", marks_handle, sizeof(struct marks_ask)},
	{NULL, NULL, 0},
};

static void frees_fini(struct roami_node *node)
{
	roami_os_vec_free(&frees_of(node)->list, sizeof(struct roami_remote_free));
}

const struct roami_room roami_room_frees = {
	.name = "frees",
	.messages = free_messages,
	.state_size = sizeof(struct frees),
	.fini = frees_fini,
};
