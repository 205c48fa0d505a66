/*
 * The standard input of programs that mpirun, srun or mpiexec.hydra start and whose main is
 * executed on every node up to CREATE: these launchers give it to node 0, and let the others wait
 * or find its end.  Node 0 copies it to all nodes of its host, and to the first node of each other
 * host, which copies it to the nodes there.
 */
#ifndef ROAMI_STDIN_H
#define ROAMI_STDIN_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base/nodeset.h"
#include "job/input.h"
#include "launch/listener.h"

struct roami_stdin {
	struct roami_input input;
	struct roami_input_pipe pipes[ROAMI_NODES_MAX];
	unsigned nodes;
	int first; /* of the pipes' other ends, in a row, for the nodes to open */
	_Atomic uint32_t *aside; /* of struct roami_real: counts the threads */
	_Atomic bool taken;
};

/* Makes the pipes for what comes at `from`; NULL with errno. */
struct roami_stdin *roami_stdin_open(unsigned nodes, int from, _Atomic uint32_t *aside);

/* All nodes know their hosts: this node's own input is its pipe, and a thread fills all pipes. */
bool roami_stdin_start(struct roami_stdin *relay, unsigned me);

/* Another node: its input is its own of the pipes of process `pid`, from `first` on. */
bool roami_stdin_take(pid_t pid, int first, unsigned node);

/* A thread for the relay, which counts itself out at its end. */
bool roami_stdin_thread(const struct roami_stdin *relay, void *(*run)(void *arg), void *arg);

/* The nodes have their pipes, and all have come to CREATE: only node 0 reads on. */
void roami_stdin_taken(struct roami_stdin *relay);

/* ---- stdin_relay_far.c: between hosts */

#define ROAMI_STDIN_ADDRESSES 9u

/* The address at which the first node of another host waits for the input. */
struct roami_stdin_target {
	uint8_t key[ROAMI_KEY_BYTES];             /* that node 0 and it share */
	uint32_t addresses[ROAMI_STDIN_ADDRESSES]; /* IPv4, host byte order; the likeliest first */
	unsigned count;
	uint16_t port;
	char host[ROAMI_HOST_BYTES];
};

/* Node 0: a thread sends all input for `node` there. */
bool roami_stdin_bring(const struct roami_stdin *relay, unsigned node,
		       const struct roami_stdin_target *target);

/*
 * The first node of another host: its nodes' relay, to which a thread brings what comes.  Node
 * 0 tries so many addresses of the host; if it does not come by then the input is at its end.
 */
struct roami_stdin *roami_stdin_fetch(unsigned nodes, unsigned addresses, const uint8_t *key,
				      uint16_t *port_p, _Atomic uint32_t *aside);

#endif
