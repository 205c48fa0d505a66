/*
 * X-functions in the world: participants on several nodes move to rounds and observe their results,
 * some rounds ahead of the slow ones; every result is what a plain loop over the contributions
 * gives, and every participant gets it once.  Long tuples go through little memory: tuples that all
 * have observed make room.  Some participants move and observe in one operation (mob), which two
 * nodes may do between themselves; watchers see nothing older than what a participant had seen
 * before they looked.  Some elements are broken, as by the loss of a program that was attached:
 * then all end, and still nothing is older.  Options: seed_options.h; the pages' protocol does not
 * matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pastset/job/client.h"
#include "pastset/job/relay.h"
#include "pastset/kernel.h"
#include "rng.h"
#include "seed_options.h"
#include "world.h"
#include "world_past.h"

#define PARTICIPANTS_MAX 8u
#define ROUNDS           80u
#define WATCHERS_MAX     3u
#define NUMBERS          5u /* an i64, an f64, and then f32, u16 and i8 in a group */
#define FILL_MAX         20000u

struct story {
	struct world *world;
	char template_text[80];
	struct roam_ps_options options;
	unsigned function; /* of `functions` below */
	uint32_t fill;     /* bytes behind the numbers */
	unsigned ahead;    /* a participant moves at most so many rounds before it observes */
	unsigned mobs;     /* one in so many rounds is a mob; 0: none */
	uint64_t seed;
	uint64_t seen;                    /* the newest round whose result a thread has */
	uint64_t begun[PARTICIPANTS_MAX]; /* the newest round that each has begun to move to */
	unsigned finished;                /* participants */
	bool breaks, broken;              /* a watcher is to break the element; it has done so */
	bool quiet;                       /* no thread watches any more after that */
	bool looking;                     /* a thread watches; the others move nothing meanwhile */
};

struct participant {
	struct story *story;
	unsigned number, node;
	struct rng rng;
	uint8_t tuple[32 + FILL_MAX];
};

/* ------------------------------------------------------------------------------------- by hand */

static int64_t plain_sum(int64_t a, int64_t b)
{
	return a + b;
}

static int64_t plain_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t plain_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t plain_product(int64_t a, int64_t b)
{
	return a * b;
}

/* The program's own function: xor of the first number; the rest stays as in the first tuple. */
static int64_t plain_xor(int64_t a, int64_t b)
{
	return a ^ b;
}

static void user_xor(void *arg, void *sum, const void *tuple, size_t bytes)
{
	int64_t a, b;

	if (bytes < sizeof(a) || arg != NULL)
		abort();
	memcpy(&a, sum, sizeof(a));
	memcpy(&b, tuple, sizeof(b));
	a ^= b;
	memcpy(sum, &a, sizeof(a));
}

static const struct roam_ps_function own_xor = {.name = "own xor", .combine = user_xor};

static const struct {
	const char *name;
	int64_t (*plain)(int64_t a, int64_t b);
} functions[] = {{"sum", plain_sum},
		 {"min", plain_min},
		 {"max", plain_max},
		 {"product", plain_product},
		 {"own xor", plain_xor}};

/* A number of a contribution, so small that every type can hold any result. */
static int64_t contribution(const struct story *story, unsigned participant, uint64_t round,
			    unsigned number)
{
	uint64_t mixed = (story->seed + participant * 31 + round * 101 + number) *
			 0x9e3779b97f4a7c15u;
	int64_t value = (int64_t)(mixed >> 40) % 6 + 1;

	if (number == 3) /* unsigned */
		return value;
	return strcmp(functions[story->function].name, "product") == 0 ? value % 2 + 1 : value - 3;
}

static void numbers_store(uint8_t *tuple, const int64_t *values)
{
	double real = (double)values[1];
	float small = (float)values[2];
	uint16_t whole = (uint16_t)values[3];
	int8_t tiny = (int8_t)values[4];

	memcpy(tuple, &values[0], 8);
	memcpy(tuple + 8, &real, 8);
	memcpy(tuple + 16, &small, 4);
	memcpy(tuple + 20, &whole, 2);
	memcpy(tuple + 22, &tiny, 1);
}

static void numbers_load(const uint8_t *tuple, int64_t *values)
{
	double real;
	float small;
	uint16_t whole;
	int8_t tiny;

	memcpy(&values[0], tuple, 8);
	memcpy(&real, tuple + 8, 8);
	memcpy(&small, tuple + 16, 4);
	memcpy(&whole, tuple + 20, 2);
	memcpy(&tiny, tuple + 22, 1);
	values[1] = (int64_t)real;
	values[2] = (int64_t)small;
	values[3] = whole;
	values[4] = tiny;
}

/* --------------------------------------------------------------------------------- participants */

static void participant_must(struct participant *participant, enum roam_err err, uint64_t round)
{
	if (err != ROAM_OK)
		world_fail(participant->story->world, "round %lu: %s", (unsigned long)round,
			   roam_strerror(err));
}

/* Ends the rounds, because a thread has broken the element. */
static bool participant_lost(const struct participant *participant, enum roam_err err)
{
	return participant->story->broken && err == ROAM_ELOST;
}

/* Makes the participant's tuple for the round. */
static void participant_contribute(struct participant *participant, uint64_t round)
{
	struct story *story = participant->story;
	int64_t values[NUMBERS];

	for (unsigned i = 0; i < NUMBERS; i++)
		values[i] = contribution(story, participant->number, round, i);
	memset(participant->tuple, 0, sizeof(participant->tuple));
	numbers_store(participant->tuple, values);
	story->begun[participant->number] = round;
}

static void participant_moved(const struct participant *participant,
			      const struct roam_ps_request *request, uint64_t round)
{
	if (request->moved != round)
		world_fail(participant->story->world, "moved to round %lu, not %lu",
			   (unsigned long)request->moved, (unsigned long)round);
}

static void participant_move(struct participant *participant, struct roam_ps_element *element,
			     uint64_t round)
{
	struct roam_ps_request request = {.op = ROAM_PS_MOVE,
					  .tuple = participant->tuple,
					  .bytes = 23 + participant->story->fill};
	enum roam_err err;

	participant_contribute(participant, round);
	err = world_past_call(element, &request);
	if (participant_lost(participant, err))
		return;
	participant_must(participant, err, round);
	participant_moved(participant, &request, round);
}

/* Checks that the observed tuple is the round's result. */
static void participant_check(struct participant *participant,
			      const struct roam_ps_request *request, uint64_t round)
{
	struct story *story = participant->story;
	unsigned all = story->function == 4 ? 1 : NUMBERS;
	int64_t values[NUMBERS];

	if (story->seen < round)
		story->seen = round;
	numbers_load(participant->tuple, values);
	for (unsigned i = 0; i < all; i++) {
		int64_t wanted = contribution(story, 0, round, i);

		for (unsigned k = 1; k < story->options.participants; k++)
			wanted = functions[story->function].plain(wanted,
								  contribution(story, k, round, i));
		if (i == 4)
			wanted = (int8_t)wanted;
		if (i == 3)
			wanted = (uint16_t)wanted;
		if (request->observed != round || values[i] != wanted)
			world_fail(story->world,
				   "%s, round %lu: number %u is %ld in tuple %lu, not %ld",
				   functions[story->function].name, (unsigned long)round, i,
				   (long)values[i], (unsigned long)request->observed, (long)wanted);
	}
}

/* Observes; may give up at once, unless another participant has the result already. */
static bool participant_observe(struct participant *participant, struct roam_ps_element *element,
				uint64_t round)
{
	struct story *story = participant->story;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .buffer = participant->tuple,
					  .limit = sizeof(participant->tuple)};
	bool seen = story->seen >= round;
	enum roam_err err;

	if (rng_one_in(&participant->rng, 4))
		request.timeout_ns = rng_one_in(&participant->rng, 2)
					     ? ROAM_PS_TRY
					     : 1 + rng_below(&participant->rng, 20000);
	err = world_past_call(element, &request);
	if ((err == ROAM_ETIMEDOUT && request.timeout_ns != 0 && !seen) ||
	    participant_lost(participant, err))
		return false;
	participant_must(participant, err, round);
	participant_check(participant, &request, round);
	return true;
}

/* Moves and observes in one operation; may give up before each half. */
static void participant_mob(struct participant *participant, struct roam_ps_element *element,
			    uint64_t *moved_p, uint64_t *observed_p)
{
	uint64_t round = *moved_p + 1;
	struct roam_ps_request request = {.op = ROAM_PS_MOB,
					  .tuple = participant->tuple,
					  .bytes = 23 + participant->story->fill,
					  .buffer = participant->tuple,
					  .limit = sizeof(participant->tuple)};
	enum roam_err err;

	if (rng_one_in(&participant->rng, 6))
		request.timeout_ns = 1 + rng_below(&participant->rng, 20000);
	participant_contribute(participant, round);
	err = world_past_call(element, &request);
	if (participant_lost(participant, err))
		return;
	if (err != ROAM_ETIMEDOUT || request.timeout_ns == 0 || request.moved != 0)
		participant_moved(participant, &request, round);
	*moved_p += request.moved != 0;
	if (err == ROAM_ETIMEDOUT && request.timeout_ns != 0)
		return;
	participant_must(participant, err, round);
	participant_check(participant, &request, round);
	++*observed_p;
}

static struct roam_ps_element *story_enter(struct story *story, unsigned node)
{
	struct roam_ps_element *element = NULL;
	char why[300] = "";

	if (roami_past_enter(world_node(story->world, node), "rounds",
			     story->template_text, &story->options, 0, &element, why,
			     sizeof(why)) != ROAM_OK)
		world_fail(story->world, "enter: %s", why);
	return element;
}

/*
 * Checks that the state is as new as what a thread has seen, and comes without waiting for others.
 */
static void participant_look(struct participant *participant, struct roam_ps_element *element)
{
	struct story *story = participant->story;
	uint64_t seen = story->seen;
	struct roam_ps_request request = {.op = ROAM_PS_STATE};

	participant_must(participant, world_past_call(element, &request), seen);
	for (unsigned i = 0; i < story->options.participants; i++)
		if (request.state.last < seen || request.state.last > story->begun[i])
			world_fail(story->world, "Last is %lu, seen %lu, begun %lu",
				   (unsigned long)request.state.last, (unsigned long)seen,
				   (unsigned long)story->begun[i]);
}

/* Moves; then all others may have to wait until it has looked at the element. */
static void participant_step(struct participant *participant, struct roam_ps_element *element,
			     uint64_t round)
{
	struct story *story = participant->story;

	participant_move(participant, element, round);
	if (story->looking || !rng_one_in(&participant->rng, 4))
		return;
	story->looking = true;
	participant_look(participant, element);
	story->looking = false;
}

static void participant_main(void *arg)
{
	struct participant *participant = arg;
	struct story *story = participant->story;
	struct roam_ps_element *element = story_enter(story, participant->node);
	uint64_t moved = 0, observed = 0;

	while (observed < ROUNDS && !story->broken) {
		bool may = moved < ROUNDS && moved - observed <= story->ahead;

		while (story->looking)
			world_sleep(story->world, 1000);
		if (may && moved == observed && story->mobs != 0 &&
		    rng_one_in(&participant->rng, story->mobs))
			participant_mob(participant, element, &moved, &observed);
		else if (may && (moved == observed || rng_one_in(&participant->rng, 2)))
			participant_step(participant, element, ++moved);
		else
			observed += participant_observe(participant, element, observed + 1);
		if (rng_one_in(&participant->rng, 6))
			world_sleep(story->world, rng_below(&participant->rng, 30000));
	}
	story->finished++;
	free(element);
}

/* ------------------------------------------------------------------------------------- watchers */

/* Asks for the newest result, or for one that a thread has seen: it must be there. */
static void watcher_observe(struct participant *watcher, struct roam_ps_element *element)
{
	struct story *story = watcher->story;
	uint64_t seen = story->seen;
	struct roam_ps_request request = {.op = ROAM_PS_OBSERVE,
					  .flags = ROAM_PS_PEEK,
					  .buffer = watcher->tuple,
					  .limit = sizeof(watcher->tuple),
					  .number = seen,
					  .timeout_ns = ROAM_PS_TRY};
	bool newest = rng_one_in(&watcher->rng, 2);
	enum roam_err err;

	if (rng_one_in(&watcher->rng, 2))
		request.timeout_ns = 1 + rng_below(&watcher->rng, 9999);
	request.which = newest ? ROAM_PS_LAST : ROAM_PS_NUMBER;
	err = world_past_call(element, &request);
	if (participant_lost(watcher, err))
		return;
	if (err == ROAM_EGONE || (newest && err == ROAM_ETIMEDOUT)) /* all participants have it */
		return;
	participant_must(watcher, err, seen);
	if (newest ? request.observed < seen : request.observed != seen)
		world_fail(story->world, "saw round %lu after %lu", (unsigned long)request.observed,
			   (unsigned long)seen);
}

/* Adds one participant too many, once the first round is complete. */
static void watcher_intrude(struct participant *watcher, struct roam_ps_element *element)
{
	struct story *story = watcher->story;
	struct roam_ps_request request = {.op = ROAM_PS_MOB,
					  .tuple = watcher->tuple,
					  .bytes = 23 + story->fill,
					  .buffer = watcher->tuple,
					  .limit = sizeof(watcher->tuple)};

	if (story->seen > 0 && !story->broken &&
	    world_past_call(element, &request) != ROAM_EINVAL && !story->broken && story->fill == 0)
		world_fail(story->world, "there was one participant too many");
}

static void watcher_bound(struct participant *watcher, struct roam_ps_element *element)
{
	struct roam_ps_request request = {.op = ROAM_PS_DELTA};
	enum roam_err err;

	request.number = watcher->story->ahead + 1 + rng_below(&watcher->rng, 4);
	err = world_past_call(element, &request);
	if (!participant_lost(watcher, err))
		participant_must(watcher, err, 0);
}

/* Drawn; more often while the partner may have been given a tuple directly. */
static bool watcher_may_break(struct participant *watcher)
{
	const struct story *story = watcher->story;
	bool given = story->begun[0] > story->begun[1];

	return story->breaks && !story->broken && story->seen > 0 &&
	       rng_one_in(&watcher->rng, given ? 4 : 16);
}

/* Breaks the element, as a node does when an attached participant is lost. */
static void watcher_break(struct participant *watcher, const struct roam_ps_element *element)
{
	struct roami_past *past = roami_past_of(world_node(watcher->story->world, watcher->node));
	struct roami_op op = {.ask = {.op = ROAMI_ASK_BREAK,
				      .element = element->element,
				      .from = element->element}};

	watcher->story->broken = true;
	if (element->owner == watcher->node)
		roami_past_run(past, &op, NULL);
	else
		roami_relay_break(past, element->owner, element->element);
}

static void watcher_main(void *arg)
{
	struct participant *watcher = arg;
	struct story *story = watcher->story;
	struct roam_ps_element *element = story_enter(story, watcher->node);

	while (story->finished < story->options.participants &&
	       !(story->broken && story->quiet)) {
		unsigned what = rng_below(&watcher->rng, 8);

		if (watcher_may_break(watcher))
			watcher_break(watcher, element);
		if (what < 3 && story->seen > 0)
			watcher_observe(watcher, element);
		else if (what < 6)
			participant_look(watcher, element);
		else if (what == 6)
			watcher_intrude(watcher, element);
		else if (story->options.delta != 0)
			watcher_bound(watcher, element);
		world_sleep(story->world, rng_below(&watcher->rng, 30000));
	}
	free(element);
}

/* ------------------------------------------------------------------------------------- one seed */

static void story_draw(struct story *story, struct rng *rng, unsigned nodes)
{
	story->function = rng_below(rng, 5);
	story->fill = rng_one_in(rng, 3) ? rng_range(rng, 10000, FILL_MAX) : 0;
	story->options.function = functions[story->function].name;
	story->options.participants = rng_range(rng, 1, PARTICIPANTS_MAX);
	story->options.place = rng_one_in(rng, 2) ? ROAM_PS_HASH : ROAM_PS_CREATOR;
	story->options.forget = true;
	story->options.delta = rng_one_in(rng, 2) ? rng_range(rng, 1, 20) : 0;
	story->ahead = rng_below(rng, 24);
	story->mobs = rng_below(rng, 3);
	if (rng_one_in(rng, 2)) {
		story->options.participants = 2;
		story->options.place = ROAM_PS_NODE;
		story->options.node = rng_below(rng, nodes);
		story->breaks = rng_one_in(rng, 3);
		story->quiet = rng_one_in(rng, 2);
	}
	if (story->breaks) { /* most of them while the partner may have been given something */
		story->fill = 0;
		story->mobs = 1;
	}
	if (story->options.delta != 0 && story->ahead >= story->options.delta)
		story->ahead = (unsigned)story->options.delta - 1;
	if (story->fill != 0 && story->ahead > 3) /* results not observed by all take memory */
		story->ahead = 3;
	snprintf(story->template_text, sizeof(story->template_text),
		 story->fill != 0 ? "i64, f64, (f32, u16, i8), u8[%u]" : "i64, f64, (f32, u16, i8)",
		 story->fill);
}

/* Whether any participant's operation is still under way. */
static bool story_waits(const struct story *story, unsigned nodes)
{
	for (unsigned i = 0; i < nodes; i++) {
		const struct roami_past *past = roami_past_of(world_node(story->world, i));

		for (uint32_t k = 0; k < atomic_load(&past->waiters_used); k++)
			if (atomic_load(&past->waiters[k].id) != 0)
				return true;
	}
	return false;
}

static bool rounds_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct participant *participants = calloc(PARTICIPANTS_MAX + WATCHERS_MAX,
						  sizeof(*participants));
	struct rng rng = {seed * 17 + 5};
	struct story story = {.seed = seed};
	struct world_config config;
	unsigned watchers;
	bool good;

	(void)arg;
	if (participants == NULL)
		abort();
	world_draw(&config, seed, protocol);
	if (options->lossy)
		world_lossy(&config);
	memset(config.threads, 0, sizeof(config.threads));
	config.ps_memory = 1u << 20;
	story_draw(&story, &rng, config.nodes);
	config.begin_tuples = config.begin;
	story.world = world_open(&config);
	if (story.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < config.nodes; i++)
		roami_past_register(roami_past_of(world_node(story.world, i)), &own_xor);
	watchers = rng_range(&rng, story.breaks ? 1 : 0, WATCHERS_MAX);
	for (unsigned i = 0; i < story.options.participants + watchers; i++) {
		struct participant *participant = &participants[i];

		participant->story = &story;
		participant->number = i;
		participant->node = i == 0 && story.options.place == ROAM_PS_NODE
					    ? story.options.node
					    : rng_below(&rng, config.nodes);
		participant->rng.state = rng_next(&rng);
		world_spawn(story.world, participant->node,
			    i < story.options.participants ? participant_main : watcher_main,
			    participant);
	}
	good = world_run(story.world);
	if (!good)
		printf("FAILED seed %lu: %s\n  %u participants, %u ahead, DeltaValue %lu\n  %s\n",
		       (unsigned long)seed, world_error(story.world), story.options.participants,
		       story.ahead, (unsigned long)story.options.delta, seed_replay());
	if (good && story_waits(&story, config.nodes)) {
		printf("FAILED seed %lu: a thread waits when all is done\n  %s\n",
		       (unsigned long)seed, seed_replay());
		good = false;
	}
	world_close(story.world);
	free(participants);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, rounds_one, seed_done, NULL);
}
