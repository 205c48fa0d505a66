/* The launcher of a job across hosts: its state, and how it reaches the hosts. */
#ifndef ROAM_FAR_PRIV_H
#define ROAM_FAR_PRIV_H

#include <signal.h>
#include <sys/types.h>

#include "base/segment.h"
#include "job/local.h"
#include "launch/listener.h"
#include "roam_far.h"
#include "roam_tag.h"
#include "roam_tool.h"

struct far_host {
	const char *name;
	pid_t rsh;
	int input;               /* the agent's stdin, held open: when it ends, so does the agent */
	struct roami_wire *wire; /* NULL: not connected, or lost */
	bool greeted;
	bool hungry;      /* its agent wants more of the standard input */
	bool here;        /* it is the launcher's own host */
	unsigned running; /* nodes that have not ended */
	struct tag_stream *out[2];
};

struct far_node {
	unsigned host;
	bool carded, ended, reported_waits;
	char dying[ROAMI_DYING_BYTES]; /* which thread ended it, as roami_boot_dying says; or "" */
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
	struct roami_ctl *ctls; /* what each node of the job waited for */
	unsigned greeted, carded;
	uint32_t address; /* this host's address for other hosts; 0: not known */
	bool aes;         /* all hosts that have come have AES in their CPUs */
	bool ending;      /* node 0 said that the job is over, in order */
	bool input_ended;
	int status; /* -1: nobody has failed */
	int forwarded;
	uint32_t quits; /* SIGQUITs passed on */
	char line[TOOL_LINE]; /* why the job failed; printed at `say_at` */
	unsigned dead;  /* the node that the line is about; ROAMI_NODES_MAX: none */
	uint64_t say_at, quit_at, kill_at, gone_at, end_at; /* 0: not */
};

/* ---- roam_reach.c */

/* Opens the port that agents connect to. */
bool far_listen(struct far *far);

/* Starts an agent on every host.  false: reported. */
bool far_spawn_all(struct far *far);

/* Whether a name is this host's, which needs no ROAM_RSH. */
bool far_is_here(const char *name);

#endif
