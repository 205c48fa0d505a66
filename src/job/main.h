/*
 * Which nodes execute main, and how far: one constant for each way.  The call that a program begins
 * with, and whether a launcher has started its nodes, choose it.
 */
#ifndef ROAMI_MAIN_H
#define ROAMI_MAIN_H

#include "roam/roam.h"

struct roami_job;

/* Where the nodes of a program come from, as the call says that it begins with. */
enum roami_kind {
	ROAMI_KIND_SPMD,    /* the launcher: main goes on everywhere */
	ROAMI_KIND_CREATES, /* the program creates them */
	ROAMI_KIND_UNKNOWN  /* as if it created them, until it turns out that it does not */
};

/* `seal` may be called by several threads at once, all else by one. */
struct roami_main {
	/* The process knows how it was started: makes its first memory and node. */
	enum roam_err (*start)(struct roami_job *job);
	/* roam_create and roam_create_all. */
	enum roam_err (*create)(struct roami_job *job, void (*fn)(void));
	enum roam_err (*create_all)(struct roami_job *job, void (*fn)(void), unsigned nodes);
	/* Before anything that synchronises. */
	enum roam_err (*seal)(struct roami_job *job);
	/* Sealed, and the program waits for the end, or ends; NULL: there is nothing to check. */
	void (*check)(struct roami_job *job);
	/* WAIT_FOR_END at node 0, while the other nodes still serve; NULL: nothing to do. */
	void (*served)(struct roami_job *job);
	/*
	 * Behind it, when they have been told of the end; node 0 is alone from then on.  NULL:
	 * node 0 never is, its main ends as that of the others does.
	 */
	void (*ended)(struct roami_job *job);
	/* This node above 0 needs nothing of the job any more; NULL: nobody waits for that. */
	void (*left)(struct roami_job *job);
};

/* Main is executed on node 0 alone, and CREATE forks the others from it: fork.c. */
extern const struct roami_main roami_main_forks;

/*
 * Programs of a launcher.  Main is executed on all nodes up to CREATE, goes on on node 0 from
 * there, and ends with the function on the others: rerun.c.
 */
extern const struct roami_main roami_main_repeats;

/* As roami_main_repeats, until CREATE shows that it is, or another call that all run main. */
extern const struct roami_main roami_main_undecided;

/* Main is executed on all nodes to its end, unless roam_create_all takes node 0 apart: spmd.c. */
extern const struct roami_main roami_main_everywhere;

#endif
