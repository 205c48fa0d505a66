/*
 * libFuzzer: the xdp transport's rings against frames of anybody, in one chunk or several, and
 * against what the kernel says of them.  It must not touch memory that is not its own, nor deliver
 * what is longer than a datagram may be, of a node that is none, or chunks in another order.
 *
 * The input is a list of frames: a byte says what is done, then come its fields.
 */
#include <unistd.h>

#include "input.h"
#include "packet_bench.h"
#include "xdp_bench.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct roam_transport roami_transport_packet;

struct bench {
	struct packet_bench node;
	struct xdp_bench socket;
	uint64_t sum; /* of what was delivered: all of it must be readable */
	bool refuses, lies;
};

static uint64_t bench_now(void *arg)
{
	(void)arg;
	return 1;
}

static uint8_t place_byte(size_t at)
{
	return (uint8_t)(at * 7 + at / 256);
}

static bool bench_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct bench *bench = arg;

	if (from >= BENCH_NODES || bytes > PACKET_DATAGRAM || (uintptr_t)data % 8 != 0)
		abort();
	for (size_t at = 0; at < bytes; at++) {
		uint8_t byte = ((const uint8_t *)data)[at];

		bench->sum += byte;
		if (!bench->lies && byte != place_byte(at))
			abort();
	}
	return !bench->refuses;
}

/* A frame of a node of the job; returns its bytes. */
static size_t frame_make(uint8_t *frame, struct input *input, uint8_t what)
{
	struct packet_head head = {.mark = BENCH_MARK, .to = BENCH_ME, .kind = PACKET_WHOLE};
	uint8_t *body = frame + PACKET_ETHERNET + sizeof(head);

	head.from = (what & 8) != 0 ? 0 : 2;
	head.bytes = (uint16_t)(input_byte(input) * 36);
	if ((what & 16) != 0)
		input_take(input, &head, sizeof(head));
	memset(frame, 0, PACKET_ETHERNET);
	frame[PACKET_MAC] = (uint8_t)(head.from + 1);
	memcpy(frame + PACKET_ETHERNET, &head, sizeof(head));
	for (size_t at = 0; at < head.bytes && at < PACKET_DATAGRAM; at++)
		body[at] = place_byte(at);
	return PACKET_ETHERNET + sizeof(head) +
	       (head.bytes < PACKET_DATAGRAM ? head.bytes : PACKET_DATAGRAM);
}

/* It arrives in chunks of some length, in chunks of the memory one after the other. */
static void step_frame(struct bench *bench, struct input *input, uint8_t what)
{
	static uint8_t frame[PACKET_ETHERNET + sizeof(struct packet_head) + PACKET_DATAGRAM];
	size_t bytes = frame_make(frame, input, what), at = 0;
	size_t place = (what & 32) != 0 ? input_byte(input) : XDP_KERNEL + XDP_ALIGN;

	bench->lies |= (what & 16) != 0; /* it may be a piece of a datagram */
	for (unsigned chunk = 0; at < bytes && chunk < XDP_BENCH_IN; chunk++, place = 0) {
		size_t some = bytes - at < XDP_CHUNK - place ? bytes - at : XDP_CHUNK - place;

		memcpy(bench->socket.memory + chunk * XDP_CHUNK + place, frame + at, some);
		at += some;
		xdp_bench_arrive(&bench->socket, chunk * XDP_CHUNK + place, (uint32_t)some,
				 at < bytes);
	}
}

/* A kernel that lies. */
static void step_lie(struct bench *bench, struct input *input)
{
	struct xdp_desc desc = {0};

	input_take(input, &desc, sizeof(desc));
	bench->lies = true;
	xdp_bench_arrive(&bench->socket, desc.addr, desc.len, (desc.options & 1) != 0);
}

static void step_send(struct bench *bench, struct input *input)
{
	static uint8_t message[PACKET_DATAGRAM];
	struct iovec part = {message, input_byte(input) * 36u};

	atomic_store(&bench->node.packet.peers[0].proven, input_byte(input) & 1);
	roami_transport_packet.send(&bench->node.packet, 0, &part, 1);
	if ((input_byte(input) & 1) != 0)
		xdp_bench_leave(&bench->socket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct input input = {data, size};
	int bad = -1;

	if (bench == NULL)
		abort();
	packet_bench_open(&bench->node, PACKET_LINK);
	bench->node.packet.params.now = bench_now;
	xdp_bench_open(&bench->socket, &bench->node.packet.lanes[PACKET_FAST]);
	for (unsigned i = 0; i < 64 && input.left > 0; i++) {
		uint8_t what = input_byte(&input);

		bench->refuses = (what & 64) != 0;
		if (what % 8 == 7)
			step_lie(bench, &input);
		else if (what % 8 == 6)
			step_send(bench, &input);
		else
			step_frame(bench, &input, what);
		for (unsigned poll = 0; poll < 2; poll++, bench->refuses = false)
			roami_transport_packet.poll(&bench->node.packet, bench_deliver, bench, 16,
						    &bad);
		if (bad >= 0)
			abort();
	}
	packet_bench_close(&bench->node);
	free(bench);
	return 0;
}
