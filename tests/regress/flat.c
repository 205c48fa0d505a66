/*
 * Shows that what a program does again and again, for weeks, leaves nothing behind in roam: after
 * some turns and after many more a node has as much memory, as many descriptors, mappings and
 * threads.
 * flat HOW NODES TURNS
 *	HOW  rounds   CREATE and WAIT_FOR_END, with a lock, a barrier and blocks that are freed
 *	     leaves   rounds in which each node leaves a small block, of which half are freed later
 *	     alone    blocks of some pages, placed and freed, in a process that is alone
 *	     threads  threads in turn that use the heap, a lock, and register
 *	     objects  a lock, condition, flag and barrier in a block that is freed and made again
 *	     churn    blocks of many sizes, each freed by any node
 *	     tx       transactions that conflict, with blocks (ROAM_PROTOCOL=plurix)
 *	     ends     endpoints that are opened and closed under new numbers, and sent to
 */
#include <dirent.h>
#include <pthread.h>
#include <roam/dp.h>
#include <roam/tx.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../multi/multi.h"

/* Of the C library, message rings, tables that grow in steps, a part of the heap leased late. */
#define SLACK_KB    8192
#define SLACK       4   /* descriptors, mappings */
#define SLACK_TURNS 16  /* for a mapping: tables are made, or move, when threads first meet */
#define NODES_MAX   8u
#define SLOTS       64u
#define LEAVES      4096u
#define SEGMENTS    64u

struct census {
	long kb; /* private memory, and that of the segments */
	long files, mappings, threads;
};

struct shared {
	long count;
	void *block;
	void *slots[SLOTS];
	uint64_t *left[LEAVES][NODES_MAX];
	long turns[NODES_MAX][512];
};

static struct shared *shared;
static unsigned nodes, turns, round_now;
static const char *how;

static int is(const char *name)
{
	return strcmp(how, name) == 0;
}

/* --------------------------------------------------------------------------------------- census */

static long status_of(const char *key)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	long value = -1;

	check(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, 10);
	fclose(file);
	check(value >= 0);
	return value;
}

/*
 * Pieces of one segment in a row count once: sigsegv cuts the heap where the access to pages
 * changes, which follows from what the program does just then.
 */
static long mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	unsigned long begin, end, number, end_before = 0, number_before = 0;
	char line[512];
	long lines = 0;

	check(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL) {
		check(sscanf(line, "%lx-%lx %*s %*s %*s %lu", &begin, &end, &number) == 3);
		lines += begin != end_before || number != number_before || number == 0;
		end_before = end;
		number_before = number;
	}
	fclose(file);
	return lines;
}

/* Counts descriptors, and the memory of segments, of which some may be open twice. */
static void files(struct census *census)
{
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *entry;
	ino_t seen[SEGMENTS];
	unsigned count = 0;

	check(all != NULL);
	while ((entry = readdir(all)) != NULL) {
		char path[300], name[64] = "";
		struct stat stat_of;
		unsigned i = 0;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		census->files++;
		if (readlink(path, name, sizeof(name) - 1) < 0 ||
		    strstr(name, "memfd:") == NULL || stat(path, &stat_of) != 0)
			continue;
		while (i < count && seen[i] != stat_of.st_ino)
			i++;
		if (i == count && count < SEGMENTS) {
			seen[count++] = stat_of.st_ino;
			census->kb += stat_of.st_blocks / 2;
		}
	}
	closedir(all);
}

static struct census look(void)
{
	struct census census = {.threads = status_of("Threads:")};

	files(&census);
	census.mappings = mappings();
	census.kb += status_of("RssAnon:");
	return census;
}

/* After a quarter of the turns all that is made once is there. */
static void turn_done(unsigned turn, long kb_more)
{
	static struct census first;
	struct census now;

	if (turn == turns / 4)
		first = look();
	if (turn != turns)
		return;
	now = look();
	if (now.kb > first.kb + SLACK_KB + kb_more || now.files > first.files + SLACK ||
	    now.mappings > first.mappings + SLACK + turns / SLACK_TURNS ||
	    now.threads > first.threads) {
		fprintf(stderr,
			"flat: node %u: %ld KiB, %ld files, %ld mappings, %ld threads; later %ld, "
			"%ld, %ld, %ld\n",
			roam_node(), first.kb, first.files, first.mappings, first.threads, now.kb,
			now.files, now.mappings, now.threads);
		_exit(1);
	}
}

/* --------------------------------------------------------------------------------------- rounds */

static void round_main(void)
{
	for (unsigned i = 0; i < 10; i++) {
		char *block = must_alloc(100 + i * 1000);

		block[0] = 1;
		must(roam_free(block));
	}
	must(roam_lock(&shared->count));
	shared->count++;
	must(roam_unlock(&shared->count));
	must(roam_barrier_all());
}

static uint64_t leaf(unsigned round, unsigned node)
{
	return (uint64_t)round * 1000003 + node + 1;
}

/* Each node leaves a block; in every other round it frees another one's of the round before. */
static void leaves_main(void)
{
	unsigned me = roam_node(), other = (me + 1) % nodes;
	uint64_t *block = must_alloc(64), *old;

	check(*block == 0);
	*block = leaf(round_now, me);
	old = round_now > 0 ? shared->left[round_now - 1][other] : NULL;
	check(old == NULL || *old == leaf(round_now - 1, other));
	if (round_now % 2 == 1)
		must(roam_free(old));
	if (me == 1) /* pages in a row, which may fit into no part with blocks */
		must(roam_free(must_alloc(40960)));
	must(roam_barrier_all());
	shared->left[round_now][me] = block;
}

static void rounds(void (*fn)(void), long kb_of_turn)
{
	check(turns < LEAVES && nodes <= NODES_MAX);
	for (unsigned turn = 1; turn <= turns; turn++) {
		must(roam_create_all(fn, nodes));
		must(roam_wait_for_end());
		round_now++;
		turn_done(turn, (long)turns * kb_of_turn);
	}
	for (unsigned round = 0; is("leaves") && round < turns; round++)
		for (unsigned node = 0; node < nodes; node++)
			check((round % 2 == 0 && round + 1 < turns) ||
			      *shared->left[round][node] == leaf(round, node));
}

static void alone(void)
{
	for (unsigned turn = 1; turn <= turns; turn++) {
		char *block = roam_alloc_placed(10000 + turn % 7 * 4096,
						(enum roam_place)(turn % 3), 0, NULL);

		check(block != NULL);
		must(roam_home(block, 4096 * (1 + turn % 2), turn % 3));
		must(roam_home(shared, sizeof(*shared), turn % 3));
		must(roam_free(block));
		turn_done(turn, 0);
	}
}

/* --------------------------------------------------------------------------------- in one round */

static void *thread_main(void *arg)
{
	char *block = must_alloc(100);

	must(roam_thread_init());
	block[0] = 1;
	must(roam_lock(&shared->count));
	shared->count++;
	must(roam_unlock(&shared->count));
	must(roam_free(block));
	return arg;
}

static void thread_turn(void)
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, thread_main, NULL) == 0);
	pthread_join(thread, NULL);
}

static void object_turn(unsigned turn)
{
	unsigned me = roam_node();
	long *block;

	if (me == turn % nodes)
		shared->block = must_alloc(64 + turn * 97 % 9000);
	must(roam_barrier_all());
	block = shared->block;
	must(roam_lock(block));
	if (++block[1] == (long)nodes)
		must(roam_cond_broadcast(block + 2));
	while (block[1] < (long)nodes)
		must(roam_cond_wait(block + 2, block));
	must(roam_unlock(block));
	if (me == 0)
		must(roam_flag_set(block + 3));
	must(roam_flag_wait(block + 3));
	must(roam_barrier(block + 4, nodes));
	if (me == turn / 2 % nodes)
		must(roam_free(block));
}

static size_t churn_bytes(unsigned turn)
{
	size_t bytes = 1 + turn * 7919u % 100;

	return turn % 16 < 4 ? bytes * 40 : turn % 16 == 4 ? bytes * 1000 : bytes;
}

static void churn_turn(unsigned turn)
{
	void **slot = &shared->slots[(turn * 31 + roam_node() * 7) % SLOTS];

	must(roam_lock(slot));
	if (*slot != NULL) {
		must(roam_free(*slot));
		*slot = NULL;
	} else {
		char *block = must_alloc(churn_bytes(turn));

		check(block[0] == 0 && block[churn_bytes(turn) - 1] == 0);
		block[0] = block[churn_bytes(turn) - 1] = 1;
		*slot = block;
	}
	must(roam_unlock(slot));
}

static void transaction(void *arg)
{
	unsigned turn = *(unsigned *)arg;
	char **block = (void *)&shared->block;

	shared->turns[roam_node()][turn % 512]++;
	if (turn % 4 != 0)
		return;
	shared->count++;
	must(roam_free(*block));
	*block = roam_alloc(churn_bytes(turn));
	check(*block != NULL && **block == 0);
	**block = 1;
}

/* Nodes send to an endpoint of the next node that has another number in each turn. */
static void ends_turn(unsigned turn)
{
	struct roam_dp *dp;
	unsigned got;

	must(roam_dp_open(1000 + turn, &dp));
	must(roam_barrier_all());
	must(roam_dp_send(dp, (roam_node() + 1) % nodes, 1000 + turn, &turn, sizeof(turn), 0));
	must(roam_dp_receive(dp, &got, sizeof(got), 0, NULL));
	check(got == turn);
	must(roam_barrier_all());
	roam_dp_close(dp);
}

static void node_main(void)
{
	for (unsigned turn = 1; turn <= turns; turn++) {
		if (is("threads"))
			thread_turn();
		else if (is("objects"))
			object_turn(turn);
		else if (is("churn"))
			churn_turn(turn);
		else if (is("tx"))
			must(roam_tx(transaction, &turn, NULL));
		else
			ends_turn(turn);
		turn_done(turn, 0);
	}
}

int main(int argc, char **argv)
{
	check(argc == 4);
	how = argv[1];
	nodes = number(argv[2]);
	turns = number(argv[3]);
	must(roam_start());
	shared = must_alloc(sizeof(*shared));
	if (is("rounds")) {
		rounds(round_main, 0);
	} else if (is("leaves")) {
		rounds(leaves_main, (long)nodes * 4);
	} else if (is("alone")) {
		alone();
	} else {
		must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
	}
	must(roam_finish());
	return 0;
}
