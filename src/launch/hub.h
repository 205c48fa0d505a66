/*
 * Gathering (bind.h) without a launcher's help: node 0 listens, the others connect to it, and it
 * sends each what all have given.  Connections that show anything else are dropped.
 */
#ifndef ROAMI_HUB_H
#define ROAMI_HUB_H

#include <sys/socket.h>

#include "launch/bind.h"

#define ROAMI_HUB_STRANGERS (ROAMI_NODES_MAX + 16u) /* all nodes may come at once */
#define ROAMI_HUB_ADDRESSES 4u

struct roami_hub_head {
	uint64_t magic;
	uint64_t job; /* a number that tells it from other jobs at the same address */
	uint32_t node;
	uint32_t nodes;
	uint32_t round;
	uint32_t bytes; /* that follow; from node 0 for each node a length and its bytes */
};

struct roami_hub_peer {
	int fd; /* -1: none */
	uint64_t since;
	size_t have;
	struct roami_hub_head head;
	uint8_t data[ROAMI_BLOB_BYTES];
};

struct roami_hub {
	uint64_t job;
	unsigned round;
	int listener;
	/* Addresses at which node 0 may listen: it takes the first that is free. */
	struct sockaddr_storage addresses[ROAMI_HUB_ADDRESSES];
	socklen_t address_bytes; /* of each */
	unsigned address_count;
	/*
	 * Node 0: the nodes' connections by their numbers, then connections that have not shown
	 * whose they are.
	 */
	struct roami_hub_peer *peers;
	int fd; /* others: to node 0 */
};

/* Node 0 listens from the first call on, until all nodes have connected. */
bool roami_hub_gather(struct roami_bound *bound, struct roami_hub *hub, const void *mine,
		      size_t bytes, struct roami_blob *all);

void roami_hub_close(struct roami_bound *bound, struct roami_hub *hub);

#endif
