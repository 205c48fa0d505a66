/*
 * Litmus tests in simulated worlds, for every protocol: outcomes that its model forbids are never
 * seen, outcomes that it permits can be, and a lazy protocol is lazy, by count of messages.
 *
 *	litmus_test [--protocol NAME] [--seeds A..B] [--trace] [--mixed] [--teams]
 *
 * By default seeds 1..150 of each test.  --mixed: the variables are under several protocols; what
 * the weakest of their models forbids is never seen.  --teams: two nodes, each a team of
 * two threads; what is forbidden between nodes is so between them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault/soft.h"
#include "home/home_state.h"
#include "litmus.h"
#include "page/page.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define ID_LOCKS     0x7100000000u
#define ID_FLAGS     0x7200000000u
#define ID_BARRIERS  0x7300000000u
#define LOCKS        2u
#define TEAMS        2u /* of two threads */
#define OUTCOMES_MAX 64u

struct run;

struct run_thread {
	struct run *run;
	unsigned number;
	const struct litmus_op *ops;
};

struct run {
	struct world *world;
	unsigned threads;
	unsigned nodes;
	uint64_t offsets[4];   /* of the variables */
	uint64_t locks[LOCKS]; /* ids */
	uint64_t flags;        /* id of the first */
	bool teams;            /* two nodes of two threads, of which some may only meet others */
	bool dropped;          /* a release takes copies away */
	bool warm;             /* the threads look at the variables before */
	unsigned turn;
	uint8_t registers[LITMUS_REGISTERS];
	struct run_thread members[2 * TEAMS > LITMUS_THREADS ? 2 * TEAMS : LITMUS_THREADS];
	struct litmus_op meets[LITMUS_OPS]; /* of a thread that only meets the others */
};

/* ----------------------------------------------------------------------------------- execution */

static void run_check(struct run *run, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(run->world, "%s", roam_strerror(err));
}

/* The node of a thread: its own, or the last one. */
static struct roami_node *run_node(const struct run_thread *member)
{
	unsigned last = member->run->nodes - 1;

	if (member->run->teams)
		return world_node(member->run->world, member->number % TEAMS);
	return world_node(member->run->world, member->number < last ? member->number : last);
}

static void run_turn(struct run *run, unsigned turn)
{
	while (run->turn != turn)
		world_sleep(run->world, 1000);
}

static void run_access(struct run *run, struct roami_node *node, const struct litmus_op *op)
{
	uint64_t offset = run->offsets[op->which];
	uint8_t value = (uint8_t)op->value;

	switch (op->kind) {
	case LITMUS_WRITE:
		world_store(node, offset, &value, 1);
		return;
	case LITMUS_READ:
		world_load(node, offset, &run->registers[op->value], 1);
		return;
	case LITMUS_COPY:
		world_store(node, offset, &run->registers[op->value], 1);
		return;
	default:
		world_load(node, offset, &value, 1);
		if (op->value != ANY)
			run->registers[op->value] = value;
		value++;
		world_store(node, offset, &value, 1);
	}
}

static void run_op(struct run *run, struct roami_node *node, const struct litmus_op *op)
{
	switch (op->kind) {
	case LITMUS_LOCK:
		run_check(run, roami_lock(node, run->locks[op->which]));
		return;
	case LITMUS_UNLOCK:
		run_check(run, roami_unlock(node, run->locks[op->which]));
		return;
	case LITMUS_SET:
		run_check(run, roami_flag_set(node, run->flags + op->which * 8u));
		return;
	case LITMUS_WAIT:
		run_check(run, roami_flag_wait(node, run->flags + op->which * 8u));
		return;
	case LITMUS_BARRIER:
		run_check(run, roami_barrier(node, ID_BARRIERS, 0));
		return;
	case LITMUS_SOME:
		run_check(run, roami_barrier(node, ID_BARRIERS + op->which * 8u, op->value));
		return;
	case LITMUS_TURN:
		run_turn(run, op->which);
		return;
	case LITMUS_NEXT:
		run->turn++;
		return;
	default:
		run_access(run, node, op);
	}
}

/* Some copies are made before the test proper. */
static void run_prepare(struct run_thread *member, struct roami_node *node)
{
	struct run *run = member->run;
	struct rng *rng = world_rng(run->world);
	uint8_t value;

	for (unsigned i = 0; run->warm && i < 4; i++)
		if (rng_one_in(rng, 2))
			world_load(node, run->offsets[i], &value, 1);
	run_check(run, roami_barrier(node, ID_BARRIERS, 0));
	if (run->warm && rng_one_in(rng, 2))
		world_sleep(run->world, rng_below(rng, 20000 * (member->number + 1)));
}

static void run_main(void *arg)
{
	struct run_thread *member = arg;
	struct roami_node *node = run_node(member);

	run_prepare(member, node);
	for (unsigned i = 0; i < LITMUS_OPS && member->ops[i].kind != LITMUS_END; i++) {
		world_doing(member->run->world, "operation", i);
		run_op(member->run, node, &member->ops[i]);
	}
}

/* A lock whose home is `home`; ANY: any node. */
static uint64_t run_lock_id(struct run *run, unsigned lock, unsigned home)
{
	uint64_t id = ID_LOCKS + lock * 0x10000u;

	while (home != ANY && roami_sync_home(world_node(run->world, 0), id) != home)
		id += 8;
	return id;
}

static void run_variables(struct run *run, enum litmus_layout layout, uint32_t page)
{
	for (unsigned i = 0; i < 4; i++) {
		run->offsets[i] = page * ROAMI_PAGE;
		if (layout == LITMUS_PAGES)
			run->offsets[i] += i * 3 * ROAMI_PAGE + i;
		else
			run->offsets[i] += layout == LITMUS_PAGE ? i * 1000 : 96 + i;
	}
}

/* The barriers of all that a list has. */
static void run_meets(struct run *run, const struct litmus_op ops[LITMUS_OPS])
{
	unsigned count = 0;

	for (unsigned i = 0; i < LITMUS_OPS && ops[i].kind != LITMUS_END; i++)
		if (ops[i].kind == LITMUS_BARRIER)
			run->meets[count++] = ops[i];
	if (count < LITMUS_OPS)
		run->meets[count].kind = LITMUS_END;
}

/* Runs to the end; false: the world's error is printed. */
static bool run_world(struct run *run, const struct litmus_op ops[LITMUS_THREADS][LITMUS_OPS],
		      const char *name)
{
	unsigned threads = run->teams ? 2 * TEAMS : run->threads;

	run_meets(run, ops[0]);
	for (unsigned i = 0; i < threads; i++) {
		run->members[i] =
			(struct run_thread){run, i, i < run->threads ? ops[i] : run->meets};
		world_spawn(run->world, run_node(&run->members[i])->me, run_main,
			    &run->members[i]);
	}
	if (world_run(run->world))
		return true;
	printf("FAILED %s: %s\n  %s\n", name, world_error(run->world), seed_replay());
	return false;
}

static void run_config(struct world_config *config, struct run *run, uint64_t seed,
		       const struct roam_protocol *protocol)
{
	world_draw(config, seed, protocol);
	config->nodes = run->nodes;
	for (unsigned i = 0; i < run->nodes; i++)
		config->threads[i] = 1;
	if (run->teams) {
		config->threads[0] = 2;
		world_teams(config);
	} else {
		config->threads[run->nodes - 1] += run->threads - run->nodes;
	}
	config->creator_pages = 0;
	config->steps_max = 1000000;
	run->flags = ID_FLAGS;
}

static struct world *run_open(const struct world_config *config)
{
	struct world *world = world_open(config);

	if (world == NULL)
		exit(EXIT_FAILURE);
	return world;
}

/* ------------------------------------------------------------------------------------ outcomes */

static bool outcome_matches(const struct litmus_outcome *outcome, const uint8_t *registers)
{
	for (unsigned i = 0; i < LITMUS_REGISTERS; i++)
		if (outcome->registers[i] != ANY && outcome->registers[i] != registers[i])
			return false;
	return outcome->used;
}

static void outcome_print(const uint8_t *registers)
{
	for (unsigned i = 0; i < LITMUS_REGISTERS; i++)
		if (registers[i] == ANY)
			printf("-");
		else
			printf("%u", registers[i]);
}

static bool outcome_forbidden(const struct litmus_forbidden *test, enum roam_model model,
			      const uint8_t *registers)
{
	bool forbidden = test->only.used && !outcome_matches(&test->only, registers);

	for (unsigned i = 0; i < 3; i++)
		forbidden |= outcome_matches(&test->always[i], registers) ||
			     (model != ROAM_MODEL_SCC &&
			      outcome_matches(&test->rc[i], registers)) ||
			     (model == ROAM_MODEL_SC && outcome_matches(&test->sc[i], registers));
	return forbidden;
}

struct histogram {
	unsigned count;
	uint8_t registers[OUTCOMES_MAX][LITMUS_REGISTERS];
	unsigned runs[OUTCOMES_MAX];
};

static void histogram_add(struct histogram *histogram, const uint8_t *registers)
{
	unsigned i = 0;

	while (i < histogram->count &&
	       memcmp(histogram->registers[i], registers, LITMUS_REGISTERS) != 0)
		i++;
	if (i == OUTCOMES_MAX)
		return;
	if (i == histogram->count)
		memcpy(histogram->registers[histogram->count++], registers, LITMUS_REGISTERS);
	histogram->runs[i]++;
}

static bool histogram_has(const struct histogram *histogram, const struct litmus_outcome *outcome)
{
	for (unsigned i = 0; i < histogram->count; i++)
		if (outcome_matches(outcome, histogram->registers[i]))
			return true;
	return !outcome->used;
}

/* ----------------------------------------------------------------------------------- the lists */

static bool forbidden_one(const struct litmus_forbidden *test, const struct seed_options *options,
			  const struct roam_protocol *protocol, uint64_t seed,
			  struct histogram *histogram)
{
	struct run run = {.threads = test->threads,
			  .nodes = test->threads - test->guest,
			  .teams = options->teams,
			  .warm = seed % 4 != 0};
	struct world_config config;
	bool guest = test->guest && !options->teams, good;

	if (run.teams)
		run.nodes = TEAMS;
	run_config(&config, &run, seed, protocol);
	if (guest) {
		config.hosts = config.nodes;
		config.slow_ns = 200000;
		config.slow_from = 0;
		config.slow_to = config.nodes - 1;
	}
	config.trace = options->trace;
	if (options->cards)
		world_cards(&config);
	if (options->mixed)
		world_mix(&config, 3);
	run.world = run_open(&config);
	while (guest && roami_sync_home(world_node(run.world, 0), run.flags) != run.nodes - 1)
		run.flags += 16; /* the flag's home has two threads */
	memset(run.registers, ANY, sizeof(run.registers));
	run_variables(&run, test->layout,
		      rng_below(world_rng(run.world), options->mixed ? 3 : 40));
	for (unsigned i = 0; i < LOCKS; i++)
		run.locks[i] = run_lock_id(&run, i, ANY);
	good = run_world(&run, test->ops, test->name);
	if (good && outcome_forbidden(test, world_model(&config), run.registers)) {
		printf("FAILED %s, seed %lu: forbidden outcome ", test->name, (unsigned long)seed);
		outcome_print(run.registers);
		printf("\n  %s\n", seed_replay());
		good = false;
	}
	if (good)
		histogram_add(histogram, run.registers);
	world_close(run.world);
	return good;
}

static bool forbidden_done(const struct litmus_forbidden *test,
			   const struct roam_protocol *protocol, const struct histogram *histogram,
			   bool enough)
{
	bool good = true;

	printf("%s: %s:", protocol->name, test->name);
	for (unsigned i = 0; i < histogram->count; i++) {
		printf(" ");
		outcome_print(histogram->registers[i]);
		printf(" x%u", histogram->runs[i]);
	}
	printf("\n");
	/* Without synchronisation a lazy protocol without homes shows no write at all. */
	if (test->unsynchronised && protocol->keeps_twins)
		enough = false;
	for (unsigned i = 0; enough && i < 2; i++)
		if (!histogram_has(histogram, &test->seen[i])) {
			printf("FAILED %s: never saw what it should see: ", test->name);
			outcome_print(test->seen[i].registers);
			printf("\n");
			good = false;
		}
	return good;
}

static bool witness_one(const struct litmus_witness *test, const struct seed_options *options,
			const struct roam_protocol *protocol, uint64_t seed)
{
	struct run run = {.threads = LITMUS_THREADS, .nodes = LITMUS_THREADS};
	struct world_config config;
	bool good;

	run_config(&config, &run, seed, protocol);
	config.trace = options->trace;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.prefetch = 0;
	config.cache_pages = 0;
	run.world = run_open(&config);
	memset(run.registers, ANY, sizeof(run.registers));
	run_variables(&run, LITMUS_PAGES, 5);
	for (unsigned i = 0; i < LOCKS; i++)
		run.locks[i] = run_lock_id(&run, i, i);
	good = run_world(&run, test->ops, test->name);
	if (good && !outcome_matches(&test->outcome, run.registers)) {
		printf("FAILED %s, seed %lu: not the expected outcome: ", test->name,
		       (unsigned long)seed);
		outcome_print(run.registers);
		printf("\n  %s\n", seed_replay());
		good = false;
	}
	world_close(run.world);
	return good;
}

/* ------------------------------------------------------------------------------------ laziness */

static uint64_t lazy_messages(struct run *run)
{
	return world_count(run->world, ROAMI_STAT_messages_sent);
}

static void lazy_expect(struct run *run, const char *what, uint64_t got, uint64_t most)
{
	if (got > most)
		world_fail(run->world, "%s: %lu messages, at most %lu expected", what,
			   (unsigned long)got, (unsigned long)most);
}

/* A node that acquires has been told all by then. */
static bool lazy_eager(const struct roam_protocol *protocol)
{
	return protocol->writes == ROAM_WRITES_DIFF && protocol->acquire == NULL &&
	       !roami_homes_everywhere(protocol);
}

/*
 * What 20 sections that no other node enters may send.  With a home: nothing for an own page; for
 * another node's a put, or a message and its answer; by message even where memory is shared if
 * homes move, for a node that gave one away owes a diff.  Where diffs stay with their writers,
 * another node's page is asked for, once; then nothing.  An eager protocol must tell the nodes that
 * have the page each time.
 */
static void lazy_sections(struct run *run, struct roami_node *node, uint64_t got)
{
	static const char what[] = "20 sections that no other node enters";
	const struct roam_protocol *protocol = node->protocol;
	bool apart = !home_of(node)->near_all || roami_homes_move(protocol);

	if (!lazy_eager(protocol))
		lazy_expect(run, what, got, protocol->keeps_twins ? 2 : apart ? 2 * 20 + 2 : 0);
	else if (got < 2 * 20)
		world_fail(run->world, "20 eager sections sent %lu messages", (unsigned long)got);
}

/* Node 0 writes and releases; node 1 has copies and does nothing. */
static void lazy_writer(void *arg)
{
	struct run_thread *member = arg;
	struct run *run = member->run;
	struct roami_node *node = world_node(run->world, 0);
	uint64_t before;
	uint8_t value = 1;

	run_prepare(member, node);
	world_store(node, run->offsets[X], &value, 1);
	run_check(run, roami_barrier(node, ID_BARRIERS, 0));
	run_check(run, roami_lock(node, run->locks[0])); /* the token is here: its home is node 0 */
	run_check(run, roami_unlock(node, run->locks[0]));
	run_turn(run, 1);
	before = lazy_messages(run);
	for (unsigned i = 0; i < 20; i++, value++) {
		run_check(run, roami_lock(node, run->locks[0]));
		world_store(node, run->offsets[X], &value, 1);
		world_store(node, run->offsets[Y], &value, 1);
		run_check(run, roami_unlock(node, run->locks[0]));
	}
	lazy_sections(run, node, lazy_messages(run) - before);
	if (!run->dropped &&
	    roami_page_access(world_node(run->world, 1),
			      (uint32_t)(run->offsets[X] / ROAMI_PAGE)) < ROAM_READ)
		world_fail(run->world, "a release took away a copy");
	run->turn = 2;
	run_turn(run, 3);
}

static void lazy_reader(void *arg)
{
	struct run_thread *member = arg;
	struct run *run = member->run;
	struct roami_node *node = world_node(run->world, 1);
	uint64_t before;
	uint8_t value = 0;

	run_prepare(member, node);
	world_store(node, run->offsets[Y], &value, 1);
	run_check(run, roami_barrier(node, ID_BARRIERS, 0));
	world_load(node, run->offsets[X], &value, 1);
	run->turn = 1;
	run_turn(run, 2);
	before = lazy_messages(run);
	run_check(run, roami_lock(node, run->locks[0]));
	/* Request, forward, notices, grant. */
	lazy_expect(run, "a lock that another node held last", lazy_messages(run) - before,
		    roami_homes_move(node->protocol) ? 6 : 4);
	world_load(node, run->offsets[X], &value, 1);
	if (value != 20)
		world_fail(run->world, "read %u after the lock, not 20", value);
	run_check(run, roami_unlock(node, run->locks[0]));
	run->turn = 3;
}

static bool lazy_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed)
{
	struct run run = {.threads = 2, .nodes = 2};
	struct world_config config;
	bool good;

	run_config(&config, &run, seed, protocol);
	config.trace = options->trace;
	config.placement = ROAM_PLACE_FIRST_TOUCH;
	config.prefetch = 0;
	config.cache_pages = 0;
	run.dropped = lazy_eager(protocol) && config.erc != ROAMI_ERC_UPDATE;
	run.world = run_open(&config);
	run_variables(&run, LITMUS_PAGES, 5);
	run.locks[0] = run_lock_id(&run, 0, 0);
	run.locks[1] = run_lock_id(&run, 1, 1);
	run.members[0] = (struct run_thread){&run, 0, NULL};
	run.members[1] = (struct run_thread){&run, 1, NULL};
	world_spawn(run.world, 0, lazy_writer, &run.members[0]);
	world_spawn(run.world, 1, lazy_reader, &run.members[1]);
	good = world_run(run.world);
	if (!good)
		printf("FAILED laziness, seed %lu: %s\n  %s\n", (unsigned long)seed,
		       world_error(run.world), seed_replay());
	world_close(run.world);
	return good;
}

/* ------------------------------------------------------------------------------- all of a seed */

struct state {
	bool mixed;
	bool teams;
	unsigned witnesses; /* that were run */
	struct histogram histograms[64];
};

static bool litmus_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct state *state = arg;
	bool good = true;

	for (unsigned i = 0; litmus_forbidden[i].name != NULL; i++)
		good = forbidden_one(&litmus_forbidden[i], options, protocol, seed,
				     &state->histograms[i]) &&
		       good;
	if (options->mixed || options->teams)
		return good;
	for (unsigned i = 0; litmus_witnesses[i].name != NULL; i++)
		if (litmus_witnesses[i].shows(protocol)) {
			good = witness_one(&litmus_witnesses[i], options, protocol, seed) && good;
			state->witnesses++;
		}
	if (protocol->model != ROAM_MODEL_SC)
		good = lazy_one(options, protocol, seed) && good;
	return good;
}

static bool litmus_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
			void *arg)
{
	struct state *state = arg;
	bool good = failed == 0 && (state->mixed || state->teams || state->witnesses > 0);

	if (!good && failed == 0)
		printf("FAILED %s: no outcome shows what its model permits\n", protocol->name);
	for (unsigned i = 0; litmus_forbidden[i].name != NULL; i++)
		good = forbidden_done(&litmus_forbidden[i], protocol, &state->histograms[i],
				      seeds >= 100 && !state->teams) &&
		       good;
	printf("%s: %lu seeds, %lu failed\n", protocol->name, (unsigned long)seeds,
	       (unsigned long)failed);
	*state = (struct state){.mixed = state->mixed, .teams = state->teams};
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 150};
	static struct state state;

	seed_options_read(&options, argc, argv);
	state.mixed = options.mixed;
	state.teams = options.teams;
	return seed_main(&options, litmus_one, litmus_done, &state);
}
