/*
 * What nodes do to one another's memory besides pages, however that is reached (home/reach.h): the
 * pool of the heap at node 0, the words of pages that are placed.
 */
#ifndef ROAMI_FAR_H
#define ROAMI_FAR_H

#include "base/node.h"
#include "msg/msg.h"

/* Messages of the room. */
enum { ROAMI_POOL_ASK, ROAMI_POOL_PLACE };

struct roami_parts_ask {
	uint32_t what;
	uint32_t domain;
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

/* Does it for node `by` in node 0's segment, which is mapped.  `clock`: of who takes parts. */
void roami_parts_apply(struct roami_node *node, unsigned by, const struct roami_parts_ask *ask,
		       const struct roami_vclock *clock, struct roami_parts_answer *answer);

/* ---- the pool (base/parts.h) of a domain, with its lock.  app, may block. */
struct roami_pool_part roami_parts_look(struct roami_node *node, unsigned domain, uint32_t part);
/* `clock`: that of roami_log_reuse_clock; only parts whose frees it covers are taken. */
bool roami_parts_take(struct roami_node *node, unsigned domain, uint32_t parts, bool block,
		      const struct roami_vclock *clock, uint32_t *first_p, bool *used_p);
void roami_parts_put(struct roami_node *node, unsigned domain, uint32_t first, uint32_t parts,
		     bool used, uint64_t interval);
bool roami_parts_free(struct roami_node *node, unsigned domain, uint32_t first, uint64_t interval);

/*
 * ---- places: pages that nobody has touched get homes.  `home` for ROAM_PLACE_NODE.  And what
 * holds for them, touched or not, at all nodes: `option`, as in struct roami_header.
 */
struct roami_place {
	uint32_t page;
	uint32_t pages;
	uint32_t place; /* enum roam_place */
	uint32_t home;
	uint64_t option;
};

/* Tells the node whose segment `there` is of the place's option. */
void roami_place_option(const struct roami_segment *there, const struct roami_place *place);

/* The same, and of those pages whose words `manager` of `nodes` has, the homes. */
void roami_place_words(const struct roami_segment *there, unsigned manager, unsigned nodes,
		       const struct roami_place *place);

/* All of them, on the nodes that manage them.  app, may block. */
void roami_place_all(struct roami_node *node, const struct roami_place *place);

/* Whether this node knows an option for any page of the place. */
bool roami_place_has_option(struct roami_node *node, const struct roami_place *place);

#endif
