/* What a world consists of, for the files that make it up. */
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
	enum fiber_state state;
	uint64_t wake; /* FIBER_SLEEPING: when; others: look again then */
	uint64_t until; /* what it waits for may hold then though nothing changes; 0: no */
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
	struct roami_far *far; /* what each node keeps of each other one, on another host */
	uint8_t *initial;
	struct roami_node *nodes[ROAMI_NODES_MAX];
	struct world_place places[ROAMI_NODES_MAX];
	struct world_fiber *fibers;
	unsigned fiber_count;
	unsigned apps; /* application fibers not done */
	unsigned resting;
	struct world_fiber *current;
	unsigned region; /* where no fiber runs */
	struct roami_fiber *scheduler;
	bool failed;
	char error[4096];
};

/* The surroundings that the library's code of each node runs in. */
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
