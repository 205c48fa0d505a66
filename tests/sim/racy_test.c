/*
 * Small racy programs without any synchronisation: under a sequentially consistent protocol there
 * is one order of all loads and stores, each thread's own kept, in which every load returns what
 * was stored last.  The checker looks for one among all there are.  This includes protocols where
 * all nodes have one heap, because a world has no store buffers.  Under the weaker protocols the
 * checker must find programs that have no such order, or it is of no use.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "seed_options.h"
#include "world.h"

#define THREADS   4u
#define OPS       12u
#define VARIABLES 3u
#define ENOUGH    300u /* seeds after which a weaker protocol must have shown itself */
#define TABLE     (1u << 18)

struct racy_op {
	bool store;
	uint8_t variable;
	uint8_t value; /* of a store: a value of its own; of a load: the value returned */
	uint32_t pause_ns;
};

struct racy {
	struct world *world;
	unsigned threads;
	uint64_t offsets[VARIABLES];
	struct racy_op ops[THREADS][OPS];
	uint64_t *seen; /* 1 + states that lead nowhere; open addressing */
	unsigned seen_count;
};

struct racy_thread {
	struct racy *racy;
	struct roami_node *node;
	unsigned number;
};

struct totals {
	uint64_t violations, loads, foreign;
};

/* ------------------------------------------------------------------------------------- running */

static void racy_main(void *arg)
{
	struct racy_thread *thread = arg;
	struct racy *racy = thread->racy;

	for (unsigned i = 0; i < OPS; i++) {
		struct racy_op *op = &racy->ops[thread->number][i];
		uint64_t at = racy->offsets[op->variable];

		world_doing(racy->world, op->store ? "store" : "load", at);
		if (op->pause_ns != 0)
			world_sleep(racy->world, op->pause_ns);
		if (op->store)
			world_store(thread->node, at, &op->value, 1);
		else
			world_load(thread->node, at, &op->value, 1);
	}
}

static void racy_draw(struct racy *racy, struct rng *rng)
{
	bool apart = !rng_one_in(rng, 4);
	uint8_t value = 0;

	for (unsigned i = 0; i < VARIABLES; i++)
		racy->offsets[i] = apart ? (i * 5u + 1u) * ROAM_PAGE_SIZE + i : 100u + i;
	for (unsigned thread = 0; thread < racy->threads; thread++)
		for (unsigned i = 0; i < OPS; i++) {
			struct racy_op *op = &racy->ops[thread][i];

			op->store = rng_one_in(rng, 3);
			op->variable = (uint8_t)rng_below(rng, VARIABLES);
			op->value = op->store ? ++value : 0;
			op->pause_ns = rng_one_in(rng, 2) ? rng_below(rng, 30000) : 0;
		}
}

static void racy_config(struct world_config *config, uint64_t seed,
			const struct roam_protocol *protocol, struct rng *rng)
{
	world_draw(config, seed, protocol);
	config->creator_pages = 0;
	config->nodes = rng_one_in(rng, 2) ? 2 : rng_range(rng, 2, THREADS);
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = 1;
	if (rng_one_in(rng, 2)) {
		config->step_every = 1;
		config->stall_every = 4;
	}
	for (unsigned more = THREADS - config->nodes; more > 0; more--)
		config->threads[rng_below(rng, config->nodes)] += rng_below(rng, 2);
}

/* ------------------------------------------------------------------------------------ checking */

/* A state: how far each thread is, and the values of the variables. */
struct state {
	uint8_t at[THREADS];
	uint8_t memory[VARIABLES];
};

_Static_assert(sizeof(struct state) <= sizeof(uint64_t), "a state is a word");

/* Whether the state is new; if so, notes it. */
static bool state_new(struct racy *racy, const struct state *state)
{
	uint64_t key = 0;
	uint32_t slot;

	memcpy(&key, state, sizeof(*state));
	for (slot = (uint32_t)rng_mix(key) % TABLE; racy->seen[slot] != 0;
	     slot = (slot + 1) % TABLE)
		if (racy->seen[slot] == key + 1)
			return false;
	if (++racy->seen_count > TABLE / 2) {
		fprintf(stderr, "racy_test: too many states\n");
		abort();
	}
	racy->seen[slot] = key + 1;
	return true;
}

/* Executes loads that return the present value: they may come now, and change nothing. */
static bool state_loads(const struct racy *racy, struct state *state)
{
	bool done = true;

	for (unsigned i = 0; i < racy->threads; i++) {
		const struct racy_op *op = &racy->ops[i][state->at[i]];

		while (state->at[i] < OPS && !op->store &&
		       op->value == state->memory[op->variable]) {
			state->at[i]++;
			op++;
		}
		done = done && state->at[i] == OPS;
	}
	return done;
}

/* Whether the remaining operations have an order.  Recursion is no deeper than there are stores. */
static bool state_ends(struct racy *racy, struct state state)
{
	if (state_loads(racy, &state))
		return true;
	if (!state_new(racy, &state))
		return false;
	for (unsigned i = 0; i < racy->threads; i++) {
		const struct racy_op *op = &racy->ops[i][state.at[i]];
		struct state next = state;

		if (state.at[i] == OPS || !op->store)
			continue;
		next.memory[op->variable] = op->value;
		next.at[i]++;
		if (state_ends(racy, next))
			return true;
	}
	return false;
}

static bool racy_consistent(struct racy *racy)
{
	struct state start = {0};
	bool good;

	racy->seen = calloc(TABLE, sizeof(*racy->seen));
	if (racy->seen == NULL)
		abort();
	good = state_ends(racy, start);
	free(racy->seen);
	return good;
}

static void racy_print(const struct racy *racy)
{
	for (unsigned thread = 0; thread < racy->threads; thread++) {
		printf("  thread %u:", thread);
		for (unsigned i = 0; i < OPS; i++) {
			const struct racy_op *op = &racy->ops[thread][i];

			printf(op->store ? " %c=%u" : " %c:%u", 'x' + op->variable, op->value);
		}
		printf("\n");
	}
}

/* ------------------------------------------------------------------------------------ one seed */

static bool racy_ordered(const struct roam_protocol *protocol)
{
	return protocol->model == ROAM_MODEL_SC || roami_homes_everywhere(protocol);
}

static void racy_count(struct totals *totals, const struct racy *racy)
{
	for (unsigned thread = 0; thread < racy->threads; thread++)
		for (unsigned i = 0; i < OPS; i++) {
			const struct racy_op *op = &racy->ops[thread][i];
			bool own = false;

			for (unsigned j = 0; j < OPS; j++)
				own |= racy->ops[thread][j].store &&
				       racy->ops[thread][j].value == op->value;
			totals->loads += !op->store;
			totals->foreign += !op->store && op->value != 0 && !own;
		}
}

static bool racy_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct racy racy = {0};
	struct racy_thread threads[THREADS];
	struct rng rng = {seed * 7 + 3};
	struct world_config config;
	struct totals *totals = arg;
	char text[512];
	bool ran, consistent;

	racy_config(&config, seed, protocol, &rng);
	config.trace = options->trace;
	racy.world = world_open(&config);
	if (racy.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned node = 0; node < config.nodes; node++)
		for (unsigned i = 0; i < config.threads[node]; i++) {
			unsigned number = racy.threads++;

			threads[number] = (struct racy_thread){&racy, world_node(racy.world, node),
							       number};
			world_spawn(racy.world, node, racy_main, &threads[number]);
		}
	racy_draw(&racy, &rng);
	ran = world_run(racy.world);
	consistent = ran && racy_consistent(&racy);
	totals->violations += ran && !consistent;
	racy_count(totals, &racy);
	if (!ran || (!consistent && racy_ordered(protocol))) {
		world_describe(&config, text, sizeof(text));
		printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)seed,
		       ran ? "no order explains what was read" : world_error(racy.world), text,
		       seed_replay());
		racy_print(&racy);
	}
	world_close(racy.world);
	return ran && (consistent || !racy_ordered(protocol));
}

static bool racy_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		      void *arg)
{
	struct totals *totals = arg;
	bool asleep = seeds >= ENOUGH &&
		      (totals->foreign < seeds * 2 ||
		       (!racy_ordered(protocol) && totals->violations == 0));

	printf("%s: %lu seeds, %lu failed; %lu not sequentially consistent; %lu loads (%lu of "
	       "another thread's value)\n",
	       protocol->name, (unsigned long)seeds, (unsigned long)failed,
	       (unsigned long)totals->violations, (unsigned long)totals->loads,
	       (unsigned long)totals->foreign);
	if (asleep)
		printf("%s: too little was shared, or the checker sees nothing\n", protocol->name);
	memset(totals, 0, sizeof(*totals));
	return failed == 0 && !asleep;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = ENOUGH};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, racy_one, racy_done, &totals);
}
