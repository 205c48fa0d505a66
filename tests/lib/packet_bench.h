/* A node of the packet transport whose rings are plain memory: no kernel is behind its file. */
#ifndef ROAM_TESTS_PACKET_BENCH_H
#define ROAM_TESTS_PACKET_BENCH_H

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/packet.h"

#define BENCH_NODES 3u
#define BENCH_ME    1u
#define BENCH_MARK  0x12345678u
#define BENCH_SLOTS 8u
#define BENCH_SLOT  9728u

struct packet_bench {
	struct packet_state packet;
	struct packet_card cards[BENCH_NODES];
	struct roam_transport_memory memory[BENCH_NODES];
};

/* Opens the one lane PACKET_LINK or PACKET_NEAR; the caller sets `params.now`. */
static inline void packet_bench_open(struct packet_bench *bench, unsigned which)
{
	struct packet_state *packet = &bench->packet;
	struct packet_lane *lane = &packet->lanes[which];

	packet->both = -1;
	for (unsigned i = 0; i < PACKET_LANES; i++)
		packet->lanes[i].fd = -1;
	roami_ear_init(&packet->ear);
	for (unsigned i = 0; i < BENCH_NODES; i++) {
		uint64_t mac = which == PACKET_LINK ? i + 1 : 0;

		atomic_store(&bench->cards[i].where, mac << 16 | 1);
		atomic_store(&bench->cards[i].endpoint, (uint64_t)BENCH_MARK << 32 | i);
		bench->memory[i].base = &bench->cards[i];
		packet->peers[i].joined = calloc(1, PACKET_DATAGRAM);
	}
	packet->params = (struct roam_transport_params){
		.node = BENCH_ME, .nodes = BENCH_NODES, .memory = bench->memory};
	packet->mark = BENCH_MARK;
	packet->limit = PACKET_DATAGRAM;
	lane->slot = BENCH_SLOT;
	lane->ops = &packet_rings;
	lane->fd = eventfd(0, EFD_NONBLOCK);
	lane->ring = calloc(2 * (size_t)BENCH_SLOTS, BENCH_SLOT);
	if (lane->ring == NULL || lane->fd < 0)
		abort();
	lane->in = (struct packet_slots){.base = lane->ring, .count = BENCH_SLOTS};
	lane->out = (struct packet_slots){.base = lane->ring + BENCH_SLOTS * (size_t)BENCH_SLOT,
					  .count = BENCH_SLOTS};
}

static inline void packet_bench_close(struct packet_bench *bench)
{
	for (unsigned i = 0; i < BENCH_NODES; i++)
		free(bench->packet.peers[i].joined);
	for (unsigned i = 0; i < PACKET_LANES; i++) {
		free(bench->packet.lanes[i].ring);
		if (bench->packet.lanes[i].fd >= 0)
			close(bench->packet.lanes[i].fd);
	}
}

#endif
