/*
 * moment: one copy of each page, which goes to the node that touches it, with writes that are
 * noticed in another way from one moment to the next; for tests.
 *
 * Idea.  A page that comes back to a node is *inside*: the core makes a twin of it when it is
 * written, and the node's next release finds what was written by that, as a transaction would.
 * Then, until the page leaves, it is outside: it is opened for writing by a fault, without a twin.
 * A page that leaves while it is inside loses its twin: that transaction is over.
 *
 * Page states: start -> here, away; here -> away -> here.  Start is here at node 0.
 * Messages: want, to the manager, which passes it on as take to the last asker.
 */
#include "roam/protocol.h"

#include <string.h>

enum moment_state { MOMENT_START, MOMENT_HERE, MOMENT_AWAY };

enum { MOMENT_WANT, MOMENT_TAKE };

struct moment_page {
	uint64_t until;  /* may not leave before */
	uint32_t asker;  /* at the manager: the last asker; node 0 at first */
	uint32_t inside; /* writes make a twin */
};

static struct moment_page *moment_page(struct roami_node *node, uint32_t page)
{
	return roami_page_data(node, page);
}

static enum roam_writes moment_writes(struct roami_node *node, uint32_t page)
{
	return moment_page(node, page)->inside ? ROAM_WRITES_DIFF : ROAM_WRITES_FAULT;
}

static bool moment_is_here(struct roami_node *node, uint32_t page)
{
	unsigned state = roami_page_state(node, page);

	return state == MOMENT_HERE || (state == MOMENT_START && roami_me(node) == 0);
}

static unsigned moment_queue(struct roami_node *node, uint32_t page, unsigned asker)
{
	struct moment_page *data = moment_page(node, page);
	unsigned last;

	roami_page_lock(node, page);
	last = data->asker;
	data->asker = asker;
	roami_page_unlock(node, page);
	return last;
}

static void moment_bring(struct roami_node *node, uint32_t page)
{
	unsigned to = roami_manager(node, page), type = MOMENT_WANT;
	bool came;

	if (to == roami_me(node)) {
		to = moment_queue(node, page, to);
		type = MOMENT_TAKE;
	}
	roami_call_page(node, to, type, page, NULL, 0, &came);
	if (!came)
		roami_node_fail(node, "page %u: the answer has no bytes", page);
}

static void moment_get(struct roami_node *node, uint32_t page)
{
	struct moment_page *data = moment_page(node, page);

	if (!moment_is_here(node, page))
		moment_bring(node, page);
	roami_page_lock(node, page);
	roami_page_move(node, page, MOMENT_HERE);
	data->until = roami_now(node) + roami_stay_ns(node);
	roami_page_unlock(node, page);
	roami_page_open(node, page, 1, data->inside ? ROAM_READ : ROAM_WRITE);
}

/* Inside, the core opens the page and makes the twin. */
static void moment_write(struct roami_node *node, uint32_t page)
{
	if (!moment_page(node, page)->inside)
		moment_get(node, page);
}

static void moment_want(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));

	roami_forward(node, request, moment_queue(node, page, request->origin), MOMENT_TAKE);
}

static void moment_give(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	roami_page_close(node, &page, 1, ROAM_NONE);
	roami_page_move(node, page, MOMENT_AWAY);
	roami_twin_drop(node, page);
	moment_page(node, page)->inside = 1;
	roami_reply_page(node, request, page, NULL, 0);
	roami_page_away(node, page);
}

static void moment_take(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	uint64_t now = roami_now(node), until;

	roami_page_lock(node, page);
	until = moment_page(node, page)->until;
	if (roami_page_pending(node, page))
		roami_park(node, request, page);
	else if (now < until)
		roami_delay(node, request, until - now);
	else
		moment_give(node, request, page);
	roami_page_unlock(node, page);
}

/* What was written inside is what the twin says; from here on the page is outside. */
static void moment_release(struct roami_node *node, const struct roam_sync *sync,
			   struct roam_dirty *dirty, size_t count)
{
	uint8_t *diff = roami_scratch(node);

	(void)sync;
	for (size_t i = 0; i < count; i++) {
		uint32_t page = dirty[i].page;

		roami_assert(!dirty[i].keep && roami_page_access(node, page) != ROAM_WRITE);
		roami_page_lock(node, page);
		if (roami_page_has_twin(node, page)) {
			size_t bytes = roami_diff_make(node, page, diff, false);
			bool same = memcmp(roami_page_old(node, page), roami_page_bytes(node, page),
					   ROAM_PAGE_SIZE) == 0;

			roami_assert(moment_is_here(node, page) && (bytes == 0) == same);
			roami_assert(moment_page(node, page)->inside);
			moment_page(node, page)->inside = 0;
		}
		roami_page_unlock(node, page);
	}
}

static void moment_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++) {
		unsigned open = 0;

		if (!roami_page_ours(nodes[0], page))
			continue;
		for (unsigned i = 0; i < count; i++) {
			open += roami_page_access(nodes[i], page) != ROAM_NONE;
			roami_assert(roami_page_access(nodes[i], page) != ROAM_WRITE ||
				     roami_page_has_twin(nodes[i], page) ==
					     (moment_page(nodes[i], page)->inside != 0));
		}
		roami_assert(open <= 1);
	}
}

static const struct roam_page_state moment_states[] = {
	[MOMENT_START] = {"start", 1u << MOMENT_HERE | 1u << MOMENT_AWAY},
	[MOMENT_HERE] = {"here", 1u << MOMENT_HERE | 1u << MOMENT_AWAY},
	[MOMENT_AWAY] = {"away", 1u << MOMENT_HERE},
	{NULL, 0},
};

static const struct roam_message moment_messages[] = {
	[MOMENT_WANT] = {"want", moment_want, sizeof(uint32_t)},
	[MOMENT_TAKE] = {"take", moment_take, sizeof(uint32_t)},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_moment = {
	.name = "moment",
	.paper = "one copy, with twins at times; for tests",
	.model = ROAM_MODEL_SC,
	.writes = ROAM_WRITES_FAULT,
	.writes_now = moment_writes,
	.page_size = sizeof(struct moment_page),
	.scratch_size = ROAM_DIFF_MAX,
	.states = moment_states,
	.messages = moment_messages,
	.read_fault = moment_get,
	.write_fault = moment_write,
	.release = moment_release,
	.collect = moment_get,
	.check = moment_check,
};
