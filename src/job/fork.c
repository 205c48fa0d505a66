/*
 * A program that no launcher has started: its process is alone up to CREATE, which forks
 * the other nodes, and again after WAIT_FOR_END (rule 2).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/job.h"
#include "msg/msg.h"
#include "os/inside.h"
#include "os/os.h"

#define LOOK_NS UINT64_C(100000000) /* how often a forked process looks whether its parent lives */

/* The creator waits for this mark, not for the kernel to take the process's memory back. */
static void fork_left(struct roami_job *job)
{
	if (job->me == 0)
		return;
	fflush(NULL);
	atomic_store(&roami_job_ctl(job, job->me)->joined, ROAMI_JOINED_LEFT);
}

/* Ends a forked node when its function is over; the function may have called roam_finish. */
__attribute__((noreturn)) static void fork_child_end(struct roami_job *job)
{
	pthread_mutex_lock(&job->ends); /* held for ever: no other thread may end the node */
	if (job->life != ROAMI_JOB_OVER) {
		roami_team_join(job);
		roami_statics_note(job);
		roami_job_serve(job);
		job->life = ROAMI_JOB_OVER;
		roami_collect_leave(job);
		fork_left(job);
	}
	fflush(NULL);
	_exit(0);
}

#define STATUS_US 8000u /* time until it is known how a process has ended */

/* Whether the parent, which has ended, was killed; once it was waited for, newer kernels tell. */
static bool fork_killed(pid_t parent, int pidfd, int *status_p)
{
	for (unsigned us = 500; us <= STATUS_US; us *= 2) {
		if (roami_os_zombie_status(parent, status_p) ||
		    roami_os_pidfd_status(pidfd, status_p))
			return WIFSIGNALED(*status_p);
		usleep(us);
	}
	return false;
}

/*
 * Ends a process whose parent has ended before anything watched it.  A parent that has exited has
 * said why.
 */
__attribute__((noreturn)) static void fork_orphan(struct roami_ctl *creator, pid_t parent,
						  int pidfd)
{
	int status = 0;

	if (fork_killed(parent, pidfd, &status) &&
	    atomic_exchange(&creator->reported, ROAMI_REPORTED) == ROAMI_REPORTED_NOT)
		fprintf(stderr,
			"roam: node 0 (pid %d) was killed by signal %d (%s) while it created "
			"nodes\n",
			(int)parent, WTERMSIG(status), strsignal(WTERMSIG(status)));
	_exit(ROAMI_EXIT_REPORTED);
}

/* Waits until the job is sealed; returns the number of nodes that it then has. */
static unsigned fork_sealed(struct roami_ctl *creator, pid_t parent, int pidfd)
{
	while (atomic_load(&creator->job) == ROAMI_JOB_OPEN) {
		roami_os_futex_wait(&creator->job, ROAMI_JOB_OPEN, LOOK_NS);
		if (getppid() != parent)
			fork_orphan(creator, parent, pidfd);
	}
	if (pidfd >= 0)
		close(pidfd);
	return atomic_load(&creator->nodes);
}

/* Runs a forked node to its end.  Its parent may have forked it within a call. */
__attribute__((noreturn)) static void fork_child(struct roami_job *job, void (*fn)(void),
						 pid_t parent, int pidfd)
{
	unsigned nodes;
	enum roam_err err = ROAM_OK;

	roami_shared_reserve(job);
	roami_stored_forked(job);
	if (roami_inside.call != NULL)
		roami_inside_leave();
	job->pid = getpid();
	/* The parent's thread may hold it, which forks at the seal of WAIT_FOR_END. */
	job->ends = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	job->hang.runs = false; /* the fields below are the parent's, too: */
	atomic_store(&job->last, 0);
	atomic_store(&job->real.aside, 0);
	atomic_store(&job->real.seats.leaving, 0);
	memset(job->bases, 0, sizeof(job->bases)); /* not inherited */
	err = roami_job_map_segment(job, 0);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_REPORTED);
	nodes = fork_sealed(roami_job_ctl(job, 0), parent, pidfd);
	if (job->me >= nodes)
		_exit(0);
	for (unsigned i = 1; i < nodes && err == ROAM_OK; i++)
		err = roami_job_map_segment(job, i);
	for (unsigned i = nodes; i < job->made; i++)
		close(job->fds[i]);
	job->nodes = nodes;
	if (err == ROAM_OK)
		err = roami_job_map_app(job);
	roami_job_close_allocs(job);
	if (err == ROAM_OK)
		err = roami_job_open_alloc(job);
	if (err == ROAM_OK)
		err = roami_job_lease(job);
	/*
	 * The parent's node cannot be closed here, because its segment is not mapped.  This process
	 * has only a small copy of it.
	 */
	if (err == ROAM_OK) {
		job->node->self = NULL;
		if (!job->real.measured) /* forked before the seal */
			roami_team_waits(job, nodes);
		roami_job_come(job, nodes);
		err = roami_job_join(job, nodes, nodes);
	}
	if (err == ROAM_OK)
		err = roami_stored_join(job);
	if (err == ROAM_OK)
		err = roami_watch_creator(job, parent);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_REPORTED);
	roami_job_seal_allocs(job);
	roami_stats_begin(job->node->stats);
	if (roami_team_start(job, fn) != ROAM_OK)
		_exit(ROAMI_EXIT_REPORTED);
	roami_team_call(job, roami_team_function(job, 0, fn), fork_child_end);
	_exit(0); /* it does not come back */
}

static enum roam_err fork_node(struct roami_job *job, unsigned node, void (*fn)(void))
{
	pid_t parent = getpid(), pid;
	int pidfd = roami_os_pidfd(parent); /* it may end before its child runs */

	/* Otherwise a thread of the library could hold a lock that nobody releases in the child. */
	roami_hang_stop(&job->hang);
	fflush(NULL);
	job->forking = true;
	pid = fork();
	job->forking = false;
	if (pid < 0)
		roami_job_says(job, ROAM_ESYSTEM, "cannot fork a node");
	if (pid != 0 && pidfd >= 0)
		close(pidfd);
	if (pid < 0)
		return ROAM_ESYSTEM;
	if (pid == 0) {
		job->me = node;
		fork_child(job, fn, parent, pidfd);
	}
	job->pids[node] = pid;
	return ROAM_OK;
}

/* Whether the program runs under valgrind, which puts a library of its own before all others. */
static bool fork_valgrind(void)
{
	const char *before = getenv("LD_PRELOAD");

	return before != NULL && strstr(before, "vgpreload") != NULL;
}

static enum roam_err fork_may(struct roami_job *job, unsigned nodes)
{
	if (job->life != ROAMI_JOB_ALONE || roami_team_fixed(job))
		return roami_job_says_sealed();
	if (nodes > job->options.nodes_max) {
		fprintf(stderr, "roam: %u nodes asked for, at most %llu allowed (ROAM_NODES_MAX)\n",
			nodes, (unsigned long long)job->options.nodes_max);
		return ROAM_ENODES;
	}
	if (nodes > 1 && fork_valgrind()) {
		fprintf(stderr, "roam: nodes cannot be created under valgrind, which takes a "
				"forked process's heap for mapped; run one node\n");
		return ROAM_EUNSUPPORTED;
	}
	if (nodes > 1 &&
	    !roami_boot_space(&job->layout, nodes, job->layout.total + job->layout.heap_bytes))
		return ROAM_ENOMEM;
	roami_job_part(job);
	return ROAM_OK;
}

/*
 * Makes a job of node 0 and `nodes` - 1 children, which are forked now, with `fn`, or were before.
 */
static enum roam_err fork_all(struct roami_job *job, unsigned nodes, void (*fn)(void))
{
	struct roami_ctl *ctl = job->bases[0];
	enum roam_err err = roami_stored_together(job);

	if (err == ROAM_OK)
		err = roami_single_end(job);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot map the shared heap");
	/* In later rounds the heap of other nodes counts, too. */
	atomic_store(&ctl->creator_end,
		     job->leases ? job->layout.heap_bytes
				 : (job->high + ROAMI_PAGE - 1) & ~(uint64_t)(ROAMI_PAGE - 1));
	roami_job_seal_allocs(job);
	err = roami_job_lease(job);
	while (roami_msg_poll(job->node) > 0)
		; /* messages that this node sent itself while alone */
	roami_os_discard((uint8_t *)ctl + job->layout.rings,
			 job->layout.headers - job->layout.rings);
	for (unsigned i = 1; i < nodes && err == ROAM_OK; i++)
		err = roami_job_map_segment(job, i);
	if (err != ROAM_OK)
		return err;
	job->nodes = nodes;
	roami_job_mark_bytes(job);
	roami_job_collect_blocks(job);
	atomic_store(&ctl->nodes, nodes);
	roami_team_waits(job, nodes);
	for (unsigned i = 1; fn != NULL && i < nodes && err == ROAM_OK; i++)
		err = fork_node(job, i, fn);
	if (err == ROAM_OK) {
		/* The children may go on before we are ready: what they send waits in our rings. */
		atomic_store(&ctl->job, ROAMI_JOB_SEALED);
		roami_os_futex_wake(&ctl->job, INT32_MAX);
		roami_job_come(job, nodes);
		err = roami_job_join(job, nodes, nodes);
	}
	if (err == ROAM_OK)
		err = roami_watch_start(job, job->pids);
	if (err != ROAM_OK) {
		roami_job_says(job, err, "cannot start the nodes");
		roami_job_await_reported(job); /* it may be one of those that are killed now */
	}
	for (unsigned i = 1; i < nodes && err != ROAM_OK; i++)
		if (job->pids[i] > 0)
			kill(job->pids[i], SIGKILL);
	return err;
}


/*
 * Creates all nodes at once for `processes` threads.  A node is forked while its parent has one
 * thread; it begins with fn, or with the function of its first process.
 */
static enum roam_err fork_team(struct roami_job *job, unsigned processes, void (*fn)(void))
{
	unsigned nodes;
	enum roam_err err = roami_team_nodes(job, processes, &nodes);

	if (err == ROAM_OK)
		err = fork_may(job, nodes);
	if (err != ROAM_OK)
		return err;
	roami_statics_begin(job);
	if (nodes == 1)
		roami_single_begin(job);
	else
		err = roami_job_make_segments(job, nodes);
	if (err == ROAM_OK && nodes > 1)
		err = fork_all(job, nodes, fn);
	job->created = 1;
	return err == ROAM_OK ? roami_team_start(job, fn) : err;
}

/* Only notes the process: the seal decides which node it belongs to. */
static enum roam_err fork_note(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err = fork_may(job, 1);

	if (err == ROAM_OK)
		err = roami_team_note(job, fn);
	if (err == ROAM_OK)
		job->created++;
	return err;
}

/*
 * Forks the processes that were noted.  After an error, which is printed, the program ends: the
 * call that synchronises and seals the job has no such error.
 */
static enum roam_err fork_noted(struct roami_job *job)
{
	enum roam_err err;

	roami_statics_sealed(job);
	err = fork_team(job, job->created, roami_team_function(job, 1, NULL));
	if (err == ROAM_OK)
		return ROAM_OK;
	fflush(NULL);
	_exit(EXIT_FAILURE);
}

static enum roam_err fork_create(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err;

	if (job->options.threads != 1)
		return fork_note(job, fn);
	err = fork_may(job, job->created + 1);
	if (err == ROAM_OK)
		roami_statics_begin(job);
	if (err == ROAM_OK)
		err = roami_job_make_segments(job, (unsigned)job->options.nodes_max);
	if (err == ROAM_OK)
		err = fork_node(job, job->created, fn);
	if (err == ROAM_OK)
		job->created++;
	return err;
}

static enum roam_err fork_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes)
{
	enum roam_err err = fork_team(job, nodes, fn);

	if (err == ROAM_OK)
		roami_team_call(job, fn, NULL);
	roami_statics_note(job);
	return err;
}

static enum roam_err fork_seal(struct roami_job *job)
{
	if (job->life != ROAMI_JOB_ALONE || job->created == 1)
		return ROAM_OK;
	if (job->options.threads != 1)
		return fork_noted(job);
	return fork_all(job, job->created, NULL);
}

static enum roam_err fork_start(struct roami_job *job)
{
	enum roam_err err = roami_job_start_alone(job);

	if (err == ROAM_OK)
		err = roami_stored_begin(job);
	if (err == ROAM_OK && job->stored != NULL)
		err = roami_job_lease_first(job);
	if (err == ROAM_OK)
		roami_hang_start(&job->hang, job->node, &job->real, job->fds[job->me]);
	return err;
}

/*
 * The pages return while the children drop their copies; after that no child is left that could see
 * a next round.
 */
static void fork_ended(struct roami_job *job)
{
	roami_collect_take(job);
	roami_job_await(job, ROAMI_JOINED_LEFT);
	atomic_store(&roami_job_ctl(job, 0)->job, ROAMI_JOB_OPEN);
}

const struct roami_main roami_main_forks = {
	.start = fork_start,
	.create = fork_create,
	.create_all = fork_create_all,
	.seal = fork_seal,
	.ended = fork_ended,
	.left = fork_left,
};

/* --------------------------------------------------------------------------------------- start */

static bool fork_begin(struct roami_job *job, bool creates, enum roam_err *err_p)
{
	(void)creates;
	(void)err_p;
	job->boot.hosts = 1;
	return true;
}

/* A node that does not answer is on this host, but may not notice that this process is gone. */
static void fork_abort(struct roami_job *job, unsigned lost)
{
	if (lost != 0)
		kill(atomic_load(&roami_job_ctl(job, lost - 1)->pid), SIGKILL);
}

const struct roami_start roami_start_fork = {
	.name = "fork",
	.begin = fork_begin,
	.end = roami_job_end_here,
	.abort = fork_abort,
};
