/*
 * What nodes do to one another's memory besides pages, however that is reached (home/reach.h): the
 * state of a node that its peers look at, the pool of the heap at node 0, the words of pages that
 * are placed.
 */
#ifndef ROAMI_FAR_H
#define ROAMI_FAR_H

#include "base/node.h"
#include "msg/msg.h"

/* Fields of a control page that peers look at. */
enum roami_state {
	ROAMI_STATE_THREADS,    /* registered threads; the value is added */
	ROAMI_STATE_RETURNED,   /* ctl->returned */
	ROAMI_STATE_ALLOC_HASH, /* ctl->alloc_hash */
	ROAMI_STATE_JOINED,     /* ctl->joined */
	ROAMI_STATES
};

/*
 * Changes a field of this node's, and of the copies that its peers keep.  Peers that look after a
 * synchronisation with this node see it; `at_once`: also those that looked at anything else of this
 * node's since (app, may block).
 */
void roami_state_set(struct roami_node *node, enum roami_state state, uint64_t value, bool at_once);

/* Tells node 0 the sums of this node's counters, which are final. */
void roami_state_stats(struct roami_node *node);

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

/* ---- the pool (heap/parts.h) of a domain, with its lock.  app, may block. */
struct roami_pool_part roami_parts_look(struct roami_node *node, unsigned domain, uint32_t part);
bool roami_parts_take(struct roami_node *node, unsigned domain, uint32_t parts, bool block,
		      uint32_t *first_p, bool *used_p);
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

/* ---- many pages at once.  app, may block. */
#define ROAMI_WORDS_MAX 512u /* pages in a row with one manager */

struct roami_words_ask {
	uint32_t first;
	uint32_t count;
};

/* The directory words of `count` pages, which have one manager. */
void roami_words_read(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words);

struct roami_raw_head {
	uint64_t page;
	uint64_t spare; /* as long as a fetch's: pages that are as long leave in long runs */
};

/*
 * Asks a far node for the bytes of pages, whatever their headers say, and takes one answer; `asks`
 * have `to`, `what`: the number, and `page`.  Of `heads` there are as many.
 */
void roami_raw_ask(struct roami_node *node, struct roami_query *asks, struct roami_raw_head *heads,
		   unsigned count);
void roami_raw_answer(struct roami_node *node, struct roami_query *ask);
void roami_raw_handle(struct roami_node *node, const struct roam_request *request);

/* Pages that are asked for at a time; the next ones are while they come. */
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

/* ---- handlers, for the tables in sync.c and remote.c */
void roami_state_handle(struct roami_node *node, const struct roam_request *request);
void roami_stats_handle(struct roami_node *node, const struct roam_request *request);
void roami_parts_handle(struct roami_node *node, const struct roam_request *request);
void roami_words_handle(struct roami_node *node, const struct roam_request *request);
void roami_place_handle(struct roami_node *node, const struct roam_request *request);

#endif
