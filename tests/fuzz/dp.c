/*
 * libFuzzer: endpoints against peers that send anything.  A peer that breaks the rules is named,
 * and ends the job; whatever else it sends, a message is received as its sender made it, and never
 * a mixture of two, and no more is sent than there is room for.
 *
 * The input is a list of steps: a byte says what is done, then come its fields.
 */
#include <stdlib.h>
#include <string.h>

#include "../lib/no_sleep.h"
#include "dp/dp.h"
#include "fail.h"
#include "input.h"

#define NODES 3u
#define ME    1u
#define PEER  0u /* to which this node sends */
#define PORT  5u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct roami_slab slab;
	uint8_t slab_bytes[ROAMI_SLAB_BYTES];
	uint32_t generation; /* that PEER answers with, */
	uint32_t answered;   /* and that it answered with last */
	uint64_t sent;       /* room taken by what went to PEER's endpoint of this generation */
	uint64_t taken;      /* of that, what it said to have received */
} bench;

/* ----------------------------------------------------------------------- what the room needs */

void roami_node_waits(struct roami_node *node, unsigned kind, uint64_t id, unsigned of)
{
	(void)node, (void)kind, (void)id, (void)of;
}

void roami_node_waits_no_more(struct roami_node *node)
{
	(void)node;
}

struct roami_slab *roami_node_slab(struct roami_node *node)
{
	(void)node;
	bench.slab.bytes = bench.slab_bytes;
	return &bench.slab;
}

unsigned roami_msg_poll(struct roami_node *node)
{
	(void)node;
	return 0;
}

/* PEER says whether it has the endpoint open. */
static void peer_answers(struct roami_node *node)
{
	struct roami_dp_status status = {PORT, bench.generation, 0};
	struct roam_request request = {.from = PEER, .data = &status, .bytes = sizeof(status)};

	bench.sent = bench.taken = 0;
	bench.answered = bench.generation;
	roami_dp_found_handle(node, &request);
}

void roami_msg_send(struct roami_node *node, unsigned to, unsigned type,
		    const struct roam_part *parts, unsigned count)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < count; i++)
		bytes += parts[i].bytes;
	if (to >= node->nodes || type >= ROAMI_DP_TYPES || bytes > ROAMI_MSG_MAX)
		abort();
	if (type == ROAMI_DP_FIND)
		peer_answers(node);
}

static uint64_t env_now(struct roami_node *node)
{
	(void)node;
	return 1;
}

static void env_spin(struct roami_node *node, unsigned turn)
{
	(void)node, (void)turn;
	abort(); /* there is one thread: a lock is not given back */
}

static void env_wait(struct roami_node *node, uint64_t ticket, bool (*condition)(void *arg),
		     void *arg)
{
	(void)node, (void)ticket;
	if (!condition(arg))
		abort(); /* a call with ROAM_DP_TRY waits */
}

static const struct roami_sleep env_sleep = {
	.wait = env_wait,
	.changed = no_sleep_changed,
	.until = no_sleep_until,
	.sent = no_sleep_sent,
	.begin = no_sleep_begin,
	.end = no_sleep_end,
};

static const struct roami_env env = {.now = env_now, .sleep = &env_sleep, .spin = env_spin};

/* ---------------------------------------------------------------------------------------- steps */

static uint8_t place_byte(size_t at)
{
	return (uint8_t)(at * 7 + at / 256);
}

/* A part that a node could send, or, `wild`, anything. */
static void step_part(struct roami_node *node, struct input *input, bool wild)
{
	static uint8_t body[ROAMI_MSG_MAX];
	uint8_t what = input_byte(input);
	struct roami_dp_part part = {.endpoint = PORT,
				     .generation = 1 + (what >> 6),
				     .from = what & 7,
				     .length = input_byte(input) * 1031u,
				     .offset = (what & 8) != 0 ? input_byte(input) * 509u : 0};
	size_t bytes = input_byte(input) * 509u % (sizeof(body) - sizeof(part));
	struct roam_request request = {.from = (uint16_t)((what >> 4) % NODES), .data = body};

	if (wild)
		input_take(input, &part, sizeof(part));
	if ((what & 8) == 0 && !wild && bytes > part.length)
		part.length = (uint32_t)bytes;
	memcpy(body, &part, sizeof(part));
	for (size_t at = 0; at < bytes; at++)
		body[sizeof(part) + at] =
			(uint8_t)(part.length * 3 + part.from * 91u + place_byte(part.offset + at));
	request.bytes = (uint32_t)(wild && (what & 8) != 0 ? what : sizeof(part) + bytes);
	roami_dp_part_handle(node, &request);
}

static void step_told(struct roami_node *node, struct input *input, bool gone)
{
	struct roami_dp_status status;
	struct roam_request request = {.from = PEER, .data = &status, .bytes = sizeof(status)};

	input_take(input, &status, sizeof(status));
	status.endpoint = PORT;
	status.generation %= 3;
	if (status.taken % 2 == 0)
		status.taken = bench.sent;
	if (gone) {
		roami_dp_gone_handle(node, &request);
		return;
	}
	roami_dp_room_handle(node, &request);
	if (status.generation == bench.answered && status.taken > bench.taken &&
	    status.taken <= bench.sent)
		bench.taken = status.taken;
}

/* Nobody has asked. */
static void step_found(struct roami_node *node, struct input *input)
{
	struct roami_dp_status status;
	struct roam_request request = {.from = PEER, .data = &status};

	input_take(input, &status, sizeof(status));
	request.bytes = input_byte(input) % 2 == 0 ? sizeof(status) : 3;
	roami_dp_found_handle(node, &request);
	abort();
}

static void step_receive(struct roam_dp *dp, struct input *input)
{
	static uint8_t bytes[ROAM_DP_MESSAGE_MAX];
	struct roam_dp_message got;
	size_t limit = input_byte(input) * 1100u;
	enum roam_err err = roami_dp_receive(dp, bytes, limit, ROAM_DP_TRY, &got);

	if (err == ROAM_ETIMEDOUT)
		return;
	if (got.node >= NODES || got.bytes > ROAM_DP_MESSAGE_MAX ||
	    (err == ROAM_OK) != (got.bytes <= limit))
		abort();
	for (size_t at = 0; err == ROAM_OK && at < got.bytes; at++)
		if (bytes[at] != (uint8_t)(got.bytes * 3 + got.endpoint * 91u + place_byte(at)))
			abort();
}

static void step_send(struct roam_dp *dp, struct input *input)
{
	static const uint8_t bytes[ROAM_DP_MESSAGE_MAX];
	uint8_t what = input_byte(input);
	size_t count = input_byte(input) * 1021u;

	bench.generation = what % 3; /* of an endpoint of which this node has to ask */
	if (roami_dp_send(dp, PEER, PORT, bytes, count, what > 127, ROAM_DP_TRY) == ROAM_OK)
		bench.sent += roami_dp_room(count);
	if (bench.sent - bench.taken > ROAM_DP_ROOM)
		abort();
}

static struct roam_dp *step(struct roami_node *node, struct roam_dp *dp, struct input *input)
{
	uint32_t number = PORT;
	struct roam_request find = {.from = 2, .data = &number, .bytes = 4};

	switch (input_byte(input) % 16) {
	case 8:
		step_found(node, input);
		break;
	case 0:
		step_told(node, input, false);
		break;
	case 1:
		step_told(node, input, true);
		break;
	case 2:
		find.bytes = input_byte(input) % 6;
		roami_dp_find_handle(node, &find);
		break;
	case 3:
		step_send(dp, input);
		break;
	case 4:
		step_part(node, input, input_byte(input) % 4 == 0);
		break;
	case 5:
		if (input_byte(input) % 8 == 0) {
			roami_dp_close(dp);
			if (roami_dp_open(node, PORT, &dp) != ROAM_OK)
				abort();
		}
		break;
	default:
		step_receive(dp, input);
	}
	return dp;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct roami_node node;
	static struct roami_dp_node state;
	static struct roami_open_room extensions[2];
	struct input input = {data, size};
	struct roam_dp *dp = NULL;

	memset(&state, 0, sizeof(state));
	bench.generation = 0;
	bench.sent = bench.taken = 0;
	extensions[0] = (struct roami_open_room){.state = &state, .room = &roami_dp_extension};
	node = (struct roami_node){
		.me = ME, .nodes = NODES, .env = &env, .extensions = extensions};
	if (roami_dp_extension.init(&node, NULL) != ROAM_OK ||
	    roami_dp_open(&node, PORT, &dp) != ROAM_OK)
		abort();
	if (setjmp(fuzz_failed) == 0)
		while (input.left > 0)
			dp = step(&node, dp, &input);
	dp = state.open[0];
	roami_dp_extension.fini(&node);
	roami_dp_close(dp);
	return 0;
}
