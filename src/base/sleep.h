/*
 * How threads of a node wait for one another, and are woken: one object, part of the node's
 * surroundings (env->sleep).  Real threads spin, yield and sleep (run/wait.c); in a simulated
 * world other fibers run (tests/lib/world.c).
 */
#ifndef ROAMI_SLEEP_H
#define ROAMI_SLEEP_H

#include <stdbool.h>
#include <stdint.h>

struct roami_node;

#define ROAMI_NO_TICKET UINT64_MAX
#define ROAMI_FOREVER   UINT64_MAX

struct roami_sleep {
	/*
	 * Waits until condition(arg), and polls meanwhile.  With a ticket the thread is one of many
	 * that go on one after the other: only `changed` with its own ticket need wake it.  app.
	 */
	void (*wait)(struct roami_node *node, uint64_t ticket, bool (*condition)(void *arg),
		     void *arg);
	/*
	 * The conditions that the calling thread waits for from now on may hold at this time, of
	 * env->now, though nothing changes: it looks then.  ROAMI_FOREVER: no more.  app.
	 */
	void (*until)(struct roami_node *node, uint64_t when);
	/*
	 * Something has changed that threads of `peer` (this node, or another one of its host) may
	 * wait for.  With a ticket, where `peer` is this node: the thread that has it may go on.
	 */
	void (*changed)(struct roami_node *node, unsigned peer, uint64_t ticket);
	/* A message for `peer` was sent; `answer`: to a call, whose caller waits there. */
	void (*sent)(struct roami_node *node, unsigned peer, bool answer);
	/*
	 * Between `begin` and `end` the thread sends requests and waits for the answers.  It counts
	 * as polling: while it runs, no other thread need be woken for what arrives.  It executes
	 * none of the program's code meanwhile.  `later`: it counts only from its first wait on, or
	 * from its second message, if that is earlier.  A release begins it in roami_release and
	 * ends it in roami_release_rest.  app.
	 */
	void (*begin)(struct roami_node *node, bool later);
	void (*end)(struct roami_node *node);
};

#endif
