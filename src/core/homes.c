/* Who is a page's home: the directory, claiming at first touch, headers of own pages. */
#include "core/domain.h"
#include "core/page.h"
#include "core/race.h"
#include "core/remote.h"
#include "msg/msg.h"

#define CLAIM_RUN        16u
#define CLAIM_FIRST      4u
#define CLAIM_STRIDE_MAX 64

unsigned roami_manager(const struct roami_node *node, uint32_t page)
{
	return roami_page_manager(page, node->nodes);
}

/* -------------------------------------------------------------------------------------- claims */

bool roami_creator_has(struct roami_node *node, uint32_t page)
{
	if (page >= node->creator_pages)
		return false;
	return !node->onesided ||
	       (atomic_load(&node->segments[0].headers[page].where) & ROAMI_HEADER_BYTES) != 0;
}

/* The word says CLAIMED by us: brings the creator's bytes. */
static void claim_fill(struct roami_node *node, uint32_t page)
{
	if (roami_creator_has(node, page) && node->me != 0)
		roami_raw_fetch(node, 0, page);
	ROAMI_COUNT(node->stats, claims, 1);
}

/* Tries to move the word from `word` to a home; true: it is ours now and must be published. */
static bool claim_try(struct roami_node *node, uint32_t page, uint64_t word)
{
	unsigned home = (word & ROAMI_WORD_STATE) == ROAMI_WORD_ASSIGNED
				? (unsigned)(word & 0xffffu)
				: node->me;

	if (roami_word_swap(node, page, word, ROAMI_WORD_CLAIMED | home) != word)
		return false;
	if (home == node->me) {
		claim_fill(node, page);
		return true;
	}
	roami_adopt(node, home, page);
	if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | home, ROAMI_WORD_READY | home) !=
	    (ROAMI_WORD_CLAIMED | home))
		roami_node_fail(node, "page %u: its directory word changed while claimed", page);
	return false;
}

/* Somebody is copying the page: they are quick, and nobody would wake us. */
static void claim_pause(struct roami_node *node)
{
	roami_msg_poll(node);
	node->env->spin(node);
}

unsigned roami_home_find(struct roami_node *node, uint32_t page, bool claim, bool *claimed_p)
{
	struct roami_page *entry = roami_page_entry(node, page);

	*claimed_p = false;
	if (entry->home != 0)
		return entry->home - 1u;
	for (;;) {
		uint64_t word = roami_word_load(node, page);

		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_READY) {
			if ((word & 0xffffu) >= node->nodes)
				roami_node_fail(node, "page %u: malformed directory word", page);
			entry->home = (uint16_t)((word & 0xffffu) + 1);
			return entry->home - 1u;
		}
		if (!claim)
			return ROAM_NOBODY;
		if ((word & ROAMI_WORD_STATE) == ROAMI_WORD_CLAIMED) {
			claim_pause(node);
		} else if (claim_try(node, page, word)) {
			*claimed_p = true;
			return node->me;
		}
	}
}

/*
 * Whether a claim run may go on to `page`: within one allocation, untouched by anybody.  Pending
 * and claimed on return.
 */
static bool claim_more(struct roami_node *node, uint32_t page)
{
	if (roami_page_access(node, page) != ROAM_NONE ||
	    roami_word_load(node, page) != ROAMI_WORD_CREATOR || !roami_page_try(node, page))
		return false;
	if (claim_try(node, page, ROAMI_WORD_CREATOR))
		return true;
	roami_page_done(node, page);
	return false;
}

/*
 * A block's first page is marked in its manager's header.  None begins in (from, to], or (to,
 * from]?
 */
static bool claim_same_block(struct roami_node *node, uint32_t from, uint32_t to)
{
	uint32_t low = from < to ? from : to, high = from < to ? to : from;

	for (uint32_t page = low + 1; page <= high; page++)
		if (atomic_load(&node->segments[roami_manager(node, page)].headers[page].where) &
		    ROAMI_HEADER_BLOCK)
			return false;
	return true;
}

/* How many pages to claim beyond `page`: more each time the next claim is where it was expected. */
static uint32_t claim_ahead(struct roami_thread *thread, uint32_t page)
{
	int32_t stride = (int32_t)(page - thread->claim_last);

	if (stride != 0 && stride == thread->claim_stride) {
		thread->claim_ahead = thread->claim_ahead == 0 ? CLAIM_FIRST
							       : thread->claim_ahead * 2;
		if (thread->claim_ahead > CLAIM_RUN - 1)
			thread->claim_ahead = CLAIM_RUN - 1;
	} else {
		thread->claim_ahead = 0;
		thread->claim_stride = stride;
	}
	thread->claim_last = page;
	return thread->claim_ahead;
}

uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page, int32_t *stride_p)
{
	struct roami_thread *thread = &node->threads[node->env->thread(node)];
	uint32_t most = claim_ahead(thread, page), count = 0;
	int32_t stride = thread->claim_stride;

	*stride_p = stride;
	if (!node->onesided || stride > CLAIM_STRIDE_MAX || stride < -CLAIM_STRIDE_MAX)
		return 0;
	while (count < most) {
		int64_t next = (int64_t)thread->claim_last + stride;

		if (next < 0 || next >= node->layout.pages ||
		    roami_domain_of(node, (uint32_t)next) != roami_domain_of(node, page) ||
		    !claim_same_block(node, thread->claim_last, (uint32_t)next) ||
		    !claim_more(node, (uint32_t)next))
			break;
		thread->claim_last = (uint32_t)next;
		count++;
	}
	return count;
}

void roami_home_publish(struct roami_node *node, uint32_t page, uint64_t version)
{
	struct roami_header *header = &node->self->headers[page];
	uint32_t marks = atomic_load(&header->where) & (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

	atomic_store(&header->version, version);
	if (roami_domain_of(node, page)->protocol->homes_taken && !roami_race_checked(node)) {
		marks |= ROAMI_HEADER_OPEN;
		roami_page_mark_dirty(node, roami_page_entry(node, page), page);
	}
	atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks);
	roami_page_entry(node, page)->home = (uint16_t)(node->me + 1);
	if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | node->me,
			    ROAMI_WORD_READY | node->me) != (ROAMI_WORD_CLAIMED | node->me))
		roami_node_fail(node, "page %u: its directory word changed while claimed", page);
}

/* --------------------------------------------------------------------------------- own headers */

uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page)
{
	roami_step(node);
	ROAMI_COUNT(node->stats, home_writes, 1);
	return ROAMI_VERSION(atomic_fetch_add(&node->self->headers[page].version, 1) + 1);
}

bool roami_home_is_shared(struct roami_node *node, uint32_t page)
{
	atomic_thread_fence(memory_order_seq_cst);
	return (atomic_load(&node->self->headers[page].shared) &
		(ROAMI_SHARED | ROAMI_SHARED_LISTED)) != 0;
}

void roami_home_unshare(struct roami_node *node, uint32_t page)
{
	_Atomic uint32_t *shared = &node->self->headers[page].shared;
	uint32_t mark = atomic_load(shared);

	roami_step(node);
	while (!atomic_compare_exchange_weak(
		shared, &mark, ((mark >> ROAMI_SHARED_BITS) + 1) << ROAMI_SHARED_BITS))
		;
	roami_step(node);
}

bool roami_home_shared_any(struct roami_node *node)
{
	for (unsigned by = 0; by < node->nodes; by++)
		if (atomic_load_explicit(&node->self->tails[by].tail, memory_order_acquire) !=
		    node->share_head[by])
			return true;
	return atomic_load(&node->shared_left) != 0;
}

/* Another domain's: kept until that one asks, in this release or the next. */
static void home_shared_leave(struct roami_node *node, uint32_t page)
{
	struct roami_vec *shared = &roami_domain_of(node, page)->shared;
	uint32_t *slot = roami_os_vec_grow(shared, sizeof(*slot), 1);

	if (slot == NULL)
		roami_node_fail(node, "no memory for the list of shared pages");
	*slot = page;
	shared->count++;
	atomic_fetch_add(&node->shared_left, 1);
}

/* What another domain has left for this one. */
static size_t home_shared_left(struct roami_node *node, struct roami_domain *mine, uint32_t *pages,
			       size_t max)
{
	struct roami_vec *shared = &mine->shared;
	const uint32_t *left = (const void *)shared->items;
	size_t count = 0;

	while (shared->count > 0 && count < max)
		pages[count++] = left[--shared->count];
	atomic_fetch_sub(&node->shared_left, (uint32_t)count);
	return count;
}

size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max)
{
	uint32_t ring = roami_share_slots(&node->layout);
	struct roami_domain *mine = roami_domain_current(node);
	size_t count;

	roami_step(node);
	atomic_thread_fence(memory_order_seq_cst);
	count = home_shared_left(node, mine, pages, max);
	for (unsigned by = 0; by < node->nodes; by++) {
		const _Atomic uint32_t *slots = node->self->slots + (size_t)by * ring;
		uint32_t tail = atomic_load_explicit(&node->self->tails[by].tail,
						     memory_order_acquire);

		while (node->share_head[by] != tail && count < max) {
			uint32_t page = atomic_load(&slots[node->share_head[by]++ % ring]);

			if (page >= node->layout.pages)
				roami_node_fail(node, "node %u reported page %u, beyond the heap",
						by, page);
			if (roami_domain_of(node, page) == mine)
				pages[count++] = page;
			else
				home_shared_leave(node, page);
		}
	}
	return count;
}

/* ------------------------------------------------------------------------------ homes that move */

#define EPOCH_SHIFT 8u

uint32_t roami_home_here(struct roami_node *node, uint32_t page)
{
	uint32_t where = atomic_load(&node->self->headers[page].where);

	return (where & ROAM_HEADER_HOME) == 0
		       ? 0
		       : ROAM_PLACE_MADE(node->me, where >> EPOCH_SHIFT);
}

bool roami_home_give(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p)
{
	struct roami_header *header = &node->self->headers[page];
	struct roami_page *entry = roami_page_entry(node, page);
	bool open = roami_page_access(node, page) == ROAM_WRITE;

	atomic_fetch_and(&header->where, ~(ROAM_HEADER_HOME | ROAM_HEADER_READY));
	atomic_thread_fence(memory_order_seq_cst);
	roami_page_close(node, &page, 1, ROAM_READ);
	*version_p = atomic_load(&header->version);
	roami_page_copy(node, bytes, roami_page_bytes(node, page));
	roami_page_set_home(node, page, false);
	entry->heat = 0; /* never hot: there is no twin to compare with */
	if (open)
		roami_page_mark_dirty(node, entry, page);
	return open;
}

void roami_home_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t place)
{
	struct roami_header *header = &node->self->headers[page];
	uint32_t marks = atomic_load(&header->where) & (ROAMI_HEADER_BLOCK | ROAMI_HEADER_BYTES);

	/* Others may have copies; they are not listed again. */
	atomic_fetch_or(&header->shared, ROAMI_SHARED | ROAMI_SHARED_LISTED);
	/* Who takes it for the home it was once may be about to look (roami_home_enter). */
	atomic_fetch_add(&header->version, version - ROAMI_VERSION(atomic_load(&header->version)));
	roami_page_set_home(node, page, true);
	if (roami_domain_of(node, page)->protocol->homes_taken)
		marks |= ROAMI_HEADER_OPEN;
	atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | marks |
					     ROAM_PLACE_EPOCH(place) << EPOCH_SHIFT);
	ROAMI_COUNT(node->stats, home_moves, 1);
}
