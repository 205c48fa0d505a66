/*
 * Pages that only their home writes and others read all the time, which tests unseen writes to an
 * open own page, the shared marks, and the notices of rule 6.7.  Every page holds a counter,
 * written by node 0 under the page's lock and read by the others under it, and a constant that they
 * read whenever they like, so that fetches run into releases.  A reader that sees an old count, or
 * another constant, fails.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define PAGES       2u
#define PAGES_MIXED 8u /* several protocols, whose pages are fetched in several ways at once */
#define MIX_PAGES   3u
#define ROUNDS      80u
#define CONSTANT_AT 2048u
#define START_ID    4096u

static uint64_t lock_of(uint32_t page)
{
	return 8192 + page * 8;
}

struct share {
	struct world *world;
	unsigned pages;
	uint32_t counts[PAGES_MIXED]; /* what each counter must be, for a holder of its lock */
	uint64_t reads;
};

struct share_thread {
	struct share *share;
	struct roami_node *node;
	bool first; /* of node 0 */
	struct rng rng;
};

static void share_must(struct share *share, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(share->world, "%s", roam_strerror(err));
}

static uint32_t share_load(struct roami_node *node, uint32_t page, uint32_t at)
{
	uint32_t value;

	world_load(node, (uint64_t)page * ROAM_PAGE_SIZE + at, &value, sizeof(value));
	return value;
}

static void share_write(struct share_thread *thread, uint32_t page)
{
	struct share *share = thread->share;
	uint32_t value;

	share_must(share, roami_lock(thread->node, lock_of(page)));
	value = ++share->counts[page];
	world_store(thread->node, (uint64_t)page * ROAM_PAGE_SIZE, &value, sizeof(value));
	share_must(share, roami_unlock(thread->node, lock_of(page)));
}

static void share_read(struct share_thread *thread, uint32_t page)
{
	struct share *share = thread->share;
	uint32_t value;

	share_must(share, roami_lock(thread->node, lock_of(page)));
	value = share_load(thread->node, page, 0);
	if (value != share->counts[page])
		world_fail(share->world, "node %u read count %u of page %u, which is %u",
			   thread->node->me, value, page, share->counts[page]);
	share_must(share, roami_unlock(thread->node, lock_of(page)));
	share->reads++;
}

/* Makes node 0 the home of the pages, with their first contents. */
static void share_begin(struct share_thread *thread)
{
	for (uint32_t page = 0; page < thread->share->pages; page++) {
		uint32_t constant = page + 77;

		world_store(thread->node, (uint64_t)page * ROAM_PAGE_SIZE + CONSTANT_AT, &constant,
			    sizeof(constant));
		share_write(thread, page);
	}
}

static void share_turn(struct share_thread *thread, uint32_t page)
{
	if (thread->node->me == 0) {
		share_write(thread, page);
	} else if (rng_one_in(&thread->rng, 4)) {
		share_read(thread, page);
	} else if (share_load(thread->node, page, CONSTANT_AT) != page + 77) {
		world_fail(thread->share->world, "node %u read another constant in page %u",
			   thread->node->me, page);
	}
	if (rng_one_in(&thread->rng, 2))
		world_sleep(thread->share->world, rng_below(&thread->rng, 2000));
}

static void share_main(void *arg)
{
	struct share_thread *thread = arg;

	if (thread->first)
		share_begin(thread);
	share_must(thread->share, roami_barrier(thread->node, START_ID, 0));
	for (unsigned round = 0; round < ROUNDS; round++)
		share_turn(thread, rng_below(&thread->rng, thread->share->pages));
	share_must(thread->share, roami_barrier(thread->node, START_ID, 0));
}

static void share_spawn(struct share *share, const struct world_config *config,
			struct share_thread *threads)
{
	unsigned count = 0;

	for (unsigned node = 0; node < config->nodes; node++)
		for (unsigned i = 0; i < config->threads[node]; i++, count++) {
			threads[count] = (struct share_thread){share,
							       world_node(share->world, node),
							       count == 0,
							       {config->seed * 64 + count}};
			world_spawn(share->world, node, share_main, &threads[count]);
		}
}

static bool share_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct share_thread threads[ROAMI_NODES_MAX * WORLD_THREADS_MAX];
	struct share share = {.pages = options->mixed ? PAGES_MIXED : PAGES};
	struct world_config config;
	bool good;

	world_draw(&config, seed, protocol);
	if (config.nodes < 3 || options->nodes != 0)
		world_nodes(&config, options->nodes != 0 ? options->nodes : 3);
	config.onesided = seed % 4 != 0;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.creator_pages = 0;
	config.step_every = (uint32_t)(seed % 3) + 1;
	config.stall_every = seed % 2 == 0 ? 4 : 16;
	if (seed % 2 == 0)
		config.posts_bytes = 64; /* two diffs: they are overwritten while they are read */
	config.trace = options->trace;
	if (options->cards)
		world_cards(&config);
	if (options->mixed)
		world_mix(&config, MIX_PAGES);
	share.world = world_open(&config);
	if (share.world == NULL)
		exit(EXIT_FAILURE);
	share_spawn(&share, &config, threads);
	good = seed_world(share.world, &config);
	*(uint64_t *)arg += share.reads;
	world_close(share.world);
	return good;
}

static bool share_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		       void *arg)
{
	uint64_t *reads = arg;

	printf("%s: %lu seeds, %lu failed; %lu counts read\n", protocol->name, (unsigned long)seeds,
	       (unsigned long)failed, (unsigned long)*reads);
	*reads = 0;
	return failed == 0;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 200};
	uint64_t reads = 0;

	seed_options_read(&options, argc, argv);
	return seed_main(&options, share_one, share_done, &reads);
}
