/*
 * Shows that ROAM_CHECK=race reports a race and nothing else.
 * race HOW [PROTOCOL]; two nodes add to one word, under that protocol. HOW locked: under a lock;
 * racing: without; neighbours: to words of their own in one page; stripes: to every other word of
 * many pages, so that the home looks at its own writes while the other node's diff arrives; few:
 * stripes, in fewer rounds.
 */
#include "multi.h"

#include <stdbool.h>

#define ROUNDS 20u
#define STRIPES_ROUNDS 1500u
#define FEW_ROUNDS 100u
#define WORDS 32768u

static uint64_t *words, lock;
static const char *how;

static void add(unsigned at, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		bool locked = strcmp(how, "locked") == 0;

		if (locked)
			must(roam_lock(&lock));
		words[at] += i * 2 + 1 + roam_node();
		if (locked)
			must(roam_unlock(&lock));
	}
}

static void stripes(unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = roam_node(); i < WORDS; i += 2)
			words[i] = round * WORDS + i;
		must(roam_barrier_all());
	}
}

static void node_main(void)
{
	if (roam_node() == 0) /* so that the page has a home before the race */
		words[100] = 1;
	must(roam_barrier_all());
	if (strcmp(how, "stripes") == 0 || strcmp(how, "few") == 0) {
		stripes(strcmp(how, "few") == 0 ? FEW_ROUNDS : STRIPES_ROUNDS);
		return;
	}
	add(strcmp(how, "neighbours") == 0 ? roam_node() : 7, ROUNDS);
	must(roam_barrier_all());
	add(8 + roam_node(), ROUNDS);
	must(roam_barrier_all());
}

int main(int argc, char **argv)
{
	struct roam_region region = {.name = "the words"};

	check(argc == 2 || argc == 3);
	how = argv[1];
	region.protocol = argv[2];
	must(roam_start());
	words = roam_alloc_region(WORDS * sizeof(*words), &region);
	check(words != NULL);
	must(roam_lock_init(&lock));
	must(roam_create_all(node_main, 2));
	must(roam_finish());
	printf("ran\n");
	return 0;
}
