/*
 * Jobs that hang.  A thread of each node sleeps until it is asked; node 0's looks once a second
 * whether the nodes still synchronise, and says what they wait for: at SIGQUIT, after ROAM_HANG
 * seconds, or, if no thread of the job can ever go on, as the reason why it ends.
 */
#ifndef ROAMI_HANG_H
#define ROAMI_HANG_H

#include <pthread.h>

#include "run/wait.h"

struct roami_hang {
	struct roami_node *node;
	struct roami_real *real;
	pthread_t thread;
	bool runs;
	bool apart; /* some nodes are far */
	_Atomic uint32_t stop;
	/* This node's last look at all: */
	uint32_t asked[ROAMI_NODES_MAX];  /* what each node's answer is known by */
	uint32_t looked[ROAMI_NODES_MAX]; /* the serials of these answers */
	uint32_t answered; /* and the serial of the last answer of its own */
	/* How long nothing has changed, and what that is the sum of: here, and on other hosts. */
	uint64_t still_since;
	uint64_t turns;
	uint64_t far_turns;
	bool far_noted;
	bool told; /* ROAM_HANG: that it does not */
	uint64_t told_at;       /* the last report by a signal began */
	bool where;             /* the report under way is for `roam where` */
	uint32_t skip, skipped; /* ticks without a probe: left, and the last time */
	/* A probe under way: what it found first. */
	bool probing;
	uint64_t probed_turns;
	uint64_t sent, received;
};

/* The node is open, its service thread runs. */
void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real);
void roami_hang_stop(struct roami_hang *hang);

/* Where a thread of this process is, which runs; NULL: not known. */
const void *roami_hang_sample(pid_t tid);

/* ---- look.c: what the nodes say of themselves */

/* Of this host, as this node looks at it; NULL: it has none. */
struct roami_ctl *roami_look_near(const struct roami_node *node, unsigned peer);

/* There is something for the thread of that node of this host. */
void roami_look_at(struct roami_ctl *ctl);

/* Asks all nodes; false: one has not answered in time. */
bool roami_look_all(struct roami_hang *hang);
bool roami_look_answered(const struct roami_hang *hang, unsigned peer);

/* What is known of other hosts' nodes is stale from now on. */
void roami_look_forget(struct roami_hang *hang);

/* Answers the nodes that have asked this one. */
void roami_look_answer(struct roami_hang *hang);

/* Threads of the node that wait for other threads of the job, and for nothing else. */
unsigned roami_look_waiting(const struct roami_ctl *ctl);

#endif
