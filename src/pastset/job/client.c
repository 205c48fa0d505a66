/* The steps of a request before and after its route. */
#include "pastset/job/client.h"

#include <stdlib.h>

void roami_client_waits(struct roami_node *node, const struct roam_ps_element *element,
			const struct roam_ps_request *request)
{
	static const uint8_t what[] = {[ROAM_PS_MOVE] = ROAMI_TUPLE_MOVE,
				       [ROAM_PS_OBSERVE] = ROAMI_TUPLE_OBSERVE,
				       [ROAM_PS_MOB] = ROAMI_TUPLE_MOB};
	unsigned of = (unsigned)request->op < sizeof(what) ? what[request->op] : ROAMI_TUPLE_OTHER;

	of |= element->shows;
	if (request->timeout_ns != 0 || request->cancel != NULL)
		of |= ROAMI_TUPLE_ENDS;
	roami_node_waits_tuple(node, (uint64_t)element->owner << 32 | element->element, of,
			       element->label);
}

void roami_client_leave(struct roam_ps_element *element)
{
	free(element);
}

uint64_t roami_client_now(const struct roam_ps_element *element)
{
	return element->node->env->now(element->node);
}

enum roam_err roami_client_outcome(struct roam_ps_request *request,
				   const struct roami_outcome *outcome)
{
	request->moved = outcome->moved;
	request->observed = outcome->observed;
	request->got = outcome->bytes;
	request->skipped = outcome->skipped != 0;
	return (enum roam_err)outcome->err;
}

/* ------------------------------------------------------------------------------------- requests */

static enum roam_err client_refuses(const struct roam_ps_element *element,
				    const struct roam_ps_request *request)
{
	bool observes = request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB;
	bool matches = observes && request->which == ROAM_PS_MATCH;

	/* Other flags have a meaning of our own at the element's node, of any operation. */
	if ((unsigned)request->op > ROAM_PS_STATE || (unsigned)request->which > ROAM_PS_MATCH ||
	    (request->flags & ~(ROAM_PS_PEEK | ROAM_PS_SKIP)) != 0 ||
	    (matches && request->op == ROAM_PS_MOB))
		return ROAM_EINVAL;
	if (roami_client_moves(request) || matches) {
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

enum roam_err roami_client_check(const struct roam_ps_element *element,
				 struct roam_ps_request *request)
{
	enum roam_err err = client_refuses(element, request);

	request->moved = request->observed = 0;
	request->got = 0;
	request->skipped = false;
	return err;
}

/* A mob that moves to a round and observes its result: one operation, with one number. */
static bool client_round(const struct roam_ps_element *element,
			 const struct roam_ps_request *request)
{
	return (request->from == NULL || request->from == element) && roami_client_turn(request) &&
	       element->rounds_moved == element->rounds_observed;
}

struct roami_ask roami_client_make(const struct roam_ps_element *element,
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
	} else if (element->rounds && roami_client_turn(request)) { /* a mob, too: client_round */
		ask.which = ROAM_PS_NUMBER;
		ask.number = element->rounds_observed + 1;
		ask.flags |= ROAMI_ASK_ROUND;
	}
	return ask;
}

enum roam_err roami_client_apart(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roam_ps_element *from = request->from != NULL ? request->from : element;
	uint64_t begun = element->route->now(element), timeout = request->timeout_ns, spent, moved;
	enum roam_err err;

	roami_assert(request->op == ROAM_PS_MOB);
	request->op = ROAM_PS_MOVE;
	err = element->call(element, request);
	request->op = ROAM_PS_MOB;
	if (err != ROAM_OK)
		return err;
	moved = request->moved;
	spent = element->route->now(element) - begun;
	if (timeout != 0 && timeout != ROAM_PS_TRY)
		request->timeout_ns = spent < timeout ? timeout - spent : ROAM_PS_TRY;
	request->op = ROAM_PS_OBSERVE;
	err = from->call(from, request);
	request->op = ROAM_PS_MOB;
	request->timeout_ns = timeout;
	request->moved = moved;
	return err;
}

/* Whether a mob to `element` from another one is one operation, since both are at one place. */
static bool client_together(const struct roam_ps_element *element,
			    const struct roam_ps_element *from)
{
	return from->route == element->route && from->owner == element->owner &&
	       from->server == element->server;
}

bool roami_client_begin(struct roam_ps_element *element, struct roam_ps_request *request,
			struct roami_ask *ask, enum roam_err *err_p)
{
	const struct roam_ps_element *from = element;

	*err_p = roami_client_check(element, request);
	if (*err_p != ROAM_OK)
		return false;
	if (request->op == ROAM_PS_MOB) {
		if (request->from != NULL)
			from = request->from;
		if (!client_together(element, from) ||
		    ((element->rounds || from->rounds) && !client_round(element, request))) {
			*err_p = roami_client_apart(element, request);
			return false;
		}
	}
	*ask = roami_client_make(element, request);
	ask->from = from->element;
	return true;
}
