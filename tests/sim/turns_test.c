/*
 * Which node gets a lock next, where its queue is in a record: a node without a processor keeps
 * nobody waiting, and a node that always comes too late gets the lock all the same, when it has
 * waited for LIMIT.
 *
 * lost: node 1 queues for the lock, and loses its processor for LOST.  Node 0 takes the lock ROUNDS
 * times before that ends.
 * slow: nodes 0 and 2 take the lock again and again; node 1, which loses its processor at each step
 * once it has queued, gets it after LIMIT and what a few steps take; also if each of its waits is
 * shorter than LIMIT, and ends while others change the lock's word.
 * eager: node 1 has said at the head of the queue that the next turn is its own, and loses its
 * processor: a trial takes the lock at once, others a little later.
 * ended: node 1 ends holding the lock; node 2 has a place in the queue that it no longer needs, and
 * tries to take the lock, so nobody waits for node 1.
 * awaited: the same, but node 3 waits behind that place: node 1 fails.
 * late: a thread of node 1 gives up before its turn, while the next one of the node sleeps at the
 * head of the queue: that one is called all the same.
 *
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seed_options.h"
#include "sync/lock_word.h"
#include "world.h"

#define LOCK   ROAM_PAGE_SIZE
#define MS     1000000u
#define LOST   (20 * MS)
#define ROUNDS 100u
#define LIMIT  (2 * MS)
#define STEP   20000u   /* of node 1, when it is slow */
#define MORE   (2 * MS) /* sections that go on, and steps */
#define TAKES  3u       /* of node 1 */
#define THREADS 4u      /* of a world, at most */

/* What runs in a world. */
struct cast {
	const char *what;
	unsigned nodes;
	void (*on_step)(struct roami_node *node);
	enum roam_err (*lock)(struct roami_node *node); /* node 0's, when node 1 is eager */
	uint64_t wait;     /* node 1 gives up after this and waits anew; 0: it does not */
	const char *fails; /* part of the error with which the world ends; NULL: it does not fail */
	struct {
		unsigned node;
		void (*main)(void *arg); /* `arg` is the node; NULL: no thread */
	} threads[THREADS];
};

struct turns {
	struct world *world;
	const struct cast *cast;
	bool queues;     /* node 1 is on its way to the lock */
	bool lost;       /* it has lost its processor */
	bool back;       /* and has got it again */
	unsigned taken;  /* how often node 1 has taken the lock */
};

/* A world runs one thread at a time. */
static struct turns *turns_now;

static void turns_must(enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(turns_now->world, "%s", roam_strerror(err));
}

static bool node_queued(struct roami_node *node)
{
	const struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, LOCK);

	return lock != NULL && lock->queued;
}

static void lost_step(struct roami_node *node)
{
	struct turns *turns = turns_now;

	if (node->me != 1 || !turns->queues || turns->lost || !node_queued(node))
		return;
	turns->lost = true;
	world_sleep(turns->world, LOST);
	turns->back = true;
}

static void slow_step(struct roami_node *node)
{
	if (node->me == 1 && turns_now->queues && node_queued(node))
		world_sleep(turns_now->world, STEP);
}

static void eager_step(struct roami_node *node)
{
	const struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, LOCK);

	if (node->me != 1 || turns_now->lost || lock == NULL || lock->record == NULL ||
	    (roami_lock_word(lock) & WORD_EAGER) == 0)
		return;
	turns_now->lost = true;
	world_sleep(turns_now->world, LOST);
	turns_now->back = true;
}

static void await(const bool *flag)
{
	while (!*flag)
		world_sleep(turns_now->world, 1000);
}

static void turns_take(struct roami_node *node)
{
	turns_must(roami_lock(node, LOCK));
	turns_must(roami_unlock(node, LOCK));
}

/* Holds the lock until `flag` is set. */
static void turns_hold(struct roami_node *node, const bool *flag)
{
	turns_must(roami_lock(node, LOCK));
	turns_now->queues = true;
	await(flag);
	turns_must(roami_unlock(node, LOCK));
}

static void turns_in_time(void)
{
	if (turns_now->back)
		world_fail(turns_now->world, "the lock waited for a node without a processor");
}

/* Another thread of the node gives up while node 0 holds the lock. */
static void turns_give_up(struct roami_node *node)
{
	if (roami_lock_until(node, LOCK, node->env->now(node) + MS) != ROAM_ETIMEDOUT)
		world_fail(turns_now->world, "a thread got a lock that node 0 holds");
	turns_now->lost = true;
}

/* ---------------------------------------------------------------------------- what threads do */

/* Takes the lock when node 0 has it. */
static void follow_main(void *arg)
{
	await(&turns_now->queues);
	turns_take(arg);
}

/* Holds the lock until node 1 has queued, and then takes it again. */
static void lost_other(void *arg)
{
	turns_hold(arg, &turns_now->lost);
	for (unsigned i = 0; i < ROUNDS; i++)
		turns_take(arg);
	turns_in_time();
}

static enum roam_err eager_tries(struct roami_node *node)
{
	return roami_lock_try(node, LOCK);
}

static enum roam_err eager_is_late(struct roami_node *node)
{
	return roami_lock_until(node, LOCK, 1);
}

static enum roam_err eager_waits(struct roami_node *node)
{
	return roami_lock(node, LOCK);
}

/* Holds the lock until node 1 is eager, and then takes it once more. */
static void eager_other(void *arg)
{
	turns_hold(arg, &turns_now->lost);
	turns_must(turns_now->cast->lock(arg));
	turns_must(roami_unlock(arg, LOCK));
	turns_in_time();
}

/* Holds the lock until all others have queued, and node 2 has given up. */
static void ended_other(void *arg)
{
	struct roami_node *node = arg;

	turns_must(roami_lock(node, LOCK));
	turns_now->queues = true;
	await(&turns_now->lost);
	while (turns_now->cast->fails != NULL && !node_queued(world_node(turns_now->world, 3)))
		world_sleep(turns_now->world, 1000);
	turns_must(roami_unlock(node, LOCK));
}

static void ended_main(void *arg)
{
	struct roami_node *node = arg;

	await(&turns_now->queues);
	turns_must(roami_lock(node, LOCK));
	atomic_store(&node->self->ctl->returned, 1);
	roami_lock_check_end(node);
	world_sleep(turns_now->world, MS);
	atomic_store(&node->self->ctl->returned, 0);
	turns_now->back = true;
	turns_must(roami_unlock(node, LOCK));
}

static void ended_gives_up(void *arg)
{
	struct roami_node *node = arg;

	while (!node_queued(world_node(turns_now->world, 1)))
		world_sleep(turns_now->world, 1000);
	turns_give_up(node);
	while (!turns_now->back) {
		if (roami_lock_try(node, LOCK) == ROAM_OK)
			turns_must(roami_unlock(node, LOCK));
		world_sleep(turns_now->world, 100);
	}
}

static void ended_waits(void *arg)
{
	await(&turns_now->lost);
	turns_take(arg);
}

static void slow_other(void *arg)
{
	struct roami_node *node = arg;

	while (turns_now->taken < TAKES) {
		turns_must(roami_lock(node, LOCK));
		world_sleep(turns_now->world, 1000);
		turns_must(roami_unlock(node, LOCK));
		world_sleep(turns_now->world, 500);
		if (world_elapsed(turns_now->world) > 10 * TAKES * (LIMIT + MORE))
			world_fail(turns_now->world, "a slow node got the lock %u times",
				   turns_now->taken);
	}
}

static enum roam_err slow_lock(struct roami_node *node)
{
	uint64_t wait = turns_now->cast->wait;
	enum roam_err err;

	do
		err = roami_lock_until(node, LOCK,
				       wait != 0 ? node->env->now(node) + wait : ROAMI_FOREVER);
	while (err == ROAM_ETIMEDOUT);
	return err;
}

static void slow_main(void *arg)
{
	uint64_t start, took;

	for (unsigned i = 0; i < TAKES; i++) {
		world_sleep(turns_now->world, MS);
		start = world_elapsed(turns_now->world);
		turns_now->queues = true;
		turns_must(slow_lock(arg));
		turns_now->queues = false;
		took = world_elapsed(turns_now->world) - start;
		if (took > LIMIT + MORE)
			world_fail(turns_now->world, "node 1 waited for %lu us",
				   (unsigned long)took / 1000);
		turns_must(roami_unlock(arg, LOCK));
		turns_now->taken++;
	}
}

/* Holds the lock until a thread of node 1 has given up. */
static void late_other(void *arg)
{
	turns_must(roami_lock(arg, LOCK));
	turns_now->queues = true;
	await(&turns_now->lost);
	world_sleep(turns_now->world, MS);
	turns_must(roami_unlock(arg, LOCK));
}

static void late_gives_up(void *arg)
{
	while (!node_queued(arg))
		world_sleep(turns_now->world, 1000);
	world_sleep(turns_now->world, MS);
	turns_give_up(arg);
}

/* ---------------------------------------------------------------------------------- the worlds */

static const struct cast casts[] = {
	{.what = "lost", .nodes = 2, .on_step = lost_step,
	 .threads = {{0, lost_other}, {1, follow_main}}},
	{.what = "eager, tries", .nodes = 2, .on_step = eager_step, .lock = eager_tries,
	 .threads = {{0, eager_other}, {1, follow_main}}},
	{.what = "eager, is late", .nodes = 2, .on_step = eager_step, .lock = eager_is_late,
	 .threads = {{0, eager_other}, {1, follow_main}}},
	{.what = "eager, waits", .nodes = 2, .on_step = eager_step, .lock = eager_waits,
	 .threads = {{0, eager_other}, {1, follow_main}}},
	{.what = "slow", .nodes = 3, .on_step = slow_step,
	 .threads = {{0, slow_other}, {1, slow_main}, {2, slow_other}}},
	{.what = "slow, short waits", .nodes = 3, .on_step = slow_step, .wait = MS / 2,
	 .threads = {{0, slow_other}, {1, slow_main}, {2, slow_other}}},
	{.what = "slow, long waits", .nodes = 3, .on_step = slow_step, .wait = 3 * MS / 2,
	 .threads = {{0, slow_other}, {1, slow_main}, {2, slow_other}}},
	{.what = "ended", .nodes = 3,
	 .threads = {{0, ended_other}, {1, ended_main}, {2, ended_gives_up}}},
	{.what = "awaited", .nodes = 4, .fails = "ended holding lock",
	 .threads = {{0, ended_other}, {1, ended_main}, {2, ended_gives_up}, {3, ended_waits}}},
	{.what = "late", .nodes = 2,
	 .threads = {{0, late_other}, {1, follow_main}, {1, late_gives_up}}},
};

static void turns_config(struct world_config *config, const struct roam_protocol *protocol,
			 uint64_t seed, const struct cast *cast)
{
	world_pair(config, seed, protocol);
	world_nodes(config, cast->nodes);
	for (unsigned i = 0; i < cast->nodes; i++)
		config->threads[i] = 0;
	for (unsigned i = 0; i < THREADS && cast->threads[i].main != NULL; i++)
		config->threads[cast->threads[i].node]++;
	config->hosts = 1;
	config->onesided = true;
	config->lock_slots = 0;
	config->stall_every = 0;
	config->latency_ns_max = 2000;
	config->slow_ns = 0;
	config->on_step = cast->on_step;
}

static bool turns_play(const struct roam_protocol *protocol, uint64_t seed, const struct cast *cast)
{
	struct turns turns = {.cast = cast};
	struct world_config config;
	bool good;

	turns_now = &turns;
	turns_config(&config, protocol, seed, cast);
	turns.world = world_open(&config);
	if (turns.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < THREADS && cast->threads[i].main != NULL; i++)
		world_spawn(turns.world, cast->threads[i].node, cast->threads[i].main,
			    world_node(turns.world, cast->threads[i].node));
	good = world_run(turns.world);
	if (cast->fails != NULL)
		good = !good && strstr(world_error(turns.world), cast->fails) != NULL;
	if (!good)
		printf("FAILED seed %lu: %s: %s\n  %s\n", (unsigned long)seed, cast->what,
		       world_error(turns.world), seed_replay());
	world_close(turns.world);
	return good;
}

/* Under scope consistency the queue goes by messages. */
static bool turns_about(const struct roam_protocol *protocol)
{
	return protocol->model != ROAM_MODEL_SCC;
}

static bool turns_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	for (size_t i = 0; i < sizeof(casts) / sizeof(casts[0]); i++)
		if (!turns_play(protocol, seed, &casts[i]))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, turns_about, turns_one, seed_done, NULL);
}
