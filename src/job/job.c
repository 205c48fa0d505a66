#include "job/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/region.h"
#include "base/thread.h"
#include "home/remote.h"
#include "msg/msg.h"
#include "page/race.h"
#include "run/open.h"
#include "sync/log.h"
#include "sync/state.h"
#include "sync/sync.h"

/*
 * Where the pages under the job's protocol begin on every node; what is for other protocols lies
 * below.  Free in every usual program, and outside the shadow of the sanitizers.
 */
#define APP_ADDRESS   0x200000000000
#define APP_BASE      ((uint8_t *)APP_ADDRESS)
#define STRING(x)     #x
#define STRING_OF(x)  STRING(x)

extern char **environ;

struct roami_ctl *roami_job_ctl(const struct roami_job *job, unsigned node)
{
	return job->bases[node] != NULL ? job->bases[node] : &job->far[node]->ctl;
}

/* -------------------------------------------------------------------------------------- memory */

/* Says what does not fit, and what would have to. */
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

	if (base == NULL)
		return job_cannot_map(job, "the memory of a node");
	roami_os_dontfork(base, job->layout.total);
	roami_os_dontdump(base, job->layout.total);
	job->bases[node] = base;
	return ROAM_OK;
}

enum roam_err roami_job_map_app(struct roami_job *job)
{
	uint64_t below = roami_layout_base(&job->layout, 0);

	job->app = roami_os_map_fd(APP_BASE - below, job->layout.heap_bytes, job->fds[job->me],
				   job->layout.heap);
	if (job->app == NULL)
		return job_cannot_map(job, "the shared heap at " STRING_OF(APP_ADDRESS));
	roami_os_dontfork(job->app, job->layout.heap_bytes);
	roami_os_dontdump(job->app, job->layout.heap_bytes);
	return ROAM_OK;
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

/* --------------------------------------------------------------------------------------- nodes */

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
		.engine = nodes > 1 ? job->engine : &roami_fault_plain,
		.bells = job->bells,
		.layout = job->layout,
		.bases = job->bases,
		.peers = job->far,
		.address = job->boot.address,
		.app = job->app,
		.fd = job->fds[job->me],
		.hosts = job->boot.nodes != 0 ? job->boot.hosts : 1,
		.aes = job->boot.aes != 0,
		.host_names = job->boot.hosts > 1 || job->control != 0 ? job->host_names : NULL,
		.traced = roami_os_traced(),
		.key = job->boot.nodes != 0 && !job->here ? job->boot.key : first->key,
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
	/* Those of a parent process are not here. */
	atomic_store(&job->real.helpers, job->bound.binding != NULL ? job->bound.threads : 0);
	err = roami_node_open(&job->node, &params);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot start the node");
	races_of(job->node)->blocks = blocks;
	roami_thread_self(job->node)->registered = true; /* ctl->threads begins with 1 */
	return ROAM_OK;
}

enum roam_err roami_job_join(struct roami_job *job, unsigned nodes, unsigned asked)
{
	struct roami_ctl *ctl = job->bases[job->me];
	enum roam_err err = ROAM_OK;

	job->real.on_fail = roami_job_failed;
	if (job->options.pin)
		roami_os_pin(job->me);
	if (job->options.bindings)
		roami_job_report_binding(job);
	if (job->here)
		roami_here_join(job, asked);
	if (job->bound.binding != NULL)
		err = roami_meet_join(job, asked);
	if (err == ROAM_OK)
		err = job_open_node(job, nodes);
	if (err == ROAM_OK && job->control != 0)
		err = roami_far_join(job, asked);
	if (err == ROAM_OK && job->bound.binding != NULL)
		err = roami_meet_open(job);
	if (err == ROAM_OK)
		err = roami_service_start(job->node);
	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot start the service thread");
	roami_hang_start(&job->hang, job->node, &job->real);
	roami_job_say(job);
	atomic_store(&ctl->pid, (int32_t)getpid());
	atomic_store(&ctl->joined, ROAMI_JOINED_READY);
	job->life = ROAMI_JOB_TOGETHER;
	return ROAM_OK;
}

static enum roam_err job_alone(struct roami_job *job)
{
	enum roam_err err;

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
	if (!job->reruns || job->rounds > 0) /* else it is one of several that are about to join */
		roami_hang_start(&job->hang, job->node, &job->real);
	return ROAM_OK;
}

/* --------------------------------------------------------------------------------------- start */

/* A node that ends in order still serves, else it takes the job down.  Whom it forked is none. */
static void job_on_exit(int status, void *arg)
{
	struct roami_job *job = arg;

	if (job->pid == getpid() && job->undecided && status != 0)
		roami_rerun_speak(job, true); /* a program of either kind says why it fails */
	if (status == 0 && job->life != ROAMI_JOB_OVER && job->pid == getpid())
		roami_job_finish(job);
	if (status == 0 && job->found && job->options.check_status != 0 && job->pid == getpid()) {
		fflush(NULL);
		_exit((int)job->options.check_status);
	}
}

static enum roam_err job_launched(struct roami_job *job)
{
	enum roam_err err = roami_far_place(job);

	if (err == ROAM_OK)
		err = roami_job_map_app(job);
	if (err == ROAM_OK)
		err = roami_job_open_alloc(job); /* everybody allocates the same until the seal */
	if (err == ROAM_OK)
		err = roami_job_join(job, job->nodes, 0);
	job->life = ROAMI_JOB_JOINED;
	return err;
}

/*
 * The first synchronisation of a launched job: all must have allocated alike; from now on each has
 * leases of its own.
 */
static enum roam_err job_seal_joined(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[job->me];
	enum roam_err err = ROAM_OK;

	roami_state_set(job->node, ROAMI_STATE_ALLOC_HASH, roami_job_hash_allocs(job), true);
	roami_rerun_copy(job, true);
	if (job->me == 0)
		err = roami_job_lease(job); /* before anybody else can */
	roami_barrier(job->node, ROAMI_SEAL_ID, job->nodes);
	roami_here_compare(job);
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
		roami_job_close_allocs(job);
		err = roami_job_open_alloc(job);
		if (err == ROAM_OK)
			err = roami_job_lease(job);
		if (err == ROAM_OK)
			roami_job_seal_allocs(job);
	}
	roami_rerun_copy(job, false);
	__atomic_store_n(&job->life, ROAMI_JOB_TOGETHER, __ATOMIC_RELEASE);
	return err;
}

/* The segment of a process that is alone, in the place of node 0; the agent's, if it is that. */
static enum roam_err job_first_segment(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	if (job->lent_count > 0 && job->boot.me == 0) {
		job->fds[0] = job->lent[0];
		job->made = 1;
	} else {
		err = roami_job_make_segments(job, 1);
	}
	return err == ROAM_OK ? roami_job_map_segment(job, 0) : err;
}

enum roam_err roami_job_start(struct roami_job *job, enum roami_kind kind)
{
	bool creates = kind != ROAMI_KIND_SPMD;
	enum roam_err err = job->failed;
	int lent = 0;

	if (job->life != ROAMI_JOB_NEW || err != ROAM_OK)
		return err; /* told the first time */
	err = roami_options_read(&job->options, environ, STDERR_FILENO);
	setenv("UCX_ERROR_SIGNALS", "", 0); /* Rule 1.9 */
	if (err == ROAM_OK)
		err = roami_boot_check(&job->options, &job->engine);
	job->failed = err;
	job->needs = ROAM_MODEL_TX;
	if (err != ROAM_OK)
		return err;
	roami_boot_layout(&job->layout, &job->options);
	if (sscanf(job->options.boot, "far:%d:%d", &job->control, &lent) >= 1)
		err = job->failed = roami_far_begin(job, lent);
	else if (job->options.boot[0] != '\0')
		err = job->failed = roami_here_begin(job);
	else
		err = job->failed = roami_meet_begin(job, creates);
	if (err != ROAM_OK)
		return err;
	job->reruns = creates && job->boot.nodes > 1;
	job->undecided = job->reruns && kind == ROAMI_KIND_UNKNOWN;
	if (job->boot.nodes != 0 && !job->reruns) {
		err = job_launched(job);
	} else {
		job->nodes = 1;
		err = job_first_segment(job);
		if (err == ROAM_OK)
			err = roami_job_map_app(job);
		if (err == ROAM_OK)
			err = roami_job_open_alloc(job);
		if (err == ROAM_OK)
			err = job_alone(job);
		if (err == ROAM_OK && job->reruns)
			err = roami_rerun_begin(job);
	}
	if (err == ROAM_OK)
		roami_stats_begin(job->node->stats);
	if (err == ROAM_OK && job->boot.me == 0)
		roami_boot_warn(&job->options);
	job->pid = getpid();
	if (err == ROAM_OK && !job->exit_hook)
		job->exit_hook = on_exit(job_on_exit, job) == 0;
	return err;
}

/* -------------------------------------------------------------------------------- CREATE, seal */

/* A forked node, from here to its end. */
__attribute__((noreturn)) static void job_child(struct roami_job *job, void (*fn)(void),
						pid_t parent)
{
	struct roami_ctl *creator;
	unsigned nodes;
	enum roam_err err = ROAM_OK;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	job->pid = getpid();
	job->hang.runs = false; /* the parent's, as these: */
	atomic_store(&job->real.seats.leaving, 0);
	memset(job->bases, 0, sizeof(job->bases)); /* not inherited */
	err = roami_job_map_segment(job, 0);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_TOLD);
	creator = job->bases[0];
	while (atomic_load(&creator->job) == ROAMI_JOB_OPEN)
		roami_os_futex_wait(&creator->job, ROAMI_JOB_OPEN, 0);
	nodes = atomic_load(&creator->nodes);
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
	 * The parent's node cannot be closed here: its segment is not mapped.  What it holds is a
	 * copy, and small.
	 */
	if (err == ROAM_OK) {
		job->node->self = NULL;
		if (!job->real.measured) /* forked before the seal */
			roami_real_init(&job->real, nodes, job->options.spin_us,
					job->options.chaos);
		err = roami_job_join(job, nodes, nodes);
	}
	if (err == ROAM_OK && job->me == 1)
		err = roami_watch_creator(job->node->segments, nodes, parent, &job->real.helpers);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_TOLD);
	roami_job_seal_allocs(job);
	roami_stats_begin(job->node->stats);
	fn();
	roami_statics_note(job);
	roami_job_serve(job);
	job->life = ROAMI_JOB_OVER;
	roami_settle_leave(job);
	fflush(NULL);
	/* The creator does not wait for the kernel, which takes everything back at once. */
	atomic_store(&roami_job_ctl(job, job->me)->joined, ROAMI_JOINED_LEFT);
	_exit(0);
}

static enum roam_err job_fork(struct roami_job *job, unsigned node, void (*fn)(void))
{
	pid_t parent = getpid(), pid;

	/* A thread of ours may hold what it would never let go of in the child. */
	roami_hang_stop(&job->hang);
	fflush(NULL);
	job->forking = true;
	pid = fork();
	job->forking = false;
	if (pid < 0)
		return roami_job_says(job, ROAM_ESYSTEM, "cannot fork a node");
	if (pid == 0) {
		job->me = node;
		job_child(job, fn, parent);
	}
	job->pids[node] = pid;
	return ROAM_OK;
}

/* What nodes that ended have left behind. */
static void job_part(struct roami_job *job)
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
		roami_os_unmap(job->bases[i], job->layout.total);
		job->bases[i] = NULL;
		close(job->fds[i]);
		job->pids[i] = 0;
	}
	job->made = 1;
}

static enum roam_err job_may_create(struct roami_job *job, unsigned nodes)
{
	if (job->reruns && job->life == ROAMI_JOB_ALONE && job->rounds > 0) {
		fprintf(stderr, "roam: nodes cannot be created again: the launcher's have ended\n");
		return ROAM_ESTATE;
	}
	if (job->launched && !job->reruns) {
		roami_job_says_spmd(job, job->boot.nodes > 1 ? 0 : nodes);
		return ROAM_ESTATE;
	}
	if (job->life != ROAMI_JOB_ALONE || job->launched) {
		fprintf(stderr, "roam: nodes cannot be created here: the job is sealed\n");
		return ROAM_ESTATE;
	}
	if (nodes > job->options.nodes_max) {
		fprintf(stderr, "roam: %u nodes asked for, at most %llu allowed (ROAM_NODES_MAX)\n",
			nodes, (unsigned long long)job->options.nodes_max);
		return ROAM_ENODES;
	}
	if (nodes > 1 &&
	    !roami_boot_space(&job->layout, nodes, job->layout.total + job->layout.heap_bytes))
		return ROAM_ENOMEM;
	job_part(job);
	return ROAM_OK;
}

/* Node 0 and `nodes` - 1 children, forked already or about to be, become a job. */
static enum roam_err job_seal(struct roami_job *job, unsigned nodes, void (*fn)(void))
{
	struct roami_ctl *ctl = job->bases[0];
	enum roam_err err = roami_lone_end(job);

	if (err != ROAM_OK)
		return roami_job_says(job, err, "cannot map the shared heap");
	/* In later rounds also what other nodes had allocated. */
	atomic_store(&ctl->creator_end,
		     job->leases ? job->layout.heap_bytes
				 : (job->high + ROAMI_PAGE - 1) & ~(uint64_t)(ROAMI_PAGE - 1));
	roami_job_seal_allocs(job);
	err = roami_job_lease(job);
	while (roami_msg_poll(job->node) > 0)
		; /* what this node sent itself while alone */
	roami_os_discard((uint8_t *)ctl + job->layout.rings,
			 job->layout.headers - job->layout.rings);
	for (unsigned i = 1; i < nodes && err == ROAM_OK; i++)
		err = roami_job_map_segment(job, i);
	if (err != ROAM_OK)
		return err;
	job->nodes = nodes;
	roami_job_mark_bytes(job);
	roami_job_settle_blocks(job);
	atomic_store(&ctl->nodes, nodes);
	roami_real_init(&job->real, nodes, job->options.spin_us, job->options.chaos);
	for (unsigned i = 1; fn != NULL && i < nodes && err == ROAM_OK; i++)
		err = job_fork(job, i, fn);
	if (err == ROAM_OK) {
		/* The children may go on before we are ready: what they send waits in our rings. */
		atomic_store(&ctl->job, ROAMI_JOB_SEALED);
		roami_os_futex_wake(&ctl->job, INT32_MAX);
		err = roami_job_join(job, nodes, nodes);
	}
	if (err == ROAM_OK)
		err = roami_watch_start(&job->watch, job->node->segments, nodes, job->pids, NULL,
					&job->real.helpers);
	if (err != ROAM_OK)
		roami_job_says(job, err, "cannot begin with the nodes");
	for (unsigned i = 1; i < nodes && err != ROAM_OK; i++)
		if (job->pids[i] > 0)
			kill(job->pids[i], SIGKILL);
	return err;
}

enum roam_err roami_job_create(struct roami_job *job, void (*fn)(void))
{
	enum roam_err err = ROAM_OK;

	job->undecided = false;
	if (job->reruns && job->rounds == 0)
		return roami_rerun_create(job, fn);
	err = job_may_create(job, job->created + 1);
	if (err == ROAM_OK)
		roami_statics_begin(job);
	if (err == ROAM_OK)
		err = roami_job_make_segments(job, (unsigned)job->options.nodes_max);
	if (err == ROAM_OK)
		err = job_fork(job, job->created, fn);
	if (err == ROAM_OK)
		job->created++;
	return err;
}

void roami_job_decide(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	pthread_mutex_lock(&job->seal);
	if (job->undecided)
		err = roami_rerun_spmd(job);
	pthread_mutex_unlock(&job->seal);
	if (err != ROAM_OK)
		_exit(ROAMI_EXIT_TOLD); /* there is neither this heap nor the other one */
}

enum roam_err roami_job_seal(struct roami_job *job)
{
	enum roam_err err = ROAM_OK;

	if (job->undecided)
		roami_job_decide(job);
	if (job->reruns) /* before its first CREATE it is alone indeed */
		return job->life == ROAMI_JOB_ALONE && job->rounds == 0 && job->created > 1
			       ? roami_rerun_seal(job, job->created, NULL)
			       : ROAM_OK;
	if (job->launched) {
		pthread_mutex_lock(&job->seal);
		if (job->life == ROAMI_JOB_JOINED)
			err = job_seal_joined(job);
		pthread_mutex_unlock(&job->seal);
		return err;
	}
	if (job->life != ROAMI_JOB_ALONE || job->created == 1)
		return ROAM_OK;
	return job_seal(job, job->created, NULL);
}

/*
 * All nodes are there, and all come here, for main has run on each of them up to now; from here it
 * goes on on node 0 alone.
 */
static enum roam_err job_create_launched(struct roami_job *job, void (*fn)(void), unsigned nodes)
{
	bool joined = job->life == ROAMI_JOB_JOINED;
	enum roam_err err;

	if (nodes != job->boot.nodes) {
		roami_job_says_spmd(job, nodes);
		return ROAM_ESTATE;
	}
	err = roami_job_seal(job);
	if (err != ROAM_OK)
		return err;
	if (!joined) /* what node 0 has written is for all to see, as at the seal */
		roami_barrier(job->node, ROAMI_SEAL_ID, job->nodes);
	job->reruns = nodes > 1;
	fn();
	if (job->me == 0)
		return ROAM_OK;
	roami_rerun_end(job);
}

enum roam_err roami_job_create_all(struct roami_job *job, void (*fn)(void), unsigned nodes)
{
	enum roam_err err;

	job->undecided = false;
	if (job->launched && !job->reruns && job->life != ROAMI_JOB_OVER)
		return job_create_launched(job, fn, nodes);
	if (job->reruns && job->rounds == 0 && job->life == ROAMI_JOB_ALONE) {
		err = roami_rerun_seal(job, nodes, fn);
		if (err == ROAM_OK)
			fn();
		roami_statics_note(job);
		return err;
	}
	err = job_may_create(job, nodes);
	if (err != ROAM_OK)
		return err;
	if (nodes == 1)
		roami_lone_begin(job);
	roami_statics_begin(job);
	if (nodes > 1) {
		err = roami_job_make_segments(job, nodes);
		if (err == ROAM_OK)
			err = job_seal(job, nodes, fn);
	}
	if (err == ROAM_OK)
		fn();
	roami_statics_note(job);
	return err;
}

/* ----------------------------------------------------------------------------------------- end */

/*
 * Node 0 forgets everything that was true of the nodes that ended, so that a new round can begin.
 */
static void job_clear(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[0];

	roami_os_discard((uint8_t *)ctl + job->layout.rings, job->layout.heap - job->layout.rings);
	if (!job->reruns) /* of those executed again some may still look, and more never come */
		atomic_store(&ctl->job, ROAMI_JOB_OPEN);
	atomic_store(&ctl->creator_end, 0);
	ctl->boot++;
	atomic_store(&ctl->ended, 0);
	memset(&ctl->bell, 0, sizeof(ctl->bell));
	atomic_store(&ctl->threads, 1);
}

static void job_await_others(struct roami_job *job, enum roami_joined state)
{
	for (unsigned i = 0; i < job->nodes; i++)
		for (unsigned turn = 0;
		     i != job->me && atomic_load(&roami_job_ctl(job, i)->joined) < state; turn++)
			job->node->env->spin(job->node, turn);
}

/* The counters of all are final when they say so; they do so right after the barrier. */
static void job_report_all(struct roami_job *job)
{
	job_await_others(job, ROAMI_JOINED_FINAL);
	roami_stats_end(job->node->stats);
	roami_job_verdict(job);
	roami_job_report(job);
}

/* Node 0, with nothing more to ask of the others. */
static void job_end(struct roami_job *job)
{
	struct roami_ctl *ctl = roami_job_ctl(job, 0);

	if (job->control != 0) { /* the launcher must know before anybody leaves */
		roami_far_end(job);
		return;
	}
	atomic_store(&ctl->job, ROAMI_JOB_ENDING);
	roami_os_futex_wake(&ctl->job, INT32_MAX);
	if (roami_meet_apart(job))
		roami_meet_end(job);
}

enum roam_err roami_job_wait_for_end(struct roami_job *job)
{
	struct roami_ctl *ctl = job->bases[0];
	enum roam_err err = roami_job_seal(job);
	unsigned nodes = job->nodes;

	roami_rerun_check(job);
	if (err != ROAM_OK || job->life != ROAMI_JOB_TOGETHER || job->me != 0 ||
	    (job->launched && !job->reruns))
		return err;
	roami_statics_note(job);
	roami_seats_shut(&job->real);
	roami_state_set(job->node, ROAMI_STATE_RETURNED, 1, false);
	roami_lock_check_end(job->node);
	roami_barrier(job->node, ROAMI_END_ID, job->nodes);
	roami_node_stop(job->node);
	atomic_store(&ctl->returned, 0);
	roami_settle_gather(job);
	if (job->reruns)
		roami_settle_take(job); /* by message, while the others serve */
	job_report_all(job);
	if (job->watch != NULL)
		roami_watch_expect_end(job->watch);
	job_end(job);
	roami_hang_stop(&job->hang);
	roami_service_stop(job->node);
	if (!job->reruns) {
		roami_settle_take(job); /* while the others drop their copies */
		job_await_others(job, ROAMI_JOINED_LEFT);
	} else {
		atomic_store(&ctl->joined, ROAMI_JOINED_LEFT);
	}
	job->rounds++;
	for (unsigned i = 0; i < job->node->domain_count; i++)
		roami_pool_settle(&job->node->segments[0].pool[i]);
	err = job_alone(job);
	job_clear(job);
	job->parting = true;
	if (err == ROAM_OK && roami_statics_report(job, nodes) > 0)
		job->found = true;
	return err;
}

void roami_job_serve(struct roami_job *job)
{
	struct roami_ctl *first = job->control ? &job->far[0]->ctl : roami_job_ctl(job, 0);
	uint32_t state;

	roami_seats_shut(&job->real);
	roami_state_set(job->node, ROAMI_STATE_RETURNED, 1, false);
	roami_lock_check_end(job->node);
	roami_barrier(job->node, ROAMI_END_ID, job->nodes);
	roami_node_stop(job->node);
	roami_stats_end(job->node->stats);
	roami_state_stats(job->node);
	roami_state_set(job->node, ROAMI_STATE_JOINED, ROAMI_JOINED_FINAL, false);
	if (job->me != 0 && roami_meet_apart(job))
		roami_meet_end(job);
	else if (job->me != 0)
		while ((state = atomic_load(&first->job)) != ROAMI_JOB_ENDING)
			roami_os_futex_wait(&first->job, state, 0);
}

void roami_job_finish(struct roami_job *job)
{
	roami_job_seal(job);
	roami_rerun_check(job);
	if (job->life == ROAMI_JOB_ALONE) {
		roami_stats_end(job->node->stats);
		if (job->rounds == 0)
			roami_job_verdict(job);
		roami_job_report(job);
	}
	if (job->life == ROAMI_JOB_TOGETHER && job->me == 0 && (!job->launched || job->reruns)) {
		roami_job_wait_for_end(job);
	} else if (job->life == ROAMI_JOB_TOGETHER) {
		roami_job_serve(job);
		if (job->me == 0) {
			job_report_all(job);
			if (job->watch != NULL)
				roami_watch_expect_end(job->watch);
			job_end(job);
		}
		roami_hang_stop(&job->hang);
		roami_service_stop(job->node);
	}
	roami_hang_stop(&job->hang);
	roami_seats_shut(&job->real);
	roami_node_close(job->node);
	job->node = NULL;
	roami_meet_leave(job);
	roami_job_close_allocs(job);
	roami_os_vec_free(&job->blocks, sizeof(struct roami_place));
	job_part(job);
	job->life = ROAMI_JOB_OVER;
}
