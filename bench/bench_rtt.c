/*
 * Transfers over udp, compared with the same bytes over a bare socket; both sides spin.  rtt_*: a
 * message and its answer through the layers below roam's messages; call_64, page_4k: a call to a
 * node, and the fetch of a page without its fault; *_seal, *_encrypt: sealed; stream: pages one
 * after the other.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/node.h"
#include "bench.h"
#include "home/remote.h"
#include "link/reliable.h"
#include "msg/msg.h"
#include "os/os.h"
#include "roam/transport.h"

#define TURNS 16u
#define SMALL 64u
#define PAGE  (4096u + 64u)
#define DIFFS 2560u /* 64 diffs, each of one word */
#define CARD  ((size_t)4096)
#define PAGES 512u /* of a stream */
#define BODY  (SMALL - 16u) /* the header of a message takes 16 of them */

extern const struct roam_transport roami_transport_udp;

/* Out and back. */
static const uint32_t sizes[3][2] = {{SMALL, SMALL}, {SMALL, PAGE}, {DIFFS, SMALL}};

/* Shared by both processes: the other's address. */
struct rtt_shared {
	_Alignas(64) uint8_t card[2][CARD];
	_Atomic uint32_t port[2];
};

struct rtt_state {
	int fd;
	void *udp;
	void *reliable;
	uint64_t arrived, taken; /* messages */
	uint8_t data[PAGE];
};

static void rtt_prepare(struct rig_run *run)
{
	run->memory = mmap(NULL, sizeof(struct rtt_shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run->memory == MAP_FAILED)
		rig_fail(run, "no memory");
}

static struct rtt_state *rtt_state(struct rig_run *run)
{
	struct rtt_state *state = calloc(1, sizeof(*state));

	if (state == NULL)
		rig_fail(run, "no memory");
	run->state = state;
	return state;
}

/* ---------------------------------------------------------------------------------------- floor */

static void bare_begin(struct rig_run *run)
{
	struct rtt_shared *shared = (void *)run->memory;
	struct rtt_state *state = rtt_state(run);
	uint32_t port;

	state->fd = floor_udp_open(&port);
	if (state->fd < 0)
		rig_fail(run, "no socket");
	atomic_store(&shared->port[run->node], port);
}

static void bare_round(struct rig_run *run)
{
	struct rtt_shared *shared = (void *)run->memory;
	struct rtt_state *state = run->state;
	uint32_t port;

	while ((port = atomic_load(&shared->port[1 - run->node])) == 0)
		floor_pause();
	for (unsigned kind = 0; kind < 3; kind++)
		for (unsigned i = 0; i < run->samples; i++) {
			uint64_t start = floor_begin();

			if (!floor_udp_turns(state->fd, port, run->node, TURNS, sizes[kind][0],
					     sizes[kind][1]))
				rig_fail(run, "cannot send");
			if (run->node == 1)
				rig_note(run, kind, floor_end() - start, TURNS);
		}
	for (unsigned i = 0; i < (run->samples + 31) / 32; i++) {
		uint64_t start = floor_begin();

		if (!floor_udp_stream(state->fd, port, run->node, PAGES))
			rig_fail(run, "a page was lost");
		if (run->node == 1)
			rig_note(run, BENCH_UDP_STREAM, floor_end() - start, PAGES);
	}
}

/* --------------------------------------------------------------------------------------- layers */

static uint64_t rtt_now(void *arg)
{
	(void)arg;
	return roami_os_now_ns();
}

static void layers_begin(struct rig_run *run)
{
	struct rtt_shared *shared = (void *)run->memory;
	struct rtt_state *state = rtt_state(run);
	struct roam_transport_memory memory[2] = {{shared->card[0], CARD}, {shared->card[1], CARD}};
	struct roam_transport_memory *kept = calloc(2, sizeof(*kept));
	struct roam_transport_params params = {
		.node = run->node, .nodes = 2, .memory = kept, .now = rtt_now};

	state->udp = calloc(1, roami_transport_udp.state_size);
	state->reliable = calloc(1, roami_transport_reliable.state_size);
	if (kept == NULL || state->udp == NULL || state->reliable == NULL)
		rig_fail(run, "no memory");
	memcpy(kept, memory, sizeof(memory));
	if (roami_transport_udp.open(state->udp, &params) != ROAM_OK)
		rig_fail(run, "udp does not open");
	params.lower = &roami_transport_udp;
	params.lower_state = state->udp;
	if (roami_transport_reliable.open(state->reliable, &params) != ROAM_OK)
		rig_fail(run, "the reliable layer does not open");
}

static bool layers_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	struct rtt_state *state = arg;

	(void)from;
	memcpy(state->data, data, bytes < sizeof(state->data) ? bytes : sizeof(state->data));
	state->arrived++;
	return true;
}

static void layers_poll(struct rtt_state *state)
{
	int bad = -1;

	roami_transport_reliable.poll(state->reliable, layers_deliver, state, 16, &bad);
}

static void layers_send(struct rig_run *run, uint32_t bytes)
{
	struct rtt_state *state = run->state;
	struct iovec part = {state->data, bytes};

	while (roami_transport_reliable.send(state->reliable, 1 - run->node, &part, 1) != ROAM_OK)
		layers_poll(state);
}

static void layers_receive(struct rtt_state *state)
{
	while (state->arrived == state->taken)
		layers_poll(state);
	state->taken++;
}

static void layers_round(struct rig_run *run)
{
	struct rtt_state *state = run->state;

	for (unsigned kind = 0; kind < 2; kind++)
		for (unsigned i = 0; i < run->samples; i++) {
			uint64_t start = floor_begin();

			for (unsigned turn = 0; turn < TURNS; turn++) {
				if (run->node == 1)
					layers_send(run, sizes[kind][0]);
				layers_receive(state);
				if (run->node == 0)
					layers_send(run, sizes[kind][1]);
			}
			if (run->node == 1)
				rig_note(run, kind, floor_end() - start, TURNS);
		}
}

/*
 * Sends pages from node 0 to node 1, which asks for them, until the last has arrived; after that
 * node 0 need not resend any page.
 */
static void stream_round(struct rig_run *run)
{
	struct rtt_state *state = run->state;

	for (unsigned i = 0; i < (run->samples + 31) / 32; i++) {
		uint64_t start = floor_begin();

		if (run->node == 1) {
			layers_send(run, SMALL);
			for (unsigned page = 0; page < PAGES; page++)
				layers_receive(state);
			rig_note(run, 0, floor_end() - start, PAGES);
			layers_send(run, SMALL);
		} else {
			layers_receive(state);
			for (unsigned page = 0; page < PAGES; page++)
				layers_send(run, PAGE);
			layers_receive(state);
		}
	}
}

/* ---------------------------------------------------------------------------------------- calls */

static void call_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roam_part part = {request->data, request->bytes};

	roami_reply(node, request, &part, 1);
}

static const struct roam_message call_messages[] = {{"bench", call_handle, BODY}, {NULL, NULL, 0}};
static const char call_name[] = "bench";

const struct roami_room bench_calls = {.name = call_name, .messages = call_messages};

static void call_begin(struct rig_run *run)
{
	if (run->node == 0)
		memset(run->memory, 1, run->memory_bytes);
	roam_barrier_all();
}

/* Channel 0: calls; 1: fetches of pages whose home is node 0, which waits at a barrier. */
static void call_round(struct rig_run *run)
{
	struct roami_node *node = bench_node();
	unsigned type = roami_extension(node, call_name)->types;
	uint32_t first = (uint32_t)((run->memory - node->app) / (ptrdiff_t)FLOOR_PAGE);
	uint8_t body[BODY] = {0};
	struct roam_part part = {body, sizeof(body)};
	uint64_t start, version;

	roam_barrier_all();
	for (unsigned i = 0; run->node == 1 && i < run->samples; i++) {
		start = floor_begin();
		for (unsigned turn = 0; turn < TURNS; turn++)
			if (roami_msg_call(node, 0, type, &part, 1, body, sizeof(body)) != BODY)
				rig_fail(run, "a call is not answered");
		rig_note(run, 0, floor_end() - start, TURNS);
	}
	for (unsigned i = 0; run->node == 1 && i < run->samples; i++) {
		start = floor_begin();
		for (unsigned turn = 0; turn < TURNS; turn++)
			if (roami_fetch(node, 0, first + turn, &version) != ROAM_FETCH_OK)
				rig_fail(run, "no page");
		rig_note(run, 1, floor_end() - start, TURNS);
	}
	roam_barrier_all();
}

const struct rig_scenario bench_udp_floor = {
	.name = "floors",
	.nodes = 2,
	.prepare = rtt_prepare,
	.begin = bare_begin,
	.round = bare_round,
};

static const struct rig_scenario layers = {
	.name = "rtt",
	.nodes = 2,
	.prepare = rtt_prepare,
	.begin = layers_begin,
	.round = layers_round,
};

static const struct rig_scenario stream = {
	.name = "stream",
	.nodes = 2,
	.prepare = rtt_prepare,
	.begin = layers_begin,
	.round = stream_round,
};

#define CALL(identifier, title, options)                \
	static const struct rig_scenario identifier = { \
		.name = title,                          \
		.nodes = 2,                             \
		.roam = true,                           \
		.env = "ROAM_TRANSPORT=udp " options,   \
		.bytes = (size_t)TURNS * FLOOR_PAGE,    \
		.prepare = scenario_prepare,            \
		.begin = call_begin,                    \
		.round = call_round,                    \
	}

CALL(call, "call_64 page_4k", "ROAM_SEAL=off");
CALL(call_seal, "call_64_seal page_4k_seal", "ROAM_SEAL=auth");
CALL(call_hidden, "call_64_encrypt page_4k_encrypt", "ROAM_SEAL=encrypt");

enum { AT_FLOOR, AT_LAYERS, AT_CALL, AT_SEAL, AT_HIDDEN };

static const struct rig_scenario *const scenarios[] = {
	[AT_FLOOR] = &bench_udp_floor, [AT_LAYERS] = &layers,      [AT_CALL] = &call,
	[AT_SEAL] = &call_seal,        [AT_HIDDEN] = &call_hidden, NULL,
};
static const struct rig_scenario *const stream_scenarios[] = {&bench_udp_floor, &stream, NULL};

#define ROW(title, rig, channel, term_rig, term_channel, under, most, text)                        \
	{                                                                                          \
		title, rig, channel, {{term_rig, term_channel, 1}}, 0, under, PLAN_LIMIT, most, 0, \
			0, text, .transport = "udp"                                                \
	}

static const struct plan_row rows[] = {
	{"f_udp_64", AT_FLOOR, BENCH_UDP_64, .goal = NULL},
	{"f_udp_4k", AT_FLOOR, BENCH_UDP_4K, .goal = NULL},
	ROW("rtt_64", AT_LAYERS, 0, AT_FLOOR, BENCH_UDP_64, "f_udp_64", 1.3, "<= 1.3 x floor"),
	ROW("rtt_4k", AT_LAYERS, 1, AT_FLOOR, BENCH_UDP_4K, "f_udp_4k", 1.4, "<= 1.4 x floor"),
	ROW("call_64", AT_CALL, 0, AT_FLOOR, BENCH_UDP_64, "f_udp_64", 1.3, "<= 1.3 x floor"),
	ROW("page_4k", AT_CALL, 1, AT_FLOOR, BENCH_UDP_4K, "f_udp_4k", 1.4, "<= 1.4 x floor"),
	ROW("call_64_seal", AT_SEAL, 0, AT_CALL, 0, "call_64", 1.15, "<= 1.15 x call_64"),
	ROW("page_4k_seal", AT_SEAL, 1, AT_CALL, 1, "page_4k", 1.15, "<= 1.15 x page_4k"),
	{"call_64_encrypt", AT_HIDDEN, 0, {{AT_CALL, 0, 1}}, 0, "call_64", .transport = "udp"},
	{"page_4k_encrypt", AT_HIDDEN, 1, {{AT_CALL, 1, 1}}, 0, "page_4k", .transport = "udp"},
};

static const struct plan_row stream_rows[] = {
	{"f_udp_stream", 0, BENCH_UDP_STREAM, .goal = NULL},
	ROW("stream", 1, 0, 0, BENCH_UDP_STREAM, "f_udp_stream", 1.25,
	    "a page in <= 1.25 x floor: >= 80 % of its pages"),
};

void bench_rtt(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	plan_run(bench, &plan, NULL);
}

void bench_stream(struct bench *bench)
{
	const struct plan plan = {stream_scenarios, stream_rows,
				  sizeof(stream_rows) / sizeof(stream_rows[0])};

	plan_run(bench, &plan, NULL);
}
