/*
 * A run of claims ends with its block.  Each block of the heap is written in a row, from its first
 * page on, by one node or by none, and the next block by another node: no page of a block may get a
 * home at a node that does not write there.  Blocks begin where the pages' manager changes, and
 * elsewhere; managers are on this host or on another one.  Node 0 makes the blocks, and tells of
 * short ones together.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "home/placement.h"
#include "home/remote.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define GROUP    512u /* pages that one node manages */
#define HEAP     (4 * GROUP)
#define AROUND   24u  /* written on both sides of where the manager changes */
#define BLOCKS   (2 * (HEAP / GROUP - 1))
#define APART    100u /* in its group: where blocks of a page are, */
#define SMALL    64u  /* so many */
#define START_ID 4096u

struct blocks {
	unsigned nodes;
	uint32_t written[BLOCKS]; /* pages, from the first one on */
};

/* Blocks of AROUND pages: one ends and one begins at each change of the manager. */
static uint32_t block_first(uint32_t block)
{
	return (block / 2 + 1) * GROUP - AROUND + block % 2 * AROUND;
}

static unsigned block_writer(const struct blocks *blocks, uint32_t block)
{
	return (block + block / 2) % blocks->nodes;
}

static void blocks_write(const struct seed_thread *thread, uint32_t block)
{
	const struct blocks *blocks = thread->arg;
	struct roami_node *node = world_node(thread->world, thread->me);
	uint8_t value = (uint8_t)(block + 1);

	for (uint32_t i = 0; i < blocks->written[block]; i++)
		world_store(node, (block_first(block) + i) * ROAM_PAGE_SIZE, &value, sizeof(value));
}

/* Checks that the pages of a block have a home where they were written, or none. */
static void blocks_check(const struct seed_thread *thread, uint32_t block)
{
	const struct blocks *blocks = thread->arg;
	struct world *world = thread->world;
	struct roami_node *node = world_node(world, thread->me);
	unsigned writer = block_writer(blocks, block);

	for (uint32_t i = 0; i < AROUND; i++) {
		uint32_t page = block_first(block) + i;
		uint64_t word = roami_word_load(node, page);

		if (i < blocks->written[block] && word == ROAMI_WORD_CREATOR)
			world_fail(world, "page %u was written and has no home", page);
		if (word != ROAMI_WORD_CREATOR && word != (ROAMI_WORD_READY | writer))
			world_fail(world, "page %u of node %u's block has the word %#lx", page,
				   writer, (unsigned long)word);
		if (word != ROAMI_WORD_CREATOR && blocks->written[block] == 0)
			world_fail(world, "page %u of an unused block has a home", page);
	}
}

static void blocks_place(struct roami_node *node, uint32_t page, uint32_t pages)
{
	struct roami_placement place = {
		.page = page, .pages = pages, .policy = ROAM_PLACE_FIRST_TOUCH};

	roami_placement_all(node, &place);
}

/* Makes blocks begin where this test has them, and nowhere else. */
static void blocks_make(struct world *world)
{
	for (uint32_t page = 0; page < HEAP; page++) {
		unsigned manager = roami_manager(world_node(world, 0), page);
		struct roami_segment *there = world_node(world, manager)->self;

		atomic_fetch_and(&there->headers[page].where, ~ROAMI_HEADER_BLOCK);
		atomic_fetch_and(&world_node(world, 0)->self->headers[page].where,
				 ~ROAMI_HEADER_BLOCK);
	}
	for (uint32_t block = 0; block < BLOCKS; block++)
		blocks_place(world_node(world, 0), block_first(block), AROUND);
}

/* Blocks of a page, apart from the others, are no message each to their pages' manager. */
static void blocks_count(struct world *world)
{
	struct roami_node *node = world_node(world, 0);
	uint64_t sent = roami_stats_find(node->stats, "messages_sent");

	for (uint32_t page = 0; page < HEAP; page++)
		if (page % GROUP >= APART && page % GROUP < APART + SMALL)
			blocks_place(node, page, 1);
	sent = roami_stats_find(node->stats, "messages_sent") - sent;
	if (sent > (HEAP / GROUP - 1) * SMALL / 10)
		world_fail(world, "%lu messages tell of blocks of a page", (unsigned long)sent);
}

static void blocks_meet(const struct seed_thread *thread)
{
	if (roami_barrier(world_node(thread->world, thread->me), START_ID, 0) != ROAM_OK)
		world_fail(thread->world, "no barrier");
}

static void blocks_main(void *arg)
{
	const struct seed_thread *thread = arg;

	if (thread->me == 0) {
		blocks_make(thread->world);
		blocks_count(thread->world);
	}
	blocks_meet(thread);
	for (uint32_t block = 0; block < BLOCKS; block++) {
		if (block_writer(thread->arg, block) == thread->me)
			blocks_write(thread, block);
		blocks_meet(thread);
	}
	for (uint32_t block = 0; block < BLOCKS && thread->me == 0; block++)
		blocks_check(thread, block);
	blocks_meet(thread);
}

/* Pages get their home from the directory, at the first write. */
static bool blocks_about(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_FIXED;
}

static bool blocks_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct rng rng = {seed};
	struct world_config config;
	struct blocks blocks;
	struct world *world;

	(void)arg;
	world_pair(&config, seed, protocol);
	config.nodes = 2 + (unsigned)(seed % 3);
	config.hosts = 1 + (unsigned)(seed / 3) % 2;
	config.heap_pages = HEAP;
	config.trace = options->trace;
	blocks.nodes = config.nodes;
	for (uint32_t block = 0; block < BLOCKS; block++)
		blocks.written[block] = rng_one_in(&rng, 4) ? 0
							    : rng_range(&rng, AROUND / 2, AROUND);
	world = seed_pair(&config, blocks_main, &blocks);
	if (world != NULL)
		world_close(world);
	return world != NULL;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, blocks_about, blocks_one, seed_done, NULL);
}
