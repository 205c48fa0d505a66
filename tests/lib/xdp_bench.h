/* A socket of AF_XDP whose memory and rings are plain memory: no kernel is behind its file. */
#ifndef ROAM_TESTS_XDP_BENCH_H
#define ROAM_TESTS_XDP_BENCH_H

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "transport/xdp.h"

#define XDP_BENCH_IN    8u /* chunks of frames that arrive */
#define XDP_BENCH_SLOTS 4u
#define XDP_BENCH_SLOT  3u /* chunks of each */
#define XDP_BENCH_CHUNKS (XDP_BENCH_IN + XDP_BENCH_SLOTS * XDP_BENCH_SLOT)
#define XDP_BENCH_RING  16u
#define XDP_BENCH_MORE  1u /* an option of a chunk: the frame goes on in the next one */

struct xdp_bench {
	struct xdp_socket socket;
	uint32_t words[4][3];
	struct xdp_desc in[XDP_BENCH_RING], out[XDP_BENCH_RING];
	uint64_t fill[XDP_BENCH_RING], sent[XDP_BENCH_RING];
	uint16_t free[XDP_BENCH_SLOTS];
	uint8_t left[XDP_BENCH_SLOTS];
	_Alignas(8) uint8_t memory[XDP_BENCH_CHUNKS * XDP_CHUNK];
	_Alignas(8) uint8_t joined[XDP_CHUNKS_MAX * XDP_CHUNK];
};

static inline void xdp_bench_ring(struct xdp_bench *bench, unsigned which, struct xdp_ring *ring,
				  void *slots)
{
	*ring = (struct xdp_ring){.producer = &bench->words[which][0],
				  .consumer = &bench->words[which][1],
				  .flags = &bench->words[which][2],
				  .slots = slots,
				  .count = XDP_BENCH_RING};
}

/* `bench` is zero; it must stay where it is. */
static inline void xdp_bench_open(struct xdp_bench *bench, struct packet_lane *lane)
{
	struct xdp_socket *xdp = &bench->socket;

	*xdp = (struct xdp_socket){.link = -1,
				   .mode = XDP_GENERIC,
				   .joins = true,
				   .memory = bench->memory,
				   .bytes = sizeof(bench->memory),
				   .chunks_in = XDP_BENCH_IN,
				   .slot_chunks = XDP_BENCH_SLOT,
				   .slots = XDP_BENCH_SLOTS,
				   .spare = XDP_BENCH_SLOTS,
				   .free = bench->free,
				   .left = bench->left,
				   .joined = bench->joined};
	xdp_bench_ring(bench, 0, &xdp->fill, bench->fill);
	xdp_bench_ring(bench, 1, &xdp->in, bench->in);
	xdp_bench_ring(bench, 2, &xdp->out, bench->out);
	xdp_bench_ring(bench, 3, &xdp->sent, bench->sent);
	for (unsigned i = 0; i < XDP_BENCH_SLOTS; i++)
		bench->free[i] = (uint16_t)i;
	lane->fd = eventfd(0, EFD_NONBLOCK);
	lane->ops = &xdp_rings;
	lane->xdp = xdp;
	if (lane->fd < 0)
		abort();
}

/* The kernel says that bytes have arrived there. */
static inline void xdp_bench_arrive(struct xdp_bench *bench, uint64_t address, uint32_t bytes,
				    bool more)
{
	uint32_t *producer = bench->socket.in.producer;

	bench->in[*producer % XDP_BENCH_RING] =
		(struct xdp_desc){address, bytes, more ? XDP_BENCH_MORE : 0};
	++*producer;
}

/* The kernel gives all chunks back that were to leave. */
static inline void xdp_bench_leave(struct xdp_bench *bench)
{
	struct xdp_ring *out = &bench->socket.out, *sent = &bench->socket.sent;

	for (; *out->consumer != *out->producer; ++*out->consumer, ++*sent->producer)
		bench->sent[*sent->producer % XDP_BENCH_RING] =
			bench->out[*out->consumer % XDP_BENCH_RING].addr;
}

#endif
