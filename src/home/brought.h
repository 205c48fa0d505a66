/*
 * Diffs that a card writes into pages at their homes, past the homes' processors (rules 12.6,
 * 12.7).
 *
 * Changed bytes of several pages of one home go in one put (roam/transport.h); its message names
 * the pages, and the home's handler counts a diff for each and answers with the versions, as it
 * does for diffs that come by message.  So nothing else changes: the writer's notices leave after
 * the answer (rule 6.1).
 */
#ifndef ROAMI_BROUGHT_H
#define ROAMI_BROUGHT_H

#include "base/node.h"
#include "msg/msg.h"
#include "roam/transport.h"

#define ROAMI_BROUGHT_PUTS  16u
#define ROAMI_BROUGHT_BYTES 3072u

/* A put that is being gathered. */
struct roami_brought {
	unsigned home;
	unsigned pages, puts;
	size_t bytes;
	uint32_t page[ROAMI_BROUGHT_PUTS];
	struct roam_put put[ROAMI_BROUGHT_PUTS];
	uint8_t data[ROAMI_BROUGHT_BYTES];
};

/* Whether diffs of the current region may go to this home so. */
bool roami_brought_may(struct roami_node *node, unsigned home);

enum roami_brought_add { ROAMI_BROUGHT_ADDED, ROAMI_BROUGHT_FULL, ROAMI_BROUGHT_NOT };

/* Adds a page's encoded diff.  FULL: to the next one.  NOT: it has too many stretches. */
enum roami_brought_add roami_brought_add(struct roami_node *node, struct roami_brought *brought,
				       uint32_t page, const uint8_t *diff, size_t bytes);

/*
 * Begins the put; the answer has the versions of its pages, in their order.  NULL: the card has no
 * room or no key, and nothing has begun.
 */
struct roami_call *roami_brought_start(struct roami_node *node, const struct roami_brought *brought,
				      uint64_t *versions);

/* At the home: the message of a put. */
void roami_brought_handle(struct roami_node *node, const struct roam_request *request);

#endif
