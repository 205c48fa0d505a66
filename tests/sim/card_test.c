/*
 * Pages that a card reads at their home (rules 12): in every round their home writes them and
 * another node reads them.  After the first rounds the reader takes one READ for each page, and
 * asks the home for nothing: no handler runs there while the pages are read.  Then the reader
 * writes the pages, too: a card brings its diffs to the home, except where they have more stretches
 * than allowed.  Counts in the world.  A look at the reader for a hang sees meanwhile that
 * something is under way.
 * Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "msg/msg.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define PAGES  40u
#define ROUNDS 12u
#define STEADY 2u /* rounds until every page is announced */
#define LOOK   100u /* ns between two looks */

enum { HOME, READER };

#define SEGMENTS 3u /* allowed */

static uint32_t rounds_read;
static uint64_t looks_seen;

/* One byte of each page, another one in each round. */
static void card_pages(struct world *world, struct roami_node *node, uint32_t round, bool write)
{
	for (uint32_t page = 0; page < PAGES; page++) {
		uint64_t at = page * ROAM_PAGE_SIZE + round * 64;
		uint8_t value = (uint8_t)(round * PAGES + page), found = value;

		if (write)
			world_store(node, at, &value, sizeof(value));
		else
			world_load(node, at, &found, sizeof(found));
		if (found != value)
			world_fail(world, "page %u: %u, not %u", page, found, value);
	}
}

static void card_read(struct world *world, struct roami_node *node, uint32_t round)
{
	uint64_t asked = roami_msg_asked(world_node(world, HOME));
	uint64_t reads = world_count(world, ROAMI_STAT_card_reads);
	uint64_t fetches = world_count(world, ROAMI_STAT_fetches);

	card_pages(world, node, round, false);
	rounds_read = round + 1;
	asked = roami_msg_asked(world_node(world, HOME)) - asked;
	reads = world_count(world, ROAMI_STAT_card_reads) - reads;
	fetches = world_count(world, ROAMI_STAT_fetches) - fetches;
	if (round >= STEADY && (asked != 0 || reads != PAGES || fetches != PAGES))
		world_fail(world, "round %u: %lu READs, %lu requests, %lu fetches of %u pages",
			   round, (unsigned long)reads, (unsigned long)asked,
			   (unsigned long)fetches, PAGES);
}

/* As long as the reader reads; its node has no message that could be kept. */
static void card_look(struct world *world, uint32_t round)
{
	uint64_t sent, received;
	bool kept;

	while (rounds_read <= round) {
		if (roami_msg_count(world_node(world, READER), &sent, &received, &kept))
			looks_seen += kept;
		world_sleep(world, LOOK);
	}
}

/* Stretches of a page that the reader writes in a round: one, a few, or too many. */
static uint32_t card_stretches(uint32_t page)
{
	return page % 4 == 3 ? SEGMENTS + 2 : page % 4 + 1;
}

/*
 * Where a stretch lies, behind what the home writes.  The last byte of some pages and the first one
 * of the next are neighbours, but of that page too many are written.
 */
static uint64_t card_place(uint32_t page, uint32_t i)
{
	uint64_t at = (ROUNDS + i * 2 + 1) * 64 + i * 33;

	if (page % 4 == 2 && i + 1 == card_stretches(page))
		at = ROAM_PAGE_SIZE - 1;
	else if (page % 4 == 3 && i == 0)
		at = 0;
	return page * ROAM_PAGE_SIZE + at;
}

/* What the reader writes. */
static void card_others(struct world *world, struct roami_node *node, uint32_t round, bool write)
{
	for (uint32_t page = 0; page < PAGES; page++)
		for (uint32_t i = 0; i < card_stretches(page); i++) {
			uint64_t at = card_place(page, i);
			uint8_t value = (uint8_t)(round * PAGES + page + i + 1), found = value;

			if (write)
				world_store(node, at, &value, sizeof(value));
			else
				world_load(node, at, &found, sizeof(found));
			if (found != value)
				world_fail(world, "page %u, stretch %u: %u, not %u", page, i,
					   found, value);
		}
}

/* The reader's diffs of all rounds. */
static void card_wrote(struct world *world)
{
	uint64_t by_card = world_count(world, ROAMI_STAT_card_diffs);
	uint64_t segments = world_count(world, ROAMI_STAT_card_segments);
	uint64_t diffs = world_count(world, ROAMI_STAT_diffs);

	if (diffs != (uint64_t)PAGES * ROUNDS || by_card != (uint64_t)PAGES / 4 * 3 * ROUNDS ||
	    segments != (uint64_t)PAGES / 4 * (1 + 2 + 3) * ROUNDS)
		world_fail(world, "%lu diffs, %lu by a card, of %lu stretches",
			   (unsigned long)diffs, (unsigned long)by_card,
			   (unsigned long)segments);
}

static void card_main(void *arg)
{
	const struct seed_thread *thread = arg;
	struct world *world = thread->world;
	struct roami_node *node = world_node(world, thread->me);

	for (uint32_t round = 0; round < ROUNDS; round++) {
		if (thread->me == HOME)
			card_pages(world, node, round, true);
		if (roami_barrier(node, PAGES * ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
		if (thread->me == READER)
			card_read(world, node, round);
		else if (round >= STEADY)
			card_look(world, round);
		if (thread->me == READER)
			card_others(world, node, round, true);
		if (roami_barrier(node, PAGES * ROAM_PAGE_SIZE, 0) != ROAM_OK)
			world_fail(world, "no barrier");
		if (thread->me == HOME)
			card_others(world, node, round, false);
	}
	if (thread->me == READER)
		card_wrote(world);
	else if (looks_seen == 0)
		world_fail(world, "nothing is under way while a card reads");
}

static bool card_about(const struct roam_protocol *protocol)
{
	return (protocol->one_sided & ROAM_ONE_SIDED_READ) != 0;
}

static bool card_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct world_config config;
	struct world *world;

	(void)arg;
	rounds_read = 0;
	looks_seen = 0;
	world_pair(&config, seed, protocol);
	config.hosts = 2;
	config.cards = ROAMI_FOREVER;
	config.read_ns_max = 20 * LOOK;
	config.card_segments = SEGMENTS;
	config.hot = false; /* nor is a copy brought up to date in place */
	config.prefetch = 0; /* it asks for homes of pages that no node has */
	config.trace = options->trace;
	world = seed_pair(&config, card_main, NULL);
	if (world == NULL)
		return false;
	world_close(world);
	return true;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 50};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, card_about, card_one, seed_done, NULL);
}
