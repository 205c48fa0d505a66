/* The configuration of a world: drawn from its seed, and printed. */
#include <stdio.h>
#include <string.h>

#include "base/marks.h"
#include "home/reach.h"
#include "page/diff.h"
#include "world.h"
#include "world_state.h"

static uint32_t draw_of(struct rng *rng, const uint32_t *values, uint32_t count)
{
	return values[rng_below(rng, count)];
}

#define DRAW_OF(rng, ...)                             \
	draw_of(rng, (const uint32_t[]){__VA_ARGS__}, \
		sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

void world_draw(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol)
{
	static const char *const simds[] = {"auto", "scalar", "avx2"};
	struct rng rng = {seed * 2 + 1}, apart = {seed ^ 0x40575};

	memset(config, 0, sizeof(*config));
	config->seed = seed;
	config->protocol = protocol;
	config->nodes = rng_one_in(&rng, 16) ? rng_range(&rng, 6, 9) : rng_range(&rng, 2, 5);
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = DRAW_OF(&rng, 1, 1, 2, 2, 3);
	if (rng_one_in(&rng, 4))
		for (unsigned i = 0; i < config->nodes; i++)
			config->threads[i] = 1;
	config->heap_pages = DRAW_OF(&rng, 64, 64, 128, 256);
	config->creator_pages = DRAW_OF(&rng, 0, config->heap_pages / 2, config->heap_pages);
	config->onesided = rng_one_in(&rng, 2);
	config->hosts = DRAW_OF(&apart, 1, 1, 1, 2, 3);
	config->slow_ns = DRAW_OF(&apart, 0, 0, 20000, 200000);
	config->slow_from = rng_below(&apart, config->nodes);
	config->slow_to = rng_below(&apart, config->nodes);
	config->hot = !rng_one_in(&rng, 3);
	config->tree = rng_one_in(&rng, 2);
	config->kind_known = !rng_one_in(&rng, 3);
	config->placement = DRAW_OF(&rng, ROAM_PLACE_FIRST_TOUCH, ROAM_PLACE_FIRST_TOUCH,
				    ROAM_PLACE_FIRST_TOUCH, ROAM_PLACE_BLOCK, ROAM_PLACE_CYCLIC,
				    ROAM_PLACE_NODE);
	config->prefetch = DRAW_OF(&rng, 0, 2, 64);
	config->cache_pages = DRAW_OF(&rng, 0, 0, 1, 4);
	config->simd = simds[rng_below(&rng, 3)];
	config->step_every = DRAW_OF(&rng, 0, 1, 4, 16, 64);
	config->stall_every = DRAW_OF(&rng, 0, 16, 256);
	config->queue_max = DRAW_OF(&rng, 1, 2, 8, 64);
	config->latency_ns_max = DRAW_OF(&rng, 100, 2000, 50000);
	config->steps_max = 20000000;
	config->ring_runs = DRAW_OF(&rng, 0, 0, 1, 4, 16);
	config->lock_slots = DRAW_OF(&rng, 0, 0, 1, 3);
	config->barrier_slots = DRAW_OF(&rng, 0, 0, 0, 1);
	config->ivy = DRAW_OF(&rng, ROAMI_IVY_FIXED, ROAMI_IVY_DYNAMIC);
	config->mirage_delta = DRAW_OF(&rng, 0, 0, 1, 50, 1000);
	config->lrc_memory = 1024ull * DRAW_OF(&rng, 64, 128, 1024, 65536);
	config->erc = DRAW_OF(&rng, ROAMI_ERC_INVALIDATE, ROAMI_ERC_UPDATE, ROAMI_ERC_AUTO);
	config->posts_bytes = DRAW_OF(&rng, 0, 0, 256, 1024, 16384);
	config->begin = rng_one_in(&apart, 6);
	config->compact_sooner = DRAW_OF(&apart, 0, 0, 5, 10);
	config->tx_commit = DRAW_OF(&apart, ROAMI_TX_COMMIT_TOKEN, ROAMI_TX_COMMIT_PAGES);
}

unsigned world_protocols(void)
{
	unsigned known = 0;

	while (roami_protocols[known] != NULL)
		known++;
	return known;
}

/* Whether the protocol can be beside another one. */
static bool world_joins(const struct roam_protocol *protocol)
{
	return !roami_homes_everywhere(protocol) && protocol->transactions == NULL;
}

unsigned world_others(void)
{
	unsigned others = 0;

	for (unsigned i = 0; roami_protocols[i] != NULL; i++)
		others += world_joins(roami_protocols[i]);
	return others;
}

static const struct roam_protocol *world_other(uint64_t number)
{
	unsigned at = 0;

	for (uint64_t left = number % world_others();; at++)
		if (world_joins(roami_protocols[at]) && left-- == 0)
			return roami_protocols[at];
}

const struct roam_protocol *world_beside(const struct roam_protocol *own, uint64_t draw)
{
	if (!world_joins(own))
		return own;
	while (!roami_protocol_beside(own, world_other(draw)))
		draw++;
	return world_other(draw);
}

void world_mix(struct world_config *config, uint32_t region_pages)
{
	struct rng rng = {config->seed ^ 0x3e910};

	config->region_pages = region_pages;
	config->region_count = DRAW_OF(&rng, 1, 1, 2, WORLD_REGIONS_MAX);
	for (unsigned i = 0; i < config->region_count; i++)
		config->regions[i] = world_beside(
			config->protocol, config->seed + i * rng_below(&rng, world_others()));
}

enum roam_model world_model(const struct world_config *config)
{
	enum roam_model model = config->protocol->model;

	for (unsigned i = 0; i < config->region_count; i++)
		if (config->regions[i]->model > model)
			model = config->regions[i]->model;
	return model;
}

void world_lossy(struct world_config *config)
{
	struct rng rng = {config->seed ^ 0x10551};

	config->lossy = true;
	config->onesided = false;
	config->queue_max = DRAW_OF(&rng, 8, 64, 1000);
	config->datagram_max = DRAW_OF(&rng, 512, 1472, 4200, 9216);
	config->room = DRAW_OF(&rng, 1, 1 << 20, 1 << 24);
	snprintf(config->faulty, sizeof(config->faulty),
		 "drop=5%%,repeat=%u%%,reorder=%u%%,corrupt=%u%%,delay=1%%:%uus,seed=%lu",
		 DRAW_OF(&rng, 1, 5, 20), DRAW_OF(&rng, 1, 5, 30), DRAW_OF(&rng, 0, 1),
		 DRAW_OF(&rng, 100, 3000), (unsigned long)(config->seed % 1000000));
	config->seal = DRAW_OF(&rng, ROAMI_SEAL_OFF, ROAMI_SEAL_AUTH, ROAMI_SEAL_ENCRYPT);
	config->steps_max *= 10;
}

void world_teams(struct world_config *config)
{
	unsigned threads = config->threads[0] > 1 ? config->threads[0] : 2;

	config->teams = true;
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = threads;
}

void world_cards(struct world_config *config)
{
	struct rng rng = {config->seed ^ 0xca4d5};

	config->cards = rng_one_in(&rng, 2) ? ROAMI_FOREVER : rng_next(&rng) | 1;
	config->read_ns_max = DRAW_OF(&rng, 100, 2000, 50000, 500000);
	config->reads_max = DRAW_OF(&rng, 0, 0, 1, 5);
	config->read_fails = DRAW_OF(&rng, 0, 0, 4, 64);
	config->announced_writes = (uint8_t)DRAW_OF(&rng, 0, 0, 1, 3);
	if (rng_one_in(&rng, 2))
		config->onesided = false;
	config->card_segments = (uint8_t)DRAW_OF(&rng, 0, 1, 4, 16);
}

void world_pair(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol)
{
	world_draw(config, seed, protocol);
	config->nodes = 2;
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		config->threads[i] = 1;
	config->creator_pages = 0;
	config->cache_pages = 0;
	config->placement = ROAM_PLACE_FIRST_TOUCH;
}

void world_mates(struct world_config *config, uint64_t seed, const struct roam_protocol *protocol,
		 const struct world_mates *mates)
{
	world_draw(config, seed, protocol);
	config->nodes = mates->nodes;
	for (unsigned i = 0; i < mates->nodes; i++)
		config->threads[i] = i == mates->node ? mates->threads : 1;
	config->onesided = false;
	config->hosts = 1;
	config->creator_pages = 0;
	config->placement = ROAM_PLACE_FIRST_TOUCH;
	config->latency_ns_max = 2000;
	config->stall_every = 0;
	config->slow_ns = mates->slow_ns;
	config->slow_from = mates->slow_from;
	config->slow_to = mates->node;
}

void world_nodes(struct world_config *config, unsigned nodes)
{
	for (unsigned i = config->nodes; i < nodes; i++)
		config->threads[i] = config->threads[i % config->nodes];
	config->nodes = nodes;
}

void world_options(const struct world_config *config, struct roami_options *options)
{
	roami_options_default(options);
	options->threads = config->teams ? config->threads[0] : 1;
	options->prefetch = config->prefetch;
	options->cache_pages = config->cache_pages;
	options->tx_fair = config->tx_fair;
	options->tx_reads = config->tx_reads;
	options->tx_validate = config->tx_validate;
	options->tx_commit = config->tx_commit;
	if (config->tx_false != 0)
		options->tx_false = config->tx_false;
	options->hot = config->hot;
	options->card_segments = config->card_segments;
	options->barrier_tree = config->tree;
	options->ivy = config->ivy;
	options->erc = config->erc;
	options->lrc_memory = config->lrc_memory;
	options->mirage_delta = config->mirage_delta;
	options->seal = config->seal;
	options->deadline = config->deadline;
	if (config->ps_memory != 0)
		options->ps_memory = config->ps_memory;
	snprintf(options->faulty, sizeof(options->faulty), "%s", config->faulty);
	snprintf(options->simd, sizeof(options->simd), "%s", config->simd);
	if (roami_diff_choose(options->simd) == NULL)
		snprintf(options->simd, sizeof(options->simd), "auto");
}

#define RECORDS_MAX 64u

void world_layout(const struct world_config *config, struct roami_layout *layout)
{
	if (config->ring_runs != 0)
		layout->ring_runs = config->ring_runs;
	if (config->posts_bytes != 0)
		layout->posts_bytes = config->posts_bytes;
	if (config->lock_slots != 0)
		layout->lock_slots = config->lock_slots;
	if (config->barrier_slots != 0)
		layout->barrier_slots = config->barrier_slots;
	/* All records are written then. */
	if (config->begin && layout->lock_slots > RECORDS_MAX)
		layout->lock_slots = RECORDS_MAX;
	if (config->begin && layout->barrier_slots > RECORDS_MAX)
		layout->barrier_slots = RECORDS_MAX;
}

unsigned world_home(const struct world_config *config, struct rng *rng, uint32_t page,
		    size_t pages)
{
	switch (config->placement) {
	case ROAM_PLACE_BLOCK:
		return (unsigned)(page * config->nodes / pages);
	case ROAM_PLACE_CYCLIC:
		return page % config->nodes;
	case ROAM_PLACE_NODE:
		return rng_below(rng, config->nodes);
	default:
		return ROAM_NOBODY;
	}
}

bool world_together(const struct world_config *config, unsigned me, unsigned peer)
{
	unsigned hosts = config->hosts > 1 ? config->hosts : 1;

	return peer % hosts == me % hosts;
}

uint64_t world_near(const struct world_config *config, unsigned me)
{
	uint64_t near = 0;

	for (unsigned peer = 0; peer < config->nodes && config->onesided; peer++)
		if (world_together(config, me, peer))
			near |= roami_nodeset_bit(peer);
	return near;
}

uint64_t world_read(const struct world_config *config, unsigned me)
{
	uint64_t read = 0;

	for (unsigned peer = 0; peer < config->nodes; peer++) {
		unsigned low = peer < me ? peer : me, high = peer < me ? me : peer;
		struct rng rng = {config->cards + low * ROAMI_NODES_MAX + high};

		if (config->cards != 0 && !config->lossy && peer != me &&
		    (config->cards == ROAMI_FOREVER || rng_one_in(&rng, 2)))
			read |= roami_nodeset_bit(peer);
	}
	return read;
}

void world_describe(const struct world_config *config, char *text, size_t bytes)
{
	unsigned threads = 0;

	for (unsigned i = 0; i < config->region_count; i++) {
		int used = snprintf(text, bytes, "%u pages of %s, ", config->region_pages,
				    config->regions[i]->name);

		text += used;
		bytes -= (size_t)used;
	}
	for (unsigned i = 0; i < config->nodes; i++)
		threads += config->threads[i];
	snprintf(text, bytes,
		 "%s, %u nodes, %u threads%s, %u pages (%u of the creator), %s on %u hosts, "
		 "cards %lx, %u segments, %s, "
		 "hot %d, tree %d, kinds %d, placement %u, prefetch %u, cache %u, step 1/%u, "
		 "stall 1/%u, queue %u, latency %lu ns, %lu more from %u to %u, "
		 "ring %u, posts %u, "
		 "slots %u, %u, ROAM_IVY %u, "
		 "delta %u, ROAM_ERC %u, store %lu KiB, seal %u%s%s%s",
		 config->protocol->name, config->nodes, threads, config->teams ? " in teams" : "",
		 config->heap_pages,
		 config->creator_pages, config->onesided ? "one-sided" : "messages", config->hosts,
		 (unsigned long)config->cards, config->card_segments,
		 config->simd, config->hot, config->tree, config->kind_known, config->placement,
		 config->prefetch, config->cache_pages, config->step_every, config->stall_every,
		 config->queue_max, (unsigned long)config->latency_ns_max,
		 (unsigned long)config->slow_ns, config->slow_from, config->slow_to,
		 config->ring_runs, config->posts_bytes, config->lock_slots,
		 config->barrier_slots, config->ivy, config->mirage_delta, config->erc,
		 (unsigned long)config->lrc_memory / 1024, config->seal,
		 config->begin ? ", counts begin below their ends" : "", config->lossy ? ", " : "",
		 config->faulty);
}

/*
 * Stores rubbish over a block.  Its end is the first one behind its beginning in any node's marks,
 * as the nodes' slices of the heap are apart.
 */
static void spoil_block(struct roami_node *node, uint64_t offset)
{
	uint64_t end = node->layout.heap_bytes, step;
	uint8_t rubbish[512];

	for (unsigned i = 0; i < node->nodes; i++) {
		const struct roami_segment *self = world_node(world_of(node), i)->self;
		uint64_t first = roami_marks_end(self, &node->layout, offset);

		end = first < end ? first : end;
	}
	memset(rubbish, 0xdb, sizeof(rubbish));
	for (uint64_t at = offset; at < end; at += step) {
		step = sizeof(rubbish) - at % sizeof(rubbish);
		step = step < end - at ? step : end - at;
		world_store(node, at, rubbish, step);
	}
}

void world_spoil(struct roami_node *node, enum roami_spoilt what, void *bytes, size_t count)
{
	bool kept = false;

	if (what == ROAMI_SPOILT_BLOCK) {
		spoil_block(node, (uint64_t)((uint8_t *)bytes - roami_page_bytes(node, 0)));
		return;
	}
	for (unsigned peer = 0; peer < node->nodes && what == ROAMI_SPOILT_PAGE; peer++)
		kept |= peer != node->me && !node->reach[peer]->travels;
	if (!kept)
		memset(bytes, 0xdb, count);
}
