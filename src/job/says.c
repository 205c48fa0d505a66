/* Why a job cannot go on: one line, printed by one of its nodes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/layers.h"
#include "job/job.h"
#include "job/local.h"
#include "job/team.h"
#include "os/os.h"

#define TELLS_NS 500000000u /* that a process which tells why takes at most */

/* The job to which a node's environment belongs. */
static struct roami_job *job_of(struct roami_node *node)
{
	return roami_job_of(node->env_state);
}

/* Says what the nodes wait for; of other hosts' nodes, what this node knows. */
static void job_waits(const struct roami_node *node, char *text, size_t bytes)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];

	for (unsigned i = 0; i < node->nodes; i++)
		ctls[i] = node->segments[i].ctl;
	roami_boot_waits(ctls, node->nodes, text, bytes);
}

void roami_job_failed(struct roami_node *node, const char *text)
{
	struct roami_job *job = job_of(node);
	char line[400 + ROAMI_WAITS_BYTES], waits[ROAMI_WAITS_BYTES] = "";
	int length;

	if (layers_of(node)->lost != 0)
		job_waits(node, waits, sizeof(waits));
	if (job->start->fail != NULL) {
		snprintf(line, sizeof(line), "%s%s", text, waits);
		job->start->fail(job, line);
	}
	if (job->silent) /* node 0 may fail in the same way: its line comes first */
		usleep(500000);
	length = snprintf(line, sizeof(line), "roam: node %u: %s%s\n",
			  job->silent ? job->boot.me : node->me, text, waits);
	if (layers_of(node)->lost != 0 && job->boot.hosts > 1)
		usleep(node->me * 100000); /* one node prints, and the launcher ends the others */
	/*
	 * Only one node prints its line; another one leaves it time to print, and to end the job.
	 */
	if (atomic_exchange(&node->segments[0].ctl->reported, 1) != 0)
		usleep(500000);
	else if (write(job->silent ? job->outputs[1] : STDERR_FILENO, line, (size_t)length) < 0)
		_exit(ROAMI_EXIT_REPORTED);
	if (job->start->abort != NULL)
		job->start->abort(job, layers_of(node)->lost);
	/*
	 * Some process watches this one and knows this status, unless this is the creator, or node
	 * 0 of another launcher.
	 */
	_exit(node->me != 0 || job->start->reports ? ROAMI_EXIT_REPORTED : 1);
}

/* Prints a line unless another process tells why the job fails. */
static void job_tell(struct roami_job *job, const char *line)
{
	_Atomic uint32_t *reported = &roami_job_ctl(job, 0)->reported;
	uint32_t none = ROAMI_REPORTED_NOT;

	if (!atomic_compare_exchange_strong(reported, &none, ROAMI_REPORT_BEGUN))
		return;
	fprintf(stderr, "roam: %s\n", line);
	atomic_store(reported, ROAMI_REPORTED);
}

void roami_job_await_reported(struct roami_job *job)
{
	uint64_t end = roami_os_now_ns() + TELLS_NS;

	for (unsigned turn = 0; roami_os_now_ns() < end; turn++) {
		if (atomic_load(&roami_job_ctl(job, 0)->reported) != ROAMI_REPORT_BEGUN)
			return;
		roami_os_spin(turn);
	}
}

enum roam_err roami_job_says(struct roami_job *job, enum roam_err err, const char *what)
{
	const char *why = roam_strerror(err), *hint = "";
	char line[400], said[sizeof(job->why) + 4], who[ROAMI_HOST_BYTES + 30] = "";

	if (err == ROAM_ESYSTEM) {
		why = strerror(errno);
		hint = roami_boot_hint(errno);
	} else if (err == ROAM_ENOMEM) {
		why = strerror(ENOMEM);
		hint = " (limit of address space, ulimit -v, or ROAM_HEAP too large)";
	}
	if (job->why[0] != '\0') {
		snprintf(said, sizeof(said), " (%s)", job->why);
		hint = said;
	}
	if (job->start->fail != NULL) { /* the launcher names the node and its host */
		snprintf(line, sizeof(line), "%s: %s%s", what, why, hint);
		job->start->fail(job, line);
	}
	if (job->host_names[job->me] != NULL)
		snprintf(who, sizeof(who), "node %u on host %s: ", job->me,
			 job->host_names[job->me]);
	snprintf(line, sizeof(line), "%s%s: %s%s", who, what, why, hint);
	job_tell(job, line);
	return err;
}

void roami_job_says_line(struct roami_job *job, const char *line)
{
	if (job->start->fail != NULL)
		job->start->fail(job, line);
	if (job->me == 0 || job->bases[0] != NULL)
		job_tell(job, line);
}

enum roam_err roami_job_says_sealed(void)
{
	fprintf(stderr, "roam: nodes cannot be created here: the job is sealed\n");
	return ROAM_ESTATE;
}

void roami_job_says_asked(unsigned asked, unsigned threads, unsigned started, char *line,
			  size_t bytes)
{
	if (threads > 1)
		snprintf(line, bytes,
			 "the program asks for %u nodes of %u threads (ROAM_THREADS), the launcher "
			 "started %u",
			 asked, threads, started);
	else
		snprintf(line, bytes, "the program asks for %u nodes, the launcher started %u",
			 asked, started);
}

enum roam_err roami_job_says_spmd(struct roami_job *job, unsigned asked)
{
	char line[300];

	snprintf(line, sizeof(line),
		 "nodes cannot be created here: the launcher's nodes all run main, since "
		 "roam_start, roam_node, roam_nodes or a synchronisation came first; begin with "
		 "roam_start_main");
	if (asked != 0 && job->rounds == 0)
		roami_job_says_asked(asked, roami_team_threads(job), job->boot.nodes, line,
				     sizeof(line));
	roami_job_says_line(job, line);
	return ROAM_ESTATE;
}
