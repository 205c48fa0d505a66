/*
 * Jobs that hang.  A thread of each node sleeps until it is asked; that of the first node of a host
 * looks once a second whether its nodes still synchronise, and says what they wait for: at SIGQUIT,
 * after ROAM_HANG seconds, or, if no thread of the job can ever go on, as the reason why it ends.
 */
#ifndef ROAMI_HANG_H
#define ROAMI_HANG_H

#include <pthread.h>

#include "core/wait.h"

struct roami_hang {
	struct roami_node *node;
	struct roami_real *real;
	pthread_t thread;
	bool runs;
	_Atomic uint32_t stop;
	uint32_t serial;   /* of this node's last probe of others */
	uint32_t answered; /* and of the last that it answered */
	/* The first of its host: how long nothing has changed, and what that is the sum of. */
	uint64_t still_since;
	uint64_t turns;
	bool told; /* ROAM_HANG: that it does not */
	uint32_t skip, skipped; /* ticks without a probe: left, and the last time */
	/* A probe under way: what it found first. */
	bool probing;
	uint64_t sent, received;
};

/* The node is open, its service thread runs. */
void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real);
void roami_hang_stop(struct roami_hang *hang);

#endif
