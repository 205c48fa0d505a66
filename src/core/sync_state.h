/* The objects of the synchronisation layer; internal to src/core. */
#ifndef ROAMI_SYNC_STATE_H
#define ROAMI_SYNC_STATE_H

#include "core/node.h"

/*
 * A lock's token travels from node to node.  Home part: `tail` is the last node that asked.  Every
 * node: whether the token is here, who of the own threads is next (tickets), and which node asked
 * after them.
 */
struct roami_lock {
	uint64_t id;
	struct roami_spin spin;
	uint16_t tail;                  /* at the home */
	uint16_t next;                  /* the node to grant to; ROAM_NOBODY */
	bool announced;                 /* roam_lock_init was called; kept over a reset */
	bool token;                     /* the token is here */
	bool asked;                     /* we asked for it */
	bool fresh;                     /* granted, and the acquire is still to be done */
	bool refused;                   /* the home does not know the lock */
	uint32_t tickets;               /* given to own threads */
	_Atomic uint32_t serving;       /* the ticket that holds or may hold next */
	uint32_t next_after;            /* tickets before it go before `next` */
	uint32_t holder;                /* thread + 1; 0: free */
	struct roami_vclock next_clock; /* what `next` has applied */
};

/*
 * Barriers gather along a tree and depart along it.  A full barrier counts nodes: the last thread
 * of a node arrives for it.  A partial one counts threads, at node 0.
 */
struct roami_barrier {
	uint64_t id;
	struct roami_spin spin;
	uint32_t arrived; /* own threads in this episode */
	uint32_t children; /* arrivals of child nodes */
	bool self;        /* own threads are all here, and released */
	_Atomic uint32_t departed;  /* departures received */
	_Atomic uint32_t episode;   /* departures that the node's threads may see */
	struct roami_vclock merged; /* what the arrived know together */
	struct roami_vclock floor;  /* what each of the arrived has applied */
	/*
	 * The same two of the whole job.  Apart: the next episode's first arrivals may come before
	 * we are through with this one.
	 */
	struct roami_vclock depart_floor;
	struct roami_vclock depart_seen;
	struct roami_vclock child_floor[ROAMI_NODES_MAX]; /* by node number */
	struct roami_vec waiting; /* threads in a partial barrier, at node 0 */
	uint32_t values;          /* of a reduction */
	uint32_t type;
	uint32_t op;
	uint64_t own[ROAM_REDUCE_MAX]; /* this node's, then the result */
	uint64_t gathered[ROAMI_NODES_MAX][ROAM_REDUCE_MAX];
};

struct roami_waiter {
	uint16_t node;
	uint16_t spare;
	uint32_t slot; /* of the waiting thread */
	uint32_t turn; /* its count of waits */
};

struct roami_cond {
	uint64_t id;
	struct roami_spin spin;
	bool announced;
	struct roami_vec waiters; /* struct roami_waiter, first come first */
};

struct roami_flag {
	uint64_t id;
	struct roami_spin spin;
	bool set;
	struct roami_vec waiters; /* struct roam_request with its clock: struct flag_waiter */
};

struct roami_sync_state {
	struct roami_table locks;
	struct roami_table barriers;
	struct roami_table conds;
	struct roami_table flags;
	_Atomic uint32_t cond_turn[ROAMI_THREADS_MAX]; /* waits begun */
	_Atomic uint32_t cond_done[ROAMI_THREADS_MAX]; /* waits ended by a signal */
};

/* Set a zeroed or used object to its first state. */
void roami_lock_make(struct roami_node *node, void *item);
void roami_barrier_make(struct roami_node *node, void *item);
void roami_cond_make(struct roami_node *node, void *item);
void roami_flag_make(struct roami_node *node, void *item);

#endif
