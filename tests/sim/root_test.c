/*
 * roam_root in worlds: the code of src/api/root.c, whose calls are made on the world's nodes.
 * Random threads make and find random names.  All of them get one block for a name, none gets
 * another's, and a name that somebody has made is found.  Options: seed_options.h.
 *
 * A world's heap has no address.  So each thread has a mirror of the pages of the table, which is
 * filled when the thread has the lock and written back before the thread lets it go, which is all
 * that root.c may rely on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "job/job.h"
#include "rng.h"
#include "roam/roam.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define START_ID 4096u
#define LOCK_ID  0x7100000000u
#define NAMES    140u
#define TABLES   3u /* pages of so many names, behind page 0 */
#define BLOCKS   ((TABLES + 1) * ROAM_PAGE_SIZE)
#define ACTORS   (ROAMI_NODES_MAX * WORLD_THREADS_MAX)
#define US       1000u

/* A thread; its mirror has page 0, too, which is never used. */
struct actor {
	struct roami_node *node;
	struct rng rng;
	enum roam_err err;
	uint64_t mirror[BLOCKS / 8], before[BLOCKS / 8];
};

static struct {
	struct world *world;
	unsigned count, operations, tables;
	uint64_t end;        /* of the blocks */
	uint64_t at[NAMES];  /* where a name's block is, once a call has returned it */
	struct actor *now;   /* the thread that runs */
	struct actor actors[ACTORS];
} test;

static struct roami_job test_job;

/* ----------------------------------------------------------- what root.c calls, on these nodes */

/* The thread goes on, after others may have run. */
static void goes_on(struct actor *actor)
{
	test.now = actor;
	test_job.app = (uint8_t *)actor->mirror;
	test_job.node = actor->node;
}

static void test_must(enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(test.world, "%s", roam_strerror(err));
}

static enum roam_err test_lock(void)
{
	struct actor *actor = test.now;

	world_doing(test.world, "lock", 0);
	test_must(roami_lock(actor->node, LOCK_ID));
	for (unsigned page = 1; page <= test.tables; page++)
		world_load(actor->node, page * ROAM_PAGE_SIZE,
			   (uint8_t *)actor->mirror + page * ROAM_PAGE_SIZE, ROAM_PAGE_SIZE);
	memcpy(actor->before, actor->mirror, sizeof(actor->before));
	goes_on(actor);
	return ROAM_OK;
}

static enum roam_err test_unlock(void)
{
	struct actor *actor = test.now;

	world_doing(test.world, "unlock", 0);
	for (size_t i = 0; i < BLOCKS / 8; i++)
		if (actor->mirror[i] != actor->before[i])
			world_store(actor->node, i * 8, &actor->mirror[i], 8);
	test_must(roami_unlock(actor->node, LOCK_ID));
	goes_on(actor);
	return ROAM_OK;
}

static void *test_alloc(size_t bytes)
{
	uint64_t at = test.end;

	if (bytes > ROAM_PAGE_SIZE / 2) {
		if (test.tables == TABLES)
			world_fail(test.world, "the table is longer than its names");
		return test_job.app + ++test.tables * ROAM_PAGE_SIZE;
	}
	test.end += (bytes + 63) & ~(size_t)63;
	return test_job.app + at;
}

static uint64_t test_roots(struct roami_node *node, uint64_t set)
{
	struct actor *actor = test.now;
	uint64_t roots = roami_parts_roots(node, set);

	goes_on(actor);
	return roots;
}

/* Threads of a world are one thread of the process, which is in no call. */
#undef INSIDE
#define INSIDE
#define roami_api_job                       test_job
#define roami_api_begin()                   ROAM_OK
#define roami_api_node(node_p, round)       (*(round) = 0, *(node_p) = test.now->node, ROAM_OK)
#define roami_api_lock(lock, until_us)      ((void)(lock), test_lock())
#define roami_api_unlock(lock)              ((void)(lock), test_unlock())
#define roami_api_alloc(bytes, region, from) ((void)(region), (void)(from), test_alloc(bytes))
#define roami_api_errno(why)                (test.now->err = (why))
#define roami_parts_roots                   test_roots

#include "../../src/api/root.c" /* NOLINT */

/* ------------------------------------------------------------------------------------- threads */

static size_t bytes_of(unsigned number)
{
	return 8 + number % 57;
}

/* The offset of the block; 0: none. */
static uint64_t ask(struct actor *actor, unsigned number, size_t bytes, enum roam_access access)
{
	const uint8_t *block;
	char name[24];

	snprintf(name, sizeof(name), "root %u", number);
	goes_on(actor);
	block = roam_root(name, bytes, access);
	return block != NULL ? (uint64_t)(block - (const uint8_t *)actor->mirror) : 0;
}

static void refused(struct actor *actor, unsigned number, enum roam_err err)
{
	if (actor->err != err)
		world_fail(test.world, "root %u: %s, not: %s", number, roam_strerror(actor->err),
			   roam_strerror(err));
}

/* A block is the name's, and lies where no other one does. */
static void found(unsigned number, uint64_t at)
{
	if (test.at[number] == 0)
		test.at[number] = at;
	if (test.at[number] != at)
		world_fail(test.world, "root %u at %#lx and %#lx", number, (unsigned long)at,
			   (unsigned long)test.at[number]);
	for (unsigned other = 0; other < NAMES; other++)
		if (other != number && test.at[other] != 0 &&
		    test.at[other] < at + bytes_of(number) &&
		    at < test.at[other] + bytes_of(other))
			world_fail(test.world, "roots %u and %u overlap", number, other);
}

static void make_or_find(struct actor *actor)
{
	unsigned number = rng_below(&actor->rng, NAMES);
	bool made = test.at[number] != 0, other = made && rng_one_in(&actor->rng, 8);
	enum roam_access access = rng_one_in(&actor->rng, 4) ? ROAM_READ : ROAM_WRITE;
	uint64_t at = ask(actor, number, bytes_of(number) + other, access);

	if (at == 0 && other)
		refused(actor, number, ROAM_EMISMATCH);
	else if (at == 0 && !made && access == ROAM_READ)
		refused(actor, number, ROAM_EUNKNOWN);
	else if (at == 0 || other)
		world_fail(test.world, "root %u: found at %#lx", number, (unsigned long)at);
	else
		found(number, at);
}

static void root_main(void *arg)
{
	struct actor *actor = arg;

	test_must(roami_barrier(actor->node, START_ID, 0));
	for (unsigned i = 0; i < test.operations; i++) {
		make_or_find(actor);
		if (rng_one_in(&actor->rng, 2))
			world_sleep(test.world, rng_below(&actor->rng, 50 * US));
	}
	test_must(roami_barrier(actor->node, START_ID, 0));
	for (unsigned i = 0; i < NAMES; i += 1 + rng_below(&actor->rng, NAMES / 8))
		if (ask(actor, i, 0, ROAM_READ) != test.at[i])
			world_fail(test.world, "root %u is not where it was", i);
}

static bool root_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct world_config config;
	struct rng rng = {seed * 2 + 1};
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	config.creator_pages = 0;
	config.trace = options->trace;
	memset(&test, 0, sizeof(test));
	test.world = world_open(&config);
	if (test.world == NULL)
		exit(EXIT_FAILURE);
	test.end = BLOCKS;
	test.operations = rng_range(&rng, 5, 60);
	for (unsigned node = 0; node < config.nodes; node++)
		for (unsigned i = 0; i < config.threads[node]; i++) {
			struct actor *actor = &test.actors[test.count++];

			actor->node = world_node(test.world, node);
			actor->rng = (struct rng){seed * 64 + test.count};
			world_spawn(test.world, node, root_main, actor);
		}
	good = seed_world(test.world, &config);
	world_close(test.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, root_one, seed_done, NULL);
}
