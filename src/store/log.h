/*
 * The log of a page server: commits in the order of their serial numbers, in files of bounded
 * length.  One thread at a time uses it.
 */
#ifndef ROAMI_STORE_LOG_H
#define ROAMI_STORE_LOG_H

#include "store/disk.h"
#include "store/recover.h"

#define ROAMI_LOG_BYTES     ((uint64_t)64 << 20) /* usually: a file that is longer is the last */
#define ROAMI_LOG_BATCH_MAX 1000u                /* commits that are written at a time */

/* A commit that is to be written; its entries follow. */
struct roami_log_commit {
	struct roami_log_commit *next;
	struct roami_record record; /* serial, bytes; the log fills in the rest */
};

static inline uint8_t *roami_log_entries(struct roami_log_commit *commit)
{
	return (uint8_t *)(commit + 1);
}

struct roami_log {
	int directory;
	struct roami_disk *disk;
	uint64_t limit; /* of a file's bytes */
	uint8_t store[16];
	uint64_t heap_bytes, heap_at;
	int fd; /* of the last file, or -1 */
	uint64_t number, bytes, seed; /* its */
	uint64_t zeroes; /* it has some from `bytes` up to there; UINT64_MAX: it gets none */
	uint64_t durable; /* commits up to here are on the disk */
};

/*
 * Begins a file behind what was recovered, whose end it repeats if it is not known to be on the
 * disk.  false: `why`, with errno; if `fd` is -1 then the directory is as before, and it may be
 * called again later.  After any other failure the log is to be closed.
 */
bool roami_log_open(struct roami_log *log, int directory, struct roami_disk *disk, uint64_t limit,
		    const struct roami_recovered *recovered, char why[ROAMI_STORE_WHY]);

/*
 * Appends a list of at most ROAMI_LOG_BATCH_MAX commits, and waits until they are on the disk.
 * false: nothing is known of them, and nothing may be appended any more.
 */
bool roami_log_append(struct roami_log *log, struct roami_log_commit *first,
		      char why[ROAMI_STORE_WHY]);

/* Closes it; `ends`: in order, so that from now on any damage is known as such. */
bool roami_log_close(struct roami_log *log, bool ends, char why[ROAMI_STORE_WHY]);

/*
 * A snapshot: writes all pages and names as of commit `serial` to a file that does not count yet,
 * in pieces through `room` of ROAMI_SNAPSHOT_ROOM bytes.  Takes no memory: a child process may call
 * it.  false, with errno.
 */
#define ROAMI_SNAPSHOT_ROOM ((size_t)1 << 20)
bool roami_snapshot_write(int directory, struct roami_disk *disk,
			  const struct roami_store_state *state, const struct roami_file_head *head,
			  uint8_t *room);
/* From now on it counts, and what is older does not: removes that.  false, with errno. */
bool roami_snapshot_commit(int directory, struct roami_disk *disk, uint64_t serial);
/* Removes one that does not count. */
void roami_snapshot_drop(int directory, uint64_t serial);

#endif
