#include "moving.h"

#include <string.h>

#define REGRETS_MAX 2u /* after so many regrets the home stays where it is */

const struct roam_page_state moving_states[] = {
	[HOME_INVALID] = {"invalid", 1u << HOME_COPY | 1u << HOME_MASTER},
	[HOME_COPY] = {"copy", 1u << HOME_INVALID | 1u << HOME_MASTER},
	[HOME_MASTER] = {"master", 1u << HOME_COPY},
	{NULL, 0},
};

void moving_learn(struct roami_node *node, uint32_t page, uint32_t ref)
{
	struct moving_page *data = moving_page(node, page);

	roami_contract_locked(node, page);
	if (ref != 0 &&
	    (data->ref == 0 || ROAM_HOME_REF_EPOCH(ref) > ROAM_HOME_REF_EPOCH(data->ref)))
		data->ref = ref;
}

uint32_t moving_ref(struct roami_node *node, uint32_t page)
{
	uint32_t ref;

	roami_page_lock(node, page);
	ref = moving_page(node, page)->ref;
	roami_page_unlock(node, page);
	return ref;
}

/* -------------------------------------------------------------------------------------- faults */

void moving_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref)
{
	struct moving_page *data = moving_page(node, page);

	roami_contract_pending(node, page);
	roami_contract_locked(node, page);
	roami_assert(version >= home_need(&data->home.page));
	roami_page_move(node, page, HOME_MASTER);
	moving_learn(node, page, ref);
	data->home.page.shares = 0;
	data->copies = 0;
	data->asked = false;
	roami_home_receive(node, page, version, ref);
}

/*
 * Notes an answer whose bytes are in place.  true: the page may be opened, as a copy or as the
 * home's.
 */
static bool moving_install(struct roami_node *node, uint32_t page,
			   const struct moving_answer *answer)
{
	struct moving_page *data = moving_page(node, page);
	bool good = true;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	if (answer->moved) {
		data->regrets = (uint16_t)(data->regrets + (data->asked ? 1 : 0));
		moving_receive(node, page, answer->version, answer->ref);
	} else {
		moving_learn(node, page, answer->ref);
		home_has(&data->home.page, answer->version);
		data->refused = false;
		good = !home_stale(&data->home.page); /* otherwise a notice came meanwhile */
		if (good)
			roami_page_move(node, page, HOME_COPY);
	}
	roami_page_unlock(node, page);
	return good;
}

/* A request for a page. */
struct moving_want {
	uint32_t page;
	unsigned home; /* the first home; used if no reference is known */
	struct moving_head head;
	struct moving_answer answer;
};

/* How many wants behind the first ask the same node for the pages behind the first one's. */
static uint32_t want_run(const struct moving_want *wants, unsigned count)
{
	uint32_t run = 0;

	while (run + 1 < count && wants[run + 1].page == wants[run].page + 1 &&
	       ROAM_HOME_REF_NODE(wants[run + 1].head.ref) ==
		       ROAM_HOME_REF_NODE(wants[run].head.ref))
		run++;
	return run;
}

static void want_ask(struct roami_node *node, struct moving_want *wants,
		     struct roam_page_call *calls, unsigned count, bool stay)
{
	roami_assert(count <= ROAM_PAGES_ONCE);
	for (unsigned i = 0; i < count; i++) {
		struct moving_want *want = &wants[i];
		uint32_t ref = moving_ref(node, want->page);

		if (ref == 0)
			ref = ROAM_HOME_REF(want->home, 0);
		want->head = (struct moving_head){.page = want->page, .ref = ref, .stay = stay};
	}
	for (unsigned i = 0; i < count; i++) {
		struct moving_want *want = &wants[i];

		want->head.run = stay ? 0 : want_run(want, count - i);
		calls[i] = (struct roam_page_call){
			.page = want->page,
			.to = ROAM_HOME_REF_NODE(want->head.ref),
			.type = MOVING_WANT,
			.part = {&want->head, sizeof(want->head)},
			.reply = &want->answer,
			.reply_max = sizeof(want->answer),
		};
	}
	roami_pages_ask(node, calls, count);
}

/* Whether the page that came is as new as it must be. */
static bool want_came(struct roami_node *node, const struct moving_want *want,
		      const struct roam_page_call *call)
{
	if (!call->came || call->bytes != sizeof(want->answer))
		roami_node_fail(node, "page %u: incomplete reply of %zu bytes", want->page,
				call->bytes);
	return moving_install(node, want->page, &want->answer);
}

static void want_one(struct roami_node *node, struct moving_want *want, bool stay)
{
	struct roam_page_call call;

	do {
		want_ask(node, want, &call, 1, stay);
		roami_pages_await(node, &call, 1);
	} while (!want_came(node, want, &call));
}

void moving_fault(struct roami_node *node, uint32_t page, bool stay)
{
	struct moving_want want = {.page = page, .home = ROAM_NOBODY};

	roami_contract_pending(node, page);
	roami_contract(roami_page_access(node, page) == ROAM_NONE);
	/* If the page was placed here and not touched yet, this node is the home already. */
	if ((moving_ref(node, page) == 0 || roami_home_here(node, page) != 0) &&
	    home_mine(node, page, &want.home))
		return;
	want_one(node, &want, stay);
	roami_page_open(node, page, 1, ROAM_READ);
}

static bool write_along(struct roami_node *node, uint32_t page)
{
	return roami_page_is_home(node, page) && roami_page_state(node, page) == HOME_MASTER;
}

void moving_write_fault(struct roami_node *node, uint32_t page)
{
	roami_contract_pending(node, page);
	if (roami_page_is_home(node, page) && !roami_checks_races(node))
		home_write_run(node, page, write_along);
}

/* Opens pages that have come, ascending; runs of copies or of own pages at once. */
static void ahead_open(struct roami_node *node, const uint32_t *pages, unsigned count)
{
	unsigned first = 0;

	for (unsigned i = 1; i <= count; i++) {
		if (i < count && pages[i] == pages[i - 1] + 1 &&
		    roami_page_state(node, pages[i]) == roami_page_state(node, pages[i - 1]))
			continue;
		home_open_run(node, pages[first], i - first);
		first = i;
	}
}

static void ahead_bring(struct roami_node *node, struct moving_want *wants, unsigned count,
			bool stay)
{
	struct roam_page_call calls[ROAM_PAGES_ONCE];
	uint32_t pages[ROAM_PAGES_ONCE];
	bool done[ROAM_PAGES_ONCE] = {false};
	unsigned left = count;

	roami_assert(count <= ROAM_PAGES_ONCE);
	want_ask(node, wants, calls, count, stay);
	while (left > 0) {
		unsigned came = 0;

		left = roami_pages_await(node, calls, count);
		for (unsigned i = 0; i < count; i++) {
			if (done[i] || calls[i].started != NULL)
				continue;
			done[i] = true;
			roami_fetched_ahead(node);
			if (want_came(node, &wants[i], &calls[i]))
				pages[came++] = wants[i].page;
			else
				roami_page_done(node, wants[i].page);
		}
		ahead_open(node, pages, came);
	}
}

/*
 * Whether a page is worth asking for; if so, it is pending on return, and its first home is known.
 */
static bool ahead_wants(struct roami_node *node, struct moving_want *want)
{
	if (roami_page_access(node, want->page) != ROAM_NONE || !roami_page_try(node, want->page))
		return false;
	want->home = roami_home_lookup(node, want->page);
	if (roami_page_state(node, want->page) == HOME_INVALID &&
	    roami_home_here(node, want->page) == 0 && want->home != ROAM_NOBODY &&
	    (want->home != roami_me(node) || moving_ref(node, want->page) != 0))
		return true;
	roami_page_done(node, want->page);
	return false;
}

void moving_ahead(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
		  bool stay)
{
	struct moving_want wants[ROAM_PAGES_ONCE];
	unsigned used = 0;

	for (uint32_t i = 0; i < count; i++) {
		int64_t next = (int64_t)first + (int64_t)stride * i;

		if (next < 0 || next >= roami_pages(node))
			break;
		wants[used].page = (uint32_t)next;
		if (!ahead_wants(node, &wants[used]))
			continue;
		if (++used == ROAM_PAGES_ONCE) {
			ahead_bring(node, wants, used, stay);
			used = 0;
		}
	}
	ahead_bring(node, wants, used, stay);
}

/* -------------------------------------------------------------------------------------- acquire */

void moving_acquire(struct roami_node *node, const struct roam_sync *sync,
		    const struct roam_notice *notices, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		roami_page_lock(node, notices[i].page);
		moving_learn(node, notices[i].page, roami_notice_home(node, &notices[i]));
		roami_page_unlock(node, notices[i].page);
	}
	home_invalidate(node, sync, notices, count, moving_flush);
}

/* Brings the bytes of a page here, because the directory names only the first home. */
void moving_collect(struct roami_node *node, uint32_t page)
{
	struct moving_want want = {.page = page};

	roami_contract_pending(node, page);
	want.home = roami_home_lookup(node, page);
	if (want.home == ROAM_NOBODY || roami_home_here(node, page) != 0 ||
	    roami_page_state(node, page) == HOME_COPY)
		return;
	want_one(node, &want, true);
}

/* ------------------------------------------------------------------------------------ messages */

static void moving_parse(struct roami_node *node, const struct roam_request *request,
			 struct moving_head *head)
{
	roami_request_page(node, request, sizeof(*head));
	memcpy(head, request->data, sizeof(*head));
	if (head->ref == 0 || request->origin >= roami_count(node))
		roami_node_fail(node, "node %u: malformed request for a page", request->from);
}

/*
 * Passes a request on by a newer reference, or parks it until the page, which is on its way here,
 * has come; this node is not the home.  The page lock is held.
 */
static void moving_elsewhere(struct roami_node *node, const struct roam_request *request,
			     struct moving_head *head, unsigned type)
{
	uint32_t ref = moving_page(node, head->page)->ref;
	struct roam_part parts[2] = {{head, sizeof(*head)},
				     {(const uint8_t *)request->data + sizeof(*head),
				      request->bytes - sizeof(*head)}};

	roami_contract_locked(node, head->page);
	roami_contract(roami_home_here(node, head->page) == 0);
	if (ref != 0 && ROAM_HOME_REF_EPOCH(ref) > ROAM_HOME_REF_EPOCH(head->ref)) {
		head->ref = ref;
		head->hops++;
		roami_pass(node, request, ROAM_HOME_REF_NODE(ref), type, parts, 2);
		return;
	}
	if (!roami_page_pending(node, head->page))
		roami_node_fail(node, "node %u looks for the home of page %u, which was never here",
				request->origin, head->page);
	roami_park(node, request, head->page);
}

/*
 * Begins every handler.  Returns the reference to the page, which is here, with the page lock held;
 * 0: the request was passed on or parked, and the lock is not held.
 */
static uint32_t moving_begin(struct roami_node *node, const struct roam_request *request,
			     struct moving_head *head, unsigned type)
{
	uint32_t ref;

	moving_parse(node, request, head);
	if (head->run > 0)
		roami_home_close_run(node, head->page, head->run + 1);
	roami_page_lock(node, head->page);
	ref = roami_home_here(node, head->page);
	if (ref == 0) {
		moving_elsewhere(node, request, head, type);
		roami_page_unlock(node, head->page);
	}
	return ref;
}

uint64_t *moving_copies(struct roami_node *node, struct moving_page *data)
{
	uint64_t barriers = roami_barriers_left(node);

	if (data->counted != barriers)
		data->copies = 0;
	data->counted = barriers;
	return &data->copies;
}

uint32_t moving_give(struct roami_node *node, uint32_t page, unsigned to, uint8_t *bytes,
		     uint64_t *version_p)
{
	struct moving_page *data = moving_page(node, page);
	uint32_t ref = roami_home_here(node, page);
	bool open;

	roami_contract_locked(node, page);
	roami_contract(!roami_page_pending(node, page) && roami_page_is_home(node, page));
	if (!roami_home_give(node, page, bytes, version_p, &open))
		return 0;
	if (open)
		data->owed = *version_p;
	roami_page_move(node, page, HOME_COPY);
	home_kept(&data->home.page, *version_p);
	if (roami_cache_drop(node, page))
		roami_page_move(node, page, HOME_INVALID);
	data->ref = ROAM_HOME_REF(to, ROAM_HOME_REF_EPOCH(ref) + 1);
	return data->ref;
}

void moving_handle_want(struct roami_node *node, const struct roam_request *request,
			moving_policy_fn *moves)
{
	struct moving_answer answer = {0, 0, 0};
	struct roam_part part = {&answer, sizeof(answer)};
	struct moving_head head;
	uint8_t spare[ROAM_PAGE_SIZE], *buffer;
	uint32_t given = 0;

	answer.ref = moving_begin(node, request, &head, MOVING_WANT);
	if (answer.ref == 0)
		return;
	buffer = roami_reply_buffer(node, request, head.page, spare);
	if (moves(node, &head, request->origin))
		given = moving_give(node, head.page, request->origin, buffer, &answer.version);
	answer.moved = given != 0;
	if (answer.moved)
		answer.ref = given;
	else
		*moving_copies(node, moving_page(node, head.page)) |= UINT64_C(1)
								      << request->origin;
	roami_page_unlock(node, head.page);
	if (!answer.moved)
		roami_home_copy(node, head.page, buffer, &answer.version);
	roami_reply_filled(node, request, buffer, &part, 1);
}

bool moving_never(struct roami_node *node, const struct moving_head *head, unsigned to)
{
	(void)node;
	(void)head;
	(void)to;
	return false;
}

bool moving_rests(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	roami_contract(roami_home_here(node, page) != 0);
	return roami_page_state(node, page) == HOME_MASTER &&
	       roami_page_access(node, page) != ROAM_WRITE && !roami_page_dirty(node, page) &&
	       !roami_page_pending(node, page);
}

/*
 * Moves the home to a writer that has all that is here, if the policy allows it and earlier such
 * moves were not regretted too often.  The page lock is held.
 */
static void moving_hand_over(struct roami_node *node, const struct moving_head *head, unsigned to,
			     moving_policy_fn *moves, uint64_t have, struct moving_answer *answer)
{
	struct moving_page *data = moving_page(node, head->page);
	uint64_t version = have;
	uint32_t ref;

	roami_contract_locked(node, head->page);
	roami_contract(to != roami_me(node) && answer->moved == 0);
	if (data->regrets >= REGRETS_MAX || !moving_rests(node, head->page) ||
	    !moves(node, head, to))
		return;
	ref = moving_give(node, head->page, to, NULL, &version);
	if (ref == 0)
		return;
	*answer = (struct moving_answer){version, ref, 1};
	data->asked = true;
}

void moving_handle_diff(struct roami_node *node, const struct roam_request *request,
			moving_policy_fn *moves)
{
	struct moving_answer answer = {0, 0, 0};
	struct roam_part part = {&answer, sizeof(answer)};
	struct moving_head head;

	answer.ref = moving_begin(node, request, &head, MOVING_DIFF);
	if (answer.ref == 0)
		return;
	*moving_copies(node, moving_page(node, head.page)) &= ~(UINT64_C(1) << request->origin);
	roami_page_unlock(node, head.page);
	/* Only handlers give homes away, and they run one at a time. */
	answer.version = roami_home_apply(node, request->origin, head.page,
					  (const uint8_t *)request->data + sizeof(head),
					  request->bytes - sizeof(head));
	roami_page_lock(node, head.page);
	roami_contract(roami_home_here(node, head.page) != 0);
	if (!roami_page_pending(node, head.page)) /* a release that finds it shared closes it */
		moving_page(node, head.page)->home.page.shares = 0;
	if (answer.version == head.have + 1)
		moving_hand_over(node, &head, request->origin, moves, answer.version, &answer);
	roami_page_unlock(node, head.page);
	roami_reply(node, request, &part, 1);
}

void moving_handle_ask(struct roami_node *node, const struct roam_request *request,
		       moving_policy_fn *moves)
{
	struct moving_answer answer = {0, 0, 0};
	struct roam_part part = {&answer, sizeof(answer)};
	struct moving_head head;

	answer.ref = moving_begin(node, request, &head, MOVING_ASK);
	if (answer.ref == 0)
		return;
	moving_hand_over(node, &head, request->origin, moves, head.have, &answer);
	roami_page_unlock(node, head.page);
	roami_reply(node, request, &part, 1);
}

/* --------------------------------------------------------------------------------------- tests */

static void moving_check_page(struct roami_node *const *nodes, unsigned count, uint32_t page)
{
	uint32_t *epoch = &moving_page(nodes[0], page)->checked;
	unsigned homes = 0, pending = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct home_page *data = &moving_page(nodes[i], page)->home.page;
		uint32_t ref = roami_home_here(nodes[i], page);

		pending += roami_page_pending(nodes[i], page);
		roami_assert(ref != 0 || !roami_page_is_home(nodes[i], page));
		roami_assert(roami_page_state(nodes[i], page) != HOME_COPY || !home_stale(data) ||
			     roami_page_pending(nodes[i], page));
		if (ref == 0)
			continue;
		homes++;
		roami_assert(ROAM_HOME_REF_EPOCH(ref) >= *epoch);
		*epoch = ROAM_HOME_REF_EPOCH(ref);
	}
	roami_assert(homes <= 1);
	roami_assert(homes == 1 || pending > 0 || *epoch == 0);
}

void moving_check(struct roami_node *const *nodes, unsigned count)
{
	for (uint32_t page = 0; page < roami_pages(nodes[0]); page++)
		if (roami_page_ours(nodes[0], page))
			moving_check_page(nodes, count, page);
}
