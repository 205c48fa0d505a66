/*
 * The page table: entries, the pending mark, access, twins.  The rest of its interface is in
 * roam/protocol.h.
 *
 * The room keeps rules 1.5 (diffs are by byte and patch twins too), 1.7 (roami_page_close lowers
 * access by ranges), 1.8 and 2.3 (prefetch.h), 2.6 (an invalidation returns when the access is
 * gone) and 6.9 (twins, diffs and moves of a page are under its page lock).
 */
#ifndef ROAMI_PAGE_H
#define ROAMI_PAGE_H

#include "base/node.h"
#include "page/diff.h"

/*
 * Pages that a handler of a message has closed in the table, and that the engine closes once the
 * handler has returned.  Only where its thread is the only one that could touch them meanwhile
 * (roami_env.alone); else the engine closes pages at once.
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
	/* One bit per ROAMI_DUMP_PAGES pages: core files include their part of the tables below. */
	_Atomic uint32_t dumped[ROAMI_PAGES_MAX / ROAMI_DUMP_PAGES / 32];
	struct roami_twins twins;
	const struct roami_diff_ops *diff;
	bool (*copy_is_brief)(const struct roami_node *node, uint32_t page); /* see migrate.c */
	const struct roami_fault_engine *engine;
	void *engine_state;
	const struct roami_aliases *aliases; /* pages that have a second address */
	_Atomic uint64_t barriers_left;
	_Atomic uint64_t heard; /* how often this node may have learnt of others, see roami_hear */

	struct roami_spin dirty_lock;
	_Atomic uint32_t dirty_count; /* of `dirty`, to be read without the lock */
	struct roami_vec dirty;      /* uint32_t pages with ROAMI_PAGE_DIRTY, some stale */
	/*
	 * Threads that use the node, and whether one that was the only one is in a fault: a page
	 * may then become readable before it is checked.  A second thread waits until the fault is
	 * over.
	 */
	_Atomic uint32_t users;
	_Atomic uint32_t solo;

	/*
	 * Called before a fault is handled, and again when its page is open.  true: the access must
	 * not be made; the thread goes on elsewhere, as when a transaction begins anew.  NULL:
	 * every access is made.
	 */
	bool (*asked)(struct roami_node *node);

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

/* Whether a touch of this memory may fault: it is in the heap, or has a second address there. */
bool roami_page_faults(const struct roami_node *node, const void *memory);

/*
 * A page near `page` is used: from now on core files include the metadata of the pages around it.
 */
void roami_page_dump(struct roami_node *node, uint32_t page);

/* With ROAM_STATS, before the diff of a page is made: counts the runs of words that changed. */
void roami_diff_count_runs(struct roami_node *node, uint32_t page);

/* Patches the pending page and its twin with what differs in `bytes`, the home's, from the twin. */
void roami_page_follow(struct roami_node *node, uint32_t page, const uint8_t *bytes);

/* Copies the pending page into a twin of the pool. */
void roami_twin_make(struct roami_node *node, struct roami_page *entry, uint32_t page);

/* Closes a page that the engine has opened ahead of roami_page_open. */
void roami_page_unmap(struct roami_node *node, uint32_t page);

/* Closes the pages that a handler left in `late`. */
void roami_page_close_late(struct roami_node *node);

/* Gives twins back to the pool. */
void roami_twins_give(struct roami_node *node, const uint32_t *list, size_t count);

/*
 * roami_page_done for a page that is no longer dirty; returns its twin, which the caller gives
 * back.
 */
uint32_t roami_page_done_clean(struct roami_node *node, uint32_t page);

/* Puts the pending page on the dirty list. */
void roami_page_mark_dirty(struct roami_node *node, struct roami_page *entry, uint32_t page);

/* Adds a page that stays dirty after a release to the dirty list. */
void roami_page_list(struct roami_node *node, uint32_t page);

/* Whether roami_home_shared would return anything; the caller fences. */
bool roami_home_shared_any(struct roami_node *node);

/*
 * Opens a pending, readable page for writing.  If a handler has taken its access or its twin
 * meanwhile, nothing is opened and the write faults again.
 */
void roami_page_upgrade(struct roami_node *node, uint32_t page);

/* A fault of the app view, from an engine or from roam_touch.  app. */
void roami_fault(struct roami_node *node, uint32_t page, bool write, bool kind_known);

/* Loads and stores at an offset of the heap, as a program's: they may fault.  app, may block. */
void roami_heap_load(struct roami_node *node, uint64_t offset, void *out, size_t bytes);
void roami_heap_store(struct roami_node *node, uint64_t offset, const void *in, size_t bytes);

/*
 * The calling thread has synchronised: its next fault on a page that it has had does not count as
 * coming back.
 */
void roami_returns_forget(struct roami_node *node);

/*
 * This node may have learnt what another one did before now: it has acquired, or cleared a flag,
 * or, where programs may synchronise by loads and stores (SC), opened a page.  Called before a
 * thread goes on with that.
 */
static inline void roami_hear(struct roami_node *node)
{
	atomic_fetch_add(&pages_of(node)->heard, 1);
}

/* A hint that these pages will be read. */
void roami_prefetch(struct roami_node *node, uint32_t first, uint32_t count);

/* The engine's callback: `arg` is the node. */
void roami_fault_entry(void *arg, uint32_t page, bool write, bool kind_known);

/*
 * Drops clean copies while more than ROAM_CACHE_PAGES are cached, except pages that threads are
 * about to touch: two threads that evict each other's page, or one that evicts its own, would make
 * no progress.  app.
 */
void roami_evict(struct roami_node *node);

/* This node now has copies of pages [first, end), whose homes are other nodes. */
void roami_page_cached(struct roami_node *node, uint32_t first, uint32_t end);

/* The calling thread is about to touch the page: it is not to be evicted until then. */
void roami_evict_not(struct roami_node *node, uint32_t page);

/*
 * Moves the pages of `list`, whose lock is held, to `work`, whose former contents are lost; returns
 * how many.
 */
size_t roami_pages_take(struct roami_node *node, struct roami_vec *list, struct roami_vec *work);

#endif
