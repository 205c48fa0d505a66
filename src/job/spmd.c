/*
 * A program whose main is executed on all nodes that a launcher has started, to its end.  Until
 * they first synchronise they must all allocate alike: blocks of equal sizes in one order.
 */
#include <stdlib.h>
#include <unistd.h>

#include "home/placement.h"
#include "job/job.h"
#include "os/os.h"
#include "sync/state.h"
#include "sync/sync.h"

static enum roam_err spmd_start(struct roami_job *job)
{
	enum roam_err err = roami_job_take_place(job);

	job->nodes = job->boot.nodes;
	job->created = 1;
	roami_team_waits(job, roami_job_here(job));
	if (err == ROAM_OK)
		err = roami_job_map_app(job);
	if (err == ROAM_OK)
		err = roami_job_open_alloc(job); /* all nodes allocate alike until the seal */
	if (err == ROAM_OK && job->me == 0)
		err = roami_stored_begin(job);
	if (err == ROAM_OK)
		err = roami_job_come(job, 0);
	if (err == ROAM_OK)
		err = roami_job_join(job, job->nodes, 0);
	if (err == ROAM_OK)
		err = roami_stored_follow(job);
	job->life = ROAMI_JOB_JOINED;
	return err;
}

/*
 * Seals a launched job at its first synchronisation: all nodes must have allocated alike; from now
 * on each has leases of its own.
 */
static enum roam_err spmd_seal_joined(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[job->me];
	enum roam_err err = ROAM_OK;

	roami_stored_tell(job); /* afterwards other nodes may use what this one has freed */
	roami_state_set(job->node, ROAMI_STATE_ALLOC_HASH, roami_job_hash_allocs(job), true);
	roami_rerun_copy(job, true);
	if (job->me == 0)
		err = roami_job_lease(job); /* before another node can */
	roami_barrier(job->node, ROAMI_SEAL_ID, job->nodes);
	if (job->start->compare != NULL)
		job->start->compare(job);
	for (unsigned i = 0; i < job->nodes; i++)
		if (atomic_load(&roami_job_ctl(job, i)->alloc_hash) !=
		    atomic_load(&ctl->alloc_hash))
			roami_node_fail(
				job->node,
				"node %u allocated other blocks before its first "
				"synchronisation than node %u; allocate alike everywhere, or "
				"after it and pass the address",
				job->me, i);
	roami_job_seal_allocs(job);
	if (job->me != 0) {
		roami_os_discard((uint8_t *)ctl + job->layout.blocks,
				 job->layout.rings - job->layout.blocks);
		roami_job_close_allocs(job);
		err = roami_job_open_alloc(job);
		if (err == ROAM_OK)
			err = roami_job_lease(job);
		if (err == ROAM_OK)
			roami_job_seal_allocs(job);
	} else {
		roami_job_give_held(job);
	}
	roami_rerun_copy(job, false);
	__atomic_store_n(&job->life, ROAMI_JOB_TOGETHER, __ATOMIC_RELEASE);
	return err;
}

static enum roam_err spmd_seal_locked(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	pthread_mutex_lock(&job->seal);
	if (job->life == ROAMI_JOB_JOINED)
		err = spmd_seal_joined(job);
	pthread_mutex_unlock(&job->seal);
	return err;
}

/*
 * Seals the job.  If the processes that the program created cannot be threads of the only node, the
 * program ends: the call that synchronises has no such error.
 */
static enum roam_err spmd_seal(struct roami_job *job)
{
	unsigned nodes;

	if (job->created == 1 || roami_team_nodes(job, job->created, &nodes) == ROAM_OK)
		return spmd_seal_locked(job);
	fflush(NULL);
	_exit(ROAMI_EXIT_REPORTED); /* the line was printed */
}

/*
 * A launcher's only node cannot become several nodes, but it may have several threads, which start
 * when the last of them is created.  In a job of several nodes all processes exist already.
 */
static enum roam_err spmd_create(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err;

	if (roami_team_mate(job) != 0)
		return roami_job_says_sealed();
	if (job->boot.nodes > 1 || roami_team_threads(job) == 1 || roami_team_fixed(job))
		return roami_job_says_spmd(job, job->boot.nodes > 1 ? 0 : 2);
	err = roami_team_note(job, fn);
	/*
	 * Also in a sealed job: waits for the rest of the processes, or reports that they are too
	 * few.
	 */
	job->team.sealed = job->team.sealed || job->life == ROAMI_JOB_TOGETHER;
	job->life = ROAMI_JOB_JOINED;
	if (err != ROAM_OK || ++job->created < roami_team_threads(job))
		return err;
	if (job->team.sealed)
		__atomic_store_n(&job->life, ROAMI_JOB_TOGETHER, __ATOMIC_RELEASE);
	roami_statics_sealed(job);
	err = spmd_seal_locked(job);
	job->created = 1;
	return err == ROAM_OK ? roami_team_start(job, NULL) : err;
}

/* Called when the function of a node above 0 is over. */
__attribute__((noreturn)) static void spmd_over(struct roami_job *job)
{
	roami_team_join(job);
	roami_rerun_end(job);
}

/*
 * Lets main go on only on node 0.  All nodes come here, because main has run on each of them up to
 * now.
 */
static enum roam_err spmd_create_all(struct roami_job *job, void (*fn)(void), unsigned processes)
{
	bool joined = job->life == ROAMI_JOB_JOINED;
	unsigned nodes;
	enum roam_err err = roami_team_nodes(job, processes, &nodes);

	if (err != ROAM_OK)
		return err;
	if (nodes != job->boot.nodes)
		return roami_job_says_spmd(job, nodes);
	err = spmd_seal(job);
	if (err != ROAM_OK)
		return err;
	if (!joined) /* all nodes see what node 0 has written, as at the seal */
		roami_barrier(job->node, ROAMI_SEAL_ID, job->nodes);
	if (nodes > 1)
		job->main = &roami_main_repeats;
	err = roami_team_start(job, fn);
	if (err != ROAM_OK)
		return err;
	roami_team_call(job, fn, job->me == 0 ? NULL : spmd_over);
	return ROAM_OK;
}

const struct roami_main roami_main_everywhere = {
	.start = spmd_start,
	.create = spmd_create,
	.create_all = spmd_create_all,
	.seal = spmd_seal,
};
