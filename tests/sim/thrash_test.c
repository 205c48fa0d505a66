/*
 * Two nodes write one page at the same time, each its own word: how often does the page move?  With
 * a good window, given or found, it must move several times less often than under the same protocol
 * without a window; with a window too short to matter, as often. Pages passed on in turns do not
 * lengthen the window, nor do reads that wait for a value.  A region's window goes before the
 * job's.  All in the world: the counts of a seed are the same in every run.  Options:
 * seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "home/placement.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define WRITES   2000u
#define BETWEEN  500u /* ns of work between two writes */
#define TURNS    100u
#define AWAY_NS  3000000u
#define LONG_US  12000u /* a window four times as long */
#define GOOD_US  1000u
#define SHORT_US 1u
#define AUTO     0u

struct thrash {
	struct world *world;
	uint64_t ends; /* virtual time when the last thread was done */
	uint64_t moves;
	bool good;
};

struct thrash_thread {
	struct thrash *thrash;
	unsigned me;
};

static struct roami_node *thrash_node(const struct thrash_thread *thread)
{
	return world_node(thread->thrash->world, thread->me);
}

static void thrash_must(struct thrash *thrash, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thrash->world, "%s", roam_strerror(err));
}

/* Counts up the node's own word on the shared page. */
static void count_main(void *arg)
{
	struct thrash_thread *thread = arg;
	struct roami_node *node = thrash_node(thread);
	uint64_t at = thread->me * 2048u;

	for (uint32_t i = 0; i < WRITES; i++) {
		uint32_t value;

		world_load(node, at, &value, sizeof(value));
		if (value != i)
			world_fail(thread->thrash->world, "word %u is %u, not %u", thread->me,
				   value, i);
		value++;
		world_store(node, at, &value, sizeof(value));
		world_sleep(thread->thrash->world, BETWEEN);
	}
	thread->thrash->ends = world_elapsed(thread->thrash->world);
}

/* Each node writes once, in turns made by a barrier, and then leaves the page alone for long. */
static void turns_main(void *arg)
{
	struct thrash_thread *thread = arg;
	struct roami_node *node = thrash_node(thread);

	for (uint32_t i = 0; i < TURNS; i++) {
		if (i % 2 == thread->me)
			world_store(node, 0, &i, sizeof(i));
		thrash_must(thread->thrash, roami_barrier(node, ROAM_PAGE_SIZE, 0));
		world_sleep(thread->thrash->world, AWAY_NS);
	}
	thread->thrash->ends = world_elapsed(thread->thrash->world);
}

/*
 * Node 0 writes a number now and then; node 1 reads until it sees the number, and answers on a
 * page.
 */
static void await_main(void *arg)
{
	struct thrash_thread *thread = arg;
	struct roami_node *node = thrash_node(thread);
	uint64_t mine = thread->me * ROAM_PAGE_SIZE, other = ROAM_PAGE_SIZE - mine;

	for (uint32_t i = 1; i <= TURNS; i++) {
		uint32_t value = 0;

		if (thread->me == 0)
			world_store(node, mine, &i, sizeof(i));
		while (value < i) {
			world_load(node, other, &value, sizeof(value));
			world_sleep(thread->thrash->world, BETWEEN);
		}
		if (thread->me == 1)
			world_store(node, mine, &i, sizeof(i));
	}
	thread->thrash->ends = world_elapsed(thread->thrash->world);
}

#define JOBS UINT32_MAX /* the page has no delta of its own */

/* Runs two nodes; the page is in a region with a delta of its own. */
static struct thrash thrash_region(const struct roam_protocol *protocol, uint64_t seed,
				   uint32_t delta, uint32_t own, void (*fn)(void *arg))
{
	struct roami_placement region = {.pages = 1, .option = ROAMI_OPTION_OWN + own};
	struct thrash thrash = {0};
	struct thrash_thread threads[2] = {{&thrash, 0}, {&thrash, 1}};
	struct world_config config;

	world_draw(&config, seed, protocol);
	config.nodes = 2;
	config.hosts = 1; /* regions are placed before nodes run and can send messages */
	config.onesided = true;
	config.threads[0] = config.threads[1] = 1;
	config.creator_pages = 0;
	config.stall_every = 0;
	config.cache_pages = 0;
	config.latency_ns_max = 2000;
	config.slow_ns = 0;
	config.mirage_delta = delta;
	thrash.world = world_open(&config);
	if (thrash.world == NULL)
		exit(EXIT_FAILURE);
	if (own != JOBS)
		roami_placement_all(world_node(thrash.world, 0), &region);
	for (unsigned i = 0; i < 2; i++)
		world_spawn(thrash.world, i, fn, &threads[i]);
	thrash.good = world_run(thrash.world);
	if (!thrash.good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed,
		       world_error(thrash.world), seed_replay());
	thrash.moves = world_count(thrash.world, ROAMI_STAT_fetches);
	world_close(thrash.world);
	return thrash;
}

static struct thrash thrash_run(const struct roam_protocol *protocol, uint64_t seed, uint32_t delta,
				void (*fn)(void *arg))
{
	return thrash_region(protocol, seed, delta, JOBS, fn);
}

/* The same protocol without a window; its page states are the same. */
static const struct roam_protocol *thrash_without(const struct roam_protocol *protocol)
{
	for (unsigned i = 0; roami_protocols[i] != NULL; i++)
		if (roami_protocols[i]->states == protocol->states &&
		    roami_protocols[i]->region_option == NULL)
			return roami_protocols[i];
	printf("FAILED: %s without a window is in no protocol\n", protocol->name);
	exit(EXIT_FAILURE);
}

static bool thrash_expect(bool holds, uint64_t seed, const char *what)
{
	if (!holds)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed, what, seed_replay());
	return holds;
}

static bool count_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct thrash without = thrash_run(thrash_without(protocol), seed, AUTO, count_main);
	struct thrash brief = thrash_run(protocol, seed, SHORT_US, count_main);
	struct thrash window = thrash_run(protocol, seed, GOOD_US, count_main);
	struct thrash found = thrash_run(protocol, seed, AUTO, count_main);

	printf("seed %lu: two writers: the page moved %lu times without a window, %lu with %u us, "
	       "%lu with %u us, %lu by itself\n",
	       (unsigned long)seed, (unsigned long)without.moves, (unsigned long)brief.moves,
	       SHORT_US, (unsigned long)window.moves, GOOD_US, (unsigned long)found.moves);
	return without.good && brief.good && window.good && found.good &&
	       thrash_expect(without.moves >= 40, seed, "it does not thrash") &&
	       thrash_expect(window.moves >= 2 && window.moves * 8 <= without.moves, seed,
			     "a good window saves too little") &&
	       thrash_expect(found.moves * 3 <= without.moves, seed,
			     "the window found saves too little") &&
	       thrash_expect(brief.moves * 2 >= without.moves, seed,
			     "a short window is a long one");
}

static bool turns_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct thrash without = thrash_run(thrash_without(protocol), seed, AUTO, turns_main);
	struct thrash window = thrash_run(protocol, seed, LONG_US, turns_main);
	struct thrash found = thrash_run(protocol, seed, AUTO, turns_main);

	printf("seed %lu: in turns: %lu us without, %lu with a window of %u us, %lu by itself\n",
	       (unsigned long)seed, (unsigned long)without.ends / 1000,
	       (unsigned long)window.ends / 1000, LONG_US, (unsigned long)found.ends / 1000);
	return without.good && window.good && found.good &&
	       thrash_expect(window.moves == without.moves && found.moves == without.moves, seed,
			     "another number of moves") &&
	       thrash_expect(window.ends > 2 * without.ends, seed, "the window is not kept") &&
	       thrash_expect(found.ends < without.ends + without.ends / 20, seed,
			     "the window found keeps others waiting");
}

static bool await_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct thrash without = thrash_run(thrash_without(protocol), seed, AUTO, await_main);
	struct thrash found = thrash_run(protocol, seed, AUTO, await_main);

	printf("seed %lu: awaited: %lu us without, %lu by itself\n", (unsigned long)seed,
	       (unsigned long)without.ends / 1000, (unsigned long)found.ends / 1000);
	return without.good && found.good &&
	       thrash_expect(found.ends < 2 * without.ends, seed,
			     "a loop that waits for a value made the window long");
}

/* A region's window holds, whatever the job's is. */
static bool region_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct thrash window = thrash_run(protocol, seed, GOOD_US, count_main);
	struct thrash brief = thrash_run(protocol, seed, SHORT_US, count_main);
	struct thrash found = thrash_run(protocol, seed, AUTO, count_main);
	struct thrash longer = thrash_region(protocol, seed, SHORT_US, GOOD_US, count_main);
	struct thrash shorter = thrash_region(protocol, seed, GOOD_US, SHORT_US, count_main);
	struct thrash free = thrash_region(protocol, seed, GOOD_US, AUTO, count_main);

	return longer.good && shorter.good && free.good &&
	       thrash_expect(longer.moves == window.moves && longer.ends == window.ends, seed,
			     "a region's longer window is not the job's") &&
	       thrash_expect(shorter.moves == brief.moves && shorter.ends == brief.ends, seed,
			     "a region's shorter window is not the job's") &&
	       thrash_expect(free.moves == found.moves && free.ends == found.ends, seed,
			     "a region's window is not found");
}

/* Whether the protocol has a window. */
static bool thrash_about(const struct roam_protocol *protocol)
{
	return protocol->region_option != NULL &&
	       strcmp(protocol->region_option, "ROAM_MIRAGE_DELTA") == 0;
}

static bool thrash_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	(void)options;
	(void)arg;
	return count_one(protocol, seed) && region_one(protocol, seed) &&
	       turns_one(protocol, seed) && await_one(protocol, seed);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, thrash_about, thrash_one, seed_done, NULL);
}
