/*
 * A program whose transactions conflict, which `roam tx report` must show.  clash [-pNODES] KIND;
 * without -p it is an SPMD program, for `roam run`.  KIND:
 *
 *	hot	all nodes add to words of one page
 *	vain	node 0 loses a page that its transactions do not touch, and nobody anything else
 *	quiet	each node writes a page of its own
 *	none	there are no transactions
 *	fails	the program ends with status 3
 */
#include <roam/roam.h>
#include <roam/tx.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3000u
#define SPINS  2000u
#define WORDS  512u /* of a page */

static volatile uint64_t *hot, *beside;
static const char *kind;

static void adds(void *arg)
{
	volatile uint64_t *word = arg;

	for (unsigned i = 0; i < SPINS; i++)
		*word += 1;
}

static void add(volatile uint64_t *word)
{
	if (roam_tx(adds, (void *)(uintptr_t)word, NULL) != ROAM_OK)
		abort();
}

static void vain(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (roam_node() == 0)
			sum += beside[0]; /* the page is here when the transaction begins */
		add(roam_node() == 0 ? &hot[0] : &beside[4]);
	}
	if (sum > ROUNDS)
		abort();
}

static void work(void)
{
	for (unsigned i = 0; i < ROUNDS && strcmp(kind, "hot") == 0; i++)
		add(&hot[roam_node()]);
	for (unsigned i = 0; i < ROUNDS && strcmp(kind, "quiet") == 0; i++)
		add(&hot[WORDS * roam_node()]);
	if (strcmp(kind, "vain") == 0 && roam_node() < 2)
		vain();
	roam_barrier_all();
}

static void begin(void)
{
	hot = roam_alloc_placed(4 * WORDS * sizeof(*hot), ROAM_PLACE_FIRST_TOUCH, 0, "hot");
	beside = roam_alloc(WORDS * sizeof(*beside));
	if (hot == NULL || beside == NULL)
		exit(4);
}

int main(int argc, char **argv)
{
	unsigned nodes = 0;

	if (argc > 2 && strncmp(argv[1], "-p", 2) == 0) {
		nodes = (unsigned)strtoul(argv[1] + 2, NULL, 10);
		argv++;
	}
	kind = argv[1];
	if (kind == NULL || (nodes == 0 && roam_start() != ROAM_OK))
		return 4;
	begin();
	if (nodes == 0) {
		work();
		roam_finish();
	} else if (roam_create_all(work, nodes) != ROAM_OK || roam_wait_for_end() != ROAM_OK) {
		return 4;
	}
	return strcmp(kind, "fails") == 0 ? 3 : 0;
}
