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
 * then; or, with token 0, makes node 0 say what all wait for.
 */
void roami_probe_ask(struct roami_node *node, unsigned to, uint32_t token);

/* Answers with what this node's own control page says now. */
void roami_probe_tell(struct roami_node *node, unsigned to, uint32_t token);

/* Messages sent and received without these.  By the thread that asks and tells, under poll_lock. */
void roami_probe_count(struct roami_node *node, uint64_t *sent_p, uint64_t *received_p);

/* Forgets what a node waits for, whose answer came here. */
void roami_probe_forget(struct roami_ctl *far);

#endif
