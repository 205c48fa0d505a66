/*
 * Pages that outlive the job (ROAM_STORE): what this process says to the page server, of which each
 * node has a connection.  A commit goes to the server before another node sees any of its pages,
 * and its receipt is awaited, not the disk: so what is read has an earlier serial number than
 * what was computed from it, and the server's log has both in this order (rule 8.16).
 *
 * Beside pages the server keeps where blocks are (stored_marks.c), and by names: `roots`, where the
 * table of roots begins, and `version`, of all this.  A block that is handed out in a transaction
 * is told with its commit, any other one before it is handed out; that a block is free is told with
 * the node's next commit: so the next job has all blocks to which something that is there can
 * refer, whatever the end of this one is like.
 *
 * Processes of a launcher that execute main up to CREATE, and are not node 0, only pretend to be
 * alone: they are *mute*.
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
	struct roami_vec kept; /* of it, until its receipt is here */
	uint8_t store[16];     /* the server's */
	pthread_mutex_t lock; /* for what follows, up to `why` */
	pthread_cond_t changed;
	bool reading;       /* a thread waits for frames, for all */
	_Atomic bool down;  /* the connection is lost, and there is no other one yet */
	uint64_t asked;     /* the number of the last commit, */
	uint64_t received;  /* of the last one with a receipt, */
	uint64_t serial;    /* and its serial number */
	uint64_t durable;   /* commits up to here are on the disk */
	bool mute;          /* this process tells the server nothing */
	pthread_mutex_t noting;
	struct roami_vec notes; /* of blocks, see stored_marks.c */
	_Atomic uint32_t lost; /* enum roam_err: the server is of no use any more */
	char why[ROAMI_STORE_TEXT_MAX + 1];
	/* Of each part of the heap when the job began, as of roami_heap_parts_old. */
	uint8_t old[ROAMI_HEAP_PARTS_PARTS];
	uint32_t first, end; /* parts between them may be handed out before there are leases */
	uint64_t roots;      /* the offset in the heap; 0: none */
	bool apart; /* the process is alone, and its app view is a private copy of its segment */
	int pagemap;
	uint8_t *sent; /* of each page: 1: the segment has since what was sent last */
};

/* Whether the job can have a store; if not, says why. */
enum roam_err roami_stored_check(struct roami_job *job);

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

/* A block was made of memory that had bytes, and is zero now, though not in a transaction. */
void roami_stored_zero(struct roami_job *job, uint64_t offset, uint64_t bytes);

/* A page of the table of roots has changed; `first`: of the table. */
void roami_stored_root(struct roami_job *job, uint64_t first, const void *page);

/* Waits until all that this node has committed, or read, is on the disk.  ROAM_ELOST. */
enum roam_err roami_stored_durable(struct roami_job *job);

/* The other nodes have ended in order, or this process does. */
enum roam_err roami_stored_ended(struct roami_job *job);
void roami_stored_close(struct roami_job *job);

/* ---- stored_marks.c: blocks */

/* Notes that memory becomes a block, or that its block is free. */
void roami_stored_block(struct roami_job *job, uint64_t offset, uint64_t bytes, bool fresh);
void roami_stored_freed(struct roami_job *job, uint64_t offset);

/* The block is about to be handed out: outside of a transaction the server is told. */
void roami_stored_handed(struct roami_job *job);
/* Tells the server what was noted: other nodes may use what was freed from now on. */
void roami_stored_tell(struct roami_job *job);

/* ---- stored_alone.c: pages that a process writes while it is alone, and nothing faults */

/* From now on what is written is known.  ROAM_ESYSTEM. */
enum roam_err roami_stored_apart(struct roami_job *job);
/*
 * Commits it; returns whether there was any.  `splits`: by as many commits as it takes; `drops`: no
 * other thread writes meanwhile.
 */
bool roami_stored_flush(struct roami_job *job, bool splits, bool drops);
/* Whether there may be more of it than one commit may have. */
bool roami_stored_much(struct roami_job *job);
/* Commits it, and lets the app view be the segment again. */
enum roam_err roami_stored_together(struct roami_job *job);

/*
 * A mute process takes its own place: the app view with what it has written moves elsewhere, while
 * its segment has what was loaded.  `app` NULL: there is no store.
 */
struct roami_stored_aside {
	uint8_t *app; /* of which only region 0 is there */
	struct roami_vec pages; /* uint32_t written */
};
enum roam_err roami_stored_aside(struct roami_job *job, struct roami_stored_aside *aside);
void roami_stored_aside_end(const struct roami_job *job, struct roami_stored_aside *aside);

/* ---- between these files */

#define ROAMI_STORED_ONCE    4096u /* pages that become zero in one commit */
#define ROAMI_STORED_VERSION UINT64_C(2)

/* Names: the version; the job that begins, and its `first` and `end`; where the roots are. */
#define ROAMI_STORED_FORMAT "version"
#define ROAMI_STORED_RANGE  "range"
#define ROAMI_STORED_ROOTS  "roots"
#define ROAMI_STORED_PROGRAM "program" /* see stored_program.c */
/* With a node's number behind it: the job, and the number of the node's last commit. */
#define ROAMI_STORED_COMMIT "commit."
struct roami_stored_last {
	uint8_t job[16];
	uint64_t number;
};

/* With a node's number behind it: the job, whose node it is, and has the pages. */
#define ROAMI_STORED_ARRIVED "arrived."

struct roami_stored_range {
	uint8_t job[16];
	uint32_t first, end;
};

#define ROAMI_STORED_OBJECTS 1024u

/* Where code and variables of an earlier program were that are not there in this one. */
struct roami_stored_foreign {
	uint32_t count;
	uint64_t begin[ROAMI_STORED_OBJECTS], end[ROAMI_STORED_OBJECTS];
};

/* Adds to the commit what this program has loaded; reads that again: false: it is malformed. */
void roami_stored_program(struct roami_job *job);
bool roami_stored_foreign(struct roami_stored_foreign *foreign, const uint8_t *value,
			  size_t bytes);
/* The offset of a word of the page that looks like an address there, + 1; 0: none does. */
uint64_t roami_stored_points(const struct roami_stored_foreign *foreign, const uint8_t *page);

/* Finding the blocks of earlier jobs: marks in their order; then false: they are damaged. */
struct roami_stored_find {
	struct roami_segment self;
	bool bad;
	bool open; /* a block begins */
	uint64_t begin;
};
void roami_stored_find_page(struct roami_job *job, struct roami_stored_find *find, uint64_t at,
			    const uint8_t *marks, uint32_t bytes);
bool roami_stored_found(struct roami_job *job, struct roami_stored_find *find);

/* The notes so far. */
size_t roami_stored_noted(struct roami_job *job);
/*
 * Adds notes to the commit: the first `upto`, which are then done; of the others only what is no
 * block's any more must wait for a later one, and all stay.
 */
void roami_stored_commit_notes(struct roami_job *job, size_t upto);

/* Prints why the job does not start, or does not go on; returns err. */
enum roam_err roami_stored_says(struct roami_job *job, enum roam_err err, const char *why);

/*
 * The connection is lost: makes another one, if that can be soon, and knows whether the commit of
 * the thread that has the turn, the caller, was received.  Else the server is of no use any more.
 */
void roami_stored_again(struct roami_job *job);

/* Connects, for the first time or again; why not. */
enum roam_err roami_stored_connect(struct roami_job *job, uint64_t until,
				   struct roami_store_opened *opened_p,
				   char why[ROAMI_STORE_TEXT_MAX + 1]);

/* The node's number in the job, also while it is alone in node 0's place. */
unsigned roami_stored_number(const struct roami_job *job);

/* The job cannot go on without the server. */
__attribute__((noreturn)) void roami_stored_fail(struct roami_job *job);

/*
 * A commit, by the thread that has the turn, and its end.  _open: without notes.  Pages are those
 * of the heap; _bytes: of what the server keeps.
 */
void roami_stored_commit_open(struct roami_job *job);
void roami_stored_commit_begin(struct roami_job *job);
void roami_stored_commit_page(struct roami_job *job, uint32_t page, const void *bytes);
void roami_stored_commit_bytes(struct roami_job *job, uint32_t page, uint32_t from,
			       const void *bytes, uint32_t count);
/* value NULL: the server forgets the name. */
void roami_stored_commit_name(struct roami_job *job, const char *name, const void *value,
			      uint32_t bytes);
void roami_stored_commit_end(struct roami_job *job);

#endif
