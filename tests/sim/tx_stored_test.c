/*
 * A transaction that only reads ends, however often another node stores to the pages that it reads
 * outside of transactions.  Options: seed_options.h.
 */
#include "tx_frame.h"

#define PAGES   3u /* that are stored to, one after the other */
#define OVER    3u /* the page that says how many rounds are over */
#define ROUNDS  5u
#define ATTEMPTS 64u /* at most; about 12 are needed */
#define WORK_NS 300000u   /* of the transaction, for each page */
#define LONG_NS 100000000u /* for the transaction, which takes 1 ms */

struct stored_thread {
	struct world *world;
	struct roami_node *node;
	uint64_t sum;
};

static void reads(void *arg)
{
	struct stored_thread *thread = arg;

	thread->sum = 0;
	for (uint32_t page = 0; page < PAGES; page++) {
		thread->sum += tx_load(thread->node, page);
		world_sleep(thread->world, WORK_NS);
	}
	for (uint32_t page = 0; page < PAGES; page++)
		thread->sum -= tx_load(thread->node, page);
	if (thread->sum != 0)
		world_fail(thread->world, "a transaction reads what is of two moments");
}

static void transacts(struct stored_thread *thread, uint64_t round)
{
	struct roami_tx_run run = {.fn = reads, .arg = thread, .attempts = ATTEMPTS};
	uint64_t begun = world_now(thread->world);

	tx_must(thread->world, roami_tx_run(thread->node, &run));
	if (world_now(thread->world) - begun > LONG_NS)
		world_fail(thread->world, "a transaction took %lu ns",
			   (unsigned long)(world_now(thread->world) - begun));
	tx_store(thread->node, OVER, round);
}

static void stores(struct stored_thread *thread, uint64_t round)
{
	for (uint64_t count = 1; tx_load(thread->node, OVER) != round; count++) {
		tx_store(thread->node, (uint32_t)(count % PAGES), count);
		world_sleep(thread->world, WORK_NS / 10);
	}
}

static void stored_main(void *arg)
{
	struct stored_thread *thread = arg;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (thread->node->me == 0)
			transacts(thread, round);
		else
			stores(thread, round);
		tx_must(thread->world, roami_barrier(thread->node, 4096, 0));
	}
}

static void stored_spawn(struct world *world, void *arg)
{
	struct stored_thread *threads = arg;

	for (unsigned i = 0; i < 2; i++) {
		threads[i] = (struct stored_thread){.world = world, .node = world_node(world, i)};
		world_spawn(world, i, stored_main, &threads[i]);
	}
}

static bool stored_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct stored_thread threads[2];
	struct world_config config;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.tx_fair = 4;
	config.tx_reads = (unsigned)(seed / 2 % 3);
	config.tx_validate = (unsigned)(seed % 2);
	return tx_world(options, &config, stored_spawn, threads);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return tx_seeds(&options, stored_one);
}
