/*
 * Pages of peers that a card reads: see reach.h.  All but fetches go as in far.
 *
 * A card and a processor share no atomics, so a card changes nothing on a header, and reads none: a
 * reader must know beforehand that the home will tell it of each write (rules 12).  It *announces*
 * itself by message, once for a page and its home.  The home then marks the page as announced, in
 * the word that says whether it is shared: one compare-and-swap decides between this mark and
 * forgetting the readers.  The mark also counts as a fetch (rule 6.6: shared, listed, fence), and
 * the answer brings the page with its version, so the first fetch costs what it costs in far.
 *
 * From the answer on, a fetch is one READ.  The home does not notice it, and needs not: as long as
 * the mark stands, each release closes the page if it was written, so that the next write faults
 * and the next release gives notice.  The reader takes as `have` the version that it needed before
 * the READ began.  A notice leaves its writer only after the home has the bytes (rule 6.1), so they
 * are at least that new; what else the READ has seen of later diffs, line by line, is told by
 * notices to come.
 *
 * The home ends this when releases have closed the page often enough: it forgets its readers, tells
 * each of them, and lets go of the mark when all have answered, if no one has come again meanwhile.
 * A reader that is told clears its own bit and answers at once, so that no node waits for a page of
 * another (two homes that revoke each other would hang).  A READ under way, or about to begin, may
 * go on: the version that it needed was noted before the bit was looked at, hence before that
 * answer.  Before the home writes unseen it gives the page a newer one, with a notice (rule 6.7),
 * which drops the copy.  The reader sets its bit before it sends the announcement, not when the
 * answer comes: a revocation that follows the answer may be handled first.
 *
 * A READ ends in the thread's staging buffer, and is copied from there: the application's pages
 * need not be known to a card, except those of homes.  A READ that fails, or finds no room or no
 * key, is a message.
 */
#include "home/card.h"

#include "base/layers.h"
#include "base/region.h"
#include "home/reach.h"
#include "home/remote.h"
#include "page/page.h"

enum { CARD_ANNOUNCE, CARD_REVOKE };

#define WRITES_MAX 64u

static unsigned card_type(const struct roami_node *node, unsigned message)
{
	return roami_type(node, ROAMI_ROOM_CARD, message);
}

/* Whether peers may read the page so. */
static bool card_serves(struct roami_node *node, uint32_t page)
{
	return (roami_region_of(node, page)->protocol->one_sided & ROAM_ONE_SIDED_READ) != 0;
}

/* -------------------------------------------------------------------------------- at the home */

static void announce_handle(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_memory_page(node, request, sizeof(page));

	roami_contract(roami_msg_polling(node));
	if (card_serves(node, page) && card_of(node)->readers != NULL) {
		roami_page_lock(node, page);
		card_of(node)->readers[page] |= roami_nodeset_bit(request->origin);
		atomic_fetch_or(&node->self->headers[page].shared, ROAMI_SHARED_ANNOUNCED);
		roami_page_unlock(node, page);
		roami_step(node);
	}
	roami_fetch_serve(node, request, page);
}

/* Tells readers that they are none any more; returns when all have answered. */
static void card_revoke(struct roami_node *node, uint64_t readers, uint32_t page)
{
	struct roami_call *calls[ROAMI_NODES_MAX];
	uint64_t word = page;
	struct roam_part part = {&word, sizeof(word)};
	unsigned count = 0;

	roami_contract_pending(node, page);
	roami_wait_begin(node);
	for (; readers != 0; readers &= readers - 1)
		calls[count++] = roami_msg_call_start(node, (unsigned)__builtin_ctzll(readers),
						      card_type(node, CARD_REVOKE), &part, 1,
						      NULL, 0);
	ROAMI_COUNT(node->stats, revocations, count);
	for (unsigned i = 0; i < count; i++)
		roami_msg_call_end(node, calls[i]);
	roami_wait_end(node);
}

bool roami_card_revoked(struct roami_node *node, uint32_t page)
{
	struct roami_card *card = card_of(node);
	uint64_t readers;
	bool none;

	roami_contract_pending(node, page);
	if (++card->writes[page] < card->writes_max)
		return false;
	card->writes[page] = 0;
	roami_page_lock(node, page);
	readers = card->readers[page];
	card->readers[page] = 0;
	roami_page_unlock(node, page);
	card_revoke(node, readers, page);
	roami_page_lock(node, page);
	none = card->readers[page] == 0;
	if (none)
		atomic_fetch_and(&node->self->headers[page].shared, ~ROAMI_SHARED_ANNOUNCED);
	roami_page_unlock(node, page);
	return none;
}

/* ------------------------------------------------------------------------------ at the reader */

static bool card_announced(const struct roami_node *node, uint32_t page)
{
	return (atomic_load(&card_of(node)->announced[page / 64]) >> page % 64 & 1) != 0;
}

static void revoke_handle(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_memory_page(node, request, sizeof(uint64_t));

	roami_contract(roami_msg_polling(node));
	if (card_of(node)->announced != NULL)
		atomic_fetch_and(&card_of(node)->announced[page / 64], ~(UINT64_C(1) << page % 64));
	roami_reply(node, request, NULL, 0);
}

/* Begins to read page i of the batch; false: it is to be asked for. */
static bool read_begin(struct roami_node *node, struct roami_fetches *fetches, unsigned i)
{
	const struct roami_layers *layers = layers_of(node);
	struct roam_fetch_one *one = &fetches->list[i];
	uint64_t at = one->page * (uint64_t)ROAMI_PAGE;
	struct iovec part = {roami_staging_slot(node, i), ROAMI_PAGE};

	roami_contract_pending(node, one->page);
	if (!card_serves(node, one->page))
		return false;
	one->version = roami_region_of(node, one->page)->protocol->needed(node, one->page);
	roami_step(node);
	if (!card_announced(node, one->page)) {
		atomic_fetch_or(&card_of(node)->announced[one->page / 64],
				UINT64_C(1) << one->page % 64);
		ROAMI_COUNT(node->stats, announcements, 1);
		return false;
	}
	return layers->onesided->get(layers->onesided_state, one->home, at, &part, 1,
				     &fetches->done[i]) == ROAM_OK;
}

void roami_card_fetch_begin(struct roami_node *node, const struct roami_reach *reach,
			    struct roami_fetches *fetches)
{
	unsigned first = fetches->asked;

	roami_assert(fetches->count <= ROAMI_CALLS_AT_ONCE);
	fetches->reads = 0;
	for (unsigned i = 0; i < fetches->count; i++) {
		if (node->reach[fetches->list[i].home] != reach)
			continue;
		if (read_begin(node, fetches, i))
			fetches->reads |= UINT64_C(1) << i;
		else
			roami_far_ask(node, fetches, i);
	}
	roami_step(node);
	roami_msg_ask(node, card_type(node, CARD_ANNOUNCE), fetches->asks + first,
		      fetches->asked - first);
}

struct card_wait {
	struct roami_node *node;
	struct roami_fetches *fetches;
};

/* Whether all reads of the batch are done. */
static bool card_reads_done(void *arg)
{
	const struct card_wait *wait = arg;
	const struct roami_layers *layers = layers_of(wait->node);
	uint64_t reads = wait->fetches->reads;

	roami_contract(reads != 0);
	layers->onesided->reap(layers->onesided_state);
	for (; reads != 0; reads &= reads - 1)
		if (__atomic_load_n(&wait->fetches->done[__builtin_ctzll(reads)],
				    __ATOMIC_ACQUIRE) == 0)
			return false;
	return true;
}

static void read_end(struct roami_node *node, struct roami_fetches *fetches, unsigned i)
{
	struct roam_fetch_one *one = &fetches->list[i];
	uint8_t *buffer, *slot = roami_staging_slot(node, i);

	roami_contract_pending(node, one->page);
	one->result = ROAM_FETCH_OK;
	ROAMI_COUNT(node->stats, card_reads, 1);
	ROAMI_COUNT(node->stats, bytes_fetched, ROAMI_PAGE);
	if (fetches->aside != NULL)
		return;
	buffer = roami_staging_buffer(node, one->page, i);
	if (buffer != slot)
		roami_page_copy(node, buffer, slot);
	else
		roami_staging_add(node, &fetches->staging, one->page, i, buffer,
				  roami_fetch_may_open(node, one->page));
}

/* Asks for a page whose read has failed. */
static void read_again(struct roami_node *node, struct roami_fetches *fetches, unsigned i)
{
	unsigned asked = fetches->asked;

	roami_contract_pending(node, fetches->list[i].page);
	ROAMI_COUNT(node->stats, fetches_retried, 1);
	atomic_fetch_or(&card_of(node)->announced[fetches->list[i].page / 64],
			UINT64_C(1) << fetches->list[i].page % 64);
	roami_far_ask(node, fetches, i);
	roami_msg_ask(node, card_type(node, CARD_ANNOUNCE), &fetches->asks[asked], 1);
	roami_far_answer(node, fetches, i, asked);
}

void roami_card_fetch(struct roami_node *node, const struct roami_reach *reach,
		      struct roami_fetches *fetches)
{
	struct card_wait wait = {node, fetches};

	roami_contract(fetches->count <= ROAMI_CALLS_AT_ONCE);
	if (fetches->reads != 0) {
		roami_msg_reads(node, 1);
		roami_wait(node, card_reads_done, &wait);
		roami_msg_reads(node, -1);
	}
	for (unsigned i = 0; i < fetches->count; i++) {
		if (node->reach[fetches->list[i].home] != reach)
			continue;
		if ((fetches->reads >> i & 1) == 0)
			roami_far_answer(node, fetches, i, fetches->answered++);
		else if (fetches->done[i] == 1)
			read_end(node, fetches, i);
		else
			read_again(node, fetches, i);
	}
	roami_staging_end(node, &fetches->staging);
}

/* ------------------------------------------------------------------------------------ the room */

static size_t announced_bytes(const struct roami_node *node)
{
	return (node->layout.pages / 64 + 1) * sizeof(uint64_t);
}

static enum roam_err card_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_card *card = card_of(node);

	card->writes_max = WRITES_MAX;
	if (params->read == 0)
		return ROAM_OK;
	card->announced = roami_os_reserve_sparse(announced_bytes(node));
	card->readers = roami_os_reserve_sparse(node->layout.pages * sizeof(*card->readers));
	card->writes = roami_os_reserve_sparse(node->layout.pages * sizeof(*card->writes));
	return card->announced != NULL && card->readers != NULL && card->writes != NULL
		       ? ROAM_OK
		       : ROAM_ENOMEM;
}

static void card_fini(struct roami_node *node)
{
	struct roami_card *card = card_of(node);

	roami_os_unmap((void *)card->announced, announced_bytes(node));
	roami_os_unmap(card->readers, node->layout.pages * sizeof(*card->readers));
	roami_os_unmap(card->writes, node->layout.pages * sizeof(*card->writes));
}

static const struct roam_message card_messages[] = {
	[CARD_ANNOUNCE] = {"announce", announce_handle, 8},
	[CARD_REVOKE] = {"revoke", revoke_handle, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_card = {
	.name = "card",
	.messages = card_messages,
	.state_size = sizeof(struct roami_card),
	.init = card_init,
	.fini = card_fini,
};
