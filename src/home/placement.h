/*
 * The pool of parts of the heap, which node 0 has, and pages that are placed: calls for whichever
 * node has them, near or far (home/reach.h).
 */
#ifndef ROAMI_PLACEMENT_H
#define ROAMI_PLACEMENT_H

#include "base/node.h"
#include "msg/msg.h"

/* Messages of the room. */
enum { ROAMI_HEAP_PARTS_ASK, ROAMI_HEAP_PARTS_PLACE, ROAMI_HEAP_PARTS_BEGIN };

struct roami_parts_ask {
	uint32_t what;
	uint32_t region;
	uint32_t first;
	uint32_t parts;
	uint32_t flag; /* a block; used */
	uint32_t spare;
	uint64_t interval; /* or roots */
};

struct roami_parts_answer {
	uint32_t done;
	uint32_t first;
	uint32_t used;
	uint32_t state; /* of one part, looked at */
	uint32_t node;
	uint32_t spare;
	uint64_t interval; /* or roots */
};

/*
 * Does what node `by` asks of the pool, in node 0's segment, which is mapped.  `clock`: the clock
 * of `by` where it takes parts.
 */
void roami_parts_apply(struct roami_node *node, unsigned by, const struct roami_parts_ask *ask,
		       const struct roami_vclock *clock, struct roami_parts_answer *answer);

/* ---- the pool (base/parts.h) of a region, with its lock.  app, may block. */
struct roami_heap_part roami_parts_look(struct roami_node *node, unsigned region, uint32_t part);
/* `clock`: from roami_log_reuse_clock; only parts whose frees it covers are taken. */
bool roami_parts_take(struct roami_node *node, unsigned region, uint32_t parts, bool block,
		      const struct roami_vclock *clock, uint32_t *first_p, bool *used_p);
void roami_parts_put(struct roami_node *node, unsigned region, uint32_t first, uint32_t parts,
		     bool used, uint64_t interval);
bool roami_parts_free(struct roami_node *node, unsigned region, uint32_t first, uint64_t interval);

/*
 * The heap offset of the table of roots (api/root.c); 0: there is none.  `set`, if it is not 0, is
 * noted first.  app, may block.
 */
uint64_t roami_parts_roots(struct roami_node *node, uint64_t set);

/* ---- placement: untouched pages get homes. */
struct roami_placement {
	uint32_t page;
	uint32_t pages;
	uint32_t policy; /* enum roam_place */
	uint32_t home;   /* of ROAM_PLACE_NODE */
	uint64_t option; /* see struct roami_header: for touched pages too, at all nodes */
};

/* Stores the placement's option in the segment `there`. */
void roami_placement_option(const struct roami_segment *there, const struct roami_placement *place);

/* Also stores the homes of the pages whose directory words `manager` has; `heap`: its pages. */
void roami_placement_words(const struct roami_segment *there, uint32_t heap, unsigned manager,
			   unsigned nodes, const struct roami_placement *place);

#define ROAMI_UNTOLD_MAX 16u

/*
 * A far manager is to know of a block if it has pages of it, so that runs of claims end there.
 * Short blocks are told of together: when there are ROAMI_UNTOLD_MAX, and before a barrier, behind
 * which most programs let other nodes touch them.  app.
 */
void roami_placement_begins(struct roami_node *node, unsigned manager,
			    const struct roami_placement *place);

/* Tells of all blocks that are yet to be told of. */
void roami_placement_tell(struct roami_node *node);

/* Applies a placement at all nodes.  app, may block. */
void roami_placement_all(struct roami_node *node, const struct roami_placement *place);

/* Whether this node knows an option of any of the pages. */
bool roami_placement_has_option(struct roami_node *node, const struct roami_placement *place);

#endif
