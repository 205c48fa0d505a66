/*
 * A node that roam run has started on its only host: it has the segments of all, lent by the
 * launcher, which watches all nodes.  What each node runs stands in its control page.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "job/job.h"
#include "launch/control.h"
#include "launch/starts.h"
#include "os/os.h"
#include "sync/sync.h"

_Static_assert(sizeof(struct roami_boot_card) <= ROAMI_COMES_BYTES, "a card fits");

/*
 * The launcher's end is our parent's, and so ours: of a shell in between, too.  If it has ended
 * already, so has the other side of the pipe behind the segments.
 */
static void local_end_with_launcher(int lifeline)
{
	struct pollfd gone = {lifeline, 0, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&gone, 1, 0) > 0 && (gone.revents & POLLHUP) != 0)
		_exit(ROAMI_EXIT_REPORTED);
}

/* ROAM_BOOT=local:RANK:SIZE:FD: FD and what follows are open, segments and the lifeline. */
static enum roam_err local_take(struct roami_job *job)
{
	unsigned rank, size, fd;
	uint8_t key[ROAMI_KEY_BYTES];

	if (sscanf(job->options.boot, "local:%u:%u:%u", &rank, &size, &fd) != 3 || size == 0 ||
	    size > ROAMI_NODES_MAX || rank >= size || fd >= INT32_MAX - size) {
		fprintf(stderr, "roam: ROAM_BOOT=%s: malformed\n", job->options.boot);
		return ROAM_EINVAL;
	}
	if (fcntl((int)(fd + size), F_GETFD) < 0) {
		fprintf(stderr, "roam: ROAM_BOOT is that of a node, which has started this "
				"program or closed its descriptors: unset ROAM_BOOT\n");
		return ROAM_EINVAL;
	}
	local_end_with_launcher((int)(fd + size));
	if (!roami_boot_fits(&job->layout, (int)fd)) {
		fprintf(stderr,
			"roam: the launcher and this program have different versions or options "
			"of roam: build the program with the roam that runs it\n");
		return ROAM_EINVAL;
	}
	roami_os_fds_keep((int)fd, size + 1);
	job->boot.me = rank;
	job->boot.nodes = size;
	job->boot.hosts = 1;
	for (unsigned node = 0; node < size; node++)
		job->lent[node] = (int)(fd + node);
	if (pread((int)fd, key, sizeof(key), offsetof(struct roami_ctl, key)) != sizeof(key))
		return ROAM_ESYSTEM;
	roami_boot_name(job->name, key, sizeof(key));
	return ROAM_OK;
}

static bool local_begin(struct roami_job *job, bool creates, enum roam_err *err_p)
{
	(void)creates;
	if (job->options.boot[0] == '\0')
		return false;
	*err_p = local_take(job);
	return true;
}

/* One node reports why the job fails; the launcher ends the others. */
__attribute__((noreturn)) static void local_fail(struct roami_job *job, const char *line)
{
	if (atomic_exchange(&roami_job_ctl(job, 0)->reported, 1) == 0)
		fprintf(stderr, "roam: %s\n", line);
	_exit(ROAMI_EXIT_REPORTED);
}

static const struct roami_boot_card *local_card(const struct roami_job *job, unsigned node)
{
	return (const void *)roami_job_ctl(job, node)->comes;
}

/* Waits until all nodes have joined: the launcher notices processes that never do. */
static void local_await(struct roami_job *job)
{
	struct roami_ctl *mine = roami_job_ctl(job, job->me);

	atomic_store(&mine->waits[0].id, ROAMI_SEAL_ID);
	atomic_store(&mine->waits[0].of, job->nodes);
	atomic_store(&mine->waits[0].kind, ROAM_SYNC_BARRIER + 1);
	atomic_store(&mine->seats, 1);
	atomic_store(&mine->joined, ROAMI_JOINED_READY);
	roami_os_futex_wake(&mine->joined, INT32_MAX);
	for (unsigned node = 0; node < job->nodes; node++)
		while (atomic_load(&roami_job_ctl(job, node)->joined) == 0)
			roami_os_futex_wait(&roami_job_ctl(job, node)->joined, 0, 0);
	atomic_store(&mine->waits[0].kind, 0);
}

/*
 * Also called when the nodes of a job whose nodes all run main first synchronise: then all have
 * joined.
 */
static void local_compare(struct roami_job *job)
{
	const struct roami_boot_card *first = local_card(job, 0);
	char line[ROAMI_DIFFERS_BYTES + 200], what[ROAMI_DIFFERS_BYTES];

	if (atomic_load(&roami_job_ctl(job, job->me)->joined) == 0)
		local_await(job);
	for (unsigned node = 1; node < job->nodes; node++) {
		const char *fix = roami_build_differs(first, local_card(job, node), what,
						      sizeof(what));

		if (fix == NULL)
			continue;
		snprintf(line, sizeof(line), "node %u %s than node 0: %s", node, what, fix);
		local_fail(job, line);
	}
	if (first->asked == 0 || first->asked == job->nodes)
		return;
	roami_job_says_asked(first->asked, roami_team_threads(job), job->nodes, line, sizeof(line));
	local_fail(job, line);
}

static enum roam_err local_join(struct roami_job *job, unsigned asked)
{
	struct roami_boot_card *card = (void *)roami_job_ctl(job, job->me)->comes;

	*card = (struct roami_boot_card){.asked = asked, .allocs = job->alloc_hash};
	roami_build_card(job, card);
	return ROAM_OK;
}

const struct roami_start roami_start_local = {
	.name = "roam run",
	.reports = true,
	.begin = local_begin,
	.join = local_join,
	.compare = local_compare,
	.end = roami_job_end_here,
};
