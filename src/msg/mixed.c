/*
 * mixed: one transport for the peers of this host, another for those of other hosts.  Each peer is
 * reached by one of them only, so what they promise holds for both.
 */
#include "msg/mixed.h"

struct mixed_state {
	uint64_t near; /* peers that `beside` reaches; bits */
	const struct roam_transport *lower, *beside;
	void *lower_state, *beside_state;
};

static enum roam_err mixed_open(void *state, const struct roam_transport_params *params)
{
	struct mixed_state *mixed = state;

	mixed->near = params->others;
	mixed->lower = params->lower;
	mixed->lower_state = params->lower_state;
	mixed->beside = params->beside;
	mixed->beside_state = params->beside_state;
	return ROAM_OK;
}

static void mixed_close(void *state)
{
	(void)state;
}

static enum roam_err mixed_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct mixed_state *mixed = state;

	if ((mixed->near >> to & 1) != 0)
		return mixed->beside->send(mixed->beside_state, to, parts, count);
	return mixed->lower->send(mixed->lower_state, to, parts, count);
}

static unsigned mixed_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	struct mixed_state *mixed = state;
	unsigned taken = mixed->beside->poll(mixed->beside_state, deliver, arg, max, bad_peer);

	if (*bad_peer >= 0)
		return 0;
	return taken + mixed->lower->poll(mixed->lower_state, deliver, arg, max, bad_peer);
}

static bool mixed_pending(const void *state)
{
	const struct mixed_state *mixed = state;

	return mixed->beside->pending(mixed->beside_state) ||
	       mixed->lower->pending(mixed->lower_state);
}

static uint64_t mixed_due(const void *state)
{
	const struct mixed_state *mixed = state;

	return mixed->lower->due(mixed->lower_state);
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
