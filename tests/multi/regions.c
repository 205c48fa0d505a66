/*
 * Structures under several protocols at a time.  regions START NODES [PROTOCOL]...: one structure
 * under each protocol, and one under the job's; START fork: roam_create_all, two rounds of nodes;
 * once: one round; run: under roam run.  All nodes write each structure in turns under one lock and
 * read it after one barrier; it moves when the nodes end, node 0 uses it alone, and after fork new
 * nodes use it again.
 */
#include "multi.h"

#include <stdint.h>

#define STRUCTURES 16
#define WORDS      5000u /* of a structure, which has ten pages */
#define TURNS      20u
#define LARGE      (512u << 10) /* in a small heap this protocol has parts of its own */

static unsigned nodes, count;
static const char *protocols[STRUCTURES]; /* 0: NULL */
static unsigned *words[STRUCTURES];
static uint64_t lock;

static unsigned *make(size_t bytes, unsigned which)
{
	struct roam_region region = {.protocol = protocols[which],
				     .place = (enum roam_place)(which % 3),
				     .name = "words"};
	unsigned *block = roam_alloc_region(bytes, &region);

	if (block == NULL)
		must(roam_errno());
	return block;
}

/* Every node adds to every word, each time in another order, with a stride. */
static void add(unsigned turn)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned word = (turn * 37 + roam_node()) % 7; word < WORDS; word += 7)
			words[(i + turn) % count][word]++;
}

/* Small blocks of different protocols never share a page. */
static void blocks(unsigned turn)
{
	unsigned *small[STRUCTURES];

	for (unsigned i = 0; i < count; i++) {
		small[i] = make(40 + 64 * i, i);
		check(*small[i] == 0);
		*small[i] = turn + 1;
		for (unsigned j = 0; j < i; j++)
			check(((uintptr_t)small[i] ^ (uintptr_t)small[j]) / ROAM_PAGE_SIZE != 0);
	}
	for (unsigned i = 0; i < count; i++)
		must(roam_free(small[i]));
}

/* Blocks that other nodes free; their addresses are passed on behind the words of a structure. */
static void pass_on(unsigned turn)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned **slot = (unsigned **)(void *)&words[i][WORDS + 16 * roam_node()];
		unsigned **next =
			(unsigned **)(void *)&words[i][WORDS + 16 * ((roam_node() + 1) % nodes)];

		must(roam_barrier_all());
		*slot = make(turn % 2 == 0 ? 100 : 3 * ROAM_PAGE_SIZE, (i + 1) % count);
		**slot = roam_node() + turn;
		must(roam_barrier_all());
		check(**next == (roam_node() + 1) % nodes + turn);
		must(roam_free(*next));
	}
}

static void large(void)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned *block = make(LARGE, i);

		check(block[0] == 0 && block[LARGE / sizeof(*block) - 1] == 0);
		block[LARGE / sizeof(*block) - 1] = 1;
		must(roam_free(block));
	}
}

static unsigned sum(unsigned which)
{
	unsigned total = 0;

	for (unsigned word = 0; word < WORDS; word++)
		total += words[which][word];
	return total;
}

static void node_main(void)
{
	unsigned before[STRUCTURES], added = 0;

	for (unsigned i = 0; i < count; i++)
		before[i] = sum(i);
	must(roam_barrier_all());
	for (unsigned turn = 0; turn < TURNS; turn++) {
		must(roam_lock(&lock));
		add(turn);
		must(roam_unlock(&lock));
		blocks(turn);
		for (unsigned node = 0; node < nodes; node++)
			added += (WORDS - (turn * 37 + node) % 7 + 6) / 7;
	}
	must(roam_barrier_all());
	for (unsigned i = 0; i < count; i++)
		check(sum(i) == before[i] + added);
	must(roam_barrier_all());
	for (unsigned turn = 0; turn < 4; turn++)
		pass_on(turn);
	if (roam_node() == nodes - 1)
		large();
	must(roam_barrier_all());
}

static void rounds(unsigned times)
{
	for (unsigned round = 0; round < times; round++) {
		unsigned before[STRUCTURES];

		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
		for (unsigned i = 0; i < count; i++) {
			before[i] = sum(i);
			words[i][round]++; /* alone */
			check(sum(i) == before[i] + 1);
		}
		blocks(round);
	}
}

static void refused(void)
{
	struct roam_region region = {.protocol = "nope"};

	check(roam_alloc_region(100, &region) == NULL);
	must_fail(roam_errno(), ROAM_EUNKNOWN);
	region.protocol = "";
	check(roam_alloc_region(100, &region) == NULL);
	must_fail(roam_errno(), ROAM_EUNKNOWN);
	region = (struct roam_region){.protocol = count > 1 ? protocols[1] : NULL,
				      .place = (enum roam_place)9};
	check(roam_alloc_region(100, &region) == NULL);
	must_fail(roam_errno(), ROAM_EINVAL);
	region.place = ROAM_PLACE_FIRST_TOUCH;
	check(roam_alloc_region(0, &region) == NULL);
	must_fail(roam_errno(), ROAM_EINVAL);
	check(roam_alloc_region((size_t)1 << 44, &region) == NULL);
	must_fail(roam_errno(), ROAM_ENOMEM);
}

int main(int argc, char **argv)
{
	unsigned times = 0;

	check(argc >= 3 && argc < 3 + STRUCTURES);
	nodes = number(argv[2]);
	if (strcmp(argv[1], "run") != 0) {
		times = strcmp(argv[1], "once") == 0 ? 1 : 2;
		must(roam_start_main());
	}
	for (count = 1; (int)count + 2 < argc; count++)
		protocols[count] = argv[2 + count];
	must(roam_needs(ROAM_MODEL_SCC));
	must(roam_lock_init(&lock));
	refused();
	for (unsigned i = 0; i < count; i++) {
		words[i] = make((WORDS + 16 * nodes) * sizeof(unsigned), i);
		for (unsigned word = 0; times > 0 && word < WORDS; word++)
			words[i][word] = word;
	}
	if (times > 0)
		rounds(times);
	else
		node_main();
	must(roam_finish());
	if (roam_node() == 0)
		printf("all summed\n");
	return 0;
}
