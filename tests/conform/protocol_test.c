/*
 * What every coherence protocol must do, in simulated worlds: each test runs for all protocols of
 * the build, with seeds. ROAM_SEED is the first seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault/soft.h"
#include "home/remote.h"
#include "page/page.h"
#include "sync/sync.h"
#include "unit.h"
#include "world.h"

#define ID_LOCK     0x7400000000u
#define ID_BARRIER  0x7500000000u
#define ID_FLAG     0x7600000000u
#define THREADS_MAX (8u * WORLD_THREADS_MAX)

struct test;

struct member {
	struct test *test;
	unsigned node;
	unsigned thread; /* of the job */
	unsigned local;  /* of the node */
};

struct test {
	struct world_config config;
	struct world *world;
	unsigned threads;
	unsigned turn;
	unsigned reached; /* ids free for the test */
	bool flagged;
	struct member members[THREADS_MAX];
};

typedef void test_main_fn(struct test *test, struct member *member, struct roami_node *node);

/* The argument of a fiber: the test's function, with its type. */
struct start {
	test_main_fn *fn;
	struct member *member;
};

static void start_main(void *arg)
{
	struct start *start = arg;
	struct member *member = start->member;

	start->fn(member->test, member, world_node(member->test->world, member->node));
}

/* ------------------------------------------------------------------------------------- helpers */

#define CHECK(test, condition) \
	((condition) ? (void)0 : world_fail((test)->world, "%s (line %d)", #condition, __LINE__))

static void ok(struct test *test, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(test->world, "%s", roam_strerror(err));
}

static void all(struct test *test, struct roami_node *node)
{
	ok(test, roami_barrier(node, ID_BARRIER, 0));
}

static uint32_t get(struct roami_node *node, uint64_t offset)
{
	uint32_t value;

	world_load(node, offset, &value, sizeof(value));
	return value;
}

static void put(struct roami_node *node, uint64_t offset, uint32_t value)
{
	world_store(node, offset, &value, sizeof(value));
}

static uint8_t get_byte(struct roami_node *node, uint64_t offset)
{
	uint8_t value;

	world_load(node, offset, &value, 1);
	return value;
}

static void put_byte(struct roami_node *node, uint64_t offset, unsigned value)
{
	uint8_t byte = (uint8_t)value;

	world_store(node, offset, &byte, 1);
}

static uint64_t page_at(uint32_t page)
{
	return page * ROAMI_PAGE;
}

/* Makes turns outside of roam: only the schedule is ordered by them. */
static void turn_wait(struct test *test, unsigned turn)
{
	while (test->turn < turn)
		world_sleep(test->world, 500);
}

static void turn_next(struct test *test)
{
	test->turn++;
}

static bool test_seed(struct test *test, test_main_fn *fn)
{
	struct start starts[THREADS_MAX];
	char text[512];
	bool good;

	test->world = world_open(&test->config);
	if (test->world == NULL)
		return false;
	for (unsigned node = 0; node < test->config.nodes; node++)
		for (unsigned i = 0; i < test->config.threads[node]; i++) {
			unsigned number = test->threads++;

			test->members[number] = (struct member){test, node, number, i};
			starts[number] = (struct start){fn, &test->members[number]};
			world_spawn(test->world, node, start_main, &starts[number]);
		}
	good = world_run(test->world);
	if (!good) {
		world_describe(&test->config, text, sizeof(text));
		printf("\n%s: seed %lu: %s\n  %s\n", test->config.protocol->name,
		       (unsigned long)test->config.seed, world_error(test->world), text);
	}
	return good;
}

/*
 * Runs a test for every protocol and some seeds; `shape` adapts what the seed drew, `after` looks
 * at the world; both may be NULL.
 */
static void test_all(void (*shape)(struct test *test), test_main_fn *fn,
		     bool (*after)(struct test *test))
{
	for (unsigned i = 0; roami_protocols[i] != NULL; i++)
		for (uint64_t seed = unit_seed(); seed < unit_seed() + unit_seeds(4); seed++) {
			struct test *test = calloc(1, sizeof(*test));
			bool good;

			CU_ASSERT_PTR_NOT_NULL_FATAL(test);
			world_draw(&test->config, seed, roami_protocols[i]);
			test->config.nodes = test->config.nodes > 5 ? 5 : test->config.nodes;
			if (shape != NULL)
				shape(test);
			good = test_seed(test, fn);
			CU_ASSERT_TRUE(good);
			if (good && after != NULL)
				CU_ASSERT_TRUE(after(test));
			if (test->world != NULL)
				world_close(test->world);
			free(test);
		}
}

static void threads_set(struct test *test, unsigned nodes, const unsigned *threads)
{
	test->config.nodes = nodes;
	for (unsigned i = 0; i < nodes; i++)
		test->config.threads[i] = threads[i];
}

/* One node writes at a time; `copies`: others may have a copy to read. */
static bool one_writer(const struct test *test, bool copies)
{
	return test->config.protocol->writes == ROAM_WRITES_FAULT &&
	       (test->config.protocol->evict != NULL) == copies;
}

/* --------------------------------------------------------------------------------------- tests */

/* The first and the second node to touch a page find the creator's bytes, or zero. */
static void first_touch_main(struct test *test, struct member *member, struct roami_node *node)
{
	const uint8_t *initial = world_initial(test->world);
	struct rng rng = {test->config.seed * 31 + member->thread};

	for (unsigned i = 0; i < 60; i++) {
		uint32_t page = rng_below(&rng, node->layout.pages),
			 at = rng_below(&rng, ROAM_PAGE_SIZE);

		CHECK(test, get_byte(node, page_at(page) + at) == initial[page_at(page) + at]);
	}
	all(test, node);
	for (uint32_t page = 0; page < node->layout.pages; page++)
		CHECK(test, get_byte(node, page_at(page) + 77) == initial[page_at(page) + 77]);
}

/* Home-based protocols claim each page once, without a copy back and forth. */
static bool first_touch_after(struct test *test)
{
	if (test->config.protocol->homes != ROAM_HOMES_FIXED ||
	    test->config.placement != ROAM_PLACE_FIRST_TOUCH)
		return true;
	return world_count(test->world, ROAMI_STAT_claims) == test->config.heap_pages;
}

static void test_first_touch(void)
{
	test_all(NULL, first_touch_main, first_touch_after);
}

#define COLUMNS 8u
#define ROWS    20u

/* The directory words are at node 0, on another host; the pages are one block. */
static void columns_shape(struct test *test)
{
	threads_set(test, 2, (unsigned[]){1, 1});
	test->config.hosts = 2;
	test->config.heap_pages = ROWS * COLUMNS;
	test->config.placement = ROAM_PLACE_FIRST_TOUCH;
}

/* A node writes rows of COLUMNS pages, one page of every row at a time. */
static void columns_main(struct test *test, struct member *member, struct roami_node *node)
{
	for (uint32_t page = 0; member->node == 0 && page < node->layout.pages; page++)
		atomic_fetch_and(&node->self->headers[page].where, ~ROAMI_HEADER_BLOCK);
	all(test, node);
	for (uint32_t i = 0; member->node == 1 && i < ROWS * COLUMNS; i++)
		put(node, page_at(i % ROWS * COLUMNS + i / ROWS), i);
	all(test, node);
	for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
		CHECK(test, get(node, page_at(i % ROWS * COLUMNS + i / ROWS)) == i);
}

/* The first column is claimed in six steps, the others by one each. */
static bool columns_after(struct test *test)
{
	const struct roami_node *node = world_node(test->world, 1);
	unsigned claim = roami_type(node, ROAMI_ROOM_CLAIMS, 0);

	if (test->config.protocol->provisional == NULL)
		return true;
	return roami_stats_sum_type(node->stats, claim) <= 6 + (COLUMNS - 1) &&
	       roami_stats_sum_type(node->stats, claim + 1) == 0; /* publish */
}

static void test_columns(void)
{
	test_all(columns_shape, columns_main, columns_after);
}

/* A counter and the page it lives on go round under a lock. */
static void migration_main(struct test *test, struct member *member, struct roami_node *node)
{
	uint32_t start;

	if (member->thread == 0)
		put(node, page_at(3) + 8, 1000);
	all(test, node);
	for (unsigned i = 0; i < 12; i++) {
		ok(test, roami_lock(node, ID_LOCK));
		start = get(node, page_at(3) + 8);
		put(node, page_at(3) + 8, start + 1);
		put(node, page_at(4) + 4 * member->thread, start);
		ok(test, roami_unlock(node, ID_LOCK));
	}
	all(test, node);
	CHECK(test, get(node, page_at(3) + 8) == 1000 + 12 * test->threads);
}

static void test_migration(void)
{
	test_all(NULL, migration_main, NULL);
}

/* Every thread has its own bytes of one page, all interleaved. */
static void sharing_main(struct test *test, struct member *member, struct roami_node *node)
{
	for (unsigned round = 1; round <= 4; round++) {
		for (uint32_t at = member->thread; at < 600; at += test->threads)
			put_byte(node, page_at(9) + at, (at + round) & 0xff);
		all(test, node);
		for (uint32_t at = 0; at < 600; at += 7)
			CHECK(test, get_byte(node, page_at(9) + at) == ((at + round) & 0xff));
		all(test, node);
	}
}

static void test_false_sharing(void)
{
	test_all(NULL, sharing_main, NULL);
}

/*
 * One thread rewrites a whole page except for one byte, which another writes at the same time (rule
 * 1.5).
 */
static void dense_main(struct test *test, struct member *member, struct roami_node *node)
{
	uint8_t words[64];

	for (unsigned round = 1; round <= 3; round++) {
		memset(words, (int)(round * 16), sizeof(words));
		if (member->thread == 0)
			for (uint32_t at = 0; at < ROAM_PAGE_SIZE; at += 64)
				if (at != 1024)
					world_store(node, page_at(2) + at, words, 64);
		if (member->thread == test->threads - 1)
			put_byte(node, page_at(2) + 1030, 200 + round);
		all(test, node);
		CHECK(test, get_byte(node, page_at(2)) == round * 16);
		CHECK(test, get_byte(node, page_at(2) + 1030) == 200 + round);
		CHECK(test, get_byte(node, page_at(2) + 4095) == round * 16);
		all(test, node);
	}
}

static void test_dense(void)
{
	test_all(NULL, dense_main, NULL);
}

/* The node that touches a page first writes it unseen; others read; it writes again (rule 6.7). */
static void own_page_main(struct test *test, struct member *member, struct roami_node *node)
{
	uint64_t at = page_at(11 + member->node);

	for (unsigned round = 1; round <= 6; round++) {
		if (member->local == 0) {
			put(node, at, round);
			put(node, at + 2000, round * 3);
		}
		all(test, node);
		for (unsigned other = 0; other < test->config.nodes; other++)
			if (round % 2 == other % 2)
				CHECK(test, get(node, page_at(11 + other) + 2000) == round * 3);
		all(test, node);
	}
}

static void test_own_page(void)
{
	test_all(NULL, own_page_main, NULL);
}

#define EVICT_PAGES 40u
#define EVICT_CACHE 3u

static void evict_shape(struct test *test)
{
	test->config.cache_pages = EVICT_CACHE;
	test->config.kind_known = true; /* otherwise two readers may pass for a writer */
	if (test->config.prefetch > 2)
		test->config.prefetch = 2;
}

static void evict_main(struct test *test, struct member *member, struct roami_node *node)
{
	unsigned limit = EVICT_CACHE + 1 +
			 3 * (test->config.prefetch + 1) * test->config.threads[member->node];

	for (unsigned round = 1; round <= 3; round++) {
		if (member->thread == 0)
			for (uint32_t page = 0; page < EVICT_PAGES; page++)
				put(node, page_at(page) + 4 * page, round * 1000 + page);
		all(test, node);
		for (uint32_t page = 0; page < EVICT_PAGES; page++) {
			CHECK(test, get(node, page_at(page) + 4 * page) == round * 1000 + page);
			if (member->node != 0 && test->config.protocol->evict != NULL)
				CHECK(test, atomic_load(&pages_of(node)->cached) <= limit);
		}
		all(test, node);
	}
}

static bool evict_after(struct test *test)
{
	return test->config.protocol->evict == NULL ||
	       world_count(test->world, ROAMI_STAT_evictions) > 0;
}

static void test_eviction(void)
{
	test_all(evict_shape, evict_main, evict_after);
}

#define LOCKS 500u

static void locks_main(struct test *test, struct member *member, struct roami_node *node)
{
	struct rng rng = {test->config.seed + member->thread};
	uint32_t sum = 0;

	for (unsigned i = 0; i < 200; i++) {
		uint32_t lock = rng_below(&rng, LOCKS);
		uint64_t at = lock * 4;

		ok(test, roami_lock(node, ID_LOCK + lock * 8));
		put(node, page_at(20) + at, get(node, page_at(20) + at) + 1);
		ok(test, roami_unlock(node, ID_LOCK + lock * 8));
	}
	all(test, node);
	for (unsigned i = 0; i < LOCKS; i++)
		sum += get(node, page_at(20) + i * 4);
	CHECK(test, sum == 200 * test->threads);
}

static void locks_shape(struct test *test)
{
	test->config.creator_pages = 0;
}

static void test_many_locks(void)
{
	test_all(locks_shape, locks_main, NULL);
}

static void lock_errors_main(struct test *test, struct member *member, struct roami_node *node)
{
	(void)member;
	CHECK(test, roami_unlock(node, ID_LOCK) == ROAM_ENOTHELD);
	CHECK(test, roami_unlock(node, ID_LOCK + 8) == ROAM_ENOTHELD);
	CHECK(test, roami_cond_wait(node, ID_LOCK + 16, ID_LOCK) == ROAM_ENOTHELD);
	ok(test, roami_lock(node, ID_LOCK));
	CHECK(test, roami_lock(node, ID_LOCK) == ROAM_ESTATE);
	ok(test, roami_unlock(node, ID_LOCK));
	CHECK(test, roami_unlock(node, ID_LOCK) == ROAM_ENOTHELD);
	all(test, node);
}

static void test_lock_errors(void)
{
	test_all(NULL, lock_errors_main, NULL);
}

/* Nodes have different numbers of threads; no thread leaves before the last one has come. */
static void barrier_shape(struct test *test)
{
	static const unsigned threads[][6] = {{1, 3, 2, 0}, {4, 1, 0}, {1, 1, 1, 1, 1, 2}};
	static const unsigned nodes[] = {3, 2, 6};
	unsigned which = (unsigned)(test->config.seed % 3);

	threads_set(test, nodes[which], threads[which]);
	if (which == 1)
		test->config.threads[1] = 1;
}

static void barrier_main(struct test *test, struct member *member, struct roami_node *node)
{
	struct rng rng = {test->config.seed + member->thread};

	for (unsigned round = 1; round <= 15; round++) {
		if (rng_one_in(&rng, 3))
			world_sleep(test->world, rng_below(&rng, 30000));
		put(node, page_at(1) + 64 * member->thread, round);
		test->reached++;
		ok(test, roami_barrier(node, ID_BARRIER + 8 * (round % 2),
				       round % 3 == 0 ? test->threads : 0));
		CHECK(test, test->reached >= round * test->threads);
		for (unsigned other = 0; other < test->threads; other++) {
			uint32_t value = get(node, page_at(1) + 64 * other);

			/* Under an SC protocol a thread may see the next round's value already. */
			CHECK(test, value == round || value == round + 1);
		}
	}
}

static void test_barriers(void)
{
	test_all(barrier_shape, barrier_main, NULL);
}

/*
 * A barrier of two: first of two threads of nodes 1 and 2; then, as soon as one of them knows that
 * this is over, of node 1's other thread and one of node 3.  The first departure may still be on
 * its way to node 1.
 */
static void reuse_shape(struct test *test)
{
	static const unsigned threads[] = {1, 2, 1, 1};

	threads_set(test, 4, threads);
	test->config.latency_ns_max = 50000;
}

static void reuse_main(struct test *test, struct member *member, struct roami_node *node)
{
	uint64_t barrier = ID_BARRIER + 800;

	for (unsigned round = 0; round < 30; round++) {
		uint64_t flag = ID_FLAG + round * 8;

		if (member->thread == 1 || member->thread == 3)
			ok(test, roami_barrier(node, barrier, 2));
		if (member->thread == 3)
			ok(test, roami_flag_set(node, flag));
		if (member->thread == 2) {
			ok(test, roami_flag_wait(node, flag));
			put(node, page_at(7), round + 1);
			ok(test, roami_barrier(node, barrier, 2));
			CHECK(test, test->reached == round + 1);
		}
		if (member->thread == 4) {
			ok(test, roami_flag_wait(node, flag));
			world_sleep(test->world, 100000);
			test->reached = round + 1;
			ok(test, roami_barrier(node, barrier, 2));
			CHECK(test, get(node, page_at(7)) == round + 1);
		}
		all(test, node);
	}
}

static void test_barrier_reuse(void)
{
	test_all(reuse_shape, reuse_main, NULL);
}

/* Checks that a page is at the node that touched it last, and nowhere else. */
static void moves_main(struct test *test, struct member *member, struct roami_node *node)
{
	unsigned nodes = test->config.nodes;

	for (unsigned turn = 0; turn < 3 * nodes; turn++) {
		if (turn % nodes != member->node || member->local != 0)
			continue;
		turn_wait(test, turn);
		CHECK(test, get(node, page_at(6)) == (turn == 0 ? get(node, page_at(6)) : turn));
		put(node, page_at(6), turn + 1);
		CHECK(test, get(node, page_at(6)) == turn + 1);
		for (unsigned other = 0; one_writer(test, false) && other < nodes; other++) {
			enum roam_access access = roami_page_access(world_node(test->world, other),
								    6);

			CHECK(test, access == (other == member->node ? ROAM_WRITE : ROAM_NONE));
		}
		turn_next(test);
	}
}

static void moves_shape(struct test *test)
{
	/* Without synchronisation only sequentially consistent protocols show the values. */
	if (test->config.protocol->model != ROAM_MODEL_SC)
		threads_set(test, 1 + 1, (const unsigned[]){1, 1});
}

static void moves_or_nothing(struct test *test, struct member *member, struct roami_node *node)
{
	if (test->config.protocol->model == ROAM_MODEL_SC)
		moves_main(test, member, node);
}

static void test_moves(void)
{
	test_all(moves_shape, moves_or_nothing, NULL);
}

/*
 * Many readers or one writer: a reader keeps its copy, and reads again without a fault; a write
 * leaves no other node access, and costs one request to each node that had a copy.
 */
static uint64_t readers_messages(struct test *test)
{
	return world_count(test->world, ROAMI_STAT_messages_sent);
}

static uint64_t readers_faults(struct test *test)
{
	return world_count(test->world, ROAMI_STAT_read_faults) +
	       world_count(test->world, ROAMI_STAT_write_faults);
}

static void readers_accesses(struct test *test, unsigned writer, enum roam_access others)
{
	for (unsigned other = 0; other < test->config.nodes; other++) {
		enum roam_access access = roami_page_access(world_node(test->world, other), 6);

		CHECK(test, other == writer ? access >= others : access == others);
	}
}

static void readers_main(struct test *test, struct member *member, struct roami_node *node)
{
	unsigned nodes = test->config.nodes, me = member->node;
	uint64_t before, faults;

	if (member->local != 0 || !one_writer(test, true))
		return;
	for (unsigned round = 0; round < 4; round++) {
		unsigned turn = round * (2 * nodes + 1), writer = (round * 2 + 1) % nodes;

		for (unsigned again = 0; again < 2; again++) {
			turn_wait(test, turn + again * nodes + me);
			before = readers_messages(test);
			faults = readers_faults(test);
			CHECK(test, round == 0 || get(node, page_at(6)) == round);
			CHECK(test, get(node, page_at(6)) == get(node, page_at(6)));
			CHECK(test, again == 0 || readers_messages(test) == before);
			CHECK(test, again == 0 || readers_faults(test) == faults);
			turn_next(test);
		}
		turn_wait(test, turn + 2 * nodes);
		if (me != writer) {
			turn_wait(test, turn + 2 * nodes + 1);
			continue;
		}
		readers_accesses(test, nodes, ROAM_READ);
		before = readers_messages(test);
		put(node, page_at(6), round + 1);
		readers_accesses(test, writer, ROAM_NONE);
		CHECK(test, roami_page_access(node, 6) == ROAM_WRITE);
		CHECK(test, readers_messages(test) - before <= 2 * (nodes - 1) + nodes);
		turn_next(test);
	}
}

static void readers_shape(struct test *test)
{
	test->config.kind_known = true;
	test->config.cache_pages = 0;
	test->config.queue_max = 64; /* messages that have to wait for room count twice */
}

static void test_readers(void)
{
	test_all(readers_shape, readers_main, NULL);
}

static void flag_main(struct test *test, struct member *member, struct roami_node *node)
{
	for (unsigned round = 0; round < 6; round++) {
		if (member->thread == round % test->threads) {
			put(node, page_at(30 + round), round + 1);
			ok(test, roami_flag_set(node, ID_FLAG));
		} else {
			ok(test, roami_flag_wait(node, ID_FLAG));
			CHECK(test, get(node, page_at(30 + round)) == round + 1);
		}
		all(test, node);
		if (member->thread == 0)
			ok(test, roami_flag_clear(node, ID_FLAG));
		all(test, node);
	}
}

static void test_flags(void)
{
	test_all(NULL, flag_main, NULL);
}

static void reduce_shape(struct test *test)
{
	for (unsigned i = 0; i < test->config.nodes; i++)
		test->config.threads[i] = 1;
}

static void reduce_main(struct test *test, struct member *member, struct roami_node *node)
{
	unsigned nodes = test->config.nodes;

	for (unsigned round = 0; round < 5; round++) {
		int64_t wide[2] = {member->node, -(int64_t)member->node};
		int32_t narrow[1] = {1 << member->node};
		double real[1] = {member->node + 0.5};

		put(node, page_at(13 + member->node), round);
		ok(test, roami_reduce(node, wide, 2, ROAM_INT64, ROAM_SUM));
		CHECK(test, wide[0] == nodes * (nodes - 1) / 2 && wide[1] == -wide[0]);
		CHECK(test, get(node, page_at(13 + (member->node + 1) % nodes)) == round);
		ok(test, roami_reduce(node, narrow, 1, ROAM_INT32, ROAM_OR));
		CHECK(test, narrow[0] == (1 << nodes) - 1);
		ok(test, roami_reduce(node, real, 1, ROAM_DOUBLE, ROAM_MAX));
		CHECK(test, real[0] == nodes - 0.5);
	}
}

static void test_reduce(void)
{
	test_all(reduce_shape, reduce_main, NULL);
}

static CU_TestInfo tests[] = {
	{"the first touch finds the first bytes", test_first_touch},
	{"columns of pages are claimed by one message each", test_columns},
	{"a counter migrates under its lock", test_migration},
	{"false sharing", test_false_sharing},
	{"a page rewritten, but for another's byte", test_dense},
	{"own pages written unseen", test_own_page},
	{"eviction within ROAM_CACHE_PAGES", test_eviction},
	{"many locks", test_many_locks},
	{"errors of locks", test_lock_errors},
	{"barriers of unlike nodes", test_barriers},
	{"a partial barrier with other threads", test_barrier_reuse},
	{"pages move to the node that touches them", test_moves},
	{"many readers or one writer", test_readers},
	{"flags set, awaited, cleared", test_flags},
	{"reductions", test_reduce},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("protocol", tests, argc, argv);
}
