/*
 * The rules by which transactions are aborted, and when: node 0 runs a transaction, and node 1
 * commits another one in the middle of its first attempt.
 *
 * By forward validation the first attempt ends at its next fault or call of the library; by
 * backward validation it goes on to its end, and only then, or when it gets a page from node 1,
 * begins anew.  One that only reads then counts.  Options: seed_options.h.
 */
#include "tx_frame.h"

#define ROUNDS 4u
#define SHARED 0u /* pages: that node 1 writes, */
#define OWN    1u /* that node 0 alone uses, */
#define OTHERS 2u /* and that node 1 owns */

struct rules_thread {
	struct rules_test *test;
	struct roami_node *node;
};

struct rules_test {
	struct world *world;
	bool over;
	unsigned asked, done; /* commits of node 1 */
	unsigned attempts;
	unsigned went_on; /* attempts that went on after node 1's commit, of those that met one */
	struct rules_thread threads[2];
};

/* Lets node 1 commit, in the first attempt; then does what makes a doomed one begin anew. */
static void meets(struct rules_thread *thread)
{
	struct rules_test *test = thread->test;

	if (test->attempts++ > 0)
		return;
	test->asked++;
	while (test->done != test->asked)
		world_sleep(test->world, 1000);
	roami_tx_look(thread->node);
	test->went_on++;
}

static void reads(void *arg)
{
	struct rules_thread *thread = arg;

	tx_load(thread->node, SHARED);
	meets(thread);
	tx_load(thread->node, OWN);
}

static void reads_and_writes(void *arg)
{
	struct rules_thread *thread = arg;
	uint64_t value = tx_load(thread->node, SHARED);

	meets(thread);
	tx_store(thread->node, OWN, value);
}

static void writes(void *arg)
{
	struct rules_thread *thread = arg;

	tx_store(thread->node, SHARED, thread->test->asked);
	meets(thread);
}

/* What node 1 has committed is on two pages: a doomed attempt sees the new value of neither. */
static void gets(void *arg)
{
	struct rules_thread *thread = arg;
	uint64_t value = tx_load(thread->node, SHARED);

	meets(thread);
	if (tx_load(thread->node, OTHERS) != value)
		world_fail(thread->test->world, "an attempt sees a half of what was committed");
}

struct rules_expect {
	const char *what;
	roami_tx_fn *fn;
	unsigned attempts[2]; /* by forward validation, and by backward validation */
	enum roami_stat rule[2];
};

static void expect(struct rules_thread *thread, const struct rules_expect *expect)
{
	struct roami_tx_run run = {.fn = expect->fn, .arg = thread};
	struct rules_test *test = thread->test;
	unsigned mode = thread->node->options->tx_validate;
	uint64_t before, rule = expect->attempts[mode] - 1;

	tx_load(thread->node, SHARED);
	tx_store(thread->node, OWN, 0);
	before = world_count(test->world, expect->rule[mode]);
	test->attempts = test->went_on = 0;
	tx_must(thread->test->world, roami_tx_run(thread->node, &run));
	if (test->attempts != expect->attempts[mode] || test->went_on != mode ||
	    world_count(test->world, expect->rule[mode]) - before != rule)
		world_fail(test->world, "%s: %u attempts, %u went on, %lu by the rule",
			   expect->what, test->attempts, test->went_on,
			   (unsigned long)(world_count(test->world, expect->rule[mode]) - before));
}

static void looks(struct rules_thread *thread)
{
	static const struct rules_expect all[] = {
		{"reads", reads, {2, 1}, {ROAMI_STAT_tx_write_read, ROAMI_STAT_tx_read_write}},
		{"reads and writes",
		 reads_and_writes,
		 {2, 2},
		 {ROAMI_STAT_tx_write_read, ROAMI_STAT_tx_read_write}},
		{"writes", writes, {2, 2}, {ROAMI_STAT_tx_write_write, ROAMI_STAT_tx_write_write}},
		{"gets", gets, {2, 2}, {ROAMI_STAT_tx_write_read, ROAMI_STAT_tx_read_write}}};

	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
			expect(thread, &all[i]);
}

static void commits(void *arg)
{
	struct rules_thread *thread = arg;

	tx_store(thread->node, SHARED, thread->test->asked);
	tx_store(thread->node, OTHERS, thread->test->asked);
}

static void rules_main(void *arg)
{
	struct rules_thread *thread = arg;
	struct roami_tx_run run = {.fn = commits, .arg = thread};
	struct rules_test *test = thread->test;

	if (thread->node->me == 0) {
		looks(thread);
		test->over = true;
	}
	while (thread->node->me == 1 && !test->over) {
		if (test->done != test->asked) {
			tx_must(thread->test->world, roami_tx_run(thread->node, &run));
			test->done++;
		}
		world_sleep(test->world, 1000);
	}
	tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
}

static void rules_spawn(struct world *world, void *arg)
{
	struct rules_test *test = arg;

	test->world = world;
	for (unsigned i = 0; i < 2; i++) {
		struct roami_node *node = world_node(world, i);

		test->threads[i] = (struct rules_thread){.test = test, .node = node};
		world_spawn(world, i, rules_main, &test->threads[i]);
	}
}

static bool rules_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct rules_test test = {0};
	struct world_config config;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.tx_reads = (unsigned)(seed / 2 % 3);
	config.tx_validate = (unsigned)(seed % 2);
	return tx_world(options, &config, rules_spawn, &test);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 30};

	seed_options_read(&options, argc, argv);
	return tx_seeds(&options, rules_one);
}
