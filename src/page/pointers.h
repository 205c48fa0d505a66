/*
 * ROAM_CHECK=pointers: words that a node stores into shared memory and that point into its private
 * heap or a stack of it, which other nodes do not have.  Whatever is found in diffs, so under the
 * protocols that declare checks_races.  Names of blocks and code are those of page/race.h.
 *
 * What is private the kernel tells: the heap, the stack, and other memory of the process alone
 * that is no file's, as of the last look, at most once a millisecond.
 */
#ifndef ROAMI_POINTERS_H
#define ROAMI_POINTERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/node.h"

/*
 * This node's encoded diff of a page, whose bytes have just been compared.  Under the page lock or
 * while the page is pending.  Async-signal-safe.
 */
void roami_pointers_look_now(struct roami_node *node, uint32_t page, const uint8_t *diff,
			     size_t bytes);

static inline void roami_pointers_look(struct roami_node *node, uint32_t page, const uint8_t *diff,
				       size_t bytes)
{
	if (__builtin_expect((node->options->check & ROAMI_CHECK_POINTERS) != 0, 0) && bytes > 0)
		roami_pointers_look_now(node, page, diff, bytes);
}

/* Prints the result of the check. */
void roami_pointers_verdict(uint64_t found, int fd);

#endif
