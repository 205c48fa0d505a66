/*
 * The life of a job as one of its processes sees it: alone, sealed with others, alone again (rule
 * 2).  How the process was started, and which nodes execute main, are one constant each (start.h,
 * main.h).
 *
 * 	alone     one node, the heap plainly mapped, no faults
 * 	joined    several nodes of a launcher, faults and protocol at work; until the first
 * 	          synchronisation all nodes must allocate alike
 * 	together  several nodes, sealed
 *
 * The room keeps rules 1.10 (ROAM_SHARED, in shared.c), 2.1 (the seal), 2.2 (the end), 2.4 (equal
 * blocks on all nodes until the seal), 2.5 (threads of teams, in team.c), 8.4 (one heap, in
 * memory.c), 8.16 (the page server, in stored.c), 10.1 (deaths, in watch.c) and 10.5 (memory read
 * by loads once nodes may have stopped serving).
 */
#ifndef ROAMI_JOB_H
#define ROAMI_JOB_H

#include <pthread.h>

#include "base/node.h"
#include "heap/alloc.h"
#include "home/placement.h"
#include "job/guard.h"
#include "job/hang.h"
#include "job/local.h"
#include "job/main.h"
#include "job/shared.h"
#include "job/start.h"
#include "job/statics.h"
#include "job/stored.h"
#include "job/team.h"
#include "run/wait.h"

enum roami_job_life {
	ROAMI_JOB_NEW,
	ROAMI_JOB_ALONE,
	ROAMI_JOB_JOINED,
	ROAMI_JOB_TOGETHER,
	ROAMI_JOB_OVER
};

struct roami_job {
	enum roami_job_life life;
	pthread_mutex_t seal; /* one thread seals the job; other threads of the node wait */
	struct roami_options options;
	struct roami_layout layout;
	struct roami_real real;
	const struct roami_fault_engine *engine; /* of sealed jobs */
	struct roami_node *node;
	/* This node's allocator in each region; a region's is opened when it is first used. */
	struct roami_alloc **allocs;
	pthread_mutex_t opening; /* one of them */
	pthread_mutex_t ends; /* held by the thread that ends the round, or its node; recursive */
	bool leases;             /* allocators hand out leased parts only */
	uint8_t *app;
	void *bases[ROAMI_NODES_MAX]; /* segments; NULL: not mapped */
	int fds[ROAMI_NODES_MAX];
	struct roami_far *far[ROAMI_NODES_MAX]; /* copies of nodes on other hosts, instead */
	const struct roami_start *start; /* how this process was started */
	void *start_state;               /* the state of this way to start */
	unsigned start_threads; /* helpers that outlive a round: libraries', the agent's listener */
	struct roami_boot boot;
	uint8_t name[16]; /* of a launcher's job: that of all of its nodes, and no other job */
	/*
	 * What the process was lent: segments of this host's nodes, and eventfds that wake them; 0:
	 * none.
	 */
	int lent[ROAMI_NODES_MAX], bells[ROAMI_NODES_MAX];
	const char *host_names[ROAMI_NODES_MAX]; /* for messages; NULL: names are not needed */
	const uint8_t *key; /* the job's; NULL: it is in node 0's control page */
	const struct roami_main *_Atomic main; /* NULL: not started */
	char why[160];   /* why a transport does not open; "": it has not said why */
	uint64_t saved_us;  /* when the last checkpoint was written, or the first point reached */
	uint64_t saved_number; /* of this job's last checkpoint; 0: none */
	unsigned resume_round; /* ROAM_RESUME is loaded when so many rounds have ended */
	bool resumed;       /* the checkpoint of ROAM_RESUME is loaded */
	bool save_failed;   /* said so */
	unsigned rounds; /* ended by roam_wait_for_end */
	uint64_t alloc_hash; /* a hash of the allocations up to CREATE */
	int outputs[2];  /* the real stdout and stderr while silent; -1: closed */
	bool silent;     /* stdout and stderr are other files meanwhile */
	int kept[2];     /* memfds with the output of an undecided node */
	struct roami_vec copies; /* struct roami_rerun_copy: variables of roam_distribute */
	pid_t pids[ROAMI_NODES_MAX]; /* of forked nodes, in node 0 */
	unsigned made;               /* segments made */
	unsigned created; /* processes created and not sealed, with node 0; 1: none */
	struct roami_team team; /* threads of this node, if it has several */
	bool automatic;         /* ROAM_THREADS=auto */
	unsigned me;
	unsigned nodes;
	bool forking; /* a node */
	bool orphan;  /* a child that the program has forked, which is no node */
	bool exit_hook;
	struct roami_statics statics; /* ROAM_CHECK=statics */
	struct roami_guard guard;     /* ROAM_CHECK=heap */
	struct roami_shared shared;   /* statics in the heap */
	struct roami_stored *stored;  /* what the page server has; NULL: there is none */
	bool threads_fixed; /* by a promise of the program, see roam_threads_fixed */
	bool found; /* a check of ROAM_CHECK has found something; true on node 0 only */
	pid_t pid; /* of the node's process */
	enum roam_err failed; /* why the job could not start */
	enum roam_model needs; /* what the program needs, as it said; ROAM_MODEL_TX: nothing yet */
	bool reported;
	struct roami_hang hang;
	_Atomic uint32_t last; /* a thread waits for the last one of the program's, see last.c */
	sigset_t last_mask;    /* the first thread's */
	sigset_t exit_mask;    /* that of a handler which has called exit */
	struct roami_watch *watch;
	bool parting; /* nodes have ended; what they left behind goes later */
	struct roami_raw *raw;   /* while pages return from other hosts, see collect.c */
	struct roami_vec single; /* ranges of the app view that are not our segment, see single.c */
	struct roami_vec notes; /* struct roami_note, see notes.c */
	const struct roami_room *const *extensions; /* of its nodes */
	struct roami_vec held;   /* uint64_t offsets of memory freed until the seal; blocks.c */
	_Atomic uint64_t high;   /* the heap offset up to which this node has handed out memory */
	_Atomic uint64_t filled; /* bytes of blocks that got their memory at once, see fill.c */
	_Atomic bool fills_not;  /* the kernel has refused huge pages */
};

/*
 * Joins or begins the job, in the first of the ways `starts` that this process was started in.
 * Reports errors on stderr.
 */
enum roam_err roami_job_start(struct roami_job *job, enum roami_kind kind,
			      const struct roami_start *const *starts);

/* The job whose threads have these surroundings. */
static inline struct roami_job *roami_job_of(void *real)
{
	return (void *)((uint8_t *)real - offsetof(struct roami_job, real));
}

static inline bool roami_job_undecided(const struct roami_job *job)
{
	return job->main == &roami_main_undecided;
}

/*
 * Decides an undecided program: it has made a call that shows that all nodes run main.  Errors end
 * the process.
 */
void roami_job_decide(struct roami_job *job);

/* What roam_create and roam_create_all do. */
enum roam_err roami_job_create(struct roami_job *job, void (*fn)(void));
enum roam_err roami_job_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes);

/* Notes the program's promise that its nodes keep the threads they begin with. */
enum roam_err roami_job_fix_threads(struct roami_job *job);
/* Whether a thread may be registered; if not, says why. */
enum roam_err roami_job_registers(const struct roami_job *job);

/* Called before anything that synchronises: seals the job if nodes were created or joined. */
enum roam_err roami_job_seal(struct roami_job *job);

/* Node 0: waits for the others, takes the heap back, is alone again. */
enum roam_err roami_job_wait_for_end(struct roami_job *job);

/* Leaves the job: a barrier of all; then roam has nothing left in this process. */
void roami_job_finish(struct roami_job *job);

/* Reports the job's counters as ROAM_STATS asks. */
void roami_job_report(struct roami_job *job);
/* Node 0, when all counters are final: prints how ROAM_CHECK's checks ended. */
void roami_job_verdict(struct roami_job *job);

/* Node 0, at log level info: prints how the nodes were started, and what connects them. */
void roami_job_say(const struct roami_job *job);

/* Prints where this node may run. */
void roami_job_report_binding(const struct roami_job *job);

/* Prints the counters of all nodes. */
void roami_job_print(struct roami_job *job, int fd);

/*
 * Notes that the program needs `model`: warns, or under ROAM_STRICT ends the job, if a protocol
 * promises less.
 */
void roami_job_needs(struct roami_job *job, enum roam_model model);

/* ---- says.c: errors, in one line */

/*
 * Whether a process has reported why the job fails; a report that does not begin here stays
 * REPORT_BEGUN for ever.
 */
enum roami_reporting { ROAMI_REPORTED_NOT, ROAMI_REPORT_BEGUN, ROAMI_REPORTED };

/* Leaves a process that tells why the job fails the time to do so, before it is killed. */
void roami_job_await_reported(struct roami_job *job);

/* Ends the job with a line that says why a node cannot go on. */
void roami_job_failed(struct roami_node *node, const char *text);

/*
 * Prints that `what` failed, by `err` or errno; returns err.  Prints once: what one node lacks the
 * others lack too.
 */
enum roam_err roami_job_says(struct roami_job *job, enum roam_err err, const char *what);

/*
 * Prints a line, given without an end, or passes it to the launcher if that wants it; every node
 * has the same line, and one prints it.
 */
void roami_job_says_line(struct roami_job *job, const char *line);

/* Prints that nodes cannot be created, because there are others.  ROAM_ESTATE. */
enum roam_err roami_job_says_sealed(void);

/*
 * Prints that nodes cannot be created: main goes on everywhere, or `asked`, if it is not 0, are too
 * many or too few.  Every node comes here.  ROAM_ESTATE.
 */
enum roam_err roami_job_says_spmd(struct roami_job *job, unsigned asked);

/*
 * The program asks for `asked` nodes, of `threads` threads (0: not known), the launcher started
 * others: to `line`.
 */
void roami_job_says_asked(unsigned asked, unsigned threads, unsigned started, char *line,
			  size_t bytes);

/* ---- choose.c */

/*
 * Chooses a transport for each node, in `by`, which has room for all, and finds whose memory loads
 * and stores reach.  False: no transport reaches some node, which is reported.
 */
bool roami_job_transports(struct roami_job *job, struct roami_node_params *params,
			  const struct roam_transport **by);

/* ---- watch.c */

/*
 * Watches other processes of the job from a thread of this one: when one of them ends and should
 * not, prints that in one line, ends the others and this process.  pids[i] is node i's, 0: not
 * watched.
 */
enum roam_err roami_watch_start(struct roami_job *job, const pid_t *pids);

/*
 * Watches node `first`, process `pid`, which watches the others: if it ends before the job's end,
 * prints that and ends this process.
 */
enum roam_err roami_watch_first(struct roami_job *job, unsigned first, pid_t pid);

/* roami_watch_first for a node that `creator` forked. */
enum roam_err roami_watch_creator(struct roami_job *job, pid_t creator);

/* Lets the watched processes end, with status 0, from now on. */
void roami_watch_expect_end(struct roami_watch *watch);

/* Waits for the watched processes to end, when the job ends in order. */
void roami_watch_end(struct roami_watch *watch);

/* ---- memory.c: the nodes' segments, and where they are mapped */

/* A node's control page, or the copy of it. */
struct roami_ctl *roami_job_ctl(const struct roami_job *job, unsigned node);

/* Nodes on this host. */
unsigned roami_job_here(const struct roami_job *job);

enum roam_err roami_job_map_app(struct roami_job *job);

/*
 * Maps the app view when all segments are mapped: under a protocol whose nodes have one heap it
 * becomes node 0's.  What this process stored there before is gone.  Reports errors.
 */
enum roam_err roami_job_share_heap(struct roami_job *job, unsigned nodes);

enum roam_err roami_job_make_segments(struct roami_job *job, unsigned nodes); /* at most `nodes` */
enum roam_err roami_job_map_segment(struct roami_job *job, unsigned node);

/*
 * Makes the segment of a process that is alone, in the place of node 0: the lent one, if it is node
 * 0.
 */
enum roam_err roami_job_map_first(struct roami_job *job);

/* Maps the segments that were lent and are not mapped yet. */
enum roam_err roami_job_map_lent(struct roami_job *job);

/*
 * Takes this process's own place in the job: maps the segment that it was lent, or one that it
 * makes.
 */
enum roam_err roami_job_take_place(struct roami_job *job);

/* Makes this process's copies of nodes whose segments are not mapped. */
enum roam_err roami_job_make_far(struct roami_job *job);

/* ---- job.c: parts of a job's life */

/* Begins a process that is alone: its first segment, the app view, an allocator, a node. */
enum roam_err roami_job_start_alone(struct roami_job *job);

/* Waits until all others have come to `state`. */
void roami_job_await(struct roami_job *job, enum roami_joined state);

/* Gives back what nodes that ended have left behind. */
void roami_job_part(struct roami_job *job);

/*
 * Shows how this process, which is about to become a node, was started.  `asked`: the number of
 * nodes that the program wants; 0: any.
 */
enum roam_err roami_job_come(struct roami_job *job, unsigned asked);

/*
 * Makes this process, which has come, node `me` of `nodes`; all segments that there are are mapped.
 */
enum roam_err roami_job_join(struct roami_job *job, unsigned nodes, unsigned asked);

/*
 * Marks the pages in which this node, the creator, has bytes; all others are zero and need no copy.
 */
void roami_job_mark_bytes(struct roami_job *job);

/* Serves until node 0 has taken what it needs. */
void roami_job_serve(struct roami_job *job);

/* ---- rerun.c: programs that create their nodes, started by a launcher */

/* Makes the process take its own place: all nodes of the undecided program run main. */
enum roam_err roami_rerun_spmd(struct roami_job *job);

/* Ends the silence; prints the kept output if `said`. */
void roami_rerun_speak(struct roami_job *job, bool said);

/* Ends a node above 0 that has run the function: serves, then exits. */
__attribute__((noreturn)) void roami_rerun_end(struct roami_job *job);

/* Notes a variable that node 0 gives to all nodes at the seal. */
enum roam_err roami_rerun_distribute(struct roami_job *job, void *variable, size_t bytes);

/* At the seal: copies the noted variables into the heap, or out of it. */
void roami_rerun_copy(struct roami_job *job, bool to_heap);

/* Node 0, at the seal of a launched job: frees the memory that was held. */
void roami_job_give_held(struct roami_job *job);

/*
 * The calling thread, in no call, is about to end its node: calls the functions of transactions
 * that it is still owed (roami_tx_due).
 */
void roami_job_due(struct roami_job *job);

/* All other nodes have said what they have freed: the page server gets to know all of it. */
void roami_job_settle(struct roami_job *job);

/* Gives a new block its memory at once, if it is large, where all nodes have one heap. */
void roami_job_fill(struct roami_job *job, uint64_t offset, uint64_t bytes);

/* ---- alone: pages of the app view that are not in our segment */

/* Makes untouched blocks of a job of one node anonymous memory. */
void roami_single_begin(struct roami_job *job);

/*
 * Maps the same heap bytes of segment `fd`, or anonymous memory with -1, over [first, end) of the
 * app view; under anonymous memory our segment must have a hole.  False: nothing is mapped.
 */
bool roami_single_take(struct roami_job *job, uint64_t first, uint64_t end, int fd);

/* How many such ranges there are, and where one is. */
size_t roami_single_count(const struct roami_job *job);
void roami_single_range(const struct roami_job *job, size_t i, uint64_t *first_p, uint64_t *end_p);

/* Copies all such bytes into the segment, which becomes the app view again. */
enum roam_err roami_single_end(struct roami_job *job);

/* ---- the end of forked nodes: node 0 takes their pages; they drop their copies and exit. */
void roami_collect_take(struct roami_job *job);
void roami_collect_gather(struct roami_job *job); /* for protocols that bring pages one by one */
void roami_collect_leave(struct roami_job *job);

/* ---- memory */

/*
 * Opens the allocator of the job's own region, over the whole region; closes those of all regions.
 */
enum roam_err roami_job_open_alloc(struct roami_job *job);
void roami_job_close_allocs(struct roami_job *job);

/* Ends the bump phase of all allocators; returns a hash of what they have handed out. */
void roami_job_seal_allocs(struct roami_job *job);
uint64_t roami_job_hash_allocs(struct roami_job *job);

/*
 * Gives this node's allocators parts of the heap from the pools when the job is sealed.  Node 0's
 * allocators keep what they handed out before.
 */
enum roam_err roami_job_lease(struct roami_job *job);
/* The same for a process that is alone, and has handed out nothing yet. */
enum roam_err roami_job_lease_first(struct roami_job *job);

/* A region's parts: node 0's, or this node's own where node 0's memory is not mapped. */
struct roami_heap_parts *roami_job_pool(const struct roami_job *job, unsigned number);

/* Finds the region for a protocol; reports errors on stderr. */
enum roam_err roami_job_region(struct roami_job *job, const char *protocol, unsigned *region_p);

/*
 * Reads the text of roam_region.option into the `option` of struct roami_placement; reports errors
 * on stderr.
 */
enum roam_err roami_job_option(const struct roami_job *job, unsigned region, const char *text,
			       uint64_t *option_p);

/* Allocates a block as `region` says, whose protocol is in this build. */
void *roami_job_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
		      enum roam_err *err_p);
enum roam_err roami_job_free(struct roami_job *job, void *block);
/*
 * Takes over where blocks of other hosts' nodes lie, while these serve; then, when all other nodes
 * have ended, decides what happens to their leases.
 */
void roami_job_fetch_marks(struct roami_job *job);
void roami_job_collect_parts(struct roami_job *job);
enum roam_err roami_job_place(struct roami_job *job, const struct roami_placement *place);

/* Does what was noted while alone, in the mapped segments, now that the nodes are known. */
void roami_job_collect_blocks(struct roami_job *job);

/* ---- left.c: parts of the heap with blocks of nodes that have ended */

/*
 * Whether a part of node 0's, which has all marks, has free pages that a node can lease; _pages: by
 * the marks of a segment, where no block that begins before the part reaches into it.
 */
bool roami_left_pages_spare(const struct roami_segment *self, uint64_t first, uint32_t pages);
bool roami_left_spare(struct roami_job *job, uint64_t offset, uint64_t bytes);

/* Leases a spare part of a region, which begins at `base`, for this node's allocator. */
bool roami_left_adopt(struct roami_job *job, struct roami_alloc *alloc,
		      struct roami_heap_parts *pool, uint64_t base);

/* Before a block of a part that is nobody's is freed.  False: by now it is a node's. */
bool roami_left_disturb(struct roami_job *job, struct roami_heap_parts *pool, uint32_t part);

/* Such a part without blocks becomes free, unless another thread made it so before. */
void roami_left_put(struct roami_job *job, struct roami_heap_parts *pool, uint32_t part,
		    uint64_t interval);

/* The end of such a block. */
uint64_t roami_left_end(const struct roami_job *job, uint64_t offset);

/* ---- notes.c: placements that are made before the nodes are known */

struct roami_note {
	struct roami_placement place;
	bool block; /* of a new block; else of pages of one that is there */
};

/* Notes a placement for the nodes of this CREATE and later ones. */
enum roam_err roami_notes_add(struct roami_job *job, const struct roami_placement *place,
			      bool block);

#endif
