/* What a page server finds in its directory when it begins: the last snapshot, and the logs. */
#ifndef ROAMI_STORE_RECOVER_H
#define ROAMI_STORE_RECOVER_H

#include "roam/roam.h"
#include "store/record.h"
#include "store/state.h"

#define ROAMI_STORE_WHY 320u

/* Complete files, by number; the smallest first. */
struct roami_store_files {
	uint64_t *logs, *snapshots;
	unsigned log_count, snapshot_count;
};

/* false, with errno. */
bool roami_files_list(struct roami_store_files *files, int directory);
void roami_files_free(struct roami_store_files *files);

/* Removes files that were not complete when their server ended.  false, with errno. */
bool roami_files_sweep(int directory);

struct roami_recovered {
	uint8_t store[16];
	uint64_t heap_bytes, heap_at; /* 0: the directory is empty */
	uint64_t serial;  /* of the last commit; 0: none */
	uint64_t sure;    /* commits up to here are on the disk; those behind were, or are only in
			   * the kernel's memory, and must be written anew before they count */
	uint64_t log;     /* the last one; it has the commits behind `sure` in */
	uint64_t from, to; /* these of its bytes */
	uint64_t snapshot; /* 0: none */
	uint64_t read;    /* bytes of files */
	bool ended; /* the server before ended in order, or there was none: no receipt is lost */
};

/*
 * Reads all that counts into `state`, which is zero.  ROAM_EPROTO: a file is damaged or missing;
 * ROAM_EMISMATCH: of another version; ROAM_ENOMEM, ROAM_ESYSTEM.  `why` names the file.
 */
enum roam_err roami_store_recover(int directory, struct roami_store_state *state,
				  struct roami_recovered *recovered, char why[ROAMI_STORE_WHY]);

#endif
