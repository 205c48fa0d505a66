/* The environment of a node in a world: waiting, time, and where another fiber may run. */
#include "msg/msg.h"
#include "no_sleep.h"
#include "world_state.h"

#define STUCK_NS     50000u /* a full queue is looked at again, as with real threads */
#define STALL_NS_MAX 200000u

static uint64_t env_now(struct roami_node *node)
{
	return world_of(node)->now;
}

/*
 * Waits for the core: as a real thread would, the fiber polls for its node, looks again for a
 * while, and then sleeps until it is notified.  With a ticket only a change that names the ticket
 * wakes it, and no message does.
 */
static void env_wait(struct roami_node *node, uint64_t ticket, bool (*condition)(void *arg),
		     void *arg)
{
	struct world *world = world_of(node);
	struct world_fiber *fiber = world->current;

	fiber->ticket = ticket;
	for (;;) {
		fiber->notified = false;
		if (condition(arg))
			break;
		if (!rng_one_in(&world->rng, 3) && roami_msg_poll(node) > 0)
			continue;
		if (fiber->notified)
			continue;
		if (rng_one_in(&world->rng, 2)) {
			world_give_way(fiber);
			continue;
		}
		fiber->state = FIBER_WAITING;
		fiber->wake = world->now + STUCK_NS;
		world_give_way(fiber);
		fiber->state = FIBER_RUNNABLE;
	}
	fiber->ticket = ROAMI_NO_TICKET;
}

static void env_changed(struct roami_node *node, unsigned peer, uint64_t ticket)
{
	struct world *world = world_of(node);

	for (unsigned i = 0; i < world->fiber_count; i++)
		if (world->fibers[i].node == peer && world->fibers[i].ticket == ticket)
			world->fibers[i].notified = true;
}

static void env_until(struct roami_node *node, uint64_t when)
{
	world_of(node)->current->until = when;
}

/* The scheduler sees which fibers wait; no process needs waking. */
static const struct roami_sleep env_sleep = {
	.wait = env_wait,
	.changed = env_changed,
	.until = env_until,
	.sent = no_sleep_sent,
	.begin = no_sleep_begin,
	.end = no_sleep_end,
};

static void env_step(struct roami_node *node)
{
	struct world *world = world_of(node);
	struct world_fiber *fiber = world->current;

	if (world->config.on_step != NULL)
		world->config.on_step(node);
	if (fiber == NULL || world->config.step_every == 0 ||
	    !rng_one_in(&world->rng, world->config.step_every))
		return;
	if (world->config.stall_every != 0 && rng_one_in(&world->rng, world->config.stall_every)) {
		fiber->state = FIBER_SLEEPING;
		fiber->wake = world->now + rng_below(&world->rng, STALL_NS_MAX);
	}
	world_give_way(fiber);
	fiber->state = FIBER_RUNNABLE;
}

static void env_spin(struct roami_node *node, unsigned turn)
{
	(void)turn;
	roami_assert(world_of(node)->current != NULL);
	world_give_way(world_of(node)->current);
}

static unsigned env_thread(struct roami_node *node)
{
	return world_of(node)->current->thread;
}

static unsigned *env_region(struct roami_node *node)
{
	struct world *world = world_of(node);

	return world->current != NULL ? &world->current->region : &world->region;
}

/* The progress of a fiber is the number of its accesses. */
static uint64_t env_ran(struct roami_node *node)
{
	return 1 + world_of(node)->current->made * ROAMI_RAN_FAR;
}

__attribute__((noreturn)) static void env_fail(struct roami_node *node, const char *text)
{
	world_fail(world_of(node), "node %u failed: %s", node->me, text);
}

const struct roami_env world_env = {
	.now = env_now,
	.sleep = &env_sleep,
	.step = env_step,
	.spin = env_spin,
	.spoil = world_spoil,
	.thread = env_thread,
	.region = env_region,
	.ran = env_ran,
	.fail = env_fail,
};
