/*
 * The page table: entries, the pending mark, access, twins.  The rest of its interface is in
 * roam/protocol.h.
 */
#ifndef ROAMI_PAGE_H
#define ROAMI_PAGE_H

#include "base/node.h"
#include "page/diff.h"

static inline struct roami_page *roami_page_entry(struct roami_node *node, uint32_t page)
{
	roami_assert(page < node->layout.pages);
	return &node->table[page];
}

static inline uint8_t *roami_twin_bytes(struct roami_node *node, uint32_t twin)
{
	return node->twins.pool + (size_t)twin * ROAMI_PAGE;
}

/* A page near `page` is used: what the node knows of these belongs into a core file. */
void roami_page_dump(struct roami_node *node, uint32_t page);

/* Copies the page into a pooled twin; the page is pending. */
void roami_twin_make(struct roami_node *node, struct roami_page *entry, uint32_t page);

/* Closes a page that the engine has opened ahead of roami_page_open. */
void roami_page_unmap(struct roami_node *node, uint32_t page);

/* Closes what a handler has left to be closed when it is done. */
void roami_page_close_late(struct roami_node *node);

/* Gives twins back to the pool. */
void roami_twins_give(struct roami_node *node, const uint32_t *list, size_t count);

/* roami_page_done of a page that is dirty no more; its twin, if any, is the caller's to give. */
uint32_t roami_page_done_clean(struct roami_node *node, uint32_t page);

/* Puts the pending page on the dirty list. */
void roami_page_mark_dirty(struct roami_node *node, struct roami_page *entry, uint32_t page);

/* The same for a page that stays dirty after a release. */
void roami_page_list(struct roami_node *node, uint32_t page);

/* Whether roami_home_shared would return anything; the caller fences. */
bool roami_home_shared_any(struct roami_node *node);

/*
 * Opens a pending page that can be read for writing.  Not if a handler took its access meanwhile,
 * or its twin: then the write faults again.
 */
void roami_page_upgrade(struct roami_node *node, uint32_t page);

/* A fault of the app view, from an engine or from roam_touch.  app. */
void roami_fault(struct roami_node *node, uint32_t page, bool write, bool kind_known);

/* Loads and stores at an offset of the heap, as a program's: they may fault.  app, may block. */
void roami_heap_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes);
void roami_heap_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes);

/* The calling thread has synchronised: it did not come back to a page for nothing. */
void roami_returns_forget(struct roami_node *node);

/* A hint that these pages will be read. */
void roami_prefetch(struct roami_node *node, uint32_t first, uint32_t count);

/* The engine's callback: `arg` is the node. */
void roami_fault_entry(void *arg, uint32_t page, bool write, bool kind_known);

/*
 * Drops clean copies while more than ROAM_CACHE_PAGES are cached; not those that threads are about
 * to touch: two that evict each other's page, or one its own, would never get on.  app.
 */
void roami_evict(struct roami_node *node);

/* The calling thread is about to touch the page. */
void roami_evict_not(struct roami_node *node, uint32_t page);

/* Moves the pages of `list`, whose lock is held, to `work`, which held others; how many. */
size_t roami_pages_take(struct roami_node *node, struct roami_vec *list, struct roami_vec *work);

#endif
