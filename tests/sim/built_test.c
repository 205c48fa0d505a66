/*
 * Reader-writer locks and roam_once in worlds: the code of src/api/built.c, whose public calls are
 * made on the world's nodes.  Random threads read and write pairs of words, try, and wait.  Writers
 * are alone; readers see what the last writer left, and go after writers that wait; a roam_once is
 * done once and seen by all; and all threads get on.  Options: seed_options.h.
 *
 * A world's heap has no address.  So each thread has a mirror of the objects' state, which is what
 * built.c looks at; it is filled when the thread has the object's lock and written back before the
 * thread lets it go, which is all that built.c may rely on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "rng.h"
#include "roam/roam.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define START_ID 4096u
#define IDS      0x7100000000u
#define LOCKS    4u
#define ONCES    3u
#define ACTORS   (ROAMI_NODES_MAX * WORLD_THREADS_MAX)
#define MAGIC    0x1eaf00d5u
#define US       1000u

/* An object's state, in the heap, followed by words that the object guards. */
struct state {
	union {
		struct roam_rwlock rw;
		uint32_t once;
	} is;
	uint64_t first, last;
};

#define OBJECTS (LOCKS + ONCES)

struct actor {
	struct built *built;
	struct roami_node *node;
	struct rng rng;
	struct state mirrors[OBJECTS], before[OBJECTS];
};

/* What the test knows of an object. */
struct truth {
	uint64_t at; /* offset in the heap */
	unsigned readers, writers, made;
	unsigned waiting, entered, left; /* writers: that wait now, that had it, that gave up */
	uint64_t value;
};

static struct built {
	struct world *world;
	unsigned count, operations;
	struct truth truths[OBJECTS];
	struct actor *maker[ONCES];
	struct actor actors[ACTORS];
} built;

static void built_must(enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(built.world, "%s", roam_strerror(err));
}

/* ---------------------------------------------------------- what built.c calls, on these nodes */

static struct actor *actor_of(const void *object)
{
	return &built.actors[((uintptr_t)object - (uintptr_t)built.actors) / sizeof(struct actor)];
}

static unsigned which_of(const void *object)
{
	return (unsigned)(((uintptr_t)object - (uintptr_t)actor_of(object)->mirrors) /
			  sizeof(struct state));
}

/* Offset from the state's beginning, as the address has it. */
static uint64_t id_of(const void *object)
{
	return IDS + ((uintptr_t)object - (uintptr_t)actor_of(object)->mirrors);
}

static void mirror_fill(const void *object)
{
	struct actor *actor = actor_of(object);
	unsigned which = which_of(object);

	world_load(actor->node, built.truths[which].at, &actor->mirrors[which].is,
		   sizeof(actor->mirrors[which].is));
	actor->before[which] = actor->mirrors[which];
	if (which >= LOCKS)
		built.maker[which - LOCKS] = actor;
}

static void mirror_write(const void *object)
{
	struct actor *actor = actor_of(object);
	unsigned which = which_of(object);

	if (which < LOCKS)
		built.truths[which].waiting = actor->mirrors[which].is.rw.writers;
	if (memcmp(&actor->before[which].is, &actor->mirrors[which].is,
		   sizeof(actor->mirrors[which].is)) != 0)
		world_store(actor->node, built.truths[which].at, &actor->mirrors[which].is,
			    sizeof(actor->mirrors[which].is));
}

static enum roam_err built_lock(const void *lock)
{
	world_doing(built.world, "lock", which_of(lock));
	built_must(roami_lock(actor_of(lock)->node, id_of(lock)));
	mirror_fill(lock);
	return ROAM_OK;
}

static enum roam_err built_lock_until(const void *lock, uint64_t until_us)
{
	enum roam_err err;

	if (until_us == UINT64_MAX)
		return built_lock(lock);
	world_doing(built.world, "lock until", which_of(lock));
	err = roami_lock_until(actor_of(lock)->node, id_of(lock), until_us * US);
	if (err == ROAM_OK)
		mirror_fill(lock);
	else if (err != ROAM_ETIMEDOUT)
		built_must(err);
	return err;
}

static enum roam_err built_trylock(const void *lock)
{
	enum roam_err err;

	world_doing(built.world, "try lock", which_of(lock));
	err = roami_lock_try(actor_of(lock)->node, id_of(lock));
	if (err == ROAM_OK)
		mirror_fill(lock);
	return err;
}

static enum roam_err built_unlock(const void *lock)
{
	world_doing(built.world, "unlock", which_of(lock));
	mirror_write(lock);
	return roami_unlock(actor_of(lock)->node, id_of(lock));
}

static enum roam_err built_cond_wait(const void *cond, const void *lock)
{
	world_doing(built.world, "cond wait", which_of(lock));
	mirror_write(lock);
	built_must(roami_cond_wait(actor_of(lock)->node, id_of(cond), id_of(lock)));
	mirror_fill(lock);
	return ROAM_OK;
}

/* Makes a writer stop waiting that has the lock again, but not what it waited for. */
static void gives_up(struct truth *truth)
{
	truth->left++;
	truth->waiting--;
}

static enum roam_err built_cond_wait_until(const void *cond, const void *lock, uint64_t until_us)
{
	enum roam_err err;

	if (until_us == UINT64_MAX)
		return built_cond_wait(cond, lock);
	world_doing(built.world, "cond wait until", which_of(lock));
	mirror_write(lock);
	err = roami_cond_wait_until(actor_of(lock)->node, id_of(cond), id_of(lock), until_us * US);
	if (err != ROAM_ETIMEDOUT)
		built_must(err);
	else if (cond == &actor_of(lock)->mirrors[which_of(lock)].is.rw.writers)
		gives_up(&built.truths[which_of(lock)]);
	mirror_fill(lock);
	return err;
}

static enum roam_err built_cond_broadcast(const void *cond)
{
	return roami_cond_post(actor_of(cond)->node, id_of(cond), true);
}

static bool built_lock_held(struct roami_node *node, uint64_t address)
{
	return roami_lock_held(node, id_of((const void *)(uintptr_t)address)); /* NOLINT */
}

static enum roam_err built_node(const void *object, struct roami_node **node_p)
{
	*node_p = actor_of(object)->node;
	return ROAM_OK;
}

static bool built_shared_(const void *addr, size_t bytes)
{
	return (uintptr_t)addr - (uintptr_t)built.actors + bytes <= sizeof(built.actors);
}

/* Threads of a world are one thread of the process, which is in no call. */
#undef INSIDE
#define INSIDE
#define roami_api_lock                built_lock_until
#define roami_api_trylock             built_trylock
#define roami_api_unlock              built_unlock
#define roami_api_cond_wait           built_cond_wait_until
#define roami_api_cond_broadcast      built_cond_broadcast
#define roami_lock_held               built_lock_held
#define roami_api_shared              built_shared_
#define roami_api_over()              false
#define roami_api_node(node_p, round) (*(round) = 0, built_node(state, node_p))

#include "../../src/api/built.c" /* NOLINT */

/* ------------------------------------------------------------------------------------- threads */

static void rest(struct actor *actor, unsigned us)
{
	if (rng_one_in(&actor->rng, 2))
		world_sleep(built.world, rng_below(&actor->rng, us * US));
}

static void see(struct actor *actor, unsigned which)
{
	struct truth *truth = &built.truths[which];
	uint64_t pair[2];

	world_load(actor->node, truth->at + offsetof(struct state, first), pair, sizeof(pair));
	if (pair[0] != truth->value || pair[1] != truth->value)
		world_fail(built.world, "node %u reads %lu and %lu of object %u, not %lu",
			   actor->node->me, (unsigned long)pair[0], (unsigned long)pair[1], which,
			   (unsigned long)truth->value);
}

static void put(struct actor *actor, unsigned which, size_t member, uint64_t value)
{
	world_store(actor->node, built.truths[which].at + member, &value, sizeof(value));
}

static void change(struct actor *actor, unsigned which)
{
	struct truth *truth = &built.truths[which];

	put(actor, which, offsetof(struct state, first), truth->value + 1);
	rest(actor, 20);
	put(actor, which, offsetof(struct state, last), truth->value + 1);
	truth->value++;
}

/* Executes a section of a reader-writer lock that this thread has. */
static void section(struct actor *actor, unsigned which, bool writes)
{
	struct truth *truth = &built.truths[which];

	if (truth->writers > 0 || (writes && truth->readers > 0))
		world_fail(built.world, "object %u: %u readers and %u writers beside a %s", which,
			   truth->readers, truth->writers, writes ? "writer" : "reader");
	*(writes ? &truth->writers : &truth->readers) += 1;
	if (writes) {
		truth->entered++;
		truth->waiting = actor->mirrors[which].is.rw.writers;
	}
	see(actor, which);
	rest(actor, 30);
	if (writes)
		change(actor, which);
	else
		see(actor, which);
	*(writes ? &truth->writers : &truth->readers) -= 1;
	built_must(roam_rwunlock(&actor->mirrors[which].is.rw));
}

static void read_or_write(struct actor *actor)
{
	unsigned which = rng_below(&actor->rng, LOCKS);
	struct roam_rwlock *rw = &actor->mirrors[which].is.rw;
	struct truth *truth = &built.truths[which];
	bool writes = rng_one_in(&actor->rng, 3), late = truth->waiting > 0 && truth->writers == 0;
	unsigned entered = truth->entered, left = truth->left;
	enum roam_err err = ROAM_EBUSY;

	if (rng_one_in(&actor->rng, 4))
		err = writes ? roam_trywrlock(rw) : roam_tryrdlock(rw);
	if (err == ROAM_EBUSY && rng_one_in(&actor->rng, 8))
		return;
	if (err == ROAM_EBUSY && rng_one_in(&actor->rng, 3)) {
		uint64_t until = world_now(built.world) / US + rng_below(&actor->rng, 100);

		err = writes ? roam_wrlock_until(rw, until) : roam_rdlock_until(rw, until);
		if (err == ROAM_ETIMEDOUT)
			return;
	}
	if (err == ROAM_EBUSY)
		err = writes ? roam_wrlock(rw) : roam_rdlock(rw);
	built_must(err);
	if (!writes && late && truth->entered == entered && truth->left == left)
		world_fail(built.world, "object %u: a reader goes before a writer that waited",
			   which);
	section(actor, which, writes);
}

/* The function of a `once` object, which the thread with its lock executes. */
static void make(unsigned number)
{
	struct truth *truth = &built.truths[LOCKS + number];

	if (truth->made++ > 0)
		world_fail(built.world, "once %u is done again", number);
	truth->value = MAGIC - 1;
	change(built.maker[number], LOCKS + number);
}

static void make_0(void)
{
	make(0);
}

static void make_1(void)
{
	make(1);
}

static void make_2(void)
{
	make(2);
}

static void once(struct actor *actor)
{
	static void (*const makes[ONCES])(void) = {make_0, make_1, make_2};
	unsigned number = rng_below(&actor->rng, ONCES);

	built_must(roam_once(&actor->mirrors[LOCKS + number].is.once, makes[number]));
	see(actor, LOCKS + number);
}

static void built_main(void *arg)
{
	struct actor *actor = arg;

	built_must(roami_barrier(actor->node, START_ID, 0));
	for (unsigned i = 0; i < built.operations; i++) {
		if (rng_one_in(&actor->rng, 8))
			once(actor);
		else
			read_or_write(actor);
		rest(actor, 50);
	}
	built_must(roami_barrier(actor->node, START_ID, 0));
	for (unsigned i = 0; i < LOCKS; i++) {
		struct roam_rwlock left, none = {0, 0, 0, 0};

		see(actor, i);
		world_load(actor->node, built.truths[i].at, &left, sizeof(left));
		if (memcmp(&left, &none, sizeof(left)) != 0)
			world_fail(built.world, "object %u is not free: %u %u %u", i, left.readers,
				   left.waiting, left.writers);
	}
}

/* Objects of the same page, and of others. */
static void place(struct rng *rng)
{
	for (unsigned i = 0; i < OBJECTS; i++)
		built.truths[i] = (struct truth){
			.at = rng_below(rng, 3) * ROAM_PAGE_SIZE + i * sizeof(struct state)};
}

static bool built_one(const struct seed_options *options, const struct roam_protocol *protocol,
		      uint64_t seed, void *arg)
{
	struct world_config config;
	struct rng rng = {seed * 2 + 1};
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	config.creator_pages = 0;
	config.trace = options->trace;
	memset(&built, 0, sizeof(built));
	built.world = world_open(&config);
	if (built.world == NULL)
		exit(EXIT_FAILURE);
	place(&rng);
	built.operations = rng_range(&rng, 5, 30);
	for (unsigned node = 0; node < config.nodes; node++)
		for (unsigned i = 0; i < config.threads[node]; i++) {
			struct actor *actor = &built.actors[built.count++];

			*actor = (struct actor){.built = &built,
						.node = world_node(built.world, node),
						.rng = {seed * 64 + built.count}};
			world_spawn(built.world, node, built_main, actor);
		}
	good = seed_world(built.world, &config);
	world_close(built.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, built_one, seed_done, NULL);
}
