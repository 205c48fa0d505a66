/*
 * jiajia2: jiajia1 whose homes move at barriers, as JIAJIA V2.1.
 *
 * Paper: Hu, Shi and Tang, JIAJIA: An SVM System Based on A New Cache Coherence Protocol (1999), as
 * Cheung, Wang and Hwang, JUMP-DP (section 6), describe its home migration.
 *
 * Idea.  As jiajia1; but a page that exactly one node has written since the last full barrier, by a
 * copy that is current, has its home there after the barrier.  From then on that node writes it
 * without twin and diff.  Faults move no homes, so a page that is read by many stays where it is.
 *
 * How a home moves.  A barrier's departure tells every node which pages each of the others has
 * written: the writer of a page learns from it that no other node wrote it.  So the writer asks the
 * homes of all such pages, with one message for each home, before it goes on; a home that finds the
 * page's version to be the writer's, and has not written the page itself, gives the page away
 * without a byte.  The writer's notices tell where the page is then: they are appended to the next
 * grants.  Until they come requests are passed on (moving.h, rule 7).
 *
 * Page states: as in jump; a copy becomes master without a fetch.
 *
 * Messages: want, diff and ask, see moving.h; take (pages, versions -> references
 * to their new homes, 0: the page stays).
 *
 * Differences from the paper, and why:
 * - The writer asks, where JIAJIA's barrier manager decides and tells all nodes with its grants: on
 *   one host barriers have no manager, and here no node has to believe a decision made elsewhere.
 *   It costs two messages a barrier for each two nodes between which homes move.
 * - A home that wrote the page too keeps it, though its writes were before the writer's copy.
 * - As in jiajia1: versions tell what is news, threads of a node are not told apart, homes are
 *   claimed at first touch.
 * - jiajia2-rc is this file with release consistency.
 */
#include <string.h>

#include "moving.h"

#define TAKE_ONCE 256u /* pages asked for at a time */

enum { JIAJIA2_TAKE = MOVING_TYPES };

struct jiajia2_node {
	uint32_t wrote; /* 1 + the first of the flushed pages whose copies were current */
};

struct jiajia2_page {
	struct moving_page moving;
	uint32_t next; /* 1 + the next page in that list */
	bool listed;
	bool others;      /* another node wrote it since the last full barrier */
	uint64_t barrier; /* the number of that barrier */
};

/* What a take message says of each page: the version of the asker's copy. */
struct jiajia2_offer {
	uint32_t page;
	uint32_t spare;
	uint64_t have;
};

static struct jiajia2_page *jiajia2_page(struct roami_node *node, uint32_t page)
{
	roami_contract(roami_page_ours(node, page));
	return roami_page_data(node, page);
}

static void jiajia2_read_fault(struct roami_node *node, uint32_t page)
{
	moving_fault(node, page, true);
}

static void jiajia2_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	moving_ahead(node, first, count, stride, true);
}

/* --------------------------------------------------------------------------- release, acquire */

/* Lists the pages whose copies are current after their diffs: their homes may move here. */
static void jiajia2_note(struct roami_node *node, const struct roam_dirty *dirty, size_t count)
{
	struct jiajia2_node *state = roami_node_state(node);

	for (size_t i = 0; i < count; i++) {
		struct jiajia2_page *data = jiajia2_page(node, dirty[i].page);

		roami_contract_pending(node, dirty[i].page);
		if (dirty[i].home || !dirty[i].changed || data->listed ||
		    roami_checks_races(node) || data->moving.home.page.have != dirty[i].version)
			continue;
		data->listed = true;
		data->next = state->wrote;
		state->wrote = dirty[i].page + 1;
	}
}

static void jiajia2_release(struct roami_node *node, const struct roam_sync *sync,
			    struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	moving_flush(node, sync, dirty, count);
	jiajia2_note(node, dirty, count);
}

static void jiajia2_acquire(struct roami_node *node, const struct roam_sync *sync,
			    const struct roam_notice *notices, size_t count)
{
	uint64_t barriers = roami_barriers_left(node);

	for (size_t i = 0; i < count; i++) {
		struct jiajia2_page *data = jiajia2_page(node, notices[i].page);

		data->others = true;
		data->barrier = barriers;
	}
	moving_acquire(node, sync, notices, count);
}

/* ------------------------------------------------------------------------------------ barriers */

/* Pages of one home, pending at this node until the home has answered. */
struct jiajia2_take {
	unsigned home;
	unsigned count;
	struct jiajia2_offer offers[TAKE_ONCE];
	uint32_t refs[TAKE_ONCE];
};

/* Whether only this node wrote the page since the last full barrier; if so, it is pending. */
static bool jiajia2_alone(struct roami_node *node, uint32_t page)
{
	const struct jiajia2_page *data = jiajia2_page(node, page);

	if ((data->others && data->barrier == roami_barriers_left(node)) ||
	    !roami_page_try(node, page))
		return false;
	if (roami_page_state(node, page) == HOME_COPY && !home_stale(&data->moving.home.page))
		return true;
	roami_page_done(node, page);
	return false;
}

static void jiajia2_take(struct roami_node *node, struct jiajia2_take *take)
{
	struct roam_part part = {take->offers, take->count * sizeof(take->offers[0])};

	roami_assert(take->count <= TAKE_ONCE && take->home != roami_me(node));
	if (take->count == 0)
		return;
	if (roami_call(node, take->home, JIAJIA2_TAKE, &part, 1, take->refs, sizeof(take->refs)) !=
	    take->count * sizeof(take->refs[0]))
		roami_node_fail(node, "node %u: malformed answer about homes", take->home);
	for (unsigned i = 0; i < take->count; i++) {
		const struct jiajia2_offer *offer = &take->offers[i];

		roami_contract_pending(node, offer->page);
		if (take->refs[i] != 0) {
			roami_page_lock(node, offer->page);
			roami_twin_drop(node, offer->page);
			moving_receive(node, offer->page, offer->have, take->refs[i]);
			roami_page_unlock(node, offer->page);
		}
		roami_page_done(node, offer->page);
	}
	take->count = 0;
}

/* Asks `home` for all pages that only this node has written. */
static void jiajia2_offer(struct roami_node *node, unsigned home)
{
	const struct jiajia2_node *state = roami_node_state(node);
	struct jiajia2_take take = {.home = home, .count = 0};

	for (uint32_t next = state->wrote; next != 0; next = jiajia2_page(node, next - 1)->next) {
		const struct moving_page *data = moving_page(node, next - 1);

		if (ROAM_HOME_REF_NODE(moving_ref(node, next - 1)) != home ||
		    !jiajia2_alone(node, next - 1))
			continue;
		take.offers[take.count++] = (struct jiajia2_offer){next - 1, 0,
								   data->home.page.have};
		if (take.count == TAKE_ONCE)
			jiajia2_take(node, &take);
	}
	jiajia2_take(node, &take);
}

static void jiajia2_met(struct roami_node *node)
{
	struct jiajia2_node *state = roami_node_state(node);

	if (state->wrote == 0)
		return;
	for (unsigned home = 0; home < roami_count(node); home++)
		if (home != roami_me(node))
			jiajia2_offer(node, home);
	while (state->wrote != 0) {
		struct jiajia2_page *data = jiajia2_page(node, state->wrote - 1);

		roami_assert(data->listed);
		data->listed = false;
		state->wrote = data->next;
	}
}

/* ------------------------------------------------------------------------------------ messages */

/*
 * Gives the page to node `to` and returns a reference to the new home, if the version of that
 * node's copy is the home's; else returns 0.  Only the home knows the epoch for certain, and it
 * must not be the last one.
 */
static uint32_t jiajia2_hand_over(struct roami_node *node, const struct jiajia2_offer *offer,
				  unsigned to)
{
	uint64_t version = offer->have;
	uint32_t ref = 0, here;

	roami_contract(to != roami_me(node));
	roami_page_lock(node, offer->page);
	here = roami_home_here(node, offer->page);
	if (here != 0 && ROAM_HOME_REF_EPOCH(here) < ROAM_EPOCH_MAX &&
	    moving_rests(node, offer->page))
		ref = moving_give(node, offer->page, to, NULL, &version);
	roami_page_unlock(node, offer->page);
	return ref;
}

static void jiajia2_handle_take(struct roami_node *node, const struct roam_request *request)
{
	unsigned count = request->bytes / sizeof(struct jiajia2_offer);
	uint32_t refs[TAKE_ONCE];
	struct roam_part part = {refs, count * sizeof(refs[0])};

	roami_assert(count <= TAKE_ONCE);
	if (request->bytes % sizeof(struct jiajia2_offer) != 0)
		roami_node_fail(node, "node %u: malformed request for homes", request->from);
	for (unsigned i = 0; i < count; i++) {
		struct jiajia2_offer offer;

		memcpy(&offer, (const uint8_t *)request->data + i * sizeof(offer), sizeof(offer));
		if (!roami_page_ours(node, offer.page))
			roami_node_fail(node, "node %u asks for the home of page %u", request->from,
					offer.page);
		refs[i] = jiajia2_hand_over(node, &offer, request->origin);
	}
	roami_reply(node, request, &part, 1);
}

static void jiajia2_handle_want(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_want(node, request, moving_never);
}

static void jiajia2_handle_diff(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_diff(node, request, moving_never);
}

static void jiajia2_handle_ask(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_ask(node, request, moving_never);
}

static const struct roam_message jiajia2_messages[] = {
	[MOVING_WANT] = {"want", jiajia2_handle_want, sizeof(struct moving_head)},
	[MOVING_DIFF] = {"diff", jiajia2_handle_diff, MOVING_DIFF_MAX},
	[MOVING_ASK] = {"ask", jiajia2_handle_ask, sizeof(struct moving_head)},
	[JIAJIA2_TAKE] = {"take", jiajia2_handle_take, TAKE_ONCE * sizeof(struct jiajia2_offer)},
	{NULL, NULL, 0},
};

/* For both models: under -rc each synchronisation passes on all that a node knows. */
#define JIAJIA2_FIELDS                                                                         \
	.writes = ROAM_WRITES_DIFF, .closes_homes = true, .homes = ROAM_HOMES_MOVING,          \
	.node_size = sizeof(struct jiajia2_node), .page_size = sizeof(struct jiajia2_page),    \
	.scratch_size = MOVING_SCRATCH, .states = moving_states, .messages = jiajia2_messages, \
	.read_fault = jiajia2_read_fault, .ahead = jiajia2_ahead, .release = jiajia2_release,  \
	.acquire = jiajia2_acquire, .met = jiajia2_met, .evict = home_evict,                   \
	.collect = moving_collect, .check = moving_check

const struct roam_protocol roami_protocol_jiajia2 = {
	.name = "jiajia2",
	.paper = "home-based scope consistency, homes move at barriers; Hu, Shi and Tang 1999",
	.model = ROAM_MODEL_SCC,
	JIAJIA2_FIELDS,
};

const struct roam_protocol roami_protocol_jiajia2_rc = {
	.name = "jiajia2-rc",
	.paper = "homes move at barriers, notices as under RC; after Hu, Shi and Tang 1999",
	.model = ROAM_MODEL_RC,
	.checks_races = true,
	JIAJIA2_FIELDS,
};
