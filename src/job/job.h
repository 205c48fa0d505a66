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
 * The room keeps rules 1.10 (ROAM_SHARED, in shared.c), 2.1 (the seal), 2.2 (the end), 2.4 (the
 * same blocks on all nodes until the seal), 2.5 (threads of teams, in team.c), 8.4 (one heap, in
 * memory.c), 10.1 (deaths, in watch.c) and 10.5 (what is read by loads once nodes may have stopped
 * serving).
 */
#ifndef ROAMI_JOB_H
#define ROAMI_JOB_H

#include <pthread.h>

#include "base/node.h"
#include "heap/alloc.h"
#include "home/far.h"
#include "job/guard.h"
#include "job/hang.h"
#include "job/local.h"
#include "job/main.h"
#include "job/shared.h"
#include "job/start.h"
#include "job/statics.h"
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
	pthread_mutex_t seal; /* one thread joins the job to the others, those beside it wait */
	struct roami_options options;
	struct roami_layout layout;
	struct roami_real real;
	const struct roami_fault_engine *engine; /* of sealed jobs */
	struct roami_node *node;
	/* This node's allocator in each region; of regions opened when first used. */
	struct roami_alloc **allocs;
	pthread_mutex_t opening; /* one of them */
	pthread_mutex_t ends; /* one thread ends the round, or its node; recursive */
	bool leases;             /* they hand out what they have leased, no more */
	uint8_t *app;
	void *bases[ROAMI_NODES_MAX]; /* segments; NULL: not mapped */
	int fds[ROAMI_NODES_MAX];
	struct roami_far *far[ROAMI_NODES_MAX]; /* instead, of nodes on other hosts */
	const struct roami_start *start; /* how this process was started */
	void *start_state;               /* and what that keeps */
	unsigned start_threads;          /* of this process that are its libraries' */
	struct roami_boot boot;
	/* What it has lent: segments of this host's nodes, and eventfds that wake them; 0: none. */
	int lent[ROAMI_NODES_MAX], bells[ROAMI_NODES_MAX];
	const char *host_names[ROAMI_NODES_MAX]; /* for messages; NULL: they need none */
	const uint8_t *key; /* of the job; NULL: node 0's control page has it */
	const struct roami_main *_Atomic main; /* NULL: not started */
	char why[160];   /* a transport does not open; "": it has not said */
	unsigned rounds; /* ended by roam_wait_for_end */
	uint64_t alloc_hash; /* of the allocations up to CREATE */
	int outputs[2];  /* the real stdout and stderr, meanwhile; -1: it is closed */
	bool silent;     /* they are other files meanwhile: */
	int kept[2];     /* while undecided, what has gone to them */
	struct roami_vec copies; /* struct roami_rerun_copy: of roam_distribute */
	pid_t pids[ROAMI_NODES_MAX]; /* of forked nodes, in node 0 */
	unsigned made;               /* segments made */
	unsigned created; /* processes made and not sealed, node 0 counted; 1: none */
	struct roami_team team; /* threads of this node, where they are several */
	bool automatic;         /* ROAM_THREADS=auto */
	unsigned me;
	unsigned nodes;
	bool forking; /* a node */
	bool exit_hook;
	struct roami_statics statics; /* ROAM_CHECK=statics */
	struct roami_guard guard;     /* ROAM_CHECK=heap */
	struct roami_shared shared;   /* statics in the heap */
	bool threads_fixed; /* the program has promised so, see roam_threads_fixed */
	bool found; /* a check of ROAM_CHECK has found something; this process is node 0 */
	pid_t pid; /* of the node's process */
	enum roam_err failed; /* why it could not start */
	enum roam_model needs; /* what the program said it needs; ROAM_MODEL_TX: nothing yet */
	bool reported;
	struct roami_hang hang;
	struct roami_watch *watch;
	bool parting; /* nodes have ended; what is left of them goes later */
	struct roami_raw *raw;   /* while pages return from other hosts, see collect.c */
	struct roami_vec single; /* ranges of the app view that are not our segment, see single.c */
	struct roami_vec
		blocks; /* struct roami_placement: before the seal the nodes are not known */
	const struct roami_room *const *extensions; /* of its nodes */
	bool blind; /* it is not known where blocks of nodes are that have ended, of other hosts */
	struct roami_vec held;   /* uint64_t offsets of freed memory until the seal, see blocks.c */
	_Atomic uint64_t high;   /* heap bytes up to which this node has handed out */
	_Atomic uint64_t filled; /* bytes of blocks that got their memory at once, see fill.c */
	_Atomic bool fills_not;  /* the kernel has refused */
};

/*
 * Joins or begins the job, in the first of the ways `starts` that this process was started in.
 * Reports errors on stderr.
 */
enum roam_err roami_job_start(struct roami_job *job, enum roami_kind kind,
			      const struct roami_start *const *starts);

static inline bool roami_job_undecided(const struct roami_job *job)
{
	return job->main == &roami_main_undecided;
}

/* An undecided program does what shows that all nodes run main.  Errors end the process. */
void roami_job_decide(struct roami_job *job);

/* What roam_create and roam_create_all do. */
enum roam_err roami_job_create(struct roami_job *job, void (*fn)(void));
enum roam_err roami_job_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes);

/* The program promises that its nodes keep the threads they begin with. */
enum roam_err roami_job_fix_threads(struct roami_job *job);
/* Whether a thread may be registered; if not, it is said. */
enum roam_err roami_job_registers(const struct roami_job *job);

/* Before anything that synchronises: seals the job if nodes were created or joined. */
enum roam_err roami_job_seal(struct roami_job *job);

/* Node 0: waits for the others, takes the heap back, is alone again. */
enum roam_err roami_job_wait_for_end(struct roami_job *job);

/* Leaves: a barrier of all, then nothing of roam is left. */
void roami_job_finish(struct roami_job *job);

/* Reports the job's counters as ROAM_STATS asks. */
void roami_job_report(struct roami_job *job);
/* Node 0, when all counters are final: how ROAM_CHECK's checks ended. */
void roami_job_verdict(struct roami_job *job);

/* Node 0, at log level info: how the nodes were started, what connects them. */
void roami_job_say(const struct roami_job *job);

/* Says where this node may run. */
void roami_job_report_binding(const struct roami_job *job);

/* Prints the counters of all nodes. */
void roami_job_print(struct roami_job *job, int fd);

/* The program needs `model`: warns, or under ROAM_STRICT ends the job, if a protocol has less. */
void roami_job_needs(struct roami_job *job, enum roam_model model);

/* ---- says.c: errors, in one line */

/* A node cannot go on: says why, ends the job. */
void roami_job_failed(struct roami_node *node, const char *text);

/* Says `what` failed, by `err` or errno; err.  Once: what one node lacks the others lack too. */
enum roam_err roami_job_says(struct roami_job *job, enum roam_err err, const char *what);

/* Says a line without an end, to the launcher if that wants it; all nodes know it, one says it. */
void roami_job_says_line(struct roami_job *job, const char *line);

/* Nodes cannot be created, for there are others.  ROAM_ESTATE. */
enum roam_err roami_job_says_sealed(void);

/*
 * Nodes cannot be created, for main goes on everywhere, or `asked`, if it is not 0, are too many or
 * too few: every node comes here.  ROAM_ESTATE.
 */
enum roam_err roami_job_says_spmd(struct roami_job *job, unsigned asked);

/* The program asks for other nodes than the launcher started: to `line`. */
void roami_job_says_asked(const struct roami_job *job, unsigned asked, char *line, size_t bytes);

/* ---- choose.c */

/*
 * Sets by what each node is reached, in `by`, which has room for all, and whose memory by loads and
 * stores.  False: nothing reaches some, which it has said.
 */
bool roami_job_transports(struct roami_job *job, struct roami_node_params *params,
			  const struct roam_transport **by);

/* ---- watch.c */

/*
 * Watches other processes of the job from a thread of this one: when one ends that should not, says
 * so in one line, ends the others and this process.  pids[i] is node i's, 0: not to be watched.
 */
enum roam_err roami_watch_start(struct roami_job *job, const pid_t *pids);

/*
 * The other way round: says so if node `first`, process `pid`, which watches the others, ends
 * before the job's end, and ends this process.
 */
enum roam_err roami_watch_first(struct roami_job *job, unsigned first, pid_t pid);

/* As roami_watch_first, in one of the nodes that `creator` forked. */
enum roam_err roami_watch_creator(struct roami_job *job, pid_t creator);

/* From now on the watched processes may end, with status 0. */
void roami_watch_expect_end(struct roami_watch *watch);

/* The job ends in order: waits for the watched processes to end. */
void roami_watch_end(struct roami_watch *watch);

/* ---- memory.c: whose segments lie where */

/* A node's control page, or the copy of it. */
struct roami_ctl *roami_job_ctl(const struct roami_job *job, unsigned node);

/* Nodes on this host. */
unsigned roami_job_here(const struct roami_job *job);

enum roam_err roami_job_map_app(struct roami_job *job);

/*
 * All segments there are are mapped: under a protocol whose nodes have one heap, the app view
 * becomes node 0's.  What this process has stored before is gone.  Reports errors.
 */
enum roam_err roami_job_share_heap(struct roami_job *job, unsigned nodes);

enum roam_err roami_job_make_segments(struct roami_job *job, unsigned nodes); /* up to so many */
enum roam_err roami_job_map_segment(struct roami_job *job, unsigned node);

/* The segment of a process that is alone, in the place of node 0: the one lent, if it is node 0. */
enum roam_err roami_job_map_first(struct roami_job *job);

/* Maps the segments that were lent and are not mapped yet. */
enum roam_err roami_job_map_lent(struct roami_job *job);

/* The process takes its own place in the job: maps what it was lent, or a segment that it makes. */
enum roam_err roami_job_take_place(struct roami_job *job);

/* Makes what is kept of the others where their segments are not mapped. */
enum roam_err roami_job_make_far(struct roami_job *job);

/* ---- job.c: parts of a job's life */

/* A process that begins alone: its first segment, the app view, an allocator, a node. */
enum roam_err roami_job_start_alone(struct roami_job *job);

/* Waits until all others have come to `state`. */
void roami_job_await(struct roami_job *job, enum roami_joined state);

/* Gives back what nodes that ended have left behind. */
void roami_job_part(struct roami_job *job);

/*
 * The process is about to become a node: shows how it comes.  `asked`: the number of nodes that
 * the program wants; 0: it takes what it gets.
 */
enum roam_err roami_job_come(struct roami_job *job, unsigned asked);

/*
 * All segments there are are mapped: this process, which has come, becomes node `me` of `nodes`.
 */
enum roam_err roami_job_join(struct roami_job *job, unsigned nodes, unsigned asked);

/*
 * Marks the pages that this node, the creator, has bytes in: all others are zero and need no copy.
 */
void roami_job_mark_bytes(struct roami_job *job);

/* Serves until node 0 has taken what it needs. */
void roami_job_serve(struct roami_job *job);

/* ---- rerun.c: programs that create their nodes, started by a launcher */

/* All nodes of the undecided program run main: the process takes its own place. */
enum roam_err roami_rerun_spmd(struct roami_job *job);

/* Ends the silence; what was kept is said now, if it is `said` at all. */
void roami_rerun_speak(struct roami_job *job, bool said);

/* A node above 0 has run the function: serves, and ends. */
__attribute__((noreturn)) void roami_rerun_end(struct roami_job *job);

/* Notes a variable to be copied from node 0 to all at the seal. */
enum roam_err roami_rerun_distribute(struct roami_job *job, void *variable, size_t bytes);

/* At the seal: brings these to the heap, and from there. */
void roami_rerun_copy(struct roami_job *job, bool to_heap);

/* Node 0, at the seal of a launched job: freed memory that was held may be used again. */
void roami_job_give_held(struct roami_job *job);

/* Where all nodes have one heap: a new block gets its memory at once, if it is large. */
void roami_job_fill(struct roami_job *job, uint64_t offset, uint64_t bytes);

/* ---- alone: pages of the app view that are not our segment's */

/* A job of one node: its untouched blocks become anonymous memory. */
void roami_single_begin(struct roami_job *job);

/*
 * Maps the same heap bytes of segment `fd`, or with -1 anonymous memory, over [first, end) of the
 * app view; below anonymous memory our segment must have a hole.  False: nothing is mapped.
 */
bool roami_single_take(struct roami_job *job, uint64_t first, uint64_t end, int fd);

/* Brings all such bytes to the segment, which is the app view again. */
enum roam_err roami_single_end(struct roami_job *job);

/* ---- the end of forked nodes: node 0 takes their pages; they drop their copies and exit. */
void roami_collect_take(struct roami_job *job);
void roami_collect_gather(struct roami_job *job); /* of protocols that say how, page by page */
void roami_collect_leave(struct roami_job *job);

/* ---- memory */

/* Opens the allocator of the job's own region, over all of it; closes those of all. */
enum roam_err roami_job_open_alloc(struct roami_job *job);
void roami_job_close_allocs(struct roami_job *job);

/* Ends the bump phase of all; a hash of what they have handed out. */
void roami_job_seal_allocs(struct roami_job *job);
uint64_t roami_job_hash_allocs(struct roami_job *job);

/*
 * The job is sealed: this node's allocators get parts of the heap from the pools.  Node 0's keep
 * what was handed out before.
 */
enum roam_err roami_job_lease(struct roami_job *job);

/* The region of regions under a protocol; reports errors on stderr. */
enum roam_err roami_job_region(struct roami_job *job, const char *protocol, unsigned *region_p);

/*
 * What roam_region.option says: the `option` of struct roami_placement; reports errors on stderr.
 */
enum roam_err roami_job_option(const struct roami_job *job, unsigned region, const char *text,
			       uint64_t *option_p);

/* A block as `region` says, which names no protocol that is not there. */
void *roami_job_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
		      enum roam_err *err_p);
enum roam_err roami_job_free(struct roami_job *job, void *block);
/* The other nodes have ended: what to do with their leases. */
void roami_job_collect_parts(struct roami_job *job);
enum roam_err roami_job_place(struct roami_job *job, const struct roami_placement *place);

/* The nodes are known now: does what was noted while alone, in the segments that are mapped. */
void roami_job_collect_blocks(struct roami_job *job);

#endif
