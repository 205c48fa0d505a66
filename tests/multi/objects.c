/*
 * Shows that any address is a free lock, condition or flag until it is used, without an init call;
 * that an init call does nothing to one in use; and that a block that is allocated again has no
 * objects of its last user, such as a lock left held or a flag left set.  objects START NODES;
 * START fork: roam_create_all; run: under roam run.
 */
#include "multi.h"

#include <stdint.h>
#include <unistd.h>

#define WORDS  64u /* addresses with homes at every node */
#define ROUNDS 20u

struct shared {
	uint64_t counts[WORDS]; /* each word names the lock that guards it */
	uint64_t turn, moved;   /* whose turn it is; also names the condition */
	char *block;            /* a block that is used, freed, and used again */
	uint64_t value;
};

static unsigned nodes;
static uint64_t in_static; /* names a lock, too */
static struct shared *shared;

static void count(void)
{
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < WORDS; i++) {
			uint64_t *at = &shared->counts[(i + roam_node() * 7) % WORDS];

			must(roam_lock(at));
			++*at;
			if (round == 3)
				must(roam_lock_init(at)); /* it stays held */
			must(roam_unlock(at));
		}
	must(roam_barrier_all());
	for (unsigned i = 0; i < WORDS; i++)
		check(shared->counts[i] == nodes * ROUNDS);
	must(roam_barrier_all());
}

/* The turn goes round, by a condition without an init call. */
static void go_round(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		must(roam_lock(&in_static));
		while (shared->turn != round * nodes + roam_node())
			must(roam_cond_wait(&shared->moved, &in_static));
		shared->turn++;
		must(roam_cond_broadcast(&shared->moved));
		must(roam_unlock(&in_static));
	}
	must(roam_barrier_all());
}

/* Leaves locks held and flags set in the block, all over it. */
static void litter(size_t bytes)
{
	for (unsigned i = 0; i < 8; i++) {
		char *at = shared->block + bytes / 8 * i;

		if (i % nodes == roam_node())
			must(roam_lock(at));
		else if ((i + 1) % nodes == roam_node())
			must(roam_flag_set(at + 1));
	}
}

/* Allocates the same bytes once more, or returns NULL: node 0 may get other ones first. */
static char *again(size_t bytes)
{
	char *others[200], *found = NULL;
	unsigned count = 0;

	while (found == NULL && count < 200) {
		others[count] = must_alloc(bytes);
		if (others[count] == shared->block)
			found = others[count];
		else
			count++;
	}
	while (count-- > 0)
		must(roam_free(others[count]));
	return found;
}

/* Checks that the block's locks are free and its flags not set. */
static void look(size_t bytes)
{
	for (size_t at = 0; at < bytes; at += bytes / 8) {
		must(roam_lock(shared->block + at));
		must(roam_unlock(shared->block + at));
	}
	must(roam_barrier_all());
	if (roam_node() == nodes - 1) {
		usleep(5000);
		shared->value = bytes;
		for (size_t at = 0; at < bytes; at += bytes / 8)
			must(roam_flag_set(shared->block + at + 1));
	} else {
		for (size_t at = 0; at < bytes; at += bytes / 8) {
			must(roam_flag_wait(shared->block + at + 1));
			check(shared->value == bytes);
		}
	}
	must(roam_barrier_all());
	shared->value = 0;
	must(roam_barrier_all());
}

static void reuse(size_t bytes)
{
	if (roam_node() == 0)
		shared->block = must_alloc(bytes);
	must(roam_barrier_all());
	litter(bytes);
	must(roam_barrier_all());
	if (roam_node() == nodes - 1)
		must(roam_free(shared->block));
	must(roam_barrier_all());
	if (roam_node() == 0)
		check(again(bytes) != NULL);
	must(roam_barrier_all());
	look(bytes);
	if (roam_node() == 0)
		must(roam_free(shared->block));
	must(roam_barrier_all());
}

/* A block with nothing but a lock, which each of its users in turn leaves held. */
static void leave_held(void)
{
	for (unsigned round = 0; round < 3 * nodes; round++) {
		if (roam_node() == 0 && round == 0)
			shared->block = must_alloc(64);
		else if (roam_node() == 0)
			check(again(64) != NULL);
		must(roam_barrier_all());
		if (round % nodes == roam_node()) {
			must(roam_lock(shared->block));
			must(roam_unlock(shared->block));
			must(roam_lock(shared->block));
		}
		must(roam_barrier_all());
		if (roam_node() == 0)
			must(roam_free(shared->block));
		must(roam_barrier_all());
	}
}

static void node_main(void)
{
	static const size_t sizes[] = {64, 256, 4096, 20000, 3 << 20};

	count();
	go_round();
	leave_held();
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned round = 0; round < 2; round++)
			reuse(sizes[i] / 64 * 64);
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[2]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	if (strcmp(argv[1], "fork") == 0)
		must(roam_create_all(node_main, nodes));
	else
		node_main();
	must(roam_finish());
	if (roam_node() == 0)
		printf("all free\n");
	return 0;
}
