/*
 * mirage: ivy with a time window.
 *
 * Paper: Fleisch and Popek, Mirage: A Coherent Distributed Shared Memory Design (SOSP 1989).
 *
 * Idea.  Under ivy a page that two nodes use at the same time travels back and forth, and neither
 * gets anything done while it travels.  Here a page that came to a node, to be written or to be
 * read, stays for a time window delta, whichever node asks for it; requests wait until the window
 * ends.  The node then makes many accesses for one move.  Requests go through a site that knows
 * which nodes have the page (the paper's library, here the page's manager).  Too short a delta is
 * ivy; with too long a one nodes wait for a page that is not in use.
 *
 * Delta is one number for all pages (ROAM_MIRAGE_DELTA, in microseconds) but those of regions with
 * a delta of their own (roam_region.option), or each node finds one for each page (0).  If a write
 * wants the page back sooner after its loss than the page had stayed, the window was too short and
 * is doubled, up to 2 milliseconds.  If the page is not missed for four windows, its window is
 * halved, down to the time for which ivy keeps a page.
 *
 * Page states and messages: ivy's.
 *
 * Sequential consistency: ivy's.  The window only makes answers late.
 *
 * Differences from the paper, and why:
 * - The paper's library queues the requests of a segment and handles one at a time; here the nodes
 *   that have a page keep its requests (rule 8.2), and requests for other pages go on beside them.
 * - The paper's clock site is one of a page's holders: it says how much of the window is left, and
 *   the library asks again later.  Here each holder has its own clock and answers when its time is
 *   over: one message less, and no clocks to compare.
 * - The paper's library grants waiting readers together.  Here each asks for itself, and the owner,
 *   once it has given up writing, answers the others without a window.
 * - The paper leaves it to an administrator to find delta, for a page or a segment.  Reads do not
 *   lengthen it here: a loop that waits for a value reads at once whatever it lost, and a window
 *   would only keep the writer from writing the value.
 * - The paper drops the pages of a segment that no process has attached; roam has no such thing.
 */
#include "ivy.h"

#define MIRAGE_MOST_NS 2000000u
#define MIRAGE_DELTA   "ROAM_MIRAGE_DELTA"

struct mirage_page {
	struct ivy_page ivy;
	uint32_t delta_ns; /* this node's window, if it finds one for each page */
	bool soon;         /* when the page was last missed, it had been gone for less than delta */
};

struct mirage_node {
	struct ivy_node ivy;
	uint64_t delta_us; /* of every page; 0: each page has a window of its own */
};

/* The window in ns that the page's region, or the job, asks for; 0: one is found for the page. */
static uint64_t mirage_given(struct roami_node *node, uint32_t page)
{
	const struct mirage_node *mirage = roami_node_state(node);

	return roami_page_option(node, page, mirage->delta_us) * 1000;
}

static uint64_t mirage_window(struct roami_node *node, uint32_t page)
{
	const struct mirage_page *data = roami_page_data(node, page);
	uint64_t given = mirage_given(node, page), delta = given != 0 ? given : data->delta_ns;

	roami_contract_locked(node, page);
	return delta > ROAM_STAY_NS ? delta : ROAM_STAY_NS;
}

/* Notes, when the page is missed, whether it was gone (since ivy.until) for less than a window. */
static void mirage_missed(struct roami_node *node, uint32_t page)
{
	struct mirage_page *data = roami_page_data(node, page);
	uint64_t window, gone;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	if (ivy_state(node, page) == IVY_NONE && data->ivy.until != 0) {
		window = mirage_window(node, page);
		gone = roami_now(node) - data->ivy.until;
		data->soon = gone < window;
		if (gone > 4 * window)
			data->delta_ns = (uint32_t)(window / 2);
	}
	roami_page_unlock(node, page);
}

/*
 * Lengthens the window: a write wants a page that left too early, at once or after reading a copy.
 */
static void mirage_lengthen(struct roami_node *node, uint32_t page)
{
	struct mirage_page *data = roami_page_data(node, page);
	uint64_t window;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	window = 2 * mirage_window(node, page);
	if (data->soon)
		data->delta_ns = (uint32_t)(window < MIRAGE_MOST_NS ? window : MIRAGE_MOST_NS);
	data->soon = false;
	roami_assert(data->delta_ns <= MIRAGE_MOST_NS);
	roami_page_unlock(node, page);
}

static enum roam_err mirage_init(struct roami_node *node)
{
	struct mirage_node *mirage = roami_node_state(node);

	mirage->ivy.dynamic = false;
	mirage->ivy.window = mirage_window;
	mirage->ivy.lend = ivy_lend;
	mirage->delta_us = roami_option(node, MIRAGE_DELTA);
	return ROAM_OK;
}

static void mirage_read_fault(struct roami_node *node, uint32_t page)
{
	if (mirage_given(node, page) == 0)
		mirage_missed(node, page);
	ivy_read_fault(node, page);
}

static void mirage_write_fault(struct roami_node *node, uint32_t page)
{
	if (mirage_given(node, page) == 0) {
		mirage_missed(node, page);
		mirage_lengthen(node, page);
	}
	ivy_write_fault(node, page);
}

const struct roam_protocol roami_protocol_mirage = {
	.name = "mirage",
	.paper = "ivy with a time window; Fleisch and Popek 1989",
	.model = ROAM_MODEL_SC,
	.writes = ROAM_WRITES_FAULT,
	.node_size = sizeof(struct mirage_node),
	.page_size = sizeof(struct mirage_page),
	.region_option = MIRAGE_DELTA,
	.states = ivy_states,
	.messages = ivy_messages,
	.init = mirage_init,
	.read_fault = mirage_read_fault,
	.write_fault = mirage_write_fault,
	.evict = ivy_evict,
	.collect = ivy_collect,
	.check = ivy_check,
};
