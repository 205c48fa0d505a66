/* The memory of a job's nodes, as one process maps it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"
#include "os/os.h"

/*
 * Where the pages under the job's protocol begin on every node; the regions of other protocols lie
 * below.  Free in every usual program, and outside the shadow of the sanitizers.
 */
#define APP_ADDRESS   0x200000000000
#define APP_BASE      ((uint8_t *)APP_ADDRESS)
#define STRING(x)     #x
#define STRING_OF(x)  STRING(x)

struct roami_ctl *roami_job_ctl(const struct roami_job *job, unsigned node)
{
	return job->bases[node] != NULL ? job->bases[node] : &job->far[node]->ctl;
}

/* Reports what cannot be mapped, and how much address space the job takes. */
static enum roam_err job_cannot_map(const struct roami_job *job, const char *what)
{
	unsigned nodes = job->boot.nodes > job->made ? job->boot.nodes : job->made;

	nodes = nodes > 0 ? nodes : 1;
	fprintf(stderr,
		"roam: cannot map %s: %s (each of %u nodes takes %zu MiB of address space: "
		"ulimit -v, or a smaller ROAM_HEAP)\n",
		what, strerror(errno), nodes, roami_boot_needs(&job->layout, nodes) >> 20);
	return ROAM_ENOMEM;
}

enum roam_err roami_job_map_segment(struct roami_job *job, unsigned node)
{
	void *base = roami_os_map_fd(NULL, job->layout.total, job->fds[node], 0);

	roami_assert(job->bases[node] == NULL && job->fds[node] > STDERR_FILENO);
	if (base == NULL)
		return job_cannot_map(job, "the memory of a node");
	roami_os_dontfork(base, job->layout.total);
	roami_os_dontdump(base, job->layout.total);
	job->bases[node] = base;
	return ROAM_OK;
}

/* Maps the heap of a node's segment as the app view. */
static enum roam_err job_map_heap(struct roami_job *job, unsigned node)
{
	uint64_t below = roami_layout_base(&job->layout, 0);

	roami_assert(job->bases[node] != NULL);
	job->app = roami_os_map_fd(APP_BASE - below, job->layout.heap_bytes, job->fds[node],
				   job->layout.heap);
	if (job->app == NULL)
		return job_cannot_map(job, "the shared heap at " STRING_OF(APP_ADDRESS));
	roami_os_dontfork(job->app, job->layout.heap_bytes);
	roami_os_dontdump(job->app, job->layout.heap_bytes);
	return roami_shared_map(job, node);
}

enum roam_err roami_job_map_app(struct roami_job *job)
{
	return job_map_heap(job, job->me);
}

enum roam_err roami_job_share_heap(struct roami_job *job, unsigned nodes)
{
	char why[240];

	if (nodes == 1 || roami_boot_apart(&job->options, why, sizeof(why)))
		return ROAM_OK;
	for (unsigned node = 0; node < nodes; node++)
		if (job->bases[node] == NULL) {
			roami_job_says_line(job, why);
			return ROAM_EUNSUPPORTED;
		}
	if (job->me == 0)
		return ROAM_OK;
	roami_os_unmap(job->app, job->layout.heap_bytes);
	return job_map_heap(job, 0);
}

enum roam_err roami_job_make_segments(struct roami_job *job, unsigned nodes)
{
	for (; job->made < nodes; job->made++) {
		job->fds[job->made] = roami_boot_segment(&job->layout, job->made);
		if (job->fds[job->made] < 0) {
			fprintf(stderr, "roam: cannot make the shared memory of node %u: %s%s\n",
				job->made, strerror(errno), roami_boot_hint(errno));
			return ROAM_ESYSTEM;
		}
	}
	return ROAM_OK;
}

enum roam_err roami_job_map_first(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	roami_assert(job->me == 0 && job->made == 0);
	if (job->boot.me == 0 && job->lent[0] != 0) {
		job->fds[0] = job->lent[0];
		job->made = 1;
	} else {
		err = roami_job_make_segments(job, 1);
	}
	return err == ROAM_OK ? roami_job_map_segment(job, 0) : err;
}

enum roam_err roami_job_map_lent(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	for (unsigned node = 0; node < job->boot.nodes && err == ROAM_OK; node++) {
		if (job->lent[node] == 0 || job->bases[node] != NULL)
			continue;
		job->fds[node] = job->lent[node];
		err = roami_job_map_segment(job, node);
	}
	return err;
}

enum roam_err roami_job_take_place(struct roami_job *job)
{
	enum roam_err err;

	roami_assert(job->boot.me < job->boot.nodes);
	job->me = job->boot.me;
	if (job->lent[job->me] != 0)
		return roami_job_map_lent(job);
	job->made = job->me;
	err = roami_job_make_segments(job, job->me + 1);
	return err == ROAM_OK ? roami_job_map_segment(job, job->me) : err;
}

/*
 * Makes this process's copies of other hosts' nodes.  Of this node's and its host's only the card
 * is used, and of node 0's the word that the job ends.
 */
enum roam_err roami_job_make_far(struct roami_job *job)
{
	for (unsigned node = 0; node < job->boot.nodes; node++) {
		job->far[node] = roami_os_reserve(sizeof(*job->far[node]));
		if (job->far[node] == NULL)
			return ROAM_ENOMEM;
		roami_os_dontfork(job->far[node], sizeof(*job->far[node]));
		atomic_store(&job->far[node]->ctl.threads, 1);
	}
	return ROAM_OK;
}

unsigned roami_job_here(const struct roami_job *job)
{
	unsigned here = 0;

	for (unsigned node = 0; node < job->boot.nodes; node++)
		here += job->boot.host[node] == job->boot.host[job->boot.me];
	return here;
}
