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
 * that is here costs nothing.  Pages that it often loses in vain are closed at its beginning: they
 * keep their bytes, and are in the read set only if they are touched (ROAM_TX_READS).
 *
 * The comparison is the invalidation of the write set.  The committing node first becomes the owner
 * of each page of its write set and has all copies invalidated; a node that loses a page in this
 * way restarts its transaction if it could read that page.  If it has lost no page of its own read
 * set by the time the last answer has come, then at that moment it alone has all that it wrote, and
 * all that it read is unchanged: it is committed.
 *
 * The paper's rules (3.3), T_v validating, T_j overlapping (enum roami_tx_rule counts them):
 * 	read-write	T_v read what T_j wrote: T_j committed before, or is no transaction, and the
 * 			invalidation has taken the page from T_v (plurix_lost)
 * 	write-read	T_j read what T_v writes: the invalidation dooms T_j
 * 	write-write	both wrote a page, hence could read it: as the others; one has the token, or
 * 			the page, before the other
 *
 * Backward validation (ROAM_TX_VALIDATE).  The invalidation marks T_j as overtaken, and it goes on
 * until it is T_v itself: then rule read-write aborts it, if it has written anything.  It begins
 * anew before that if it gets a page from another node, whose bytes may be newer than what it has
 * read; pages that are here are not, as they have not been invalidated.
 *
 * Commit by pages (ROAM_TX_COMMIT, rule 8.15).  Without the token: the node becomes the owner of
 * its pages in ascending order, and keeps each until the end.  Then all goes on as with the token.
 *
 * Page states and messages: ivy's.  Inside a transaction a page in any state in which it can be
 * read may also be open for writing, with a twin; only the commit makes its node the owner.  A copy
 * that a beginning has closed goes by way of fetch when it opens again, and asks nobody.
 *
 * Opacity (rule 8.7).  A page is served only when it is not pending, and those of a write set are
 * pending from before the first invalidation until the commit is over.  So no node gets a byte of a
 * commit before all have answered that their old copies are gone, and a transaction that has such
 * a copy is doomed by then: it gets no further page, and all that it can still read is of one
 * moment.
 *
 * Pages that a transaction replaces (roam_tx_writes) are opened as they are, without a fetch.
 * Their loss concerns nobody; what was written stays with the node, aside while the commit fetches
 * the page, and then takes the place of all of its bytes.
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
 * - In the paper the token decides which station loses.  Between transactions this is so here, too;
 *   a plain write of another node, which the paper does not have, always wins.
 * - A page that was written is in the write set even if its bytes are the same at the end.
 */
#include "ivy.h"
#include "roam/protocol_home.h"
#include "roam/protocol_tx.h"

#include <string.h>

struct plurix_page {
	struct ivy_page ivy;
	bool listed; /* in the list of pages that the next transaction must close */
	bool blind;  /* the open transaction replaces all its bytes, and has not read it */
};

struct plurix_node {
	struct ivy_node ivy;
	size_t opened; /* how many pages the list has; it is in the protocol's memory */
	uint32_t *kept; /* there, too: those of them that lose all access, */
	uint8_t *blind; /* and for each page of a commit what it replaces the page's bytes by */
};

/* ------------------------------------------------------------------------------ outside, faults */

/*
 * Lists the pending page if the next transaction must close it: it was opened for writing without a
 * twin, or is to count as read only if it is touched.
 */
static void plurix_opened(struct roami_node *node, uint32_t page, bool writable)
{
	struct plurix_node *plurix = roami_node_state(node);
	struct plurix_page *data = roami_page_data(node, page);
	uint32_t *list = roami_memory(node);

	roami_contract_pending(node, page);
	if (data->listed || (!writable && !roami_tx_closes(node, page)))
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

/*
 * Opens a copy that is here, and that a transaction's beginning may have closed; false: there is
 * none.  An invalidation waits meanwhile, as for a copy on its way: it would close what is not open
 * yet, or what is about to be opened further.
 */
static bool plurix_open_copy(struct roami_node *node, uint32_t page, enum roam_access access)
{
	bool here;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	here = ivy_state(node, page) == IVY_COPY;
	if (here)
		roami_page_move(node, page, IVY_FETCH);
	roami_page_unlock(node, page);
	if (!here)
		return false;
	roami_page_open(node, page, 1, access);
	roami_page_lock(node, page);
	roami_page_move(node, page, IVY_COPY);
	roami_page_unlock(node, page);
	return true;
}

static bool plurix_blind(struct roami_node *node, uint32_t page)
{
	return ((struct plurix_page *)roami_page_data(node, page))->blind;
}

/*
 * Opens the page for writing, with a twin, as it is.  An owner's is ordinary: others must get it as
 * it was.  One that was evicted must first leave the copyset.
 */
static void plurix_replaces(struct roami_node *node, uint32_t page)
{
	enum ivy_state state = ivy_look(node, page);

	roami_contract_pending(node, page);
	if (ivy_owns(state) || state == IVY_EVICTED)
		return;
	roami_page_set_twins(node, page, true);
	roami_page_lock(node, page); /* an invalidation looks, though the page is pending */
	((struct plurix_page *)roami_page_data(node, page))->blind = true;
	roami_page_unlock(node, page);
	if (!plurix_open_copy(node, page, ROAM_WRITE))
		roami_page_open(node, page, 1, ROAM_WRITE);
}

static void plurix_read_fault(struct roami_node *node, uint32_t page)
{
	bool open = roami_tx_open(node);

	roami_contract_pending(node, page);
	/*
	 * Of what was lost: made after the page was closed, by a fault that was about to write.  A
	 * handler that has closed the page may still be at work on it.
	 */
	roami_page_lock(node, page);
	roami_twin_drop(node, page);
	roami_page_unlock(node, page);
	roami_page_set_twins(node, page, true);
	if (open && plurix_blind(node, page)) {
		roami_page_open(node, page, 1, ROAM_WRITE); /* what was written before its loss */
	} else if (open && ivy_owns(ivy_look(node, page))) {
		plurix_read_own(node, page);
	} else if (!plurix_open_copy(node, page, ROAM_READ)) {
		ivy_read_fault(node, page);
		if (open)
			roami_tx_fetched(node);
	}
	if (open)
		roami_tx_touched(node, page);
	plurix_opened(node, page, !open && roami_page_access(node, page) == ROAM_WRITE);
}

/* Another thread of this node is about to write what a transaction that waits may have read. */
static void plurix_wakes(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	if (roami_tx_watches(node))
		roami_tx_doom(node, page);
	roami_page_unlock(node, page);
}

/* In a transaction the core opens the page for writing and makes the twin. */
static void plurix_write_fault(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_set_twins(node, page, true);
	if (roami_tx_open(node))
		return;
	if (roami_page_access(node, page) == ROAM_NONE)
		plurix_open_copy(node, page, ROAM_READ); /* its owner will not send it again */
	else
		plurix_wakes(node, page);
	ivy_write_fault(node, page);
	plurix_opened(node, page, true);
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
	roami_contract_locked(node, page);
	if (plurix_blind(node, page)) { /* a copy: nothing is sent, and what was written stays */
		roami_twin_drop(node, page);
		roami_tx_wake(node);
		return;
	}
	roami_tx_doom(node, page);
	plurix_restore(node, page);
}

/*
 * ivy's `keeps`.  A page that the transaction writes does not stay: at its end it would ask the
 * node that waits for the page.
 */
static uint64_t plurix_keeps(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	if (roami_page_access(node, page) == ROAM_NONE || roami_page_has_twin(node, page))
		return 0;
	return roami_tx_keeps(node);
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

/*
 * ivy's `give`: the reply carries the bytes, as above: a transaction of this node that replaces the
 * page opens it as it is, and writes.
 */
static void plurix_give(struct roami_node *node, const struct roam_request *request, uint32_t page,
			const struct roam_part *part)
{
	uint8_t *bytes = roami_reply_buffer(node, request, page, roami_scratch(node));

	roami_contract_locked(node, page);
	roami_page_copy(node, bytes, roami_page_bytes(node, page));
	roami_reply_filled(node, request, bytes, part, 1);
}

/* --------------------------------------------------------------------------------- transactions */

/* What another thread that waits has read stays open, or its loss would not be seen. */
static void plurix_begin_watched(struct roami_node *node, size_t count)
{
	struct plurix_node *plurix = roami_node_state(node);

	roami_page_close(node, plurix->kept, count, ROAM_READ);
	for (size_t i = 0; i < count; i++) {
		((struct plurix_page *)roami_page_data(node, plurix->kept[i]))->listed = true;
		((uint32_t *)roami_memory(node))[i] = plurix->kept[i];
	}
	plurix->opened = count;
}

static void plurix_begin(struct roami_node *node)
{
	struct plurix_node *plurix = roami_node_state(node);
	uint32_t *list = roami_memory(node);
	size_t kept = 0, others = 0;

	plurix->opened = roami_pages_sort(list, plurix->opened);
	for (size_t i = 0; i < plurix->opened; i++) {
		((struct plurix_page *)roami_page_data(node, list[i]))->listed = false;
		if (roami_tx_closes(node, list[i]))
			plurix->kept[kept++] = list[i];
		else
			list[others++] = list[i];
	}
	roami_page_close(node, list, others, ROAM_READ);
	plurix->opened = 0;
	if (roami_tx_watches(node))
		plurix_begin_watched(node, kept);
	else
		roami_page_shelve(node, plurix->kept, kept);
}

/* Calls of a validation, of which as many are under way at a time as there is room for. */
struct plurix_calls {
	struct roam_page_call all[ROAM_PAGES_ONCE];
	unsigned used;
};

/* By the page's index in the commit, so that no more memory is used than by the largest one. */
static uint8_t *plurix_replacement(struct roami_node *node, size_t index)
{
	struct plurix_node *plurix = roami_node_state(node);

	return plurix->blind + index * ROAM_PAGE_SIZE;
}

/* The page has come with the bytes that it has if the commit fails: not those of an old twin. */
static void plurix_came(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	if (plurix_blind(node, page))
		roami_twin_drop(node, page);
	roami_page_unlock(node, page);
}

/* Waits for the answers. */
static void plurix_await(struct roami_node *node, struct plurix_calls *calls)
{
	if (calls->used == 0)
		return;
	roami_pages_call(node, calls->all, calls->used);
	for (unsigned i = 0; i < calls->used; i++)
		if (calls->all[i].type == IVY_WRITE) {
			ivy_taken(node, &calls->all[i]);
			if (calls->all[i].came)
				plurix_came(node, calls->all[i].page);
		}
	calls->used = 0;
}

static struct roam_page_call *plurix_next(struct roami_node *node, struct plurix_calls *calls)
{
	if (calls->used == ROAM_PAGES_ONCE)
		plurix_await(node, calls);
	return &calls->all[calls->used++];
}

/* Asks for a page that another node owns, and keeps what its bytes are to be replaced by. */
static void plurix_take(struct roami_node *node, struct plurix_calls *calls, uint32_t page,
			size_t index)
{
	roami_contract_pending(node, page);
	if (plurix_blind(node, page))
		roami_page_copy(node, plurix_replacement(node, index),
				roami_page_bytes(node, page));
	ivy_want(node, page, plurix_next(node, calls));
}

/*
 * Adds the calls that invalidate the copies of a page that this node owns.  The copyset is empty
 * from here on; the copies are gone when the calls are answered (plurix_await).
 */
static void plurix_invalidate(struct roami_node *node, struct plurix_calls *calls, uint32_t page)
{
	struct ivy_page *data = roami_page_data(node, page);

	roami_contract_pending(node, page);
	for (; data->copies != 0; data->copies &= data->copies - 1) {
		struct roam_page_call *call = plurix_next(node, calls);

		*call = (struct roam_page_call){.page = page,
						.to = (unsigned)__builtin_ctzll(data->copies),
						.type = IVY_INVALIDATE,
						.part = {&call->page, sizeof(call->page)}};
	}
}

/* This node owns the page from here on; others have the copies of its copyset. */
static void plurix_own(struct roami_node *node, uint32_t page)
{
	struct ivy_page *data = roami_page_data(node, page);

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	data->until = roami_now(node);
	roami_page_move(node, page, IVY_OWNER);
	if (data->copies != 0)
		roami_page_move(node, page, IVY_SHARED);
	roami_page_set_home(node, page, true);
	roami_page_unlock(node, page);
}

/* Becomes the owner of the page, of which others may have copies for a while yet. */
static void plurix_lock(struct roami_node *node, uint32_t page, size_t index)
{
	struct plurix_calls calls = {.used = 0};

	roami_contract_pending(node, page);
	if (ivy_owns(ivy_look(node, page)))
		return;
	plurix_take(node, &calls, page, index);
	plurix_await(node, &calls);
	plurix_own(node, page);
}

/*
 * In two rounds: pages that this node does not own come, while the copies of its own are
 * invalidated; then the copies of those that came.
 */
static void plurix_validate(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct plurix_calls calls = {.used = 0};

	for (size_t i = 0; i < count; i++)
		if (ivy_owns(ivy_look(node, pages[i])))
			plurix_invalidate(node, &calls, pages[i]);
		else
			plurix_take(node, &calls, pages[i], i);
	plurix_await(node, &calls);
	for (size_t i = 0; i < count; i++)
		plurix_invalidate(node, &calls, pages[i]);
	plurix_await(node, &calls);
	for (size_t i = 0; i < count; i++)
		plurix_own(node, pages[i]);
}

static void plurix_commit(struct roami_node *node, const uint32_t *pages, size_t count)
{
	roami_page_close(node, pages, count, ROAM_READ);
	for (size_t i = 0; i < count; i++) {
		struct plurix_page *data = roami_page_data(node, pages[i]);

		roami_contract_pending(node, pages[i]);
		if (data->blind)
			roami_page_copy(node, roami_page_bytes(node, pages[i]),
					plurix_replacement(node, i));
		data->blind = false;
		roami_page_clean(node, pages[i]);
	}
}

/* What was written of a page that is no copy here goes with the page. */
static void plurix_forget(struct roami_node *node, uint32_t page)
{
	struct plurix_page *data = roami_page_data(node, page);
	enum ivy_state state = ivy_state(node, page);

	roami_contract_locked(node, page);
	if (data->blind && !ivy_owns(state) && state != IVY_COPY) {
		roami_page_close(node, &page, 1, ROAM_NONE);
		roami_twin_drop(node, page);
	}
	data->blind = false;
}

static void plurix_abort(struct roami_node *node, const uint32_t *pages, size_t count)
{
	roami_page_close(node, pages, count, ROAM_READ);
	for (size_t i = 0; i < count; i++) {
		roami_contract_pending(node, pages[i]);
		roami_page_lock(node, pages[i]);
		plurix_forget(node, pages[i]);
		plurix_restore(node, pages[i]);
		roami_page_unlock(node, pages[i]);
		roami_page_clean(node, pages[i]);
	}
}

static const struct roam_transactions plurix_transactions = {
	.begin = plurix_begin,
	.replaces = plurix_replaces,
	.lock = plurix_lock,
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
	plurix->ivy.give = plurix_give;
	plurix->ivy.lost = plurix_lost;
	plurix->ivy.keeps = plurix_keeps;
	roami_memory_open(node,
			  (2 * sizeof(uint32_t) + ROAM_PAGE_SIZE) * (size_t)roami_pages(node));
	plurix->kept = (uint32_t *)roami_memory(node) + roami_pages(node);
	plurix->blind = (uint8_t *)(plurix->kept + roami_pages(node));
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
