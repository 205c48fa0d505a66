/*
 * Counters of many threads on one page, each under a lock of its own: false sharing at its worst.
 * Threads of a node write while another of them releases, homes with twins get diffs of pages that
 * stay open, and a thread that locks another's counter must read what its last section left there,
 * whichever diffs came between.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define ROUNDS   60u
#define THREADS  2u /* of each node */
#define MEMBERS  (4u * THREADS)
#define NEAR     64u  /* bytes between two counters, */
#define FAR      512u /* and where a diff is stored in several steps */
#define START_ID 4096u

struct packed {
	struct world *world;
	unsigned members;
	unsigned slot; /* NEAR or FAR */
	bool undo;
	uint32_t counts[MEMBERS]; /* what each counter must be, for a holder of its lock */
};

struct packed_thread {
	struct packed *packed;
	struct roami_node *node;
	unsigned me;
	struct rng rng;
};

static void packed_must(struct packed *packed, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(packed->world, "%s", roam_strerror(err));
}

/*
 * The counter's own thread counts it up.  With --undo it instead writes another value and then the
 * old one again, which is in no diff: a node that copies the page in between must not keep the
 * other value.
 */
static void packed_write(struct packed_thread *thread, uint64_t at)
{
	uint32_t *count = &thread->packed->counts[thread->me], scrap = ~*count;

	if (thread->packed->undo && rng_one_in(&thread->rng, 3)) {
		world_store(thread->node, at, &scrap, sizeof(scrap));
		world_sleep(thread->packed->world, rng_below(&thread->rng, 100));
	} else {
		++*count;
	}
	world_store(thread->node, at, count, sizeof(*count));
}

/* Reads the counter under its lock; the counter's own thread writes it. */
static void packed_section(struct packed_thread *thread, unsigned which)
{
	struct packed *packed = thread->packed;
	uint64_t lock = 2 * ROAM_PAGE_SIZE + which * 8, at = which * packed->slot;
	uint32_t value;

	packed_must(packed, roami_lock(thread->node, lock));
	world_load(thread->node, at, &value, sizeof(value));
	if (value != packed->counts[which])
		world_fail(packed->world, "node %u read count %u of thread %u, which is %u",
			   thread->node->me, value, which, packed->counts[which]);
	if (which == thread->me)
		packed_write(thread, at);
	packed_must(packed, roami_unlock(thread->node, lock));
}

static void packed_main(void *arg)
{
	struct packed_thread *thread = arg;
	struct packed *packed = thread->packed;

	packed_must(packed, roami_barrier(thread->node, START_ID, 0));
	for (unsigned round = 0; round < ROUNDS; round++) {
		bool own = rng_below(&thread->rng, 4) != 0;

		packed_section(thread,
			       own ? thread->me : rng_below(&thread->rng, packed->members));
		if (rng_one_in(&thread->rng, 4))
			world_sleep(packed->world, rng_below(&thread->rng, 2000));
	}
	packed_must(packed, roami_barrier(thread->node, START_ID, 0));
}

static void packed_config(struct world_config *config, const struct seed_options *options,
			  const struct roam_protocol *protocol, uint64_t seed)
{
	world_draw(config, seed, protocol);
	world_nodes(config, options->nodes != 0 ? options->nodes : 3 + seed % 2);
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = 1 + (i + seed) % THREADS;
	config->onesided = seed % 4 != 0;
	config->creator_pages = 0;
	config->cache_pages = 0;
	config->step_every = (uint32_t)(seed % 3) + 1;
	config->stall_every = seed % 2 == 0 ? 4 : 16;
	config->posts_bytes = 16384;
	config->trace = options->trace;
	if (options->cards)
		world_cards(config);
}

static bool packed_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct packed_thread threads[MEMBERS];
	struct packed packed = {.slot = seed / 2 % 2 == 0 ? NEAR : FAR, .undo = options->undo};
	struct world_config config;
	bool good;

	(void)arg;
	packed_config(&config, options, protocol, seed);
	packed.world = world_open(&config);
	if (packed.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned node = 0; node < config.nodes; node++)
		for (unsigned i = 0; i < config.threads[node]; i++) {
			unsigned me = packed.members++;

			threads[me] = (struct packed_thread){&packed,
							     world_node(packed.world, node), me,
							     {seed * 64 + me}};
			world_spawn(packed.world, node, packed_main, &threads[me]);
		}
	good = seed_world(packed.world, &config);
	world_close(packed.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	if (options.nodes > 4)
		options.nodes = 4;
	return seed_main(&options, packed_one, seed_done, NULL);
}
