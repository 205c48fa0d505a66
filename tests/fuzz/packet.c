/*
 * libFuzzer: the packet transport's rings against frames of anybody, and against what the kernel
 * says of them.  It must not touch memory that is not its own, nor deliver what is longer than a
 * datagram may be, of a node that is none, or a mixture of two datagrams.
 *
 * The input is a list of frames: a byte says what is done, then come its fields.
 */
#include <linux/if_packet.h>
#include <string.h>

#include "input.h"
#include "packet_bench.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const struct roam_transport roami_transport_packet;

struct bench {
	struct packet_bench node;
	uint64_t sum; /* of what was delivered: all of it must be readable */
	bool refuses;
};

static uint64_t bench_now(void *arg)
{
	(void)arg;
	return 1;
}

/*
 * Each byte of a payload tells its place in the datagram, and which datagram that is: pieces of two
 * are never put together.
 */
static uint8_t place_byte(size_t at)
{
	return (uint8_t)(at * 7 + at / 256);
}

static uint8_t datagram_byte(const struct packet_head *head)
{
	return (uint8_t)(head->number * 53 + head->from * 101u + head->length * 11u);
}

static bool bench_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct bench *bench = arg;

	if (from >= BENCH_NODES || bytes > PACKET_DATAGRAM)
		abort();
	for (size_t at = 0; at < bytes; at++) {
		uint8_t byte = ((const uint8_t *)data)[at];

		bench->sum += byte;
		if ((uint8_t)(byte - place_byte(at)) != ((const uint8_t *)data)[0])
			abort();
	}
	return !bench->refuses;
}

/* What a node of the job could say. */
static void head_fit(struct packet_head *head, struct input *input)
{
	uint8_t what = input_byte(input);

	head->mark = BENCH_MARK;
	head->to = BENCH_ME;
	head->from = (what & 1) != 0 ? 0 : 2;
	head->kind = 1 + (what >> 1) % 4;
	head->number = (what >> 4) % 4;
	head->length = (uint16_t)(input_byte(input) * 37);
	head->offset = (what & 128) != 0 ? (uint16_t)(input_byte(input) * 37) : 0;
	head->bytes = (uint16_t)(input_byte(input) * 37);
}

static void step_frame(struct bench *bench, struct input *input)
{
	struct packet_lane *lane = &bench->node.packet.lanes[PACKET_NEAR];
	uint8_t *at = lane->in.base + BENCH_SLOT * lane->in.at, what = input_byte(input);
	struct tpacket2_hdr *slot = (void *)at;
	struct packet_head head;

	memset(at, 0, BENCH_SLOT);
	*slot = (struct tpacket2_hdr){.tp_mac = 66, .tp_net = 80};
	if ((what & 1) != 0) { /* a kernel that lies: it fills in what it likes */
		slot->tp_mac = (uint16_t)(66 + input_byte(input) * 40);
		slot->tp_net = (uint16_t)(slot->tp_mac + PACKET_ETHERNET);
	}
	input_take(input, &head, (what & 2) != 0 ? sizeof(head) : 0);
	if ((what & 4) != 0)
		head_fit(&head, input);
	slot->tp_snaplen = (uint32_t)(PACKET_ETHERNET + sizeof(head) + head.bytes);
	if ((what & 8) != 0)
		slot->tp_snaplen = input_byte(input) * 40u;
	slot->tp_len = slot->tp_snaplen + ((what & 24) == 24);
	if (slot->tp_net + sizeof(head) <= BENCH_SLOT)
		memcpy(at + slot->tp_net, &head, sizeof(head));
	for (size_t i = slot->tp_net + sizeof(head); i < BENCH_SLOT; i++)
		at[i] = (uint8_t)(datagram_byte(&head) +
				  place_byte(i - slot->tp_net - sizeof(head) +
					     (head.kind == PACKET_PIECE ? head.offset : 0)));
	slot->tp_status = TP_STATUS_USER;
}

static void bench_poll(struct bench *bench)
{
	int bad = -1;

	roami_transport_packet.poll(&bench->node.packet, bench_deliver, bench, 16, &bad);
	roami_transport_packet.pending(&bench->node.packet);
	if (bad >= 0)
		abort();
}

static void step_send(struct bench *bench, struct input *input)
{
	static uint8_t message[PACKET_DATAGRAM];
	struct iovec parts[2] = {{message, input_byte(input)}, {message, input_byte(input) * 35u}};

	atomic_store(&bench->node.packet.peers[0].proven, input_byte(input) & 1);
	roami_transport_packet.send(&bench->node.packet, 0, parts, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct input input = {data, size};

	if (bench == NULL)
		abort();
	packet_bench_open(&bench->node, PACKET_NEAR);
	bench->node.packet.params.now = bench_now;
	for (unsigned i = 0; i < 64 && input.left > 0; i++) {
		uint8_t what = input_byte(&input);

		bench->refuses = what % 8 == 7;
		if (what % 4 == 3)
			step_send(bench, &input);
		else
			step_frame(bench, &input);
		bench_poll(bench);
	}
	packet_bench_close(&bench->node);
	free(bench);
	return 0;
}
