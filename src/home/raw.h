/*
 * Reading the bytes of pages at peers reached by messages, whatever their headers say.  app, may
 * block.
 */
#ifndef ROAMI_RAW_H
#define ROAMI_RAW_H

#include "base/node.h"
#include "msg/msg.h"

struct roami_raw_head {
	uint64_t page;
	uint64_t spare; /* a fetch's head is as long: messages of equal length leave together */
};

/*
 * roami_raw_ask asks far nodes for the bytes of pages, whatever their headers say;
 * roami_raw_answer awaits one answer.  The caller has set `to`, `what` (the page's number) and
 * `page` of each of `asks`; `heads` has as many entries.
 */
void roami_raw_ask(struct roami_node *node, struct roami_query *asks, struct roami_raw_head *heads,
		   unsigned count);
void roami_raw_answer(struct roami_node *node, struct roami_query *ask);

/* Pages asked for at a time; the next ones are asked for while these arrive. */
#define ROAMI_RAW_AT_ONCE (ROAMI_CALLS_AT_ONCE / 2)

struct roami_raw_part {
	unsigned slot; /* where its pages land */
	uint32_t count;
	struct roami_query asks[ROAMI_RAW_AT_ONCE];
	struct roami_raw_head heads[ROAMI_RAW_AT_ONCE];
};

struct roami_raw {
	struct roami_raw_part parts[2];
	unsigned turn; /* the part that is being filled */
};

/* Copies the bytes of pages at far nodes to this node's runtime view; all are there at the end. */
void roami_raw_begin(struct roami_raw *raw);
void roami_raw_add(struct roami_node *node, struct roami_raw *raw, unsigned from, uint32_t page);
void roami_raw_end(struct roami_node *node, struct roami_raw *raw);

#endif
