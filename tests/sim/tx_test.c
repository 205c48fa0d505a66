/*
 * Random transactions.  What each of them read and wrote is noted, with the value that a written
 * variable had before; each store has a value of its own, so there is one order of the versions of
 * a variable, and a graph of what must come before what: it has no cycle, and it agrees with the
 * threads' order and with the clock (strict serializability).  Loads and stores outside of
 * transactions are steps of their own, and sections of a lock go on beside them.
 *
 * Every attempt, doomed or not, checks what it sees at once: two variables on two pages that are
 * always written together are equal, and the accounts of a bank add up (opacity).  A baton goes
 * around by roam_tx_retry and an alternative, whose counts are checked.  In some seeds transactions
 * are doomed for no reason at any step of the core; each attempt checks that the one before has
 * left nothing behind.  In every second seed commits go to a store that takes its time, and gets
 * each after those that it has read from (rule 8.16).  In others there are only
 * transactions, and none loses more often in a row than ROAM_TX_FAIR says.  With --teams nodes have
 * several threads, and refuse.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "page/page.h"
#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "sync/tx.h"
#include "tx_graph.h"
#include "world.h"

#define DURABLE_MAX 64u /* transactions of a node that are not on the disk yet */
#define PAGES     6u
#define VARIABLES 10u
#define PAIRS     3u
#define ACCOUNTS  5u
#define FORTUNE   1000u
#define BATONS    3u
#define LOCK_ID   8192u
#define COUNT_AT  ((uint64_t)PAGES * ROAM_PAGE_SIZE)       /* under the lock */
#define BATON_AT  ((uint64_t)PAGES * ROAM_PAGE_SIZE + 64)  /* whose turn it is */
#define JUNK_AT   ((uint64_t)PAGES * ROAM_PAGE_SIZE + 128) /* written before a retry only */
#define BEGUN_AT  ((uint64_t)(PAGES + 1) * ROAM_PAGE_SIZE) /* per node: alternatives run so far */
#define OWN_AT    ((uint64_t)(PAGES + 2) * ROAM_PAGE_SIZE) /* per node: its plain stores */

struct tx_test {
	struct world *world;
	struct tx_graph graph;
	uint32_t rounds;
	uint32_t fair;    /* the most losses in a row; 0: not only transactions run */
	uint64_t counted; /* sections of the lock */
};

struct tx_thread {
	struct tx_test *test;
	struct roami_node *node;
	struct rng rng;
	uint64_t serial;    /* of its values */
	uint64_t own;       /* the value of its last plain store */
	struct tx_log log;  /* of the attempt under way */
	struct rng attempt; /* what the attempt does follows from this */
	uint32_t attempts, committed, aborted, durable, alternatives, passed;
};

static uint64_t variable_at(unsigned variable)
{
	return (uint64_t)(variable % PAGES) * ROAM_PAGE_SIZE + 64 * (variable / PAGES);
}

static uint64_t pair_at(unsigned pair, unsigned half)
{
	return (uint64_t)((pair + half * (1 + pair)) % PAGES) * ROAM_PAGE_SIZE + 1024 +
	       64 * (2 * pair + half);
}

static uint64_t account_at(unsigned account)
{
	return (uint64_t)(account % PAGES) * ROAM_PAGE_SIZE + 2048;
}

static uint64_t load(struct tx_thread *thread, uint64_t at)
{
	uint64_t value;

	world_load(thread->node, at, &value, sizeof(value));
	return value;
}

static void store(struct tx_thread *thread, uint64_t at, uint64_t value)
{
	world_store(thread->node, at, &value, sizeof(value));
}

static void pause(struct tx_thread *thread)
{
	if (rng_one_in(&thread->attempt, 3))
		world_sleep(thread->test->world, rng_below(&thread->attempt, 3000));
}

/* ------------------------------------------------------------------------------------ attempts */

/* Checks that an earlier attempt has left nothing behind. */
static void attempt_clean(struct tx_thread *thread)
{
	struct roami_node *node = thread->node;
	const char *left = NULL;

	for (uint32_t page = 0; page < node->layout.pages; page++) {
		const struct roami_page *entry = roami_page_entry(node, page);

		if (roami_page_pending(node, page) || roami_page_has_twin(node, page) ||
		    roami_page_access(node, page) == ROAM_WRITE || roami_page_dirty(node, page) ||
		    (atomic_load(&entry->flags) & ROAMI_PAGE_WANT) != 0)
			left = "a page";
	}
	if (atomic_load(&pages_of(node)->dirty_count) != 0)
		left = "a list";
	if (tx_of(node)->held != 0 || tx_of(node)->token.busy != tx_of(node)->ahead ||
	    tx_of(node)->token.wanted || tx_of(node)->stop.commits)
		left = "a count";
	if (left != NULL)
		world_fail(thread->test->world, "node %u: an attempt has left %s behind", node->me,
			   left);
}

static void attempt_committed(void *arg)
{
	((struct tx_thread *)arg)->committed++;
}

static void attempt_aborted(void *arg)
{
	((struct tx_thread *)arg)->aborted++;
}

/* A world runs one thread at a time. */
static uint64_t on_disk; /* stored transactions up to here, */
static uint64_t awaited[ROAMI_NODES_MAX][DURABLE_MAX]; /* for which functions of a node wait */
static uint32_t waiting[ROAMI_NODES_MAX];

static void attempt_durable(void *arg)
{
	struct tx_thread *thread = arg;
	unsigned me = thread->node->me;

	if (thread->durable < waiting[me] && awaited[me][thread->durable % DURABLE_MAX] > on_disk)
		world_fail(thread->test->world, "node %u hears of a transaction too early", me);
	thread->durable++;
}

static void attempt_begins(struct tx_thread *thread)
{
	attempt_clean(thread);
	thread->attempts++;
	thread->attempt = (struct rng){rng_next(&thread->rng)};
	thread->log = (struct tx_log){.node = thread->node->me, .begin = thread->log.begin};
	if (roami_tx_then(thread->node, true, attempt_committed, thread, NULL) != ROAM_OK ||
	    roami_tx_when_durable(thread->node, attempt_durable, thread) != ROAM_OK ||
	    roami_tx_then(thread->node, false, attempt_aborted, thread, NULL) != ROAM_OK)
		abort();
}

/* Whether the attempt is doomed and goes on, because the library holds it. */
static bool goes_on(struct tx_thread *thread)
{
	struct roami_tx *tx = tx_of(thread->node);

	return tx->held != 0 && tx_is_lost(thread->node);
}

static void random_step(struct tx_thread *thread, unsigned variable, bool write)
{
	uint64_t at = variable_at(variable);
	uint64_t was = load(thread, at), value;

	if (!tx_log_wrote(&thread->log, variable))
		tx_log_read(&thread->log, variable, was);
	else if (was != tx_log_value(&thread->log, variable) && !goes_on(thread))
		world_fail(thread->test->world, "node %u does not see its own store",
			   thread->node->me);
	if (!write)
		return;
	value = ((uint64_t)thread->node->me + 1) << 32 | ++thread->serial;
	store(thread, at, value);
	tx_log_write(&thread->log, variable, was, value);
}

static void attempt_random(void *arg)
{
	struct tx_thread *thread = arg;
	unsigned steps, writes;

	attempt_begins(thread);
	steps = rng_range(&thread->attempt, 1, TX_OPS);
	writes = rng_below(&thread->attempt, 4);
	for (unsigned i = 0; i < steps; i++) {
		random_step(thread, rng_below(&thread->attempt, VARIABLES),
			    rng_below(&thread->attempt, 4) < writes);
		pause(thread);
	}
}

/* As the library's own stores, which clear a block that was used before. */
static void attempt_held(void *arg)
{
	struct tx_thread *thread = arg;
	unsigned steps;

	attempt_begins(thread);
	steps = rng_range(&thread->attempt, 2, TX_OPS);
	roami_tx_hold(thread->node);
	for (unsigned i = 0; i < steps; i++) {
		random_step(thread, rng_below(&thread->attempt, VARIABLES),
			    rng_one_in(&thread->attempt, 2));
		pause(thread);
	}
	roami_tx_let(thread->node);
}

static void attempt_pair(void *arg)
{
	struct tx_thread *thread = arg;
	unsigned pair, first;
	uint64_t a, b;

	attempt_begins(thread);
	pair = rng_below(&thread->attempt, PAIRS);
	first = rng_below(&thread->attempt, 2);
	a = load(thread, pair_at(pair, first));
	pause(thread);
	b = load(thread, pair_at(pair, !first));
	if (a != b)
		world_fail(thread->test->world,
			   "node %u sees %lu and %lu, which are written together", thread->node->me,
			   (unsigned long)a, (unsigned long)b);
	if (rng_one_in(&thread->attempt, 3))
		return;
	store(thread, pair_at(pair, !first), a + 1);
	pause(thread);
	store(thread, pair_at(pair, first), a + 1);
}

static void attempt_bank(void *arg)
{
	struct tx_thread *thread = arg;
	uint64_t sum = 0, amount;
	unsigned from, to;

	attempt_begins(thread);
	for (unsigned i = 0; i < ACCOUNTS; i++) {
		sum += load(thread, account_at(i));
		pause(thread);
	}
	if (sum != 0)
		world_fail(thread->test->world, "node %u: the accounts add up to %lu",
			   thread->node->me, (unsigned long)sum);
	from = rng_below(&thread->attempt, ACCOUNTS);
	to = rng_below(&thread->attempt, ACCOUNTS);
	amount = rng_below(&thread->attempt, FORTUNE);
	store(thread, account_at(from), load(thread, account_at(from)) - amount);
	pause(thread);
	store(thread, account_at(to), load(thread, account_at(to)) + amount);
}

/*
 * The alternative counts itself; writes made before the first function gave up must not be there.
 */
static void attempt_baton(void *arg)
{
	struct tx_thread *thread = arg;
	uint64_t turn;

	attempt_begins(thread);
	if (load(thread, JUNK_AT) != 0)
		world_fail(thread->test->world, "node %u sees what was undone", thread->node->me);
	turn = load(thread, BATON_AT);
	if (turn % roami_count(thread->node) != thread->node->me) {
		store(thread, JUNK_AT, 1);
		pause(thread);
		roami_tx_retry(thread->node);
	}
	store(thread, BATON_AT, turn + 1);
	thread->log.passes = true;
}

static void attempt_instead(void *arg)
{
	struct tx_thread *thread = arg;
	uint64_t at = BEGUN_AT + 64 * thread->node->me;

	thread->log.passes = false;
	if (load(thread, JUNK_AT) != 0)
		world_fail(thread->test->world, "node %u sees what was undone", thread->node->me);
	if (roami_tx_then(thread->node, true, attempt_committed, thread, NULL) != ROAM_OK ||
	    roami_tx_when_durable(thread->node, attempt_durable, thread) != ROAM_OK ||
	    roami_tx_then(thread->node, false, attempt_aborted, thread, NULL) != ROAM_OK)
		abort();
	thread->attempts++;
	store(thread, at, load(thread, at) + 1);
	pause(thread);
}

/* ---------------------------------------------------------------------------------- the threads */

static void must(struct tx_thread *thread, enum roam_err err)
{
	if (err != ROAM_OK)
		world_fail(thread->test->world, "%s", roam_strerror(err));
}

/* A world runs one thread at a time. */
static struct tx_test *stores_of;
static uint64_t stores, stored[ROAMI_NODES_MAX];

static bool store_commit(struct roami_node *node, const uint32_t *pages, size_t count)
{
	struct world *world = stores_of->world;

	for (size_t i = 0; i < count; i++)
		if (!roami_page_pending(node, pages[i]) || roami_page_has_twin(node, pages[i]))
			world_fail(world, "node %u stores a page that is not as it stays",
				   node->me);
	world_sleep(world, (stores * 7919 + node->me * 104729) % 60000);
	stored[node->me] = ++stores;
	return true;
}

static uint64_t store_number(struct roami_node *node, bool wrote)
{
	uint64_t number = wrote ? stored[node->me] : stores;

	if (number != 0)
		awaited[node->me][waiting[node->me]++ % DURABLE_MAX] = number;
	return number;
}

static bool store_durable(struct roami_node *node, uint64_t number, bool waits)
{
	if (waits)
		world_sleep(stores_of->world, 20000);
	if ((waits && number > on_disk) || (stores + node->me) % 4 == 0)
		on_disk = waits ? number : stores;
	return number <= on_disk;
}

static const struct roami_tx_store store_ops = {
	.commit = store_commit, .number = store_number, .durable = store_durable};

/* The serial number of what the transaction has written; 0: nothing, or there is no store. */
static uint64_t stored_serial(struct tx_thread *thread)
{
	struct roami_tx *tx = tx_of(thread->node);

	return tx->store != NULL && tx->wrote ? stored[thread->node->me] : 0;
}

static void run(struct tx_thread *thread, roami_tx_fn *fn, roami_tx_fn *otherwise)
{
	struct roami_tx_run run = {.fn = fn, .otherwise = otherwise, .arg = thread};
	uint32_t before = thread->attempts, fair = thread->test->fair;

	world_doing(thread->test->world, "transaction", thread->attempts);
	thread->log.begin = world_now(thread->test->world);
	must(thread, roami_tx_run(thread->node, &run));
	thread->log.end = world_now(thread->test->world);
	thread->log.serial = stored_serial(thread);
	if (fair != 0 && thread->attempts - before > fair + 1)
		world_fail(thread->test->world, "node %u lost %u times in a row; %u is the limit",
			   thread->node->me, thread->attempts - before - 1, fair);
	if (fn == attempt_random || fn == attempt_held)
		tx_graph_add(&thread->test->graph, &thread->log);
}

/* Loads a variable of transactions, or stores one that only this node writes, outside of them. */
static void plain(struct tx_thread *thread)
{
	struct tx_log log = {.node = thread->node->me, .begin = world_now(thread->test->world)};
	unsigned own = VARIABLES + thread->node->me;
	uint64_t value;

	if (rng_one_in(&thread->rng, 2)) {
		unsigned variable = rng_below(&thread->rng, VARIABLES);

		tx_log_read(&log, variable, load(thread, variable_at(variable)));
	} else {
		value = ((uint64_t)thread->node->me + 1) << 32 | ++thread->serial;
		store(thread, OWN_AT + 64 * thread->node->me, value);
		tx_log_write(&log, own, thread->own, value);
		thread->own = value;
	}
	log.end = world_now(thread->test->world);
	tx_graph_add(&thread->test->graph, &log);
}

/* Checks other nodes' plain stores, which lie beside variables of transactions. */
static void attempt_mixed(void *arg)
{
	struct tx_thread *thread = arg;
	unsigned node;

	attempt_begins(thread);
	node = rng_below(&thread->attempt, roami_count(thread->node));
	tx_log_read(&thread->log, VARIABLES + node, load(thread, OWN_AT + 64 * node));
	pause(thread);
	random_step(thread, rng_below(&thread->attempt, VARIABLES), true);
}

static void mixed(struct tx_thread *thread)
{
	struct roami_tx_run run = {.fn = attempt_mixed, .arg = thread};

	thread->log.begin = world_now(thread->test->world);
	must(thread, roami_tx_run(thread->node, &run));
	thread->log.end = world_now(thread->test->world);
	thread->log.serial = stored_serial(thread);
	tx_graph_add(&thread->test->graph, &thread->log);
}

static void section(struct tx_thread *thread)
{
	must(thread, roami_lock(thread->node, LOCK_ID));
	store(thread, COUNT_AT, load(thread, COUNT_AT) + 1);
	thread->test->counted++;
	must(thread, roami_unlock(thread->node, LOCK_ID));
}

/* Repeats until the baton has been here and gone on. */
static void baton(struct tx_thread *thread)
{
	bool waits = rng_one_in(&thread->rng, 2);

	do {
		run(thread, attempt_baton, waits ? NULL : attempt_instead);
		thread->alternatives += !thread->log.passes;
		if (!thread->log.passes)
			world_sleep(thread->test->world, 300000);
	} while (!thread->log.passes);
	thread->passed++;
}

static void turn(struct tx_thread *thread)
{
	switch (rng_below(&thread->rng, thread->test->fair != 0 ? 6 : 9)) {
	case 0:
	case 1:
		run(thread, attempt_random, NULL);
		break;
	case 2:
		run(thread, attempt_held, NULL);
		break;
	case 3:
	case 4:
		run(thread, attempt_pair, NULL);
		break;
	case 5:
		run(thread, attempt_bank, NULL);
		break;
	case 6:
		plain(thread);
		break;
	case 7:
		mixed(thread);
		break;
	default:
		section(thread);
	}
}

static void ends(struct tx_thread *thread)
{
	struct tx_test *test = thread->test;

	must(thread, roami_barrier(thread->node, 4096, 0));
	if (thread->attempts != thread->committed + thread->aborted)
		world_fail(test->world, "node %u: %u attempts, %u committed, %u aborted",
			   thread->node->me, thread->attempts, thread->committed, thread->aborted);
	roami_tx_due(thread->node, NULL, true);
	if (thread->durable != thread->committed)
		world_fail(test->world, "node %u heard of %u durable transactions of %u",
			   thread->node->me, thread->durable, thread->committed);
	if (load(thread, COUNT_AT) != test->counted)
		world_fail(test->world, "node %u: %lu sections of %lu", thread->node->me,
			   (unsigned long)load(thread, COUNT_AT), (unsigned long)test->counted);
	if (load(thread, BATON_AT) != (uint64_t)thread->passed * roami_count(thread->node))
		world_fail(test->world, "the baton was passed on %lu times",
			   (unsigned long)load(thread, BATON_AT));
	if (load(thread, BEGUN_AT + 64 * thread->node->me) != thread->alternatives)
		world_fail(test->world, "node %u ran an alternative %u times, and counts %lu",
			   thread->node->me, thread->alternatives,
			   (unsigned long)load(thread, BEGUN_AT + 64 * thread->node->me));
	must(thread, roami_barrier(thread->node, 4096, 0));
	world_rest(test->world);
}

static void tx_main(void *arg)
{
	struct tx_thread *thread = arg;
	uint32_t batons = thread->test->fair != 0 ? 0 : BATONS;

	for (uint32_t i = 0; i < thread->test->rounds; i++) {
		turn(thread);
		if (i % (thread->test->rounds / BATONS) == 0 && thread->passed < batons)
			baton(thread);
	}
	while (thread->passed < batons)
		baton(thread);
	ends(thread);
}

static void refused_fn(void *arg)
{
	world_fail(((struct tx_thread *)arg)->test->world, "a node of several threads runs it");
}

static void refused_main(void *arg)
{
	struct tx_thread *thread = arg;
	struct roami_tx_run run = {.fn = refused_fn, .arg = thread};

	must(thread, roami_barrier(thread->node, 4096, 0));
	if (roami_tx_run(thread->node, &run) != ROAM_ESTATE)
		world_fail(thread->test->world, "a node of several threads does not refuse");
	section(thread);
	must(thread, roami_barrier(thread->node, 4096, 0));
}

/* ------------------------------------------------------------------------------------- one seed */

/* A world runs one thread at a time. */
static uint64_t doom_every, doom_steps, dooms_left;

static void doomed_step(struct roami_node *node)
{
	doom_steps = doom_steps * UINT64_C(6364136223846793005) + 1442695040888963407;
	if (doom_every == 0 || dooms_left == 0 || (doom_steps >> 33) % doom_every != 0 ||
	    !roami_tx_watches(node))
		return;
	dooms_left--;
	roami_tx_conflict(node);
}

static void tx_config(struct world_config *config, const struct seed_options *options,
		      const struct roam_protocol *protocol, uint64_t seed)
{
	world_draw(config, seed, protocol);
	if (options->nodes != 0)
		world_nodes(config, options->nodes);
	for (unsigned i = 0; i < config->nodes; i++)
		config->threads[i] = 1;
	config->heap_pages = PAGES + 4;
	config->creator_pages = 0;
	config->trace = options->trace;
	if (options->teams) {
		config->threads[0] = 2;
		world_teams(config);
	}
	if (options->lossy)
		world_lossy(config);
	config->on_step = doomed_step;
	doom_steps = seed;
	doom_every = seed % 3 == 0 ? 20 + seed % 200 : 0;
	dooms_left = 200;
	config->tx_fair = (uint32_t)(seed % 5);
	config->tx_reads = (unsigned)(seed / 5 % 3);
	config->tx_validate = seed % 4 == 3 ? ROAMI_TX_BACKWARD : ROAMI_TX_FORWARD;
}

static bool tx_checked(struct tx_test *test, const struct world_config *config)
{
	char text[512];
	bool good = seed_world(test->world, config);

	if (!good || (tx_graph_serial(&test->graph) && tx_graph_stored(&test->graph)))
		return good;
	world_describe(config, text, sizeof(text));
	printf("FAILED seed %lu: %s\n  %s\n  %s\n", (unsigned long)config->seed,
	       tx_graph_serial(&test->graph) ? "the store got a commit before what it has read"
					     : "no order explains what was read",
	       text, seed_replay());
	return false;
}

static bool tx_one(const struct seed_options *options, const struct roam_protocol *protocol,
		   uint64_t seed, void *arg)
{
	struct tx_thread threads[ROAMI_NODES_MAX * WORLD_THREADS_MAX];
	struct tx_test test = {0};
	struct world_config config;
	unsigned count = 0;
	bool good;

	tx_config(&config, options, protocol, seed);
	test.rounds = options->operations != 0 ? options->operations : 24;
	test.fair = seed % 4 == 1 && doom_every == 0 ? config.tx_fair : 0;
	test.world = world_open(&config);
	if (test.world == NULL)
		exit(EXIT_FAILURE);
	stores_of = &test;
	on_disk = 0;
	memset(waiting, 0, sizeof(waiting));
	for (unsigned node = 0; node < config.nodes; node++)
		tx_of(world_node(test.world, node))->store = seed % 2 == 0 ? &store_ops : NULL;
	for (unsigned node = 0; node < config.nodes; node++)
		for (unsigned i = 0; i < config.threads[node]; i++, count++) {
			threads[count] = (struct tx_thread){.test = &test,
							    .node = world_node(test.world, node),
							    .rng = {seed * 64 + count}};
			world_spawn(test.world, node, options->teams ? refused_main : tx_main,
				    &threads[count]);
		}
	good = tx_checked(&test, &config);
	((uint64_t *)arg)[0] += world_count(test.world, ROAMI_STAT_tx_commits);
	((uint64_t *)arg)[1] += world_count(test.world, ROAMI_STAT_tx_aborts);
	((uint64_t *)arg)[2] += world_count(test.world, ROAMI_STAT_tx_retries);
	world_close(test.world);
	return good;
}

static bool tx_done(const struct roam_protocol *protocol, uint64_t seeds, uint64_t failed,
		    void *arg)
{
	uint64_t *totals = arg;

	printf("%s: %lu seeds, %lu failed; %lu commits, %lu aborts, %lu retries\n", protocol->name,
	       (unsigned long)seeds, (unsigned long)failed, (unsigned long)totals[0],
	       (unsigned long)totals[1], (unsigned long)totals[2]);
	return failed == 0;
}

static bool tx_about(const struct roam_protocol *protocol)
{
	return protocol->transactions != NULL;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 200};
	uint64_t totals[3] = {0};

	seed_options_read(&options, argc, argv);
	return seed_main_about(&options, tx_about, tx_one, tx_done, totals);
}
