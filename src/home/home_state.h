/* The home room's state; internal to src/home, except for what tests change. */
#ifndef ROAMI_HOME_STATE_H
#define ROAMI_HOME_STATE_H

#include "base/node.h"
#include "home/placement.h"

#define ROAMI_REACHES 3 /* kinds that a node has at most: see home/reach.h */

struct roami_home {
	const struct roami_reach *reaches[ROAMI_REACHES + 1]; /* the kinds in use, then NULL */
	bool near_all; /* every node of the job reaches every other by loads and stores */
	/*
	 * Where the versions and epochs of pages begin: 0, but tests begin just below their limits.
	 */
	uint64_t version_begin;
	uint32_t epoch_begin;
	_Atomic uint32_t shared_left; /* pages in the regions' lists of newly shared pages */
	bool posts_on;       /* peers read what this node leaves for them (posts.c) */
	uint64_t posts_head; /* words left so */
	struct roami_spin share_lock[ROAMI_NODES_MAX]; /* held to append to peers' shared lists */
	/* How many entries of each list of newly shared pages were taken. */
	_Atomic uint64_t share_head[ROAMI_NODES_MAX];
	/* Blocks of which far managers are yet to be told: `home` is the manager. */
	struct roami_spin untold_lock;
	_Atomic uint32_t untold_count;
	struct roami_placement untold[ROAMI_UNTOLD_MAX];
};

static inline struct roami_home *home_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_REACH].state;
}

#endif
