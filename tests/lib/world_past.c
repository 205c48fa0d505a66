#include "world_past.h"

#include "pastset/job/client.h"
#include "pastset/job/relay.h"
#include "pastset/kernel.h"

void world_past_begin(struct roami_node *node, uint64_t tuples, struct rng *rng)
{
	struct roami_past *past = roami_past_of(node);

	past->serial = (UINT64_C(1) << 32) - rng_range(rng, 1, 24);
	roami_past_job(past)->relay_serial = ROAMI_RELAY_SERIALS - rng_range(rng, 1, 24);
	past->tuples_begin = tuples;
}

/* Whether the request's number is the number of a tuple. */
static bool past_numbers(const struct roam_ps_request *request)
{
	if (request->op == ROAM_PS_TRUNCATE)
		return request->number != UINT64_MAX;
	return (request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB) &&
	       (request->which == ROAM_PS_NUMBER || request->which == ROAM_PS_NEXT);
}

enum roam_err world_past_call(struct roam_ps_element *element, struct roam_ps_request *request)
{
	uint64_t begin = roami_past_of(element->node)->tuples_begin, number = request->number;
	enum roam_err err;

	if (past_numbers(request))
		request->number += begin;
	err = element->call(element, request);
	request->number = number;
	request->moved -= request->moved != 0 ? begin : 0;
	request->observed -= request->observed != 0 ? begin : 0;
	if (request->op == ROAM_PS_STATE && err == ROAM_OK) {
		request->state.first -= begin;
		request->state.last -= begin;
		request->state.oldest -= begin;
	}
	return err;
}
