/*
 * The parts of lrc: its stored diffs (lrc_diffs.c), whole copies and making room (lrc_base.c),
 * faults and synchronisation (lrc.c, which says how it all works).
 */
#ifndef ROAM_PROTOCOLS_LRC_H
#define ROAM_PROTOCOLS_LRC_H

#include "lrc_store.h"
#include "roam/protocol.h"

enum lrc_state { LRC_START, LRC_STALE, LRC_COPY };

enum { LRC_DIFFS, LRC_PAGE, LRC_MARKS, LRC_BASE, LRC_PATCH }; /* messages */

/* In the store, of each diff, and of each twin with writes of a closed interval. */
struct lrc_diff {
	uint32_t page;
	uint32_t next; /* of the page */
	uint32_t older, newer;
	uint64_t key;
	uint64_t first, last; /* intervals that it has writes of */
	uint32_t bytes;
	uint32_t spare;
};

_Static_assert(sizeof(struct lrc_diff) == LRC_STORE_HEAD, "the head of a stored diff");

struct lrc_node {
	uint32_t oldest, newest; /* stored diffs, and twins */
	uint64_t total;
	uint64_t reserved; /* for the diffs of twins */
};

struct lrc_mark {
	uint64_t have;
	uint64_t key;
};

struct lrc_from {
	struct lrc_mark mark;
	uint64_t need;
	uint64_t top;
};

struct lrc_page {
	uint32_t first, last; /* own stored diffs */
	uint32_t twin;        /* the stored record of the twin; 0: it has open writes only */
	uint32_t spare;
	uint64_t gone;        /* key of the newest own diff that the manager has instead */
	uint64_t key;         /* the highest in the copy */
	struct lrc_from from[];
};

/* On the wire. */
struct lrc_ask {
	uint32_t page;
	uint32_t spare;
	uint64_t after;    /* this key: */
	uint64_t upto;     /* diffs that began by this interval */
	uint64_t upto_key; /* or have at most this key */
};

struct lrc_answer {
	uint64_t gone; /* 1: some are no more */
	uint64_t have; /* interval up to which it is complete */
	uint64_t next; /* key of the first that had no room; 0: all are here */
};

struct lrc_item {
	uint64_t key;
	uint32_t writer;
	uint32_t bytes;
};

struct lrc_copy {
	uint32_t page;
	uint32_t here;
	uint64_t key;
	struct lrc_mark marks[]; /* then the bytes */
};

#define LRC_NODES_MAX   64u
#define LRC_REPLY       (12u * 1024) /* bytes of an answer with diffs */
#define LRC_PATCH_BYTES (32u * 1024)
#define LRC_COPY_MAX \
	(sizeof(struct lrc_copy) + LRC_NODES_MAX * sizeof(struct lrc_mark) + ROAM_PAGE_SIZE)

/* Diffs of one writer, ascending by key. */
struct lrc_stream {
	unsigned writer;
	const uint8_t *at, *end;
	struct lrc_answer answer;
};

static inline struct lrc_page *lrc_page(struct roami_node *node, uint32_t page)
{
	return roami_page_data(node, page);
}

static inline struct lrc_diff *lrc_diff(struct roami_node *node, uint32_t record)
{
	return lrc_store_head(node, record);
}

/* Whether there are bytes of the page here, readable or not; under its lock. */
static inline bool lrc_has(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	return roami_page_state(node, page) != LRC_START || roami_me(node) == 0;
}

static inline size_t lrc_padded(size_t bytes)
{
	return (bytes + 7u) & ~(size_t)7;
}

/* ---- stored diffs.  Under the page lock, unless it says otherwise. */

/* Bytes in use, or reserved; the store is locked. */
uint64_t lrc_used(struct roami_node *node);

/* Room for the diff of a twin. */
uint64_t lrc_room(void);

/* Notes that the page's twin has writes of the interval that ends. */
void lrc_keep_twin(struct roami_node *node, uint32_t page);

/* The twin becomes a stored diff: of a page that nobody can write; of any. */
void lrc_seal(struct roami_node *node, uint32_t page);
void lrc_seal_open(struct roami_node *node, uint32_t page);

/* The answer to a question, with the diffs behind it: LRC_REPLY bytes at most; how many. */
size_t lrc_gather(struct roami_node *node, const struct lrc_ask *ask, uint8_t *out);

/* Drops own diffs up to `key`: the manager has them.  Takes the page lock itself. */
void lrc_forget(struct roami_node *node, uint32_t page, uint64_t key);

/* Reads an item at `at`, checked; false: there is none.  No lock. */
bool lrc_item(struct roami_node *node, const uint8_t *at, const uint8_t *end,
	      struct lrc_item *item);

/*
 * Takes the diff with the least key of all; false: none is left, or one with a smaller key did not
 * fit into its writer's answer.  No lock.
 */
bool lrc_next(struct roami_node *node, struct lrc_stream *streams, unsigned count,
	      struct lrc_item *item, const uint8_t **bytes_p);

/* Applies a diff, unless this copy has it. */
void lrc_patch_one(struct roami_node *node, uint32_t page, const struct lrc_item *item,
		   const uint8_t *bytes);

/*
 * Sends all questions, then waits; own diffs are among the streams if asked for.  How many streams;
 * *gone_p: somebody has no more what was asked for.  app; no lock.
 */
unsigned lrc_call(struct roami_node *node, struct lrc_ask *asks, const bool *wanted,
		  struct lrc_stream *streams, bool *gone_p);

/* ---- whole copies, and making room */

/*
 * Takes a whole copy of `from`'s; a manager only its first: others rely on what it has.  app.
 */
void lrc_fetch_page(struct roami_node *node, uint32_t page, unsigned from);

/* There is room for one more diff and the record of a twin on return.  app. */
void lrc_make_room(struct roami_node *node);

/* The same for a full barrier, where room is made sooner. */
void lrc_make_room_early(struct roami_node *node);

/* Handlers. */
void lrc_diffs(struct roami_node *node, const struct roam_request *request);
void lrc_page_asked(struct roami_node *node, const struct roam_request *request);
void lrc_marks(struct roami_node *node, const struct roam_request *request);
void lrc_base(struct roami_node *node, const struct roam_request *request);
void lrc_patch(struct roami_node *node, const struct roam_request *request);

#endif
