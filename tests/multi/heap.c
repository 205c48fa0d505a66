/*
 * Shows that the heap is one: a node gets nearly all of it in one block while others allocate, a
 * block freed anywhere is there for all nodes after synchronisation, and one that does not fit is
 * refused.
 * heap START NODES HEAP; HEAP: bytes of ROAM_HEAP, START: fork or run.
 */
#include "multi.h"

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define ROUNDS 3u
#define SMALLS 50u
#define MIDDLE (300u << 10) /* too small for regions with parts of their own */
#define PAGE   4096u

struct shared {
	uint64_t *large;
	uint8_t *early; /* blocks from before the seal */
	uint8_t *middles[64][1024];
	unsigned count[64];
};

static struct shared *shared;
static unsigned nodes;
static size_t heap;

static void must_be_full(size_t bytes)
{
	check(roam_alloc(bytes) == NULL);
	must_fail(roam_errno(), ROAM_ENOMEM);
}

/* Writes a word in each page. */
static void fill(uint64_t *block, size_t bytes, uint64_t value)
{
	for (size_t at = 0; at < bytes / 8; at += PAGE / 8)
		block[at] = value + at;
}

static void expect_fill(const uint64_t *block, size_t bytes, uint64_t value)
{
	for (size_t at = 0; at < bytes / 8; at += PAGE / 8)
		check(block[at] == value + at);
}

static void expect_zero(const uint64_t *block, size_t bytes)
{
	for (size_t at = 0; at < bytes / 8; at += 64)
		check(block[at] == 0);
}

static size_t small_bytes(unsigned i)
{
	return 100 + 1700 * (i % 40) + roam_node() * 64;
}

/* Small blocks come and go while one node takes most of the heap; all blocks keep their bytes. */
static void small_blocks(void)
{
	uint64_t *blocks[SMALLS];

	for (unsigned turn = 0; turn < 3; turn++) {
		for (unsigned i = 0; i < SMALLS; i++) {
			blocks[i] = must_alloc(small_bytes(i));
			check(blocks[i][0] == 0);
			blocks[i][0] = blocks[i][small_bytes(i) / 8 - 1] = roam_node() * 1000 + i;
		}
		for (unsigned i = 0; i < SMALLS; i++) {
			check(blocks[i][0] == roam_node() * 1000 + i);
			check(blocks[i][small_bytes(i) / 8 - 1] == roam_node() * 1000 + i);
			must(roam_free(blocks[i]));
		}
	}
}

static void most(unsigned round)
{
	unsigned taker = (1 + round) % nodes, freer = (2 + round) % nodes;
	size_t bytes = heap / 10 * 6;

	if (roam_node() == taker) {
		shared->large = must_alloc(bytes);
		expect_zero(shared->large, bytes);
		fill(shared->large, bytes, round);
		must_be_full(bytes);
	} else {
		small_blocks();
	}
	must(roam_barrier_all());
	expect_fill(shared->large, bytes, round);
	must_be_full(heap);
	must_be_full(SIZE_MAX / 2);
	must(roam_barrier_all());
	if (roam_node() == freer) {
		must_fail(roam_free(shared->large + 8), ROAM_ENOTOURS);
		must_fail(roam_free((uint8_t *)shared->large + heap / 2), ROAM_ENOTOURS);
		must(roam_free(shared->large));
		must_fail(roam_free(shared->large), ROAM_ENOTOURS);
	}
	must(roam_barrier_all());
}

/* All nodes fill the heap with blocks that lie in leases; the next node frees every second one. */
static void leases(void)
{
	unsigned me = roam_node(), count = 0, next = (me + 1) % nodes;
	size_t total = 0;

	while (count < 1024 && (shared->middles[me][count] = roam_alloc(MIDDLE)) != NULL)
		shared->middles[me][count++][MIDDLE - 1] = (uint8_t)(me + 1);
	must_fail(roam_errno(), ROAM_ENOMEM);
	shared->count[me] = count;
	must(roam_barrier_all());
	for (unsigned i = 0; i < nodes; i++)
		total += shared->count[i] * (size_t)MIDDLE;
	check(total > heap / 10 * 8);
	for (unsigned i = 0; i < count; i += 2)
		must(roam_free(shared->middles[me][i]));
	for (unsigned i = 1; i < shared->count[next]; i += 2) {
		check(shared->middles[next][i][MIDDLE - 1] == next + 1);
		must(roam_free(shared->middles[next][i]));
	}
	must(roam_barrier_all());
	must(roam_free(must_alloc(64))); /* takes back blocks that others freed */
	must(roam_barrier_all());
}

static void node_main(void)
{
	unsigned last = nodes - 1;

	must(roam_barrier_all());
	must_be_full(heap / 2);
	must(roam_barrier_all());
	if (roam_node() == last)
		must(roam_free(shared->early));
	must(roam_barrier_all());
	must(roam_free(must_alloc(64)));
	must(roam_barrier_all());
	for (unsigned round = 0; round < ROUNDS; round++)
		most(round);
	leases();
	most(ROUNDS);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	check(argc == 4);
	nodes = number(argv[2]);
	heap = strtoull(argv[3], NULL, 10);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	shared->early = must_alloc(heap / 10 * 8);
	shared->early[heap / 10 * 8 - 1] = 1;
	if (strcmp(argv[1], "fork") == 0) {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
		/* Leases that contain blocks of ended nodes are lost to other nodes. */
		shared->early = must_alloc(heap / 10 * 6);
		must(roam_create_all(node_main, nodes));
	} else {
		node_main();
	}
	must(roam_finish());
	if (argv[1][0] == 'f' || roam_node() == 0)
		printf("one heap\n");
	return 0;
}
