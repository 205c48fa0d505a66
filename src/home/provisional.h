/*
 * Guesses: pages that are written before anybody is their home.  A claim that travels makes who
 * writes wait; but a page that nobody had touched when this node acquired last is zero, as far as
 * it may be seen here.  So it is opened at once, and claimed with others when that matters: before
 * others may learn of the writes (release), and before this node learns of others' (acquire).  If
 * somebody else is its home by then, it is fetched late, and what was written becomes a diff.
 */
#ifndef ROAMI_GUESS_H
#define ROAMI_GUESS_H

#include "base/node.h"

/* Words of pages that are asked for together: one group. */
#define ROAMI_GROUP 64u

struct roami_group;

struct roami_guess {
	struct roami_spin lock;
	_Atomic uint32_t count;    /* of `list` */
	_Atomic uint32_t settling; /* those that were in it are being claimed */
	_Atomic uint64_t epoch;    /* counts acquires */
	struct roami_vec list;     /* uint32_t pages that are open as guesses, some stale */
	struct roami_vec work;     /* of the settling under way */
	struct roami_group *groups;
};

static inline struct roami_guess *guess_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_PROVISIONAL].state;
}

/* What this node knows of untouched pages holds until its next acquire.  Before words are read. */
static inline uint64_t roami_guess_epoch(struct roami_node *node)
{
	return atomic_load(&guess_of(node)->epoch);
}

/* Words that were read after `epoch` was: of the group of which `first` is the first page. */
void roami_guess_learn(struct roami_node *node, uint32_t first, uint32_t count,
		       const uint64_t *words, uint64_t epoch);

/* Whether some are open, or being settled. */
static inline bool roami_guess_any(struct roami_node *node)
{
	return atomic_load(&guess_of(node)->count) != 0 ||
		atomic_load(&guess_of(node)->settling) != 0;
}

/* Claims all, or fetches them: none is open on return.  app, the interval lock is held. */
void roami_guess_settle(struct roami_node *node);

/* Something was granted: what was known of untouched pages is old. */
void roami_guess_forget(struct roami_node *node);

/* In homes.c: the words of a group have come, asked for in `epoch`. */
void roami_words_learned(struct roami_node *node, uint32_t first, uint32_t count,
			 const uint64_t *words, uint64_t epoch);

/* Also there: whether a run of the calling thread's claims goes on at `page`, or beside it. */
bool roami_claim_expected(struct roami_node *node, uint32_t page);

/* The calling thread has taken `page` without a claim: where its next ones are expected. */
void roami_claim_passed(struct roami_node *node, uint32_t page);

#endif
