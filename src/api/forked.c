/*
 * A child that the program forks is no node.  It inherits neither the heap nor the segments: it
 * ends by a touch of either, but not without a word.
 */
#include <stdio.h>
#include <unistd.h>

#include "api/api.h"
#include "fault/signals.h"
#include "job/job.h"

static struct roami_job *const job = &roami_api_job;

/* Says what ends the child. */
static bool forked_ends(const char *why)
{
	char line[140];
	int length = snprintf(line, sizeof(line), "roam: process %d, a fork of node %u, %s\n",
			      (int)getpid(), job->me, why);

	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return false;
	return false;
}

static bool forked_touch(void *arg, siginfo_t *info, const void *context)
{
	char why[70];

	(void)arg;
	(void)context;
	snprintf(why, sizeof(why), "has no shared heap, and touched it at %p", info->si_addr);
	return forked_ends(why);
}

/* Calls that begin in the child do not get here. */
static bool forked_call(void *arg, siginfo_t *info, const void *context)
{
	(void)arg;
	(void)info;
	(void)context;
	return forked_ends("cannot go on with the call of roam that forked it");
}

static void forked_watch(void)
{
	roami_signals_orphan(job->app, job->layout.heap_bytes, forked_touch);
	if (job->node == NULL) /* after roam_finish: statics are private again, segments unused */
		return;
	for (unsigned i = 0; i < job->shared.statics.count; i++)
		roami_signals_orphan(job->shared.statics.of[i].app,
				     (size_t)job->shared.statics.of[i].count * ROAMI_PAGE,
				     forked_touch);
	for (unsigned i = 0; i < ROAMI_NODES_MAX; i++)
		if (job->bases[i] != NULL)
			roami_signals_orphan(job->bases[i], job->layout.total, forked_call);
}

void roami_api_forked(void)
{
	if (job->app == NULL || job->forking || job->orphan)
		return;
	job->orphan = true; /* its own children inherit the rest */
	forked_watch();
	roami_stored_forked(job);
	job->node = NULL;
	job->life = ROAMI_JOB_OVER;
}
