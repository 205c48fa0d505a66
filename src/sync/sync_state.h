/* The objects of the synchronisation layer; internal to src/sync, but for what tests change. */
#ifndef ROAMI_SYNC_STATE_H
#define ROAMI_SYNC_STATE_H

#include "base/node.h"
#include "sync/scope.h"
#include "sync/sync.h"

struct roami_lock;
struct roami_lock_wait;
struct roami_thin;
struct roami_barrier;

enum roami_lock_ask {
	ROAMI_ASK_TRY,   /* now or not at all, even if it is left to another node for a moment */
	ROAMI_ASK_QUICK, /* now or not at all; only where the queue is kept in a record */
	ROAMI_ASK_NOW,   /* now or in turn */
	ROAMI_ASK_LATER, /* in turn: it is another node's */
};

/* Where a lock's queue of nodes is kept; the lock's spin is held in all of these but `due`. */
struct roami_lock_mode {
	/*
	 * Takes the token if it may be had now, else queues.  ROAMI_ASK_TRY: by a record it does
	 * not queue; by messages it does, and lock->busy says whether another node's section goes
	 * on.
	 */
	void (*ask)(struct roami_node *node, struct roami_lock *lock, enum roami_lock_ask how);
	/*
	 * At an unlock: finds the node that follows this one (lock->next).  If no own thread waits
	 * (`waiters`), a token whose queue is in a record goes back there.  `again`: the thread may
	 * take the lock again soon.
	 */
	void (*pass)(struct roami_node *node, struct roami_lock *lock, bool waiters, bool again);
	/* It is lock->next's turn: gives the token away. */
	void (*give)(struct roami_node *node, struct roami_lock *lock);
	/* No thread of this node waits any more. */
	void (*left)(struct roami_node *node, struct roami_lock *lock);
	/* This node has ended and a thread of it holds the lock: fails if another node waits. */
	void (*ends)(struct roami_node *node, struct roami_lock *lock);
	/*
	 * Of the thread that is the next one of its node: whether it need wait no longer, but
	 * `seek`; then takes the token if it may be had, else sets when to look again
	 * (wait->alarm).
	 */
	bool (*due)(struct roami_lock_wait *wait);
	void (*seek)(struct roami_lock_wait *wait);
};

/* How threads wait at a barrier or in a reduction.  app, may block. */
struct roami_barrier_mode {
	/* Called once for all threads of a team at a barrier of all. */
	void (*wait)(struct roami_node *node, struct roami_barrier *barrier, unsigned threads,
		     const struct roam_sync *sync, bool tree);
	/* Reduces barrier->own, whose `values`, `type` and `op` are set. */
	void (*reduce)(struct roami_node *node, struct roami_barrier *barrier,
		       const struct roam_sync *sync);
};

extern const struct roami_barrier_mode roami_barrier_by_record;   /* barrier_shm.c */
extern const struct roami_barrier_mode roami_barrier_by_messages; /* barrier.c */

/*
 * A lock's token travels from node to node.  On one host it lies in the lock's record while no node
 * holds it, and the record's word has the queue.  Else, at the home: `tail` is the last node that
 * asked.  Every node: whether the token is here, which of its own threads is next (tickets), and
 * which node asked after them.
 */
struct roami_lock {
	uint64_t id;
	struct roami_spin spin;
	uint32_t holder;          /* thread + 1; 0: free */
	uint32_t tickets;         /* given to own threads */
	_Atomic uint32_t serving; /* the ticket that holds or may hold next */
	_Atomic uint32_t announced; /* see roami_object_announce; where the tail is kept is known */
	uint16_t tail;            /* at the home of a lock without a record */
	uint16_t next;            /* the node to grant to; ROAM_NOBODY */
	uint32_t next_after;      /* tickets before it go before `next` */
	bool token;               /* the token is here */
	bool asked;               /* this node asked for it */
	bool fresh;               /* granted, and the acquire is still to be done */
	bool busy;                /* asked to try: another node's section goes on */
	bool queued;              /* this node has a place in the record's queue */
	bool keeps;               /* it has taken the lock again soon after its last unlock */
	uint64_t waited;          /* ns of looking since it had the token last, given up or not */
	uint64_t freed;           /* of env->now: it put the token back; 0: no node waited then */
	struct roami_lock_record *record;   /* where the queue is kept; NULL: by messages */
	const struct roami_lock_mode *mode; /* NULL: not resolved yet */
	struct roami_thin *thin;            /* NULL: none; without `token`: has the token */
	struct roami_vec left;              /* struct lock_left: tickets given up */
	uint64_t next_number;      /* under ScC: the last of the list that `next` has */
	struct roami_scope scope;  /* under ScC; the holder's, else under `spin` */
	uint64_t next_clock[];     /* what `next` has applied: an entry of each node */
};

/* What a node has brought to a barrier by message. */
struct roami_barrier_child {
	struct roami_vclock floor;
	uint64_t values[ROAM_REDUCE_MAX];
};

/*
 * Barriers count threads.  On one host there is a record (barrier_shm.c).  Else at node
 * 0: where every node has one thread, its arrival and departure are a message each, gathered along
 * a tree if so asked; else each thread calls node 0.
 */
struct roami_barrier {
	uint64_t id;
	struct roami_spin spin;
	_Atomic uint32_t announced; /* see roami_object_announce */
	_Atomic(const struct roami_barrier_mode *) mode; /* NULL: not resolved yet */
	struct roami_barrier_record *record;             /* NULL: none */
	bool self;                     /* this node's thread is here by the short way */
	bool tree;                     /* gathered along a tree */
	uint32_t children;             /* arrivals by message */
	struct roami_vec waiting;      /* arrivals by call, at node 0 */
	uint32_t expected;             /* threads */
	bool here[ROAMI_NODES_MAX];    /* nodes with arrivals */
	bool by_leg[ROAMI_NODES_MAX];  /* those that came by message */
	_Atomic uint32_t departed;     /* departures received */
	_Atomic uint32_t team_here;    /* threads of a team that have come, */
	_Atomic uint32_t team_left;    /* and how often all of them have left */
	struct roami_vclock merged;    /* what the arrived know together */
	struct roami_vclock floor;     /* what each of the arrived has applied */
	/*
	 * `floor` and `merged` of the whole job.  Kept apart, because the first arrivals of the
	 * next episode may come before this node has left the current one.
	 */
	struct roami_vclock depart_floor;
	struct roami_vclock depart_seen;
	bool depart_all; /* all nodes took part: the two above hold for all of them */
	uint64_t depart_base; /* then: the departure's number, see roami_log_base */
	size_t depart_bytes;  /* of the floor on the wire */
	struct roami_vclock_wire depart_wire;
	uint32_t values; /* of a reduction */
	uint32_t type;
	uint32_t op;
	uint64_t own[ROAM_REDUCE_MAX]; /* this node's, then the result */
	struct roami_barrier_child child[]; /* by node number */
};

struct roami_waiter {
	uint16_t node;
	uint16_t spare;
	uint32_t slot; /* of the waiting thread */
	uint32_t turn; /* its count of waits */
};

struct roami_cond {
	uint64_t id;
	struct roami_spin spin;
	_Atomic uint32_t announced; /* see roami_object_announce */
	/*
	 * struct roami_waiter, first come first: threads of this node; at the condition's home also
	 * an entry for each other node of which threads wait, with slot 0.
	 */
	struct roami_vec waiters;
	uint32_t missed; /* at the home: signals that found no entry; broadcasts as COND_ALL each */
	/* Elsewhere, of this node's entries in the home's queue: */
	uint32_t turns; /* the number of the newest */
	bool entered;   /* it is there, or on its way; then threads wait here */
	bool sure;      /* the home has it, or will miss no signal for it */
};

struct roami_flag {
	uint64_t id;
	struct roami_spin spin;
	_Atomic uint32_t announced; /* see roami_object_announce */
	_Atomic uint32_t sets; /* how often it was set; threads of this node wait for that */
	bool set;
	/*
	 * Where the home is another node: calls that asked it, the newest that it has answered, and
	 * what this node had heard when the newest began.
	 */
	uint32_t asked;
	_Atomic uint32_t answered;
	uint64_t heard;
	struct roami_vclock clock; /* what its setters have passed on */
	struct roami_vec waiters;  /* struct roam_request with its clock: struct flag_waiter */
};

/* What a node's releases and acquires work with, under `interval_lock`. */
struct roami_release {
	struct roami_spin interval_lock; /* slept on, see roami_interval_enter */
	_Atomic bool deferred;           /* pages wait for roami_release_rest */
	_Atomic uint64_t announced;      /* the cycle at which that began last, for benchmarks */
	_Atomic uint64_t handlers_checked;
	_Atomic uint32_t handlers_warned;
	struct roami_vec dirty_work; /* struct roam_dirty of the release under way */
	struct roami_vec apply_work; /* struct roam_notice of the acquire under way */
	struct roami_vec page_work;  /* uint32_t */
	struct roami_vec note_work;  /* struct roam_notice: own notices of the open interval */
	/* The next release closes an interval even if nothing was written. */
	_Atomic uint32_t interval_due;
};

static inline struct roami_release *release_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_RELEASE].state;
}

/* Whether some thread is between roami_interval_enter and roami_interval_leave; for contracts. */
static inline bool roami_interval_entered(const struct roami_node *node)
{
	return roami_spin_held(&release_of(node)->interval_lock);
}

/* Whether objects have records in shared memory: for all alike, chosen by the node's reach. */
struct roami_record_mode {
	/* See roami_resolve_record. */
	void *(*resolve)(struct roami_node *node, unsigned home,
			 const struct roami_records *records, uint64_t id);
	/* See roami_barrier_shm_ended. */
	void (*ended)(struct roami_node *node);
};

/* The threads of a team on their way to their first lock, see lock_first.c. */
struct roami_firsts {
	_Atomic bool open;        /* threads that have come wait for those that have not */
	_Atomic uint32_t missing; /* that have not come to a lock or barrier yet, nor ended */
	_Atomic uint64_t until;   /* of env->now: the longest; 0: none waits yet */
};

struct roami_sync_state {
	const struct roami_record_mode *record_mode;
	struct roami_records lock_records;    /* in every segment, the locks whose home is there */
	struct roami_records barrier_records; /* in node 0's segment, barriers */
	struct roami_table locks;
	struct roami_thin *thin; /* words of locks; NULL: no lock is thin */
	struct roami_table barriers;
	struct roami_table conds;
	struct roami_table flags;
	bool threads_fixed; /* one a node: none registers, see roami_barrier_fix */
	uint32_t team; /* threads that each node of the job has, fixed; 1: as many as registered */
	uint64_t *team_values; /* ROAM_REDUCE_MAX of each thread of the team, to be combined */
	struct roami_firsts firsts;
	/* Pages with objects: that peers were told of, that peers told of; bits, see objects.c. */
	_Atomic uint32_t *pages_announced;
	_Atomic uint32_t *pages_heard;
	_Atomic uint32_t cond_turn[ROAMI_THREADS_MAX]; /* waits begun */
	_Atomic uint32_t cond_done[ROAMI_THREADS_MAX]; /* waits ended by a signal */
};

static inline struct roami_sync_state *sync_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_SYNC].state;
}

/*
 * A node that has ended and so leaves fewer threads than `expected` ones that a barrier waits for;
 * ROAM_NOBODY: there are enough.  And the end of the job for it.
 */
unsigned roami_barrier_lacks(const struct roami_node *node, unsigned expected);
__attribute__((noreturn)) void roami_barrier_fail(struct roami_node *node, uint64_t id,
						  unsigned gone);

/* A node came to the end: fails if a barrier that is counted here waits for it. */
void roami_barrier_ended(struct roami_node *node);

/* This node comes to the end: tells the nodes that may count barriers to look for it. */
void roami_barrier_tell_end(struct roami_node *node);

struct roami_barrier *roami_barrier_make(struct roami_node *node, uint64_t id);

/* Arrivals at one episode of it disagree on the number of its threads. */
__attribute__((noreturn)) void roami_barrier_differs(struct roami_node *node, uint64_t id,
						     unsigned threads, unsigned others);

/* Waits until the count is another one. */
struct roami_barrier_wait {
	_Atomic uint32_t *count;
	uint32_t was;
};

void roami_barrier_await(struct roami_node *node, struct roami_barrier_wait *wait);

/* This node has ended (ctl->returned): waiting threads check whether enough others are left. */
void roami_barrier_shm_ended(struct roami_node *node);

uint64_t roami_reduce_combine(uint64_t a, uint64_t b, enum roam_type type, enum roam_op op);

/*
 * The size of a lock in a job of so many nodes.  roami_lock_make: a new one's first state, which is
 * zero but for its id.
 */
size_t roami_lock_item_bytes(unsigned nodes);
static inline size_t roami_barrier_item_bytes(unsigned nodes)
{
	return sizeof(struct roami_barrier) + nodes * sizeof(struct roami_barrier_child);
}
void roami_lock_make(struct roami_node *node, void *item);
void roami_lock_fini(void *item);

/* The node has another number of threads: those of a team have not come to their first lock yet. */
void roami_lock_firsts(struct roami_node *node, unsigned threads);

enum roam_err roami_objects_init(struct roami_node *node);
void roami_objects_fini(struct roami_node *node);

/* Handlers' part of roami_objects_forget, of an object that there is at this node. */
void roami_lock_forget(struct roami_node *node, void *item);
void roami_barrier_forget(struct roami_node *node, void *item);
void roami_cond_forget(struct roami_node *node, void *item);
void roami_flag_forget(struct roami_node *node, void *item);

#endif
