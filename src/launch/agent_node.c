/*
 * A node of a job across hosts.  The agent that started it lends the segments of its host's nodes,
 * brings what is to be known of the others, tells the end, and is told why the node fails
 * (launch/control.h).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/layers.h"
#include "job/job.h"
#include "launch/control.h"
#include "launch/starts.h"
#include "os/os.h"
#include "run/probe.h"

/* What is kept as roami_job.start_state. */
struct agent_state {
	int control; /* to the agent */
};

static int agent_control(const struct roami_job *job)
{
	return ((const struct agent_state *)job->start_state)->control;
}

/*
 * The agent is gone, and nobody else could be told: this process ends without a line, as by a
 * signal.
 */
__attribute__((noreturn)) static void agent_lost(void)
{
	_exit(ROAMI_EXIT_REPORTED);
}

/* By the last error: the program has closed the way to the agent. */
static bool agent_closed(void)
{
	return errno == EBADF || errno == ENOTSOCK;
}

/* If the way to the agent is closed, this node says itself why. */
static void agent_fail(struct roami_job *job, const char *text)
{
	if (!roami_control_send(agent_control(job), ROAMI_FRAME_FAIL, job->me, text,
				strlen(text)) &&
	    agent_closed())
		fprintf(stderr, "roam: node %u: %s\n", job->me, text);
	agent_lost();
}

static void agent_dying(struct roami_job *job, uint32_t thread)
{
	roami_control_send(agent_control(job), ROAMI_FRAME_DYING, job->me, &thread, sizeof(thread));
}

/* This process ends with the agent, whose child it is, or the child of a shell in between. */
static void agent_read_boot(struct roami_job *job, struct roami_frame *frame)
{
	struct roami_boot boot = {.nodes = 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	roami_os_fds_keep(agent_control(job), 1);
	if (!roami_control_send(agent_control(job), ROAMI_FRAME_JOIN, 0, NULL, 0))
		agent_lost();
	do /* the others may be failing already */
		if (!roami_control_receive(agent_control(job), frame))
			agent_lost();
	while (frame->kind != ROAMI_FRAME_BOOT);
	if (frame->bytes == sizeof(boot))
		memcpy(&boot, frame->payload, sizeof(boot));
	if (boot.nodes == 0 || boot.nodes > ROAMI_NODES_MAX || boot.me >= boot.nodes)
		agent_fail(job, "the launcher and this program have different versions of roam: "
				"install one version on all hosts, and build the program with it");
	job->boot = boot;
	job->key = job->boot.key;
	roami_boot_name(job->name, job->key, ROAMI_KEY_BYTES);
}

/*
 * The agent lent descriptors from `first` on: segments of this host's nodes, as many eventfds.
 * Segments of another layout are left alone: the launcher is about to report that options differ.
 */
static void agent_lend(struct roami_job *job, int first)
{
	unsigned here = roami_job_here(job), at = 0;

	roami_os_fds_keep(first, 2 * here);
	if (!roami_boot_fits(&job->layout, first))
		return;
	for (unsigned node = 0; node < job->boot.nodes; node++) {
		if (job->boot.host[node] != job->boot.host[job->boot.me])
			continue;
		job->lent[node] = first + (int)at;
		job->bells[node] = first + (int)(here + at++);
	}
}

/*
 * Takes what the agent says first: which node this is; and what it lent, from descriptor `lent` on,
 * 0: nothing.
 */
static enum roam_err agent_hear(struct roami_job *job, int lent)
{
	struct roami_frame *frame = malloc(sizeof(*frame));
	enum roam_err err;

	if (frame == NULL)
		return ROAM_ENOMEM;
	agent_read_boot(job, frame);
	explicit_bzero(frame, sizeof(*frame));
	free(frame);
	err = roami_job_make_far(job);
	if (err == ROAM_OK && lent > 0)
		agent_lend(job, lent);
	for (unsigned node = 0; node < ROAMI_NODES_MAX; node++) {
		job->boot.names[node][ROAMI_HOST_BYTES - 1] = '\0';
		job->host_names[node] = job->boot.names[node];
	}
	return err;
}

/* ROAM_BOOT=far:FD, or far:FD:LENT. */
static bool agent_begin(struct roami_job *job, bool creates, enum roam_err *err_p)
{
	struct agent_state *state;
	int control, lent = 0;

	(void)creates;
	if (sscanf(job->options.boot, "far:%d:%d", &control, &lent) < 1)
		return false;
	state = malloc(sizeof(*state));
	*err_p = ROAM_ENOMEM;
	if (state == NULL)
		return true;
	state->control = control;
	job->start_state = state;
	*err_p = agent_hear(job, lent);
	return true;
}

static void agent_take(struct roami_job *job, const struct roami_boot_table *table)
{
	for (unsigned node = 0; node < job->nodes; node++) {
		if (node == job->me)
			continue;
		atomic_store(&job->far[node]->ctl.threads, table->nodes[node].threads);
		memcpy(job->far[node]->card, table->nodes[node].transport, ROAM_CARD_BYTES);
	}
}

/* What came from the agent while the job runs. */
static void agent_frame(struct roami_job *job, const struct roami_frame *frame)
{
	struct roami_ctl *ctl = &job->far[0]->ctl;
	struct roami_wait_group groups[ROAMI_WAIT_GROUPS];
	unsigned count, waiting;

	if (frame->kind == ROAMI_FRAME_WAITS) {
		count = roami_wait_groups(roami_job_ctl(job, job->me), groups, &waiting);
		roami_control_send(agent_control(job), ROAMI_FRAME_WAITS, job->me, groups,
				   count * sizeof(groups[0]));
	}
	if (frame->kind != ROAMI_FRAME_END)
		return;
	atomic_store(&ctl->job, ROAMI_JOB_ENDING);
	roami_os_futex_wake(&ctl->job, INT32_MAX);
}

static void *agent_main(void *arg)
{
	struct roami_job *job = arg;
	struct roami_frame *frame = malloc(sizeof(*frame));

	errno = 0;
	while (frame != NULL && roami_control_receive(agent_control(job), frame)) {
		agent_frame(job, frame);
		errno = 0;
	}
	if (agent_closed())
		agent_fail(job, ROAMI_HANG_CLOSED);
	agent_lost();
}

static enum roam_err agent_listen(struct roami_job *job)
{
	bool runs = roami_os_thread(NULL, agent_main, job);

	job->start_threads += runs; /* it ends with the process: nodes of later rounds count it */
	atomic_fetch_add(&job->real.helpers, runs);
	return runs ? ROAM_OK : ROAM_ESYSTEM;
}

static enum roam_err agent_connect(struct roami_job *job, unsigned asked)
{
	struct roami_boot_card card = {.asked = asked, .allocs = job->alloc_hash, .pid = getpid()};
	struct roami_frame *frame = malloc(sizeof(*frame));
	bool good;

	if (frame == NULL)
		return ROAM_ENOMEM;
	roami_build_card(job, &card);
	card.threads = atomic_load(&roami_job_ctl(job, job->me)->threads);
	memcpy(card.transport, layers_of(job->node)->card, ROAM_CARD_BYTES);
	if (!roami_control_send(agent_control(job), ROAMI_FRAME_CARD, job->me, &card, sizeof(card)))
		agent_lost();
	do {
		if (!roami_control_receive(agent_control(job), frame))
			agent_lost();
		agent_frame(job, frame);
	} while (frame->kind != ROAMI_FRAME_TABLE);
	good = frame->bytes == sizeof(struct roami_boot_table);
	if (good)
		agent_take(job, (const void *)frame->payload);
	free(frame);
	return good ? agent_listen(job) : ROAM_EPROTO;
}

/* The launcher tells the other nodes before any node leaves. */
static void agent_end(struct roami_job *job)
{
	struct roami_ctl *first = &job->far[0]->ctl;
	uint32_t state;

	if (job->me == 0)
		roami_control_send(agent_control(job), ROAMI_FRAME_END, job->me, NULL, 0);
	while (job->me != 0 && (state = atomic_load(&first->job)) != ROAMI_JOB_ENDING)
		roami_os_futex_wait(&first->job, state, 0);
}

const struct roami_start roami_start_agent = {
	.name = "roam run -H",
	.reports = true,
	.begin = agent_begin,
	.connect = agent_connect,
	.end = agent_end,
	.fail = agent_fail,
	.dying = agent_dying,
};
