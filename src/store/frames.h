/*
 * What a page server and the nodes of a job say to each other: frames of a sealed stream
 * (link/channel.h), over TCP or a Unix socket; docs/wire.md, "Page server".  Numbers are in the
 * order of the machine, which is x86-64.
 *
 * The client says hello; the server answers with its own and a WELCOME for each of its keys, the
 * one to read and commit with and the one to read with, which shows the client that the server
 * knows its key; the client's OPEN shows it to the server, which answers OPENED.
 */
#ifndef ROAMI_STORE_FRAMES_H
#define ROAMI_STORE_FRAMES_H

#include <stdint.h>

#include "link/channel.h"

#define ROAMI_STORE_MAGIC "roamst02" /* the last two: the version of the format */

#define ROAMI_STORE_PAGE       4096u
#define ROAMI_STORE_KEY_MAX    64u                /* bytes of a record's name */
#define ROAMI_STORE_VALUE_MAX  32768u             /* and of what it holds */
#define ROAMI_STORE_NAMES_MAX  4096u              /* records */
#define ROAMI_STORE_COMMIT_MAX ((uint64_t)1 << 28) /* bytes of one commit's entries */
#define ROAMI_STORE_HEAP_MAX   (UINT64_C(65) << 34) /* 1 TiB, and its marks */
#define ROAMI_STORE_TEXT_MAX   240u
#define ROAMI_STORE_FRAMES_MAX 64u /* that answer one LOAD */

/*
 * What a job keeps: its heap, and behind that its *marks*, a byte for each 64 bytes of the heap,
 * which say where blocks are.  The server makes no difference between the two.
 */
#define ROAMI_STORE_GRAIN 64u
enum { ROAMI_STORE_BEGINS = 1, ROAMI_STORE_ENDS = 2 };

enum roami_store_kind {
	ROAMI_STORE_WELCOME,
	ROAMI_STORE_OPEN,    /* struct roami_store_open */
	ROAMI_STORE_OPENED,  /* struct roami_store_opened */
	ROAMI_STORE_LOAD,    /* struct roami_store_load */
	ROAMI_STORE_LOADED,  /* struct roami_store_part, then entries */
	ROAMI_STORE_COMMIT,  /* struct roami_store_part, then entries */
	ROAMI_STORE_RECEIPT, /* struct roami_store_receipt */
	ROAMI_STORE_DURABLE, /* the same, unasked: all up to there is on the disk */
	ROAMI_STORE_ERROR,   /* struct roami_store_error, then text */
	ROAMI_STORE_CLOSE    /* the client goes of its own will; no answer */
};

/* At the beginning of each frame. */
struct roami_store_head {
	uint32_t kind;
	uint32_t spare;  /* 0 */
	uint64_t number; /* of what is asked, the client's choice; answers bear it; else 0 */
};

enum {
	ROAMI_STORE_READS = 1,  /* the client commits nothing, and may be of any job */
	ROAMI_STORE_FULL = 2,   /* of the server: there is no room, commits are refused */
	ROAMI_STORE_AGAIN = 4,  /* of the client: it had another connection, which it has lost */
	ROAMI_STORE_ORDERLY = 8 /* of the server: it lacks no commit that had a receipt */
};

struct roami_store_open {
	uint8_t job[16]; /* random, of all nodes of one job */
	uint64_t heap_bytes;
	uint64_t heap_at;    /* where the heap lies in the program; 0: any */
	uint32_t page_bytes; /* ROAMI_STORE_PAGE */
	uint32_t flags;
};

struct roami_store_opened {
	uint8_t store[16];   /* random, of this directory */
	uint64_t heap_bytes; /* as at the store's creation; 0: it is empty, the client only reads */
	uint64_t heap_at;
	uint64_t serial;  /* of the last commit received; 0: none */
	uint64_t durable; /* of the last one on the disk */
	uint64_t pages;   /* that the store has */
	uint64_t names;
	uint64_t epoch;   /* commits from before this serial number are of earlier jobs */
	uint32_t flags;   /* READS: it asked so, or has the key to read with */
	uint32_t spare;   /* 0 */
};

/* Pages in [first, end) that the store has, in this order, or all names. */
enum { ROAMI_STORE_PAGES, ROAMI_STORE_NAMES };

struct roami_store_load {
	uint32_t what;
	uint32_t first, end;
	uint32_t spare; /* 0 */
	uint64_t since; /* pages: only those that a later commit changed; names: 0 */
};

/* A piece of a commit or of an answer, which is of one moment. */
enum { ROAMI_STORE_LAST = 1 };

struct roami_store_part {
	uint32_t flags;
	uint32_t next; /* LOADED, the last one: what to load next; == end: nothing; COMMIT: 0 */
	uint64_t serial; /* LOADED: of the last commit; of names, that changed one; COMMIT: 0 */
};

/*
 * An entry: this, then `bytes` bytes, then zeroes up to a multiple of 8.  An entry is whole within
 * its frame.  Later entries of a commit overwrite earlier ones.
 */
enum {
	ROAMI_STORE_BYTES = 1, /* of page `where`, from `from` on; what a new page has else is 0 */
	ROAMI_STORE_NAME,      /* a name of `from` bytes without zeroes, then its value */
	ROAMI_STORE_NO_NAME    /* a name, which the store forgets */
};

struct roami_store_entry {
	uint32_t kind;
	uint32_t bytes;
	uint32_t where; /* of names: 0 */
	uint32_t from;
};

struct roami_store_receipt {
	uint64_t serial;
};

struct roami_store_error {
	uint32_t err; /* enum roam_err */
	uint32_t text_bytes;
};

/* Bytes of entries in one frame: 14 whole pages, or a name with the longest value. */
#define ROAMI_STORE_ENTRIES_MAX (14u * (sizeof(struct roami_store_entry) + ROAMI_STORE_PAGE))
#define ROAMI_STORE_FRAME_MAX                                                  \
	(sizeof(struct roami_store_head) + sizeof(struct roami_store_part) + \
	 ROAMI_STORE_ENTRIES_MAX + ROAMI_CHANNEL_EXTRA)

/* WELCOME. */
#define ROAMI_STORE_WELCOME_BYTES (sizeof(struct roami_store_head) + ROAMI_CHANNEL_EXTRA)

/* The bytes that a heap takes, and the other way round. */
static inline uint64_t roami_store_bytes(uint64_t heap_bytes)
{
	uint64_t marks = heap_bytes / ROAMI_STORE_GRAIN;

	return heap_bytes + (marks + ROAMI_STORE_PAGE - 1) / ROAMI_STORE_PAGE * ROAMI_STORE_PAGE;
}

static inline uint64_t roami_store_heap(uint64_t bytes)
{
	return bytes / (ROAMI_STORE_GRAIN + 1) * ROAMI_STORE_GRAIN;
}

static inline uint64_t roami_store_entry_bytes(const struct roami_store_entry *entry)
{
	return sizeof(*entry) + (((uint64_t)entry->bytes + 7) & ~(uint64_t)7);
}

#endif
