/*
 * The route to an element that lives at this node: the calling thread does the operation.  The
 * program's memory is touched without any lock, since it may fault.
 */
#include "pastset/job/client.h"
#include "pastset/job/server.h"

/* A thread that waits for its operation. */
struct here_wait {
	struct roami_past_waiter *waiter;
	const struct roam_ps_cancel *cancel; /* NULL: it cannot be cancelled */
};

static bool here_over(void *arg)
{
	const struct here_wait *wait = arg;

	return atomic_load_explicit(&wait->waiter->done, memory_order_acquire) != 0;
}

static bool here_looks(void *arg)
{
	const struct here_wait *wait = arg;

	return here_over(arg) || roami_client_cancelled(wait->cancel);
}

/* The outcome of a thread that cancels is the operation's, which may have been done before. */
static void here_await(struct roami_past *past, struct here_wait *wait)
{
	roami_wait(past->node, here_looks, wait);
	if (here_over(wait))
		return;
	roami_past_cancel(past, wait->waiter);
	roami_wait(past->node, here_over, wait);
}

/*
 * Whether the operation may be done before a partial's outcome is known: it has no time limit, and
 * finds nothing newer than it needs.
 */
static bool here_lax(const struct roami_ask *ask, const struct roam_ps_request *request)
{
	bool observes = ask->op == ROAM_PS_OBSERVE && ask->which != ROAM_PS_LAST;

	return ask->timeout_ns == 0 && request->cancel == NULL &&
	       (observes || roami_client_moves(request));
}

/* Does the operation, and waits for it.  Its outcome is in *op, but for the tuple. */
static void here_run(const struct roam_ps_element *element, const struct roam_ps_request *request,
		     struct roami_op *op)
{
	struct roami_past *past = element->past;
	struct here_wait wait = {.cancel = request->cancel};
	struct roami_partial partial;

	partial.round = 0;
	op->partial = &partial;
	op->lax = here_lax(&op->ask, request);
	wait.waiter = roami_past_run(past, op, NULL);
	if (wait.waiter != NULL)
		roami_wait_begin(past->node);
	if (partial.round != 0)
		roami_partial_give(past, element->element, &partial);
	if (wait.waiter == NULL)
		return;
	roami_client_waits(past->node, element, request);
	here_await(past, &wait);
	roami_node_waits_no_more(past->node);
	roami_wait_end(past->node);
	*op = wait.waiter->op;
	roami_past_free_waiter(past, wait.waiter);
}

static enum roam_err here_outcome(const struct roami_op *op, struct roam_ps_request *request)
{
	struct roami_outcome outcome = roami_outcome_of(op);

	request->state = op->state;
	return roami_client_outcome(request, &outcome);
}

static enum roam_err here_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	struct roami_past *past = element->past;
	struct roami_op op = {.node = element->node->me + 1};
	enum roam_err err;

	if (!roami_client_begin(element, request, &op.ask, &err))
		return err;
	if (roami_ask_carries(&op.ask) &&
	    !roami_past_take(past, &op, request->tuple, request->bytes))
		return op.err;
	here_run(element, request, &op);
	if (op.record != 0) {
		roami_step(past->node);
		roami_past_give(past, &op, request->buffer);
		roami_record_rele(past->node, roami_past_element(past, op.ask.element)->buddy,
				  op.record);
	}
	err = here_outcome(&op, request);
	roami_client_end(element, request);
	return err;
}

/* --------------------------------------------------------- for an element with tuples in pages */

static enum roam_err here_record(struct roam_ps_element *element, const struct roami_ask *ask,
				 struct roam_ps_request *request, roami_record *record)
{
	struct roami_op op = {.ask = *ask, .node = element->node->me + 1};

	if (ask->op == ROAMI_ASK_RESERVE) {
		roami_past_reserve(element->past, &op, ask->number);
		*record = op.record;
		return op.err;
	}
	if (roami_ask_carries(ask))
		op.record = *record;
	here_run(element, request, &op);
	*record = op.record;
	return here_outcome(&op, request);
}

static void here_rele(struct roam_ps_element *element, roami_record record)
{
	struct roami_past *past = element->past;

	roami_record_rele(past->node, roami_past_element(past, element->element)->buddy, record);
}

static bool here_begin(struct roam_ps_element *element)
{
	(void)element;
	return true;
}

static void here_end(struct roam_ps_element *element)
{
	(void)element;
}

const struct roami_ps_route roami_route_here = {
	.call = here_call,
	.leave = roami_client_leave,
	.now = roami_client_now,
	.record = here_record,
	.rele = here_rele,
	.begin = here_begin,
	.end = here_end,
};
