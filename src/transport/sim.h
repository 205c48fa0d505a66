/* sim: the network of a simulated world, on the world's virtual time. */
#ifndef ROAMI_SIM_H
#define ROAMI_SIM_H

#include <stdint.h>

#include "roam/transport.h"

#define ROAMI_SIM_NODES_MAX 64u

struct roami_sim_node;

/* One network; roam_transport_params.world points to it. */
struct roami_sim {
	void *world;
	uint64_t (*now)(void *world);
	uint64_t (*draw)(void *world, uint64_t limit); /* a random number below limit */
	unsigned queue_max; /* messages under way from one node to another; then EAGAIN */
	uint64_t latency_ns_min;
	uint64_t latency_ns_max;
	uint64_t slow_ns; /* more on one way, so that others' messages overtake; 0: none is slow */
	unsigned slow_from;
	unsigned slow_to;
	size_t datagram_max; /* of roami_transport_sim_datagrams: longest message */
	size_t room;         /* and bytes that may wait for a node, as it tells its peers */
	struct roami_sim_node *nodes[ROAMI_SIM_NODES_MAX];
};

extern const struct roam_transport roami_transport_sim;

/*
 * A transport over this network that promises nothing, for the layers over unreliable transports.
 */
extern const struct roam_transport roami_transport_sim_datagrams;

/* When the next message for `node` arrives; UINT64_MAX: none is under way. */
uint64_t roami_sim_due(const struct roami_sim *sim, unsigned node);

#endif
