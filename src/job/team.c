#include "job/team.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/thread.h"
#include "fault/signals.h"
#include "job/job.h"
#include "os/inside.h"
#include "sync/state.h"
#include "sync/sync.h"

struct roami_teammate {
	struct roami_job *job;
	void (*fn)(void);
	unsigned number;
	pthread_t thread;
};

unsigned roami_team_mate(const struct roami_job *job)
{
	return roami_team_fixed(job) ? roami_thread_self(job->node)->mate : 0;
}

bool roami_team_stranger(const struct roami_job *job)
{
	return roami_team_fixed(job) && !roami_thread_self(job->node)->registered &&
	       atomic_load(&job->team.running) != 0;
}

unsigned roami_team_process(const struct roami_job *job, unsigned node)
{
	return node * job->team.threads;
}

unsigned roami_team_node(const struct roami_job *job, unsigned process)
{
	return job->team.threads > 1 ? process / job->team.threads : process;
}

enum roam_err roami_team_note(struct roami_job *job, void (*fn)(void))
{
	struct roami_vec *functions = &job->team.functions;
	size_t count = functions->count == 0 ? 2 : 1; /* the first function stands for main */
	void (**at)(void) = roami_os_vec_grow(functions, sizeof(fn), count);

	if (at == NULL)
		return ROAM_ENOMEM;
	if (functions->count == 0)
		roami_statics_begin(job); /* until the seal */
	at[0] = at[count - 1] = fn;
	functions->count += count;
	return ROAM_OK;
}

/*
 * The largest number of threads of a node that divides `processes`, at most the domain's
 * processors.
 */
static unsigned team_auto(unsigned processes)
{
	unsigned threads = roami_os_domain_cpus();

	while (threads > 1 && processes % threads != 0)
		threads--;
	return threads;
}

void roami_team_begin(struct roami_job *job)
{
	job->automatic = job->options.threads == ROAMI_TEAM_AUTO;
	if (job->automatic && job->boot.nodes > 0)
		job->options.threads = roami_os_domain_cpus();
	job->team.threads = (unsigned)job->options.threads;
}

unsigned roami_team_threads(const struct roami_job *job)
{
	return job->team.threads;
}

enum roam_err roami_team_nodes(struct roami_job *job, unsigned processes, unsigned *nodes_p)
{
	if (job->automatic && job->boot.nodes == 0)
		job->team.threads = team_auto(processes);
	*nodes_p = processes / job->team.threads;
	if (processes % job->team.threads == 0)
		return ROAM_OK;
	fprintf(stderr,
		"roam: %u processes cannot be divided among nodes of %u threads each "
		"(ROAM_THREADS)\n",
		processes, job->team.threads);
	return ROAM_EINVAL;
}

void roami_team_waits(struct roami_job *job, unsigned here)
{
	roami_real_init(&job->real, here, job->team.threads, job->options.spin_us,
			job->options.chaos);
}

/* The number of this node among those of its host. */
static unsigned team_place(const struct roami_job *job)
{
	unsigned before = 0;

	if (job->boot.nodes == 0)
		return job->me;
	for (unsigned node = 0; node < job->me; node++)
		before += job->boot.host[node] == job->boot.host[job->me];
	return before;
}

void roami_team_bind(struct roami_job *job)
{
	if (job->automatic)
		roami_os_domain_take(team_place(job));
	if (job->options.pin && job->team.threads == 1)
		roami_os_pin(team_place(job));
}

bool roami_team_fixed(const struct roami_job *job)
{
	return job->team.mates != NULL;
}

void roami_team_dying(struct roami_job *job)
{
	struct roami_thread *self;
	uint32_t thread, none = 0;

	if (!roami_team_fixed(job) || job->pid != getpid() || !roami_seated(job->node))
		return;
	self = roami_thread_self(job->node);
	if (!self->registered)
		return;
	thread = roami_boot_dying_pack(roami_team_process(job, job->me) + self->mate, self->mate);
	if (!atomic_compare_exchange_strong(&roami_job_ctl(job, job->me)->dying, &none, thread))
		return;
	if (job->start->dying != NULL)
		job->start->dying(job, thread);
}

static void team_dying(void *arg)
{
	roami_team_dying(arg);
}

/* -------------------------------------------------------------------------------------- threads */

/* Called when a thread's function returns or calls pthread_exit. */
static void team_left(void *arg)
{
	struct roami_job *job = arg;

	roami_team_came(job->node);
	roami_thread_self(job->node)->registered = false;
	roami_thread_self(job->node)->mate = 0;
	roami_state_set(job->node, ROAMI_STATE_THREADS, UINT64_MAX, true);
	atomic_fetch_sub(&job->team.running, 1);
	roami_changed(job->node, job->me);
}

/* Gives each of the node's threads a processor of its own, out of the mask that all begin with. */
static void team_pin(const struct roami_job *job, unsigned number)
{
	roami_os_pin(team_place(job) * job->team.threads + number);
}

static void *team_main(void *arg)
{
	struct roami_teammate *self = arg;
	struct roami_thread *thread = roami_thread_self(self->job->node);

	if (self->job->options.pin)
		team_pin(self->job, self->number);
	roami_stats_team(self->job->node->stats, self->job->team.threads, self->number);
	thread->registered = true; /* the thread was counted before */
	thread->mate = self->number;
	pthread_cleanup_push(team_left, self->job);
	self->fn();
	pthread_cleanup_pop(1);
	return NULL;
}

struct team_call {
	struct roami_job *job;
	void (*then)(struct roami_job *job);
};

static void team_called(void *arg)
{
	const struct team_call *call = arg;

	roami_job_due(call->job);
	if (call->then != NULL)
		call->then(call->job);
	roami_node_fail(call->job->node,
			"the function of node 0 ended by pthread_exit, which would end main: it "
			"must return");
}

void roami_team_call(struct roami_job *job, void (*fn)(void), void (*then)(struct roami_job *job))
{
	struct team_call call = {job, then};

	pthread_cleanup_push(team_called, &call);
	fn();
	pthread_cleanup_pop(then != NULL);
}

void (*roami_team_function(const struct roami_job *job, unsigned number, void (*fn)(void)))(void)
{
	void (*const *functions)(void) = (void *)job->team.functions.items;
	size_t process = job->me * (size_t)job->team.threads + number;

	return process < job->team.functions.count ? functions[process] : fn;
}

static enum roam_err team_thread(struct roami_job *job, unsigned number, void (*fn)(void))
{
	struct roami_teammate *self = &job->team.mates[number - 1];
	char name[16]; /* as the kernel has it */
	int err;

	*self = (struct roami_teammate){job, roami_team_function(job, number, fn), number, 0};
	err = pthread_create(&self->thread, NULL, team_main, self);
	if (err == 0) {
		snprintf(name, sizeof(name), "roam %u", job->me * job->team.threads + number);
		pthread_setname_np(self->thread, name);
		return ROAM_OK;
	}
	errno = err;
	return roami_job_says(job, ROAM_ESYSTEM, "cannot start a thread of the node");
}

enum roam_err roami_team_start(struct roami_job *job, void (*fn)(void))
{
	unsigned threads = job->team.threads;
	enum roam_err err = ROAM_OK;

	job->team.started = true;
	if (threads == 1)
		return ROAM_OK;
	roami_assert(job->team.mates == NULL);
	job->team.mates = calloc(threads - 1, sizeof(*job->team.mates));
	if (job->team.mates == NULL)
		return roami_job_says(job, ROAM_ENOMEM, "cannot start the threads of the node");
	if (roami_team_set(job->node, threads) != ROAM_OK)
		return roami_job_says(job, ROAM_ENOMEM, "cannot start the threads of the node");
	roami_state_set(job->node, ROAMI_STATE_THREADS, threads - 1, true);
	atomic_store(&job->team.running, threads - 1);
	if (job->nodes == 1)
		job->real.fits = threads <= roami_os_cpus();
	roami_stats_team(job->node->stats, threads, 0);
	roami_os_mask_get(&job->team.mask);
	roami_signals_last(team_dying, job); /* without that the node alone is named */
	for (unsigned number = 1; number < threads && err == ROAM_OK; number++)
		err = team_thread(job, number, fn);
	if (job->options.pin)
		team_pin(job, 0);
	return err;
}

/* ------------------------------------------------------------------------------------------ end */

void roami_team_warn(const struct roami_job *job)
{
	if (job->me == 0 && job->team.threads > 1 && !job->automatic && !job->team.started)
		fprintf(stderr,
			"roam: ROAM_THREADS=%u had no effect: the program has not called CREATE\n",
			job->team.threads);
}

bool roami_team_ends(const struct roami_job *job, const char *call)
{
	unsigned mate = roami_team_mate(job);

	if (mate == 0)
		return true;
	fprintf(stderr,
		"roam: node %u: %s by process %u, a thread of that node: only the node's first "
		"thread may, others return from their function\n",
		job->me, call, roami_team_process(job, job->me) + mate);
	return false;
}

static bool team_over(void *arg)
{
	struct roami_team *team = arg;

	return atomic_load(&team->running) == 0;
}

void roami_team_join(struct roami_job *job)
{
	struct roami_team *team = &job->team;
	bool counted;

	roami_os_vec_free(&team->functions, sizeof(void (*)(void)));
	if (team->mates == NULL)
		return;
	roami_team_came(job->node);
	/*
	 * While it waits here, this thread counts as a helper, which cannot go on by itself.  One
	 * that has come in the first one's place is not counted among the node's.
	 */
	counted = roami_thread_self(job->node)->registered;
	atomic_fetch_add(&job->real.helpers, 1);
	roami_state_set(job->node, ROAMI_STATE_THREADS, counted ? UINT64_MAX : 0, true);
	roami_inside.free = true;
	roami_wait(job->node, team_over, team);
	roami_inside.free = false;
	for (unsigned number = 1; number < team->threads; number++)
		pthread_join(team->mates[number - 1].thread, NULL);
	roami_signals_last(NULL, NULL);
	roami_state_set(job->node, ROAMI_STATE_THREADS, counted ? 1 : 0, true);
	atomic_fetch_sub(&job->real.helpers, 1);
	if (job->nodes == 1)
		job->real.fits = true;
	if (job->options.pin)
		roami_os_mask_set(&team->mask);
	roami_team_set(job->node, 1);
	free(team->mates);
	team->mates = NULL;
}
