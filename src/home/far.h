/*
 * Operations on other nodes' memory besides pages, however they are reached (home/reach.h): the
 * heap pool at node 0, and the directory words of placed pages.
 */
#ifndef ROAMI_FAR_H
#define ROAMI_FAR_H

#include "base/node.h"
#include "msg/msg.h"

/* Messages of the room. */
enum { ROAMI_HEAP_PARTS_ASK, ROAMI_HEAP_PARTS_PLACE };

struct roami_parts_ask {
	uint32_t what;
	uint32_t region;
	uint32_t first;
	uint32_t parts;
	uint32_t flag; /* a block; used */
	uint32_t spare;
	uint64_t interval;
};

struct roami_parts_answer {
	uint32_t done;
	uint32_t first;
	uint32_t used;
	uint32_t state; /* of one part, looked at */
	uint32_t node;
	uint32_t spare;
	uint64_t interval;
};

/*
 * Does what `by` asks in node 0's segment, which is mapped.  `clock`: that of the node that takes
 * parts.
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
 * ---- placement: untouched pages get homes.  `home` for ROAM_PLACE_NODE.  `option`, as in struct
 * roami_header, holds at all nodes, for touched pages too.
 */
struct roami_placement {
	uint32_t page;
	uint32_t pages;
	uint32_t place; /* enum roam_place */
	uint32_t home;
	uint64_t option;
};

/* Stores the placement's option in the segment `there`. */
void roami_placement_option(const struct roami_segment *there, const struct roami_placement *place);

/* roami_placement_option, and stores the homes of the pages whose directory words `manager` has. */
void roami_placement_words(const struct roami_segment *there, unsigned manager, unsigned nodes,
			   const struct roami_placement *place);

/* Applies a placement at all nodes.  app, may block. */
void roami_placement_all(struct roami_node *node, const struct roami_placement *place);

/* Whether this node knows an option of any of the pages. */
bool roami_placement_has_option(struct roami_node *node, const struct roami_placement *place);

#endif
