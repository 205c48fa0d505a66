/*
 * ivy: many readers or one writer, with write invalidation.
 *
 * Paper: Li and Hudak, Memory Coherence in Shared Virtual Memory Systems (ACM TOCS 7(4), 1989); Li,
 * IVY: A Shared Virtual Memory System for Parallel Computing (ICPP 1988).
 *
 * Idea.  Every page has one owner, the node that wrote it last.  The owner keeps the copyset: the
 * nodes that have a copy.  A read fault asks the owner for a copy; the owner gives up writing and
 * adds the reader to the copyset.  A write fault asks the owner for the page and its copyset, and
 * becomes the owner; it then has every copy invalidated, and writes once all nodes have answered
 * that their copy is gone.  The owner is found in one of two ways (ROAM_IVY).  Fixed distributed
 * manager: the page's manager knows which node asked last for writing, and passes requests on.
 * Dynamic distributed manager: every node has a probable owner for every page and asks that one; a
 * node that is not the owner passes the request on to its own probable owner, so that it reaches
 * the owner in the end.
 *
 * Page states: start (owner at node 0, none elsewhere); none -> fetch -> copy -> none for reading,
 * by way of evicted if the copy was evicted; none or copy -> asked -> owner for writing; owner ->
 * shared when another node reads, and back when this node writes; owner or shared -> none when
 * another node writes.
 *
 * Messages: read and write, passed on until they are at the owner, which answers with the page's
 * bytes, for a write with the copyset before them, and without bytes if the asker has a copy.
 * invalidate, to each node of the copyset; answered when the copy is gone.  drop, passed on to the
 * owner: the sender has evicted its copy; answered when it has left the copyset.
 *
 * Sequential consistency: a write waits until no other node can read the page (rule 2.6).
 *
 * Why requests meet no dead end.  A node's probable owner becomes the asker when a write request is
 * passed on, the receiver when the page is given away and, under dynamic managers, the sender of an
 * invalidation.  So it is never older than the time this node was owner itself, and leads to an
 * owner or to a node that asked to be; that node keeps requests until it has the page.  A fixed
 * manager's probable owner is the last node that asked.  An invalidation never waits for a write
 * under way, only for a copy that the owner has sent already.
 *
 * Differences from the papers, and why:
 * - The manager keeps no copyset and gets no confirmations, as in the papers' improved managers: it
 *   is a node that all others ask first, and is otherwise like any other in the dynamic scheme.
 * - Reads leave the owner and the probable owners as they are; only write requests change them.
 * - A page stays for a moment where it came, so that the access that faulted can be made, and for
 *   longer if the thread was kept from running (roami_stay_ns): so some thread always gets on.
 * - Invalidations go out all at once, not by a broadcast.
 * - Copies can be evicted (ROAM_CACHE_PAGES).  The owner hears of it when the page is wanted again,
 *   and before that.  So a node that waits for a copy is in a copyset by that copy alone, and can
 *   keep an invalidation that overtook it until it is here.
 */
#include "ivy.h"

#include <string.h>

static enum ivy_state ivy_here(struct roami_node *node, uint32_t page)
{
	unsigned state = roami_page_state(node, page);

	if (state != IVY_START)
		return (enum ivy_state)state;
	return roami_me(node) == 0 ? IVY_OWNER : IVY_NONE;
}

enum ivy_state ivy_state(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	return ivy_here(node, page);
}

enum ivy_state ivy_look(struct roami_node *node, uint32_t page)
{
	enum ivy_state state;

	roami_page_lock(node, page);
	state = ivy_state(node, page);
	roami_page_unlock(node, page);
	return state;
}

static void ivy_move(struct roami_node *node, uint32_t page, enum ivy_state state)
{
	roami_page_lock(node, page);
	roami_page_move(node, page, state);
	roami_page_unlock(node, page);
}

/* Lets a page that came stay for a while. */
static void ivy_keep(struct roami_node *node, uint32_t page)
{
	const struct ivy_node *ivy = roami_node_state(node);
	struct ivy_page *data = roami_page_data(node, page);
	uint64_t stay = roami_stay_ns(node), window = ivy->window(node, page);

	roami_contract_pending(node, page);
	roami_contract_locked(node, page);
	data->until = roami_now(node) + (stay > window ? stay : window);
}

/* -------------------------------------------------------------------------------------- faults */

/* The node that is asked about the page next. */
static unsigned ivy_towards(struct roami_node *node, uint32_t page)
{
	const struct ivy_node *ivy = roami_node_state(node);
	const struct ivy_page *data = roami_page_data(node, page);
	unsigned manager = roami_manager(node, page), to;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	to = ivy->dynamic || manager == roami_me(node) ? data->owner : manager;
	roami_page_unlock(node, page);
	return to;
}

/* Sends a request towards the page's owner; returns whether the page came with the answer. */
static bool ivy_ask(struct roami_node *node, uint32_t page, unsigned type)
{
	bool came;

	if (roami_call_page(node, ivy_towards(node, page), type, page, NULL, 0, &came) != 0)
		roami_node_fail(node, "page %u: malformed answer of its owner", page);
	return came;
}

/* Opens the owner's page for reading; its bytes are still here. */
static void ivy_read_own(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(ivy_owns(ivy_look(node, page)));
	roami_page_set_home(node, page, true);
	if (ivy_look(node, page) == IVY_SHARED) {
		roami_page_open(node, page, 1, ROAM_READ);
		return;
	}
	ivy_move(node, page, IVY_OWNER);
	roami_page_open(node, page, 1, ROAM_WRITE);
}

/*
 * Takes this node out of the copyset after an eviction: otherwise an invalidation could be about
 * the evicted copy or about the next one.
 */
static void ivy_leave(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	ivy_ask(node, page, IVY_DROP);
	roami_page_lock(node, page);
	if (ivy_state(node, page) == IVY_EVICTED) /* else it was invalidated meanwhile */
		roami_page_move(node, page, IVY_NONE);
	roami_page_unlock(node, page);
}

void ivy_read_fault(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	if (ivy_owns(ivy_look(node, page))) {
		ivy_read_own(node, page);
		return;
	}
	if (ivy_look(node, page) == IVY_EVICTED)
		ivy_leave(node, page);
	ivy_move(node, page, IVY_FETCH);
	if (!ivy_ask(node, page, IVY_READ))
		roami_node_fail(node, "page %u: the answer has no bytes", page);
	roami_page_open(node, page, 1, ROAM_READ);
	roami_page_lock(node, page);
	ivy_keep(node, page);
	roami_page_move(node, page, IVY_COPY); /* now that it is open, it can be invalidated */
	roami_page_unlock(node, page);
}

void ivy_want(struct roami_node *node, uint32_t page, struct roam_page_call *call)
{
	struct ivy_page *data = roami_page_data(node, page);

	roami_contract_pending(node, page);
	ivy_move(node, page, IVY_ASKED); /* requests for the page are parked from now on */
	*call = (struct roam_page_call){.page = page,
					.to = ivy_towards(node, page),
					.type = IVY_WRITE,
					.part = {&call->page, sizeof(call->page)},
					.reply = &data->copies,
					.reply_max = sizeof(data->copies)};
}

void ivy_taken(struct roami_node *node, const struct roam_page_call *call)
{
	const struct ivy_page *data = roami_page_data(node, call->page);
	unsigned nodes = roami_count(node);

	roami_contract_pending(node, call->page);
	if (call->bytes != sizeof(data->copies))
		roami_node_fail(node, "page %u: malformed answer of its owner", call->page);
	if (!call->came && roami_page_access(node, call->page) == ROAM_NONE)
		roami_node_fail(node, "page %u: the answer has no bytes", call->page);
	if ((data->copies & ivy_bit(roami_me(node))) != 0 ||
	    (nodes < 64 && data->copies >> nodes != 0))
		roami_node_fail(node, "page %u: malformed copyset", call->page);
}

/* Makes this node the owner of the pending page; another node is the owner. */
static void ivy_take(struct roami_node *node, uint32_t page)
{
	struct roam_page_call call;

	ivy_want(node, page, &call);
	roami_pages_call(node, &call, 1);
	ivy_taken(node, &call);
}

void ivy_write_fault(struct roami_node *node, uint32_t page)
{
	struct ivy_page *data = roami_page_data(node, page);
	struct roam_part part = {&page, sizeof(page)};
	bool alone = ivy_look(node, page) == IVY_OWNER; /* since it came: it does not stay anew */

	roami_contract_pending(node, page);
	if (ivy_look(node, page) == IVY_EVICTED)
		ivy_leave(node, page);
	if (!ivy_owns(ivy_look(node, page)))
		ivy_take(node, page);
	roami_contract((data->copies & ivy_bit(roami_me(node))) == 0);
	roami_call_each(node, data->copies, IVY_INVALIDATE, &part, 1);
	roami_page_lock(node, page);
	data->copies = 0;
	if (!alone)
		ivy_keep(node, page);
	roami_page_move(node, page, IVY_OWNER);
	roami_page_unlock(node, page);
	roami_page_set_home(node, page, true);
	roami_page_open(node, page, 1, ROAM_WRITE);
}

bool ivy_evict(struct roami_node *node, uint32_t page)
{
	bool gone;

	roami_contract_pending(node, page);
	roami_page_lock(node, page); /* against an invalidation */
	gone = ivy_state(node, page) == IVY_COPY;
	if (gone) {
		roami_page_close(node, &page, 1, ROAM_NONE);
		roami_page_move(node, page, IVY_EVICTED);
	}
	roami_page_unlock(node, page);
	return gone;
}

void ivy_collect(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (ivy_look(node, page) != IVY_OWNER)
		ivy_write_fault(node, page);
}

/* ------------------------------------------------------------------------------------ messages */

/* How long, in ns, the page must stay as it is, or at least be readable, if a node asks for it. */
static uint64_t ivy_left(struct roami_node *node, uint32_t page, unsigned type)
{
	const struct ivy_node *ivy = roami_node_state(node);
	const struct ivy_page *data = roami_page_data(node, page);
	uint64_t keeps = ivy->keeps != NULL ? ivy->keeps(node, page) : 0, now = roami_now(node);
	uint64_t left = now < data->until ? data->until - now : 0;

	roami_contract_locked(node, page);
	if (type == IVY_READ)
		return ivy_state(node, page) == IVY_OWNER ? left : 0;
	return left > keeps ? left : keeps;
}

/*
 * Whether this node, as the page's owner, can answer now; if so, the page lock is held on return.
 * If not, the request was parked, delayed or passed on.
 */
static bool ivy_serves(struct roami_node *node, const struct roam_request *request, uint32_t page,
		       unsigned type)
{
	struct ivy_page *data = roami_page_data(node, page);
	enum ivy_state state;
	uint64_t left;
	unsigned to;

	roami_page_lock(node, page);
	state = ivy_state(node, page);
	to = data->owner;
	if (state == IVY_ASKED || (ivy_owns(state) && roami_page_pending(node, page))) {
		roami_park(node, request, page);
		roami_page_unlock(node, page);
		return false;
	}
	if (!ivy_owns(state)) {
		if (type == IVY_WRITE)
			data->owner = request->origin;
		roami_page_unlock(node, page);
		roami_forward(node, request, to, type);
		return false;
	}
	left = ivy_left(node, page, type);
	if (left > 0) {
		roami_page_unlock(node, page);
		roami_delay(node, request, left);
		return false;
	}
	return true;
}

void ivy_lend(struct roami_node *node, const struct roam_request *request, uint32_t page)
{
	roami_page_close(node, &page, 1, ROAM_READ);
	roami_reply_page(node, request, page, NULL, 0);
}

static void ivy_read(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	const struct ivy_node *ivy = roami_node_state(node);
	struct ivy_page *data = roami_page_data(node, page);

	if (!ivy_serves(node, request, page, IVY_READ))
		return;
	roami_contract_locked(node, page);
	roami_contract(!roami_page_pending(node, page));
	roami_page_move(node, page, IVY_SHARED);
	data->copies |= ivy_bit(request->origin);
	ivy->lend(node, request, page);
	roami_page_unlock(node, page);
}

/* Takes the page away from this node's threads, none of which can read it from here on. */
static void ivy_lose(struct roami_node *node, uint32_t page)
{
	const struct ivy_node *ivy = roami_node_state(node);
	bool had = roami_page_access(node, page) != ROAM_NONE;

	roami_contract_locked(node, page);
	roami_page_close(node, &page, 1, ROAM_NONE);
	if (had && ivy->lost != NULL)
		ivy->lost(node, page);
}

static void ivy_write(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	struct ivy_page *data = roami_page_data(node, page);
	const struct ivy_node *ivy = roami_node_state(node);
	uint64_t asker = ivy_bit(request->origin), copies;
	struct roam_part part = {&copies, sizeof(copies)};

	if (!ivy_serves(node, request, page, IVY_WRITE))
		return;
	roami_contract_locked(node, page);
	roami_contract(!roami_page_pending(node, page));
	ivy_lose(node, page);
	roami_page_set_home(node, page, false);
	roami_page_move(node, page, IVY_NONE);
	copies = data->copies & ~asker;
	if ((data->copies & asker) != 0)
		roami_reply(node, request, &part, 1);
	else if (ivy->give != NULL)
		ivy->give(node, request, page, &part);
	else
		roami_reply_page(node, request, page, &part, 1);
	roami_page_away(node, page);
	data->copies = 0;
	data->owner = request->origin;
	data->until = roami_now(node);
	roami_page_unlock(node, page);
}

/* Closes a copy; once the sender has the answer, no thread of this node can read the page. */
static void ivy_invalidate(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	const struct ivy_node *ivy = roami_node_state(node);
	struct ivy_page *data = roami_page_data(node, page);
	uint64_t left;

	roami_page_lock(node, page);
	roami_contract(!ivy_owns(ivy_state(node, page)));
	if (ivy_state(node, page) == IVY_FETCH) {
		roami_park(node, request, page); /* the copy that it is about is on its way */
		roami_page_unlock(node, page);
		return;
	}
	left = ivy_left(node, page, IVY_INVALIDATE);
	if (left > 0) {
		roami_page_unlock(node, page);
		roami_delay(node, request, left);
		return;
	}
	ivy_lose(node, page);
	if (ivy_state(node, page) != IVY_ASKED)
		roami_page_move(node, page, IVY_NONE);
	if (ivy->dynamic) /* a fixed manager may know a later owner already */
		data->owner = request->origin;
	data->until = roami_now(node);
	roami_reply(node, request, NULL, 0);
	roami_page_unlock(node, page);
}

static void ivy_drop(struct roami_node *node, const struct roam_request *request)
{
	uint32_t page = roami_request_page(node, request, sizeof(page));
	struct ivy_page *data = roami_page_data(node, page);

	if (!ivy_serves(node, request, page, IVY_DROP))
		return;
	roami_contract_locked(node, page);
	data->copies &= ~ivy_bit(request->origin);
	roami_reply(node, request, NULL, 0);
	roami_page_unlock(node, page);
}

/* --------------------------------------------------------------------------------------- tests */

/*
 * A page has one owner; its copyset is the nodes that have a copy or evicted one; a writer is
 * alone.
 */
static void ivy_check_page(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	const struct ivy_page *data = NULL;
	uint64_t copies = 0;
	unsigned owners = 0, writers = 0;

	for (unsigned i = 0; i < count; i++) {
		enum ivy_state state = ivy_here(nodes[i], page);
		enum roam_access access = roami_page_access(nodes[i], page);

		if (ivy_owns(state)) {
			data = roami_page_data(nodes[i], page);
			owners++;
		}
		if (state == IVY_COPY || state == IVY_EVICTED)
			copies |= ivy_bit(i);
		roami_assert(access == ROAM_NONE || state == IVY_COPY || ivy_owns(state));
		writers += access == ROAM_WRITE;
	}
	roami_assert(owners == 1);
	roami_assert(data->copies == copies);
	roami_assert(writers == 0 || (writers == 1 && copies == 0));
}

void ivy_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			ivy_check_page(nodes, count, page);
}

/* ---------------------------------------------------------------------------------------- table */

uint64_t ivy_window(struct roami_node *node, uint32_t page)
{
	(void)node;
	(void)page;
	return ROAM_STAY_NS;
}

static enum roam_err ivy_init(struct roami_node *node)
{
	struct ivy_node *ivy = roami_node_state(node);

	ivy->dynamic = roami_option(node, "ROAM_IVY") == IVY_MANAGER_DYNAMIC;
	ivy->window = ivy_window;
	ivy->lend = ivy_lend;
	return ROAM_OK;
}

#define IVY_TO(state) (1u << IVY_##state)

const struct roam_page_state ivy_states[] = {
	[IVY_START] = {"start", IVY_TO(NONE) | IVY_TO(FETCH) | IVY_TO(ASKED) | IVY_TO(SHARED) |
					IVY_TO(OWNER)},
	[IVY_NONE] = {"none", IVY_TO(FETCH) | IVY_TO(ASKED)},
	[IVY_FETCH] = {"fetch", IVY_TO(COPY)},
	[IVY_COPY] = {"copy", IVY_TO(NONE) | IVY_TO(EVICTED) | IVY_TO(ASKED) |
				      IVY_TO(FETCH)}, /* plurix only: one that was closed */
	[IVY_EVICTED] = {"evicted", IVY_TO(NONE)},
	[IVY_ASKED] = {"asked", IVY_TO(OWNER)},
	[IVY_SHARED] = {"shared", IVY_TO(NONE) | IVY_TO(SHARED) | IVY_TO(OWNER)},
	[IVY_OWNER] = {"owner", IVY_TO(NONE) | IVY_TO(SHARED) | IVY_TO(OWNER)},
	{NULL, 0},
};

const struct roam_message ivy_messages[] = {
	[IVY_READ] = {"read", ivy_read, sizeof(uint32_t)},
	[IVY_WRITE] = {"write", ivy_write, sizeof(uint32_t)},
	[IVY_INVALIDATE] = {"invalidate", ivy_invalidate, sizeof(uint32_t)},
	[IVY_DROP] = {"drop", ivy_drop, sizeof(uint32_t)},
	{NULL, NULL, 0},
};

const struct roam_protocol roami_protocol_ivy = {
	.name = "ivy",
	.paper = "many readers or one writer, invalidation; Li and Hudak 1989",
	.model = ROAM_MODEL_SC,
	.writes = ROAM_WRITES_FAULT,
	.node_size = sizeof(struct ivy_node),
	.page_size = sizeof(struct ivy_page),
	.states = ivy_states,
	.messages = ivy_messages,
	.init = ivy_init,
	.read_fault = ivy_read_fault,
	.write_fault = ivy_write_fault,
	.evict = ivy_evict,
	.collect = ivy_collect,
	.check = ivy_check,
};
