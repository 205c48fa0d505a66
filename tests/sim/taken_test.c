/*
 * A node that takes a page only to put data there must not keep it.  As when keys are distributed,
 * one node writes a row of pages, then another node writes them; from then on only the first one
 * reads and writes them.  Where homes can be taken they go to the second node and come back, so
 * that no diff is ever made.  Counts in the world.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define PAGES  24u
#define ROUNDS 8u

/* The nodes in turn, and then always the first one. */
static unsigned taken_writer(uint32_t round)
{
	return round == 1;
}

static void taken_write(const struct seed_thread *thread, struct roami_node *node, uint32_t round)
{
	for (uint32_t page = 0; page < PAGES; page++) {
		uint32_t value;

		world_load(node, page * ROAM_PAGE_SIZE, &value, sizeof(value));
		if (value != round)
			world_fail(thread->world, "round %u, page %u: %u", round, page, value);
		value++;
		world_store(node, page * ROAM_PAGE_SIZE, &value, sizeof(value));
	}
}

static void taken_main(void *arg)
{
	const struct seed_thread *thread = arg;
	struct roami_node *node = world_node(thread->world, thread->me);

	for (uint32_t round = 0; round < ROUNDS; round++) {
		if (taken_writer(round) == thread->me)
			taken_write(thread, node, round);
		if (roami_barrier(node, PAGES * ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(thread->world, "no barrier");
	}
}

static bool taken_about(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_TAKEN;
}

static bool taken_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct world_config config;
	struct world *world;
	uint64_t diffs;

	(void)options;
	(void)arg;
	world_pair(&config, seed, protocol);
	config.heap_pages = 2 * PAGES;
	world = seed_pair(&config, taken_main, NULL);
	if (world == NULL)
		return false;
	diffs = world_count(world, ROAMI_STAT_diffs);
	world_close(world);
	if (diffs == 0)
		return true;
	printf("FAILED seed %lu: %lu diffs of pages that one node writes\n  %s\n",
	       (unsigned long)seed, (unsigned long)diffs, seed_replay());
	return false;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, taken_about, taken_one, seed_done, NULL);
}
