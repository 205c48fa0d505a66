/*
 * Jobs that hang.  Each node has a thread that sleeps until it is asked.  The one of node 0 looks
 * once a second whether the nodes still synchronise, and reports what they wait for: at SIGQUIT,
 * after ROAM_HANG seconds, or, if no thread of the job can ever go on, as the reason why the job
 * ends.
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
	bool apart; /* some nodes are on other hosts */
	_Atomic uint32_t stop;
	/* This node's last look at all: */
	uint32_t asked[ROAMI_NODES_MAX];  /* the number by which an answer to this look is known */
	uint32_t looked[ROAMI_NODES_MAX]; /* the serials of these answers */
	uint32_t answered; /* the serial of this node's last answer */
	/*
	 * Since when nothing has changed, and the sums that show it: of this host, and of the
	 * others.
	 */
	uint64_t still_since;
	uint64_t turns;
	uint64_t far_turns;
	bool far_noted;
	bool told; /* ROAM_HANG has reported this standstill */
	uint64_t told_at;       /* when the last report by a signal began */
	bool where;             /* the report under way is for `roam where` */
	uint32_t skip, skipped; /* ticks without a probe: still to come, and after the last probe */
	/* A probe under way, and what its first look found. */
	bool probing;
	uint64_t probed_turns;
	uint64_t sent, received;
};

/* Starts the node's thread; the node is open and its service thread runs. */
void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real);
void roami_hang_stop(struct roami_hang *hang);

/* Where a running thread of this process is; NULL: not known. */
const void *roami_hang_sample(pid_t tid);

/* ---- look.c: what the nodes say of themselves */

/*
 * The control page of a node on this host, as this node maps it; NULL: the node is on another host.
 */
struct roami_ctl *roami_look_near(const struct roami_node *node, unsigned peer);

/* Wakes that node's thread; the node is on this host. */
void roami_look_at(struct roami_ctl *ctl);

/* Asks all nodes; false: one has not answered in time. */
bool roami_look_all(struct roami_hang *hang);
bool roami_look_answered(const struct roami_hang *hang, unsigned peer);

/* Forgets what is known of other hosts' nodes. */
void roami_look_forget(struct roami_hang *hang);

/* Answers the nodes that have asked this one. */
void roami_look_answer(struct roami_hang *hang);

/* How many threads of the node wait for other threads of the job, and for nothing else. */
unsigned roami_look_waiting(const struct roami_ctl *ctl);

#endif
