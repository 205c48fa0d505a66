/*
 * A machine so busy that a thread runs again only long after its page has come: the page stays
 * until the access that faulted has been made, so every thread gets on, under every protocol that
 * may take pages away at any time.  Two nodes count up their words of one page; then each moves
 * words from one page to another, from and to the other's, by instructions that need both at a
 * time.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define TURNS   20u
#define LATE_NS 1000000u

struct late {
	struct world *world;
};

struct late_thread {
	struct late *late;
	unsigned me;
};

static void count_main(void *arg)
{
	const struct late_thread *thread = arg;
	struct roami_node *node = world_node(thread->late->world, thread->me);
	uint64_t at = thread->me * 2048u;

	for (uint32_t i = 0; i < TURNS; i++) {
		uint32_t value;

		world_load(node, at, &value, sizeof(value));
		if (value != i)
			world_fail(thread->late->world, "word %u is %u, not %u", thread->me, value,
				   i);
		value++;
		world_store(node, at, &value, sizeof(value));
	}
}

/* Each node has a word on both pages, and finds there the value that it moved. */
static void move_main(void *arg)
{
	const struct late_thread *thread = arg;
	struct roami_node *node = world_node(thread->late->world, thread->me);
	uint64_t from = thread->me * ROAMI_PAGE + thread->me * 2048u;
	uint64_t to = (1 - thread->me) * ROAMI_PAGE + thread->me * 2048u;

	for (uint32_t i = 1; i <= TURNS; i++) {
		uint32_t value;

		world_store(node, from, &i, sizeof(i));
		world_move(node, to, from);
		world_load(node, to, &value, sizeof(value));
		if (value != i)
			world_fail(thread->late->world, "node %u moved %u, and finds %u",
				   thread->me, i, value);
	}
}

static bool late_run(const struct roam_protocol *protocol, uint64_t seed, uint32_t late_ns,
		     void (*fn)(void *arg))
{
	struct late late;
	struct late_thread threads[2] = {{&late, 0}, {&late, 1}};
	struct world_config config;
	bool good;

	world_draw(&config, seed, protocol);
	config.nodes = 2;
	config.threads[0] = config.threads[1] = 1;
	config.creator_pages = 0;
	config.cache_pages = 0;
	config.late_ns = late_ns;
	config.steps_max = 1000000;
	late.world = world_open(&config);
	if (late.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < 2; i++)
		world_spawn(late.world, i, fn, &threads[i]);
	good = world_run(late.world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed,
		       world_error(late.world), seed_replay());
	world_close(late.world);
	return good;
}

static bool late_about(const struct roam_protocol *protocol)
{
	return protocol->writes == ROAM_WRITES_FAULT;
}

static bool late_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	return late_run(protocol, seed, LATE_NS, count_main) &&
	       late_run(protocol, seed, LATE_NS, move_main) &&
	       late_run(protocol, seed, 0, move_main);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, late_about, late_one, seed_done, NULL);
}
