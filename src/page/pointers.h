/*
 * ROAM_CHECK=pointers: finds words that a node stores into shared memory and that point into its
 * private heap or one of its stacks, which other nodes do not have.  It looks at diffs, so it works
 * under the protocols that declare checks_races.  Names of blocks and code are those of
 * page/race.h.
 *
 * The kernel's list of mappings says what is private: the heap, the stack, and other private memory
 * that is not a file's.  The list is read at most once a millisecond.
 */
#ifndef ROAMI_POINTERS_H
#define ROAMI_POINTERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/node.h"

/*
 * Looks at this node's encoded diff of a page, whose bytes have just been compared.  Under the page
 * lock or while the page is pending.  Async-signal-safe.
 */
void roami_pointers_look_now(struct roami_node *node, uint32_t page, const uint8_t *diff,
			     size_t bytes);

static inline void roami_pointers_look(struct roami_node *node, uint32_t page, const uint8_t *diff,
				       size_t bytes)
{
	if (__builtin_expect((node->options->check & ROAMI_CHECK_POINTERS) != 0, 0) && bytes > 0)
		roami_pointers_look_now(node, page, diff, bytes);
}

#endif
