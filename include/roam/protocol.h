/*
 * The plug-in interface of coherence protocols.
 *
 * A protocol is one file, protocols/NAME.c, that defines `const struct roam_protocol
 * roami_protocol_NAME`, plus its name in protocols/meson.build.  It decides what happens at faults
 * and synchronisations; everything it may use is in this header. It never sees sockets, clocks,
 * mprotect or malloc: that is what lets the simulated world run the same source.
 *
 * Words.  A page is *pending* while one thread of the node works on it (a fault, a release, an
 * acquire): that thread owns the page's access, twin and state; other threads that touch the page
 * wait.  (A handler may still take access away, under the page lock: an invalidation that must not
 * wait, see ivy.)  The page *lock* is a short spin lock around single changes; it is never held
 * across a call that may block.
 *
 * Threads.  "app" = a thread of the program, may block.  "handler" = a message handler: one at a
 * time per node, on any thread, never blocks: it replies, forwards or parks.
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

/*
 * How writes are noticed: by the core with twins, or by the protocol's write_fault (one writer).
 */
enum roam_writes { ROAM_WRITES_FAULT, ROAM_WRITES_DIFF };

/*
 * Where a page's home is, for protocols that use the calls about homes below.  NONE: nowhere, or
 * the protocol knows.  FIXED: where the directory says, for good; roami_fetch is all that others
 * ask homes for first: it waits for a page that its home has claimed and has not published yet.
 * TAKEN: where the directory says, but other nodes may take it, see roami_home_take; a claimed page
 * is dirty.  MOVING: where a header says "home", which need not be where the directory does.
 */
enum roam_homes { ROAM_HOMES_NONE, ROAM_HOMES_FIXED, ROAM_HOMES_TAKEN, ROAM_HOMES_MOVING };

enum roam_sync_kind {
	ROAM_SYNC_LOCK,
	ROAM_SYNC_BARRIER,
	ROAM_SYNC_FLAG,
	ROAM_SYNC_REDUCE,
	ROAM_SYNC_CREATE,
	ROAM_SYNC_END,
	ROAM_SYNC_COND
};

struct roam_sync {
	enum roam_sync_kind kind;
	bool full;   /* all threads of the job take part */
	uint64_t id; /* the object's address */
	bool quiet;  /* of a full barrier: no thread of this node runs before it is over */
};

/* One page written in an interval that ends now. */
struct roam_dirty {
	uint32_t page;
	bool home;        /* this node is the page's home: no twin */
	bool keep;        /* stays writable (a hot page): the twin takes the bytes sent */
	bool changed;     /* out of roami_flush: some byte differed */
	bool moved;       /* out of roami_flush: the home is elsewhere, and nothing was done */
	bool asks;        /* roami_flush's own: by message */
	uint64_t version; /* out of roami_flush: the home's version after the diff was applied */
};

/*
 * A write notice: `writer` changed `page`; whoever holds an older version than `version` must not
 * read its copy.  `place` is for roam/protocol_home.h: roami_notice_home, roami_notice_diff.
 */
struct roam_notice {
	uint32_t page;
	uint32_t writer;
	uint64_t version;
	uint64_t interval; /* of the writer, the last one meant; none that this node has not seen */
	uint64_t place;
};

#define ROAM_GUESSED_MAX 512u /* pages that the slot `guessed` is given at a time */

/* A message being handled. */
struct roam_request {
	uint16_t type;   /* index in the owner's message table */
	uint16_t from;   /* the node it came from last */
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
	 * thread: handler; locks held: none; must not block; `request` and its data are the core's
	 * and end with the call.
	 */
	void (*handle)(struct roami_node *node, const struct roam_request *request);
	uint32_t bytes_max; /* longer messages are refused before the handler runs */
};

/* A page state: its name, the states that may follow (bit set). */
struct roam_page_state {
	const char *name;
	uint32_t next;
};

struct roam_protocol {
	const char *name;
	const char *paper; /* one line for `roam info` */
	enum roam_model model; /* ScC: notices are kept with locks, see roami_notice_add */
	enum roam_writes writes;
	enum roam_homes homes;
	/*
	 * ROAM_WRITES_DIFF: pages this node is home of lose write access at each release but those
	 * of quiet barriers, so that the protocol sees in every interval which of them were
	 * written.  ScC needs it: what is written unseen is in no lock's list.  After a barrier
	 * nobody has a copy of them.
	 */
	bool closes_homes;
	/*
	 * ROAM_WRITES_DIFF: ROAM_CHECK=race finds races on its pages.  Clocks do not tell what ScC
	 * orders by locks; a home that moves has no twin to look at; who sends diffs of its own
	 * does not hand them to the check.
	 */
	bool checks_races;
	/*
	 * Two for tests, which find what a protocol has to show by what it declares, not by its
	 * name: homes move to who fetches the page; and writers leave diffs in trails
	 * (roami_trail_leave), so that who reads a page steadily does not fetch it.
	 */
	bool homes_follow;
	bool trails;
	/*
	 * Homes stay, and pages may be written before they have a home: roami_page_guess.  Before
	 * others may learn of it, and before this node acquires, claims them
	 * (roami_home_claim_each), and fetches those that have another home by now; ends the pages,
	 * which are pending and ascend, ROAM_GUESSED_MAX at most.  app, may block.  NULL: none are.
	 */
	void (*guessed)(struct roami_node *node, const uint32_t *pages, size_t count);
	size_t node_size; /* bytes of state per node, page and sync object: the core allocates,
			     zeroes, frees */
	size_t page_size;
	size_t sync_size;
	size_t page_node_size; /* more state of each page, per node of the job */
	size_t scratch_size; /* bytes for messages, per thread and node of the job: roami_scratch */
	bool keeps_twins; /* after a release they are the protocol's: roami_twin_drop */
	/* An option (a number) that a block may have of its own: roami_page_option.  NULL: none. */
	const char *region_option;
	/*
	 * Ends with a NULL name; state 0 is where every page starts.  All state, of pages and of
	 * nodes, is zero when a node opens: at the program's start, and anew at each CREATE after
	 * a WAIT_FOR_END, which has brought all bytes to node 0 (`settle`).
	 */
	const struct roam_page_state *states;
	const struct roam_message *messages; /* ends with a NULL name */

	/* app; the node starts or stops; fini also after a failed init. */
	enum roam_err (*init)(struct roami_node *node);
	void (*fini)(struct roami_node *node);

	/*
	 * app, may block.  The app view denied a read (or, for ROAM_WRITES_DIFF, also a write) of
	 * `page`, which is pending. On return it must be open (roami_page_open).
	 */
	void (*read_fault)(struct roami_node *node, uint32_t page);

	/*
	 * app, may block.  Pages first + i * stride, i < count, will probably be read soon: those
	 * that can be had cheaply, without claiming a home, may be opened.  They are not pending
	 * (roami_page_try).
	 */
	void (*ahead)(struct roami_node *node, uint32_t first, uint32_t count, int32_t stride);

	/*
	 * app, may block.  A write was denied; `page` is pending.  ROAM_WRITES_FAULT: it must be
	 * writable on return.  ROAM_WRITES_DIFF: may be NULL; the page can be read, and if it is
	 * not writable on return the core opens it, without a twin if this node is home by then.
	 */
	void (*write_fault)(struct roami_node *node, uint32_t page);

	/*
	 * How writes of the pending page are noticed now, where that changes: a transaction has
	 * twins inside, one writer outside.  Asked at each fault and each opening: before an open
	 * page's writes are noticed in another way, the protocol closes it.  Its pages are never
	 * kept open across a release.  app, never blocks.  NULL: always as `writes` says.
	 */
	enum roam_writes (*writes_now)(struct roami_node *node, uint32_t page);

	/*
	 * app, may block.  An interval ends: before a lock is let go, a barrier arrived at.  The
	 * pages are pending and, but for `keep` and `home`, no longer writable.  Make the writes
	 * findable; say what changed with roami_notice_add.  ROAM_WRITES_FAULT: the core does not
	 * see writes, so no page is dirty and count is 0; NULL will do.
	 */
	void (*release)(struct roami_node *node, const struct roam_sync *sync,
			struct roam_dirty *dirty, size_t count);

	/*
	 * app, may block.  After a grant, a barrier's departure: notices of other writers this node
	 * had not seen, ascending by page (a page may have several).  Copies they make stale must
	 * be gone on return.  The node's clock moves afterwards.
	 */
	void (*acquire)(struct roami_node *node, const struct roam_sync *sync,
			const struct roam_notice *notices, size_t count);

	/*
	 * app, may block.  All threads of the job have met, and what this node had not seen of
	 * their writes is applied.  Called by each thread, one at a time, before it goes on.
	 */
	void (*met)(struct roami_node *node);

	/*
	 * app; may block.  A clean copy is to be dropped to save memory; `page` is pending.  false:
	 * not this one.  true: it is closed (roami_page_close), and in a state in which nothing
	 * looks at its bytes again: on return the core frees them, so that they read as zeros, in a
	 * world as rubbish.
	 */
	bool (*evict)(struct roami_node *node, uint32_t page);

	/*
	 * app; the job's other nodes are quiet: bring the page's current bytes here and make this
	 * node its only holder.  Not asked for if the directory, or headers that this process sees,
	 * tell where the bytes are.
	 */
	void (*settle)(struct roami_node *node, uint32_t page);

	/* test; nothing runs: assert invariants over all nodes of a world. */
	void (*check)(struct roami_node *const *nodes, unsigned count);
};

/* ------------------------------------------------------------------------------------ identity */
/*
 * A job may have several protocols, each for pages of its own (regions, roam_alloc_region).  A
 * protocol is called for its own pages only, whatever others do beside it, and what it calls below
 * without naming a page is for it: its state, its messages.
 */

unsigned roami_me(const struct roami_node *node);
unsigned roami_count(const struct roami_node *node);
uint32_t roami_pages(const struct roami_node *node);           /* of the heap */
void *roami_node_state(struct roami_node *node);               /* node_size bytes */
void *roami_page_data(struct roami_node *node, uint32_t page); /* page_size bytes */

/*
 * Whether the page is under the protocol that asks.  For `check`, which looks at all pages, and for
 * handlers, which believe no page number.
 */
bool roami_page_ours(struct roami_node *node, uint32_t page);

/*
 * The value of an option (base/options.def) by its variable: a number, 0 or 1, or the place of a
 * word among those allowed.  For init.
 */
uint64_t roami_option(struct roami_node *node, const char *variable);

/* The region_option that the page's block was given, or `otherwise`. */
uint64_t roami_page_option(struct roami_node *node, uint32_t page, uint64_t otherwise);

/* The job cannot go on: prints one line, ends it.  In a world: fails the test. */
__attribute__((noreturn, format(printf, 2, 3))) void roami_node_fail(struct roami_node *node,
								     const char *format, ...);

/* Always compiled in. */
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
 * Protocol state of a page, and a checked move (roam_page_state.next).  The caller owns the page or
 * holds its lock.
 */
unsigned roami_page_state(struct roami_node *node, uint32_t page);
void roami_page_move(struct roami_node *node, uint32_t page, unsigned state);

/* The short lock.  Not recursive. */
void roami_page_lock(struct roami_node *node, uint32_t page);
void roami_page_unlock(struct roami_node *node, uint32_t page);

/* Whether some thread holds it; for contracts. */
bool roami_page_locked(struct roami_node *node, uint32_t page);

/* Makes the page pending if it is not; never blocks.  Ended by roami_page_done. */
bool roami_page_try(struct roami_node *node, uint32_t page);

/* Waits until the page is not pending, then makes it so.  app. */
void roami_page_hold(struct roami_node *node, uint32_t page);

/*
 * Ends pending: wakes threads that wait for the page, hands parked messages to their handlers
 * again.
 */
void roami_page_done(struct roami_node *node, uint32_t page);

/* Whether a thread of this node works on the page; for handlers, under the page lock. */
bool roami_page_pending(struct roami_node *node, uint32_t page);

/* Access of the app view. */
enum roam_access roami_page_access(struct roami_node *node, uint32_t page);

/*
 * Opens pending pages whose bytes are in place.  `access` is the least; the core opens for writing
 * at once, with a twin where needed, if the fault was a write.  roami_page_close takes access down,
 * for an ascending list: merged into ranges.
 */
void roami_page_open(struct roami_node *node, uint32_t first, uint32_t count,
		     enum roam_access access);
void roami_page_close(struct roami_node *node, const uint32_t *pages, size_t count,
		      enum roam_access access);

/* Sorts page numbers and drops doubles; how many are left. */
size_t roami_pages_sort(uint32_t *pages, size_t count);

/*
 * Counts a page that came by the protocol's own message, whose bytes are counted as sent
 * (roami_fetch counts itself), and one that was fetched before anybody touched it.
 */
void roami_fetched(struct roami_node *node);
void roami_fetched_ahead(struct roami_node *node);

/*
 * The closed page was given away, its bytes are sent: those that this node still has are no good to
 * anybody.  A world fills them with rubbish, so that who looks at them is found; else nothing
 * happens.
 */
void roami_page_away(struct roami_node *node, uint32_t page);

/* The page's bytes in the runtime view. */
uint8_t *roami_page_bytes(struct roami_node *node, uint32_t page);

/*
 * This node is (not) the page's home, or owner: writes need no twin, what it has is no copy.  The
 * caller owns the page or holds its lock.  Under ROAM_WRITES_FAULT, where nothing has twins, it
 * only says that what this node has is the page itself, not counted as a copy nor evicted.
 */
void roami_page_set_home(struct roami_node *node, uint32_t page, bool home);
bool roami_page_is_home(struct roami_node *node, uint32_t page);

/*
 * Whether the page was written by this node since its last flush (it has a twin, or is home and
 * noted as written).
 */
bool roami_page_dirty(struct roami_node *node, uint32_t page);

/* Forgets that the page is dirty, and its twin.  After a flush outside of release. */
void roami_page_clean(struct roami_node *node, uint32_t page);

/* Copies a page that threads of this node, or others, may write meanwhile. */
void roami_page_copy(struct roami_node *node, uint8_t *to, const uint8_t *from);

/* ------------------------------------------------------------------------------ twins and diffs */

/*
 * For protocols that send diffs themselves.  All under the page lock, which is what makes a
 * handler and a release agree on what the twin is.
 */
#define ROAM_DIFF_MAX (8 + ROAM_PAGE_SIZE / 64 * 8 + ROAM_PAGE_SIZE)

bool roami_page_has_twin(struct roami_node *node, uint32_t page);

/* The page's bytes without what was written since the twin was made. */
const uint8_t *roami_page_old(struct roami_node *node, uint32_t page);

/*
 * Writes what differs from the twin to `out`, which has ROAM_DIFF_MAX bytes; how long it is, 0:
 * nothing differs.  `keep`: the twin takes the bytes.
 */
size_t roami_diff_make(struct roami_node *node, uint32_t page, uint8_t *out, bool keep);

/* Stores the bytes of a diff in the page, and in its twin if there is one; false: malformed. */
bool roami_diff_patch(struct roami_node *node, uint32_t page, const uint8_t *diff, size_t bytes);

/* Forgets the twin, if there is one. */
void roami_twin_drop(struct roami_node *node, uint32_t page);

/* Puts fresh bytes, of another node, under what was written here since the twin was made. */
void roami_page_rebase(struct roami_node *node, uint32_t page, const uint8_t *bytes);

/* Memory for messages: scratch_size bytes for each node, one after the other, of this thread. */
uint8_t *roami_scratch(struct roami_node *node);

/* The page's manager: the node that keeps its directory word. */
unsigned roami_manager(const struct roami_node *node, uint32_t page);

/* ---------------------------------------------------------------------------- time and history */

/*
 * This node's open interval changed `page`, findable as `version` (0: no version).  app, inside
 * release or acquire.  Under ScC the notice goes to the lists of the locks that threads of this
 * node hold when the interval ends; barriers pass all notices on, flags the setter's own.
 */
void roami_notice_add(struct roami_node *node, uint32_t page, uint64_t version);

/* This node's open interval: the next to be closed.  app or handler. */
uint64_t roami_interval(struct roami_node *node);

/* -------------------------------------------------------------------------------------- memory */

/*
 * Memory of the protocol's own besides its states: zeros, used as it is touched, freed by the
 * core.  roami_memory_open: once, in init; fails the job.  In a world roami_memory_spoil fills with
 * rubbish what nobody may look at any more.
 */
void *roami_memory_open(struct roami_node *node, size_t bytes);
void *roami_memory(struct roami_node *node);
void roami_memory_spoil(struct roami_node *node, void *at, size_t bytes);

/* A short spin lock for it, and for the state of the node.  Not recursive; within page locks. */
void roami_memory_lock(struct roami_node *node);
void roami_memory_unlock(struct roami_node *node);

/* ------------------------------------------------------------------------------------ messages */

/* Sends message `type` of the protocol's own table.  Any thread; never blocks. */
void roami_send(struct roami_node *node, unsigned to, unsigned type, const struct roam_part *parts,
		unsigned count);

/* Sends and waits for the reply, of at most `reply_max` bytes; returns its length.  app. */
size_t roami_call(struct roami_node *node, unsigned to, unsigned type,
		  const struct roam_part *parts, unsigned count, void *reply, size_t reply_max);

/* Calls that are all sent before the first is waited for; returns when all are answered.  app. */
struct roam_call {
	unsigned to;
	unsigned type;
	const struct roam_part *parts;
	unsigned count;
	void *reply;
	size_t reply_max;
	size_t bytes; /* out: of the reply */
};

void roami_call_all(struct roami_node *node, struct roam_call *calls, unsigned count);

/*
 * The same about a page, which is pending: its number is the request, its bytes, if they come with
 * the reply, are in the runtime view on return.  Counts the fetch.
 */
size_t roami_call_page(struct roami_node *node, unsigned to, unsigned type, uint32_t page,
		       void *reply, size_t reply_max, bool *came_p);

/*
 * Calls every node of the set (bit i: node i), without waiting for one before the next; returns
 * when all have answered, with nothing.  app.
 */
void roami_call_each(struct roami_node *node, uint64_t nodes, unsigned type,
		     const struct roam_part *parts, unsigned count);

/*
 * In handlers: answer the caller; pass the request on as message `type`, as it is or with another
 * payload; keep it until roami_page_done(page).  To keep it, hold the page's lock since the look
 * that found it pending: a request kept for another reason than it was looked at may wait for
 * itself.
 */
void roami_reply(struct roami_node *node, const struct roam_request *request,
		 const struct roam_part *parts, unsigned count);
void roami_forward(struct roami_node *node, const struct roam_request *request, unsigned to,
		   unsigned type);
void roami_pass(struct roami_node *node, const struct roam_request *request, unsigned to,
		unsigned type, const struct roam_part *parts, unsigned count);

/*
 * In handlers: the page whose number a request of at least `bytes` begins with; it is under the
 * protocol that asks, or the node fails.
 */
uint32_t roami_request_page(struct roami_node *node, const struct roam_request *request,
			    size_t bytes);

/*
 * In handlers: answers a roami_call_page, with the page's bytes.  Where memory is shared the caller
 * copies them itself, later: they must not change before it can be asked about the page again.
 */
void roami_reply_page(struct roami_node *node, const struct roam_request *request, uint32_t page,
		      const struct roam_part *parts, unsigned count);

void roami_park(struct roami_node *node, const struct roam_request *request, uint32_t page);

/* In handlers: keep the request and hand it to its handler again after `ns` nanoseconds. */
void roami_delay(struct roami_node *node, const struct roam_request *request, uint64_t ns);

/* Nanoseconds: virtual in a world. */
uint64_t roami_now(struct roami_node *node);

/*
 * How long a page that came now should stay, in nanoseconds, so that the access that faulted can be
 * made before it is taken away: ROAM_STAY_NS, and twice as long each time in a row that the calling
 * thread comes back to a page without having run in between.  For ROAM_WRITES_FAULT.  app.
 */
#define ROAM_STAY_NS 20000u
uint64_t roami_stay_ns(struct roami_node *node);

#ifdef __cplusplus
}
#endif

#endif
