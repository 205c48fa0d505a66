/*
 * What the library has opened, or a launcher for it, is closed by exec: what a node starts and
 * leaves running must not keep the memory of the job.  And a program that closes all descriptors,
 * as daemons do, ends with a line: before, uffd saw no access any more, so that nodes went on with
 * old bytes, and over udp they waited for ever.
 * descriptors look|close|WORD NODES; without a launcher the nodes fork; WORD: only those are closed
 * whose name in /proc/self/fd has it
 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "../multi/multi.h"

#define PAGES  8u
#define WORDS  (ROAM_PAGE_SIZE / sizeof(uint64_t))
#define FDS    1024
#define END_MS 15000.0

static uint64_t (*pages)[WORDS];
static unsigned nodes;
static const char *closes; /* "": all; NULL: none */

static void look(void)
{
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *entry;

	check(all != NULL);
	while ((entry = readdir(all)) != NULL) {
		int fd = (int)number(entry->d_name);

		if (fd > STDERR_FILENO)
			check((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	}
	closedir(all);
}

/* Closes those that have `closes` in their names; at least one. */
static void close_some(void)
{
	char path[32], name[64];
	unsigned closed = 0;

	for (int fd = STDERR_FILENO + 1; fd < FDS; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		if (length < 0)
			continue;
		name[length] = '\0';
		if (strstr(name, closes) != NULL)
			closed += close(fd) == 0;
	}
	check(closed > 0);
}

static void node_main(void)
{
	double start = now_ms();
	unsigned me = roam_node();

	must(roam_barrier(pages, nodes));
	if (closes == NULL) {
		look();
		return;
	}
	if (me == 0)
		close_some();
	for (uint64_t round = 1; now_ms() - start < END_MS; round++) {
		for (unsigned i = 0; i < PAGES; i++)
			pages[i][me] = round;
		must(roam_barrier(pages, nodes));
	}
}

int main(int argc, char **argv)
{
	check(argc == 3);
	if (strcmp(argv[1], "look") != 0)
		closes = strcmp(argv[1], "close") == 0 ? "" : argv[1];
	nodes = number(argv[2]);
	pages = must_alloc(PAGES * sizeof(*pages));
	must(roam_create_all(node_main, nodes));
	must(roam_wait_for_end());
	return 0;
}
