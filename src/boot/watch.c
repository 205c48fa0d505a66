/* Who watches whom: node 0 has a pidfd of every node it forked and a thread that sleeps on them. */
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

#include "boot/local.h"

#define STDERR     2
#define P_PIDFD_ID 3 /* waitid's P_PIDFD; not in every header */

struct roami_watch {
	const struct roami_segment *segments;
	unsigned nodes;
	pid_t pids[ROAMI_NODES_MAX];
	int pidfds[ROAMI_NODES_MAX];
	bool gone[ROAMI_NODES_MAX];
	int stop;
	_Atomic uint32_t ending;
	pthread_t thread;
};

/* What the nodes waited for when one of them died. */
static void watch_waits(const struct roami_watch *watch, unsigned dead, char *text, size_t bytes)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];

	for (unsigned node = 0; node < watch->nodes; node++)
		ctls[node] = node != dead ? watch->segments[node].ctl : NULL;
	roami_boot_waits(ctls, watch->nodes, text, bytes);
}

static void watch_kill(struct roami_watch *watch)
{
	for (unsigned node = 0; node < watch->nodes; node++)
		if (watch->pidfds[node] >= 0 && !watch->gone[node])
			syscall(SYS_pidfd_send_signal, watch->pidfds[node], SIGKILL, NULL, 0);
}

/* A node has ended that should not: one line, and the job is over. */
__attribute__((noreturn)) static void watch_failed(struct roami_watch *watch, unsigned node,
						   const siginfo_t *info)
{
	char text[1024], waits[ROAMI_WAITS_BYTES];
	int status = info->si_status, length;

	watch_waits(watch, node, waits, sizeof(waits));
	watch_kill(watch);
	if (info->si_code == CLD_EXITED && status == ROAMI_EXIT_TOLD)
		_exit(1);
	if (info->si_code == CLD_EXITED)
		length = snprintf(
			text, sizeof(text),
			"roam: node %u (pid %d) exited with status %d before the job's end%s\n",
			node, (int)watch->pids[node], status, waits);
	else
		length = snprintf(text, sizeof(text),
				  "roam: node %u (pid %d) was killed by signal %d (%s)%s\n", node,
				  (int)watch->pids[node], status, strsignal(status), waits);
	if (write(STDERR, text, (size_t)length) < 0)
		_exit(1);
	_exit(info->si_code == CLD_EXITED ? (status != 0 ? status : 1) : 128 + status);
}

/* Looks at one process that ended. */
static void watch_look(struct roami_watch *watch, unsigned node)
{
	siginfo_t info = {0};

	if (waitid((idtype_t)P_PIDFD_ID, (id_t)watch->pidfds[node], &info, WEXITED) != 0 ||
	    info.si_pid == 0)
		return;
	watch->gone[node] = true;
	if (atomic_load(&watch->ending) && info.si_code == CLD_EXITED && info.si_status == 0)
		return;
	watch_failed(watch, node, &info);
}

static void *watch_main(void *arg)
{
	struct roami_watch *watch = arg;
	bool stop = false;

	for (;;) {
		struct pollfd fds[ROAMI_NODES_MAX + 1];
		unsigned who[ROAMI_NODES_MAX + 1], count = 0;

		for (unsigned node = 0; node < watch->nodes; node++)
			if (watch->pidfds[node] >= 0 && !watch->gone[node]) {
				who[count] = node;
				fds[count++] = (struct pollfd){watch->pidfds[node], POLLIN, 0};
			}
		if (count == 0 && stop)
			return NULL;
		fds[count] = (struct pollfd){stop ? -1 : watch->stop, POLLIN, 0};
		if (poll(fds, count + 1, -1) < 0)
			continue;
		for (unsigned i = 0; i < count; i++)
			if (fds[i].revents != 0)
				watch_look(watch, who[i]);
		stop |= fds[count].revents != 0;
	}
}

enum roam_err roami_watch_start(struct roami_watch **watch_p, const struct roami_segment *segments,
				unsigned nodes, const pid_t *pids)
{
	struct roami_watch *watch = calloc(1, sizeof(*watch));
	sigset_t all, old;
	int err;

	if (watch == NULL)
		return ROAM_ENOMEM;
	watch->segments = segments;
	watch->nodes = nodes;
	for (unsigned node = 0; node < nodes; node++) {
		watch->pids[node] = pids[node];
		watch->pidfds[node] = pids[node] > 0 ? roami_os_pidfd(pids[node]) : -1;
		if (pids[node] > 0 && watch->pidfds[node] < 0)
			return ROAM_ESYSTEM;
	}
	watch->stop = eventfd(0, EFD_CLOEXEC);
	if (watch->stop < 0)
		return ROAM_ESYSTEM;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&watch->thread, NULL, watch_main, watch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err != 0)
		return ROAM_ESYSTEM;
	*watch_p = watch;
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
	close(watch->stop);
	free(watch);
}
