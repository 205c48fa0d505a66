/*
 * Transactions (roam/tx.h), for protocols that have them; roam/protocol.h has what every protocol
 * needs.
 */
#ifndef ROAM_PROTOCOL_TX_H
#define ROAM_PROTOCOL_TX_H

#include "roam/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a protocol with transactions does when they begin and end; all on the thread that runs the
 * transaction; the node's others are held.  While a transaction is open (roami_tx_open) writes
 * must make twins (writes_now), and read_fault may open a page only with bytes that were the newest
 * at a moment of the fault.
 *
 * The core serialises commits by a token, or, by ROAM_TX_COMMIT, only those that write a page in
 * common.  It restarts what is doomed; the protocol says when a transaction is (roami_tx_doom): as
 * soon as the node loses a page that it could read, and before the loss is answered.
 */
struct roam_transactions {
	/*
	 * A transaction is about to open: takes write access from all pages, and all access from
	 * those for which roami_tx_closes is true (roami_page_shelve).  Never blocks on other
	 * nodes.
	 */
	void (*begin)(struct roami_node *node);

	/*
	 * The transaction will write every byte of the pending page, and reads none of it
	 * (roam_tx_writes): need not fetch it, and its loss need not doom the transaction.
	 */
	void (*replaces)(struct roami_node *node, uint32_t page);

	/*
	 * May block.  ROAM_TX_COMMIT=pages: before validate, of each page written, ascending.  The
	 * page is pending, and this node becomes its owner: another one that wants it waits until
	 * the page is done, but for the copies that it has.  `index`: the page's index in the list
	 * that validate and commit get.  If the transaction is doomed meanwhile, validate is not
	 * called.
	 */
	void (*lock)(struct roami_node *node, uint32_t page, size_t index);

	/*
	 * May block.  Makes this node the only one that can read the pages, which are pending and
	 * ascending: those written.
	 */
	void (*validate)(struct roami_node *node, const uint32_t *pages, size_t count);

	/*
	 * The transaction was not doomed, and cannot be doomed any more: it is committed.  Drops
	 * the twins, takes write access and cleans the pages (roami_page_clean); they stay pending.
	 */
	void (*commit)(struct roami_node *node, const uint32_t *pages, size_t count);

	/*
	 * What was written is undone.  Puts back the twins of those of the pages that have one,
	 * takes write access and cleans all; they are pending, ascending, and stay so.  Some may
	 * have been in validate before.
	 */
	void (*abort)(struct roami_node *node, const uint32_t *pages, size_t count);
};

/* Whether a transaction is open at this node: until its writes are committed or undone. */
bool roami_tx_open(struct roami_node *node);

/*
 * Whether a transaction is open, or one that called roam_tx_retry waits for a change of what it has
 * read: its pages must not be evicted.
 */
bool roami_tx_watches(struct roami_node *node);

/*
 * 0, or how long, in ns, no other node may take a page that the open transaction may have read,
 * after which to ask again: it has lost so often that it has the token already, and gets on only if
 * what other nodes store outside of transactions waits.  Handler or app.
 */
uint64_t roami_tx_keeps(struct roami_node *node);

/*
 * This node has lost `page`, which it could read until now, and has not told any node yet.  An open
 * transaction is lost (doomed, or, under backward validation, overtaken); one that waits after
 * roam_tx_retry wakes; if there is neither, does nothing.  Handler or app, under the page lock.
 */
void roami_tx_doom(struct roami_node *node, uint32_t page);

/*
 * roami_tx_doom for a loss that an open transaction does not mind: it only wakes one that waits
 * after roam_tx_retry.  Never blocks.
 */
void roami_tx_wake(struct roami_node *node);

/*
 * A fault has got a page from another node for an open transaction.  Under backward validation one
 * that has lost a page goes on only with what its node already had then.  app.
 */
void roami_tx_fetched(struct roami_node *node);

/*
 * Whether the page is to be closed when a transaction begins, so that it counts as read only if it
 * is touched (ROAM_TX_READS).  Becomes true only while the page has no access.  app.
 */
bool roami_tx_closes(struct roami_node *node, uint32_t page);

/* A transaction has touched the page, which had no access.  app. */
void roami_tx_touched(struct roami_node *node, uint32_t page);

#ifdef __cplusplus
}
#endif

#endif
