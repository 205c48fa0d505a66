/* Blocks that other nodes have freed: when their owner may use them again (rule 3.2). */
#ifndef ROAMI_FREES_H
#define ROAMI_FREES_H

#include "base/node.h"

/*
 * A block freed by another node; reusable once the clock of roami_log_reuse_clock covers
 * the freer's interval (rule 3.2).
 */
struct roami_remote_free {
	uint64_t offset;
	uint64_t interval;
	uint32_t freer;
	uint32_t spare;
};

/* The interval of a free by this node, which ends at its next release.  app, may block. */
uint64_t roami_free_interval(struct roami_node *node);

/*
 * Takes the beginning of a block of `owner` away (base/marks.h), which every node that frees one
 * does first; false: none begins there.  app, may block.
 */
bool roami_block_take(struct roami_node *node, unsigned owner, uint64_t offset);

/*
 * Tells `owner` that this node freed its block, whose beginning it has taken away; the free travels
 * with this node's next release.
 */
void roami_remote_free_send(struct roami_node *node, unsigned owner, uint64_t offset);

/*
 * Calls give(arg, block) for every block freed by another node whose free this node has acquired:
 * it may be used again.  app.
 */
void roami_remote_free_drain(struct roami_node *node,
			     void (*give)(void *arg, const struct roami_remote_free *block),
			     void *arg);

#endif
