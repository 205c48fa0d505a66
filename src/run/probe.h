/*
 * What job/hang.c asks and tells between nodes that map nothing of each other: whether anything but
 * waiting threads could act at a node, and what those threads wait for.  The counts of messages
 * leave these messages out.
 */
#ifndef ROAMI_PROBE_H
#define ROAMI_PROBE_H

#include "base/node.h"

#define ROAMI_PROBED_MAX 16384u /* bytes of an answer */

/* Threads of a node that wait for one thing. */
struct roami_wait_group {
	uint64_t id;
	uint32_t kind;
	uint32_t of;
	uint32_t threads;
	uint32_t seen; /* the oldest of the threads' */
	uint64_t label[ROAMI_LABEL_WORDS];
};

#define ROAMI_WAIT_GROUPS 256u

/* A node's groups, by their first threads; *waiting_p: all waiting threads, also ungrouped ones. */
unsigned roami_wait_groups(const struct roami_ctl *ctl, struct roami_wait_group *groups,
			   unsigned *waiting_p);

/* Stores groups in the copy of another node's control page.  False: they are malformed. */
bool roami_wait_groups_take(struct roami_ctl *far, const void *groups, size_t bytes);

/*
 * Asks `to`, whose answer comes to its copy of the control page here, with `token` as its `probe`
 * then.
 */
void roami_probe_ask(struct roami_node *node, unsigned to, uint32_t token);

/*
 * Tells node 0 the numbers of SIGQUITs that have come here, and whether it is asked to say what all
 * wait for by a signal without one.
 */
void roami_probe_pass(struct roami_node *node, bool asks);

/* Notes a number of a SIGQUIT, or those of another node.  Async-signal-safe. */
void roami_probe_quit(struct roami_ctl *ctl, enum roami_quit quit, uint32_t number);
void roami_probe_quits(struct roami_ctl *ctl, const struct roami_ctl *from);

/* Answers with what this node's own control page says now. */
void roami_probe_tell(struct roami_node *node, unsigned to, uint32_t token);

/* Forgets what a node waits for, whose answer came here. */
void roami_probe_forget(struct roami_ctl *far);

#endif
