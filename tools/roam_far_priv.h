/* The launcher of a job across hosts: its state, and how it reaches the hosts. */
#ifndef ROAM_FAR_PRIV_H
#define ROAM_FAR_PRIV_H

#include <signal.h>
#include <sys/types.h>

#include "base/segment.h"
#include "launch/listener.h"
#include "roam_far.h"
#include "roam_tag.h"
#include "roam_tool.h"

struct far_host {
	const char *name;
	pid_t rsh;
	int input;               /* its stdin, held open: its end is the agent's */
	struct roami_wire *wire; /* NULL: not connected, or lost */
	bool greeted;
	bool hungry;      /* it wants more of the standard input */
	bool here;        /* it is the launcher's own */
	unsigned running; /* nodes that have not ended */
	struct tag_stream *out[2];
};

struct far_node {
	unsigned host;
	bool carded, ended, told_waits;
	struct roami_boot_card card;
};

struct far {
	const struct far_job *job;
	const struct roami_options *options;
	uint8_t key[ROAMI_KEY_BYTES];
	struct roami_listener listener; /* for agents */
	int signals;
	uint16_t port;
	sigset_t mask;
	struct roami_frame frame;
	struct far_host hosts[HOSTS_MAX];
	struct far_node nodes[ROAMI_NODES_MAX];
	struct tag_stream *within[2];
	struct roami_ctl *ctls; /* of the job's nodes: what they waited for */
	unsigned greeted, carded;
	uint32_t address; /* at which other hosts reach this one; 0: not known */
	bool aes;         /* the CPUs of all hosts that have come have it */
	bool ending;      /* node 0 says that all is over in order */
	bool input_ended;
	int status; /* -1: nobody has failed */
	int forwarded;
	char line[TOOL_LINE]; /* why the job failed; to be said when `say_at` comes */
	unsigned dead;  /* the node that it is about; ROAMI_NODES_MAX: none */
	uint64_t say_at, quit_at, kill_at, gone_at, end_at; /* 0: not */
};

/* ---- roam_reach.c */

/* Where agents connect to. */
bool far_listen(struct far *far);

/* Starts an agent on every host.  false: reported. */
bool far_spawn_all(struct far *far);

/* This host needs no ROAM_RSH. */
bool far_is_here(const char *name);

#endif
