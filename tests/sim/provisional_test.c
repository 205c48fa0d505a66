/*
 * Pages that several nodes write first, each its own words, without having asked any node.  Then
 * the nodes take a lock, and must see the writes of those that had it before, and all writes at the
 * end. A thread of a node writes while another one takes the lock, and pages that have just been
 * written are placed.  Some seeds are races: one thread of each node opens a page just when another
 * thread gets the lock under which the page was written elsewhere.  Under a protocol whose pages
 * may be written before they have a home, or (--mixed) with half of the pages under that one, where
 * it can be beside the job's.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "home/placement.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define GROUPS      4u
#define GROUP_PAGES 64u /* pages of a group, whose words are requested together */
#define PAGES       6u  /* pages written of each group */
#define RACES       16u /* each with a group of its own */
#define RACE_NS     200000u
#define INSIDE_AT   2048u
#define START_ID    4096u
#define FLAG_ID     4104u
#define THREADS     (4 * WORLD_THREADS_MAX)

struct test {
	struct world *world;
	unsigned threads;
	unsigned nodes;
	uint32_t release_every;
	bool places;
	bool scoped; /* a lock shows only what was written while it was held */
	bool races;
	bool came[RACES][THREADS]; /* the threads that have held the group's lock */
};

struct test_thread {
	struct test *test;
	struct roami_node *node;
	uint32_t number;
	struct rng rng;
};

static uint64_t lock_of(uint32_t group)
{
	return 8192 + group * 8;
}

static uint64_t word_at(uint32_t group, uint32_t page, uint32_t thread)
{
	/* Some pages are adjacent and some are not, so that runs of claims begin and end. */
	return (uint64_t)(group * GROUP_PAGES + page * page) * ROAM_PAGE_SIZE + thread * 8;
}

static void provisional_must(struct test *test, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(test->world, "%s", roam_strerror(err));
}

static void provisional_pause(struct test_thread *thread)
{
	if (rng_one_in(&thread->rng, 3))
		world_sleep(thread->test->world, rng_below(&thread->rng, 20000));
}

/* Places a page that a node may be writing, if it has no home yet. */
static void provisional_place(struct test_thread *thread, uint32_t group)
{
	uint64_t at = word_at(group, rng_below(&thread->rng, PAGES), 0);
	struct roami_placement place = {.page = (uint32_t)(at / ROAM_PAGE_SIZE),
					.pages = 1,
					.policy = ROAM_PLACE_NODE,
					.home = rng_below(&thread->rng, thread->test->nodes)};

	if (thread->test->places && rng_one_in(&thread->rng, 2))
		roami_placement_all(thread->node, &place);
}

/* Releases without an acquire, so that the node's knowledge of untouched pages stays. */
static void provisional_release(struct test_thread *thread)
{
	if (rng_one_in(&thread->rng, thread->test->release_every))
		provisional_must(thread->test, roami_flag_set(thread->node, FLAG_ID));
}

static void provisional_write(struct test_thread *thread, uint32_t group, uint64_t beyond)
{
	uint32_t first = rng_below(&thread->rng, PAGES), value = thread->number + 1;

	for (uint32_t i = 0; i < PAGES; i++) {
		uint64_t at = word_at(group, (first + i) % PAGES, thread->number) + beyond;

		world_store(thread->node, at, &value, sizeof(value));
		provisional_pause(thread);
		provisional_place(thread, group);
		provisional_release(thread);
	}
}

/* The value that `other` has written there; `inside`: while it held the lock. */
static void provisional_check(struct test_thread *thread, uint32_t group, uint32_t other,
			      bool inside)
{
	for (uint32_t i = 0; i < 2 * PAGES; i++) {
		uint64_t at = word_at(group, i / 2, other) + i % 2 * INSIDE_AT;
		uint32_t value;

		if (inside && i % 2 == 0)
			continue;
		world_load(thread->node, at, &value, sizeof(value));
		if (value != other + 1)
			world_fail(thread->test->world,
				   "node %u, thread %u reads %u of thread %u, group %u, page %u",
				   thread->node->me, thread->number, value, other, group, i / 2);
	}
}

static void provisional_group(struct test_thread *thread, uint32_t group)
{
	struct test *test = thread->test;

	provisional_write(thread, group, 0);
	provisional_must(test, roami_lock(thread->node, lock_of(group)));
	for (uint32_t other = 0; other < test->threads; other++)
		if (test->came[group][other])
			provisional_check(thread, group, other, test->scoped);
	provisional_write(thread, group, INSIDE_AT);
	test->came[group][thread->number] = true;
	provisional_must(test, roami_unlock(thread->node, lock_of(group)));
}

/* Checks, with the lock, that writes of its earlier holders are in the page. */
static void race_lock(struct test_thread *thread, uint32_t group, uint64_t page)
{
	struct test *test = thread->test;
	uint32_t value = thread->number + 1;

	provisional_must(test, roami_lock(thread->node, lock_of(group)));
	for (uint32_t other = 0; other < test->threads; other++) {
		uint32_t found = other + 1;

		if (test->came[group][other])
			world_load(thread->node, page + other * 8, &found, sizeof(found));
		if (found != other + 1)
			world_fail(test->world, "node %u reads %u of thread %u, race %u",
				   thread->node->me, found, other, group);
	}
	world_store(thread->node, page + thread->number * 8, &value, sizeof(value));
	test->came[group][thread->number] = true;
	provisional_must(test, roami_unlock(thread->node, lock_of(group)));
}

/* Claims one page; the answer also says that another page is untouched. */
static void provisional_race(struct test_thread *thread, uint32_t group)
{
	uint64_t claimed = (uint64_t)group * GROUP_PAGES * ROAM_PAGE_SIZE;
	uint64_t page = claimed + (2 + group * group % (GROUP_PAGES - 2)) * ROAM_PAGE_SIZE;
	uint32_t value = thread->number + 1;

	provisional_must(thread->test, roami_barrier(thread->node, START_ID, 0));
	if (thread->number % 2 == 0) {
		world_sleep(thread->test->world, rng_below(&thread->rng, RACE_NS));
		race_lock(thread, group, page);
		return;
	}
	world_store(thread->node, claimed + thread->number * 8, &value, sizeof(value));
	world_sleep(thread->test->world, rng_below(&thread->rng, RACE_NS));
	world_store(thread->node, page + thread->number * 8, &value, sizeof(value));
}

static void provisional_main(void *arg)
{
	struct test_thread *thread = arg;
	struct test *test = thread->test;
	uint32_t first = rng_below(&thread->rng, GROUPS);

	provisional_must(test, roami_barrier(thread->node, START_ID, 0));
	for (uint32_t group = 0; test->races && group < RACES; group++)
		provisional_race(thread, group);
	if (test->races)
		return;
	for (uint32_t i = 0; i < GROUPS; i++)
		provisional_group(thread, (first + i) % GROUPS);
	provisional_must(test, roami_barrier(thread->node, START_ID, 0));
	for (uint32_t i = 0; i < GROUPS * test->threads; i++)
		provisional_check(thread, i / test->threads, i % test->threads, false);
}

static void provisional_spawn(struct test *test, const struct world_config *config,
			      struct test_thread *threads)
{
	for (unsigned node = 0; node < config->nodes; node++)
		for (unsigned i = 0; i < config->threads[node]; i++) {
			uint32_t number = test->threads++;

			threads[number] = (struct test_thread){test,
							       world_node(test->world, node),
							       number,
							       {config->seed * 64 + number}};
			world_spawn(test->world, node, provisional_main, &threads[number]);
		}
}

/* A protocol that has such pages. */
static const struct roam_protocol *provisional_protocol(void)
{
	unsigned at = 0;

	while (roami_protocols[at]->provisional == NULL)
		at++;
	return roami_protocols[at];
}

/* Puts half of the pages under that protocol; false: it cannot be beside the job's. */
static bool provisional_mix(struct world_config *config)
{
	config->regions[0] = provisional_protocol();
	config->region_count = 1;
	config->region_pages = GROUPS / 2 * GROUP_PAGES;
	return roami_protocol_beside(config->protocol, config->regions[0]);
}

static void race_config(struct world_config *config)
{
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = 2;
	config->heap_pages = RACES * GROUP_PAGES;
	config->creator_pages = 0;
	config->step_every = 1;
	config->stall_every = 3;
}

static bool provisional_one(const struct seed_options *options,
			    const struct roam_protocol *protocol, uint64_t seed, void *arg)
{
	struct test_thread threads[THREADS];
	struct test test = {.threads = 0};
	struct world_config config;
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	world_nodes(&config, 3 + seed % 2);
	for (unsigned i = 0; seed % 4 != 3 && i < config.nodes; i++)
		config.threads[i] = 3;
	config.heap_pages = GROUPS * GROUP_PAGES;
	config.creator_pages = seed % 3 == 0 ? GROUP_PAGES + 3 : 0;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.onesided = seed % 4 == 0;
	config.hosts = seed % 4 == 0 ? 2 : 1;
	config.step_every = (uint32_t)(seed % 3) + 1;
	if (seed % 4 != 3)
		config.stall_every = 8;
	test.races = seed % 5 == 4;
	if (test.races)
		race_config(&config);
	config.trace = options->trace;
	if (options->lossy)
		world_lossy(&config);
	if (options->mixed && !provisional_mix(&config))
		return true;
	test.nodes = config.nodes;
	test.release_every = (uint32_t)(seed % 8) + 1;
	test.places = seed % 4 < 2;
	test.scoped = world_model(&config) == ROAM_MODEL_SCC;
	test.world = world_open(&config);
	if (test.world == NULL)
		exit(EXIT_FAILURE);
	provisional_spawn(&test, &config, threads);
	good = seed_world(test.world, &config);
	world_close(test.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, provisional_one, seed_done, NULL);
}
