/*
 * The page table: entries, the pending mark, access, twins.  The rest of its interface is in
 * roam/protocol.h.
 */
#ifndef ROAMI_PAGE_H
#define ROAMI_PAGE_H

#include "base/node.h"
#include "page/diff.h"

/*
 * Pages that a handler has closed, for the engine to close when it is done: it runs on a thread
 * that nobody else can touch them beside (alone).  No pages elsewhere.
 */
struct roami_late {
	uint32_t first;
	uint32_t count; /* 0: none */
	enum roam_access from;
	enum roam_access to;
};

struct roami_twins {
	struct roami_spin lock;
	uint8_t *pool;
	uint32_t fresh; /* next never used index */
	struct roami_vec free;
};

/* What the page room keeps of a node besides the table. */
struct roami_pages {
	/* A bit for each ROAMI_DUMP_PAGES pages: core files hold their part of the tables below. */
	_Atomic uint32_t dumped[ROAMI_PAGES_MAX / ROAMI_DUMP_PAGES / 32];
	struct roami_twins twins;
	const struct roami_diff_ops *diff;
	bool (*copy_is_brief)(const struct roami_node *node, uint32_t page); /* see migrate.c */
	const struct roami_fault_engine *engine;
	void *engine_state;
	_Atomic uint64_t barriers_left;

	struct roami_spin dirty_lock;
	_Atomic uint32_t dirty_count; /* of `dirty`, to be read without the lock */
	struct roami_vec dirty;      /* uint32_t pages with ROAMI_PAGE_DIRTY, some stale */
	/*
	 * Threads that use the node, and whether one that was the only one is in a fault: a page
	 * may then show before it is checked.  Who comes second waits for it.
	 */
	_Atomic uint32_t users;
	_Atomic uint32_t solo;

	struct roami_late late;
	struct roami_spin close_lock; /* the table and the engine agree on what is closed */
	_Atomic uint32_t page_waiters; /* threads that wait for a pending page */
	_Atomic uint32_t cached;       /* clean or dirty copies of other nodes' pages */
	struct roami_spin cache_lock;
	struct roami_vec
		cache; /* uint32_t copies, oldest first, some gone; with ROAM_CACHE_PAGES */
	size_t cache_first;
};

static inline struct roami_pages *pages_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_PAGES].state;
}

static inline bool roami_node_dumped(struct roami_node *node, uint32_t page)
{
	uint32_t part = page / ROAMI_DUMP_PAGES;
	uint32_t word =
		atomic_load_explicit(&pages_of(node)->dumped[part / 32], memory_order_relaxed);

	return (word >> part % 32 & 1) != 0;
}

static inline struct roami_page *roami_page_entry(struct roami_node *node, uint32_t page)
{
	roami_assert(page < node->layout.pages);
	return &node->table[page];
}

static inline uint8_t *roami_twin_bytes(struct roami_node *node, uint32_t twin)
{
	roami_contract(twin != 0 && twin <= node->layout.pages);
	return pages_of(node)->twins.pool + (size_t)twin * ROAMI_PAGE;
}

/* The page is pending, or its page lock is held. */
#define roami_contract_owned(node, page) \
	roami_contract(roami_page_pending(node, page) || roami_page_locked(node, page))

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

/* Copies of pages [first, end) of other nodes are here from now on. */
void roami_page_cached(struct roami_node *node, uint32_t first, uint32_t end);

/* The calling thread is about to touch the page. */
void roami_evict_not(struct roami_node *node, uint32_t page);

/* Moves the pages of `list`, whose lock is held, to `work`, which held others; how many. */
size_t roami_pages_take(struct roami_node *node, struct roami_vec *list, struct roami_vec *work);

#endif
