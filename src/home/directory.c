/* The home directory: each page's home, claims at first touch, the headers of own pages. */
#include <string.h>

#include "base/region.h"
#include "base/thread.h"
#include "home/card.h"
#include "home/home_state.h"
#include "home/provisional.h"
#include "home/reach.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/page.h"
#include "page/prefetch.h"
#include "page/race.h"

unsigned roami_manager(const struct roami_node *node, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	return roami_page_manager(page, node->nodes);
}

/* -------------------------------------------------------------------------------------- claims */

/* The directory words say that this node has claimed the pages: brings the creator's bytes. */
void roami_claim_fill(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	roami_assert(count <= ROAMI_CLAIM_RUN);
	roami_creator_fetch(node, first, count, stride);
	if (count > 1 && stride == 1 && pages_of(node)->engine->fill != NULL)
		pages_of(node)->engine->fill(pages_of(node)->engine_state, first, count);
	ROAMI_COUNT(node->stats, claims, count);
}

/*
 * The directory word of a page while `home` is claiming it.  A claim by message says READY at once
 * if homes are fixed: a request that reaches the home too early waits there, so no second message
 * is needed.
 */
uint64_t roami_claim_word(struct roami_node *node, uint32_t page, unsigned home, bool travels)
{
	roami_contract(home < node->nodes);
	if (travels && roami_homes_of(node, page) == ROAM_HOMES_FIXED)
		return ROAMI_WORD_READY | home;
	return ROAMI_WORD_CLAIMED | home;
}

/*
 * Tries to move the word from `word` to a home; true: this node is the home and must publish the
 * page.
 */
static bool claim_try(struct roami_node *node, uint32_t page, uint64_t word)
{
	unsigned home = (word & ROAMI_WORD_STATE) == ROAMI_WORD_ASSIGNED
				? (unsigned)(word & 0xffffu)
				: node->me;
	bool travels = home == node->me && node->reach[roami_manager(node, page)]->travels;

	roami_contract_pending(node, page);
	roami_assert(home < node->nodes);
	if (roami_word_swap(node, page, word, roami_claim_word(node, page, home, travels)) != word)
		return false;
	if (home == node->me) {
		roami_claim_fill(node, page, 1, 1);
		return true;
	}
	roami_adopt(node, home, page);
	if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | home, ROAMI_WORD_READY | home) !=
	    (ROAMI_WORD_CLAIMED | home))
		roami_node_fail(node, "page %u: its directory word changed while claimed", page);
	return false;
}

void roami_word_learned(struct roami_node *node, uint32_t page, uint64_t word)
{
	uint16_t unknown = 0;

	if ((word & ROAMI_WORD_STATE) != ROAMI_WORD_READY)
		return;
	if ((word & 0xffffu) >= node->nodes)
		roami_node_fail(node, "page %u: malformed directory word", page);
	atomic_compare_exchange_strong(&roami_page_entry(node, page)->home, &unknown,
				       (uint16_t)((word & 0xffffu) + 1));
}

uint32_t roami_words_around(const struct roami_node *node, uint32_t page, uint32_t *first_p)
{
	uint32_t left;

	roami_contract(page < node->layout.pages);
	*first_p = page / ROAMI_GROUP * ROAMI_GROUP;
	left = node->layout.pages - *first_p;
	return left < ROAMI_GROUP ? left : ROAMI_GROUP;
}

void roami_words_learned(struct roami_node *node, uint32_t first, uint32_t count,
			 const uint64_t *words, uint64_t epoch)
{
	roami_assert(first % ROAMI_GROUP == 0 && count <= ROAMI_GROUP);
	for (uint32_t i = 0; i < count; i++)
		roami_word_learned(node, first + i, words[i]);
	roami_provisional_learn(node, first, count, words, epoch);
}

/*
 * Whether two pages are in one block: no block's first page, marked in its manager's header, lies
 * between.  The lower page itself may be one.
 */
bool roami_claim_same_block(struct roami_node *node, uint32_t from, uint32_t to)
{
	uint32_t low = from < to ? from : to, high = from < to ? to : from;

	roami_assert(high < node->layout.pages);
	for (uint32_t page = low + 1; page <= high; page++) {
		unsigned manager = roami_manager(node, page);

		if (node->reach[manager]->block_begins(node, manager, page))
			return false;
	}
	return true;
}

bool roami_claim_expected(struct roami_node *node, uint32_t page)
{
	return roami_prefetch_claims_expect(&roami_thread_self(node)->claims, page) != NULL;
}

void roami_claim_passed(struct roami_node *node, uint32_t page)
{
	struct roami_streams *claims = &roami_thread_self(node)->claims;

	roami_contract_pending(node, page);
	roami_prefetch_claim(roami_prefetch_claims_find(claims, page), page, ROAMI_CLAIM_RUN);
}

bool roami_claim_goes_on(struct roami_node *node, uint32_t page, int64_t next)
{
	roami_contract(page < node->layout.pages);
	return next >= 0 && next < node->layout.pages &&
	       roami_region_of(node, (uint32_t)next) == roami_region_of(node, page);
}

unsigned roami_home_lookup(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	if (entry->home == 0 &&
	    (node->reach[roami_manager(node, page)]->look(node, page) & ROAMI_WORD_STATE) !=
		    ROAMI_WORD_READY)
		return ROAM_NOBODY;
	return entry->home - 1u;
}

unsigned roami_home_claim(struct roami_node *node, uint32_t page, bool *claimed_p)
{
	struct roami_page *entry = roami_page_entry(node, page);
	const struct roami_reach *reach = node->reach[roami_manager(node, page)];

	roami_contract_pending(node, page);
	*claimed_p = false;
	for (unsigned turn = 0; entry->home == 0; turn++) {
		uint64_t word = reach->claim(node, page, turn == 0, claimed_p);

		if (*claimed_p)
			return node->me;
		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_READY)
			break;
		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_CLAIMED) {
			roami_msg_pause(node, turn); /* a copy is brief */
		} else if (claim_try(node, page, word)) {
			*claimed_p = true;
			return node->me;
		}
	}
	return entry->home - 1u;
}

uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page, int32_t *stride_p)
{
	struct roami_streams *claims = &roami_thread_self(node)->claims;
	struct roami_stream *run = roami_prefetch_claims_granted(claims);
	uint32_t most, count;
	int32_t stride;
	int64_t next;

	roami_contract_pending(node, page);
	if (run != NULL) { /* granted with the run's first page */
		count = run->granted - 1;
		run->granted = 0;
		run->last = page + count * (uint32_t)run->stride;
		*stride_p = run->stride;
		return count;
	}
	run = roami_prefetch_claims_find(claims, page);
	most = roami_prefetch_claim(run, page, ROAMI_CLAIM_RUN);
	*stride_p = stride = run->stride;
	next = (int64_t)page + stride;
	if (most == 0 || !roami_claim_goes_on(node, page, next))
		return 0;
	count = node->reach[roami_manager(node, (uint32_t)next)]->claim_run(node, page, stride,
									    most);
	roami_claim_fill(node, (uint32_t)next, count, stride);
	run->last = page + count * (uint32_t)stride;
	return count;
}

/* ---------------------------------------------------------------------------------- publishing */

static void publish_run(struct roami_node *node, const struct roami_publish *run)
{
	unsigned manager = roami_manager(node, run->first);

	roami_contract(run->count > 0 && run->count <= ROAMI_CLAIM_RUN);
	node->reach[manager]->publish(node, manager, run);
}

void roami_home_publish(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
			uint64_t version)
{
	struct roami_publish run = {first, stride, 0};

	roami_assert(count > 0);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t page = first + i * (uint32_t)stride;
		struct roami_header *header = &node->self->headers[page];
		uint32_t marks = atomic_load(&header->where) &
				 (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

		roami_contract_pending(node, page);
		roami_assert(roami_region_of(node, page)->protocol->region_option == NULL);
		atomic_store(&header->version, home_of(node)->version_begin + version);
		if (roami_homes_of(node, page) == ROAM_HOMES_TAKEN &&
		    !roami_race_checked(node)) {
			marks |= ROAMI_HEADER_OPEN;
			roami_page_mark_dirty(node, roami_page_entry(node, page), page);
		}
		marks |= home_of(node)->epoch_begin << ROAMI_HEADER_EPOCH;
		atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks);
		atomic_store_explicit(&roami_page_entry(node, page)->home,
				      (uint16_t)(node->me + 1), memory_order_relaxed);
		if (roami_manager(node, page) != roami_manager(node, run.first)) {
			publish_run(node, &run);
			run = (struct roami_publish){page, stride, 0};
		}
		run.count++;
	}
	publish_run(node, &run);
}

/* --------------------------------------------------------------------------------- own headers */

uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page)
{
	roami_contract((node->self->headers[page].where & ROAM_HEADER_HOME) != 0);
	roami_step(node);
	ROAMI_COUNT(node->stats, home_writes, 1);
	return ROAMI_VERSION(atomic_fetch_add(&node->self->headers[page].version, 1) + 1);
}

bool roami_home_is_shared(struct roami_node *node, uint32_t page)
{
	roami_contract(page < node->layout.pages);
	atomic_thread_fence(memory_order_seq_cst);
	return (atomic_load(&node->self->headers[page].shared) &
		(ROAMI_SHARED | ROAMI_SHARED_LISTED)) != 0;
}

bool roami_home_unshare(struct roami_node *node, uint32_t page)
{
	_Atomic uint32_t *shared = &node->self->headers[page].shared;
	uint32_t mark = atomic_load(shared);

	roami_contract(page < node->layout.pages);
	roami_step(node);
	do {
		if ((mark & ROAMI_SHARED_ANNOUNCED) != 0 && !roami_card_revoked(node, page))
			return false;
		mark &= ~ROAMI_SHARED_ANNOUNCED;
	} while (!atomic_compare_exchange_weak(
		shared, &mark, ((mark >> ROAMI_SHARED_BITS) + 1) << ROAMI_SHARED_BITS));
	roami_step(node);
	return true;
}

bool roami_home_shared_any(struct roami_node *node)
{
	for (unsigned by = 0; by < node->nodes; by++)
		if (atomic_load_explicit(&node->self->tails[by].tail, memory_order_acquire) !=
		    home_of(node)->share_head[by])
			return true;
	return atomic_load(&home_of(node)->shared_left) != 0;
}

/* Keeps a shared page of another region until that region asks, in this release or the next. */
static void home_shared_leave(struct roami_node *node, uint32_t page)
{
	struct roami_vec *shared = &roami_region_of(node, page)->shared;
	uint32_t *slot = roami_os_vec_grow(shared, sizeof(*slot), 1);

	roami_contract(roami_region_of(node, page) != roami_region_current(node));
	if (slot == NULL)
		roami_node_fail(node, "no memory for the list of shared pages");
	*slot = page;
	shared->count++;
	atomic_fetch_add(&home_of(node)->shared_left, 1);
}

/* Takes the shared pages that another region has left for this one. */
static size_t home_shared_left(struct roami_node *node, struct roami_region *mine, uint32_t *pages,
			       size_t max)
{
	struct roami_vec *shared = &mine->shared;
	const uint32_t *left = (const void *)shared->items;
	size_t count = 0;

	while (shared->count > 0 && count < max)
		pages[count++] = left[--shared->count];
	atomic_fetch_sub(&home_of(node)->shared_left, (uint32_t)count);
	return count;
}

size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max)
{
	uint32_t ring = roami_share_slots(&node->layout);
	struct roami_region *mine = roami_region_current(node);
	size_t count;

	roami_step(node);
	atomic_thread_fence(memory_order_seq_cst);
	count = home_shared_left(node, mine, pages, max);
	for (unsigned by = 0; by < node->nodes; by++) {
		const _Atomic uint32_t *slots = node->self->slots + (size_t)by * ring;
		uint64_t tail = atomic_load_explicit(&node->self->tails[by].tail,
						     memory_order_acquire);

		while (home_of(node)->share_head[by] != tail && count < max) {
			uint32_t page = atomic_load(&slots[home_of(node)->share_head[by] % ring]);

			if (page >= node->layout.pages)
				roami_node_fail(node, "node %u reported page %u, beyond the heap",
						by, page);
			if (roami_region_of(node, page) == mine)
				pages[count++] = page;
			else
				home_shared_leave(node, page);
			/* Last: roami_home_shared_any must see the page in one of the lists. */
			home_of(node)->share_head[by]++;
		}
	}
	return count;
}

/* ------------------------------------------------------------------------------ homes that move */

uint32_t roami_home_here(struct roami_node *node, uint32_t page)
{
	uint32_t where = atomic_load(&node->self->headers[page].where);

	roami_contract(page < node->layout.pages);
	return (where & ROAM_HEADER_HOME) == 0
		       ? 0
		       : ROAM_HOME_REF(node->me, where >> ROAMI_HEADER_EPOCH);
}

/*
 * Clears the home's bits, unless another node is storing a diff (false); none can begin afterwards.
 */
static bool home_leaves(struct roami_header *header)
{
	uint32_t where = atomic_load(&header->where);

	while ((where & ROAMI_HEADER_PINNED) == 0)
		if (atomic_compare_exchange_weak(&header->where, &where,
						 where & ~(ROAM_HEADER_HOME | ROAM_HEADER_READY)))
			return true;
	return false;
}

bool roami_home_give(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p,
		     bool *open_p)
{
	struct roami_header *header = &node->self->headers[page];
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_locked(node, page);
	roami_contract(!roami_page_pending(node, page) && roami_page_is_home(node, page));
	*open_p = roami_page_access(node, page) == ROAM_WRITE || roami_page_dirty(node, page);
	if (!home_leaves(header))
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	if (bytes == NULL && atomic_load(&header->version) != *version_p) {
		atomic_fetch_or(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY);
		return false;
	}
	roami_page_close(node, &page, 1, ROAM_READ);
	if (*open_p)
		atomic_fetch_add(&header->version, 1);
	*version_p = atomic_load(&header->version);
	if (bytes != NULL)
		roami_page_copy(node, bytes, roami_page_bytes(node, page));
	roami_page_set_home(node, page, false);
	entry->heat = 0; /* never hot: there is no twin to compare with */
	if (*open_p)
		roami_page_mark_dirty(node, entry, page);
	return true;
}

#define CLOSE_RUN 16u

void roami_home_close_run(struct roami_node *node, uint32_t first, uint32_t count)
{
	uint32_t pages[CLOSE_RUN] = {0}, closing = 0;

	roami_assert(first < node->layout.pages);
	if (count > CLOSE_RUN)
		count = CLOSE_RUN;
	for (uint32_t page = first; page < first + count && page < node->layout.pages; page++) {
		roami_page_lock(node, page);
		if (!roami_page_pending(node, page) && roami_page_is_home(node, page) &&
		    roami_page_access(node, page) == ROAM_WRITE && roami_page_ours(node, page)) {
			pages[closing++] = page;
			continue;
		}
		roami_page_unlock(node, page);
		break;
	}
	roami_page_close(node, pages, closing, ROAM_READ);
	for (uint32_t i = 0; i < closing; i++) {
		roami_page_mark_dirty(node, roami_page_entry(node, pages[i]), pages[i]);
		roami_page_unlock(node, pages[i]);
	}
}

void roami_home_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref)
{
	struct roami_header *header = &node->self->headers[page];
	uint32_t marks = atomic_load(&header->where) & (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

	roami_contract_pending(node, page);
	roami_contract_locked(node, page);
	roami_contract(ROAM_HOME_REF_NODE(ref) == node->me);
	/* Other nodes may have copies, which are not listed again. */
	atomic_fetch_or(&header->shared, ROAMI_SHARED | ROAMI_SHARED_LISTED);
	/* Add, do not store: a node with a stale hint may be inside roami_home_enter. */
	atomic_fetch_add(&header->version, version - ROAMI_VERSION(atomic_load(&header->version)));
	roami_page_set_home(node, page, true);
	if (roami_homes_of(node, page) == ROAM_HOMES_TAKEN) {
		atomic_fetch_and(&header->version, ~ROAMI_VERSION_READ);
		marks |= ROAMI_HEADER_OPEN;
	}
	atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks |
					     ROAM_HOME_REF_EPOCH(ref) << ROAMI_HEADER_EPOCH);
	ROAMI_COUNT(node->stats, home_moves, 1);
}
