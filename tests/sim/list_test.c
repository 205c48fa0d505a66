/*
 * Lists of notices under scope consistency: when a node takes a lock and gives up a page, no notice
 * of that goes into the list of another lock, which the node has taken meanwhile and whose list
 * already has a newer notice of the page.  Five nodes, one page, and what they do when:
 *
 * 	ms  node 1                              others
 * 	 0  reads                               2 takes lock A, 3 takes lock B
 * 	 1  a thread waits for A, one for B
 * 	 2  a third one writes
 * 	 3  has A: gives the page up            2 writes, lets go of A
 * 	 4                                      4 reads: it has what node 1 gave up
 * 	 5  has B, lets go of it                3 writes, lets go of B
 * 	 7                                      4 takes B: sees what 3 wrote
 *
 * Options: seed_options.h.
 */
#include <stdlib.h>

#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

enum { LOCK_A = ROAM_PAGE_SIZE, LOCK_B = LOCK_A + 64 };

#define MS       1000000u
#define THREADS  7u
#define WORD(at) ((at) * sizeof(uint64_t)) /* each node's own */

struct list_thread {
	struct world *world;
	unsigned me;
	struct roami_node *node;
};

static void at_ms(const struct list_thread *thread, unsigned ms)
{
	world_sleep(thread->world, ms * MS - world_elapsed(thread->world));
}

static void must(const struct list_thread *thread, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thread->world, "%s", roam_strerror(err));
}

static uint64_t value_of(const struct list_thread *thread, unsigned word)
{
	uint64_t value;

	world_load(thread->node, WORD(word), &value, sizeof(value));
	return value;
}

static void write_one(const struct list_thread *thread, unsigned word)
{
	world_store(thread->node, WORD(word), &(uint64_t){1}, sizeof(uint64_t));
}

static void home_main(void *arg)
{
	write_one(arg, 0);
}

/* Takes a lock at the beginning, writes while holding it, and lets go. */
static void holder_main(void *arg)
{
	const struct list_thread *thread = arg;
	bool first = thread->me == 2;

	must(thread, roami_lock(thread->node, first ? LOCK_A : LOCK_B));
	at_ms(thread, first ? 3 : 5);
	write_one(thread, thread->me);
	must(thread, roami_unlock(thread->node, first ? LOCK_A : LOCK_B));
}

/* On node 1: waits for A, and keeps it. */
static void giver_main(void *arg)
{
	const struct list_thread *thread = arg;

	(void)value_of(thread, 1);
	at_ms(thread, 1);
	must(thread, roami_lock(thread->node, LOCK_A));
	at_ms(thread, 9);
	if (value_of(thread, 2) != 1)
		world_fail(thread->world, "lock A does not bring what was written with it");
	must(thread, roami_unlock(thread->node, LOCK_A));
}

static void teller_main(void *arg)
{
	const struct list_thread *thread = arg;

	at_ms(thread, 1);
	must(thread, roami_lock(thread->node, LOCK_B));
	at_ms(thread, 6);
	must(thread, roami_unlock(thread->node, LOCK_B));
}

static void writer_main(void *arg)
{
	const struct list_thread *thread = arg;

	at_ms(thread, 2);
	write_one(thread, 1);
}

static void reader_main(void *arg)
{
	const struct list_thread *thread = arg;

	at_ms(thread, 4);
	(void)value_of(thread, thread->me);
	at_ms(thread, 7);
	must(thread, roami_lock(thread->node, LOCK_B));
	if (value_of(thread, 3) != 1)
		world_fail(thread->world, "lock B does not bring what was written with it");
	must(thread, roami_unlock(thread->node, LOCK_B));
}

static const struct {
	unsigned node;
	void (*fn)(void *arg);
} threads_of[THREADS] = {{0, home_main},   {1, giver_main},  {1, teller_main}, {1, writer_main},
			 {2, holder_main}, {3, holder_main}, {4, reader_main}};

static bool list_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct list_thread threads[THREADS];
	struct world_config config;
	struct world *world;
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	config.nodes = 5;
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = i == 1 ? 3 : 1;
	config.creator_pages = 0;
	config.cache_pages = 0;
	config.stall_every = 0;
	config.slow_ns = 0;
	config.latency_ns_max = 2000;
	config.trace = options->trace;
	world = world_open(&config);
	if (world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < THREADS; i++) {
		unsigned me = threads_of[i].node;

		threads[i] = (struct list_thread){world, me, world_node(world, me)};
		world_spawn(world, me, threads_of[i].fn, &threads[i]);
	}
	good = seed_world(world, &config);
	world_close(world);
	return good;
}

static bool list_about(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_SCC;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 20};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, list_about, list_one, seed_done, NULL);
}
