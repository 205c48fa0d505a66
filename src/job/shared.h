/*
 * ROAM_SHARED: statics of the program in the shared heap.  Their section, of which each object has
 * its own pages (roam.h says how), becomes a block of the heap when roam starts, and this block's
 * pages are mapped over it: so they have two addresses, that in the heap and the one that the
 * program was linked to use.  fault/alias.h keeps both under the protocol; all else knows of the
 * first only (rule 1.10).
 */
#ifndef ROAMI_JOB_SHARED_H
#define ROAMI_JOB_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/alias.h"

struct roami_job;

struct roami_shared {
	struct roami_aliases statics;      /* sections that are in the heap, */
	unsigned found;                    /* and those that are not yet, behind them */
	void *library[ROAMI_ALIASES_MAX];  /* that has them, for dlsym; NULL: the program */
	void *saved[ROAMI_ALIASES_MAX];    /* at the end of the job: what they hold */
};

/*
 * Looks for sections of the program, and of the libraries that it has loaded, that are not known
 * yet.  Says what cannot be moved.
 */
enum roam_err roami_shared_find(struct roami_job *job);

/* Moves those that were found; the process is alone, and all processes do it alike. */
enum roam_err roami_shared_move(struct roami_job *job);

/* Maps over all that were moved the segment of a node, as the app view is. */
enum roam_err roami_shared_map(struct roami_job *job, unsigned node);

/* In a forked process, which has not inherited them: nothing else is mapped there meanwhile. */
void roami_shared_reserve(const struct roami_job *job);

/* Keeps what they hold, while this node may still read its heap; then they are private again. */
void roami_shared_save(struct roami_job *job);
void roami_shared_restore(struct roami_job *job);

/* Where in the heap [at, at + bytes) is, if it is in such statics. */
bool roami_shared_offset(const struct roami_job *job, const void *at, size_t bytes,
			 uint64_t *offset_p);

/* Whether such statics are in the pages [first, end). */
bool roami_shared_in(const struct roami_job *job, uint32_t first, uint32_t end);

#endif
