/*
 * Random race-free programs in simulated worlds: every value read is what the oracle expects, and
 * the protocols' invariants hold. Options: seed_options.h.  A failing seed prints the command that
 * repeats it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "random_node.h"
#include "seed_options.h"
#include "world.h"

#define SIM_ALLOC_PAGES (RANDOM_ALLOCS_MAX * RANDOM_ALLOC_PAGES)

struct sim_run;

struct sim_thread {
	struct random_member member;
	struct sim_run *run;
	unsigned number;
};

struct sim_run {
	struct world *world;
	struct random_program *program;
	uint64_t sequence;
	struct random_slices slices;
	struct random_places places;
	struct sim_thread threads[RANDOM_THREADS_MAX];
	struct random_log logs[RANDOM_THREADS_MAX];
};

struct totals {
	bool alone; /* jobs of one node: foreign is what another thread wrote */
	uint64_t reads, foreign, writes, syncs, allocs, reuses, steps;
	uint64_t stats[ROAMI_STATS_COUNT];
};

/* ---------------------------------------------------------------------------------- operations */

static struct world *sim_world(void *self)
{
	return ((struct sim_thread *)self)->run->world;
}

static void sim_doing(void *self, const char *what, uint64_t number)
{
	world_doing(sim_world(self), what, number);
}

static void sim_load(void *self, uint64_t offset, void *out, size_t bytes)
{
	sim_doing(self, "load", offset);
	world_load(((struct sim_thread *)self)->member.node, offset, out, bytes);
}

static void sim_store(void *self, uint64_t offset, const void *in, size_t bytes)
{
	sim_doing(self, "store", offset);
	world_store(((struct sim_thread *)self)->member.node, offset, in, bytes);
}

static uint64_t sim_sequence(void *self)
{
	return ++((struct sim_thread *)self)->run->sequence;
}

static void sim_rest(void *self)
{
	sim_doing(self, "rest", 0);
	world_rest(sim_world(self));
}

static void sim_pause(void *self, unsigned length)
{
	sim_doing(self, "pause", length);
	world_sleep(sim_world(self), length * 100u);
}

__attribute__((noreturn)) static void sim_fail(void *self, const char *text)
{
	world_fail(sim_world(self), "%s", text);
}

static void sim_main(void *arg)
{
	struct random_ops ops = {.load = sim_load,
				 .store = sim_store,
				 .sequence = sim_sequence,
				 .rest = sim_rest,
				 .pause = sim_pause,
				 .fail = sim_fail};
	struct sim_thread *thread = arg;

	random_node_ops(&ops);
	ops.spoils = true; /* the world does */
	random_run(thread->run->program, thread->number, &ops, thread,
		   &thread->run->places, &thread->run->logs[thread->number]);
}

/* ------------------------------------------------------------------------------------ one seed */

static struct random_program *sim_program(const struct world_config *config, uint32_t operations)
{
	struct random_params params = {.seed = config->seed,
				       .nodes = config->nodes,
				       .allocates = true,
				       .teams = config->teams,
				       .scoped = config->protocol->model == ROAM_MODEL_SCC};
	struct rng rng = {config->seed + 99};

	for (unsigned node = 0; node < config->nodes; node++)
		for (unsigned i = 0; i < config->threads[node]; i++)
			params.node_of[params.threads++] = (uint8_t)node;
	params.heap_pages = config->heap_pages;
	params.operations = operations != 0 ? operations
					    : rng_range(&rng, 40, 1200 / params.threads + 40);
	return random_generate(&params);
}

static void sim_threads(struct sim_run *run)
{
	const struct random_params *params = random_params_of(run->program);

	random_logs_make(run->program, run->logs);
	run->slices.store = sim_store;
	random_slices_open(&run->slices, params->nodes, params->heap_pages * ROAMI_PAGE,
			   SIM_ALLOC_PAGES * ROAMI_PAGE);
	for (unsigned i = 0; i < params->threads; i++) {
		struct sim_thread *thread = &run->threads[i];

		thread->run = run;
		thread->number = i;
		thread->member = (struct random_member){world_node(run->world, params->node_of[i]),
							sim_doing, &run->slices};
		world_spawn(run->world, params->node_of[i], sim_main, thread);
	}
}

static void sim_count(struct totals *totals, struct sim_run *run,
		      const struct random_result *result)
{
	totals->reads += result->reads;
	totals->foreign += result->reads_foreign;
	totals->writes += result->writes;
	totals->syncs += result->syncs;
	totals->allocs += result->allocs;
	totals->reuses += result->reuses;
	totals->steps += world_steps(run->world);
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		totals->stats[i] += world_count(run->world, (enum roami_stat)i);
}

static bool sim_one(const struct seed_options *options, const struct roam_protocol *protocol,
		    uint64_t seed, void *arg)
{
	struct sim_run *run = calloc(1, sizeof(*run));
	struct random_result result = {0};
	struct world_config config;
	char text[512];
	bool good;

	world_draw(&config, seed, protocol);
	if (options->nodes != 0)
		world_nodes(&config, options->nodes);
	if (options->teams)
		world_teams(&config);
	if (options->cards)
		world_cards(&config);
	if (options->lossy)
		world_lossy(&config);
	if (options->mixed)
		world_mix(&config, config.heap_pages / 4);
	config.trace = options->trace;
	config.begin_epochs = config.begin;
	config.alloc_pages = SIM_ALLOC_PAGES;
	run->world = world_open(&config);
	if (run->world == NULL)
		exit(EXIT_FAILURE);
	run->program = sim_program(&config, options->operations);
	if (options->list)
		random_print(run->program);
	sim_threads(run);
	good = world_run(run->world) &&
	       random_check(run->program, run->logs, world_initial(run->world), &result);
	if (!good) {
		world_describe(&config, text, sizeof(text));
		printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)seed,
		       result.error[0] != '\0' ? result.error : world_error(run->world), text,
		       seed_replay());
	}
	sim_count(arg, run, &result);
	((struct totals *)arg)->alone = config.nodes == 1;
	random_slices_close(&run->slices);
	random_logs_free(run->program, run->logs);
	random_free(run->program);
	world_close(run->world);
	free(run);
	return good;
}

static bool sim_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		     void *arg)
{
	static const enum roami_stat shown[] = {
		ROAMI_STAT_read_faults,   ROAMI_STAT_write_faults,    ROAMI_STAT_fetches,
		ROAMI_STAT_fetches_ahead, ROAMI_STAT_claims,          ROAMI_STAT_twins,
		ROAMI_STAT_diffs,         ROAMI_STAT_invalidations,   ROAMI_STAT_evictions,
		ROAMI_STAT_home_writes,   ROAMI_STAT_lock_remote,     ROAMI_STAT_messages_sent,
		ROAMI_STAT_hot_pages,     ROAMI_STAT_refreshes,
		ROAMI_STAT_card_reads,    ROAMI_STAT_announcements, ROAMI_STAT_revocations,
		ROAMI_STAT_messages_queued,
		ROAMI_STAT_datagrams_sent, ROAMI_STAT_datagrams_resent,
		ROAMI_STAT_datagrams_repeated, ROAMI_STAT_datagrams_early,
		ROAMI_STAT_datagrams_refused, ROAMI_STAT_acks_sent,
	};
	struct totals *totals = arg;
	/* Under ScC memory freed elsewhere waits for a full barrier. */
	uint64_t reuses = totals->alone ? 0 : seeds / (protocol->model == ROAM_MODEL_SCC ? 5 : 2);
	bool shared = seeds < 20 || (totals->foreign >= seeds * 10 && totals->reuses >= reuses);

	printf("%s: %lu seeds, %lu failed; %lu reads checked (%lu of another node's value), "
	       "%lu writes, %lu synchronisations, %lu blocks (%lu of memory freed elsewhere), "
	       "%lu steps\n ",
	       protocol->name, (unsigned long)seeds, (unsigned long)failed,
	       (unsigned long)totals->reads, (unsigned long)totals->foreign,
	       (unsigned long)totals->writes, (unsigned long)totals->syncs,
	       (unsigned long)totals->allocs, (unsigned long)totals->reuses,
	       (unsigned long)totals->steps);
	for (unsigned i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		printf(" %s %lu", roami_stats_lines[shown[i]].name,
		       (unsigned long)totals->stats[shown[i]]);
	printf("\n");
	/* Programs without sharing test nothing. */
	if (!shared)
		printf("%s: too little was shared\n", protocol->name);
	memset(totals, 0, sizeof(*totals));
	return failed == 0 && shared;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 200};
	struct totals totals = {0};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, sim_one, sim_done, &totals);
}
