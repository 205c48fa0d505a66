/*
 * Files of a page server: a head, then records.  A log is named by the serial number of its first
 * commit, a snapshot by that of the last commit that it contains.  A file whose name does not end
 * in ".part" was complete, and on the disk, when it got its name; only a log grows afterwards.
 *
 * Each record has a checksum that covers its number, and the file's own random seed: so that bytes
 * of another file are never taken for a record of this one.  A commit's record also says up to
 * which commit all were on the disk when it was written.  So a damaged record is known to be one
 * that was acknowledged when a valid one behind it vouches for it; else it is the torn end of what
 * was being written when the server ended, in whatever order that reached the disk.
 */
#ifndef ROAMI_STORE_RECORD_H
#define ROAMI_STORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/frames.h"

#define ROAMI_LOG_MAGIC      "roamlog1" /* the last one: the version of the format */
#define ROAMI_SNAPSHOT_MAGIC "roamsnp1"
#define ROAMI_FILE_NAME      24u /* bytes of a file's name, with a zero */

struct roami_file_head {
	char magic[8];
	uint8_t store[16];
	uint64_t heap_bytes, heap_at;
	uint64_t page_bytes;
	uint64_t seed;
	uint64_t number; /* as in its name */
	uint64_t check;  /* of all before */
};

enum roami_record_kind {
	ROAMI_RECORD_COMMIT = 1, /* entries */
	ROAMI_RECORD_CHUNK,      /* of a snapshot: entries; numbered from 0 on */
	ROAMI_RECORD_END,  /* the server ended; or that of a snapshot: struct roami_store_counts */
	ROAMI_RECORD_SEAL  /* another log goes on with the commit of this number */
};

struct roami_record {
	uint64_t check; /* of all that follows */
	uint64_t serial;
	uint64_t durable; /* commits up to here were on the disk */
	uint32_t bytes;   /* that follow, a multiple of 8 */
	uint32_t kind;
};

struct roami_store_counts {
	uint64_t pages, names;
};

void roami_file_head_make(struct roami_file_head *head, const char *magic,
			  const uint8_t store[16], uint64_t heap_bytes, uint64_t heap_at,
			  uint64_t number);

/* Fills in the check; the record's bytes follow it in memory. */
void roami_record_close(struct roami_record *record, uint64_t seed);

/* "log." or "snap.", and the number. */
void roami_file_name(char name[ROAMI_FILE_NAME], bool snapshot, uint64_t number);
/* The number; false: it is no such name. */
bool roami_file_number(const char *name, bool snapshot, uint64_t *number_p);

/* A file that is read. */
struct roami_reader {
	int fd;
	uint64_t bytes; /* of the file */
	struct roami_file_head head;
	uint8_t *window;
	uint64_t window_at;
	size_t window_bytes, window_room;
};

enum roami_read { ROAMI_READ_GOOD, ROAMI_READ_BAD, ROAMI_READ_ERROR /* errno */ };

/* Opens a file and reads its head. */
enum roami_read roami_reader_open(struct roami_reader *reader, int directory, const char *name,
				  const char *magic, uint64_t number);
void roami_reader_close(struct roami_reader *reader);

/*
 * The record at the offset, with its bytes behind it, until the next call.  ROAMI_READ_BAD: there
 * is none whose checksum is right.
 */
enum roami_read roami_reader_record(struct roami_reader *reader, uint64_t offset,
				    const struct roami_record **record_p);

/*
 * Whether behind the offset there is a valid record that vouches for commit `serial`.
 */
enum roami_read roami_reader_vouches(struct roami_reader *reader, uint64_t offset, uint64_t serial,
				     bool *vouches_p);

static inline uint64_t roami_record_end(uint64_t offset, const struct roami_record *record)
{
	return offset + sizeof(*record) + record->bytes;
}

#endif
