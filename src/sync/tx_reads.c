/*
 * What counts as read by a transaction (ROAM_TX_READS): all pages that its node can read, or only
 * what it touches, for pages that are closed at its beginning.  Touching such a page costs a fault;
 * a page that is open may be lost although the transaction does not need it, and the attempt is
 * aborted in vain.  That is seen in the end, when an attempt is committed that has not touched the
 * page.
 */
#include "page/page.h"
#include "sync/tx.h"

#define TOUCHES_MAX 16u /* then a page stays open again */

static struct roami_tx_page *reads_page(struct roami_node *node, uint32_t page)
{
	roami_assert(page < node->layout.pages && tx_of(node)->page != NULL);
	return &tx_of(node)->page[page];
}

enum roam_err roami_tx_reads_open(struct roami_node *node)
{
	if (node->protocol->transactions == NULL)
		return ROAM_OK;
	tx_of(node)->page =
		roami_os_reserve_sparse(node->layout.pages * sizeof(struct roami_tx_page));
	tx_of(node)->chunks = roami_os_reserve_sparse(node->layout.pages / ROAMI_TX_CHUNK + 1);
	return tx_of(node)->page != NULL && tx_of(node)->chunks != NULL ? ROAM_OK : ROAM_ENOMEM;
}

void roami_tx_reads_close(struct roami_node *node)
{
	roami_os_unmap(tx_of(node)->page, node->layout.pages * sizeof(struct roami_tx_page));
	roami_os_unmap(tx_of(node)->chunks, node->layout.pages / ROAMI_TX_CHUNK + 1);
}

bool roami_tx_closes(struct roami_node *node, uint32_t page)
{
	if (node->options->tx_reads == ROAMI_TX_READS_RESIDENT || node->options->cache_pages != 0)
		return false;
	return node->options->tx_reads == ROAMI_TX_READS_EXACT ||
	       reads_page(node, page)->in_vain >= node->options->tx_false;
}

void roami_tx_touched(struct roami_node *node, uint32_t page)
{
	struct roami_tx_page *data = reads_page(node, page);

	roami_contract_pending(node, page);
	if (node->options->tx_reads != ROAMI_TX_READS_TUNED || !roami_tx_closes(node, page) ||
	    ++data->touches < TOUCHES_MAX)
		return;
	data->in_vain = 0;
	data->touches = 0;
}

void roami_tx_writes(struct roami_node *node, uint64_t offset, uint64_t bytes)
{
	uint64_t end = (offset + bytes) / ROAMI_PAGE;

	roami_contract(roami_tx_inside(node) && offset + bytes <= node->layout.heap_bytes);
	if (node->nodes == 1)
		return;
	for (uint64_t at = (offset + ROAMI_PAGE - 1) / ROAMI_PAGE; at < end; at++) {
		uint32_t page = (uint32_t)at;

		if (!roami_node_dumped(node, page))
			roami_page_dump(node, page);
		roami_page_hold(node, page);
		node->protocol->transactions->replaces(node, page);
		roami_page_done(node, page);
	}
	roami_tx_look(node);
}

void roami_tx_reads_begin(struct roami_node *node)
{
	roami_contract(tx_has_turn(node));
	tx_of(node)->attempt = 0;
	atomic_store(&tx_of(node)->losses, 0);
}

/* By which rule the loss of the page is one of the attempt: its first loss decides. */
static void reads_rule(struct roami_node *node, uint32_t page)
{
	const struct roami_tx *tx = tx_of(node);
	enum roami_tx_rule rule = ROAMI_TX_WRITE_READ;
	uint32_t none = ROAMI_TX_NO_RULE;

	roami_contract_locked(node, page);
	if (roami_page_has_twin(node, page))
		rule = ROAMI_TX_WRITE_WRITE;
	else if (node->options->tx_validate == ROAMI_TX_BACKWARD || atomic_load(&tx->validates))
		rule = ROAMI_TX_READ_WRITE;
	atomic_compare_exchange_strong(&tx_of(node)->rule, &none, rule);
}

void roami_tx_reads_lost(struct roami_node *node, uint32_t page)
{
	struct roami_tx *tx = tx_of(node);
	uint32_t at = atomic_load(&tx->losses);

	roami_contract_locked(node, page);
	reads_page(node, page)->conflicts++;
	tx->chunks[page / ROAMI_TX_CHUNK] = 1;
	reads_rule(node, page);
	if (at >= ROAMI_TX_LOSSES)
		return;
	tx->loss[at] = (struct roami_tx_loss){page, tx->attempt, false};
	atomic_store(&tx->losses, at + 1);
}

void roami_tx_reads_look(struct roami_node *node)
{
	struct roami_tx *tx = tx_of(node);
	uint32_t losses = atomic_load(&tx->losses);

	roami_contract(tx_has_turn(node));
	for (uint32_t i = 0; i < losses; i++)
		tx->loss[i].touched = roami_page_access(node, tx->loss[i].page) != ROAM_NONE;
}

/* Judges the attempt that lost [first, end), all of them. */
static void reads_judge(struct roami_node *node, uint32_t first, uint32_t end)
{
	const struct roami_tx_loss *loss = tx_of(node)->loss;

	roami_contract(first < end && end <= ROAMI_TX_LOSSES);
	for (uint32_t i = first; i < end; i++)
		if (loss[i].touched)
			return;
	ROAMI_COUNT(node->stats, tx_false, 1);
	for (uint32_t i = first; i < end; i++) {
		struct roami_tx_page *data = reads_page(node, loss[i].page);

		data->aborted_in_vain++;
		if (data->in_vain < UINT16_MAX)
			data->in_vain++;
	}
}

void roami_tx_reads_judge(struct roami_node *node)
{
	const struct roami_tx *tx = tx_of(node);
	uint32_t losses = atomic_load(&tx->losses), first = 0;

	roami_contract(tx_has_turn(node));
	/* One that has written nothing may have lost pages, too, and what it touched is unknown. */
	if (losses == 0 || tx->loss[losses - 1].attempt == tx->attempt)
		return;
	/* Where the list is full the last attempt in it may have lost more. */
	for (uint32_t end = 1; end <= losses; end++)
		if (end == losses ? losses < ROAMI_TX_LOSSES
				  : tx->loss[end].attempt != tx->loss[first].attempt) {
			reads_judge(node, first, end);
			first = end;
		}
}
