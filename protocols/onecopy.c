/*
 * onecopy: one migrating copy.  The smallest correct protocol, and the worked example of how to
 * write one.
 *
 * Paper: none; the "migration" algorithm of Stumm and Zhou, Algorithms Implementing Distributed
 * Shared Memory (1990).
 *
 * Idea.  Every page exists once.  A node that touches a page gets it, for reading or for writing,
 * and its previous owner loses it.  The page's manager knows which node asked last; a request goes
 * to the manager, which forwards it to the last asker, which sends the page as soon as it has had
 * it for a moment.  Requests so form a queue that no node has to keep.  At the start node 0 owns
 * all pages.
 *
 * Page states: start (at node 0: here, never moved; elsewhere: away), here, away.
 *
 * Messages: want (to the manager, if that is another node) and take (from the manager to the last
 * asker), answered to the asker with the page's bytes.
 *
 * Sequential consistency: a page is readable at one node at most, and a node has lost access to it
 * before any other node can use the bytes that it sent.
 */
#include <string.h>

#include "home.h"

enum onecopy_state { ONECOPY_START, ONECOPY_HERE, ONECOPY_AWAY };

enum { ONECOPY_WANT, ONECOPY_TAKE };

struct onecopy_page {
	uint64_t until; /* until when the page may not leave */
	uint32_t asker; /* at the manager: the last asker; node 0 at first */
	uint32_t spare;
};

static bool onecopy_is_here(struct roami_node *node, uint32_t page)
{
	unsigned state = roami_page_state(node, page);

	roami_contract(roami_page_pending(node, page) || roami_page_locked(node, page));
	return state == ONECOPY_HERE || (state == ONECOPY_START && roami_me(node) == 0);
}

/* At the manager: makes `asker` the last asker, and returns the one before it. */
static unsigned onecopy_queue(struct roami_node *node, uint32_t page, unsigned asker)
{
	struct onecopy_page *data = roami_page_data(node, page);
	unsigned last;

	roami_assert(roami_manager(node, page) == roami_me(node) && asker < roami_count(node));
	roami_page_lock(node, page);
	last = data->asker;
	data->asker = asker;
	roami_page_unlock(node, page);
	return last;
}

static void onecopy_bring(struct roami_node *node, uint32_t page)
{
	unsigned to = roami_manager(node, page), type = ONECOPY_WANT;
	bool came;

	roami_contract(!onecopy_is_here(node, page));
	if (to == roami_me(node)) {
		to = onecopy_queue(node, page, to);
		type = ONECOPY_TAKE;
	}
	roami_call_page(node, to, type, page, NULL, 0, &came);
	if (!came)
		roami_node_fail(node, "page %u: the answer has no bytes", page);
}

static void onecopy_get(struct roami_node *node, uint32_t page)
{
	struct onecopy_page *data = roami_page_data(node, page);

	roami_contract_pending(node, page);
	if (!onecopy_is_here(node, page))
		onecopy_bring(node, page);
	roami_page_lock(node, page);
	roami_page_move(node, page, ONECOPY_HERE);
	data->until = roami_now(node) + roami_stay_ns(node);
	roami_page_unlock(node, page);
	roami_page_open(node, page, 1, ROAM_WRITE);
}

/* Pages that are here stay as they are: most pages of a large block may never have been touched. */
static void onecopy_collect(struct roami_node *node, uint32_t page)
{
	if (!onecopy_is_here(node, page))
		onecopy_get(node, page);
}

static void onecopy_want(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));

	roami_forward(node, request, onecopy_queue(node, page, request->origin), ONECOPY_TAKE);
}

static void onecopy_take(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	struct onecopy_page *data = roami_page_data(node, page);
	uint64_t now = roami_now(node);

	roami_page_lock(node, page);
	if (roami_page_pending(node, page)) {
		roami_park(node, request, page); /* the page is on its way here, or being opened */
		roami_page_unlock(node, page);
		return;
	}
	if (now < data->until) {
		roami_page_unlock(node, page);
		roami_delay(node, request, data->until - now);
		return;
	}
	roami_assert(onecopy_is_here(node, page));
	roami_page_close(node, &page, 1, ROAM_NONE);
	roami_page_move(node, page, ONECOPY_AWAY);
	roami_reply_page(node, request, page, NULL, 0);
	roami_page_away(node, page);
	roami_page_unlock(node, page);
}

static void onecopy_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++) {
		unsigned open = 0;

		if (!roami_page_ours(nodes[0], page))
			continue;
		for (unsigned i = 0; i < count; i++)
			open += roami_page_access(nodes[i], page) != ROAM_NONE;
		roami_assert(open <= 1);
	}
}

static const struct roam_page_state onecopy_states[] = {
	[ONECOPY_START] = {"start", 1u << ONECOPY_HERE | 1u << ONECOPY_AWAY},
	[ONECOPY_HERE] = {"here", 1u << ONECOPY_HERE | 1u << ONECOPY_AWAY},
	[ONECOPY_AWAY] = {"away", 1u << ONECOPY_HERE},
	{NULL, 0},
};

static const struct roam_message onecopy_messages[] = {
	[ONECOPY_WANT] = {"want", onecopy_want, sizeof(uint32_t)},
	[ONECOPY_TAKE] = {"take", onecopy_take, sizeof(uint32_t)},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_onecopy = {
	.name = "onecopy",
	.paper = "one migrating copy; Stumm and Zhou 1990",
	.model = ROAM_MODEL_SC,
	.writes = ROAM_WRITES_FAULT,
	.page_size = sizeof(struct onecopy_page),
	.states = onecopy_states,
	.messages = onecopy_messages,
	.read_fault = onecopy_get,
	.write_fault = onecopy_get,
	.collect = onecopy_collect,
	.check = onecopy_check,
};
