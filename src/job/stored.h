/*
 * Pages that outlive the job (ROAM_STORE): what this process says to the page server, of which each
 * node has a connection.  A commit goes to the server before another node sees any of its pages,
 * and its receipt is awaited, not the disk: so what is read has an earlier serial number than
 * what was computed from it, and the server's log has both in this order (rule 8.16).
 *
 * Beside pages the server keeps: `parts`, which parts of the heap had blocks when nodes last ended
 * in order; `lease.N`, which parts node N has taken since; and `roots`, where the table of roots
 * begins.  A part is written there before any of its memory is handed out, so that the next job
 * hands out none of it, whatever the end of this one is like.
 */
#ifndef ROAMI_STORED_H
#define ROAMI_STORED_H

#include <pthread.h>

#include "base/node.h"
#include "base/parts.h"
#include "store/client.h"

struct roami_job;

struct roami_stored {
	struct roami_store_client *client;
	struct roami_store_open open;
	uint8_t key[ROAMI_CHANNEL_KEY];
	pthread_mutex_t turn; /* of the thread that commits: one commit is under way at a time */
	struct roami_store_commit commit;
	pthread_mutex_t lock; /* for what follows, up to `why` */
	pthread_cond_t changed;
	bool reading;       /* a thread waits for frames, for all */
	uint64_t asked;     /* the number of the last commit, */
	uint64_t received;  /* of the last one with a receipt, */
	uint64_t serial;    /* and its serial number */
	uint64_t durable;   /* commits up to here are on the disk */
	_Atomic uint32_t lost; /* enum roam_err: the server is of no use any more */
	char why[ROAMI_STORE_TEXT_MAX + 1];
	/* Of each part of the heap: enum roami_heap_parts_state when the job began, */
	uint8_t old[ROAMI_HEAP_PARTS_PARTS];
	uint8_t own[ROAMI_HEAP_PARTS_PARTS]; /* and what this node has taken since */
	uint32_t first, end; /* parts between them may be handed out before there are leases */
	uint64_t roots;      /* 0: none */
	bool apart; /* the process is alone, and its app view is a private copy of its segment */
	int pagemap;
	uint8_t *sent; /* of each page: 1: the segment has since what was sent last */
};

/* Whether the job can have a store; if not, says why. */
enum roam_err roami_stored_check(struct roami_job *job);

/* Whether it can, started in this way; if not, says why. */
enum roam_err roami_stored_starts(struct roami_job *job);

/*
 * A process that is alone, or node 0 of a launcher's job, has its memory: connects, and stores
 * there what the server has.
 */
enum roam_err roami_stored_begin(struct roami_job *job);

/* The same for a node other than 0 of a launcher's job, which has joined. */
enum roam_err roami_stored_follow(struct roami_job *job);

/*
 * A forked process has its parent's connection, which it leaves alone: as long as it had that, the
 * server would take it for the job.  Then, as a node, it has its own.
 */
void roami_stored_forked(struct roami_job *job);
enum roam_err roami_stored_join(struct roami_job *job);

/* The node has been opened: its commits go to the server. */
void roami_stored_node(struct roami_job *job);

/* Where the allocator may begin before there are leases; and its end.  Offsets in the heap. */
uint64_t roami_stored_begins(const struct roami_job *job);
uint64_t roami_stored_ends(const struct roami_job *job);

/* Stores the words of the parts that had blocks when the job began, over others. */
void roami_stored_words(struct roami_job *job);

/* Parts were taken: tells the server before any of it is handed out. */
void roami_stored_took(struct roami_job *job, uint32_t first, uint32_t parts, bool block);
/* The same of all memory handed out below an offset, before there are leases. */
void roami_stored_raise(struct roami_job *job, uint64_t high);

/* A block was made of memory that had bytes, and is zero now, though not in a transaction. */
void roami_stored_zero(struct roami_job *job, uint64_t offset, uint64_t bytes);

/* A page of the table of roots has changed; `first`: of the table. */
void roami_stored_root(struct roami_job *job, uint64_t first, const void *page);

/* Waits until all that this node has committed, or read, is on the disk.  ROAM_ELOST. */
enum roam_err roami_stored_durable(struct roami_job *job);

/* The other nodes have ended in order, or this process does. */
enum roam_err roami_stored_ended(struct roami_job *job);
void roami_stored_close(struct roami_job *job);

/* ---- stored_alone.c: pages that a process writes while it is alone, and nothing faults */

/* From now on what is written is known.  ROAM_ESYSTEM. */
enum roam_err roami_stored_apart(struct roami_job *job);
/*
 * Commits it; returns whether there was any.  `splits`: by as many commits as it takes; `drops`: no
 * other thread writes meanwhile.
 */
bool roami_stored_flush(struct roami_job *job, bool splits, bool drops);
/* How many bytes it may be, at most. */
uint64_t roami_stored_used(const struct roami_job *job);
/* Commits it, and lets the app view be the segment again. */
enum roam_err roami_stored_together(struct roami_job *job);

/* ---- between these files */

#define ROAMI_STORED_ONCE    4096u /* pages that become zero in one commit */
#define ROAMI_STORED_VERSION 1u
#define ROAMI_STORED_PARTS   "parts"
#define ROAMI_STORED_LEASE   "lease."
#define ROAMI_STORED_ROOTS   "roots"

/* The value of `parts` and `lease.N`. */
struct roami_stored_parts {
	uint64_t version;
	uint8_t job[16]; /* that says so */
	uint64_t part;   /* bytes */
	uint32_t count;
	uint32_t spare;
	uint8_t states[ROAMI_HEAP_PARTS_PARTS / 4]; /* two bits each */
};

void roami_stored_pack(const struct roami_job *job, const uint8_t *states,
		       struct roami_stored_parts *value);
void roami_stored_fold(const struct roami_stored_parts *value, uint8_t *states);

/* From now on this is all that is taken: no node has taken any more. */
void roami_stored_commit_parts(struct roami_job *job, const uint8_t *states);

/* Finds the most parts in a row that are free. */
void roami_stored_find(struct roami_job *job);

/* Prints why the job does not start, or does not go on; returns err. */
enum roam_err roami_stored_says(struct roami_job *job, enum roam_err err, const char *why);

/* The job cannot go on without the server. */
__attribute__((noreturn)) void roami_stored_fail(struct roami_job *job);

/* A commit, by the thread that has the turn, and its end. */
void roami_stored_commit_begin(struct roami_job *job);
void roami_stored_commit_page(struct roami_job *job, uint32_t page, const void *bytes);
/* value NULL: the server forgets the name. */
void roami_stored_commit_name(struct roami_job *job, const char *name, const void *value,
			      uint32_t bytes);
void roami_stored_commit_end(struct roami_job *job);

#endif
