/*
 * A node that takes a lock again at once, where its queue is in a record and another node waits.
 *
 * soon: node 0 takes it again at once, node 1 a while after each of its turns.  Node 0 has several
 * turns for each of node 1, because the lock stays with its node for KEEP_NS; but node 0 goes away
 * now and then, and then node 1 gets the lock soon.
 * long: node 0 has sections longer than a thread looks.  It calls node 1, which sleeps, a few
 * times, not at each unlock; node 1 gets the lock after LIMIT.
 * goes: the same, until node 1 naps; then node 0 takes the lock once more after a while, and goes
 * away: node 1 gets the lock at once, not when its nap is over.
 *
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "seed_options.h"
#include "stats/stats.h"
#include "sync/lock_word.h"
#include "world.h"

#define LOCK    ROAM_PAGE_SIZE
#define LIMIT   2000000u
#define SHORT   200u    /* sections */
#define LONG    120000u
#define AWAY    200000u /* node 0 does not take the lock for so long */
#define REST    20000u
#define TURNS   40u     /* of node 1 */
#define SLACK   60000u  /* what steps, and a call, take */
#define CALLS   8u
#define NAP_MIN 900000u /* node 1 has waited for so long: its nap is long, too */

struct keeps {
	struct world *world;
	unsigned turns[2];  /* of each node */
	uint64_t left;      /* when node 0 went away */
	uint64_t longest;   /* wait of node 1 from then on, or from its beginning */
	uint64_t waits;     /* when node 1 began to wait; 0: it does not */
	bool over;
};

/* A world runs one thread at a time. */
static struct keeps *keeps_now;

static struct roami_node *keeps_node(unsigned node)
{
	return world_node(keeps_now->world, node);
}

static void keeps_lock(unsigned node)
{
	enum roam_err err = roami_lock(keeps_node(node), LOCK);

	if (err != ROAM_OK)
		world_fail(keeps_now->world, "%s", roam_strerror(err));
	keeps_now->turns[node]++;
}

static void keeps_unlock(unsigned node)
{
	enum roam_err err = roami_unlock(keeps_node(node), LOCK);

	if (err != ROAM_OK)
		world_fail(keeps_now->world, "%s", roam_strerror(err));
}

static uint64_t keeps_elapsed(void)
{
	return world_elapsed(keeps_now->world);
}

static bool keeps_queued(unsigned node)
{
	const struct roami_lock *lock = roami_table_find(&sync_of(keeps_node(node))->locks, LOCK);

	return lock != NULL && lock->queued;
}

/* Node 1 waits for the lock once. */
static void keeps_wait(void)
{
	uint64_t since;

	keeps_now->waits = keeps_elapsed();
	keeps_lock(1);
	since = keeps_now->waits > keeps_now->left ? keeps_now->waits : keeps_now->left;
	if (keeps_elapsed() - since > keeps_now->longest)
		keeps_now->longest = keeps_elapsed() - since;
	keeps_now->waits = 0;
}

static void soon_other(void *arg)
{
	(void)arg;
	while (!keeps_now->over) {
		for (unsigned i = 0; i < 50; i++) {
			keeps_lock(0);
			world_sleep(keeps_now->world, SHORT);
			keeps_unlock(0);
		}
		keeps_now->left = keeps_elapsed();
		world_sleep(keeps_now->world, AWAY);
	}
}

static void soon_main(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < TURNS; i++) {
		keeps_wait();
		world_sleep(keeps_now->world, SHORT);
		keeps_unlock(1);
		world_sleep(keeps_now->world, REST);
	}
	keeps_now->over = true;
}

/* Takes the lock, and waits until node 1 is in the queue. */
static void long_begin(void)
{
	keeps_lock(0);
	while (!keeps_queued(1))
		world_sleep(keeps_now->world, 100);
}

static void long_other(void *arg)
{
	uint64_t calls;

	(void)arg;
	long_begin();
	calls = roami_stats_sum(keeps_node(0)->stats, ROAMI_STAT_messages_sent);
	while (keeps_now->turns[1] == 0) {
		world_sleep(keeps_now->world, LONG);
		keeps_unlock(0);
		if (keeps_now->turns[1] == 0)
			keeps_lock(0);
	}
	calls = roami_stats_sum(keeps_node(0)->stats, ROAMI_STAT_messages_sent) - calls;
	if (calls > CALLS)
		world_fail(keeps_now->world, "node 0 has called %lu times", (unsigned long)calls);
}

static void long_main(void *arg)
{
	(void)arg;
	world_sleep(keeps_now->world, REST);
	keeps_wait();
	keeps_unlock(1);
}

static bool goes_naps(void)
{
	const struct roami_lock *lock = roami_table_find(&sync_of(keeps_node(0))->locks, LOCK);

	return (roami_lock_word(lock) & WORD_NAPS) != 0 &&
	       keeps_elapsed() - keeps_now->waits > NAP_MIN;
}

static void goes_other(void *arg)
{
	(void)arg;
	long_begin();
	while (!goes_naps() && keeps_now->turns[1] == 0) {
		world_sleep(keeps_now->world, LONG);
		keeps_unlock(0);
		keeps_lock(0);
	}
	keeps_unlock(0);
	world_sleep(keeps_now->world, 3 * KEEP_NS);
	keeps_lock(0);
	world_sleep(keeps_now->world, LONG);
	keeps_now->left = keeps_elapsed();
	keeps_unlock(0);
	world_sleep(keeps_now->world, LIMIT); /* else what its end says would wake node 1 */
}

static bool keeps_wrong(uint64_t seed, const char *what, const char *why)
{
	printf("FAILED seed %lu: %s: %s; %u and %u turns, a wait of %lu us\n  %s\n",
	       (unsigned long)seed, what, why, keeps_now->turns[0], keeps_now->turns[1],
	       (unsigned long)keeps_now->longest / 1000, seed_replay());
	return false;
}

static bool keeps_ran(struct keeps *keeps, const struct roam_protocol *protocol, uint64_t seed,
		      const char *what, void (*other)(void *arg), void (*main)(void *arg))
{
	struct world_config config;
	bool good;

	keeps_now = keeps;
	world_pair(&config, seed, protocol);
	config.hosts = 1;
	config.onesided = true;
	config.lock_slots = 0;
	config.stall_every = 0;
	config.latency_ns_max = 2000;
	config.slow_ns = 0;
	keeps->world = world_open(&config);
	if (keeps->world == NULL)
		exit(EXIT_FAILURE);
	world_spawn(keeps->world, 0, other, NULL);
	world_spawn(keeps->world, 1, main, NULL);
	good = world_run(keeps->world);
	if (!good)
		keeps_wrong(seed, what, world_error(keeps->world));
	world_close(keeps->world);
	return good;
}

static bool soon_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct keeps keeps = {0};

	if (!keeps_ran(&keeps, protocol, seed, "soon", soon_other, soon_main))
		return false;
	if (keeps.turns[0] < 2 * TURNS)
		return keeps_wrong(seed, "soon", "the lock does not stay where it is wanted");
	return keeps.longest <= SLACK || keeps_wrong(seed, "soon", "the lock stays unused");
}

static bool long_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct keeps keeps = {0};

	if (!keeps_ran(&keeps, protocol, seed, "long", long_other, long_main))
		return false;
	return keeps.longest <= LIMIT + 2 * LONG || keeps_wrong(seed, "long", "no turn comes");
}

static bool goes_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct keeps keeps = {0};

	if (!keeps_ran(&keeps, protocol, seed, "goes", goes_other, long_main))
		return false;
	return keeps.longest <= SLACK || keeps_wrong(seed, "goes", "the lock stays unused");
}

/* Under scope consistency the queue goes by messages. */
static bool keeps_about(const struct roam_protocol *protocol)
{
	return protocol->model != ROAM_MODEL_SCC;
}

static bool keeps_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	return soon_one(protocol, seed) && long_one(protocol, seed) && goes_one(protocol, seed);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, keeps_about, keeps_one, seed_done, NULL);
}
