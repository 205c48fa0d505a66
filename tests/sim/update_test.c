/*
 * Updates or invalidations: a producer writes a page in every round, a consumer reads it each time,
 * an idler read it once.  Where releases are eager, updates spare the consumer all fetches, and
 * invalidations spare the idler all messages; ROAM_ERC=auto does both, except for the few updates
 * after which it sees that the idler does not read.  Where writers leave diff logs, the producer's
 * diffs spare the consumer all but the first few fetches, and end when the consumer stops reading.
 * Counts in the world.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define ROUNDS 60u
#define FEW    4u /* the most updates of an idler, and fetches of a reader of diffs */
#define NODES  3u
#define SOME   3u  /* rounds in which a node reads, and */
#define UNREAD 40u /* the most diffs that are made then */
#define DIFF_LOG 65536u

struct update {
	unsigned reads; /* rounds in which the consumer reads */
	uint64_t messages;
	uint64_t fetches;
	uint64_t diffs;
	bool good;
};

enum { PRODUCER, CONSUMER, IDLER };

static void update_main(void *arg)
{
	const struct seed_thread *thread = arg;
	const struct update *update = thread->arg;
	struct world *world = thread->world;
	struct roami_node *node = world_node(world, thread->me);

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		uint32_t value = round;

		if (thread->me == PRODUCER)
			world_store(node, 0, &value, sizeof(value));
		if (roami_barrier(node, ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
		if ((thread->me == CONSUMER && round <= update->reads) ||
		    (thread->me == IDLER && round == 1))
			world_load(node, 0, &value, sizeof(value));
		if (value != round)
			world_fail(world, "node %u read %u, not %u", thread->me, value, round);
		if (roami_barrier(node, ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
	}
}

static struct update update_run(const struct roam_protocol *protocol, uint64_t seed, unsigned mode,
				unsigned reads)
{
	struct update update = {.reads = reads};
	struct world_config config;
	struct world *world;

	world_pair(&config, seed, protocol);
	config.nodes = NODES;
	config.tree = false;
	config.erc = mode;
	if (protocol->homes == ROAM_HOMES_TAKEN) { /* diffs are left where memory is shared */
		config.onesided = true;
		config.hosts = 1;
		config.posts_bytes = DIFF_LOG;
	}
	world = seed_pair(&config, update_main, &update);
	update.good = world != NULL;
	if (world == NULL)
		return update;
	update.messages = world_count(world, ROAMI_STAT_messages_sent);
	update.fetches = world_count(world, ROAMI_STAT_fetches);
	update.diffs = world_count(world, ROAMI_STAT_diffs);
	world_close(world);
	return update;
}

static bool update_diff_logs(const struct roam_protocol *protocol, uint64_t seed)
{
	struct update all = update_run(protocol, seed, ROAMI_ERC_AUTO, ROUNDS);
	struct update some = update_run(protocol, seed, ROAMI_ERC_AUTO, SOME);

	if (!all.good || !some.good)
		return false;
	if (all.fetches <= FEW && all.diffs >= ROUNDS - FEW && some.diffs <= UNREAD)
		return true;
	printf("FAILED seed %lu: %lu fetches and %lu diffs of a page that is read, %lu diffs of "
	       "one that is not\n  %s\n",
	       (unsigned long)seed, (unsigned long)all.fetches, (unsigned long)all.diffs,
	       (unsigned long)some.diffs, seed_replay());
	return false;
}

static bool update_eager(const struct roam_protocol *protocol, uint64_t seed)
{
	struct update drop = update_run(protocol, seed, ROAMI_ERC_INVALIDATE, ROUNDS);
	struct update update = update_run(protocol, seed, ROAMI_ERC_UPDATE, ROUNDS);
	struct update found = update_run(protocol, seed, ROAMI_ERC_AUTO, ROUNDS);

	if (!drop.good || !update.good || !found.good)
		return false;
	/* An update is a message and its answer. */
	if (update.fetches == 2 && drop.fetches >= ROUNDS && found.fetches == 2 &&
	    found.messages + 2 * (ROUNDS - 1 - FEW) <= update.messages + 1)
		return true;
	printf("FAILED seed %lu: %lu fetches and %lu messages with updates, %lu and %lu with "
	       "invalidations, %lu and %lu by itself\n  %s\n",
	       (unsigned long)seed, (unsigned long)update.fetches, (unsigned long)update.messages,
	       (unsigned long)drop.fetches, (unsigned long)drop.messages,
	       (unsigned long)found.fetches, (unsigned long)found.messages, seed_replay());
	return false;
}

/* Eager: when a node acquires, it has been told of all writes. */
static bool update_about(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_TAKEN ||
	       (protocol->writes == ROAM_WRITES_DIFF && protocol->acquire == NULL &&
		!roami_homes_everywhere(protocol));
}

static bool update_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	return protocol->homes == ROAM_HOMES_TAKEN ? update_diff_logs(protocol, seed)
				   : update_eager(protocol, seed);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, update_about, update_one, seed_done, NULL);
}
