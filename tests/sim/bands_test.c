/*
 * Bands of pages, like rows of a grid, each written by one thread from its first page to its last:
 * at first one thread writes all bands, then each thread its own, which every few rounds becomes
 * the next thread's.  So many homes are taken, and many pages opened, at a time.  Now and then a
 * page is left out, which must not matter.  A page that is not as it was left fails the test.
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define BAND      12u /* pages */
#define ROUNDS    9u
#define STAY      3u /* rounds that a band stays with its thread */
#define BANDS_MAX 8u
#define START_ID  4096u

struct bands {
	struct world *world;
	unsigned count;
	uint32_t left[BANDS_MAX * BAND]; /* what was written to each page last */
};

struct bands_thread {
	struct bands *bands;
	struct roami_node *node;
	unsigned me;
	struct rng rng;
};

/* Only two words of each page are used. */
static uint64_t word_at(uint32_t page, unsigned which)
{
	return (uint64_t)page * ROAM_PAGE_SIZE + (which == 0 ? 0 : 2900);
}

static void page_check(struct bands_thread *thread, uint32_t page, uint32_t round)
{
	for (unsigned which = 0; which < 2; which++) {
		uint32_t word, left = thread->bands->left[page];

		world_load(thread->node, word_at(page, which), &word, sizeof(word));
		if (word != left)
			world_fail(thread->bands->world,
				   "node %u, round %u: word %u of page %u is %u, not %u",
				   thread->node->me, round, which, page, word, left);
	}
}

static void page_write(struct bands_thread *thread, uint32_t page)
{
	uint32_t word = ++thread->bands->left[page];

	for (unsigned which = 0; which < 2; which++)
		world_store(thread->node, word_at(page, which), &word, sizeof(word));
}

static void band_write(struct bands_thread *thread, uint32_t band, uint32_t round)
{
	for (uint32_t page = band * BAND; page < (band + 1) * BAND; page++) {
		page_check(thread, page, round);
		if (rng_below(&thread->rng, 8) != 0)
			page_write(thread, page);
	}
}

static void bands_meet(struct bands_thread *thread)
{
	enum roam_err err = roami_barrier(thread->node, START_ID, 0);

	if (err != ROAM_OK)
		world_fail(thread->bands->world, "%s", roam_strerror(err));
}

static void bands_main(void *arg)
{
	struct bands_thread *thread = arg;
	unsigned count = thread->bands->count;

	bands_meet(thread);
	for (uint32_t page = 0; page < count * BAND && thread->me == 0; page++)
		page_write(thread, page);
	bands_meet(thread);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t other = rng_below(&thread->rng, count);

		band_write(thread, (thread->me + round / STAY) % count, round);
		bands_meet(thread);
		for (uint32_t page = other * BAND; page < (other + 1) * BAND; page++)
			page_check(thread, page, round);
		bands_meet(thread);
	}
}

static bool bands_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct bands_thread threads[BANDS_MAX];
	struct world_config config;
	struct bands bands = {.count = 0};
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	world_nodes(&config, options->nodes != 0 ? options->nodes : 2 + (unsigned)(seed % 3));
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = 1 + (unsigned)(seed / 3 + i) % 2;
	config.heap_pages = BANDS_MAX * BAND;
	config.creator_pages = 0;
	config.steps_max *= 10;
	config.trace = options->trace;
	bands.world = world_open(&config);
	if (bands.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < config.nodes; i++)
		for (unsigned j = 0; j < config.threads[i] && bands.count < BANDS_MAX; j++) {
			unsigned me = bands.count++;

			threads[me] = (struct bands_thread){&bands, world_node(bands.world, i), me,
							    {seed * 64 + me}};
			world_spawn(bands.world, i, bands_main, &threads[me]);
		}
	good = seed_world(bands.world, &config);
	world_close(bands.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, bands_one, seed_done, NULL);
}
