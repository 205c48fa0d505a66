/*
 * The server: operations of other nodes on the elements here.  Each is a call; one that has to wait
 * is answered when it is done, by the thread that made that possible.
 */
#include "pastset/job/server.h"

#include <string.h>

#include "msg/msg.h"
#include "pastset/job/relay.h"
#include "pastset/shown.h"

#define ASK_BYTES_MAX (sizeof(struct roami_ask) + ROAM_PS_TUPLE_MAX)

_Static_assert(ASK_BYTES_MAX <= ROAMI_MSG_MAX &&
		       sizeof(struct roami_outcome) + ROAM_PS_TUPLE_MAX <= ROAMI_MSG_MAX,
	       "a tuple fits into a message");

__attribute__((noreturn)) static void server_malformed(struct roami_node *node,
						       const struct roam_request *request)
{
	roami_node_fail(node, "node %u sent a malformed PastSet message", request->from);
}

/* The fixed part of a request; what follows it, of *rest_p bytes. */
static const void *server_parse(struct roami_node *node, const struct roam_request *request,
				void *ask, size_t bytes, size_t *rest_p)
{
	if (request->bytes < bytes || request->call == 0)
		server_malformed(node, request);
	memcpy(ask, request->data, bytes);
	*rest_p = request->bytes - bytes;
	return (const uint8_t *)request->data + bytes;
}

static void server_locate(struct roami_node *node, const struct roam_request *request)
{
	struct roami_locate ask;
	struct roami_located answer;
	struct roam_part part = {&answer, sizeof(answer)};
	size_t rest;
	const char *name = server_parse(node, request, &ask, sizeof(ask), &rest);

	if (ask.wanted >= node->nodes || ask.name_bytes != rest)
		server_malformed(node, request);
	roami_name_locate(roami_past_of(node), &ask, name, &answer);
	roami_reply(node, request, &part, 1);
}

static void server_bind(struct roami_node *node, const struct roam_request *request)
{
	struct roami_bind ask;
	struct roami_bound_here answer;
	struct roam_part part = {&answer, sizeof(answer)};
	size_t rest;
	const char *texts = server_parse(node, request, &ask, sizeof(ask), &rest);

	ask.function[ROAM_PS_FUNCTION_MAX] = '\0';
	if (ask.template_bytes > ROAM_PS_TEMPLATE_MAX ||
	    (size_t)ask.name_bytes + ask.template_bytes != rest)
		server_malformed(node, request);
	memset(&answer, 0, sizeof(answer));
	roami_name_bind(roami_past_of(node), &ask, texts, &answer.bound);
	if (answer.bound.paged == 0 && answer.bound.function[0] == '\0' &&
	    answer.bound.element < ROAMI_SHOWN_ELEMENTS)
		answer.at = roami_past_job(roami_past_of(node))->show.at;
	roami_reply(node, request, &part, 1);
}

/* Whether a request is another node's, for a program that is attached there. */
static bool server_relayed(struct roami_past *past, const struct roam_request *request)
{
	return request->type == roami_past_type(past, ROAMI_PAST_RELAY);
}

/* `room`: as for roami_past_outcome. */
static void server_reply(struct roami_past *past, const struct roam_request *request,
			 const struct roami_op *op, void *room)
{
	struct roami_outcome outcome;
	struct roam_part parts[2] = {{&outcome, sizeof(outcome)}, {NULL, 0}};

	roami_past_outcome(past, op, room, &outcome, &parts[1]);
	if (outcome.record != 0)
		roami_past_lend(past, roami_past_element(past, op->ask.element),
				&(struct roami_lent){outcome.record, request->origin,
						     op->ask.op == ROAMI_ASK_RESERVE});
	if (server_relayed(past, request))
		roami_relay_reply(past->node, request, parts);
	else if (!op->known)
		roami_msg_reply_awaited(past->node, request, parts, 2);
	if (op->record != 0 && (op->ask.flags & ROAMI_ASK_RECORD) == 0)
		roami_record_rele(past->node, roami_past_element(past, op->ask.element)->buddy,
				  op->record);
}

static void server_reply_packed(struct roami_past *past, const struct roam_request *request,
				const struct roami_op *op)
{
	struct roami_slab *room = roami_node_slab(past->node);

	roami_past_give(past, op, room->bytes);
	server_reply(past, request, op, room->bytes);
	roami_slab_give(room);
}

/* Replies to an operation of another node, which is done. */
static void op_reply(struct roami_past *past, const struct roam_request *request,
		      const struct roami_op *op)
{
	if (roami_past_packs(past, op))
		server_reply_packed(past, request, op);
	else
		server_reply(past, request, op, NULL);
}

/* The tuple moved: its bytes come with the request, or are in the heap already. */
static bool server_take(struct roami_past *past, const struct roam_request *request,
			struct roami_op *op, const void *tuple, size_t bytes)
{
	struct roami_element *element = roami_past_element(past, op->ask.element);

	if ((op->ask.flags & ROAMI_ASK_RECORD) != 0) {
		if (bytes != sizeof(op->record))
			server_malformed(past->node, request);
		memcpy(&op->record, tuple, sizeof(op->record));
		if (!roami_past_return(past, element,
				       &(struct roami_lent){op->record, request->origin, true}))
			server_malformed(past->node, request);
		return true;
	}
	if (element->paged)
		server_malformed(past->node, request);
	return roami_past_bring(past, op, tuple, bytes);
}

static void server_op(struct roami_node *node, const struct roam_request *request)
{
	struct roami_past *past = roami_past_of(node);
	struct roami_op op = {.err = ROAM_OK};
	size_t bytes;
	const void *tuple = server_parse(node, request, &op.ask, sizeof(op.ask), &bytes);
	bool carries = roami_ask_carries(&op.ask);
	bool done = false;

	if (!server_relayed(past, request))
		op.node = request->origin + 1u;
	if ((op.ask.op > ROAM_PS_STATE && op.ask.op != ROAMI_ASK_RESERVE) ||
	    op.ask.which > ROAM_PS_MATCH || (!carries && bytes != 0) ||
	    roami_past_element(past, op.ask.element) == NULL ||
	    roami_past_element(past, op.ask.from) == NULL)
		server_malformed(node, request);
	if (op.ask.op == ROAMI_ASK_RESERVE) {
		if (op.ask.number > ROAM_PS_TUPLE_MAX)
			server_malformed(node, request);
		roami_past_reserve(past, &op, op.ask.number);
		done = true;
	} else if (carries) {
		done = !server_take(past, request, &op, tuple, bytes);
	}
	if (done || roami_past_run(past, &op, request) == NULL)
		op_reply(past, request, &op);
}

static void server_relay(struct roami_node *node, const struct roam_request *request)
{
	roami_relay_run(node, request, server_op);
}

static void server_rele(struct roami_node *node, const struct roam_request *request)
{
	struct roami_past *past = roami_past_of(node);
	struct roami_element *element;
	struct roami_let_go ask;

	if (request->bytes != sizeof(ask))
		server_malformed(node, request);
	memcpy(&ask, request->data, sizeof(ask));
	element = roami_past_element(past, ask.element);
	if (element == NULL ||
	    (!roami_past_return(past, element,
				&(struct roami_lent){ask.record, request->from, false}) &&
	     !roami_past_return(past, element,
				&(struct roami_lent){ask.record, request->from, true})))
		server_malformed(node, request);
	roami_record_rele(node, element->buddy, ask.record);
}

static void server_cancel(struct roami_node *node, const struct roam_request *request)
{
	uint32_t call;

	if (request->bytes != sizeof(call))
		server_malformed(node, request);
	memcpy(&call, request->data, sizeof(call));
	roami_past_cancel_call(roami_past_of(node), request->from, call);
}

static void server_alarm(struct roami_node *node, const struct roam_request *request)
{
	if (request->from != node->me)
		server_malformed(node, request);
	roami_past_expire(roami_past_of(node));
}

/* ---------------------------------------------------------------------------------------- life */

static void alarm_begin(struct roami_past *past, uint64_t ns)
{
	struct roam_request request = {.type = (uint16_t)roami_past_type(past, ROAMI_PAST_ALARM),
				       .from = (uint16_t)past->node->me,
				       .origin = (uint16_t)past->node->me};

	roami_delay(past->node, &request, ns);
}

static const struct roami_past_calls server_calls = {
	.reply = op_reply,
	.recall = roami_partial_recall,
	.alarm = alarm_begin,
};

static enum roam_err service_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_past *past = roami_past_of(node);

	(void)params;
	past->node = node;
	past->calls = &server_calls;
	roami_past_job(past)->types = roami_extension(node, roami_past_name)->types;
	roami_show_open(past, &roami_past_job(past)->show);
	return ROAM_OK;
}

static void element_fini(struct roami_element *element)
{
	roami_past_buddy_fini(&element->own);
	roami_os_vec_free(&element->lent, sizeof(struct roami_lent));
}

static void service_unserve(struct roami_past *past)
{
	if (roami_past_job(past)->unserve != NULL)
		roami_past_job(past)->unserve(past);
}

static void service_stop(struct roami_node *node)
{
	service_unserve(roami_past_of(node));
}

static void service_fini(struct roami_node *node)
{
	struct roami_past *past = roami_past_of(node);

	service_unserve(past);
	roami_show_close(past, &roami_past_job(past)->show);
	for (uint32_t i = 0; i < atomic_load(&past->element_count); i++)
		if (past->elements[i].paged)
			element_fini(&past->elements[i]);
	roami_names_close(past);
	roami_past_buddy_fini(&past->buddy);
	roami_os_unmap(past->elements, ROAMI_ELEMENTS_MAX * sizeof(*past->elements));
	roami_os_unmap(past->templates, ROAMI_ELEMENTS_MAX * sizeof(*past->templates));
	roami_os_unmap(past->waiters, ROAMI_WAITERS_MAX * sizeof(*past->waiters));
}

static const struct roam_message service_messages[] = {
	[ROAMI_PAST_LOCATE] = {"ps locate", server_locate,
			       sizeof(struct roami_locate) + ROAM_PS_NAME_MAX +
				       ROAM_PS_TEMPLATE_MAX},
	[ROAMI_PAST_BIND] = {"ps bind", server_bind,
			     sizeof(struct roami_bind) + ROAM_PS_NAME_MAX +
				     2 * ROAM_PS_TEMPLATE_MAX},
	[ROAMI_PAST_OP] = {"ps op", server_op, ASK_BYTES_MAX},
	[ROAMI_PAST_RELE] = {"ps rele", server_rele, sizeof(struct roami_let_go)},
	[ROAMI_PAST_CANCEL] = {"ps cancel", server_cancel, sizeof(uint32_t)},
	[ROAMI_PAST_ALARM] = {"ps alarm", server_alarm, 0},
	[ROAMI_PAST_RELAY] = {"ps relay", server_relay,
			      sizeof(struct roami_relay_head) + ASK_BYTES_MAX},
	[ROAMI_PAST_RELAYED] = {"ps relayed", roami_relay_heard,
				 sizeof(struct roami_relay_head) + sizeof(struct roami_outcome) +
					 ROAM_PS_TUPLE_MAX},
	[ROAMI_PAST_PARTIAL] = {"ps partial", roami_partial_heard,
				sizeof(struct roami_partial_head) + ROAMI_PARTIAL_MAX},
	[ROAMI_PAST_TYPES] = {NULL, NULL, 0},
};

const struct roami_room roami_past_room = {
	.name = roami_past_name,
	.messages = service_messages,
	.state_size = sizeof(struct roami_past_job),
	.init = service_init,
	.stop = service_stop,
	.fini = service_fini,
};
