/* sim: the network of a simulated world, on virtual time, with one slow link (rule 9.4). */
#ifndef ROAMI_SIM_H
#define ROAMI_SIM_H

#include <stdint.h>

#include "roam/transport.h"

#define ROAMI_SIM_NODES_MAX 64u

struct roami_sim_node;
struct roami_sim_read;
struct roami_sim_put;

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

	/* The nodes' cards, see sim_card.c. */
	uint64_t read_ns_max;
	unsigned reads_max; /* under way in all, then EAGAIN; 0: any number */
	unsigned read_fails; /* one of so many ends with an error; 0: none */
	void (*landed)(void *world, unsigned node); /* a read of this node is done */
	struct roami_sim_read *reads;
	struct roami_sim_put *puts;
	unsigned read_count; /* reads and puts under way */
	uint64_t unready[ROAMI_SIM_NODES_MAX]; /* when each node's cards have joined again */
	uint8_t *memory[ROAMI_SIM_NODES_MAX]; /* each node's segment */
	size_t memory_bytes[ROAMI_SIM_NODES_MAX];
};

extern const struct roam_transport roami_transport_sim;

/* The same with cards, which read the nodes' segments. */
extern const struct roam_transport roami_transport_sim_card;

/* Operations of the cards, for sim.c: the state says which node of which network it is. */
extern const struct roam_onesided roami_sim_card;
struct roami_sim *roami_sim_of(const void *state, unsigned *node_p);

/* The message of a put has arrived. */
void roami_sim_tell(struct roami_sim *sim, unsigned from, unsigned to, const void *data,
		    size_t bytes);

/* Lets what is due land: lines of 64 bytes, then the end of what they belong to. */
void roami_sim_land(struct roami_sim *sim);
/* When that must be called again; UINT64_MAX: nothing is under way. */
uint64_t roami_sim_land_due(const struct roami_sim *sim);
/* Drops the reads and puts of a network that ends. */
void roami_sim_land_none(struct roami_sim *sim);

/*
 * A transport over this network that promises nothing, for the layers over unreliable transports.
 */
extern const struct roam_transport roami_transport_sim_datagrams;

/* When the next message for `node` arrives; UINT64_MAX: none is under way. */
uint64_t roami_sim_due(const struct roami_sim *sim, unsigned node);

#endif
