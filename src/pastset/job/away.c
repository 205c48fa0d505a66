/*
 * The route to an element that lives at another node: a call to its kernel, which answers when the
 * operation is done.  A partial (partial.h) may take the place of the answer to a partner's mob.
 */
#include <string.h>

#include "msg/msg.h"
#include "page/page.h"
#include "pastset/job/client.h"
#include "pastset/job/server.h"

/* A thread that waits for the answer to its call. */
struct away_wait {
	struct roami_node *node;
	struct roami_call *call;
	const struct roam_ps_cancel *cancel; /* NULL: it cannot be cancelled */
	const struct roami_taker *taker;     /* a partial of `round` will do; NULL: none is taken */
	uint64_t round;
};

static bool away_over(void *arg)
{
	const struct away_wait *wait = arg;

	if (wait->taker != NULL && roami_taker_given(wait->taker, wait->round) != NULL)
		return true;
	return roami_msg_call_answered(wait->call);
}

static bool away_looks(void *arg)
{
	const struct away_wait *wait = arg;

	return away_over(arg) || roami_client_cancelled(wait->cancel);
}

/* The outcome of a thread that cancels is the operation's, which may have been done before. */
static void away_await(const struct roam_ps_element *element, struct away_wait *wait)
{
	struct roam_part part = {&wait->call->id, sizeof(wait->call->id)};

	roami_wait(wait->node, away_looks, wait);
	if (away_over(wait))
		return;
	roami_msg_send(wait->node, element->owner,
		       roami_past_type(element->past, ROAMI_PAST_CANCEL), &part, 1);
	roami_wait(wait->node, away_over, wait);
}

/*
 * Calls the owner.  The reply's bytes, in `room`; 0: there is none, the partial of ask->number has
 * come in its place.
 */
static size_t away_ask(const struct roam_ps_element *element, const struct roami_ask *ask,
		       const struct roam_part *tuple, const struct roam_ps_request *request,
		       void *room, size_t room_bytes)
{
	struct roam_part parts[2] = {{ask, sizeof(*ask)}, *tuple};
	struct away_wait wait = {
		.node = element->node, .cancel = request->cancel, .round = ask->number};
	size_t got;

	if ((ask->flags & ROAMI_ASK_PARTIAL) != 0)
		wait.taker = element->taker;
	roami_wait_begin(wait.node);
	wait.call = roami_msg_call_start(wait.node, element->owner,
					 roami_past_type(element->past, ROAMI_PAST_OP), parts, 2,
					 room, room_bytes);
	roami_client_waits(wait.node, element, request);
	away_await(element, &wait);
	roami_node_waits_no_more(wait.node);
	roami_wait_end(wait.node);
	if (wait.taker != NULL && !roami_msg_call_answered(wait.call)) {
		roami_msg_call_drop(wait.call);
		return 0;
	}
	got = roami_msg_call_end(wait.node, wait.call);
	if (got < sizeof(struct roami_outcome))
		roami_node_fail(wait.node, "node %u sent a malformed PastSet reply",
				element->owner);
	return got;
}

/*
 * Combines the tuple moved here with the partial, in the order in which the element's node, which
 * will not answer, combines them.
 */
static enum roam_err away_combine(const struct roam_ps_element *element,
				  struct roam_ps_request *request, uint64_t round,
				  const void *tuple)
{
	struct roami_outcome outcome = {
		.moved = round, .observed = round, .bytes = element->template.bytes};
	uint8_t sum[ROAMI_PARTIAL_MAX];

	memcpy(sum, roami_taker_given(element->taker, round), outcome.bytes);
	roami_function_combine(element->function, &element->template, sum, tuple);
	memcpy(request->buffer, sum, outcome.bytes);
	return roami_client_outcome(request, &outcome);
}

/* The tuple that goes with the request; one that may fault goes by `room`. */
static struct roam_part away_tuple(const struct roam_ps_element *element,
				   const struct roami_ask *ask,
				   const struct roam_ps_request *request, void *room)
{
	if (!roami_ask_carries(ask))
		return (struct roam_part){NULL, 0};
	if (!roami_page_faults(element->node, request->tuple))
		return (struct roam_part){request->tuple, request->bytes};
	memcpy(room, request->tuple, request->bytes);
	return (struct roam_part){room, request->bytes};
}

/* With `room` for the reply, and before it for a tuple that may fault. */
static enum roam_err away_do(const struct roam_ps_element *element, const struct roami_ask *ask,
			     struct roam_ps_request *request, void *room, size_t room_bytes)
{
	struct roam_part tuple = away_tuple(element, ask, request, room);
	const uint8_t *data = (const uint8_t *)room + sizeof(struct roami_outcome);
	size_t got = away_ask(element, ask, &tuple, request, room, room_bytes);
	struct roami_outcome outcome;

	if (got == 0)
		return away_combine(element, request, ask->number, tuple.data);
	memcpy(&outcome, room, sizeof(outcome));
	if (outcome.observed != 0 &&
	    (outcome.bytes > request->limit || got != sizeof(outcome) + outcome.bytes))
		roami_node_fail(element->node, "node %u sent a malformed PastSet reply",
				element->owner);
	if (outcome.observed != 0)
		memcpy(request->buffer, data, outcome.bytes);
	else if (request->op == ROAM_PS_STATE && got == sizeof(outcome) + sizeof(request->state))
		memcpy(&request->state, data, sizeof(request->state));
	return roami_client_outcome(request, &outcome);
}

/* Apart, for what it needs of the stack. */
#define ROOM_SMALL 1024u
#define ROOM_LARGE (sizeof(struct roami_outcome) + ROAM_PS_TUPLE_MAX)

__attribute__((noinline)) static enum roam_err away_small(const struct roam_ps_element *element,
							  const struct roami_ask *ask,
							  struct roam_ps_request *request)
{
	uint64_t room[ROOM_SMALL / sizeof(uint64_t)];

	return away_do(element, ask, request, room, sizeof(room));
}

_Static_assert(ROOM_LARGE <= ROAMI_SLAB_BYTES, "the longest tuple");

static enum roam_err away_large(const struct roam_ps_element *element, const struct roami_ask *ask,
				struct roam_ps_request *request)
{
	struct roami_slab *room = roami_node_slab(element->node);
	enum roam_err err = away_do(element, ask, request, room->bytes, ROOM_LARGE);

	roami_slab_give(room);
	return err;
}

/* ----------------------------------------------------------------------------------- the route */

/* A partial will do in place of an answer. */
static bool away_takes(const struct roam_ps_element *element,
		       const struct roam_ps_request *request, const struct roami_ask *ask)
{
	return element->taker != NULL && request->op == ROAM_PS_MOB &&
	       (ask->flags & ROAMI_ASK_ROUND) != 0 && request->timeout_ns == 0 &&
	       request->cancel == NULL && ask->limit >= element->template.bytes &&
	       roami_taker_want(element->past, element->taker, ask->number);
}

/*
 * Limits the operations under way, so that each has a call slot: a thread that waited for a free
 * slot might hold up the operations that would free one.
 */
static bool away_begin(struct roam_ps_element *element)
{
	return atomic_fetch_add(&roami_past_job(element->past)->away, 1) <
	       ROAMI_AWAY_MAX;
}

static void away_end(struct roam_ps_element *element)
{
	atomic_fetch_sub(&roami_past_job(element->past)->away, 1);
}

static enum roam_err away_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	size_t room = sizeof(struct roami_outcome);
	struct roami_ask ask;
	enum roam_err err;

	if (!roami_client_begin(element, request, &ask, &err))
		return err;
	if (roami_show_look(element, &ask, request))
		return ROAM_OK;
	room += request->bytes > ask.limit ? request->bytes : ask.limit;
	err = ROAM_EAGAIN;
	if (away_begin(element)) {
		if (away_takes(element, request, &ask))
			ask.flags |= ROAMI_ASK_PARTIAL;
		err = room <= ROOM_SMALL ? away_small(element, &ask, request)
					 : away_large(element, &ask, request);
		roami_client_end(element, request);
	}
	away_end(element);
	return err;
}

static enum roam_err away_record(struct roam_ps_element *element, const struct roami_ask *ask,
				 struct roam_ps_request *request, roami_record *record)
{
	struct roam_part tuple = {record, roami_ask_carries(ask) ? sizeof(*record) : 0};
	struct roami_outcome outcome;

	away_ask(element, ask, &tuple, request, &outcome, sizeof(outcome));
	if (outcome.observed != 0 && outcome.bytes > request->limit)
		roami_node_fail(element->node, "node %u sent a malformed PastSet reply",
				element->owner);
	*record = outcome.record;
	return roami_client_outcome(request, &outcome);
}

static void away_rele(struct roam_ps_element *element, roami_record record)
{
	struct roami_let_go ask = {record, element->element, 0};
	struct roam_part part = {&ask, sizeof(ask)};

	roami_msg_send(element->node, element->owner,
		       roami_past_type(element->past, ROAMI_PAST_RELE), &part, 1);
}

const struct roami_ps_route roami_route_away = {
	.call = away_call,
	.leave = roami_client_leave,
	.now = roami_client_now,
	.record = away_record,
	.rele = away_rele,
	.begin = away_begin,
	.end = away_end,
};
