#include "pastset/job/relay.h"

#include <string.h>

#include "msg/msg.h"
#include "pastset/list.h"

/* An id is its slot below a serial number, never 0; its top bit is clear, as no call's is. */
#define RELAY_BYTES_MAX (sizeof(struct roami_relay_head) + ROAM_PS_TUPLE_MAX)

_Static_assert(RELAY_BYTES_MAX + sizeof(struct roami_ask) <= ROAMI_MSG_MAX &&
		       RELAY_BYTES_MAX + sizeof(struct roami_outcome) <= ROAMI_MSG_MAX,
	       "a tuple fits into a message");

/* --------------------------------------------------------------------- where a program attaches */

/* A free slot's id; 0: there is none. */
static uint32_t relay_take(struct roami_past *past, void *arg)
{
	struct roami_past_job *job = roami_past_job(past);
	uint32_t at = 0, id = 0;

	if (atomic_fetch_add(&job->away, 1) >= ROAMI_AWAY_MAX) {
		atomic_fetch_sub(&job->away, 1);
		return 0;
	}
	roami_spin_lock(past->node, &job->relay_lock);
	while (at < ROAMI_AWAY_MAX && job->relays[at].id != 0)
		at++;
	if (at < ROAMI_AWAY_MAX) {
		job->relay_serial = job->relay_serial % (ROAMI_RELAY_SERIALS - 1) + 1;
		id = job->relay_serial * ROAMI_AWAY_MAX | at;
		job->relays[at] = (struct roami_relay){id, arg};
	}
	roami_spin_unlock(&job->relay_lock);
	return id;
}

static void relay_send(struct roami_past *past, unsigned owner, uint32_t id,
		     const struct roami_ask *ask, const void *tuple, size_t bytes)
{
	const struct roami_relay_head head = {id, 0};
	struct roam_part parts[3] = {{&head, sizeof(head)}, {ask, sizeof(*ask)}, {tuple, bytes}};

	roami_msg_send(past->node, owner, roami_past_type(past, ROAMI_PAST_RELAY), parts, 3);
}

uint32_t roami_relay_begin(struct roami_past *past, unsigned owner, const struct roami_ask *ask,
			 const void *tuple, size_t bytes, void *arg)
{
	uint32_t id = relay_take(past, arg);

	if (id != 0)
		relay_send(past, owner, id, ask, tuple, bytes);
	return id;
}

void roami_relay_cancel(struct roami_past *past, unsigned owner, uint32_t id)
{
	struct roam_part part = {&id, sizeof(id)};

	roami_msg_send(past->node, owner, roami_past_type(past, ROAMI_PAST_CANCEL), &part, 1);
}

void roami_relay_break(struct roami_past *past, unsigned owner, uint32_t element)
{
	const struct roami_ask ask = {.op = ROAMI_ASK_BREAK, .element = element, .from = element};

	relay_send(past, owner, 0, &ask, NULL, 0);
}

void roami_relay_heard(struct roami_node *node, const struct roam_request *request)
{
	struct roami_past_job *job = roami_past_job(roami_past_of(node));
	const uint8_t *data = request->data;
	struct roami_relay_head head;
	struct roami_outcome outcome;
	struct roami_relay *relay;

	if (request->bytes < sizeof(head) + sizeof(outcome))
		roami_node_fail(node, "node %u sent a malformed PastSet message", request->from);
	memcpy(&head, data, sizeof(head));
	memcpy(&outcome, data + sizeof(head), sizeof(outcome));
	relay = &job->relays[head.id % ROAMI_AWAY_MAX];
	roami_spin_lock(node, &job->relay_lock);
	if (head.id != 0 && relay->id == head.id) {
		relay->id = 0;
		atomic_fetch_sub(&job->away, 1);
		job->relay_outcome(relay->arg, &outcome, data + sizeof(head) + sizeof(outcome),
				   request->bytes - sizeof(head) - sizeof(outcome));
	}
	roami_spin_unlock(&job->relay_lock);
}

/* ------------------------------------------------------------------------ where the element is */

static void relay_list(struct roami_node *node, const struct roam_request *request, uint32_t first)
{
	const struct roami_outcome outcome = {.err = ROAM_OK};
	struct roami_slab *room = roami_node_slab(node);
	struct roam_part parts[2] = {{&outcome, sizeof(outcome)}, {room->bytes, 0}};

	parts[1].bytes = roami_list_fill(roami_past_of(node), first, (void *)room->bytes);
	roami_relay_reply(node, request, parts);
	roami_slab_give(room);
}

void roami_relay_run(struct roami_node *node, const struct roam_request *request,
		   void (*run)(struct roami_node *node, const struct roam_request *request))
{
	struct roam_request inner = *request;
	struct roami_relay_head head;
	struct roami_ask ask;
	struct roami_op op;

	if (request->bytes < sizeof(head) + sizeof(ask))
		roami_node_fail(node, "node %u sent a malformed PastSet message", request->from);
	memcpy(&head, request->data, sizeof(head));
	inner.call = head.id;
	inner.origin = request->from;
	inner.data = (const uint8_t *)request->data + sizeof(head);
	inner.bytes = request->bytes - (uint32_t)sizeof(head);
	memcpy(&ask, inner.data, sizeof(ask));
	if (head.id != 0) {
		if (ask.op == ROAMI_ASK_LIST)
			relay_list(node, &inner, ask.element);
		else
			run(node, &inner);
		return;
	}
	op = (struct roami_op){.ask = ask};
	if (ask.op != ROAMI_ASK_BREAK ||
	    roami_past_element(roami_past_of(node), ask.element) == NULL)
		roami_node_fail(node, "node %u sent a malformed PastSet message", request->from);
	roami_past_run(roami_past_of(node), &op, NULL);
}

void roami_relay_reply(struct roami_node *node, const struct roam_request *request,
		     const struct roam_part *parts)
{
	const struct roami_relay_head head = {request->call, 0};
	struct roam_part all[3] = {{&head, sizeof(head)}, parts[0], parts[1]};

	roami_assert(request->call != 0);
	roami_msg_send(node, request->origin,
		       roami_past_type(roami_past_of(node), ROAMI_PAST_RELAYED), all, 3);
}
