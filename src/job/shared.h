/*
 * ROAM_SHARED: statics of the program in the shared heap.  They lie in a section that has whole
 * pages in each program and library (roam.h).  When roam starts, the section becomes a block of the
 * heap, whose pages are mapped over it: so these pages have two addresses, one in the heap and the
 * one that the program was linked to use.  fault/alias.h keeps both under the protocol; no other
 * code knows the second (rule 1.10).
 */
#ifndef ROAMI_JOB_SHARED_H
#define ROAMI_JOB_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/alias.h"

struct roami_job;

struct roami_shared {
	struct roami_aliases statics;      /* sections that are in the heap; behind them, */
	unsigned found;                    /* up to `found`, sections that are not in it yet */
	void *library[ROAMI_ALIASES_MAX];  /* whose sections they are, for dlsym; NULL: program */
	void *saved[ROAMI_ALIASES_MAX];    /* the contents, at the end of the job */
};

/*
 * Finds sections of the program, and of the libraries that it has loaded, that are not known yet.
 * Reports on stderr what cannot be moved.
 */
enum roam_err roami_shared_find(struct roami_job *job);

/* Moves the sections found into the heap.  The process is alone; all processes move alike. */
enum roam_err roami_shared_move(struct roami_job *job);

/* Maps a node's segment over the sections that were moved, as over the app view. */
enum roam_err roami_shared_map(struct roami_job *job, unsigned node);

/* Reserves the sections' addresses in a forked process, which has not inherited the mappings. */
void roami_shared_reserve(const struct roami_job *job);

/*
 * save: keeps the sections' bytes, while this node may still read its heap.  restore: makes the
 * sections private memory again, with these bytes.
 */
void roami_shared_save(struct roami_job *job);
void roami_shared_restore(struct roami_job *job);

/* Whether [at, at + bytes) lies in statics in the heap; *offset_p: its offset there. */
bool roami_shared_offset(const struct roami_job *job, const void *at, size_t bytes,
			 uint64_t *offset_p);

/* Whether statics in the heap lie in the pages [first, end). */
bool roami_shared_in(const struct roami_job *job, uint32_t first, uint32_t end);

#endif
