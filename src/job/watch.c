/*
 * Nodes of one host watch each other's processes.  The first node has a pidfd of every other one,
 * and a thread that sleeps on them.  All others watch the first one.  (The kernel's own signal at a
 * parent's end would come at the end of the parent's thread that has forked.)
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault/signals.h"
#include "job/job.h"
#include "os/os.h"

#define STDERR     2
#define P_PIDFD_ID 3 /* waitid's P_PIDFD; not in every header */

struct roami_watch {
	struct roami_ctl *ctls[ROAMI_NODES_MAX];
	struct roami_job *job;
	unsigned nodes;
	unsigned first; /* of watch_first_main */
	pid_t pids[ROAMI_NODES_MAX];
	int pidfds[ROAMI_NODES_MAX];
	bool gone[ROAMI_NODES_MAX];
	int parent; /* a pidfd of the launcher's process, or of its shell; -1: none */
	int stop;
	_Atomic uint32_t ending;
	uint64_t oom_kills;        /* the kernel's count when the watch began */
	_Atomic uint32_t *helpers; /* of struct roami_real: this thread is one */
	pthread_t thread;
};

/* What the nodes waited for when one of them died. */
static void watch_waits(const struct roami_watch *watch, unsigned dead, char *text, size_t bytes)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];

	for (unsigned node = 0; node < watch->nodes; node++)
		ctls[node] = node != dead ? watch->ctls[node] : NULL;
	roami_boot_waits(ctls, watch->nodes, text, bytes);
}

static void watch_kill(struct roami_watch *watch)
{
	for (unsigned node = 0; node < watch->nodes; node++)
		if (watch->pidfds[node] >= 0 && !watch->gone[node])
			syscall(SYS_pidfd_send_signal, watch->pidfds[node], SIGKILL, NULL, 0);
}

const char *roami_boot_why(const struct roami_ctl *ctl, int signal, uint64_t kills_before)
{
	if (signal == SIGKILL && roami_os_oom_kills() > kills_before)
		return ": the memory cgroup has no memory left";
	if (ctl != NULL && (atomic_load(&ctl->heard) & ROAMI_SIGNALS_BIT(signal)) != 0)
		return ": roam's handler did not get it, because the program has blocked, "
		       "ignored or reset it, or its stack was full";
	return "";
}

void roami_boot_dying(uint32_t dying, char text[ROAMI_DYING_BYTES])
{
	text[0] = '\0';
	if (dying != 0)
		snprintf(text, ROAMI_DYING_BYTES, ", in process %u, its thread %u",
			 (dying & UINT16_MAX) - 1, dying >> 16);
}

#define LAUNCHER_US 300000u /* time for the launcher to end all its processes */

/* Ends what this process's end does not end by itself; the line is printed. */
static void watch_abort(const struct roami_watch *watch)
{
	if (watch->job->start->abort != NULL)
		watch->job->start->abort(watch->job, 0);
}

/* Ends this process quietly: its launcher, which would hear of it and end the others, is gone. */
__attribute__((noreturn)) static void watch_orphan(void)
{
	_exit(ROAMI_EXIT_REPORTED);
}

#define REPORT_US     100000u /* time to write a line */
#define STRANGER_US 8000u   /* time for another launcher to wait for its child and end us */

/*
 * How another process's child ended: its zombie shows it, and with newer kernels its pidfd, once
 * its parent has waited for it.
 */
static void watch_stranger(const struct roami_watch *watch, unsigned node, siginfo_t *info)
{
	int status;

	memset(info, 0, sizeof(*info));
	for (unsigned us = 500; us <= STRANGER_US; us *= 2) {
		if (roami_os_zombie_status(watch->pids[node], &status) ||
		    roami_os_pidfd_status(watch->pidfds[node], &status)) {
			info->si_code = WIFSIGNALED(status) ? CLD_KILLED : CLD_EXITED;
			info->si_status = WIFSIGNALED(status) ? WTERMSIG(status)
							      : WEXITSTATUS(status);
			return;
		}
		usleep(us);
	}
}

/* Writes the line that says how a node has ended; returns its length. */
static int watch_line(const struct roami_watch *watch, unsigned node, const siginfo_t *info,
		      const char *waits, char *text, size_t bytes)
{
	int pid = (int)watch->pids[node], status = info->si_status;
	char thread[ROAMI_DYING_BYTES];

	roami_boot_dying(atomic_load(&watch->ctls[node]->dying), thread);
	if (info->si_code == 0)
		return snprintf(text, bytes,
				"roam: node %u (pid %d) ended before the job's end%s%s%s\n", node,
				pid, thread, roami_boot_why(NULL, SIGKILL, watch->oom_kills),
				waits);
	if (info->si_code == CLD_EXITED)
		return snprintf(
			text, bytes,
			"roam: node %u (pid %d) exited with status %d before the job's end%s%s\n",
			node, pid, status, thread, waits);
	return snprintf(text, bytes, "roam: node %u (pid %d) was killed by signal %d (%s)%s%s%s\n",
			node, pid, status, strsignal(status),
			thread, roami_boot_why(watch->ctls[node], status, watch->oom_kills), waits);
}

static bool watch_reported(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED && info->si_status == ROAMI_EXIT_REPORTED;
}

/*
 * The creator has ended.  Its other nodes end by themselves, but not those that are stopped.  A
 * process that has the number of one that has ended hardly belongs to this job's group already.
 */
static void watch_kill_siblings(const struct roami_watch *watch)
{
	for (unsigned node = 0; node < watch->nodes; node++) {
		pid_t pid = atomic_load(&watch->ctls[node]->pid);

		if (node != watch->first && node != watch->job->me && pid > 0 &&
		    getpgid(pid) == getpgrp())
			kill(pid, SIGKILL);
	}
}

/* Ends the nodes that the first one forked, but gives another one time to write the line. */
static void watch_end_forked(const struct roami_watch *watch, bool reported)
{
	if (!reported)
		usleep(REPORT_US);
	watch_kill_siblings(watch);
}

/* Reports the end of the node that watches all others, often node 0; no other node would. */
static void *watch_first_main(void *arg)
{
	struct roami_watch *watch = arg;
	unsigned first = watch->first;
	struct pollfd fds[2] = {{watch->pidfds[first], POLLIN, 0}, {watch->parent, POLLIN, 0}};
	char text[1024], waits[ROAMI_WAITS_BYTES] = "";
	siginfo_t info = {0};
	int length;
	bool tells;

	while (poll(fds, 2, -1) < 0)
		;
	if (atomic_load(&watch->ctls[0]->job) == ROAMI_JOB_ENDING ||
	    atomic_load(&watch->ctls[watch->job->me]->joined) == ROAMI_JOINED_LEFT) {
		atomic_fetch_sub(watch->helpers, 1);
		return NULL;
	}
	if (fds[1].revents != 0)
		watch_orphan();
	watch_stranger(watch, first, &info);
	if (watch->job->start->parent) /* the launcher may be ending all of us, one by one */
		usleep(LAUNCHER_US);
	watch_waits(watch, first, waits, sizeof(waits));
	length = watch_line(watch, first, &info, waits, text, sizeof(text));
	tells = !watch_reported(&info) && atomic_exchange(&watch->ctls[0]->reported, 1) == 0;
	if (tells)
		(void)!write(STDERR, text, (size_t)length); /* the others must end in any case */
	if (!watch_reported(&info))
		watch_abort(watch);
	if (watch->job->start == &roami_start_fork) /* no launcher ends the others */
		watch_end_forked(watch, tells);
	_exit(ROAMI_EXIT_REPORTED);
}

/* Reports a node that ended and should not have, in one line, and ends the job. */
__attribute__((noreturn)) static void watch_failed(struct roami_watch *watch, unsigned node,
						   siginfo_t *info)
{
	char text[1024], waits[ROAMI_WAITS_BYTES];
	int status, length;
	bool reported = watch_reported(info);

	watch_waits(watch, node, waits, sizeof(waits));
	/*
	 * A failing node is about to print its own line; it may be this one, and have ended the
	 * other.
	 */
	if (!reported && atomic_exchange(&watch->ctls[0]->reported, 1) != 0) {
		reported = true;
		usleep(REPORT_US);
	}
	if (info->si_pid == 0)
		watch_stranger(watch, node, info);
	status = info->si_status;
	watch_kill(watch);
	if (reported || watch_reported(info))
		_exit(1);
	length = watch_line(watch, node, info, waits, text, sizeof(text));
	if (write(STDERR, text, (size_t)length) < 0)
		_exit(1);
	roami_statics_broken(watch->job, node);
	watch_abort(watch);
	_exit(info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED
		      ? 128 + status
		      : (status != 0 ? status : 1));
}

/* Looks at one process that ended. */
static void watch_look(struct roami_watch *watch, unsigned node)
{
	siginfo_t info = {0};
	bool child = waitid((idtype_t)P_PIDFD_ID, (id_t)watch->pidfds[node], &info, WEXITED) == 0,
	     ending = atomic_load(&watch->ending) != 0;

	if (child ? info.si_pid == 0 : errno != ECHILD)
		return;
	watch->gone[node] = true;
	if (ending && (!child || (info.si_code == CLD_EXITED && info.si_status == 0))) {
		atomic_store(&watch->ctls[node]->joined, ROAMI_JOINED_LEFT); /* if it could not */
		return;
	}
	watch_failed(watch, node, &info);
}

static void *watch_main(void *arg)
{
	struct roami_watch *watch = arg;
	bool stop = false;

	for (;;) {
		struct pollfd fds[ROAMI_NODES_MAX + 2];
		unsigned who[ROAMI_NODES_MAX + 1], count = 0;

		for (unsigned node = 0; node < watch->nodes; node++)
			if (watch->pidfds[node] >= 0 && !watch->gone[node]) {
				who[count] = node;
				fds[count++] = (struct pollfd){watch->pidfds[node], POLLIN, 0};
			}
		if (count == 0 && stop) {
			atomic_fetch_sub(watch->helpers, 1);
			return NULL;
		}
		fds[count] = (struct pollfd){stop ? -1 : watch->stop, POLLIN, 0};
		fds[count + 1] = (struct pollfd){watch->parent, POLLIN, 0};
		if (poll(fds, count + 2, -1) < 0)
			continue;
		if (fds[count + 1].revents != 0 && !atomic_load(&watch->ending))
			watch_orphan();
		if (fds[count + 1].revents != 0)
			watch->parent = -1;
		for (unsigned i = 0; i < count; i++)
			if (fds[i].revents != 0)
				watch_look(watch, who[i]);
		stop |= fds[count].revents != 0;
	}
}

static enum roam_err watch_thread(struct roami_watch *watch, void *(*fn)(void *))
{
	bool runs = roami_os_helper(&watch->thread, fn, watch);

	atomic_fetch_add(watch->helpers, runs);
	return runs ? ROAM_OK : ROAM_ESYSTEM;
}

static struct roami_watch *watch_make(struct roami_job *job)
{
	struct roami_watch *watch = calloc(1, sizeof(*watch));

	if (watch == NULL)
		return NULL;
	for (unsigned node = 0; node < job->nodes; node++) {
		watch->ctls[node] = job->node->segments[node].ctl;
		watch->pidfds[node] = -1;
	}
	watch->job = job;
	watch->parent = job->start->parent ? roami_os_pidfd(getppid()) : -1;
	watch->nodes = job->nodes;
	watch->helpers = &job->real.helpers;
	watch->oom_kills = roami_os_oom_kills();
	return watch;
}

enum roam_err roami_watch_first(struct roami_job *job, unsigned first, pid_t pid)
{
	struct roami_watch *watch = watch_make(job);

	roami_assert(first < job->nodes && first != job->me);
	if (watch == NULL)
		return ROAM_ENOMEM;
	watch->first = first;
	watch->pids[first] = pid;
	watch->pidfds[first] = roami_os_pidfd(pid);
	return watch->pidfds[first] < 0 ? ROAM_ESYSTEM : watch_thread(watch, watch_first_main);
}

enum roam_err roami_watch_creator(struct roami_job *job, pid_t creator)
{
	enum roam_err err = roami_watch_first(job, 0, creator);

	if (err != ROAM_OK)
		return err;
	/* The pidfd is the creator's if the creator is still the parent. */
	if (getppid() != creator)
		_exit(ROAMI_EXIT_REPORTED);
	return ROAM_OK;
}

enum roam_err roami_watch_start(struct roami_job *job, const pid_t *pids)
{
	struct roami_watch *watch = watch_make(job);

	roami_assert(job->watch == NULL);
	if (watch == NULL)
		return ROAM_ENOMEM;
	for (unsigned node = 0; node < job->nodes; node++) {
		watch->pids[node] = pids[node];
		if (pids[node] > 0)
			watch->pidfds[node] = roami_os_pidfd(pids[node]);
		if (pids[node] > 0 && watch->pidfds[node] < 0)
			return ROAM_ESYSTEM;
	}
	watch->stop = roami_os_fd(eventfd(0, EFD_CLOEXEC));
	if (watch->stop < 0)
		return ROAM_ESYSTEM;
	if (watch_thread(watch, watch_main) != ROAM_OK)
		return ROAM_ESYSTEM;
	job->watch = watch;
	return ROAM_OK;
}

void roami_watch_expect_end(struct roami_watch *watch)
{
	atomic_store(&watch->ending, 1);
}

void roami_watch_end(struct roami_watch *watch)
{
	uint64_t one = 1;

	if (write(watch->stop, &one, sizeof(one)) != sizeof(one))
		return;
	pthread_join(watch->thread, NULL);
	for (unsigned node = 0; node < watch->nodes; node++)
		if (watch->pidfds[node] >= 0)
			close(watch->pidfds[node]);
	if (watch->parent >= 0)
		close(watch->parent);
	close(watch->stop);
	free(watch);
}
