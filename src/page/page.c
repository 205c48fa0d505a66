#include "page/page.h"

#include <string.h>

#include "base/region.h"
#include "base/sort.h"
#include "msg/msg.h"
#include "page/race.h"

unsigned roami_me(const struct roami_node *node)
{
	return node->me;
}

unsigned roami_count(const struct roami_node *node)
{
	return node->nodes;
}

bool roami_checks_races(struct roami_node *node)
{
	return roami_race_checked(node);
}

enum roam_model roami_model(const struct roami_node *node)
{
	return node->protocol->model;
}

bool roami_closes_homes(struct roami_node *node)
{
	return roami_region_current(node)->protocol->closes_homes;
}

uint64_t roami_barriers_left(struct roami_node *node)
{
	return atomic_load_explicit(&pages_of(node)->barriers_left, memory_order_relaxed);
}

uint32_t roami_pages(const struct roami_node *node)
{
	return node->layout.pages;
}

void *roami_node_state(struct roami_node *node)
{
	return roami_region_current(node)->state;
}

void *roami_page_data(struct roami_node *node, uint32_t page)
{
	const struct roami_region *region = roami_region_of(node, page);

	roami_contract(page >= region->first && page < region->end);
	roami_assert(page < node->layout.pages);
	return region->page_data +
	       (size_t)(page - region->first) * roami_page_state_bytes(node, region->protocol);
}

unsigned roami_page_state(struct roami_node *node, uint32_t page)
{
	return roami_page_entry(node, page)->state;
}

void roami_page_move(struct roami_node *node, uint32_t page, unsigned state)
{
	struct roami_page *entry = roami_page_entry(node, page);
	const struct roam_page_state *states = roami_region_of(node, page)->protocol->states;

	roami_contract_owned(node, page);
	roami_contract(state < 32);
	if ((states[entry->state].next & (1u << state)) == 0)
		roami_node_fail(node, "page %u: no move from state %s to %s", page,
				states[entry->state].name, states[state].name);
	entry->state = (uint8_t)state;
}

void roami_page_lock(struct roami_node *node, uint32_t page)
{
	roami_spin_lock(node, &roami_page_entry(node, page)->lock);
}

void roami_page_unlock(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	roami_spin_unlock(&roami_page_entry(node, page)->lock);
}

bool roami_page_locked(struct roami_node *node, uint32_t page)
{
	return roami_spin_held(&roami_page_entry(node, page)->lock);
}

/* ------------------------------------------------------------------------------------- pending */

bool roami_page_pending(struct roami_node *node, uint32_t page)
{
	return (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_PENDING) != 0;
}

bool roami_page_try(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	bool mine;

	if (atomic_load_explicit(&entry->flags, memory_order_relaxed) & ROAMI_PAGE_PENDING)
		return false;
	/* Under the page lock: a handler that saw the page not pending must finish first. */
	roami_spin_lock(node, &entry->lock);
	mine = (atomic_fetch_or(&entry->flags, ROAMI_PAGE_PENDING) & ROAMI_PAGE_PENDING) == 0;
	roami_spin_unlock(&entry->lock);
	return mine;
}

static bool page_is_free(void *arg)
{
	const struct roami_page *entry = arg;

	return (atomic_load(&entry->flags) & ROAMI_PAGE_PENDING) == 0;
}

void roami_page_hold(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	if (roami_page_try(node, page))
		return;
	atomic_fetch_add(&pages_of(node)->page_waiters, 1);
	while (!roami_page_try(node, page))
		roami_wait(node, page_is_free, entry);
	atomic_fetch_sub(&pages_of(node)->page_waiters, 1);
}

/* Ends pending; `clean`: also ends dirty, and returns the twin unless the protocol keeps twins. */
static uint32_t page_end(struct roami_node *node, uint32_t page, bool clean)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t was, gone = ROAMI_PAGE_PENDING | ROAMI_PAGE_WANT | ROAMI_PAGE_PARKED;
	uint32_t twin = 0;

	roami_spin_lock(node, &entry->lock);
	if (clean && !roami_region_of(node, page)->protocol->keeps_twins) {
		twin = entry->twin;
		entry->twin = 0;
	}
	if (clean)
		gone |= ROAMI_PAGE_DIRTY | ROAMI_PAGE_KEEP;
	was = atomic_fetch_and(&entry->flags, (uint8_t)~gone);
	roami_spin_unlock(&entry->lock);
	roami_assert(was & ROAMI_PAGE_PENDING);
	if (was & ROAMI_PAGE_PARKED)
		roami_msg_unpark(node, page);
	if (atomic_load(&pages_of(node)->page_waiters) != 0)
		roami_changed(node, node->me);
	roami_step(node);
	return twin;
}

void roami_page_done(struct roami_node *node, uint32_t page)
{
	page_end(node, page, false);
}

void roami_page_unpark(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t was;

	roami_contract_pending(node, page);
	roami_spin_lock(node, &entry->lock);
	was = atomic_fetch_and(&entry->flags, (uint8_t)~ROAMI_PAGE_PARKED);
	roami_spin_unlock(&entry->lock);
	if (was & ROAMI_PAGE_PARKED)
		roami_msg_unpark(node, page);
}

uint32_t roami_page_done_clean(struct roami_node *node, uint32_t page)
{
	return page_end(node, page, true);
}

/* -------------------------------------------------------------------------------------- access */

enum roam_access roami_page_access(struct roami_node *node, uint32_t page)
{
	return (enum roam_access)atomic_load(&roami_page_entry(node, page)->access);
}

uint8_t *roami_page_bytes(struct roami_node *node, uint32_t page)
{
	roami_assert(page < node->layout.pages);
	return node->self->heap + (size_t)page * ROAMI_PAGE;
}

bool roami_page_is_home(struct roami_node *node, uint32_t page)
{
	return (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_HOME) != 0;
}

void roami_page_set_home(struct roami_node *node, uint32_t page, bool home)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t was;

	roami_contract_owned(node, page);
	if (home)
		was = atomic_fetch_or(&entry->flags, ROAMI_PAGE_HOME);
	else
		was = atomic_fetch_and(&entry->flags, (uint8_t)~ROAMI_PAGE_HOME);
	/* A copy becomes the home's page, or the reverse. */
	if (((was & ROAMI_PAGE_HOME) != 0) == home || roami_page_access(node, page) == ROAM_NONE)
		return;
	if (home)
		atomic_fetch_sub(&pages_of(node)->cached, 1);
	else
		roami_page_cached(node, page, page + 1);
}

void roami_page_set_twins(struct roami_node *node, uint32_t page, bool twins)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_owned(node, page);
	if (twins)
		atomic_fetch_or(&entry->flags, ROAMI_PAGE_TWINS);
	else
		atomic_fetch_and(&entry->flags, (uint8_t)~ROAMI_PAGE_TWINS);
}

bool roami_page_twins(struct roami_node *node, uint32_t page)
{
	return (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_TWINS) != 0;
}

bool roami_page_wants_write(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	return (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_WANT) != 0;
}

bool roami_page_dirty(struct roami_node *node, uint32_t page)
{
	return (atomic_load(&roami_page_entry(node, page)->flags) & ROAMI_PAGE_DIRTY) != 0;
}

void roami_page_cool(struct roami_node *node, uint32_t page)
{
	roami_page_entry(node, page)->heat = 0;
}

void roami_page_clean(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	atomic_fetch_and(&entry->flags, (uint8_t) ~(ROAMI_PAGE_DIRTY | ROAMI_PAGE_KEEP));
	roami_spin_lock(node, &entry->lock);
	roami_twin_drop(node, page);
	roami_spin_unlock(&entry->lock);
}

static void page_engine(struct roami_node *node, uint32_t first, uint32_t count,
			enum roam_access from, enum roam_access to)
{
	uint64_t start = roami_os_cycles();
	enum roam_err err =
		pages_of(node)->engine->protect(pages_of(node)->engine_state, first, count, from,
						to);

	ROAMI_TIME_WITHIN(node->stats, protect, roami_os_cycles() - start);
	roami_assert(from != to && count > 0 && count <= node->layout.pages - first);
	ROAMI_COUNT(node->stats, protects, 1);
	if (err == ROAM_ENOMEM)
		roami_node_fail(node,
				"cannot change the access of page %u: too many memory ranges "
				"(raise vm.max_map_count, or use ROAM_FAULT=uffd) or no memory",
				first);
	if (err != ROAM_OK)
		roami_node_fail(node, "cannot change the access of page %u: %s", first,
				roam_strerror(err));
}

void roami_page_close_late(struct roami_node *node)
{
	struct roami_late late = pages_of(node)->late;

	if (late.count == 0)
		return;
	roami_assert(late.to < late.from);
	pages_of(node)->late.count = 0;
	roami_step(node);
	page_engine(node, late.first, late.count, late.from, late.to);
}

/* Applies a change of access after those that are still outstanding (`late`). */
static void page_protect(struct roami_node *node, uint32_t first, uint32_t count,
			 enum roam_access from, enum roam_access to)
{
	roami_page_close_late(node);
	page_engine(node, first, count, from, to);
}

/*
 * Closes pages.  Where no thread can touch them meanwhile, the engine does so after the handler's
 * answer has left.
 */
static void page_shut(struct roami_node *node, uint32_t first, uint32_t count,
		      enum roam_access from, enum roam_access to)
{
	roami_assert(to < from);
	roami_contract(pages_of(node)->close_lock.held != 0);
	roami_page_close_late(node);
	if (node->env->alone != NULL && node->env->alone(node))
		pages_of(node)->late = (struct roami_late){first, count, from, to};
	else
		page_engine(node, first, count, from, to);
}

void roami_fetched(struct roami_node *node)
{
	ROAMI_COUNT(node->stats, fetches, 1);
}

void roami_fetched_ahead(struct roami_node *node)
{
	ROAMI_COUNT(node->stats, fetches_ahead, 1);
}

/* Whether the page is written without a twin: at its home, unless races are checked for. */
static bool page_untwinned(struct roami_node *node, uint32_t page)
{
	uint8_t flags = atomic_load(&roami_page_entry(node, page)->flags);

	return (flags & (ROAMI_PAGE_HOME | ROAMI_PAGE_TWINS)) == ROAMI_PAGE_HOME &&
	       !(roami_race_checked(node) && roami_region_of(node, page)->protocol->checks_races);
}

/*
 * Decides the access with which a pending page opens, and prepares for writes: twin and dirty list.
 */
static enum roam_access page_prepare(struct roami_node *node, uint32_t page, enum roam_access least)
{
	struct roami_page *entry = roami_page_entry(node, page);
	uint8_t flags = atomic_load(&entry->flags);

	roami_contract(least != ROAM_NONE);
	roami_assert(flags & ROAMI_PAGE_PENDING);
	if (roami_writes_of(node, page) == ROAM_WRITES_FAULT || entry->provisional)
		return least;
	if (page_untwinned(node, page)) {
		if (least == ROAM_WRITE || (flags & ROAMI_PAGE_WANT) == 0 ||
		    !roami_region_of(node, page)->protocol->closes_homes)
			return least;
		roami_page_mark_dirty(node, entry, page);
		return ROAM_WRITE;
	}
	if (least < ROAM_WRITE && (flags & ROAMI_PAGE_WANT) == 0)
		return least;
	roami_twin_make(node, entry, page);
	roami_page_mark_dirty(node, entry, page);
	return ROAM_WRITE;
}

/* The access that the engine has given, which is ahead of the table for a mapped page. */
static enum roam_access page_has(struct roami_node *node, uint32_t page)
{
	roami_contract(!node->table[page].mapped || roami_page_access(node, page) == ROAM_NONE);
	return node->table[page].mapped ? ROAM_READ : roami_page_access(node, page);
}

/*
 * Opens pages whose bytes were never here by mapping zeroes over holes; false: the engine cannot.
 */
static bool page_open_holes(struct roami_node *node, uint32_t first, uint32_t count)
{
	struct roami_page *entry = roami_page_entry(node, first);

	roami_contract(entry->access == ROAM_NONE && count <= node->layout.pages - first);
	if (pages_of(node)->engine->zero == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (entry[i].here)
			return false;
		entry[i].here = 1;
	}
	return pages_of(node)->engine->zero(pages_of(node)->engine_state, first, count) == ROAM_OK;
}

/* Raises the access of pages from what the engine has given to `to`. */
static void page_open_run(struct roami_node *node, uint32_t first, uint32_t count,
			  enum roam_access has, enum roam_access to)
{
	roami_contract(has <= to && count > 0);
	if (has == to)
		return;
	if (has == ROAM_NONE && to == ROAM_WRITE && page_open_holes(node, first, count))
		ROAMI_COUNT(node->stats, protects, 1);
	else
		page_protect(node, first, count, has, to);
}

void roami_page_unmap(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	if (entry->mapped)
		page_protect(node, page, 1, ROAM_READ, ROAM_NONE);
	entry->mapped = 0;
}

void roami_page_open(struct roami_node *node, uint32_t first, uint32_t count,
		     enum roam_access access)
{
	uint32_t from = first;

	roami_contract(access != ROAM_NONE && count > 0);
	roami_assert(count <= node->layout.pages - first);
	if (roami_region_of(node, first)->protocol->model == ROAM_MODEL_SC)
		roami_hear(node);
	while (from < first + count) {
		enum roam_access was = roami_page_access(node, from), has = page_has(node, from);
		enum roam_access to = page_prepare(node, from, access);
		uint32_t end = from + 1;

		while (end < first + count && roami_page_access(node, end) == was &&
		       page_has(node, end) == has && page_prepare(node, end, access) == to)
			end++;
		page_open_run(node, from, end - from, has, to);
		for (uint32_t page = from; page < end; page++) {
			node->table[page].mapped = 0;
			atomic_store_explicit(&node->table[page].access, (uint8_t)to,
					      memory_order_release);
		}
		if (was == ROAM_NONE && !roami_page_is_home(node, from))
			roami_page_cached(node, from, end);
		from = end;
	}
}

void roami_page_open_written(struct roami_node *node, uint32_t first, uint32_t count)
{
	roami_assert(count <= node->layout.pages - first);
	for (uint32_t page = first; page < first + count; page++) {
		roami_contract_pending(node, page);
		roami_contract(roami_page_access(node, page) == ROAM_READ);
		if (page_untwinned(node, page))
			roami_page_mark_dirty(node, roami_page_entry(node, page), page);
	}
	roami_step(node);
	roami_page_open(node, first, count, ROAM_WRITE);
}

void roami_page_upgrade(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);

	roami_contract_pending(node, page);
	if (page_untwinned(node, page))
		roami_page_mark_dirty(node, entry, page);
	page_prepare(node, page, ROAM_WRITE);
	roami_step(node);
	roami_page_lock(node, page);
	if (roami_page_access(node, page) == ROAM_READ &&
	    (entry->twin != 0 || page_untwinned(node, page))) {
		page_open_run(node, page, 1, page_has(node, page), ROAM_WRITE);
		atomic_store_explicit(&entry->access, ROAM_WRITE, memory_order_release);
	}
	roami_page_unlock(node, page);
}

/*
 * Whether `page`, which is not to be closed, may be included in a call that lowers the access of
 * its neighbours to `to` (rule 1.7).
 */
static bool page_may_merge(struct roami_node *node, uint32_t page, enum roam_access to)
{
	enum roam_access has = roami_page_access(node, page);

	roami_contract(to != ROAM_WRITE && pages_of(node)->close_lock.held != 0);
	return to == ROAM_NONE ? has == ROAM_NONE : has == ROAM_READ;
}

#define MERGE_GAP 40u

/* `lost`: copies are dropped. */
static void page_close(struct roami_node *node, const uint32_t *pages, size_t count,
		       enum roam_access access, bool lost)
{
	size_t at = 0;

	roami_contract(access != ROAM_WRITE);
	for (size_t i = 0; i + 1 < count; i++)
		roami_assert(pages[i] < pages[i + 1]);
	if (count == 0)
		return;
	roami_assert(pages[count - 1] < node->layout.pages);
	/*
	 * A page that a handler closes completely at the same time must not become readable again
	 * here.
	 */
	roami_spin_lock(node, &pages_of(node)->close_lock);
	while (at < count) {
		uint32_t first = pages[at], end = first + 1;
		enum roam_access from = roami_page_access(node, first);

		for (at++; at < count && pages[at] - end <= MERGE_GAP; at++) {
			uint32_t gap = end;

			if (roami_page_access(node, pages[at]) != from)
				break;
			while (gap < pages[at] && page_may_merge(node, gap, access))
				gap++;
			if (gap < pages[at])
				break;
			end = pages[at] + 1;
		}
		if (from > access)
			page_shut(node, first, end - first, from, access);
	}
	for (size_t i = 0; i < count; i++) {
		if (roami_page_access(node, pages[i]) <= access)
			continue;
		atomic_store_explicit(&node->table[pages[i]].access, (uint8_t)access,
				      memory_order_release);
		if (access == ROAM_NONE && !roami_page_is_home(node, pages[i])) {
			atomic_fetch_sub(&pages_of(node)->cached, 1);
			if (lost)
				ROAMI_COUNT(node->stats, invalidations, 1);
		}
	}
	roami_spin_unlock(&pages_of(node)->close_lock);
	roami_step(node);
}

void roami_page_close(struct roami_node *node, const uint32_t *pages, size_t count,
		      enum roam_access access)
{
	page_close(node, pages, count, access, true);
}

void roami_page_shelve(struct roami_node *node, const uint32_t *pages, size_t count)
{
	page_close(node, pages, count, ROAM_NONE, false);
}

/* --------------------------------------------------------------------------------------- dirty */

void roami_page_list(struct roami_node *node, uint32_t page)
{
	uint32_t *slot;

	roami_assert(page < node->layout.pages);
	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	slot = roami_os_vec_grow(&pages_of(node)->dirty, sizeof(uint32_t), 1);
	if (slot == NULL)
		roami_node_fail(node, "no memory for the list of dirty pages");
	*slot = page;
	atomic_store(&pages_of(node)->dirty_count, (uint32_t)++pages_of(node)->dirty.count);
	roami_spin_unlock(&pages_of(node)->dirty_lock);
}

void roami_page_mark_dirty(struct roami_node *node, struct roami_page *entry, uint32_t page)
{
	roami_contract_owned(node, page);
	roami_contract(entry == roami_page_entry(node, page));
	if ((atomic_fetch_or(&entry->flags, ROAMI_PAGE_DIRTY) & ROAMI_PAGE_DIRTY) == 0)
		roami_page_list(node, page);
}

#define PAGE_KEY(page) (page)
ROAMI_SORT_DEFINE(page_sort, uint32_t, PAGE_KEY)

size_t roami_pages_take(struct roami_node *node, struct roami_vec *list, struct roami_vec *work)
{
	size_t count = list->count;
	uint32_t *pages;

	roami_assert(list != work);
	work->count = 0;
	pages = roami_os_vec_grow(work, sizeof(*pages), count + 1);
	if (pages == NULL)
		roami_node_fail(node, "no memory for a list of pages");
	if (count > 0)
		memcpy(pages, list->items, count * sizeof(*pages));
	list->count = 0;
	return count;
}

size_t roami_pages_sort(uint32_t *pages, size_t count)
{
	size_t kept = 0;

	roami_contract(pages != NULL || count == 0);
	page_sort(pages, count);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || pages[kept - 1] != pages[i])
			pages[kept++] = pages[i];
	return kept;
}
