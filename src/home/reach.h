/*
 * How a node reaches a peer: one object per peer, chosen when the node opens (node->reach[peer]).
 * `near`: loads and stores in the peer's segment; `far`: messages, which the peer's handlers
 * answer; `card`: messages, but a card reads its pages (reach_card.c).  No other code asks which it
 * is.  The objects are constants without state: what an operation needs is its caller's.
 *
 * Operations on many pages take a batch of them, whatever their peers, and are called once for
 * each kind of reach that the node has; each does the items of its own peers.
 *
 * The home room keeps rules 2.3 (directory.c, creator.c, provisional.c), 6.1 (roami_flush returns
 * when the homes have applied the diffs), 6.3 (near_flush, diffs_count), 6.6 (roami_fetch_mapped),
 * 6.7 (roami_home_shared), 6.9 (a home that may be taken is held by a count in its version), 6.10
 * (a list of shared pages per fetcher), 7.1 (roami_home_give, roami_fetch_mapped) and 10.5
 * (roami_words_ended).
 */
#ifndef ROAMI_REACH_H
#define ROAMI_REACH_H

#include "base/node.h"
#include "home/placement.h"
#include "msg/msg.h"
#include "page/staging.h"

/* An operation on a directory word: compare and swap, or load. */
struct roami_word_op {
	uint32_t page;
	uint32_t swap;
	uint64_t from;
	uint64_t to;
};

#define ROAMI_CLAIM_RUN 64u /* pages that are claimed in a row at most */

/* Pages first, first + stride, ... that this node has claimed, of one manager. */
struct roami_publish {
	uint32_t first;
	int32_t stride;
	uint32_t count;
};

/* A page that its home may give up. */
struct roami_take {
	uint32_t page;
	uint32_t spare;
	uint64_t have; /* the version of the asking node's copy */
};

#define ROAMI_TAKE_GONE UINT32_MAX

/* Messages of the rooms that send and fetch pages. */
enum { ROAMI_FETCH_PAGE };
enum { ROAMI_MIGRATE_TAKE };
enum { ROAMI_FLUSH_DIFFS, ROAMI_FLUSH_WRITTEN };

enum roami_creator { ROAMI_CREATOR_NOT, ROAMI_CREATOR_HAS, ROAMI_CREATOR_UNKNOWN };

/* A batch of pages to fetch: at most ROAMI_CALLS_AT_ONCE. */
struct roami_fetches {
	struct roam_fetch_one *list;
	unsigned count;
	uint8_t *aside; /* where they go, in the list's order; NULL: into the pages */
	uint64_t reads; /* bits: those that a card reads, and how that ended: */
	uint32_t done[ROAMI_CALLS_AT_ONCE];
	unsigned answered; /* of those that were asked for, how many were answered, in turn */
	unsigned asked; /* the pages asked for by message, and their requests: */
	struct roami_query asks[ROAMI_CALLS_AT_ONCE];
	struct roami_fetch_head {
		uint64_t version;
		uint64_t result;
	} heads[ROAMI_CALLS_AT_ONCE];
	struct roami_staging staging;
};

struct roami_reach {
	const char *name;

	/*
	 * An operation costs a message and its answer: callers ask for neighbouring items along,
	 * and do not wait for answers that they can do without.
	 */
	bool travels;

	/* Cards read and write pages at the peer, where the protocol lets them. */
	bool cards;

	/* ---- directory words that `manager` has.  app, may block. */

	/* Does the operation; returns the word found. */
	uint64_t (*word)(struct roami_node *node, unsigned manager,
			 const struct roami_word_op *op);
	/* Reads the words of `count` pages, at most ROAMI_WORDS_MAX, which have one manager. */
	void (*words)(struct roami_node *node, unsigned manager, uint32_t first, uint32_t count,
		      uint64_t *words);

	/* Returns the word of a page; notes the home that it names, and what comes with it. */
	uint64_t (*look)(struct roami_node *node, uint32_t page);
	/*
	 * As look, for a page whose home this node wants to be.  *claimed_p: it is the home, its
	 * word says so, and the creator's bytes are here.  `first`: the fault has not called this
	 * before.
	 */
	uint64_t (*claim)(struct roami_node *node, uint32_t page, bool first, bool *claimed_p);
	/*
	 * Claims at most `most` untouched pages beyond `page`, in its block; returns how many.
	 * They are pending, and their words say CLAIMED.
	 */
	uint32_t (*claim_run)(struct roami_node *node, uint32_t page, int32_t stride,
			      uint32_t most);
	/* Whether a block begins with the page, or this is not known. */
	bool (*block_begins)(struct roami_node *node, unsigned manager, uint32_t page);
	/* Pages that this node has claimed are ready: sets their words to READY, now or soon. */
	void (*publish)(struct roami_node *node, unsigned manager,
			const struct roami_publish *run);

	/* ---- pages.  app, may block. */

	/*
	 * Begins to fetch the pages of the batch whose homes are reached so; NULL: there is nothing
	 * to begin.
	 */
	void (*fetch_begin)(struct roami_node *node, const struct roami_reach *reach,
			    struct roami_fetches *fetches);
	/* Fetches the pages, or awaits those of fetch_begin: rule 6.6, up to the copy. */
	void (*fetch)(struct roami_node *node, const struct roami_reach *reach,
		      struct roami_fetches *fetches);

	/*
	 * Stores the diffs of the dirty pages whose homes are reached so, or sets `asks` of those
	 * that go by message; returns how many.  Also sets `asks` and `moved` of the others, to
	 * false.
	 */
	size_t (*flush)(struct roami_node *node, const struct roami_reach *reach,
			struct roam_dirty *dirty, const uint16_t *homes, size_t count);
	/* A diff that goes by message nevertheless holds its home in place (roami_home_enter). */
	bool flush_holds;
	/* See roami_flush_pinned. */
	bool (*flush_pinned)(struct roami_node *node, struct roam_dirty *dirty, unsigned home);

	/* Makes `home` the home of a page with these bytes; NULL: it is zero. */
	void (*adopt)(struct roami_node *node, unsigned home, uint32_t page, const uint8_t *bytes);
	/* See roami_take_yield, of the page's header at `home`. */
	uint32_t (*take)(struct roami_node *node, unsigned home, const struct roami_take *take);
	/* `where` of a page's header at `home`; 0: only a message could tell. */
	uint32_t (*where)(const struct roami_node *node, unsigned home, uint32_t page);
	/* See roami_post_read. */
	bool (*post_read)(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
			  void *data, size_t *bytes_p);
	/*
	 * Whether node 0 had bytes in a page at the seal.  `ask`: a message may be sent to find
	 * out.
	 */
	enum roami_creator (*creator_has)(struct roami_node *node, uint32_t page, bool ask);
	/*
	 * Copies the bytes that node 0 has in at most ROAMI_CALLS_AT_ONCE pages `what` to `page`.
	 */
	void (*creator_copy)(struct roami_node *node, struct roami_query *asks, unsigned count);

	/* ---- the heap.  app, may block. */

	/* Looks at parts of the pool at node 0, or changes it. */
	void (*parts)(struct roami_node *node, const struct roami_parts_ask *ask,
		      const struct roami_vclock *clock, struct roami_parts_answer *answer);
	/* Gives the pages whose words `manager` has their homes and option. */
	void (*place)(struct roami_node *node, unsigned manager,
		      const struct roami_placement *place);

	/* ---- control pages. */

	/*
	 * Sends to a peer that keeps a copy of this node's control page what has changed there;
	 * `at_once`: the call under way, to be awaited.  NULL: nothing to await.  A mapped control
	 * page is read directly, also after its node has stopped answering.
	 */
	struct roami_call *(*tell)(struct roami_node *node, unsigned peer, unsigned type,
				   const struct roam_part *part, bool at_once);

	/* ---- an answer that brings the bytes of a page.  Does not block. */

	struct roami_answers answers;

	/* ---- bits of objects in a page (sync/objects.c).  app, may block. */

	/*
	 * Sets bits at a peer, or tells it the page's number by a call of `type`, unless it has
	 * been `announced` before.
	 */
	void (*objects_set)(struct roami_node *node, unsigned peer, uint32_t page, uint64_t bits,
			    bool announced, unsigned type);
	void (*objects_clear)(struct roami_node *node, unsigned peer, uint32_t page, uint64_t bits);

	/* ---- where blocks are (base/marks.h).  app, may block. */

	/*
	 * Takes the mark of a block's beginning at a peer away, or asks the peer to, by a call of
	 * `type`.  Returns whether there was one.
	 */
	bool (*block_unmark)(struct roami_node *node, unsigned peer, uint64_t offset,
			     unsigned type);
};

/* Chosen when the node opens, with what follows: see home/home_state.h. */
extern const struct roami_reach roami_reach_near;
extern const struct roami_reach roami_reach_checked; /* near, but the homes take all diffs */
extern const struct roami_reach roami_reach_far;
extern const struct roami_reach roami_reach_card; /* far, but a card reads pages */

/*
 * Of two ways to do a thing that all nodes of a job do alike: `records`, by loads and stores in
 * each other's segments, if every node reaches every other so; else `messages`.
 */
const void *roami_reach_choose(const struct roami_node *node, const void *records,
			       const void *messages);

/*
 * Of two ways to look at a peer's control page: `mapped`, in the peer's own page, also after its
 * node has stopped answering; or `copied`, in the copy here of what the peer has sent.
 */
const void *roami_reach_choose_ctl(const struct roami_node *node, unsigned peer,
				   const void *mapped, const void *copied);

/*
 * The copy here of the control page of a peer that has sent what is to go there.  Fails the node if
 * it keeps no copy, because the peer's own page is mapped.
 */
struct roami_ctl *roami_reach_copy(struct roami_node *node, unsigned peer);

/*
 * Reads the words of pages when the job ends: nodes of this host no longer answer, so words in
 * mapped segments are read there, however those nodes were reached (rule 10.5).  app, may block.
 */
void roami_words_ended(struct roami_node *node, uint32_t first, uint32_t count, uint64_t *words);

/* ---- Operations of near, which the handlers of far use too. */

uint64_t roami_word_apply(struct roami_node *node, unsigned manager,
			  const struct roami_word_op *op);

/* Sets the words of pages that `home` has claimed to READY. */
void roami_publish_words(struct roami_node *node, unsigned home, const struct roami_publish *run);

/*
 * In directory.c: brings the creator's bytes of pages whose words say that this node has claimed
 * them.
 */
void roami_claim_fill(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride);

/*
 * In directory.c: a page's word while it is claimed; whether a run may continue at `next`; whether
 * two pages are in one block.
 */
uint64_t roami_claim_word(struct roami_node *node, uint32_t page, unsigned home, bool travels);
bool roami_claim_goes_on(struct roami_node *node, uint32_t page, int64_t next);
bool roami_claim_same_block(struct roami_node *node, uint32_t from, uint32_t to);

/* A word has been read at its manager: notes the home that it names. */
void roami_word_learned(struct roami_node *node, uint32_t page, uint64_t word);

/*
 * The pages whose words are asked for along with that of `page`, by message: how many from *first_p
 * on.
 */
uint32_t roami_words_around(const struct roami_node *node, uint32_t page, uint32_t *first_p);

/* In reach_claim.c: operations of far. */
uint64_t roami_far_look(struct roami_node *node, uint32_t page);
uint64_t roami_far_claim(struct roami_node *node, uint32_t page, bool first, bool *claimed_p);
uint32_t roami_far_claim_run(struct roami_node *node, uint32_t page, int32_t stride, uint32_t most);
void roami_far_publish(struct roami_node *node, unsigned manager, const struct roami_publish *run);

/* Marks the header of a page whose bytes are in place as the home, on behalf of its node. */
void roami_adopt_header(struct roami_node *node, struct roami_header *header);

/*
 * In migrate.c: gives up the home of this header to a node whose copy has version `have`, if that
 * is the home's.  Returns the home's new epoch; 0: it does not move; ROAMI_TAKE_GONE: it is
 * elsewhere.
 */
uint32_t roami_take_yield(struct roami_node *node, struct roami_header *header, uint64_t have);

/* In posts.c: an operation of near. */
bool roami_near_post_read(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
			  void *data, size_t *bytes_p);

/* In creator.c: operations of near and far. */
enum roami_creator roami_near_creator_has(struct roami_node *node, uint32_t page, bool ask);
enum roami_creator roami_far_creator_has(struct roami_node *node, uint32_t page, bool ask);

/* In fetch.c: rule 6.6 up to the copy, for a home whose segment is mapped. */
enum roam_fetch roami_fetch_mapped(struct roami_node *node, unsigned home, uint32_t page,
				   uint8_t *to, uint64_t *version_p);

/* In fetch.c: answers a request for a page. */
void roami_fetch_serve(struct roami_node *node, const struct roam_request *request, uint32_t page);

/* In fetch.c: whether a page may be opened while it is filled. */
bool roami_fetch_may_open(struct roami_node *node, uint32_t page);

/*
 * In reach_far.c: adds a request for page i of the batch to its requests, for roami_msg_ask; takes
 * the answer to request `asked`, which is for page i.
 */
void roami_far_ask(struct roami_node *node, struct roami_fetches *fetches, unsigned i);
void roami_far_answer(struct roami_node *node, struct roami_fetches *fetches, unsigned i,
		      unsigned asked);

/* In reach_far.c: diffs that go by message. */
size_t roami_far_flush(struct roami_node *node, const struct roami_reach *reach,
		       struct roam_dirty *dirty, const uint16_t *homes, size_t count);
bool roami_far_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home);

/* In reach_flush.c: sends the diffs that have `asks`, of at most as many pages as a caller has. */
void roami_flush_send(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		      size_t count);

#endif
