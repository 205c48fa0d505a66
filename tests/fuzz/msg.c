/*
 * libFuzzer: the decoder of messages, src/msg/msg.c, against a peer that writes anything: it fails
 * with a line that names the peer, or hands a handler no more than it declared to take.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/layers.h"
#include "base/thread.h"
#include "msg/msg.h"
#include "msg/msg_state.h"
#include "../lib/no_sleep.h"
#include "fail.h"

#define TYPES 6u

extern const struct roami_room roami_room_msg;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bench {
	const uint8_t *message;
	size_t bytes;
	uint64_t now;
	uint64_t sum;
	uint32_t call; /* the one under way */
};

static struct bench bench;

/* ----------------------------------------------------------------------- what the decoder needs */

uint8_t *roami_thread_buffer(struct roami_node *node, unsigned room, size_t bytes)
{
	(void)node;
	(void)room;
	(void)bytes;
	abort(); /* no message is worked on in a protocol's scratch here */
}

static uint64_t env_now(struct roami_node *node)
{
	(void)node;
	return bench.now;
}

static void env_wait(struct roami_node *node, uint64_t ticket, bool (*condition)(void *arg),
		     void *arg)
{
	(void)node;
	(void)ticket;
	if (!condition(arg))
		longjmp(fuzz_failed, 1);
}

static void env_spin(struct roami_node *node, unsigned turn)
{
	(void)node;
	(void)turn;
}

static const struct roami_sleep env_sleep = {
	.wait = env_wait,
	.changed = no_sleep_changed,
	.until = no_sleep_until,
	.sent = no_sleep_sent,
	.begin = no_sleep_begin,
	.end = no_sleep_end,
};

static unsigned env_thread(struct roami_node *node)
{
	(void)node;
	return 0;
}

/* What base/region.c says of a protocol that cannot run: there is none here. */
const char *roam_strerror(enum roam_err err)
{
	(void)err;
	abort();
}

/* All protocols of its jobs can be in one. */
bool roami_protocol_beside(const struct roam_protocol *own, const struct roam_protocol *region)
{
	(void)own;
	(void)region;
	return true;
}

static unsigned *env_region(struct roami_node *node)
{
	static unsigned region;

	(void)node;
	return &region;
}

static const struct roami_env env = {.now = env_now,
				     .sleep = &env_sleep,
				     .spin = env_spin,
				     .thread = env_thread,
				     .region = env_region};

static enum roam_err wire_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	const struct roami_node *node = state;

	if (to >= node->nodes)
		abort();
	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < parts[i].iov_len; at++)
			bench.sum += ((const uint8_t *)parts[i].iov_base)[at];
	return bench.sum % 5 == 0 ? ROAM_EAGAIN : ROAM_OK;
}

static unsigned wire_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			  int *bad_peer)
{
	const uint8_t *message = bench.message;

	(void)state;
	(void)max;
	(void)bad_peer;
	if (message == NULL)
		return 0;
	bench.message = NULL;
	deliver(arg, 1, message, bench.bytes);
	return 1;
}

static bool wire_pending(const void *state)
{
	(void)state;
	return bench.message != NULL;
}

static const struct roam_transport wire = {
	.name = "wire", .send = wire_send, .poll = wire_poll, .pending = wire_pending};

/* ------------------------------------------------------------------------------------ handlers */

static void handle(struct roami_node *node, const struct roam_request *request)
{
	struct roam_part part = {request->data, request->bytes};

	if (request->origin >= node->nodes || request->from >= node->nodes ||
	    request->bytes > roami_msg_named(node, request->type)->bytes_max)
		abort();
	for (size_t at = 0; at < request->bytes; at++)
		bench.sum += ((const uint8_t *)request->data)[at];
	if (request->bytes % 4 == 0 && request->call != 0)
		roami_reply(node, request, &part, 1);
	else if (request->bytes % 4 == 1)
		roami_forward(node, request, 2, 1);
	else if (request->bytes % 4 == 2 && bench.now < 100000)
		roami_delay(node, request, 1000);
}

static const struct roam_message messages[] = {
	{"none", handle, 0},
	{"word", handle, 8},
	{"page", handle, 4096},
	{"odd", handle, 77},
	{"any", handle, ROAMI_MSG_MAX},
	{"small", handle, 1},
	{NULL, NULL, 0},
};

static void bench_messages(struct roami_node *node, const uint8_t *data, size_t size)
{
	while (size > 2) {
		size_t bytes = data[0] | (size_t)(data[1] & 0x0f) << 8;
		uint8_t *copy;

		data += 2;
		size -= 2;
		if (bytes > size)
			bytes = size;
		copy = malloc(bytes + 1);
		if (copy == NULL)
			abort();
		memcpy(copy, data, bytes);
		/* The call that is under way has a number that is not guessed. */
		if (bytes >= 16 && (copy[15] & 0x80) != 0)
			memcpy(copy + 4, &bench.call, sizeof(bench.call));
		bench.message = copy;
		bench.bytes = bytes;
		bench.now += 700;
		if (setjmp(fuzz_failed) == 0) {
			roami_msg_poll(node);
		} else {
			atomic_store(&msg_of(node)->poll_lock.held, 0);
			memset(msg_of(node)->out_lock, 0, sizeof(msg_of(node)->out_lock));
		}
		free(copy);
		data += bytes;
		size -= bytes;
	}
}

static uint8_t *answer_buffer(struct roami_node *node, unsigned asker, uint32_t page,
			      uint8_t *spare)
{
	(void)node, (void)asker, (void)page;
	return spare;
}

/* Pages travel. */
static const struct roami_answers answers = {ROAMI_ANSWER_PAGE, ROAMI_ANSWER_PAGE, answer_buffer};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct roami_stats stats;
	static uint8_t reply[64];
	static struct roami_region region;
	static struct roami_layers layers;
	struct roami_node *node = calloc(1, sizeof(*node));
	void *state = calloc(1, roami_room_msg.state_size);
	struct roami_call *call;

	if (node == NULL || state == NULL)
		abort();
	node->rooms[ROAMI_ROOM_MSG].state = state;
	node->rooms[ROAMI_ROOM_LAYERS].state = &layers;
	memset(&bench, 0, sizeof(bench));
	node->nodes = 3;
	for (unsigned peer = 0; peer < node->nodes; peer++)
		msg_of(node)->answers[peer] = &answers;
	node->regions = &region;
	node->env = &env;
	node->stats = &stats;
	layers_of(node)->transport = &wire;
	layers_of(node)->transport_state = node;
	if (roami_room_msg.init(node, NULL) != ROAM_OK ||
	    roami_msg_register(node, messages, 0, &region.types) != ROAM_OK)
		abort();
	if (setjmp(fuzz_failed) == 0) {
		call = roami_msg_call_start(node, 1, region.types, NULL, 0, reply, sizeof(reply));
		bench.call = call->id;
	}
	bench_messages(node, data, size);
	roami_room_msg.fini(node);
	free(state);
	free(node);
	return 0;
}
