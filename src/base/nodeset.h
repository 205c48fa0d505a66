/*
 * A set of nodes: one bit each. Plain data: no locking, callers that share one guard it.
 */
#ifndef ROAMI_NODESET_H
#define ROAMI_NODESET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most nodes a job may have; they are numbered from 0. */
#define ROAMI_NODES_MAX 64

struct roami_nodeset {
	uint64_t bits; /* bit i: node i is a member */
};

_Static_assert(sizeof(struct roami_nodeset) * 8 == ROAMI_NODES_MAX, "one bit for each node");

static inline uint64_t roami_nodeset_bit(unsigned node)
{
	assert(node < ROAMI_NODES_MAX);
	return UINT64_C(1) << node;
}

static inline void roami_nodeset_add(struct roami_nodeset *set, unsigned node)
{
	set->bits |= roami_nodeset_bit(node);
}

static inline void roami_nodeset_remove(struct roami_nodeset *set, unsigned node)
{
	set->bits &= ~roami_nodeset_bit(node);
}

static inline bool roami_nodeset_has(struct roami_nodeset set, unsigned node)
{
	return (set.bits & roami_nodeset_bit(node)) != 0;
}

static inline unsigned roami_nodeset_count(struct roami_nodeset set)
{
	return (unsigned)__builtin_popcountll(set.bits);
}

static inline bool roami_nodeset_empty(struct roami_nodeset set)
{
	return set.bits == 0;
}

/* The nodes 0 .. nodes - 1; nodes may be ROAMI_NODES_MAX. */
static inline struct roami_nodeset roami_nodeset_first(unsigned nodes)
{
	assert(nodes <= ROAMI_NODES_MAX);
	return (struct roami_nodeset){nodes == ROAMI_NODES_MAX ? UINT64_MAX
							       : (UINT64_C(1) << nodes) - 1};
}

/* The lowest member from `node` on, or ROAMI_NODES_MAX; node may be ROAMI_NODES_MAX. */
static inline unsigned roami_nodeset_next(struct roami_nodeset set, unsigned node)
{
	uint64_t rest;

	assert(node <= ROAMI_NODES_MAX);
	if (node == ROAMI_NODES_MAX)
		return ROAMI_NODES_MAX;
	rest = set.bits & (UINT64_MAX << node);
	return rest == 0 ? ROAMI_NODES_MAX : (unsigned)__builtin_ctzll(rest);
}

/*
 * Runs the statement for each member in ascending order; `node` is an unsigned of the caller. The
 * set is looked at anew each time: members may be removed in the loop.
 */
#define ROAMI_NODESET_EACH(node, set)                                         \
	for ((node) = roami_nodeset_next((set), 0); (node) < ROAMI_NODES_MAX; \
	     (node) = roami_nodeset_next((set), (node) + 1))

/* Enough for any set: at worst 22 runs of two nodes, each "dd-dd" and a comma or the end. */
#define ROAMI_NODESET_TEXT_MAX 132

/*
 * Writes the set for a reader, "0-3,7", or "none", to a buffer of ROAMI_NODESET_TEXT_MAX bytes,
 * which it returns. Async-signal-safe: it is for the last words of a node that cannot go on.
 */
const char *roami_nodeset_text(struct roami_nodeset set, char text[ROAMI_NODESET_TEXT_MAX]);

#endif
