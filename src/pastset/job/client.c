#include "pastset/job/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg/msg.h"
#include "pastset/attached/attach.h"
#include "pastset/attached/guest.h"
#include "pastset/job/server.h"

/* ------------------------------------------------------------------------------------- waiting */

/* A thread waits for its operation, and may be told not to. */
struct client_wait {
	struct roami_past *past;
	const struct roam_ps_cancel *cancel; /* NULL: not, or not any more */
	struct roami_waiter *waiter;         /* here, */
	struct roami_call *call;             /* or at another node, */
	const struct roami_taker *taker;     /* or for the partial of that round; NULL: for none */
	uint64_t round;
};

static bool wait_cancelled(const struct client_wait *wait)
{
	return wait->cancel != NULL &&
	       __atomic_load_n(&wait->cancel->cancelled, __ATOMIC_SEQ_CST) != 0;
}

static bool wait_over(void *arg)
{
	struct client_wait *wait = arg;

	if (wait->waiter != NULL)
		return atomic_load_explicit(&wait->waiter->done, memory_order_acquire) != 0;
	if (wait->taker != NULL && roami_taker_given(wait->taker, wait->round) != NULL)
		return true;
	return roami_msg_call_answered(wait->call);
}

static bool wait_looks(void *arg)
{
	return wait_over(arg) || wait_cancelled(arg);
}

/* The outcome of who cancels is the operation's all the same: it may have been done before. */
static void wait_end(struct client_wait *wait, unsigned owner)
{
	struct roami_node *node = wait->past->node;

	roami_wait(node, wait_looks, wait);
	if (!wait_over(wait)) {
		wait->cancel = NULL;
		if (wait->waiter != NULL) {
			roami_past_cancel(wait->past, wait->waiter);
		} else {
			struct roam_part part = {&wait->call->id, sizeof(wait->call->id)};

			roami_msg_send(node, owner, ROAMI_TYPE_SERVICE + ROAMI_PAST_CANCEL, &part,
				       1);
		}
	}
	roami_wait(node, wait_over, wait);
}

void roami_client_waits(struct roami_node *node, const struct roam_ps_element *element,
			const struct roam_ps_request *request)
{
	static const uint8_t what[] = {[ROAM_PS_MOVE] = ROAMI_TUPLE_MOVE,
				       [ROAM_PS_OBSERVE] = ROAMI_TUPLE_OBSERVE,
				       [ROAM_PS_MOB] = ROAMI_TUPLE_MOB};
	unsigned of = (unsigned)request->op < sizeof(what) ? what[request->op] : ROAMI_TUPLE_OTHER;

	if (request->timeout_ns != 0 || request->cancel != NULL)
		of |= ROAMI_TUPLE_ENDS;
	if (element->server != NULL)
		of |= ROAMI_TUPLE_SERVER | ROAMI_TUPLE_ENDS;
	else
		of |= element->participants << ROAMI_TUPLE_PARTICIPANTS;
	roami_node_waits_tuple(node, (uint64_t)element->owner << 32 | element->element, of,
			       element->label);
}

/* -------------------------------------------------------------------------- at the one place */

static bool client_moves(const struct roam_ps_request *request)
{
	return request->op == ROAM_PS_MOVE || request->op == ROAM_PS_MOB;
}

enum roam_err roami_client_outcome(struct roam_ps_request *request, const struct roami_told *told)
{
	request->moved = told->moved;
	request->observed = told->observed;
	request->got = told->bytes;
	request->skipped = told->skipped != 0;
	return (enum roam_err)told->err;
}

/* What is to be moved: room with its bytes, unless they are in the heap.  false: op->err. */
static bool client_take(struct roami_past *past, struct roami_op *op,
			const struct roam_ps_request *request, const roami_record *record)
{
	if (record == NULL)
		return roami_past_take(past, op, request->tuple, request->bytes);
	op->record = *record;
	return true;
}

/* Nobody sees how long it waits, and it finds nothing newer than it needs. */
static bool client_lax(const struct roami_ask *ask, const struct roam_ps_request *request)
{
	bool observes = ask->op == ROAM_PS_OBSERVE && ask->which != ROAM_PS_LAST;

	return ask->timeout_ns == 0 && request->cancel == NULL &&
	       (observes || client_moves(request));
}

/* The element lives here.  The program's memory is touched without any lock: it may fault. */
static enum roam_err client_here(const struct roam_ps_element *element, const struct roami_ask *ask,
				 struct roam_ps_request *request, roami_record *record)
{
	struct roami_past *past = roami_past_of(element->node);
	struct client_wait wait = {.past = past, .cancel = request->cancel};
	struct roami_partial partial;
	struct roami_op op = {.ask = *ask, .node = past->node->me + 1};
	struct roami_told told;

	if (ask->op == ROAMI_ASK_RESERVE) {
		roami_past_reserve(past, &op, ask->number);
		*record = op.record;
		return op.err;
	}
	if (roami_ask_carries(ask) &&
	    !client_take(past, &op, request, record))
		return op.err;
	partial.round = 0;
	op.partial = &partial;
	op.lax = client_lax(ask, request);
	wait.waiter = roami_past_run(past, &op, NULL);
	if (wait.waiter != NULL)
		roami_wait_begin(past->node);
	if (partial.round != 0)
		roami_partial_give(past, ask->element, &partial);
	if (wait.waiter != NULL) {
		roami_client_waits(element->node, element, request);
		wait_end(&wait, past->node->me);
		roami_node_waits_no_more(past->node);
		roami_wait_end(past->node);
		op = wait.waiter->op;
		roami_past_free_waiter(past, wait.waiter);
	}
	if (record != NULL) {
		*record = op.record;
	} else if (op.record != 0) {
		roami_step(past->node);
		roami_past_give(past, &op, request->buffer);
		roami_record_rele(past->node, roami_past_element(past, op.ask.element)->pool,
				  op.record);
	}
	request->state = op.state;
	told = roami_told_of(&op);
	return roami_client_outcome(request, &told);
}

/* Whether memory of the program's may fault: no message is made of it, or put there. */
static bool client_faults(const struct roami_node *node, const void *memory)
{
	return (const uint8_t *)memory >= node->app &&
	       (const uint8_t *)memory < node->app + node->layout.heap_bytes;
}

/* What goes with the request; what may fault goes by `room`. */
static struct roam_part client_payload(const struct roam_ps_element *element,
				       const struct roami_ask *ask,
				       const struct roam_ps_request *request,
				       const roami_record *record, void *room)
{
	if (!roami_ask_carries(ask))
		return (struct roam_part){NULL, 0};
	if (record != NULL)
		return (struct roam_part){record, sizeof(*record)};
	if (!client_faults(element->node, request->tuple))
		return (struct roam_part){request->tuple, request->bytes};
	memcpy(room, request->tuple, request->bytes);
	return (struct roam_part){room, request->bytes};
}

/* What was moved and the partial, in the order of the element's node, which will not answer. */
static enum roam_err client_combine(const struct roam_ps_element *element,
				    struct roam_ps_request *request, uint64_t round,
				    const void *tuple)
{
	struct roami_told told = {
		.moved = round, .observed = round, .bytes = element->template.bytes};
	uint8_t sum[ROAMI_PARTIAL_MAX];

	memcpy(sum, roami_taker_given(element->taker, round), told.bytes);
	roami_function_combine(element->function, &element->template, sum, tuple);
	memcpy(request->buffer, sum, told.bytes);
	return roami_client_outcome(request, &told);
}

/* At another node; `room` for the reply, and before it for a tuple that may fault. */
static enum roam_err client_away(const struct roam_ps_element *element, const struct roami_ask *ask,
				 struct roam_ps_request *request, roami_record *record, void *room,
				 size_t room_bytes)
{
	struct roam_part parts[2] = {{ask, sizeof(*ask)},
				     client_payload(element, ask, request, record, room)};
	struct client_wait wait = {.past = roami_past_of(element->node),
				   .cancel = request->cancel,
				   .round = ask->number};
	const uint8_t *data = (const uint8_t *)room + sizeof(struct roami_told);
	struct roami_told told;
	size_t got;

	if ((ask->flags & ROAMI_ASK_PARTIAL) != 0)
		wait.taker = element->taker;
	roami_wait_begin(element->node);
	wait.call = roami_msg_call_start(element->node, element->owner,
					 ROAMI_TYPE_SERVICE + ROAMI_PAST_OP, parts, 2, room,
					 room_bytes);
	roami_client_waits(element->node, element, request);
	wait_end(&wait, element->owner);
	roami_node_waits_no_more(element->node);
	roami_wait_end(element->node);
	if (wait.taker != NULL && !roami_msg_call_answered(wait.call)) {
		roami_msg_call_drop(wait.call);
		return client_combine(element, request, ask->number, parts[1].data);
	}
	got = roami_msg_call_end(element->node, wait.call);
	memcpy(&told, room, sizeof(told));
	if (got < sizeof(told) || (told.observed != 0 && told.bytes > request->limit) ||
	    (told.observed != 0 && record == NULL && got != sizeof(told) + told.bytes))
		roami_node_fail(element->node, "node %u sent a malformed PastSet reply",
				element->owner);
	if (record != NULL)
		*record = told.record;
	else if (told.observed != 0)
		memcpy(request->buffer, data, told.bytes);
	else if (request->op == ROAM_PS_STATE && got == sizeof(told) + sizeof(request->state))
		memcpy(&request->state, data, sizeof(request->state));
	return roami_client_outcome(request, &told);
}

/* Apart, for what it needs of the stack. */
#define ROOM_SMALL 1024u
#define ROOM_LARGE (sizeof(struct roami_told) + ROAM_PS_TUPLE_MAX)

__attribute__((noinline)) static enum roam_err client_away_small(
	const struct roam_ps_element *element, const struct roami_ask *ask,
	struct roam_ps_request *request, roami_record *record)
{
	uint64_t room[ROOM_SMALL / sizeof(uint64_t)];

	return client_away(element, ask, request, record, room, sizeof(room));
}

_Static_assert(ROOM_LARGE <= ROAMI_SLAB_BYTES, "the longest tuple");

static enum roam_err client_away_large(const struct roam_ps_element *element,
				       const struct roami_ask *ask, struct roam_ps_request *request,
				       roami_record *record)
{
	struct roami_slab *room = roami_node_slab(element->node);
	enum roam_err err = client_away(element, ask, request, record, room->bytes, ROOM_LARGE);

	roami_slab_give(room);
	return err;
}

/* ----------------------------------------------------------------------------------- operations */

/* The turn of an X-function's participant to observe. */
static bool client_turn(const struct roam_ps_request *request)
{
	return (request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB) &&
	       request->which == ROAM_PS_FIFO && (request->flags & ROAM_PS_PEEK) == 0;
}

/* A mob that moves to a round and observes its result: one operation, with one number. */
static bool client_round(const struct roam_ps_element *element,
			 const struct roam_ps_request *request)
{
	return (request->from == NULL || request->from == element) && client_turn(request) &&
	       element->rounds_moved == element->rounds_observed;
}

/* It cannot be one operation. */
static bool client_parts(const struct roam_ps_element *element,
			 const struct roam_ps_element *from, const struct roam_ps_request *request)
{
	if (from->owner != element->owner || from->server != element->server)
		return true;
	return request->op == ROAM_PS_MOB &&
	       (element->paged || from->paged ||
		((element->rounds || from->rounds) && !client_round(element, request)));
}

struct roami_ask roami_client_begin(const struct roam_ps_element *element,
				    const struct roam_ps_request *request)
{
	size_t limit = request->limit < ROAM_PS_TUPLE_MAX ? request->limit : ROAM_PS_TUPLE_MAX;
	struct roami_ask ask = {.element = element->element,
				.op = (uint8_t)request->op,
				.which = (uint8_t)request->which,
				.flags = (uint8_t)request->flags,
				.number = request->number,
				.timeout_ns = request->timeout_ns,
				.limit = (uint32_t)limit,
				.from = element->element};

	if (element->rounds && request->op == ROAM_PS_MOVE) {
		ask.number = element->rounds_moved + 1;
	} else if (element->rounds && client_turn(request)) { /* a mob, too: client_round */
		ask.which = ROAM_PS_NUMBER;
		ask.number = element->rounds_observed + 1;
		ask.flags |= ROAMI_ASK_ROUND;
	}
	return ask;
}

enum roam_err roami_client_ask(struct roam_ps_element *element, const struct roami_ask *ask,
			       struct roam_ps_request *request, roami_record *record)
{
	size_t room = sizeof(struct roami_told);

	if (element->server != NULL)
		return roami_attach_ask(element, ask, request);
	if (element->owner == element->node->me)
		return client_here(element, ask, request, record);
	if (record == NULL)
		room += request->bytes > ask->limit ? request->bytes : ask->limit;
	return room <= ROOM_SMALL ? client_away_small(element, ask, request, record)
				  : client_away_large(element, ask, request, record);
}

/* Of the real world where there is no node. */
static uint64_t client_now(struct roami_node *node)
{
	return node != NULL ? node->env->now(node) : roami_os_now_ns();
}

/* The two elements cannot be reached by one message. */
static enum roam_err client_mob_apart(struct roam_ps_element *element,
				      struct roam_ps_request *request)
{
	struct roami_node *node = element->node;
	struct roam_ps_element *from = request->from != NULL ? request->from : element;
	uint64_t begun = client_now(node), spent, timeout = request->timeout_ns, moved;
	enum roam_err err;

	request->op = ROAM_PS_MOVE;
	err = element->call(element, request);
	request->op = ROAM_PS_MOB;
	if (err != ROAM_OK)
		return err;
	moved = request->moved;
	spent = client_now(node) - begun;
	if (timeout != 0 && timeout != ROAM_PS_TRY)
		request->timeout_ns = spent < timeout ? timeout - spent : ROAM_PS_TRY;
	request->op = ROAM_PS_OBSERVE;
	err = from->call(from, request);
	request->op = ROAM_PS_MOB;
	request->timeout_ns = timeout;
	request->moved = moved;
	return err;
}

/* What makes no sense, whatever the element holds. */
static enum roam_err client_check(const struct roam_ps_element *element,
				  const struct roam_ps_request *request)
{
	bool observes = request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB;
	bool matches = observes && request->which == ROAM_PS_MATCH;

	/* Other flags have a meaning of our own at the element's node, of any operation. */
	if ((unsigned)request->op > ROAM_PS_STATE || (unsigned)request->which > ROAM_PS_MATCH ||
	    (request->flags & ~(ROAM_PS_PEEK | ROAM_PS_SKIP)) != 0 ||
	    (matches && (request->op == ROAM_PS_MOB || element->paged)))
		return ROAM_EINVAL;
	if (client_moves(request) || matches) {
		if (request->bytes > ROAM_PS_TUPLE_MAX)
			return ROAM_ETOOBIG;
		if (request->tuple == NULL ||
		    !roami_template_fits(&element->template, request->tuple, request->bytes))
			return ROAM_EINVAL;
	}
	if (observes && (((request->flags & ROAM_PS_SKIP) != 0 && request->which != ROAM_PS_LAST) ||
			 (request->which == ROAM_PS_NUMBER && request->number == 0) ||
			 (request->limit != 0 && request->buffer == NULL)))
		return ROAM_EINVAL;
	if (request->op == ROAM_PS_DELTA && request->number == 0)
		return ROAM_EINVAL;
	return ROAM_OK;
}

/* A partial will do in place of an answer. */
static bool client_takes(const struct roam_ps_element *element,
			 const struct roam_ps_request *request, const struct roami_ask *ask)
{
	return element->taker != NULL && request->op == ROAM_PS_MOB &&
	       (ask->flags & ROAMI_ASK_ROUND) != 0 && request->timeout_ns == 0 &&
	       request->cancel == NULL && ask->limit >= element->template.bytes &&
	       roami_taker_want(roami_past_of(element->node), element->taker, ask->number);
}

/* Has it done where its elements are, which is one place. */
static enum roam_err client_once(struct roam_ps_element *element,
				 const struct roam_ps_element *from,
				 struct roam_ps_request *request)
{
	struct roami_ask ask;
	enum roam_err err;

	if (element->paged && (request->op == ROAM_PS_MOVE || request->op == ROAM_PS_OBSERVE))
		return roami_pages_do(element, request);
	ask = roami_client_begin(element, request);
	ask.from = from->element;
	if (client_takes(element, request, &ask))
		ask.flags |= ROAMI_ASK_PARTIAL;
	err = roami_client_ask(element, &ask, request, NULL);
	element->rounds_moved += request->moved != 0;
	element->rounds_observed += request->observed != 0 && client_turn(request);
	return err;
}

/* So that each has a call: who waited for one might keep up those whom he waits for. */
static enum roam_err client_once_away(struct roam_ps_element *element,
				      const struct roam_ps_element *from,
				      struct roam_ps_request *request)
{
	struct roami_past *past = roami_past_of(element->node);
	enum roam_err err = ROAM_EAGAIN;

	if (atomic_fetch_add(&roami_past_job(past)->away, 1) < ROAMI_AWAY_MAX)
		err = client_once(element, from, request);
	atomic_fetch_sub(&roami_past_job(past)->away, 1);
	return err;
}

static enum roam_err client_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	bool two = request->op == ROAM_PS_MOB && request->from != NULL;
	const struct roam_ps_element *from = two ? request->from : element;
	enum roam_err err = client_check(element, request);

	request->moved = request->observed = 0;
	request->got = 0;
	request->skipped = false;
	if (err != ROAM_OK)
		return err;
	if (client_parts(element, from, request))
		return client_mob_apart(element, request);
	if (element->server == NULL && element->owner != element->node->me)
		return client_once_away(element, from, request);
	return client_once(element, from, request);
}

/* --------------------------------------------------------------------------------------- enter */

/* Where the options want it. */
static unsigned enter_place(const struct roami_node *node, const struct roam_ps_options *options)
{
	if (options->place == ROAM_PS_HASH)
		return node->nodes;
	return options->place == ROAM_PS_CREATOR ? node->me : options->node;
}

static void enter_nowhere(unsigned wanted, unsigned nodes, char *why, size_t why_bytes)
{
	snprintf(why, why_bytes, "there is no node %u, the job has %u", wanted, nodes);
}

/* More about what the owner answered. */
static void enter_says(const struct roam_ps_element *element, const char *texts, size_t name_bytes,
		       const struct roami_bind *ask, const struct roami_ps_bound *answer, char *why,
		       size_t why_bytes)
{
	const char *own = element->template.text;

	if (answer->err == ROAM_EUNKNOWN && element->server != NULL)
		snprintf(why, why_bytes, "the server knows no X-function %s", ask->function);
	else if (answer->err == ROAM_EUNKNOWN)
		snprintf(why, why_bytes, "node %u knows no X-function %s", element->owner,
			 ask->function);
	else if (answer->err == ROAM_EINVAL && element->server != NULL && answer->nodes != 0)
		enter_nowhere(ask->node, answer->nodes, why, why_bytes);
	else if (answer->err == ROAM_EINVAL && answer->paged != 0)
		snprintf(why, why_bytes,
			 "element %.*s has its tuples in pages, which are for the nodes of the job",
			 (int)name_bytes, texts);
	else if (answer->err == ROAM_EINVAL)
		snprintf(why, why_bytes,
			 "X-function %s is not for the template %s%s, or not of %u participants",
			 ask->function, own, ask->heap_bytes != 0 ? " in pages" : "",
			 ask->participants);
	else if (answer->err == ROAM_EMISMATCH && answer->template_bytes == 0)
		snprintf(why, why_bytes,
			 "element %.*s has the X-function \"%s\" of %u participants, not \"%s\" of "
			 "%u",
			 (int)name_bytes, texts, answer->function, answer->participants,
			 ask->function, ask->participants);
	else if (answer->err == ROAM_EMISMATCH)
		snprintf(why, why_bytes, "element %.*s has the template %.*s, not %s",
			 (int)name_bytes, texts, (int)answer->template_bytes, answer->template_text,
			 own);
}

static enum roam_err enter_attached(struct roam_ps_server *server, uint64_t timeout_ns,
				    const struct roam_part *parts, struct roami_ps_bound *answer)
{
	size_t got;
	uint64_t within = timeout_ns != 0 ? timeout_ns : ROAMI_ANSWER_NS;
	enum roam_err err = roami_attach_call(server, ROAMI_GUEST_BIND, within, parts, 2, answer,
					      sizeof(*answer), &got);

	if (err == ROAM_OK && got != sizeof(*answer))
		err = ROAM_EPROTO;
	answer->template_text[ROAM_PS_TEMPLATE_MAX] = '\0';
	answer->function[ROAM_PS_FUNCTION_MAX] = '\0';
	return err;
}

/* A participant of two, elsewhere, in a round of what is known everywhere. */
static void enter_taker(struct roam_ps_element *element, const struct roami_bind *ask)
{
	const struct roami_function *function = roami_functions;
	struct roami_past *past = roami_past_of(element->node);

	while (function->name[0] != '\0' && strcmp(function->name, ask->function) != 0)
		function++;
	if (ask->participants != 2 || function->combine == NULL ||
	    element->template.bytes > ROAMI_PARTIAL_MAX)
		return;
	element->function = function;
	element->taker = roami_taker_open(past, element->owner, element->element,
					  element->template.bytes);
}

/* Its number there; both texts lie in `texts`, one after the other. */
static enum roam_err enter_bind(struct roam_ps_element *element, const char *texts,
				size_t name_bytes, const struct roam_ps_options *options,
				uint64_t heap, char *why, size_t why_bytes)
{
	struct roami_bind ask = {.delta = options->delta,
				 .forget = options->forget,
				 .heap = heap,
				 .place = options->place,
				 .node = options->node,
				 .name_bytes = (uint32_t)name_bytes,
				 .template_bytes = (uint32_t)strlen(element->template.text)};
	struct roam_part parts[2] = {{&ask, sizeof(ask)}, {texts, name_bytes + ask.template_bytes}};
	struct roami_ps_bound answer;
	enum roam_err err = ROAM_OK;

	if (options->function != NULL) {
		snprintf(ask.function, sizeof(ask.function), "%s", options->function);
		ask.participants = options->participants;
		element->rounds = options->participants != 0;
		element->participants = options->participants;
	}
	if (options->storage == ROAM_PS_PAGES)
		ask.heap_bytes = options->memory;
	if (element->server != NULL)
		err = enter_attached(element->server, options->timeout_ns, parts, &answer);
	else
		roami_past_bind(element->node, element->owner, &ask, texts, &answer);
	if (err != ROAM_OK)
		return err;
	element->element = answer.element;
	if (element->server != NULL)
		element->owner = roami_hosted_owner(answer.element);
	element->paged = answer.paged != 0;
	element->heap = answer.heap;
	if (answer.err == ROAM_OK && element->server == NULL && element->owner != element->node->me)
		enter_taker(element, &ask);
	enter_says(element, texts, name_bytes, &ask, &answer, why, why_bytes);
	return (enum roam_err)answer.err;
}

static enum roam_err enter_check(const struct roami_node *node, const char *name,
				 const struct roam_ps_options *options, char *why, size_t why_bytes)
{
	if (name != NULL && (name[0] == '\0' || strlen(name) > ROAM_PS_NAME_MAX))
		snprintf(why, why_bytes, "a name has 1 to %u bytes", ROAM_PS_NAME_MAX);
	else if ((unsigned)options->place > ROAM_PS_NODE)
		snprintf(why, why_bytes, "there is no such place as %u", (unsigned)options->place);
	else if (options->function != NULL &&
		 (options->function[0] == '\0' ||
		  strlen(options->function) > ROAM_PS_FUNCTION_MAX))
		snprintf(why, why_bytes,
			 "an X-function has a name of 1 to %u bytes",
			 ROAM_PS_FUNCTION_MAX);
	else if ((unsigned)options->storage > ROAM_PS_PAGES)
		snprintf(why, why_bytes, "there is no such storage as %u",
			 (unsigned)options->storage);
	else if (node == NULL && options->storage == ROAM_PS_PAGES)
		snprintf(why, why_bytes, "storage in pages is for nodes of a job");
	else if (node != NULL && options->place == ROAM_PS_NODE && options->node >= node->nodes)
		enter_nowhere(options->node, node->nodes, why, why_bytes);
	else
		return ROAM_OK;
	return ROAM_EINVAL;
}

/* Its name, the end of which is cut off if it is longer. */
static void enter_label(struct roam_ps_element *element, const char *name)
{
	char *label = (char *)element->label;

	if (snprintf(label, sizeof(element->label), "%s", name) >= (int)sizeof(element->label))
		memcpy(label + sizeof(element->label) - 4, "...", 4);
}

/* Where it is, then binds it there. */
static enum roam_err enter_node(struct roam_ps_element *element, const char *texts, size_t bytes,
				const struct roam_ps_options *options, uint64_t heap, char *why,
				size_t why_bytes)
{
	struct roami_node *node = element->node;
	enum roam_err err;

	element->rounds_moved = roami_past_of(node)->tuples_begin;
	element->rounds_observed = element->rounds_moved;
	roami_node_waits_tuple(node, 0, ROAMI_TUPLE_ENTER | ROAMI_TUPLE_ENDS, element->label);
	err = roami_past_locate(node, texts, bytes, enter_place(node, options), &element->owner);
	if (err == ROAM_OK)
		err = enter_bind(element, texts, bytes, options, heap, why, why_bytes);
	roami_node_waits_no_more(node);
	return err;
}

/* At the node, or the server. */
static enum roam_err enter_do(struct roami_node *node, struct roam_ps_server *server,
			      const char *name, const char *template_text,
			      const struct roam_ps_options *options, uint64_t heap,
			      struct roam_ps_element **element_p, char *why, size_t why_bytes)
{
	static const struct roam_ps_options defaults = {.place = ROAM_PS_HASH};
	char texts[2 * ROAM_PS_TEMPLATE_MAX + 2];
	struct roam_ps_element *element = calloc(1, sizeof(*element));
	enum roam_err err = ROAM_ENOMEM;
	size_t bytes;

	if (options == NULL)
		options = &defaults;
	if (element != NULL)
		err = enter_check(node, name, options, why, why_bytes);
	if (err == ROAM_OK)
		err = roami_template_parse(&element->template, template_text, why, why_bytes);
	if (err == ROAM_OK) {
		if (name == NULL)
			name = element->template.text;
		bytes = strlen(name);
		snprintf(texts, sizeof(texts), "%s%s", name, element->template.text);
		element->node = node;
		element->server = server;
		element->call = client_call;
		enter_label(element, name);
		err = server == NULL ? enter_node(element, texts, bytes, options, heap, why,
						  why_bytes)
				     : enter_bind(element, texts, bytes, options, heap, why,
						  why_bytes);
	}
	if (err == ROAM_OK)
		*element_p = element;
	else
		free(element);
	return err;
}

enum roam_err roami_past_enter(struct roami_node *node, const char *name, const char *template_text,
			       const struct roam_ps_options *options, uint64_t heap,
			       struct roam_ps_element **element_p, char *why, size_t why_bytes)
{
	return enter_do(node, NULL, name, template_text, options, heap, element_p, why, why_bytes);
}

enum roam_err roami_past_enter_at(struct roam_ps_server *server, const char *name,
				  const char *template_text, const struct roam_ps_options *options,
				  struct roam_ps_element **element_p, char *why, size_t why_bytes)
{
	enum roam_err err = enter_do(NULL, server, name, template_text, options, 0, element_p, why,
				     why_bytes);

	if (err == ROAM_OK)
		roami_attach_hold(server);
	return err;
}
