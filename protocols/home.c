#include "home.h"

#define BATCH          512u /* pages handled at a time, on the stack */
#define SHARES_FIRST   2u
#define SHARES_WRITTEN 16u
#define ALONG          7u /* the most pages that come along with a fetch */

const struct roam_page_state home_states[] = {
	[HOME_INVALID] = {"invalid", 1u << HOME_COPY | 1u << HOME_MASTER | 1u << HOME_PROVISIONAL},
	[HOME_COPY] = {"copy", 1u << HOME_INVALID},
	[HOME_MASTER] = {"master", 0},
	[HOME_PROVISIONAL] = {"provisional", 1u << HOME_COPY | 1u << HOME_MASTER},
	{NULL, 0},
};

static struct home_page *home_page(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_ours(node, page));
	return roami_page_data(node, page);
}

/* -------------------------------------------------------------------------------------- faults */

void home_take(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_page_move(node, page, HOME_MASTER);
	roami_page_set_home(node, page, true);
	home_page(node, page)->shares = SHARES_FIRST;
}

void home_claimed(struct roami_node *node, uint32_t page)
{
	int32_t stride;
	uint32_t more = roami_home_claim_run(node, page, &stride);

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	for (uint32_t i = 0; i <= more; i++)
		home_take(node, page + i * (uint32_t)stride);
	roami_home_publish(node, page, more + 1, stride, 1);
	if (roami_checks_races(node)) {
		for (uint32_t i = 0; i <= more; i++)
			roami_page_open(node, page + i * (uint32_t)stride, 1, ROAM_READ);
	} else if (stride == 1) {
		roami_page_open(node, page, more + 1, ROAM_WRITE);
	} else {
		for (uint32_t i = 0; i <= more; i++)
			roami_page_open(node, page + i * (uint32_t)stride, 1, ROAM_WRITE);
	}
	for (uint32_t i = 1; i <= more; i++)
		roami_page_done(node, page + i * (uint32_t)stride);
}

/*
 * Makes this node the home, as another one asked (placement).  If there may be copies, writes must
 * be seen.
 */
static void home_adopted(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	roami_page_move(node, page, HOME_MASTER);
	roami_page_set_home(node, page, true);
	roami_page_open(node, page, 1,
			roami_home_is_shared(node, page) || roami_checks_races(node) ? ROAM_READ
										     : ROAM_WRITE);
}

/* Notes that a fetch brought `version`; false: a notice came that asks for a newer one. */
static bool home_fresh(struct roami_node *node, uint32_t page, uint64_t version)
{
	struct home_page *data = home_page(node, page);
	bool good;

	roami_contract_pending(node, page);
	roami_contract(!roami_page_is_home(node, page));
	roami_page_lock(node, page);
	home_has(data, version);
	good = !home_stale(data);
	if (good)
		roami_page_move(node, page, HOME_COPY);
	roami_page_unlock(node, page);
	return good;
}

void home_fetch_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	while (count > 0) {
		unsigned again = 0;

		roami_fetch_all(node, list, count);
		for (unsigned i = 0; i < count; i++) {
			roami_contract(list[i].home != roami_me(node));
			if (list[i].result != ROAM_FETCH_OK)
				roami_node_fail(node, "page %u: its home is not node %u",
						list[i].page, list[i].home);
			if (!home_fresh(node, list[i].page, list[i].version))
				list[again++] = list[i];
		}
		count = again;
	}
}

/* Whether `page` is worth fetching ahead; if so, it is pending on return. */
static bool home_wants(struct roami_node *node, uint32_t page, unsigned *home_p)
{
	if (roami_page_access(node, page) != ROAM_NONE || !roami_page_try(node, page))
		return false;
	if (roami_page_state(node, page) == HOME_INVALID) {
		*home_p = roami_home_lookup(node, page);
		if (*home_p != ROAM_NOBODY && *home_p != roami_me(node)) {
			home_expect(node, page);
			return true;
		}
	}
	roami_page_done(node, page);
	return false;
}

void home_open_run(struct roami_node *node, uint32_t first, uint32_t count)
{
	if (count == 0)
		return;
	roami_contract(roami_page_state(node, first) == roami_page_state(node, first + count - 1));
	roami_page_open(node, first, count, ROAM_READ);
	for (uint32_t i = 0; i < count; i++)
		roami_page_done(node, first + i);
}

/* Pages in a row that are opened together. */
struct home_run {
	uint32_t first;
	uint32_t count;
};

static void home_run_open(struct roami_node *node, struct home_run *run)
{
	home_open_run(node, run->first, run->count);
	run->count = 0;
}

static void home_run_add(struct roami_node *node, struct home_run *run, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_fetched_ahead(node);
	if (run->count == 0 || page != run->first + run->count) {
		home_run_open(node, run);
		run->first = page;
	}
	run->count++;
}

#define AHEAD_AT_ONCE 64u

static void home_ahead_take(struct roami_node *node, struct roam_fetch_one *list, unsigned count,
			    home_fetch_fn *fetch)
{
	uint32_t pages[AHEAD_AT_ONCE];
	struct home_run run = {0, 0};

	roami_assert(count <= AHEAD_AT_ONCE);
	for (unsigned i = 0; i < count; i++)
		pages[i] = list[i].page;
	fetch(node, list, count);
	for (unsigned i = 0; i < count; i++)
		home_run_add(node, &run, pages[i]);
	home_run_open(node, &run);
}

void home_ahead(struct roami_node *node, uint32_t from, uint32_t pages, int32_t stride)
{
	home_ahead_by(node, from, pages, stride, home_fetch_all);
}

void home_ahead_by(struct roami_node *node, uint32_t from, uint32_t pages, int32_t stride,
		   home_fetch_fn *fetch)
{
	struct roam_fetch_one list[AHEAD_AT_ONCE];
	unsigned count = 0;

	for (uint32_t i = 0; i < pages; i++) {
		int64_t next = (int64_t)from + (int64_t)stride * i;

		if (next < 0 || next >= roami_pages(node))
			break;
		if (!home_wants(node, (uint32_t)next, &list[count].home))
			continue;
		list[count++].page = (uint32_t)next;
		if (count == AHEAD_AT_ONCE) {
			home_ahead_take(node, list, count, fetch);
			count = 0;
		}
	}
	home_ahead_take(node, list, count, fetch);
}

bool home_mine(struct roami_node *node, uint32_t page, unsigned *home_p)
{
	bool claimed;

	roami_contract_pending(node, page);
	*home_p = roami_home_claim(node, page, &claimed);
	if (claimed)
		home_claimed(node, page);
	else if (*home_p == roami_me(node))
		home_adopted(node, page);
	return *home_p == roami_me(node);
}

/* Whether `page` comes along with a fetch from `home`; if so, it is pending on return. */
static bool home_goes_along(struct roami_node *node, uint32_t page, unsigned home)
{
	if (page >= roami_pages(node) || !roami_page_again(node, page, home) ||
	    !roami_page_try(node, page))
		return false;
	if (roami_page_ours(node, page) && roami_page_state(node, page) == HOME_INVALID) {
		home_expect(node, page);
		return true;
	}
	roami_page_done(node, page);
	return false;
}

/* home_goes_along for the next page of a row that this node writes. */
static bool home_in_row(struct roami_node *node, uint32_t page, unsigned home)
{
	unsigned its;

	if (!roami_page_ours(node, page) || !home_wants(node, page, &its))
		return false;
	if (its == home)
		return true;
	roami_page_done(node, page);
	return false;
}

/*
 * The node will probably read again the pages behind this one that it had and lost, and write the
 * pages behind a row that it writes: these cost less along with this page than by fetches of their
 * own.
 */
void home_read_fault(struct roami_node *node, uint32_t page)
{
	struct roam_fetch_one list[ALONG + 1];
	unsigned home, count = 1;
	bool row;

	roami_contract_pending(node, page);
	roami_contract(roami_page_state(node, page) == HOME_INVALID);
	if (home_mine(node, page, &home))
		return;
	home_expect(node, page);
	row = roami_page_in_row(node, page, home);
	list[0] = (struct roam_fetch_one){.page = page, .home = home};
	roami_page_asked(node, page);
	for (; count <= ALONG; count++) {
		if (!(row && home_in_row(node, page + count, home)) &&
		    !home_goes_along(node, page + count, home))
			break;
		list[count] = (struct roam_fetch_one){.page = page + count, .home = home};
	}
	home_fetch_all(node, list, count);
	roami_page_open(node, page, count, ROAM_READ);
	for (unsigned i = 1; i < count; i++) {
		roami_fetched_ahead(node);
		roami_page_done(node, page + i);
	}
}

/* ------------------------------------------------------------------------------------- release */

static bool dirty_has(const struct roam_dirty *dirty, size_t count, uint32_t page)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (dirty[middle].page == page)
			return true;
		if (dirty[middle].page < page)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* What to tell of a newly shared page that is not in this release's list. */
enum home_news {
	HOME_SEEN,   /* nothing was written unseen */
	HOME_UNSEEN, /* it is open, and may have been written unseen */
	HOME_LATE    /* a handler closed it, or gave it away, since the list was made */
};

/* What to tell of a page; it is pending on return, unless there is nothing to tell. */
static enum home_news home_news(struct roami_node *node, uint32_t page)
{
	roami_page_hold(node, page);
	if (roami_page_dirty(node, page))
		return HOME_LATE;
	if (roami_page_state(node, page) == HOME_MASTER &&
	    roami_page_access(node, page) == ROAM_WRITE)
		return HOME_UNSEEN;
	roami_page_done(node, page);
	return HOME_SEEN;
}

/*
 * Whether own pages of which other nodes have copies may stay open.  If the protocol must see all
 * writes, only when all copies end before a thread of this node writes again: else that thread
 * could write a byte that a copy still lacks.
 */
static bool home_may_open(struct roami_node *node, const struct roam_sync *sync)
{
	return !roami_closes_homes(node) || sync->idle;
}

/*
 * Whether an own page with HOME_UNSEEN, which gets a new version either way, stays open.  Left
 * open, it is marked as not shared, and the next fetch reports it again; otherwise it is protected,
 * and its next write is seen.  Protecting costs a fault if the page is written in the next
 * interval, leaving it open a fetch by each reader if it is not.  It is left open at first and
 * after a write that was seen, until `shares` is 0; then it is protected, to find out.
 */
static bool home_leave_open(struct roami_node *node, const struct roam_sync *sync, uint32_t page)
{
	struct home_page *data = home_page(node, page);

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_WRITE);
	if (data->shares == 0 || !home_may_open(node, sync) || roami_home_wanted(node, page) ||
	    !roami_home_unshare(node, page))
		return false;
	data->shares--;
	return true;
}

/*
 * The version for the notice that a page without a change gets under ScC: the section may have
 * written, unchanged, a byte that this node wrote or read before it, and a copy may be older than
 * that byte.  The version is never less than the held locks tell already, because the later of two
 * notices of a page in a list counts.
 */
static uint64_t home_silent(struct roami_node *node, uint32_t page)
{
	const struct home_scoped_page *data = roami_page_data(node, page);
	uint64_t version = data->sent > data->page.have ? data->sent : data->page.have;

	roami_assert(roami_model(node) == ROAM_MODEL_SCC);
	roami_contract_pending(node, page);
	return version > home_need(&data->page) ? version : home_need(&data->page);
}

/* Gives a page of this home a new version, and a notice. */
static void home_tell(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_is_home(node, page));
	roami_notice_add(node, page, roami_home_version_bump(node, page));
}

/*
 * Gives notice of a page that a handler closed or gave away: the bytes have this interval's writes,
 * though the page comes only in the next release's list.
 */
static void home_publish_late(struct roami_node *node, uint32_t page)
{
	const struct home_page *data = home_page(node, page);

	roami_contract_pending(node, page);
	roami_contract(roami_page_dirty(node, page));
	if (roami_page_state(node, page) == HOME_MASTER)
		home_tell(node, page);
	else if (roami_model(node) == ROAM_MODEL_SCC)
		roami_notice_add(node, page, home_silent(node, page));
	else
		roami_notice_add(node, page, data->have);
	roami_page_done(node, page);
}

/* Gives notice of pages, ascending, that are not in the release's list; others get it later. */
static void home_publish(struct roami_node *node, const struct roam_sync *sync, uint32_t *pages,
			 size_t count)
{
	size_t closing = 0;

	roami_assert(count <= BATCH);
	for (size_t i = 0; i < count; i++) {
		enum home_news news = home_news(node, pages[i]);

		if (news == HOME_LATE) {
			home_publish_late(node, pages[i]);
		} else if (news == HOME_UNSEEN && home_leave_open(node, sync, pages[i])) {
			home_tell(node, pages[i]);
			roami_page_done(node, pages[i]);
		} else if (news == HOME_UNSEEN) {
			pages[closing++] = pages[i];
		}
	}
	roami_page_close(node, pages, closing, ROAM_READ);
	for (size_t i = 0; i < closing; i++) {
		home_tell(node, pages[i]);
		roami_home_shut(node, pages[i]);
		roami_page_done(node, pages[i]);
	}
}

void home_publish_shared(struct roami_node *node, const struct roam_sync *sync,
			 const struct roam_dirty *dirty, size_t count)
{
	uint32_t pages[BATCH];
	size_t got;

	while ((got = roami_home_shared(node, pages, BATCH)) > 0) {
		size_t others = 0;

		got = roami_pages_sort(pages, got);
		for (size_t i = 0; i < got; i++)
			if (!dirty_has(dirty, count, pages[i]))
				pages[others++] = pages[i];
		home_publish(node, sync, pages, others);
	}
}

/*
 * Handles the home's answer: this node's copy is current if no other diff came between (rule 6.2).
 * The page is pending and no thread of this node acquires meanwhile, so `have` does not change.
 */
void home_answered(struct roami_node *node, const struct roam_dirty *dirty, uint32_t ref)
{
	struct home_page *data = home_page(node, dirty->page);
	bool scoped = roami_model(node) == ROAM_MODEL_SCC;

	roami_assert(!dirty->home);
	roami_contract_pending(node, dirty->page);
	if (!dirty->changed) {
		if (scoped)
			roami_notice_add_home(node, dirty->page, home_silent(node, dirty->page),
					      ref);
		return;
	}
	if (dirty->version == data->have + 1)
		home_has(data, dirty->version);
	if (scoped)
		((struct home_scoped_page *)data)->sent = dirty->version;
	roami_notice_add_home(node, dirty->page, dirty->version, ref);
}

/*
 * Leaves an own shared page open for a while, after a write to it was seen.  It has not been closed
 * since the write, unless the protocol wants to see all writes.  A page that cards read is closed
 * instead (rule 12.2).
 */
void home_written(struct roami_node *node, const struct roam_sync *sync, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_checks_races(node)) {
		roami_race_note_home(node, page);
	} else if (home_may_open(node, sync)) {
		home_page(node, page)->shares = SHARES_WRITTEN;
		if (!roami_home_unshare(node, page) &&
		    roami_page_access(node, page) == ROAM_WRITE)
			roami_page_close(node, &page, 1, ROAM_READ);
	}
	home_tell(node, page);
}

void home_flush(struct roami_node *node, const struct roam_sync *sync, struct roam_dirty *dirty,
		size_t count)
{
	uint16_t homes[BATCH];

	while (count > 0) {
		size_t some = count < BATCH ? count : BATCH;

		for (size_t i = 0; i < some; i++) {
			homes[i] = (uint16_t)roami_home_lookup(node, dirty[i].page);
			roami_contract(i == 0 || dirty[i - 1].page < dirty[i].page);
			if (dirty[i].home)
				home_written(node, sync, dirty[i].page);
		}
		roami_flush(node, dirty, homes, some);
		for (size_t i = 0; i < some; i++)
			if (!dirty[i].home)
				home_answered(node, &dirty[i], 0);
		dirty += some;
		count -= some;
	}
}

/* ------------------------------------------------------------------------------------- acquire */

/* A fetch under way checks the version itself. */
bool home_needs(struct roami_node *node, const struct roam_notice *notice)
{
	struct home_page *data = home_page(node, notice->page);
	bool stale;

	roami_contract(notice->writer < roami_count(node) && notice->writer != roami_me(node));
	if (roami_page_is_home(node, notice->page))
		return false;
	roami_page_lock(node, notice->page);
	if (home_need(data) < notice->version)
		home_set(data, data->have, notice->version);
	stale = roami_page_state(node, notice->page) == HOME_COPY && home_stale(data);
	roami_page_unlock(node, notice->page);
	return stale;
}

/*
 * Drops the copies of `pages`, ascending.  The diffs of dirty ones go home first, once the pages
 * are closed.
 */
static void home_drop(struct roami_node *node, const struct roam_sync *sync, uint32_t *pages,
		      size_t count, home_flush_fn *give)
{
	struct roam_dirty dirty[BATCH];
	size_t stale = 0, flush = 0;

	roami_assert(count <= BATCH);
	for (size_t i = 0; i < count; i++) {
		struct home_page *data = home_page(node, pages[i]);

		roami_page_hold(node, pages[i]);
		if (roami_page_state(node, pages[i]) == HOME_COPY && home_stale(data))
			pages[stale++] = pages[i];
		else
			roami_page_done(node, pages[i]);
	}
	roami_page_close(node, pages, stale, ROAM_NONE);
	for (size_t i = 0; i < stale; i++)
		if (roami_page_dirty(node, pages[i]))
			dirty[flush++] = (struct roam_dirty){.page = pages[i]};
	give(node, sync, dirty, flush);
	for (size_t i = 0; i < stale; i++) {
		roami_page_lock(node, pages[i]);
		roami_page_move(node, pages[i], HOME_INVALID);
		roami_page_unlock(node, pages[i]);
		roami_page_clean(node, pages[i]);
		roami_page_done(node, pages[i]);
	}
}

void home_invalidate(struct roami_node *node, const struct roam_sync *sync,
		     const struct roam_notice *notices, size_t count, home_flush_fn *flush)
{
	uint32_t pages[BATCH];
	size_t stale = 0;

	for (size_t i = 0; i < count; i++) {
		roami_assert(i == 0 || notices[i - 1].page <= notices[i].page);
		if (!home_needs(node, &notices[i]) ||
		    (stale > 0 && pages[stale - 1] == notices[i].page))
			continue;
		if (stale == BATCH) {
			home_drop(node, sync, pages, stale, flush);
			stale = 0;
		}
		pages[stale++] = notices[i].page;
	}
	home_drop(node, sync, pages, stale, flush);
}

bool home_evict(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(!roami_page_dirty(node, page));
	if (roami_page_state(node, page) != HOME_COPY)
		return false;
	roami_page_close(node, &page, 1, ROAM_NONE);
	roami_page_lock(node, page);
	roami_page_move(node, page, HOME_INVALID);
	roami_page_unlock(node, page);
	return true;
}

/* --------------------------------------------------------------------------------------- tests */

void home_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++) {
		unsigned masters = 0;

		if (!roami_page_ours(nodes[0], page))
			continue;
		for (unsigned i = 0; i < count; i++) {
			bool master = roami_page_state(nodes[i], page) == HOME_MASTER;

			masters += master;
			roami_assert(master || !roami_page_is_home(nodes[i], page));
			roami_assert(master || !home_stale(home_page(nodes[i], page)) ||
				     roami_page_state(nodes[i], page) == HOME_INVALID ||
				     roami_page_pending(nodes[i], page));
		}
		roami_assert(masters <= 1);
	}
}
