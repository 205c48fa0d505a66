/*
 * A thread writes with a lock held.  Meanwhile a second thread of its node releases, and goes on
 * only when other nodes know of the release; a third thread acquires a notice of the page, and
 * sends home the diff of later writes.  When the first thread unlocks, no diff is left to send, but
 * a notice must still go out: the next node that has the lock, and a copy of the page, must read
 * the newest value.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define START_ID  4096u
#define PAGE_AT   (4 * ROAM_PAGE_SIZE)
#define WRITER_AT PAGE_AT
#define HOME_AT   (PAGE_AT + 512)
#define US        1000u

enum { NODE, HOME, READER, SLOW, NODES };
enum { WRITER, RELEASER, TAKER, AT_HOME, READS, IDLE, ACTORS };

struct told {
	struct world *world;
	uint64_t writers; /* locks, whose homes are near */
	uint64_t homes;
	uint64_t flag; /* its setter waits */
};

struct actor {
	struct told *told;
	struct roami_node *node;
	uint64_t start; /* of the story */
	struct rng rng;
};

static void told_must(struct actor *actor, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(actor->told->world, "%s", roam_strerror(err));
}

/* Waits until so long after the start, or a little longer. */
static void until(struct actor *actor, uint64_t us)
{
	uint64_t at = actor->start + us * US + rng_below(&actor->rng, 40 * US);
	uint64_t now = world_now(actor->told->world);

	world_sleep(actor->told->world, at > now ? at - now : 0);
}

static void store(struct actor *actor, uint64_t at, uint32_t value)
{
	world_store(actor->node, at, &value, sizeof(value));
}

static void expect(struct actor *actor, uint64_t at, uint32_t value)
{
	uint32_t found;

	world_load(actor->node, at, &found, sizeof(found));
	if (found != value)
		world_fail(actor->told->world, "node %u reads %u at %lu, not %u", actor->node->me,
			   found, (unsigned long)(at - PAGE_AT), value);
}

static void lock(struct actor *actor, uint64_t id)
{
	told_must(actor, roami_lock(actor->node, id));
}

static void unlock(struct actor *actor, uint64_t id)
{
	told_must(actor, roami_unlock(actor->node, id));
}

static void act_writer(struct actor *actor)
{
	until(actor, 100);
	lock(actor, actor->told->writers);
	store(actor, WRITER_AT, 1);
	until(actor, 300);
	store(actor, WRITER_AT, 2);
	until(actor, 1000);
	unlock(actor, actor->told->writers);
}

static void act_releaser(struct actor *actor)
{
	until(actor, 200);
	told_must(actor, roami_flag_set(actor->node, actor->told->flag));
}

static void act_taker(struct actor *actor)
{
	until(actor, 500);
	lock(actor, actor->told->homes);
	until(actor, 2000);
	unlock(actor, actor->told->homes);
}

static void act_home(struct actor *actor)
{
	until(actor, 300);
	lock(actor, actor->told->homes);
	store(actor, HOME_AT, 7);
	unlock(actor, actor->told->homes);
}

static void act_reader(struct actor *actor)
{
	until(actor, 400);
	lock(actor, actor->told->homes);
	expect(actor, HOME_AT, 7);
	unlock(actor, actor->told->homes);
	until(actor, 1200);
	lock(actor, actor->told->writers);
	expect(actor, WRITER_AT, 2);
	unlock(actor, actor->told->writers);
}

static void act_idle(struct actor *actor)
{
	(void)actor;
}

static uint64_t id_at_home(struct roami_node *node, unsigned home)
{
	uint64_t id = 8192;

	while (roami_sync_home(node, id) != home)
		id += 8;
	return id;
}

/* All nodes have a copy of the page, and the same start. */
static void begin(struct actor *actor, bool at_home)
{
	if (at_home)
		store(actor, HOME_AT, 1);
	told_must(actor, roami_barrier(actor->node, START_ID, 0));
	expect(actor, HOME_AT, 1);
	told_must(actor, roami_barrier(actor->node, START_ID, 0));
	actor->start = world_now(actor->told->world);
}

#define ACT(WHAT)                                                     \
	static void WHAT##_main(void *arg)                            \
	{                                                             \
		struct actor *actor = arg;                            \
                                                                      \
		begin(actor, act_##WHAT == act_home);                 \
		act_##WHAT(actor);                                    \
		told_must(actor, roami_barrier(actor->node, START_ID, 0)); \
	}

ACT(writer)
ACT(releaser)
ACT(taker)
ACT(home)
ACT(reader)
ACT(idle)

static bool told_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	static const struct {
		unsigned node;
		void (*act)(void *arg);
	} cast[ACTORS] = {[WRITER] = {NODE, writer_main}, [RELEASER] = {NODE, releaser_main},
			  [TAKER] = {NODE, taker_main},   [AT_HOME] = {HOME, home_main},
			  [READS] = {READER, reader_main}, [IDLE] = {SLOW, idle_main}};
	struct actor actors[ACTORS];
	struct world_config config;
	struct told told;
	const struct world_mates mates = {.nodes = NODES,
					  .node = NODE,
					  .threads = 3,
					  .slow_from = SLOW,
					  .slow_ns = 500 * US};
	bool good;

	(void)arg;
	world_mates(&config, seed, protocol, &mates);
	config.cache_pages = 0;
	config.trace = options->trace;
	told.world = world_open(&config);
	if (told.world == NULL)
		exit(EXIT_FAILURE);
	told.writers = id_at_home(world_node(told.world, 0), NODE);
	told.homes = id_at_home(world_node(told.world, 0), HOME);
	told.flag = id_at_home(world_node(told.world, 0), SLOW);
	for (unsigned i = 0; i < ACTORS; i++) {
		actors[i] = (struct actor){
			&told, world_node(told.world, cast[i].node), 0, {seed * 64 + i}};
		world_spawn(told.world, cast[i].node, cast[i].act, &actors[i]);
	}
	good = seed_world(told.world, &config);
	world_close(told.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, told_one, seed_done, NULL);
}
