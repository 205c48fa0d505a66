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

/* Head of a record in the store; a diff has one, and a twin with writes of a closed interval. */
struct lrc_diff {
	uint32_t page;
	uint32_t next; /* of the page */
	uint32_t older, newer;
	uint64_t key;
	uint64_t first, last; /* the intervals whose writes the record has */
	uint32_t bytes;
	uint32_t spare;
};

_Static_assert(sizeof(struct lrc_diff) == LRC_STORE_HEAD, "the head of a stored diff");

struct lrc_node {
	uint32_t oldest, newest; /* the list of stored diffs and twins */
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
	uint32_t twin;        /* the twin's record in the store; 0: it has only open writes */
	uint32_t spare;
	uint64_t gone; /* the key of the newest own diff that only the manager has */
	uint64_t key;  /* the highest key in the copy */
	struct lrc_from from[];
};

/* Message `diffs` asks: */
struct lrc_ask {
	uint32_t page;
	uint32_t spare;
	uint64_t after;    /* wants the diffs after this key */
	uint64_t upto;     /* that began by this interval, */
	uint64_t upto_key; /* or have at most this key */
};

struct lrc_answer {
	uint64_t gone; /* 1: some diffs are no longer here */
	uint64_t have; /* the interval up to which the answer is complete */
	uint64_t next; /* the key of the first diff that had no room; 0: all are here */
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
	struct lrc_mark marks[]; /* then the page's bytes */
};

#define LRC_NODES_MAX   64u
#define LRC_REPLY       (12u * 1024) /* the most bytes of an answer with diffs */
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

/* Whether the page's bytes are here, readable or not; under its lock. */
static inline bool lrc_has(struct roami_node *node, uint32_t page)
{
	roami_contract_locked(node, page);
	return roami_page_state(node, page) != LRC_START || roami_me(node) == 0;
}

static inline size_t lrc_padded(size_t bytes)
{
	return (bytes + 7u) & ~(size_t)7;
}

/* ---- stored diffs.  The page lock is held, unless a comment says otherwise. */

/* The bytes in use or reserved; the store is locked. */
uint64_t lrc_used(struct roami_node *node);

/* The room that the diff of a twin may take. */
uint64_t lrc_room(void);

/* Notes that the page's twin has writes of the interval that ends. */
void lrc_keep_twin(struct roami_node *node, uint32_t page);

/*
 * Make a stored diff of the twin.  lrc_seal: of a page that cannot be written; leaves the diff, at
 * most ROAM_DIFF_MAX bytes, at `bytes` too, and returns its length.  lrc_seal_open: of any page,
 * which it closes first.
 */
size_t lrc_seal(struct roami_node *node, uint32_t page, uint8_t *bytes);
void lrc_seal_open(struct roami_node *node, uint32_t page);

/*
 * Writes the answer to a question, followed by the diffs, at most LRC_REPLY bytes; returns its
 * length.
 */
size_t lrc_gather(struct roami_node *node, const struct lrc_ask *ask, uint8_t *out);

/* Drops own diffs up to `key`, which the manager has.  Takes the page lock itself. */
void lrc_forget(struct roami_node *node, uint32_t page, uint64_t key);

/* Reads and checks the item at `at`; false: there is none.  No lock. */
bool lrc_item(struct roami_node *node, const uint8_t *at, const uint8_t *end,
	      struct lrc_item *item);

/*
 * Takes the diff with the least key of all streams; false: none is left, or one with a smaller key
 * did not fit into its writer's answer.  No lock.
 */
bool lrc_next(struct roami_node *node, struct lrc_stream *streams, unsigned count,
	      struct lrc_item *item, const uint8_t **bytes_p);

/* Applies a diff, unless this copy has it. */
void lrc_patch_one(struct roami_node *node, uint32_t page, const struct lrc_item *item,
		   const uint8_t *bytes);

/*
 * Asks all `wanted` nodes for diffs, then waits for the answers; this node's own diffs are a
 * stream, too, if wanted.  Returns the number of streams; *gone_p: some of the diffs are no longer
 * there.  app; no lock.
 */
unsigned lrc_call(struct roami_node *node, struct lrc_ask *asks, const bool *wanted,
		  struct lrc_stream *streams, bool *gone_p);

/* ---- whole copies, and making room */

/*
 * Takes a whole copy from node `from`.  A manager takes only its first one, because other nodes
 * rely on the diffs that it has.  app.
 */
void lrc_fetch_page(struct roami_node *node, uint32_t page, unsigned from);

/* Makes room for one more diff and the record of a twin.  app. */
void lrc_make_room(struct roami_node *node);

/* lrc_make_room for a full barrier, at which it makes room sooner. */
void lrc_make_room_early(struct roami_node *node);

/* Handlers. */
void lrc_diffs(struct roami_node *node, const struct roam_request *request);
void lrc_page_asked(struct roami_node *node, const struct roam_request *request);
void lrc_marks(struct roami_node *node, const struct roam_request *request);
void lrc_base(struct roami_node *node, const struct roam_request *request);
void lrc_patch(struct roami_node *node, const struct roam_request *request);

#endif
