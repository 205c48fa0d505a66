/*
 * roam bench tx: transactions.  Rows tx_test_ta_N are of the Test-TA of Wende and others (2002) on
 * N nodes; --paper runs it as the paper does, one node after the other, and prints the paper's
 * figures beside.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "bench.h"
#include "roam/roam.h"
#include "roam/tx.h"
#include "sync/tx.h"

#define PROTOCOL  "plurix"
#define PLAIN     "ROAM_PREFETCH=0" /* pages come one by one, as in transactions they always do */
#define BY_PAGES  PLAIN " ROAM_TX_COMMIT=pages"
#define PAGES     64u
#define BYTES     (PAGES * FLOOR_PAGE)
#define FEWER     16u  /* samples of rows that take long */
#define THERE     200u /* pauses until the other node surely waits at the barrier */
#define TA_ARRAY  10000u
#define TA_SPAN   501u
#define TA_NS     10000000
#define MAP_OPS   128u /* of a sample */
#define MAP_KEYS  1024u
#define MAP_PAGES 16u /* of one node's keys */

/* What a transaction works on; each has a new `value`. */
struct tx_work {
	const struct rig_run *run;
	uint32_t page, pages;
	uint64_t value, sum;
};

static void run_tx(struct rig_run *run, roam_tx_fn *fn, struct tx_work *work)
{
	enum roam_err err = roam_tx(fn, work, NULL);

	if (err != ROAM_OK)
		rig_fail(run, "roam_tx: %s", roam_strerror(err));
}

static void reads(void *arg)
{
	struct tx_work *work = arg;

	for (uint32_t page = 0; page < work->pages; page++)
		work->sum += *scenario_word(work->run, page);
}

static void writes(void *arg)
{
	struct tx_work *work = arg;

	*scenario_word(work->run, work->page) = work->value;
}

static void await(const struct rig_run *run, uint32_t serial)
{
	while (atomic_load(&run->shared->flag) != serial)
		floor_pause();
	for (unsigned spin = 0; spin < THERE; spin++)
		floor_pause();
}

/* Channels: one page; all pages; loads of all pages outside of a transaction. */
static void read_round(struct rig_run *run)
{
	struct tx_work work = {.run = run};

	for (unsigned i = 0; i < run->samples && run->node == run->nodes - 1; i++)
		for (unsigned channel = 0; channel < 3; channel++) {
			uint64_t start = floor_begin();

			work.pages = channel == 0 ? 1 : PAGES;
			if (channel < 2)
				run_tx(run, reads, &work);
			else
				reads(&work);
			rig_note(run, channel, floor_end() - start, 1);
		}
	roam_barrier_all();
}

/* Channels: the writer has the only copy, and the token; another node has a copy, too. */
static void write_round(struct rig_run *run)
{
	struct tx_work work = {.run = run, .value = (uint64_t)run->round << 32};
	bool writer = run->node == run->nodes - 1;
	unsigned shared = run->nodes > 1 ? (run->samples + FEWER - 1) / FEWER : 0;

	if (writer)
		run_tx(run, writes, &work);
	for (unsigned i = 0; i < run->samples && writer; i++) {
		uint64_t start;

		work.value++;
		rig_count_begin(run, 0);
		start = floor_begin();
		run_tx(run, writes, &work);
		rig_note(run, 0, floor_end() - start, 1);
		rig_count_end(run, 0, 1);
	}
	roam_barrier_all();
	for (unsigned i = 0; i < shared; i++) {
		uint32_t serial = run->round * RIG_ROUND + i;

		if (!writer) {
			(void)*scenario_word(run, 0);
			atomic_store(&run->shared->flag, serial);
		} else {
			uint64_t start;

			await(run, serial);
			work.value++;
			start = floor_begin();
			run_tx(run, writes, &work);
			rig_note(run, 1, floor_end() - start, 1);
		}
		roam_barrier_all();
	}
}

/* The other node, which waits at a barrier, has had the token. */
static void token_round(struct rig_run *run)
{
	struct roami_node *node = bench_node();

	for (unsigned i = 0; i < run->samples; i++) {
		uint32_t serial = run->round * RIG_ROUND + i;
		uint64_t start;

		if (run->node == 1)
			await(run, serial);
		start = floor_begin();
		if (!roami_tx_token_take(node))
			rig_fail(run, "no token");
		if (run->node == 1)
			rig_note(run, 0, floor_end() - start, 1);
		roami_tx_token_let(node);
		if (run->node == 0)
			atomic_store(&run->shared->flag, serial);
		roam_barrier_all();
	}
}

static void fetches(void *arg)
{
	struct tx_work *work = arg;
	struct rig_run *run = (struct rig_run *)(uintptr_t)work->run;

	for (uint32_t i = 0; i < PAGES; i++) {
		volatile uint64_t *word = scenario_word(run, (i * 5 + run->round) % PAGES);
		uint64_t start = floor_begin();

		work->sum += *word;
		rig_note(run, 0, floor_end() - start, 1);
	}
}

/* Runs the work in a transaction, or, under a protocol without transactions, outside of one. */
static void fetch_round(struct rig_run *run)
{
	struct tx_work work = {.run = run};

	for (uint32_t i = 0; i < (run->samples + PAGES - 1) / PAGES; i++) {
		scenario_rewrite(run, 0, PAGES, run->round * RIG_ROUND + i);
		roam_barrier_all();
		if (run->node == 1 && strcmp(run->scenario->protocol, PROTOCOL) == 0)
			run_tx(run, fetches, &work);
		else if (run->node == 1)
			fetches(&work);
		roam_barrier_all();
	}
}

/* Each node commits updates of a page of its own: node 0 alone, or all nodes side by side. */
static void disjoint_round(struct rig_run *run)
{
	struct tx_work work = {.run = run, .page = run->node, .value = (uint64_t)run->round << 32};

	run_tx(run, writes, &work);
	for (unsigned i = 0; i < (run->samples + FEWER - 1) / FEWER; i++) {
		uint64_t start;

		roam_barrier_all();
		if (run->node >= run->scenario->argument)
			continue;
		start = floor_begin();
		for (unsigned j = 0; j < FEWER; j++, work.value++)
			run_tx(run, writes, &work);
		if (run->node == 0)
			rig_note(run, 0, floor_end() - start,
				 FEWER * (double)run->scenario->argument);
	}
	roam_barrier_all();
}

/* ------------------------------------------------------------------------------------------ map */

/* A closed hash table: a part of it for each node's own keys, and one for the keys of all nodes. */
struct map_op {
	uint8_t *part;
	uint64_t key, value;
	bool update;
};

static void map_op(void *arg)
{
	struct map_op *op = arg;
	uint64_t *slots = (uint64_t *)(void *)op->part;
	uint64_t count = MAP_PAGES * FLOOR_PAGE / 16, at = op->key * 0x9e3779b97f4a7c15 >> 40;

	for (at %= count; slots[2 * at] != 0 && slots[2 * at] != op->key;)
		at = at + 1 < count ? at + 1 : 0;
	if (op->update) {
		slots[2 * at] = op->key;
		slots[2 * at + 1] = op->value;
	} else if (slots[2 * at] != 0) {
		op->value = slots[2 * at + 1];
	}
}

/* One of a hundred operations is on a key of all, one of ten is an update. */
static void map_round(struct rig_run *run)
{
	const void *lock = scenario_lock(0);
	bool locks = run->scenario->argument != 0;
	uint64_t random = (uint64_t)run->round * 64 + run->node + 1;

	roam_barrier_all();
	for (unsigned i = 0; i < (run->samples + FEWER - 1) / FEWER; i++) {
		uint64_t start = floor_begin();

		for (unsigned j = 0; j < MAP_OPS; j++) {
			struct map_op op;
			bool common;

			random = random * 6364136223846793005 + 1442695040888963407;
			common = (random >> 20) % 100 == 0;
			op.part = scenario_page(run, (common ? 0 : run->node + 1) * MAP_PAGES);
			op.key = 1 + (random >> 33) % MAP_KEYS;
			op.value = random;
			op.update = (random >> 50) % 10 == 0;
			if (!locks) {
				if (roam_tx(map_op, &op, NULL) != ROAM_OK)
					rig_fail(run, "roam_tx");
				continue;
			}
			roam_lock(lock);
			map_op(&op);
			roam_unlock(lock);
		}
		if (run->node == 0)
			rig_note(run, 0, floor_end() - start, MAP_OPS);
	}
	roam_barrier_all();
}

/* -------------------------------------------------------------------------------------- Test-TA */

struct test_ta {
	volatile uint64_t *array;
	uint32_t first;
};

static void test_ta(void *arg)
{
	struct test_ta *work = arg;

	for (uint32_t i = 0, at = work->first; i < TA_SPAN; i++, at = (at + 1) % TA_ARRAY)
		work->array[at] = work->array[at] + 1;
}

/* Every 10 ms. */
static void test_ta_round(struct rig_run *run)
{
	struct test_ta work = {.array = scenario_word(run, 0)};
	uint64_t random = (uint64_t)run->round * 64 + run->node + 1;
	struct timespec next;

	roam_barrier_all();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (unsigned i = 0; i < run->samples / 64 + 1; i++) {
		uint64_t start;

		next.tv_nsec += TA_NS;
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL) == EINTR)
			;
		random = random * 6364136223846793005 + 1442695040888963407;
		work.first = (uint32_t)((random >> 33) % TA_ARRAY);
		if (run->node == 0)
			rig_count_begin(run, 0);
		start = floor_begin();
		if (roam_tx(test_ta, &work, NULL) != ROAM_OK)
			rig_fail(run, "roam_tx");
		if (run->node != 0)
			continue;
		rig_note(run, 0, floor_end() - start, 1);
		rig_count_end(run, 0, 1);
	}
	roam_barrier_all();
}

/* ----------------------------------------------------------------------------------------- rows */

static const uint8_t floor_list[] = {FLOOR_FAULT_READ, FLOOR_FAULT_WRITE, FLOOR_GET, FLOOR_RTT,
				     FLOOR_KINDS_COUNT};

static const struct rig_scenario floors = {
	.name = "floors",
	.nodes = 2,
	.floors = floor_list,
	.prepare = rig_floor_prepare,
	.begin = rig_floor_begin,
	.round = rig_floor_round,
};

/* `more` is the scenario's own argument. */
#define SCENARIO(identifier, title, system, count, starting, function, more) \
	SCENARIO_OF(PLAIN, identifier, title, system, count, starting, function, more)
#define SCENARIO_OF(options, identifier, title, system, count, starting, function, more) \
	static const struct rig_scenario identifier = {                      \
		.name = title,                                               \
		.protocol = system,                                          \
		.nodes = count,                                              \
		.roam = true,                                                \
		.env = options,                                              \
		.bytes = BYTES,                                              \
		.argument = more,                                            \
		.prepare = scenario_prepare,                                 \
		.begin = starting,                                           \
		.round = function,                                           \
	}
#define TEST_TA(count) \
	SCENARIO(test_ta_##count, "tx_test_ta", PROTOCOL, count, NULL, test_ta_round, 0)

SCENARIO(read_one, "tx_read", PROTOCOL, 2, scenario_share, read_round, 0);
SCENARIO(write_one, "tx_write", PROTOCOL, 2, scenario_share, write_round, 0);
SCENARIO(alone, "tx_write_alone", PROTOCOL, 1, NULL, write_round, 0);
SCENARIO(token, "tx_token", PROTOCOL, 2, NULL, token_round, 0);
SCENARIO(fetch, "tx_fetch", PROTOCOL, 2, scenario_share, fetch_round, 0);
SCENARIO(fetch_hlrc, "tx_fetch", BENCH_PROTOCOL, 2, scenario_share, fetch_round, 0);
SCENARIO(one, "tx_disjoint", PROTOCOL, 2, NULL, disjoint_round, 1);
SCENARIO(two, "tx_disjoint", PROTOCOL, 2, NULL, disjoint_round, 2);
SCENARIO_OF(BY_PAGES, one_pages, "tx_disjoint", PROTOCOL, 2, NULL, disjoint_round, 1);
SCENARIO_OF(BY_PAGES, two_pages, "tx_disjoint", PROTOCOL, 2, NULL, disjoint_round, 2);
SCENARIO_OF(BY_PAGES, map_pages, "tx_map_2", PROTOCOL, 2, NULL, map_round, 0);
SCENARIO(map, "tx_map_2", PROTOCOL, 2, NULL, map_round, 0);
SCENARIO(map_lock, "tx_map_2", PROTOCOL, 2, NULL, map_round, 1);
SCENARIO(map_hlrc, "tx_map_2", BENCH_PROTOCOL, 2, NULL, map_round, 1);
TEST_TA(1);
TEST_TA(2);
TEST_TA(3);
TEST_TA(4);
TEST_TA(5);
TEST_TA(6);
TEST_TA(7);
TEST_TA(8);

enum {
	FLOORS,
	READ,
	WRITE,
	WRITE_ALONE,
	TOKEN,
	FETCH,
	FETCH_HLRC,
	ONE,
	TWO,
	ONE_PAGES,
	TWO_PAGES,
	MAP,
	MAP_BY_PAGES,
	MAP_LOCK,
	MAP_HLRC,
	TA
};

static const struct rig_scenario *const scenarios[] = {
	[FLOORS] = &floors,
	[READ] = &read_one,
	[WRITE] = &write_one,
	[WRITE_ALONE] = &alone,
	[TOKEN] = &token,
	[FETCH] = &fetch,
	[FETCH_HLRC] = &fetch_hlrc,
	[ONE] = &one,
	[TWO] = &two,
	[ONE_PAGES] = &one_pages,
	[TWO_PAGES] = &two_pages,
	[MAP] = &map,
	[MAP_BY_PAGES] = &map_pages,
	[MAP_LOCK] = &map_lock,
	[MAP_HLRC] = &map_hlrc,
	[TA] = &test_ta_1,
	[TA + 1] = &test_ta_2,
	[TA + 2] = &test_ta_3,
	[TA + 3] = &test_ta_4,
	[TA + 4] = &test_ta_5,
	[TA + 5] = &test_ta_6,
	[TA + 6] = &test_ta_7,
	[TA + 7] = &test_ta_8,
	NULL,
};

#define F(kind)                         \
	{                               \
		FLOORS, FLOOR_##kind, 1 \
	}
#define SHM .transport = "shm", .variant = "resident reads"
#define SHM_PAGES .transport = "shm", .variant = "commit by pages"
#define TA_ROW(count)                                                              \
	{                                                                          \
		"tx_test_ta_" #count, TA + (count)-1, 0, {{TA, 0, 1}}, 0, "alone", \
			.goal = "reported", SHM                                    \
	}

static const struct plan_row rows[] = {
	{"f_fault_w", FLOORS, FLOOR_FAULT_WRITE, .goal = NULL},
	{"f_rtt", FLOORS, FLOOR_RTT, .goal = NULL},
	{"tx_read_1", READ, 0, .rule = PLAN_LIMIT, .plus = 1, .goal = "<= 1 us", SHM},
	{"tx_read_64",
	 READ,
	 1,
	 {{READ, 2, 1}},
	 0,
	 "its loads",
	 PLAN_LIMIT,
	 1,
	 1,
	 0,
	 "<= 1 us + its loads",
	 SHM},
	{"tx_write_1",
	 WRITE,
	 0,
	 {F(FAULT_WRITE)},
	 0,
	 "f_fault_w",
	 PLAN_LIMIT,
	 1,
	 3,
	 0,
	 "<= 3 us + its fault",
	 SHM},
	{"tx_write_1_copy",
	 WRITE,
	 1,
	 {F(FAULT_WRITE), F(RTT)},
	 0,
	 "f_fault_w + f_rtt",
	 PLAN_LIMIT,
	 1,
	 3,
	 0,
	 "<= 3 us + its fault + a round trip",
	 SHM},
	{"tx_write_1_alone", WRITE_ALONE, 0, .rule = PLAN_LIMIT, .plus = 3, .goal = "<= 3 us", SHM},
	{"tx_token", TOKEN, 0, {F(RTT)}, 0, "f_rtt", PLAN_LIMIT, 1.5, 0, 0, "<= 1.5 x floor", SHM},
	{"tx_fetch",
	 FETCH,
	 0,
	 {{FETCH_HLRC, 0, 1}},
	 0,
	 "under hlrc",
	 PLAN_LIMIT,
	 1.1,
	 0,
	 0,
	 "as under hlrc, within 10 %",
	 SHM},
	{"tx_disjoint_2", TWO, 0, {{ONE, 0, 1}}, 0, "one node", .goal = "reported", SHM},
	{"tx_disjoint_2_pages",
	 TWO_PAGES,
	 0,
	 {{ONE_PAGES, 0, 1}},
	 0,
	 "one node",
	 PLAN_LIMIT,
	 1 / 1.7,
	 0,
	 0,
	 "1.7 commits for one of one node",
	 SHM_PAGES},
	{"tx_map_2",
	 MAP,
	 0,
	 {{MAP_LOCK, 0, 1}},
	 0,
	 "one roam lock",
	 PLAN_LIMIT,
	 1,
	 0,
	 0,
	 "<= the map under a lock",
	 SHM},
	{"tx_map_2_pages",
	 MAP_BY_PAGES,
	 0,
	 {{MAP_LOCK, 0, 1}},
	 0,
	 "one roam lock",
	 PLAN_LIMIT,
	 1,
	 0,
	 0,
	 "<= the map under a lock",
	 SHM_PAGES},
	{"tx_map_2_hlrc",
	 MAP,
	 0,
	 {{MAP_HLRC, 0, 1}},
	 0,
	 "one roam lock under hlrc",
	 PLAN_LIMIT,
	 1,
	 0,
	 0,
	 "<= the map under a lock",
	 SHM},
	TA_ROW(1),
	TA_ROW(2),
	TA_ROW(3),
	TA_ROW(4),
	TA_ROW(5),
	TA_ROW(6),
	TA_ROW(7),
	TA_ROW(8),
};

/* ---------------------------------------------------------------------------------- the paper */

#define PAPER_NODES "-p8"
#define PAPER_MAX   65536u

__attribute__((noreturn)) static void paper_child(const char *program, int out)
{
	setenv("ROAM_PROTOCOL", PROTOCOL, 1);
	if (out >= 0 && dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execl(program, program, PAPER_NODES, "--paper", out >= 0 ? "--json" : NULL, (char *)NULL);
	_exit(127);
}

static size_t paper_read(int from, char *text, size_t bytes)
{
	size_t used = 0;
	ssize_t got;

	while (used + 1 < bytes && ((got = read(from, text + used, bytes - 1 - used)) > 0 ||
				    (got < 0 && errno == EINTR)))
		used += got > 0 ? (size_t)got : 0;
	text[used] = '\0';
	return used;
}

/* Runs the program; its output goes to `text`, or, if that is NULL, to the standard output. */
static bool paper_run(const char *program, char *text)
{
	int ends[2] = {-1, -1}, status;
	size_t used = 1;
	pid_t pid;

	fflush(stdout);
	if (text != NULL && pipe2(ends, O_CLOEXEC) != 0)
		return false;
	pid = fork();
	if (pid == 0)
		paper_child(program, ends[1]);
	if (text != NULL) {
		close(ends[1]);
		used = pid > 0 ? paper_read(ends[0], text, PAPER_MAX) : 0;
		close(ends[0]);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && used > 0;
}

/* Runs the Test-TA as the paper does. */
static void bench_paper(struct bench *bench)
{
	static char text[PAPER_MAX];
	char directory[PATH_MAX + 64], program[PATH_MAX + 96];

	if (!apps_find(directory, sizeof(directory))) {
		fprintf(stderr, "roam bench: no programs here: set ROAM_BENCH_APPS\n");
		return;
	}
	snprintf(program, sizeof(program), "%s/plurix-test", directory);
	if (!paper_run(program, bench->progress ? NULL : text))
		fprintf(stderr, "roam bench: %s failed\n", program);
	else if (!bench->progress)
		bench->report.paper = text;
}

void bench_tx(struct bench *bench)
{
	const struct plan plan = {scenarios, rows, sizeof(rows) / sizeof(rows[0])};

	plan_run(bench, &plan, bench->engines[0]);
	if (bench->paper)
		bench_paper(bench);
}
