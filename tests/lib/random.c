#include "random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_program.h"
#include "rng.h"

#define NO_LOCK  0xffffu
#define PUBS_MAX 12u
#define CLOCKS   RANDOM_THREADS_MAX

/* A counter that its producer raises under a lock, to tell other threads what it wrote before. */
struct gen_pub {
	uint16_t object;
	uint16_t lock;
	uint16_t cond;
	int producer;
	int consumer; /* >= 0: the only thread that waits; it is signalled */
	uint64_t count;
	uint32_t clock[CLOCKS];
	uint32_t told[RANDOM_OBJECTS_MAX]; /* scoped: the producer's clock at its last store in a
					      section that raised the counter */
};

/* Scoped: a lock has shown a thread `writer`'s stores to one object, up to `clock`. */
struct gen_shown {
	unsigned writer;
	uint32_t clock;
};

struct gen_flag {
	bool set;
	bool cleared; /* at least once */
	uint32_t setter, clearer;
	uint32_t clear_clock;
	uint32_t clock[CLOCKS];
	uint32_t waits[CLOCKS]; /* clocks of the threads that waited, and of the setter */
};

struct gen_barrier {
	bool used;
	uint32_t leaves[CLOCKS]; /* clocks at which the last episode's threads left; 0: was not
				    there */
};

/* A block: it is allocated again and again, and each life is ordered after the one before. */
struct gen_block {
	bool alive;
	bool freed; /* at least once */
	unsigned allocator, freer;
	uint32_t alloc_clock, free_clock;
};

struct gen {
	struct rng rng;
	struct rng apart; /* for newer operations: others keep their programs */
	struct random_program *program;
	unsigned threads;
	uint32_t clock[CLOCKS][CLOCKS];
	uint32_t written[RANDOM_OBJECTS_MAX][CLOCKS]; /* per thread: its clock at its last store */
	uint32_t read[RANDOM_OBJECTS_MAX][CLOCKS];
	struct gen_shown shown[CLOCKS][RANDOM_OBJECTS_MAX];
	uint16_t owner[RANDOM_OBJECTS_MAX]; /* its lock; NO_LOCK: ordered by other means */
	uint32_t shared;                    /* objects below are free to use; above: counters */
	unsigned locks;
	struct gen_pub pubs[PUBS_MAX];
	unsigned pub_count;
	struct gen_flag flags[RANDOM_FLAGS_MAX];
	unsigned flag_count;
	struct gen_barrier barriers[RANDOM_BARRIERS_MAX];
	unsigned barrier_count;
	struct gen_block blocks[RANDOM_BLOCKS_MAX];
	bool reduces;
	bool returns;
	uint32_t store_in; /* one access in so many is a store */
	uint32_t weights[11];
};

const char *const random_kind_names[RANDOM_KINDS] = {
	"load",    "store",  "lock init", "cond init", "lock",     "unlock",    "test",
	"unless",  "await",  "signal",    "broadcast", "flag set", "flag wait", "flag clear",
	"barrier", "reduce", "rest",      "pause",     "alloc",    "free",
	"arrive",  "leave",
};

/* --------------------------------------------------------------------------------------- lists */

static void *grow(void *items, uint32_t count, uint32_t *room, size_t bytes)
{
	if (count < *room)
		return items;
	*room = *room == 0 ? 64 : *room * 2;
	items = realloc(items, *room * bytes);
	if (items == NULL)
		abort();
	return items;
}

static struct random_op *gen_op(struct gen *gen, unsigned thread, enum random_kind kind,
				unsigned which)
{
	struct random_list *list = &gen->program->lists[thread];
	struct random_op *op;

	list->ops = grow(list->ops, list->count, &list->room, sizeof(*list->ops));
	op = &list->ops[list->count++];
	*op = (struct random_op){.kind = (uint8_t)kind, .which = (uint16_t)which};
	return op;
}

static uint32_t gen_meeting(struct gen *gen, uint32_t threads)
{
	struct random_program *program = gen->program;

	program->barriers_at = grow(program->barriers_at, program->meeting_count,
				    &program->meeting_room, sizeof(*program->barriers_at));
	program->barriers_at[program->meeting_count] = threads;
	return program->meeting_count++;
}

/* -------------------------------------------------------------------------------------- clocks */

static void clock_join(uint32_t *clock, const uint32_t *other)
{
	for (unsigned i = 0; i < CLOCKS; i++)
		if (clock[i] < other[i])
			clock[i] = other[i];
}

static bool clock_covers(const uint32_t *clock, const uint32_t *other)
{
	for (unsigned i = 0; i < CLOCKS; i++)
		if (clock[i] < other[i])
			return false;
	return true;
}

static uint32_t gen_tick(struct gen *gen, unsigned thread)
{
	return ++gen->clock[thread][thread];
}

/* -------------------------------------------------------------------------------------- access */

/* Whether an object is in no block, or in one not freed whose allocation is before `clock`. */
static bool gen_alive(const struct gen *gen, const uint32_t *clock, uint32_t object)
{
	unsigned block = gen->program->objects[object].block;
	const struct gen_block *life;

	if (block == 0)
		return true;
	life = &gen->blocks[block - 1];
	return life->alive && clock[life->allocator] >= life->alloc_clock;
}

/* Whether `thread`, at `clock`, has seen the accesses to `object` with these stamps. */
static bool gen_knows(const struct gen *gen, unsigned thread, const uint32_t *clock,
		      uint32_t object, const uint32_t *stamps)
{
	const struct gen_shown *shown = &gen->shown[thread][object];

	for (unsigned i = 0; i < CLOCKS; i++)
		if (clock[i] < stamps[i] && (shown->writer != i || shown->clock < stamps[i]))
			return false;
	return true;
}

static bool gen_may(const struct gen *gen, unsigned thread, const uint32_t *clock, uint32_t object,
		    bool store)
{
	/* All stores count, not only the last one, which a run may skip. */
	return gen_alive(gen, clock, object) &&
	       gen_knows(gen, thread, clock, object, gen->written[object]) &&
	       (!store || gen_knows(gen, thread, clock, object, gen->read[object]));
}

static void gen_store(struct gen *gen, unsigned thread, uint32_t object, uint32_t mode)
{
	gen_op(gen, thread, RANDOM_STORE, object)->mode = (uint8_t)mode;
	gen->written[object][thread] = gen_tick(gen, thread);
}

static void gen_load(struct gen *gen, unsigned thread, uint32_t object)
{
	gen_op(gen, thread, RANDOM_LOAD, object);
	gen->read[object][thread] = gen_tick(gen, thread);
}

static void gen_emit(struct gen *gen, unsigned thread, uint32_t object, bool store)
{
	if (!store)
		gen_load(gen, thread, object);
	else if (rng_one_in(&gen->rng, 4))
		gen_store(gen, thread, object, 1 + rng_below(&gen->rng, 2));
	else
		gen_store(gen, thread, object, RANDOM_FRESH);
}

/* Emits one access, at `clock`, with the locks held; false: no allowed one was found. */
static bool gen_access(struct gen *gen, unsigned thread, const uint32_t *clock, unsigned held,
		       unsigned inner)
{
	for (unsigned turn = 0; turn < 8; turn++) {
		uint32_t object = rng_below(&gen->rng, gen->shared);
		bool store = rng_one_in(&gen->rng, gen->store_in);
		uint16_t owner = gen->owner[object];

		/* Objects of the held locks first: a section is for them. */
		if (held != NO_LOCK && turn < 5 && owner == NO_LOCK)
			continue;
		if (owner == NO_LOCK ? !gen_may(gen, thread, clock, object, store)
				     : (owner != held && owner != inner) ||
					       !gen_alive(gen, clock, object))
			continue;
		gen_emit(gen, thread, object, store);
		if (store && rng_one_in(&gen->rng, 4))
			gen_emit(gen, thread, object, false);
		return true;
	}
	return false;
}

static void gen_burst(struct gen *gen, unsigned thread, const uint32_t *clock, unsigned held,
		      unsigned inner, uint32_t most)
{
	uint32_t count = rng_range(&gen->rng, 1, most);

	for (uint32_t i = 0; i < count; i++)
		gen_access(gen, thread, clock, held, inner);
}

/* -------------------------------------------------------------------------- one thread's turns */

static void turn_accesses(struct gen *gen, unsigned thread)
{
	gen_burst(gen, thread, gen->clock[thread], NO_LOCK, NO_LOCK, 6);
}

/* Accesses neighbouring objects in order, so that the core fetches ahead and claims runs. */
static void turn_scan(struct gen *gen, unsigned thread)
{
	uint32_t from = rng_below(&gen->rng, gen->shared), count = rng_range(&gen->rng, 4, 24);
	bool store = rng_one_in(&gen->rng, 4);

	for (uint32_t object = from; object < from + count && object < gen->shared; object++)
		if (gen->owner[object] == NO_LOCK &&
		    gen_may(gen, thread, gen->clock[thread], object, store))
			gen_emit(gen, thread, object, store);
}

static void turn_section(struct gen *gen, unsigned thread)
{
	unsigned lock = rng_below(&gen->rng, gen->locks), inner = NO_LOCK;
	const uint32_t *clock = gen->clock[thread];

	gen_op(gen, thread, RANDOM_LOCK, lock);
	gen_burst(gen, thread, clock, lock, NO_LOCK, 4);
	if (lock + 1 < gen->locks && rng_one_in(&gen->rng, 4)) {
		inner = rng_range(&gen->rng, lock + 1, gen->locks - 1);
		gen_op(gen, thread, RANDOM_LOCK, inner);
		gen_burst(gen, thread, clock, lock, inner, 4);
		gen_op(gen, thread, RANDOM_UNLOCK, inner);
		gen_burst(gen, thread, clock, lock, NO_LOCK, 2);
	}
	gen_op(gen, thread, RANDOM_UNLOCK, lock);
}

/*
 * Stores in a section that also raises the counter.  They are made in every run, and a thread that
 * sees the last one sees the values that it overwrote, so older accesses do not matter from now on.
 */
static void publish_inside(struct gen *gen, unsigned thread, struct gen_pub *pub)
{
	for (uint32_t turn = rng_range(&gen->rng, 2, 8); turn > 0; turn--) {
		uint32_t object = rng_below(&gen->rng, gen->shared);

		if (gen->owner[object] != NO_LOCK ||
		    !gen_may(gen, thread, gen->clock[thread], object, true))
			continue;
		gen_emit(gen, thread, object, true);
		memset(gen->written[object], 0, sizeof(gen->written[object]));
		memset(gen->read[object], 0, sizeof(gen->read[object]));
		gen->written[object][thread] = gen->clock[thread][thread];
		pub->told[object] = gen->clock[thread][thread];
	}
}

/* publish_inside, and at times again with another lock held inside. */
static void publish_scoped(struct gen *gen, unsigned thread, struct gen_pub *pub)
{
	unsigned inner = pub->lock + 1u;

	publish_inside(gen, thread, pub);
	if (inner >= gen->locks || !rng_one_in(&gen->rng, 3))
		return;
	gen_op(gen, thread, RANDOM_LOCK, inner);
	publish_inside(gen, thread, pub);
	gen_op(gen, thread, RANDOM_UNLOCK, inner);
}

/* Scoped: uses objects that `pub` told of; `thread` has seen the counter. */
static void told_use(struct gen *gen, unsigned thread, const struct gen_pub *pub, bool keep)
{
	for (uint32_t i = 0, first = rng_below(&gen->rng, gen->shared); i < gen->shared; i++) {
		uint32_t object = (first + i) % gen->shared;
		struct gen_shown *shown = &gen->shown[thread][object], was = *shown;
		bool store = rng_one_in(&gen->rng, gen->store_in);

		if (pub->told[object] == 0)
			continue;
		*shown = (struct gen_shown){(unsigned)pub->producer, pub->told[object]};
		if (gen->owner[object] == NO_LOCK && !rng_one_in(&gen->rng, 3) &&
		    gen_may(gen, thread, gen->clock[thread], object, store))
			gen_emit(gen, thread, object, store);
		if (!keep)
			*shown = was;
	}
}

/* Writes outside of any lock and tells under one; scoped: also writes inside. */
static void turn_publish(struct gen *gen, unsigned thread)
{
	struct gen_pub *pub = &gen->pubs[rng_below(&gen->rng, gen->pub_count)];
	bool late = rng_one_in(&gen->rng, 4);
	enum random_kind post = pub->consumer >= 0 ? RANDOM_SIGNAL : RANDOM_BROADCAST;
	struct random_op *op;

	thread = (unsigned)pub->producer;
	gen_burst(gen, thread, gen->clock[thread], NO_LOCK, NO_LOCK, 6);
	gen_op(gen, thread, RANDOM_LOCK, pub->lock);
	if (gen->program->params.scoped)
		publish_scoped(gen, thread, pub);
	gen_tick(gen, thread);
	op = gen_op(gen, thread, RANDOM_STORE, pub->object);
	op->mode = RANDOM_EXACT;
	op->value = ++pub->count;
	if (!late)
		gen_op(gen, thread, post, pub->cond);
	gen_op(gen, thread, RANDOM_UNLOCK, pub->lock);
	if (late)
		gen_op(gen, thread, post, pub->cond);
	gen->program->posts++;
	memcpy(pub->clock, gen->clock[thread], sizeof(pub->clock));
}

/*
 * Frees a block that no thread can still be using; often writes it before, so that a diff is due.
 */
static void gen_free(struct gen *gen, unsigned thread, unsigned which)
{
	const uint32_t *clock = gen->clock[thread];
	const struct random_block *block = &gen->program->blocks[which];
	struct gen_block *life = &gen->blocks[which];
	bool write = !rng_one_in(&gen->rng, 4), may = life->alive;

	if (life->allocator == thread && !rng_one_in(&gen->rng, 4))
		return;
	for (uint32_t object = block->first; object < block->first + block->count; object++)
		may = may && gen_may(gen, thread, clock, object, true);
	if (!may)
		return;
	for (uint32_t object = block->first; object < block->first + block->count; object++)
		if (write)
			gen_emit(gen, thread, object, true);
	gen_op(gen, thread, RANDOM_FREE, which);
	life->alive = false;
	life->freed = true;
	life->freer = thread;
	life->free_clock = gen_tick(gen, thread);
}

/*
 * Looks whether the producer has told; if so, uses what it wrote.  Nothing is certain for other
 * threads.
 */
static void turn_test(struct gen *gen, unsigned thread)
{
	struct gen_pub *pub = &gen->pubs[rng_below(&gen->rng, gen->pub_count)];
	struct random_list *list = &gen->program->lists[thread];
	uint32_t clock[CLOCKS], unless;
	struct random_op *op;

	if (pub->count == 0)
		return;
	gen_op(gen, thread, RANDOM_LOCK, pub->lock);
	op = gen_op(gen, thread, RANDOM_TEST, pub->object);
	op->value = pub->count;
	gen_op(gen, thread, RANDOM_UNLOCK, pub->lock);
	gen_op(gen, thread, RANDOM_UNLESS, 0);
	unless = list->count - 1;
	memcpy(clock, gen->clock[thread], sizeof(clock));
	if (gen->program->params.scoped)
		told_use(gen, thread, pub, false);
	else
		clock_join(clock, pub->clock);
	for (unsigned i = 0; i < 5; i++) {
		clock[thread] = gen->clock[thread][thread];
		gen_access(gen, thread, clock, NO_LOCK, NO_LOCK);
	}
	list->ops[unless].count = list->count - unless - 1;
}

static void turn_await(struct gen *gen, unsigned thread)
{
	struct gen_pub *pub = &gen->pubs[rng_below(&gen->rng, gen->pub_count)];
	struct random_op *op;

	if (pub->consumer >= 0)
		thread = (unsigned)pub->consumer;
	if (pub->count == 0 || thread == (unsigned)pub->producer)
		return;
	gen_op(gen, thread, RANDOM_LOCK, pub->lock);
	op = gen_op(gen, thread, RANDOM_AWAIT, pub->object);
	op->lock = pub->lock;
	op->cond = pub->cond;
	op->value = pub->count;
	gen_op(gen, thread, RANDOM_UNLOCK, pub->lock);
	if (gen->program->params.scoped) {
		told_use(gen, thread, pub, true);
		for (unsigned block = 0; block < gen->program->block_count; block++)
			if (pub->told[gen->program->blocks[block].first] != 0)
				gen_free(gen, thread, block);
	} else {
		clock_join(gen->clock[thread], pub->clock);
	}
	turn_accesses(gen, thread);
}

static void turn_flag_set(struct gen *gen, unsigned thread)
{
	unsigned which = rng_below(&gen->rng, gen->flag_count);
	struct gen_flag *flag = &gen->flags[which];
	const uint32_t *clock = gen->clock[thread];

	if (flag->set && clock_covers(clock, flag->waits)) {
		gen_op(gen, thread, RANDOM_FLAG_CLEAR, which);
		flag->set = false;
		flag->cleared = true;
		flag->clearer = thread;
		flag->clear_clock = gen_tick(gen, thread);
		memset(flag->waits, 0, sizeof(flag->waits));
	}
	if (flag->set || (flag->cleared && clock[flag->clearer] < flag->clear_clock) ||
	    rng_one_in(&gen->rng, 4))
		return;
	gen_burst(gen, thread, clock, NO_LOCK, NO_LOCK, 4);
	gen_op(gen, thread, RANDOM_FLAG_SET, which);
	flag->set = true;
	flag->setter = thread;
	flag->waits[thread] = gen_tick(gen, thread);
	if (gen->program->params.scoped)
		flag->clock[thread] = clock[thread];
	else
		memcpy(flag->clock, clock, sizeof(flag->clock));
}

static void turn_flag_wait(struct gen *gen, unsigned thread)
{
	unsigned which = rng_below(&gen->rng, gen->flag_count);
	struct gen_flag *flag = &gen->flags[which];

	if (!flag->set || (flag->cleared && gen->clock[thread][flag->clearer] < flag->clear_clock))
		return;
	gen_op(gen, thread, RANDOM_FLAG_WAIT, which);
	clock_join(gen->clock[thread], flag->clock);
	flag->waits[thread] = gen_tick(gen, thread);
	turn_accesses(gen, thread);
}

/*
 * A barrier of some threads: a new episode may begin when its threads know that the last one ended.
 */
static void turn_partial(struct gen *gen, unsigned thread)
{
	unsigned which = rng_range(&gen->rng, 2, gen->barrier_count - 1), members[CLOCKS],
		 count = 0;
	struct gen_barrier *barrier = &gen->barriers[which];
	uint32_t clock[CLOCKS] = {0}, instance;

	for (unsigned i = 0; i < gen->threads && count + 1 < gen->threads; i++) {
		bool knows = !barrier->used;

		for (unsigned u = 0; u < CLOCKS; u++)
			knows |= barrier->leaves[u] != 0 && gen->clock[i][u] >= barrier->leaves[u];
		if (knows && (i == thread || rng_one_in(&gen->rng, 2)))
			members[count++] = i;
	}
	if (count < 2)
		return;
	instance = gen_meeting(gen, count);
	for (unsigned i = 0; i < count; i++)
		clock_join(clock, gen->clock[members[i]]);
	memset(barrier->leaves, 0, sizeof(barrier->leaves));
	barrier->used = true;
	for (unsigned i = 0; i < count; i++) {
		struct random_op *op = gen_op(gen, members[i], RANDOM_BARRIER, which);

		op->count = count;
		op->instance = instance;
		clock_join(gen->clock[members[i]], clock);
		barrier->leaves[members[i]] = gen_tick(gen, members[i]);
	}
}

/* Allocates a block of which no earlier life can still be in use, and writes some of it at once. */
static void turn_alloc(struct gen *gen, unsigned thread)
{
	struct random_program *program = gen->program;
	const uint32_t *clock = gen->clock[thread];
	unsigned which = rng_below(&gen->rng, program->block_count);
	const struct random_block *block = &program->blocks[which];
	struct gen_block *life = &gen->blocks[which];

	if (life->alive || (life->freed && clock[life->freer] < life->free_clock) ||
	    program->alloc_count == RANDOM_ALLOCS_MAX)
		return;
	gen_op(gen, thread, RANDOM_ALLOC, which);
	program->alloc_count++;
	life->alive = true;
	life->allocator = thread;
	life->alloc_clock = gen_tick(gen, thread);
	for (uint32_t object = block->first; object < block->first + block->count; object++) {
		memset(gen->written[object], 0, sizeof(gen->written[object]));
		memset(gen->read[object], 0, sizeof(gen->read[object]));
		gen->written[object][thread] = life->alloc_clock;
		if (rng_one_in(&gen->rng, 2))
			gen_emit(gen, thread, object, true);
	}
}

static void turn_free(struct gen *gen, unsigned thread)
{
	gen_free(gen, thread, rng_below(&gen->rng, gen->program->block_count));
}

static void turn_pause(struct gen *gen, unsigned thread)
{
	gen_op(gen, thread, RANDOM_PAUSE, 0)->count = 1u << rng_below(&gen->rng, 8);
}

/* Gives objects another value for a while: nodes that fetch them then get what is in no diff. */
static void turn_return(struct gen *gen, unsigned thread)
{
	for (unsigned turn = 0; turn < 8; turn++) {
		uint32_t object = rng_below(&gen->apart, gen->shared);

		if (gen->owner[object] != NO_LOCK ||
		    !gen_may(gen, thread, gen->clock[thread], object, true))
			continue;
		gen_load(gen, thread, object);
		gen_store(gen, thread, object, RANDOM_FRESH);
		gen_op(gen, thread, RANDOM_PAUSE, 0)->count = 1u << rng_below(&gen->apart, 8);
		gen_store(gen, thread, object, RANDOM_COPY);
		return;
	}
}

static void (*const turns[])(struct gen *gen, unsigned thread) = {
	turn_accesses, turn_scan,     turn_section,   turn_publish, turn_test,
	turn_await,    turn_flag_set, turn_flag_wait, turn_partial, turn_alloc,
	turn_free,     turn_pause,
};

#define TURNS (sizeof(turns) / sizeof(turns[0]))

/* -------------------------------------------------------------------------------- all together */

/* Everything is ordered here, so objects may change their lock. */
static void gen_ordered(struct gen *gen)
{
	for (unsigned i = 1; i < gen->threads; i++)
		clock_join(gen->clock[0], gen->clock[i]);
	for (unsigned i = 1; i < gen->threads; i++)
		memcpy(gen->clock[i], gen->clock[0], sizeof(gen->clock[i]));
	for (unsigned i = 0; i < gen->threads; i++)
		gen_tick(gen, i);
	for (uint32_t object = 0; object < gen->shared; object++)
		if (rng_one_in(&gen->rng, 3))
			gen->owner[object] = rng_one_in(&gen->rng, 2)
						     ? (uint16_t)NO_LOCK
						     : (uint16_t)rng_below(&gen->rng, gen->locks);
}

static double reduce_two(double a, double b, enum roam_op op)
{
	switch (op) {
	case ROAM_SUM:
		return a + b;
	case ROAM_PRODUCT:
		return a * b;
	case ROAM_MIN:
		return a < b ? a : b;
	case ROAM_MAX:
		return a > b ? a : b;
	case ROAM_AND:
		return (double)((int64_t)a & (int64_t)b);
	case ROAM_OR:
		return (double)((int64_t)a | (int64_t)b);
	}
	return 0;
}

static uint32_t gen_reduction(struct gen *gen)
{
	struct random_program *program = gen->program;
	struct random_reduction *reduction;

	program->reductions = grow(program->reductions, program->reduction_count,
				   &program->reduction_room, sizeof(*program->reductions));
	reduction = &program->reductions[program->reduction_count];
	memset(reduction, 0, sizeof(*reduction));
	reduction->count = rng_range(&gen->rng, 1, RANDOM_REDUCE_MAX);
	reduction->type = (enum roam_type)rng_below(&gen->rng, 3);
	reduction->op = (enum roam_op)rng_below(&gen->rng, reduction->type == ROAM_DOUBLE ? 4 : 6);
	for (uint32_t i = 0; i < reduction->count; i++) {
		for (unsigned thread = 0; thread < gen->threads; thread++)
			reduction->inputs[thread][i] = (double)rng_below(&gen->rng, 5) - 2;
		reduction->results[i] = reduction->inputs[0][i];
		for (unsigned thread = 1; thread < gen->threads; thread++)
			reduction->results[i] = reduce_two(
				reduction->results[i], reduction->inputs[thread][i], reduction->op);
	}
	return program->reduction_count++;
}

static void gen_full(struct gen *gen)
{
	bool reduce = gen->reduces && rng_one_in(&gen->rng, 3), rest = rng_one_in(&gen->rng, 2);
	unsigned which = rng_below(&gen->rng, 2);
	uint32_t instance = gen_meeting(gen, gen->threads), index = 0;

	if (reduce)
		index = gen_reduction(gen);
	for (unsigned thread = 0; thread < gen->threads; thread++) {
		struct random_op *op = gen_op(gen, thread, reduce ? RANDOM_REDUCE : RANDOM_BARRIER,
					      which);

		op->instance = instance;
		op->value = index;
		if (rest)
			gen_op(gen, thread, RANDOM_REST, 0);
	}
	gen_ordered(gen);
}

/* -------------------------------------------------------------------------------------- start */

static void gen_pubs(struct gen *gen)
{
	unsigned found = gen->program->object_count - gen->shared;

	gen->pub_count = found < PUBS_MAX ? found : PUBS_MAX;
	for (unsigned i = 0; i < gen->pub_count; i++) {
		struct gen_pub *pub = &gen->pubs[i];

		pub->object = (uint16_t)(gen->shared + i);
		pub->lock = (uint16_t)rng_below(&gen->rng, gen->locks);
		pub->cond = (uint16_t)i;
		pub->producer = (int)rng_below(&gen->rng, gen->threads);
		pub->consumer = -1;
		if (rng_one_in(&gen->rng, 2))
			pub->consumer = (int)rng_below(&gen->rng, gen->threads);
		if (pub->consumer == pub->producer)
			pub->consumer = -1;
	}
}

/* Counters start at 0 whatever the heap held: their producers set them before any thread looks. */
static void gen_start(struct gen *gen)
{
	for (unsigned i = 0; i < gen->locks; i++)
		gen_op(gen, rng_below(&gen->rng, gen->threads), RANDOM_LOCK_INIT, i);
	for (unsigned i = 0; i < gen->pub_count; i++) {
		unsigned thread = rng_below(&gen->rng, gen->threads);
		struct random_op *op;

		gen_op(gen, thread, RANDOM_COND_INIT, gen->pubs[i].cond);
		op = gen_op(gen, thread, RANDOM_STORE, gen->pubs[i].object);
		op->mode = RANDOM_EXACT;
	}
	gen_full(gen);
}

static bool gen_one_thread_nodes(const struct random_params *params)
{
	return params->threads == params->nodes;
}

static void gen_shape(struct gen *gen)
{
	struct rng *rng = &gen->rng;

	gen->locks = rng_range(rng, 1, RANDOM_LOCKS_MAX);
	gen->flag_count = rng_range(rng, 1, RANDOM_FLAGS_MAX);
	gen->barrier_count = rng_one_in(rng, 4) ? RANDOM_BARRIERS_MAX : rng_range(rng, 3, 5);
	gen->store_in = rng_range(rng, 2, 4);
	gen->reduces = gen->program->params.teams || gen_one_thread_nodes(&gen->program->params);
	for (unsigned i = 0; i < TURNS - 1; i++)
		gen->weights[i] = rng_one_in(rng, 4) ? 0 : rng_range(rng, 1, 8);
	for (unsigned i = TURNS - 3; i < TURNS - 1; i++)
		gen->weights[i] = gen->program->block_count == 0 ? 0 : rng_range(rng, 2, 10);
	gen->weights[0]++;
	for (uint32_t object = 0; object < RANDOM_OBJECTS_MAX; object++)
		gen->owner[object] = NO_LOCK;
}

static unsigned gen_choose(struct gen *gen)
{
	uint32_t sum = 0, at;

	for (unsigned i = 0; i < TURNS - 1; i++)
		sum += gen->weights[i];
	at = rng_below(&gen->rng, sum + 1);
	for (unsigned i = 0; i < TURNS - 1; i++) {
		if (at < gen->weights[i])
			return i;
		at -= gen->weights[i];
	}
	return TURNS - 1;
}

struct random_program *random_generate(const struct random_params *params)
{
	struct random_program *program = calloc(1, sizeof(*program));
	struct gen *gen = calloc(1, sizeof(*gen));
	uint32_t total = params->operations * params->threads, full_in;

	if (program == NULL || gen == NULL)
		abort();
	program->params = *params;
	gen->program = program;
	gen->threads = params->threads;
	gen->rng.state = params->seed * 0x2545f4914f6cdd1du + 3;
	gen->apart.state = params->seed ^ 0x5e7412;
	gen->returns = rng_one_in(&gen->apart, 3);
	gen->shared = random_layout(program, &gen->rng, PUBS_MAX);
	gen_shape(gen);
	gen_pubs(gen);
	gen_start(gen);
	full_in = rng_range(&gen->rng, 8, 120);
	for (uint32_t done = 0; done < total;) {
		unsigned thread = rng_below(&gen->rng, gen->threads);

		turns[gen_choose(gen)](gen, thread);
		if (gen->returns && rng_one_in(&gen->apart, 6))
			turn_return(gen, thread);
		if (rng_one_in(&gen->rng, full_in))
			gen_full(gen);
		done = 0;
		for (unsigned i = 0; i < gen->threads; i++)
			done += program->lists[i].count;
	}
	gen_full(gen);
	/* At the end every thread looks at everything. */
	for (uint32_t object = 0; object < program->object_count; object++)
		for (unsigned i = 0; i < gen->threads; i++)
			if (gen_alive(gen, gen->clock[i], object) && rng_one_in(&gen->rng, 2))
				gen_op(gen, i, RANDOM_LOAD, object);
	free(gen);
	return program;
}

const struct random_params *random_params_of(const struct random_program *program)
{
	return &program->params;
}

void random_free(struct random_program *program)
{
	for (unsigned i = 0; i < RANDOM_THREADS_MAX; i++)
		free(program->lists[i].ops);
	free(program->barriers_at);
	free(program->reductions);
	free(program);
}

void random_print(const struct random_program *program)
{
	for (unsigned thread = 0; thread < program->params.threads; thread++) {
		const struct random_list *list = &program->lists[thread];

		for (uint32_t i = 0; i < list->count; i++) {
			const struct random_op *op = &list->ops[i];

			printf("thread %u op %u: %s %u count %u value %lu\n", thread, i,
			       random_kind_names[op->kind], op->which, op->count,
			       (unsigned long)op->value);
		}
	}
	for (uint32_t i = 0; i < program->object_count; i++)
		printf("object %u: block %d page %u offset %u, %u bytes\n", i,
		       program->objects[i].block - 1, program->objects[i].offset / ROAM_PAGE_SIZE,
		       program->objects[i].offset % ROAM_PAGE_SIZE, program->objects[i].bytes);
}
