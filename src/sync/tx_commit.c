/*
 * How an attempt of a transaction is committed or undone: the pages that it has written become
 * pending, are validated, and are handed to the protocol.
 */
#include "page/page.h"
#include "sync/tx.h"

/* Collects the pages written, ascending. */
static size_t tx_written(struct roami_node *node, const uint32_t **pages_p)
{
	struct roami_vec *work = &tx_of(node)->pages;
	uint32_t *pages;
	size_t count;

	roami_contract(tx_has_turn(node));
	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	count = roami_pages_take(node, &pages_of(node)->dirty, work);
	atomic_store(&pages_of(node)->dirty_count, 0);
	roami_spin_unlock(&pages_of(node)->dirty_lock);
	pages = (void *)work->items;
	count = roami_pages_sort(pages, count);
	*pages_p = pages;
	return count;
}

static void tx_hold(struct roami_node *node, const uint32_t *pages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		roami_page_hold(node, pages[i]);
}

static void tx_done(struct roami_node *node, const uint32_t *pages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		roami_page_done(node, pages[i]);
}

void roami_tx_undo(struct roami_node *node)
{
	const uint32_t *pages;
	size_t count = tx_written(node, &pages);

	roami_contract(node->nodes > 1);
	tx_hold(node, pages, count);
	if (count > 0)
		node->protocol->transactions->abort(node, pages, count);
	tx_done(node, pages, count);
}

/* Decides: once this has succeeded, nothing dooms the transaction (rule 8.6). */
static bool tx_counts(struct roami_node *node)
{
	uint32_t was = ROAMI_TX_OPEN;

	roami_contract(atomic_load(&tx_of(node)->validates));
	return atomic_compare_exchange_strong(&tx_of(node)->state, &was, ROAMI_TX_NONE);
}

/*
 * Makes the pages pending, ROAM_TX_COMMIT=pages: one after the other, when this node has become the
 * owner of the one before; false: the transaction is doomed, so that there is no more to be done.
 */
static bool tx_lock(struct roami_node *node, const uint32_t *pages, size_t count)
{
	size_t locked = 0;

	roami_contract(atomic_load(&tx_of(node)->validates));
	if (node->options->tx_commit == ROAMI_TX_COMMIT_TOKEN) {
		tx_hold(node, pages, count);
		return true;
	}
	for (; locked < count && !tx_is_lost(node); locked++) {
		roami_page_hold(node, pages[locked]);
		node->protocol->transactions->lock(node, pages[locked], locked);
	}
	tx_hold(node, pages + locked, count - locked);
	return !tx_is_lost(node);
}

void roami_tx_store(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct roami_tx *tx = tx_of(node);

	roami_contract(count == 0 || roami_page_pending(node, pages[0]));
	if (__builtin_expect(tx->store != NULL, 0))
		tx->wrote = tx->store->commit(node, pages, count);
}

/* Commits.  Pages stay pending until the commit is over (rule 8.7). */
static bool tx_publish(struct roami_node *node)
{
	const struct roam_transactions *transactions = node->protocol->transactions;
	const uint32_t *pages;
	size_t count = tx_written(node, &pages);
	bool counts;

	atomic_store(&tx_of(node)->validates, true);
	counts = tx_lock(node, pages, count);
	if (counts) {
		transactions->validate(node, pages, count);
		counts = tx_counts(node);
	}
	atomic_store(&tx_of(node)->validates, false);
	if (counts)
		transactions->commit(node, pages, count);
	else
		transactions->abort(node, pages, count);
	if (counts)
		roami_tx_store(node, pages, count);
	tx_done(node, pages, count);
	if (counts)
		roami_tx_wake(node);
	return counts;
}

/*
 * One that has written nothing counts though it is lost: all that it has read is of one moment,
 * which lies within it (rule 8.7).
 */
bool roami_tx_commit(struct roami_node *node)
{
	bool by_pages = node->options->tx_commit == ROAMI_TX_COMMIT_PAGES, counts;

	roami_contract(tx_is_open(node) && tx_has_turn(node));
	if (atomic_load(&pages_of(node)->dirty_count) == 0) {
		atomic_store(&tx_of(node)->state, ROAMI_TX_NONE);
		return true;
	}
	if (tx_of(node)->ahead)
		return !tx_is_lost(node) && tx_publish(node);
	if (by_pages ? !roami_tx_commit_begins(node) : !roami_tx_token_take(node))
		return false;
	counts = tx_publish(node);
	if (by_pages)
		roami_tx_commit_ends(node);
	else
		roami_tx_token_let(node);
	return counts;
}
