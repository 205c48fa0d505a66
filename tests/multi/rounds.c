/*
 * Shows that jobs can follow one another in one process: each round of CREATE sees all that the
 * rounds before wrote, statics included, blocks that other nodes allocated stay and can be freed,
 * and locks and barriers start afresh.  Locks announced between two CREATEs are known to all.
 * rounds HOW NODES ROUNDS; HOW all: roam_create_all, loop: roam_create once per node.
 */
#include "multi.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define WORDS  3000u       /* of 8 bytes: some pages */
#define BLOCKS 40u         /* each node allocates so many per round */
#define BAND   (40u * 512) /* words of a node's part of the field: a long run of pages */
#define LATES  16u         /* locks announced after some nodes were forked; homes at every node */

struct shared {
	uint64_t words[WORDS];
	uint64_t count;
	uint64_t *blocks[8][BLOCKS];
	uint64_t *field; /* a band for each node, which another node writes in every round */
	uint64_t late[LATES]; /* counters, each under its own lock */
};

static struct shared *shared;
static unsigned nodes, round_now, arrived;
static int private_of_creator = 1;
static uint64_t late_locks[LATES]; /* names of locks; nodes are forked between announcing them */

static uint64_t word(unsigned round, unsigned i)
{
	return (uint64_t)round * 1000003 + i;
}

/* Checks what the round before left; all threads read it. */
static void check_before(unsigned round)
{
	for (unsigned i = 0; i < WORDS; i++)
		check(shared->words[i] == word(round - 1, i));
	check(shared->count == (uint64_t)(round - 1) * nodes * 10);
	for (unsigned i = 0; i < nodes * BAND; i++)
		check(shared->field[i] == (round > 1 ? word(round - 1, i) : 0));
	for (unsigned i = 0; i < LATES; i++)
		check(shared->late[i] == (uint64_t)(round - 1) * nodes);
	for (unsigned i = 0; i < nodes * BLOCKS && round > 1; i++)
		for (unsigned at = 0; at < 100; at++)
			check(shared->blocks[i / BLOCKS][i % BLOCKS][at] == word(round - 1, i));
}

/*
 * Frees the blocks of another node, which may not be there any more, and allocates new ones in
 * their place.
 */
static void renew_blocks(unsigned round, unsigned me)
{
	unsigned other = (me + round) % nodes;

	for (unsigned i = 0; i < BLOCKS && round > 1; i++)
		must(roam_free(shared->blocks[other][i]));
	must(roam_barrier_all());
	for (unsigned i = 0; i < BLOCKS; i++) {
		uint64_t *block = must_alloc(100 * sizeof(uint64_t) + 900 * (i % 7));

		for (unsigned at = 0; at < 100; at++) {
			check(block[at] == 0);
			block[at] = word(round, me * BLOCKS + i);
		}
		shared->blocks[me][i] = block;
	}
}

static void node_main(void)
{
	unsigned round = round_now, me = roam_node();

	check(private_of_creator == (int)round);
	check_before(round);
	must(roam_barrier_all());
	check(roam_nodes() == nodes); /* known from the first synchronisation on */
	for (unsigned i = me; i < WORDS; i += nodes)
		shared->words[i] = word(round, i);
	for (unsigned i = 0; i < BAND; i++) {
		unsigned at = (me + round) % nodes * BAND + i;

		shared->field[at] = word(round, at);
	}
	for (unsigned i = 0; i < 10; i++) {
		must(roam_lock(&shared->count));
		shared->count++;
		must(roam_unlock(&shared->count));
	}
	for (unsigned i = 0; i < LATES; i++) {
		unsigned at = (i + me) % LATES;

		must(roam_lock(&late_locks[at]));
		shared->late[at]++;
		must(roam_unlock(&late_locks[at]));
	}
	renew_blocks(round, me);
	arrived++; /* private: the creator never sees the children's value */
}

/* After the end the heap is plain memory: the creator's system calls and children may use it. */
static void use_plainly(unsigned round)
{
	uint64_t back[512];
	int ends[2];

	check(pipe(ends) == 0);
	for (unsigned i = 0; i < nodes; i++) {
		uint64_t *page = shared->field + i * BAND + 1024;

		check(write(ends[1], page, sizeof(back)) == (ssize_t)sizeof(back));
		check(read(ends[0], back, sizeof(back)) == (ssize_t)sizeof(back));
		check(back[7] == word(round, i * BAND + 1024 + 7));
		check(write(ends[1], back, sizeof(back)) == (ssize_t)sizeof(back));
		check(read(ends[0], page, sizeof(back)) == (ssize_t)sizeof(back));
	}
	close(ends[0]);
	close(ends[1]);
	check(system("true") == 0);
}

/* Only in the first round, as later rounds know them already. */
static void announce_late(unsigned round)
{
	for (unsigned i = 0; i < LATES && round == 1; i++)
		must(roam_lock_init(&late_locks[i]));
}

static void run_round(bool all, unsigned round)
{
	round_now = round;
	private_of_creator = (int)round;
	if (all) {
		announce_late(round);
		must(roam_create_all(node_main, nodes));
	} else {
		for (unsigned i = 1; i < nodes; i++) {
			must(roam_create(node_main));
			if (i == 1)
				announce_late(round);
		}
		node_main();
	}
	must(roam_wait_for_end());
	check(arrived == round);
	check(roam_nodes() == 1);
	check_before(round + 1);
	use_plainly(round);
}

int main(int argc, char **argv)
{
	unsigned rounds;

	check(argc == 4);
	nodes = number(argv[2]);
	rounds = number(argv[3]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	shared->field = must_alloc((size_t)nodes * BAND * sizeof(uint64_t));
	must(roam_lock_init(&shared->count));
	for (unsigned i = 0; i < WORDS; i++)
		shared->words[i] = word(0, i);
	for (unsigned round = 1; round <= rounds; round++)
		run_round(strcmp(argv[1], "all") == 0, round);
	must(roam_finish());
	printf("%u rounds right\n", rounds);
	return 0;
}
