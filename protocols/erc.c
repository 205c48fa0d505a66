/*
 * erc: eager release consistency, the baseline that lazy release consistency was invented against.
 *
 * Paper: Carter, Bennett and Zwaenepoel, Implementation and Performance of Munin (1991), its
 * write-shared protocol; compared with the lazy one by Keleher, Cox and Zwaenepoel, Lazy Release
 * Consistency for Software Distributed Shared Memory (1992).
 *
 * Idea.  Many nodes may write a page at once; the first write to a copy makes a twin.  At a release
 * the diffs go to the pages' homes, which answer with the copysets.  All other copies get the diff
 * too (update), or are dropped (invalidate), and the release waits until each node has answered.
 * So after a release every node sees the writes, needed or not: an acquire has nothing to do, and
 * there are no write notices.
 *
 * Page states: invalid -> fetch -> copy -> invalid at other nodes; invalid -> master at the home,
 * for good.
 *
 * Messages: fetch, answered by the home with the page's bytes; diffs, from a writer to a home,
 * answered with each page's copyset; update, with diffs, and invalidate, with page numbers, from a
 * writer to a node of these copysets, answered when it is done; leave, to the home: the sender has
 * dropped its copy.
 *
 * What keeps it right:
 * - A home adds a fetcher to the copyset before it copies the bytes, and applies a diff before it
 *   answers with the copyset.  So a node that fetches meanwhile has the diff, or is told.
 * - A home that is written while it is fetched gives the bytes of its twin.  A byte that is changed
 *   and changed back before the release is in no diff, so no other node may see the change.
 * - A node that drops a copy says so to the home itself, ahead of its next fetch.  Until then the
 *   copyset contains the node: another release must not count as gone a copy that is only about to
 *   go.
 * - A node that waits for a page keeps updates and invalidations of the page until it arrives: the
 *   page's bytes may be older.  It waits for the home's handler only, so that is no deadlock.
 * - Handlers change a page under its lock, whether it is pending or not: two releases that wait for
 *   each other's answers must not hold each other up.
 * - An update goes into the twin too, or the node would send another's bytes as its own (rule
 *   1.5).  An invalidated copy keeps its twin and what was written to it: a fetch puts the fresh
 *   bytes under that.
 *
 * Differences from the papers, and why:
 * - The home keeps the copyset and the master copy; in Munin the last owner does.  It is found by
 *   first touch, as in hlrc.
 * - A page of which no other node has a copy is written at its home without a twin, and not
 *   detected.
 * - ROAM_ERC=invalidate drops the copies, Munin's default for pages of other kinds; a home is
 *   always updated.
 * - In Munin the program says which of the two suits a variable.  ROAM_ERC=auto finds it for each
 *   copy: a copy that got ERC_LOOK updates is closed, to see whether it is used; a copy in use is
 *   opened again, and an unused one is dropped at the ERC_GONE-th update.
 */
#include "roam/protocol_home.h"

#include <string.h>

enum erc_state { ERC_INVALID, ERC_FETCH, ERC_COPY, ERC_MASTER };

enum { ERC_ASK, ERC_DIFFS, ERC_UPDATE, ERC_DROP, ERC_LEAVE }; /* messages */

enum { ERC_MODE_INVALIDATE, ERC_MODE_UPDATE, ERC_MODE_AUTO }; /* the values of ROAM_ERC */

struct erc_node {
	unsigned mode;
};

struct erc_page {
	uint64_t copies; /* at the home, the copyset: the nodes that may have a copy */
	uint32_t unseen; /* of a copy: updates since it was last seen in use (ERC_MODE_AUTO) */
	uint32_t spare;
};

#define ERC_LOOK 2u
#define ERC_GONE 4u

/* In messages: a page, followed by its diff of `bytes` bytes, padded to 8. */
struct erc_item {
	uint32_t page;
	uint32_t bytes;
};

#define BATCH       64u          /* pages of a release handled at a time */
#define BATCH_BYTES (48u * 1024) /* the most bytes of their diffs, headers included */
#define REPLY       (BATCH * sizeof(uint64_t))
#define SCRATCH     (BATCH_BYTES + REPLY) /* per node: one message and its answer */

static uint64_t erc_bit(unsigned node)
{
	roami_assert(node < 64);
	return UINT64_C(1) << node;
}

static struct erc_page *erc_page(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_ours(node, page));
	return roami_page_data(node, page);
}

static unsigned erc_mode(struct roami_node *node)
{
	const struct erc_node *erc = roami_node_state(node);

	return erc->mode;
}

/* -------------------------------------------------------------------------------------- faults */

/* Makes this node, the page's home, its master if it has not been so yet; under the page lock. */
static void erc_be_master(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	if (roami_page_state(node, page) == ERC_MASTER)
		return;
	roami_page_move(node, page, ERC_MASTER);
	roami_page_set_home(node, page, true);
	roami_page_set_twins(node, page, roami_checks_races(node));
}

/* Opens a page of this home; for writes without a twin if no other node has a copy. */
static void erc_open_master(struct roami_node *node, uint32_t page)
{
	bool alone;

	roami_contract_pending(node, page);
	roami_page_lock(node, page); /* against a fetch */
	erc_be_master(node, page);
	alone = erc_page(node, page)->copies == 0 && !roami_checks_races(node);
	if (alone) {
		roami_page_set_twins(node, page, false);
		roami_page_open(node, page, 1, ROAM_WRITE);
	}
	roami_page_unlock(node, page);
	if (!alone)
		roami_page_open(node, page, 1, ROAM_READ);
}

static void erc_claimed(struct roami_node *node, uint32_t page)
{
	int32_t stride;
	uint32_t more = roami_home_claim_run(node, page, &stride);

	roami_contract_pending(node, page);
	roami_home_publish(node, page, more + 1, stride, 1);
	for (uint32_t i = 0; i <= more; i++) {
		uint32_t at = page + i * (uint32_t)stride;

		erc_open_master(node, at);
		if (i > 0)
			roami_page_done(node, at);
	}
}

static void erc_move(struct roami_node *node, uint32_t page, enum erc_state state)
{
	roami_page_lock(node, page);
	roami_page_move(node, page, state);
	roami_page_unlock(node, page);
}

static void erc_fetch(struct roami_node *node, uint32_t page, unsigned home)
{
	uint8_t *bytes = roami_scratch(node);
	struct roam_part part = {&page, sizeof(page)};

	roami_contract_pending(node, page);
	roami_assert(home < roami_count(node) && home != roami_me(node));
	erc_move(node, page, ERC_FETCH);
	if (roami_call(node, home, ERC_ASK, &part, 1, bytes, ROAM_PAGE_SIZE) != ROAM_PAGE_SIZE)
		roami_node_fail(node, "node %u: incomplete reply for page %u", home, page);
	roami_fetched(node);
	roami_page_lock(node, page);
	roami_page_rebase(node, page, bytes);
	roami_page_unlock(node, page);
	roami_page_open(node, page, 1, ROAM_READ);
	erc_move(node, page, ERC_COPY); /* once it is open, it may be dropped */
}

/*
 * Whether the page is a copy, closed to see whether it is used.  The lock, because a handler that
 * drops a copy, pending or not, first closes it, and then moves it (rule 8.2).
 */
static bool erc_used(struct roami_node *node, uint32_t page)
{
	bool copy;

	roami_page_lock(node, page);
	copy = roami_page_state(node, page) == ERC_COPY;
	erc_page(node, page)->unseen = 0;
	roami_page_unlock(node, page);
	return copy;
}

static void erc_read_fault(struct roami_node *node, uint32_t page)
{
	bool claimed;
	unsigned home;

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	if (erc_used(node, page)) {
		roami_page_open(node, page, 1, ROAM_READ);
		return;
	}
	home = roami_home_claim(node, page, &claimed);
	if (claimed)
		erc_claimed(node, page);
	else if (home == roami_me(node))
		erc_open_master(node, page);
	else
		erc_fetch(node, page, home);
}

/*
 * Drops this node's copy, but not its own writes to it; under the page lock.  The home hears of
 * this before any later fetch, so its copyset never lacks a copy.
 */
static void erc_drop_copy(struct roami_node *node, uint32_t page)
{
	struct roam_part part = {&page, sizeof(page)};

	roami_contract_locked(node, page);
	erc_page(node, page)->unseen = 0;
	roami_contract(roami_page_state(node, page) == ERC_COPY);
	roami_page_close(node, &page, 1, ROAM_NONE);
	roami_page_move(node, page, ERC_INVALID);
	roami_send(node, roami_home_lookup(node, page), ERC_LEAVE, &part, 1);
}

static bool erc_evict(struct roami_node *node, uint32_t page)
{
	bool gone;

	roami_contract_pending(node, page);
	roami_page_lock(node, page); /* against an update */
	gone = roami_page_state(node, page) == ERC_COPY && !roami_page_has_twin(node, page);
	if (gone)
		erc_drop_copy(node, page);
	roami_page_unlock(node, page);
	return gone;
}

/* ------------------------------------------------------------------------------------- release */

/* A diff of this release. */
struct erc_write {
	struct erc_item item;
	unsigned home;
	uint64_t copies; /* from the home */
	const uint8_t *diff;
};

/* The nodes to which a message of `type` about a page goes. */
static uint64_t erc_targets(const struct erc_write *write, unsigned type, unsigned me)
{
	uint64_t home = erc_bit(write->home);

	return (type == ERC_DIFFS ? home : write->copies & ~home) & ~erc_bit(me);
}

/* Makes the message of `type` to node `to`; returns its bytes. */
static size_t erc_message(uint8_t *out, const struct erc_write *writes, unsigned count,
			  unsigned type, unsigned me, unsigned to)
{
	size_t used = 0;

	for (unsigned i = 0; i < count; i++) {
		struct erc_item item = writes[i].item;

		if ((erc_targets(&writes[i], type, me) & erc_bit(to)) == 0)
			continue;
		if (type == ERC_DROP)
			item.bytes = 0;
		roami_assert(used + sizeof(item) + item.bytes <= BATCH_BYTES);
		memcpy(out + used, &item, sizeof(item));
		memcpy(out + used + sizeof(item), writes[i].diff, item.bytes);
		used += sizeof(item) + ((item.bytes + 7u) & ~(size_t)7);
	}
	return used;
}

/* Sends all messages of a type, then waits for the answers. */
static void erc_tell(struct roami_node *node, struct erc_write *writes, unsigned count,
		     unsigned type)
{
	struct roam_call calls[64];
	struct roam_part parts[64];
	unsigned used = 0, me = roami_me(node);

	roami_assert(count <= BATCH);
	for (unsigned to = 0; to < roami_count(node); to++) {
		uint8_t *out = roami_scratch(node) + to * SCRATCH;
		size_t bytes = erc_message(out, writes, count, type, me, to);

		if (bytes == 0)
			continue;
		parts[used] = (struct roam_part){out, bytes};
		calls[used] = (struct roam_call){to,    type, &parts[used], 1, out + BATCH_BYTES,
						 REPLY, 0};
		used++;
	}
	roami_call_all(node, calls, used);
	for (unsigned at = 0; type == ERC_DIFFS && at < used; at++) {
		const uint64_t *copies = calls[at].reply;
		size_t left = calls[at].bytes / sizeof(*copies);

		for (unsigned i = 0; i < count; i++)
			if (writes[i].home == calls[at].to && left > 0) {
				writes[i].copies = *copies++;
				left--;
			} else if (writes[i].home == calls[at].to) {
				roami_node_fail(node, "node %u answered for too few diffs",
						calls[at].to);
			}
	}
}

/*
 * Makes the diff of one dirty page at `out`; false: nothing changed.  The diff goes into the twin,
 * too: a node may fetch the page while the twin is still here, and be in no copyset of this
 * release.
 */
static bool erc_write(struct roami_node *node, struct roam_dirty *dirty, uint8_t *out,
		      struct erc_write *write)
{
	uint32_t page = dirty->page;

	roami_contract_pending(node, dirty->page);
	write->home = roami_home_lookup(node, page);
	write->copies = 0;
	write->diff = out;
	write->item = (struct erc_item){page, 0};
	roami_page_lock(node, page);
	if (roami_page_has_twin(node, page))
		write->item.bytes = (uint32_t)roami_diff_make(node, page, out, true);
	dirty->changed = write->item.bytes != 0;
	if (write->home == roami_me(node)) {
		write->copies = erc_page(node, page)->copies;
		if (write->copies == 0 && !roami_checks_races(node))
			roami_page_set_twins(node, page, false);
	}
	roami_page_unlock(node, page);
	if (roami_checks_races(node) && dirty->changed) {
		roami_notice_add(node, page, 0); /* an interval with a notice has a number */
		roami_diff_show(node, page, out, write->item.bytes);
	}
	return dirty->changed;
}

static void erc_release(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count)
{
	struct erc_write writes[BATCH];
	uint8_t *diffs = roami_scratch(node) + roami_me(node) * SCRATCH;
	size_t used = 0;
	unsigned made = 0;

	(void)sync;
	for (size_t i = 0; i < count; i++) {
		if (erc_write(node, &dirty[i], diffs + used, &writes[made])) {
			used += (writes[made].item.bytes + 7u) & ~(size_t)7;
			made++;
		}
		if (i + 1 < count && made < BATCH &&
		    used + made * sizeof(struct erc_item) + 2 * ROAM_DIFF_MAX < BATCH_BYTES)
			continue;
		erc_tell(node, writes, made, ERC_DIFFS);
		erc_tell(node, writes, made,
			 erc_mode(node) == ERC_MODE_INVALIDATE ? ERC_DROP : ERC_UPDATE);
		used = made = 0;
	}
}

/* ------------------------------------------------------------------------------------ messages */

/* Reads the next item of a request, checked, and its diff; false: there is none. */
static bool erc_next(struct roami_node *node, const struct roam_request *request, size_t *at_p,
		     struct erc_item *item, const uint8_t **diff_p)
{
	const uint8_t *data = request->data;

	if (*at_p >= request->bytes)
		return false;
	item->page = UINT32_MAX;
	if (request->bytes - *at_p >= sizeof(*item))
		memcpy(item, data + *at_p, sizeof(*item));
	*at_p += sizeof(*item);
	if (!roami_page_ours(node, item->page) || item->bytes > request->bytes - *at_p)
		roami_node_fail(node, "node %u: malformed list of diffs", request->from);
	*diff_p = data + *at_p;
	*at_p += (item->bytes + 7u) & ~(size_t)7;
	return true;
}

static void erc_patch(struct roami_node *node, const struct roam_request *request,
		      const struct erc_item *item, const uint8_t *diff)
{
	roami_contract_locked(node, item->page);
	if (!roami_diff_patch(node, item->page, diff, item->bytes))
		roami_node_fail(node, "node %u: malformed diff", request->from);
}

static void erc_ask(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	uint8_t bytes[ROAM_PAGE_SIZE];
	struct roam_part part = {bytes, sizeof(bytes)};

	roami_page_lock(node, page);
	erc_be_master(node, page);
	if (!roami_page_twins(node, page)) { /* from now on its writes must be seen */
		roami_page_close(node, &page, 1, ROAM_READ);
		roami_page_set_twins(node, page, true);
	}
	erc_page(node, page)->copies |= erc_bit(request->origin);
	roami_page_copy(node, bytes, roami_page_old(node, page));
	roami_page_unlock(node, page);
	roami_reply(node, request, &part, 1);
}

static void erc_leave(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));

	roami_page_lock(node, page);
	erc_page(node, page)->copies &= ~erc_bit(request->origin);
	roami_page_unlock(node, page);
}

static void erc_diffs(struct roami_node *node, const struct roam_request *request)
{
	uint64_t copies[BATCH];
	struct roam_part part = {copies, 0};
	struct erc_item item;
	const uint8_t *diff;
	unsigned count = 0;

	for (size_t at = 0; erc_next(node, request, &at, &item, &diff);) {
		if (count == BATCH)
			roami_node_fail(node, "node %u sent more than %u diffs", request->from,
					BATCH);
		roami_page_lock(node, item.page);
		erc_be_master(node, item.page);
		erc_patch(node, request, &item, diff);
		copies[count++] = erc_page(node, item.page)->copies;
		roami_page_unlock(node, item.page);
	}
	part.bytes = count * sizeof(copies[0]);
	roami_reply(node, request, &part, 1);
}

/* Whether this node waits for one of the pages; if so, the request is parked. */
static bool erc_waits(struct roami_node *node, const struct roam_request *request)
{
	struct erc_item item;
	const uint8_t *diff;

	for (size_t at = 0; erc_next(node, request, &at, &item, &diff);) {
		bool waits;

		roami_page_lock(node, item.page);
		waits = roami_page_state(node, item.page) == ERC_FETCH;
		if (waits)
			roami_park(node, request, item.page);
		roami_page_unlock(node, item.page);
		if (waits)
			return true;
	}
	return false;
}

/* Whether a copy is not worth its updates; under the page lock.  A pending one is in use. */
static bool erc_unused(struct roami_node *node, uint32_t page)
{
	struct erc_page *data = erc_page(node, page);

	roami_contract_locked(node, page);
	roami_contract(roami_page_state(node, page) == ERC_COPY);
	if (erc_mode(node) != ERC_MODE_AUTO || roami_page_pending(node, page))
		return false;
	if (roami_page_has_twin(node, page))
		data->unseen = 0;
	else if (++data->unseen == ERC_LOOK)
		roami_page_close(node, &page, 1, ROAM_NONE);
	return data->unseen >= ERC_GONE;
}

/* Updates or drops copies.  A page fetched after erc_waits comes from a home that has the diff. */
static void erc_change_copies(struct roami_node *node, const struct roam_request *request,
			      bool drop)
{
	struct erc_item item;
	const uint8_t *diff;

	if (erc_waits(node, request))
		return;
	for (size_t at = 0; erc_next(node, request, &at, &item, &diff);) {
		roami_page_lock(node, item.page);
		if (roami_page_state(node, item.page) == ERC_COPY &&
		    (drop || erc_unused(node, item.page)))
			erc_drop_copy(node, item.page);
		else if (roami_page_state(node, item.page) == ERC_COPY)
			erc_patch(node, request, &item, diff);
		roami_page_unlock(node, item.page);
	}
	roami_reply(node, request, NULL, 0);
}

static void erc_update(struct roami_node *node, const struct roam_request *request)
{
	erc_change_copies(node, request, false);
}

static void erc_drop(struct roami_node *node, const struct roam_request *request)
{
	erc_change_copies(node, request, true);
}

/* --------------------------------------------------------------------------------------- tests */

/* Checks that a copy without a twin has the home's bytes; no write is under way. */
static void erc_check_copy(struct roami_node *copy, struct roami_node *home, uint32_t page)
{
	if (!roami_page_has_twin(copy, page) && !roami_page_has_twin(home, page))
		roami_assert(memcmp(roami_page_bytes(copy, page), roami_page_bytes(home, page),
				    ROAM_PAGE_SIZE) == 0);
}

/*
 * A page has one home, whose copyset covers the nodes that have a copy; the home may write without
 * a twin if, and only if, the copyset is empty.
 */
static void erc_check_page(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	struct roami_node *home = NULL;

	for (unsigned i = 0; i < count; i++) {
		roami_assert(home == NULL || roami_page_state(nodes[i], page) != ERC_MASTER);
		if (roami_page_state(nodes[i], page) == ERC_MASTER)
			home = nodes[i];
	}
	for (unsigned i = 0; i < count; i++) {
		if (roami_page_state(nodes[i], page) != ERC_COPY) {
			roami_assert(roami_page_access(nodes[i], page) == ROAM_NONE ||
				     nodes[i] == home);
			continue;
		}
		roami_assert(home != NULL);
		roami_assert((erc_page(home, page)->copies & erc_bit(i)) != 0);
		roami_assert(roami_page_twins(home, page));
		erc_check_copy(nodes[i], home, page);
	}
}

static void erc_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			erc_check_page(nodes, count, page);
}

/* ---------------------------------------------------------------------------------------- table */

static enum roam_err erc_init(struct roami_node *node)
{
	struct erc_node *erc = roami_node_state(node);

	erc->mode = (unsigned)roami_option(node, "ROAM_ERC");
	return ROAM_OK;
}

static const struct roam_page_state erc_states[] = {
	[ERC_INVALID] = {"invalid", 1u << ERC_FETCH | 1u << ERC_MASTER},
	[ERC_FETCH] = {"fetch", 1u << ERC_COPY},
	[ERC_COPY] = {"copy", 1u << ERC_INVALID},
	[ERC_MASTER] = {"master", 0},
	{NULL, 0},
};

static const struct roam_message erc_messages[] = {
	[ERC_ASK] = {"fetch", erc_ask, sizeof(uint32_t)},
	[ERC_DIFFS] = {"diffs", erc_diffs, BATCH_BYTES},
	[ERC_UPDATE] = {"update", erc_update, BATCH_BYTES},
	[ERC_DROP] = {"invalidate", erc_drop, BATCH * sizeof(struct erc_item)},
	[ERC_LEAVE] = {"leave", erc_leave, sizeof(uint32_t)},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_erc = {
	.name = "erc",
	.paper = "eager release consistency; Munin, Carter, Bennett and Zwaenepoel 1991",
	.model = ROAM_MODEL_RC,
	.writes = ROAM_WRITES_DIFF,
	.checks_races = true,
	.node_size = sizeof(struct erc_node),
	.page_size = sizeof(struct erc_page),
	.scratch_size = SCRATCH,
	.states = erc_states,
	.messages = erc_messages,
	.init = erc_init,
	.read_fault = erc_read_fault,
	.release = erc_release,
	.evict = erc_evict,
	.check = erc_check,
};
