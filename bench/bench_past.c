/*
 * roam bench past: the operations of PastSet.  move_*, observe_*: one operation on an element at
 * this node, or at another node, which waits: the papers' mvlat and oblat, with tuples of 1 byte, 1
 * KiB and 31 KiB. *_p99: the slowest of a hundred.  pingpong_*: an exchange of tuples by mob
 * between two threads of the elements' node (ll), a thread of it and one of another node (lr), or
 * two other nodes (rr).  *_vs_redis, *_vs_mpi: compared with another system, whose time is the
 * floor.  allreduce_*: a round of an X-function's sum; reduce_*: of roam_reduce.
 * pages_vs_server_*: an exchange of tuples in pages, compared with tuples in the operations.
 * load_*: bench_load.c.  observe_last_kernel: looking at the last tuple, of 32 bytes, which a
 * program in the kernel shows (ROAM_PS_KERNEL), compared with asking its node over udp.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/node.h"
#include "base/transports.h"
#include "bench.h"
#include "os/bpf.h"
#include "roam/pastset.h"
#include "roam/roam.h"
#include "run/wait.h"

#define KEPT 64u        /* tuples of an element before all are truncated */
#define WARM (4 * KEPT) /* operations of each size before those that count, as memory is new */

const uint32_t bench_sizes[BENCH_SIZES] = {1, 1024, BENCH_TUPLE_MAX};

/* Sizes at which tuples in pages and in operations are compared. */
#define PAGE_SIZES 6u
static const uint32_t page_sizes[PAGE_SIZES] = {1, 1024, 4096, 16384, BENCH_TUPLE_MAX, 60 * 1000};

struct past_state {
	struct roam_ps_element *element[2];
	uint64_t exchanged; /* tuples each way */
	uint64_t paired;    /* moved and observed */
	uint8_t out[ROAM_PS_TUPLE_MAX], in[ROAM_PS_TUPLE_MAX];
};

/* A scenario's argument: the node of the elements, and how their tuples are stored. */
#define IN_PAGES 0x100u

static void past_must(struct rig_run *run, enum roam_err err)
{
	if (err != ROAM_OK)
		rig_fail(run, "%s", roam_strerror(err));
}

/* Enters the elements when they are first needed: before that the nodes do not exist. */
static struct past_state *past_state(struct rig_run *run, const char *text)
{
	static const char *const names[] = {"forth", "back"};
	unsigned argument = run->scenario->argument;
	struct roam_ps_options options = {
		.place = ROAM_PS_NODE,
		.node = argument & ~IN_PAGES,
		.storage = (argument & IN_PAGES) != 0 ? ROAM_PS_PAGES : ROAM_PS_SERVER,
		.memory = 4 * KEPT * ROAM_PS_TUPLE_MAX,
	};
	struct past_state *state = run->state;

	if (state != NULL)
		return state;
	state = run->state = calloc(1, sizeof(*state));
	if (state == NULL)
		rig_fail(run, "no memory");
	for (unsigned i = 0; i < 2; i++)
		past_must(run, roam_ps_enter(names[i], text, &options, &state->element[i]));
	return state;
}

/* Makes all tuples: each has its size as u32, and that many bytes. */
static size_t past_tuple(struct past_state *state, uint32_t bytes)
{
	uint32_t count = bytes > 4 ? bytes - 4 : bytes;

	memcpy(state->out, &count, sizeof(count));
	return sizeof(count) + count;
}

static void past_pair(struct rig_run *run, struct past_state *state, unsigned size)
{
	struct roam_ps_element *element = state->element[0];
	size_t bytes = past_tuple(state, bench_sizes[size]);
	uint64_t start, moved, observed;

	start = floor_begin();
	past_must(run, roam_ps_move(element, state->out, bytes));
	moved = floor_end() - start;
	start = floor_begin();
	past_must(run, roam_ps_observe(element, state->in, sizeof(state->in), NULL));
	observed = floor_end() - start;
	if (state->paired++ < BENCH_SIZES * WARM)
		return;
	rig_note(run, size, moved, 1);
	rig_note(run, BENCH_SIZES + size, observed, 1);
}

static void operations_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");

	for (unsigned i = run->round == 1 ? 0 : WARM; run->node == 1 && i < WARM + run->samples;
	     i++) {
		for (unsigned size = 0; size < BENCH_SIZES; size++)
			past_pair(run, state, size);
		if (i % KEPT == 0)
			past_must(run, roam_ps_truncate(state->element[0], UINT64_MAX));
	}
	roam_barrier_all();
}

/* Looks at the last tuple, which stays: asking its node, or a program in the kernel. */
static void looks_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u64[4]");
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .which = ROAM_PS_LAST,
					  .flags = ROAM_PS_PEEK,
					  .buffer = state->in,
					  .limit = sizeof(state->in)};

	if (run->node == 0 && run->round == 1)
		past_must(run, roam_ps_move(state->element[0], state->out, 4 * sizeof(uint64_t)));
	for (unsigned i = 0; run->node == 1 && i < WARM + run->samples; i++) {
		uint64_t start = floor_begin();

		past_must(run, roam_ps_call(state->element[0], &request));
		if (i >= WARM)
			rig_note(run, 0, floor_end() - start, 1);
	}
	roam_barrier_all();
}

/* Why a transport does not work here; NULL: it does. */
static const char *transport_missing(const char *name)
{
	static char why[160];

	return roami_transport_works(roami_transport_find(name), NULL, why, sizeof(why)) ? NULL
											  : why;
}

static const char *packet_missing(void)
{
	return transport_missing("packet");
}

static const char *xdp_missing(void)
{
	return transport_missing("xdp");
}

/* Whether a program can be attached to the loopback device. */
static const char *looks_missing(void)
{
	struct roami_bpf program = {.count = 0};
	int made, link = -1;

	roami_bpf_add(&program, BPF_SET(0, ROAMI_BPF_TCX_NEXT));
	roami_bpf_add(&program, BPF_RETURN);
	made = roami_bpf_load(&program, BPF_PROG_TYPE_SCHED_CLS, ROAMI_BPF_TCX_INGRESS, 0);
	if (made >= 0) {
		link = roami_bpf_attach(made, 1, ROAMI_BPF_TCX_INGRESS, 0);
		close(made);
	}
	if (link >= 0)
		close(link);
	return link >= 0 ? NULL : "programs in the kernel (CAP_BPF, CAP_NET_ADMIN, Linux 6.6)";
}

/* Truncates, now and then, the tuples that both sides have observed. */
static void exchange_forget(struct rig_run *run, struct past_state *state)
{
	state->exchanged += BENCH_TURNS;
	if (state->exchanged % KEPT == 0)
		for (unsigned i = 0; i < 2; i++)
			past_must(run, roam_ps_truncate(state->element[i], state->exchanged));
}

/* One side of an exchange. */
static void exchange_side(struct rig_run *run, struct past_state *state, unsigned side,
			  unsigned channel, uint32_t size)
{
	struct roam_ps_element *to = state->element[side], *from = state->element[1 - side];
	size_t bytes = past_tuple(state, size);

	for (unsigned i = 0; i < run->samples; i += BENCH_TURNS) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < BENCH_TURNS; turn++)
			past_must(run, roam_ps_mob(to, state->out, bytes, from, state->in,
						   sizeof(state->in), NULL));
		if (side == 1)
			rig_note(run, channel, floor_end() - start, BENCH_TURNS);
		else
			exchange_forget(run, state);
	}
}

/* Exchanges between nodes 0 and 1, or between the last two of three nodes. */
static void exchange_size(struct rig_run *run, struct past_state *state, unsigned channel,
			  uint32_t size)
{
	unsigned first = run->nodes - 2;

	if (run->node >= first)
		exchange_side(run, state, run->node - first, channel, size);
	roam_barrier_all();
}

static void exchange_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");

	for (unsigned size = 0; size < BENCH_SIZES; size++)
		exchange_size(run, state, size, bench_sizes[size]);
}

/* The second side of an exchange, a thread with a CPU of its own. */
static void *exchange_thread(void *arg)
{
	struct rig_run *run = arg;
	struct past_state *state = run->state, *own = calloc(1, sizeof(*own));

	if (own == NULL)
		rig_fail(run, "no memory");
	memcpy(own->element, state->element, sizeof(own->element));
	floor_pin(run->cpu[1]);
	for (unsigned size = 0; size < BENCH_SIZES; size++)
		exchange_side(run, own, 1, size, bench_sizes[size]);
	free(own);
	return NULL;
}

static void threads_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");
	pthread_t other;

	floor_pin(run->cpu[0]);
	if (pthread_create(&other, NULL, exchange_thread, run) != 0)
		rig_fail(run, "no thread");
	for (unsigned size = 0; size < BENCH_SIZES; size++)
		exchange_side(run, state, 0, size, bench_sizes[size]);
	pthread_join(other, NULL);
}

static void sizes_round(struct rig_run *run)
{
	struct past_state *state = past_state(run, "u8[]");

	for (unsigned size = 0; size < PAGE_SIZES; size++)
		exchange_size(run, state, size, page_sizes[size]);
}

/* Makes every wait sleep at once: even the smallest ROAM_SPIN_US is longer than an exchange. */
static void wait_asleep(void)
{
	struct roami_real *real = bench_node()->env_state;

	real->fits = false;
	real->spin_ns = 0;
}

static void asleep_round(struct rig_run *run)
{
	wait_asleep();
	exchange_round(run);
}

static void operations_asleep_round(struct rig_run *run)
{
	wait_asleep();
	operations_round(run);
}

static void operations_spinning_round(struct rig_run *run)
{
	struct roami_real *real = bench_node()->env_state;

	real->fits = true;
	real->spin_ns = 1000000000u;
	operations_round(run);
}

/* Puts both nodes on one CPU, with ROAM_PIN=0. */
static void one_cpu_prepare(struct rig_run *run)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(run->cpu[0], &one);
	if (sched_setaffinity(0, sizeof(one), &one) != 0)
		rig_fail(run, "cannot pin to CPU %u", run->cpu[0]);
	scenario_prepare(run);
}

/* ------------------------------------------------------------------------------- reductions */

static void allreduce_round(struct rig_run *run)
{
	const struct roam_ps_options options = {.place = ROAM_PS_NODE,
						.forget = true,
						.function = "sum",
						.participants = run->nodes};
	struct roam_ps_element *element = run->state;
	int32_t value = 1;

	if (element == NULL) {
		past_must(run, roam_ps_enter("allreduce", "i32", &options, &element));
		run->state = element;
	}
	for (unsigned i = 0; i < run->samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < BENCH_TURNS; turn++) {
			value = 1;
			past_must(run, roam_ps_mob(element, &value, sizeof(value), NULL, &value,
						   sizeof(value), NULL));
			if (value != (int32_t)run->nodes)
				rig_fail(run, "the sum is %d", value);
		}
		if (run->node == 0)
			rig_note(run, 0, floor_end() - start, BENCH_TURNS);
	}
	roam_barrier_all();
}

static void reduce_round(struct rig_run *run)
{
	int32_t value = 1;

	for (unsigned i = 0; i < run->samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < BENCH_TURNS; turn++)
			past_must(run, roam_reduce(&value, 1, ROAM_INT32, ROAM_SUM));
		if (run->node == 0)
			rig_note(run, 0, floor_end() - start, BENCH_TURNS);
	}
}

/* ------------------------------------------------------------------------------------- rows */

static const uint8_t floor_list[] = {FLOOR_RTT, FLOOR_TWIN, FLOOR_PUT, FLOOR_KINDS_COUNT};

static const struct rig_scenario floors = {
	.name = "floors",
	.nodes = 2,
	.floors = floor_list,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};

#define SCENARIO(identifier, title, count, variables, at, before, function) \
	static const struct rig_scenario identifier = {                     \
		.name = title,                                              \
		.nodes = (count),                                           \
		.roam = true,                                               \
		.env = variables,                                           \
		.argument = (at),                                           \
		.prepare = before,                                          \
		.round = function,                                          \
	}

SCENARIO(local, "move_local", 2, NULL, 1, scenario_prepare, operations_round);
SCENARIO(remote, "move_remote", 2, NULL, 0, scenario_prepare, operations_round);
SCENARIO(remote_asleep, "move_remote_asleep", 2, NULL, 0, scenario_prepare,
	 operations_asleep_round);
SCENARIO(remote_spinning, "move_remote_spinning", 2, NULL, 0, scenario_prepare,
	 operations_spinning_round);
SCENARIO(look, "observe_last", 2, "ROAM_TRANSPORT=udp ROAM_SEAL=off", 0, scenario_prepare,
	 looks_round);
static const struct rig_scenario look_kernel = {
	.name = "observe_last_kernel",
	.nodes = 2,
	.roam = true,
	.env = "ROAM_TRANSPORT=udp ROAM_SEAL=off ROAM_PS_KERNEL=lo",
	.missing = looks_missing,
	.prepare = scenario_prepare,
	.round = looks_round,
};
SCENARIO(over_udp, "move_over_udp", 2, "ROAM_TRANSPORT=udp ROAM_SEAL=off", 0, scenario_prepare,
	 operations_round);
static const struct rig_scenario over_packet = {
	.name = "move_over_packet",
	.nodes = 2,
	.roam = true,
	.env = "ROAM_TRANSPORT=packet ROAM_SEAL=off",
	.missing = packet_missing,
	.prepare = scenario_prepare,
	.round = operations_round,
};
static const struct rig_scenario over_xdp = {
	.name = "move_over_xdp",
	.nodes = 2,
	.roam = true,
	.env = "ROAM_TRANSPORT=xdp ROAM_SEAL=off",
	.missing = xdp_missing,
	.prepare = scenario_prepare,
	.round = operations_round,
};
SCENARIO(exchange, "pingpong_lr", 2, NULL, 0, scenario_prepare, exchange_round);
SCENARIO(threads, "pingpong_ll", 1, NULL, 0, scenario_prepare, threads_round);
SCENARIO(three, "pingpong_rr", 3, NULL, 0, scenario_prepare, exchange_round);
SCENARIO(one_cpu, "exchange_one_cpu", 2, "ROAM_PIN=0", 0, one_cpu_prepare, exchange_round);
SCENARIO(asleep, "exchange_asleep", 2, NULL, 0, scenario_prepare, asleep_round);
SCENARIO(paged, "exchange_pages", 2, NULL, IN_PAGES, scenario_prepare, sizes_round);
SCENARIO(served, "exchange_server", 2, NULL, 0, scenario_prepare, sizes_round);
SCENARIO(allreduce_2, "allreduce_2", 2, NULL, 0, scenario_prepare, allreduce_round);
SCENARIO(allreduce_4, "allreduce_4", 4, NULL, 0, scenario_prepare, allreduce_round);
SCENARIO(allreduce_udp, "allreduce_udp", 2, "ROAM_TRANSPORT=udp", 0, scenario_prepare,
	 allreduce_round);
SCENARIO(reduce_2, "reduce_2", 2, NULL, 0, scenario_prepare, reduce_round);

enum {
	FLOORS,
	MOVE_LOCAL,
	MOVE_REMOTE,
	LOOK,
	LOOK_KERNEL,
	MOVE_ASLEEP,
	MOVE_SPINNING,
	MOVE_UDP,
	MOVE_PACKET,
	MOVE_XDP,
	EXCHANGE,
	EXCHANGE_LL,
	EXCHANGE_RR,
	REDIS,
	ONE_CPU,
	REDIS_ONE,
	ASLEEP,
	PAGED,
	SERVED,
	ALLREDUCE_2,
	ALLREDUCE_4,
	ALLREDUCE_UDP,
	REDUCE_2,
	MPI_2,
	MPI_4,
	MPI_TCP_2,
	LOAD
};

static const struct rig_scenario *const scenarios[] = {
	[FLOORS] = &floors,
	[MOVE_LOCAL] = &local,
	[MOVE_REMOTE] = &remote,
	[LOOK] = &look,
	[LOOK_KERNEL] = &look_kernel,
	[MOVE_ASLEEP] = &remote_asleep,
	[MOVE_SPINNING] = &remote_spinning,
	[MOVE_UDP] = &over_udp,
	[MOVE_PACKET] = &over_packet,
	[MOVE_XDP] = &over_xdp,
	[EXCHANGE] = &exchange,
	[EXCHANGE_LL] = &threads,
	[EXCHANGE_RR] = &three,
	[REDIS] = &bench_redis,
	[ONE_CPU] = &one_cpu,
	[REDIS_ONE] = &bench_redis_one,
	[ASLEEP] = &asleep,
	[PAGED] = &paged,
	[SERVED] = &served,
	[ALLREDUCE_2] = &allreduce_2,
	[ALLREDUCE_4] = &allreduce_4,
	[ALLREDUCE_UDP] = &allreduce_udp,
	[REDUCE_2] = &reduce_2,
	[MPI_2] = &bench_mpi_2,
	[MPI_4] = &bench_mpi_4,
	[MPI_TCP_2] = &bench_mpi_tcp_2,
	[LOAD] = &bench_load,
	NULL,
};
_Static_assert(LOAD < PLAN_RIGS, "a plan has room for all of them");

#define LOCAL(title, channel, bytes)                                                        \
	{                                                                                   \
		title, MOVE_LOCAL, channel, {{FLOORS, FLOOR_TWIN, (bytes) / 4096.0}}, 0.3,  \
			"a copy into a pooled twin + 0.3", PLAN_LIMIT, 1, 0, 0, "<= floor", \
			.transport = "shm"                                                  \
	}
#define REMOTE(title, channel, bytes)                                                            \
	{                                                                                        \
		title, MOVE_REMOTE, channel,                                                     \
			{{FLOORS, FLOOR_RTT, 1}, {FLOORS, FLOOR_PUT, (bytes) / 4096.0}}, 0.15,   \
			"f_rtt + the bytes put + 0.15", PLAN_LIMIT, 1.3, 0, 0, "<= 1.3 x floor", \
			.transport = "shm"                                                       \
	}

/* The slowest of a hundred, beside the median. */
#define SLOW(title, channel)                                                               \
	{                                                                                  \
		title, MOVE_REMOTE, channel, {{MOVE_REMOTE, channel, 1}}, 0, "the median", \
			PLAN_LIMIT, 3, 0, 0, "<= 3 x median", .transport = "shm",          \
			.slow = true                                                       \
	}

/* The two fixed ways to wait, compared with the usual way, which switches between them. */
#define WAITS(title, channel)                                                              \
	{title, MOVE_ASLEEP, channel, {{MOVE_REMOTE, channel, 1}}, 0, "waiting as usual",  \
	 .goal = "reported", .variant = "asleep", .transport = "shm"},                     \
	{                                                                                  \
		title, MOVE_SPINNING, channel, {{MOVE_REMOTE, channel, 1}}, 0,             \
			"waiting as usual", .goal = "reported", .variant = "spinning",     \
			.transport = "shm"                                                 \
	}

/* Moves over the other transports, between two nodes of this host. */
#define OVER(title, at, channel, to, what, name)                                    \
	{                                                                           \
		title, at, channel, {{to, channel, 1}}, 0, what, .goal = "reported", \
			.variant = "over " name, .transport = name                  \
	}
#define OVERS(title, channel)                                                     \
	OVER(title, MOVE_UDP, channel, MOVE_REMOTE, "over shm", "udp"),           \
		OVER(title, MOVE_PACKET, channel, MOVE_UDP, "over udp", "packet"), \
		OVER(title, MOVE_XDP, channel, MOVE_UDP, "over udp", "xdp")

/* A row compared with another system, whose channel is given; `most` 0: only reported. */
#define PEER(title, mine, channel, peer, theirs, what, most, aim, kind)           \
	{                                                                         \
		title, mine, channel, {{peer, theirs, 1}}, 0, what,               \
			(most) > 0 ? PLAN_LIMIT : PLAN_REPORTED, most, 0, 0, aim, \
			.variant = kind, .transport = "shm"                       \
	}
#define REDIS_LISTS(title, channel)                                                           \
	PEER(title, EXCHANGE, channel, REDIS, channel, "Redis lists, RPUSH and BLPOP", 0.33,  \
	     "<= 0.33 x Redis", NULL),                                                        \
		PEER(title, ONE_CPU, channel, REDIS_ONE, channel, "the same on one CPU", 0.6, \
		     "<= 0.6 x Redis", "one CPU"),                                            \
		PEER(title, ASLEEP, channel, REDIS, channel, "Redis lists", 0,                \
		     "reported (goal 1)", "asleep")
#define PAGES(title, channel)                                                           \
	PEER(title, PAGED, channel, SERVED, channel, "tuples with the operations", 0, \
	     "reported", NULL)

static const struct plan_row rows[] = {
	LOCAL("move_local_1", 0, 1),
	LOCAL("move_local_1k", 1, 1024),
	LOCAL("move_local_31k", 2, 31744),
	LOCAL("observe_local_1", 3, 1),
	LOCAL("observe_local_1k", 4, 1024),
	LOCAL("observe_local_31k", 5, 31744),
	REMOTE("move_remote_1", 0, 1),
	REMOTE("move_remote_1k", 1, 1024),
	REMOTE("move_remote_31k", 2, 31744),
	REMOTE("observe_remote_1", 3, 1),
	REMOTE("observe_remote_1k", 4, 1024),
	REMOTE("observe_remote_31k", 5, 31744),
	{"observe_last_kernel", LOOK_KERNEL, 0, {{LOOK, 0, 1}}, 0, "asking its node over udp",
	 .goal = "reported", .transport = "udp"},
	WAITS("move_remote_1", 0),
	WAITS("move_remote_1k", 1),
	WAITS("move_remote_31k", 2),
	WAITS("observe_remote_1", 3),
	OVERS("move_remote_1", 0),
	OVERS("move_remote_1k", 1),
	OVERS("move_remote_31k", 2),
	SLOW("move_remote_1_p99", 0),
	SLOW("move_remote_1k_p99", 1),
	SLOW("move_remote_31k_p99", 2),
	{"pingpong_ll", EXCHANGE_LL, 0, {{FLOORS, FLOOR_RTT, 1}}, 0, "f_rtt", .transport = "shm"},
	{"pingpong_lr", EXCHANGE, 0, {{FLOORS, FLOOR_RTT, 1}}, 0, "f_rtt", .transport = "shm"},
	{"pingpong_rr", EXCHANGE_RR, 0, {{FLOORS, FLOOR_RTT, 1}}, 0, "f_rtt", .transport = "shm"},
	REDIS_LISTS("pingpong_vs_redis_1", 0),
	REDIS_LISTS("pingpong_vs_redis_1k", 1),
	REDIS_LISTS("pingpong_vs_redis_31k", 2),
	PEER("move_vs_redis_1", MOVE_REMOTE, 0, REDIS, BENCH_SIZES, "Redis lists, RPUSH", 0.33,
	     "<= 0.33 x Redis", NULL),
	PAGES("pages_vs_server_1", 0),
	PAGES("pages_vs_server_1k", 1),
	PAGES("pages_vs_server_4k", 2),
	PAGES("pages_vs_server_16k", 3),
	PAGES("pages_vs_server_31k", 4),
	PAGES("pages_vs_server_59k", 5),
	PEER("allreduce_2_vs_mpi", ALLREDUCE_2, 0, MPI_2, 0, "Open MPI, shared memory", 3,
	     "<= 3 x Open MPI", NULL),
	PEER("allreduce_4_vs_mpi", ALLREDUCE_4, 0, MPI_4, 0, "Open MPI, shared memory", 3,
	     "<= 3 x Open MPI", NULL),
	PEER("reduce_2_vs_mpi", REDUCE_2, 0, MPI_2, 0, "Open MPI, shared memory", 1.5,
	     "<= 1.5 x Open MPI", NULL),
	{"allreduce_2_udp_vs_mpi_tcp",
	 ALLREDUCE_UDP,
	 0,
	 {{MPI_TCP_2, 0, 1}},
	 0,
	 "Open MPI, TCP",
	 PLAN_LIMIT,
	 1,
	 0,
	 0,
	 "<= Open MPI over TCP",
	 .transport = "udp"},
	{"load_operation", LOAD, BENCH_LOAD_EACH, .variant = "64 threads", .transport = "shm"},
	{"load_p99", LOAD, BENCH_LOAD_P99, .variant = "64 threads", .transport = "shm"},
	{"load_cpu", LOAD, BENCH_LOAD_CPU, .variant = "64 threads", .transport = "shm"},
	{"load_lost_of_1000",
	 LOAD,
	 BENCH_LOAD_LOST,
	 {{LOAD, BENCH_LOAD_SHARE, 1}},
	 0,
	 "what the server takes of its CPU",
	 PLAN_LIMIT,
	 1,
	 0,
	 20,
	 "<= the server's share + 20",
	 .variant = "64 threads",
	 .transport = "shm"},
};

/* The report's rows for each of page_sizes; false: some are missing. */
static bool crossover_rows(struct report *report, const struct report_row **found_p)
{
	unsigned found = 0;

	for (unsigned i = 0; i < report->count && found < PAGE_SIZES; i++)
		if (strncmp(report->rows[i].name, "pages_vs_server_", 16) == 0)
			found_p[found++] = &report->rows[i];
	for (unsigned i = 0; i < found; i++)
		if (found_p[i]->us < 0 || found_p[i]->floor_us <= 0)
			return false;
	return found == PAGE_SIZES;
}

/* The size from which pages are faster; the ratio is interpolated between measured sizes. */
static void crossover_add(struct bench *bench)
{
	const struct report_row *sizes[PAGE_SIZES], *at;
	static char text[48];
	struct report_row *row;
	double ratio[2];
	unsigned i = PAGE_SIZES;

	if (!crossover_rows(&bench->report, sizes))
		return;
	while (i > 0 && sizes[i - 1]->us <= sizes[i - 1]->floor_us)
		i--;
	at = sizes[i < PAGE_SIZES ? i : PAGE_SIZES - 1];
	snprintf(text, sizeof(text), i == 0 ? "at every size" : "at no size");
	if (i > 0 && i < PAGE_SIZES) {
		ratio[0] = sizes[i - 1]->us / sizes[i - 1]->floor_us;
		ratio[1] = at->us / at->floor_us;
		snprintf(text, sizeof(text), "from %.0f bytes",
			 page_sizes[i - 1] + (ratio[0] - 1) / (ratio[0] - ratio[1]) *
						     (page_sizes[i] - page_sizes[i - 1]));
	}
	row = report_add(&bench->report, "pages_vs_server_crossover");
	if (row == NULL)
		return;
	*row = *at;
	row->name = "pages_vs_server_crossover";
	row->variant = text;
}

void bench_past(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	plan_run(bench, &plan, bench->engines[0]);
	crossover_add(bench);
}
