/*
 * direct: the hardware as a protocol.
 *
 * Paper: none.  It is what all others are compared with: the least that a heap which several
 * processes share can cost.
 *
 * Idea.  The nodes are on one host, and all of them map the heap of node 0.  The processors' caches
 * keep it coherent, so nothing is ever protected, copied, fetched or compared, and no write is
 * noticed.  What remains is the core's: locks, barriers, conditions, flags and reductions order the
 * nodes; allocation hands out blocks, and freed ones again when their free was acquired.
 *
 * Page states: heap.  No messages.
 *
 * Release consistency is what it promises, so that a program which is right here is right under the
 * other protocols of that model.  It gives more: x86-TSO between the nodes, as between threads.  A
 * release needs no step of its own: the core's synchronisation stores what it tells others by
 * stores that come after the program's, or by system calls, and TSO keeps that order.
 */
#include "roam/protocol.h"

enum direct_state { DIRECT_HEAP };

/* Opens a page in a world, whose engine asks once for each page; elsewhere all pages are open. */
static void direct_open(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_set_home(node, page, true);
	roami_page_open(node, page, 1, ROAM_WRITE);
}

/* The bytes are the same memory on all nodes, and no node's counts as a copy. */
static void direct_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++) {
		if (!roami_page_ours(nodes[0], page))
			continue;
		for (unsigned i = 0; i < count; i++) {
			enum roam_access access = roami_page_access(nodes[i], page);

			roami_assert(roami_page_bytes(nodes[i], page) ==
				     roami_page_bytes(nodes[0], page));
			roami_assert(access == ROAM_NONE || access == ROAM_WRITE);
			roami_assert(!roami_page_dirty(nodes[i], page));
			roami_assert(!roami_page_has_twin(nodes[i], page));
		}
	}
}

static const struct roam_page_state direct_states[] = {
	[DIRECT_HEAP] = {"heap", 0},
	{NULL, 0},
};

const struct roam_protocol roami_protocol_direct = {
	.name = "direct",
	.paper = "the hardware: all nodes of one host map one heap; the floor of the others",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.homes = ROAM_HOMES_EVERYWHERE,
	.states = direct_states,
	.read_fault = direct_open,
	.check = direct_check,
};
