/*
 * lrc: homeless lazy release consistency.
 *
 * Paper: Keleher, Cox, Dwarkadas and Zwaenepoel, TreadMarks: Distributed Shared Memory on Standard
 * Workstations and Operating Systems (1994).
 *
 * Idea.  No page has a home.  Releases cut a node's time into intervals and send nothing.  Write
 * notices of intervals travel with locks and barriers; a node that acquires makes the pages that
 * they name unreadable.  A fault then asks the writers, all at once, for the diffs that are
 * missing, and applies them to the copy that is still here.  A writer makes a diff as late as it
 * can: when it is asked, or when another node's notice makes its own page unreadable.  So a page
 * that one node writes in many intervals has one twin and one diff for all of them.
 *
 * Diffs are kept by their writers, in a bounded store.  When half the bound is used (a quarter, at
 * a full barrier), a node gives the oldest diffs to the pages' managers, whose copies become the
 * base: a node that asks for a diff that is gone takes the manager's page instead (rule 8.1).
 *
 * Page states: start (the first bytes here at node 0, none elsewhere); stale, a copy that must not
 * be read; copy.
 *
 * Messages: diffs and page, requests of a fault; marks, base and patch, from a node that makes room
 * to a page's manager: asking which diffs it has; a first copy; diffs.
 *
 * The order of diffs.  Each has a key, one more than any in the copy that it was made of.  If a
 * write in diff D happened before one in diff E to the same byte, E's writer had to apply D first,
 * so D has the smaller key, and diffs are applied in the order of their keys.  A node that asks for
 * E asks for D too, for three reasons:
 * - All notices of a page that one acquire brings are noted at once.
 * - A notice counts up to the interval that the acquire shows, though the log may know a later one.
 * - Another node's notice ends the diff of a page, even if the page has the writes that the notice
 *   names: a longer diff could contain writes made after the notice.
 *
 * A copy is *closed* then: it has a diff only together with what happened before that diff.
 *
 * A copy's marks say for each writer up to which interval (have) and which diff (key) it is
 * complete; `need` is the newest interval that a notice named, `top` the key that the copy was at
 * before a base took its place.
 *
 * Handlers take page locks only, and never wait or park.
 *
 * Differences from the paper, and why:
 * - Keys instead of vector clocks order diffs: eight bytes, and no search for the least one.
 * - Collection needs no second barrier, and works without barriers: see above.
 * - A node without a copy takes that of the busiest writer, stale or not, and asks for the rest.
 * - A page that is being written is given without its open writes: a byte that is changed and
 *   changed back would be in no diff.
 */
#include "lrc.h"

#define BATCH 256u /* pages of an acquire handled at a time */

/* --------------------------------------------------------------------------------------- faults */

static bool lrc_lacks(const struct lrc_from *from)
{
	return from->need > from->mark.have || from->top > from->mark.key;
}

/* Whether the copy must not be read; under the page lock. */
static bool lrc_stale(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned me = roami_me(node);

	roami_contract_locked(node, page);
	for (unsigned i = 0; i < roami_count(node); i++)
		if (i == me ? data->from[i].top > data->from[i].mark.key
			    : lrc_lacks(&data->from[i]))
			return true;
	return !lrc_has(node, page);
}

/* A node that certainly has a copy; under the page lock. */
static unsigned lrc_holder(struct roami_node *node, uint32_t page)
{
	const struct lrc_page *data = lrc_page(node, page);
	unsigned holder = 0;

	roami_contract_locked(node, page);
	for (unsigned i = 0; i < roami_count(node); i++)
		if (i != roami_me(node) && data->from[i].need > data->from[holder].need)
			holder = i;
	return holder;
}

/* Fetches the diffs that the copy lacks; false: some are gone. */
static bool lrc_fetch_diffs(struct roami_node *node, uint32_t page)
{
	struct lrc_page *data = lrc_page(node, page);
	struct lrc_ask asks[LRC_NODES_MAX];
	struct lrc_stream streams[LRC_NODES_MAX];
	bool wanted[LRC_NODES_MAX], gone;
	struct lrc_item item;
	const uint8_t *bytes;
	unsigned count;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	for (unsigned i = 0; i < roami_count(node); i++) {
		const struct lrc_from *from = &data->from[i];

		wanted[i] = i == roami_me(node) ? from->top > from->mark.key : lrc_lacks(from);
		asks[i] = (struct lrc_ask){page, 0, from->mark.key,
					   i == roami_me(node) ? 0 : from->need, from->top};
	}
	roami_page_unlock(node, page);
	count = lrc_call(node, asks, wanted, streams, &gone);
	if (gone)
		return false;
	roami_page_lock(node, page);
	while (lrc_next(node, streams, count, &item, &bytes))
		lrc_patch_one(node, page, &item, bytes);
	for (unsigned i = 0; i < count; i++) {
		struct lrc_mark *mark = &data->from[streams[i].writer].mark;

		if (streams[i].answer.next == 0 && streams[i].at == streams[i].end &&
		    mark->have < streams[i].answer.have)
			mark->have = streams[i].answer.have;
	}
	roami_page_unlock(node, page);
	return true;
}

/* Makes the pending page's copy as new as the notices ask. */
static void lrc_validate(struct roami_node *node, uint32_t page)
{
	unsigned manager = roami_manager(node, page), me = roami_me(node), holder;

	roami_contract_pending(node, page);
	for (;;) {
		bool has, good;

		roami_page_lock(node, page);
		has = lrc_has(node, page);
		good = !lrc_stale(node, page);
		holder = lrc_holder(node, page);
		if (good && roami_page_state(node, page) != LRC_COPY)
			roami_page_move(node, page, LRC_COPY);
		roami_page_unlock(node, page);
		if (good)
			return;
		if (!has)
			lrc_fetch_page(node, page, holder);
		else if (!lrc_fetch_diffs(node, page) && manager != me)
			lrc_fetch_page(node, page, manager);
	}
}

static void lrc_read_fault(struct roami_node *node, uint32_t page)
{
	lrc_validate(node, page);
	roami_page_open(node, page, 1, ROAM_READ);
}

/* -------------------------------------------------------------------------- release and acquire */

/* What a notice means for a page. */
struct lrc_named {
	uint32_t page;
	bool stale;
	bool twin;
};

/*
 * Makes the page pending and finds what the notice means for it; false: nothing, and the page is
 * not pending.
 */
static bool lrc_look(struct roami_node *node, uint32_t page, struct lrc_named *named)
{
	roami_page_hold(node, page);
	roami_page_lock(node, page);
	named->page = page;
	named->stale = roami_page_state(node, page) == LRC_COPY && lrc_stale(node, page);
	named->twin = roami_page_has_twin(node, page);
	roami_page_unlock(node, page);
	if (!named->stale && !named->twin)
		roami_page_done(node, page);
	return named->stale || named->twin;
}

/*
 * Ends the diff of a pending page that cannot be written.  Open writes that are in no diff yet get
 * a notice.
 */
static void lrc_end_diff(struct roami_node *node, uint32_t page)
{
	uint8_t diff[ROAM_DIFF_MAX];
	size_t bytes = 0;

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) != ROAM_WRITE);
	lrc_make_room(node);
	roami_page_lock(node, page);
	if (roami_page_has_twin(node, page)) {
		if (lrc_page(node, page)->twin == 0)
			roami_notice_add(node, page, 0);
		bytes = lrc_seal(node, page, diff);
	}
	roami_page_unlock(node, page);
	roami_diff_show(node, page, diff, bytes);
	roami_page_clean(node, page);
}

/*
 * Notes the page's writes of this interval, which are in its twin, or all in an older interval's
 * diff. While diffs are checked, each interval has a diff of its own.
 */
static void lrc_release_page(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_checks_races(node)) {
		lrc_end_diff(node, page);
		return;
	}
	lrc_make_room(node);
	roami_page_lock(node, page);
	if (roami_page_has_twin(node, page)) {
		if (lrc_page(node, page)->twin == 0)
			lrc_keep_twin(node, page);
		roami_notice_add(node, page, 0);
	}
	roami_page_unlock(node, page);
}

static void lrc_release(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count)
{
	if (sync->kind == ROAM_SYNC_BARRIER && sync->full)
		lrc_make_room_early(node);
	for (size_t i = 0; i < count; i++)
		lrc_release_page(node, dirty[i].page);
}

/*
 * Closes pages that notices named, and ends their diffs: a node that knows only the older of this
 * node's intervals must not get, with them, writes made after this acquire.
 */
static void lrc_cut(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct lrc_named named[BATCH];
	uint32_t closing[BATCH];
	size_t kept = 0, used = 0;

	roami_assert(count <= BATCH);
	for (size_t i = 0; i < count; i++)
		kept += lrc_look(node, pages[i], &named[kept]);
	for (size_t i = 0; i < kept; i++)
		if (!named[i].stale)
			closing[used++] = named[i].page;
	roami_page_close(node, closing, used, ROAM_READ);
	used = 0;
	for (size_t i = 0; i < kept; i++)
		if (named[i].stale)
			closing[used++] = named[i].page;
	roami_page_close(node, closing, used, ROAM_NONE);
	for (size_t i = 0; i < kept; i++) {
		if (named[i].twin)
			lrc_end_diff(node, named[i].page);
		roami_page_lock(node, named[i].page);
		if (named[i].stale)
			roami_page_move(node, named[i].page, LRC_STALE);
		roami_page_unlock(node, named[i].page);
		roami_page_done(node, named[i].page);
	}
}

/* Notes all notices of the first page; returns their number. */
static size_t lrc_note(struct roami_node *node, const struct roam_notice *notices, size_t count)
{
	uint32_t page = notices[0].page;
	struct lrc_page *data = lrc_page(node, page);
	size_t at = 0;

	roami_page_lock(node, page);
	for (; at < count && notices[at].page == page; at++) {
		struct lrc_from *from = &data->from[notices[at].writer];

		roami_contract(notices[at].writer != roami_me(node));
		if (from->need < notices[at].interval)
			from->need = notices[at].interval;
	}
	roami_page_unlock(node, page);
	return at;
}

static void lrc_acquire(struct roami_node *node, const struct roam_sync *sync,
			const struct roam_notice *notices, size_t count)
{
	uint32_t pages[BATCH];
	size_t used = 0;

	(void)sync;
	for (size_t at = 0; at < count; at += lrc_note(node, notices + at, count - at)) {
		if (used == BATCH) {
			lrc_cut(node, pages, used);
			used = 0;
		}
		pages[used++] = notices[at].page;
	}
	lrc_cut(node, pages, used);
}

static void lrc_collect(struct roami_node *node, uint32_t page)
{
	bool stale;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	stale = lrc_stale(node, page);
	roami_page_unlock(node, page);
	if (stale)
		lrc_validate(node, page);
}

/* ---------------------------------------------------------------------------------------- tests */

/*
 * A page's manager has the diffs that a writer gave away; no copy has more of a writer than the
 * writer made; the store knows every twin with writes of a closed interval.
 */
static void lrc_check_page_of(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	unsigned manager = roami_manager(nodes[0], page);

	for (unsigned i = 0; i < count; i++) {
		const struct lrc_page *data = lrc_page(nodes[i], page);

		roami_assert(data->gone <= data->from[i].top);
		roami_assert(data->gone <= lrc_page(nodes[manager], page)->from[i].mark.key);
		roami_assert(data->twin == 0 || roami_page_has_twin(nodes[i], page));
		roami_assert(roami_page_state(nodes[i], page) == LRC_COPY ||
			     roami_page_access(nodes[i], page) == ROAM_NONE);
		for (unsigned j = 0; j < count; j++)
			roami_assert(data->from[j].mark.key <=
				     lrc_page(nodes[j], page)->from[j].top);
	}
}

static void lrc_check(struct roami_node *const *nodes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct lrc_node *lrc = roami_node_state(nodes[i]);

		roami_assert(lrc_used(nodes[i]) <= lrc->total / 2);
	}
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			lrc_check_page_of(nodes, count, page);
}

/* ---------------------------------------------------------------------------------------- table */

static enum roam_err lrc_init(struct roami_node *node)
{
	struct lrc_node *lrc = roami_node_state(node);

	lrc_store_open(node, roami_option(node, "ROAM_LRC_MEMORY"));
	lrc->total = lrc_store_left(node);
	return ROAM_OK;
}

static const struct roam_page_state lrc_states[] = {
	[LRC_START] = {"start", 1u << LRC_STALE | 1u << LRC_COPY},
	[LRC_STALE] = {"stale", 1u << LRC_COPY},
	[LRC_COPY] = {"copy", 1u << LRC_STALE},
	{NULL, 0},
};

static const struct roam_message lrc_messages[] = {
	[LRC_DIFFS] = {"diffs", lrc_diffs, sizeof(struct lrc_ask)},
	[LRC_PAGE] = {"page", lrc_page_asked, sizeof(uint32_t)},
	[LRC_MARKS] = {"marks", lrc_marks, sizeof(uint32_t)},
	[LRC_BASE] = {"base", lrc_base, LRC_COPY_MAX},
	[LRC_PATCH] = {"patch", lrc_patch, LRC_PATCH_BYTES},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_lrc = {
	.name = "lrc",
	.paper = "homeless lazy release consistency; TreadMarks, Keleher et al. 1994",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.checks_races = true,
	.node_size = sizeof(struct lrc_node),
	.page_size = sizeof(struct lrc_page),
	.page_node_size = sizeof(struct lrc_from),
	.scratch_size = LRC_PATCH_BYTES,
	.keeps_twins = true,
	.states = lrc_states,
	.messages = lrc_messages,
	.init = lrc_init,
	.read_fault = lrc_read_fault,
	.release = lrc_release,
	.acquire = lrc_acquire,
	.collect = lrc_collect,
	.check = lrc_check,
};
