/* The state of a world, for the files that implement it. */
#ifndef ROAM_TESTS_WORLD_STATE_H
#define ROAM_TESTS_WORLD_STATE_H

#include "os/fiber.h"
#include "sim.h"
#include "world.h"

enum fiber_state {
	FIBER_RUNNABLE,
	FIBER_WAITING,
	FIBER_SERVICE,
	FIBER_SLEEPING,
	FIBER_RESTING,
	FIBER_DONE
};

struct world_fiber {
	struct world *world;
	struct roami_fiber *fiber;
	unsigned node;
	unsigned thread; /* within the node */
	bool service;
	bool notified;
	uint64_t ticket; /* it waits for a change that names it; ROAMI_NO_TICKET: for any other */
	enum fiber_state state;
	uint64_t wake; /* FIBER_SLEEPING: when it ends; other states: when to look again */
	uint64_t until; /* what it waits for may hold then though nothing changes; UINT64_MAX: no */
	unsigned region;
	void (*fn)(void *arg);
	void *arg;
	uint64_t made; /* accesses */
	const char *doing;
	uint64_t number;
};

struct world_place {
	struct world *world;
	unsigned threads; /* spawned */
};

struct world {
	struct world_config config;
	struct roami_options options;
	struct rng rng;
	uint64_t now, began;
	uint64_t steps;
	uint64_t tick_ns;
	struct roami_sim sim;
	struct roami_layout layout;
	void *bases[ROAMI_NODES_MAX];
	struct roami_far *far; /* what each node keeps of each node of another host */
	uint8_t *initial;
	struct roami_node *nodes[ROAMI_NODES_MAX];
	struct world_place places[ROAMI_NODES_MAX];
	struct world_fiber *fibers;
	unsigned fiber_count;
	unsigned apps; /* application fibers that are not done */
	unsigned resting;
	struct world_fiber *current;
	unsigned region; /* where threads look that are no fiber */
	struct roami_fiber *scheduler;
	bool open; /* the only node's pages are not protected, see world_open_alone */
	bool failed;
	char error[4096];
};

/* The environment in which each node's library code runs. */
extern const struct roami_env world_env;

static inline struct world *world_of(struct roami_node *node)
{
	return ((struct world_place *)node->env_state)->world;
}

/* Lets other fibers run. */
static inline void world_give_way(struct world_fiber *fiber)
{
	roami_fiber_switch(fiber->fiber, fiber->world->scheduler);
}

#endif
