/*
 * Fetching ahead of a matrix that is worked off by columns, as SPLASH-2 lu's: in every round its
 * owner writes all columns that are left, then another node reads the first of them.  Pages fetched
 * beyond the column are written again before they are read; under a protocol whose homes keep them
 * open, and with homes on the reader's host, they must be a small part of what is read. Whether
 * other hosts have a page open is not asked: there a fault fetches as many pages ahead as under any
 * other protocol.  Counts in the world.  Options: seed_options.h.
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
	const struct seed_thread *thread = arg;
	struct world *world = thread->world;
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

/* Homes whose writes others read keep pages open from one round to the next. */
static bool ahead_about(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_TAKEN;
}

/* Runs the test; *fetches_p, *faults_p: those of the reader.  false: it failed. */
static bool ahead_run(const struct roam_protocol *protocol, uint64_t seed, unsigned hosts,
		      uint64_t *fetches_p, uint64_t *faults_p)
{
	struct world_config config;
	struct world *world;

	world_pair(&config, seed, protocol);
	config.onesided = true;
	config.hosts = hosts;
	config.prefetch = 64;
	config.heap_pages = 2 * COLUMNS * HEIGHT;
	world = seed_pair(&config, ahead_main, NULL);
	if (world == NULL)
		return false;
	*fetches_p = world_count(world, ROAMI_STAT_fetches);
	*faults_p = world_count(world, ROAMI_STAT_read_faults);
	world_close(world);
	return true;
}

static bool ahead_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	uint64_t fetches, faults, near_faults, read = COLUMNS * HEIGHT;

	(void)options;
	(void)arg;
	if (!ahead_run(protocol, seed, 1, &fetches, &near_faults))
		return false;
	if (fetches > read + read / 8) {
		printf("FAILED seed %lu: %lu fetches of %lu pages\n  %s\n", (unsigned long)seed,
		       (unsigned long)fetches, (unsigned long)read, seed_replay());
		return false;
	}
	if (!ahead_run(protocol, seed, 2, &fetches, &faults))
		return false;
	if (faults < near_faults)
		return true;
	printf("FAILED seed %lu: %lu read faults of pages on another host, %lu on one host\n  %s\n",
	       (unsigned long)seed, (unsigned long)faults, (unsigned long)near_faults,
	       seed_replay());
	return false;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, ahead_about, ahead_one, seed_done, NULL);
}
