/*
 * PastSet in the world: threads of several nodes do random operations on a few elements; what they
 * saw of each must have an explanation (history.h), no tuple's bytes may be wrong, and no operation
 * may wait for ever.  Half of the seeds are producers and consumers that wait without a timeout:
 * there a lost wake-up is a deadlock.  Options: seed_options.h; the pages' protocol does not
 * matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "pastset/shown.h"
#include "pastset/job/client.h"
#include "rng.h"
#include "seed_options.h"
#include "world.h"
#include "world_past.h"

#define ELEMENTS_MAX 3u
#define THREADS_MAX  12u
#define TEMPLATE     "u64, u8[]"
#define HEAD_BYTES   12u
#define HEAP_BYTES   (512u << 10) /* per element, with storage in pages */

struct story_thread {
	struct story *story;
	unsigned number, node;
	bool produces; /* its role among producers and consumers */
	unsigned operations;
	struct rng rng;
	struct roam_ps_cancel cancel;
	struct roam_ps_element *elements[ELEMENTS_MAX];
	uint8_t out[HEAD_BYTES + ROAM_PS_TUPLE_MAX], in[HEAD_BYTES + ROAM_PS_TUPLE_MAX];
};

struct story {
	struct world *world;
	unsigned nodes, elements, threads, running;
	bool free; /* threads do any operation; else they produce and consume */
	bool mobs; /* most operations are mobs that wait twice, and are cancelled */
	bool cuts; /* many truncations of long tuples */
	struct roami_shown *shown; /* of each node, as to a program in the kernel; NULL: nothing */
	uint32_t payload_max;
	struct roam_ps_options options[ELEMENTS_MAX];
	uint64_t clock, looks;
	struct history histories[ELEMENTS_MAX];
	struct story_thread thread[THREADS_MAX];
};

struct totals {
	uint64_t looks, operations, waits, cancelled, timed_out, gone, skipped, mobs, state;
};

/* --------------------------------------------------------------------------------------- tuples */

static uint32_t payload_of(const struct story *story, uint64_t value)
{
	return (uint32_t)(value * 0x9e3779b97f4a7c15u >> 32) % (story->payload_max + 1);
}

static size_t tuple_make(const struct story *story, uint8_t *out, uint64_t value)
{
	uint32_t payload = payload_of(story, value);

	memcpy(out, &value, sizeof(value));
	memcpy(out + sizeof(value), &payload, sizeof(payload));
	for (uint32_t i = 0; i < payload; i++)
		out[HEAD_BYTES + i] = (uint8_t)(value + i);
	return HEAD_BYTES + payload;
}

static uint64_t tuple_check(struct story_thread *thread, size_t bytes)
{
	struct story *story = thread->story;
	uint64_t value;

	memcpy(&value, thread->in, sizeof(value));
	if (bytes != tuple_make(story, thread->out, value) ||
	    memcmp(thread->in, thread->out, bytes) != 0)
		world_fail(story->world, "the tuple %lx of %zu bytes is damaged",
			   (unsigned long)value, bytes);
	return value;
}

/* ----------------------------------------------------------------------------------- operations */

static bool history_room(const struct story *story, unsigned element)
{
	return story->histories[element].count + THREADS_MAX + 2 < HISTORY_MAX;
}

/*
 * Observes as a program in the kernel does, at some moment of the call; false: it must ask.  What
 * is said of moves in pastset/job/show.h is what makes that moment an observation.
 */
static bool story_look(struct story_thread *thread, unsigned element,
		       struct roam_ps_request *request)
{
	const struct roam_ps_element *at = thread->elements[element];
	struct story *story = thread->story;
	const struct roami_shown *shown;

	if (story->shown == NULL || request->op != ROAM_PS_OBSERVE ||
	    request->which != ROAM_PS_LAST || request->flags != ROAM_PS_PEEK)
		return false;
	if (rng_one_in(&thread->rng, 2))
		world_sleep(story->world, rng_below(&thread->rng, 3000));
	shown = &story->shown[at->owner * ROAMI_SHOWN_ELEMENTS + at->element];
	if (shown->number == 0)
		return false;
	request->observed = shown->number - roami_past_of(at->node)->tuples_begin;
	request->moved = 0;
	request->skipped = false;
	request->got = shown->bytes;
	memcpy(thread->in, shown->tuple, shown->bytes);
	story->looks++;
	if (rng_one_in(&thread->rng, 2))
		world_sleep(story->world, rng_below(&thread->rng, 3000));
	return true;
}

/* Executes the operation and notes its outcome. */
static enum roam_err story_do(struct story_thread *thread, unsigned element, unsigned from,
			      struct roam_ps_request *request, uint64_t value)
{
	struct story *story = thread->story;
	struct history *history = &story->histories[element];
	struct history_event *event, *second = NULL;
	bool observes = request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB;
	uint64_t got = 0;
	enum roam_err err = ROAM_OK;

	if (request->op == ROAM_PS_MOB) {
		event = history_begin_mob(history, &story->histories[from], ++story->clock,
					  thread->number, request, &second);
		request->from = thread->elements[from];
	} else {
		event = history_begin(history, ++story->clock, thread->number, request);
	}
	if (request->op == ROAM_PS_MOVE || request->op == ROAM_PS_MOB) {
		request->bytes = tuple_make(story, thread->out, value);
		request->tuple = thread->out;
	}
	request->buffer = thread->in;
	request->limit = observes ? sizeof(thread->in) : 0;
	thread->cancel.cancelled = 0;
	request->cancel = &thread->cancel;
	world_doing(story->world, "op", (uint64_t)request->op << 8 | element);
	if (!story_look(thread, element, request))
		err = world_past_call(thread->elements[element], request);
	if (request->observed != 0)
		got = tuple_check(thread, request->got);
	history_end(event, second, ++story->clock, request, err, value, got);
	return err;
}

/* ------------------------------------------------------------------------------ random threads */

static void random_request(struct story_thread *thread, struct roam_ps_request *request)
{
	struct rng *rng = &thread->rng;
	static const uint64_t deltas[] = {1, 1, 2, 3, UINT64_MAX};
	unsigned draw = rng_below(rng, 100);

	*request = (struct roam_ps_request){.op = ROAM_PS_MOVE};
	if (thread->story->mobs && draw < 60)
		draw = 80;
	if (thread->story->cuts && draw >= 60)
		draw = 92;
	if (draw >= 40)
		request->op = ROAM_PS_OBSERVE;
	if (draw >= 80)
		request->op = ROAM_PS_MOB;
	if (draw >= 88)
		request->op = ROAM_PS_STATE;
	if (draw >= 92)
		request->op = ROAM_PS_TRUNCATE;
	if (draw >= 96)
		request->op = ROAM_PS_DELTA;
	if (request->op == ROAM_PS_OBSERVE || request->op == ROAM_PS_MOB) {
		request->which = (enum roam_ps_which)rng_below(rng, 4);
		if (thread->story->mobs && request->op == ROAM_PS_MOB && rng_one_in(rng, 2))
			request->which = ROAM_PS_NUMBER; /* a number whose tuple never comes */
		request->flags = rng_one_in(rng, 4) ? ROAM_PS_PEEK : 0;
		if (request->which == ROAM_PS_LAST && rng_one_in(rng, 2))
			request->flags |= ROAM_PS_SKIP;
	}
	if (thread->story->shown != NULL && request->op == ROAM_PS_OBSERVE && rng_one_in(rng, 2)) {
		request->which = ROAM_PS_LAST;
		request->flags = ROAM_PS_PEEK;
	}
	request->number = rng_below(rng, 12) + (request->which == ROAM_PS_NUMBER);
	if (thread->story->mobs && request->which == ROAM_PS_NUMBER)
		request->number += HISTORY_MAX;
	if (request->op == ROAM_PS_TRUNCATE && (thread->story->cuts || rng_one_in(rng, 4)))
		request->number = UINT64_MAX;
	if (request->op == ROAM_PS_DELTA)
		request->number = deltas[rng_below(rng, 5)];
	request->timeout_ns = rng_one_in(rng, 4) ? ROAM_PS_TRY : 1 + rng_below(rng, 30000);
	if (rng_one_in(rng, 3))
		request->timeout_ns = 0; /* is cancelled sooner or later */
}

/*
 * Cancels operations of any thread now and then, until all are done, so that none waits for ever.
 */
static void cancel_main(void *arg)
{
	struct story *story = arg;
	struct rng rng = {story->clock + 99};

	while (story->running > 0) {
		struct story_thread *other = &story->thread[rng_below(&rng, story->threads)];
		struct roami_node *node = world_node(story->world, other->node);

		__atomic_store_n(&other->cancel.cancelled, 1, __ATOMIC_SEQ_CST);
		roami_changed(node, node->me);
		world_sleep(story->world, rng_below(&rng, story->mobs ? 3000 : 100000));
	}
}

static void random_main(struct story_thread *thread)
{
	struct story *story = thread->story;

	for (unsigned i = 0; i < thread->operations; i++) {
		unsigned element = rng_below(&thread->rng, story->elements);
		unsigned from = rng_below(&thread->rng, story->elements);
		struct roam_ps_request request;

		random_request(thread, &request);
		if (history_room(story, element) && history_room(story, from))
			story_do(thread, element, from, &request,
				 (uint64_t)(thread->number + 1) << 32 | i);
		if (rng_one_in(&thread->rng, 3))
			world_sleep(story->world, rng_below(&thread->rng, 20000));
	}
}

/* ------------------------------------------------------------------------ producers, consumers */

static void story_must(struct story_thread *thread, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thread->story->world, "%s", roam_strerror(err));
}

static void trade_main(struct story_thread *thread)
{
	struct story *story = thread->story;

	for (unsigned i = 0; i < thread->operations; i++) {
		unsigned element = i % story->elements;
		struct roam_ps_request request = {.op = thread->produces ? ROAM_PS_MOVE
									 : ROAM_PS_OBSERVE};

		story_must(thread, story_do(thread, element, element, &request,
					    (uint64_t)(thread->number + 1) << 32 | i));
		if (rng_one_in(&thread->rng, 4))
			world_sleep(story->world, rng_below(&thread->rng, 20000));
	}
}

static void story_main(void *arg)
{
	struct story_thread *thread = arg;
	struct story *story = thread->story;
	char why[200], name[16];

	for (unsigned i = 0; i < story->elements; i++) {
		snprintf(name, sizeof(name), "e%u", i);
		story_must(thread, roami_past_enter(world_node(story->world, thread->node), name,
						    TEMPLATE, &story->options[i], i * HEAP_BYTES,
						    &thread->elements[i], why, sizeof(why)));
	}
	if (story->free)
		random_main(thread);
	else
		trade_main(thread);
	story->running--;
}

/* ------------------------------------------------------------------------------------- one seed */

static void story_draw(struct story *story, struct world_config *config, struct rng *rng)
{
	unsigned each;

	story->nodes = config->nodes;
	story->elements = rng_range(rng, 1, ELEMENTS_MAX);
	story->free = rng_one_in(rng, 2);
	story->mobs = story->free && rng_one_in(rng, 3);
	story->cuts = story->free && !story->mobs && rng_one_in(rng, 3);
	story->threads = 2 * rng_range(rng, 1, THREADS_MAX / 2);
	story->payload_max = story->cuts || rng_one_in(rng, 4) ? 20000 : 100;
	config->ps_memory = 1u << 20;
	config->heap_pages = ELEMENTS_MAX * HEAP_BYTES / ROAM_PAGE_SIZE;
	each = (HISTORY_MAX - 2 * THREADS_MAX) * story->elements / story->threads;
	if (story->mobs || story->cuts)
		config->step_every = 2;
	config->steps_max = 2000000;
	if (story->free)
		each = rng_range(rng, 4, 24);
	each = each / story->elements * story->elements;
	for (unsigned i = 0; i < story->elements; i++) {
		static const enum roam_ps_place places[] = {ROAM_PS_HASH, ROAM_PS_CREATOR,
							    ROAM_PS_NODE};

		story->options[i] = (struct roam_ps_options){
			.place = places[rng_below(rng, 3)],
			.node = rng_below(rng, story->nodes),
			.storage = rng_one_in(rng, 2) ? ROAM_PS_PAGES : ROAM_PS_SERVER,
			.memory = HEAP_BYTES,
			.delta = story->mobs || rng_one_in(rng, 2) ? rng_range(rng, 1, 3) : 0};
		story->histories[i].delta = story->options[i].delta != 0 ? story->options[i].delta
									 : UINT64_MAX;
	}
	for (unsigned i = 0; i < story->threads; i++) {
		struct story_thread *thread = &story->thread[i];

		thread->story = story;
		thread->number = i;
		thread->node = rng_below(rng, story->nodes);
		thread->produces = i % 2 == 0;
		thread->operations = each;
		thread->rng.state = rng_next(rng);
	}
	memset(config->threads, 0, sizeof(config->threads));
}

static void story_count(const struct story *story, struct totals *totals)
{
	totals->looks += story->looks;
	for (unsigned i = 0; i < story->elements; i++)
		for (unsigned k = 0; k < story->histories[i].count; k++) {
			const struct history_event *event = &story->histories[i].events[k];

			totals->operations++;
			totals->cancelled += event->err == ROAM_ECANCELED;
			totals->timed_out += event->err == ROAM_ETIMEDOUT;
			totals->gone += event->err == ROAM_EGONE;
			totals->skipped += event->skipped;
			totals->mobs += event->after != 0;
			totals->state += event->op == ROAM_PS_STATE;
		}
}

static bool story_explained(struct story *story, uint64_t seed)
{
	for (unsigned i = 0; i < story->elements; i++) {
		history_trim(&story->histories[i]);
		if (history_explained(&story->histories[i]))
			continue;
		printf("FAILED seed %lu: what was seen of element %u, DeltaValue %ld, cannot be "
		       "explained:\n",
		       (unsigned long)seed, i, (long)story->histories[i].delta);
		history_print(&story->histories[i]);
		printf("  %s\n", seed_replay());
		return false;
	}
	return true;
}

/* Lets all nodes show their elements. */
static void story_show(struct story *story)
{
	size_t bytes = ROAMI_SHOWN_ELEMENTS * sizeof(*story->shown);

	story->shown = calloc(story->nodes, bytes);
	if (story->shown == NULL)
		abort();
	for (unsigned node = 0; node < story->nodes; node++)
		roami_past_of(world_node(story->world, node))->shown =
			story->shown + (size_t)node * ROAMI_SHOWN_ELEMENTS;
}

static bool past_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct story *story = calloc(1, sizeof(*story));
	struct rng rng = {seed * 11 + 3};
	struct world_config config;
	bool good;

	if (story == NULL)
		abort();
	world_draw(&config, seed, protocol);
	if (options->nodes != 0)
		world_nodes(&config, options->nodes);
	if (options->lossy)
		world_lossy(&config);
	story_draw(story, &config, &rng);
	config.begin_tuples = config.begin;
	config.trace = options->trace;
	if (seed % 3 == 0)
		config.step_every = 2;
	story->world = world_open(&config);
	if (story->world == NULL)
		exit(EXIT_FAILURE);
	if (seed % 3 == 0)
		story_show(story);
	for (unsigned i = 0; i < story->threads; i++)
		world_spawn(story->world, story->thread[i].node, story_main, &story->thread[i]);
	story->running = story->threads;
	if (story->free)
		world_spawn(story->world, 0, cancel_main, story);
	good = world_run(story->world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)seed,
		       world_error(story->world), seed_replay());
	good = good && story_explained(story, seed);
	story_count(story, arg);
	for (unsigned i = 0; i < story->threads; i++)
		for (unsigned k = 0; k < story->elements; k++)
			free(story->thread[i].elements[k]);
	world_close(story->world);
	free(story->shown);
	free(story);
	return good;
}

/* Fails if a case that the test is for never happened. */
static bool past_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		      void *arg)
{
	struct totals *totals = arg;
	bool enough = seeds < 200 ||
		      (totals->cancelled > 0 && totals->timed_out > 0 && totals->gone > 0 &&
		       totals->looks > 0 && totals->skipped > 0 && totals->mobs > 0 &&
		       totals->state > 0);

	printf("%s: %lu seeds, %lu failed; %lu operations, %lu timed out, %lu cancelled, %lu of "
	       "truncated tuples, %lu skipped\n",
	       protocol->name, (unsigned long)seeds, (unsigned long)failed,
	       (unsigned long)totals->operations, (unsigned long)totals->timed_out,
	       (unsigned long)totals->cancelled, (unsigned long)totals->gone,
	       (unsigned long)totals->skipped);
	if (!enough)
		printf("FAILED: something was never tried\n");
	return failed == 0 && enough;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, past_one, past_done, &totals);
}
