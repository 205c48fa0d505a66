/*
 * A node's segment: the one memfd that its peers on this host map.  Control page, pool, rings,
 * write notices, locks, barriers, page headers, directory words, lists of pages newly shared, and
 * the heap.  Everything is sparse: what is not touched takes no memory.  Rule 10.2: it is sealed
 * against shrinking and growing, and lies between guard pages at its peers.
 */
#ifndef ROAMI_SEGMENT_H
#define ROAMI_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nodeset.h"
#include "base/parts.h"
#include "link/datagram.h"

#include "roam/roam.h"
#include "roam/transport.h"
#include "stats/stats.h"

#define ROAMI_PAGE          ((size_t)ROAM_PAGE_SIZE)
/* Of another version, whose control page is another, it differs. */
#define ROAMI_SEGMENT_MAGIC (UINT64_C(0x726f616d2d303201) + (sizeof(struct roami_ctl) << 12))
#define ROAMI_COMES_BYTES   512u

/* A spin lock; the holder never blocks.  `step` lets a world's other fibers run. */
struct roami_spin {
	_Atomic uint32_t held;
};

/* Where the service thread sleeps. */
enum roami_asleep { ROAMI_AWAKE, ROAMI_ASLEEP_FUTEX, ROAMI_ASLEEP_TRANSPORT };

/* Where threads of a node sleep and how others wake them; modelled in tests/model/ring.pml. */
struct roami_bell {
	_Alignas(64) _Atomic uint32_t
		busy; /* low half: threads polling in a wait; high half: such threads asleep */
	_Atomic uint32_t app;     /* futex of application threads */
	_Atomic uint32_t service; /* futex of the service thread */
	_Atomic uint32_t service_asleep; /* where: enum roami_asleep */
	/*
	 * The high half of `busy` once more: a node that answers a call looks here, at a line that
	 * waits without sleep leave alone.
	 */
	_Alignas(64) _Atomic uint32_t app_asleep;
};

/* The header of a page at its home, and at every node that was home (rule 6). */
struct roami_header {
	_Atomic uint32_t where; /* ROAM_HEADER_HOME | ROAM_HEADER_READY | epoch << 8 */
	_Atomic uint32_t
		shared; /* some node may hold a copy: ROAMI_SHARED..., and a generation above */
	union {
		_Atomic uint64_t version; /* of a page that has homes */
		/*
		 * Of a page whose protocol has a region_option, at every node: ROAMI_OPTION_OWN +
		 * the value; less: the job's.
		 */
		_Atomic uint64_t option;
	};
};

#define ROAMI_HEADER_EPOCH 8u /* where it begins */

#define ROAMI_OPTION_JOBS 1u /* again; 0: as it was */
#define ROAMI_OPTION_OWN  2u

/*
 * The version counts below.  Above, under ROAM_HOMES_TAKEN: 7 bits for nodes that are storing a
 * diff, which hold the home where it is (one release of each node, and one handler); and the mark
 * that some node has read a diff of this home.
 */
#define ROAMI_VERSION_BUSY (UINT64_C(1) << 56)
#define ROAMI_VERSION_READ (UINT64_C(1) << 63)
#define ROAMI_VERSION(word) ((word) & (ROAMI_VERSION_BUSY - 1))
_Static_assert(ROAMI_NODES_MAX < ROAMI_VERSION_READ / ROAMI_VERSION_BUSY, "nodes storing a diff");

/* The version, and the nodes storing a diff. */
#define ROAMI_VERSION_HELD(word) ((word) & ~ROAMI_VERSION_READ)

/*
 * A mark is set, then listed; the home clears both and counts the generation up, but not while some
 * node is announced, which reads the page by a card (home/reach_card.c).
 */
#define ROAMI_SHARED           1u
#define ROAMI_SHARED_LISTED    2u
#define ROAMI_SHARED_ANNOUNCED 4u
#define ROAMI_SHARED_BITS      3

/*
 * Pages that one fetcher newly shared: single producer (the fetcher, under its own lock), single
 * consumer (the home).
 */
struct roami_shared_tail {
	_Alignas(64) _Atomic uint64_t tail; /* pages ever listed */
};

/*
 * The node's own write notices, newest over oldest; see sync/notice_ring.h.  A run is four words:
 * page and count, interval, version, reference.
 */
#define ROAMI_NOTICE_RING_WORDS 4

struct roami_notice_ring {
	_Alignas(64) _Atomic uint64_t head; /* runs published */
	_Atomic uint64_t begun;             /* runs published or being written */
	_Alignas(64) _Atomic uint64_t words[][ROAMI_NOTICE_RING_WORDS];
};

/* Bytes that the node has left for others, see home/posts.c. */
struct roami_posts {
	_Alignas(64) _Atomic uint64_t begun; /* words written, or being written */
	_Alignas(64) _Atomic uint64_t words[];
};

/* A lock whose home is here; sync/lock_word.h defines its word. */
struct roami_lock_record {
	_Atomic uint64_t id;
	_Atomic uint64_t word;
	/*
	 * Per node: what the last holder had seen; then, of 32 bits each, the node queued behind
	 * it, + 1.
	 */
	_Atomic uint64_t clock[];
};

/*
 * A barrier, in node 0's segment.  The arrived: `clocks` is what they know together, and those of
 * earlier episodes, then what each of them has applied.  The departure lies behind, in lines of its
 * own, where they wait for it.
 */
struct roami_barrier_record {
	_Atomic uint64_t id;
	struct roami_spin spin;
	uint32_t expected; /* threads */
	uint32_t arrived;
	uint32_t spare;
	uint64_t here; /* nodes, a bit each */
	uint64_t clocks[];
};

/* The clocks of the two episodes that ended last, even ones first. */
struct roami_departure {
	_Atomic uint64_t episode; /* episodes that have ended */
	_Atomic uint64_t clocks[];
};

/*
 * In `where` at the page's manager: runs of claims end before this page, for example because a
 * block of the heap begins with it; at another node: the manager was told so.
 */
#define ROAMI_HEADER_BLOCK 4u

/*
 * In `where` at node 0: it had bytes in this page when the job was sealed; without it the page was
 * still zero.
 */
#define ROAMI_HEADER_BYTES 8u

/* In `where` of a home that moves by message: a node is storing a diff, so it must not move. */
#define ROAMI_HEADER_PINNED 128u

/* In `where` at a home that others may take: it has the page open; one of them would take it. */
#define ROAMI_HEADER_OPEN   16u
#define ROAMI_HEADER_WANTED 32u

/*
 * In `where` at such a home: it makes a twin when it opens the page, so diffs go through its hands
 * while it has it open.
 */
#define ROAMI_HEADER_TWIN 64u

enum roami_job_state { ROAMI_JOB_OPEN, ROAMI_JOB_SEALED, ROAMI_JOB_ENDING, ROAMI_JOB_FAILED };

/* A node: mapped and ready to serve; its counters are final; it looks at no segment any more. */
enum roami_joined { ROAMI_JOINED_READY = 1, ROAMI_JOINED_FINAL, ROAMI_JOINED_LEFT };

/* What a thread of the node waits for. */
#define ROAMI_WAITS_MAX   2048u /* ROAMI_THREADS_MAX */
#define ROAMI_POSITION_BYTES 144u
#define ROAMI_POSITIONS      4u
#define ROAMI_LABEL_WORDS 4u /* of a name, cut off and with a zero behind it */
struct roami_waiting {
	_Alignas(64) _Atomic uint64_t id; /* of the object */
	_Atomic uint32_t kind; /* enum roam_sync_kind + 1, or one of those below; 0: for nothing */
	_Atomic uint32_t of;   /* threads that the barrier is for; enum roami_tuple_wait | more */
	_Atomic uint32_t turn; /* waits begun */
	_Atomic uint32_t seen; /* the last probe after which it still waited, see job/hang.c */
	_Atomic uint64_t label[ROAMI_LABEL_WORDS]; /* of ROAMI_WAITS_TUPLE: the element's name */
};

#define ROAMI_WAITS_TUPLE  100u
#define ROAMI_WAITS_ANSWER 101u /* it sleeps until another node answers */
#define ROAMI_WAITS_DP     102u /* at an endpoint: its number * 2, + 1 to send to it */
#define ROAMI_WAITS_HOLD   103u /* until a thread of the node stops, whose tid is the id */
#define ROAMI_WAITS_STORE  104u /* for the page server, or, 1, for its disk */
#define ROAMI_WAITS_ENDS   0x80000000u /* in `of`, of others: the wait ends by itself */
#define ROAMI_REPORT_BYTES 65536u

/*
 * What for; above, whether it ends by itself, or somebody outside the job may end it, whether it is
 * at a server, and the participants of an X-function.
 */
enum roami_tuple_wait {
	ROAMI_TUPLE_ENTER,
	ROAMI_TUPLE_MOVE,
	ROAMI_TUPLE_OBSERVE,
	ROAMI_TUPLE_MOB,
	ROAMI_TUPLE_OTHER
};
#define ROAMI_TUPLE_WHAT         7u
#define ROAMI_TUPLE_ENDS         8u
#define ROAMI_TUPLE_SERVER       16u
#define ROAMI_TUPLE_PARTICIPANTS 5 /* where they begin */

/* Where the question comes from what all wait for: this host, or another one. */
enum roami_ask_for { ROAMI_ASK_NONE, ROAMI_ASK_NEAR, ROAMI_ASK_FAR };

/*
 * SIGQUITs that all nodes get, each at its own time, have numbers: those that a launcher passes on,
 * which numbers them, and those typed at the terminal of all, which every node counts.
 */
enum roami_quit { ROAMI_QUIT_PASSED, ROAMI_QUIT_TYPED, ROAMI_QUITS };

/* What a node answers to a probe. */
struct roami_probed {
	_Atomic uint32_t serial; /* of the probe */
	_Atomic uint32_t quiet;  /* only its threads that wait could do anything */
	_Atomic uint64_t sent;   /* messages, up to then */
	_Atomic uint64_t received;
	_Atomic uint64_t turns; /* waits begun, of a far node */
	/* Where threads are that compute, no position twice; then "". */
	char positions[ROAMI_POSITIONS][ROAMI_POSITION_BYTES];
};

struct roami_ctl {
	uint64_t magic;
	uint64_t heap_bytes;
	uint32_t nodes_max;
	_Atomic uint32_t nodes;    /* node 0's: fixed at the seal */
	_Atomic uint32_t job;      /* node 0's: enum roami_job_state, a futex */
	_Atomic uint32_t ended;    /* node 0's: nodes at the end; see sync/barrier_shm.c */
	_Atomic int32_t pid;       /* 0 until the node has joined */
	_Atomic uint32_t joined;   /* enum roami_joined; 0: not yet */
	_Atomic uint32_t returned; /* the node's function returned */
	_Atomic uint32_t threads;  /* registered application threads; read at each barrier */
	_Atomic int32_t before;    /* of the node before this one: its pid, see launch/wireup.c */
	_Atomic uint32_t reported; /* node 0's: why the job fails; enum roami_reporting */
	_Atomic uint32_t warned;   /* node 0's: a node has said that the model is too weak */
	_Atomic uint32_t dying;    /* a thread that ends the node, as roami_boot_dying reads it */
	_Atomic uint32_t misused;  /* node 0's: kinds of misuse that a node has reported; bits */
	_Atomic uint32_t heard;    /* which fatal signals the node hears of: fault/signals.h */
	_Alignas(64) _Atomic uint32_t look; /* a futex: there is something for job/hang.c */
	_Atomic uint32_t ask;               /* enum roami_ask_for: say what all wait for */
	_Atomic uint32_t quits[ROAMI_QUITS]; /* the last such number here; node 0's: on any node */
	_Atomic uint32_t probe; /* probes so far; in a far node's copy: the token of its answer */
	_Atomic uint32_t token; /* of this node's last probe of far ones; see run/probe.h */
	_Atomic uint32_t tokens[ROAMI_NODES_MAX]; /* of far nodes that wait for an answer */
	_Atomic uint32_t where;      /* how often `roam where` has asked what all wait for */
	_Atomic uint32_t where_reported; /* and which time was answered, */
	_Atomic uint32_t where_bytes; /* by so many bytes of `report` */
	struct roami_probed probed;
	_Atomic uint32_t seats; /* of `waits`, that were ever used */
	struct roami_waiting waits[ROAMI_WAITS_MAX]; /* by threads' numbers */
	_Alignas(64) _Atomic uint64_t
		creator_end; /* node 0's: heap bytes that the creator had handed out at the seal */
	_Atomic uint64_t alloc_hash; /* of the node's allocations before the seal */
	uint64_t boot;               /* node 0's: rounds of nodes that have ended */
	uint8_t key[ROAMI_KEY_BYTES]; /* node 0's, drawn with it: the job's on one host */
	_Alignas(8) uint8_t comes[ROAMI_COMES_BYTES]; /* see launch/local_node.c */
	struct roami_bell bell;
	struct roami_stats stats;
	char report[ROAMI_REPORT_BYTES]; /* lines for `roam where`; never touched else */
};

/* What a node keeps of a peer whose segment it cannot map: what that one has told it. */
struct roami_far {
	struct roami_ctl ctl;
	_Alignas(8) uint8_t card[ROAM_CARD_BYTES]; /* of its transport */
};

/*
 * The heap: pages under the job's protocol from `own_first` on; below them, the first next to them,
 * `regions` stretches of `region_pages` pages for regions of other protocols (base/region.h).
 */
struct roami_layout {
	size_t heap_bytes;
	uint32_t pages;
	uint32_t regions;
	uint32_t region_pages;
	uint32_t own_first;
	unsigned nodes_max;
	size_t pool;              /* that of each region, in their order */
	size_t blocks;
	size_t ends;
	size_t rings, ring_bytes; /* offset, bytes of one node's rings */
	size_t ring;
	uint32_t ring_runs; /* a power of two */
	size_t posts;
	size_t posts_bytes;
	size_t locks;
	uint32_t lock_slots;
	size_t barriers_at;
	uint32_t barrier_slots;
	size_t reductions;
	size_t objects;
	size_t headers;
	size_t directory;
	size_t tails;
	size_t slots;
	size_t heap;
	size_t total;
};

struct roami_segment {
	uint8_t *base; /* NULL: not mapped, and so is nothing below but `ctl`, a copy */
	size_t bytes;
	struct roami_ctl *ctl;
	struct roami_heap_parts *pool; /* of each region */
	/* Of each page of the heap: where in it blocks begin, and where they end; base/marks.h. */
	_Atomic uint64_t *blocks;
	_Atomic uint64_t *ends;
	struct roami_notice_ring *ring;
	struct roami_posts *posts;
	/* Of each page of the heap: where in it there are synchronisation objects. */
	_Atomic uint64_t *objects;
	struct roami_header *headers;
	_Atomic uint64_t *directory;
	struct roami_shared_tail *tails;
	_Atomic uint32_t *slots;
	uint8_t *heap;
};

/*
 * Slots in one fetcher's list: a page stands there at most once in each of the two generations that
 * a release of the home can separate.
 */
static inline uint32_t roami_share_slots(const struct roami_layout *layout)
{
	return 2 * layout->pages;
}

/* Of a lock's record in a job of so many nodes: whole cache lines. */
static inline size_t roami_lock_bytes(unsigned nodes)
{
	return (sizeof(struct roami_lock_record) + nodes * (sizeof(uint64_t) + sizeof(uint32_t)) +
		63) & ~(size_t)63;
}

/* Of a barrier's record: up to its departure; in all. */
static inline size_t roami_barrier_record_bytes(unsigned nodes)
{
	return (sizeof(struct roami_barrier_record) + 2 * nodes * sizeof(uint64_t) + 63) &
	       ~(size_t)63;
}

static inline size_t roami_departure_bytes(unsigned nodes)
{
	return (sizeof(struct roami_departure) + 4 * nodes * sizeof(uint64_t) + 63) & ~(size_t)63;
}

/* A page's region; 0 also of what lies below all stretches, which is in no region. */
static inline unsigned roami_layout_region(const struct roami_layout *layout, uint32_t page)
{
	unsigned region;

	if (__builtin_expect(page >= layout->own_first, 1))
		return 0;
	region = (layout->own_first - 1 - page) / layout->region_pages;
	return region < layout->regions ? region + 1 : 0;
}

/* Where the pages of a region begin, and how many bytes they are. */
static inline uint64_t roami_layout_base(const struct roami_layout *layout, unsigned region)
{
	return ROAMI_PAGE * (layout->own_first - (size_t)region * layout->region_pages);
}

static inline uint64_t roami_layout_bytes(const struct roami_layout *layout, unsigned region)
{
	return ROAMI_PAGE *
	       (size_t)(region == 0 ? layout->pages - layout->own_first : layout->region_pages);
}

/* The counts of the layout may be lowered afterwards, on all nodes alike. */
void roami_layout_make(struct roami_layout *layout, size_t heap_bytes, unsigned nodes_max);

/*
 * roami_layout_make with `regions` regions of `region_bytes` below a heap that begins on a multiple
 * of `part`.
 */
void roami_layout_make_regions(struct roami_layout *layout, size_t heap_bytes, unsigned nodes_max,
			       unsigned regions, size_t region_bytes, size_t part);

/* Points the fields of `segment` into memory at `base` laid out so. */
void roami_segment_point(struct roami_segment *segment, const struct roami_layout *layout,
			 void *base);

#endif
