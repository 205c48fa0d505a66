/*
 * A bank whose pages outlive the job (ROAM_STORE).
 *
 *     stored NODES TRANSFERS [ALONE | run | late | churn | calls | beside | fork | fill | points]
 *
 * Each node moves money between random accounts, notes each transfer in a list of its own, and now
 * and then waits until all is durable and says so: "durable NODE COUNT"; other transfers say it by
 * roam_tx_on_commit.  A job that finds the bank
 * checks it first: the sum, and each list, whose entries are blocks of the heap with pointers; and
 * prints "found COUNT..." of all nodes.  ALONE: so many transfers before the nodes are created;
 * run: by roam_start under roam run; late: the same, after the program has stored what all of its
 * processes store alike: it prints how often that has been done.  churn: a job of so many nodes
 * frees all blocks of the one before, and makes others.  calls: one node counts which functions of
 * roam_tx_on_commit are called when.  Processes that are alone: beside: while a thread of which
 * roam does not know counts in the heap: it prints from where to where; fork: one that leaves a
 * child, which it names; fill: one that stores to more outside of a transaction than a commit may
 * have; points: one that stores a pointer to code.
 */
#include <roam/tx.h>

#include "multi.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define ACCOUNTS 40u
#define STRIDE   (ROAM_PAGE_SIZE / sizeof(long) / 8) /* eight on each page */
#define FORTUNE  1000
#define SLOTS    8u
#define CHILD_S  30u /* or until it is ended; a job waits for two for the one before */
#define LARGE    ((size_t)260 << 20)
#define SHADES   80  /* bytes that no address of a program consists of */
#define OFTEN    7u /* one transfer of so many is followed by a wait */

struct entry {
	struct entry *before;
	long number;
	uint64_t bytes;
	uint8_t fill[];
};

struct slot {
	long count;
	struct entry *last;
	uint8_t rest[ROAM_PAGE_SIZE - 16];
};

struct bank {
	long made;
	uint8_t rest[ROAM_PAGE_SIZE - 8];
	long accounts[ACCOUNTS * STRIDE];
	struct slot slots[SLOTS];
};

static struct bank *bank;
static unsigned nodes, transfers, alone;

struct order {
	struct slot *slot;
	unsigned seed;
	bool says; /* when it is durable */
	long sum;
};

static unsigned draw(unsigned *seed, unsigned limit)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % limit;
}

static void make(void *arg)
{
	(void)arg;
	if (bank->made != 0)
		return;
	for (unsigned i = 0; i < ACCOUNTS; i++)
		bank->accounts[i * STRIDE] = FORTUNE;
	bank->made = 1;
}

static void add_up(void *arg)
{
	struct order *order = arg;

	order->sum = 0;
	for (unsigned i = 0; i < ACCOUNTS; i++)
		order->sum += bank->accounts[i * STRIDE];
}

static struct entry *entry_make(struct order *order)
{
	size_t bytes = draw(&order->seed, 16) == 0 ? 20000 : 1 + draw(&order->seed, 300);
	struct entry *entry = roam_alloc(sizeof(*entry) + bytes);

	if (entry == NULL)
		must(roam_errno());
	for (size_t i = 0; i < bytes; i++)
		check(entry->fill[i] == 0);
	entry->bytes = bytes;
	entry->number = order->slot->count;
	entry->before = order->slot->last;
	memset(entry->fill, (int)(entry->number % SHADES + 1), bytes / 2);
	return entry;
}

static void say(unsigned slot, long number)
{
	char line[64];

	snprintf(line, sizeof(line), "durable %u %ld\n", slot, number);
	check(write(STDOUT_FILENO, line, strlen(line)) > 0);
}

/* A transfer of a slot: its number and the slot's in one word. */
static void is_durable(void *arg)
{
	uintptr_t word = (uintptr_t)arg;

	say((unsigned)(word % SLOTS), (long)(word / SLOTS));
}

static void transfer(void *arg)
{
	struct order *order = arg;
	uintptr_t slot = (uintptr_t)(order->slot - bank->slots);
	unsigned from = draw(&order->seed, ACCOUNTS), to = draw(&order->seed, ACCOUNTS);
	long amount = (long)draw(&order->seed, 100);

	bank->accounts[from * STRIDE] -= amount;
	bank->accounts[to * STRIDE] += amount;
	order->slot->count++;
	order->slot->last = entry_make(order);
	if (order->says)
		must(roam_tx_on_commit(is_durable, /* NOLINTNEXTLINE: a word */
				       (void *)((uintptr_t)order->slot->count * SLOTS + slot)));
}

/* Frees the entry before the last one, which may be of another job. */
static void forget(void *arg)
{
	struct order *order = arg;
	struct entry *entry = order->slot->last->before, *before;

	if (entry == NULL)
		return;
	before = entry->before;
	must(roam_free(entry));
	order->slot->last->before = before;
}

static void work(void)
{
	unsigned me = roam_node();
	struct order order = {.slot = &bank->slots[me], .seed = me + (unsigned)getpid()};

	for (unsigned i = 0; i < transfers; i++) {
		order.says = draw(&order.seed, 3) == 0;
		must(roam_tx(transfer, &order, NULL));
		if (draw(&order.seed, 3) == 0)
			must(roam_tx(forget, &order, NULL));
		if (i % OFTEN != 0)
			continue;
		if (roam_tx_durable() != ROAM_OK)
			continue; /* the server is gone: the next commit ends the job */
		say(me, order.slot->count);
	}
	must(roam_barrier_all());
	must(roam_tx(add_up, &order, NULL));
	check(order.sum == ACCOUNTS * FORTUNE);
}

static void check_list(const struct slot *slot)
{
	long number = slot->count;

	check((slot->count == 0) == (slot->last == NULL));
	for (const struct entry *entry = slot->last; entry != NULL; entry = entry->before) {
		check(entry->number <= number);
		number = entry->number - 1;
		for (size_t i = 0; i < entry->bytes; i++)
			check(entry->fill[i] ==
			      (i < entry->bytes / 2 ? entry->number % SHADES + 1 : 0));
	}
}

static void find(void)
{
	bank = roam_root("bank", sizeof(*bank), ROAM_WRITE);
	if (bank == NULL)
		must(roam_errno());
}

static void look(void)
{
	struct order order = {0};
	char line[200] = "found";

	if (bank->made == 0) {
		must(roam_tx(make, NULL, NULL));
		return;
	}
	add_up(&order);
	check(order.sum == ACCOUNTS * FORTUNE);
	for (unsigned i = 0; i < SLOTS; i++) {
		check_list(&bank->slots[i]);
		snprintf(line + strlen(line), sizeof(line) - strlen(line), " %ld",
			 bank->slots[i].count);
	}
	strcat(line, "\n");
	check(write(STDOUT_FILENO, line, strlen(line)) > 0);
}

/* All processes store alike, before they are nodes. */
static long begin_late(void)
{
	long *turns;

	find();
	turns = (long *)(void *)bank->rest;
	return bank->made != 0 ? ++*turns : 0;
}

static void touch(void *arg)
{
	(void)arg;
	bank->made++;
}

static int run(bool late)
{
	long turns = late ? begin_late() : 0;

	must(roam_start());
	find();
	if (late) {
		must(roam_barrier_all());
		check(turns == *(long *)(void *)bank->rest || turns == 0);
	}
	if (late && roam_node() == 0 && turns != 0) {
		must(roam_tx(touch, NULL, NULL)); /* keeps the page */
		printf("late %ld\n", turns);
	}
	if (roam_node() == 0)
		look();
	must(roam_barrier_all());
	work();
	if (roam_node() == 0)
		puts("done");
	must(roam_finish());
	return 0;
}

/* ------------------------------------------------------------------------------- other blocks */

#define PIECES 300u
#define BLOCK  ((size_t)4 << 20)

struct piece {
	struct piece *next;
	size_t bytes;
	uint8_t fill[];
};

static struct owner {
	uint8_t *large;
	struct piece *pieces;
	uint8_t rest[ROAM_PAGE_SIZE - 16];
} *owners;

static unsigned churned;

static void *make_zero(size_t bytes)
{
	uint8_t *block = roam_alloc(bytes);

	if (block == NULL)
		must(roam_errno());
	for (size_t i = 0; i < bytes; i++)
		check(block[i] == 0);
	return block;
}

static void drop(struct owner *owner)
{
	struct piece *piece = owner->pieces, *next;

	if (owner->large != NULL) {
		check(owner->large[0] == 7 && owner->large[BLOCK - 1] == 9);
		must(roam_free(owner->large));
	}
	for (; piece != NULL; piece = next) {
		next = piece->next;
		for (size_t i = 0; i < piece->bytes; i++)
			check(piece->fill[i] == (uint8_t)piece->bytes);
		must(roam_free(piece));
	}
}

static void churn(void *arg)
{
	struct owner *owner = arg;
	unsigned seed = churned;

	drop(owner);
	owner->large = make_zero(BLOCK);
	owner->large[0] = 7;
	owner->large[BLOCK - 1] = 9;
	owner->pieces = NULL;
	for (unsigned i = 0; i < PIECES; i++) {
		size_t bytes = 1 + draw(&seed, draw(&seed, 20) == 0 ? 9000 : 200);
		struct piece *piece = make_zero(sizeof(*piece) + bytes);

		piece->next = owner->pieces;
		piece->bytes = bytes;
		memset(piece->fill, (int)(uint8_t)bytes, bytes);
		owner->pieces = piece;
	}
}

/* Also blocks of another node, and some outside of transactions. */
static void churns(void)
{
	unsigned me = roam_node();

	for (unsigned i = 0; i < transfers; i++) {
		void *other = make_zero(700 + 2000 * (size_t)i);

		churned = (unsigned)getpid() + i;
		must(roam_tx(churn, &owners[(me + i) % nodes], NULL));
		memset(other, 1, 700);
		must(roam_free(other));
	}
}

static int churn_all(void)
{
	must(roam_start_main());
	owners = roam_root("owners", SLOTS * sizeof(*owners), ROAM_WRITE);
	check(owners != NULL);
	must(roam_tx(churn, &owners[SLOTS - 1], NULL));
	if (nodes == 0) {
		puts("done");
		return 0;
	}
	must(roam_create_all(churns, nodes));
	must(roam_wait_for_end());
	must(roam_tx(churn, &owners[SLOTS - 1], NULL));
	puts("done");
	return 0;
}

/* ------------------------------------------------------------------------------------ on_commit */

static unsigned called, asked;

static void call_me(void *arg)
{
	check((uintptr_t)arg == called); /* in their order */
	check(roam_tx(make, NULL, NULL) == ROAM_ESTATE);
	called++;
}

static void ask(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 2; i++)
		must(roam_tx_on_commit(call_me, (void *)(uintptr_t)asked++)); /* NOLINT: a word */
}

static void ask_and_store(void *arg)
{
	ask(arg);
	bank->slots[0].rest[8]++;
	must(roam_free(roam_alloc(100)));
}

/* No transaction of these begins anew: there is one node, or the other one does nothing. */
static void calls_work(void)
{
	unsigned most = 0;

	if (roam_node() != 0)
		return;
	for (unsigned i = 0; i < transfers; i++) {
		must(roam_tx(i % 4 == 3 ? ask : ask_and_store, NULL, NULL));
		most = asked - called > most ? asked - called : most;
	}
	must(roam_tx_durable());
	check(called == asked);
	must(roam_tx(ask_and_store, NULL, NULL));
	printf("owed %d\n", most > 0);
}

static int calls(void)
{
	must(roam_start_main());
	find();
	must(roam_create_all(calls_work, nodes));
	must(roam_wait_for_end());
	check(called == asked);
	puts("done");
	return 0;
}

/* ------------------------------------------------------------------------------ a process alone */

static atomic_bool begun, over;

/* What it has stored is there; a commit meanwhile keeps some value of those. */
static void *count(void *arg)
{
	volatile long *at = arg;
	long from = *at, to = from;

	for (; !atomic_load(&over); to++) {
		check(*at == to);
		*at = to + 1;
		atomic_store(&begun, true);
	}
	printf("counted from %ld to %ld\n", from, to);
	return NULL;
}

/* A process that is alone begins, and will move money in this way. */
static struct order begin_alone(void)
{
	struct order order = {.seed = 7};

	must(roam_start_main());
	find();
	look();
	order.slot = &bank->slots[SLOTS - 1];
	return order;
}

static void move_money(struct order *order)
{
	for (unsigned i = 0; i < transfers; i++)
		must(roam_tx(transfer, order, NULL));
}

static int beside(void)
{
	struct order order = begin_alone();
	pthread_t thread;

	check(pthread_create(&thread, NULL, count, bank->slots[SLOTS - 2].rest) == 0);
	while (!atomic_load(&begun))
		sched_yield();
	move_money(&order);
	atomic_store(&over, true);
	check(pthread_join(thread, NULL) == 0);
	must(roam_tx(transfer, &order, NULL)); /* takes the last count with it */
	must(roam_tx_durable());
	puts("done");
	return 0;
}

static int leave_child(void)
{
	struct order order = begin_alone();
	pid_t child;

	move_money(&order);
	child = fork();
	if (child == 0) {
		close_range(STDIN_FILENO, STDERR_FILENO, 0); /* nobody waits for its output */
		sleep(CHILD_S);
		_exit(0);
	}
	must(roam_tx(transfer, &order, NULL));
	printf("child %d\ndone\n", (int)child);
	return 0;
}

static int fill(void)
{
	char *large;

	must(roam_start_main());
	find();
	large = roam_root("large", LARGE, ROAM_WRITE);
	check(large != NULL && large[0] == large[LARGE - 1]);
	printf("filled %d\n", large[0]);
	memset(large, large[0] + 1, LARGE);
	must(roam_tx(make, NULL, NULL));
	must(roam_tx_durable());
	puts("done");
	return 0;
}

static void point(void *arg)
{
	*(int (**)(void))arg = fill;
}

static int points(void)
{
	void *at;

	must(roam_start_main());
	at = roam_root("points", sizeof(void *), ROAM_WRITE);
	check(at != NULL);
	must(roam_tx(point, at, NULL));
	puts("done");
	return 0;
}

static int run_now(void)
{
	return run(false);
}

static int run_late(void)
{
	return run(true);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} ways[] = {{"run", run_now},     {"late", run_late}, {"churn", churn_all},
		    {"calls", calls},     {"beside", beside}, {"fork", leave_child},
		    {"fill", fill},       {"points", points}};
	struct order order = {.seed = 7, .says = true};

	check(argc >= 3);
	nodes = (unsigned)atoi(argv[1]);
	transfers = (unsigned)atoi(argv[2]);
	for (size_t i = 0; argc > 3 && i < sizeof(ways) / sizeof(*ways); i++)
		if (strcmp(argv[3], ways[i].name) == 0)
			return ways[i].run();
	alone = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
	must(roam_start_main());
	find();
	look();
	order.slot = &bank->slots[SLOTS - 1];
	for (unsigned i = 0; i < alone; i++)
		must(roam_tx(transfer, &order, NULL));
	must(roam_create_all(work, nodes));
	must(roam_wait_for_end());
	must(roam_tx_durable());
	puts("done");
	return 0;
}
