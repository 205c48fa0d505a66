/*
 * A file of pages, as one node writes it: chunks of consecutive pages, each behind a head with a
 * checksum, the last one empty.  It is read in the same order.  Bytes are in the order of the
 * machine, which is x86-64.  The room keeps rules 13.1 to 13.3, with api/save.c.
 */
#ifndef ROAMI_SAVE_FILE_H
#define ROAMI_SAVE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/segment.h"

#define ROAMI_SAVE_CHUNK 256u /* pages at most */

struct roami_save_head {
	uint64_t check; /* of what follows in the head, then of the pages */
	uint32_t first;
	uint32_t pages; /* 0: the end */
	uint64_t number; /* of the chunk in its file */
	uint64_t body;
};

struct roami_save_file {
	int fd;
	uint64_t number; /* chunks written or read */
	uint64_t bytes;  /* written, */
	uint64_t begun;  /* and of these on their way to the disk */
};

/* A file in a directory; false, with errno. */
bool roami_save_create(struct roami_save_file *file, int directory, const char *name);
bool roami_save_put(struct roami_save_file *file, uint32_t first, uint32_t pages,
		    const void *bytes);
/* Writes the end, waits until all is on the disk, and closes the file. */
bool roami_save_finish(struct roami_save_file *file);
void roami_save_close(struct roami_save_file *file);

bool roami_save_open(struct roami_save_file *file, int directory, const char *name);
/*
 * The next chunk's head; then its pages are read, into room for a chunk, or left out.  ROAM_EPROTO:
 * the file is damaged; ROAM_ESYSTEM, with errno.
 */
enum roam_err roami_save_next(struct roami_save_file *file, uint32_t heap_pages,
			      struct roami_save_head *head);
enum roam_err roami_save_body(struct roami_save_file *file, const struct roami_save_head *head,
			      void *bytes);
enum roam_err roami_save_skip(struct roami_save_file *file, const struct roami_save_head *head);

/* Writes a whole small file, or reads it; the checksum stands before the bytes. */
bool roami_save_small(int directory, const char *name, const void *bytes, size_t count);
enum roam_err roami_save_read_small(int directory, const char *name, void *bytes, size_t count);
/* Its first bytes, unverified: they say how long it is. */
enum roam_err roami_save_peek(int directory, const char *name, void *bytes, size_t count);

uint64_t roami_save_hash(const void *bytes, size_t count);
/* Of a whole file; 0: it cannot be read. */
uint64_t roami_save_hash_file(const char *path);

#endif
