/* Jobs across hosts: the launcher's side, and what it writes to the stdin of each host's agent. */
#ifndef ROAM_FAR_H
#define ROAM_FAR_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "launch/control.h"
#include "roam_hosts.h"

/* Differs between versions with different structs. */
#define AGENT_MAGIC                                                 \
	(UINT64_C(0x726f616d61677400) + sizeof(struct agent_card) + \
	 (sizeof(struct roami_boot_start) << 8) +                   \
	 sizeof(struct roami_boot_card) + ROAMI_FRAME_KINDS)
#define AGENT_ADDRESSES 16u

/* Exit statuses of an agent that cannot reach the launcher, and of the command that started it. */
#define AGENT_VERSION 2 /* TOOL_USAGE, as of a version without agents */
#define AGENT_REFUSED 3

struct agent_card {
	uint64_t magic; /* first, whatever follows */
	uint8_t key[ROAMI_KEY_BYTES];
	char name[64]; /* the host, as the user calls it; cut off */
	uint16_t host; /* its number */
	uint16_t port; /* of the launcher */
	uint32_t count;
	uint32_t addresses[AGENT_ADDRESSES]; /* of the launcher: IPv4, host byte order */
};

struct far_job {
	unsigned nodes;
	bool tag;
	bool share;       /* nodes of one host share memory */
	int gdb;          /* the node that runs under gdb; -1: none */
	unsigned timeout; /* seconds; 0: none */
	char **argv;
	struct hosts *hosts; /* it gets the hosts' numbers of nodes */
};

/* Runs the job; returns the exit status. */
int tool_far(const struct far_job *job, const struct roami_options *options);

/* The command `agent`. */
int tool_agent(int argc, char **argv);

#endif
