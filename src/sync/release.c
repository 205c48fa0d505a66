/* Releases and acquires: where an interval ends, and where others' writes begin to show. */
#include <string.h>
#include <unistd.h>

#include "base/region.h"
#include "base/sort.h"
#include "home/provisional.h"
#include "os/inside.h"
#include "page/page.h"
#include "page/race.h"
#include "sync/log.h"
#include "sync/scope.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

#define HOT_AFTER  ROAMI_HOT_AFTER
#define COLD_AFTER 3u /* releases in a row without a change end that */
#define HEAT_MAX   127u
#define DEFERRED     ROAMI_HEAT_DEFERRED

#define NOTE_KEY(note) ((note).page)
ROAMI_SORT_DEFINE(note_sort, struct roam_notice, NOTE_KEY)

static bool interval_free(void *arg)
{
	struct roami_node *node = arg;

	return atomic_load(&release_of(node)->interval_lock.held) == 0;
}

void roami_interval_enter(struct roami_node *node)
{
	while (!roami_spin_try(&release_of(node)->interval_lock))
		roami_wait(node, interval_free, node);
	roami_inside.needed = true;
}

void roami_interval_leave(struct roami_node *node)
{
	roami_contract(roami_interval_entered(node));
	roami_spin_unlock(&release_of(node)->interval_lock);
	roami_inside.needed = false;
	roami_changed(node, node->me);
}

/* ------------------------------------------------------------------------------------- release */

/*
 * Moves the dirty list into page_work, sorted, each page once.  They still count: some may be
 * listed again, with what other threads write meanwhile.
 */
static size_t dirty_take(struct roami_node *node)
{
	size_t count;

	roami_contract(roami_interval_entered(node));
	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	count = roami_pages_take(node, &pages_of(node)->dirty, &release_of(node)->page_work);
	roami_spin_unlock(&pages_of(node)->dirty_lock);
	return roami_pages_sort((void *)release_of(node)->page_work.items, count);
}

/* Also a home's page with a twin, if no node takes it before it is closed or writes it now. */
static bool page_may_be_hot(const struct roam_protocol *protocol, uint8_t flags, bool idle)
{
	if ((flags & ROAMI_PAGE_HOME) != 0)
		return protocol->homes == ROAM_HOMES_TAKEN && idle &&
		       (flags & ROAMI_PAGE_TWINS) != 0;
	return !protocol->keeps_twins && protocol->writes_now == NULL;
}

static bool page_becomes_hot(struct roami_node *node, uint32_t page, uint8_t flags, bool idle)
{
	uint8_t heat = roami_page_entry(node, page)->heat;

	roami_contract(roami_page_pending(node, page));
	return node->options->hot &&
	       page_may_be_hot(roami_region_of(node, page)->protocol, flags, idle) &&
	       (((flags & ROAMI_PAGE_KEEP) != 0 && (heat & DEFERRED) == 0) ||
		(heat & HEAT_MAX) >= HOT_AFTER);
}

/*
 * Whether the page is closed only after others have been told, see roami_release_rest.  Under ScC a
 * page that stays dirty gives notice, and where homes change the set of writers matters.
 */
static bool page_is_deferred(struct roami_node *node, uint32_t page, uint8_t flags)
{
	const struct roam_protocol *protocol = roami_region_of(node, page)->protocol;

	roami_contract(roami_page_pending(node, page));
	return (flags & ROAMI_PAGE_HOME) == 0 && protocol->model == ROAM_MODEL_RC &&
	       !protocol->keeps_twins && protocol->writes_now == NULL &&
	       !roami_homes_change(protocol) &&
	       !roami_scoped(node) && !roami_race_checked(node);
}

/* Whether a page of this home loses write access for the protocol's sake. */
static bool page_closes(struct roami_node *node, uint32_t page, const struct roam_sync *sync)
{
	roami_contract(roami_page_pending(node, page));
	return roami_race_checked(node) ||
	       (roami_region_of(node, page)->protocol->closes_homes && !sync->idle);
}

/* The pages that dirty_take has moved are written no more, or listed again. */
static void dirty_taken(struct roami_node *node)
{
	roami_contract(roami_interval_entered(node));
	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	atomic_store(&pages_of(node)->dirty_count, (uint32_t)pages_of(node)->dirty.count);
	roami_spin_unlock(&pages_of(node)->dirty_lock);
}

/*
 * Makes the pages pending and fills dirty_work with those still dirty; closes those that are not
 * hot, ours or, if they are few, deferred.
 */
static size_t dirty_hold(struct roami_node *node, const struct roam_sync *sync, size_t count)
{
	uint32_t *pages = (void *)release_of(node)->page_work.items;
	struct roam_dirty *dirty;
	size_t kept = 0, closing = 0;

	roami_contract(roami_interval_entered(node));
	release_of(node)->dirty_work.count = 0;
	dirty = roami_os_vec_grow(&release_of(node)->dirty_work, sizeof(*dirty), count + 1);
	if (dirty == NULL)
		roami_node_fail(node, "no memory for the list of dirty pages");
	for (size_t i = 0; i < count; i++) {
		uint32_t page = pages[i];
		struct roami_page *entry = roami_page_entry(node, page);
		uint8_t flags;

		roami_contract(i == 0 || pages[i - 1] < page);
		roami_page_hold(node, page);
		flags = atomic_load(&entry->flags);
		if ((flags & ROAMI_PAGE_DIRTY) == 0) {
			roami_page_done(node, page);
			continue;
		}
		dirty[kept] = (struct roam_dirty){.page = page,
						  .home = (flags & ROAMI_PAGE_HOME) != 0 &&
							  (flags & ROAMI_PAGE_TWINS) == 0};
		dirty[kept].keep = page_becomes_hot(node, page, flags, sync->idle);
		entry->heat &= HEAT_MAX;
		if (!dirty[kept].keep && count <= ROAMI_DEFERRED_MAX &&
		    page_is_deferred(node, page, flags)) {
			entry->heat |= DEFERRED;
			dirty[kept].keep = true;
			atomic_store_explicit(&release_of(node)->deferred, true,
					      memory_order_relaxed);
		}
		if (!dirty[kept].keep && (!dirty[kept].home || page_closes(node, page, sync)))
			pages[closing++] = page;
		kept++;
	}
	roami_page_close(node, pages, closing, ROAM_READ);
	return kept;
}

/* Writable for the next interval, or until it is closed; the twin has the bytes sent. */
static void page_stays(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_pending(node, page));
	atomic_fetch_or(&roami_page_entry(node, page)->flags, ROAMI_PAGE_KEEP);
}

static void hot_finish(struct roami_node *node, const struct roam_dirty *dirty)
{
	struct roami_page *entry = roami_page_entry(node, dirty->page);

	roami_contract(dirty->keep && roami_page_pending(node, dirty->page));
	if (dirty->changed || ++entry->heat < HOT_AFTER + COLD_AFTER) {
		if (dirty->changed)
			entry->heat = HOT_AFTER;
		ROAMI_COUNT(node->stats, hot_pages, 1);
		page_stays(node, dirty->page);
	} else {
		/*
		 * Still dirty for the next release, which closes it first: a write may have come
		 * after the compare.
		 */
		entry->heat = 0;
		atomic_fetch_and(&entry->flags, (uint8_t)~ROAMI_PAGE_KEEP);
	}
}

/*
 * After the flush: twins go, hot pages stay writable or are demoted, deferred ones wait to be
 * closed. Returns the twin to give back; 0: none.
 */
static uint32_t dirty_finish(struct roami_node *node, const struct roam_dirty *dirty)
{
	struct roami_page *entry = roami_page_entry(node, dirty->page);
	bool deferred = (entry->heat & DEFERRED) != 0;

	roami_contract(roami_page_pending(node, dirty->page));
	if ((!dirty->keep || deferred) && (dirty->home || dirty->changed) &&
	    (entry->heat & HEAT_MAX) < HEAT_MAX)
		entry->heat++;
	if (!dirty->keep)
		return roami_page_done_clean(node, dirty->page);
	if (deferred)
		page_stays(node, dirty->page);
	else
		hot_finish(node, dirty);
	roami_page_done(node, dirty->page);
	return 0;
}

/* Lists the pages that stay dirty for the next release, while they are pending. */
static void dirty_list_kept(struct roami_node *node, const struct roam_dirty *dirty, size_t count)
{
	uint32_t *slots;

	roami_contract(roami_interval_entered(node));
	roami_spin_lock(node, &pages_of(node)->dirty_lock);
	slots = roami_os_vec_grow(&pages_of(node)->dirty, sizeof(*slots), count);
	if (slots == NULL)
		roami_node_fail(node, "no memory for the list of dirty pages");
	for (size_t i = 0; i < count; i++)
		if (dirty[i].keep) {
			roami_contract(roami_page_pending(node, dirty[i].page));
			*slots++ = dirty[i].page;
			pages_of(node)->dirty.count++;
		}
	roami_spin_unlock(&pages_of(node)->dirty_lock);
}

static void dirty_finish_all(struct roami_node *node, const struct roam_dirty *dirty, size_t count)
{
	roami_contract(roami_interval_entered(node));
	/* page_work has room for all of them; the pages in it are closed already. */
	uint32_t *twins = (void *)release_of(node)->page_work.items;
	size_t given = 0;

	if (count > 0)
		dirty_list_kept(node, dirty, count);
	dirty_taken(node);
	for (size_t i = 0; i < count; i++) {
		uint32_t twin = dirty_finish(node, &dirty[i]);

		if (twin != 0)
			twins[given++] = twin;
	}
	roami_twins_give(node, twins, given);
}

uint64_t roami_notice_diff(struct roami_node *node, const struct roam_notice *notice)
{
	roami_assert(roami_homes_here(node) == ROAM_HOMES_TAKEN);
	return notice->ref.diff;
}

uint32_t roami_notice_home(struct roami_node *node, const struct roam_notice *notice)
{
	roami_assert(roami_homes_here(node) != ROAM_HOMES_TAKEN);
	return (uint32_t)notice->ref.home;
}

static void notice_add(struct roami_node *node, uint32_t page, uint64_t version,
		       union roam_notice_ref ref)
{
	struct roam_notice *note =
		roami_os_vec_grow(&release_of(node)->note_work, sizeof(*note), 1);

	roami_contract(roami_interval_entered(node));
	roami_contract(page < node->layout.pages);
	if (note == NULL)
		roami_node_fail(node, "no memory for write notices");
	*note = (struct roam_notice){page, node->me, version, 0, ref};
	release_of(node)->note_work.count++;
}

void roami_notice_add(struct roami_node *node, uint32_t page, uint64_t version)
{
	union roam_notice_ref ref = {.word = 0};

	if (roami_homes_of(node, page) != ROAM_HOMES_TAKEN)
		ref.home = roami_home_here(node, page);
	notice_add(node, page, version, ref);
}

void roami_notice_add_home(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref)
{
	roami_assert(roami_homes_of(node, page) != ROAM_HOMES_TAKEN);
	notice_add(node, page, version, (union roam_notice_ref){.home = ref});
}

void roami_notice_add_diff(struct roami_node *node, uint32_t page, uint64_t version, uint64_t diff)
{
	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	notice_add(node, page, version, (union roam_notice_ref){.diff = diff});
}

/* Other libraries may take roam's signal handlers (rule 1.9): checked about once a second. */
#define HANDLERS_CYCLES 3000000000u

static void release_check_handlers(struct roami_node *node)
{
	static const char text[] =
		"roam: another library took the SIGSEGV or SIGBUS handler; taken back\n";
	uint64_t now = roami_os_cycles(),
		 last =
			atomic_load_explicit(&release_of(node)->handlers_checked,
					     memory_order_relaxed);

	if (now - last < HANDLERS_CYCLES)
		return;
	atomic_store_explicit(&release_of(node)->handlers_checked, now, memory_order_relaxed);
	if (pages_of(node)->engine->check_handlers == NULL ||
	    pages_of(node)->engine->check_handlers(pages_of(node)->engine_state))
		return;
	if (atomic_exchange(&release_of(node)->handlers_warned, 1) == 0 &&
	    write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		return;
}

/*
 * Nothing was written since the last release, and no other thread's release is under way: it may
 * hold what this thread learned of through the node's memory.  Lists are emptied with the lock
 * held, so it is looked at last.  Provisional pages become dirty ones, and dirty ones that an
 * acquire has sent are due: so they are looked at in this order.
 */
static bool release_idle(struct roami_node *node)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (roami_provisional_any(node) || atomic_load(&pages_of(node)->dirty_count) != 0 ||
	    atomic_load(&release_of(node)->interval_due) != 0 || roami_home_shared_any(node))
		return false;
	return atomic_load(&release_of(node)->interval_lock.held) == 0;
}

bool roami_release_needless(struct roami_node *node)
{
	roami_step(node);
	return node->protocol->writes == ROAM_WRITES_DIFF &&
	       atomic_load_explicit(&pages_of(node)->dirty_count, memory_order_relaxed) == 0 &&
	       release_idle(node);
}

/*
 * Of a page's notices, which the sort has put in any order, the newest: a home may have told of it
 * more than once, if others fetched it meanwhile.  An older notice behind it would hide it from
 * log_compact.
 */
static size_t notes_newest(struct roam_notice *notes, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++) {
		roami_contract(kept == 0 || notes[kept - 1].page <= notes[i].page);
		if (kept == 0 || notes[kept - 1].page != notes[i].page)
			notes[kept++] = notes[i];
		else if (notes[kept - 1].version <= notes[i].version)
			notes[kept - 1] = notes[i];
	}
	return kept;
}

static void interval_close(struct roami_node *node)
{
	struct roam_notice *notes = (void *)release_of(node)->note_work.items;

	roami_contract(roami_interval_entered(node));
	note_sort(notes, release_of(node)->note_work.count);
	roami_log_close_interval(node, notes,
				 notes_newest(notes, release_of(node)->note_work.count));
	release_of(node)->note_work.count = 0;
}

/* The protocol of one region releases its part of the dirty pages. */
static void release_region(struct roami_node *node, struct roami_region *region,
			   const struct roam_sync *sync, struct roam_dirty *dirty, size_t count)
{
	unsigned was;

	roami_contract(roami_interval_entered(node));
	roami_contract(count == 0 || roami_region_of(node, dirty[count - 1].page) == region);
	if (region->protocol->release == NULL)
		return;
	was = roami_region_enter(node, region);
	region->protocol->release(node, sync, dirty, count);
	roami_region_leave(node, was);
}

/*
 * Every protocol in use releases, whatever was written (rule 5.4).  `dirty` ascends by page, and so
 * do the regions from the last one, which lies lowest.
 */
static void release_all(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count)
{
	roami_contract(roami_interval_entered(node));
	for (unsigned i = node->region_count - 1; roami_regions_several(node) && i > 0; i--) {
		struct roami_region *region = &node->regions[i];
		size_t mine = 0;

		while (mine < count && roami_region_of(node, dirty[mine].page) == region)
			mine++;
		if (atomic_load(&region->active) != 0)
			release_region(node, region, sync, dirty, mine);
		dirty += mine;
		count -= mine;
	}
	release_region(node, node->regions, sync, dirty, count);
}

void roami_release(struct roami_node *node, const struct roam_sync *sync)
{
	struct roam_dirty *dirty;
	uint64_t start;
	size_t count;

	roami_wait_later(node);
	release_check_handlers(node);
	if (roami_release_needless(node))
		return;
	roami_returns_forget(node);
	start = roami_os_cycles();
	roami_interval_enter(node);
	roami_provisional_claim(node);
	count = dirty_hold(node, sync, dirty_take(node));
	dirty = (void *)release_of(node)->dirty_work.items;
	release_all(node, sync, dirty, count);
	dirty_finish_all(node, dirty, count);
	interval_close(node);
	roami_interval_leave(node);
	ROAMI_TIME(node->stats, overhead, roami_os_cycles() - start);
}

/* ----------------------------------------------------------------------- after others were told */

/* Leaves those deferred pages in page_work that are still to be closed; they are pending. */
static size_t deferred_hold(struct roami_node *node, size_t count)
{
	uint32_t *pages = (void *)release_of(node)->page_work.items;
	size_t deferred = 0;

	roami_contract(roami_interval_entered(node));
	for (size_t i = 0; i < count; i++) {
		uint32_t page = pages[i];
		struct roami_page *entry = roami_page_entry(node, page);
		uint8_t flags = atomic_load(&entry->flags);

		if ((flags & ROAMI_PAGE_KEEP) != 0 && (entry->heat & DEFERRED) != 0) {
			roami_page_hold(node, page);
			pages[deferred++] = page;
		} else if ((flags & ROAMI_PAGE_DIRTY) != 0) {
			roami_page_list(node, page);
		}
	}
	return deferred;
}

/* Whether no thread has written the page since its changes were sent; it is closed. */
static bool deferred_same(struct roami_node *node, uint32_t page)
{
	struct roami_page *entry = roami_page_entry(node, page);
	bool same;

	roami_contract(roami_page_pending(node, page) && entry->twin != 0);
	roami_step(node);
	roami_page_lock(node, page);
	same =
		pages_of(node)->diff->same(roami_page_bytes(node, page),
					   roami_twin_bytes(node, entry->twin),
				ROAMI_PAGE);
	roami_page_unlock(node, page);
	return same;
}

static void deferred_close(struct roami_node *node, uint32_t *pages, size_t count)
{
	size_t given = 0;

	roami_contract(roami_interval_entered(node));
	roami_page_close(node, pages, count, ROAM_READ);
	for (size_t i = 0; i < count; i++) {
		struct roami_page *entry = roami_page_entry(node, pages[i]);
		uint32_t twin = 0;

		entry->heat &= HEAT_MAX;
		if (deferred_same(node, pages[i])) {
			twin = roami_page_done_clean(node, pages[i]);
		} else {
			/* Another thread has written it: the next release sends that. */
			atomic_fetch_and(&entry->flags, (uint8_t)~ROAMI_PAGE_KEEP);
			roami_page_list(node, pages[i]);
			roami_page_done(node, pages[i]);
		}
		if (twin != 0)
			pages[given++] = twin;
	}
	dirty_taken(node);
	roami_twins_give(node, pages, given);
}

void roami_release_rest(struct roami_node *node)
{
	uint64_t start = roami_os_cycles();
	size_t count;

	roami_wait_end(node); /* roami_release began it */
	if (!atomic_load_explicit(&release_of(node)->deferred, memory_order_relaxed))
		return;
	atomic_store_explicit(&release_of(node)->announced, start, memory_order_relaxed);
	roami_interval_enter(node);
	atomic_store_explicit(&release_of(node)->deferred, false, memory_order_relaxed);
	count = deferred_hold(node, dirty_take(node));
	deferred_close(node, (void *)release_of(node)->page_work.items, count);
	roami_interval_leave(node);
	ROAMI_TIME(node->stats, overhead, roami_os_cycles() - start);
}

uint64_t roami_release_announced(const struct roami_node *node)
{
	return atomic_load_explicit(&release_of(node)->announced, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------- acquire */

/* Every protocol gets the notices of its own pages; they ascend by page. */
static void acquire_all(struct roami_node *node, const struct roam_sync *sync,
			const struct roam_notice *notices, size_t count)
{
	roami_contract(roami_interval_entered(node));
	while (count > 0) {
		struct roami_region *region = roami_region_of(node, notices->page);
		size_t mine = 1;
		unsigned was;

		while (mine < count && roami_region_of(node, notices[mine].page) == region)
			mine++;
		was = roami_region_enter(node, region);
		if (region->protocol->acquire != NULL)
			region->protocol->acquire(node, sync, notices, mine);
		roami_region_leave(node, was);
		notices += mine;
		count -= mine;
	}
}

/*
 * Hands the notices in apply_work to the protocols.  Under ScC what a protocol has to tell at once
 * gets an interval at once: by a later one it would come into lists that say more already, and
 * there the later of a page's notices counts.  Else it is told with the next release, though that
 * finds nothing dirty: the thread that wrote the page has not released yet.
 */
static void acquire_apply(struct roami_node *node, const struct roam_sync *sync)
{
	roami_contract(roami_interval_entered(node));
	note_sort((void *)release_of(node)->apply_work.items, release_of(node)->apply_work.count);
	acquire_all(node, sync, (void *)release_of(node)->apply_work.items,
		    release_of(node)->apply_work.count);
	if (release_of(node)->note_work.count > 0 && roami_scoped(node))
		interval_close(node);
	else if (release_of(node)->note_work.count > 0)
		atomic_store(&release_of(node)->interval_due, 1);
	ROAMI_COUNT(node->stats, notices_applied, release_of(node)->apply_work.count);
}

void roami_acquire_scope(struct roami_node *node, const struct roam_sync *sync,
			 struct roami_scope *scope)
{
	uint64_t start;

	roami_contract(roami_scoped(node) && scope->applied <= scope->number);
	roami_step(node);
	roami_hear(node);
	if (scope->applied == scope->number)
		return;
	start = roami_os_cycles();
	roami_interval_enter(node);
	roami_scope_collect(node, scope);
	acquire_apply(node, sync);
	roami_interval_leave(node);
	ROAMI_TIME(node->stats, overhead, roami_os_cycles() - start);
}

/* What was known of untouched pages is outdated, and so are pages written on the strength of it. */
static void acquire_provisionals(struct roami_node *node)
{
	roami_provisional_forget(node);
	if (!roami_provisional_any(node))
		return;
	roami_interval_enter(node);
	roami_provisional_claim(node);
	roami_interval_leave(node);
}

void roami_acquire(struct roami_node *node, const struct roam_sync *sync)
{
	struct roami_vclock target;
	uint64_t start;

	roami_step(node);
	roami_hear(node);
	acquire_provisionals(node); /* whether or not there are notices: homes write unseen */
	if (roami_log_fresh(node))
		return;
	start = roami_os_cycles();
	roami_interval_enter(node);
	roami_log_collect(node, &target);
	acquire_apply(node, sync);
	/* Only now: a second thread's request must not claim what is not done (rule 6.5). */
	roami_log_applied(node, &target);
	roami_interval_leave(node);
	ROAMI_TIME(node->stats, overhead, roami_os_cycles() - start);
}

void roami_met(struct roami_node *node)
{
	for (unsigned i = 0; i < node->region_count; i++) {
		struct roami_region *region = &node->regions[i];
		unsigned was;

		if (atomic_load(&region->active) == 0 || region->protocol->met == NULL)
			continue;
		roami_interval_enter(node);
		was = roami_region_enter(node, region);
		region->protocol->met(node);
		roami_region_leave(node, was);
		roami_interval_leave(node);
	}
}

static void release_fini(struct roami_node *node)
{
	roami_os_vec_free(&release_of(node)->dirty_work, sizeof(struct roam_dirty));
	roami_os_vec_free(&release_of(node)->apply_work, sizeof(struct roam_notice));
	roami_os_vec_free(&release_of(node)->note_work, sizeof(struct roam_notice));
	roami_os_vec_free(&release_of(node)->page_work, sizeof(uint32_t));
}

const struct roami_room roami_room_release = {
	.name = "release",
	.state_size = sizeof(struct roami_release),
	.fini = release_fini,
};
