/*
 * Transactions: functions that happen as one step, or not at all.
 *
 * With ROAM_PROTOCOL=plurix a program needs no locks for what several nodes read and write at the
 * same time:
 *
 *	static void move(void *arg)
 *	{
 *		struct order *order = arg;
 *
 *		order->from->money -= order->amount;
 *		order->to->money += order->amount;
 *	}
 *
 *	err = roam_tx(move, &order, NULL);
 *
 * roam_tx runs the function, which uses the heap by ordinary loads and stores.  No other node sees
 * what it stores before it has returned; then other nodes see all of it at once.  If another node
 * meanwhile changes a page that the function's node could read, the function begins anew: its
 * stores are undone, and it finds its stack, registers, floating-point control, signal mask and
 * arguments as at the start.  So it must be written to be run several times.  All transactions, and
 * all loads and stores outside of them, have one order, which each node's program follows (strict
 * serializability), and even an attempt that will begin anew sees the heap as it was at one moment
 * of that order: it never finds a structure half changed.
 *
 * The unit of comparison is the page: two nodes that use different variables of one page conflict.
 * A store that a node makes outside of a transaction takes the page from all transactions that
 * could read it, and these begin anew.  Of two transactions that conflict, the one that ends first
 * wins; but one that has begun anew ROAM_TX_FAIR times in a row (4) wins then: no other one is
 * committed before it.
 *
 * A node runs one transaction at a time, and must have one thread: roam_tx returns ROAM_ESTATE as
 * soon as a second one has registered or touched the heap (and under ROAM_THREADS).  A program must
 * not let a second thread touch the heap for the first time during a transaction: that thread would
 * see what is not committed.
 *
 * What the function may do:
 * - Store to the heap.  What it stores to private memory (its static variables, or through `arg`)
 *   stays as it is when the function begins anew; roam_tx_on_abort can undo such stores.
 * - Call roam_alloc, roam_realloc and roam_free.  What an attempt has allocated is freed when it
 *   begins anew; what it frees is freed when it is committed.  Not with ROAM_CHECK=heap:
 *   roam_alloc returns NULL, and roam_errno() is ROAM_EUNSUPPORTED.
 * - Call roam_touch, roam_prefetch, and functions that only return a value (roam_node, roam_counter
 *   and the like).
 * - Not call what synchronises, creates, waits or ends: locks, conditions, barriers, flags,
 *   reductions, PastSet, roam_create, roam_wait_for_end, roam_finish.  They return ROAM_ESTATE and
 *   do nothing.  Between transactions all of them work as under any other protocol; a transaction
 *   may run while its thread holds locks.  roam_pin returns NULL, roam_unpin ROAM_ESTATE, and
 *   roam_read and the like fail (errno is EBUSY).
 * - Not give heap memory to functions of libraries that take locks or memory while they use it,
 *   such as printf("%s"), or qsort of more than a kilobyte.  The transaction may begin anew at any
 *   access to the heap, and every function that is running then is left without notice, as by
 *   longjmp.  Copying between the heap and private memory (memcpy) is allowed.
 * - Not end in another way than by return, roam_tx_retry or exit.  A jump (longjmp, an exception)
 *   out of the function ends the job with a line at the thread's next call of roam.  exit first
 *   undoes the transaction.  A cancellation of the thread is held back until roam_tx returns.
 *
 * A function begins anew when it next touches a page to which its node has no access, or calls
 * roam, or returns.  One that does none of that and never ends is not interrupted.
 *
 * A function that touches more pages than ROAM_CACHE_PAGES allows keeps them until it ends.
 *
 * In a job of one node a transaction runs once, since nothing can change meanwhile.  roam_tx_retry
 * would wait for ever there, and ends the job with a line; roam_tx_or_else returns
 * ROAM_EUNSUPPORTED.
 */
#ifndef ROAM_TX_H
#define ROAM_TX_H

#include "roam/roam.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void roam_tx_fn(void *arg);

struct roam_tx_options {
	uint64_t attempts; /* at most; 0: as many as it takes */
};

/*
 * Runs fn(arg) as a transaction, and returns when it is committed.  `options` may be NULL.  Within
 * a transaction roam_tx just calls fn, as a part of that transaction.  Errors, after which nothing
 * of fn was done: ROAM_EINVAL (no fn), ROAM_EUNSUPPORTED (the job's protocol has no transactions),
 * ROAM_ESTATE (the node has several threads; or a function of roam_tx_on_commit or roam_tx_on_abort
 * calls it), ROAM_ETIMEDOUT (the attempts are used up), those of roam_start.
 */
ROAM_RESULT enum roam_err roam_tx(roam_tx_fn *fn, void *arg, const struct roam_tx_options *options);

/*
 * Called in a transaction whose function has read values that do not yet let it go on.  Undoes the
 * transaction, waits until another node has changed a page that this node could read, and begins
 * anew.  Does not return.  Outside of a transaction it ends the job with a line.
 */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((noreturn))
#endif
void roam_tx_retry(void);

/*
 * As roam_tx(first, ...), but if `first` calls roam_tx_retry, its stores are undone and `second`
 * runs in its place, as a part of the same transaction: both have read the heap of one moment.  If
 * `second` calls roam_tx_retry, too, it waits until something that either could read has changed,
 * and begins with `first` anew.  Errors: those of roam_tx, ROAM_ESTATE within a transaction,
 * ROAM_EUNSUPPORTED in a job of one node.
 */
ROAM_RESULT enum roam_err roam_tx_or_else(roam_tx_fn *first, roam_tx_fn *second, void *arg,
					  const struct roam_tx_options *options);

/*
 * In a transaction, for what cannot be undone (output, private memory): fn(arg) is called once, by
 * roam_tx, when the transaction is committed, in the order of these calls; or when the attempt that
 * makes the call has been undone, in the reverse order.  Each attempt makes its calls anew.  fn may
 * use the heap and locks, but not begin a transaction, and the functions of roam_tx_on_abort not
 * use the heap or locks.  Errors: ROAM_EINVAL, ROAM_ESTATE (in no transaction), ROAM_ENOMEM.
 */
enum roam_err roam_tx_on_commit(roam_tx_fn *fn, void *arg);
enum roam_err roam_tx_on_abort(roam_tx_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
