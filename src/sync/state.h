/* The fields of a node's control page that its peers look at, there or in their copies of it. */
#ifndef ROAMI_STATE_H
#define ROAMI_STATE_H

#include "base/node.h"

/* Fields of a control page that peers look at. */
enum roami_state {
	ROAMI_STATE_THREADS,    /* registered threads; the value is added */
	ROAMI_STATE_RETURNED,   /* ctl->returned */
	ROAMI_STATE_ALLOC_HASH, /* ctl->alloc_hash */
	ROAMI_STATE_JOINED,     /* ctl->joined */
	ROAMI_STATES
};

/*
 * Changes a field of this node's control page, and of the copies that its peers keep.  A peer sees
 * the change once it has synchronised with this node.  `at_once`: all peers see it when this
 * returns (app, may block).
 */
void roami_state_set(struct roami_node *node, enum roami_state state, uint64_t value, bool at_once);

/* Tells node 0 the sums of this node's counters, which are final. */
void roami_state_stats(struct roami_node *node);

#endif
