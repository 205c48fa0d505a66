/*
 * A bank: every process moves money between random accounts -n times, and now and then adds all
 * accounts up, which must always give the same.
 */
#include "plurix.h"

#define ACCOUNTS 96u
#define APART    16u /* longs from one account to the next: four pages, 32 accounts on each */
#define FORTUNE  1000
#define AUDITS   16u /* one step of so many */

static long *accounts, *transfers;

struct order {
	unsigned from, to;
	long amount, sum;
};

static void move(void *arg)
{
	const struct order *order = arg;

	accounts[order->from * APART] -= order->amount;
	accounts[order->to * APART] += order->amount;
	transfers[me]++;
}

static void audit(void *arg)
{
	struct order *order = arg;

	order->sum = 0;
	for (unsigned i = 0; i < ACCOUNTS; i++)
		order->sum += accounts[i * APART];
}

static long wrong; /* audits of this process that found another sum */

static void work(void)
{
	uint64_t random = (uint64_t)me + 1;

	for (long i = 0; i < size; i++) {
		struct order order = {.from = (unsigned)draw(&random, ACCOUNTS),
				      .to = (unsigned)draw(&random, ACCOUNTS),
				      .amount = (long)draw(&random, FORTUNE)};

		step(move, &order);
		if (draw(&random, AUDITS) != 0)
			continue;
		step(audit, &order);
		wrong += order.sum != ACCOUNTS * FORTUNE;
	}
}

static void set_up(void)
{
	accounts = shared(ACCOUNTS * APART * sizeof(*accounts));
	transfers = shared((size_t)procs * sizeof(*transfers));
	for (unsigned i = 0; i < ACCOUNTS; i++)
		accounts[i * APART] = FORTUNE;
}

static bool right(void)
{
	struct order order;

	step(audit, &order);
	return wrong == 0 && order.sum == ACCOUNTS * FORTUNE && transfers[me] == size;
}

int main(int argc, char **argv)
{
	static const struct program bank = {
		.name = "plurix-bank",
		.size = 2000,
		.size_min = 1,
		.size_max = 10000000,
		.procs_min = 1,
		.set_up = set_up,
		.right = right,
		.models = PLURIX_MODELS(work),
	};

	return program_main(argc, argv, &bank);
}
