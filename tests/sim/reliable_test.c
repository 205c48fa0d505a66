/*
 * The reliable layer alone, over simulated datagrams that get lost, repeated, reordered, late and
 * changed: every message arrives once, whole and in order; a slow node is not drowned; a node with
 * nothing to say falls silent.  Where datagrams are sealed, a stranger on the way repeats datagrams
 * that it has heard, sends them back, and sends datagrams that these nodes sealed in an earlier
 * life: none of them is taken.  Everything follows from the seed.
 *
 * usage: reliable_test [--seeds A..B]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faulty.h"
#include "link/link.h"
#include "link/reliable.h"
#include "link/seal.h"
#include "rng.h"
#include "sim.h"

#define NODES_MAX  4u
#define TURNS_MIN  2000000u /* turns a run may take, plus so many for each datagram it needs */
#define TURNS_EACH 100u
#define QUIET_NS   2000000000u
#define LAYERS     4u
#define TOP        3u
#define HEARD      16u

/* Datagrams of one direction that the stranger has heard: the first and the last ones. */
struct ear {
	uint64_t count;
	uint64_t end; /* 1 + the highest number used */
	size_t bytes[HEARD];
	_Alignas(8) uint8_t heard[HEARD][ROAMI_DATAGRAM_MAX];
};

struct place {
	struct run *run;
	unsigned me;
	void *states[LAYERS];
	struct roam_transport_params params;
	struct roami_stats *stats;
	struct ear ears[NODES_MAX];
	struct roami_seal earlier[NODES_MAX]; /* the seals of the same node's earlier life */
	uint64_t sent[NODES_MAX], taken[NODES_MAX];
	uint32_t slow;    /* polls only once in so many turns */
	uint32_t refuses; /* refuses a message at first, one time in so many; 0: never */
};

struct run {
	struct rng rng;
	uint64_t now;
	unsigned nodes;
	uint64_t messages; /* from each node to each */
	uint32_t bytes_max;
	struct roami_seal_params seal;
	struct roami_sealer earlier;
	struct roami_sim sim;
	struct place places[NODES_MAX];
	char error[200];
	uint64_t waiting_max; /* the most datagrams from one node that waited at another */
};

static uint64_t run_now(void *arg)
{
	return ((struct run *)arg)->now;
}

static uint64_t place_now(void *arg)
{
	return ((struct place *)arg)->run->now;
}

static uint64_t run_draw(void *arg, uint64_t limit)
{
	return rng_next(&((struct run *)arg)->rng) % limit;
}

/* ------------------------------------------------------------------------------------ messages */

/* Makes the bytes of message `serial` from one node to another; returns how many. */
static uint32_t message_make(struct run *run, unsigned from, unsigned to, uint64_t serial,
			     uint8_t *out)
{
	struct rng rng = {serial * 64 + from * 8 + to + run->bytes_max};
	uint32_t bytes = rng_one_in(&rng, 3) ? rng_range(&rng, 1, run->bytes_max)
					     : rng_range(&rng, 1, 300);

	for (uint32_t at = 0; at < bytes; at += 8) {
		uint64_t word = rng_next(&rng);

		memcpy(out + at, &word, bytes - at < 8 ? bytes - at : 8);
	}
	return bytes;
}

static bool place_deliver(void *arg, unsigned from, const void *data, size_t bytes)
{
	static uint8_t want[ROAMI_LINK_MESSAGE + 8];
	struct place *place = arg;
	struct run *run = place->run;
	uint32_t length;

	if (place->refuses != 0 && rng_one_in(&run->rng, place->refuses))
		return false;
	length = message_make(run, from, place->me, place->taken[from], want);
	if (((uintptr_t)data & 7) != 0 || bytes != length || memcmp(data, want, length) != 0)
		snprintf(run->error, sizeof(run->error),
			 "node %u got other bytes than message %lu of node %u", place->me,
			 (unsigned long)place->taken[from], from);
	place->taken[from]++;
	return true;
}

static void place_send(struct place *place)
{
	static uint8_t data[ROAMI_LINK_MESSAGE + 8];
	struct run *run = place->run;
	unsigned to = rng_below(&run->rng, run->nodes);
	struct iovec parts[3] = {{data, 0}};
	uint32_t bytes, cut;

	if (place->sent[to] == run->messages)
		return;
	bytes = message_make(run, place->me, to, place->sent[to], data);
	cut = rng_below(&run->rng, bytes + 1);
	parts[0] = (struct iovec){data, cut};
	parts[1] = (struct iovec){NULL, 0};
	parts[2] = (struct iovec){data + cut, bytes - cut};
	if (roami_transport_reliable.send(place->states[TOP], to, parts, 3) == ROAM_OK)
		place->sent[to]++;
}

static void place_poll(struct place *place)
{
	int bad = -1;

	roami_transport_reliable.poll(place->states[TOP], place_deliver, place, 16, &bad);
	if (bad >= 0)
		snprintf(place->run->error, sizeof(place->run->error),
			 "node %u calls node %d malformed", place->me, bad);
}

/* --------------------------------------------------------------------------------- the stranger */

/*
 * A transport: the stranger between a node and the network; its state points to the node's place.
 */
static struct place *tap_place(const void *state)
{
	return *(struct place *const *)state;
}

static enum roam_err tap_open(void *state, const struct roam_transport_params *params)
{
	*(struct place **)state = params->now_arg;
	return ROAM_OK;
}

static void tap_close(void *state)
{
	(void)state;
}

static enum roam_err tap_pass(struct place *place, unsigned to, void *data, size_t bytes)
{
	struct iovec part = {data, bytes};

	return roami_transport_faulty.send(place->states[1], to, &part, 1);
}

static void tap_hear(struct place *place, unsigned to, const uint8_t *data, size_t bytes)
{
	const struct roami_packet *packet = (const void *)data;
	struct ear *ear = &place->ears[to];
	uint64_t which;

	if (packet->number < ear->end)
		snprintf(place->run->error, sizeof(place->run->error),
			 "node %u used number %lu twice towards node %u", place->me,
			 (unsigned long)packet->number, to);
	ear->end = packet->number + 1;
	which = ear->count < HEARD / 2 ? ear->count : HEARD / 2 + ear->count % (HEARD / 2);
	memcpy(ear->heard[which], data, bytes);
	ear->bytes[which] = bytes;
	ear->count++;
}

/* Makes a message of 7s only, in the place of the next one. */
static void tap_forge(struct place *place, unsigned to)
{
	const struct roami_reliable *mine = place->states[TOP];
	struct {
		struct roami_packet packet;
		uint8_t text[64];
	} forged, room;
	const struct roami_link *link = &mine->links[to];

	memset(&forged, 7, sizeof(forged));
	forged.packet = (struct roami_packet){
		.seq = link->next, .length = sizeof(forged.text), .flags = ROAMI_PACKET_DATA};
	tap_pass(place, to,
		 roami_seal_close(&place->earlier[to], &forged.packet, sizeof(forged), &room),
		 sizeof(forged));
}

static enum roam_err tap_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct place *place = tap_place(state);
	struct ear *ear = &place->ears[to];
	struct rng *rng = &place->run->rng;
	enum roam_err err;

	if (count != 1 || parts->iov_len > ROAMI_DATAGRAM_MAX)
		return ROAM_EINVAL;
	err = tap_pass(place, to, parts->iov_base, parts->iov_len);
	if (err != ROAM_OK) /* a datagram that has not left cannot be heard */
		return err;
	tap_hear(place, to, parts->iov_base, parts->iov_len);
	if (place->run->seal.key != NULL && rng_one_in(rng, 10)) {
		unsigned which = rng_below(rng, ear->count < HEARD ? (uint32_t)ear->count : HEARD);

		tap_pass(place, to, ear->heard[which], ear->bytes[which]);
		/* Also sends it back to its sender, as if from the other node. */
		tap_pass(&place->run->places[to], place->me, ear->heard[which], ear->bytes[which]);
	}
	if (place->run->seal.key != NULL && rng_one_in(rng, 10))
		tap_forge(place, to);
	return ROAM_OK;
}

static unsigned tap_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer)
{
	return roami_transport_faulty.poll(tap_place(state)->states[1], deliver, arg, max,
					   bad_peer);
}

static bool tap_pending(const void *state)
{
	return roami_transport_faulty.pending(tap_place(state)->states[1]);
}

static size_t tap_limit(const void *state)
{
	return roami_transport_faulty.limit(tap_place(state)->states[1]);
}

static size_t tap_room(const void *state)
{
	return roami_transport_faulty.room(tap_place(state)->states[1]);
}

static uint64_t tap_due(const void *state)
{
	return roami_transport_faulty.due(tap_place(state)->states[1]);
}

static const struct roam_transport tap = {
	.name = "tap",
	.state_size = sizeof(struct place *),
	.message_max = ROAMI_DATAGRAM_MAX,
	.open = tap_open,
	.close = tap_close,
	.send = tap_send,
	.poll = tap_poll,
	.pending = tap_pending,
	.limit = tap_limit,
	.room = tap_room,
	.due = tap_due,
};

/* -------------------------------------------------------------------------------------- one run */

static void place_open(struct run *run, unsigned me, const char *faults)
{
	static const struct roam_transport *const layers[] = {&roami_transport_sim_datagrams,
							      &roami_transport_faulty, &tap,
							      &roami_transport_reliable};
	static struct roami_stats counted[NODES_MAX]; /* large, and used little of */
	struct place *place = &run->places[me];

	roami_stats_begin(&counted[me]);
	place->run = run;
	place->me = me;
	place->stats = &counted[me];
	place->slow = rng_one_in(&run->rng, 3) ? rng_range(&run->rng, 2, 200) : 1;
	place->refuses = rng_one_in(&run->rng, 4) ? 3 : 0;
	place->params = (struct roam_transport_params){.node = me,
						       .nodes = run->nodes,
						       .world = &run->sim,
						       .now = place_now,
						       .now_arg = place,
						       .option = faults,
						       .stats = place->stats,
						       .seal = &run->seal};
	for (unsigned to = 0; to < run->nodes; to++)
		roami_seal_init(&place->earlier[to], &run->earlier, me, to);
	for (unsigned i = 0; i < LAYERS; i++) {
		place->states[i] = calloc(1, layers[i]->state_size);
		if (place->states[i] == NULL ||
		    layers[i]->open(place->states[i], &place->params) != ROAM_OK) {
			fprintf(stderr, "cannot open %s with %s\n", layers[i]->name, faults);
			exit(EXIT_FAILURE);
		}
		place->params.lower = layers[i];
		place->params.lower_state = place->states[i];
	}
}

static void place_close(struct place *place)
{
	roami_transport_reliable.close(place->states[TOP]);
	roami_transport_faulty.close(place->states[1]);
	roami_transport_sim_datagrams.close(place->states[0]);
	for (unsigned i = 0; i < LAYERS; i++)
		free(place->states[i]);
}

static bool run_done(const struct run *run)
{
	for (unsigned me = 0; me < run->nodes; me++)
		for (unsigned from = 0; from < run->nodes; from++)
			if (run->places[me].taken[from] < run->messages)
				return false;
	return true;
}

/*
 * Checks how far the sender is ahead, by what it was allowed to send.  Datagrams count that were
 * sent and not acknowledged.
 */
static void run_watch(struct run *run)
{
	for (unsigned me = 0; me < run->nodes; me++) {
		const struct roami_reliable *mine = run->places[me].states[TOP];

		for (unsigned to = 0; to < run->nodes; to++) {
			const struct roami_reliable *theirs = run->places[to].states[TOP];
			uint64_t ahead = mine->links[to].next - theirs->links[me].expect;

			if (to == me)
				continue;
			if (ahead > run->waiting_max)
				run->waiting_max = ahead;
			if (ahead > theirs->share)
				snprintf(run->error, sizeof(run->error),
					 "node %u sent node %u %lu datagrams ahead, allowed %u", me,
					 to, (unsigned long)ahead, theirs->share);
		}
	}
}

static void run_turn(struct run *run)
{
	struct place *place = &run->places[rng_below(&run->rng, run->nodes)];

	if (!rng_one_in(&run->rng, 3))
		place_send(place);
	if (rng_one_in(&run->rng, place->slow))
		place_poll(place);
	run->now += rng_below(&run->rng, 3000);
	run_watch(run);
}

/* Checks that everything has arrived; after the last acks no timer is left. */
static void run_quiet(struct run *run)
{
	uint64_t end = run->now + QUIET_NS;

	while (run->now < end && run->error[0] == '\0') {
		bool quiet = true;

		for (unsigned me = 0; me < run->nodes; me++) {
			struct place *place = &run->places[me];

			place_poll(place);
			quiet = quiet &&
				roami_transport_reliable.due(place->states[TOP]) == UINT64_MAX &&
				!roami_transport_reliable.pending(place->states[TOP]) &&
				roami_sim_due(&run->sim, me) == UINT64_MAX;
		}
		if (quiet)
			return;
		run->now += 10000;
	}
	if (run->error[0] == '\0')
		snprintf(run->error, sizeof(run->error), "the nodes do not fall silent");
}

/* A datagram that arrives again was resent by its sender: no stranger can make one. */
static void run_count(struct run *run)
{
	uint64_t repeated = 0, resent = 0;

	for (unsigned me = 0; me < run->nodes; me++) {
		repeated += roami_stats_sum(run->places[me].stats, ROAMI_STAT_datagrams_repeated);
		resent += roami_stats_sum(run->places[me].stats, ROAMI_STAT_datagrams_resent);
	}
	if (repeated > resent)
		snprintf(run->error, sizeof(run->error),
			 "%lu datagrams came again, %lu were resent", (unsigned long)repeated,
			 (unsigned long)resent);
}

/* Half of the runs are sealed; all ways to seal are used. */
static void run_seal(struct run *run)
{
	static const uint8_t key[ROAMI_KEY_BYTES] = "the key of every run";
	struct roami_seal_params earlier;

	if (rng_one_in(&run->rng, 2))
		return;
	run->seal = (struct roami_seal_params){.key = key,
					       .boot = 1,
					       .encrypt = rng_one_in(&run->rng, 2),
					       .no_aes = rng_one_in(&run->rng, 3)};
	earlier = run->seal;
	earlier.boot = 0;
	if (roami_sealer_init(&run->earlier, &earlier) != ROAM_OK)
		snprintf(run->error, sizeof(run->error), "no cipher");
}

static bool run_one(uint64_t seed)
{
	static struct run run;
	static const size_t datagrams[] = {512, 1472, 4200, 9216};
	char faults[160];
	unsigned drop, repeat, reorder;
	uint64_t turns = 0, turns_max = TURNS_MIN;

	memset(&run, 0, sizeof(run));
	run.rng.state = seed * 2 + 1;
	run.now = 1000000;
	run.nodes = rng_range(&run.rng, 2, NODES_MAX);
	run.messages = rng_range(&run.rng, 20, 300);
	run.bytes_max = rng_one_in(&run.rng, 2) ? 5000 : ROAMI_LINK_MESSAGE;
	run.sim = (struct roami_sim){.world = &run,
				     .now = run_now,
				     .draw = run_draw,
				     .queue_max = rng_one_in(&run.rng, 2) ? 20 : 5000,
				     .latency_ns_min = 1000,
				     .latency_ns_max = rng_one_in(&run.rng, 2) ? 5000 : 500000,
				     .datagram_max = datagrams[rng_below(&run.rng, 4)],
				     .room = rng_one_in(&run.rng, 2) ? 1 : 4u << 20};
	drop = rng_below(&run.rng, 4) * 5;
	repeat = rng_below(&run.rng, 20);
	reorder = rng_below(&run.rng, 30);
	snprintf(faults, sizeof(faults), "drop=%u%%,repeat=%u%%,reorder=%u%%,corrupt=1%%,seed=%lu",
		 drop, repeat, reorder, (unsigned long)seed);
	turns_max += (uint64_t)run.nodes * run.messages *
		     (run.bytes_max / run.sim.datagram_max + 1) * TURNS_EACH;
	run_seal(&run);
	for (unsigned me = 0; me < run.nodes; me++)
		place_open(&run, me, faults);
	while (run.error[0] == '\0' && !run_done(&run) && ++turns < turns_max)
		run_turn(&run);
	if (run.error[0] == '\0' && !run_done(&run))
		snprintf(run.error, sizeof(run.error), "no end in sight");
	if (run.error[0] == '\0')
		run_quiet(&run);
	if (run.error[0] == '\0' && run.seal.key != NULL)
		run_count(&run);
	if (run.error[0] != '\0')
		printf("FAILED seed %lu: %s\n  %u nodes, datagrams of %zu, %s%s%s\n  replay: "
		       "reliable_test --seeds %lu..%lu\n",
		       (unsigned long)seed, run.error, run.nodes, run.sim.datagram_max, faults,
		       run.seal.key != NULL ? ", sealed" : "",
		       run.seal.encrypt ? ", encrypted" : "", (unsigned long)seed,
		       (unsigned long)seed);
	for (unsigned me = 0; me < run.nodes; me++)
		place_close(&run.places[me]);
	return run.error[0] == '\0';
}

int main(int argc, char **argv)
{
	unsigned long from = 1, to = 100, failed = 0;

	/*
	 * The runner of the mutants passes --protocol NAME and --about to all tests; they are
	 * ignored.
	 */
	if (argc > 1 && strcmp(argv[argc - 1], "--about") == 0)
		return EXIT_SUCCESS;
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], "--seeds") == 0 &&
		    sscanf(argv[i + 1], "%lu..%lu", &from, &to) != 2)
			return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* Failing runs take long; after three the test ends. */
	for (unsigned long seed = from; seed <= to && failed < 3; seed++)
		failed += !run_one(seed);
	printf("reliable: %lu seeds, %lu failed\n", to - from + 1, failed);
	return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
