/*
 * Pages that transactions replace.  Some transactions write all bytes of two pages, which they have
 * declared; others read one or both of them, or change one word of one: all words that such a
 * transaction sees are of one writer, both pages are of the same one, and no replacement is lost,
 * though its bytes may be those that were there (a silent store), nor mixed with another, nor seen
 * if it is cancelled.  A transaction that replaces pages does not begin anew because others write
 * them.  Options: seed_options.h.
 */
#include "tx_frame.h"

#define ROUNDS 40u
#define FIRST  0u /* pages */
#define SECOND 1u
#define OWN    2u /* and one for each node from here on */
#define WORDS  (ROAM_PAGE_SIZE / sizeof(uint64_t))

struct writes_thread {
	struct writes_test *test;
	struct roami_node *node;
	struct rng rng, attempt;
	uint64_t value;
	unsigned attempts;
	bool touches, cancels;
};

struct writes_test {
	struct world *world;
	uint64_t seed;
	struct writes_thread threads[ROAMI_NODES_MAX];
};

static void pause(struct writes_thread *thread)
{
	if (rng_one_in(&thread->attempt, 2))
		world_sleep(thread->test->world, rng_below(&thread->attempt, 30000));
}

static void fill(struct writes_thread *thread, uint32_t page)
{
	uint64_t words[WORDS / 4];

	for (unsigned i = 0; i < WORDS / 4; i++)
		words[i] = thread->value;
	for (unsigned part = 0; part < 4; part++) {
		world_store(thread->node,
			    (uint64_t)page * ROAM_PAGE_SIZE + part * sizeof(words), words,
			    sizeof(words));
		pause(thread);
	}
}

static uint64_t seen(struct writes_thread *thread, uint32_t page)
{
	uint64_t words[WORDS];

	world_load(thread->node, (uint64_t)page * ROAM_PAGE_SIZE, words, sizeof(words));
	for (unsigned i = 1; i < WORDS; i++)
		if (words[i] != words[0])
			world_fail(thread->test->world, "node %u: page %u has words of two writers",
				   thread->node->me, page);
	return words[0];
}

static void begins(struct writes_thread *thread)
{
	thread->attempts++;
	thread->attempt = (struct rng){rng_next(&thread->rng)};
}

/* Touches nothing else: so no other node can make it begin anew, but for a page that it owned. */
static void replaces(void *arg)
{
	struct writes_thread *thread = arg;
	uint64_t bytes = 2 * ROAM_PAGE_SIZE;

	begins(thread);
	roami_tx_writes(thread->node, FIRST, bytes);
	fill(thread, rng_one_in(&thread->attempt, 2) ? FIRST : SECOND);
	fill(thread, FIRST);
	fill(thread, SECOND);
	if (thread->touches) {
		uint64_t at = (uint64_t)(OWN + thread->node->me) * ROAM_PAGE_SIZE, count;

		world_load(thread->node, at, &count, sizeof(count));
		count++;
		world_store(thread->node, at, &count, sizeof(count));
	}
	if (thread->cancels)
		roami_tx_cancel(thread->node);
}

static void looks(void *arg)
{
	struct writes_thread *thread = arg;
	uint64_t one, two;

	begins(thread);
	one = seen(thread, FIRST);
	pause(thread);
	two = seen(thread, SECOND);
	if (one != two)
		world_fail(thread->test->world, "node %u sees %lu and %lu, replaced together",
			   thread->node->me, (unsigned long)one, (unsigned long)two);
	thread->value = one;
}

/* Reads one page and writes both: no write skew. */
static void copies(void *arg)
{
	struct writes_thread *thread = arg;

	begins(thread);
	thread->value = seen(thread, FIRST) + 1;
	pause(thread);
	fill(thread, FIRST);
	fill(thread, SECOND);
}

static void run(struct writes_thread *thread, roami_tx_fn *fn)
{
	struct roami_tx_run run = {.fn = fn, .arg = thread};

	thread->attempts = 0;
	tx_must(thread->test->world, roami_tx_run(thread->node, &run));
}

static void turn(struct writes_thread *thread, unsigned round)
{
	switch (rng_below(&thread->rng, 4)) {
	case 0:
		thread->value = ((uint64_t)thread->node->me + 1) << 32 | round << 8;
		thread->touches = rng_one_in(&thread->rng, 2);
		run(thread, replaces);
		break;
	case 1:
		run(thread, looks); /* then stores the same again */
		thread->touches = false;
		run(thread, replaces);
		break;
	case 2:
		run(thread, copies);
		break;
	default:
		run(thread, looks);
	}
}

/* What it writes is gone, and with it all that it has of a page that was no copy before. */
static void cancelled(struct writes_thread *thread)
{
	struct roami_tx_run run = {.fn = replaces, .arg = thread};

	thread->value = 78;
	thread->touches = false;
	thread->cancels = true;
	if (roami_tx_run(thread->node, &run) != ROAM_ECANCELED)
		world_fail(thread->test->world, "a cancelled replacement was committed");
	thread->cancels = false;
}

/*
 * After all: a replacement by each node in turn, silent for all but the first, is not lost, and one
 * that is cancelled is not seen.
 */
static void in_turn(struct writes_thread *thread)
{
	for (unsigned node = 0; node < roami_count(thread->node); node++) {
		thread->value = 77;
		thread->touches = false;
		if (node == thread->node->me) {
			run(thread, replaces);
			if (thread->attempts != 1)
				world_fail(thread->test->world, "a replacement began anew");
		}
		tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
		if (rng_one_in(&thread->rng, 2))
			cancelled(thread);
		run(thread, looks);
		if (thread->value != 77)
			world_fail(thread->test->world, "node %u does not see a replacement",
				   thread->node->me);
		tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
	}
}

static void writes_main(void *arg)
{
	struct writes_thread *thread = arg;

	for (unsigned i = 0; i < ROUNDS; i++)
		turn(thread, i);
	tx_must(thread->test->world, roami_barrier(thread->node, 4096, 0));
	in_turn(thread);
	world_rest(thread->test->world);
}

static void writes_spawn(struct world *world, void *arg)
{
	struct writes_test *test = arg;

	test->world = world;
	for (unsigned i = 0; i < roami_count(world_node(world, 0)); i++) {
		struct roami_node *node = world_node(world, i);

		test->threads[i] = (struct writes_thread){.test = test, .node = node};
		test->threads[i].rng = (struct rng){test->seed * 64 + i};
		world_spawn(world, i, writes_main, &test->threads[i]);
	}
}

static bool writes_one(const struct seed_options *options, const struct roam_protocol *protocol,
		       uint64_t seed, void *arg)
{
	struct writes_test test = {.seed = seed};
	struct world_config config;

	(void)arg;
	world_draw(&config, seed, protocol);
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = 1;
	config.heap_pages = OWN + ROAMI_NODES_MAX;
	config.creator_pages = 0;
	config.tx_reads = (unsigned)(seed % 3);
	config.tx_validate = (unsigned)(seed / 3 % 2);
	config.tx_fair = (uint32_t)(seed % 5);
	return tx_world(options, &config, writes_spawn, &test);
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 50};

	seed_options_read(&options, argc, argv);
	return tx_seeds(&options, writes_one);
}
