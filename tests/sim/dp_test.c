/*
 * Endpoints, in the world: threads of several nodes send messages of every length to each other's
 * endpoints and receive them, with limits of time and without, while some of the endpoints close
 * and are opened anew, and at one two threads receive.  Each message arrives once and whole, those
 * of one sender in the order sent; of those sent to an endpoint that stays open none is lost; no
 * call waits for ever.  An answer about an endpoint that has closed is not taken for one about the
 * next of its number.  Options: seed_options.h; the pages' protocol does not matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dp/dp.h"
#include "rng.h"
#include "seed_options.h"
#include "world.h"

#define ENDS     4u  /* endpoints, of which the first ones stay open */
#define STAY     3u
#define SHARED   0u  /* the one at which two threads receive */
#define RECEIVERS (ENDS + 1)
#define SENDERS  4u
#define EACH     24u /* messages of a sender to each endpoint */
#define REOPENED 4u  /* times that the last endpoint is opened */

/* What a message begins with; the bytes behind it follow from it. */
struct token {
	uint32_t sender, number;
};

struct end {
	unsigned node;
	struct roam_dp *dp;
	bool came[SENDERS][EACH];
	uint32_t got;
	unsigned users; /* threads that receive there */
};

struct story {
	struct world *world;
	struct end ends[ENDS];
	unsigned opened; /* endpoints that are open for the first time */
	unsigned sent;   /* senders that are done */
	uint64_t refused, gone;
};

struct actor {
	struct story *story;
	unsigned number, node;
	uint32_t next[SENDERS]; /* of one that receives: the least number that may come of each */
	struct rng rng;
	uint8_t bytes[ROAM_DP_MESSAGE_MAX];
};

static uint8_t token_byte(const struct token *token, size_t at)
{
	return (uint8_t)(token->sender * 91 + token->number * 37 + at * 7 + at / 256);
}

static size_t draw_bytes(struct rng *rng, unsigned end)
{
	switch (rng_below(rng, end == SHARED ? 4 : 8)) {
	case 0:
		return ROAM_DP_MESSAGE_MAX - rng_below(rng, 3);
	case 1: /* around the end of a part */
		return ROAMI_MSG_MAX - rng_below(rng, 100);
	case 2:
		return rng_range(rng, 8, ROAM_DP_MESSAGE_MAX);
	default:
		return rng_range(rng, 8, 600);
	}
}

/* -------------------------------------------------------------------------------------- sending */

static void sender_send(struct actor *actor, struct roam_dp *dp, unsigned end, uint32_t number)
{
	struct story *story = actor->story;
	struct token token = {actor->number, number};
	size_t bytes = draw_bytes(&actor->rng, end);
	uint64_t timeout = 0;
	enum roam_err err;

	for (size_t at = sizeof(token); at < bytes; at++)
		actor->bytes[at] = token_byte(&token, at);
	memcpy(actor->bytes, &token, sizeof(token));
	do {
		if (rng_one_in(&actor->rng, 3))
			timeout = rng_one_in(&actor->rng, 2) ? ROAM_DP_TRY
							     : rng_range(&actor->rng, 1, 50000);
		err = roami_dp_send(dp, story->ends[end].node, end, actor->bytes, bytes, false,
				    timeout);
		if (err == ROAM_ETIMEDOUT)
			world_sleep(story->world, 1000);
	} while (err == ROAM_ETIMEDOUT);
	story->refused += err == ROAM_EUNKNOWN;
	if (err != ROAM_OK && (err != ROAM_EUNKNOWN || end < STAY))
		world_fail(story->world, "message %u of sender %u to endpoint %u: %s", number,
			   actor->number, end, roam_strerror(err));
}

static void sender_main(void *arg)
{
	struct actor *actor = arg;
	struct story *story = actor->story;
	struct roam_dp *dp;

	if (roami_dp_open(world_node(story->world, actor->node), 100 + actor->number, &dp) !=
	    ROAM_OK)
		world_fail(story->world, "a sender's endpoint does not open");
	while (story->opened < ENDS)
		world_sleep(story->world, 1000);
	for (uint32_t number = 0; number < EACH; number++)
		for (unsigned end = 0; end < ENDS; end++) {
			sender_send(actor, dp, end, number);
			if (rng_one_in(&actor->rng, 8))
				world_sleep(story->world, rng_below(&actor->rng, 30000));
		}
	story->sent++;
	roami_dp_close(dp);
}

/* ------------------------------------------------------------------------------------ receiving */

static void end_looks(struct actor *actor, struct end *end, const struct roam_dp_message *message)
{
	struct world *world = actor->story->world;
	struct token token;

	if (message->bytes < sizeof(token))
		world_fail(world, "a message of %zu bytes came", message->bytes);
	memcpy(&token, actor->bytes, sizeof(token));
	if (token.sender >= SENDERS || token.number >= EACH ||
	    message->endpoint != 100 + token.sender || end->came[token.sender][token.number] ||
	    token.number < actor->next[token.sender])
		world_fail(world, "number %u of sender %u came after %u", token.number,
			   token.sender, actor->next[token.sender % SENDERS]);
	for (size_t at = sizeof(token); at < message->bytes; at++)
		if (actor->bytes[at] != token_byte(&token, at))
			world_fail(world, "number %u of sender %u: byte %zu is wrong",
				   token.number, token.sender, at);
	if (actor->number < STAY && actor->number != SHARED &&
	    token.number != actor->next[token.sender])
		world_fail(world, "number %u of sender %u is lost", actor->next[token.sender],
			   token.sender);
	actor->next[token.sender] = token.number + 1;
	end->came[token.sender][token.number] = true;
	end->got++;
}

static void end_open(struct actor *actor, struct end *end)
{
	if (roami_dp_open(world_node(actor->story->world, end->node), actor->number, &end->dp) !=
	    ROAM_OK)
		world_fail(actor->story->world, "endpoint %u does not open", actor->number);
}

/* Receives one message, first with too little room at times; false: none came in time. */
static bool end_receive(struct actor *actor, struct end *end, uint64_t timeout)
{
	struct roam_dp_message message;
	bool alone = actor->number != SHARED; /* else another thread may take what was too big */
	size_t limit = alone && rng_one_in(&actor->rng, 6) ? 20 : sizeof(actor->bytes);
	enum roam_err err = roami_dp_receive(end->dp, actor->bytes, limit, timeout, &message);

	if (err == ROAM_ETIMEDOUT)
		return false;
	if (err == ROAM_ETOOBIG && message.bytes > limit)
		err = roami_dp_receive(end->dp, actor->bytes, message.bytes, ROAM_DP_TRY, &message);
	if (err != ROAM_OK)
		world_fail(actor->story->world, "endpoint %u receives: %s", actor->number,
			   roam_strerror(err));
	end_looks(actor, end, &message);
	return true;
}

static void stay_main(void *arg)
{
	struct actor *actor = arg;
	struct end *end = &actor->story->ends[actor->number];

	if (end->users++ == 0) {
		end_open(actor, end);
		actor->story->opened++;
	}
	while (end->got < SENDERS * EACH) {
		bool last = actor->number == SHARED; /* the other thread may get the last one */
		uint64_t timeout = !last && rng_one_in(&actor->rng, 2)
					   ? 0
					   : rng_range(&actor->rng, 1, 9000);

		end_receive(actor, end, rng_one_in(&actor->rng, 5) ? ROAM_DP_TRY : timeout);
		if (rng_one_in(&actor->rng, 4))
			world_sleep(actor->story->world, rng_below(&actor->rng, 40000));
	}
	if (--end->users == 0)
		roami_dp_close(end->dp);
}

/* Closes with messages that wait, and opens again. */
static void reopen_main(void *arg)
{
	struct actor *actor = arg;
	struct story *story = actor->story;
	struct end *end = &story->ends[actor->number];

	for (unsigned turn = 0; story->sent < SENDERS; turn++) {
		unsigned left = rng_range(&actor->rng, 1, SENDERS * EACH / REOPENED);

		end_open(actor, end);
		story->opened += turn == 0;
		while (left > 0 && story->sent < SENDERS)
			left -= end_receive(actor, end, rng_range(&actor->rng, 1000, 200000));
		roami_dp_close(end->dp);
		story->gone++;
		world_sleep(story->world, rng_below(&actor->rng, 20000));
	}
}

/* ------------------------------------------------------------------- a close beside a question */

/*
 * A sender asks whether an endpoint is open; the answer is on its way while the endpoint closes and
 * is opened anew.  The answer is not taken for one about the new endpoint: the next message comes.
 */
#define ASKED 7u /* the endpoint */

static struct found {
	struct world *world;
	bool asked, anew;
} *found_now; /* a world runs one thread at a time */

/* The first step after the question was noted. */
static void found_step(struct roami_node *node)
{
	const struct roam_dp *dp = roami_dp_of(node)->open[0];

	if (node->me != 1 || found_now->asked || dp == NULL || !dp->inboxes[0].asked)
		return;
	found_now->asked = true;
	world_sleep(found_now->world, 50000);
}

static void found_must(enum roam_err err, enum roam_err wanted)
{
	if (err != wanted)
		world_fail(found_now->world, "%s, not %s", roam_strerror(err),
			   roam_strerror(wanted));
}

static void found_sender(void *arg)
{
	struct roam_dp *dp = NULL;

	(void)arg;
	found_must(roami_dp_open(world_node(found_now->world, 0), ASKED + 1, &dp), ROAM_OK);
	world_sleep(found_now->world, 10000);
	found_must(roami_dp_send(dp, 1, ASKED, "one", 4, false, 1), ROAM_ETIMEDOUT);
	while (!found_now->anew)
		world_sleep(found_now->world, 1000);
	world_sleep(found_now->world, 1000000);
	found_must(roami_dp_send(dp, 1, ASKED, "two", 4, false, 0), ROAM_OK);
	roami_dp_close(dp);
}

static void found_receiver(void *arg)
{
	struct roami_node *node = world_node(found_now->world, 1);
	struct roam_dp_message message;
	struct roam_dp *dp = NULL;
	char text[4];

	(void)arg;
	found_must(roami_dp_open(node, ASKED, &dp), ROAM_OK);
	while (!found_now->asked)
		world_sleep(found_now->world, 1000);
	roami_dp_close(dp);
	found_must(roami_dp_open(node, ASKED, &dp), ROAM_OK);
	found_now->anew = true;
	found_must(roami_dp_receive(dp, text, sizeof(text), 100000000, &message), ROAM_OK);
	roami_dp_close(dp);
}

static bool found_one(const struct roam_protocol *protocol, uint64_t seed)
{
	struct found found = {.asked = false};
	struct world_config config;
	bool good;

	found_now = &found;
	world_pair(&config, seed, protocol);
	config.threads[0] = config.threads[1] = 1;
	config.on_step = found_step;
	found.world = world_open(&config);
	if (found.world == NULL)
		exit(EXIT_FAILURE);
	world_spawn(found.world, 0, found_sender, NULL);
	world_spawn(found.world, 1, found_receiver, NULL);
	good = world_run(found.world);
	if (!good)
		printf("FAILED seed %lu: a close beside a question: %s\n  %s\n",
		       (unsigned long)seed, world_error(found.world), seed_replay());
	world_close(found.world);
	return good;
}

/* ----------------------------------------------------------------------------------------- runs */

struct totals {
	uint64_t refused, gone;
};

static bool dp_one(const struct seed_options *options, const struct roam_protocol *protocol,
		   uint64_t seed, void *arg)
{
	struct totals *totals = arg;
	struct actor *actors = calloc(RECEIVERS + SENDERS, sizeof(*actors));
	struct rng rng = {seed * 31 + 5};
	struct story story = {.refused = 0};
	struct world_config config;
	bool good;

	if (actors == NULL)
		abort();
	world_draw(&config, seed, protocol);
	if (options->lossy)
		world_lossy(&config);
	memset(config.threads, 0, sizeof(config.threads));
	config.trace = options->trace;
	story.world = world_open(&config);
	if (story.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < RECEIVERS + SENDERS; i++) {
		struct actor *actor = &actors[i];
		bool sends = i >= RECEIVERS;

		actor->story = &story;
		actor->number = sends ? i - RECEIVERS : i % ENDS;
		actor->node = rng_below(&rng, config.nodes);
		actor->rng.state = rng_next(&rng);
		if (i < ENDS)
			story.ends[i].node = actor->node;
		else if (!sends)
			actor->node = story.ends[actor->number].node;
		world_spawn(story.world, actor->node,
			    sends ? sender_main
			    : actor->number < STAY ? stay_main : reopen_main, actor);
	}
	good = seed_world(story.world, &config);
	world_close(story.world);
	good = good && found_one(protocol, seed);
	totals->refused += story.refused;
	totals->gone += story.gone;
	free(actors);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};
	struct totals totals = {0, 0};
	int status;

	seed_options_read(&options, argc, argv);
	status = seed_main(&options, dp_one, seed_done, &totals);
	if (status == 0 && !options.about && options.to - options.from >= 19 &&
	    (totals.refused == 0 || totals.gone == 0)) {
		printf("FAILED: nothing was sent to an endpoint that had closed\n");
		return 1;
	}
	return status;
}
