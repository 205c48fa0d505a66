/*
 * ROAM_CHECK=heap: writes outside of shared blocks, and into freed ones.  Before and behind every
 * block lie bytes that nobody may write (red zones), and a freed block is filled and not used again
 * for a while.  Whether all of them are as they were is seen when a block is freed, when its memory
 * is about to be used again, and at the end of the nodes, by node 0.  Under every protocol, also in
 * a job of one node; nothing is shared but what lies in the heap.
 */
#ifndef ROAMI_GUARD_H
#define ROAMI_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

struct roami_job;

#define ROAMI_GUARD_TOLD 64u
#define ROAMI_GUARD_KEPT 4096u /* freed blocks that are not used again yet */

struct roami_guard {
	struct {
		uint64_t offset;
		uint64_t bytes;
	} kept[ROAMI_GUARD_KEPT]; /* freed blocks, a ring */
	uint64_t first, end;
	uint64_t bytes;      /* of these */
	unsigned owner;      /* the node that has freed them; a forked one begins anew */
	_Atomic uint64_t found; /* by this process */
	uint64_t others;     /* by nodes that have ended */
	uint64_t reported;
	uint32_t told_count; /* blocks of which the scan has said something */
	uint64_t told[ROAMI_GUARD_TOLD];
};

/* roam_alloc_region and roam_free; `from`: the code that calls them.  As roami_job_alloc. */
void *roami_guard_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
			const void *from, enum roam_err *err_p);
enum roam_err roami_guard_free(struct roami_job *job, void *block, const void *from);

/* All nodes of a launched job come here before its end, while the others still serve. */
void roami_guard_serve(struct roami_job *job);

/* Node 0, which sees the whole heap: looks at all blocks. */
void roami_guard_scan(struct roami_job *job);

/* The counters of all nodes are final: keeps what the others have found. */
void roami_guard_count(struct roami_job *job);
/* Prints the verdict, unless it was this one already. */
void roami_guard_report(struct roami_job *job);

#endif
