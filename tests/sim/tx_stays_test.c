/*
 * A node that has a page may keep it for a moment (roami_stay_ns), but not for ever: node 1 stores
 * to a page between transactions, each of which closes it and so makes the next store fault, and
 * node 0 loads from the page.  Options: seed_options.h.
 */
#include <stdlib.h>

#include "seed_options.h"
#include "sync/sync.h"
#include "sync/tx.h"
#include "world.h"

#define STORED  0u /* pages */
#define OVER    1u
#define ROUNDS  20u
#define LONG_NS 2000000u /* for a load from a page that stays for 20 us, and its messages */

struct stays_thread {
	struct world *world;
	struct roami_node *node;
	uint64_t value;
};

static void must(struct stays_thread *thread, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thread->world, "%s", roam_strerror(err));
}

static uint64_t load(struct stays_thread *thread, uint32_t page)
{
	uint64_t value;

	world_load(thread->node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
	return value;
}

static void store(struct stays_thread *thread, uint32_t page, uint64_t value)
{
	world_store(thread->node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
}

static void reads_over(void *arg)
{
	struct stays_thread *thread = arg;

	thread->value = load(thread, OVER);
}

static void stores(struct stays_thread *thread, uint64_t until)
{
	struct roami_tx_run run = {.fn = reads_over, .arg = thread};
	uint64_t count = 0;

	do {
		store(thread, STORED, ++count);
		must(thread, roami_tx_run(thread->node, &run));
		world_sleep(thread->world, 1000); /* time that the loop takes */
	} while (thread->value != until);
}

static void reads(struct stays_thread *thread, uint64_t round)
{
	uint64_t begun;

	world_sleep(thread->world, 300000);
	begun = world_now(thread->world);
	load(thread, STORED);
	if (world_now(thread->world) - begun > LONG_NS)
		world_fail(thread->world, "a load took %lu ns",
			   (unsigned long)(world_now(thread->world) - begun));
	store(thread, OVER, round);
}

static void stays_main(void *arg)
{
	struct stays_thread *thread = arg;

	for (uint64_t round = 1; round <= ROUNDS; round++) {
		if (thread->node->me == 0)
			reads(thread, round);
		else
			stores(thread, round);
		must(thread, roami_barrier(thread->node, 4096, 0));
	}
}

static bool stays_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct stays_thread threads[2];
	struct world_config config;
	struct world *world;
	bool good;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.tx_reads = (unsigned)(seed / 2 % 3);
	config.tx_validate = (unsigned)(seed % 2);
	config.trace = options->trace;
	world = world_open(&config);
	if (world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < 2; i++) {
		threads[i] = (struct stays_thread){.world = world, .node = world_node(world, i)};
		world_spawn(world, i, stays_main, &threads[i]);
	}
	good = seed_world(world, &config);
	world_close(world);
	return good;
}

static bool stays_about(const struct roam_protocol *protocol)
{
	return protocol->transactions != NULL;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, stays_about, stays_one, seed_done, NULL);
}
