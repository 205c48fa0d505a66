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

/*
 * The interval to which a free by this node belongs; its next release ends it.  0: no node has to
 * acquire it.  app, may block.
 */
uint64_t roami_free_interval(struct roami_node *node, uint64_t offset);

/*
 * The first step of a free: takes away the mark that a block of `owner` begins here (base/marks.h).
 * Returns false if none does.  app, may block.
 */
bool roami_block_take(struct roami_node *node, unsigned owner, uint64_t offset);

/*
 * Takes over the marks (base/marks.h) of another host's node in the pages [first, end), which
 * belong to that node.  At the end of the job, while that node serves.  app, may block.
 */
void roami_marks_fetch(struct roami_node *node, unsigned from, uint32_t first, uint32_t end);

/*
 * The second step: tells `owner` that this node has freed the block.  The free travels with this
 * node's next release.
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
