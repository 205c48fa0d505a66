/*
 * ROAM_CHECK=heap: finds writes outside of shared blocks, and into freed ones.  Before and behind
 * every block lie bytes that the program must not write (red zones); a freed block is filled with a
 * pattern and not used again for a while.  These bytes are checked when a block is freed, before
 * its memory is used again, and, by node 0, at the end of the nodes.  Works under every protocol,
 * also in a job of one node; the heap holds all that the nodes share for it.
 */
#ifndef ROAMI_GUARD_H
#define ROAMI_GUARD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

struct roami_job;

#define ROAMI_GUARD_REPORTS 64u
#define ROAMI_GUARD_KEPT 4096u /* freed blocks that are not yet used again */

struct roami_guard {
	struct {
		uint64_t offset;
		uint64_t bytes;
	} kept[ROAMI_GUARD_KEPT]; /* freed blocks, a ring */
	uint64_t first, end;
	uint64_t bytes;      /* of these */
	unsigned owner;      /* the node that freed the blocks; a forked node begins anew */
	_Atomic uint64_t found; /* by this process */
	_Atomic uint64_t alike; /* those of them that were only counted */
	_Atomic uint64_t said[ROAMI_GUARD_REPORTS]; /* guard_kind of what was printed; 0: free */
	uint64_t others, others_alike; /* by nodes that have ended */
	uint64_t reported;
	uint32_t scanned_count; /* blocks that the scan has reported */
	uint64_t scanned[ROAMI_GUARD_REPORTS];
};

/* roami_job_alloc and roami_job_free with red zones; `from`: the program's code that calls. */
void *roami_guard_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
			const void *from, enum roam_err *err_p);
enum roam_err roami_guard_free(struct roami_job *job, void *block, const void *from);

/*
 * Lets node 0 look at all blocks; every node of a launched job calls it before its end, while the
 * others still serve.
 */
void roami_guard_serve(struct roami_job *job);

/* Node 0, which sees the whole heap: looks at all blocks. */
void roami_guard_scan(struct roami_job *job);

/* Called when the counters of all nodes are final: keeps the number of errors that others found. */
void roami_guard_count(struct roami_job *job);
/* Prints the verdict, unless it is the same as the last one printed. */
void roami_guard_report(struct roami_job *job);

#endif
