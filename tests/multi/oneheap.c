/*
 * Shows what nodes with one heap may rely on, and that it costs nothing: stores are seen without
 * synchronisation, the processor's atomic instructions hold between nodes, system calls take shared
 * memory, calls about homes and fetching are accepted, and no page faults, moves or is compared.
 * oneheap START NODES; START fork: roam_create_all, three rounds; once: one; each: roam_create;
 * run: all nodes run main.
 */
#include "multi.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE  ((size_t)2 << 20)
#define LARGE (8 * HUGE)
#define MOST  ((uint64_t)40 << 30) /* of the heap */
#define ADDS  20000u
#define TURNS 200u
#define BYTES (5u * ROAM_PAGE_SIZE + 100)

struct shared {
	_Atomic unsigned here[4]; /* nodes that have come to these points, over all rounds */
	_Atomic unsigned turn;
	_Atomic uint64_t sum;
	unsigned plain;
	uint8_t before[BYTES]; /* written by the creator */
	uint8_t through[BYTES];
	uint8_t *block;
};

static struct shared *shared;
static unsigned nodes, rounds_done; /* rounds_done is private, as every static */
static bool spmd;

/* Lets all nodes meet, without a call of roam. */
static void meet(unsigned point)
{
	atomic_fetch_add(&shared->here[point], 1);
	while (atomic_load(&shared->here[point]) < nodes * (rounds_done + 1))
		sched_yield();
}

/* The nodes take turns by an atomic word, with plain loads and stores in between. */
static void turns(void)
{
	unsigned first = rounds_done * TURNS * nodes;

	for (unsigned i = 0; i < TURNS; i++) {
		unsigned mine = first + i * nodes + roam_node();

		while (atomic_load(&shared->turn) != mine)
			sched_yield();
		check(shared->plain == mine);
		shared->plain = mine + 1;
		atomic_store(&shared->turn, mine + 1);
	}
	meet(1);
	check(shared->plain == first + TURNS * nodes);
}

static void system_calls(void)
{
	uint8_t back[BYTES];
	int ends[2];

	if (roam_node() != nodes - 1)
		return;
	check(pipe(ends) == 0);
	check(write(ends[1], shared->before, BYTES) == (ssize_t)BYTES);
	check(read(ends[0], shared->through, BYTES) == (ssize_t)BYTES);
	check(roam_write(ends[1], shared->through, BYTES) == (ssize_t)BYTES);
	check(read(ends[0], back, BYTES) == (ssize_t)BYTES);
	check(memcmp(back, shared->before, BYTES) == 0);
	close(ends[0]);
	close(ends[1]);
}

/* Calls that say where pages should be change nothing. */
static void hints(void)
{
	uint8_t *block = roam_alloc_placed(8 * ROAM_PAGE_SIZE, ROAM_PLACE_CYCLIC, 0, "cyclic");

	check(block != NULL);
	must(roam_home(block, 3 * ROAM_PAGE_SIZE, nodes - 1));
	if (nodes > 1)
		must_fail(roam_home(block, ROAM_PAGE_SIZE, nodes), ROAM_EINVAL);
	must_fail(roam_home(&nodes, sizeof(nodes), 0), ROAM_ENOTOURS);
	must(roam_touch(shared, sizeof(*shared), ROAM_WRITE));
	must_fail(roam_touch(&nodes, sizeof(nodes), ROAM_READ), ROAM_ENOTOURS);
	roam_prefetch(shared, sizeof(*shared));
	block[0] = block[8 * ROAM_PAGE_SIZE - 1] = 1;
	must(roam_free(block));
}

/* A block that another node has freed is zero again. */
static void reuse(void)
{
	for (unsigned i = 0; i < 4; i++) {
		if (roam_node() == 0) {
			shared->block = must_alloc(300);
			for (unsigned at = 0; at < 300; at++)
				check(shared->block[at] == 0);
		}
		must(roam_barrier_all());
		memset(shared->block + 300 / nodes * roam_node(), 0xee, 300 / nodes);
		must(roam_barrier_all());
		if (roam_node() == nodes - 1)
			must(roam_free(shared->block));
		must(roam_barrier_all());
	}
}

/* ------------------------------------------------------------------------------------- memory */

static uint64_t kilobytes(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[200];
	uint64_t value = 0;

	check(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtoull(line + strlen(key), NULL, 10);
	fclose(file);
	return value;
}

/* Whether the kernel makes huge pages of a memfd on request, and pages belong to no NUMA domain. */
static bool has_huge(void)
{
	int fd = memfd_create("huge", MFD_CLOEXEC);
	uint8_t *map;
	bool has;

	check(fd >= 0 && ftruncate(fd, (off_t)(2 * HUGE)) == 0);
	map = mmap((void *)0x300000000000, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(map != MAP_FAILED);
	*map = 1;
	has = madvise(map, HUGE, 25) == 0; /* MADV_COLLAPSE */
	munmap(map, HUGE);
	close(fd);
	return has && access("/sys/devices/system/node/node1", F_OK) != 0;
}

static long faults(void)
{
	struct rusage usage;

	check(getrusage(RUSAGE_SELF, &usage) == 0);
	return usage.ru_minflt;
}

/*
 * A large block gets its memory, zeroed, when it is allocated; one that would take most memory does
 * not.
 */
static void memory(void)
{
	uint64_t half = kilobytes("/proc/meminfo", "MemAvailable:") << 9, before, sum = 0;
	uint8_t *large = must_alloc(LARGE), *most;
	long had = faults();

	for (size_t at = 0; at < LARGE; at += ROAM_PAGE_SIZE)
		sum += large[at]++;
	check(sum == 0);
	if (has_huge() && half > 8 * LARGE)
		check(faults() - had < (long)(LARGE / ROAM_PAGE_SIZE / 8));
	before = kilobytes("/proc/self/status", "RssShmem:");
	most = must_alloc(half < MOST ? half : MOST);
	most[LARGE] = 1;
	check(half >= MOST || kilobytes("/proc/self/status", "RssShmem:") - before < 10240);
	must(roam_free(large));
	large = must_alloc(LARGE);
	for (size_t at = 0; at < LARGE; at += ROAM_PAGE_SIZE)
		check(large[at] == 0);
	must(roam_free(large));
	must(roam_free(most));
}

/* --------------------------------------------------------------------------------------- nodes */

static void node_main(void)
{
	static const char *const none[] = {"read_faults", "write_faults", "fetches", "diffs",
					   "protects", "claims", "twins", "bytes_fetched"};
	uint8_t byte = 0;

	must(roam_barrier_all()); /* after roam_create the creator must call it, too */
	meet(0);
	for (unsigned i = 0; i < BYTES; i++)
		byte |= (uint8_t)(shared->before[i] ^ (uint8_t)(i * 7));
	check(byte == 0);
	turns();
	for (unsigned i = 0; i < ADDS; i++)
		atomic_fetch_add_explicit(&shared->sum, 1, memory_order_relaxed);
	meet(2);
	check(atomic_load(&shared->sum) == (uint64_t)ADDS * nodes * (rounds_done + 1));
	must(roam_barrier_all());
	system_calls();
	hints();
	reuse();
	if (spmd && roam_node() == nodes - 1)
		memory();
	must(roam_barrier_all());
	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		check(roam_counter(none[i]) == 0);
	meet(3);
}

static void rounds(bool each, unsigned count)
{
	for (rounds_done = 0; rounds_done < count; rounds_done++) {
		for (unsigned i = 1; each && i < nodes; i++)
			must(roam_create(node_main));
		if (each)
			node_main();
		else
			must(roam_create_all(node_main, nodes));
		must(roam_wait_for_end());
		check(shared->plain == (rounds_done + 1) * TURNS * nodes);
	}
}

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[2]);
	spmd = strcmp(argv[1], "run") == 0;
	if (spmd)
		must(roam_start());
	shared = must_alloc(sizeof(*shared));
	for (unsigned i = 0; i < BYTES; i++)
		shared->before[i] = (uint8_t)(i * 7);
	if (strcmp(argv[1], "fork") == 0)
		memory();
	if (spmd)
		node_main();
	else
		rounds(strcmp(argv[1], "each") == 0, strcmp(argv[1], "once") == 0 ? 1 : 3);
	must(roam_finish());
	if (roam_node() == 0)
		printf("all of one heap\n");
	return 0;
}
