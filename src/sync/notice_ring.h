/*
 * Write notices on one host.  Every node keeps its own newest ones in a ring in its segment, where
 * the others read them; so the legs of a sync carry clocks only, and no other CPU is needed to
 * answer.  Notices overwritten meanwhile are asked for by message, see log.c.
 */
#ifndef ROAMI_NOTICE_RING_H
#define ROAMI_NOTICE_RING_H

#include "base/node.h"

struct roami_run;

/* Appends a run of this node's; the log's lock is held, intervals ascend. */
void roami_notice_ring_add(struct roami_node *node, const struct roami_run *run);

/*
 * Adds the notices of `writer` beyond interval `since`, up to `upto`, to apply_work.  Returns
 * false, and adds nothing, if some are overwritten.  The caller has learned `upto` after `writer`
 * had published them.
 */
bool roami_notice_ring_read(struct roami_node *node, unsigned writer, uint64_t since,
			    uint64_t upto);

#endif
