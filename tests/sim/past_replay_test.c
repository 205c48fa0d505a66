/*
 * Clients, whose connections break after any byte, and a server of elements, in one thread: what
 * the clients saw of the element must have an explanation (history.h), as if no connection had
 * broken.  A client may come again before the server has noticed that it was gone.  Options:
 * seed_options.h; the protocol does not matter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "pastset/attached/guest.h"
#include "pastset/job/server.h"
#include "rng.h"
#include "seed_options.h"

#define CLIENTS    3u
#define ASKS       4u /* open requests of a client at a time */
#define STEPS      3000u
#define STEPS_LAST 200000u /* steps without cuts, until all requests are answered */
#define EVENTS     40u
#define STALE      4u
#define PIPE_BYTES 65536u

/* Bytes on their way in one direction. */
struct pipe {
	uint8_t bytes[PIPE_BYTES];
	size_t have;
};

struct ask {
	bool used, cancelled;
	uint64_t number, connection;
	struct roami_ask op;
	uint64_t value;
	struct history_event *event, *second;
	struct roam_ps_request request;
};

struct client {
	struct roami_guest *guest; /* NULL: not connected */
	struct roami_channel channel;
	enum { HELLO, WELCOME, ATTACHED, JOINED } state;
	struct pipe up, taken, down;
	uint64_t session, number, connection;
	uint32_t heard;
	struct ask asks[ASKS];
};

struct test {
	struct rng rng;
	uint64_t seed, clock, values;
	uint64_t now; /* time of the server's clock */
	struct roami_node node;
	struct roami_open_room extensions[2];
	struct roami_options options;
	struct roami_guests guests;
	struct client clients[CLIENTS];
	struct roami_guest *stale[STALE]; /* clients that the server thinks are there */
	struct history history;
	unsigned cuts, repeats, gone;
	bool ends, failed;
};

struct totals {
	uint64_t operations, cuts, repeats;
};

static const uint8_t key[ROAMI_CHANNEL_KEY] = "a key of thirty-two bytes, known";

static uint64_t env_now(struct roami_node *node)
{
	const uint64_t *now = node->env_state;

	return *now;
}

static void env_spin(struct roami_node *node, unsigned turn)
{
	(void)node;
	(void)turn;
	abort(); /* in one thread a lock was left held */
}

static const struct roami_env env = {.now = env_now, .spin = env_spin};

static void test_fail(struct test *test, const char *what)
{
	if (!test->failed)
		printf("FAILED seed %lu: %s\n  %s\n", (unsigned long)test->seed, what,
		       seed_replay());
	test->failed = true;
}

static void pipe_put(struct pipe *pipe, const void *data, size_t bytes)
{
	if (bytes > PIPE_BYTES - pipe->have)
		abort();
	if (bytes > 0)
		memcpy(pipe->bytes + pipe->have, data, bytes);
	pipe->have += bytes;
}

static void pipe_drop(struct pipe *pipe, size_t bytes)
{
	pipe->have -= bytes;
	memmove(pipe->bytes, pipe->bytes + bytes, pipe->have);
}

/* ----------------------------------------------------------------------------------- connection */

static void client_connect(struct test *test, struct client *client)
{
	uint8_t hello[ROAMI_CHANNEL_HELLO];

	client->guest = calloc(1, sizeof(*client->guest));
	if (client->guest == NULL ||
	    !roami_channel_init(&client->channel, ROAMI_GUEST_MAGIC, hello))
		abort();
	roami_guest_init(client->guest, &test->guests);
	client->state = HELLO;
	client->up.have = client->taken.have = client->down.have = 0;
	pipe_put(&client->up, hello, sizeof(hello));
}

static void guest_gone(struct roami_guest *guest)
{
	roami_guest_fini(guest);
	free(guest);
}

/* Lets the server notice the end now, or when another connection takes the place. */
static void client_cut(struct test *test, struct client *client)
{
	struct roami_guest **stale = &test->stale[rng_below(&test->rng, STALE)];

	if (*stale != NULL)
		guest_gone(*stale);
	*stale = NULL;
	if (rng_one_in(&test->rng, 2))
		*stale = client->guest;
	else
		guest_gone(client->guest);
	client->guest = NULL;
	test->cuts++;
}

static void client_say(struct client *client, uint32_t kind, uint64_t number,
		       const struct roam_part *one, const struct roam_part *two)
{
	struct roami_guest_head head = {kind, client->heard, number};
	struct roam_part parts[3] = {{&head, sizeof(head)}, *one, *two};
	uint8_t frame[1024];

	pipe_put(&client->up, frame, roami_channel_close(&client->channel, parts, 3, frame));
}

/* ----------------------------------------------------------------------------------- operations */

static void ask_draw(struct test *test, struct ask *ask)
{
	struct roam_ps_request *request = &ask->request;
	struct rng *rng = &test->rng;

	*ask = (struct ask){.used = true, .value = ++test->values};
	history_draw(rng, request);
	ask->op = (struct roami_ask){.op = (uint8_t)request->op,
				     .which = (uint8_t)request->which,
				     .flags = (uint8_t)request->flags,
				     .number = request->number,
				     .timeout_ns = rng_one_in(rng, 3) ? ROAM_PS_TRY : 0,
				     .limit = 64};
	if (request->op == ROAM_PS_MOB)
		ask->event = history_begin_mob(&test->history, &test->history, ++test->clock, 0,
					       request, &ask->second);
	else
		ask->event = history_begin(&test->history, ++test->clock, 0, request);
}

static void ask_send(struct test *test, struct client *client, struct ask *ask)
{
	test->repeats += ask->number != 0;
	if (ask->number == 0)
		ask->number = ++client->number;
	ask->connection = client->connection;
	client_say(client, ROAMI_GUEST_OP, ask->number,
		   &(struct roam_part){&ask->op, sizeof(ask->op)},
		   &(struct roam_part){&ask->value,
				       roami_ask_carries(&ask->op) ? sizeof(ask->value) : 0});
}

static void ask_cancel(struct client *client, struct ask *ask)
{
	ask->cancelled = true;
	client_say(client, ROAMI_GUEST_CANCEL, ask->number, &(struct roam_part){NULL, 0},
		   &(struct roam_part){NULL, 0});
}

/* Makes a request, or repeats or cancels one. */
static void client_ask(struct test *test, struct client *client)
{
	struct ask *ask = &client->asks[rng_below(&test->rng, ASKS)];

	if (client->state != JOINED || client->up.have > PIPE_BYTES / 2)
		return;
	if (!ask->used && !test->ends && test->history.count + 2 < EVENTS)
		ask_draw(test, ask);
	if (!ask->used)
		return;
	if (ask->connection != client->connection)
		ask_send(test, client, ask);
	else if (test->ends || rng_one_in(&test->rng, 10))
		ask_cancel(client, ask);
}

static void client_outcome(struct test *test, struct client *client, uint64_t number,
			   const uint8_t *data, size_t bytes)
{
	struct roami_outcome outcome;
	struct ask *ask = client->asks;
	uint64_t got = 0;

	while (ask < client->asks + ASKS && (!ask->used || ask->number != number))
		ask++;
	if (ask == client->asks + ASKS || ask->connection != client->connection ||
	    bytes < sizeof(outcome)) {
		test_fail(test, "an answer to nothing");
		return;
	}
	memcpy(&outcome, data, sizeof(outcome));
	if (outcome.err == ROAM_ECANCELED && !ask->cancelled)
		test_fail(test, "not cancelled by the test");
	if (outcome.observed != 0)
		memcpy(&got, data + sizeof(outcome), sizeof(got));
	else if (ask->op.op == ROAM_PS_STATE)
		memcpy(&ask->request.state, data + sizeof(outcome), sizeof(ask->request.state));
	ask->request.moved = outcome.moved;
	ask->request.observed = outcome.observed;
	ask->request.skipped = outcome.skipped != 0;
	history_end(ask->event, ask->second, ++test->clock, &ask->request,
		    (enum roam_err)outcome.err, ask->value, got);
	ask->used = false;
}

/* --------------------------------------------------------------------------------------- frames */

static void client_joined(struct client *client, const uint8_t *data)
{
	struct roami_attached attached;

	memcpy(&attached, data, sizeof(attached));
	client->session = attached.session;
	client->connection++;
	client->state = JOINED;
	for (unsigned i = 0; i < ASKS; i++)
		if (client->asks[i].number > attached.highest)
			client->asks[i].number = 0;
}

/* The least request number that the client may repeat. */
static uint64_t client_wanted(const struct client *client)
{
	uint64_t least = client->number + 1;

	for (unsigned i = 0; i < ASKS; i++)
		if (client->asks[i].used && client->asks[i].number != 0 &&
		    client->asks[i].number < least)
			least = client->asks[i].number;
	return least;
}

static void client_frame(struct test *test, struct client *client, const uint8_t *text,
			 size_t bytes)
{
	struct roami_attach attach = {.session = client->session,
				      .heard = client->heard,
				      .wanted = client_wanted(client)};
	struct roami_guest_head head;

	memcpy(&head, text, sizeof(head));
	text += sizeof(head);
	bytes -= sizeof(head);
	if (client->state == WELCOME && head.kind == ROAMI_GUEST_WELCOME) {
		client_say(client, ROAMI_GUEST_ATTACH, 0,
			   &(struct roam_part){&attach, sizeof(attach)},
			   &(struct roam_part){NULL, 0});
		client->state = ATTACHED;
	} else if (client->state == ATTACHED && head.kind == ROAMI_GUEST_ATTACHED) {
		client_joined(client, text);
		client->heard = (uint32_t)client->channel.received;
	} else if (client->state == JOINED && head.kind == ROAMI_GUEST_OUTCOME) {
		client_outcome(test, client, head.number, text, bytes);
		client->heard = (uint32_t)client->channel.received;
	} else if (head.kind == ROAMI_GUEST_GONE) {
		test->gone++;
	} else {
		test_fail(test, "an unexpected frame");
	}
}

/* Takes some bytes of the server's answers. */
static void client_hear(struct test *test, struct client *client)
{
	struct roami_flow *out = &client->guest->out;
	size_t bytes = out->end - out->at;
	uint32_t length;
	uint8_t *text;

	if (bytes > 0 && !rng_one_in(&test->rng, 4))
		bytes = rng_below(&test->rng, (uint32_t)bytes + 1);
	pipe_put(&client->down, out->bytes + out->at, bytes);
	out->at += bytes;
	if (client->state == HELLO && client->down.have >= ROAMI_CHANNEL_HELLO) {
		roami_channel_handshake(&client->channel, ROAMI_GUEST_MAGIC, key, true,
					client->down.bytes);
		pipe_drop(&client->down, ROAMI_CHANNEL_HELLO);
		client->state = WELCOME;
	}
	while (client->state != HELLO && client->down.have >= sizeof(length)) {
		memcpy(&length, client->down.bytes, sizeof(length));
		if (client->down.have < sizeof(length) + length)
			break;
		text = roami_channel_open(&client->channel, client->down.bytes, length);
		if (text == NULL)
			abort();
		client_frame(test, client, text, length - ROAMI_CHANNEL_TAG);
		pipe_drop(&client->down, sizeof(length) + length);
	}
}

/* Lets the server take some bytes of what the client has sent. */
static void server_hear(struct test *test, struct client *client)
{
	size_t bytes = client->up.have, took;

	if (bytes > 0 && !rng_one_in(&test->rng, 4))
		bytes = rng_below(&test->rng, (uint32_t)bytes + 1);
	if (bytes == 0)
		return;
	pipe_put(&client->taken, client->up.bytes, bytes);
	pipe_drop(&client->up, bytes);
	took = roami_guest_take(client->guest, client->taken.bytes, client->taken.have);
	if (took == SIZE_MAX) {
		test_fail(test, "a client was dropped");
		client_cut(test, client);
		return;
	}
	pipe_drop(&client->taken, took);
}

/* ----------------------------------------------------------------------------------------- test */

static void test_step(struct test *test)
{
	struct client *client = &test->clients[rng_below(&test->rng, CLIENTS)];
	unsigned draw = rng_below(&test->rng, 100);

	if (client->guest == NULL)
		client_connect(test, client);
	else if (draw < 3 && !test->ends)
		client_cut(test, client);
	else if (draw < 25)
		client_ask(test, client);
	else if (draw < 62)
		server_hear(test, client);
	else
		client_hear(test, client);
	roami_sessions_answer(&test->guests);
	while (roami_guests_speaking(&test->guests) != NULL)
		continue;
}

static bool test_asks(const struct test *test)
{
	bool any = false;

	for (unsigned i = 0; i < CLIENTS * ASKS; i++)
		any |= test->clients[i / ASKS].asks[i % ASKS].used;
	return any;
}

static void test_open(struct test *test, struct roami_past *past)
{
	struct roami_bind bind = {.delta = UINT64_MAX, .name_bytes = 1, .template_bytes = 3};
	struct roami_ps_bound bound;
	struct roami_hosted *hosted;
	const struct roami_keep keep = {UINT64_MAX, UINT64_MAX};
	char why[64];

	test->options.ps_memory = 1u << 20;
	test->now = 1;
	test->node.env = &env;
	test->node.env_state = &test->now;
	test->node.options = &test->options;
	test->node.nodes = 1;
	test->extensions[0] = (struct roami_open_room){.state = past, .room = &roami_past_room};
	test->node.extensions = test->extensions;
	if (roami_past_room.init(&test->node, NULL) != ROAM_OK)
		abort();
	test->history.delta = UINT64_MAX;
	if (roami_guests_init(&test->guests, past, key, &keep) != ROAM_OK)
		abort();
	/* Room for all elements that there may be, which fini gives back. */
	hosted = roami_os_reserve_sparse(ROAMI_ELEMENTS_MAX * sizeof(*hosted));
	if (hosted == NULL ||
	    roami_template_parse(&hosted->template, "u64", why, sizeof(why)) != ROAM_OK)
		abort();
	strcpy(hosted->name, "e");
	test->guests.hosted[0] = hosted;
	roami_name_bind(past, &bind, "eu64", &bound);
	if (bound.err != ROAM_OK)
		abort();
}

static void test_close(struct test *test, struct roami_past *past)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (test->clients[i].guest != NULL)
			guest_gone(test->clients[i].guest);
	for (unsigned i = 0; i < STALE; i++)
		if (test->stale[i] != NULL)
			guest_gone(test->stale[i]);
	roami_guests_fini(&test->guests);
	if (roami_past_element(past, 0)->waiting != 0)
		test_fail(test, "a client waits that is gone");
	roami_past_room.fini(&test->node);
}

static void test_join(struct test *test, struct client *client)
{
	client_connect(test, client);
	while (client->state != JOINED) {
		server_hear(test, client);
		client_hear(test, client);
	}
}

/* A client joins, makes requests without reading, and goes; it may want the first answer again. */
static void test_deaf(struct test *test, struct client *client, unsigned asks, uint64_t wanted)
{
	struct ask *ask = &client->asks[0];

	test_join(test, client);
	ask->op.op = ROAM_PS_STATE;
	for (unsigned i = 0; i < asks; i++) {
		ask->number = 0;
		ask_send(test, client, ask);
		while (client->up.have > 0)
			server_hear(test, client);
	}
	guest_gone(client->guest);
	client->guest = NULL;
	test->now++;
	ask->number = wanted;
	ask->used = true;
}

/*
 * Checks that the server remembers a bounded number of clients that are away, and forgets them when
 * no client wants that.
 */
static bool replay_bounded(void)
{
	struct test *test = calloc(1, sizeof(*test));
	struct roami_past_job *job = calloc(1, sizeof(*job));
	struct roami_past *past = &job->past;
	struct client *clients = test->clients;
	const struct roami_session *first, *last;
	bool good;

	if (test == NULL || past == NULL)
		abort();
	test_open(test, past);
	test_deaf(test, &clients[0], 100, 1);
	test_deaf(test, &clients[1], 100, 1);
	test_deaf(test, &clients[2], 100, 61);
	last = roami_session_find(&test->guests, clients[2].session);
	test->guests.keep.bytes = 2 * last->memo_bytes;
	good = last->memo_count == 100 && last->memo_bytes > 100 * sizeof(struct roam_ps_state);
	roami_sessions_forget(&test->guests);
	first = roami_session_find(&test->guests, clients[0].session);
	good &= first == NULL && test->guests.away == 2;
	test_join(test, &clients[1]);
	test_join(test, &clients[2]);
	good &= roami_session_find(&test->guests, clients[1].session)->memo_count == 100;
	good &= last->memo_count == 40 && test->guests.away == 0 && !test->failed;
	if (!good)
		printf("FAILED: more is remembered than is wanted, or less\n");
	test_close(test, past);
	free(job);
	free(test);
	return good;
}

/* A client makes more requests than it may without reading: the oldest answers are forgotten. */
static bool replay_overflow(void)
{
	struct test *test = calloc(1, sizeof(*test));
	struct roami_past_job *job = calloc(1, sizeof(*job));
	struct roami_past *past = &job->past;
	struct client *client = &test->clients[0];
	struct ask *ask = &client->asks[0];
	bool good;

	if (test == NULL || past == NULL)
		abort();
	test_open(test, past);
	test_deaf(test, client, ROAMI_GUEST_ASKS_MAX + 1, 1);
	test_join(test, client);
	for (ask->number = 2; ask->number != 0; ask->number--) {
		ask->used = ask->number == 2;
		ask->event = history_begin(&test->history, ++test->clock, 0, &ask->request);
		ask_send(test, client, ask);
		while (client->up.have > 0 || client->guest->out.at != client->guest->out.end) {
			server_hear(test, client);
			client_hear(test, client);
		}
	}
	good = test->gone == 1 && !ask->used && !test->failed;
	if (!good)
		printf("FAILED: of two repeated operations %u were forgotten\n", test->gone);
	test_close(test, past);
	free(job);
	free(test);
	return good;
}

static bool replay_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct test *test = calloc(1, sizeof(*test));
	struct roami_past_job *job = calloc(1, sizeof(*job));
	struct roami_past *past = &job->past;
	struct totals *totals = arg;
	bool good;

	(void)options;
	(void)protocol;
	if (test == NULL || past == NULL)
		abort();
	test->seed = seed;
	test->rng.state = seed;
	test_open(test, past);
	for (unsigned i = 0; i < STEPS && !test->failed; i++)
		test_step(test);
	test->ends = true;
	for (unsigned i = 0; i < STEPS_LAST && test_asks(test) && !test->failed; i++)
		test_step(test);
	if (test_asks(test))
		test_fail(test, "something is never answered");
	test_close(test, past);
	history_trim(&test->history);
	if (test->gone != 0)
		test_fail(test, "something was forgotten");
	if (!test->failed && !history_explained(&test->history)) {
		test_fail(test, "what was seen cannot be explained");
		history_print(&test->history);
	}
	totals->operations += test->history.count;
	totals->cuts += test->cuts;
	totals->repeats += test->repeats;
	good = !test->failed;
	free(job);
	free(test);
	return good;
}

/* Fails if a case that the test is for never happened. */
static bool replay_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
			void *arg)
{
	const struct totals *totals = arg;
	bool enough = seeds < 50 || (totals->cuts > seeds && totals->repeats > seeds);

	(void)protocol;
	printf("%lu seeds, %lu failed; %lu operations, %lu cuts, %lu repeated\n",
	       (unsigned long)seeds, (unsigned long)failed, (unsigned long)totals->operations,
	       (unsigned long)totals->cuts, (unsigned long)totals->repeats);
	if (!enough)
		printf("FAILED: too little was repeated\n");
	return failed == 0 && enough;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	if (!replay_overflow() || !replay_bounded())
		return EXIT_FAILURE;
	return seed_main(&options, replay_one, replay_done, &totals);
}
