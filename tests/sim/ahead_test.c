/*
 * Fetching ahead of a matrix that is worked off by columns, as SPLASH-2 lu's: in every round its
 * owner writes all columns that are left, then another node reads the first of them.  What is
 * fetched beyond the column is written again before it is read; under a protocol whose homes have
 * it open, that is a small part of what is read.  Counts in the world.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define COLUMNS 6u
#define HEIGHT  20u /* pages of a column */
#define ROUNDS  COLUMNS
#define NODES   2u

struct ahead {
	struct world *world;
};

struct ahead_thread {
	struct ahead *ahead;
	unsigned me;
};

enum { OWNER, READER };

/* One byte of each page of the columns [column, end). */
static void ahead_pages(struct world *world, struct roami_node *node, uint32_t column, uint32_t end,
			uint8_t value, bool write)
{
	for (uint32_t page = column * HEIGHT; page < end * HEIGHT; page++) {
		uint8_t found = value;

		if (write)
			world_store(node, page * ROAM_PAGE_SIZE, &value, sizeof(value));
		else
			world_load(node, page * ROAM_PAGE_SIZE, &found, sizeof(found));
		if (found != value)
			world_fail(world, "page %u: %u, not %u", page, found, value);
	}
}

static void ahead_main(void *arg)
{
	const struct ahead_thread *thread = arg;
	struct world *world = thread->ahead->world;
	struct roami_node *node = world_node(world, thread->me);

	/* The first round puts the data in place. */
	for (uint32_t round = 0; round <= ROUNDS; round++) {
		uint32_t column = round > 0 ? round - 1 : 0;

		if (thread->me == OWNER)
			ahead_pages(world, node, column, COLUMNS, (uint8_t)round + 1, true);
		if (roami_barrier(node, COLUMNS * HEIGHT * ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
		if (thread->me == READER && round > 0)
			ahead_pages(world, node, column, column + 1, (uint8_t)round + 1, false);
		if (roami_barrier(node, COLUMNS * HEIGHT * ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
	}
}

/* Homes that others follow have pages open from one round to the next. */
static bool ahead_about(const struct roam_protocol *protocol)
{
	return protocol->diff_logs;
}

static bool ahead_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct ahead_thread threads[NODES];
	struct world_config config;
	struct ahead ahead = {0};
	uint64_t fetches, read = COLUMNS * HEIGHT;
	bool good;

	(void)options;
	(void)arg;
	world_draw(&config, seed, protocol);
	config.nodes = NODES;
	for (unsigned i = 0; i < NODES; i++)
		config.threads[i] = 1;
	config.creator_pages = 0;
	config.cache_pages = 0;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.onesided = true;
	config.hosts = 1;
	config.prefetch = 64;
	config.heap_pages = 2 * COLUMNS * HEIGHT;
	ahead.world = world_open(&config);
	if (ahead.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < NODES; i++) {
		threads[i] = (struct ahead_thread){&ahead, i};
		world_spawn(ahead.world, i, ahead_main, &threads[i]);
	}
	good = world_run(ahead.world);
	fetches = world_count(ahead.world, ROAMI_STAT_fetches);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed,
		       world_error(ahead.world), seed_replay());
	world_close(ahead.world);
	if (!good || fetches <= read + read / 8)
		return good;
	printf("FAILED seed %lu: %lu fetches of %lu pages\n  %s\n", (unsigned long)seed,
	       (unsigned long)fetches, (unsigned long)read, seed_replay());
	return false;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, ahead_about, ahead_one, seed_done, NULL);
}
