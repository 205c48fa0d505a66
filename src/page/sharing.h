/*
 * ROAM_CHECK=sharing: which pages several nodes write, each its own bytes; and, with ROAM_SHARING,
 * for every page that was used which nodes wrote which of its bytes, and how often each of them
 * faulted on it and fetched it, in files for `roam doctor --sharing`.  Of pages under protocols
 * that declare checks_races, whose homes see all diffs.
 */
#ifndef ROAMI_SHARING_H
#define ROAMI_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/node.h"

/* A thread of this node has faulted on the page, which it has fetched.  Async-signal-safe. */
void roami_sharing_fault_now(struct roami_node *node, uint32_t page, bool write);
void roami_sharing_fetched_now(struct roami_node *node, uint32_t page);

static inline bool roami_sharing_wanted(const struct roami_node *node)
{
	return __builtin_expect((node->options->check & ROAMI_CHECK_SHARING) != 0, 0);
}

static inline void roami_sharing_fault(struct roami_node *node, uint32_t page, bool write)
{
	if (roami_sharing_wanted(node))
		roami_sharing_fault_now(node, page, write);
}

static inline void roami_sharing_fetched(struct roami_node *node, uint32_t page)
{
	if (roami_sharing_wanted(node))
		roami_sharing_fetched_now(node, page);
}

/*
 * A checked diff has reached this home; `handed`: it has bytes that another node had written.
 * Under the page lock.
 */
void roami_sharing_wrote(struct roami_node *node, uint32_t page, unsigned writer,
			 const uint8_t *diff, bool handed);

/* All nodes have met at the end: writes this node's file, if one was asked for. */
void roami_sharing_end(struct roami_node *node);

#endif
