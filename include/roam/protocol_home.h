/*
 * Homes of pages, for protocols that have them; roam/protocol.h has what every protocol needs.  The
 * first sections are for all protocols with homes.  Each section after them belongs to one value of
 * enum roam_homes: a call by a protocol that declares another value ends the job, unless it says
 * what it does for any.
 */
#ifndef ROAM_PROTOCOL_HOME_H
#define ROAM_PROTOCOL_HOME_H

#include "roam/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------- home pages */

/*
 * Opens readable, pending pages of this home for writing: the effect is that of a write fault on
 * each, with fewer calls of the engine.  Not for protocols whose handlers take access from pending
 * pages.
 */
void roami_page_open_written(struct roami_node *node, uint32_t first, uint32_t count);

/* Whether the pending page's fault was a write (then a fetch may open it for writing). */
bool roami_page_wants_write(struct roami_node *node, uint32_t page);

/* The protocol's model, and whether it closes_homes. */
enum roam_model roami_model(const struct roami_node *node);
bool roami_closes_homes(struct roami_node *node);

/*
 * While a check looks at diffs (roami_checks_races) homes make twins, too: a page of this home is
 * opened for writing only after a write fault, never left open across a release, and passed to
 * roami_race_note_home at each release.
 */
void roami_race_note_home(struct roami_node *node, uint32_t page);

/*
 * roami_page_set_twins chooses whether writes of this home make a twin, as those of other nodes do;
 * roami_page_twins returns that.  A page open for writing without a twin must be closed first.
 */
void roami_page_set_twins(struct roami_node *node, uint32_t page, bool twins);
bool roami_page_twins(struct roami_node *node, uint32_t page);

/* From release: resets the page's heat, so that the next few releases write-protect it again. */
void roami_page_cool(struct roami_node *node, uint32_t page);

/* -------------------------------------------------------------------------------- the directory */

/*
 * A reference to a home: the node that is or was the page's home, and the epoch, which each move of
 * the home increments.  0: not known.
 */
#define ROAM_HOME_REF(node, epoch)   ((uint32_t)(epoch) << 8 | ((uint32_t)(node) + 1))
#define ROAM_HOME_REF_NODE(ref)      (((ref)&0xffu) - 1)
#define ROAM_HOME_REF_EPOCH(ref)     ((ref) >> 8)
#define ROAM_EPOCH_MAX               0xffffffu

/*
 * The home of a page, from the cache or else from the directory.  ROAM_NOBODY: the page is
 * unclaimed, or is just being claimed.  app; may send a message to the page's manager and wait for
 * the answer.
 */
#define ROAM_NOBODY 0xffffu
unsigned roami_home_lookup(struct roami_node *node, uint32_t page);

/*
 * The home of a page; one that no node has claimed becomes this node's, bytes included: then
 * *claimed_p is true, and roami_home_publish is still to be called.  Waits while another node is
 * claiming the page.  app, may block.
 */
unsigned roami_home_claim(struct roami_node *node, uint32_t page, bool *claimed_p);

/*
 * After `page` was claimed: if this thread claims pages at a constant distance, claims more of them
 * (rule 2.3): page + i * *stride_p, 0 < i <= the result.  They are pending and their bytes are in
 * place; the caller opens them and ends pending.
 */
uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page, int32_t *stride_p);

/* ---------------------------------------------------------------------------------------- bytes */

/*
 * Bits of the page header, of which there is one per node and page, in memory that every node that
 * shares memory with this one can reach.  A fetcher sets `shared`, fences, reads `version`, copies
 * the bytes, and reads `where` and `shared` again (rule 6.6).
 */
#define ROAM_HEADER_HOME  1u
#define ROAM_HEADER_READY 2u

/* OPEN (ROAM_HOMES_TAKEN only): as OK, but the home had the page open for writing. */
enum roam_fetch { ROAM_FETCH_OK, ROAM_FETCH_OPEN, ROAM_FETCH_NOT_HOME, ROAM_FETCH_NOT_READY };

/*
 * roami_fetch copies the bytes of a pending page from `home` into the runtime view; *version_p is
 * the version read before.  roami_fetch_all does that for several pages: from another host they
 * take hardly longer than one.  app, may block.
 */
struct roam_fetch_one {
	uint32_t page;
	unsigned home;
	enum roam_fetch result;
	uint64_t version;
};

void roami_fetch_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count);
enum roam_fetch roami_fetch(struct roami_node *node, unsigned home, uint32_t page,
			    uint64_t *version_p);

/*
 * The pending page is about to be fetched: if this node has written the page in several intervals,
 * it is expected to write it again, and the page opens for writing, with its twin, so that the
 * write takes no second fault.
 */
void roami_page_expect(struct roami_node *node, uint32_t page);

/*
 * Whether this node writes the pending page in every interval, and has it open with a twin across
 * releases.  roami_refresh_all fetches the home's bytes for such pages, at most ROAM_REFRESH_MAX,
 * and patches those in that differ from the twin: the pages stay open, and what threads of this
 * node write meanwhile is not lost.  app, may block.
 */
#define ROAM_REFRESH_MAX 64u

bool roami_page_hot(struct roami_node *node, uint32_t page);
void roami_refresh_all(struct roami_node *node, struct roam_fetch_one *list, unsigned count);

/*
 * roami_page_asked notes that a fault asks for the pending page.  roami_page_again: whether another
 * page of this home, which has no access here, may be fetched along with one that faulted, if pages
 * are fetched ahead at all.  A page may come along a few times after a fault of its own, because
 * without a fault nothing shows whether it is read.
 */
void roami_page_asked(struct roami_node *node, uint32_t page);
bool roami_page_again(struct roami_node *node, uint32_t page, unsigned home);

/*
 * Whether a write fault on the pending page continues a row of pages that this node writes, so that
 * the pages behind it should be fetched along: only if pages are fetched ahead at all, and asking
 * for each would take long.
 */
bool roami_page_in_row(struct roami_node *node, uint32_t page, unsigned home);

/*
 * How many pages behind `page`, `most` at most, will probably be written next: as many as the
 * protocol's pages that lie open for writing in a row before it, all of this home if `page` is,
 * otherwise all copies.
 */
uint32_t roami_page_row(struct roami_node *node, uint32_t page, uint32_t most);

/* --------------------------------------------------------------------------- diffs and versions */

/*
 * Sends the diffs of dirty pages (not of `home` ones) to their homes, homes[i] for dirty[i].
 * Returns when all are applied, with `changed` and `version` of each set.  app, may block.
 */
void roami_flush(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		 size_t count);

/*
 * Increments the version in the header of a page of this home, for an interval in which the home
 * wrote it; returns the new version.
 */
uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page);

/*
 * This node becomes the home of pages first + i * stride, i < count, which were claimed together:
 * sets HOME and READY in their headers.  The bytes must be in place.
 */
void roami_home_publish(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
			uint64_t version);

/*
 * roami_home_shared lists, after a full fence, pages of this home that other nodes have fetched
 * since the last call; at most `max`, and returns how many.  roami_home_unshare clears the page's
 * shared mark, so that later fetchers report again; call it *before* roami_home_version_bump.
 * false: cards read the pending page, so it stays marked and must be closed (rule 12.2).  app, may
 * block.
 */
size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max);
bool roami_home_is_shared(struct roami_node *node, uint32_t page);
bool roami_home_unshare(struct roami_node *node, uint32_t page);

/* -------------------------------------------------------------------- what notices also tell */

/*
 * roami_notice_add with this reference to the home.  (roami_notice_add itself uses the page's own
 * reference, if the home is here.)  Not for ROAM_HOMES_TAKEN.
 */
void roami_notice_add_home(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref);

/* roami_notice_add with the reference to the diff, from roami_post; 0: there is none. */
void roami_notice_add_diff(struct roami_node *node, uint32_t page, uint64_t version,
			   uint64_t diff);

/*
 * For `acquire`: what else a notice tells.  roami_notice_diff: where the writer's diff is
 * (ROAM_HOMES_TAKEN).  roami_notice_home: where the page is, a ROAM_HOME_REF (all others).  0: it
 * does not tell.
 */
uint64_t roami_notice_diff(struct roami_node *node, const struct roam_notice *notice);
uint32_t roami_notice_home(struct roami_node *node, const struct roam_notice *notice);

/* ------------------------------------------------- fixed: pages written before they have a home */

/*
 * Whether the pending page, which is to be written, may be opened although it has no home: no node
 * had touched it at this node's last acquire.  If so, the page is written without a twin, and the
 * core calls the protocol's `provisional` in time.
 */
bool roami_page_provisional(struct roami_node *node, uint32_t page);

/*
 * Claims pages that were opened after roami_page_provisional, ascending; won[i]: this node is now
 * the home of page i.  Each of the other pages has another home.
 */
void roami_home_claim_each(struct roami_node *node, const uint32_t *pages, size_t count, bool *won);

/* A page that was won: it is now like any claimed page, and still to be published. */
void roami_provisional_won(struct roami_node *node, uint32_t page);

/* A page whose home another node has assigned to this one: counts as written here. */
void roami_provisional_given(struct roami_node *node, uint32_t page);

/* A page that has another home, closed: keeps what was written until roami_provisional_merge. */
void roami_provisional_lost(struct roami_node *node, uint32_t page);
/* After the page was fetched: merges what was written into it. */
void roami_provisional_merge(struct roami_node *node, uint32_t page);

/* ----------------------------------------------------------------------------------- moving */

/* ROAM_HOMES_MOVING (rule 7.1): homes move by messages, in the protocol's handlers and faults. */

/* A reference to this node if its header says that the page's home is here; else 0. */
uint32_t roami_home_here(struct roami_node *node, uint32_t page);

/*
 * Gives the home of a page away.  Called under the page lock; the page is not pending.  First the
 * header says that the home is no longer here, then write access is taken, then `bytes` and
 * *version_p are read.  A page that was open for writing, or dirty, may have been written in the
 * open interval: its version is incremented for that, *open_p is true, the page stays dirty,
 * without a twin, and the next release must give notice of that version.  With `bytes` NULL the
 * page goes to a node that has the bytes, if *version_p is the page's version.  false: the home
 * stays here; the version is another one, or roami_flush_pinned is at work.
 */
bool roami_home_give(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p,
		     bool *open_p);

/*
 * In handlers: pages of this home from `first` on will be given away next.  Takes write access at
 * once from those that are open and not pending; they are dirty from then on.
 */
void roami_home_close_run(struct roami_node *node, uint32_t first, uint32_t count);

/*
 * roami_flush of one page whose home may move: stores the diff at the home, if this node can reach
 * its memory and the home is still there.  false: nothing was done.  app.
 */
bool roami_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home);

/* Under the page lock: makes this node the home of a pending page, whose bytes are in place. */
void roami_home_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t ref);

/* At the page's home: copies what roami_fetch would get, the bytes and the version read before. */
void roami_home_copy(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p);

/* Applies a diff at the page's home, increments the version and returns it. */
uint64_t roami_home_apply(struct roami_node *node, unsigned from, uint32_t page, const void *diff,
			  size_t bytes);

/* How many full barriers this node's threads have left, each thread counted. */
uint64_t roami_barriers_left(struct roami_node *node);

/* Hands parked messages to their handlers although the page stays pending. */
void roami_page_unpark(struct roami_node *node, uint32_t page);

/*
 * Under the page lock, for a page that has become a copy: closes it if the node has more copies
 * than ROAM_CACHE_PAGES allows.  true: it was evicted.
 */
bool roami_cache_drop(struct roami_node *node, uint32_t page);

/*
 * Several roami_call_page at a time, at most ROAM_PAGES_ONCE; each payload begins with the page
 * number.  roami_pages_ask sends them all.  roami_pages_await waits until at least one more has
 * been answered and returns how many are left.  A page that has come must be used at once: the one
 * still waited for may wait for it on another node.  roami_pages_call sends all and waits for all,
 * where that cannot be.  app, may block.
 */
#define ROAM_PAGES_ONCE 16u

struct roam_page_call {
	uint32_t page;
	unsigned to;
	unsigned type;
	struct roam_part part;
	void *reply;
	size_t reply_max;
	struct roami_call *started; /* private to the core; NULL: answered */
	size_t bytes;               /* set: the length of the reply */
	bool came;                  /* set: the page's bytes came */
};

void roami_pages_ask(struct roami_node *node, struct roam_page_call *calls, unsigned count);
unsigned roami_pages_await(struct roami_node *node, struct roam_page_call *calls, unsigned count);
void roami_pages_call(struct roami_node *node, struct roam_page_call *calls, unsigned count);

/*
 * roami_reply_page for bytes that may change at once.  roami_reply_buffer returns where to put them
 * first: the caller's page if memory is shared, else `spare`.  roami_reply_filled then answers.
 */
uint8_t *roami_reply_buffer(struct roami_node *node, const struct roam_request *request,
			    uint32_t page, uint8_t *spare);
void roami_reply_filled(struct roami_node *node, const struct roam_request *request,
			const uint8_t *buffer, const struct roam_part *parts, unsigned count);

/* ------------------------------------------------------------------------------------ taken */

/*
 * ROAM_HOMES_TAKEN: a node that has a current copy makes itself the home, by loads and stores if
 * memory is shared.  The header says whether the home has the page open; such a page is not taken.
 */

/* Called before the home opens its page for writing.  false: the page was taken meanwhile. */
bool roami_home_open(struct roami_node *node, uint32_t page);

/*
 * The home has closed the page, and every node that may have a copy will get a notice.  Does
 * nothing for homes that are not taken.
 */
void roami_home_shut(struct roami_node *node, uint32_t page);

/*
 * Whether a node wanted to take the page while it was open, or copied it while it had a twin; false
 * for homes that are not taken.
 */
bool roami_home_wanted(struct roami_node *node, uint32_t page);

/*
 * Whether a node has read a diff that this home left, since the last such call.  A node that has
 * read one at `home` (roami_post_read, which is true only for homes that this node reaches by
 * loads) says so by roami_home_say_read.
 */
void roami_home_say_read(struct roami_node *node, unsigned home, uint32_t page);
bool roami_home_read(struct roami_node *node, uint32_t page);

/*
 * Makes this node the home of a pending page of which it has a copy of version `have`, if the home
 * has that version and has the page closed.  The page then counts as opened.  app, may block.
 */
bool roami_home_take(struct roami_node *node, uint32_t page, uint64_t have);

/*
 * roami_home_twin chooses whether this home writes with a twin from now on, so that it can make a
 * diff of its own writes; other nodes then do not store diffs into the page while it is open.  The
 * page is marked open (roami_home_open) and has no write access yet.  roami_home_twinned: whether
 * `home` writes the page with a twin.
 */
void roami_home_twin(struct roami_node *node, uint32_t page, bool twin);
bool roami_home_twinned(struct roami_node *node, unsigned home, uint32_t page);

/*
 * Under the page lock: whether another node has taken the home from this one.  If so, what this
 * node has is from now on a copy of version *version_p.
 */
bool roami_home_lost(struct roami_node *node, uint32_t page, uint64_t *version_p);

/*
 * The home is not where roami_home_lookup said (this may have been this node, from which another
 * one takes the page): returns the current home, another node.  app.
 */
unsigned roami_home_again(struct roami_node *node, uint32_t page);

/*
 * Leaves a mark and bytes where nodes that reach this one's memory read them without a message.
 * Returns a reference to them, for roami_post_read; 0: there is no room.  app, inside release.
 * roami_posts_on: whether any node reads them so.
 */
bool roami_posts_on(struct roami_node *node);
uint64_t roami_post(struct roami_node *node, uint32_t mark, const void *data, size_t bytes);

/*
 * Copies what `writer` has left at a reference; false: newer bytes have overwritten it, this node
 * cannot read it without a message, it has another mark, or is longer than *bytes_p, which becomes
 * the length.  app.
 */
bool roami_post_read(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
		     void *data, size_t *bytes_p);

#ifdef __cplusplus
}
#endif

#endif
