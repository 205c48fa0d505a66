/*
 * The life of a job as one of its processes sees it: alone, sealed with others, alone again (rule
 * 2).
 *
 * 	alone    one node, the heap plainly mapped, no faults.  roam_create forks nodes that wait
 * for the seal. joined   started by roam run: faults and protocol at work, but until its first
 * synchronisation every node allocates the same blocks in the same order. together several nodes,
 * sealed.
 */
#ifndef ROAMI_JOB_H
#define ROAMI_JOB_H

#include <pthread.h>

#include "base/node.h"
#include "heap/alloc.h"
#include "home/far.h"
#include "job/hang.h"
#include "job/local.h"
#include "job/statics.h"
#include "launch/bind.h"
#include "launch/control.h"
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
	/* This node's allocator in each domain; of regions opened when first used. */
	struct roami_alloc **allocs;
	pthread_mutex_t opening; /* one of them */
	bool leases;             /* they hand out what they have leased, no more */
	uint8_t *app;
	void *bases[ROAMI_NODES_MAX]; /* segments; NULL: not mapped */
	int fds[ROAMI_NODES_MAX];
	struct roami_far *far[ROAMI_NODES_MAX]; /* instead, of nodes on other hosts */
	int control;                            /* to the agent that started us; 0: none did */
	/* What it lent: the segments of this host's nodes, and eventfds that wake them. */
	int lent[ROAMI_NODES_MAX], bells[ROAMI_NODES_MAX];
	unsigned lent_count; /* 0: none */
	struct roami_bound bound; /* to a job of another launcher */
	struct roami_meet *meet;  /* and what its nodes have said */
	struct roami_boot boot;   /* what either said; no nodes: nobody did */
	const char *host_names[ROAMI_NODES_MAX]; /* in it */
	bool here;       /* roam run has started all its nodes on this host */
	bool reruns;     /* main is executed on every node up to CREATE, see rerun.c */
	_Atomic bool undecided; /* or so it seems: it may turn out that main goes on everywhere */
	char why[160];   /* a transport does not open; "": it has not said */
	unsigned rounds; /* ended by roam_wait_for_end */
	uint64_t alloc_hash; /* of the allocations up to CREATE */
	int quiet[2];    /* the real stdout and stderr, meanwhile; -1: it is closed */
	bool silent;     /* they are other files meanwhile: */
	int kept[2];     /* while undecided, what has gone to them */
	struct roami_vec copies; /* struct roami_rerun_copy: of roam_distribute */
	pid_t pids[ROAMI_NODES_MAX]; /* of forked nodes, in node 0 */
	unsigned made;               /* segments made */
	unsigned created;            /* nodes forked and not sealed, node 0 counted; 1: none */
	unsigned me;
	unsigned nodes;
	bool forking;  /* a node */
	bool launched; /* by roam run: every node has run main */
	bool exit_hook;
	struct roami_statics statics; /* ROAM_CHECK=statics */
	bool found; /* a check of ROAM_CHECK has found something; this process is node 0 */
	pid_t pid; /* of the node's process */
	enum roam_err failed; /* why it could not start */
	enum roam_model needs; /* what the program said it needs; ROAM_MODEL_TX: nothing yet */
	bool reported;
	struct roami_hang hang;
	struct roami_watch *watch;
	bool parting; /* nodes have ended; what is left of them goes later */
	struct roami_raw *raw;   /* while pages return from other hosts, see collect.c */
	struct roami_vec lone;   /* ranges of the app view that are not our segment, see single.c */
	struct roami_vec blocks; /* struct roami_place: before the seal the nodes are not known */
	const struct roami_room *const *extensions; /* of its nodes */
	_Atomic uint64_t high;   /* heap bytes up to which this node has handed out */
};

/* Where the nodes of a program come from: what a launched one does with its main follows. */
enum roami_kind {
	ROAMI_KIND_SPMD,    /* the launcher: main goes on everywhere */
	ROAMI_KIND_CREATES, /* the program creates them: main is executed on each up to there */
	ROAMI_KIND_UNKNOWN  /* as if it created them, until it turns out that it does not */
};

/* Joins or begins the job as the environment says.  Reports errors on stderr. */
enum roam_err roami_job_start(struct roami_job *job, enum roami_kind kind);

/* What an undecided program does shows that it creates no nodes: settles it or ends the process. */
void roami_job_decide(struct roami_job *job);

/*
 * Forks one node, or `nodes` - 1 of them and seals; the functions of roam_create and
 * roam_create_all.
 */
enum roam_err roami_job_create(struct roami_job *job, void (*fn)(void));
enum roam_err roami_job_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes);

/* Seals if nodes were created or joined: called before anything that synchronises. */
enum roam_err roami_job_seal(struct roami_job *job);

/* Node 0: waits for the others, takes the heap back, is alone again. */
enum roam_err roami_job_wait_for_end(struct roami_job *job);

/* Leaves: a barrier of all, then nothing of roam is left. */
void roami_job_finish(struct roami_job *job);

/* Reports the job's counters as ROAM_STATS asks. */
void roami_job_report(struct roami_job *job);
/* Node 0, when all counters are final: how ROAM_CHECK's checks ended. */
void roami_job_verdict(struct roami_job *job);

/* Node 0, at log level info: who started the nodes, what connects them. */
void roami_job_say(const struct roami_job *job);

/* Says where this node may run. */
void roami_job_report_binding(const struct roami_job *job);

/* Prints the counters of all nodes. */
void roami_job_print(struct roami_job *job, int fd);

/* The program needs `model`: warns, or under ROAM_STRICT ends the job, if a protocol has less. */
void roami_job_needs(struct roami_job *job, enum roam_model model);

/* A node's control page, or the copy of it. */
struct roami_ctl *roami_job_ctl(const struct roami_job *job, unsigned node);

/* ---- says.c: errors, in one line */

/* A node cannot go on: says why, ends the job. */
void roami_job_failed(struct roami_node *node, const char *text);

/* Says `what` failed, by `err` or errno; err.  Once: what one node lacks the others lack too. */
enum roam_err roami_job_says(struct roami_job *job, enum roam_err err, const char *what);

/* ---- choose.c */

/*
 * Sets by what each node is reached, in `by`, which has room for all, and whose memory by loads and
 * stores.  False: nothing reaches some, which it has said.
 */
bool roami_job_transports(struct roami_job *job, struct roami_node_params *params,
			  const struct roam_transport **by);

/* ---- says.c, for programs that create their nodes */

/*
 * Nodes cannot be created, for main goes on everywhere, or `asked`, if it is not 0, are too many or
 * too few: every node comes here.
 */
void roami_job_says_spmd(struct roami_job *job, unsigned asked);

/* ---- launch/agent_node.c: a job across hosts */

/* This program and these options, for the launcher to compare. */
void roami_build_card(const struct roami_options *options, struct roami_boot_card *card);

/*
 * Takes what the agent says first: who we are; and what it lent, from descriptor `lent` on, 0:
 * nothing.  Reports errors.
 */
enum roam_err roami_far_begin(struct roami_job *job, int lent);

/*
 * The node is open: exchanges addresses with all others; waits for them.  `asked`: the program
 * wants so many nodes, 0: any number.
 */
enum roam_err roami_far_join(struct roami_job *job, unsigned asked);

/* Whether a segment is laid out as this process would do it. */
bool roami_far_fits(const struct roami_job *job, int fd);

/* Nodes on this host. */
unsigned roami_far_here(const struct roami_job *job);

/* The process takes its place in the job: ROAM_BOOT=far:FD, or far:FD:LENT. */
enum roam_err roami_far_place(struct roami_job *job);

/* Maps the segments of this host's nodes that the agent lent; the caller's own is `me`'s. */
enum roam_err roami_far_map(struct roami_job *job);

/* Node 0: the job has ended in order. */
void roami_far_end(struct roami_job *job);

/* Tells why this node cannot go on. */
void roami_far_fail(struct roami_job *job, const char *text);

/* What is to be kept of the others, where their segments are not mapped. */
enum roam_err roami_far_make(struct roami_job *job);

/* ---- launch/local_node.c: a job of roam run on one host; errors are told, and end the process */

/* ROAM_BOOT=local:RANK:SIZE:FD: FD and what follows are open, segments and the lifeline. */
enum roam_err roami_here_begin(struct roami_job *job);

/*
 * The node is about to open: shows how it comes.  If main has been executed again, waits until all
 * have come, and compares.
 */
void roami_here_join(struct roami_job *job, unsigned asked);

/* All have come: ends the job unless they come alike. */
void roami_here_compare(struct roami_job *job);

/*
 * ---- launch/wireup.c: a job of mpirun, srun or mpiexec.hydra; errors are told, and may end the
 * process
 */

/* Who we are, and who is there.  `creates`: node 0's standard input is for all, up to CREATE. */
enum roam_err roami_meet_begin(struct roami_job *job, bool creates);

/* Before the node is open: all come alike; those on this host map each other's segments. */
enum roam_err roami_meet_join(struct roami_job *job, unsigned asked);

/* It is open: exchanges addresses. */
enum roam_err roami_meet_open(struct roami_job *job);

/* Whether the nodes of the job lie on several hosts, without a launcher that tells them the end. */
bool roami_meet_apart(const struct roami_job *job);

/* The end of such a job: node 0 and all others wait for each other. */
void roami_meet_end(struct roami_job *job);

/* This node is done. */
void roami_meet_leave(struct roami_job *job);

/* ---- parts of a job's life */
enum roam_err roami_job_map_app(struct roami_job *job);
enum roam_err roami_job_make_segments(struct roami_job *job, unsigned nodes); /* up to so many */
enum roam_err roami_job_map_segment(struct roami_job *job, unsigned node);

/*
 * All segments there are are mapped: this process becomes node `me` of `nodes`.  `asked`: that is
 * what the program wants; 0: it takes what it gets.
 */
enum roam_err roami_job_join(struct roami_job *job, unsigned nodes, unsigned asked);

/*
 * Marks the pages that this node, the creator, has bytes in: all others are zero and need no copy.
 */
void roami_job_mark_bytes(struct roami_job *job);

/* Serves until node 0 has taken what it needs. */
void roami_job_serve(struct roami_job *job);

/* ---- rerun.c: programs that create their nodes, started across hosts */

/* All is as in a process that is alone; nodes above 0 are silenced, while undecided for later. */
enum roam_err roami_rerun_begin(struct roami_job *job);

/* The program that was undecided does not create its nodes: main goes on everywhere. */
enum roam_err roami_rerun_spmd(struct roami_job *job);

/* Ends the silence; what was kept is said now, if it is `said` at all. */
void roami_rerun_speak(struct roami_job *job, bool said);

/*
 * roam_create and roam_create_all, or the first synchronisation after the former, which made
 * `nodes`: nodes above 0 run fn, if it is their turn, serve, and end there.
 */
enum roam_err roami_rerun_create(struct roami_job *job, void (*fn)(void));
enum roam_err roami_rerun_seal(struct roami_job *job, unsigned nodes, void (*fn)(void));

/* A node above 0 has run the function: serves, and ends. */
__attribute__((noreturn)) void roami_rerun_end(struct roami_job *job);

/* The program waits for the end, or ends: without a CREATE it is an error of the job. */
void roami_rerun_check(struct roami_job *job);

/* Notes a variable to be copied from node 0 to all at the seal. */
enum roam_err roami_rerun_distribute(struct roami_job *job, void *variable, size_t bytes);

/* At the seal: brings these to the heap, and from there. */
void roami_rerun_copy(struct roami_job *job, bool to_heap);

/* ---- alone: pages of the app view that are not our segment's */

/* A job of one node: its untouched blocks become anonymous memory. */
void roami_lone_begin(struct roami_job *job);

/*
 * Maps the same heap bytes of segment `fd`, or with -1 anonymous memory, over [first, end) of the
 * app view; below anonymous memory our segment must have a hole.  False: nothing is mapped.
 */
bool roami_lone_take(struct roami_job *job, uint64_t first, uint64_t end, int fd);

/* Brings all such bytes to the segment, which is the app view again. */
enum roam_err roami_lone_end(struct roami_job *job);

/* ---- the end of forked nodes: node 0 takes their pages; they drop their copies and exit. */
void roami_settle_take(struct roami_job *job);
void roami_settle_gather(struct roami_job *job); /* of protocols that say how, page by page */
void roami_settle_leave(struct roami_job *job);

/* ---- memory */

/* Opens the allocator of the job's own domain, over all of it; closes those of all. */
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

/* The domain of regions under a protocol; reports errors on stderr. */
enum roam_err roami_job_domain(struct roami_job *job, const char *protocol, unsigned *domain_p);

/* What roam_region.option says: the `option` of struct roami_place; reports errors on stderr. */
enum roam_err roami_job_option(const struct roami_job *job, unsigned domain, const char *text,
			       uint64_t *option_p);

/* A block as `region` says, which names no protocol that is not there. */
void *roami_job_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
		      enum roam_err *err_p);
enum roam_err roami_job_free(struct roami_job *job, void *block);
enum roam_err roami_job_place(struct roami_job *job, const struct roami_place *place);

/* The nodes are known now: does what was noted while alone, in the segments that are mapped. */
void roami_job_settle_blocks(struct roami_job *job);

#endif
