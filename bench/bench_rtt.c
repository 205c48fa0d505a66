/*
 * Round trips over udp: a message and its answer through the layers that stand below the messages
 * of roam (reliable over udp), against the same bytes over a bare socket.  Both sides spin.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "msg/reliable.h"
#include "os/os.h"
#include "roam/transport.h"

#define TURNS 16u
#define SMALL 64u
#define PAGE  (4096u + 64u)
#define CARD  ((size_t)4096)

extern const struct roam_transport roami_transport_udp;

static const uint32_t sizes[2][2] = {{SMALL, SMALL}, {SMALL, PAGE}}; /* out and back */

/* What both processes see: where the other is. */
struct rtt_shared {
	_Alignas(64) uint8_t card[2][CARD];
	_Atomic uint32_t port[2];
};

struct rtt_state {
	int fd;
	void *udp;
	void *reliable;
	bool answered;
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
	for (unsigned kind = 0; kind < 2; kind++)
		for (unsigned i = 0; i < run->samples; i++) {
			uint64_t start = floor_begin();

			if (!floor_udp_turns(state->fd, port, run->node, TURNS, sizes[kind][0],
					     sizes[kind][1]))
				rig_fail(run, "cannot send");
			if (run->node == 1)
				rig_note(run, kind, floor_end() - start, TURNS);
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
	state->answered = true;
	return true;
}

static void layers_send(struct rig_run *run, uint32_t bytes)
{
	struct rtt_state *state = run->state;
	struct iovec part = {state->data, bytes};

	while (roami_transport_reliable.send(state->reliable, 1 - run->node, &part, 1) != ROAM_OK)
		floor_pause();
}

static void layers_receive(struct rtt_state *state)
{
	int bad = -1;

	for (state->answered = false; !state->answered;)
		roami_transport_reliable.poll(state->reliable, layers_deliver, state, 16, &bad);
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

static const struct rig_scenario bare = {
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

static const struct rig_scenario *const scenarios[] = {&bare, &layers, NULL};

static const struct plan_row rows[] = {
	{"f_udp_64", 0, 0, .goal = NULL},
	{"f_udp_4k", 0, 1, .goal = NULL},
	{"rtt_64",
	 1,
	 0,
	 {{0, 0, 1}},
	 0,
	 "f_udp_64",
	 PLAN_LIMIT,
	 1.3,
	 0,
	 0,
	 "<= 1.3 x floor",
	 .transport = "udp"},
	{"rtt_4k",
	 1,
	 1,
	 {{0, 1, 1}},
	 0,
	 "f_udp_4k",
	 PLAN_LIMIT,
	 1.4,
	 0,
	 0,
	 "<= 1.4 x floor",
	 .transport = "udp"},
};

void bench_rtt(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	plan_run(bench, &plan, NULL);
}
