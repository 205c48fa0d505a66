/*
 * mixed: several transports, each for some of the peers.  Each peer is reached by one of them only,
 * so what they promise holds for all.
 */
#include "link/mixed.h"

#define NODES_MAX 64u

struct mixed_state {
	unsigned count;
	struct roam_transport_stack stacks[ROAM_STACKS_MAX];
	const struct roam_transport_stack *to[NODES_MAX];
};

static enum roam_err mixed_open(void *state, const struct roam_transport_params *params)
{
	struct mixed_state *mixed = state;

	if (params->nodes > NODES_MAX || params->stack_count > ROAM_STACKS_MAX)
		return ROAM_ENODES;
	mixed->count = params->stack_count;
	for (unsigned i = 0; i < mixed->count; i++) {
		mixed->stacks[i] = params->stacks[i];
		for (unsigned peer = 0; peer < params->nodes; peer++)
			if ((mixed->stacks[i].peers >> peer & 1) != 0)
				mixed->to[peer] = &mixed->stacks[i];
	}
	for (unsigned peer = 0; peer < params->nodes; peer++)
		if (mixed->to[peer] == NULL)
			return ROAM_EINVAL;
	return ROAM_OK;
}

static void mixed_close(void *state)
{
	(void)state;
}

static enum roam_err mixed_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	const struct mixed_state *mixed = state;
	const struct roam_transport_stack *stack = mixed->to[to];

	return stack->transport->send(stack->state, to, parts, count);
}

static unsigned mixed_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	const struct mixed_state *mixed = state;
	unsigned taken = 0;

	for (unsigned i = 0; i < mixed->count; i++) {
		const struct roam_transport_stack *stack = &mixed->stacks[i];

		taken += stack->transport->poll(stack->state, deliver, arg, max, bad_peer);
		if (*bad_peer >= 0)
			return 0;
	}
	return taken;
}

static bool mixed_pending(const void *state)
{
	const struct mixed_state *mixed = state;

	for (unsigned i = 0; i < mixed->count; i++)
		if (mixed->stacks[i].transport->pending(mixed->stacks[i].state))
			return true;
	return false;
}

static uint64_t mixed_due(const void *state)
{
	const struct mixed_state *mixed = state;
	uint64_t due = UINT64_MAX, next;

	for (unsigned i = 0; i < mixed->count; i++) {
		const struct roam_transport_stack *stack = &mixed->stacks[i];

		if (stack->transport->due == NULL)
			continue;
		next = stack->transport->due(stack->state);
		due = next < due ? next : due;
	}
	return due;
}

const struct roam_transport roami_transport_mixed = {
	.name = "mixed",
	.caps = ROAM_CAP_RELIABLE | ROAM_CAP_ORDERED,
	.state_size = sizeof(struct mixed_state),
	.message_max = 64 * 1024,
	.open = mixed_open,
	.close = mixed_close,
	.send = mixed_send,
	.poll = mixed_poll,
	.pending = mixed_pending,
	.due = mixed_due,
};
