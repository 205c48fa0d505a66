/*
 * mixed: several transports, each for some of the peers.  Each peer is reached by one of them only,
 * so what they promise holds for all.
 */
#include "link/mixed.h"

#define NODES_MAX 64u

struct mixed_state {
	unsigned count;
	struct roam_transport_way ways[ROAM_WAYS_MAX];
	const struct roam_transport_way *to[NODES_MAX];
};

static enum roam_err mixed_open(void *state, const struct roam_transport_params *params)
{
	struct mixed_state *mixed = state;

	if (params->nodes > NODES_MAX || params->way_count > ROAM_WAYS_MAX)
		return ROAM_ENODES;
	mixed->count = params->way_count;
	for (unsigned i = 0; i < mixed->count; i++) {
		mixed->ways[i] = params->ways[i];
		for (unsigned peer = 0; peer < params->nodes; peer++)
			if ((mixed->ways[i].peers >> peer & 1) != 0)
				mixed->to[peer] = &mixed->ways[i];
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
	const struct roam_transport_way *way = mixed->to[to];

	return way->transport->send(way->state, to, parts, count);
}

static unsigned mixed_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	const struct mixed_state *mixed = state;
	unsigned taken = 0;

	for (unsigned i = 0; i < mixed->count; i++) {
		const struct roam_transport_way *way = &mixed->ways[i];

		taken += way->transport->poll(way->state, deliver, arg, max, bad_peer);
		if (*bad_peer >= 0)
			return 0;
	}
	return taken;
}

static bool mixed_pending(const void *state)
{
	const struct mixed_state *mixed = state;

	for (unsigned i = 0; i < mixed->count; i++)
		if (mixed->ways[i].transport->pending(mixed->ways[i].state))
			return true;
	return false;
}

static uint64_t mixed_due(const void *state)
{
	const struct mixed_state *mixed = state;
	uint64_t due = UINT64_MAX, next;

	for (unsigned i = 0; i < mixed->count; i++) {
		const struct roam_transport_way *way = &mixed->ways[i];

		if (way->transport->due == NULL)
			continue;
		next = way->transport->due(way->state);
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
