/* A node as the launcher's or an agent's child. */
#ifndef ROAM_CHILD_H
#define ROAM_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "roam_tag.h"

#define CHILD_NO_INPUT (-2)

struct child {
	pid_t pid;
	bool runs;
	struct tag_stream *out[2]; /* --tag: its stdout and stderr */
	char why[200];             /* it could not be started */
};

struct child_plan {
	unsigned node;
	char **argv;
	const char *boot;           /* its ROAM_BOOT */
	const sigset_t *mask;       /* of signals, when the program begins */
	struct tag_stream **within; /* of stdout and stderr: tag its lines; NULL: do not */
	int input;                  /* its stdin; -1: ours; CHILD_NO_INPUT: none */
	int keep;                   /* a descriptor that it inherits; -1: none */
	bool undisturbed;           /* what is typed to interrupt is for a debugger beside it */
};

/*
 * Takes the signals that a launcher passes on, and those of its children's ends, by a descriptor;
 * *mask_p: those that were blocked before, for the children.  -1: it cannot, and said so.
 */
int child_signals(sigset_t *mask_p);

/* Starts one and waits until it runs the program; 0, or the exit status, and child->why. */
int child_start(struct child *child, const struct child_plan *plan);

/*
 * The command that runs `argv` under gdb: `talks` with whom is at the terminal, or starts it and
 * shows where it stopped.  NULL: no memory.
 */
char **child_gdb(char **argv, bool talks);

/*
 * Moves `count` descriptors to a row behind all of them and `above`, where programs inherit them;
 * the first, or -1 with errno.
 */
int child_place(const int *fds, unsigned count, int above);

/*
 * Kills what processes of the nodes have left behind; it is ours, as we are their subreaper: a
 * program under a shell script, for one.  False: nothing was left.
 */
bool child_sweep(void);

#endif
