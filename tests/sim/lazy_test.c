/*
 * Why diffs are left with their writers, in the world.  A fault that needs the diffs of many
 * writers takes hardly longer than one that needs one: all are asked before the first is waited
 * for.  And a program of locks alone, without any barrier, stays within ROAM_LRC_MEMORY, which it
 * fills many times over.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lrc_store.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

/* A build may leave it out. */
extern __typeof__(lrc_store_left) lrc_store_left __attribute__((weak));

#define WRITERS    6u
#define ROUNDS     6u
#define LATENCY_NS 100000u
#define ID_BARRIER 0x7500000000u
#define ID_LOCKS   0x7400000000u
#define LOCKS      8u
#define PAGES      6u
#define STRIDE     417u /* pages between two that are used */
#define NODES      4u
#define SECTIONS   150u
#define BLOCK      500u /* bytes that a section writes */
#define MEMORY     (128u << 10)

struct lazy {
	struct world *world;
	uint64_t one, many; /* virtual time of the faults, summed up */
	uint32_t begun;     /* nodes */
	uint32_t counts[LOCKS];
};

struct lazy_thread {
	struct lazy *lazy;
	unsigned me;
};

static void lazy_must(struct lazy *lazy, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(lazy->world, "%s", roam_strerror(err));
}

/* Reads every node's word of a page; returns how long the first load took. */
static uint64_t fan_read(struct lazy *lazy, struct roami_node *node, uint32_t page,
			 unsigned writers, uint32_t expect)
{
	uint64_t start = world_now(lazy->world), took = 0;

	for (unsigned i = 0; i < writers; i++) {
		uint32_t value;

		world_load(node, page * ROAMI_PAGE + i * 64, &value, sizeof(value));
		if (i == 0)
			took = world_now(lazy->world) - start;
		if (value != expect)
			world_fail(lazy->world, "page %u: %u, not %u", page, value, expect);
	}
	return took;
}

/* Page 1 has one writer; all nodes but the last write page 2; the last node reads both. */
static void fan_main(void *arg)
{
	struct lazy_thread *thread = arg;
	struct lazy *lazy = thread->lazy;
	struct roami_node *node = world_node(lazy->world, thread->me);

	for (uint32_t round = 0; round <= ROUNDS; round++) {
		if (thread->me == WRITERS && round > 0) {
			uint64_t one = fan_read(lazy, node, 1, 1, round);
			uint64_t many = fan_read(lazy, node, 2, WRITERS, round);

			lazy->one += round > 1 ? one : 0; /* the first fault brings whole pages */
			lazy->many += round > 1 ? many : 0;
		}
		lazy_must(lazy, roami_barrier(node, ID_BARRIER, 0));
		for (uint32_t page = 1; page <= 2; page++)
			if (thread->me < (page == 1 ? 1 : WRITERS)) {
				uint32_t value = round + 1;

				world_store(node, page * ROAMI_PAGE + thread->me * 64, &value,
					    sizeof(value));
			}
		lazy_must(lazy, roami_barrier(node, ID_BARRIER, 0));
	}
}

/*
 * Each lock protects blocks on all pages: a section finds in its block what the last one left
 * there, and fills it anew.
 */
static void locks_main(void *arg)
{
	struct lazy_thread *thread = arg;
	struct lazy *lazy = thread->lazy;
	struct roami_node *node = world_node(lazy->world, thread->me);
	struct rng rng = {world_now(lazy->world) + thread->me};
	uint8_t block[BLOCK], found[BLOCK];

	lazy->begun++;
	while (lazy->begun < NODES)
		world_sleep(lazy->world, 1000);
	for (unsigned i = 0; i < SECTIONS; i++) {
		unsigned lock = rng_below(&rng, LOCKS);
		uint64_t at;
		uint32_t count;

		lazy_must(lazy, roami_lock(node, ID_LOCKS + lock * 8));
		count = lazy->counts[lock];
		at = count % PAGES * STRIDE * ROAMI_PAGE + lock * BLOCK;
		memset(block, count < PAGES ? 0 : (int)(count + 1 - PAGES) & 0xff, sizeof(block));
		world_load(node, at, found, sizeof(found));
		if (memcmp(block, found, sizeof(found)) != 0)
			world_fail(lazy->world, "lock %u, section %u: %u, not %u", lock, count,
				   found[0], block[0]);
		memset(block, (int)++lazy->counts[lock] & 0xff, sizeof(block));
		world_store(node, at, block, sizeof(block));
		lazy_must(lazy, roami_unlock(node, ID_LOCKS + lock * 8));
		if (lrc_store_left(node) < MEMORY / 2)
			world_fail(lazy->world, "only %llu bytes are left",
				   (unsigned long long)lrc_store_left(node));
	}
}

static bool lazy_run(struct lazy *lazy, const struct roam_protocol *protocol, uint64_t seed,
		     unsigned nodes, void (*fn)(void *arg))
{
	struct lazy_thread threads[WRITERS + 1];
	struct world_config config;
	bool good;

	world_draw(&config, seed, protocol);
	config.nodes = nodes;
	for (unsigned i = 0; i < nodes; i++)
		config.threads[i] = 1;
	config.creator_pages = 0;
	config.heap_pages = 2560; /* so that every node manages some pages */
	config.lrc_memory = MEMORY;
	if (fn == fan_main) {
		config.latency_ns_min = LATENCY_NS;
		config.latency_ns_max = LATENCY_NS / 10;
		config.slow_ns = 0;
		config.step_every = config.stall_every = 0;
		config.queue_max = 64;
	}
	lazy->world = world_open(&config);
	if (lazy->world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < nodes; i++) {
		threads[i] = (struct lazy_thread){lazy, i};
		world_spawn(lazy->world, i, fn, &threads[i]);
	}
	good = world_run(lazy->world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed, world_error(lazy->world),
		       seed_replay());
	world_close(lazy->world);
	return good;
}

/* Diffs stay with their writers until they are asked for. */
static bool lazy_about(const struct roam_protocol *protocol)
{
	return protocol->keeps_twins;
}

static bool lazy_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct lazy fan = {0}, locks = {0};

	(void)options;
	(void)arg;
	if (!lazy_run(&fan, protocol, seed, WRITERS + 1, fan_main) ||
	    !lazy_run(&locks, protocol, seed, NODES, locks_main))
		return false;
	if (fan.one >= 2 * LATENCY_NS * (ROUNDS - 1) && 2 * fan.many <= 3 * fan.one)
		return true;
	printf("FAILED seed %lu: faults took %lu ns with one writer, %lu with %u\n  %s\n",
	       (unsigned long)seed, (unsigned long)fan.one, (unsigned long)fan.many, WRITERS,
	       seed_replay());
	return false;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, lazy_about, lazy_one, seed_done, NULL);
}
