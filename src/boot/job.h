/*
 * The life of a job as one of its processes sees it: alone, sealed with others, alone again (RULES
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

#include "boot/local.h"
#include "core/alloc.h"
#include "core/node.h"
#include "core/wait.h"

enum roami_job_life {
	ROAMI_JOB_NEW,
	ROAMI_JOB_ALONE,
	ROAMI_JOB_JOINED,
	ROAMI_JOB_TOGETHER,
	ROAMI_JOB_OVER
};

/* A block placed or marked before the seal, when the nodes were not known yet. */
struct roami_job_block {
	uint32_t page;
	uint32_t pages;
	uint32_t place; /* enum roam_place */
	uint32_t node;
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
	struct roami_alloc *allocs[ROAMI_DOMAINS_MAX];
	pthread_mutex_t opening; /* one of them */
	bool leases;             /* they hand out what they have leased, no more */
	uint8_t *app;
	void *bases[ROAMI_NODES_MAX];
	int fds[ROAMI_NODES_MAX];
	pid_t pids[ROAMI_NODES_MAX]; /* of forked nodes, in node 0 */
	unsigned made;               /* segments made */
	unsigned created;            /* nodes forked and not sealed, node 0 counted; 1: none */
	unsigned me;
	unsigned nodes;
	bool launched; /* by roam run: every node has run main */
	bool exit_hook;
	enum roam_err failed; /* why it could not start */
	enum roam_model needs; /* what the program said it needs; ROAM_MODEL_TX: nothing yet */
	bool reported;
	struct roami_watch *watch;
	struct roami_vec lone;   /* ranges of the app view that are not our segment, see lone.c */
	struct roami_vec blocks; /* struct roami_job_block */
	_Atomic uint64_t high;   /* heap bytes up to which this node has handed out */
};

/* Joins or begins the job as the environment says.  Reports errors on stderr. */
enum roam_err roami_job_start(struct roami_job *job);

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

/* Prints the counters of all nodes. */
void roami_job_print(struct roami_job *job, int fd);

/* The program needs `model`: warns, or under ROAM_STRICT ends the job, if a protocol has less. */
void roami_job_needs(struct roami_job *job, enum roam_model model);

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
typedef void roami_settle_fn(struct roami_job *job, uint32_t first, uint32_t end);

/* Each stretch of a domain's pages in use. */
void roami_settle_each(struct roami_job *job, unsigned domain, roami_settle_fn *each);
void roami_settle_take(struct roami_job *job);
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

/* A block as `region` says, which names no protocol that is not there. */
void *roami_job_alloc(struct roami_job *job, size_t bytes, const struct roam_region *region,
		      enum roam_err *err_p);
enum roam_err roami_job_free(struct roami_job *job, void *block);
enum roam_err roami_job_place(struct roami_job *job, uint32_t page, uint32_t pages,
			      enum roam_place place, unsigned node);

#endif
