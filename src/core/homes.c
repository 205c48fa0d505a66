/* Who is a page's home: the directory, claiming at first touch, headers of own pages. */
#include "core/page.h"
#include "core/remote.h"
#include "msg/msg.h"

#define MANAGER_PAGES 512u /* consecutive pages share a manager, so that their words share a page */
#define CLAIM_RUN 16u
#define CLAIMS_BEFORE_RUN 2u

unsigned roami_manager(const struct roami_node *node, uint32_t page)
{
	return page / MANAGER_PAGES % node->nodes;
}

void roami_home_forget(struct roami_node *node, uint32_t page)
{
	roami_page_entry(node, page)->home = 0;
}

/* ----------------------------------------------------------------------------------------------------- claims */

/* The word says CLAIMED by us: brings the creator's bytes. */
static void claim_fill(struct roami_node *node, uint32_t page)
{
	if (page < node->creator_pages && node->me != 0)
		roami_raw_fetch(node, 0, page);
	ROAMI_COUNT(node->stats, claims, 1);
}

/* Tries to move the word from `word` to a home; true: it is ours now and must be published. */
static bool claim_try(struct roami_node *node, uint32_t page, uint64_t word)
{
	unsigned home = (word & ROAMI_WORD_STATE) == ROAMI_WORD_ASSIGNED ? (unsigned)(word & 0xffffu) : node->me;

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

uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page)
{
	struct roami_thread *thread = &node->threads[node->env->thread(node)];
	uint32_t count = 0;

	thread->claim_count = page == thread->claim_next ? thread->claim_count + 1 : 1;
	thread->claim_next = page + 1;
	if (thread->claim_count <= CLAIMS_BEFORE_RUN)
		return 0;
	for (uint32_t next = page + 1; count < CLAIM_RUN - 1 && next < node->layout.pages; next++) {
		/* Within one allocation: a block's first page is marked in its manager's header. */
		if (!node->onesided || (atomic_load(&node->segments[roami_manager(node, next)].headers[next].where) &
					ROAMI_HEADER_BLOCK))
			break;
		if (roami_page_access(node, next) != ROAM_NONE || roami_word_load(node, next) != ROAMI_WORD_CREATOR ||
		    !roami_page_try(node, next))
			break;
		if (!claim_try(node, next, ROAMI_WORD_CREATOR)) {
			roami_page_done(node, next);
			break;
		}
		count++;
	}
	thread->claim_next += count;
	return count;
}

void roami_home_publish(struct roami_node *node, uint32_t page, uint64_t version)
{
	struct roami_header *header = &node->self->headers[page];
	uint32_t block = atomic_load(&header->where) & ROAMI_HEADER_BLOCK;

	atomic_store(&header->version, version);
	atomic_store(&header->where, ROAM_HEADER_HOME | ROAM_HEADER_READY | block);
	roami_page_entry(node, page)->home = (uint16_t)(node->me + 1);
	if (roami_word_swap(node, page, ROAMI_WORD_CLAIMED | node->me, ROAMI_WORD_READY | node->me) !=
	    (ROAMI_WORD_CLAIMED | node->me))
		roami_node_fail(node, "page %u: its directory word changed while claimed", page);
}

/* ------------------------------------------------------------------------------------------------ own headers */

uint64_t roami_home_version(struct roami_node *node, uint32_t page)
{
	return atomic_load(&node->self->headers[page].version);
}

uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page)
{
	roami_step(node);
	ROAMI_COUNT(node->stats, home_writes, 1);
	return atomic_fetch_add(&node->self->headers[page].version, 1) + 1;
}

bool roami_home_is_shared(struct roami_node *node, uint32_t page)
{
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load(&node->self->headers[page].shared) != 0;
}

void roami_home_unshare(struct roami_node *node, uint32_t page)
{
	atomic_exchange(&node->self->headers[page].shared, 0);
	roami_step(node);
}

size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max)
{
	size_t count = 0;

	roami_step(node);
	atomic_thread_fence(memory_order_seq_cst);
	for (unsigned by = 0; by < node->nodes; by++) {
		const _Atomic uint32_t *slots = node->self->slots + (size_t)by * node->layout.pages;
		uint32_t tail = atomic_load_explicit(&node->self->tails[by].tail, memory_order_acquire);

		while (node->share_head[by] != tail && count < max) {
			uint32_t page = atomic_load(&slots[node->share_head[by]++ % node->layout.pages]);

			if (page >= node->layout.pages)
				roami_node_fail(node, "node %u reported page %u, beyond the heap", by, page);
			pages[count++] = page;
		}
	}
	return count;
}
