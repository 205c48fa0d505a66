/*
 * A page that is open for writing and dirty counts at each step, also while a release of another
 * thread looks at it and leaves it open: else a thread that has written it may believe that its own
 * release has nothing to do.  A lock counts when it is whole: others look at all that are counted.
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "page/page.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "sync/sync_state.h"
#include "world.h"

#define START_ID 4096u
#define LOCK_ID  8192u
#define PAGES    4u
#define THREADS  3u
#define ROUNDS   12u

enum { NODE, HOME, NODES };

struct actor {
	struct world *world;
	struct roami_node *node;
	unsigned number;
	struct rng rng;
};

/* Whether others would lack what is written there if nothing were released. */
static bool open_dirty(struct roami_node *node, uint32_t page)
{
	return roami_page_dirty(node, page) && roami_page_access(node, page) == ROAM_WRITE &&
	       roami_page_entry(node, page)->twin != 0;
}

static void counted_step(struct roami_node *node)
{
	if (atomic_load(&pages_of(node)->dirty_count) != 0)
		return;
	for (uint32_t page = 0; page < PAGES; page++)
		if (open_dirty(node, page))
			roami_node_fail(node, "page %u is dirty and open, and not counted", page);
}

static void counted_make(struct roami_node *node, void *item)
{
	const struct roami_table *table = &sync_of(node)->locks;

	for (uint32_t i = 0; i < table->count; i++)
		if (roami_table_item(table, i) == item)
			roami_node_fail(node, "lock %u is counted, and is being made", i);
	roami_lock_make(node, item);
}

static void counted_must(struct actor *actor, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(actor->world, "%s", roam_strerror(err));
}

/* The home touches the pages first; then each thread writes its words of them under its lock. */
static void counted_main(void *arg)
{
	struct actor *actor = arg;
	uint64_t lock = LOCK_ID + actor->number * 8;

	for (uint32_t page = 0; page < PAGES && actor->node->me == HOME; page++)
		world_store(actor->node, page * ROAM_PAGE_SIZE, &lock, sizeof(lock));
	counted_must(actor, roami_barrier(actor->node, START_ID, 0));
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint64_t page = rng_below(&actor->rng, PAGES), at = 64 * (1 + actor->number);

		counted_must(actor, roami_lock(actor->node, lock));
		world_store(actor->node, page * ROAM_PAGE_SIZE + at, &round, sizeof(round));
		counted_must(actor, roami_unlock(actor->node, lock));
	}
	counted_must(actor, roami_barrier(actor->node, START_ID, 0));
}

static bool counted_about(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_RC && protocol->writes == ROAM_WRITES_DIFF;
}

static bool counted_one(const struct seed_options *options, const struct roam_protocol *protocol,
			uint64_t seed, void *arg)
{
	const struct world_mates mates = {.nodes = NODES, .node = NODE, .threads = THREADS};
	struct actor actors[THREADS + 1];
	struct world_config config;
	struct world *world;
	bool good;

	(void)arg;
	world_mates(&config, seed, protocol, &mates);
	config.cache_pages = 0;
	config.trace = options->trace;
	config.on_step = counted_step;
	world = world_open(&config);
	if (world == NULL)
		exit(EXIT_FAILURE);
	sync_of(world_node(world, NODE))->locks.make = counted_make;
	for (unsigned i = 0; i <= THREADS; i++) {
		unsigned node = i == THREADS ? HOME : NODE;

		actors[i] = (struct actor){world, world_node(world, node), i, {seed * 64 + i}};
		world_spawn(world, node, counted_main, &actors[i]);
	}
	good = seed_world(world, &config);
	world_close(world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 50};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, counted_about, counted_one, seed_done, NULL);
}
