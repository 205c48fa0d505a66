/*
 * What home-based protocols share: every page has a home that holds the master copy; other nodes
 * fetch copies from it and send their diffs to it (rule 6).
 */
#ifndef ROAM_PROTOCOLS_HOME_H
#define ROAM_PROTOCOLS_HOME_H

#include "roam/protocol_home.h"

enum home_state {
	HOME_INVALID,    /* no copy, or one that must not be read */
	HOME_COPY,       /* a copy as new as `need` asks */
	HOME_MASTER,     /* this node is the page's home */
	HOME_PROVISIONAL /* no node was the page's home when it was opened for writing */
};

/* The first three are states 0 to 2 in every home-based protocol; home_states is their table. */
extern const struct roam_page_state home_states[];

/* The bits of a version (base/segment.h). */
#define HOME_VERSION_BITS 56
#define HOME_BEYOND_BITS  32
#define HOME_SHARES_BITS  8

/* Per page, packed: a page has at most 64 bytes of metadata, of which protocols may have 16. */
struct home_page {
	/* Of a copy: the version, read before its bytes were copied. */
	uint64_t have : HOME_VERSION_BITS;
	/* Of a copy: how far the version of the newest write notice is beyond `have`. */
	uint64_t beyond : HOME_BEYOND_BITS;
	/* At the home: how many more releases that find the page shared leave it open. */
	uint64_t shares : HOME_SHARES_BITS;
} __attribute__((packed, aligned(4)));

/* The version that a copy must have. */
static inline uint64_t home_need(const struct home_page *data)
{
	return (uint64_t)data->have + data->beyond;
}

static inline bool home_stale(const struct home_page *data)
{
	return data->beyond != 0;
}

/*
 * Sets the versions that a copy has and must have.  A copy newer than needed may count as needing
 * what it has: the home sends nothing older any more.  If the difference has no room, the exact
 * version of the copy does not matter: diffs that would bring it up to date are long gone.
 */
static inline void home_set(struct home_page *data, uint64_t have, uint64_t need)
{
	const uint64_t most = (UINT64_C(1) << HOME_BEYOND_BITS) - 1,
		       versions = (UINT64_C(1) << HOME_VERSION_BITS) - 1;
	uint64_t beyond = need > have ? need - have : 0;

	if (beyond > most) {
		have += beyond - most;
		beyond = most;
	}
	data->have = have & versions;
	data->beyond = beyond & most;
}

/* Notes that a copy of this version has come. */
static inline void home_has(struct home_page *data, uint64_t version)
{
	home_set(data, version, home_need(data));
}

/* Notes that this node, which was the home, keeps a copy of this version. */
static inline void home_kept(struct home_page *data, uint64_t version)
{
	home_set(data, version, version);
}

/* The version of the pending page that the notices ask for: the slot `needed`. */
static inline uint64_t home_needed(struct roami_node *node, uint32_t page)
{
	uint64_t need;

	roami_contract_pending(node, page);
	roami_page_lock(node, page);
	need = home_need(roami_page_data(node, page));
	roami_page_unlock(node, page);
	return need;
}

/* Per page under ScC. */
struct home_scoped_page {
	struct home_page page;
	uint64_t sent; /* the version that this node's last diff made */
};

/* Finds the page's home, or claims it if no node has, and opens the pending page. */
void home_read_fault(struct roami_node *node, uint32_t page);

/*
 * Opens the pending page for writing if that needs no home yet (home/provisional.h);
 * home_claim_provisional claims it later, for the slot `provisional`.
 */
bool home_provisional(struct roami_node *node, uint32_t page);
void home_claim_provisional(struct roami_node *node, const uint32_t *pages, size_t count);

/* Claims more pages after the pending one, if this thread claims steadily; opens all. */
void home_claimed(struct roami_node *node, uint32_t page);

/*
 * The first half of home_read_fault.  true: this node is the page's home, and the page is open;
 * false: the home is *home_p, as far as the directory knows.
 */
bool home_mine(struct roami_node *node, uint32_t page, unsigned *home_p);

/*
 * Makes this node the home of the pending page.  No other node has a copy yet, so writes need no
 * detection.
 */
void home_take(struct roami_node *node, uint32_t page);

/* Fetches pending pages (rule 6.6); on return their states say that good copies are in place. */
void home_fetch_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count);

/* Fetches pages whose homes are other nodes; opens neighbours in one go. */
void home_ahead(struct roami_node *node, uint32_t from, uint32_t pages, int32_t stride);

/*
 * home_ahead with another way to fetch: on return of `fetch` the pages' states must say that copies
 * are in place.
 */
typedef void home_fetch_fn(struct roami_node *node, struct roam_fetch_one *list, unsigned count);
void home_ahead_by(struct roami_node *node, uint32_t from, uint32_t pages, int32_t stride,
		   home_fetch_fn *fetch);

/* Opens pages that were fetched ahead, either all copies or all own pages; none is pending then. */
void home_open_run(struct roami_node *node, uint32_t first, uint32_t count);

/* Whether the pending page `page` may be opened along with a page that is being written. */
typedef bool home_fits_fn(struct roami_node *node, uint32_t page);

/*
 * Opens the pending page `page` of this home for writing, and with it the next pages, which will
 * probably be written, too: as many as are open before it without a gap, up to 31, if they can be
 * read and fit.
 */
void home_write_run(struct roami_node *node, uint32_t page, home_fits_fn *fits);

/* home_write_run for a copy, with the copies behind it. */
void home_write_row(struct roami_node *node, uint32_t page);

/*
 * Gives notice of own pages that other nodes fetched since the last call, and protects them: they
 * may have been written unseen (rule 6.7).
 */
void home_publish_shared(struct roami_node *node, const struct roam_sync *sync,
			 const struct roam_dirty *dirty, size_t count);

/*
 * Sends the diffs of dirty pages to their homes and counts up the versions of own pages; gives
 * notice of all pages that changed.
 */
void home_flush(struct roami_node *node, const struct roam_sync *sync, struct roam_dirty *dirty,
		size_t count);

/* Gives notice of a page that this node, its home, has written. */
void home_written(struct roami_node *node, const struct roam_sync *sync, uint32_t page);

/* Gives notice of a copy.  If it `changed`, its diff made dirty->version; ref: to the home. */
void home_answered(struct roami_node *node, const struct roam_dirty *dirty, uint32_t ref);

/*
 * Notes which versions the notices ask for.  Flushes copies that are too old, if dirty, and drops
 * them.
 */
typedef void home_flush_fn(struct roami_node *node, const struct roam_sync *sync,
			   struct roam_dirty *dirty, size_t count);
void home_invalidate(struct roami_node *node, const struct roam_sync *sync,
		     const struct roam_notice *notices, size_t count, home_flush_fn *flush);

/*
 * Brings copies that the notices make too old, but that this node writes in every interval, up to
 * date in place: bytes that the home has and the twin lacks are patched in, and the copies stay
 * open.
 */
void home_refresh(struct roami_node *node, const struct roam_notice *notices, size_t count);

/* Notes the version that a notice asks for; returns whether a copy that is too old is here. */
bool home_needs(struct roami_node *node, const struct roam_notice *notice);

/* Notes that the pending page is about to be fetched. */
static inline void home_expect(struct roami_node *node, uint32_t page)
{
	if (roami_model(node) == ROAM_MODEL_RC)
		roami_page_expect(node, page);
}

bool home_evict(struct roami_node *node, uint32_t page);

/* Checks the invariants over all nodes of a world at rest. */
void home_check(struct roami_node *const *nodes, unsigned count);

#endif
