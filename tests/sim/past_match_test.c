/*
 * Observing by a pattern, in the world: movers of several nodes move tuples of random keys to one
 * element, each taker wants those of one key, and of one mover or of any.  Every tuple is taken
 * once, by a taker whose pattern matches, and tuples of one pattern in the order of their numbers;
 * no operation waits for ever.  Patterns leave no memory behind: where DeltaValue bounds the
 * tuples' memory, hardly more is in use.  Options: seed_options.h; the pages' protocol does not
 * matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pastset/job/client.h"
#include "pastset/kernel.h"
#include "rng.h"
#include "seed_options.h"
#include "world.h"

#define KEYS    3u
#define MOVERS  3u
#define TUPLES  40u /* of each mover */
#define PADDING 20u
#define PATTERN 15000u /* padding of patterns, so large that leaked ones are noticed */
#define DELTA   12u

/*
 * A record keeps its chunk.  There is one for each tuple from First on, one for what each actor has
 * there, and the open one; some room is lost to smaller chunks, and to slots.
 */
#define CHUNK  (64u << 10)
#define MEMORY ((DELTA + MOVERS + KEYS * MOVERS + 1 + 4) * CHUNK)

struct story {
	struct world *world;
	uint32_t wanted[KEYS][MOVERS]; /* tuples of that key and mover */
	bool taken[MOVERS][TUPLES];
	bool each; /* each taker wants tuples of one mover */
	struct roam_ps_options options;
};

struct actor {
	struct story *story;
	unsigned number, node;
	struct rng rng;
	uint8_t keys[TUPLES];
	uint8_t tuple[PATTERN + 100];
};

/* u32, u8[], u8[], u32: the key, padding, the mover as so many bytes, the tuple's number */
static size_t tuple_make(uint8_t *tuple, uint32_t key, uint32_t padding, uint32_t mover,
			 uint32_t number)
{
	static const uint8_t zeroes[PATTERN] = {0};
	struct roam_ps_cursor cursor;
	size_t bytes = 0;

	roam_ps_cursor_begin(&cursor, tuple, PATTERN + 100);
	roam_ps_put(&cursor, &key, 4);
	roam_ps_put_items(&cursor, zeroes, padding, 1);
	roam_ps_put_items(&cursor, zeroes, mover, 1);
	roam_ps_put(&cursor, &number, 4);
	roam_ps_cursor_end(&cursor, &bytes);
	return bytes;
}

static struct roam_ps_element *actor_enter(struct actor *actor)
{
	struct roam_ps_element *element = NULL;
	char why[300] = "";

	if (roami_past_enter(world_node(actor->story->world, actor->node), "match",
			     "u32, u8[], u8[], u32", &actor->story->options, 0, &element, why,
			     sizeof(why)) != ROAM_OK)
		world_fail(actor->story->world, "enter: %s", why);
	return element;
}

static void mover_main(void *arg)
{
	struct actor *actor = arg;
	struct roam_ps_element *element = actor_enter(actor);

	for (uint32_t i = 0; i < TUPLES; i++) {
		struct roam_ps_request request = {.op = ROAM_PS_MOVE, .tuple = actor->tuple};

		request.bytes = tuple_make(actor->tuple, actor->keys[i],
					   rng_below(&actor->rng, PADDING), actor->number, i);
		if (element->call(element, &request) != ROAM_OK)
			world_fail(actor->story->world, "move");
		if (rng_one_in(&actor->rng, 3))
			world_sleep(actor->story->world, rng_below(&actor->rng, 30000));
	}
	free(element);
}

/* Checks the taker's tuple: it is one for this taker, and no other taker had it. */
static void taker_looks(struct actor *actor, uint8_t *tuple, size_t bytes, uint32_t key)
{
	struct story *story = actor->story;
	uint32_t got = 0, skip, mover, number = 0;
	struct roam_ps_cursor cursor;

	roam_ps_cursor_begin(&cursor, tuple, bytes);
	roam_ps_get(&cursor, &got, 4);
	roam_ps_get_items(&cursor, &skip, 1);
	roam_ps_get_items(&cursor, &mover, 1);
	roam_ps_get(&cursor, &number, 4);
	if (roam_ps_cursor_end(&cursor, NULL) != ROAM_OK || got != key || mover >= MOVERS ||
	    number >= TUPLES || (story->each && mover != actor->number / KEYS) ||
	    story->taken[mover][number])
		world_fail(story->world, "key %u, mover %u, number %u came for key %u", got, mover,
			   number, key);
	story->taken[mover][number] = true;
}

static void taker_main(void *arg)
{
	struct actor *actor = arg;
	struct story *story = actor->story;
	struct roam_ps_element *element = actor_enter(actor);
	uint32_t key = actor->number % KEYS, mover = actor->number / KEYS, left = 0;
	uint64_t last = 0;

	for (unsigned i = 0; i < MOVERS; i++)
		left += !story->each || i == mover ? story->wanted[key][i] : 0;
	while (left > 0) {
		uint8_t tuple[100];
		struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
						  .which = ROAM_PS_MATCH,
						  .number = story->each ? 1 | 4 : 1,
						  .tuple = actor->tuple,
						  .buffer = tuple,
						  .limit = sizeof(tuple)};
		enum roam_err err;

		request.bytes = tuple_make(actor->tuple, key, PATTERN, mover, 99);
		if (rng_one_in(&actor->rng, 2))
			request.timeout_ns = rng_one_in(&actor->rng, 4)
						     ? ROAM_PS_TRY
						     : rng_range(&actor->rng, 1, 50000);
		err = element->call(element, &request);
		if (err == ROAM_ETIMEDOUT) {
			world_sleep(story->world, 1000);
			continue;
		}
		if (err != ROAM_OK || request.observed <= last)
			world_fail(story->world, "%s: tuple %lu after %lu", roam_strerror(err),
				   (unsigned long)request.observed, (unsigned long)last);
		last = request.observed;
		taker_looks(actor, tuple, request.got, key);
		left--;
	}
	free(element);
}

static bool match_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct actor *actors = calloc(MOVERS + KEYS * MOVERS, sizeof(*actors));
	struct rng rng = {seed * 29 + 3};
	struct story story = {.options = {.function = "match", .forget = true}};
	struct world_config config;
	unsigned takers;
	bool good;

	(void)arg;
	if (actors == NULL)
		abort();
	world_draw(&config, seed, protocol);
	if (options->lossy)
		world_lossy(&config);
	memset(config.threads, 0, sizeof(config.threads));
	story.each = rng_one_in(&rng, 2);
	if (rng_one_in(&rng, 2)) {
		story.options.delta = DELTA;
		config.ps_memory = MEMORY; /* memory that is not given back is noticed */
	}
	story.options.place = rng_one_in(&rng, 2) ? ROAM_PS_HASH : ROAM_PS_CREATOR;
	story.world = world_open(&config);
	if (story.world == NULL)
		exit(EXIT_FAILURE);
	takers = story.each ? KEYS * MOVERS : KEYS;
	for (unsigned i = 0; i < MOVERS + takers; i++) {
		struct actor *actor = &actors[i];

		*actor = (struct actor){.story = &story, .node = rng_below(&rng, config.nodes)};
		actor->number = i < MOVERS ? i : i - MOVERS;
		actor->rng.state = rng_next(&rng);
		for (unsigned k = 0; k < TUPLES && i < MOVERS; k++)
			story.wanted[actor->keys[k] = (uint8_t)rng_below(&rng, KEYS)][i]++;
	}
	for (unsigned i = 0; i < MOVERS + takers; i++)
		world_spawn(story.world, actors[i].node, i < MOVERS ? mover_main : taker_main,
			    &actors[i]);
	good = world_run(story.world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed, world_error(story.world),
		       seed_replay());
	world_close(story.world);
	free(actors);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, match_one, seed_done, NULL);
}
