/*
 * How long a commit waits: for two round trips, if no more calls are needed than can be under way
 * at a time, and for one if no page has both another owner and a third node's copy.  Node 1 commits
 * once all nodes have read what it writes; messages take long, and nothing else does.  Options:
 * seed_options.h.
 */
#include "roam/protocol_home.h"
#include "tx_frame.h"

#define PAGES   (ROAM_PAGES_ONCE / 2) /* with copies at two nodes: as many calls as at a time */
#define TRIP_NS 2000000u /* there and back */
#define OWN     PAGES    /* the first page of as many that node 1 owns */

struct round_thread {
	struct round_test *test;
	struct roami_node *node;
	uint32_t first, count; /* what the transaction writes */
	uint64_t wrote;        /* when it had */
};

struct round_test {
	struct world *world;
	uint64_t took[3]; /* of commits that write others' pages, its own, and both */
	struct round_thread threads[3];
};

static void writes(void *arg)
{
	struct round_thread *thread = arg;

	for (uint32_t i = 0; i < thread->count; i++)
		tx_store(thread->node, thread->first + i, thread->node->me + 1);
	thread->wrote = world_now(thread->test->world);
}

/* Node 0 owns the first pages, node 1 the others; all can read all. */
static void prepare(struct round_thread *thread)
{
	for (uint32_t page = 0; page < 2 * PAGES; page++)
		if (thread->node->me == page / OWN)
			tx_store(thread->node, page, thread->node->me + 1);
	tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
	for (uint32_t page = 0; page < 2 * PAGES; page++)
		tx_load(thread->node, page);
	tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
}

static void round_main(void *arg)
{
	static const uint32_t firsts[] = {0, OWN, PAGES / 2};
	struct round_thread *thread = arg;
	struct roami_tx_run run = {.fn = writes, .arg = thread};

	thread->first = 2 * PAGES;
	thread->count = 1;
	if (thread->node->me == 1) /* the token stays there */
		tx_must(thread->test->world, roami_tx_run(thread->node, &run));
	thread->count = PAGES;
	for (unsigned i = 0; i < 3; i++) {
		prepare(thread);
		thread->first = firsts[i];
		if (thread->node->me == 1) {
			tx_must(thread->test->world, roami_tx_run(thread->node, &run));
			thread->test->took[i] = world_now(thread->test->world) - thread->wrote;
		}
		tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
	}
}

static void expect(struct round_test *test, const char *what, uint64_t took, unsigned trips)
{
	if (took < trips * (uint64_t)TRIP_NS || took > trips * (uint64_t)TRIP_NS + TRIP_NS / 2)
		world_fail(test->world, "a commit of %s took %lu ns, not %u round trips", what,
			   (unsigned long)took, trips);
}

static void looks(void *arg)
{
	struct round_thread *thread = arg;
	struct round_test *test = thread->test;
	bool third = roami_count(thread->node) > 2;

	round_main(thread);
	if (thread->node->me != 1)
		return;
	expect(test, "others' pages", test->took[0], third ? 2 : 1);
	expect(test, "its own pages", test->took[1], 1);
	expect(test, "both", test->took[2], third ? 2 : 1);
}

static void round_spawn(struct world *world, void *arg)
{
	struct round_test *test = arg;

	test->world = world;
	for (unsigned i = 0; i < roami_count(world_node(world, 0)); i++) {
		struct roami_node *node = world_node(world, i);

		test->threads[i] = (struct round_thread){.test = test, .node = node};
		world_spawn(world, i, looks, &test->threads[i]);
	}
}

static bool round_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct round_test test = {0};
	struct world_config config;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.nodes = 2 + (unsigned)(seed % 2);
	config.heap_pages = 2 * PAGES + 1;
	config.hosts = 1;
	config.queue_max = 64;
	config.step_every = 0;
	config.latency_ns_min = TRIP_NS / 2;
	config.latency_ns_max = 1;
	config.slow_ns = 0;
	config.tx_commit = ROAMI_TX_COMMIT_TOKEN;
	return tx_world(options, &config, round_spawn, &test);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return tx_seeds(&options, round_one);
}
