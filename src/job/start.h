/*
 * How the processes of a job come to be: one constant for each way.  A process takes the first one
 * whose `begin` finds that it was started so, and asks nothing else about it afterwards.
 * src/launch has the starts whose processes find each other, and the list; fork.c the last one,
 * where no launcher has started the process.
 */
#ifndef ROAMI_START_H
#define ROAMI_START_H

#include <stdbool.h>
#include <stdint.h>

#include "base/nodeset.h"
#include "base/segment.h"
#include "roam/roam.h"

#define ROAMI_HOST_BYTES    64         /* a host's name, its end included */
#define ROAMI_ASKED_UNKNOWN UINT32_MAX /* node 0 knows the number */

struct roami_job;

/*
 * What a process knows of the job that it was started for; an agent sends this struct as a frame.
 */
struct roami_boot {
	uint8_t key[ROAMI_KEY_BYTES]; /* of the job; secret */
	uint32_t me;
	uint32_t nodes;                 /* 0: the program forks them, if it wants any */
	uint32_t address;               /* IPv4 of this host, host byte order */
	uint32_t hosts;                 /* of the job */
	uint32_t aes;                   /* every host of the job has AES in its CPUs */
	uint16_t host[ROAMI_NODES_MAX]; /* of each node */
	char names[ROAMI_NODES_MAX][ROAMI_HOST_BYTES]; /* of each host; cut off if longer */
};

/*
 * The thread that starts, joins or ends the job makes these calls, unless stated otherwise, in the
 * order of the table.  NULL: there is nothing to do.
 */
struct roami_start {
	/* "4 nodes on 1 host, by NAME"; NULL: `begin` prints that line. */
	const char *name;
	/* The launcher reports how a node ended, unless its status is ROAMI_EXIT_REPORTED. */
	bool reports;
	/* The launcher's process is our parent; after a failure it ends the nodes one by one. */
	bool parent;
	/* Node 0 alone has the launcher's standard input. */
	bool input_first;

	/*
	 * Returns whether this process was started in this way.  If so, fills in job->boot and what
	 * the process has been lent; may wait for the other processes.  `creates`: all processes
	 * execute main up to CREATE.  Prints errors; *err_p is the error.
	 */
	bool (*begin)(struct roami_job *job, bool creates, enum roam_err *err_p);
	/*
	 * Shows the others, or the launcher, what this process runs; it has its place and its
	 * segment, but no node yet.  `asked`: the number of nodes that the program wants, 0: any.
	 */
	enum roam_err (*join)(struct roami_job *job, unsigned asked);
	/*
	 * Waits until all processes have joined; ends the job unless they run the same program.
	 * NULL: `join` or `connect` does this.
	 */
	void (*compare)(struct roami_job *job);
	/* Exchanges transport addresses with all others, and waits for them; the node is open. */
	enum roam_err (*connect)(struct roami_job *job, unsigned asked);
	/* Node 0: tells the others that the job has ended in order.  The others: wait for that. */
	void (*end)(struct roami_job *job);
	/* Called when the node is closed, or will never be asked anything more. */
	void (*leave)(struct roami_job *job);
	/*
	 * Tells the launcher why the job cannot go on, in a line without an end, and ends the
	 * process.  From any thread.  NULL: the process prints it.
	 */
	void (*fail)(struct roami_job *job, const char *line);
	/*
	 * Tells the launcher, which reports the node's end, that this thread is about to end it
	 * (see roami_boot_dying).  Async-signal-safe.  NULL: it is in the control page.
	 */
	void (*dying)(struct roami_job *job, uint32_t thread);
	/*
	 * Ends what does not end by itself when this process ends; the line that says why is
	 * printed.  `lost`: 1 + a node that does not answer, 0: none.  From any thread.
	 */
	void (*abort)(struct roami_job *job, unsigned lost);
};

/* The program's process is alone; CREATE forks the other nodes. */
extern const struct roami_start roami_start_fork;

/* An `end` for jobs on one host: a word in node 0's control page. */
void roami_job_end_here(struct roami_job *job);

#endif
