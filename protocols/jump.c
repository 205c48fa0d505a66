/*
 * jump: scope consistency with a migrating home.
 *
 * Paper: Cheung, Wang and Hwang, JUMP-DP: A Software DSM System with Low-Latency Communication
 * Support (section 2), after A Migrating-Home Protocol for Implementing Scope Consistency Model on
 * a Cluster of Workstations (1999), by the same authors.
 *
 * Idea.  As jiajia1, but the home of a page moves to the node that faults on it, if and only if the
 * node asked is the home and every other node that has a copy has sent its updates.  The new home
 * writes without twin and diff, so of a page that one node writes after another only the page
 * itself is sent, once for each writer.  The old home keeps a clean copy.
 *
 * Where a page is, and how requests and diffs find it: moving.h (rule 7.2).
 *
 * Page states: invalid -> copy, invalid -> master at the home; copy -> invalid; master -> copy when
 * the home moves away.  At most one header says "home"; none while the page is in flight.
 *
 * Messages (ref: a reference to the home): want (ref -> page, version, ref, whether the home
 * moved), diff (ref, diff -> version, ref, whether the home moved), ask (ref, version -> ref,
 * whether the home moved).
 *
 * Differences from the paper, and why:
 * - "Has sent its updates": a node counts as holding a copy from when the home sent it one until
 *   its diff came, or it asks again, or the next full barrier.  Only the policy depends on that:
 *   copies that stay behind are no danger, for their diffs find the home wherever it is.
 * - The old home's writes of the open interval are in the bytes that it sends.  Its next release
 *   still owes their notice, with the version that giving the page away counted up to.
 * - A request that was passed on three times is served with a copy; so is one that comes while the
 *   home works on the page, and one that reads ahead.  So a page cannot run away from the node that
 *   wants it.
 * - Notices have the reference to the new home; no other message announces it.
 * - jump-rc is this file with release consistency, for programs that use a lock to pass on writes
 *   made outside of its sections.
 */
#include "moving.h"

#define HOPS_MAX 3u

static void jump_read_fault(struct roami_node *node, uint32_t page)
{
	moving_fault(node, page, false);
}

static void jump_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	moving_ahead(node, first, count, stride, false);
}

static void jump_release(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	moving_flush_asking(node, sync, dirty, count);
}

/* The paper's condition. */
static bool jump_moves(struct roami_node *node, const struct moving_head *head, unsigned to)
{
	struct moving_page *data = moving_page(node, head->page);

	roami_contract_locked(node, head->page);
	roami_contract(to != roami_me(node));
	return !head->stay && !roami_checks_races(node) && head->hops < HOPS_MAX &&
	       ROAM_HOME_REF_EPOCH(roami_home_here(node, head->page)) < ROAM_EPOCH_MAX &&
	       roami_page_state(node, head->page) == HOME_MASTER &&
	       !roami_page_pending(node, head->page) &&
	       (*moving_copies(node, data) & ~(UINT64_C(1) << to)) == 0;
}

static void jump_handle_want(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_want(node, request, jump_moves);
}

static void jump_handle_diff(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_diff(node, request, jump_moves);
}

static void jump_handle_ask(struct roami_node *node, const struct roam_request *request)
{
	moving_handle_ask(node, request, jump_moves);
}

static const struct roam_message jump_messages[] = {
	[MOVING_WANT] = {"want", jump_handle_want, sizeof(struct moving_head)},
	[MOVING_DIFF] = {"diff", jump_handle_diff, MOVING_DIFF_MAX},
	[MOVING_ASK] = {"ask", jump_handle_ask, sizeof(struct moving_head)},
	{NULL, NULL, 0},
};

/* For both models: under -rc each synchronisation passes on all that a node knows. */
#define JUMP_FIELDS                                                                            \
	.writes = ROAM_WRITES_DIFF, .closes_homes = true, .homes = ROAM_HOMES_FOLLOWING,       \
	.page_size = sizeof(struct moving_page),                         \
	.scratch_size = MOVING_SCRATCH, .states = moving_states, .messages = jump_messages,    \
	.read_fault = jump_read_fault, .ahead = jump_ahead, .write_fault = moving_write_fault, \
	.release = jump_release, .acquire = moving_acquire, .evict = home_evict,               \
	.collect = moving_collect, .check = moving_check

const struct roam_protocol roami_protocol_jump = {
	.name = "jump",
	.paper = "migrating home, scope consistency; Cheung, Wang and Hwang",
	.model = ROAM_MODEL_SCC,
	JUMP_FIELDS,
};

const struct roam_protocol roami_protocol_jump_rc = {
	.name = "jump-rc",
	.paper = "migrating home, notices as under RC; after Cheung, Wang and Hwang",
	.model = ROAM_MODEL_RC,
	.checks_races = true,
	JUMP_FIELDS,
};
