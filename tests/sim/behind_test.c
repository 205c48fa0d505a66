/*
 * Pages that are written in a row open ahead of their writes.  This must not make a release of few
 * pages take longer: a node that has written as many as a release may still close late
 * (ROAMI_DEFERRED_MAX) has no page open behind them.  Counts in the world.  Options:
 * seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define PAGES    (4 * ROAMI_DEFERRED_MAX)
#define FIRST    8u
#define START_ID ((uint64_t)PAGES * ROAM_PAGE_SIZE)

enum { OWNER, WRITER };

static void behind_meet(const struct seed_thread *thread)
{
	if (roami_barrier(world_node(thread->world, thread->me), START_ID, 0) != ROAM_OK)
		world_fail(thread->world, "no barrier");
}

static void behind_pages(const struct seed_thread *thread, uint32_t from, uint32_t to,
			 uint8_t value, bool write)
{
	struct roami_node *node = world_node(thread->world, thread->me);

	for (uint32_t page = from; page < to; page++) {
		uint8_t found = value;

		if (write)
			world_store(node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
		else
			world_load(node, (uint64_t)page * ROAM_PAGE_SIZE, &found, sizeof(found));
		if (found != value)
			world_fail(thread->world, "page %u: %u, not %u", page, found, value);
	}
}

/* The owner writes all pages, the other node reads them and writes some of them in a row. */
static void behind_main(void *arg)
{
	const struct seed_thread *thread = arg;
	const uint32_t end = FIRST + ROAMI_DEFERRED_MAX;

	if (thread->me == OWNER)
		behind_pages(thread, 0, PAGES, 1, true);
	behind_meet(thread);
	if (thread->me == WRITER) {
		behind_pages(thread, 0, PAGES, 1, false);
		behind_pages(thread, FIRST, end, 2, true);
	}
	behind_meet(thread);
	behind_pages(thread, FIRST, end, 2, false);
	behind_pages(thread, end, PAGES, 1, false);
}

/* Protocols whose releases may close pages late. */
static bool behind_about(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_RC && protocol->homes == ROAM_HOMES_FIXED &&
	       !protocol->keeps_twins && protocol->writes_now == NULL;
}

static bool behind_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct world_config config;
	struct world *world;
	uint64_t compared;

	(void)options;
	(void)arg;
	world_pair(&config, seed, protocol);
	config.hosts = 1;
	config.heap_pages = 2 * PAGES;
	world = seed_pair(&config, behind_main, NULL);
	if (world == NULL)
		return false;
	compared = world_count(world, ROAMI_STAT_diffs) +
		   world_count(world, ROAMI_STAT_diffs_empty);
	world_close(world);
	if (compared <= ROAMI_DEFERRED_MAX)
		return true;
	printf("FAILED seed %lu: %lu pages compared of %u written\n  %s\n", (unsigned long)seed,
	       (unsigned long)compared, ROAMI_DEFERRED_MAX, seed_replay());
	return false;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, behind_about, behind_one, seed_done, NULL);
}
