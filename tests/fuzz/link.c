/*
 * libFuzzer: the reliable layer against a peer that closes its datagrams well and writes anything
 * into them.  It must not touch memory that is not its own, not loop, and not deliver what is
 * longer than a message may be.
 *
 * The input is a list of steps: a byte says what, then what that takes.
 */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "link/link.h"
#include "link/reliable.h"
#include "link/seal.h"

#define NODES     3u
#define STEPS_MAX 200u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bench {
	uint64_t now;
	const void *arriving; /* one datagram, or NULL */
	size_t arriving_bytes;
	unsigned arriving_from;
	uint64_t sum; /* of what was delivered: all of it must be readable */
	bool refuses;
	bool wild; /* payloads are the input's; else they tell their place in the message */
	bool full;
	struct roami_sealer sealer; /* without a key */
	struct roami_seal seal;     /* of the peer */
};

/* ------------------------------------------------------------------------ the transport below */

static enum roam_err below_open(void *state, const struct roam_transport_params *params)
{
	(void)state;
	(void)params;
	return ROAM_OK;
}

static void below_close(void *state)
{
	(void)state;
}

static enum roam_err below_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct bench *bench = state;

	(void)to;
	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < parts[i].iov_len; at++)
			bench->sum += ((const uint8_t *)parts[i].iov_base)[at];
	return bench->full ? ROAM_EAGAIN : ROAM_OK;
}

static unsigned below_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			   int *bad_peer)
{
	struct bench *bench = state;

	(void)max;
	(void)bad_peer;
	if (bench->arriving == NULL)
		return 0;
	deliver(arg, bench->arriving_from, bench->arriving, bench->arriving_bytes);
	bench->arriving = NULL;
	return 1;
}

static bool below_pending(const void *state)
{
	return ((const struct bench *)state)->arriving != NULL;
}

static const struct roam_transport below = {
	.name = "below",
	.message_max = 1472,
	.open = below_open,
	.close = below_close,
	.send = below_send,
	.poll = below_poll,
	.pending = below_pending,
};

/* ---------------------------------------------------------------------------------------- steps */

static uint64_t bench_now(void *arg)
{
	return ((struct bench *)arg)->now;
}

static uint8_t place_byte(size_t at)
{
	return (uint8_t)(at * 7 + at / 256);
}

static bool bench_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct bench *bench = arg;

	if (from >= NODES || bytes > ROAMI_LINK_MESSAGE)
		abort();
	for (size_t at = 0; at < bytes; at++)
		bench->sum += ((const uint8_t *)data)[at];
	/* Fragments of two messages are never put together. */
	for (size_t at = 0; at < bytes && from == 1 && !bench->wild; at++)
		if (((const uint8_t *)data)[at] != place_byte(at))
			abort();
	return !bench->refuses;
}

/* false: the peer was found out. */
static bool bench_poll(struct bench *bench, struct roami_reliable *reliable)
{
	int bad = -1;

	roami_transport_reliable.poll(reliable, bench_deliver, bench, 16, &bad);
	return bad < 0;
}

/* Fields that fit what has arrived, so that many fragments make a message. */
static void packet_follow(struct roami_packet *packet, const struct roami_link *link,
			  struct input *input)
{
	packet->seq = link->expect;
	packet->ack = link->first;
	packet->offset = link->have;
	packet->length = link->length != 0 ? link->length : input_byte(input) * 1024u;
	packet->flags = ROAMI_PACKET_DATA;
}

/* Small numbers, which meet each other. */
static void packet_small(struct roami_packet *packet, struct input *input)
{
	packet->seq = input_byte(input);
	packet->ack = input_byte(input);
	packet->offset = input_byte(input) * 8u;
	packet->length = input_byte(input) * 16u;
	packet->flags = input_byte(input) & 15;
}

static bool step_datagram(struct bench *bench, struct roami_reliable *reliable, struct input *input)
{
	size_t bytes = (size_t)input_byte(input) * 37, size = bytes;
	uint8_t what = input_byte(input);
	struct roami_packet *packet;
	bool good;

	if (size < sizeof(*packet))
		size = sizeof(*packet);
	packet = calloc(1, size); /* of its own, so that a read behind the end is seen */
	if (packet == NULL)
		abort();
	input_take(input, packet, (what & 1) != 0 ? 0 : sizeof(*packet));
	if ((what & 1) != 0)
		packet_small(packet, input);
	if ((what & 2) != 0)
		packet_follow(packet, &reliable->links[1], input);
	for (size_t at = 0; at < size - sizeof(*packet); at++)
		((uint8_t *)(packet + 1))[at] = place_byte(at + packet->offset);
	if (bench->wild)
		input_take(input, packet + 1, size - sizeof(*packet));
	if ((what & 12) != 12)
		roami_seal_close(&bench->seal, packet, size, NULL);
	bench->arriving = packet;
	bench->arriving_bytes = bytes < sizeof(*packet) && (what & 16) != 0 ? bytes : size;
	bench->arriving_from = 1;
	good = bench_poll(bench, reliable);
	free(packet);
	return good;
}

static void step_send(struct roami_reliable *reliable, struct input *input)
{
	static uint8_t message[ROAMI_LINK_MESSAGE];
	struct iovec part = {message, 1 + (size_t)input_byte(input) * 256};

	roami_transport_reliable.send(reliable, input_byte(input) % NODES, &part, 1);
}

static bool step(struct bench *bench, struct roami_reliable *reliable, struct input *input)
{
	switch (input_byte(input) % 6) {
	case 0:
	case 1:
		return step_datagram(bench, reliable, input);
	case 2:
		step_send(reliable, input);
		return true;
	case 3:
		bench->now += (uint64_t)input_byte(input) << (input_byte(input) % 24);
		return bench_poll(bench, reliable);
	case 4:
		bench->refuses = input_byte(input) % 2 == 0;
		return bench_poll(bench, reliable);
	default:
		bench->full = input_byte(input) % 2 == 0;
		return true;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bench bench = {.now = 1000000};
	struct input input = {data, size};
	struct roam_transport_params params = {.nodes = NODES,
					       .now = bench_now,
					       .now_arg = &bench,
					       .lower = &below,
					       .lower_state = &bench};
	struct roami_reliable *reliable = calloc(1, sizeof(*reliable));
	uint8_t *message;

	if (reliable == NULL || roami_transport_reliable.open(reliable, &params) != ROAM_OK)
		abort();
	if (roami_sealer_init(&bench.sealer, NULL) != ROAM_OK)
		abort();
	roami_seal_init(&bench.seal, &bench.sealer, 1, 0);
	bench.wild = input_byte(&input) % 4 == 0;
	message = reliable->links[1].message;
	reliable->links[1].message = malloc(ROAMI_LINK_MESSAGE);
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		if (!step(&bench, reliable, &input))
			break;
	for (unsigned peer = 0; peer < NODES; peer++) {
		const struct roami_link *link = &reliable->links[peer];

		if (link->end - link->first > ROAMI_WINDOW || link->flight > ROAMI_WINDOW ||
		    link->early_count > ROAMI_WINDOW || link->have > link->length)
			abort();
	}
	free(reliable->links[1].message);
	reliable->links[1].message = message;
	roami_transport_reliable.close(reliable);
	free(reliable);
	return 0;
}
