/*
 * A program that is started with some of its standard descriptors closed: no
 * descriptor of the library takes their place, whatever is printed there.
 * closed NODES; the status is 0 if it is so.
 */
#include <unistd.h>

#include "multi.h"

#define WORDS 100000u

static unsigned nodes;
static uint32_t *words;
static struct {
	char text[64];
} before[3];

/* What a descriptor stands for; "" if it is closed. */
static void what_is(int fd, char *text, size_t bytes)
{
	char path[32];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, text, bytes - 1);
	text[length > 0 ? length : 0] = '\0';
}

/* Whether the descriptors are as they were, or silenced. */
static void look(void)
{
	char text[sizeof(before[0].text)];

	for (int fd = 0; fd < 3; fd++) {
		what_is(fd, text, sizeof(text));
		if (before[fd].text[0] != '\0' && (strcmp(text, "/dev/null") == 0 ||
						   strncmp(text, "/memfd:roam-output", 18) == 0))
			continue;
		if (strcmp(text, before[fd].text) != 0)
			_exit(10 + fd);
	}
}

static void print(void)
{
	static const char noise[4096] = "noise";

	for (int i = 0; i < 20; i++) {
		(void)!write(STDOUT_FILENO, noise, sizeof(noise));
		(void)!write(STDERR_FILENO, noise, sizeof(noise));
	}
}

static void node_main(void)
{
	look();
	for (unsigned i = roam_node(); i < WORDS; i += nodes)
		words[i] = i;
	print();
	if (roam_barrier_all() != ROAM_OK)
		_exit(20);
	for (unsigned i = 0; i < WORDS; i++)
		if (words[i] != i)
			_exit(21);
	look();
}

int main(int argc, char **argv)
{
	for (int fd = 0; fd < 3; fd++)
		what_is(fd, before[fd].text, sizeof(before[fd].text));
	if (argc != 2)
		return 31;
	nodes = number(argv[1]);
	words = roam_alloc(WORDS * sizeof(*words));
	if (words == NULL)
		return 30;
	look();
	print();
	if (roam_create_all(node_main, nodes) != ROAM_OK || roam_wait_for_end() != ROAM_OK)
		return 32;
	look();
	print();
	return roam_finish() == ROAM_OK ? 0 : 33;
}
