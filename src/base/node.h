/*
 * A node: one participant of a job.  It owns all state; nothing in src/core hangs off anything
 * else.  Internal to src/core, src/msg, src/boot and src/api; protocols see roam/protocol.h only.
 */
#ifndef ROAMI_NODE_H
#define ROAMI_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "base/room.h"
#include "base/segment.h"
#include "base/sleep.h"
#include "base/vclock.h"
#include "fault/engine.h"
#include "os/os.h"
#include "os/slab.h"
#include "roam/protocol_home.h"
#include "roam/transport.h"

/*
 * What the core asks of its surroundings: real threads (run/wait.c) or a world
 * (tests/lib/world.c).
 */
enum roami_spoilt {
	ROAMI_SPOILT_COPY,  /* of a page, evicted */
	ROAMI_SPOILT_TWIN,  /* returned to the pool */
	ROAMI_SPOILT_MEMORY, /* of the protocol, dropped */
	ROAMI_SPOILT_PAGE   /* given away, by message; a peer that is near may still copy it */
};

struct roami_env {
	uint64_t (*now)(struct roami_node *node);
	const struct roami_sleep *sleep; /* how threads wait, and are woken */
	/* Another thread may run here (chaos, world); NULL: nothing. */
	void (*step)(struct roami_node *node);
	/* Like step, but the caller spins for another thread; `turn`: how often in a row before. */
	void (*spin)(struct roami_node *node, unsigned turn);
	/*
	 * Bytes that nobody may look at any more: a world fills them with rubbish, as real memory
	 * would be given back or used again.  NULL: nothing.
	 */
	void (*spoil)(struct roami_node *node, enum roami_spoilt what, void *bytes, size_t count);
	/* The calling thread's small number within the node, 0 .. ROAMI_THREADS_MAX - 1. */
	unsigned (*thread)(struct roami_node *node);
	/* Where the calling thread keeps the number of the domain it is in; 0 at first. */
	unsigned *(*domain)(struct roami_node *node);
	/* Nanoseconds that the calling thread ran; a sleep of its own counts as ROAMI_RAN_FAR. */
	uint64_t (*ran)(struct roami_node *node);
	/*
	 * Whether the calling thread waits, and the process has no other that runs the program:
	 * then nothing touches the app view before it goes on, but a signal handler.  NULL: never.
	 */
	bool (*alone)(struct roami_node *node);
	__attribute__((noreturn)) void (*fail)(struct roami_node *node, const char *text);
};

#define ROAMI_RAN_FAR 1000000u

#define ROAMI_THREADS_MAX 2048 /* of a node that use it at a time, the library's own counted */

/* Flags of a page. */
enum {
	ROAMI_PAGE_PENDING = 1,
	ROAMI_PAGE_HOME = 2,
	ROAMI_PAGE_DIRTY = 4,   /* in the dirty list */
	ROAMI_PAGE_KEEP = 8,    /* hot: writable across releases */
	ROAMI_PAGE_WANT = 16,   /* the pending fault is a write */
	ROAMI_PAGE_PARKED = 32, /* requests are parked for it */
	ROAMI_PAGE_LISTED = 64, /* seen, while the list of copies is compacted */
	ROAMI_PAGE_TWINS = 128  /* this home's writes make a twin, like others' */
};

/*
 * Pages that a handler has closed, for the engine to close when it is done: it runs on a thread
 * that nobody else can touch them beside (alone).  No pages elsewhere.
 */
struct roami_late {
	uint32_t first;
	uint32_t count; /* 0: none */
	enum roam_access from;
	enum roam_access to;
};

struct roami_page {
	struct roami_spin lock;
	_Atomic uint8_t flags;
	_Atomic uint8_t access;
	uint8_t state;
	uint8_t heat;  /* intervals that wrote it; for hot pages, releases in a row without change;
			  top bit: see roami_release_rest */
	_Atomic uint16_t home; /* cached, + 1; 0: not known */
	uint8_t here : 1;   /* the memfd may have bytes of it */
	uint8_t guessed : 1; /* written before it has a home, see home/provisional.h */
	uint8_t mapped : 1; /* the engine has it open for reading already, see roami_fetch */
	uint8_t evicted : 1; /* this node itself has dropped its copy */
	_Atomic uint8_t again; /* see roami_page_again */
	uint32_t twin; /* index in the pool; 0: none */
};

_Static_assert(sizeof(struct roami_page) == 16, "page entry");

/*
 * Per touched page: entry, 16 bytes of protocol state (hlrc), header, directory word, slots of a
 * shared list.
 */
_Static_assert(sizeof(struct roami_page) + 16 + sizeof(struct roami_header) + 8 + 8 <= 64,
	       "at most 64 bytes of metadata per touched page");

/* Write notices of one writer, a run of pages at a time, ascending by interval. */
struct roami_run {
	uint32_t page;
	uint32_t count;
	uint64_t interval;
	uint64_t version;
	uint64_t place;
};

struct roami_log {
	struct roami_spin lock;
	struct roami_vec runs[ROAMI_NODES_MAX];
	size_t first[ROAMI_NODES_MAX];              /* runs before it are trimmed */
	size_t compacted[ROAMI_NODES_MAX];          /* length after the last compaction */
	struct roami_vclock seen;                   /* the log is complete up to here */
	struct roami_vclock clock;                  /* applied: copies are as fresh as this */
	struct roami_vclock floor;                  /* everybody has applied this at least */
	struct roami_vclock met; /* what had been released before the last full barrier */
	struct roami_vclock known[ROAMI_NODES_MAX]; /* lower bound of what each node's log holds */
	/* What the last barrier by message of all nodes has told them, and how many those were. */
	struct roami_vclock told;
	uint64_t told_number;
	uint64_t published;                         /* own runs put on the board */
};

struct roami_answers;
struct roami_diff_ops;

struct roami_call {
	_Atomic uint32_t state; /* 0 free, 1 waiting, 2 answered */
	uint32_t id;
	uint8_t *reply;
	size_t reply_max;
	size_t bytes;
	uint8_t *page;   /* where the bytes of a page go that come with the reply; may be NULL */
	uint32_t page_at; /* they came: 1; or are to be copied from a node: 2 + it */
};

#define ROAMI_CALLS_EACH    64u /* under way, of one thread at most */
#define ROAMI_CALLS_MAX     (ROAMI_THREADS_MAX * ROAMI_CALLS_EACH) /* a power of two */
#define ROAMI_CALL_SERIALS  (UINT32_MAX / ROAMI_CALLS_MAX / 2 + 1) /* then they begin anew */

/* Messages that wait: parked for a page, delayed until a time, or out for a full ring. */
struct roami_parked {
	uint32_t page;
	uint32_t bytes;
	uint64_t when; /* 0: parked for the page */
	struct roam_request request;
};

/* A type of message. */
struct roami_type {
	const struct roam_message *message; /* NULL: none */
	unsigned domain; /* whose protocol's it is; ROAMI_DOMAIN_NONE: a room's */
};

#define ROAMI_DOMAIN_NONE UINT32_MAX


struct roami_msg {
	struct roami_spin poll_lock;
	uint32_t polls; /* that found something; poll_lock is held */
	_Atomic uint64_t asked; /* requests handed to handlers */
	_Atomic uint64_t received;              /* messages since the node was opened */
	_Atomic uint64_t sent[ROAMI_NODES_MAX]; /* the same, to each node */
	_Atomic uint64_t aside_received, aside_sent; /* those of run/probe.h among them */
	struct roami_spin call_lock;
	struct roami_spin out_lock[ROAMI_NODES_MAX];
	struct roami_vec out[ROAMI_NODES_MAX]; /* bytes: length word, message, padded */
	size_t out_first[ROAMI_NODES_MAX];
	_Atomic uint32_t out_waiting; /* peers with queued messages */
	struct roami_call calls[ROAMI_CALLS_MAX];
	uint32_t call_serial;
	struct roami_spin parked_lock;
	struct roami_vec parked;      /* struct roami_parked with payload, back to back */
	struct roami_vec parked_copy; /* the one being handled */
	_Atomic uint64_t delay_next;  /* earliest `when`; UINT64_MAX: none */
	struct roami_vec types;       /* struct roami_type, by the type of a message */
	const struct roami_answers *answers[ROAMI_NODES_MAX]; /* by peer */
	void (*handled)(struct roami_node *node); /* a handler has returned */
};

struct roami_twins {
	struct roami_spin lock;
	uint8_t *pool;
	uint32_t fresh; /* next never used index */
	struct roami_vec free;
};

struct roami_group;

/* See home/provisional.h. */
struct roami_guess {
	struct roami_spin lock;
	_Atomic uint32_t count;    /* of `list` */
	_Atomic uint32_t settling; /* those that were in it are being claimed */
	_Atomic uint64_t epoch;    /* counts acquires */
	struct roami_vec list;     /* uint32_t pages that are open as guesses, some stale */
	struct roami_vec work;     /* of the settling under way */
	struct roami_group *groups;
};

/* Touches at a constant distance: first, first + stride, ... last; see page/prefetch.h. */
struct roami_stream {
	uint32_t first;
	uint32_t last;
	uint32_t next;    /* of reads: where the next fault is expected */
	int32_t stride;   /* 0: not known */
	uint32_t ahead;   /* pages that went along with the last one */
	uint32_t granted; /* of claims: pages of the run that the claim under way has already */
};

#define ROAMI_STREAMS 4

struct roami_streams {
	struct roami_stream of[ROAMI_STREAMS];
	uint32_t turn; /* the one to replace */
	uint32_t last; /* of reads: the last fault */
};

/*
 * Pages that a thread touched last under one-writer protocols, and how often in a row it came back
 * to one of them without having run meanwhile.  An instruction needs four pages at most.
 */
struct roami_returns {
	uint32_t pages[4]; /* + 1 */
	uint32_t next;     /* the one to replace */
	uint32_t count;
	bool again;    /* the page of the fault under way, or the last one, was listed already */
	bool idle;     /* the thread has hardly run since the last one */
	uint32_t read; /* the page that the last fault read, + 1 */
	uint64_t ran;  /* how long the thread had run when that ended; 0: not known */
};

#define ROAMI_PAGES_MAX  (UINT64_C(1) << 32) /* that have a number */
#define ROAMI_DUMP_PAGES (1u << 16)

/* Memory of one thread for one use: see roami_thread_room. */
struct roami_thread_buffer {
	uint8_t *at; /* NULL: not asked for yet */
	size_t bytes;
};

#define ROAMI_TOUCHED 4 /* pages that an instruction needs at most */

/* What the core remembers of an application thread; see base/thread.h. */
struct roami_thread {
	bool registered;   /* counted by the barriers of all threads */
	struct roami_streams reads;
	struct roami_streams claims;
	/*
	 * With ROAM_CACHE_PAGES: the pages of the last faults, + 1, the newest first, and how many
	 * of them the thread needs at a time, as far as that has shown.
	 */
	_Atomic uint32_t touched[ROAMI_TOUCHED];
	_Atomic uint32_t needs;
	struct roami_returns returns;
};

#define ROAMI_TABLE_BLOCK  256u  /* items that are made room for at a time */
#define ROAMI_TABLE_BLOCKS 4096u

/* Objects by id: items never move, finding takes no lock. */
struct roami_table {
	struct roami_spin lock;
	uint8_t *blocks[ROAMI_TABLE_BLOCKS]; /* of items, each of which begins with its id */
	size_t item_bytes;
	_Atomic uint32_t count;
	_Atomic uint32_t *slots; /* index + 1, open addressing */
	void (*make)(struct roami_node *node, void *item); /* NULL: nothing to do */
};

/* Where objects of one kind lie in a segment, by id; nothing ever leaves before the round ends. */
struct roami_records {
	size_t at;
	uint32_t slots;
	uint32_t item_bytes;
};

/* A transport, or a layer over it that makes it reliable, or unreliable. */
struct roami_layer {
	const struct roam_transport *transport; /* NULL: none */
	void *state;
	struct roam_transport_memory *memory; /* of a transport: its peers'; NULL: it is a layer */
	bool opened;
};

#define ROAMI_LAYERS_MAX (3 * ROAM_WAYS_MAX + 1)

struct roami_blocks;
struct roami_race;
struct roami_notices;
struct roami_reach;

#define ROAMI_REACHES 2 /* kinds that a node has at most: see home/reach.h */

struct roami_sync_state;

/* A stretch of the heap under one protocol, and that protocol at this node; see base/region.h. */
struct roami_domain {
	const struct roam_protocol *protocol; /* NULL: this build has none for these pages */
	uint32_t first, end;                  /* its pages; none if there is no protocol */
	void *state;
	uint8_t *page_data;
	void *memory; /* roami_memory_open, of memory_bytes */
	size_t memory_bytes;
	struct roami_spin memory_lock;
	unsigned types;          /* its first message type */
	enum roam_err err;       /* why its protocol cannot run */
	_Atomic uint32_t active; /* this node has come across it */
	struct roami_vec shared; /* uint32_t own pages newly shared; under interval_lock */
};

struct roami_node {
	uint32_t magic;
	unsigned me;
	unsigned nodes;
	const struct roami_options *options;
	const struct roami_env *env;
	void *env_state;
	struct roami_stats *stats;

	uint8_t *app; /* the app view */
	struct roami_layout layout;
	struct roami_segment segments[ROAMI_NODES_MAX];
	struct roami_segment *self;
	int fd;                 /* this node's memfd; -1: none */
	uint32_t creator_pages; /* pages that hold the creator's bytes until claimed */
	struct roami_creator_part *creator_parts; /* see creator.c */
	const struct roami_reach *reach[ROAMI_NODES_MAX]; /* how each peer is reached, reach.h */
	const struct roami_reach *reaches[ROAMI_REACHES + 1]; /* the kinds of it, then NULL */
	const struct roami_notices *notices; /* how write notices travel, see log.h */
	bool records; /* locks and barriers may have records in shared memory */

	/* A bit for each ROAMI_DUMP_PAGES pages: core files hold their part of the tables below. */
	_Atomic uint32_t dumped[ROAMI_PAGES_MAX / ROAMI_DUMP_PAGES / 32];
	struct roami_page *table;
	struct roami_twins twins;
	const struct roami_diff_ops *diff;
	bool (*copy_is_brief)(const struct roami_node *node, uint32_t page); /* see migrate.c */
	const struct roami_fault_engine *engine;
	void *engine_state;
	const struct roam_transport *transport; /* the highest layer, which messages go through */
	void *transport_state;
	struct roami_layer layers[ROAMI_LAYERS_MAX]; /* the lowest first */
	const struct roami_layer *sleeper; /* at whose transport threads sleep; NULL: they do not */
	/*
	 * Peers whose messages do not wake who sleeps there: eventfds of theirs do, see net.c.
	 */
	uint64_t rung;
	uint64_t timed; /* peers to whom sending begins a timer of a layer's */
	const int *bells;
	const uint8_t *card; /* ROAM_CARD_BYTES for peers on other hosts; NULL: there are none */
	const char *const *host_names; /* NULL: not known */
	unsigned lost; /* + 1: the peer that has fallen silent, for which the node fails */
	const struct roam_protocol *protocol; /* that of domain 0 */
	struct roami_domain *domains;
	unsigned domain_count;
	_Atomic uint32_t several;    /* another domain than 0 is active */
	_Atomic uint32_t shared_left; /* pages in the domains' lists of newly shared ones */

	struct roami_msg msg;
	struct roami_log log;

	_Atomic uint64_t barriers_left;
	/*
	 * What the versions and epochs of pages begin beyond: 0, but tests begin just below where
	 * they would not fit any more.
	 */
	uint64_t version_begin;
	uint32_t epoch_begin;
	uint32_t compact_sooner; /* lists of notices, by so many powers of two: 0, but for tests */
	struct roami_guess guess;

	struct roami_spin interval_lock; /* slept on, see roami_interval_enter */
	struct roami_spin dirty_lock;
	_Atomic uint32_t dirty_count; /* of `dirty`, to be read without the lock */
	_Atomic bool spared;         /* pages wait for roami_release_rest */
	_Atomic uint64_t told;       /* the cycle at which that began last, for benchmarks */
	_Atomic uint64_t handlers_checked;
	_Atomic uint32_t handlers_warned;
	struct roami_vec dirty;      /* uint32_t pages with ROAMI_PAGE_DIRTY, some stale */
	struct roami_vec dirty_work; /* struct roam_dirty of the release under way */
	struct roami_vec apply_work; /* struct roam_notice of the acquire under way */
	struct roami_vec page_work;  /* uint32_t */
	struct roami_vec note_work;  /* struct roam_notice: own notices of the open interval */
	bool trail_on;               /* peers read this node's trail of diffs */
	uint64_t trail_head;         /* words left in the trail */

	struct roami_spin share_lock[ROAMI_NODES_MAX]; /* appending to peers' shared lists */
	_Atomic uint64_t
		share_head[ROAMI_NODES_MAX]; /* taken from each list of newly shared pages */

	/*
	 * Threads that use the node, and whether one that was the only one is in a fault: a page
	 * may then show before it is checked.  Who comes second waits for it.
	 */
	_Atomic uint32_t users;
	_Atomic uint32_t solo;

	struct roami_late late;
	struct roami_spin close_lock; /* the table and the engine agree on what is closed */
	struct roami_thread threads[ROAMI_THREADS_MAX];
	struct roami_thread_buffer *buffers; /* of each thread, by number; see base/thread.h */
	_Atomic uint32_t threads_top; /* those from here on were never used */
	_Atomic uint32_t page_waiters; /* threads that wait for a pending page */
	_Atomic uint32_t cached;       /* clean or dirty copies of other nodes' pages */
	struct roami_spin cache_lock;
	struct roami_vec
		cache; /* uint32_t copies, oldest first, some gone; with ROAM_CACHE_PAGES */
	size_t cache_first;

	uint64_t *shadow;            /* ROAM_CHECK=race: per byte, who wrote it last */
	struct roami_race *race;     /* and what was reported; NULL: not checked */
	struct roami_blocks *blocks; /* allocated ones, for reports; of the job's nodes in turn */

	struct roami_spin frees_lock;
	struct roami_vec frees; /* struct roami_remote_free */
	_Atomic uint32_t
		interval_due; /* the next release closes an interval even if nothing was written */

	struct roami_sync_state *sync;
	struct roami_slabs slabs;
	struct roami_records lock_records;    /* in every segment, the locks whose home is there */
	struct roami_records meeting_records; /* in node 0's segment, barriers */

	size_t bytes; /* of the node and the states of its rooms, which follow it */
	struct roami_open_room rooms[ROAMI_ROOMS];  /* by enum roami_room_number */
	struct roami_open_room *extensions; /* ends with one that is not open */
};

/* The type of a room's message, by its number in the room's table. */
static inline unsigned roami_type(const struct roami_node *node, enum roami_room_number room,
				  unsigned message)
{
	return node->rooms[room].types + message;
}

/* The extension of this name, which is open. */
static inline const struct roami_open_room *roami_extension(const struct roami_node *node,
							    const char *name)
{
	const struct roami_open_room *extension = node->extensions;

	while (extension->room->name != name)
		extension++;
	return extension;
}

/* Which of `nodes` manages a page: consecutive ones share a manager, and their words a page. */
static inline unsigned roami_page_manager(uint32_t page, unsigned nodes)
{
	return page / 512 % nodes;
}

/* Scope consistency: notices are kept with locks; see sync/scope.h. */
static inline bool roami_scoped(const struct roami_node *node)
{
	return node->protocol->model == ROAM_MODEL_SCC;
}

/* ---- spin locks */
static inline void roami_spin_lock(struct roami_node *node, struct roami_spin *spin)
{
	while (atomic_exchange_explicit(&spin->held, 1, memory_order_acquire) != 0)
		for (unsigned turn = 0;
		     atomic_load_explicit(&spin->held, memory_order_relaxed) != 0; turn++)
			node->env->spin(node, turn);
}

/* Adds one to a number that a lock guards, or that one thread changes. */
static inline void roami_count_one(_Atomic uint64_t *number)
{
	atomic_store_explicit(number, atomic_load_explicit(number, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static inline bool roami_spin_try(struct roami_spin *spin)
{
	return atomic_load_explicit(&spin->held, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&spin->held, 1, memory_order_acquire) == 0;
}

static inline void roami_spin_unlock(struct roami_spin *spin)
{
	atomic_store_explicit(&spin->held, 0, memory_order_release);
}

/* For assertions: some thread holds it. */
static inline bool roami_spin_held(const struct roami_spin *spin)
{
	return atomic_load_explicit(&spin->held, memory_order_relaxed) != 0;
}

static inline void roami_step(struct roami_node *node)
{
	if (node->env->step != NULL)
		node->env->step(node);
}

static inline void roami_spoil(struct roami_node *node, enum roami_spoilt what, void *bytes,
			       size_t count)
{
	if (node->env->spoil != NULL)
		node->env->spoil(node, what, bytes, count);
}

static inline void roami_wait(struct roami_node *node, bool (*condition)(void *arg), void *arg)
{
	if (!condition(arg))
		node->env->sleep->wait(node, ROAMI_NO_TICKET, condition, arg);
}

static inline void roami_wait_ticket(struct roami_node *node, uint32_t ticket,
				     bool (*condition)(void *arg), void *arg)
{
	if (!condition(arg))
		node->env->sleep->wait(node, ticket, condition, arg);
}

/* See struct roami_sleep, `changed`. */
static inline void roami_changed(struct roami_node *node, unsigned peer)
{
	node->env->sleep->changed(node, peer, ROAMI_NO_TICKET);
}

static inline void roami_changed_ticket(struct roami_node *node, uint32_t ticket)
{
	node->env->sleep->changed(node, node->me, ticket);
}

/* See struct roami_sleep, `begin` and `end`. */
static inline void roami_wait_begin(struct roami_node *node)
{
	node->env->sleep->begin(node, false);
}

static inline void roami_wait_later(struct roami_node *node)
{
	node->env->sleep->begin(node, true);
}

static inline void roami_wait_end(struct roami_node *node)
{
	node->env->sleep->end(node);
}

/* ---- life */

struct roami_node_params {
	unsigned me;
	unsigned nodes;
	const struct roami_options *options;
	const struct roami_env *env;
	void *env_state;
	const struct roam_protocol *protocol;
	const struct roam_protocol *const *regions; /* of each stretch of the layout; NULLs: none */
	const struct roami_fault_engine *engine;
	const struct roam_transport *transport; /* of the peers of which `by` says none */
	const struct roam_transport *const *by; /* by what each is reached; NULL: not said */
	const int *bells; /* eventfds that wake nodes of this host, if several are joined */
	void *world; /* for the transport */
	struct roami_layout layout;
	void *const *bases;     /* every node's segment; NULL: it cannot be mapped */
	/* Of those; of all where transports with ROAM_CAP_MAPPED and others are joined. */
	struct roami_far *const *peers;
	uint32_t address;             /* IPv4 of this host, host byte order; 0: one host */
	uint8_t *app;           /* the app view; with the soft engine the runtime view does */
	int fd;                 /* this node's memfd; -1: none */
	uint32_t creator_pages; /* pages whose first bytes are node 0's */
	uint64_t near;          /* peers whose segments loads and stores reach; bits */
	unsigned hosts;         /* of the job; 0 counts as 1 */
	bool aes;               /* each of several has a CPU with AES */
	const char *const *host_names; /* of each node's host; NULL: not known */
	bool traced;            /* a debugger may stop this node for as long as it likes */
	const uint8_t *key;     /* the job's, ROAMI_KEY_BYTES; NULL: none, and no seal */
	uint64_t boot;          /* counts the times that the job's nodes start with this key */
	/* On all of the job's nodes alike, in one order; ends with NULL.  NULL: none. */
	const struct roami_room *const *extensions;
	char *why; /* where a transport may say why it does not open; NULL: nowhere */
	size_t why_bytes;
};

/*
 * For what is too large for a stack: a fault's is as large as a slab.  To be given back soon, by
 * roami_slab_give.
 */
struct roami_slab *roami_node_slab(struct roami_node *node);

static inline bool roami_node_dumped(struct roami_node *node, uint32_t page)
{
	uint32_t part = page / ROAMI_DUMP_PAGES;
	uint32_t word = atomic_load_explicit(&node->dumped[part / 32], memory_order_relaxed);

	return (word >> part % 32 & 1) != 0;
}

/* By name; NULL if there is none. */
const struct roam_protocol *roami_protocol_find(const char *name);

/*
 * Whether a region under `region` is right in a job under `own`: under ScC notices are locks', and
 * a protocol that lives by RC's would miss some.
 */
bool roami_protocol_beside(const struct roam_protocol *own, const struct roam_protocol *region);
extern const struct roam_protocol
	*const roami_protocols[]; /* NULL-terminated, from the build's list */
/* The same by their stretches of the heap, some of them NULL; see protocols/meson.build. */
extern const struct roam_protocol *const roami_stretches[];
extern const unsigned roami_stretch_count;

/*
 * What the calling thread waits for, shown when the job fails or hangs: an enum roam_sync_kind + 1;
 * `of`: the threads that a barrier is for.
 */
void roami_node_waits(struct roami_node *node, unsigned kind, uint64_t id, unsigned of);
void roami_node_waits_no_more(struct roami_node *node);

/* The same for a tuple of element `label`, whose number is `id`: ROAMI_TUPLE_... in `of`. */
void roami_node_waits_tuple(struct roami_node *node, uint64_t id, unsigned of,
			    const uint64_t label[ROAMI_LABEL_WORDS]);

#endif
