/* roam bench fault: faults, fetches, releases, and the floors of the engine in use. */
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault_rounds.h"
#include "msg/msg.h"
#include "roam/roam.h"
#include "roam/transport.h"
#include "sync/sync.h"

#define PAGES    FLOOR_PAGES
#define COMPUTES 1u /* an argument: node 0 computes without a call of roam */

/* ------------------------------------------------------------------------------------ reads */

/* Node 0 computes until node 1 says that it is done. */
static void compute_until(struct rig_run *run, uint32_t value)
{
	while (atomic_load_explicit(&run->shared->flag, memory_order_relaxed) != value)
		floor_pause();
}

/* Node 1 reads all pages from `first` on, in random order. */
static void fetch_measure(struct rig_run *run, uint32_t first, uint32_t value)
{
	rig_count_begin(run, 0);
	for (unsigned i = 0; i < run->samples; i++) {
		uint32_t page = first + run->order[i];
		uint64_t start = floor_begin(), word = *scenario_word(run, page);

		rig_note(run, 0, floor_end() - start, 1);
		if (word != ((uint64_t)value << 32) + page)
			rig_fail(run, "page %u: old bytes", page);
	}
	rig_count_end(run, 0, run->samples);
}

void fault_fetch_round(struct rig_run *run)
{
	scenario_rewrite(run, 0, PAGES, run->round);
	roam_barrier_all();
	if (run->node == 1) {
		fetch_measure(run, 0, run->round);
		atomic_store(&run->shared->flag, run->round);
	} else if (run->scenario->argument == COMPUTES) {
		compute_until(run, run->round);
	}
	roam_barrier_all();
}

/* Gives every round pages of its own that were never touched before. */
static void first_prepare(struct rig_run *run)
{
	scenario_prepare(run);
	run->memory_bytes = run->rounds * BYTES;
	run->memory = roam_alloc(run->memory_bytes);
	if (run->memory == NULL)
		rig_fail(run, "no shared memory");
}

static void first_round(struct rig_run *run)
{
	uint32_t first = (run->round - 1) * PAGES;

	scenario_rewrite(run, first, PAGES, run->round);
	roam_barrier_all();
	if (run->node == 1)
		fetch_measure(run, first, run->round);
	roam_barrier_all();
}

/* Reads pages `argument` apart, then the pages beside them. */
static void stream_pass(struct rig_run *run, uint32_t value)
{
	uint32_t stride = run->scenario->argument, run_pages = PAGES / stride;
	uint64_t start, wrong = 0;

	rig_count_begin(run, 0);
	start = floor_begin();
	for (uint32_t i = 0; i < PAGES; i++) {
		uint32_t page = i % run_pages * stride + i / run_pages;

		wrong |= *scenario_word(run, page) ^ (((uint64_t)value << 32) + page);
	}
	rig_note(run, 0, floor_end() - start, PAGES);
	rig_count_end(run, 0, PAGES);
	if (wrong != 0)
		rig_fail(run, "old bytes");
}

void fault_stream_round(struct rig_run *run)
{
	unsigned passes = (run->samples + 127) / 128;

	for (unsigned pass = 0; pass < passes; pass++) {
		uint32_t value = run->round * 64 + pass;

		scenario_rewrite(run, 0, PAGES, value);
		roam_barrier_all();
		if (run->node == 1)
			stream_pass(run, value);
		roam_barrier_all();
	}
}

/* ----------------------------------------------------------------------------------- writes */

static void write_measure(struct rig_run *run)
{
	rig_count_begin(run, 0);
	for (unsigned i = 0; i < run->samples; i++) {
		volatile uint64_t *word = scenario_word(run, run->order[i]);
		uint64_t start = floor_begin();

		*word = i;
		rig_note(run, 0, floor_end() - start, 1);
	}
	rig_count_end(run, 0, run->samples);
}

static void write_round(struct rig_run *run)
{
	scenario_rewrite(run, 0, PAGES, run->round);
	roam_barrier_all();
	if (run->node == 1) {
		scenario_read_all(run);
		write_measure(run);
	}
	roam_barrier_all();
}

/*
 * Node 0 writes all pages and becomes their home; then each home moves to node 1, which writes it.
 */
static void migration_round(struct rig_run *run)
{
	scenario_rewrite(run, 0, PAGES, run->round);
	roam_barrier_all();
	if (run->node == 1) {
		uint64_t before = roam_counter("home_moves"), moved;

		write_measure(run);
		moved = roam_counter("home_moves") - before;
		if (moved < run->samples)
			rig_fail(run, "%llu homes moved, not %u", (unsigned long long)moved,
				 run->samples);
	}
	roam_barrier_all();
}

static void own_begin(struct rig_run *run)
{
	if (run->node == 1)
		memset(run->memory, 1, run->memory_bytes);
	roam_barrier_all();
	if (run->node == 1) {
		roam_lock(scenario_lock(0));
		roam_unlock(scenario_lock(0));
	}
	roam_barrier_all();
}

static void own_round(struct rig_run *run)
{
	unsigned passes = (run->samples + 63) / 64;

	for (unsigned pass = 0; run->node == 1 && pass < passes; pass++) {
		uint64_t start;

		rig_count_begin(run, 0);
		roam_lock(scenario_lock(0));
		start = floor_begin();
		for (unsigned i = 0; i < PAGES; i++)
			*scenario_word(run, run->order[i]) = i + pass;
		rig_note(run, 0, floor_end() - start, PAGES);
		roam_unlock(scenario_lock(0));
		rig_count_end(run, 0, PAGES);
	}
	roam_barrier_all();
}

/* --------------------------------------------------------------------------------- releases */

static void change_word(uint8_t *page)
{
	*(volatile uint64_t *)(void *)(page + 1024) += 0x0101010101010101u;
}

static void change_byte(uint8_t *page)
{
	*(volatile uint8_t *)(page + 1000) = (uint8_t)(page[1000] + 1);
}

static void change_sparse(uint8_t *page)
{
	for (uint8_t *byte = page; byte < page + FLOOR_PAGE; byte += 16)
		*byte = (uint8_t)(*byte + 1);
}

/* Channels of a release: time until the lock is free (two kinds), and until the caller goes on. */
enum { RELEASE_FREE, RELEASE_FREE_BYTE, RELEASE_BACK };

/*
 * Changes `pages` pages `stride` apart and notes the time until the lock is free, so that another
 * node could get it.  If few pages were written the caller goes on later, because it closes them
 * first.
 */
static void release_measure(struct rig_run *run, unsigned channel, uint32_t first, uint32_t pages,
			    uint32_t stride, void (*change)(uint8_t *page))
{
	uint64_t start, end, announced;

	roam_lock(scenario_lock(0));
	for (uint32_t i = 0; i < pages; i++)
		change(scenario_page(run, first + i * stride));
	rig_count_begin(run, channel);
	start = floor_begin();
	roam_unlock(scenario_lock(0));
	end = floor_end();
	announced = roami_release_announced(bench_node());
	rig_note(run, channel, (announced > start ? announced : end) - start, 1);
	rig_note(run, RELEASE_BACK, end - start, 1);
	rig_count_end(run, channel, 1);
}

/* Node 0 writes everything, and node 1 reads everything, so that its copies are fresh. */
static void release_refresh(struct rig_run *run, uint32_t value)
{
	scenario_rewrite(run, 0, PAGES, value);
	roam_barrier_all();
	if (run->node == 1)
		scenario_read_all(run);
}

void fault_release_1_round(struct rig_run *run)
{
	release_refresh(run, run->round);
	for (unsigned i = 0; run->node == 1 && i < run->samples; i++)
		release_measure(run, RELEASE_FREE, run->order[i], 1, 1, change_word);
	roam_barrier_all();
}

/*
 * Node 0 waits until node 1 has measured.  Over udp it polls like a thread that waits in roam:
 * otherwise it would fall asleep while node 1 takes its faults, and the floors do not sleep.
 */
static void release_end(struct rig_run *run, uint32_t pass)
{
	bool polls = run->scenario->env != NULL && strstr(run->scenario->env, "=udp") != NULL;
	_Atomic uint32_t *busy = &bench_node()->self->ctl->bell.busy;

	if (run->node == 1)
		atomic_store(&run->shared->flag, pass);
	atomic_fetch_add(busy, 1);
	while (polls && run->node == 0 && atomic_load(&run->shared->flag) != pass)
		if (roami_msg_poll(bench_node()) == 0)
			sched_yield(); /* lets the service thread run, if it polls */
	atomic_fetch_sub(busy, 1);
	roam_barrier_all();
}

/* The argument is the stride. */
void fault_release_64_round(struct rig_run *run)
{
	uint32_t stride = run->scenario->argument, span = FLOOR_BATCH * stride;
	unsigned passes = (run->samples + 255) / 256;

	for (unsigned pass = 0; pass < passes; pass++) {
		release_refresh(run, run->round * 64 + pass);
		for (uint32_t group = 0; run->node == 1 && group < PAGES / FLOOR_BATCH; group++) {
			uint32_t first = group / stride * span + group % stride;

			release_measure(run, RELEASE_FREE, first, FLOOR_BATCH, stride, change_word);
		}
		release_end(run, run->round * 64 + pass);
	}
}

static void release_hot_round(struct rig_run *run)
{
	release_refresh(run, run->round);
	if (run->node == 1) {
		for (unsigned i = 0; i < 8; i++) {
			roam_lock(scenario_lock(0));
			change_word(scenario_page(run, 0));
			roam_unlock(scenario_lock(0));
		}
		for (unsigned i = 0; i < run->samples; i++)
			release_measure(run, RELEASE_FREE, 0, 1, 1, change_word);
	}
	roam_barrier_all();
}

void fault_release_sparse_round(struct rig_run *run)
{
	release_refresh(run, run->round);
	for (unsigned i = 0; run->node == 1 && i < run->samples; i++) {
		if (i % 2 == 0)
			release_measure(run, RELEASE_FREE, run->order[i], 1, 1, change_sparse);
		else
			release_measure(run, RELEASE_FREE_BYTE, run->order[i], 1, 1, change_byte);
	}
	release_end(run, run->round);
}

/* Another thread of node 1 computes on node 0's CPU; node 0 sleeps outside roam. */
static void running_round(struct rig_run *run)
{
	uint32_t pages = run->scenario->argument;
	struct floor_spinner *spinner;

	release_refresh(run, run->round);
	if (run->node == 0) {
		rig_flag_await(run, run->round);
		roam_barrier_all();
		return;
	}
	usleep(5000);
	spinner = floor_spinner_start(run->cpu[0]);
	for (unsigned i = 0; spinner != NULL && i < (run->samples + 15) / 16; i++) {
		floor_spinner_await(spinner);
		release_measure(run, RELEASE_FREE, run->order[i] & ~(pages - 1), pages, 1,
				change_word);
	}
	floor_spinner_stop(spinner);
	rig_flag_set(run, run->round);
	roam_barrier_all();
}

/* ------------------------------------------------------------------- the transport by itself */

#define RTT_TURNS  16u
#define RTT_BYTES  56u /* with the 8 bytes of its length 64, as in the bare ring */
#define RTT_MEMORY ((size_t)1 << 20)

extern const struct roam_transport roami_transport_shm;

static void rtt_prepare(struct rig_run *run)
{
	run->memory = mmap(NULL, 2 * RTT_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			   -1, 0);
	run->state = mmap(NULL, roami_transport_shm.state_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (run->memory == MAP_FAILED || run->state == MAP_FAILED)
		rig_fail(run, "no memory");
}

static void rtt_begin(struct rig_run *run)
{
	const struct roam_transport_memory memory[2] = {{run->memory, RTT_MEMORY},
							{run->memory + RTT_MEMORY, RTT_MEMORY}};
	const struct roam_transport_params params = {
		.node = run->node, .nodes = 2, .memory = memory};

	if (roami_transport_shm.open(run->state, &params) != ROAM_OK)
		rig_fail(run, "shm does not open");
}

static bool rtt_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	(void)from;
	memcpy(arg, data, bytes < RTT_BYTES ? bytes : RTT_BYTES);
	return true;
}

static void rtt_send(struct rig_run *run, uint8_t *body)
{
	struct iovec part = {body, RTT_BYTES};

	while (roami_transport_shm.send(run->state, 1 - run->node, &part, 1) != ROAM_OK)
		floor_pause();
}

static void rtt_receive(struct rig_run *run, uint8_t *body)
{
	int bad = -1;

	while (roami_transport_shm.poll(run->state, rtt_deliver, body, 1, &bad) == 0)
		floor_pause();
}

static void rtt_round(struct rig_run *run)
{
	_Alignas(8) uint8_t body[RTT_BYTES] = {0};

	for (unsigned i = 0; i < run->samples; i++) {
		uint64_t start = floor_begin();

		for (unsigned turn = 0; turn < RTT_TURNS; turn++) {
			if (run->node == 1)
				rtt_send(run, body);
			rtt_receive(run, body);
			if (run->node == 0)
				rtt_send(run, body);
		}
		if (run->node == 1)
			rig_note(run, 0, floor_end() - start, RTT_TURNS);
	}
}

/* ------------------------------------------------------------------------------------- plan */

static const uint8_t floor_list[] = {
	FLOOR_FAULT_READ,     FLOOR_FAULT_WRITE, FLOOR_GET,        FLOOR_PUT,
	FLOOR_STREAM,         FLOOR_TWIN,        FLOOR_COMPARE,    FLOOR_COMPARE_64,
	FLOOR_STORE,          FLOOR_PROTECT,     FLOOR_PROTECT_64, FLOOR_PROTECT_RUN,
	FLOOR_PROTECT_RUN_64, FLOOR_RTT,         FLOOR_SEND_64,    FLOOR_KINDS_COUNT,
};

const struct rig_scenario fault_floors = {
	.name = "floors",
	.nodes = 2,
	.floors = floor_list,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};


/* Each page takes a fault of its own: pages that are written are not kept open. */
#define PLAIN "ROAM_PREFETCH=0 ROAM_HOT=0"
#define COLD  "ROAM_HOT=0"
/* Set by main.c: the transport claims not to reach its peers' memory. */
#define MESSAGES "ROAM_HOT=0 BENCH_MESSAGES=1"

SCENARIO(fetch, "read_fetch", PLAIN, fault_fetch_round, 0);
SCENARIO(fetch_busy, "read_fetch_busy_home", PLAIN, fault_fetch_round, COMPUTES);
SCENARIO(stream, "read_stream", COLD, fault_stream_round, 1);
SCENARIO(stride, "read_stride", COLD, fault_stream_round, 4);
SCENARIO(write_fault, "write_fault", COLD, write_round, 0);
SCENARIO(release_1, "release_1", COLD, fault_release_1_round, 0);
SCENARIO(release_1_msg, "release_1_msg", MESSAGES, fault_release_1_round, 0);
SCENARIO(release_64, "release_64", COLD, fault_release_64_round, 1);
SCENARIO(release_64_scattered, "release_64_scattered", COLD, fault_release_64_round, 8);
SCENARIO(release_hot, "release_hot", NULL, release_hot_round, 0);
SCENARIO(release_sparse, "release_sparse", COLD, fault_release_sparse_round, 0);
/* Every page has been written by node 0, its owner. */
#define SC_READ(system)                                       \
	static const struct rig_scenario sc_read_##system = { \
		.name = "sc_read_fault",                      \
		.protocol = #system,                          \
		.nodes = 2,                                   \
		.roam = true,                                 \
		.env = PLAIN,                                 \
		.bytes = BYTES,                               \
		.prepare = scenario_prepare,                  \
		.begin = scenario_share,                      \
		.round = fault_fetch_round,                         \
	}

SC_READ(ivy);
SC_READ(mirage);
SC_READ(onecopy);

/*
 * No node reads first: a home that moved to a reader would stay there while node 0 writes a copy.
 */
static const struct rig_scenario jump_migration = {
	.name = "jump_migration",
	.protocol = "jump",
	.nodes = 2,
	.roam = true,
	.env = PLAIN,
	.bytes = BYTES,
	.prepare = scenario_prepare,
	.round = migration_round,
};

SCENARIO(running_1, "protect_running_thread_1", COLD, running_round, 1);
SCENARIO(running_64, "protect_running_thread_64", COLD, running_round, FLOOR_BATCH);

static const struct rig_scenario fetch_first = {
	.name = "read_fetch_first",
	.nodes = 2,
	.roam = true,
	.env = PLAIN,
	.prepare = first_prepare,
	.round = first_round,
};

static const struct rig_scenario own_home = {
	.name = "own_home_write",
	.nodes = 2,
	.roam = true,
	.bytes = BYTES,
	.prepare = scenario_prepare,
	.begin = own_begin,
	.round = own_round,
};

static const struct rig_scenario shm_rtt = {
	.name = "shm_rtt",
	.nodes = 2,
	.prepare = rtt_prepare,
	.begin = rtt_begin,
	.round = rtt_round,
};

enum {
	AT_FLOORS,
	AT_SHM_RTT,
	AT_FETCH,
	AT_FETCH_FIRST,
	AT_FETCH_BUSY,
	AT_STREAM,
	AT_STRIDE,
	AT_WRITE,
	AT_OWN,
	AT_RELEASE_1,
	AT_RELEASE_1_MSG,
	AT_RELEASE_64,
	AT_SCATTERED,
	AT_HOT,
	AT_SPARSE,
	AT_RUNNING_1,
	AT_RUNNING_64,
	AT_SC_READ_IVY,
	AT_SC_READ_MIRAGE,
	AT_SC_READ_ONECOPY,
	AT_JUMP_MIGRATION,
};

static const struct rig_scenario *const scenarios[] = {
	[AT_FLOORS] = &fault_floors,
	[AT_SHM_RTT] = &shm_rtt,
	[AT_FETCH] = &fetch,
	[AT_FETCH_FIRST] = &fetch_first,
	[AT_FETCH_BUSY] = &fetch_busy,
	[AT_STREAM] = &stream,
	[AT_STRIDE] = &stride,
	[AT_WRITE] = &write_fault,
	[AT_OWN] = &own_home,
	[AT_RELEASE_1] = &release_1,
	[AT_RELEASE_1_MSG] = &release_1_msg,
	[AT_RELEASE_64] = &release_64,
	[AT_SCATTERED] = &release_64_scattered,
	[AT_HOT] = &release_hot,
	[AT_SPARSE] = &release_sparse,
	[AT_RUNNING_1] = &running_1,
	[AT_RUNNING_64] = &running_64,
	[AT_SC_READ_IVY] = &sc_read_ivy,
	[AT_SC_READ_MIRAGE] = &sc_read_mirage,
	[AT_SC_READ_ONECOPY] = &sc_read_onecopy,
	[AT_JUMP_MIGRATION] = &jump_migration,
	NULL,
};

#define F(kind, weight)                         \
	{                                       \
		AT_FLOORS, FLOOR_##kind, weight \
	}
#define SHM .transport = "shm"
#define SC_READ_ROW(rig, system)                                                                \
	{                                                                                       \
		"sc_read_fault", rig, 0, {F(FAULT_READ, 1), F(GET, 1)}, 0, "f_fault_r + f_get", \
			PLAN_LIMIT, 1.5, 0, 0, "<= 1.5 x floor", system, SHM                    \
	}
/* Channels: until the releasing thread goes on, and until other threads could get the lock. */
#define RELEASE_BACK_ROW(title, rig)                                                            \
	{                                                                                       \
		title, rig, RELEASE_BACK, {{rig, RELEASE_FREE, 1}}, 0, "until the lock is free", \
			.goal = NULL, SHM                                                       \
	}

static const struct plan_row rows[] = {
	{"f_fault_r", AT_FLOORS, FLOOR_FAULT_READ, .goal = NULL},
	{"f_fault_w", AT_FLOORS, FLOOR_FAULT_WRITE, .goal = NULL},
	{"f_get", AT_FLOORS, FLOOR_GET, .goal = NULL},
	{"f_put", AT_FLOORS, FLOOR_PUT, .goal = NULL},
	{"f_protect", AT_FLOORS, FLOOR_PROTECT, .goal = NULL},
	{"f_protect_64", AT_FLOORS, FLOOR_PROTECT_64, .goal = NULL},
	{"f_compare", AT_FLOORS, FLOOR_COMPARE, .goal = NULL},
	{"f_rtt", AT_FLOORS, FLOOR_RTT, .goal = NULL},
	{"shm_rtt",
	 AT_SHM_RTT,
	 0,
	 {F(RTT, 1)},
	 0,
	 "f_rtt",
	 PLAN_LIMIT,
	 1.2,
	 0.1,
	 0,
	 "<= 1.2 x floor + 0.1",
	 .transport = "shm"},
	{"read_fetch",
	 AT_FETCH,
	 0,
	 {F(FAULT_READ, 1), F(GET, 1)},
	 0,
	 "f_fault_r + f_get",
	 PLAN_LIMIT,
	 1.3,
	 0,
	 0,
	 "<= 1.3 x floor",
	 SHM},
	{"read_fetch_first",
	 AT_FETCH_FIRST,
	 0,
	 {F(FAULT_READ, 1), F(GET, 1)},
	 0,
	 "f_fault_r + f_get",
	 .goal = NULL,
	 SHM},
	{"read_fetch_busy_home",
	 AT_FETCH_BUSY,
	 0,
	 {{AT_FETCH, 0, 1}},
	 0,
	 "read_fetch",
	 PLAN_LIMIT,
	 1.2,
	 0,
	 0,
	 "<= 1.2 x read_fetch",
	 SHM},
	{"read_stream",
	 AT_STREAM,
	 0,
	 {F(STREAM, 1)},
	 0,
	 "memcpy of the same mapping",
	 PLAN_LIMIT,
	 1.7,
	 0,
	 0,
	 "<= 1.7 x floor",
	 SHM},
	{"read_stride",
	 AT_STRIDE,
	 0,
	 {{AT_FETCH, 0, 1}},
	 0,
	 "read_fetch",
	 PLAN_LIMIT,
	 0.5,
	 0,
	 0,
	 "<= 0.5 x read_fetch",
	 SHM},
	{"write_fault",
	 AT_WRITE,
	 0,
	 {F(FAULT_WRITE, 1), F(TWIN, 1)},
	 0,
	 "f_fault_w + twin copy",
	 PLAN_LIMIT,
	 1.3,
	 0,
	 0,
	 "<= 1.3 x floor",
	 SHM},
	{"own_home_write",
	 AT_OWN,
	 0,
	 {F(STORE, 1)},
	 0,
	 "a plain store",
	 PLAN_SILENT,
	 .goal = "no twin, diff or message",
	 SHM},
	{"release_1",
	 AT_RELEASE_1,
	 0,
	 {F(COMPARE, 1), F(PROTECT, 1), F(PUT, 1)},
	 0,
	 "compare + protect + f_put",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"release_1_msg",
	 AT_RELEASE_1_MSG,
	 0,
	 {F(COMPARE, 1), F(PROTECT, 1), F(RTT, 1)},
	 0,
	 "compare + protect + f_rtt",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"release_64",
	 AT_RELEASE_64,
	 0,
	 {F(COMPARE_64, 1), F(PROTECT_64, 1), F(SEND_64, 1)},
	 0,
	 "64 compares + one protect + the bytes over the ring, acknowledged",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
	{"release_64_scattered",
	 AT_SCATTERED,
	 0,
	 {F(COMPARE_64, 1), F(PROTECT, 64)},
	 0,
	 "64 x (compare + protect)",
	 PLAN_LIMIT,
	 0.6,
	 0,
	 0,
	 "<= 0.6 x floor",
	 SHM},
	RELEASE_BACK_ROW("release_1_back", AT_RELEASE_1),
	RELEASE_BACK_ROW("release_1_msg_back", AT_RELEASE_1_MSG),
	RELEASE_BACK_ROW("release_64_back", AT_RELEASE_64),
	RELEASE_BACK_ROW("release_64_scattered_back", AT_SCATTERED),
	{"release_hot",
	 AT_HOT,
	 0,
	 {F(COMPARE, 1)},
	 0,
	 "compare",
	 PLAN_LIMIT,
	 0,
	 0.3,
	 0,
	 "<= 0.3 us",
	 SHM},
	{"protect_running_thread_1",
	 AT_RUNNING_1,
	 RELEASE_BACK,
	 {F(COMPARE, 1), F(PROTECT_RUN, 1), F(PUT, 1)},
	 0,
	 "compare + protect beside a running thread + f_put",
	 .goal = NULL,
	 SHM},
	{"protect_running_thread_64",
	 AT_RUNNING_64,
	 RELEASE_BACK,
	 {F(COMPARE_64, 1), F(PROTECT_RUN_64, 1), F(SEND_64, 1)},
	 0,
	 "64 compares + one protect beside a running thread + the bytes over the ring",
	 .goal = NULL,
	 SHM},
	{"release_sparse",
	 AT_SPARSE,
	 0,
	 {{AT_SPARSE, 1, 1}},
	 0,
	 "release of one changed byte",
	 PLAN_LIMIT,
	 3,
	 0,
	 0.3,
	 "<= 3 x floor, or 0.3 us more",
	 SHM},
	SC_READ_ROW(AT_SC_READ_IVY, "ivy"),
	SC_READ_ROW(AT_SC_READ_MIRAGE, "mirage"),
	SC_READ_ROW(AT_SC_READ_ONECOPY, "onecopy"),
	{"jump_migration",
	 AT_JUMP_MIGRATION,
	 0,
	 {F(FAULT_READ, 1), F(RTT, 1), F(GET, 1)},
	 0,
	 "f_fault_r + f_rtt + f_get",
	 PLAN_LIMIT,
	 1.5,
	 0,
	 0,
	 "<= 1.5 x floor",
	 SHM},
};

void bench_fault(struct bench *bench)
{
	const struct plan shm = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	for (const char *const *engine = bench->engines; *engine != NULL; engine++)
		plan_run(bench, bench->udp ? &bench_fault_udp : &shm, *engine);
}
