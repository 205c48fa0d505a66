/*
 * plurix: restartable transactions, validated optimistically; ivy outside of them.
 *
 * Paper: Wende, Schoettner, Goeckelmann, Bindhammer and Schulthess, Performance Evaluation of a
 * Transactional DSM System (PDPTA 2002).
 *
 * Idea.  A station (node) runs one transaction at a time, by ordinary loads and stores.  It reads
 * copies of pages; its first write to a page makes a shadow copy (twin), and no other node sees
 * what it writes.  At its end it must have the commit token, of which there is one; then its write
 * set is compared with what all other running transactions have read and written (forward
 * validation), and the losers restart: their writes are undone from the shadow copies.  A
 * transaction's read set is the pages that its node could read while it ran, so that reading a page
 * that is here costs nothing.
 *
 * The comparison is the invalidation of the write set.  The committing node first becomes the owner
 * of each page of its write set and has all copies invalidated; a node that loses a page in this
 * way restarts its transaction if it could read that page.  If it has lost no page of its own read
 * set by the time the last answer has come, then at that moment it alone has all that it wrote, and
 * all that it read is unchanged: it is committed.
 *
 * The paper's rules (3.3), T_v validating, T_j overlapping:
 * 	1 read-write	T_v read what T_j wrote: T_j committed before, or is no transaction, and the
 * 			invalidation has doomed T_v (plurix_lost)
 * 	2 write-read	T_j read what T_v writes: the invalidation dooms T_j
 * 	3 write-write	both wrote a page, hence could read it: as 2; one of them holds the token
 *
 * Page states and messages: ivy's.  Inside a transaction a page in any state in which it can be
 * read may also be open for writing, with a twin; only the commit makes its node the owner.
 *
 * Opacity (rule 8.7).  A page is served only when it is not pending, and those of a write set are
 * pending from before the first invalidation until the commit is over.  So no node gets a byte of a
 * commit before all have answered that their old copies are gone, and a transaction that has such
 * a copy is doomed by then: it gets no further page, and all that it can still read is of one
 * moment.
 *
 * Outside of transactions: ivy, hence sequential consistency.  A plain write takes its page from
 * transactions that could read it, and a page with open writes is lent as its twin has it.
 *
 * Differences from the paper, and why:
 * - The paper sends the write set to all stations.  Here an owner knows which nodes have copies,
 *   and only these are told: the other stations can neither have read the page nor have an old
 *   copy.
 * - The paper's transactions read what its name service finds, in a heap that outlives the
 *   stations; here they read the job's heap.
 * - The paper's loser is decided by who has the token.  Between transactions this is so here, too;
 *   a plain write of another node, which the paper does not have, always wins.
 * - A page that was written is in the write set even if its bytes are the same at the end.
 */
#include "ivy.h"
#include "roam/protocol_home.h"

#include <string.h>

struct plurix_page {
	struct ivy_page ivy;
	bool listed; /* in the list of pages opened for writing outside of a transaction */
};

struct plurix_node {
	struct ivy_node ivy;
	size_t opened; /* how many pages the list has; it is in the protocol's memory */
};

/* ------------------------------------------------------------------------------ outside, faults */

/* Lists the pending page, opened for writing without a twin: a transaction must close it first. */
static void plurix_opened(struct roami_node *node, uint32_t page)
{
	struct plurix_node *plurix = roami_node_state(node);
	struct plurix_page *data = roami_page_data(node, page);
	uint32_t *list = roami_memory(node);

	if (data->listed)
		return;
	roami_memory_lock(node);
	list[plurix->opened++] = page;
	data->listed = true;
	roami_memory_unlock(node);
}

static enum roam_writes plurix_writes(struct roami_node *node, uint32_t page)
{
	(void)page;
	return roami_tx_open(node) ? ROAM_WRITES_DIFF : ROAM_WRITES_FAULT;
}

/* Opens, for reading in a transaction, an owner's page that ivy would open for writing. */
static void plurix_read_own(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	roami_page_move(node, page, ivy_state(node, page));
	roami_page_set_home(node, page, true);
	roami_page_unlock(node, page);
	roami_page_open(node, page, 1, ROAM_READ);
}

static void plurix_read_fault(struct roami_node *node, uint32_t page)
{
	bool open = roami_tx_open(node);

	roami_page_set_twins(node, page, true);
	if (open && ivy_owns(ivy_look(node, page))) {
		plurix_read_own(node, page);
		return;
	}
	ivy_read_fault(node, page);
	if (!open && roami_page_access(node, page) == ROAM_WRITE)
		plurix_opened(node, page);
}

/* In a transaction the core opens the page for writing and makes the twin. */
static void plurix_write_fault(struct roami_node *node, uint32_t page)
{
	roami_page_set_twins(node, page, true);
	if (roami_tx_open(node))
		return;
	ivy_write_fault(node, page);
	plurix_opened(node, page);
}

static bool plurix_evict(struct roami_node *node, uint32_t page)
{
	return !roami_tx_watches(node) && ivy_evict(node, page);
}

static void plurix_collect(struct roami_node *node, uint32_t page)
{
	if (ivy_look(node, page) != IVY_OWNER)
		plurix_write_fault(node, page);
}

/* ------------------------------------------------------------------------------------- messages */

/* Gives the page the bytes that it has without an open transaction's writes. */
static void plurix_restore(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	if (!roami_page_has_twin(node, page))
		return;
	roami_page_copy(node, roami_page_bytes(node, page), roami_page_old(node, page));
	roami_twin_drop(node, page);
}

/* ivy's `lost`: this node's access is gone, and the request is not answered yet. */
static void plurix_lost(struct roami_node *node, uint32_t page)
{
	roami_tx_doom(node);
	plurix_restore(node, page);
}

/*
 * ivy's `lend`: a page with open writes stays open.  The reply carries the bytes: if the asker
 * copied them later from shared memory, a transaction of this node might have written them.
 */
static void plurix_lend(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	uint8_t *bytes = roami_reply_buffer(node, request, page, roami_scratch(node));

	roami_contract_locked(node, page);
	if (!roami_page_has_twin(node, page))
		roami_page_close(node, &page, 1, ROAM_READ);
	roami_page_copy(node, bytes, roami_page_old(node, page));
	roami_reply_filled(node, request, bytes, NULL, 0);
}

/* --------------------------------------------------------------------------------- transactions */

static void plurix_begin(struct roami_node *node)
{
	struct plurix_node *plurix = roami_node_state(node);
	uint32_t *list = roami_memory(node);

	for (size_t i = 0; i < plurix->opened; i++)
		((struct plurix_page *)roami_page_data(node, list[i]))->listed = false;
	plurix->opened = roami_pages_sort(list, plurix->opened);
	roami_page_close(node, list, plurix->opened, ROAM_READ);
	plurix->opened = 0;
}

/* Invalidates all copies of the pages, as many at once as there are call slots. */
static void plurix_invalidate(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct roam_call calls[ROAM_PAGES_ONCE];
	struct roam_part parts[ROAM_PAGES_ONCE];
	unsigned used = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t copies = ((struct ivy_page *)roami_page_data(node, pages[i]))->copies;

		for (; copies != 0; copies &= copies - 1) {
			parts[used] = (struct roam_part){&pages[i], sizeof(pages[i])};
			calls[used] = (struct roam_call){.to = (unsigned)__builtin_ctzll(copies),
							 .type = IVY_INVALIDATE,
							 .parts = &parts[used],
							 .count = 1};
			if (++used == ROAM_PAGES_ONCE) {
				roami_call_all(node, calls, used);
				used = 0;
			}
		}
	}
	roami_call_all(node, calls, used);
}

static void plurix_validate(struct roami_node *node, const uint32_t *pages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!ivy_owns(ivy_look(node, pages[i])))
			ivy_take(node, pages[i]);
	plurix_invalidate(node, pages, count);
	for (size_t i = 0; i < count; i++) {
		struct ivy_page *data = roami_page_data(node, pages[i]);

		roami_page_lock(node, pages[i]);
		data->copies = 0;
		data->until = roami_now(node);
		roami_page_move(node, pages[i], IVY_OWNER);
		roami_page_set_home(node, pages[i], true);
		roami_page_unlock(node, pages[i]);
	}
}

static void plurix_commit(struct roami_node *node, const uint32_t *pages, size_t count)
{
	roami_page_close(node, pages, count, ROAM_READ);
	for (size_t i = 0; i < count; i++)
		roami_page_clean(node, pages[i]);
}

static void plurix_abort(struct roami_node *node, const uint32_t *pages, size_t count)
{
	roami_page_close(node, pages, count, ROAM_READ);
	for (size_t i = 0; i < count; i++) {
		roami_page_lock(node, pages[i]);
		plurix_restore(node, pages[i]);
		roami_page_unlock(node, pages[i]);
		roami_page_clean(node, pages[i]);
	}
}

static const struct roam_transactions plurix_transactions = {
	.begin = plurix_begin,
	.validate = plurix_validate,
	.commit = plurix_commit,
	.abort = plurix_abort,
};

/* ---------------------------------------------------------------------------------------- table */

static enum roam_err plurix_init(struct roami_node *node)
{
	struct plurix_node *plurix = roami_node_state(node);

	plurix->ivy.dynamic = roami_option(node, "ROAM_IVY") == IVY_MANAGER_DYNAMIC;
	plurix->ivy.window = ivy_window;
	plurix->ivy.lend = plurix_lend;
	plurix->ivy.lost = plurix_lost;
	roami_memory_open(node, (size_t)roami_pages(node) * sizeof(uint32_t));
	return ROAM_OK;
}

const struct roam_protocol roami_protocol_plurix = {
	.name = "plurix",
	.paper =
		"transactions, validated optimistically; one writer outside; Wende and others 2002",
	.model = ROAM_MODEL_SC,
	.writes = ROAM_WRITES_FAULT,
	.writes_now = plurix_writes,
	.node_size = sizeof(struct plurix_node),
	.page_size = sizeof(struct plurix_page),
	.scratch_size = ROAM_PAGE_SIZE,
	.states = ivy_states,
	.messages = ivy_messages,
	.init = plurix_init,
	.read_fault = plurix_read_fault,
	.write_fault = plurix_write_fault,
	.evict = plurix_evict,
	.collect = plurix_collect,
	.check = ivy_check,
	.transactions = &plurix_transactions,
};
