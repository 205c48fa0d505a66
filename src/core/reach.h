/*
 * How a node reaches a peer: one object per peer, chosen when the node opens (node->reach[peer]).
 * `near`: loads and stores in the peer's segment; `far`: messages, which the peer's handlers
 * answer.  Nobody else asks which of them it is.  A constant, without state of its own: what an
 * operation needs lies with its caller.
 *
 * Operations on many pages take a batch of them, whatever their peers, and are called once for
 * each kind of reach that the node has (node->reaches); each does the items of its own peers.
 */
#ifndef ROAMI_REACH_H
#define ROAMI_REACH_H

#include "core/far.h"
#include "core/landing.h"
#include "core/node.h"
#include "msg/msg.h"

/* An operation on a directory word: compare and swap, or load. */
struct roami_word_op {
	uint32_t page;
	uint32_t swap;
	uint64_t from;
	uint64_t to;
};

/* A batch of pages to fetch: at most ROAMI_CALLS_AT_ONCE. */
struct roami_fetches {
	struct roam_fetch_one *list;
	unsigned count;
	unsigned asked; /* those that travel, of which these are: */
	struct roami_query asks[ROAMI_CALLS_AT_ONCE];
	struct roami_fetch_head {
		uint64_t version;
		uint64_t result;
	} heads[ROAMI_CALLS_AT_ONCE];
	struct roami_landing landing;
};

struct roami_reach {
	const char *name;

	/*
	 * What is asked for costs a message and its answer: who asks for one thing asks for those
	 * beside it, and goes on without an answer where it can.
	 */
	bool travels;

	/* ---- directory words that `manager` has.  app, may block. */

	/* Does the operation; the word found. */
	uint64_t (*word)(struct roami_node *node, unsigned manager,
			 const struct roami_word_op *op);
	/* Reads those of `count` pages, at most ROAMI_WORDS_MAX, that have one manager. */
	void (*words)(struct roami_node *node, unsigned manager, uint32_t first, uint32_t count,
		      uint64_t *words);

	/* ---- pages.  app, may block. */

	/* Begins to fetch those of the batch that are reached so; NULL: nothing is begun. */
	void (*fetch_begin)(struct roami_node *node, const struct roami_reach *reach,
			    struct roami_fetches *fetches);
	/* Fetches them, or awaits them: rule 6.6, up to the copy. */
	void (*fetch)(struct roami_node *node, const struct roami_reach *reach,
		      struct roami_fetches *fetches);

	/*
	 * Stores the diffs of those dirty pages whose homes are reached so, or sets `asks`: they go
	 * by message; how many do.  Also sets `asks` and `moved` of the others, to false.
	 */
	size_t (*flush)(struct roami_node *node, const struct roami_reach *reach,
			struct roam_dirty *dirty, const uint16_t *homes, size_t count);
	/* A diff that goes by message all the same has its home held (roami_home_enter). */
	bool flush_holds;
	/* See roami_flush_pinned. */
	bool (*flush_pinned)(struct roami_node *node, struct roam_dirty *dirty, unsigned home);
};

/* Chooses node->reach and node->reaches.  `near`: peers whose memory may be reached so; bits. */
void roami_reach_choose(struct roami_node *node, uint64_t near);

extern const struct roami_reach roami_reach_near;
extern const struct roami_reach roami_reach_checked; /* near, but the homes take all diffs */
extern const struct roami_reach roami_reach_far;

/*
 * The words of pages when the job ends: nodes of this host answer no more, and what they have in
 * mapped segments is read there, however they were reached.  app, may block.
 */
void roami_words_ended(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words);

/* ---- What near does, and the handlers of far do for it. */

uint64_t roami_word_apply(struct roami_node *node, unsigned manager,
			  const struct roami_word_op *op);

/* In fetch.c: rule 6.6 up to the copy, of a home whose segment is mapped. */
enum roam_fetch roami_fetch_direct(struct roami_node *node, unsigned home, uint32_t page,
				   uint8_t *to, uint64_t *version_p);

/* Also there: whether a page may be opened while it is filled. */
bool roami_fetch_may_open(struct roami_node *node, uint32_t page);

/* In reach_flush.c: sends the diffs that have `asks`, of at most as many pages as a caller has. */
void roami_flush_send(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count);
void roami_diffs_handle(struct roami_node *node, const struct roam_request *request);

#endif
