/*
 * Nodes of several threads: with ROAM_THREADS=T the processes that CREATE makes are threads, T to a
 * node, and process p is thread p % T of node p / T.  The hardware keeps the memory of a node's
 * threads consistent.
 *
 * The number of a node's threads is fixed from the seal to WAIT_FOR_END, whatever threads do
 * meanwhile: so every node knows from its first instruction how many threads a barrier of all has.
 */
#ifndef ROAMI_TEAM_H
#define ROAMI_TEAM_H

#include "base/node.h"
#include "os/os.h"

struct roami_job;
struct roami_teammate;

#define ROAMI_TEAM_AUTO 0u /* in options.threads: no number yet */

struct roami_team {
	unsigned threads; /* per node; ROAMI_TEAM_AUTO: the seal chooses it */
	struct roami_os_mask mask; /* where the node's threads may run */
	struct roami_vec functions; /* void (*)(void): one per process; the first is main */
	struct roami_teammate *mates; /* the node's threads but the first; NULL: none run */
	_Atomic uint32_t running;
	bool started; /* once at least */
	bool sealed;  /* the one node's job was sealed before its last threads were created */
};

/* Notes that another process is created, which will run fn.  ROAM_ENOMEM. */
enum roam_err roami_team_note(struct roami_job *job, void (*fn)(void));

/* Called when the options and what the launcher has told are known. */
void roami_team_begin(struct roami_job *job);

/*
 * The number of a node's threads; under ROAM_THREADS=auto without a launcher, known only from the
 * seal on.
 */
unsigned roami_team_threads(const struct roami_job *job);

/* How many nodes `processes` make; reports on stderr if they cannot be divided (ROAM_EINVAL). */
enum roam_err roami_team_nodes(struct roami_job *job, unsigned processes, unsigned *nodes_p);

/* Chooses how threads wait, on a host with `here` nodes. */
void roami_team_waits(struct roami_job *job, unsigned here);

/* Binds this process, a node from now on, to the processors that it is to use. */
void roami_team_bind(struct roami_job *job);

/* The function of thread `number` of this node; fn if none was noted for its process. */
void (*roami_team_function(const struct roami_job *job, unsigned number, void (*fn)(void)))(void);

/*
 * Starts the other threads of this node, which is open; those for which no function was noted run
 * fn.  Reports errors on stderr.
 */
enum roam_err roami_team_start(struct roami_job *job, void (*fn)(void));

/* Waits until the node's other threads have ended.  Called by its first thread. */
void roami_team_join(struct roami_job *job);

/*
 * Calls the function of this process's first thread, then `then`, which does not return, not even
 * if the function ends by pthread_exit, as functions of threads may.  With `then` NULL: returns
 * when the function does; if the function calls pthread_exit, which would end main too, the job
 * ends with a line that says so.
 */
void roami_team_call(struct roami_job *job, void (*fn)(void), void (*then)(struct roami_job *job));

/* Warns if a number of threads was asked for, and no process was ever created. */
void roami_team_warn(const struct roami_job *job);

/* Whether the node's threads are fixed: then no other thread of the program is counted. */
bool roami_team_fixed(const struct roami_job *job);

/* Whether the caller is none of the node's threads while some of these still run. */
bool roami_team_stranger(const struct roami_job *job);

/* The caller's number among its node's threads; 0 also for a thread that is none of them. */
unsigned roami_team_mate(const struct roami_job *job);

/*
 * Whether the caller may do what ends its node or job.  The team's threads but the first may not,
 * because they would wait for themselves; then says so.
 */
bool roami_team_ends(const struct roami_job *job, const char *call);

/*
 * The calling thread is about to end the node: notes it, for the line that says how the node ended.
 * Does nothing if it is none of the node's threads.  Async-signal-safe.
 */
void roami_team_dying(struct roami_job *job);

/* The first process of a node, and the node of a process. */
unsigned roami_team_process(const struct roami_job *job, unsigned node);
unsigned roami_team_node(const struct roami_job *job, unsigned process);

#endif
