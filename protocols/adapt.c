/*
 * adapt: home-based release consistency that finds out how each page is shared.  A system of its
 * own, no paper's: docs/adapt.md is its design note.
 *
 * Paper: none.  The parts are those of hlrc (Rangarajan and Iftode 2000), of JUMP's migrating home
 * (Cheung, Wang and Hwang 1999) and of Munin's choice by sharing pattern (Carter, Bennett and
 * Zwaenepoel 1991), here per page, observed, and without the home's CPU.
 *
 * Idea.  As hlrc, but a home may be taken: a node that is about to write a page of which it has a
 * current copy becomes its home, if the home has not opened the page since.  No byte of the page
 * moves, and where memory is shared no message is sent.  And a home whose page other nodes read
 * makes diffs, and leaves them in its diff log (adapt_log_leave), which other nodes can read;
 * a node that acquires brings its copy up to date by the diffs that it lacks.
 *
 * - Private, or one writer: the writer becomes home at its first write, for good, and writes
 *   without twin and diff, over barriers without a fault.
 * - Migratory, under a lock: an unlock closes the home's page, so the next node that locks, reads
 *   and writes takes it along.
 * - Producer and consumers: the producer is home.  If it changes nearly all of the page, the
 *   consumers fetch it; else they get its diffs at each acquire, as long as they read the page.
 * - False sharing: all writers make diffs, the home too; no node fetches, and over barriers no node
 *   faults: a node that writes a page in every interval keeps it open with its twin, even the home.
 *
 * Where a page is.  The directory word always names the home, or the node that was home a moment
 * ago.  Nodes remember it; the header of a node that is not home any more says so, and they look
 * again.
 *
 * Page states: invalid -> copy, invalid -> master at the home; copy -> invalid, copy -> master at
 * the node that takes the home; master -> copy at the node that has lost it, once it finds out.  It
 * may read the page until then: its copy was current when the home was taken.
 *
 * Messages: none of its own.  Without shared memory the core asks the home (roami_home_take).
 *
 * What keeps it right:
 * - The home says that it has a page open before it writes, and shuts it when the page is closed
 *   and every node that may have a copy will hear of the writes.
 * - A node that stores a diff holds the home meanwhile; if the home is not there any more, it looks
 *   again.
 * - A page taken counts as one that other nodes have copies of: its writes are seen.
 * - While a home has a twin, the home itself applies other nodes' diffs (roami_home_twin), for its
 *   twin must have them, and the home cannot be taken while they travel.  A copy fetched meanwhile
 *   has writes that are in no diff, so it is not updated, and the home hears of it.
 * - Diffs are applied in the order of their versions, none missing.
 */
#include "adapt.h"

#define BATCH        512u /* pages handled at a time, on the stack */
#define TRIES_MAX    6u   /* refusals that are counted: up to 62 writes between two requests */
#define ALONE        2u   /* diffs in a row with no other node's between them */
#define SPARSE       (ROAM_PAGE_SIZE / 16 * 15) /* the most bytes of a diff worth leaving */
#define DENSE        2u  /* diffs in a row too long to leave: the next write goes without a twin, */
#define DENSE_OPEN   16u /* and this many releases leave the page open */
#define ROUNDS       16u /* releases of a home with a twin, in which some node must read a diff, */
#define ROUNDS_FIRST 4u  /* and the first number of them */
#define RUN          15u /* pages of this home opened ahead */

static const struct roam_page_state adapt_states[] = {
	[HOME_INVALID] = {"invalid", 1u << HOME_COPY | 1u << HOME_MASTER},
	[HOME_COPY] = {"copy", 1u << HOME_INVALID | 1u << HOME_MASTER},
	[HOME_MASTER] = {"master", 1u << HOME_COPY},
	{NULL, 0},
};

/* ---------------------------------------------------------------------------------- the home */

void adapt_look(struct roami_node *node, uint32_t page)
{
	uint64_t version;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	if (roami_home_lost(node, page, &version)) {
		roami_page_move(node, page, HOME_COPY);
		home_kept(&adapt_page(node, page)->home, version);
		adapt_page(node, page)->exact = 1;
	}
	roami_page_unlock(node, page);
}

/*
 * Makes a twin of a page of this home that other nodes have read and that is about to be written,
 * if diffs may spare these nodes fetching the page.
 */
static void adapt_twin(struct roami_node *node, uint32_t page)
{
	struct adapt_page *data = adapt_page(node, page);

	roami_contract_pending(node, page);
	roami_contract(roami_page_is_home(node, page));
	if (!roami_posts_on(node))
		return;
	if (!data->met)
		data->met = 1; /* no node has fetched the page twice yet */
	else if (data->dense == DENSE)
		data->dense--; /* decided again after the next diff */
	else
		roami_home_twin(node, page, true);
}

/*
 * The version that the copy has; another thread's acquire may change the version that it must have.
 */
static uint64_t adapt_has(struct roami_node *node, uint32_t page)
{
	uint64_t have;

	roami_page_lock(node, page);
	have = adapt_page(node, page)->home.have;
	roami_page_unlock(node, page);
	return have;
}

/*
 * Tries to make this node, which is about to write its current copy of the pending page, the page's
 * home.  After refusals the node asks less and less often: the home has the page open each time.
 */
static bool adapt_take(struct roami_node *node, uint32_t page)
{
	struct adapt_page *data = adapt_page(node, page);
	bool again;

	roami_contract_pending(node, page);
	roami_contract(roami_page_state(node, page) == HOME_COPY);
	if (roami_checks_races(node))
		return false;
	if (data->wait > 0) {
		data->wait--;
		return false;
	}
	if (!roami_home_take(node, page, adapt_has(node, page))) {
		if (data->tries < TRIES_MAX)
			data->tries++;
		data->wait = ((1u << data->tries) - 2) & 63u;
		return false;
	}
	roami_page_lock(node, page);
	roami_page_move(node, page, HOME_MASTER);
	data->home.shares = 0;
	data->own = 0;
	data->rounds = 0;
	again = data->placed;
	data->placed = 1;
	data->taken = 1;
	roami_page_unlock(node, page);
	if (again)
		adapt_twin(node, page);
	return true;
}

/* -------------------------------------------------------------------------------------- faults */

/* Whether a fetch has brought a copy that is new enough; if not, one->home is the home to ask. */
static bool adapt_fetched(struct roami_node *node, struct roam_fetch_one *one)
{
	struct adapt_page *data = adapt_page(node, one->page);
	bool good;

	roami_contract_pending(node, one->page);
	roami_contract(roami_page_state(node, one->page) == HOME_INVALID);
	if (one->result > ROAM_FETCH_OPEN) {
		one->home = roami_home_again(node, one->page);
		return false;
	}
	roami_page_lock(node, one->page);
	home_has(&data->home, one->version);
	data->own = 0;
	data->updates = 0;
	data->keen = data->seen;
	data->seen = 1;
	data->exact = one->result == ROAM_FETCH_OK;
	good = !home_stale(&data->home);
	if (good)
		roami_page_move(node, one->page, HOME_COPY);
	roami_page_unlock(node, one->page);
	return good;
}

static void adapt_fetch(struct roami_node *node, struct roam_fetch_one *list, unsigned count)
{
	while (count > 0) {
		unsigned again = 0;

		roami_fetch_all(node, list, count);
		for (unsigned i = 0; i < count; i++)
			if (!adapt_fetched(node, &list[i]))
				list[again++] = list[i];
		count = again;
	}
}

static void adapt_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	home_ahead_by(node, first, count, stride, adapt_fetch);
}

/* Opens a page placed here before any node touched it; false: its home was taken since. */
static bool adapt_placed(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_page_wants_write(node, page) ? !roami_home_open(node, page)
					       : roami_home_here(node, page) == 0)
		return false;
	roami_page_move(node, page, HOME_MASTER);
	roami_page_set_home(node, page, true);
	roami_page_open(node, page, 1, ROAM_READ);
	return true;
}

/* true: this node is the page's home, and the page is open; false: a copy is in place. */
static bool adapt_mine(struct roami_node *node, uint32_t page)
{
	struct roam_fetch_one one = {.page = page};
	bool claimed;

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	one.home = roami_home_claim(node, page, &claimed);
	if (claimed) {
		home_claimed(node, page);
		return true;
	}
	if (one.home == roami_me(node)) {
		if (adapt_placed(node, page))
			return true;
		one.home = roami_home_again(node, page);
	}
	adapt_fetch(node, &one, 1);
	return false;
}

static void adapt_read_fault(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_page_state(node, page) == HOME_COPY)
		adapt_page(node, page)->updates = 0; /* closed to see whether it is read: it is */
	else if (adapt_mine(node, page))
		return;
	if (roami_page_wants_write(node, page))
		adapt_take(node, page);
	roami_page_open(node, page, 1, ROAM_READ);
}

/* Opens `page` and own pages behind it that no other node has: they will be written next. */
static void adapt_open_run(struct roami_node *node, uint32_t page)
{
	uint32_t end = page + 1;

	roami_contract_pending(node, page);
	while (end - page <= RUN && end < roami_pages(node) && roami_page_ours(node, end) &&
	       roami_page_access(node, end) == ROAM_READ && roami_page_try(node, end)) {
		if (roami_page_access(node, end) != ROAM_READ || !roami_page_is_home(node, end) ||
		    !roami_home_open(node, end)) {
			roami_page_done(node, end);
			break;
		}
		if (roami_home_is_shared(node, end)) {
			roami_home_shut(node, end);
			roami_page_done(node, end);
			break;
		}
		end++;
	}
	roami_page_open(node, page, end - page, ROAM_WRITE);
	for (uint32_t i = page + 1; i < end; i++)
		roami_page_done(node, i);
}

/* Whether the pending page, a copy never written here, gets its home moved here. */
static bool adapt_take_along(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	return roami_page_state(node, page) == HOME_COPY && !roami_page_dirty(node, page) &&
	       !adapt_page(node, page)->placed && adapt_take(node, page);
}

/* Prepares the write of a page that can be read. */
static void adapt_write_fault(struct roami_node *node, uint32_t page)
{
	bool fresh;

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_READ);
	if (roami_checks_races(node))
		return;
	if (roami_page_is_home(node, page) && roami_home_open(node, page)) {
		if (roami_home_is_shared(node, page))
			adapt_twin(node, page);
		else
			adapt_open_run(node, page);
		return;
	}
	adapt_look(node, page);
	fresh = !adapt_page(node, page)->placed;
	if (adapt_take(node, page) && fresh && roami_posts_on(node))
		home_write_run(node, page, adapt_take_along);
}

/* ------------------------------------------------------------------------------------- release */

/*
 * Whether a dirty page that is still open should be closed.  A home's page is closed after its
 * first interval, in which a node that has no use for the data may have put it there, and if
 * another node wants the page.  A copy is closed if no other node's diffs came between its last
 * ones, so that its home may come here.
 */
static bool adapt_closes(struct roami_node *node, const struct roam_dirty *dirty)
{
	struct adapt_page *data = adapt_page(node, dirty->page);

	roami_contract_pending(node, dirty->page);
	if (dirty->home)
		return roami_page_access(node, dirty->page) == ROAM_WRITE &&
		       (!data->placed || data->taken || roami_home_wanted(node, dirty->page));
	if (!dirty->keep)
		return false;
	if (roami_page_is_home(node, dirty->page))
		return roami_home_wanted(node, dirty->page);
	if (data->wait > 0)
		data->wait--;
	return data->alone >= ALONE && data->wait == 0;
}

static void adapt_close(struct roami_node *node, struct roam_dirty *dirty, size_t count)
{
	uint32_t pages[BATCH];
	size_t closing = 0;

	roami_assert(count <= BATCH);
	for (size_t i = 0; i < count && !roami_checks_races(node); i++) {
		if (!adapt_closes(node, &dirty[i]))
			continue;
		pages[closing++] = dirty[i].page;
		dirty[i].keep = false;
		adapt_page(node, dirty[i].page)->alone = 0;
		if (!dirty[i].home && roami_page_is_home(node, dirty[i].page))
			roami_page_cool(node, dirty[i].page);
	}
	roami_page_close(node, pages, closing, ROAM_READ);
}

/*
 * Gives notice of a page of this home that was written without a twin.  If the page is closed,
 * later fetches have all its writes; earlier copies end with the barrier, so pages in a row may be
 * opened together again.
 */
static void adapt_written(struct roami_node *node, const struct roam_sync *sync, uint32_t page)
{
	struct adapt_page *data = adapt_page(node, page);

	roami_contract_pending(node, page);
	roami_contract(roami_page_is_home(node, page));
	if (roami_checks_races(node) || roami_page_access(node, page) == ROAM_WRITE) {
		home_written(node, sync, page);
		if (roami_posts_on(node))
			data->home.shares = data->dense == DENSE - 1 ? DENSE_OPEN : 0;
		return;
	}
	data->placed = 1;
	data->taken = 0;
	data->home.shares = 0;
	if (roami_home_is_shared(node, page)) {
		if (sync->idle)
			roami_home_unshare(node, page);
		roami_notice_add(node, page, roami_home_version_bump(node, page));
	}
	roami_home_shut(node, page);
}

/*
 * Leaves the page's diff in the diff log, unless it is most of the page; returns the reference
 * to it, or 0.
 */
static uint64_t adapt_leave(struct roami_node *node, const struct roam_dirty *dirty, bool keep,
			    size_t *bytes_p)
{
	uint8_t diff[ROAM_DIFF_MAX];

	roami_contract_pending(node, dirty->page);
	roami_contract(roami_page_has_twin(node, dirty->page));
	roami_page_lock(node, dirty->page);
	*bytes_p = roami_diff_make(node, dirty->page, diff, keep);
	roami_page_unlock(node, dirty->page);
	return *bytes_p > SPARSE ? 0 : adapt_log_leave(node, dirty->page, diff, *bytes_p);
}

/* Whether later writes of this home's page go with a twin, too. */
static bool adapt_twins_on(struct roami_node *node, uint32_t page, bool sparse)
{
	struct adapt_page *data = adapt_page(node, page);

	roami_contract(roami_page_is_home(node, page));
	data->dense = sparse ? 0 : (data->dense + 1) & 3;
	data->rounds = (data->rounds + 1) % ROUNDS;
	return data->dense < DENSE && (data->rounds != ROUNDS_FIRST || roami_home_read(node, page));
}

/* Ends the release of a page of this home, which stays open with its twin, or is closed. */
static void adapt_ended(struct roami_node *node, const struct roam_dirty *dirty)
{
	roami_contract(dirty->keep || roami_page_access(node, dirty->page) != ROAM_WRITE);
	if (!dirty->keep)
		roami_home_shut(node, dirty->page);
}

/*
 * Gives notice of a page of this home that was written with a twin.  Bytes that changed twice may
 * be as they were, but a node that fetched the page in between has other ones: that is a version,
 * too.
 */
static void adapt_twinned(struct roami_node *node, struct roam_dirty *dirty)
{
	size_t bytes;
	uint64_t ref = adapt_leave(node, dirty, dirty->keep, &bytes);

	roami_contract(roami_page_is_home(node, dirty->page));
	dirty->changed = bytes > 0 || roami_home_wanted(node, dirty->page);
	if (!dirty->changed) {
		adapt_ended(node, dirty);
		return;
	}
	if (!adapt_twins_on(node, dirty->page, bytes <= SPARSE)) {
		if (dirty->keep)
			roami_page_close(node, &dirty->page, 1, ROAM_READ);
		dirty->keep = false;
		roami_home_twin(node, dirty->page, false);
		roami_home_unshare(node, dirty->page);
		ref = 0;
	}
	roami_notice_add_diff(node, dirty->page, roami_home_version_bump(node, dirty->page), ref);
	adapt_ended(node, dirty);
}

/*
 * Leaves a diff that goes to a home with a twin in the diff log, too, for the nodes that are
 * neither writer nor home; returns the reference to it, 0: it is not left.  If the page stays open,
 * the log's diff equals the one sent home only if no other thread writes.
 */
static uint64_t adapt_copied(struct roami_node *node, const struct roam_sync *sync,
			     const struct roam_dirty *dirty, unsigned home)
{
	size_t bytes;

	roami_assert(home != roami_me(node));
	if (roami_count(node) == 2 || (dirty->keep && !sync->idle) ||
	    !roami_home_twinned(node, home, dirty->page))
		return 0;
	return adapt_leave(node, dirty, false, &bytes);
}

static void adapt_answered(struct roami_node *node, struct roam_dirty *dirty, uint64_t ref)
{
	struct adapt_page *data = adapt_page(node, dirty->page);
	uint16_t home;

	roami_contract_pending(node, dirty->page);
	roami_assert(!dirty->home);
	while (dirty->moved) {
		home = (uint16_t)roami_home_again(node, dirty->page);
		roami_flush(node, dirty, &home, 1);
	}
	if (!dirty->changed)
		return;
	if (dirty->version != data->home.have + 1) {
		data->own = data->own == 0 && dirty->version <= data->home.have + ADAPT_OWN_MASK
				    ? dirty->version & ADAPT_OWN_MASK
				    : 0;
		data->alone = 0;
	} else {
		if (data->alone < ALONE)
			data->alone++;
		home_has(&data->home, dirty->version);
	}
	roami_notice_add_diff(node, dirty->page, dirty->version, ref);
}

/* Gives notice of an own page.  For a copy, leaves its diff (*ref_p) and returns its home. */
static uint16_t adapt_home(struct roami_node *node, const struct roam_sync *sync,
			   struct roam_dirty *dirty, uint64_t *ref_p)
{
	unsigned home = roami_home_lookup(node, dirty->page);

	if (dirty->home) {
		adapt_written(node, sync, dirty->page);
	} else if (roami_page_is_home(node, dirty->page)) {
		adapt_twinned(node, dirty);
		dirty->home = true; /* nothing is sent */
	} else {
		if (home == roami_me(node))
			home = roami_home_again(node, dirty->page);
		*ref_p = adapt_copied(node, sync, dirty, home);
	}
	return (uint16_t)home;
}

static void adapt_flush(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count)
{
	uint64_t refs[BATCH];
	uint16_t homes[BATCH];

	while (count > 0) {
		size_t some = count < BATCH ? count : BATCH;

		adapt_close(node, dirty, some);
		for (size_t i = 0; i < some; i++)
			homes[i] = adapt_home(node, sync, &dirty[i], &refs[i]);
		roami_flush(node, dirty, homes, some);
		for (size_t i = 0; i < some; i++)
			if (!dirty[i].home)
				adapt_answered(node, &dirty[i], refs[i]);
		dirty += some;
		count -= some;
	}
}

static void adapt_release(struct roami_node *node, const struct roam_sync *sync,
			  struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	adapt_flush(node, sync, dirty, count);
}

static void adapt_acquire(struct roami_node *node, const struct roam_sync *sync,
			  const struct roam_notice *notices, size_t count)
{
	adapt_refresh(node, notices, count);
	home_invalidate(node, sync, notices, count, adapt_flush);
}

/* --------------------------------------------------------------------------------------- tests */

/*
 * A page has at most one home, and none only while a node takes it; a copy is as new as it must be.
 */
static void adapt_check_page(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	unsigned homes = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct home_page *data = &adapt_page(nodes[i], page)->home;
		bool here = roami_home_here(nodes[i], page) != 0;

		homes += here;
		roami_assert(here || roami_page_access(nodes[i], page) != ROAM_WRITE ||
			     !roami_page_is_home(nodes[i], page));
		roami_assert(roami_page_state(nodes[i], page) != HOME_COPY || !home_stale(data) ||
			     roami_page_pending(nodes[i], page));
	}
	roami_assert(homes <= 1);
}

static void adapt_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			adapt_check_page(nodes, count, page);
}

const struct roam_protocol roami_protocol_adapt = {
	.name = "adapt",
	.paper = "finds each page's home by itself; after hlrc, JUMP and Munin",
	.model = ROAM_MODEL_RC,
	.checks_races = true,
	.writes = ROAM_WRITES_DIFF,
	.closes_homes = true,
	.homes = ROAM_HOMES_TAKEN,
	.page_size = sizeof(struct adapt_page),
	.states = adapt_states,
	.read_fault = adapt_read_fault,
	.ahead = adapt_ahead,
	.write_fault = adapt_write_fault,
	.release = adapt_release,
	.acquire = adapt_acquire,
	.evict = home_evict,
	.check = adapt_check,
};
