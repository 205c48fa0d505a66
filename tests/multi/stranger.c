/*
 * Shows what becomes of programs that are strange, or that the system gives too little.
 * stranger HOW NODES; forks the nodes, or runs under roam run. What happens is the caller's to look
 * at; a wrong answer ends with status 3.
 *	start      starts and ends
 *	creates    one roam_create after another, until refused: status 4
 *	exhaust    all nodes allocate until refused, free, and go on
 *	barriers   all nodes meet at 5,000 barriers, for which little address space is reserved
 *	alternate  node 0 reads every other page of 600 MiB that node 1 wrote
 *	fork       forks mid-run; one child writes to the heap, which it does not have, the other
 *	           ends in order, but is no node
 *	system     runs a command in between, several times
 *	efault     write(2) of pages that are not here fails; roam_write does not
 *	blocked    a thread that blocks SIGSEGV and SIGBUS registers and touches the heap
 *	seated     one does so without registering, after a call of roam
 *	shuts      node 1 blocks them once it runs, and touches the heap
 *	ignores    node 1 ignores them once it runs, and touches the heap
 *	evict      one node reads much more than ROAM_CACHE_PAGES, twice
 *	beyond     the last node writes BEYOND bytes after the block
 *	peak       each node has some memory for a while, 40 MiB per number, and prints the most
 *	           that the kernel says it had
 *	fill       node FILLER writes 512 MiB, while the others wait for it
 */
#include "multi.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE       4096u
#define ALTERNATES 75000u /* more ranges than vm.max_map_count's 65530 */
#define EVICTS     2000u
#define FILLS      131072u
#define BARRIERS   5000u
#define BARRIERS_MAX (64ul << 20) /* address space of theirs, for two nodes */

static unsigned nodes;
static unsigned char *pages;

static void leave(enum roam_err err)
{
	if (err != ROAM_OK)
		exit(1); /* roam has said why */
}

static void nothing(void)
{
	must(roam_barrier_all());
}

static void creates(void)
{
	for (unsigned i = 1; i < nodes; i++)
		if (roam_create(nothing) == ROAM_ENODES)
			exit(4);
	nothing();
}

static void exhaust(void)
{
	void *blocks[100];
	unsigned count = 0, total = 0;

	must(roam_barrier_all());
	while (count < 100 && (blocks[count] = roam_alloc(1u << 20)) != NULL)
		memset(blocks[count++], 1, PAGE);
	check(count < 100);
	must_fail(roam_errno(), ROAM_ENOMEM);
	pages[roam_node()] = (unsigned char)count;
	must(roam_barrier_all());
	for (unsigned i = 0; i < nodes; i++)
		total += pages[i];
	check(total >= 12 && total < 16); /* of a heap of 16 MiB */
	while (count > 0)
		must(roam_free(blocks[--count]));
	must(roam_barrier_all());
	blocks[0] = must_alloc(1u << 20);
	memset(blocks[0], 1, 1u << 20);
	must(roam_barrier_all());
}

static void alternate(void)
{
	unsigned long sum = 0;

	must(roam_barrier_all());
	if (roam_node() == 1)
		for (unsigned i = 0; i < 2 * ALTERNATES; i += 2)
			pages[(size_t)i * PAGE] = 1;
	must(roam_barrier_all());
	for (unsigned i = 0; roam_node() == 0 && i < 2 * ALTERNATES; i += 2)
		sum += pages[(size_t)i * PAGE];
	check(roam_node() != 0 || sum == ALTERNATES);
	must(roam_barrier_all());
}

static void write_turns(void (*between)(unsigned round))
{
	unsigned me = roam_node();

	for (unsigned round = 1; round <= 5; round++) {
		pages[me * 8] = (unsigned char)round;
		must(roam_barrier_all());
		for (unsigned i = 0; i < nodes; i++)
			check(pages[i * 8] == round);
		between(round);
		must(roam_barrier_all());
	}
}

static void fork_stranger(unsigned round)
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL); /* roam's handler has nothing to do here */
		pages[roam_node() * 8] = (unsigned char)(round + 100);
		_exit(0);
	}
	check(waitpid(pid, &status, 0) == pid);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	pid = fork();
	if (pid == 0)
		exit(0);
	check(waitpid(pid, &status, 0) == pid && status == 0);
}

static void call_system(unsigned round)
{
	check(system("exit 7") == 7 << 8);
	check(round > 0);
}

static void efault(void)
{
	int pipes[2];
	char got[PAGE];

	check(pipe(pipes) == 0);
	if (roam_node() == 1)
		memset(pages, 'x', 4 * PAGE);
	must(roam_barrier_all());
	if (roam_node() == 0) {
		check(write(pipes[1], pages, PAGE) == -1 && errno == EFAULT);
		check(roam_write(pipes[1], pages + PAGE, PAGE) == (ssize_t)PAGE);
		check(read(pipes[0], got, PAGE) == (ssize_t)PAGE);
		check(got[0] == 'x' && got[PAGE - 1] == 'x');
		check(roam_write(pipes[1], "abc", 3) == 3);
		check(roam_read(pipes[0], pages + 2 * PAGE + 1, 3) == 3);
	}
	must(roam_barrier_all());
	check(memcmp(pages + 2 * PAGE, "xabcx", 5) == 0);
	must(roam_barrier_all());
}

static void *seated_thread(void *arg)
{
	must(roam_lock(pages));
	pages[8]++;
	must(roam_unlock(pages));
	return arg;
}

static void *blocked_thread(void *arg)
{
	static char all; /* a name */

	(void)arg;
	must(roam_thread_init());
	for (unsigned i = 0; i < 16; i++) {
		must(roam_barrier(&all, nodes));
		if (i % nodes == roam_node())
			pages[i * PAGE] = (unsigned char)i;
		must(roam_barrier(&all, nodes));
		check(pages[i * PAGE] == i);
	}
	must(roam_thread_fini());
	return NULL;
}

static void block(sigset_t *old)
{
	sigset_t faults;

	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &faults, old);
}

static void run_blocked(void *(*fn)(void *arg))
{
	pthread_t thread;
	sigset_t old;

	block(&old);
	check(pthread_create(&thread, NULL, fn, NULL) == 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	check(pthread_join(thread, NULL) == 0);
}

static void blocked(void)
{
	run_blocked(blocked_thread);
}

static void seated(void)
{
	must(roam_barrier_all());
	run_blocked(seated_thread);
	must(roam_barrier_all());
	check(pages[8] == nodes);
}

static void shuts(void)
{
	sigset_t old;

	must(roam_barrier_all());
	if (roam_node() == 1)
		block(&old);
	pages[PAGE * roam_node()] = 1;
	must(roam_barrier_all());
}

static void ignores(void)
{
	must(roam_barrier_all());
	if (roam_node() == 1) {
		signal(SIGSEGV, SIG_IGN);
		signal(SIGBUS, SIG_IGN);
	}
	pages[PAGE * roam_node()] = 1;
	must(roam_barrier_all());
}

static void evict(void)
{
	for (unsigned i = roam_node(); i < EVICTS; i += nodes)
		memset(pages + (size_t)i * PAGE, (int)(i % 251), PAGE);
	must(roam_barrier_all());
	for (unsigned i = 0; i < 2 * EVICTS; i++)
		check(pages[(size_t)(i % EVICTS) * PAGE + i % PAGE] == i % EVICTS % 251);
	must(roam_barrier_all());
	for (unsigned i = roam_node() * 64; i < EVICTS * PAGE; i += 64 * nodes * 3)
		pages[i] = 255;
	must(roam_barrier_all());
	for (unsigned i = 0; i < EVICTS * PAGE; i += 64)
		check(pages[i] == (i / 64 % (nodes * 3) < nodes ? 255 : i / PAGE % 251));
	check(roam_counter("evictions") > 0);
	must(roam_barrier_all());
}

static void beyond(void)
{
	if (roam_node() == nodes - 1)
		pages[strtoull(getenv("BEYOND"), NULL, 0)] = 1;
	must(roam_barrier_all());
}

static void fill(void)
{
	must(roam_barrier_all());
	for (unsigned i = 0; roam_node() == number(getenv("FILLER")) && i < FILLS; i++)
		memset(pages + (size_t)i * PAGE, 1, PAGE);
	must(roam_barrier_all());
}

static void peak(void)
{
	size_t bytes = (roam_node() + 1) * ((size_t)40 << 20);
	FILE *file = fopen("/proc/self/status", "r");
	char line[128], *block = malloc(bytes);

	check(file != NULL && block != NULL);
	memset(block, 1, bytes);
	check(block[bytes / 2] == 1);
	free(block);
	while (fgets(line, sizeof(line), file) != NULL)
		if (strncmp(line, "VmHWM:", 6) == 0)
			printf("peak %u %lu\n", roam_node(), strtoul(line + 6, NULL, 10));
	fclose(file);
	must(roam_barrier_all());
}

static unsigned long mapped(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long all = 0;

	check(file != NULL && fscanf(file, "%lu", &all) == 1);
	fclose(file);
	return all * PAGE;
}

static void barriers(void)
{
	unsigned long before = mapped();

	for (unsigned i = 0; i < BARRIERS; i++)
		must(roam_barrier(pages + 8 * (size_t)i, nodes));
	check(roam_counter("sync_unrecorded") > 0); /* more than there are records for */
	check(mapped() - before < BARRIERS_MAX);
}

static void fork_main(void)
{
	write_turns(fork_stranger);
}

static void system_main(void)
{
	write_turns(call_system);
}

static const struct {
	const char *name;
	void (*fn)(void);
	size_t bytes;
} ways[] = {{"start", nothing, PAGE},
	    {"exhaust", exhaust, PAGE},
	    {"barriers", barriers, 10 * PAGE},
	    {"alternate", alternate, (size_t)2 * ALTERNATES *PAGE},
	    {"fork", fork_main, PAGE},
	    {"system", system_main, PAGE},
	    {"efault", efault, 4 * PAGE},
	    {"blocked", blocked, 16 * PAGE},
	    {"seated", seated, PAGE},
	    {"shuts", shuts, 16 * PAGE},
	    {"ignores", ignores, 16 * PAGE},
	    {"evict", evict, (size_t)EVICTS *PAGE},
	    {"beyond", beyond, PAGE},
	    {"peak", peak, PAGE},
	    {"fill", fill, (size_t)FILLS *PAGE}};

int main(int argc, char **argv)
{
	check(argc == 3);
	nodes = number(argv[2]);
	leave(roam_start());
	if (strcmp(argv[1], "creates") == 0)
		creates();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[1], ways[i].name) != 0)
			continue;
		pages = roam_alloc(ways[i].bytes);
		leave(pages != NULL ? ROAM_OK : roam_errno());
		leave(roam_create_all(ways[i].fn, nodes));
	}
	leave(roam_finish());
	printf("ended in order\n");
	return 0;
}
