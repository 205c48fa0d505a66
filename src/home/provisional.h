/*
 * Provisional pages: pages that are written before they have a home.  A claim by message would make
 * the writer wait; but a page that no node had touched at this node's last acquire may be taken as
 * zero here.  So it is opened at once, and claimed together with others when that matters: before
 * other nodes may learn of its writes (release), and before this node learns of theirs (acquire).
 * If another node is its home by then, the page is fetched late and the bytes written become a
 * diff.
 */
#ifndef ROAMI_PROVISIONAL_H
#define ROAMI_PROVISIONAL_H

#include "base/node.h"

/* Pages whose directory words are asked for together: a group. */
#define ROAMI_GROUP 64u

struct roami_group;

struct roami_provisional {
	struct roami_spin lock;
	_Atomic uint32_t count;    /* of `list` */
	_Atomic uint32_t claiming; /* pages taken from `list` are being claimed */
	_Atomic uint64_t epoch;    /* counts acquires */
	struct roami_vec list; /* uint32_t pages that are open as provisional pages, some stale */
	struct roami_vec work; /* pages that the roami_provisional_claim under way has taken */
	struct roami_group *groups;
};

static inline struct roami_provisional *provisional_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_PROVISIONAL].state;
}

/*
 * What a node learns of untouched pages holds until its next acquire, which begins another epoch.
 * The epoch is read before the directory words are.
 */
static inline uint64_t roami_provisional_epoch(struct roami_node *node)
{
	return atomic_load(&provisional_of(node)->epoch);
}

/* Learns from the directory words of the group that begins with `first`, read after `epoch`. */
void roami_provisional_learn(struct roami_node *node, uint32_t first, uint32_t count,
			     const uint64_t *words, uint64_t epoch);

/* Whether pages are open as provisional pages, or are being claimed. */
static inline bool roami_provisional_any(struct roami_node *node)
{
	return atomic_load(&provisional_of(node)->count) != 0 ||
	       atomic_load(&provisional_of(node)->claiming) != 0;
}

/*
 * Claims all provisional pages, or fetches them: none is open on return.  app, the interval lock is
 * held.
 */
void roami_provisional_claim(struct roami_node *node);

/* After an acquire: begins another epoch. */
void roami_provisional_forget(struct roami_node *node);

/* In directory.c: the words of a group, asked for in `epoch`, have arrived. */
void roami_words_learned(struct roami_node *node, uint32_t first, uint32_t count,
			 const uint64_t *words, uint64_t epoch);

/*
 * In directory.c: whether a run of the calling thread's claims continues at `page`, or next to it.
 */
bool roami_claim_expected(struct roami_node *node, uint32_t page);

/*
 * The calling thread has written `page` without a claim: notes where its next pages are expected.
 */
void roami_claim_passed(struct roami_node *node, uint32_t page);

#endif
