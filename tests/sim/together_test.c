/*
 * Threads of one node wait for a flag or a condition whose home is another node: together they send
 * what one of them would (rule 5.8), and none of them misses a signal or passes a flag too early.
 * Each story is a schedule, over messages that one pair of nodes exchanges slowly.
 *	waits       threads wait for a flag that is set later: one asks
 *	cleared     one asks when the flag is set; before the answer is there, another node
 *	            clears the flag, and a second thread that knows of that waits for the next set
 *	broadcast   threads wait for a condition: one enters, one message wakes all
 *	signals     signals wake them one by one, two of them before the first has arrived
 *	given_up    a signal comes to a node whose thread has given up: a thread of another node
 *	            gets it
 *	within      a thread signals another one of its node, which others follow
 *	unknown     a node leaves a condition that its home does not know: the home makes none
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg/msg.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "sync/sync_state.h"
#include "world.h"

#define START_ID 4096u
#define DATA_AT  (4 * ROAM_PAGE_SIZE)
#define US       1000u

/* The threads of NODE, then one of each other node.  HOME's messages to NODE are slow. */
enum { NODE, HOME, OTHER, NODES };
#define MATES  4u
#define ACTORS (MATES + 2)
enum { AT_HOME = MATES, AT_OTHER };

struct story;

struct together {
	struct world *world;
	uint64_t flag, cond; /* whose home is HOME */
	uint64_t lock;       /* whose home is OTHER */
	const struct story *story;
};

struct actor {
	struct together *all;
	struct roami_node *node;
	unsigned number;
	uint64_t start;
	struct rng rng;
};

struct story {
	const char *name;
	void (*act)(struct actor *actor);
	struct {
		const char *type;
		unsigned node, count;
	} sent[2];
};

static void must(struct actor *actor, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(actor->all->world, "thread %u: %s", actor->number, roam_strerror(err));
}

/* Waits until so long after the start, or a little longer. */
static void until(struct actor *actor, uint64_t us)
{
	uint64_t at = actor->start + us * US + rng_below(&actor->rng, 20 * US);
	uint64_t now = world_now(actor->all->world);

	world_sleep(actor->all->world, at > now ? at - now : 0);
}

static void store(struct actor *actor, uint32_t value)
{
	world_store(actor->node, DATA_AT, &value, sizeof(value));
}

static void expect(struct actor *actor, uint32_t value)
{
	uint32_t found;

	world_load(actor->node, DATA_AT, &found, sizeof(found));
	if (found != value)
		world_fail(actor->all->world, "thread %u reads %u, not %u", actor->number, found,
			   value);
}

/* ---------------------------------------------------------------------------------------- flags */

static void set(struct actor *actor, uint64_t at, uint32_t value)
{
	until(actor, at);
	store(actor, value);
	must(actor, roami_flag_set(actor->node, actor->all->flag));
}

static void await(struct actor *actor, uint64_t at, uint32_t value)
{
	until(actor, at);
	must(actor, roami_flag_wait(actor->node, actor->all->flag));
	expect(actor, value);
}

static void act_waits(struct actor *actor)
{
	if (actor->number < MATES)
		await(actor, 200, 1);
	if (actor->number == AT_HOME)
		set(actor, 3000, 1);
}

static void pass_lock(struct actor *actor)
{
	must(actor, roami_lock(actor->node, actor->all->lock));
	must(actor, roami_unlock(actor->node, actor->all->lock));
}

static void act_cleared(struct actor *actor)
{
	if (actor->number == AT_HOME) {
		set(actor, 0, 1);
		set(actor, 4000, 2);
	}
	if (actor->number == 0) {
		until(actor, 1000);
		must(actor, roami_flag_wait(actor->node, actor->all->flag));
	}
	if (actor->number == AT_OTHER) {
		until(actor, 1100);
		must(actor, roami_flag_clear(actor->node, actor->all->flag));
		pass_lock(actor);
	}
	if (actor->number == 1) {
		until(actor, 1400); /* from there it knows of the clear */
		pass_lock(actor);
	}
	if (actor->number == 1 || actor->number == AT_OTHER)
		await(actor, 1500, 2);
}

/* ----------------------------------------------------------------------------------- conditions */

/* Waits for a turn, of which DATA_AT holds how many there are left. */
static void take_turn(struct actor *actor, uint64_t at)
{
	uint32_t left;

	until(actor, at);
	must(actor, roami_lock(actor->node, actor->all->lock));
	for (;;) {
		world_load(actor->node, DATA_AT, &left, sizeof(left));
		if (left > 0)
			break;
		must(actor, roami_cond_wait(actor->node, actor->all->cond, actor->all->lock));
	}
	store(actor, left - 1);
	must(actor, roami_unlock(actor->node, actor->all->lock));
}

static void give_turns(struct actor *actor, uint64_t at, uint32_t turns, bool all)
{
	uint32_t left;

	until(actor, at);
	must(actor, roami_lock(actor->node, actor->all->lock));
	world_load(actor->node, DATA_AT, &left, sizeof(left));
	store(actor, left + turns);
	must(actor, roami_cond_post(actor->node, actor->all->cond, all));
	must(actor, roami_unlock(actor->node, actor->all->lock));
}

static void act_broadcast(struct actor *actor)
{
	if (actor->number < MATES)
		take_turn(actor, 200);
	if (actor->number == AT_HOME)
		give_turns(actor, 30000, MATES, true);
}

static void act_signals(struct actor *actor)
{
	if (actor->number < MATES)
		take_turn(actor, 200);
	if (actor->number == AT_HOME)
		for (unsigned i = 0; i < MATES; i++)
			give_turns(actor, i < 2 ? 30000 : 60000 + 10000 * i, 1, false);
}

static void act_given_up(struct actor *actor)
{
	uint64_t end = actor->start + 30200 * US;

	if (actor->number == 0) {
		must(actor, roami_lock(actor->node, actor->all->lock));
		if (roami_cond_wait_until(actor->node, actor->all->cond, actor->all->lock, end) ==
		    ROAM_OK)
			must(actor, roami_cond_post(actor->node, actor->all->cond, false));
		must(actor, roami_unlock(actor->node, actor->all->lock));
	}
	if (actor->number == AT_OTHER)
		take_turn(actor, 15000);
	if (actor->number == AT_HOME)
		give_turns(actor, 30100, 1, false);
}

static void act_within(struct actor *actor)
{
	if (actor->number == 0)
		for (unsigned i = 1; i < MATES; i++)
			give_turns(actor, 30000 + 100 * i, 1, false);
	else if (actor->number < MATES)
		take_turn(actor, 200);
	else if (actor->number == AT_OTHER)
		take_turn(actor, 60000);
	else
		give_turns(actor, 90000, 1, false);
}

static unsigned type_of(struct roami_node *node, const char *name)
{
	unsigned type = 0;

	while (roami_msg_named(node, type) == NULL ||
	       strcmp(roami_msg_named(node, type)->name, name) != 0)
		type++;
	return type;
}

/* OTHER says that its threads no longer wait for a condition that HOME does not know. */
static void act_unknown(struct actor *actor)
{
	uint32_t leave[6] = {(uint32_t)actor->all->cond};
	struct roam_part part = {leave, sizeof(leave)};

	if (actor->number == AT_OTHER)
		roami_msg_send(actor->node, HOME, type_of(actor->node, "cond leave"), &part, 1);
	if (actor->number != AT_HOME)
		return;
	until(actor, 10000);
	if (atomic_load(&sync_of(actor->node)->conds.count) != 0)
		world_fail(actor->all->world, "a node that leaves makes a condition");
}

static const struct story stories[] = {
	{"waits", act_waits, {{"flag wait", NODE, 1}, {"flag clear", NODE, 0}}},
	{"cleared", act_cleared, {{"flag wait", NODE, 2}, {"flag wait", OTHER, 1}}},
	{"broadcast", act_broadcast, {{"cond enter", NODE, 1}, {"cond wake", HOME, 1}}},
	{"signals", act_signals, {{"cond enter", NODE, 1}, {"cond wake", HOME, MATES}}},
	{"given_up", act_given_up, {{"cond enter", NODE, 1}, {"cond again", NODE, 0}}},
	{"within", act_within, {{"cond enter", NODE, 1}, {"cond post", NODE, 0}}},
	{"unknown", act_unknown, {{"cond leave", OTHER, 1}, {"cond wake", HOME, 0}}},
};

#define STORIES (sizeof(stories) / sizeof(stories[0]))

/* ---------------------------------------------------------------------------------- the worlds */

static void actor_main(void *arg)
{
	struct actor *actor = arg;

	if (actor->number == AT_HOME)
		store(actor, 0); /* the page's home, too */
	must(actor, roami_barrier(actor->node, START_ID, 0));
	actor->start = world_now(actor->all->world);
	actor->all->story->act(actor);
	must(actor, roami_barrier(actor->node, START_ID, 0));
}

/* Messages of this name that the node has sent; UINT64_MAX: none has that name. */
static uint64_t sent_of(const struct roami_node *node, const char *name)
{
	uint64_t sent = 0;
	bool known = false;

	for (unsigned type = 0; type < ROAMI_STATS_TYPES_MAX; type++) {
		if (roami_msg_named(node, type) == NULL ||
		    strcmp(roami_msg_named(node, type)->name, name) != 0)
			continue;
		sent += roami_stats_sum_type(node->stats, type);
		known = true;
	}
	return known ? sent : UINT64_MAX;
}

static bool sent_right(const struct together *all)
{
	bool good = true;

	for (unsigned i = 0; i < 2; i++) {
		struct roami_node *node = world_node(all->world, all->story->sent[i].node);
		uint64_t sent = sent_of(node, all->story->sent[i].type);

		if (sent == all->story->sent[i].count)
			continue;
		printf("%s: node %u sent %lu \"%s\", not %u\n", all->story->name, node->me,
		       (unsigned long)sent, all->story->sent[i].type, all->story->sent[i].count);
		good = false;
	}
	return good;
}

static uint64_t id_at_home(struct roami_node *node, unsigned home)
{
	uint64_t id = 8192;

	while (roami_sync_home(node, id) != home)
		id += 8;
	return id;
}

static bool together_story(const struct seed_options *options, const struct roam_protocol *protocol,
			   uint64_t seed, const struct story *story)
{
	struct actor actors[ACTORS];
	struct world_config config;
	struct together all = {.story = story};
	const struct world_mates mates = {.nodes = NODES,
					  .node = NODE,
					  .threads = MATES,
					  .slow_from = HOME,
					  .slow_ns = 2000 * US};
	bool good;

	world_mates(&config, seed, protocol, &mates);
	config.trace = options->trace;
	all.world = world_open(&config);
	if (all.world == NULL)
		exit(EXIT_FAILURE);
	all.flag = id_at_home(world_node(all.world, 0), HOME);
	all.cond = all.flag;
	all.lock = id_at_home(world_node(all.world, 0), OTHER);
	for (unsigned i = 0; i < ACTORS; i++) {
		unsigned at = i < MATES ? NODE : HOME + i - MATES;

		actors[i] = (struct actor){&all, world_node(all.world, at), i, 0, {seed * 64 + i}};
		world_spawn(all.world, at, actor_main, &actors[i]);
	}
	good = seed_world(all.world, &config) && sent_right(&all);
	world_close(all.world);
	return good;
}

static bool together_one(const struct seed_options *options, const struct roam_protocol *protocol,
			 uint64_t seed, void *arg)
{
	bool good = true;

	(void)arg;
	for (unsigned i = 0; i < STORIES; i++)
		good = together_story(options, protocol, seed, &stories[i]) && good;
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, together_one, seed_done, NULL);
}
