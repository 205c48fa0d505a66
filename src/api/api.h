/*
 * The default job, for the parts of the public API that are not in roam.c.
 *
 * The room keeps rule 1.4: a call that takes a lock, sends or waits begins with INSIDE.
 */
#ifndef ROAMI_API_H
#define ROAMI_API_H

#include "base/node.h"
#include "os/inside.h"

struct roami_job;

/* The job of this process; the only mutable file-scope state of the library. */
extern __attribute__((visibility("hidden"))) struct roami_job roami_api_job;

/* Starts it if that has not been done; a node may be alone then. */
enum roam_err roami_api_begin(void);

/*
 * This process's node, ready to work with others, and the number of times that the job has opened
 * one: what was made for another number is gone.
 */
enum roam_err roami_api_node(struct roami_node **node_p, uint64_t *round_p);

/* The node as it is, nothing is started; NULL: there is none. */
struct roami_node *roami_api_node_now(void);

/* Calls the functions of roam_tx_on_commit that the calling thread is still owed.  Not inside. */
void roami_api_tx_due(void);

/*
 * roam_alloc_region and roam_free, for a thread that is inside a call already; `from`: the code of
 * the program that calls, for reports, or NULL.
 */
void *roami_api_alloc(size_t bytes, const struct roam_region *region, const void *from);
enum roam_err roami_api_free(void *block, const void *from);

/* That, in a public function: the call of the library in the program, not what is behind it. */
#define CALLER ((const char *)__builtin_return_address(0) - 1)

/*
 * Whether the calling thread runs a transaction; if that is doomed it begins anew.  A thread whose
 * function was left by a jump ends the job.
 */
bool roami_api_transacts(void);

/*
 * In a transaction.  _allocated follows roami_tx_hold: the block goes if the attempt is undone;
 * NULL: there is no memory to note that.  _free: it goes when the transaction is committed; if it
 * is no block by then, a line says so.  `from` as above.
 */
void *roami_api_tx_allocated(void *block, const void *from);
enum roam_err roami_api_tx_free(void *block, const void *from);

/* Frees the block, in a transaction or not. */
void roami_api_free_now(void *block);

/* The program's error, which has no caller to return to: says so and ends the job. */
__attribute__((noreturn)) void roami_api_die(const char *text);

/* The node on which the program's node of this number runs, and the number of its first one. */
unsigned roami_api_place(unsigned number);
unsigned roami_api_number(unsigned node);

/* Whether anything has started roam in this process. */
bool roami_api_begun(void);

/* In a child of fork(), which is then as a process after roam_finish; not in a node's fork. */
void roami_api_forked(void);

/* Whether this process is one of a pair (roam/dp.h), and so cannot be a node. */
bool roami_api_paired(void);

/* Whether the job is over: the heap is gone. */
bool roami_api_over(void);

/* Whether the range lies in the heap. */
bool roami_api_shared(const void *addr, size_t bytes);

/* What roam_errno returns to the calling thread from now on. */
void roami_api_errno(enum roam_err err);

/* The calling thread was in `still` when it called `call`. */
__attribute__((noreturn, cold)) void roami_api_jumped(const char *call, const char *still);

static inline const char *roami_api_enter(const char *call)
{
	const char *still = roami_inside_enter(call);

	if (__builtin_expect(still != NULL, 0))
		roami_api_jumped(call, still);
	return call;
}

static inline void roami_api_leave(const char *const *call)
{
	(void)call;
	roami_inside_leave();
}

/*
 * The first declaration of each public call that takes locks, sends or waits, and calls nothing of
 * the program and no other such call.
 */
#define INSIDE INSIDE_OF(__func__)

/* In a part of the public call of this name. */
#define INSIDE_OF(name)                                                        \
	__attribute__((cleanup(roami_api_leave), unused)) const char *inside = \
		roami_api_enter(name)

/*
 * roam_lock_until and the like, as parts of calls that consist of several: within INSIDE, after
 * roami_api_node, and of objects that are right.  `until_us` UINT64_MAX: for ever.
 */
enum roam_err roami_api_lock(const void *lock, uint64_t until_us);
enum roam_err roami_api_trylock(const void *lock);
enum roam_err roami_api_unlock(const void *lock);
enum roam_err roami_api_cond_wait(const void *cond, const void *lock, uint64_t until_us);
enum roam_err roami_api_cond_broadcast(const void *cond);
/* roam_reduce so, of arguments that are right; roami_api_node need not have been called. */
enum roam_err roami_api_reduce(void *values, unsigned count, enum roam_type type,
			       enum roam_op op);

/* Wrong use of an object that the call refuses. */
enum roami_misuse {
	ROAMI_MISUSE_LOCK,
	ROAMI_MISUSE_UNLOCK,
	ROAMI_MISUSE_COND_WAIT,
	ROAMI_MISUSE_OBJECT,
	ROAMI_MISUSE_PRIVATE,
	ROAMI_MISUSE_BARRIER,
	ROAMI_MISUSE_REDUCE,
	ROAMI_MISUSE_FREE,
	/* What is wrong is the thread: */
	ROAMI_MISUSE_STRANGER,
	ROAMI_MISUSE_TWICE,
	ROAMI_MISUSE_NEVER,
	/* What is wrong is the protocol: */
	ROAMI_MISUSE_TX
};

/*
 * The program's code before `caller` did so by the public function `call`: says it, each kind once,
 * and under ROAM_STRICT ends the job.  A program that does not look at what locks and barriers
 * return would go on without them, and be wrong in silence.  Returns err; without a node it says
 * nothing.
 */
enum roam_err roami_misused(struct roami_node *node, enum roami_misuse kind, enum roam_err err,
			    const char *call, const void *object, const void *caller);

#endif
