/*
 * Pages that peers read by one-sided operations, past this node's processors (rules 12): what a
 * home keeps of its readers, and a reader of what it may read.
 */
#ifndef ROAMI_CARD_H
#define ROAMI_CARD_H

#include "base/node.h"

struct roami_card {
	/* As a reader: pages that this node has announced itself for, a bit each. */
	_Atomic uint64_t *announced;
	/* As a home: the readers of each page, bits; under the page lock. */
	uint64_t *readers;
	/* Of each page that has readers: releases that had to close it since the first of them. */
	uint8_t *writes;
	uint8_t writes_max; /* then they are revoked */
};

static inline struct roami_card *card_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_CARD].state;
}

/*
 * A release finds that its own page has readers.  false: the page is to be closed.  true: they have
 * been revoked.  app, may block.
 */
bool roami_card_revoked(struct roami_node *node, uint32_t page);

/* Operations of the reach `card`. */
struct roami_fetches;
struct roami_reach;
void roami_card_fetch_begin(struct roami_node *node, const struct roami_reach *reach,
			    struct roami_fetches *fetches);
void roami_card_fetch(struct roami_node *node, const struct roami_reach *reach,
		      struct roami_fetches *fetches);

#endif
