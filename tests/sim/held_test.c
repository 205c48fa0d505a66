/*
 * A fault makes its page pending, looks whether it has access, and asks the protocol for it.  A
 * message's handler may close the page in between, pending or not, and be at work on it still.
 * Threads of a world give way nowhere there, so this test plays such faults: it makes a page
 * pending, waits until it is closed, and calls the protocol as a fault does.  Whatever comes then,
 * each thread that has the lock reads what the last holder wrote.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/region.h"
#include "page/page.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define START_ID 4096u
#define LOCK_ID  8192u
#define PAGE     4u
#define VALUE_AT (PAGE * ROAM_PAGE_SIZE + 256)
#define THREADS  2u
#define ROUNDS   12u
#define LOOKS    400u /* how often a thread looks whether its pending page is closed */

enum { HOME, NODE, WRITER, NODES };

struct held {
	struct world *world;
	uint32_t value; /* what the last holder wrote */
};

struct actor {
	struct held *held;
	struct roami_node *node;
	struct rng rng;
};

static void held_must(struct actor *actor, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(actor->held->world, "%s", roam_strerror(err));
}

/* A fault of a thread that is not scheduled between what it does first and what it does then. */
static void held_fault(struct actor *actor, bool write)
{
	struct roami_node *node = actor->node;
	const struct roam_protocol *protocol = roami_region_of(node, PAGE)->protocol;

	roami_page_hold(node, PAGE);
	for (unsigned i = 0; i < LOOKS && roami_page_access(node, PAGE) != ROAM_NONE; i++) {
		roami_step(node);
		if (i % 16 == 15)
			world_sleep(actor->held->world, rng_below(&actor->rng, 200));
	}
	if (roami_page_access(node, PAGE) == ROAM_NONE) {
		if (write && roami_writes_of(node, PAGE) == ROAM_WRITES_DIFF)
			atomic_fetch_or(&node->table[PAGE].flags, ROAMI_PAGE_WANT);
		protocol->read_fault(node, PAGE);
	}
	roami_page_done(node, PAGE);
}

static void held_section(struct actor *actor)
{
	struct held *held = actor->held;
	uint32_t found;

	held_must(actor, roami_lock(actor->node, LOCK_ID));
	world_load(actor->node, VALUE_AT, &found, sizeof(found));
	if (found != held->value)
		world_fail(held->world, "node %u reads %u, not %u", actor->node->me, found,
			   held->value);
	held->value++;
	world_store(actor->node, VALUE_AT, &held->value, sizeof(held->value));
	held_must(actor, roami_unlock(actor->node, LOCK_ID));
}

/* The home touches the page first. */
static void held_main(void *arg)
{
	struct actor *actor = arg;

	if (actor->node->me == HOME)
		world_store(actor->node, VALUE_AT, &actor->held->value, sizeof(uint32_t));
	held_must(actor, roami_barrier(actor->node, START_ID, 0));
	for (unsigned round = 0; round < ROUNDS; round++) {
		held_section(actor);
		if (actor->node->me != HOME)
			held_fault(actor, rng_one_in(&actor->rng, 2));
	}
	held_must(actor, roami_barrier(actor->node, START_ID, 0));
}

static bool held_about(const struct roam_protocol *protocol)
{
	return protocol->read_fault != NULL;
}

static bool held_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	const struct world_mates mates = {.nodes = NODES, .node = NODE, .threads = THREADS};
	static const unsigned nodes[] = {HOME, NODE, NODE, WRITER};
	struct actor actors[sizeof(nodes) / sizeof(nodes[0])];
	struct world_config config;
	struct held held = {NULL, 0};
	bool good;

	(void)arg;
	world_mates(&config, seed, protocol, &mates);
	config.cache_pages = 0;
	config.trace = options->trace;
	held.world = world_open(&config);
	if (held.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		actors[i] = (struct actor){&held, world_node(held.world, nodes[i]),
					   {seed * 64 + i}};
		world_spawn(held.world, nodes[i], held_main, &actors[i]);
	}
	good = seed_world(held.world, &config);
	world_close(held.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 50};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, held_about, held_one, seed_done, NULL);
}
