/*
 * Rows of a matrix, several on a page and dealt out to the nodes in turn, with barriers only: in
 * step k every node reads row k, which is finished, and adds it to its own rows below.  So pages
 * have many writers at a time, fewer with each step, and homes move while their nodes release.  A
 * row that is not as it must be fails the test.  Options: seed_options.h.
 */
#include <stdio.h>
#include <stdlib.h>

#include "rng.h"
#include "seed_options.h"
#include "sync/sync.h"
#include "world.h"

#define ROW_WORDS 128u /* makes a diff long enough for its node to ask for the home */
#define PAGE_ROWS (ROAM_PAGE_SIZE / (ROW_WORDS * sizeof(uint32_t)))
#define ROWS (6 * PAGE_ROWS)
#define START_ID  4096u

struct rows {
	struct world *world;
	unsigned nodes;
	uint32_t finished[ROWS]; /* each row's value, once its step has come */
};

struct rows_thread {
	struct rows *rows;
	struct roami_node *node;
	struct rng rng;
};

static uint64_t row_at(uint32_t row)
{
	return (uint64_t)row * ROW_WORDS * sizeof(uint32_t);
}

/* The value of a row after so many steps; its words count on from that. */
static uint32_t row_value(const struct rows *rows, uint32_t row, uint32_t steps)
{
	uint32_t value = row + 1;

	for (uint32_t step = 0; step < steps && step < row; step++)
		value += rows->finished[step];
	return value;
}

static void row_write(struct rows_thread *thread, uint32_t row, uint32_t value)
{
	uint32_t words[ROW_WORDS];

	for (uint32_t i = 0; i < ROW_WORDS; i++)
		words[i] = value + i;
	world_store(thread->node, row_at(row), words, sizeof(words));
}

/* The row's first word, if all of its words are right. */
static uint32_t row_read(struct rows_thread *thread, uint32_t row, uint32_t steps)
{
	uint32_t words[ROW_WORDS], value = row_value(thread->rows, row, steps);

	world_load(thread->node, row_at(row), words, sizeof(words));
	for (uint32_t i = 0; i < ROW_WORDS; i++)
		if (words[i] != value + i)
			world_fail(thread->rows->world,
				   "node %u, step %u: word %u of row %u is %u, not %u",
				   thread->node->me, steps, i, row, words[i], value + i);
	return value;
}

static void rows_meet(struct rows_thread *thread)
{
	enum roam_err err = roami_barrier(thread->node, START_ID, 0);

	if (err != ROAM_OK)
		world_fail(thread->rows->world, "%s", roam_strerror(err));
}

static void rows_step(struct rows_thread *thread, uint32_t row, uint32_t step)
{
	if (row <= step)
		return;
	row_write(thread, row, row_read(thread, row, step) + row_read(thread, step, step));
}

static void rows_main(void *arg)
{
	struct rows_thread *thread = arg;
	const struct rows *rows = thread->rows;
	uint32_t me = thread->node->me;

	for (uint32_t row = me; row < ROWS; row += rows->nodes)
		row_write(thread, row, row_value(rows, row, 0));
	rows_meet(thread);
	for (uint32_t step = 0; step + 1 < ROWS; step++) {
		for (uint32_t row = me; row < ROWS; row += rows->nodes)
			rows_step(thread, row, step);
		world_sleep(rows->world, rng_below(&thread->rng, 3) * 10000);
		rows_meet(thread);
	}
	for (uint32_t row = 0; row < ROWS; row++)
		row_read(thread, row, row);
}

static bool rows_one(const struct seed_options *options, const struct roam_protocol *protocol,
		     uint64_t seed, void *arg)
{
	struct rows_thread threads[ROAMI_NODES_MAX];
	struct world_config config;
	struct rows rows;
	bool good;

	(void)arg;
	world_draw(&config, seed, protocol);
	world_nodes(&config, options->nodes != 0 ? options->nodes : 3 + seed % 2);
	for (unsigned i = 0; i < config.nodes; i++)
		config.threads[i] = 1;
	config.creator_pages = 0;
	config.cache_pages = 4;
	config.steps_max *= 10;
	config.step_every = 1;
	config.stall_every = 4;
	config.trace = options->trace;
	rows.nodes = config.nodes;
	for (uint32_t row = 0; row < ROWS; row++)
		rows.finished[row] = row_value(&rows, row, row);
	rows.world = world_open(&config);
	if (rows.world == NULL)
		exit(EXIT_FAILURE);
	for (unsigned i = 0; i < config.nodes; i++) {
		threads[i] = (struct rows_thread){&rows, world_node(rows.world, i),
						  {seed * 64 + i}};
		world_spawn(rows.world, i, rows_main, &threads[i]);
	}
	good = seed_world(rows.world, &config);
	world_close(rows.world);
	return good;
}

int main(int argc, char **argv)
{
	struct seed_options options = {.from = 1, .to = 100};

	seed_options_read(&options, argc, argv);
	return seed_main(&options, rows_one, seed_done, NULL);
}
