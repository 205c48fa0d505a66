/*
 * ROAM_CHECK=sharing: finds pages that several nodes write, each its own bytes.  With ROAM_SHARING
 * each node also writes a file for `roam doctor --sharing`: which nodes wrote which bytes of each
 * page, and how often the node faulted on the page and fetched it.  Only for pages under protocols
 * that declare checks_races, whose homes see all diffs.
 */
#ifndef ROAMI_SHARING_H
#define ROAMI_SHARING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/node.h"

/* Count a fault of this node's on the page, and a fetch.  Async-signal-safe. */
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
 * Notes a checked diff that has reached this home; `handed`: it changes bytes that another node had
 * written.  Under the page lock.
 */
void roami_sharing_wrote(struct roami_node *node, uint32_t page, unsigned writer,
			 const uint8_t *diff, bool handed);

/* At the end, when all nodes have met: writes this node's file if ROAM_SHARING asks for one. */
void roami_sharing_end(struct roami_node *node);

#endif
