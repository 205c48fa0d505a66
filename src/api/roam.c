/* The public API (with heap.c): argument checks, and the one default job behind it. */
#include "roam/roam.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/api.h"
#include "base/thread.h"
#include "dp/dp.h"
#include "fault/signals.h"
#include "run/wait.h"
#include "job/job.h"
#include "job/team.h"
#include "launch/starts.h"
#include "page/race.h"
#include "pastset/job/server.h"
#include "roam/protocol.h"
#include "sync/sync.h"
#include "sync/tx.h"

#define STRING(x)       #x
#define DOTTED(a, b, c) STRING(a) "." STRING(b) "." STRING(c)

static const struct roami_room *const job_extensions[] = {&roami_past_room, &roami_dp_extension,
								 NULL};

struct roami_job roami_api_job = {.seal = PTHREAD_MUTEX_INITIALIZER,
				  .opening = PTHREAD_MUTEX_INITIALIZER,
				  .ends = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
				  .extensions = job_extensions};
static struct roami_job *const job = &roami_api_job;

const char *roam_version(void)
{
	return DOTTED(ROAM_VERSION_MAJOR, ROAM_VERSION_MINOR, ROAM_VERSION_PATCH);
}

uint64_t roam_clock_us(void)
{
	return roami_os_now_ns() / 1000;
}

/* ---------------------------------------------------------------------------- starting, ending */

static enum roam_err job_start(enum roami_kind kind)
{
	if (job->life == ROAMI_JOB_OVER)
		return ROAM_ESTATE;
	if (job->life != ROAMI_JOB_NEW)
		return ROAM_OK;
	if (roami_api_paired())
		return ROAM_ESTATE;
	if (job->failed == ROAM_OK)
		pthread_atfork(NULL, NULL, roami_api_forked);
	return roami_job_start(job, kind, roami_starts);
}

enum roam_err roam_start(void)
{
	return job_start(ROAMI_KIND_SPMD);
}

/* By a call that both kinds of programs begin with. */
enum roam_err roami_api_begin(void)
{
	return job_start(ROAMI_KIND_UNKNOWN);
}

enum roam_err roam_start_main(void)
{
	return job_start(ROAMI_KIND_CREATES);
}

/* Started, and no nodes have been created that are still to be sealed. */
static inline bool job_settled(void)
{
	enum roami_job_life life = __atomic_load_n(&job->life, __ATOMIC_ACQUIRE);

	return life == ROAMI_JOB_TOGETHER || (life == ROAMI_JOB_ALONE && job->created == 1 &&
					      job->main == &roami_main_forks);
}

bool roami_api_transacts(void)
{
	struct roami_node *node = roami_api_node_now();

	if (__builtin_expect(node == NULL || !roami_tx_inside(node), 1))
		return false;
	roami_tx_look(node);
	return true;
}

/* Before anything that synchronises: started, and sealed if nodes were created. */
static enum roam_err job_ready(void)
{
	enum roam_err err;

	if (__builtin_expect(job_settled(), 1))
		return roami_api_transacts() ? ROAM_ESTATE : ROAM_OK;
	err = roam_start();
	return err == ROAM_OK ? roami_job_seal(job) : err;
}

enum roam_err roami_api_node(struct roami_node **node_p, uint64_t *round_p)
{
	enum roam_err err = job_ready();

	*node_p = job->node;
	*round_p = job->real.round;
	return err;
}

struct roami_node *roami_api_node_now(void)
{
	unsigned life = (unsigned)__atomic_load_n(&job->life, __ATOMIC_ACQUIRE);

	return life == ROAMI_JOB_TOGETHER || life == ROAMI_JOB_ALONE ? job->node : NULL;
}

bool roami_api_begun(void)
{
	return __atomic_load_n(&job->life, __ATOMIC_ACQUIRE) != ROAMI_JOB_NEW;
}

static bool job_over_touch(void *arg, siginfo_t *info, const void *context)
{
	char line[120];
	int length = snprintf(line, sizeof(line),
			      "roam: the heap was touched at %p, after roam_finish "
			      "(ROAM_STRICT=1)\n", info->si_addr);

	(void)arg;
	(void)context;
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return false;
	return false;
}

/* What is left of the heap is no longer shared: no mistake of the program shows there. */
static void job_over_shut(void)
{
	if (mprotect(job->app, job->layout.heap_bytes, PROT_NONE) == 0)
		roami_signals_add(SIGSEGV, job->app, job->layout.heap_bytes, job_over_touch, NULL);
}

static enum roam_err job_finish(void)
{
	INSIDE_OF("roam_finish");

	if (roami_api_transacts())
		return ROAM_ESTATE;
	if (job->life == ROAMI_JOB_NEW || job->life == ROAMI_JOB_OVER)
		return ROAM_OK;
	if (!roami_team_ends(job, inside))
		return ROAM_ESTATE;
	roami_job_finish(job);
	if (job->options.strict)
		job_over_shut();
	return ROAM_OK;
}

enum roam_err roam_finish(void)
{
	roami_api_tx_due();
	return job_finish();
}

unsigned roam_node(void)
{
	if (roami_job_undecided(job))
		roami_job_decide(job);
	return roami_team_fixed(job) ? roami_team_process(job, job->me) + roami_team_mate(job)
				      : job->me;
}

unsigned roam_nodes(void)
{
	if (roami_job_undecided(job))
		roami_job_decide(job);
	if (job->life == ROAMI_JOB_NEW)
		return 1;
	return roami_team_fixed(job) ? roami_team_process(job, job->nodes) : job->nodes;
}

enum roam_err roam_needs(enum roam_model model)
{
	enum roam_err err = roami_api_begin();

	if ((unsigned)model > ROAM_MODEL_SCC)
		return ROAM_EINVAL;
	if (err == ROAM_OK)
		roami_job_needs(job, model);
	return err;
}

/* Programs end without a word if CREATE fails, because roam says why. */
static enum roam_err create_of_none(const char *call)
{
	fprintf(stderr, "roam: %s: needs a function and at least one node\n", call);
	return ROAM_EINVAL;
}

enum roam_err roam_create(void (*fn)(void))
{
	enum roam_err err = roam_start_main();

	if (fn == NULL)
		return create_of_none(__func__);
	if (roami_api_transacts())
		return ROAM_ESTATE;
	return err == ROAM_OK ? roami_job_create(job, fn) : err;
}

enum roam_err roam_create_all(void (*fn)(void), unsigned nodes)
{
	enum roam_err err = roam_start_main();

	if (fn == NULL || nodes == 0)
		return create_of_none(__func__);
	if (roami_api_transacts())
		return ROAM_ESTATE;
	return err == ROAM_OK ? roami_job_create_all(job, fn, nodes) : err;
}

enum roam_err roam_distribute(void *variable, size_t bytes)
{
	enum roam_err err = roami_api_begin();

	if (variable == NULL || bytes == 0)
		return ROAM_EINVAL;
	return err == ROAM_OK ? roami_rerun_distribute(job, variable, bytes) : err;
}

static enum roam_err job_wait_for_end(void)
{
	INSIDE_OF("roam_wait_for_end");
	enum roam_err err = roam_start();

	if (roami_api_transacts())
		return ROAM_ESTATE;
	if (err == ROAM_OK && !roami_team_ends(job, inside))
		err = ROAM_ESTATE;
	return err == ROAM_OK ? roami_job_wait_for_end(job) : err;
}

enum roam_err roam_wait_for_end(void)
{
	roami_api_tx_due();
	return job_wait_for_end();
}

enum roam_err roam_threads_fixed(void)
{
	enum roam_err err = roami_api_begin();

	return err == ROAM_OK ? roami_job_fix_threads(job) : err;
}

/* Wrong use that returned `err`; in the function that the program calls. */
#define MISUSED(kind, err, object)                                          \
	roami_misused(job->node, ROAMI_MISUSE_##kind, err, __func__, object, \
		      __builtin_return_address(0))

/* Those of a team are neither more nor fewer than the seal has fixed. */
static enum roam_err job_fixed(const char *call)
{
	if (!roami_team_fixed(job))
		return ROAM_OK;
	fprintf(stderr,
		"roam: node %u: %s: the threads of this job are fixed (ROAM_THREADS=%u)\n", job->me,
		call, roami_team_threads(job));
	return ROAM_ESTATE;
}

enum roam_err roam_thread_init(void)
{
	INSIDE;
	enum roam_err err = job_ready();

	if (err == ROAM_OK)
		err = roami_job_registers(job);
	if (err == ROAM_OK)
		err = job_fixed(__func__);
	if (err != ROAM_OK)
		return err;
	roami_os_faults_unblock();
	err = roami_thread_register(job->node, true);
	return err != ROAM_ESTATE ? err : MISUSED(TWICE, err, NULL);
}

static enum roam_err thread_fini(const void *caller)
{
	INSIDE_OF("roam_thread_fini");
	enum roam_err err;

	if (job->life == ROAMI_JOB_NEW || job->life == ROAMI_JOB_OVER || roami_api_transacts())
		return ROAM_ESTATE;
	if (job_fixed(inside) != ROAM_OK)
		return ROAM_ESTATE;
	err = roami_thread_register(job->node, false);
	if (err == ROAM_ESTATE)
		roami_misused(job->node, ROAMI_MISUSE_NEVER, err, inside, NULL, caller);
	return err;
}

enum roam_err roam_thread_fini(void)
{
	roami_api_tx_due();
	return thread_fini(__builtin_return_address(0));
}

void roami_api_die(const char *text)
{
	if (job->node != NULL)
		roami_node_fail(job->node, "%s", text);
	fprintf(stderr, "roam: %s\n", text);
	abort();
}

void roami_api_jumped(const char *call, const char *still)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "%s is called by a thread that is within %s: a signal handler has jumped out of "
		 "that, or calls roam",
		 call, still);
	roami_api_die(text);
}

unsigned roami_api_place(unsigned number)
{
	return roami_team_node(job, number);
}

unsigned roami_api_number(unsigned node)
{
	return roami_team_fixed(job) ? roami_team_process(job, node) : node;
}

bool roami_api_over(void)
{
	return job->life == ROAMI_JOB_OVER;
}

/* ----------------------------------------------------------------------------- synchronisation */

/* An object's id: its address; 0 and the library's own ids are refused. */
static enum roam_err object_ready(const void *object, const char *call, const void *caller)
{
	if ((uintptr_t)object < 64)
		return roami_misused(roami_api_node_now(), ROAMI_MISUSE_OBJECT, ROAM_EINVAL, call,
				     object, caller);
	return job_ready();
}

/* In the function that the program calls. */
#define READY(object)   object_ready(object, __func__, __builtin_return_address(0))
#define OBJECT(pointer) ((uint64_t)(uintptr_t)(pointer))

/* Records what was synchronised on, for the race detector. */
static enum roam_err synced(enum roam_err err, enum roami_synced_kind kind, uint64_t object)
{
	if (err == ROAM_OK)
		roami_race_synced(job->node, kind, object);
	return err;
}

/*
 * An object is free until it is used, so there is nothing to do.  It must not seal: SPLASH programs
 * may init between their CREATEs.
 */
static enum roam_err object_init(const void *object)
{
	if ((uintptr_t)object < 64)
		return ROAM_EINVAL;
	return roami_api_begin();
}

enum roam_err roam_lock_init(const void *lock)
{
	return object_init(lock);
}

/*
 * Tries `fn`, a lock or an unlock that neither waits nor sends; false: nothing was done.  It is no
 * cancellation point, so cancellation need not be disabled, which would take as long as the rest,
 * unless it is asynchronous.
 */
static inline bool quickly(const char *call, const void *object,
			   bool (*fn)(struct roami_node *node, uint64_t id))
{
	bool done;

	if (roami_inside.call != NULL || (uintptr_t)object < 64 || !job_settled() ||
	    tx_is_open(job->node) || roami_inside_asynchronous())
		return false;
	roami_inside.call = call;
	atomic_signal_fence(memory_order_seq_cst);
	done = fn(job->node, OBJECT(object));
	atomic_signal_fence(memory_order_seq_cst);
	roami_inside.call = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(roami_inside.then != NULL, 0))
		roami_inside_end();
	return done;
}

/* A deadline of the program as one of the node. */
static uint64_t until_ns(uint64_t until_us)
{
	return until_us < ROAMI_FOREVER / 1000 ? until_us * 1000 : ROAMI_FOREVER;
}

enum roam_err roami_api_lock(const void *lock, uint64_t until_us)
{
	return synced(roami_lock_until(job->node, OBJECT(lock), until_ns(until_us)),
		      ROAMI_SYNCED_LOCK, OBJECT(lock));
}

enum roam_err roami_api_trylock(const void *lock)
{
	return synced(roami_lock_try(job->node, OBJECT(lock)), ROAMI_SYNCED_LOCK, OBJECT(lock));
}

enum roam_err roami_api_unlock(const void *lock)
{
	return synced(roami_unlock(job->node, OBJECT(lock)), ROAMI_SYNCED_UNLOCK, OBJECT(lock));
}

/* roam_lock and roam_unlock that were not done quickly: apart, so that those save no registers. */
__attribute__((noinline)) static enum roam_err lock_slowly(const void *lock, const char *call,
							    const void *caller)
{
	INSIDE_OF(call);
	enum roam_err err = object_ready(lock, call, caller);

	if (err != ROAM_OK)
		return err;
	err = roami_api_lock(lock, UINT64_MAX);
	return __builtin_expect(err == ROAM_OK, 1)
		       ? err
		       : roami_misused(job->node, ROAMI_MISUSE_LOCK, err, call, lock, caller);
}

__attribute__((noinline)) static enum roam_err unlock_slowly(const void *lock, const char *call,
							      const void *caller)
{
	INSIDE_OF(call);
	enum roam_err err = object_ready(lock, call, caller);

	if (err != ROAM_OK)
		return err;
	err = synced(roami_unlock_whole(job->node, OBJECT(lock)), ROAMI_SYNCED_UNLOCK,
		     OBJECT(lock));
	return __builtin_expect(err == ROAM_OK, 1)
		       ? err
		       : roami_misused(job->node, ROAMI_MISUSE_UNLOCK, err, call, lock, caller);
}

enum roam_err roam_lock(const void *lock)
{
	if (quickly(__func__, lock, roami_lock_quick))
		return ROAM_OK;
	return lock_slowly(lock, __func__, __builtin_return_address(0));
}

enum roam_err roam_trylock(const void *lock)
{
	INSIDE;
	enum roam_err err = READY(lock);

	return err == ROAM_OK ? roami_api_trylock(lock) : err;
}

enum roam_err roam_lock_until(const void *lock, uint64_t until_us)
{
	INSIDE;
	enum roam_err err = READY(lock);

	if (err != ROAM_OK)
		return err;
	err = roami_api_lock(lock, until_us);
	return err != ROAM_ESTATE ? err : MISUSED(LOCK, err, lock);
}

enum roam_err roam_unlock(const void *lock)
{
	if (quickly(__func__, lock, roami_unlock_quick))
		return ROAM_OK;
	return unlock_slowly(lock, __func__, __builtin_return_address(0));
}

/* Barriers count registered threads only: reports a call by another one, which goes on. */
static void barrier_called(const char *call, const void *caller)
{
	if (!roami_team_fixed(job) && !roami_thread_self(job->node)->registered)
		roami_misused(job->node, ROAMI_MISUSE_STRANGER, ROAM_OK, call, NULL, caller);
}

enum roam_err roam_barrier(const void *barrier, unsigned threads)
{
	INSIDE;
	enum roam_err err = READY(barrier);

	if (err == ROAM_OK && (threads == 0 || threads > job->nodes * ROAMI_THREADS_MAX))
		return MISUSED(BARRIER, ROAM_EINVAL, barrier);
	if (err == ROAM_OK)
		barrier_called(__func__, __builtin_return_address(0));
	return err == ROAM_OK ? synced(roami_barrier(job->node, OBJECT(barrier), threads),
					ROAMI_SYNCED_BARRIER, OBJECT(barrier))
			      : err;
}

enum roam_err roam_barrier_all(void)
{
	INSIDE;
	enum roam_err err = job_ready();

	if (err == ROAM_OK)
		barrier_called(__func__, __builtin_return_address(0));
	return err == ROAM_OK ? synced(roami_barrier(job->node, ROAMI_ALL_ID, 0),
					ROAMI_SYNCED_BARRIER, ROAMI_ALL_ID)
			      : err;
}

enum roam_err roam_cond_init(const void *cond)
{
	return object_init(cond);
}

enum roam_err roami_api_cond_wait(const void *cond, const void *lock, uint64_t until_us)
{
	enum roam_err woken = roami_cond_wait_until(job->node, OBJECT(cond), OBJECT(lock),
						    until_ns(until_us));

	if (woken == ROAM_OK || woken == ROAM_ETIMEDOUT)
		roami_race_synced(job->node, ROAMI_SYNCED_COND, OBJECT(cond));
	return woken;
}

enum roam_err roami_api_cond_broadcast(const void *cond)
{
	return roami_cond_post(job->node, OBJECT(cond), true);
}

enum roam_err roam_cond_wait(const void *cond, const void *lock)
{
	INSIDE;
	enum roam_err err = READY(cond);

	if (err == ROAM_OK)
		err = READY(lock);
	if (err == ROAM_OK)
		err = roami_api_cond_wait(cond, lock, UINT64_MAX);
	return err != ROAM_ENOTHELD ? err : MISUSED(COND_WAIT, err, lock);
}

enum roam_err roam_cond_wait_until(const void *cond, const void *lock, uint64_t until_us)
{
	INSIDE;
	enum roam_err err = READY(cond);

	if (err == ROAM_OK)
		err = READY(lock);
	if (err == ROAM_OK)
		err = roami_api_cond_wait(cond, lock, until_us);
	return err != ROAM_ENOTHELD ? err : MISUSED(COND_WAIT, err, lock);
}

enum roam_err roam_cond_signal(const void *cond)
{
	INSIDE;
	enum roam_err err = READY(cond);

	return err == ROAM_OK ? roami_cond_post(job->node, OBJECT(cond), false) : err;
}

enum roam_err roam_cond_broadcast(const void *cond)
{
	INSIDE;
	enum roam_err err = READY(cond);

	return err == ROAM_OK ? roami_api_cond_broadcast(cond) : err;
}

enum roam_err roam_flag_set(const void *flag)
{
	INSIDE;
	enum roam_err err = READY(flag);

	return err == ROAM_OK ? synced(roami_flag_set(job->node, OBJECT(flag)), ROAMI_SYNCED_SET,
					OBJECT(flag))
			      : err;
}

enum roam_err roam_flag_wait(const void *flag)
{
	INSIDE;
	enum roam_err err = READY(flag);

	return err == ROAM_OK ? synced(roami_flag_wait(job->node, OBJECT(flag)), ROAMI_SYNCED_FLAG,
					OBJECT(flag))
			      : err;
}

enum roam_err roam_flag_clear(const void *flag)
{
	INSIDE;
	enum roam_err err = READY(flag);

	return err == ROAM_OK ? roami_flag_clear(job->node, OBJECT(flag)) : err;
}

enum roam_err roami_api_reduce(void *values, unsigned count, enum roam_type type, enum roam_op op)
{
	enum roam_err err = job_ready();

	return err == ROAM_OK ? synced(roami_reduce(job->node, values, count, type, op),
					ROAMI_SYNCED_REDUCE, 0)
			      : err;
}

enum roam_err roam_reduce(void *values, unsigned count, enum roam_type type, enum roam_op op)
{
	INSIDE;

	if (values == NULL || count == 0 || count > ROAM_REDUCE_MAX ||
	    (unsigned)type > ROAM_DOUBLE || (unsigned)op > ROAM_OR ||
	    (type == ROAM_DOUBLE && op >= ROAM_AND)) {
		job_ready();
		return MISUSED(REDUCE, ROAM_EINVAL, values);
	}
	return roami_api_reduce(values, count, type, op);
}

/* ----------------------------------------------------------------------------------- measuring */

uint64_t roam_counter(const char *name)
{
	if (job->node == NULL || name == NULL)
		return 0;
	return roami_stats_find(job->node->stats, name);
}

void roam_stats_print(int fd)
{
	if (job->node != NULL)
		roami_job_print(job, fd);
}

void roam_roi_begin(void)
{
	if (job->node != NULL)
		roami_stats_enter(job->node->stats);
}

void roam_roi_end(void)
{
	if (job->node != NULL)
		roami_stats_leave(job->node->stats);
}
