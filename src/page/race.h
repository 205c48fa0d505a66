/*
 * ROAM_CHECK=race: diffs of one byte by two nodes in intervals that nothing orders.  The home of a
 * page keeps, per byte, the node that changed it last and the interval; a diff carries its writer's
 * clock.  Every diff then travels as a message, and homes make twins of their own pages too:
 * slower, and nothing else changes.
 */
#ifndef ROAMI_RACE_H
#define ROAMI_RACE_H

#include "base/node.h"

static inline bool roami_race_checked(const struct roami_node *node)
{
	return (node->options->check & ROAMI_CHECK_RACE) != 0 && node->protocol->checks_races;
}

struct roami_races {
	uint64_t *shadow;            /* ROAM_CHECK=race: per byte, its last writer */
	struct roami_race *race;     /* and the reports; NULL: not checked */
	struct roami_blocks *blocks; /* allocated blocks of all nodes, for reports */
};

static inline struct roami_races *races_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_RACE].state;
}

/* What a node last synchronised on before it wrote. */
struct roami_synced {
	uint64_t object;
	uint64_t kind; /* enum roami_synced_kind */
};

#define ROAMI_SYNCED_OWN 4096u /* ids of the library's own objects are below */

enum roami_synced_kind {
	ROAMI_SYNCED_NOT,
	ROAMI_SYNCED_LOCK,
	ROAMI_SYNCED_UNLOCK,
	ROAMI_SYNCED_BARRIER,
	ROAMI_SYNCED_COND,
	ROAMI_SYNCED_FLAG,
	ROAMI_SYNCED_REDUCE,
	ROAMI_SYNCED_KINDS
};

/* A thread of this node has synchronised.  Nothing is kept unless ROAM_CHECK=race. */
void roami_race_synced_now(struct roami_node *node, enum roami_synced_kind kind, uint64_t object);

static inline void roami_race_synced(struct roami_node *node, enum roami_synced_kind kind,
				     uint64_t object)
{
	if (__builtin_expect(races_of(node)->race != NULL, 0))
		roami_race_synced_now(node, kind, object);
}

struct roami_synced roami_race_since(struct roami_node *node);

/*
 * The clock that this node has applied, which goes with its diffs.  roami_race_clock_by sets the
 * function that reads it, once, when the node opens.
 */
void roami_race_clock_by(struct roami_node *node,
			 void (*clock)(struct roami_node *node, struct roami_vclock *clock_p));
void roami_race_clock(struct roami_node *node, struct roami_vclock *clock_p);

/*
 * An encoded, checked diff of `writer`'s interval after `clock`, which began with `since`, reaches
 * this home.  Any thread.
 */
void roami_race_note(struct roami_node *node, uint32_t page, unsigned writer,
		     const struct roami_vclock *clock, const struct roami_synced *since,
		     const uint8_t *diff, size_t bytes);

/* The home's own writes to a page, as its twin shows them. */
void roami_race_note_home(struct roami_node *node, uint32_t page);

/*
 * A block was allocated here, at this place in the heap; `name`, which may be NULL, is copied.
 * With `tell` the other nodes, which do not make the same allocation, are told before the call
 * returns.  Nothing is kept unless ROAM_CHECK=race.
 */
void roami_race_block(struct roami_node *node, uint64_t offset, uint64_t bytes, const char *name,
		      bool tell);
#define ROAMI_BLOCK_BYTES 64

/* Prints the result of the check in words, which the table of counters does not show. */
void roami_race_verdict(uint64_t found, uint64_t alike, int fd);

#endif
