/*
 * Which operations wait for an element, and which go on: scripts of operations that begin one after
 * the other, each at a node that the seed draws, with the outcome of each operation and the time at
 * which it ends.  First come first served, DeltaValue raised and lowered while movers wait, mobs
 * that end half done, several that wait for one tuple.  Options: seed_options.h; the pages'
 * protocol does not matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pastset/job/client.h"
#include "rng.h"
#include "seed_options.h"
#include "world.h"

#define ACTIONS_MAX 10u
#define MS          1000000u
#define SLACK_NS    (MS / 2) /* messages and all the work take less */
#define DELAY_NS    (SLACK_NS / 25) /* so short that all enter in the first MS */

/* An operation, when it begins and ends (in milliseconds), and its outcome. */
struct action {
	unsigned begins, ends;
	struct roam_ps_request request;
	enum roam_err err;
	uint64_t moved, observed;
};

struct script {
	const char *what;
	uint64_t delta;
	struct action actions[ACTIONS_MAX];
};

#define MOVE(b, e, n)                                     \
	{                                                 \
		b, e, {.op = ROAM_PS_MOVE}, ROAM_OK, n, 0 \
	}
#define MOVE_MS(b, e, t, n)                                       \
	{                                                         \
		b, e, {.op = ROAM_PS_MOVE, .timeout_ns = (t)*MS}, \
			(n) != 0 ? ROAM_OK : ROAM_ETIMEDOUT, n, 0 \
	}
#define FIFO(b, e, n)                                        \
	{                                                    \
		b, e, {.op = ROAM_PS_OBSERVE}, ROAM_OK, 0, n \
	}
#define LAST(b, e, f, n)                                                                          \
	{                                                                                         \
		b, e, {.op = ROAM_PS_OBSERVE, .which = ROAM_PS_LAST, .flags = (f)}, ROAM_OK, 0, n \
	}
#define NUMBER(b, e, n)                                                                            \
	{                                                                                          \
		b, e, {.op = ROAM_PS_OBSERVE, .which = ROAM_PS_NUMBER, .number = (n)}, ROAM_OK, 0, \
			n                                                                          \
	}
#define NEXT(b, e, after, n)                                                                      \
	{                                                                                         \
		b, e, {.op = ROAM_PS_OBSERVE, .which = ROAM_PS_NEXT, .number = (after)}, ROAM_OK, \
			0, n                                                                      \
	}
#define MOB(b, e, t, err, m, o)                                            \
	{                                                                  \
		b, e, {.op = ROAM_PS_MOB, .timeout_ns = (t)*MS}, err, m, o \
	}
#define DELTA(b, d)                                                       \
	{                                                                 \
		b, b, {.op = ROAM_PS_DELTA, .number = (d)}, ROAM_OK, 0, 0 \
	}
#define TRUNCATE(b, n)                                                       \
	{                                                                    \
		b, b, {.op = ROAM_PS_TRUNCATE, .number = (n)}, ROAM_OK, 0, 0 \
	}

static const struct script scripts[] = {
	{"observers are served in the order in which they came",
	 0,
	 {FIFO(1, 5, 1), FIFO(2, 6, 2), FIFO(3, 7, 3), FIFO(4, 8, 4), MOVE(5, 5, 1), MOVE(6, 6, 2),
	  MOVE(7, 7, 3), MOVE(8, 8, 4)}},
	{"movers are served in the order in which they came",
	 1,
	 {MOVE(1, 1, 1), MOVE(2, 6, 2), MOVE(3, 7, 3), MOVE(4, 8, 4), FIFO(6, 6, 1), FIFO(7, 7, 2),
	  FIFO(8, 8, 3)}},
	{"DeltaValue lets so many wait to be observed",
	 2,
	 {MOVE(1, 1, 1), MOVE(2, 2, 2), MOVE(3, 4, 3), FIFO(4, 4, 1), MOVE_MS(5, 6, 1, 0)}},
	{"a greater DeltaValue lets as many go on",
	 1,
	 {MOVE(1, 1, 1), MOVE(2, 5, 2), MOVE(3, 5, 3), MOVE(4, 6, 4), DELTA(5, 3), FIFO(6, 6, 1)}},
	{"a smaller one removes nothing, and then holds",
	 0,
	 {MOVE(1, 1, 1), MOVE(2, 2, 2), DELTA(3, 1), MOVE(4, 7, 3), FIFO(5, 5, 1), NUMBER(6, 6, 1),
	  FIFO(7, 7, 2)}},
	{"truncating lets movers go on",
	 1,
	 {MOVE(1, 1, 1), MOVE(2, 5, 2), MOVE(3, 7, 3), TRUNCATE(5, 2), TRUNCATE(7, UINT64_MAX),
	  FIFO(8, 8, 3)}},
	{"a peek holds DeltaValue, the newest alone too",
	 1,
	 {MOVE(1, 1, 1), LAST(2, 2, ROAM_PS_PEEK, 1), MOVE(3, 5, 2), LAST(5, 5, 0, 1)}},
	{"a skip lets movers go on",
	 3,
	 {MOVE(1, 1, 1), MOVE(2, 2, 2), MOVE(3, 3, 3), MOVE(4, 5, 4), LAST(5, 5, ROAM_PS_SKIP, 3),
	  FIFO(6, 6, 4)}},
	{"the newest without skipping leaves the oldest",
	 3,
	 {MOVE(1, 1, 1), MOVE(2, 2, 2), MOVE(3, 3, 3), MOVE(4, 6, 4), LAST(5, 5, 0, 3),
	  FIFO(6, 6, 1)}},
	{"the first to come takes it from a later one",
	 0,
	 {LAST(1, 3, ROAM_PS_SKIP, 1), FIFO(2, 4, 2), MOVE(3, 3, 1), MOVE(4, 4, 2)}},
	{"and leaves it if it only looks",
	 0,
	 {LAST(1, 3, ROAM_PS_PEEK, 1), FIFO(2, 3, 1), MOVE(3, 3, 1)}},
	{"several wait for one number, and for the next",
	 0,
	 {NUMBER(1, 5, 2), NUMBER(2, 5, 2), NEXT(3, 4, 0, 1), NEXT(3, 5, 1, 2), MOVE(4, 4, 1),
	  MOVE(5, 5, 2)}},
	{"a mob waits for its own tuple's turn",
	 0,
	 {MOVE(1, 1, 1), MOB(2, 2, 0, ROAM_OK, 2, 1), FIFO(3, 3, 2)}},
	{"a mob that waits has moved",
	 0,
	 {MOB(1, 1, 0, ROAM_OK, 1, 1), MOVE(2, 2, 2), FIFO(3, 3, 2)}},
	{"of a mob that ends in its first half nothing was done",
	 1,
	 {MOVE(1, 1, 1), MOB(2, 4, 2, ROAM_ETIMEDOUT, 0, 0), FIFO(5, 5, 1), MOVE(6, 6, 2)}},
	{"a mob's first half may wait, and its second",
	 1,
	 {MOVE(1, 1, 1), MOB(2, 3, 0, ROAM_OK, 2, 2), FIFO(3, 3, 1)}},
	{"one that is served lets an earlier one go on",
	 1,
	 {MOVE(1, 1, 1), NUMBER(2, 4, 2), MOVE(3, 4, 2), FIFO(4, 4, 1)}},
	{"deadlines pass in their own order",
	 1,
	 {MOVE(1, 1, 1), MOVE_MS(2, 8, 6, 0), MOVE_MS(3, 5, 2, 0), MOVE_MS(4, 7, 3, 0)}},
	{"those that gave up are not in the way",
	 1,
	 {MOVE(1, 1, 1), MOVE_MS(2, 4, 2, 0), MOVE(3, 6, 2), FIFO(6, 6, 1), FIFO(7, 7, 2)}},
};

/* On two elements: a mob whose second half waits. */
static const struct script halves[] = {
	{"a mob that ends in its second half has moved", 0, {MOB(1, 3, 2, ROAM_ETIMEDOUT, 1, 0)}},
	{"its halves share one timeout",
	 1,
	 {MOVE(1, 1, 1), MOB(2, 6, 4, ROAM_ETIMEDOUT, 2, 0), FIFO(4, 4, 1)}},
	{"and may not wait at all",
	 0,
	 {{1, 1, {.op = ROAM_PS_MOB, .timeout_ns = ROAM_PS_TRY}, ROAM_ETIMEDOUT, 1, 0}}},
};

struct play {
	struct world *world;
	const struct script *script;
	bool two; /* mobs observe another element */
	unsigned owner, other;
};

struct actor {
	struct play *play;
	const struct action *action;
	unsigned index, node;
};

static struct roam_ps_element *play_enter(struct actor *actor, const char *name, unsigned owner)
{
	struct roam_ps_options options = {
		.place = ROAM_PS_NODE, .node = owner, .delta = actor->play->script->delta};
	struct roam_ps_element *element = NULL;
	char why[100];

	if (roami_past_enter(world_node(actor->play->world, actor->node), name, "u8", &options, 0,
			     &element, why, sizeof(why)) != ROAM_OK)
		world_fail(actor->play->world, "%s: %s", name, why);
	return element;
}

static void actor_main(void *arg)
{
	struct actor *actor = arg;
	const struct action *action = actor->action;
	struct play *play = actor->play;
	struct roam_ps_element *element = play_enter(actor, "element", play->owner);
	struct roam_ps_element *other = play_enter(actor, "other", play->other);
	struct roam_ps_request request = action->request;
	uint8_t tuple = 1;
	uint64_t ended;
	enum roam_err err;

	request.tuple = request.buffer = &tuple;
	request.bytes = request.limit = 1;
	request.from = play->two ? other : NULL;
	world_sleep(play->world, action->begins * (uint64_t)MS - world_elapsed(play->world));
	err = element->call(element, &request);
	ended = world_elapsed(play->world);
	if (err != action->err || request.moved != action->moved ||
	    request.observed != action->observed || ended < action->ends * (uint64_t)MS ||
	    ended > action->ends * (uint64_t)MS + SLACK_NS)
		world_fail(play->world, "%s: operation %u: %s, moved %lu, observed %lu, at %lu us",
			   play->script->what, actor->index, roam_strerror(err),
			   (unsigned long)request.moved, (unsigned long)request.observed,
			   (unsigned long)(ended / 1000));
	free(element);
	free(other);
}

static bool play_script(const struct script *script, const struct roam_protocol *protocol,
			uint64_t seed, bool two)
{
	struct actor actors[ACTIONS_MAX];
	struct rng rng = {seed * 13 + 1};
	struct play play = {.script = script, .two = two};
	struct world_config config;
	bool good;

	world_draw(&config, seed, protocol);
	world_nodes(&config, rng_range(&rng, 1, 4));
	config.latency_ns_max = DELAY_NS;
	if (config.slow_ns > DELAY_NS)
		config.slow_ns = DELAY_NS;
	config.stall_every = 0;
	memset(config.threads, 0, sizeof(config.threads));
	play.owner = rng_below(&rng, config.nodes);
	play.other = rng_below(&rng, config.nodes);
	play.world = world_open(&config);
	if (play.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < ACTIONS_MAX && script->actions[i].begins != 0; i++) {
		actors[i] = (struct actor){&play, &script->actions[i], i,
					   rng_below(&rng, config.nodes)};
		world_spawn(play.world, actors[i].node, actor_main, &actors[i]);
	}
	good = world_run(play.world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed, world_error(play.world),
		       seed_replay());
	world_close(play.world);
	return good;
}

static bool order_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	bool good = true;

	(void)options;
	(void)arg;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
		good = play_script(&scripts[i], protocol, seed, false) && good;
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++)
		good = play_script(&halves[i], protocol, seed, true) && good;
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, order_one, seed_done, NULL);
}
