/*
 * Shows nothing by itself: a program that makes one mistake, which `roam doctor` must name.
 * sick [-pNODES] MISTAKE; without -p it is an SPMD program, for `roam run`.  MISTAKE is one of
 * those in the table at the end; "right" makes none, "alone" does not use roam at all.
 */
#include <roam/roam.h>
#include <roam/tx.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WORDS 1024u /* of 8 bytes: two pages */
#define ROUNDS 50u
#define SCOPES 15u
#define STALES 4u
#define LONG_US 300000u

static uint64_t *grid, *other;
static uint64_t lock, flag;
static uint64_t *own;  /* private */
static uint64_t *part; /* private to each node: what the mistake "lacks" takes for shared */
static uint64_t root; /* private to each node: what the mistake "statics" takes for shared */

/* What a program does that makes no mistake: it adds under a lock. */
static void right(void)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		roam_lock(&lock);
		grid[7] += i;
		roam_unlock(&lock);
	}
	roam_barrier_all();
	grid[WORDS / 2 + roam_node()] = roam_node();
	roam_barrier_all();
}

/*
 * Both blocks get homes at node 0, and the others get copies.  What node 0 writes next they do not
 * see by chance: all have left the barrier, which might show more.
 */
static void at_home(void)
{
	if (roam_node() == 0)
		grid[1] = other[3] = 1;
	roam_barrier_all();
	for (unsigned i = 0; i < 2; i++) { /* the home detects its writes from the second on */
		if (roam_node() != 0 && grid[1] + other[3] != 2)
			abort();
		roam_barrier_all();
	}
	if (roam_node() == 0)
		usleep(LONG_US / 3);
}

static void racing(void)
{
	at_home();
	for (unsigned i = 0; i < ROUNDS; i++) {
		grid[8] = 2 * i + roam_node() + 1;
		roam_barrier_all();
	}
	if (roam_node() == 0)
		grid[8] = 0; /* the answer does not show it */
	roam_barrier_all();
}

/* The same, by a function of a library. */
static void copying(void)
{
	static uint64_t from[100];
	volatile size_t bytes = sizeof(from); /* unknown to the compiler */

	at_home();
	for (unsigned i = 0; i < ROUNDS; i++) {
		memset(from, (int)(2 * i + roam_node() + 1), sizeof(from));
		memcpy(&grid[100], from, bytes);
		roam_barrier_all();
	}
	if (roam_node() == 0)
		memset(&grid[100], 0, bytes);
	roam_barrier_all();
}

/* No mistake, but slow: each node counts in words of its own, which lie in one page. */
static void counts(void)
{
	at_home();
	for (unsigned i = 0; i < ROUNDS; i++) {
		grid[20 + roam_node()]++;
		roam_barrier_all();
	}
}

static void statics(void)
{
	if (roam_node() == 0)
		root = 42;
	roam_barrier_all();
	if (roam_node() == 1)
		grid[9] = root;
	roam_barrier_all();
}

/* A list in shared memory whose element is private. */
static void lists(void)
{
	at_home();
	own = malloc(4096);
	if (own == NULL)
		abort();
	if (roam_node() == 1)
		grid[30] = (uint64_t)(uintptr_t)&own[2];
	roam_barrier_all();
	if (roam_node() == 1)
		grid[30] = 0; /* the answer does not show it */
	roam_barrier_all();
	free(own);
}

/* The home of the page stores where a variable of its stack is. */
static void frames(void)
{
	volatile uint64_t mine = 0;

	at_home();
	if (roam_node() == 0)
		other[40] = (uint64_t)(uintptr_t)&mine;
	roam_barrier_all();
	if (roam_node() == 0)
		other[40] = 0;
	roam_barrier_all();
}

/* No mistake: pointers to shared memory, to functions, to constants and to statics. */
static void points(void)
{
	at_home();
	if (roam_node() == 1) {
		grid[31] = (uint64_t)(uintptr_t)&other[2];
		grid[32] = (uint64_t)(uintptr_t)points;
		grid[33] = (uint64_t)(uintptr_t)"a constant";
		grid[34] = (uint64_t)(uintptr_t)&own;
		grid[35] = (uint64_t)(uintptr_t)stdout;
	}
	roam_barrier_all();
	if (roam_node() == 0)
		memset(&grid[31], 0, 5 * sizeof(*grid));
	roam_barrier_all();
}

/* A block of node 0, of which both know. */
static void *block_of_both(size_t bytes)
{
	void *block;

	at_home();
	if (roam_node() == 0)
		grid[50] = (uint64_t)(uintptr_t)roam_alloc(bytes);
	roam_barrier_all();
	block = (void *)(uintptr_t)grid[50]; /* NOLINT: an address */
	roam_barrier_all();
	if (roam_node() == 0)
		grid[50] = 0;
	return block;
}

static void freed_by(unsigned node, void *block)
{
	if (roam_node() == node)
		(void)roam_free(block);
	roam_barrier_all();
}

/* One word behind the end of what another node has allocated. */
static void behind(void)
{
	volatile uint64_t *block = block_of_both(40);

	if (roam_node() == 1)
		block[5] = 77;
	roam_barrier_all();
	freed_by(0, (void *)(uintptr_t)block);
}

/* The same mistake with one block after the other. */
static void often(void)
{
	for (unsigned i = 0; i < 20; i++)
		behind();
}

static void before(void)
{
	volatile uint64_t *first = other;

	roam_barrier_all();
	if (roam_node() == 1)
		first[-9] = 77;
	roam_barrier_all();
}

static void after(void)
{
	volatile uint64_t *block = block_of_both(40);

	freed_by(0, (void *)(uintptr_t)block);
	if (roam_node() == 1)
		block[3] = 77;
	roam_barrier_all();
}

static void twice(void)
{
	void *block = block_of_both(9000);

	freed_by(0, block);
	freed_by(1, block);
}

/* No mistake: blocks come and go, many more than are kept; some are freed by another node. */
static void blocks(void)
{
	at_home();
	for (unsigned i = 0; i < 120 * ROUNDS; i++) {
		size_t bytes = 1 + i * 7919u % (i % 50 == 0 ? 200000 : 3000);
		uint8_t *block = roam_alloc(bytes);

		if (block == NULL || block[0] != 0 || block[bytes - 1] != 0)
			abort();
		block[0] = block[bytes - 1] = 9;
		if (i % 100 == 0) {
			grid[60 + roam_node()] = (uint64_t)(uintptr_t)block;
			roam_barrier_all();
			block = (uint8_t *)(uintptr_t) /* NOLINT: an address */
				grid[60 + (roam_node() + 1) % roam_nodes()];
			roam_barrier_all();
		}
		if (roam_free(block) != ROAM_OK)
			abort();
	}
	grid[60 + roam_node()] = 0;
	roam_barrier_all();
}

static void spins(void)
{
	volatile uint64_t *done = &grid[10];

	at_home();
	if (roam_node() == 0)
		*done = 1;
	while (*done == 0)
		;
	roam_barrier_all();
}

static uint64_t now_ns(void)
{
	struct timespec now;

	atomic_thread_fence(memory_order_seq_cst); /* what was stored before is in memory */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/*
 * Another node's write is read without a synchronisation between.  Only rounds count in which the
 * write came first by the clock, which it does not on a machine that is busy with other things.
 */
/* Node 0 tells by a static: the others wait in vain, for times or for ever. */
static void told(bool times)
{
	roam_lock(&lock);
	if (roam_node() == 0)
		root = 42;
	while (root != 42)
		if (!times)
			roam_cond_wait(&flag, &lock);
		else if (roam_cond_wait_until(&flag, &lock, roam_clock_us() + LONG_US) == ROAM_OK)
			continue;
	roam_cond_broadcast(&flag);
	roam_unlock(&lock);
	roam_barrier_all();
}

static void unheard(void)
{
	told(false);
}

static void unshared(void)
{
	told(true);
}

static void stale(void)
{
	volatile uint64_t *word = &grid[11];
	uint64_t seen = 0;

	at_home();
	for (uint64_t round = 1, counted = 0; counted < STALES; round++) {
		uint64_t *times = &other[4 + round % 2 * 2], began;

		if (roam_node() == 0) {
			usleep(LONG_US / 15);
			*word = round;
			times[0] = now_ns();
		} else if (roam_node() == 1) {
			usleep(LONG_US / 2);
			began = now_ns();
			seen = *word;
			times[1] = began;
		}
		roam_barrier_all();
		if (times[0] >= times[1])
			continue;
		counted++;
		other[1] += roam_node() == 1 && seen == round;
	}
	if (roam_node() == 0)
		*word = STALES; /* however many rounds there were */
	roam_barrier_all();
}

/* What was written before a section of a lock is read in a later section of it. */
static void scope_round(uint64_t round)
{
	uint64_t ready = 0;

	if (roam_node() == 0) {
		usleep(LONG_US / 30);
		other[0] = round;
		roam_lock(&lock);
		grid[12] = round;
		roam_unlock(&lock);
	}
	while (roam_node() == 1 && ready != round) {
		usleep(LONG_US / 10);
		roam_lock(&lock);
		ready = grid[12];
		roam_unlock(&lock);
	}
	if (roam_node() == 1)
		grid[13] += other[0] == round;
	roam_barrier_all();
}

static void scope(void)
{
	at_home();
	for (uint64_t round = 1; round <= SCOPES; round++)
		scope_round(round);
}

/* No mistake: the same within sections, one of them with another within it, and by a barrier. */
static void inside(void)
{
	at_home();
	for (unsigned i = 0; i < ROUNDS; i++) {
		roam_lock(&lock);
		roam_lock(&part);
		grid[14] += i;
		roam_unlock(&part);
		other[4] += i; /* in the outer section only */
		roam_unlock(&lock);
	}
	roam_barrier_all();
	if (roam_node() == 0)
		other[5] = 1; /* for which there is a barrier */
	roam_barrier_all();
	roam_lock(&lock);
	grid[15] += other[5];
	roam_unlock(&lock);
	roam_barrier_all();
}

static void declared(void)
{
	scope();
}

static void stuck(void)
{
	if (roam_node() == 1)
		roam_flag_wait(&flag);
	roam_barrier_all();
}

static void endless(void)
{
	volatile uint64_t *never = &other[2];

	if (roam_node() == 1)
		while (*never == 0)
			;
	roam_barrier_all();
}

/* Waits for what roam does not know. */
static void stops(void)
{
	roam_barrier_all();
	if (roam_node() == 1)
		raise(SIGSTOP);
	roam_barrier_all();
}

/* No mistake: each node keeps a number of its own in a static. */
static void owns(void)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		root = 3 * roam_node() + i + 1;
		roam_lock(&lock);
		grid[7] += root;
		roam_unlock(&lock);
	}
	roam_barrier_all();
}

/* No mistake: node 0 alone uses the static. */
static void keeps(void)
{
	if (roam_node() == 0)
		root = 42;
	roam_barrier_all();
	if (roam_node() == 0)
		grid[9] = root;
	roam_barrier_all();
}

/* No mistake: the number of each node, 0 of node 0, in a static. */
static void numbers(void)
{
	root = roam_node();
	roam_barrier_all();
	grid[70 + root] = root + 1;
	roam_barrier_all();
}

/* No mistake: what node 0 counts is its own, and it verifies that. */
static void verifies(void)
{
	statics();
	if (roam_node() == 0)
		puts(grid[9] == 0 ? "verified ok" : "verified FAILED");
}

/* One node allocates for all, and keeps the address to itself. */
static void lacks(void)
{
	if (roam_node() == 0)
		part = roam_alloc(4096);
	roam_barrier_all();
	if (roam_node() == 1)
		*(volatile uint64_t *)part = 1;
	roam_barrier_all();
}

/* The element of a list in shared memory is private, and another node follows the list. */
static void follows(void)
{
	at_home();
	if (roam_node() == 1) {
		own = mmap((void *)0x300000000000, 4096, /* NOLINT: where no other node has any */
			   PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (own == MAP_FAILED)
			abort();
		grid[30] = (uint64_t)(uintptr_t)own;
	}
	roam_barrier_all();
	if (roam_node() == 0)
		grid[31] = *(volatile uint64_t *)(uintptr_t)grid[30]; /* NOLINT: an address */
	roam_barrier_all();
}

static void crash(void)
{
	volatile uint64_t *volatile nowhere = NULL; /* unknown to the compiler */

	roam_barrier_all();
	if (roam_node() == 1)
		*nowhere = 1;
	roam_barrier_all();
}

/* No mistake, but slow: each node counts in a block of its own, which share a page. */
static void small(void)
{
	uint64_t *block;

	for (unsigned turn = 0; turn < roam_nodes(); turn++) {
		if (roam_node() == 0) /* of node 0's memory, where they lie together */
			grid[40 + turn] = (uint64_t)(uintptr_t)roam_alloc(sizeof(*block));
		roam_barrier_all();
	}
	block = (uint64_t *)(uintptr_t)grid[40 + roam_node()]; /* NOLINT: an address */
	for (unsigned i = 0; i < ROUNDS; i++) {
		(*block)++;
		roam_barrier_all();
	}
	if (roam_node() == 0)
		memset(&grid[40], 0, roam_nodes() * sizeof(*grid));
	roam_barrier_all();
}

/* Node 0 itself. */
static void falls(void)
{
	volatile uint64_t *volatile nowhere = NULL;

	roam_barrier_all();
	if (roam_node() == 0)
		*nowhere = 1;
	roam_barrier_all();
}

static void chance(void)
{
	right();
	if (roam_node() == 0) {
		struct timespec now;

		clock_gettime(CLOCK_REALTIME, &now);
		for (long i = 0; i <= now.tv_nsec % 7; i++)
			printf("chance %ld\n", now.tv_nsec * i);
	}
}

static void refuses(void)
{
	roam_barrier_all();
	if (roam_node() == 1) {
		fprintf(stderr, "sick: no input\n");
		exit(3);
	}
}

static void count(void *arg)
{
	*(uint64_t *)arg += 1;
}

/* It runs under plurix alone, and is wrong there. */
static void transacts(void)
{
	roam_barrier_all();
	if (roam_tx(count, &grid[7], NULL) != ROAM_OK)
		exit(6);
	roam_barrier_all();
	if (roam_node() == 1) {
		fprintf(stderr, "sick: wrong sum\n");
		exit(5);
	}
}

/* With a store, in which no run has counted before; it makes no mistake. */
static void keeps_pages(void)
{
	uint64_t *runs = roam_root("runs", sizeof(*runs), ROAM_WRITE);

	if (runs == NULL)
		exit(7);
	if (roam_node() == 0 && (*runs != 0 || roam_tx(count, runs, NULL) != ROAM_OK ||
				 roam_tx_durable() != ROAM_OK))
		exit(8);
	roam_barrier_all();
	if (*runs != 1)
		exit(9);
}

static const struct {
	const char *name;
	void (*work)(void);
} mistakes[] = {
	{"right", right}, {"racing", racing}, {"copying", copying}, {"counts", counts},
	{"statics", statics}, {"lists", lists}, {"frames", frames}, {"points", points},
	{"behind", behind}, {"often", often}, {"before", before}, {"after", after},
	{"twice", twice}, {"blocks", blocks},
	{"spins", spins}, {"stale", stale}, {"scope", scope},
	{"inside", inside},
	{"declared", declared}, {"stuck", stuck}, {"unheard", unheard}, {"unshared", unshared},
	{"endless", endless}, {"stops", stops}, {"owns", owns}, {"crash", crash},
	{"small", small}, {"falls", falls}, {"keeps", keeps}, {"lacks", lacks},
	{"numbers", numbers}, {"verifies", verifies},
	{"follows", follows},
	{"chance", chance}, {"refuses", refuses}, {"transacts", transacts},
	{"keeps-pages", keeps_pages},
};

static void (*work)(void);

static void show(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORDS; i++)
		sum += grid[i];
	printf("the sum is %llu, and %llu\n", (unsigned long long)sum,
	       (unsigned long long)other[1]);
}

static void begin(void)
{
	grid = roam_alloc_placed(WORDS * sizeof(*grid), ROAM_PLACE_FIRST_TOUCH, 0, "grid");
	other = roam_alloc_placed(WORDS * sizeof(*other), ROAM_PLACE_FIRST_TOUCH, 0, "other");
	if (grid == NULL || other == NULL)
		exit(4);
}

static int spmd(void)
{
	if (roam_start() != ROAM_OK)
		return 4;
	begin();
	work();
	if (roam_node() == 0)
		show();
	roam_barrier_all();
	roam_finish();
	return 0;
}

static int create(unsigned nodes)
{
	if (work == declared && roam_needs(ROAM_MODEL_RC) != ROAM_OK)
		return 4;
	begin();
	if (roam_create_all(work, nodes) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 4;
	show();
	return 0;
}

int main(int argc, char **argv)
{
	unsigned nodes = 0;

	if (argc > 2 && strncmp(argv[1], "-p", 2) == 0) {
		nodes = (unsigned)strtoul(argv[1] + 2, NULL, 10);
		argv++;
	} else if (argc != 2) {
		return 4;
	}
	if (strcmp(argv[1], "alone") == 0)
		return 0;
	for (unsigned i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		if (strcmp(argv[1], mistakes[i].name) == 0)
			work = mistakes[i].work;
	if (work == NULL)
		return 4;
	return nodes > 0 ? create(nodes) : spmd();
}
