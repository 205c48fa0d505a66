/* Copies of other nodes' pages: their number, and which are evicted when there are too many. */
#include "base/region.h"
#include "base/thread.h"
#include "page/page.h"

static uint32_t *cache_items(struct roami_node *node)
{
	return (uint32_t *)(void *)pages_of(node)->cache.items;
}

/*
 * Removes from the list pages invalidated since they were listed, and duplicates; cache_lock is
 * held.
 */
static void cache_compact(struct roami_node *node)
{
	uint32_t *pages = cache_items(node);
	size_t kept = 0;

	roami_contract(pages_of(node)->cache_lock.held != 0);
	roami_contract(pages_of(node)->cache_first <= pages_of(node)->cache.count);
	for (size_t i = pages_of(node)->cache_first; i < pages_of(node)->cache.count; i++) {
		struct roami_page *entry = &node->table[pages[i]];

		if (atomic_load(&entry->access) == ROAM_NONE ||
		    (atomic_fetch_or(&entry->flags, ROAMI_PAGE_LISTED) & ROAMI_PAGE_LISTED))
			continue;
		pages[kept++] = pages[i];
	}
	for (size_t i = 0; i < kept; i++)
		atomic_fetch_and(&node->table[pages[i]].flags, (uint8_t)~ROAMI_PAGE_LISTED);
	pages_of(node)->cache.count = kept;
	pages_of(node)->cache_first = 0;
}

/* Lists a page as the newest copy; pages are evicted in the order listed. */
static void cache_list(struct roami_node *node, uint32_t page)
{
	struct roami_pages *pages = pages_of(node);
	uint32_t *slot;

	roami_assert(page < node->layout.pages && node->options->cache_pages != 0);
	roami_spin_lock(node, &pages->cache_lock);
	if (pages->cache.count - pages->cache_first > 2 * node->options->cache_pages + 1024)
		cache_compact(node);
	slot = roami_os_vec_grow(&pages->cache, sizeof(*slot), 1);
	if (slot == NULL)
		roami_node_fail(node, "no memory for the list of copies");
	*slot = page;
	pages->cache.count++;
	roami_spin_unlock(&pages->cache_lock);
}

void roami_page_cached(struct roami_node *node, uint32_t first, uint32_t end)
{
	roami_assert(first < end && end <= node->layout.pages);
	atomic_fetch_add(&pages_of(node)->cached, end - first);
	for (uint32_t page = first; node->options->cache_pages != 0 && page < end; page++)
		cache_list(node, page);
}

/* ------------------------------------------------------------------------------------ eviction */

/* Asks the page's protocol to drop the copy; the page is pending. */
static bool page_give_up(struct roami_node *node, uint32_t page)
{
	struct roami_region *region = roami_region_of(node, page);
	unsigned was = roami_region_enter(node, region);
	bool gone = region->protocol->evict != NULL && region->protocol->evict(node, page);

	roami_contract_pending(node, page);
	roami_region_leave(node, was);
	return gone;
}

void roami_page_away(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	roami_spoil(node, ROAMI_SPOILT_PAGE, roami_page_bytes(node, page), ROAMI_PAGE);
}

bool roami_cache_drop(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	if (node->options->cache_pages == 0 ||
	    atomic_load(&pages_of(node)->cached) <= node->options->cache_pages)
		return false;
	roami_page_close(node, &page, 1, ROAM_NONE);
	roami_page_away(node, page);
	ROAMI_COUNT(node->stats, evictions, 1);
	return true;
}

static bool page_evict(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = &node->table[page];
	bool gone = false;

	if (atomic_load(&entry->access) != ROAM_READ ||
	    (atomic_load(&entry->flags) & (ROAMI_PAGE_HOME | ROAMI_PAGE_DIRTY)) ||
	    !roami_page_try(node, page))
		return false;
	if (atomic_load(&entry->access) == ROAM_READ &&
	    (atomic_load(&entry->flags) & (ROAMI_PAGE_HOME | ROAMI_PAGE_DIRTY)) == 0)
		gone = page_give_up(node, page);
	roami_contract(!gone || roami_page_access(node, page) == ROAM_NONE);
	if (gone)
		roami_spoil(node, ROAMI_SPOILT_COPY, roami_page_bytes(node, page), ROAMI_PAGE);
	if (gone && node->fd >= 0) {
		roami_os_discard(roami_page_bytes(node, page), ROAMI_PAGE);
		entry->here = 0;
	}
	entry->evicted = gone;
	roami_page_done(node, page);
	return gone;
}

/* The oldest copy; false: none is listed. */
static bool cache_oldest(struct roami_node *node, uint32_t *page_p)
{
	bool found;

	roami_spin_lock(node, &pages_of(node)->cache_lock);
	found = pages_of(node)->cache_first < pages_of(node)->cache.count;
	if (found)
		*page_p = cache_items(node)[pages_of(node)->cache_first++];
	roami_spin_unlock(&pages_of(node)->cache_lock);
	return found;
}

/* Pages looked at per call; those that are dirty or in use move to the end of the list. */
#define EVICT_TRIES 64u

static bool evict_needs(struct roami_thread *thread, uint32_t page)
{
	uint32_t needs = atomic_load_explicit(&thread->needs, memory_order_relaxed);

	roami_assert(needs <= ROAMI_TOUCHED);
	for (unsigned i = 0; i < needs; i++)
		if (atomic_load_explicit(&thread->touched[i], memory_order_relaxed) == page + 1)
			return true;
	return false;
}

/* Whether a thread is about to touch the page: it has just fetched the page, or waits for it. */
static bool evict_spares(struct roami_node *node, uint32_t page)
{
	for (unsigned i = 0; i < atomic_load(&threads_of(node)->top); i++)
		if (evict_needs(&threads_of(node)->threads[i], page))
			return true;
	return false;
}

static void touched_set(struct roami_thread *thread, unsigned i, uint32_t page)
{
	roami_contract(i < ROAMI_TOUCHED);
	atomic_store_explicit(&thread->touched[i], page, memory_order_relaxed);
}

void roami_evict_not(struct roami_node *node, uint32_t page)
{
	struct roami_thread *thread = roami_thread_self(node);
	unsigned at = 0;

	roami_contract(page < node->layout.pages && node->options->cache_pages != 0);
	while (at < ROAMI_TOUCHED && atomic_load(&thread->touched[at]) != page + 1)
		at++;
	/*
	 * The thread is back so soon: one instruction may need this page and all that it has
	 * touched since.
	 */
	atomic_store_explicit(&thread->needs, at < ROAMI_TOUCHED ? at + 1 : 1,
			      memory_order_relaxed);
	for (unsigned i = at < ROAMI_TOUCHED ? at : ROAMI_TOUCHED - 1; i > 0; i--)
		touched_set(thread, i, atomic_load(&thread->touched[i - 1]));
	touched_set(thread, 0, page + 1);
}

void roami_evict(struct roami_node *node)
{
	uint32_t limit = (uint32_t)node->options->cache_pages, page;
	unsigned tries = EVICT_TRIES;

	roami_contract(limit != 0);
	while (tries-- > 0 && atomic_load(&pages_of(node)->cached) > limit &&
	       cache_oldest(node, &page)) {
		if (!evict_spares(node, page) && page_evict(node, page))
			ROAMI_COUNT(node->stats, evictions, 1);
		else if (atomic_load(&node->table[page].access) != ROAM_NONE)
			cache_list(node, page);
	}
}
