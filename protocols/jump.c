/*
 * jump: scope consistency with a migrating home.
 *
 * Paper: Cheung, Wang and Hwang, JUMP-DP: A Software DSM System with Low-Latency Communication
 * Support (section 2), after A Migrating-Home Protocol for Implementing Scope Consistency Model on
 * a Cluster of Workstations (1999), by the same authors.
 *
 * Idea.  As jiajia1, but the home of a page moves to the node that faults on it, if and only if
 * the node asked is the home and every other node that has a copy has sent its updates.  The new
 * home writes without twin and diff, so a page that one node writes after another is sent once, and
 * nothing else of it.  The old home keeps a clean copy.
 *
 * Where a page is.  Every move counts the page's epoch up.  Each node knows a place, node and
 * epoch, for the pages it has dealt with: from what it gave away, from answers, from notices; for
 * others the directory names the first home.  Requests and diffs carry the place at which they are
 * directed.  Who is not home passes them on to the newer place it knows, so epochs grow on the way;
 * who knows of no newer one than the request does is about to get the page, and keeps the request
 * until it is here.  The home it ends at acknowledges a diff, with the version it made (RULES 7.2).
 *
 * Page states: invalid -> copy, invalid -> master at the home; copy -> invalid; master -> copy when
 * the home moves away.  At most one header says "home"; none while the page is in flight.
 *
 * Messages: want (place -> page, version, place, whether the home moved), diff (place, diff ->
 * version, place).
 *
 * Differences from the paper, and why:
 * - "Has sent its updates": a node counts as holding a copy from when the home sent it one until
 *   its diff came, or it asks again, or the next full barrier.  That is the policy only; copies
 *   that stay behind are no danger, for their diffs find the home wherever it is.
 * - The old home's writes of the open interval are in the bytes that it sends.  Its next release
 *   still owes the notice: an empty diff gets the version for it.
 * - A request that was passed on three times is served with a copy; so is one that comes while
 *   the home works on the page, and reading ahead.  So a page cannot run away from who wants it.
 * - Notices tell the new home's place, and nobody is told otherwise.
 * - jump-rc is the same with release consistency, for programs that hand on by a lock what they
 *   wrote outside of its sections.
 */
#include <string.h>

#include "home.h"

#define HOPS_MAX 3u
#define FLUSH_ONCE 16u /* diffs under way at a time */

enum { JUMP_WANT, JUMP_DIFF };

struct jump_page {
	struct home_scoped_page home;
	uint64_t copies;   /* at the home: nodes that may have a copy and have sent nothing since */
	uint32_t barriers; /* when they were counted last */
	uint32_t place;    /* the newest known, while this node is not home; 0: ask the directory */
	uint32_t owed;     /* given away with writes of the open interval */
	uint32_t checked;  /* at node 0, by the tests: the newest epoch ever seen of a home */
};

/* The beginning of both messages. */
struct jump_head {
	uint32_t page;
	uint32_t place;
	uint16_t hops;
	uint16_t stay; /* of a want: a copy, please */
	uint32_t spare;
};

struct jump_answer {
	uint64_t version;
	uint32_t place;
	uint32_t moved; /* of a want: the home did; its place is then the asker's */
};

struct jump_bytes {
	struct jump_answer head;
	uint8_t bytes[ROAM_PAGE_SIZE];
};

static const struct roam_page_state jump_states[] = {
	[HOME_INVALID] = {"invalid", 1u << HOME_COPY | 1u << HOME_MASTER},
	[HOME_COPY] = {"copy", 1u << HOME_INVALID},
	[HOME_MASTER] = {"master", 1u << HOME_COPY},
	{NULL, 0},
};

static struct jump_page *jump_page(struct roami_node *node, uint32_t page)
{
	return roami_page_data(node, page);
}

/* Epochs only grow.  The page lock is held. */
static void jump_learn(struct jump_page *data, uint32_t place)
{
	if (place != 0 &&
	    (data->place == 0 || ROAM_PLACE_EPOCH(place) > ROAM_PLACE_EPOCH(data->place)))
		data->place = place;
}

/* -------------------------------------------------------------------------------------- faults */

/* The answer's bytes are in place; true: the page may be opened, as copy or as home's. */
static bool jump_install(struct roami_node *node, uint32_t page, const struct jump_answer *answer)
{
	struct jump_page *data = jump_page(node, page);
	bool good = true;

	roami_page_lock(node, page);
	jump_learn(data, answer->place);
	if (answer->moved) {
		roami_assert(answer->version >= data->home.page.need);
		roami_page_move(node, page, HOME_MASTER);
		data->home.page.shares = 0;
		data->copies = 0;
		roami_home_receive(node, page, answer->version, answer->place);
	} else {
		data->home.page.have = answer->version;
		good = answer->version >= data->home.page.need; /* else a notice came meanwhile */
		if (good)
			roami_page_move(node, page, HOME_COPY);
	}
	roami_page_unlock(node, page);
	return good;
}

static void jump_want(struct roami_node *node, uint32_t page, unsigned home, bool stay)
{
	struct jump_page *data = jump_page(node, page);
	struct jump_head head = {page, 0, 0, stay, 0};
	struct roam_part part = {&head, sizeof(head)};
	struct jump_bytes answer;

	do {
		roami_page_lock(node, page);
		head.place = data->place != 0 ? data->place : ROAM_PLACE_MADE(home, 0);
		roami_page_unlock(node, page);
		if (roami_call(node, ROAM_PLACE_OF(head.place), JUMP_WANT, &part, 1, &answer,
			       sizeof(answer)) != sizeof(answer))
			roami_node_fail(node, "page %u came in part", page);
		roami_fetched(node);
		memcpy(roami_page_bytes(node, page), answer.bytes, ROAM_PAGE_SIZE);
	} while (!jump_install(node, page, &answer.head));
}

static void jump_want_copy(struct roami_node *node, uint32_t page, unsigned home)
{
	jump_want(node, page, home, true);
}

static uint32_t jump_place(struct roami_node *node, uint32_t page)
{
	uint32_t place;

	roami_page_lock(node, page);
	place = jump_page(node, page)->place;
	roami_page_unlock(node, page);
	return place;
}

static void jump_read_fault(struct roami_node *node, uint32_t page)
{
	unsigned home = ROAM_NOBODY;

	/* Home already, if it was placed here and not touched yet. */
	if ((jump_place(node, page) == 0 || roami_home_here(node, page) != 0) &&
	    home_mine(node, page, &home))
		return;
	jump_want(node, page, home, false);
	roami_page_open(node, page, 1, ROAM_READ);
}

static void jump_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride)
{
	home_ahead_by(node, first, count, stride, jump_want_copy);
}

/* --------------------------------------------------------------------------- release, acquire */

/* A diff on its way. */
struct jump_update {
	struct roam_dirty *dirty;
	struct jump_head head;
	struct jump_answer answer;
	struct roam_part parts[2];
};

/* Makes the diff of a dirty page at `out`; false: there is nothing to send. */
static bool jump_make(struct roami_node *node, struct roam_dirty *dirty, uint8_t *out,
		      struct jump_update *update)
{
	struct jump_page *data = jump_page(node, dirty->page);
	size_t bytes = 0;

	*update = (struct jump_update){
		.dirty = dirty,
		.head = {.page = dirty->page, .place = jump_place(node, dirty->page)}};
	roami_page_lock(node, dirty->page);
	if (roami_page_has_twin(node, dirty->page))
		bytes = roami_diff_make(node, dirty->page, out, dirty->keep);
	roami_page_unlock(node, dirty->page);
	update->parts[0] = (struct roam_part){&update->head, sizeof(update->head)};
	update->parts[1] = (struct roam_part){out, bytes};
	dirty->changed = bytes != 0;
	if (!dirty->changed && !data->owed) {
		home_answered(node, dirty, update->head.place);
		return false;
	}
	data->owed = 0;
	return true;
}

/* The actual homes acknowledge, wherever the diffs found them. */
static void jump_send(struct roami_node *node, struct jump_update *updates, unsigned count)
{
	struct roam_call calls[FLUSH_ONCE];

	for (unsigned i = 0; i < count; i++)
		calls[i] = (struct roam_call){ROAM_PLACE_OF(updates[i].head.place), JUMP_DIFF,
					      updates[i].parts, 2, &updates[i].answer,
					      sizeof(updates[i].answer), 0};
	roami_call_all(node, calls, count);
	for (unsigned i = 0; i < count; i++) {
		struct roam_dirty *dirty = updates[i].dirty;

		if (calls[i].bytes != sizeof(updates[i].answer))
			roami_node_fail(node, "page %u: malformed acknowledgement", dirty->page);
		dirty->changed = true; /* the version is, at least */
		dirty->version = updates[i].answer.version;
		roami_page_lock(node, dirty->page);
		jump_learn(jump_page(node, dirty->page), updates[i].answer.place);
		roami_page_unlock(node, dirty->page);
		home_answered(node, dirty, updates[i].answer.place);
	}
}

static void jump_flush(struct roami_node *node, const struct roam_sync *sync,
		       struct roam_dirty *dirty, size_t count)
{
	struct jump_update updates[FLUSH_ONCE];
	unsigned made = 0;

	for (size_t i = 0; i < count; i++) {
		uint8_t *out = roami_scratch(node) + made * ROAM_DIFF_MAX;

		if (dirty[i].home) {
			jump_page(node, dirty[i].page)->owed = 0;
			home_written(node, sync, dirty[i].page);
		} else if (jump_make(node, &dirty[i], out, &updates[made]) &&
			   ++made == FLUSH_ONCE) {
			jump_send(node, updates, made);
			made = 0;
		}
	}
	jump_send(node, updates, made);
}

static void jump_release(struct roami_node *node, const struct roam_sync *sync,
			 struct roam_dirty *dirty, size_t count)
{
	home_publish_shared(node, sync, dirty, count);
	jump_flush(node, sync, dirty, count);
}

static void jump_acquire(struct roami_node *node, const struct roam_sync *sync,
			 const struct roam_notice *notices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		roami_page_lock(node, notices[i].page);
		jump_learn(jump_page(node, notices[i].page), notices[i].place);
		roami_page_unlock(node, notices[i].page);
	}
	home_invalidate(node, sync, notices, count, jump_flush);
}

/* The directory names the first home only: bring the bytes here. */
static void jump_settle(struct roami_node *node, uint32_t page)
{
	bool claimed;
	unsigned home = roami_home_find(node, page, false, &claimed);

	if (home == ROAM_NOBODY || roami_home_here(node, page) != 0 ||
	    roami_page_state(node, page) == HOME_COPY)
		return;
	jump_want(node, page, home, true);
}

/* ------------------------------------------------------------------------------------ messages */

static void jump_parse(struct roami_node *node, const struct roam_request *request,
		       struct jump_head *head)
{
	roami_request_page(node, request, sizeof(*head));
	memcpy(head, request->data, sizeof(*head));
	if (head->place == 0 || request->origin >= roami_count(node))
		roami_node_fail(node, "node %u sent a malformed request", request->from);
}

/*
 * Not home: passes the request on to a newer place, or keeps it for the page that is on its way
 * here.  The page lock is held.
 */
static void jump_elsewhere(struct roami_node *node, const struct roam_request *request,
			   struct jump_head *head, unsigned type)
{
	uint32_t place = jump_page(node, head->page)->place;
	struct roam_part parts[2] = {{head, sizeof(*head)},
				     {(const uint8_t *)request->data + sizeof(*head),
				      request->bytes - sizeof(*head)}};

	if (place != 0 && ROAM_PLACE_EPOCH(place) > ROAM_PLACE_EPOCH(head->place)) {
		head->place = place;
		head->hops++;
		roami_pass(node, request, ROAM_PLACE_OF(place), type, parts, 2);
		return;
	}
	if (!roami_page_pending(node, head->page))
		roami_node_fail(node, "node %u asked for page %u, which was never here",
				request->origin, head->page);
	roami_park(node, request, head->page);
}

/* Who may have a copy, of those not told otherwise since the last full barrier. */
static uint64_t *jump_copies(struct roami_node *node, struct jump_page *data)
{
	uint32_t barriers = roami_barriers_left(node);

	if (data->barriers != barriers)
		data->copies = 0;
	data->barriers = barriers;
	return &data->copies;
}

/* The page lock is held, and this node is home. */
static bool jump_moves(struct roami_node *node, const struct jump_head *head, unsigned to,
		       uint32_t place)
{
	struct jump_page *data = jump_page(node, head->page);

	return !head->stay && head->hops < HOPS_MAX &&
	       ROAM_PLACE_EPOCH(place) < ROAM_EPOCH_MAX &&
	       roami_page_state(node, head->page) == HOME_MASTER &&
	       !roami_page_pending(node, head->page) &&
	       (*jump_copies(node, data) & ~(UINT64_C(1) << to)) == 0;
}

/* The page lock is held. */
static void jump_give(struct roami_node *node, uint32_t page, unsigned to,
		      struct jump_bytes *answer)
{
	struct jump_page *data = jump_page(node, page);
	uint32_t place = roami_home_here(node, page);

	if (roami_home_give(node, page, answer->bytes, &answer->head.version))
		data->owed = 1;
	roami_page_move(node, page, HOME_COPY);
	data->home.page.have = answer->head.version;
	data->place = ROAM_PLACE_MADE(to, ROAM_PLACE_EPOCH(place) + 1);
	answer->head.place = data->place;
	answer->head.moved = 1;
}

static void jump_handle_want(struct roami_node *node, const struct roam_request *request)
{
	struct jump_bytes answer;
	struct roam_part part = {&answer, sizeof(answer)};
	struct jump_head head;
	uint32_t place;

	answer.head = (struct jump_answer){0}; /* the bytes are filled in either way */
	jump_parse(node, request, &head);
	roami_page_lock(node, head.page);
	place = roami_home_here(node, head.page);
	if (place == 0) {
		jump_elsewhere(node, request, &head, JUMP_WANT);
		roami_page_unlock(node, head.page);
		return;
	}
	if (jump_moves(node, &head, request->origin, place))
		jump_give(node, head.page, request->origin, &answer);
	else
		*jump_copies(node, jump_page(node, head.page)) |= UINT64_C(1) << request->origin;
	roami_page_unlock(node, head.page);
	if (!answer.head.moved) {
		answer.head.place = place;
		roami_home_copy(node, request->origin, head.page, answer.bytes,
				&answer.head.version);
	}
	roami_reply(node, request, &part, 1);
}

static void jump_handle_diff(struct roami_node *node, const struct roam_request *request)
{
	struct jump_answer answer = {0, 0, 0};
	struct roam_part part = {&answer, sizeof(answer)};
	struct jump_head head;

	jump_parse(node, request, &head);
	roami_page_lock(node, head.page);
	answer.place = roami_home_here(node, head.page);
	if (answer.place == 0)
		jump_elsewhere(node, request, &head, JUMP_DIFF);
	else
		*jump_copies(node, jump_page(node, head.page)) &=
			~(UINT64_C(1) << request->origin);
	roami_page_unlock(node, head.page);
	if (answer.place == 0)
		return;
	/* Only handlers give homes away, and they run one at a time. */
	answer.version = roami_home_apply(node, request->origin, head.page,
					  (const uint8_t *)request->data + sizeof(head),
					  request->bytes - sizeof(head));
	roami_reply(node, request, &part, 1);
}

static const struct roam_message jump_messages[] = {
	[JUMP_WANT] = {"want", jump_handle_want, sizeof(struct jump_head)},
	[JUMP_DIFF] = {"diff", jump_handle_diff, sizeof(struct jump_head) + ROAM_DIFF_MAX},
	{NULL, NULL, 0},
};

/* --------------------------------------------------------------------------------------- tests */

static void jump_check_page(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	uint32_t *epoch = &jump_page(nodes[0], page)->checked;
	unsigned homes = 0, pending = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct home_page *data = &jump_page(nodes[i], page)->home.page;
		uint32_t place = roami_home_here(nodes[i], page);

		pending += roami_page_pending(nodes[i], page);
		roami_assert(place != 0 || !roami_page_is_home(nodes[i], page));
		roami_assert(roami_page_state(nodes[i], page) != HOME_COPY ||
			     data->have >= data->need || roami_page_pending(nodes[i], page));
		if (place == 0)
			continue;
		homes++;
		roami_assert(ROAM_PLACE_EPOCH(place) >= *epoch);
		*epoch = ROAM_PLACE_EPOCH(place);
	}
	roami_assert(homes <= 1);
	roami_assert(homes == 1 || pending > 0 || *epoch == 0);
}

static void jump_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			jump_check_page(nodes, count, page);
}

/* The model is a parameter: -rc tells all that a node knows, at every synchronisation. */
#define JUMP_FIELDS				\
	.writes = ROAM_WRITES_DIFF,		\
	.closes_homes = true,			\
	.page_size = sizeof(struct jump_page),	\
	.scratch_size = FLUSH_ONCE * ROAM_DIFF_MAX, \
	.states = jump_states,			\
	.messages = jump_messages,		\
	.read_fault = jump_read_fault,		\
	.ahead = jump_ahead,			\
	.release = jump_release,		\
	.acquire = jump_acquire,		\
	.evict = home_evict,			\
	.settle = jump_settle,			\
	.check = jump_check

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
	JUMP_FIELDS,
};
