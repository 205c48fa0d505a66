/*
 * Nodes of several threads: with ROAM_THREADS=T the processes that CREATE makes are threads, T to a
 * node, and process p is thread p % T of node p / T.  Within a node memory is the hardware's.
 *
 * How many threads a node has is fixed from the seal to WAIT_FOR_END, whatever threads do
 * meanwhile: so a barrier of all is one of all on every node from its first instruction.
 */
#ifndef ROAMI_TEAM_H
#define ROAMI_TEAM_H

#include "base/node.h"
#include "os/os.h"

struct roami_job;
struct roami_teammate;

#define ROAMI_TEAM_AUTO 0u /* of options.threads: not a number yet */

struct roami_team {
	unsigned threads; /* of a node; ROAMI_TEAM_AUTO: the seal chooses */
	struct roami_os_mask mask; /* where the node's threads may run */
	struct roami_vec functions; /* void (*)(void): of processes; the first is main */
	struct roami_teammate *mates; /* the threads but the first; NULL: none run */
	_Atomic uint32_t running;
	bool started; /* once at least */
	bool sealed;  /* the job of one node was, before its last threads were created */
};

/* Another process is created, which will run fn: it is noted.  ROAM_ENOMEM. */
enum roam_err roami_team_note(struct roami_job *job, void (*fn)(void));

/* The options are read, and what the launcher has told is known. */
void roami_team_begin(struct roami_job *job);

/* The threads of a node; with ROAM_THREADS=auto where no launcher is, known from the seal on. */
unsigned roami_team_threads(const struct roami_job *job);

/* How many nodes `processes` make; says so if they do not divide (ROAM_EINVAL). */
enum roam_err roami_team_nodes(struct roami_job *job, unsigned processes, unsigned *nodes_p);

/* The waiting policy of a node of which there are `here` on this host. */
void roami_team_waits(struct roami_job *job, unsigned here);

/* This process, which is a node from now on, runs where it is to run. */
void roami_team_bind(struct roami_job *job);

/* What thread `number` of this node runs; fn: no function was added for its process. */
void (*roami_team_function(const struct roami_job *job, unsigned number, void (*fn)(void)))(void);

/*
 * This node, which is open, has its other threads; `fn`: what those run for which none was added.
 * Reports errors on stderr.
 */
enum roam_err roami_team_start(struct roami_job *job, void (*fn)(void));

/* Waits until they have ended.  The caller is the node's first thread, which makes none. */
void roami_team_join(struct roami_job *job);

/*
 * Calls the function of this process's first thread, then `then`, which does not return; also if
 * the function ends by pthread_exit, as those of threads do.  `then` NULL: returns, and if the
 * function ends so, which would end main, too, the job ends with a line that says it.
 */
void roami_team_call(struct roami_job *job, void (*fn)(void), void (*then)(struct roami_job *job));

/* Says so if a number of threads was asked for, and no process ever created. */
void roami_team_warn(const struct roami_job *job);

/* Whether the node has them: then no other thread of the program is counted. */
bool roami_team_fixed(const struct roami_job *job);

/* The caller's number among its node's threads; 0: the first one, or none of them. */
unsigned roami_team_mate(const struct roami_job *job);

/*
 * Whether the caller may do what ends its node or job: not one of the team's other threads, which
 * would wait for itself.  Else says so.
 */
bool roami_team_ends(const struct roami_job *job, const char *call);

/* The first process of a node, and the node of a process. */
unsigned roami_team_process(const struct roami_job *job, unsigned node);
unsigned roami_team_node(const struct roami_job *job, unsigned process);

#endif
