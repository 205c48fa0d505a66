/*
 * The layers between messages and a transport: what the user asks for to go wrong, and the reliable
 * layer where the rest does not promise that messages arrive once and in order.
 */
#ifndef ROAMI_LAYERS_H
#define ROAMI_LAYERS_H

#include "base/node.h"

/* A transport, or a layer over it that makes it reliable, or unreliable. */
struct roami_layer {
	const struct roam_transport *transport; /* NULL: none */
	void *state;
	struct roam_transport_memory *memory; /* of a transport: its peers'; NULL: it is a layer */
	bool opened;
};

#define ROAMI_LAYERS_MAX (3 * ROAM_STACKS_MAX + 1)

struct roami_layers {
	const struct roam_transport *transport; /* the highest layer, which messages go through */
	void *transport_state;
	struct roami_layer all[ROAMI_LAYERS_MAX]; /* the lowest first */
	const struct roam_onesided *onesided; /* of the transport that has them; NULL: none */
	void *onesided_state;
	const struct roami_layer *sleeper; /* at whose transport threads sleep; NULL: they do not */
	/* Peers whose messages wake no thread that sleeps there; their eventfds do, wait_net.c. */
	uint64_t rung;
	uint64_t timed; /* peers: sending to one begins a layer's timer */
	const int *bells;
	const uint8_t *card; /* ROAM_CARD_BYTES for peers on other hosts; NULL: there are none */
	unsigned lost; /* + 1: the peer that has fallen silent, for which the node fails */
};

static inline struct roami_layers *layers_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_LAYERS].state;
}

/* The transports' names, the farthest first: "a", "a, on each over b". */
const char *roami_layers_over(const struct roami_node *node, char *text, size_t bytes);

/* A descriptor of the farthest transport, without which no message comes; -1: it has none. */
int roami_layers_file(const struct roami_node *node);

/* The option of the faulty layer, ROAM_FAULTY; false: `why` says what is wrong. */
bool roami_layers_check(const char *faulty, char *why, size_t why_bytes);

#endif
