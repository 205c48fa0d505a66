/*
 * Checkpoints in a directory, as one node sees them.  The directory has one directory for each
 * checkpoint, by number, and a link, `current`, to the last complete one.  In it are a file of
 * pages of each node that writes, and `head`, which node 0 writes last.
 */
#ifndef ROAMI_SAVE_STORE_H
#define ROAMI_SAVE_STORE_H

#include "save/plan.h"

#define ROAMI_SAVE_WHY 240u

/* What is in `head`, before the private bytes of all threads. */
struct roami_save_info {
	char magic[16];
	uint64_t head_bytes;   /* of this structure, */
	uint64_t state_bytes;  /* of the private bytes of each thread; all stand behind this */
	uint64_t threads;
	uint64_t round; /* rounds of CREATE that had ended */
	uint64_t nodes;
	uint64_t writers; /* a bit for each node that has a file */
	uint64_t page_bytes;
	uint64_t heap_at;
	uint64_t heap_bytes;
	uint64_t regions;
	uint64_t region_pages;
	uint64_t blocks;     /* struct roami_save_plan.hash */
	uint64_t program;    /* hash of the program's file */
	uint64_t program_at; /* where it is loaded */
	uint64_t pointers;   /* words of the heap that may be pointers to it */
	uint64_t pages;
};

/* The directory of a checkpoint. */
struct roami_save_at {
	uint64_t number;
	uint64_t device;
	uint64_t inode;
};

struct roami_save_store {
	int directory;
	bool locked;    /* against other jobs */
	int checkpoint; /* the directory of the checkpoint, */
	struct roami_save_at at;
	char why[ROAMI_SAVE_WHY]; /* "": no error here */
};

#define ROAMI_SAVE_STORE_NONE {.directory = -1, .checkpoint = -1}

/* Words of the private bytes of one thread. */
static inline size_t roami_save_state_words(const struct roami_save_info *info)
{
	return (info->state_bytes + 7) / 8;
}

/* What this job is, but for `writers`, `pointers` and `pages`, which are 0. */
void roami_save_describe(struct roami_save_info *info, const struct roami_save_plan *plan);

/* Errors leave the reason in `why`. */

/*
 * Node 0: makes the directory, and in it that of the next checkpoint.  Nothing that is not roam's
 * is removed, or followed.  The last checkpoint is to be the job's own, `expected`; 0: any.
 */
enum roam_err roami_save_begin(struct roami_save_store *store, const char *path, uint64_t expected);
/* Another node: opens the directory of the checkpoint that node 0 has made, or opened. */
enum roam_err roami_save_join(struct roami_save_store *store, const char *path,
			      const struct roami_save_at *at);
/* Writes this node's pages; counts them, and words that may be pointers to the program. */
enum roam_err roami_save_pages(struct roami_save_store *store, struct roami_save_plan *plan,
			       struct roami_save_info *counts);
/* Node 0: the checkpoint is complete; its private bytes are at `states`.  Removes the last one. */
enum roam_err roami_save_commit(struct roami_save_store *store, const struct roami_save_info *info,
				const uint64_t *states);
/* Node 0: removes what there is of a checkpoint that is not complete. */
void roami_save_abandon(struct roami_save_store *store);
void roami_save_leave(struct roami_save_store *store);

/* Node 0: opens the last complete checkpoint and reads its head; *states_p is to be freed. */
enum roam_err roami_load_begin(struct roami_save_store *store, const char *path,
			       struct roami_save_info *info, uint64_t **states_p);
/* Whether this job can load the checkpoint.  ROAM_ECHECKPOINT. */
enum roam_err roami_load_fits(struct roami_save_store *store, const struct roami_save_plan *plan,
			      const struct roami_save_info *info);
/* Verifies the checksums of every `of`th file from the `from`th on. */
enum roam_err roami_load_verify(struct roami_save_store *store, struct roami_save_plan *plan,
				const struct roami_save_info *info, unsigned from, unsigned of);
/* Decides which pages this node stores, and sees that the files are of one checkpoint. */
enum roam_err roami_load_share(struct roami_save_store *store, struct roami_save_plan *plan,
			       const struct roami_save_info *info);
/* Stores them, when all nodes have decided. */
enum roam_err roami_load_pages(struct roami_save_store *store, struct roami_save_plan *plan,
			       const struct roami_save_info *info);

#endif
