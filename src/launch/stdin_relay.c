#include "launch/stdin_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "launch/bind.h"
#include "os/os.h"

#define FEED_FIRST 200 /* descriptors below are the program's */

/* The first of `count` free descriptors in a row; -1: there are none. */
static int relay_row(unsigned count)
{
	long end = sysconf(_SC_OPEN_MAX);
	int first = FEED_FIRST;

	for (int at = first; at < first + (int)count; at++)
		if (fcntl(at, F_GETFD) >= 0)
			first = at + 1;
	errno = EMFILE;
	return first + (long)count <= end ? first : -1;
}

struct roami_stdin *roami_stdin_open(unsigned nodes, int from)
{
	struct roami_stdin *feed = calloc(1, sizeof(*feed));
	int end, there = -1;

	if (from < 0 || feed == NULL || !roami_input_open(&feed->input, from))
		return NULL;
	feed->nodes = nodes;
	feed->first = relay_row(nodes);
	for (unsigned i = 0; i < nodes && feed->first >= 0; i++) {
		if (!roami_input_pipe_open(&feed->pipes[i], &end))
			return NULL;
		there = dup3(end, feed->first + (int)i, O_CLOEXEC);
		close(end);
		if (there < 0)
			return NULL;
	}
	return feed->first >= 0 ? feed : NULL;
}

/* Copies until all nodes have all of the input, or none reads any more. */
static void *relay_main(void *arg)
{
	struct roami_stdin *feed = arg;
	struct pollfd polls[ROAMI_NODES_MAX + 1];

	for (;;) {
		nfds_t count = roami_input_polls(&feed->input, feed->pipes, feed->nodes, polls);
		/* Polls, because nothing announces that this job has the terminal again. */
		bool waits = polls[0].fd < 0 &&
			     roami_input_wanted(&feed->input, feed->pipes, feed->nodes);
		bool open = false;

		for (unsigned i = 0; i < feed->nodes; i++)
			open = open || feed->pipes[i].to >= 0;
		if (!open)
			return NULL;
		if (poll(polls, count, waits ? ROAMI_LOOK_MS : -1) >= 0)
			roami_input_copy(&feed->input, feed->pipes, feed->nodes,
					 polls[0].revents != 0);
	}
}

bool roami_stdin_start(struct roami_stdin *feed, unsigned me)
{
	return dup2(feed->first + (int)me, STDIN_FILENO) >= 0 &&
	       roami_os_thread(NULL, relay_main, feed);
}

bool roami_stdin_take(pid_t pid, int first, unsigned node)
{
	int fd = roami_os_open_its(pid, first + (int)node, O_RDONLY);

	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
		return false;
	close(fd);
	return true;
}

void roami_stdin_taken(struct roami_stdin *feed)
{
	atomic_store(&feed->taken, true);
	for (unsigned i = 0; i < feed->nodes; i++)
		close(feed->first + (int)i);
}
