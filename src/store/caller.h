/*
 * A connection of a client to a page server, as the server sees it: bytes in, bytes out.  Nothing
 * here knows of sockets, threads or files; store/server.c does.
 *
 * Input is not trusted.  A client that does not know the key gets no further than its hello; what a
 * client with the key says is checked all the same.
 *
 * The room keeps rules 14.2 to 14.5.
 */
#ifndef ROAMI_STORE_CALLER_H
#define ROAMI_STORE_CALLER_H

#include "link/flow.h"
#include "roam/roam.h"
#include "store/log.h"

#define ROAMI_CALLER_OUT_MUCH ((size_t)4 << 20)      /* to be sent: no more is taken in */
#define ROAMI_CALLERS_QUEUED  ((uint64_t)256 << 20)  /* on its way to the disk: the same, of all */
#define ROAMI_CALLERS_STAGED  ((uint64_t)1 << 30)    /* bytes of commits that are not whole */
#define ROAMI_CALLER_STRANGE  1024u /* bytes that come in before it has shown the key, at most */

/* What all connections share. */
struct roami_callers {
	uint8_t key[ROAMI_CHANNEL_KEY], read_key[ROAMI_CHANNEL_KEY];
	struct roami_store_state state;
	struct roami_recovered is; /* what the store is */
	uint64_t serial, durable;  /* the last commit received; on the disk */
	uint8_t job[16];
	uint64_t epoch;
	unsigned writers; /* connections of the job that may commit */
	uint64_t staged, queued; /* bytes */
	char failed[ROAMI_STORE_WHY]; /* why the server must stop; "": it need not */
	char full[ROAMI_STORE_WHY];   /* why no commit can be written for now; "": one can */
	struct roami_caller *all;
	/* Makes the log of an empty store, of the heap in `is`.  false: `failed`, or `full`. */
	bool (*make)(void *arg);
	/* Takes a commit, to be written. */
	void (*put)(void *arg, struct roami_log_commit *commit);
	void *arg;
};

struct roami_caller {
	struct roami_callers *callers;
	struct roami_caller *next, **before;
	bool met, open, reads;
	bool known;    /* by its key, of which channel is */
	bool read_key; /* that is the one to read with */
	bool lost; /* it is to be dropped, when what it has to be told is sent */
	struct roami_channel channel, reader;
	struct roami_flow out;
	struct roami_log_commit *commit; /* that is not whole; NULL: none */
	size_t commit_room;
	uint64_t number; /* its, */
	uint64_t told;   /* commits that it knows to be on the disk */
	uint64_t last;   /* that it wants to know of: its own, or those before it came */
	bool under_way;  /* while its frames come; without `commit` it is refused */
};

void roami_callers_fini(struct roami_callers *callers);
/* Tells all of them that the server ends, and why. */
void roami_callers_end(struct roami_callers *callers, enum roam_err err, const char *why);

void roami_caller_init(struct roami_caller *caller, struct roami_callers *callers);
void roami_caller_fini(struct roami_caller *caller);

/*
 * Tells the client how far commits are on the disk, if it does not know of its own, once it has
 * taken all that it was told before: a client that reads nothing for long makes nothing pile up.
 */
void roami_caller_tell(struct roami_caller *caller);

/* Whether more may be taken in now. */
static inline bool roami_caller_may(const struct roami_caller *caller)
{
	return caller->out.end - caller->out.at < ROAMI_CALLER_OUT_MUCH &&
	       caller->callers->queued < ROAMI_CALLERS_QUEUED && !caller->lost;
}

/*
 * Handles the bytes in `in`, which it may change.  Returns how many it has used, and leaves the
 * beginning of an incomplete frame, or what it may not take now; SIZE_MAX: the connection is to be
 * dropped.
 */
size_t roami_caller_take(struct roami_caller *caller, uint8_t *in, size_t bytes);

#endif
