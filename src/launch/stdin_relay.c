#include "launch/stdin_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "job/local.h"
#include "launch/bind.h"
#include "os/os.h"

#define RELAY_FIRST 200 /* descriptors below are the program's */

/* The first of `count` free descriptors in a row; -1: there are none. */
static int relay_row(unsigned count)
{
	long end = sysconf(_SC_OPEN_MAX);
	int first = RELAY_FIRST;

	for (int at = first; at < first + (int)count; at++)
		if (fcntl(at, F_GETFD) >= 0)
			first = at + 1;
	errno = EMFILE;
	return first + (long)count <= end ? first : -1;
}

bool roami_stdin_thread(const struct roami_stdin *relay, void *(*run)(void *arg), void *arg)
{
	bool runs = roami_os_thread(NULL, run, arg);

	atomic_fetch_add(relay->aside, runs);
	return runs;
}

struct roami_stdin *roami_stdin_open(unsigned nodes, int from, _Atomic uint32_t *aside)
{
	struct roami_stdin *relay = calloc(1, sizeof(*relay));
	int end, there = -1;

	if (from < 0 || relay == NULL || !roami_input_open(&relay->input, from))
		return NULL;
	relay->nodes = nodes;
	relay->aside = aside;
	relay->first = relay_row(nodes);
	for (unsigned i = 0; i < nodes && relay->first >= 0; i++) {
		if (!roami_input_pipe_open(&relay->pipes[i], &end))
			return NULL;
		there = dup3(end, relay->first + (int)i, O_CLOEXEC);
		close(end);
		if (there < 0)
			return NULL;
	}
	return relay->first >= 0 ? relay : NULL;
}

/* Copies until all nodes have all of the input, or none reads any more. */
static void *relay_main(void *arg)
{
	struct roami_stdin *relay = arg;
	struct pollfd polls[ROAMI_NODES_MAX + 1];

	for (;;) {
		nfds_t count = roami_input_polls(&relay->input, relay->pipes, relay->nodes, polls);
		/* Polls, because nothing announces that this job has the terminal again. */
		bool waits = polls[0].fd < 0 &&
			     roami_input_wanted(&relay->input, relay->pipes, relay->nodes);
		bool open = false;

		for (unsigned i = 0; i < relay->nodes; i++)
			open = open || relay->pipes[i].to >= 0;
		if (!open)
			break;
		if (poll(polls, count, waits ? ROAMI_LOOK_MS : -1) >= 0 &&
		    !roami_input_copy(&relay->input, relay->pipes, relay->nodes,
				      polls[0].revents != 0))
			_exit(ROAMI_EXIT_REPORTED); /* nodes would take a part for all of it */
	}
	atomic_fetch_sub(relay->aside, 1);
	return NULL;
}

bool roami_stdin_start(struct roami_stdin *relay, unsigned me)
{
	return dup2(relay->first + (int)me, STDIN_FILENO) >= 0 &&
	       roami_stdin_thread(relay, relay_main, relay);
}

bool roami_stdin_take(pid_t pid, int first, unsigned node)
{
	int fd = roami_os_open_its(pid, first + (int)node, O_RDONLY);

	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
		return false;
	close(fd);
	return true;
}

void roami_stdin_taken(struct roami_stdin *relay)
{
	atomic_store(&relay->taken, true);
	for (unsigned i = 0; i < relay->nodes; i++)
		close(relay->first + (int)i);
}
