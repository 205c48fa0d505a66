/*
 * Transactions that note what they have read from, on pages that outlive the job (ROAM_STORE).
 *
 *     crashed NODES TRANSACTIONS SEED
 *
 * A transaction reads some cells, each a page, and writes some.  A cell has a version, the node
 * that wrote it, and a clock: for each node the number of the last of its transactions on which
 * this version depends.  Each node notes in a page of its own how many transactions it has
 * committed, on what they depend, and which versions it has written.  A job that finds all that
 * checks it first: what a page depends on is there, of each cell the last version that any node has
 * noted is there, and no page is torn.  Then it prints "found COUNT..." of all nodes; and "durable
 * NODE COUNT", now and then, once they are.
 */
#include <roam/tx.h>

#include "multi.h"

#include <stdint.h>
#include <unistd.h>

#define NODES 4u
#define CELLS 12u
#define OFTEN 3u /* one transaction of so many is awaited */

struct cell {
	uint64_t version, writer, clock[NODES];
	uint64_t fill[ROAM_PAGE_SIZE / 8 - 2 - NODES];
};

struct own {
	uint64_t count, clock[NODES], wrote[CELLS];
	uint64_t fill[ROAM_PAGE_SIZE / 8 - 1 - NODES - CELLS];
};

struct store {
	struct cell cells[CELLS];
	struct own owns[NODES];
};

struct order {
	unsigned me;
	uint64_t dice;
};

_Static_assert(sizeof(struct cell) == ROAM_PAGE_SIZE && sizeof(struct own) == ROAM_PAGE_SIZE,
	       "a page each");

static struct store *store;
static unsigned nodes, transactions, seed;

static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return word ^ word >> 29;
}

/* What is behind the numbers of a page, by these numbers: a page of two versions is noticed. */
static uint64_t fill_of(const uint64_t *numbers, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = mix(sum + numbers[i] + 1);
	return sum;
}

static void fill(uint64_t *page, size_t numbers)
{
	uint64_t word = fill_of(page, numbers);

	for (size_t i = numbers; i < ROAM_PAGE_SIZE / 8; i++)
		page[i] = word;
}

static void check_fill(const uint64_t *page, size_t numbers)
{
	uint64_t word = page[0] != 0 ? fill_of(page, numbers) : 0;

	for (size_t i = numbers; i < ROAM_PAGE_SIZE / 8; i++)
		check(page[i] == word);
}

static void clock_add(uint64_t *clock, const uint64_t *other)
{
	for (unsigned i = 0; i < NODES; i++)
		clock[i] = clock[i] > other[i] ? clock[i] : other[i];
}

static void write_cell(struct own *own, unsigned at, unsigned me)
{
	struct cell *cell = &store->cells[at];

	cell->version++;
	cell->writer = me;
	memcpy(cell->clock, own->clock, sizeof(cell->clock));
	own->wrote[at] = cell->version;
	fill((uint64_t *)cell, 2 + NODES);
}

static void step(void *arg)
{
	const struct order *order = arg;
	struct own *own = &store->owns[order->me];
	uint64_t dice = order->dice;
	unsigned first = (unsigned)(dice % CELLS), second = (unsigned)(dice / 64 % CELLS);

	for (unsigned i = 0; i < dice / 4096 % 4; i++)
		clock_add(own->clock, store->cells[mix(dice + i) % CELLS].clock);
	clock_add(own->clock, store->cells[first].clock);
	clock_add(own->clock, store->cells[second].clock);
	own->clock[order->me] = ++own->count;
	write_cell(own, first, order->me);
	if (second != first)
		write_cell(own, second, order->me);
	fill((uint64_t *)own, 1 + NODES + CELLS);
}

static void work(void)
{
	struct order order = {.me = roam_node()};
	const struct own *own = &store->owns[order.me];
	char line[64];

	for (unsigned i = 0; i < transactions; i++) {
		order.dice = mix(mix(seed * NODES + order.me) + i);
		must(roam_tx(step, &order, NULL));
		if (order.dice / 65536 % OFTEN != 0 || roam_tx_durable() != ROAM_OK)
			continue;
		snprintf(line, sizeof(line), "durable %u %llu\n", order.me,
			 (unsigned long long)own->count);
		check(write(STDOUT_FILENO, line, strlen(line)) > 0);
	}
}

static void check_clock(const uint64_t *clock)
{
	for (unsigned i = 0; i < NODES; i++)
		check(clock[i] <= store->owns[i].count);
}

static void look(void)
{
	char line[200] = "found";

	for (unsigned i = 0; i < NODES; i++) {
		check_fill((uint64_t *)&store->owns[i], 1 + NODES + CELLS);
		check_clock(store->owns[i].clock);
		snprintf(line + strlen(line), sizeof(line) - strlen(line), " %llu",
			 (unsigned long long)store->owns[i].count);
	}
	for (unsigned at = 0; at < CELLS; at++) {
		const struct cell *cell = &store->cells[at];
		uint64_t last = 0;

		check_fill((const uint64_t *)cell, 2 + NODES);
		check_clock(cell->clock);
		for (unsigned i = 0; i < NODES; i++)
			last = last > store->owns[i].wrote[at] ? last : store->owns[i].wrote[at];
		check(cell->version == last && cell->writer < NODES);
		check(last == 0 || store->owns[cell->writer].wrote[at] == last);
	}
	strcat(line, "\n");
	check(write(STDOUT_FILENO, line, strlen(line)) > 0);
}

int main(int argc, char **argv)
{
	check(argc == 4);
	nodes = number(argv[1]);
	transactions = number(argv[2]);
	seed = number(argv[3]);
	must(roam_start_main());
	store = roam_root("crashed", sizeof(*store), ROAM_WRITE);
	if (store == NULL)
		must(roam_errno());
	look();
	must(roam_create_all(work, nodes));
	must(roam_wait_for_end());
	puts("done");
	return 0;
}
