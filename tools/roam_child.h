/* A node as the launcher's or an agent's child. */
#ifndef ROAM_CHILD_H
#define ROAM_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "roam_tag.h"

#define CHILD_NO_INPUT (-2)

struct child {
	pid_t pid;
	bool runs;
	struct tag_stream *out[2]; /* --tag: streams of its stdout and stderr */
	char why[200];             /* why it could not be started */
};

struct child_plan {
	unsigned node;
	char **argv;
	const char *boot;           /* its ROAM_BOOT */
	const sigset_t *mask;       /* blocked signals when the program begins */
	struct tag_stream **within; /* per stdout and stderr: tag its lines; NULL: do not */
	int input;                  /* its stdin; -1: ours; CHILD_NO_INPUT: none */
	int keep;                   /* a descriptor that it inherits; -1: none */
	bool undisturbed;           /* ignore SIGINT of the terminal, which is for a debugger */
};

/*
 * Makes a descriptor for the signals that a launcher passes on, and SIGCHLD; *mask_p: the signals
 * that were blocked before, for the children.  -1: failed, and reported.
 */
int child_signals(sigset_t *mask_p);

/*
 * Starts a node and waits until it runs the program; returns 0, or the exit status and child->why.
 */
int child_start(struct child *child, const struct child_plan *plan);

/*
 * Sends it a signal, if it runs; `number`: of a SIGQUIT that all nodes get, from 1 on, see
 * job/hang.h.
 */
void child_signal(const struct child *child, int signal, uint32_t number);

/*
 * The command that runs `argv` under gdb.  `talks`: gdb is interactive, at the terminal; otherwise
 * it starts the program and shows where it stopped.  NULL: no memory.
 */
char **child_gdb(char **argv, bool talks);

/*
 * Moves `count` descriptors to consecutive numbers above all of them and above `above`, where
 * programs inherit them; returns the first, or -1 with errno.
 */
int child_place(const int *fds, unsigned count, int above);

/*
 * Kills processes that nodes have left behind, such as a program under a shell script; they are
 * children of this process, which is their subreaper.  False: none was left.
 */
bool child_sweep(void);

#endif
