/*
 * Operations of nodes on each other's memory besides pages (home/placement.h), where they go by
 * messages: some nodes are on other hosts, or all on one with ROAM_ONESIDED=0.  Threads lease parts
 * of the heap and take blocks, write in them, free them, and take blocks that others have freed:
 * such a block must have no other user, earlier writes to it must be known, and objects in it
 * forgotten.  Nodes also place pages, and tell their state.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/parts.h"
#include "home/placement.h"
#include "home/remote.h"
#include "msg/msg_state.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/frees.h"
#include "sync/log.h"
#include "sync/state.h"
#include "sync/sync.h"
#include "world.h"

#define PLACED    48u /* pages that a node places */
#define PARTS     12u /* of the heap, behind those */
#define PART       (ROAMI_HEAP_PARTS_PART_BYTES / ROAM_PAGE_SIZE)
#define OWN_MAX   3u
#define ROUNDS    60u
#define START_ID  4096u
#define LOCK_ID   4104u
#define THREADS   (5 * 2)
#define HASH(node) (1000u + (node))

struct far_part {
	unsigned owner; /* 1 + number of the thread; 0: it is free, or about to be */
	bool used;
	bool objects;   /* locks or the like were used there since it was last taken */
	uint64_t value; /* what was stored there last */
};

struct far_world {
	struct world *world;
	unsigned nodes, threads;
	uint32_t first; /* page of the first part */
	unsigned hosts;
	bool onesided;
	bool scoped; /* a lock shows only what was written while it was held */
	struct far_part parts[PARTS];
	unsigned told; /* nodes that have told their state */
};

struct far_own {
	uint32_t first, parts;
	bool block;
};

struct far_thread {
	struct far_world *far;
	struct roami_node *node;
	unsigned number; /* of all */
	bool first;      /* of its node */
	struct rng rng;
	struct far_own own[OWN_MAX];
	unsigned count;
	uint64_t stores;
};

static void far_must(struct far_thread *thread, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thread->far->world, "%s", roam_strerror(err));
}

static uint64_t part_at(const struct far_thread *thread, uint32_t part)
{
	return (uint64_t)(thread->far->first + part * PART) * ROAM_PAGE_SIZE;
}

/* ---------------------------------------------------------------------------------------- parts */

static uint64_t sent_all(const struct far_thread *thread)
{
	uint64_t sent = 0;

	for (unsigned peer = 0; peer < thread->far->nodes; peer++)
		sent += atomic_load(&msg_of(thread->node)->sent[peer]);
	return sent;
}

/*
 * Checks that all nodes, which are told so, have forgotten objects that the last owner used in it;
 * then this owner may use some.
 */
static void part_objects(struct far_thread *thread, uint32_t part)
{
	struct far_part *there = &thread->far->parts[part];
	uint64_t at = part_at(thread, part), before = sent_all(thread);
	_Atomic uint32_t announced = 0;

	roami_objects_forget(thread->node, at, ROAMI_HEAP_PARTS_PART_BYTES);
	if (there->objects && sent_all(thread) == before)
		world_fail(thread->far->world, "no node forgets the objects in part %u", part);
	there->objects = rng_one_in(&thread->rng, 2);
	at += rng_below(&thread->rng, ROAMI_HEAP_PARTS_PART_BYTES);
	if (there->objects)
		roami_object_announce(thread->node, (uint64_t)(uintptr_t)thread->node->app + at,
				      &announced);
}

/* Checks that the part is this thread's alone, and that earlier writes to it are known here. */
static void part_taken(struct far_thread *thread, uint32_t part, bool used)
{
	struct far_part *there = &thread->far->parts[part];
	uint64_t value;

	if (there->owner != 0)
		world_fail(thread->far->world, "thread %u gets part %u of thread %u",
			   thread->number, part, there->owner - 1);
	if (there->used && !used)
		world_fail(thread->far->world, "part %u is said to be new", part);
	there->owner = thread->number + 1;
	there->used = true;
	world_load(thread->node, part_at(thread, part), &value, sizeof(value));
	if (value != there->value && !thread->far->scoped)
		world_fail(thread->far->world, "thread %u finds %lu in part %u, not %lu",
			   thread->number, (unsigned long)value, part,
			   (unsigned long)there->value);
	there->value = ++thread->stores * THREADS + thread->number;
	world_store(thread->node, part_at(thread, part), &there->value, sizeof(value));
	part_objects(thread, part);
}

static void parts_take(struct far_thread *thread)
{
	struct far_own own = {0, rng_range(&thread->rng, 1, 3), rng_one_in(&thread->rng, 2)};
	struct roami_vclock clock;
	bool used;

	roami_log_reuse_clock(thread->node, &clock);
	if (thread->count == OWN_MAX ||
	    !roami_parts_take(thread->node, 0, own.parts, own.block, &clock, &own.first, &used))
		return;
	for (uint32_t i = 0; i < own.parts; i++)
		part_taken(thread, own.first + i, used);
	thread->own[thread->count++] = own;
}

static void parts_look(struct far_thread *thread, const struct far_own *own)
{
	struct roami_heap_part part = roami_parts_look(thread->node, 0, own->first);

	if (part.state != (own->block ? ROAMI_HEAP_PARTS_BLOCK : ROAMI_HEAP_PARTS_LEASED) ||
	    (!own->block && part.node != thread->node->me))
		world_fail(thread->far->world, "part %u of thread %u is of state %d, node %u",
			   own->first, thread->number, (int)part.state, part.node);
}

static void parts_give(struct far_thread *thread)
{
	struct far_own own;

	if (thread->count == 0)
		return;
	own = thread->own[--thread->count];
	parts_look(thread, &own);
	for (uint32_t i = 0; i < own.parts; i++)
		thread->far->parts[own.first + i].owner = 0;
	if (!own.block)
		roami_parts_put(thread->node, 0, own.first, own.parts, true,
				roami_free_interval(thread->node, 0));
	else if (!roami_parts_free(thread->node, 0, own.first,
				   roami_free_interval(thread->node, 0)))
		world_fail(thread->far->world, "block %u of thread %u is none", own.first,
			   thread->number);
}

/* ------------------------------------------------------------------------------ places, states */

static struct roami_placement far_place(const struct far_world *far, unsigned node)
{
	static const unsigned places[] = {ROAM_PLACE_BLOCK, ROAM_PLACE_CYCLIC, ROAM_PLACE_NODE};

	return (struct roami_placement){.page = node * PLACED,
					.pages = PLACED,
					.policy = places[node % 3],
					.home = (node + 1) % far->nodes};
}

static unsigned place_home(const struct roami_placement *place, uint32_t i, unsigned nodes)
{
	if (place->policy == ROAM_PLACE_BLOCK)
		return i * nodes / PLACED;
	return place->policy == ROAM_PLACE_CYCLIC ? i % nodes : place->home;
}

static void places_check(struct far_thread *thread)
{
	unsigned nodes = thread->far->nodes;

	for (uint32_t page = 0; page < nodes * PLACED; page++) {
		struct roami_placement place = far_place(thread->far, page / PLACED);
		unsigned home = place_home(&place, page % PLACED, nodes);
		uint64_t word = roami_word_load(thread->node, page);

		if (word != (ROAMI_WORD_ASSIGNED | home))
			world_fail(thread->far->world, "page %u has the word %#lx, not home %u",
				   page, (unsigned long)word, home);
	}
}

/* With ROAM_ONESIDED=0 a node on one host must send messages where another host would need them. */
static void asked_check(struct far_thread *thread)
{
	struct roami_node *node = thread->node;
	const _Atomic uint64_t *sent = &msg_of(node)->sent[0];
	uint64_t words[PLACED], before = atomic_load(sent);
	bool near = thread->far->onesided && node->me % thread->far->hosts == 0;

	if (node->me == 0 || near)
		return;
	roami_words_read(node, 0, PLACED, words);
	if (atomic_load(sent) == before)
		world_fail(thread->far->world, "node %u reads words without a message", node->me);
	before = atomic_load(sent);
	roami_parts_look(node, 0, 0);
	if (atomic_load(sent) == before)
		world_fail(thread->far->world, "node %u sees the heap's parts without a message",
			   node->me);
}

/* Looks at once: a node that hears of the change in another way looks right after that. */
static void states_check(struct far_thread *thread, bool all)
{
	struct far_world *far = thread->far;

	for (unsigned peer = 0; peer < far->nodes; peer++) {
		const struct roami_ctl *ctl = thread->node->segments[peer].ctl;
		uint64_t hash = atomic_load(&ctl->alloc_hash);

		if (hash != HASH(peer) && (all || far->told >> peer & 1))
			world_fail(far->world, "node %u has the hash %lu of node %u",
				   thread->node->me, (unsigned long)hash, peer);
	}
}

static void far_tell(struct far_thread *thread)
{
	struct roami_placement place = far_place(thread->far, thread->node->me);

	roami_placement_all(thread->node, &place);
	states_check(thread, false);
	roami_state_set(thread->node, ROAMI_STATE_ALLOC_HASH, HASH(thread->node->me), true);
	thread->far->told |= 1u << thread->node->me;
	states_check(thread, false);
}

/* ----------------------------------------------------------------------------------------- life */

static void far_main(void *arg)
{
	struct far_thread *thread = arg;

	far_must(thread, roami_barrier(thread->node, START_ID, 0));
	if (thread->first)
		far_tell(thread);
	for (unsigned round = 0; round < ROUNDS; round++) {
		if (rng_one_in(&thread->rng, 2))
			parts_take(thread);
		else
			parts_give(thread);
		if (rng_one_in(&thread->rng, 2))
			world_sleep(thread->far->world, rng_below(&thread->rng, 20000));
		/* Some threads acquire rarely, and so may take little of what others free. */
		if (!rng_one_in(&thread->rng, thread->number % 2 == 0 ? 2 : 10))
			continue;
		far_must(thread, roami_lock(thread->node, LOCK_ID));
		far_must(thread, roami_unlock(thread->node, LOCK_ID));
	}
	far_must(thread, roami_barrier(thread->node, START_ID, 0));
	states_check(thread, true);
	places_check(thread);
	asked_check(thread);
	far_must(thread, roami_barrier(thread->node, START_ID, 0));
}

static void far_spawn(struct far_world *far, const struct world_config *config,
		      struct far_thread *threads)
{
	for (unsigned node = 0; node < config->nodes; node++)
		for (unsigned i = 0; i < config->threads[node]; i++) {
			struct far_thread *thread = &threads[far->threads];

			*thread = (struct far_thread){.far = far,
						      .node = world_node(far->world, node),
						      .number = far->threads++,
						      .first = i == 0,
						      .rng = {config->seed * 64 + far->threads}};
			world_spawn(far->world, node, far_main, thread);
		}
}

static bool far_one(const struct seed_options *options, const struct roam_protocol *protocol,
		    uint64_t seed, void *arg)
{
	struct far_thread threads[THREADS];
	struct far_world far = {.threads = 0};
	struct world_config config;
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	world_nodes(&config, 2 + (unsigned)(seed % 4));
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = 1 + (unsigned)(seed / 4 + i) % 2;
	config.hosts = roami_homes_everywhere(protocol) ? 1 : 1 + (unsigned)(seed / 2) % 3;
	config.onesided = seed % 3 != 0;
	config.heap_pages = config.nodes * PLACED + PARTS * PART;
	config.creator_pages = 0;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.trace = options->trace;
	if (options->lossy)
		world_lossy(&config);
	far.nodes = config.nodes;
	far.hosts = config.hosts;
	far.onesided = config.onesided;
	far.first = config.nodes * PLACED;
	far.scoped = world_model(&config) == ROAM_MODEL_SCC;
	far.world = world_open(&config);
	if (far.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < far.nodes; i++)
		roami_heap_parts_init(&world_node(far.world, i)->self->pool[0],
				      PARTS * ROAMI_HEAP_PARTS_PART_BYTES);
	far_spawn(&far, &config, threads);
	good = seed_world(far.world, &config);
	world_close(far.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, far_one, seed_done, NULL);
}
