/*
 * A node: one participant of a job.  It owns all state: what it is, and its rooms, each of which
 * has a state of its own (base/room.h; NAME_of(node) in the room's header).  Protocols see
 * roam/protocol.h only.
 *
 * The room keeps rules 3.1 and 3.2 (parts.h).
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
#include "fault/alias.h"
#include "fault/engine.h"
#include "os/os.h"
#include "os/slab.h"
#include "roam/protocol_home.h"
#include "roam/transport.h"

/* What kind of bytes must not be read any more, see `spoil`. */
enum roami_spoilt {
	ROAMI_SPOILT_COPY,  /* of a page, evicted */
	ROAMI_SPOILT_TWIN,  /* returned to the pool */
	ROAMI_SPOILT_MEMORY, /* of the protocol, dropped */
	ROAMI_SPOILT_PAGE,  /* given away, by message; a peer that is near may still copy it */
	ROAMI_SPOILT_BLOCK  /* freed, at `bytes` of the runtime view; its length is in the marks */
};

/*
 * What the core asks of its surroundings: real threads (run/wait.c) or a world
 * (tests/lib/world.c).
 */
struct roami_env {
	uint64_t (*now)(struct roami_node *node);
	const struct roami_sleep *sleep; /* how threads wait, and are woken */
	/* Another thread may run here (chaos, world); NULL: nothing. */
	void (*step)(struct roami_node *node);
	/* Like step, but the caller spins for another thread; `turn`: how often in a row before. */
	void (*spin)(struct roami_node *node, unsigned turn);
	/*
	 * Bytes that no thread may look at any more: a world fills them with rubbish, as real
	 * memory would be given back or used again.  For a block by stores, as the thread would,
	 * whose copies other nodes keep.  NULL: nothing.
	 */
	void (*spoil)(struct roami_node *node, enum roami_spoilt what, void *bytes, size_t count);
	/* The calling thread's small number within the node, 0 .. ROAMI_THREADS_MAX - 1. */
	unsigned (*thread)(struct roami_node *node);
	/* The kernel's number of the thread of this number; 0: there is none.  NULL: always 0. */
	int (*tid)(struct roami_node *node, unsigned number);
	/* Where the calling thread keeps the number of the region it is in; 0 at first. */
	unsigned *(*region)(struct roami_node *node);
	/* Nanoseconds that the calling thread ran; a sleep of its own counts as ROAMI_RAN_FAR. */
	uint64_t (*ran)(struct roami_node *node);
	/*
	 * Whether the calling thread waits, and the process has no other that runs the program:
	 * then nothing touches the app view before it goes on, but a signal handler.  NULL: never.
	 */
	bool (*alone)(struct roami_node *node);
	/* The library has started a thread, 1, or it has ended, -1: `alone` leaves it out. */
	void (*helper)(struct roami_node *node, int change);
	/* As helper, of a thread that acts for processes outside of the job: `alone` counts it. */
	void (*aside)(struct roami_node *node, int change);
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

#define ROAMI_HOT_AFTER     2u   /* intervals that wrote a page make it hot */
#define ROAMI_HEAT_DEFERRED 128u /* in `heat`: written, announced, and still to be closed */
/*
 * Pages that a release closes only after it has told others of them, if there are no more: with
 * their twins they are still in a cache when they are compared again.
 */
#define ROAMI_DEFERRED_MAX  64u

struct roami_page {
	struct roami_spin lock;
	_Atomic uint8_t flags;
	_Atomic uint8_t access;
	uint8_t state;
	uint8_t heat;  /* intervals that wrote it; for hot pages, releases in a row without change;
			  top bit: see roami_release_rest */
	_Atomic uint16_t home; /* cached, + 1; 0: not known */
	uint8_t here : 1;   /* the memfd may have bytes of it */
	uint8_t provisional : 1; /* written before it has a home, see home/provisional.h */
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

#define ROAMI_TOUCHED 4 /* pages that an instruction needs at most */

/* What the core remembers of an application thread; see base/thread.h. */
struct roami_thread {
	_Atomic bool registered; /* counted by the barriers of all threads */
	_Atomic bool strange;    /* has touched the heap without that (transactions) */
	uint32_t mate;     /* its number in the node's team; 0 also if it is in none */
	bool came;         /* to a lock or barrier, when the team still waited for first ones */
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

struct roami_reach;

/* A stretch of the heap under one protocol, and that protocol at this node; see base/region.h. */
struct roami_region {
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
	int fd;                               /* this node's memfd; -1: none */
	const char *const *host_names;        /* NULL: not known */
	const struct roam_protocol *protocol; /* region 0's */
	struct roami_region *regions;
	unsigned region_count;
	_Atomic uint32_t several; /* another region than 0 is active */
	/*
	 * Called when a thread has ended a wait: it may have to stop before it goes on.  NULL: no
	 * thread ever has to.
	 */
	void (*gate)(struct roami_node *node);

	/* Of the page and home rooms, where most calls need them. */
	struct roami_page *table;
	const struct roami_reach *reach[ROAMI_NODES_MAX]; /* how each peer is reached, reach.h */

	size_t bytes; /* of the node and the states of its rooms, which follow it */
	struct roami_open_room rooms[ROAMI_ROOMS]; /* by enum roami_room_number */
	struct roami_open_room *extensions;        /* ends with one that is not open */
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

/* Whether homes move by messages of the protocol. */
static inline bool roami_homes_move(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_MOVING || protocol->homes == ROAM_HOMES_FOLLOWING;
}

static inline bool roami_homes_everywhere(const struct roam_protocol *protocol)
{
	return protocol->homes == ROAM_HOMES_EVERYWHERE;
}

/* The nodes have one heap: `segments[i].heap` of all is node 0's (roam/protocol.h). */
static inline bool roami_one_heap(const struct roami_node *node)
{
	return roami_homes_everywhere(node->protocol);
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

/* Whether some thread holds it; for contracts. */
static inline bool roami_spin_held(const struct roami_spin *spin)
{
	return atomic_load_explicit(&spin->held, memory_order_relaxed) != 0;
}

static inline void roami_spin_unlock(struct roami_spin *spin)
{
	roami_contract(roami_spin_held(spin));
	atomic_store_explicit(&spin->held, 0, memory_order_release);
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

/* See struct roami_sleep, `until`. */
static inline void roami_wait_until(struct roami_node *node, uint64_t when)
{
	node->env->sleep->until(node, when);
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
	const struct roami_aliases *aliases; /* of its pages; NULL: none */
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
	uint64_t read;          /* others, whose segments the transport reads; bits */
	unsigned hosts;         /* of the job; 0 counts as 1 */
	unsigned local;         /* nodes on this host; 0: not known */
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

/* By name; NULL if there is none. */
const struct roam_protocol *roami_protocol_find(const char *name);

/*
 * Whether `region` can coexist with the job's protocol `own`: under ScC notices are kept with
 * locks, and a protocol that needs RC's would miss some; where nodes have one heap, no page of it
 * can be one of several copies; what is aborted would stay in pages of another protocol
 * than that of the transactions.
 */
bool roami_protocol_beside(const struct roam_protocol *own, const struct roam_protocol *region);
extern const struct roam_protocol
	*const roami_protocols[]; /* NULL-terminated, from the build's list */
/* Protocols by their stretches of the heap, some of them NULL; see protocols/meson.build. */
extern const struct roam_protocol *const roami_stretches[];
extern const unsigned roami_stretch_count;

/*
 * What the calling thread waits for, shown when the job fails or hangs: an enum roam_sync_kind + 1;
 * `of`: the threads that a barrier is for.
 */
void roami_node_waits(struct roami_node *node, unsigned kind, uint64_t id, unsigned of);
void roami_node_waits_no_more(struct roami_node *node);

/* The same for a wait within a fault or a call, after which the thread does not stop. */
void roami_node_waits_cleared(struct roami_node *node);

/*
 * roami_node_waits for a tuple of element `label`, whose number is `id`: ROAMI_TUPLE_... in `of`.
 */
void roami_node_waits_tuple(struct roami_node *node, uint64_t id, unsigned of,
			    const uint64_t label[ROAMI_LABEL_WORDS]);

#endif
