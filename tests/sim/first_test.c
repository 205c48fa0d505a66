/*
 * The first locks of nodes of several threads (rule 5.9).
 *
 * together: the threads of both nodes come to the lock at random times, and each node's have it one
 * after the other.  Later the lock does not wait for anybody.
 * missing: one of node 1's threads computes first: the others have the lock when it took too long,
 * and no more tickets are reserved than one for that thread.
 * beside: that thread waits at a barrier: nobody waits for it.
 * tries: that thread has tried a lock, and computes: nobody waits for it.
 * timed: behind a thread that waits for others at its first lock another one tries the lock, which
 * fails at once, and waits for it with a deadline, which is kept.
 *
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "seed_options.h"
#include "sync/sync_state.h"
#include "world.h"

#define LOCK    ROAM_PAGE_SIZE
#define BARRIER (LOCK + 64)
#define NODES   2u
#define THREADS 3u
#define MS      1000000u
#define APART   (5 * MS) /* threads that begin together come this far apart, at most */
#define FIRST   (10 * MS) /* so long threads wait for others */
#define SOON    (MS / 2) /* what a few sections take */

enum story { TOGETHER, MISSING, BESIDE, TRIES, TIMED, STORIES };

static const char *const stories[STORIES] = {"together", "missing", "beside", "tries", "timed"};

struct first {
	struct world *world;
	enum story story;
	unsigned order[NODES * THREADS]; /* the nodes that had the lock, one after the other */
	unsigned taken;
};

struct first_thread {
	struct first *first;
	unsigned node, number;
};

static void first_must(struct first *first, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(first->world, "%s", roam_strerror(err));
}

/* The thread has the lock.  What is left: tickets that no thread waits for. */
static void first_reserved(struct first *first, struct roami_node *node)
{
	const struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, LOCK);

	if (first->story == MISSING && node->me == 1 && lock->left.count > 1)
		world_fail(first->world, "%lu tickets are reserved for one thread",
			   (unsigned long)lock->left.count);
}

static void first_section(const struct first_thread *thread)
{
	struct first *first = thread->first;
	struct roami_node *node = world_node(first->world, thread->node);

	first_must(first, roami_lock(node, LOCK));
	first_reserved(first, node);
	first->order[first->taken++] = thread->node;
	first_must(first, roami_unlock(node, LOCK));
}

static void first_barrier(const struct first_thread *thread)
{
	struct first *first = thread->first;

	first_must(first, roami_barrier(world_node(first->world, thread->node), BARRIER, 0));
}

/* How often the lock went to another node. */
static unsigned first_moves(const struct first *first)
{
	unsigned moves = 0;

	for (unsigned i = 1; i < first->taken; i++)
		moves += first->order[i] != first->order[i - 1];
	return moves;
}

static void first_before(struct first *first, uint64_t since, uint64_t most)
{
	uint64_t took = world_elapsed(first->world) - since;

	if (took > most)
		world_fail(first->world, "the lock came after %lu us", (unsigned long)took / 1000);
}

/* The thread that the others of node 1 wait for in vain. */
static bool first_odd(const struct first_thread *thread)
{
	return thread->first->story != TOGETHER && thread->node == 1 &&
	       thread->number == THREADS - 1;
}

/* Whether the thread gets the lock so; if it does it lets go of it. */
static bool first_got(const struct first_thread *thread, enum roam_err err)
{
	struct first *first = thread->first;

	if (err == ROAM_EBUSY || err == ROAM_ETIMEDOUT)
		return false;
	first_must(first, err);
	first_must(first, roami_unlock(world_node(first->world, thread->node), LOCK));
	return true;
}

/* Another thread of the node waits at its first lock. */
static void first_timed(const struct first_thread *thread)
{
	struct first *first = thread->first;
	struct roami_node *node = world_node(first->world, thread->node);
	uint64_t since;

	world_sleep(first->world, MS);
	since = world_elapsed(first->world);
	if (first_got(thread, roami_lock_try(node, LOCK)))
		world_fail(first->world, "roami_lock_try took a lock for which another waits");
	first_before(first, since, SOON);
	since = world_elapsed(first->world);
	if (first_got(thread, roami_lock_until(node, LOCK, node->env->now(node) + 2 * MS)))
		world_fail(first->world, "the first lock did not wait for the other threads");
	first_before(first, since, 2 * MS + SOON);
}

/* For a thread that does not come. */
static bool first_waits(const struct first *first)
{
	return first->story == MISSING || first->story == TIMED;
}

static void first_main(void *arg)
{
	const struct first_thread *thread = arg;
	struct first *first = thread->first;
	uint64_t apart = first->story == TOGETHER ? APART : SOON, since;

	if (first_odd(thread)) {
		if (first->story == TRIES)
			(void)first_got(thread, roami_lock_try(world_node(first->world, 1), LOCK));
		if (first->story != BESIDE)
			world_sleep(first->world, 10 * FIRST);
	} else if (first->story == TIMED && thread->node == 1 && thread->number == 1) {
		first_timed(thread);
	} else {
		world_sleep(first->world, rng_below(world_rng(first->world), (uint32_t)apart));
		first_section(thread);
		first_before(first, 0, first_waits(first) ? FIRST + APART : apart + SOON);
	}
	first_barrier(thread);
	if (thread->node != 0 || thread->number != 1)
		return;
	if (first->story == TOGETHER && first_moves(first) != 1)
		world_fail(first->world, "the lock went to the other node %u times",
			   first_moves(first));
	since = world_elapsed(first->world);
	first->taken = 0;
	first_section(thread);
	first_before(first, since, SOON);
}

static bool first_play(const struct roam_protocol *protocol, uint64_t seed, enum story story)
{
	struct first first = {.story = story};
	struct first_thread threads[NODES * THREADS];
	struct world_config config;
	bool good;

	world_pair(&config, seed, protocol);
	config.teams = true;
	config.stall_every = 0;
	config.latency_ns_max = 2000;
	config.slow_ns = 0;
	for (unsigned i = 0; i < NODES; i++)
		config.threads[i] = THREADS;
	first.world = world_open(&config);
	if (first.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < NODES * THREADS; i++) {
		threads[i] = (struct first_thread){&first, i / THREADS, i % THREADS};
		world_spawn(first.world, i / THREADS, first_main, &threads[i]);
	}
	good = world_run(first.world);
	if (!good)
		printf("FAILED seed %lu: %s: %s\n  %s\n", (unsigned long)seed, stories[story],
		       world_error(first.world), seed_replay());
	world_close(first.world);
	return good;
}

static bool first_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	for (enum story story = TOGETHER; story < STORIES; story++)
		if (!first_play(protocol, seed, story))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, first_one, seed_done, NULL);
}
