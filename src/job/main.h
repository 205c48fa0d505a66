/*
 * Which nodes execute main, and how far: one constant for each way.  The call that a program begins
 * with, and whether a launcher has started its nodes, choose it.
 */
#ifndef ROAMI_MAIN_H
#define ROAMI_MAIN_H

#include "roam/roam.h"

struct roami_job;

/* Where a program's nodes come from, as its first call of roam says. */
enum roami_kind {
	ROAMI_KIND_SPMD,    /* the launcher starts them: main goes on everywhere */
	ROAMI_KIND_CREATES, /* the program creates them */
	ROAMI_KIND_UNKNOWN  /* CREATES, until it turns out to be SPMD */
};

/* Several threads may call `seal` at once; one thread calls all others. */
struct roami_main {
	/* Makes the first memory and node of this process, which knows how it was started. */
	enum roam_err (*start)(struct roami_job *job);
	/* roam_create and roam_create_all. */
	enum roam_err (*create)(struct roami_job *job, void (*fn)(void));
	enum roam_err (*create_all)(struct roami_job *job, void (*fn)(void), unsigned nodes);
	/* Called before anything that synchronises: seals the job. */
	enum roam_err (*seal)(struct roami_job *job);
	/*
	 * The job is sealed, and the program waits for the end, or ends; NULL: there is nothing to
	 * check.
	 */
	void (*check)(struct roami_job *job);
	/*
	 * Called by WAIT_FOR_END on node 0, while the other nodes still serve; NULL: nothing to do.
	 */
	void (*served)(struct roami_job *job);
	/*
	 * Called after `served`, when the other nodes have been told of the end; node 0 is alone
	 * from then on.  NULL: node 0 is never alone again, and its main ends as that of the others
	 * does.
	 */
	void (*ended)(struct roami_job *job);
	/*
	 * This node, not node 0, needs nothing of the job any more; NULL: no other node waits for
	 * that.
	 */
	void (*left)(struct roami_job *job);
};

/* Only node 0 executes main, and CREATE forks the other nodes from it: fork.c. */
extern const struct roami_main roami_main_forks;

/*
 * Programs of a launcher.  All nodes execute main up to CREATE; from there node 0 goes on, and the
 * others run the function and end: rerun.c.
 */
extern const struct roami_main roami_main_repeats;

/*
 * As roami_main_repeats, until CREATE shows that the program creates nodes, or another call shows
 * that all nodes run main.
 */
extern const struct roami_main roami_main_undecided;

/* All nodes execute main to its end, unless roam_create_all takes node 0 apart: spmd.c. */
extern const struct roami_main roami_main_everywhere;

#endif
