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

#define ROAMI_HOST_BYTES    64         /* of a host's name, its end included */
#define ROAMI_ASKED_UNKNOWN UINT32_MAX /* node 0 knows it */

struct roami_job;

/* What a process knows of the job that it was started for; an agent sends it as a frame. */
struct roami_boot {
	uint8_t key[ROAMI_KEY_BYTES]; /* of the job; secret */
	uint32_t me;
	uint32_t nodes;                 /* 0: the program forks them, if it wants any */
	uint32_t address;               /* IPv4 of this host, host byte order */
	uint32_t hosts;                 /* of the job */
	uint32_t aes;                   /* all of them have AES in their CPUs */
	uint16_t host[ROAMI_NODES_MAX]; /* of each node */
	char names[ROAMI_NODES_MAX][ROAMI_HOST_BYTES]; /* of that host; cut off if it is longer */
};

/*
 * Calls come from the thread that starts, joins or ends the job, unless stated otherwise, in the
 * order of the table.  NULL: there is nothing to do.
 */
struct roami_start {
	/* "4 nodes on 1 host, by NAME"; NULL: `begin` prints that line. */
	const char *name;
	/* The launcher reports how a node ended, unless its status is ROAMI_EXIT_TOLD. */
	bool reports;
	/* The launcher's process is the parent of ours; at a failure it ends them one by one. */
	bool parent;
	/* Node 0 alone has the launcher's standard input. */
	bool input_first;

	/*
	 * Whether this process was started so.  Then fills in job->boot, and what the process has
	 * been lent; may wait for the other processes.  `creates`: all execute main up to CREATE.
	 * Errors are printed; *err_p.
	 */
	bool (*begin)(struct roami_job *job, bool creates, enum roam_err *err_p);
	/*
	 * The process has its place and its segment, and no node yet: it shows the others, or the
	 * launcher, what it runs.  `asked`: the number of nodes that the program wants, 0: any.
	 */
	enum roam_err (*join)(struct roami_job *job, unsigned asked);
	/*
	 * Waits until all have joined, and ends the job unless they came alike.  NULL: `join` or
	 * `connect` does.
	 */
	void (*compare)(struct roami_job *job);
	/* The node is open: exchanges transport addresses with all others, and waits for them. */
	enum roam_err (*connect)(struct roami_job *job, unsigned asked);
	/* Node 0: the job has ended in order, which the others are told.  These wait for that. */
	void (*end)(struct roami_job *job);
	/* The node is closed, or will never be asked anything more. */
	void (*leave)(struct roami_job *job);
	/*
	 * Tells the launcher why the job cannot go on, in a line without an end, and ends the
	 * process.  From any thread.  NULL: the process prints it.
	 */
	void (*fail)(struct roami_job *job, const char *line);
	/*
	 * That line is printed, and this process is about to end: ends what would not end by that.
	 * `lost`: 1 + a node that does not answer, 0: none.  From any thread.
	 */
	void (*abort)(struct roami_job *job, unsigned lost);
};

/* The program's process is alone; CREATE forks the other nodes. */
extern const struct roami_start roami_start_fork;

/* An `end` for jobs on one host: a word in node 0's control page. */
void roami_job_end_here(struct roami_job *job);

#endif
