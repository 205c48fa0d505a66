/*
 * Random race-free programs in simulated worlds: every value read is what the oracle expects, and the protocols' invariants hold.
 *
 *	sim_test [--protocol NAME] [--seeds A..B] [--nodes N] [--ops N] [--trace] [--list]
 *
 * A failing seed prints the command that repeats it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/sync.h"
#include "random.h"
#include "world.h"

#define LOCK_BASE 0x7000000000u
#define KIND_BYTES 0x100000u

struct options {
	const char *protocol;
	uint64_t from, to;
	unsigned nodes;
	uint32_t operations;
	bool trace;
	bool list;
};

/* What the tests share with the application threads of a world. */
struct sim_thread {
	struct sim_run *run;
	struct roami_node *node;
	unsigned number;
	struct random_log log;
};

struct sim_run {
	struct world *world;
	struct random_program *program;
	uint64_t sequence;
	struct sim_thread threads[RANDOM_THREADS_MAX];
	struct random_log logs[RANDOM_THREADS_MAX];
};

struct totals {
	uint64_t seeds, failed, reads, foreign, writes, syncs, steps;
	uint64_t stats[ROAMI_STATS_COUNT];
};

static char replay[160]; /* the running seed's command, for when the process dies */

/* --------------------------------------------------------------------------------------------------- operations */

enum { KIND_LOCK, KIND_COND, KIND_FLAG, KIND_BARRIER };

static uint64_t sim_id(unsigned kind, unsigned which)
{
	return LOCK_BASE + kind * KIND_BYTES + which * 8u;
}

static struct sim_thread *sim_doing(void *self, const char *what, uint64_t number)
{
	struct sim_thread *thread = self;

	world_doing(thread->run->world, what, number);
	return thread;
}

static void sim_load(void *self, uint64_t offset, void *out, size_t bytes)
{
	world_load(sim_doing(self, "load", offset)->node, offset, out, bytes);
}

static void sim_store(void *self, uint64_t offset, const void *in, size_t bytes)
{
	world_store(sim_doing(self, "store", offset)->node, offset, in, bytes);
}

static enum roam_err sim_lock_init(void *self, unsigned lock)
{
	return roami_lock_init(sim_doing(self, "lock init", lock)->node, sim_id(KIND_LOCK, lock));
}

static enum roam_err sim_lock(void *self, unsigned lock)
{
	return roami_lock(sim_doing(self, "lock", lock)->node, sim_id(KIND_LOCK, lock));
}

static enum roam_err sim_unlock(void *self, unsigned lock)
{
	return roami_unlock(sim_doing(self, "unlock", lock)->node, sim_id(KIND_LOCK, lock));
}

static enum roam_err sim_cond_init(void *self, unsigned cond)
{
	return roami_cond_init(sim_doing(self, "cond init", cond)->node, sim_id(KIND_COND, cond));
}

static enum roam_err sim_cond_wait(void *self, unsigned cond, unsigned lock)
{
	return roami_cond_wait(sim_doing(self, "cond wait", cond)->node, sim_id(KIND_COND, cond),
			       sim_id(KIND_LOCK, lock));
}

static enum roam_err sim_cond_post(void *self, unsigned cond, bool all)
{
	return roami_cond_post(sim_doing(self, "cond post", cond)->node, sim_id(KIND_COND, cond), all);
}

static enum roam_err sim_flag_set(void *self, unsigned flag)
{
	return roami_flag_set(sim_doing(self, "flag set", flag)->node, sim_id(KIND_FLAG, flag));
}

static enum roam_err sim_flag_wait(void *self, unsigned flag)
{
	return roami_flag_wait(sim_doing(self, "flag wait", flag)->node, sim_id(KIND_FLAG, flag));
}

static enum roam_err sim_flag_clear(void *self, unsigned flag)
{
	return roami_flag_clear(sim_doing(self, "flag clear", flag)->node, sim_id(KIND_FLAG, flag));
}

static enum roam_err sim_barrier(void *self, unsigned barrier, unsigned threads)
{
	return roami_barrier(sim_doing(self, "barrier", barrier)->node, sim_id(KIND_BARRIER, barrier), threads);
}

static enum roam_err sim_reduce(void *self, void *values, unsigned count, enum roam_type type, enum roam_op op)
{
	return roami_reduce(sim_doing(self, "reduce", count)->node, values, count, type, op);
}

static uint64_t sim_sequence(void *self)
{
	return ++((struct sim_thread *)self)->run->sequence;
}

static void sim_rest(void *self)
{
	world_rest(sim_doing(self, "rest", 0)->run->world);
}

static void sim_pause(void *self, unsigned length)
{
	world_sleep(sim_doing(self, "pause", length)->run->world, length * 100u);
}

__attribute__((noreturn)) static void sim_fail(void *self, const char *text)
{
	world_fail(((struct sim_thread *)self)->run->world, "%s", text);
}

static const struct random_ops sim_ops = {
	.load = sim_load,
	.store = sim_store,
	.lock_init = sim_lock_init,
	.lock = sim_lock,
	.unlock = sim_unlock,
	.cond_init = sim_cond_init,
	.cond_wait = sim_cond_wait,
	.cond_post = sim_cond_post,
	.flag_set = sim_flag_set,
	.flag_wait = sim_flag_wait,
	.flag_clear = sim_flag_clear,
	.barrier = sim_barrier,
	.reduce = sim_reduce,
	.sequence = sim_sequence,
	.rest = sim_rest,
	.pause = sim_pause,
	.fail = sim_fail,
};

/* ----------------------------------------------------------------------------------------------------- one seed */

static void sim_main(void *arg)
{
	struct sim_thread *thread = arg;

	random_run(thread->run->program, thread->number, &sim_ops, thread, &thread->log);
}

static struct random_program *sim_program(const struct world_config *config, uint32_t operations)
{
	struct random_params params = {.seed = config->seed, .nodes = config->nodes};
	struct rng rng = {config->seed + 99};

	for (unsigned node = 0; node < config->nodes; node++)
		for (unsigned i = 0; i < config->threads[node]; i++)
			params.node_of[params.threads++] = (uint8_t)node;
	params.heap_pages = config->heap_pages;
	params.operations = operations != 0 ? operations : rng_range(&rng, 40, 1200 / params.threads + 40);
	return random_generate(&params);
}

static void sim_threads(struct sim_run *run, const struct random_params *params)
{
	uint32_t events = random_events_max(run->program);

	for (unsigned i = 0; i < params->threads; i++) {
		struct sim_thread *thread = &run->threads[i];

		thread->run = run;
		thread->number = i;
		thread->node = world_node(run->world, params->node_of[i]);
		thread->log.max = events;
		thread->log.events = malloc(events * sizeof(*thread->log.events));
		if (thread->log.events == NULL)
			abort();
		world_spawn(run->world, params->node_of[i], sim_main, thread);
	}
}

static void sim_count(struct totals *totals, struct sim_run *run, const struct random_result *result)
{
	totals->reads += result->reads;
	totals->foreign += result->reads_foreign;
	totals->writes += result->writes;
	totals->syncs += result->syncs;
	totals->steps += world_steps(run->world);
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		totals->stats[i] += world_count(run->world, (enum roami_stat)i);
}

static bool sim_seed(const struct options *options, const struct roam_protocol *protocol, uint64_t seed,
		     struct totals *totals)
{
	struct sim_run *run = calloc(1, sizeof(*run));
	struct random_result result = {0};
	struct world_config config;
	char text[512];
	bool good;

	world_draw(&config, seed, protocol);
	if (options->nodes != 0)
		world_nodes(&config, options->nodes);
	config.trace = options->trace;
	run->world = world_open(&config);
	run->program = sim_program(&config, options->operations);
	if (run->world == NULL)
		exit(EXIT_FAILURE);
	if (options->list)
		random_print(run->program);
	sim_threads(run, random_params_of(run->program));
	good = world_run(run->world);
	for (unsigned i = 0; i < random_params_of(run->program)->threads; i++)
		run->logs[i] = run->threads[i].log;
	if (good && !random_check(run->program, run->logs, world_initial(run->world), &result))
		good = false;
	if (!good) {
		world_describe(&config, text, sizeof(text));
		printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)seed,
		       result.error[0] != '\0' ? result.error : world_error(run->world), text, replay);
	}
	sim_count(totals, run, &result);
	for (unsigned i = 0; i < random_params_of(run->program)->threads; i++)
		free(run->threads[i].log.events);
	random_free(run->program);
	world_close(run->world);
	free(run);
	return good;
}

/* ------------------------------------------------------------------------------------------------------- running */

/* An assertion or a crash: says which seed it was. */
static void sim_died(int signal)
{
	ssize_t ignored = write(STDERR_FILENO, replay, strlen(replay));

	ignored = write(STDERR_FILENO, "\n", 1);
	(void)ignored;
	raise(signal); /* the default action: SA_RESETHAND */
}

static void sim_handlers(void)
{
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	static char stack[64 * 1024];
	stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction action = {.sa_handler = sim_died, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};

	sigaltstack(&alternate, NULL);
	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

static void sim_report(const struct totals *totals, const char *protocol)
{
	static const enum roami_stat shown[] = {
		ROAMI_STAT_read_faults, ROAMI_STAT_write_faults, ROAMI_STAT_fetches,      ROAMI_STAT_fetches_ahead,
		ROAMI_STAT_claims,      ROAMI_STAT_twins,        ROAMI_STAT_diffs,        ROAMI_STAT_invalidations,
		ROAMI_STAT_evictions,   ROAMI_STAT_home_writes,  ROAMI_STAT_lock_remote,  ROAMI_STAT_messages_sent,
		ROAMI_STAT_hot_pages,   ROAMI_STAT_messages_queued,
	};

	printf("%s: %lu seeds, %lu failed; %lu reads checked (%lu of another node's value), %lu writes, %lu "
	       "synchronisations, %lu steps\n",
	       protocol, (unsigned long)totals->seeds, (unsigned long)totals->failed, (unsigned long)totals->reads,
	       (unsigned long)totals->foreign, (unsigned long)totals->writes, (unsigned long)totals->syncs,
	       (unsigned long)totals->steps);
	for (unsigned i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		printf("  %s %lu", roami_stats_lines[shown[i]].name, (unsigned long)totals->stats[shown[i]]);
	printf("\n");
}

static bool sim_protocol(const struct options *options, const struct roam_protocol *protocol)
{
	struct totals totals = {0};

	for (uint64_t seed = options->from; seed <= options->to; seed++) {
		int at = snprintf(replay, sizeof(replay), "replay: sim_test --protocol %s --seeds %lu..%lu",
				  protocol->name, (unsigned long)seed, (unsigned long)seed);

		if (options->nodes != 0)
			at += snprintf(replay + at, sizeof(replay) - (size_t)at, " --nodes %u", options->nodes);
		if (options->operations != 0)
			snprintf(replay + at, sizeof(replay) - (size_t)at, " --ops %u", options->operations);
		totals.seeds++;
		if (!sim_seed(options, protocol, seed, &totals))
			totals.failed++;
	}
	sim_report(&totals, protocol->name);
	/* Programs that do not share test nothing. */
	if (totals.seeds >= 20 && totals.foreign < totals.seeds * 10) {
		printf("%s: too little was shared\n", protocol->name);
		return false;
	}
	return totals.failed == 0;
}

static void usage(void)
{
	fprintf(stderr, "usage: sim_test [--protocol NAME] [--seeds A..B] [--nodes N] [--ops N] [--trace] [--list]\n");
	exit(2);
}

static void options_seeds(struct options *options, const char *text)
{
	char *end;

	options->from = strtoull(text, &end, 0);
	options->to = options->from;
	if (strncmp(end, "..", 2) == 0)
		options->to = strtoull(end + 2, &end, 0);
	if (*end != '\0' || options->to < options->from)
		usage();
}

static void options_read(struct options *options, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--trace") == 0) {
			options->trace = true;
			continue;
		}
		if (strcmp(argv[i], "--list") == 0) {
			options->list = true;
			continue;
		}
		if (value == NULL)
			usage();
		if (strcmp(argv[i], "--protocol") == 0)
			options->protocol = value;
		else if (strcmp(argv[i], "--seeds") == 0)
			options_seeds(options, value);
		else if (strcmp(argv[i], "--nodes") == 0)
			options->nodes = (unsigned)strtoul(value, NULL, 0);
		else if (strcmp(argv[i], "--ops") == 0)
			options->operations = (uint32_t)strtoul(value, NULL, 0);
		else
			usage();
		i++;
	}
	if (options->nodes > 16)
		usage();
}

int main(int argc, char **argv)
{
	struct options options = {.from = 1, .to = 200};
	bool good = true, found = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_read(&options, argc, argv);
	sim_handlers();
	for (unsigned i = 0; roami_protocols[i] != NULL; i++) {
		if (options.protocol != NULL && strcmp(options.protocol, roami_protocols[i]->name) != 0)
			continue;
		found = true;
		good = sim_protocol(&options, roami_protocols[i]) && good;
	}
	if (!found)
		fprintf(stderr, "sim_test: no protocol %s\n", options.protocol);
	return good && found ? EXIT_SUCCESS : EXIT_FAILURE;
}
