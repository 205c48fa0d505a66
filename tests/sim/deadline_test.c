/*
 * Nodes that fall silent, in the world: a node that is not heard for longer than the deadline ends
 * the job, in time, whether its way is cut in both directions or in one; a node that is cut off for
 * less, or merely has nothing to say, is not suspected.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define DEADLINE_S  2u
#define MS          1000000u
#define S           1000000000ull
#define BEAT_NS     (S / 2)
#define LATENESS_NS (BEAT_NS + 300 * MS) /* the next beat looks, and the last datagram was late */
#define CUT_MS      1700u
#define TURNS       600u
#define IDLE_S      60u

struct story {
	struct world *world;
	unsigned nodes;
	uint64_t idle_ns; /* between two barriers */
	unsigned turns;
};

struct story_thread {
	struct story *story;
	unsigned me;
};

static void story_main(void *arg)
{
	struct story_thread *thread = arg;
	struct world *world = thread->story->world;
	struct roami_node *node = world_node(world, thread->me);

	for (unsigned i = 0; i < thread->story->turns; i++) {
		enum roam_err err = roami_barrier(node, ROAM_PAGE_SIZE, 0);

		if (err != ROAM_OK)
			world_fail(world, "%s", roam_strerror(err));
		world_sleep(world, thread->story->idle_ns);
	}
}

/* Runs the world with these faults; returns what ended it, "" if nothing, and when. */
static uint64_t story_run(struct story *story, const struct roam_protocol *protocol, uint64_t seed,
			  const char *faulty, char *error, size_t error_bytes)
{
	struct story_thread threads[ROAMI_NODES_MAX];
	struct world_config config;
	uint64_t ended;

	world_draw(&config, seed, protocol);
	world_nodes(&config, story->nodes);
	config.nodes = story->nodes;
	world_lossy(&config);
	config.deadline = DEADLINE_S;
	config.latency_ns_max = 50000;
	config.stall_every = 0;
	config.steps_max = 2000000;
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = 1;
	snprintf(config.faulty, sizeof(config.faulty), "drop=2%%,%sseed=%lu", faulty,
		 (unsigned long)seed);
	story->world = world_open(&config);
	if (story->world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < config.nodes; i++) {
		threads[i] = (struct story_thread){story, i};
		world_spawn(story->world, i, story_main, &threads[i]);
	}
	error[0] = '\0';
	if (!world_run(story->world))
		snprintf(error, error_bytes, "%s", world_error(story->world));
	ended = world_elapsed(story->world);
	world_close(story->world);
	return ended;
}

static bool story_says(uint64_t seed, const char *what, const char *error, uint64_t ended)
{
	printf("FAILED seed %lu: %s: at %lu ms: %s\n  %s\n", (unsigned long)seed, what,
	       (unsigned long)(ended / MS), error[0] != '\0' ? error : "nothing ended it",
	       seed_replay());
	return false;
}

/* Whether the story ended in time, because one of these nodes, which are not heard, was missed. */
static bool story_ended(const char *error, uint64_t ended, unsigned deaf, unsigned mute)
{
	char wanted[80];

	snprintf(wanted, sizeof(wanted), "node %u failed: node %u has been silent for", deaf, mute);
	return strncmp(error, wanted, strlen(wanted)) == 0 &&
	       ended >= CUT_MS * (uint64_t)MS + DEADLINE_S * S - BEAT_NS - 50 * MS &&
	       ended <= CUT_MS * (uint64_t)MS + DEADLINE_S * S + LATENESS_NS;
}

static bool deadline_one(const struct seed_options *options, const struct roam_protocol *protocol,
			 uint64_t seed, void *arg)
{
	struct rng rng = {seed * 7 + 1};
	struct story story = {.nodes = rng_range(&rng, 2, 5)};
	unsigned a = rng_below(&rng, story.nodes),
		 b = (a + rng_range(&rng, 1, story.nodes - 1)) % story.nodes;
	char error[400], faulty[80];
	uint64_t ended;

	(void)options;
	(void)arg;
	story.idle_ns = 10 * MS;
	story.turns = TURNS;
	snprintf(faulty, sizeof(faulty), "cut=%u-%u@%ums,", a, b, CUT_MS);
	ended = story_run(&story, protocol, seed, faulty, error, sizeof(error));
	if (!story_ended(error, ended, a, b) && !story_ended(error, ended, b, a))
		return story_says(seed, faulty, error, ended);
	snprintf(faulty, sizeof(faulty), "cut=%u>%u@%ums,", a, b, CUT_MS);
	ended = story_run(&story, protocol, seed, faulty, error, sizeof(error));
	if (!story_ended(error, ended, b, a))
		return story_says(seed, faulty, error, ended);
	snprintf(faulty, sizeof(faulty), "cut=%u-%u@%ums+%ums,", a, b, CUT_MS,
		 rng_range(&rng, 1, DEADLINE_S * 1000 - 700));
	ended = story_run(&story, protocol, seed, faulty, error, sizeof(error));
	if (error[0] != '\0')
		return story_says(seed, faulty, error, ended);
	story.idle_ns = IDLE_S * S;
	story.turns = 2;
	ended = story_run(&story, protocol, seed, "", error, sizeof(error));
	if (error[0] != '\0' || ended < IDLE_S * S)
		return story_says(seed, "idle", error, ended);
	return true;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, deadline_one, seed_done, NULL);
}
