/*
 * libFuzzer: sealed datagrams against a stranger that hears all and sends what it likes.  A
 * datagram is taken only if it is, bit for bit, what the peer closed, and for the first time; what
 * is taken says what the peer wrote.  None is read beyond its end.
 *
 * The first byte says which cipher and whether it encrypts; then steps, a byte each and what that
 * takes.  Every input has keys of its own, or the fuzzer would learn from one what the peer closes
 * in another.
 */
#include <stdlib.h>
#include <string.h>

#include "link/seal.h"

#define CLOSED_MAX 2100u /* twice the window, and more */
#define BYTES_MAX  (sizeof(struct roami_packet) + 80)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct closed {
	size_t bytes;
	bool taken;
	uint8_t seq;
	uint8_t data[BYTES_MAX];
};

struct bench {
	struct roami_sealer sealer;
	struct roami_seal peer, own;
	unsigned count;
	struct closed closed[CLOSED_MAX];
};

struct input {
	const uint8_t *at;
	size_t left;
};

static uint8_t input_byte(struct input *input)
{
	if (input->left == 0)
		return 0;
	input->left--;
	return *input->at++;
}

static uint8_t payload_byte(const struct closed *closed, size_t at)
{
	return (uint8_t)(closed->seq * 31 + at);
}

static void step_close(struct bench *bench, struct input *input)
{
	struct closed *closed = &bench->closed[bench->count];
	_Alignas(8) uint8_t plain[BYTES_MAX], room[BYTES_MAX];
	struct roami_packet *packet = (void *)plain;

	if (bench->count == CLOSED_MAX)
		return;
	closed->bytes = sizeof(*packet) + input_byte(input) % (BYTES_MAX - sizeof(*packet) + 1);
	closed->seq = input_byte(input);
	memset(packet, 0, sizeof(*packet));
	packet->seq = closed->seq;
	for (size_t at = 0; at < closed->bytes - sizeof(*packet); at++)
		plain[sizeof(*packet) + at] = payload_byte(closed, at);
	memcpy(closed->data, roami_seal_close(&bench->peer, packet, closed->bytes, room),
	       closed->bytes);
	bench->count++;
}

/* The datagram is what the peer closed; NULL: none of them. */
static struct closed *bench_find(struct bench *bench, const uint8_t *data, size_t bytes)
{
	for (unsigned i = 0; i < bench->count; i++)
		if (bench->closed[i].bytes == bytes &&
		    memcmp(bench->closed[i].data, data, bytes) == 0)
			return &bench->closed[i];
	return NULL;
}

/* `data` is a block of its own. */
static void bench_open(struct bench *bench, const uint8_t *data, size_t bytes)
{
	const struct roami_packet *packet = (const void *)data;
	struct closed *closed = bench_find(bench, data, bytes);
	uint8_t *room = malloc(bytes);

	if (room == NULL)
		abort();
	if (roami_seal_open(&bench->own, &packet, bytes, room) == ROAMI_SEAL_GOOD) {
		if (closed == NULL || closed->taken || packet->seq != closed->seq)
			abort();
		for (size_t at = 0; at < bytes - sizeof(*packet); at++)
			if (((const uint8_t *)(packet + 1))[at] != payload_byte(closed, at))
				abort();
		closed->taken = true;
	} else if (closed != NULL && !closed->taken &&
		   bench->count - (size_t)(closed - bench->closed) <= ROAMI_SEAL_WINDOW) {
		abort(); /* nothing newer can have pushed it out of the window */
	}
	free(room);
}

/* One of the last 256, as it was, or with some bytes changed, cut, or longer. */
static void step_open(struct bench *bench, struct input *input, bool change)
{
	uint8_t back = input_byte(input);
	const struct closed *closed;
	size_t bytes;
	uint8_t *data;

	if (bench->count == 0)
		return;
	closed = &bench->closed[bench->count - 1 - back % bench->count];
	bytes = closed->bytes;
	if (change && input_byte(input) % 2 == 0)
		bytes = sizeof(struct roami_packet) +
			input_byte(input) % (BYTES_MAX - sizeof(struct roami_packet) + 1);
	data = calloc(1, bytes);
	if (data == NULL)
		abort();
	memcpy(data, closed->data, bytes < closed->bytes ? bytes : closed->bytes);
	for (unsigned i = change ? input_byte(input) % 4 : 0; i > 0; i--)
		data[input_byte(input) % bytes] ^= input_byte(input);
	bench_open(bench, data, bytes);
	free(data);
}

static void step_wild(struct bench *bench, struct input *input)
{
	size_t bytes = sizeof(struct roami_packet) + input_byte(input);
	uint8_t *data = malloc(bytes);

	if (data == NULL)
		abort();
	for (size_t at = 0; at < bytes; at++)
		data[at] = input_byte(input);
	bench_open(bench, data, bytes);
	free(data);
}

static void step(struct bench *bench, struct input *input)
{
	switch (input_byte(input) % 6) {
	case 0:
		step_close(bench, input);
		break;
	case 1:
		for (unsigned i = input_byte(input) * 4; i > 0; i--)
			step_close(bench, input);
		break;
	case 2:
	case 3:
		step_open(bench, input, false);
		break;
	case 4:
		step_open(bench, input, true);
		break;
	default:
		step_wild(bench, input);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t key[ROAMI_KEY_BYTES];
	struct bench *bench = calloc(1, sizeof(*bench));
	struct input input = {data, size};
	uint8_t mode = input_byte(&input);
	struct roami_seal_params params = {
		.key = key, .encrypt = mode % 2 == 1, .no_aes = mode / 2 % 2 == 1};

	crypto_generichash(key, sizeof(key), data, size, NULL, 0);
	if (bench == NULL || roami_sealer_init(&bench->sealer, &params) != ROAM_OK)
		abort();
	roami_seal_init(&bench->peer, &bench->sealer, 1, 0);
	roami_seal_init(&bench->own, &bench->sealer, 0, 1);
	while (input.left > 0)
		step(bench, &input);
	free(bench);
	return 0;
}
