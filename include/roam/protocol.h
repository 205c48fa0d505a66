/*
 * The plug-in interface of coherence protocols.
 *
 * A protocol is one file, protocols/NAME.c, that defines `const struct roam_protocol
 * roami_protocol_NAME`, plus its name in protocols/meson.build.  It decides what happens at faults
 * and synchronisations; everything it may use is in this header.  It never sees sockets, clocks,
 * mprotect or malloc: therefore the simulated world can run the same source.
 *
 * Words.  A page is *pending* while one thread of the node works on it (a fault, a release, an
 * acquire): that thread owns the page's access, twin and state; other threads that touch the page
 * wait.  (A handler may still take access away, under the page lock, for an invalidation that must
 * not wait: see ivy.)  The page *lock* is a short spin lock around single changes; it is never held
 * across a call that may block.
 *
 * Threads.  "app": a thread of the program; it may block.  "handler": a message handler; one runs
 * at a time per node, on any thread.  It never blocks: it replies, forwards or parks.
 */
#ifndef ROAM_PROTOCOL_H
#define ROAM_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/roam.h"

#ifdef __cplusplus
extern "C" {
#endif

struct roami_node;
struct roami_call;
struct roam_transactions;

/*
 * How writes are noticed: by the core with twins, or by the protocol's write_fault (one writer).
 */
enum roam_writes { ROAM_WRITES_FAULT, ROAM_WRITES_DIFF };

/*
 * Where a page's home is, for protocols that use the calls of roam/protocol_home.h.
 *
 * NONE: there is none, or the protocol alone knows.
 * FIXED: where the directory says, for good; the first thing that other nodes ask a home for is
 * roami_fetch, which waits for a page that its home has claimed and not yet published.
 * TAKEN: where the directory says, but other nodes may take the home, see roami_home_take; a
 * claimed page is dirty.  Writers may leave diffs for others (roami_post), so that a
 * node that keeps reading a page does not fetch it.
 * MOVING: at the node whose header says "home", which need not be the node that the directory
 * names.  FOLLOWING: likewise, and a home moves to the node that fetches the page.
 * EVERYWHERE: all nodes have one heap, node 0's, which the hardware keeps coherent: all of them
 * must be able to map it, and no other protocol can be beside this one.  No engine restricts the
 * app view, so on real nodes no slot for faults is called; worlds call read_fault once for each
 * page and node.  ROAM_WRITES_DIFF; every node is the home of each page (roami_page_set_home), so
 * there are neither twins nor dirty pages.  collect and evict are NULL.
 */
enum roam_homes {
	ROAM_HOMES_NONE,
	ROAM_HOMES_FIXED,
	ROAM_HOMES_TAKEN,
	ROAM_HOMES_MOVING,
	ROAM_HOMES_FOLLOWING,
	ROAM_HOMES_EVERYWHERE
};

/*
 * What cards of other nodes do to pages at their homes, past the homes' processors (rules 12).
 * READ: copies are read.  WRITE: diffs are written, which needs homes without twins.  Where a job
 * has no such cards this has no effect.
 */
enum roam_one_sided {
	ROAM_ONE_SIDED_NONE,
	ROAM_ONE_SIDED_READ,
	ROAM_ONE_SIDED_WRITE,
	ROAM_ONE_SIDED_READ_WRITE
};

enum roam_sync_kind {
	ROAM_SYNC_LOCK,
	ROAM_SYNC_BARRIER,
	ROAM_SYNC_FLAG,
	ROAM_SYNC_REDUCE,
	ROAM_SYNC_CREATE,
	ROAM_SYNC_END,
	ROAM_SYNC_COND,
	ROAM_SYNC_TX /* the commit token, or a change of what a transaction has read */
};

struct roam_sync {
	enum roam_sync_kind kind;
	bool full;   /* all threads of the job take part */
	uint64_t id; /* the object's address */
	bool idle;   /* a full barrier during which no thread of this node runs */
};

/* One page written in an interval that ends now. */
struct roam_dirty {
	uint32_t page;
	bool home;        /* this node is the page's home: no twin */
	bool keep;        /* stays writable (a hot page): the bytes sent go into the twin, too */
	bool changed;     /* set by roami_flush: some byte differed */
	bool moved;       /* set by roami_flush: the home is elsewhere, and nothing was done */
	bool asks;        /* private to roami_flush: the diff goes by message */
	uint64_t version; /* set by roami_flush: the home's version after the diff was applied */
};

/* What a write notice refers to besides its page (roam/protocol_home.h); 0: nothing. */
union roam_notice_ref {
	uint64_t home; /* see roami_notice_home */
	uint64_t diff; /* ROAM_HOMES_TAKEN, see roami_notice_diff */
	uint64_t word; /* either, to carry it */
};

/*
 * A write notice: `writer` changed `page`; a node with an older version than `version` must not
 * read its copy.
 */
struct roam_notice {
	uint32_t page;
	uint32_t writer;
	uint64_t version;
	uint64_t interval; /* the writer's last interval that is meant; this node has seen it */
	union roam_notice_ref ref;
};

#define ROAM_PROVISIONAL_MAX 512u /* the most pages that one call of `provisional` gets */

/* A message being handled. */
struct roam_request {
	uint16_t type;   /* index in the owner's message table */
	uint16_t from;   /* the node that sent or forwarded it */
	uint16_t origin; /* the node that called; replies go there */
	uint16_t flags;
	uint32_t call; /* 0: nobody waits for a reply */
	uint32_t bytes;
	const void *data; /* 8-byte aligned; valid during the handler only */
};

struct roam_part {
	const void *data;
	size_t bytes;
};

struct roam_message {
	const char *name;
	/*
	 * handler; no locks are held; must not block.  `request` and its data belong to the core
	 * and are valid during the call only.
	 */
	void (*handle)(struct roami_node *node, const struct roam_request *request);
	uint32_t bytes_max; /* longer messages are refused before the handler runs */
};

/* A page state: its name, and the states that may follow it (a bit set). */
struct roam_page_state {
	const char *name;
	uint32_t next;
};

struct roam_protocol {
	const char *name;
	const char *paper; /* one line for `roam info` */
	enum roam_model model; /* ScC: write notices are kept with locks, see roami_notice_add */
	enum roam_writes writes;
	enum roam_homes homes;
	/*
	 * The three booleans of a protocol with ROAM_WRITES_DIFF.  None of them follows from
	 * `model`, `writes` and `homes`: hlrc and jiajia1-rc differ in closes_homes alone, hlrc and
	 * the test protocol `through` in checks_races, lrc and erc in keeps_twins.
	 *
	 * closes_homes: pages of which this node is the home lose write access at each release,
	 * except at idle barriers (struct roam_sync), so that the protocol sees in every interval
	 * which of them were written.  ScC needs this: a write that goes unnoticed is in no lock's
	 * list.  After a barrier no other node has a copy of them.
	 */
	bool closes_homes;
	/*
	 * checks_races: ROAM_CHECK=race, and the other checks of diffs (sharing, pointers,
	 * scope), work on the protocol's pages; a job under a protocol without this property
	 * refuses these checks.
	 * A ScC protocol cannot have it: its locks order more than clocks tell.  While a check is
	 * on (roami_checks_races) homes do not move, every node's writes make a twin, and a
	 * protocol that sends diffs itself shows them (roami_diff_show).
	 */
	bool checks_races;
	/*
	 * Of ROAM_HOMES_FIXED.  `needed`, if cards read: the version that a copy of the pending
	 * page must have, as far as this node knows; a copy that a card has read counts as one of
	 * that version.
	 */
	enum roam_one_sided one_sided;
	uint64_t (*needed)(struct roami_node *node, uint32_t page);
	bool keeps_twins; /* after a release twins stay until roami_twin_drop */
	/*
	 * ROAM_HOMES_FIXED: pages may be written before they have a home, see
	 * roami_page_provisional.  Called before other nodes may learn of such writes, and before
	 * this node acquires: claims the pages (roami_home_claim_each), fetches those that have
	 * another home by now, and ends all of them (roami_page_done).  They are pending,
	 * ascending, ROAM_PROVISIONAL_MAX at most.  app, may block.  NULL: no page is written
	 * before it has a home.
	 */
	void (*provisional)(struct roami_node *node, const uint32_t *pages, size_t count);
	size_t node_size; /* bytes of state per node, page and sync object; the core allocates,
			     zeroes and frees it */
	size_t page_size;
	size_t sync_size;
	size_t page_node_size; /* further bytes of state of each page, per node of the job */
	size_t scratch_size; /* bytes for messages, per thread and node of the job: roami_scratch */
	/* A numeric option that blocks may have of their own: roami_page_option.  NULL: none. */
	const char *region_option;
	/*
	 * Ends with a NULL name; every page starts in state 0.  All state, of pages and of nodes,
	 * is zero when a node opens: at the program's start, and again at each CREATE after a
	 * WAIT_FOR_END, which has brought all bytes to node 0 (`collect`).
	 */
	const struct roam_page_state *states;
	const struct roam_message *messages; /* ends with a NULL name */

	/* app.  The node starts or stops; fini is called after a failed init, too. */
	enum roam_err (*init)(struct roami_node *node);
	void (*fini)(struct roami_node *node);

	/*
	 * app, may block.  The app view denied a read (or, for ROAM_WRITES_DIFF, also a write) of
	 * `page`, which is pending.  On return it must be open (roami_page_open).
	 */
	void (*read_fault)(struct roami_node *node, uint32_t page);

	/*
	 * app, may block.  Pages first + i * stride, i < count, will probably be read soon: the
	 * protocol may open those that it gets cheaply, without claiming a home.  They are not
	 * pending: use roami_page_try.
	 */
	void (*ahead)(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride);

	/*
	 * app, may block.  A write was denied; `page` is pending.  ROAM_WRITES_FAULT: it must be
	 * writable on return.  ROAM_WRITES_DIFF: the page is readable; if it is not writable on
	 * return the core opens it, without a twin if this node is its home by then.  May be NULL.
	 */
	void (*write_fault)(struct roami_node *node, uint32_t page);

	/*
	 * How writes of the pending page are noticed now, for protocols in which that changes:
	 * twins inside a transaction, for example, and one writer outside.  The core asks at each
	 * fault and each opening; the protocol must close an open page before it changes its
	 * answer.  Pages of such a protocol are never kept open across a release.  app, never
	 * blocks.  NULL: always as `writes` says.
	 */
	enum roam_writes (*writes_now)(struct roami_node *node, uint32_t page);

	/*
	 * app, may block.  An interval ends, before a lock is released or a barrier arrived at.
	 * The pages are pending and, except for `keep` and `home`, no longer writable.  Make the
	 * writes findable, then say what changed with roami_notice_add.  ROAM_WRITES_FAULT: may be
	 * NULL; the core does not see writes, so no page is dirty and count is 0.
	 */
	void (*release)(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count);

	/*
	 * app, may block.  After the grant of a lock or the departure from a barrier: `notices` are
	 * those of other writers that this node had not seen, ascending by page (a page may have
	 * several).  On return the copies that they make stale must be gone.  The node's clock
	 * moves afterwards.
	 */
	void (*acquire)(struct roami_node *node, const struct roam_sync *sync,
			const struct roam_notice *notices, size_t count);

	/*
	 * app, may block.  All threads of the job have met at a full barrier, and this node has
	 * applied all notices of their writes.  Each thread calls it before it goes on, one at a
	 * time.
	 */
	void (*met)(struct roami_node *node);

	/*
	 * app, may block.  A clean copy is to be dropped to save memory; `page` is pending.
	 * Returns false to keep it.  Returns true when the page is closed (roami_page_close) and in
	 * a state in which nothing reads its bytes again: the core then frees them, so that they
	 * read as zeros, or in a world as rubbish.
	 */
	bool (*evict)(struct roami_node *node, uint32_t page);

	/*
	 * app, may block.  The job's other nodes are quiet: brings the page's current bytes here
	 * and makes this node its only holder.  Not called for a page whose bytes the core finds by
	 * the directory, or by the headers that this process sees.
	 */
	void (*collect)(struct roami_node *node, uint32_t page);

	/* Tests only; nothing runs: asserts invariants over all nodes of a world. */
	void (*check)(struct roami_node *const *nodes, unsigned count);

	/*
	 * See roam/protocol_tx.h.  NULL: programs cannot use roam/tx.h.  No other protocol can be
	 * beside one that has it.
	 */
	const struct roam_transactions *transactions;
};

/* ------------------------------------------------------------------------------------ identity */
/*
 * A job may have several protocols, each for pages of its own (regions, roam_alloc_region).  A
 * protocol is called for its own pages only.  A call below that names no page acts on the calling
 * protocol's state and messages.
 */

unsigned roami_me(const struct roami_node *node);
unsigned roami_count(const struct roami_node *node);
uint32_t roami_pages(const struct roami_node *node);           /* of the heap */
void *roami_node_state(struct roami_node *node);               /* node_size bytes */
void *roami_page_data(struct roami_node *node, uint32_t page); /* page_size bytes */

/*
 * Whether the page is under the calling protocol.  For `check`, which looks at all pages, and for
 * handlers, which must not trust a page number.
 */
bool roami_page_ours(struct roami_node *node, uint32_t page);

/*
 * The value of an option (base/options.def) by its variable: a number, 0 or 1, or the index of a
 * word among those allowed.  For init.
 */
uint64_t roami_option(struct roami_node *node, const char *variable);

/* The region_option with which the page's block was allocated; `otherwise` if it has none. */
uint64_t roami_page_option(struct roami_node *node, uint32_t page, uint64_t otherwise);

/* The job cannot go on: prints one line and ends it.  In a world: fails the test. */
__attribute__((noreturn, format(printf, 2, 3))) void roami_node_fail(struct roami_node *node,
								     const char *format, ...);

/* An assertion that is compiled in always. */
#define roami_assert(condition) \
	((condition) ? (void)0 : roami_assert_failed(#condition, __FILE__, __LINE__))
__attribute__((noreturn)) void roami_assert_failed(const char *condition, const char *file,
						   int line);

/*
 * What the comment of a function demands of its callers, where looking costs time on a fast path:
 * compiled in with meson's -Dcontracts=true, as most of the test builds are.  What costs nothing is
 * an roami_assert.
 */
#ifdef ROAMI_CONTRACTS
#define roami_contract(condition) roami_assert(condition)
#else
#define roami_contract(condition) ((void)sizeof(condition))
#endif

/* The two most frequent ones: the page is pending; its page lock is held. */
#define roami_contract_pending(node, page) roami_contract(roami_page_pending(node, page))
#define roami_contract_locked(node, page)  roami_contract(roami_page_locked(node, page))

/* --------------------------------------------------------------------------------------- pages */

/*
 * The protocol state of a page, and a move to another state, which roam_page_state.next must allow.
 * The caller owns the page or holds its lock.
 */
unsigned roami_page_state(struct roami_node *node, uint32_t page);
void roami_page_move(struct roami_node *node, uint32_t page, unsigned state);

/* The short lock.  Not recursive. */
void roami_page_lock(struct roami_node *node, uint32_t page);
void roami_page_unlock(struct roami_node *node, uint32_t page);

/* Whether some thread holds it; for contracts. */
bool roami_page_locked(struct roami_node *node, uint32_t page);

/* Makes the page pending unless it is; false: it was.  Never blocks.  roami_page_done ends it. */
bool roami_page_try(struct roami_node *node, uint32_t page);

/* Waits until the page is not pending, then makes it pending.  app, may block. */
void roami_page_hold(struct roami_node *node, uint32_t page);

/*
 * The page is no longer pending: wakes threads that wait for it and hands parked messages to their
 * handlers again.
 */
void roami_page_done(struct roami_node *node, uint32_t page);

/* Whether a thread of this node works on the page.  For handlers, under the page lock. */
bool roami_page_pending(struct roami_node *node, uint32_t page);

/* The access that the app view allows. */
enum roam_access roami_page_access(struct roami_node *node, uint32_t page);

/*
 * roami_page_open opens pending pages whose bytes are in place, with at least `access`: if the
 * fault was a write, the core opens the page for writing at once, with a twin where one is needed.
 * roami_page_close lowers the access of an ascending list of pages, merged into ranges.
 */
void roami_page_open(struct roami_node *node, uint32_t first, uint32_t count,
		     enum roam_access access);
void roami_page_close(struct roami_node *node, const uint32_t *pages, size_t count,
		      enum roam_access access);

/*
 * roami_page_close with ROAM_NONE, but what this node has of the pages stays good: the protocol
 * opens them again without asking another node, unless it hears that they are out of date.
 */
void roami_page_shelve(struct roami_node *node, const uint32_t *pages, size_t count);

/* Sorts page numbers and removes duplicates; returns how many are left. */
size_t roami_pages_sort(uint32_t *pages, size_t count);

/*
 * Counters.  roami_fetched counts a page that came by a message of the protocol (roami_fetch counts
 * its pages itself; bytes of messages are counted as sent).  roami_fetched_ahead counts a page that
 * was fetched before any thread touched it.
 */
void roami_fetched(struct roami_node *node);
void roami_fetched_ahead(struct roami_node *node);

/*
 * The closed page was given away and its bytes are sent: nothing may read the bytes that this node
 * still has.  A world fills them with rubbish, to find code that does; otherwise the call does
 * nothing.
 */
void roami_page_away(struct roami_node *node, uint32_t page);

/* The page's bytes in the runtime view. */
uint8_t *roami_page_bytes(struct roami_node *node, uint32_t page);

/*
 * Says that this node is (not) the page's home, or owner: its writes need no twin, and its bytes
 * are the page, not a copy.  The caller owns the page or holds its lock.  Under ROAM_WRITES_FAULT,
 * which has no twins, it only means that the page is not counted as a copy and not evicted.
 */
void roami_page_set_home(struct roami_node *node, uint32_t page, bool home);
bool roami_page_is_home(struct roami_node *node, uint32_t page);

/*
 * Whether this node has written the page since its last flush: it has a twin, or this node is its
 * home and has noted a write.
 */
bool roami_page_dirty(struct roami_node *node, uint32_t page);

/* Makes the page clean and drops its twin.  After a flush outside of release. */
void roami_page_clean(struct roami_node *node, uint32_t page);

/* Copies a page that threads of this node or of others may be writing. */
void roami_page_copy(struct roami_node *node, uint8_t *to, const uint8_t *from);

/* ------------------------------------------------------------------------------ twins and diffs */

/*
 * For protocols that send diffs themselves.  Call all of these under the page lock, so that a
 * handler and a release agree on the twin.
 */
#define ROAM_DIFF_MAX (8 + ROAM_PAGE_SIZE / 64 * 8 + ROAM_PAGE_SIZE)

bool roami_page_has_twin(struct roami_node *node, uint32_t page);

/* The page's bytes as they were when the twin was made. */
const uint8_t *roami_page_old(struct roami_node *node, uint32_t page);

/*
 * Writes the diff between twin and page to `out`, which has ROAM_DIFF_MAX bytes, and returns its
 * length; 0: nothing differs.  `keep`: copies the changed bytes into the twin.
 */
size_t roami_diff_make(struct roami_node *node, uint32_t page, uint8_t *out, bool keep);

/* Applies a diff to the page, and to its twin if there is one; false: the diff is malformed. */
bool roami_diff_patch(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes);

/* Whether a check looks at diffs (ROAM_CHECK=race and others). */
bool roami_checks_races(struct roami_node *node);

/*
 * From release or acquire, in a protocol that sends diffs itself: shows the check, if there is one,
 * a diff of the pending page that has only writes of the interval that ends, before others may
 * learn of it; in that interval the protocol gives at least one notice (roami_notice_add), or the
 * interval has no number.  Not under the page lock: may block.
 */
void roami_diff_show(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes);

/* Drops the twin, if there is one; under the page lock, pending or not: handlers look at it. */
void roami_twin_drop(struct roami_node *node, uint32_t page);

/* Replaces the page by `bytes` of another node, plus what was written here since the twin. */
void roami_page_rebase(struct roami_node *node, uint32_t page, const uint8_t *bytes);

/* The calling thread's memory for messages: scratch_size bytes per node, in node order. */
uint8_t *roami_scratch(struct roami_node *node);

/* The page's manager: the node that keeps its directory word. */
unsigned roami_manager(const struct roami_node *node, uint32_t page);

/* ---------------------------------------------------------------------------- time and history */

/*
 * Adds a write notice: this node's open interval changed `page`, and the change can be found as
 * `version` (0: no version).  app, inside release or acquire.  Under ScC the notice goes to the
 * lists of the locks that threads of this node hold when the interval ends; barriers pass all
 * notices on, flags those of the setter.
 */
void roami_notice_add(struct roami_node *node, uint32_t page, uint64_t version);

/* The number of this node's open interval, which is closed next.  app or handler. */
uint64_t roami_interval(struct roami_node *node);

/* -------------------------------------------------------------------------------------- memory */

/*
 * Memory of the protocol besides its states.  roami_memory_open reserves it, once, in init: it is
 * zeroed, takes memory as it is touched, and the core frees it; without memory the job ends.
 * roami_memory returns it.  roami_memory_spoil fills, in a world, bytes that must not be read any
 * more with rubbish.
 */
void *roami_memory_open(struct roami_node *node, size_t bytes);
void *roami_memory(struct roami_node *node);
void roami_memory_spoil(struct roami_node *node, void *at, size_t bytes);

/* A short spin lock for this memory and the node's state.  Not recursive; inside page locks. */
void roami_memory_lock(struct roami_node *node);
void roami_memory_unlock(struct roami_node *node);

/* ------------------------------------------------------------------------------------ messages */

/* Sends message `type` of the protocol's own table.  Any thread; never blocks. */
void roami_send(struct roami_node *node, unsigned to, unsigned type, const struct roam_part *parts,
		unsigned count);

/* Sends a message, waits for its reply of at most `reply_max` bytes, returns its length.  app. */
size_t roami_call(struct roami_node *node, unsigned to, unsigned type,
		  const struct roam_part *parts, unsigned count, void *reply, size_t reply_max);

/* Sends all calls, then waits until all have been answered.  app, may block. */
struct roam_call {
	unsigned to;
	unsigned type;
	const struct roam_part *parts;
	unsigned count;
	void *reply;
	size_t reply_max;
	size_t bytes; /* set: the length of the reply */
};

void roami_call_all(struct roami_node *node, struct roam_call *calls, unsigned count);

/*
 * roami_call about a pending page: the request is the page's number; if the page's bytes come with
 * the reply (*came_p), they are in the runtime view on return.  Counts the fetch.  app, may block.
 */
size_t roami_call_page(struct roami_node *node, unsigned to, unsigned type, uint32_t page,
		       void *reply, size_t reply_max, bool *came_p);

/*
 * Calls every node of the set (bit i: node i) at the same time; returns when all have answered,
 * with empty replies.  app, may block.
 */
void roami_call_each(struct roami_node *node, uint64_t nodes, unsigned type,
		     const struct roam_part *parts, unsigned count);

/*
 * In handlers.  roami_reply answers the caller.  roami_forward passes the request on as message
 * `type`, roami_pass with another payload.  roami_park keeps the request until
 * roami_page_done(page): hold the page lock from the check that found the page pending to the call
 * of roami_park; otherwise the page may by then be pending anew, for a fault that waits for this
 * very request (deadlock).
 */
void roami_reply(struct roami_node *node, const struct roam_request *request,
		 const struct roam_part *parts, unsigned count);
void roami_forward(struct roami_node *node, const struct roam_request *request, unsigned to,
		   unsigned type);
void roami_pass(struct roami_node *node, const struct roam_request *request, unsigned to,
		unsigned type, const struct roam_part *parts, unsigned count);

/*
 * In handlers: the page number with which the request begins.  The node fails if the request has
 * fewer than `bytes` bytes, or if the page is not under the calling protocol.
 */
uint32_t roami_request_page(struct roami_node *node, const struct roam_request *request,
			    size_t bytes);

/*
 * In handlers: answers a roami_call_page with the page's bytes.  If memory is shared, the calling
 * node copies the bytes itself, later: they must not change until that node can be asked about the
 * page.
 */
void roami_reply_page(struct roami_node *node, const struct roam_request *request, uint32_t page,
		      const struct roam_part *parts, unsigned count);

void roami_park(struct roami_node *node, const struct roam_request *request, uint32_t page);

/* In handlers: keeps the request and hands it to its handler again after `ns` nanoseconds. */
void roami_delay(struct roami_node *node, const struct roam_request *request, uint64_t ns);

/* The time in nanoseconds; virtual in a world. */
uint64_t roami_now(struct roami_node *node);

/*
 * How many nanoseconds a page that came now should stay, so that the access that faulted can be
 * made before the page is taken away: ROAM_STAY_NS, doubled each time in a row that the calling
 * thread comes back to a page without having run in between.  For ROAM_WRITES_FAULT.  app.
 */
#define ROAM_STAY_NS 20000u
uint64_t roami_stay_ns(struct roami_node *node);

#ifdef __cplusplus
}
#endif

#endif
