/*
 * The standard input of programs that mpirun, srun or mpiexec.hydra start and whose main is
 * executed on every node up to CREATE: these launchers give it to node 0, and let the others wait
 * or find its end.  Node 0 copies it to all nodes of its host.
 */
#ifndef ROAMI_FEED_H
#define ROAMI_FEED_H

#include <sys/types.h>

#include "boot/input.h"
#include "core/nodeset.h"

struct roami_feed {
	struct roami_input input;
	struct roami_input_pipe pipes[ROAMI_NODES_MAX];
	unsigned nodes;
	int first; /* of the pipes' other ends, in a row, for the nodes to open */
};

/* Node 0: makes the pipes; NULL with errno, EBADF: it has no input. */
struct roami_feed *roami_feed_open(unsigned nodes);

/* All know where they are: its own input is the first pipe, and a thread fills all. */
bool roami_feed_start(struct roami_feed *feed);

/* The others: their input is theirs of the pipes of process `pid`, from `first` on. */
bool roami_feed_take(pid_t pid, int first, unsigned node);

/* They have it. */
void roami_feed_taken(struct roami_feed *feed);

#endif
