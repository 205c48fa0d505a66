/*
 * Homes of pages, for protocols that have them: roam/protocol.h is what every protocol needs, this
 * is the rest.  First what all of them share; then what goes with one value of enum roam_homes: who
 * calls it under another one has the job end.
 */
#ifndef ROAM_PROTOCOL_HOME_H
#define ROAM_PROTOCOL_HOME_H

#include "roam/protocol.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------------------------- home pages */

/*
 * Pending pages of this home that can be read, and will be written: as after a write fault of each,
 * with fewer calls of the engine.  Not where a handler takes access from pending pages.
 */
void roami_page_open_written(struct roami_node *node, uint32_t first, uint32_t count);

/* Whether the pending page was touched by a write (then a fetch may open it for writing). */
bool roami_page_wants_write(struct roami_node *node, uint32_t page);

/*
 * ROAM_CHECK=race: homes too make twins, so an own page is opened for writing after a write fault
 * only, never left open across a release, and handed to roami_race_note_home at each.
 */
bool roami_checks_races(struct roami_node *node);
/* The protocol's model, and whether it closes_homes. */
enum roam_model roami_model(const struct roami_node *node);
bool roami_closes_homes(struct roami_node *node);
void roami_race_note_home(struct roami_node *node, uint32_t page);

/*
 * Whether this home's writes make a twin, as those of others do.  A page opened for writing
 * without one is closed first.
 */
void roami_page_set_twins(struct roami_node *node, uint32_t page, bool twins);
bool roami_page_twins(struct roami_node *node, uint32_t page);

/* In release, of a page that was to be kept open: that begins anew, with a few that close it. */
void roami_page_cool(struct roami_node *node, uint32_t page);

/* -------------------------------------------------------------------------------- the directory */

/*
 * Where a page's home is, or was: the node and the epoch, which each move of the home counts up.
 * 0: not known.
 */
#define ROAM_PLACE_MADE(node, epoch) ((uint32_t)(epoch) << 8 | ((uint32_t)(node) + 1))
#define ROAM_PLACE_OF(place)         (((place) & 0xffu) - 1)
#define ROAM_PLACE_EPOCH(place)      ((place) >> 8)
#define ROAM_EPOCH_MAX               0xffffffu

/*
 * The home of a page: cached, else from the directory.  ROAM_NOBODY: no node has claimed it, or one
 * is claiming it.  app; may send a message to the page's manager and wait for the answer.
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
 * After `page` was claimed: claims more pages at the distance at which this thread claims, if it
 * does so steadily (rule 2.3): page + i * *stride_p, 0 < i <= the result.  They are pending and
 * their bytes in place; the caller opens and ends them.
 */
uint32_t roami_home_claim_run(struct roami_node *node, uint32_t page, int32_t *stride_p);

/* ---------------------------------------------------------------------------------------- bytes */

/*
 * The page header, one per node and page, where every node that shares memory with this one can
 * reach it. A fetcher sets `shared`, fences, reads `version`, copies the bytes, and reads `where`
 * and `shared` again (rule 6.6).
 */
#define ROAM_HEADER_HOME  1u
#define ROAM_HEADER_READY 2u

/* OPEN: as OK, but the home, which others may take, was writing it. */
enum roam_fetch { ROAM_FETCH_OK, ROAM_FETCH_OPEN, ROAM_FETCH_NOT_HOME, ROAM_FETCH_NOT_READY };

/*
 * Copies page bytes from `home` into the runtime view (the page is pending), with the version read
 * before.  app, may block.  Several at a time take hardly longer than one where they are far away.
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
 * A fault asks for the pending page; and whether another page of that home, which has no access,
 * may come along with such a one, if pages are fetched ahead at all: some times after a fault that
 * was its own, for nobody sees whether it is read then.
 */
void roami_page_asked(struct roami_node *node, uint32_t page);
bool roami_page_again(struct roami_node *node, uint32_t page, unsigned home);

/*
 * Whether a write fault of the pending page goes on with a row of pages that this node writes, so
 * that those behind it had better come along: if pages are fetched ahead at all, and asking for
 * each takes long.
 */
bool roami_page_in_row(struct roami_node *node, uint32_t page, unsigned home);

/*
 * How many pages behind `page`, `most` at most, will probably be written next: as many of the
 * protocol's as lie open for writing before it, with this node for their home.
 */
uint32_t roami_page_row(struct roami_node *node, uint32_t page, uint32_t most);

/* --------------------------------------------------------------------------- diffs and versions */

/*
 * Sends the diffs of dirty pages (not `home` ones) to their homes, homes[i] for dirty[i]; returns
 * when all are applied. Sets `changed` and `version` of each.  app, may block.
 */
void roami_flush(struct roami_node *node, struct roam_dirty *dirty, const uint16_t *homes,
		 size_t count);

/*
 * This node's own header of a page it is home of: counts a home interval that wrote; the new
 * version.
 */
uint64_t roami_home_version_bump(struct roami_node *node, uint32_t page);

/*
 * Becomes home of pages first + i * stride, i < count, that were claimed together: headers home +
 * ready.  The bytes must be in place.
 */
void roami_home_publish(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride,
			uint64_t version);

/*
 * Pages of this home that others fetched since the last call, after a full fence.  Up to `max`;
 * returns how many. roami_home_unshare clears the page's shared mark: later fetchers report again;
 * call it *before* the version is bumped.
 */
size_t roami_home_shared(struct roami_node *node, uint32_t *pages, size_t max);
bool roami_home_is_shared(struct roami_node *node, uint32_t page);
void roami_home_unshare(struct roami_node *node, uint32_t page);

/* -------------------------------------------------------------------- what notices also tell */

/* As roami_notice_add, which tells the page's place if it is here: with this place.  Not TAKEN. */
void roami_notice_add_home(struct roami_node *node, uint32_t page, uint64_t version,
			   uint32_t place);

/* As roami_notice_add, and where the diff is that roami_trail_leave has left; 0: nowhere. */
void roami_notice_add_diff(struct roami_node *node, uint32_t page, uint64_t version,
			   uint64_t diff);

/*
 * Of a notice, for the acquire of the protocol that asks: where the writer's diff is
 * (ROAM_HOMES_TAKEN), or where the page is, a ROAM_PLACE_MADE (all others); 0: it does not tell.
 */
uint64_t roami_notice_diff(struct roami_node *node, const struct roam_notice *notice);
uint32_t roami_notice_home(struct roami_node *node, const struct roam_notice *notice);

/* ------------------------------------------------- fixed: pages written before they have a home */

/*
 * Whether the pending page, which is to be written, may be opened without a home: nobody had
 * touched it when this node acquired last.  Then it is written without a twin, and `guessed` of the
 * protocol is called in time.
 */
bool roami_page_guess(struct roami_node *node, uint32_t page);

/* Claims such pages, ascending: which are this node's now; the others have a home. */
void roami_home_claim_each(struct roami_node *node, const uint32_t *pages, size_t count, bool *won);

/* One that is this node's is as other claimed ones, still to be published. */
void roami_guess_won(struct roami_node *node, uint32_t page);

/* One that another node has made this node's, which has taken it: written, though nobody saw. */
void roami_guess_given(struct roami_node *node, uint32_t page);

/* One that is not, closed: keeps what was written, until the page has come and they are merged. */
void roami_guess_lost(struct roami_node *node, uint32_t page);
void roami_guess_merge(struct roami_node *node, uint32_t page);

/* ----------------------------------------------------------------------------------- moving */

/* ROAM_HOMES_MOVING (rule 7.1): by message, in handlers and in faults of the protocol's own. */

/* Where the page is if this node's header says that it is here; else 0. */
uint32_t roami_home_here(struct roami_node *node, uint32_t page);

/*
 * Under the page lock, not pending: this node is the page's home no more.  The header says so
 * first, then write access goes, then `bytes` and *version_p are taken.  What was open for writing,
 * or dirty, may have been written in the open interval, and counts a version for that: then
 * *open_p is true, the page stays dirty, without a twin, and the next release has to give notice of
 * that version.  Without `bytes` the page goes to who has them, if *version_p is its version.
 * false: it does not go; another version, or roami_flush_pinned is at work.
 */
bool roami_home_give(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p,
		     bool *open_p);

/*
 * In handlers: own pages from `first` on will be given away next.  Takes write access of them at
 * one go, of those that are open and nobody works on; they are dirty then.
 */
void roami_home_close_run(struct roami_node *node, uint32_t first, uint32_t count);

/*
 * As roami_flush of one page whose home may move: stores its diff where the home is, if that can be
 * reached and is there.  false: nothing is done.  app.
 */
bool roami_flush_pinned(struct roami_node *node, struct roam_dirty *dirty, unsigned home);

/* Under the page lock: this node is the home of a pending page, whose bytes are in place. */
void roami_home_receive(struct roami_node *node, uint32_t page, uint64_t version, uint32_t place);

/* What roami_fetch would get, at the page's home: bytes, and the version read before. */
void roami_home_copy(struct roami_node *node, uint32_t page, uint8_t *bytes, uint64_t *version_p);

/* Applies a diff at the page's home and counts the version; the new one. */
uint64_t roami_home_apply(struct roami_node *node, unsigned from, uint32_t page, const void *diff,
			  size_t bytes);

/* How many full barriers this node has left, threads counted one by one. */
uint64_t roami_barriers_left(struct roami_node *node);

/* Hands parked messages to their handlers though the page goes on to be pending. */
void roami_page_unpark(struct roami_node *node, uint32_t page);

/*
 * Under the page lock, of a page that has become a copy: closes it if there are more copies than
 * there may be (ROAM_CACHE_PAGES); true: it is evicted.
 */
bool roami_cache_drop(struct roami_node *node, uint32_t page);

/*
 * Such calls that are all sent before the first is waited for, at most ROAM_PAGES_ONCE; what they
 * carry begins with the page.  roami_pages_await: waits until one more is answered, or several; how
 * many are left.  A page that has come must not wait for one that may wait for it elsewhere.
 */
#define ROAM_PAGES_ONCE 16u

struct roam_page_call {
	uint32_t page;
	unsigned to;
	unsigned type;
	struct roam_part part;
	void *reply;
	size_t reply_max;
	struct roami_call *started; /* the core's; NULL: answered */
	size_t bytes;               /* out: of the reply */
	bool came;                  /* out: the page's bytes did */
};

void roami_pages_ask(struct roami_node *node, struct roam_page_call *calls, unsigned count);
unsigned roami_pages_await(struct roami_node *node, struct roam_page_call *calls, unsigned count);

/*
 * The same with bytes that may change at once.  roami_reply_room: where to put them first, the
 * caller's page where memory is shared, else `spare`.
 */
uint8_t *roami_reply_room(struct roami_node *node, const struct roam_request *request,
			  uint32_t page, uint8_t *spare);
void roami_reply_filled(struct roami_node *node, const struct roam_request *request,
			const uint8_t *room, const struct roam_part *parts, unsigned count);

/* ------------------------------------------------------------------------------------ taken */

/*
 * ROAM_HOMES_TAKEN: who has a current copy becomes home, by
 * loads and stores where memory is shared.  The header says whether the home has the page open; if
 * so, nobody takes it.
 */

/* Before the home opens its page for writing: false: it was taken meanwhile. */
bool roami_home_open(struct roami_node *node, uint32_t page);

/* It is closed, and whoever may have a copy will hear of what was written. */
void roami_home_shut(struct roami_node *node, uint32_t page);

/* Whether somebody wanted to take a page that was open, or copied it while it had a twin. */
bool roami_home_wanted(struct roami_node *node, uint32_t page);

/* Whether somebody has read a diff that this home had left, since this was asked last. */
bool roami_home_read(struct roami_node *node, uint32_t page);

/*
 * Makes this node home of a pending page, of which it has a copy of version `have`, if that is what
 * its home has, and closed.  The page then counts as opened.  app, may block.
 */
bool roami_home_take(struct roami_node *node, uint32_t page, uint64_t have);

/*
 * Whether this home writes with a twin from now on, so that it knows its own diff: then others' are
 * not stored behind its back while the page is open.  It is said to be, and closed still.
 */
void roami_home_twin(struct roami_node *node, uint32_t page, bool twin);
bool roami_home_twinned(struct roami_node *node, unsigned home, uint32_t page);

/*
 * Under the page lock: whether another node took the home from this one, which finds out now: what
 * it has is a copy of *version_p.
 */
bool roami_home_lost(struct roami_node *node, uint32_t page, uint64_t *version_p);

/*
 * Another node is home, but not the one that roami_home_lookup said, which may be this node while
 * another takes the page from it: which one.  app.
 */
unsigned roami_home_again(struct roami_node *node, uint32_t page);

/*
 * A diff of this node's open interval, left where others reach it without a message: what to tell
 * by roami_notice_add_diff, 0: there is no room.  app, inside release.
 */
bool roami_trail_on(struct roami_node *node); /* whether there is such a place */
uint64_t roami_trail_leave(struct roami_node *node, uint32_t page, const uint8_t *diff,
			   size_t bytes);

/* Copies it, of at most ROAM_DIFF_MAX bytes; false: it is gone.  app. */
bool roami_trail_follow(struct roami_node *node, unsigned writer, uint64_t place, uint32_t page,
			uint8_t *diff, size_t *bytes_p);

#ifdef __cplusplus
}
#endif

#endif
