/* The command line of roam run. */
#ifndef ROAM_RUN_H
#define ROAM_RUN_H

#include <stdbool.h>

#include "roam_hosts.h"

#define STOP_S 5u /* from a signal passed on to SIGKILL */

struct run_args {
	unsigned nodes;
	bool tag;
	bool far;         /* -H or --hostfile */
	int gdb;          /* the node that runs under gdb; -1: none */
	unsigned timeout; /* seconds; 0: none */
	struct hosts hosts;
	char **argv; /* of the program */
};

/*
 * Reads the command line; options that are meant for the nodes go into the environment.  Returns -1
 * to go on, or the exit status.
 */
int run_parse(struct run_args *args, int argc, char **argv);

#endif
