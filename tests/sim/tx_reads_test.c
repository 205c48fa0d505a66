/*
 * What counts as read.  Node 0 reads a page outside of transactions, and runs transactions that do
 * not touch it, during each of which node 1 writes it: if all pages that a node can read count,
 * each of them begins anew once; if only touched ones count, none does; by default as many do as
 * ROAM_TX_FALSE says, then none until transactions have touched the page 16 times.  A page that a
 * transaction has touched makes it begin anew always, and that counts as no false abort.  Options:
 * seed_options.h.
 */
#include "tx_frame.h"

#define ROUNDS  12u
#define TOUCHES 16u
#define BESIDE  0u /* pages */
#define OWN     1u
#define NEEDED  2u

struct reads_thread {
	struct reads_test *test;
	struct roami_node *node;
};

struct reads_test {
	struct world *world;
	uint32_t page;        /* what node 1 writes in an attempt of node 0 */
	unsigned asked, done; /* how often */
	unsigned attempts;
	uint64_t false_aborts; /* expected so far */
	uint64_t aborts;
	struct reads_thread threads[2];
};

/* Lets node 1 write the page, in the first attempt. */
static void others_write(struct reads_test *test)
{
	if (test->attempts++ > 0)
		return;
	test->asked++;
	while (test->done != test->asked)
		world_sleep(test->world, 1000);
}

static void beside(void *arg)
{
	struct reads_thread *thread = arg;

	tx_load(thread->node, OWN);
	others_write(thread->test);
	tx_store(thread->node, OWN, thread->test->asked);
}

static void needs(void *arg)
{
	struct reads_thread *thread = arg;
	uint64_t value = tx_load(thread->node, NEEDED);

	others_write(thread->test);
	tx_store(thread->node, OWN, value);
}

static void touches(void *arg)
{
	tx_load(((struct reads_thread *)arg)->node, BESIDE);
}

static void run(struct reads_thread *thread, roami_tx_fn *fn)
{
	struct roami_tx_run run = {.fn = fn, .arg = thread};

	thread->test->attempts = 0;
	tx_must(thread->test->world, roami_tx_run(thread->node, &run));
}

/* `aborts`: of the rounds to come; `in_vain`: of these. */
static void rounds(struct reads_thread *thread, roami_tx_fn *fn, uint32_t page, uint64_t aborts,
		   uint64_t in_vain)
{
	struct reads_test *test = thread->test;

	test->page = page;
	for (unsigned i = 0; i < ROUNDS; i++) {
		tx_load(thread->node, page);
		run(thread, fn);
	}
	test->aborts += aborts;
	test->false_aborts += in_vain;
	if (world_count(test->world, ROAMI_STAT_tx_aborts) != test->aborts ||
	    world_count(test->world, ROAMI_STAT_tx_false) != test->false_aborts)
		world_fail(test->world, "%lu aborts, %lu of them false; expected %lu, %lu",
			   (unsigned long)world_count(test->world, ROAMI_STAT_tx_aborts),
			   (unsigned long)world_count(test->world, ROAMI_STAT_tx_false),
			   (unsigned long)test->aborts, (unsigned long)test->false_aborts);
}

static void reader(struct reads_thread *thread)
{
	const struct roami_options *options = thread->node->options;
	bool exact = options->tx_reads == ROAMI_TX_READS_EXACT;
	uint64_t in_vain = options->tx_reads == ROAMI_TX_READS_RESIDENT ? ROUNDS
			   : exact					? 0
									: options->tx_false;

	rounds(thread, beside, BESIDE, in_vain, in_vain);
	rounds(thread, needs, NEEDED, ROUNDS, 0);
	for (unsigned i = 0; i < TOUCHES - 1; i++)
		run(thread, touches);
	rounds(thread, beside, BESIDE, in_vain == ROUNDS ? ROUNDS : 0,
	       in_vain == ROUNDS ? ROUNDS : 0);
	run(thread, touches);
	rounds(thread, beside, BESIDE, in_vain, in_vain);
}

static void reads_main(void *arg)
{
	struct reads_thread *thread = arg;
	struct reads_test *test = thread->test;

	if (thread->node->me == 0) {
		reader(thread);
		test->page = UINT32_MAX;
		test->asked++;
	}
	while (thread->node->me == 1 && test->page != UINT32_MAX) {
		if (test->done == test->asked) {
			world_sleep(test->world, 1000);
			continue;
		}
		tx_store(thread->node, test->page, test->asked);
		test->done++;
	}
	tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
}

static void reads_spawn(struct world *world, void *arg)
{
	struct reads_test *test = arg;

	test->world = world;
	for (unsigned i = 0; i < 2; i++) {
		struct roami_node *node = world_node(world, i);

		test->threads[i] = (struct reads_thread){.test = test, .node = node};
		world_spawn(world, i, reads_main, &test->threads[i]);
	}
}

static bool reads_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct reads_test test = {0};
	struct world_config config;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.tx_reads = (unsigned)(seed % 3);
	config.tx_false = 1 + (uint32_t)(seed / 3 % 3);
	return tx_world(options, &config, reads_spawn, &test);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 30};

	seed_options_read(&options, argc, argv);
	return tx_seeds(&options, reads_one);
}
