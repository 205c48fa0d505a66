/*
 * Which bytes of the heap are blocks', and which pages this node saves or loads: the pages that it
 * is home of, so that no bytes travel.  Only nodes that map node 0's segment write and read files;
 * what lies at other hosts' nodes node 0 fetches by page faults.
 */
#ifndef ROAMI_SAVE_PLAN_H
#define ROAMI_SAVE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/segment.h"
#include "os/os.h"

struct roami_job;

struct roami_save_plan {
	struct roami_job *job;
	size_t room; /* of what follows */
	uint64_t *live; /* of each page: a bit for each 64 bytes that are a block's */
	uint64_t *used; /* a bit for each page: it may have bytes other than zero */
	uint64_t *mine; /* a bit for each page: this node has to do with it */
	uint64_t *bare; /* a bit for each page without a home: node 0 has the creator's bytes */
	uint64_t *saved; /* a bit for each page: it is in the checkpoint that is loaded */
	uint64_t *some; /* a bit for each group of pages: some are live */
	uint64_t hash; /* of where the blocks are */
};

/* Whether the node writes and reads files. */
bool roami_save_writes(const struct roami_job *job);
/* How many do, as one of them sees it, and which of them it is. */
unsigned roami_save_writers(const struct roami_job *job, unsigned *mine_p);

/*
 * Makes the plan of a node that writes.  All nodes are in a barrier, or may be called.  May send.
 * False: no memory.
 */
bool roami_save_plan(struct roami_save_plan *plan, struct roami_job *job);
void roami_save_plan_end(struct roami_save_plan *plan);

/*
 * Blocks that other nodes than node 0 have allocated since the seal, as far as this one knows: its
 * own small ones; at node 0: their large ones.  May send.
 */
unsigned roami_save_strange(struct roami_job *job);

/*
 * The node that stores the bytes of a page which has no home yet, and which node `was` of `nodes`
 * saved.
 */
unsigned roami_save_heir(const struct roami_job *job, unsigned was, unsigned nodes);

static inline bool roami_save_bit(const uint64_t *bits, uint32_t page)
{
	return (bits[page / 64] >> page % 64 & 1) != 0;
}

static inline void roami_save_set(uint64_t *bits, uint32_t page)
{
	bits[page / 64] |= UINT64_C(1) << page % 64;
}

static inline void roami_save_clear(uint64_t *bits, uint32_t page)
{
	bits[page / 64] &= ~(UINT64_C(1) << page % 64);
}

#endif
