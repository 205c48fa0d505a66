#include "job/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "os/inside.h"
#include "page/race.h"
#include "page/sharing.h"
#include "run/open.h"
#include "sync/state.h"
#include "sync/sync.h"
#include "sync/tx.h"

extern char **environ;

/* --------------------------------------------------------------------------------------- nodes */

/* A lone node, and hardware that keeps the heap coherent, restrict no access. */
static const struct roami_fault_engine *job_engine(const struct roami_job *job, unsigned nodes)
{
	const struct roam_protocol *protocol = roami_protocol_find(job->options.protocol);
	bool restricts = nodes > 1 && !roami_homes_everywhere(protocol);

	return restricts ? job->engine : &roami_fault_plain;
}

/* Opens the node for `nodes` nodes. */
static enum roam_err job_open_node(struct roami_job *job, unsigned nodes)
{
	const struct roami_ctl *first = roami_job_ctl(job, 0);
	const struct roam_transport *by[ROAMI_NODES_MAX];
	struct roami_node_params params = {
		.me = job->me,
		.nodes = nodes,
		.options = &job->options,
		.env = job->options.chaos != 0 ? &roami_env_chaos : &roami_env_real,
		.env_state = &job->real,
		.protocol = roami_protocol_find(job->options.protocol),
		.regions = roami_stretches,
		.engine = job_engine(job, nodes),
		.bells = job->bells,
		.layout = job->layout,
		.bases = job->bases,
		.peers = job->far,
		.address = job->boot.address,
		.app = job->app,
		.fd = job->fds[job->me],
		.aliases = &job->shared.statics,
		.hosts = job->boot.hosts,
		.aes = job->boot.aes != 0,
		.host_names = job->host_names[0] != NULL ? job->host_names : NULL,
		.traced = roami_os_traced(),
		.key = job->key != NULL ? job->key : first->key,
		.boot = first->boot,
		.extensions = job->extensions,
		.why = job->why,
		.why_bytes = sizeof(job->why),
	};
	struct roami_blocks *blocks = job->node != NULL ? races_of(job->node)->blocks : NULL;
	enum roam_err err;

	if (!roami_job_transports(job, &params, by))
		return ROAM_EUNSUPPORTED;
	params.creator_pages = (uint32_t)(atomic_load(&first->creator_end) / ROAMI_PAGE);
	roami_hang_stop(&job->hang);
	roami_seats_shut(&job->real);
	if (job->node != NULL) {
		races_of(job->node)->blocks = NULL;
		roami_node_close(job->node);
		job->node = NULL;
	}
	job->nodes = nodes;
	roami_seats_open(&job->real);
	/* A forked process has none of its parent's helpers.  A watch ends after its round. */
	atomic_store(&job->real.helpers, job->start_threads + (job->watch != NULL));
	err = roami_node_open(&job->node, &params);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot start the node");
	races_of(job->node)->blocks = blocks;
	roami_stored_node(job);
	roami_thread_self(job->node)->registered = true; /* ctl->threads begins with 1 */
	roami_barrier_fix(job->node, job->threads_fixed);
	return ROAM_OK;
}

enum roam_err roami_job_come(struct roami_job *job, unsigned asked)
{
	roami_assert(job->bases[job->me] != NULL && job->life != ROAMI_JOB_TOGETHER);
	job->real.on_fail = roami_job_failed;
	roami_team_bind(job);
	if (job->options.bindings)
		roami_job_report_binding(job);
	return job->start->join != NULL ? job->start->join(job, asked) : ROAM_OK;
}

enum roam_err roami_job_join(struct roami_job *job, unsigned nodes, unsigned asked)
{
	struct roami_ctl *ctl = job->bases[job->me];
	enum roam_err err = roami_job_share_heap(job, nodes);

	roami_assert(job->me < nodes);
	if (err == ROAM_OK)
		err = job_open_node(job, nodes);
	if (err != ROAM_OK)
		return err; /* told */
	if (job->start->connect != NULL)
		err = job->start->connect(job, asked);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot join the other nodes");
	err = roami_service_start(job->node);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot start the service thread");
	roami_hang_start(&job->hang, job->node, &job->real, job->fds[job->me]);
	roami_job_say(job);
	atomic_store(&ctl->pid, (int32_t)getpid());
	atomic_store(&ctl->joined, ROAMI_JOINED_READY);
	job->life = ROAMI_JOB_TOGETHER;
	return ROAM_OK;
}

/* Opens the one node of a process that is alone, in memory that is mapped already. */
static enum roam_err job_alone(struct roami_job *job)
{
	enum roam_err err;

	roami_assert(job->me == 0 && job->bases[0] != NULL);
	job->real.fits = true;
	job->real.crowd = roami_os_cpus();
	job->real.spin_ns = job->real.pause_ns = 20000;
	job->real.chaos = job->options.chaos;
	job->real.on_fail = roami_job_failed;
	job->life = ROAMI_JOB_ALONE;
	job->created = 1;
	err = job_open_node(job, 1);
	if (err != ROAM_OK)
		return err;
	atomic_store(&job->node->self->ctl->pid, (int32_t)getpid());
	return ROAM_OK;
}

/* --------------------------------------------------------------------------------------- start */

/* Fails the job if a thread other than the first exits: that would end the node's other threads. */
__attribute__((noreturn)) static void job_exit_mate(struct roami_job *job)
{
	roami_node_fail(job->node,
			"exit by process %u, a thread of this node, would end the node's other "
			"threads: it must return from its function",
			roami_team_process(job, job->me) + roami_team_mate(job));
}

/*
 * Fails the job if a thread of the program exits: that would end the node's threads, and its
 * function may wait for this very thread.
 */
__attribute__((noreturn)) static void job_exit_stranger(struct roami_job *job)
{
	roami_node_fail(job->node,
			"exit by a thread that the program has made, while threads of the node "
			"still run their function, would end them");
}

/* The call that the handler had interrupted is over, or rests. */
__attribute__((noreturn)) static void job_exit_later(void *arg)
{
	struct roami_job *job = arg;

	pthread_sigmask(SIG_SETMASK, &job->exit_mask, NULL);
	roami_job_finish(job);
	exit(EXIT_SUCCESS); /* goes on with the functions that it has not called yet */
}

/*
 * A node that exits in order still serves the others; any other exit of a node ends the job.  A
 * process that the program has forked is no node.
 */
static void job_on_exit(int status, void *arg)
{
	struct roami_job *job = arg;

	if (status != 0)
		roami_team_dying(job);
	if (job->pid == getpid() && roami_job_undecided(job) && status != 0)
		roami_rerun_speak(job, true); /* each failing node says why, undecided or not */
	if (status == 0 && job->life != ROAMI_JOB_OVER && job->pid == getpid() &&
	    roami_team_mate(job) != 0)
		job_exit_mate(job);
	if (status == 0 && job->life != ROAMI_JOB_OVER && job->pid == getpid() &&
	    roami_team_stranger(job))
		job_exit_stranger(job);
	if (status == 0 && job->life != ROAMI_JOB_OVER && job->pid == getpid()) {
		roami_job_due(job);
		pthread_sigmask(SIG_SETMASK, NULL, &job->exit_mask);
		if (job->life == ROAMI_JOB_TOGETHER)
			roami_inside_later(job_exit_later, job);
		roami_job_finish(job);
	}
	if (status == 0 && job->found && job->options.check_status != 0 && job->pid == getpid()) {
		fflush(NULL);
		_exit((int)job->options.check_status);
	}
}

void roami_job_due(struct roami_job *job)
{
	bool open = job->life == ROAMI_JOB_TOGETHER || job->life == ROAMI_JOB_ALONE;

	if (job->stored != NULL && open && job->node != NULL && roami_inside.call == NULL &&
	    !roami_tx_inside(job->node))
		roami_tx_due(job->node, NULL, true);
}

/* Takes the first of the ways to start in which this process was started. */
static enum roam_err job_begin(struct roami_job *job, bool creates,
			       const struct roami_start *const *starts)
{
	enum roam_err err = ROAM_OK;

	do
		job->start = *starts++;
	while (!job->start->begin(job, creates, &err));
	return err;
}

enum roam_err roami_job_start_alone(struct roami_job *job)
{
	enum roam_err err;

	job->nodes = 1;
	err = roami_job_map_first(job);
	if (err == ROAM_OK)
		err = roami_job_map_app(job);
	if (err == ROAM_OK)
		err = roami_job_open_alloc(job);
	return err == ROAM_OK ? job_alone(job) : err;
}

static const struct roami_main *job_main(const struct roami_job *job, enum roami_kind kind)
{
	if (job->boot.nodes == 0)
		return &roami_main_forks;
	if (job->boot.nodes == 1)
		return &roami_main_everywhere;
	/* Statics of ROAM_SHARED begin with node 0's values: their nodes begin alone. */
	if (kind == ROAMI_KIND_SPMD && job->shared.found == 0)
		return &roami_main_everywhere;
	return kind == ROAMI_KIND_CREATES ? &roami_main_repeats : &roami_main_undecided;
}

/* Makes this process's first memory and node. */
static enum roam_err job_start_main(struct roami_job *job, enum roami_kind kind)
{
	enum roam_err err;

	job->main = job_main(job, kind);
	err = job->main->start(job);
	if (err == ROAM_OK)
		roami_stats_begin(job->node->stats);
	job->pid = getpid();
	pthread_sigmask(SIG_SETMASK, NULL, &job->last_mask);
	job->real.on_first_end = roami_last_begin;
	if (err == ROAM_OK)
		err = roami_shared_move(job);
	if (err == ROAM_OK && !job->exit_hook)
		job->exit_hook = on_exit(job_on_exit, job) == 0;
	if (err == ROAM_OK && kind == ROAMI_KIND_SPMD && roami_job_undecided(job))
		roami_job_decide(job);
	return err;
}

enum roam_err roami_job_start(struct roami_job *job, enum roami_kind kind,
			      const struct roami_start *const *starts)
{
	enum roam_err err = job->failed;

	if (job->life != ROAMI_JOB_NEW || err != ROAM_OK)
		return err; /* the first call has reported it */
	roami_inside_begin();
	err = roami_options_read(&job->options, environ, STDERR_FILENO);
	setenv("UCX_ERROR_SIGNALS", "", 0); /* Rule 1.9 */
	if (err == ROAM_OK)
		err = roami_boot_check(&job->options, &job->engine);
	job->needs = ROAM_MODEL_TX;
	if (err == ROAM_OK)
		err = roami_shared_find(job);
	if (err == ROAM_OK)
		err = roami_stored_check(job);
	if (err == ROAM_OK) {
		roami_boot_layout(&job->layout, &job->options);
		err = job_begin(job, kind != ROAMI_KIND_SPMD, starts);
	}
	job->failed = err;
	if (err == ROAM_OK)
		roami_team_begin(job);
	return err == ROAM_OK ? job_start_main(job, kind) : err;
}

/* -------------------------------------------------------------------------------- CREATE, seal */

/* Shares the statics of libraries that the program has loaded since roam started. */
static enum roam_err job_share_late(struct roami_job *job)
{
	enum roam_err err;

	if (job->life != ROAMI_JOB_ALONE || job->created > 1)
		return ROAM_OK;
	err = roami_shared_find(job);
	return err == ROAM_OK ? roami_shared_move(job) : err;
}

enum roam_err roami_job_create(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err = job_share_late(job);

	return err == ROAM_OK ? job->main->create(job, fn) : err;
}

enum roam_err roami_job_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes)
{
	enum roam_err err = job_share_late(job);

	return err == ROAM_OK ? job->main->create_all(job, fn, nodes) : err;
}

enum roam_err roami_job_fix_threads(struct roami_job *job)
{
	if (job->threads_fixed)
		return ROAM_OK;
	if (job->life == ROAMI_JOB_TOGETHER || job->life == ROAMI_JOB_OVER)
		return ROAM_ESTATE;
	job->threads_fixed = true;
	roami_barrier_fix(job->node, true);
	return ROAM_OK;
}

enum roam_err roami_job_registers(const struct roami_job *job)
{
	if (!job->threads_fixed || job->options.barrier_tree != ROAMI_BARRIER_TREE)
		return ROAM_OK;
	fprintf(stderr,
		"roam: node %u: roam_thread_init under ROAM_BARRIER=tree in a program that has "
		"promised to register no threads (roam_threads_fixed, MAIN_INITENV)\n",
		job->me);
	return ROAM_ESTATE;
}

void roami_job_decide(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	pthread_mutex_lock(&job->seal);
	if (roami_job_undecided(job))
		err = roami_rerun_spmd(job);
	pthread_mutex_unlock(&job->seal);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_REPORTED); /* neither the old heap nor the new one is mapped */
}

enum roam_err roami_job_seal(struct roami_job *job)
{
	if (roami_job_undecided(job))
		roami_job_decide(job);
	return job->main->seal(job);
}

/* ----------------------------------------------------------------------------------------- end */

void roami_job_part(struct roami_job *job)
{
	if (!job->parting)
		return;
	job->parting = false;
	if (job->watch != NULL)
		roami_watch_end(job->watch);
	job->watch = NULL;
	for (unsigned i = 1; i < ROAMI_NODES_MAX; i++) {
		if (i >= job->made && job->bases[i] == NULL)
			continue;
		roami_os_unmap_fd(job->bases[i], job->layout.total);
		job->bases[i] = NULL;
		close(job->fds[i]);
		job->pids[i] = 0;
	}
	job->made = 1;
}


/*
 * Node 0 forgets everything that was true of the nodes that ended, so that a new round can begin.
 */
static void job_clear(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[0];

	roami_os_discard((uint8_t *)ctl + job->layout.rings, job->layout.heap - job->layout.rings);
	atomic_store(&ctl->creator_end, 0);
	ctl->boot++;
	atomic_store(&ctl->ended, 0);
	memset(&ctl->bell, 0, sizeof(ctl->bell));
	atomic_store(&ctl->threads, 1);
}

void roami_job_await(struct roami_job *job, enum roami_joined state)
{
	for (unsigned i = 0; i < job->nodes; i++)
		for (unsigned turn = 0;
		     i != job->me && atomic_load(&roami_job_ctl(job, i)->joined) < state; turn++)
			job->node->env->spin(job->node, turn);
}

/*
 * Waits until the counters of all nodes are final, as each says right after the barrier, and
 * reports.
 */
static void job_report_all(struct roami_job *job)
{
	roami_job_await(job, ROAMI_JOINED_FINAL);
	roami_stats_end(job->node->stats);
	roami_job_verdict(job);
	roami_job_report(job);
}

/* Ends the job on node 0, once all others have met it: no node needs another one from now on. */
static void job_end_all(struct roami_job *job)
{
	job_report_all(job);
	if (job->watch != NULL)
		roami_watch_expect_end(job->watch);
	job->start->end(job);
}

/* Stops the node's own threads. */
static void job_stop(struct roami_job *job)
{
	roami_hang_stop(&job->hang);
	roami_service_stop(job->node);
}

void roami_job_end_here(struct roami_job *job)
{
	struct roami_ctl *first = roami_job_ctl(job, 0);
	uint32_t state;

	if (job->me != 0) {
		while ((state = atomic_load(&first->job)) != ROAMI_JOB_ENDING)
			roami_os_futex_wait(&first->job, state, 0);
		return;
	}
	atomic_store(&first->job, ROAMI_JOB_ENDING);
	roami_os_futex_wake(&first->job, INT32_MAX);
}

/* Checks the job before the program waits for its end, or ends. */
static void job_check(struct roami_job *job)
{
	if (job->main->check != NULL)
		job->main->check(job);
}

/* The function of this node has returned: waits for the others, and ends what threads do. */
static void job_return(struct roami_job *job)
{
	roami_seats_shut(&job->real);
	roami_state_set(job->node, ROAMI_STATE_RETURNED, 1, false);
	roami_lock_check_end(job->node);
	roami_barrier(job->node, ROAMI_END_ID, job->nodes);
	roami_job_settle(job);
	roami_sharing_end(job->node);
	roami_tx_report(job->node);
	roami_node_stop(job->node);
}

static enum roam_err job_wait(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[0];
	enum roam_err err = roami_job_seal(job);
	unsigned nodes = job->nodes;

	if (job->me == 0) /* on other nodes the function that has called this still runs */
		roami_team_join(job);
	job_check(job);
	if (err != ROAM_OK || job->life != ROAMI_JOB_TOGETHER || job->me != 0 ||
	    job->main->ended == NULL)
		return err;
	roami_statics_note(job);
	job_return(job);
	atomic_store(&ctl->returned, 0);
	roami_collect_gather(job);
	if (job->main->served != NULL)
		job->main->served(job);
	job_end_all(job);
	job_stop(job);
	job->main->ended(job);
	job->rounds++;
	roami_job_collect_parts(job);
	err = job_alone(job);
	if (err == ROAM_OK)
		roami_hang_start(&job->hang, job->node, &job->real, job->fds[job->me]);
	job_clear(job);
	job->parting = true;
	if (err == ROAM_OK)
		err = roami_stored_ended(job);
	if (err == ROAM_OK && roami_statics_report(job, nodes) > 0)
		job->found = true;
	if (err == ROAM_OK) {
		roami_guard_scan(job);
		roami_guard_report(job);
	}
	return err;
}

enum roam_err roami_job_wait_for_end(struct roami_job *job)
{
	enum roam_err err;

	pthread_mutex_lock(&job->ends);
	err = job_wait(job);
	pthread_mutex_unlock(&job->ends);
	return err;
}

void roami_job_serve(struct roami_job *job)
{
	roami_assert(job->life == ROAMI_JOB_TOGETHER);
	roami_guard_serve(job);
	job_return(job);
	roami_stats_end(job->node->stats);
	roami_state_stats(job->node);
	roami_state_set(job->node, ROAMI_STATE_JOINED, ROAMI_JOINED_FINAL, false);
	if (job->me != 0)
		job->start->end(job);
}

/* Warns if the program should have been saved or resumed, and has no point for that. */
static void job_points_warn(const struct roami_job *job)
{
	bool resumes = job->options.resume[0] != '\0' && !job->resumed;
	bool saves = job->options.checkpoint[0] != '\0' && job->saved_us == 0 && !job->resumed;

	if (job->me == 0 && (resumes || saves))
		fprintf(stderr,
			"roam: %s had no effect: the program has not called roam_resume_point\n",
			resumes ? "ROAM_RESUME" : "ROAM_CHECKPOINT");
}

static void job_leave(struct roami_job *job)
{
	roami_job_seal(job);
	roami_team_join(job);
	roami_team_warn(job);
	job_points_warn(job);
	job_check(job);
	if (job->life == ROAMI_JOB_TOGETHER && (job->me != 0 || job->main->ended == NULL))
		roami_shared_save(job); /* while the other nodes still serve */
	if (job->life == ROAMI_JOB_ALONE) {
		roami_guard_scan(job);
		roami_stats_end(job->node->stats);
		if (job->rounds == 0)
			roami_job_verdict(job);
		else
			roami_guard_report(job);
		roami_job_report(job);
	}
	if (job->life == ROAMI_JOB_TOGETHER && job->me == 0 && job->main->ended != NULL) {
		roami_job_wait_for_end(job);
	} else if (job->life == ROAMI_JOB_TOGETHER) {
		roami_statics_note(job);
		roami_job_serve(job);
		if (job->me == 0)
			job_end_all(job);
		else if (job->main->left != NULL)
			roami_collect_leave(job);
	}
	if (job->life == ROAMI_JOB_ALONE)
		roami_shared_save(job);
	if (job->me == 0)
		roami_stored_close(job);
	job_stop(job);
	roami_seats_shut(&job->real);
	roami_node_close(job->node);
	job->node = NULL;
	roami_shared_restore(job);
	if (job->main->left != NULL)
		job->main->left(job);
	if (job->start->leave != NULL)
		job->start->leave(job);
	roami_job_close_allocs(job);
	roami_os_vec_free(&job->notes, sizeof(struct roami_note));
	roami_os_vec_free(&job->held, sizeof(uint64_t));
	roami_job_part(job);
	job->life = ROAMI_JOB_OVER;
}

void roami_job_finish(struct roami_job *job)
{
	pthread_mutex_lock(&job->ends);
	if (job->node != NULL && roami_inside.call != NULL) /* exit in a handler, within a call */
		roami_wait_abandon(job->node);
	if (job->life != ROAMI_JOB_OVER) { /* by another thread */
		if (job->node != NULL && roami_tx_inside(job->node)) /* exit within a transaction */
			roami_tx_leave(job->node);
		job_leave(job);
	}
	pthread_mutex_unlock(&job->ends);
}
