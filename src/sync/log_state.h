/* The log of write notices; internal to src/sync, but for what tests change. */
#ifndef ROAMI_LOG_STATE_H
#define ROAMI_LOG_STATE_H

#include "sync/log.h"

struct roami_log {
	const struct roami_notices *notices; /* how write notices travel, see log.h */
	uint32_t compact_sooner; /* lists of notices, by so many powers of two: 0, but for tests */
	struct roami_spin lock;
	struct roami_vec runs[ROAMI_NODES_MAX];
	size_t first[ROAMI_NODES_MAX];              /* runs before it are trimmed */
	size_t compacted[ROAMI_NODES_MAX];          /* length after the last compaction */
	struct roami_vclock seen;                   /* the log is complete up to here */
	struct roami_vclock clock;                  /* applied: copies are as fresh as this */
	struct roami_vclock floor;                  /* every node has applied this at least */
	struct roami_vclock met; /* what had been released before the last full barrier */
	struct roami_vclock known[ROAMI_NODES_MAX]; /* lower bound of what each node's log holds */
	/* The base: what the last barrier of all nodes by message has told them; and its number. */
	struct roami_vclock base;
	uint64_t base_number;
	uint64_t published; /* own runs put on the notice ring */
};

static inline struct roami_log *log_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_LOG].state;
}

/* Whether some thread holds the log's lock; for contracts. */
static inline bool log_locked(const struct roami_node *node)
{
	return roami_spin_held(&log_of(node)->lock);
}

/* The log's lock is held, and no copy is fresher than what the log knows; for contracts. */
static inline bool log_sound(const struct roami_node *node)
{
	const struct roami_log *log = log_of(node);

	return log_locked(node) && roami_vclock_covers(&log->seen, &log->clock, node->nodes);
}

#endif
