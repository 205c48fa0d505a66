/* The hosts of a job: -H and hostfiles, in the syntaxes of the usual launchers. */
#ifndef ROAM_HOSTS_H
#define ROAM_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

#define HOSTS_MAX      64u /* a host has at least one node */
#define HOST_NAME_MAX_ 256u

struct host_entry {
	char name[HOST_NAME_MAX_];
	unsigned slots; /* 0: not said */
	unsigned nodes; /* given to it by hosts_share */
};

struct hosts {
	unsigned count;
	struct host_entry entries[HOSTS_MAX];
	char why[400]; /* what is wrong, after false */
};

/* "a,b:4,n[01-03,7]:2" */
bool hosts_parse_list(struct hosts *hosts, const char *text);

/*
 * Parses a hostfile of `bytes` bytes, which `name` names in errors.  A line has a host or a bracket
 * range, as `host`, `host:N`, `host xN`, `host slots=N`; other words with =, as Open MPI has them,
 * are ignored; # begins a comment.
 */
bool hosts_parse_file(struct hosts *hosts, const char *name, const char *text, size_t bytes);

/*
 * Gives `nodes` nodes to the hosts, in their order: each gets as many as it has slots, and hosts
 * without a number of slots share the rest evenly.  Drops hosts that get none.
 */
bool hosts_share(struct hosts *hosts, unsigned nodes);

#endif
