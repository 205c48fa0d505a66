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
 * A function that runs begins anew because of any page that its node could read, touched or not:
 * so that pages that are there cost nothing.  But a page that made functions begin anew in vain
 * (twice, or ROAM_TX_FALSE times) counts only when it is touched from then on, at the price of a
 * page fault.  ROAM_TX_READS=exact makes it so for all pages, ROAM_TX_READS=resident for none; the
 * counter tx_false says how often an attempt was aborted in vain, `roam tx report` for which pages.
 * With ROAM_TX_VALIDATE=backward a function whose pages another one has written goes on until it
 * needs a page from another node or returns; if it has stored nothing, it counts.
 *
 * A store that a node makes outside of a transaction takes the page from all transactions that
 * could read it, and these begin anew; one that has begun anew ROAM_TX_FAIR times in a row (4)
 * keeps what it reads and does not write, each time for longer, up to a second.  Of two
 * transactions that conflict, the one that ends first wins; but one that has begun anew so often
 * wins then: no other one is committed before it.
 *
 * By default one node commits at a time, the one that has the commit token.  With
 * ROAM_TX_COMMIT=pages nodes that have stored to different pages commit at the same time; one that
 * has stored to many pages of other nodes then waits for one after the other.
 *
 * A node runs one transaction at a time, and while an attempt runs its other threads are held: a
 * thread stops at its next page fault, or when a wait in a call of roam ends, or else by a signal,
 * in whose handler it waits.  A call of the system that the signal meets may return EINTR.  A
 * thread that is in a function of a library is left to return from it, and stopped there only if it
 * sleeps (25 signals in a row find it at one instruction, asleep since the last one), or if 5000 in
 * a row find it in libraries, for a second or more; there it may hold a lock of a library.  So the
 * transaction's function must not wait in any way for another thread of its node, and must take no
 * lock that another one ever takes: not the program's, and, where a node has several threads, none
 * of a library (malloc and printf have some).  roam_thread_init and roam_tx unblock the signal for
 * their thread.  One that has blocked it since then is waited for until it calls roam or faults,
 * and so is one in a call to a server of tuples; reports name it (ROAM_HANG, roam where).  roam_tx
 * on several threads of a node takes turns, in no order; roam_tx_retry waits for what these write,
 * too.  A thread that has touched the heap without roam_thread_init cannot be held: roam_tx then
 * returns ROAM_ESTATE, and so it does under ROAM_THREADS, or where a program has no signal left
 * (see below).  A program must not let such a thread touch the heap for the first time during a
 * transaction: it would see what is not committed.
 *
 * What the function may do:
 * - Store to the heap.  What it stores to private memory (its static variables, or through `arg`)
 *   stays as it is when the function begins anew; roam_tx_on_abort can undo such stores.
 * - Call roam_alloc, roam_realloc and roam_free.  What an attempt has allocated is freed when it
 *   begins anew; what it frees is freed when it is committed (what is no block then is reported by
 *   a line, not by roam_free).  Not with ROAM_CHECK=heap:
 *   roam_alloc returns NULL, and roam_errno() is ROAM_EUNSUPPORTED.
 * - Call roam_touch, roam_prefetch, and functions that only return a value (roam_node, roam_counter
 *   and the like).
 * - Not call what synchronises, creates, waits or ends: locks, conditions, barriers, flags,
 *   reductions, PastSet, roam_create, roam_wait_for_end, roam_finish.  They return ROAM_ESTATE and
 *   do nothing.  Between transactions all of them work as under any other protocol; a transaction
 *   may run while its thread holds locks.  roam_pin and roam_root return NULL, roam_unpin
 *   ROAM_ESTATE, and roam_read and the like fail (errno is EBUSY).
 * - Not give heap memory to functions of libraries that take locks or memory while they use it,
 *   such as printf("%s"), or qsort of more than a kilobyte.  The transaction may begin anew at any
 *   access to the heap, and, because of the signal (see below), at any instruction of the program's
 *   own code.  Every function that is running then is left without notice, as by longjmp, with the
 *   mutexes that it has locked and the private data that it has half changed.  Copying between the
 *   heap and private memory (memcpy) is allowed.
 * - Not end in another way than by return, roam_tx_retry, roam_tx_cancel or exit.  A jump
 *   (longjmp, an exception) out of the function ends the job with a line at the thread's next call
 *   of roam.  exit first undoes the transaction.  A cancellation of the thread is held back until
 *   roam_tx returns.
 *
 * A function begins anew when it next touches a page to which its node has no access, or calls
 * roam, or returns.  One that does none of that for long is interrupted by a signal (the last
 * real-time signal that has no handler at the first transaction or roam_thread_init), but only
 * where it, and all functions between it and the instruction, belong to the program itself:
 * functions of libraries, such as malloc, printf and qsort, are left to return first.  Under
 * ROAM_TX_VALIDATE=backward, in a program that is linked statically with the C library, and in one
 * with its own malloc, there is no such signal.
 *
 * A function that touches more pages than ROAM_CACHE_PAGES allows keeps them until it ends.
 *
 * With ROAM_STORE=address, the address of a page server (`roam pages serve`), and ROAM_STORE_KEY,
 * the file with its key, what transactions commit outlives the job: the next one finds the blocks
 * of roam_root by their names, at the same addresses, with the bytes of the last commits, and in
 * them pointers to other blocks of the heap; it may have another number of nodes.  roam_tx returns
 * when the server has what was committed, and roam_tx_durable waits until it is on the server's
 * disk, with all that it has read; functions of roam_tx_on_commit are called after that, by a later
 * call of the same thread.  With ROAM_STORE_SYNC=each roam_tx waits for the disk, and calls them
 * before it returns.  After a crash of a node, of the job or of the server there is the state of
 * one moment, with all that was on the disk.  When a server is stopped (SIGTERM) and begins again
 * within 8 seconds, jobs go on; one that is gone for longer, or was killed, ends the job with a
 * line at its next commit.
 * - A commit keeps whole pages.  What is stored outside of transactions is not kept by itself: it
 *   goes with the next commit that stores to its page, of any node.  While a node is alone, its
 *   next commit, CREATE or its end takes all that it has stored.  A transaction can store to 255
 *   MiB of pages; one that stores to more ends the job with a line.
 * - Pointers to code or variables are as good as the program's addresses.  A program that was built
 *   or loaded differently than the one before is refused, with a line, if a word of the heap looks
 *   like such a pointer of that program, unless ROAM_TRUST_POINTERS=1 (roam run --trust-pointers).
 *   PIE programs are loaded at another address each time, unless a launcher, or setarch -R, has
 *   started them.
 * - Blocks of earlier jobs can be freed as a job's own, and what a job has freed can be allocated
 *   by later ones, too.  A block allocated in a transaction is there when that has been committed,
 *   any other one at once; roam_alloc waits for the server then, once nodes were created.  What is
 *   freed is free for the next job when the node has committed again, or has ended in order.
 *   Free in transactions what committed pages point to: if they still do after a crash, what they
 *   point to may be another block.
 * - The program is started in any way.  Under a launcher all processes of a program that creates
 *   its nodes begin with the same pages, and what they commit before CREATE is kept once.
 *   ROAM_SHARED, checkpoints and ROAM_CHECK=heap cannot be beside a store.
 * - Other threads must not store to the heap while CREATE makes nodes: such stores may be lost.
 *
 * roam/tx.hpp is this in C++: roam::transaction takes a lambda, and passes exceptions on.
 *
 * In a job of one node a transaction runs once, since nothing can change meanwhile.  roam_tx_retry
 * would wait for ever there, and ends the job with a line; roam_tx_or_else returns
 * ROAM_EUNSUPPORTED.
 */
#ifndef ROAM_TX_H
#define ROAM_TX_H

#include <stdbool.h>

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
 * of fn was done: ROAM_EINVAL (no fn), ROAM_EUNSUPPORTED (the job's protocol has no transactions;
 * a line says so, once), ROAM_ESTATE (a thread of the node cannot be held; or a function of
 * roam_tx_on_commit or roam_tx_on_abort calls it), ROAM_ETIMEDOUT (the attempts are used up),
 * ROAM_ECANCELED (roam_tx_cancel), those of roam_start.
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
 * Called in a transaction: undoes it for good, and roam_tx returns ROAM_ECANCELED, that of the
 * outermost of nested ones.  Does not return.  Outside of a transaction, and in a job of one node,
 * where nothing can be undone, it ends the job with a line.
 */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((noreturn))
#endif
void roam_tx_cancel(void);

/*
 * In a transaction, before it has touched these bytes: it will store to each of them, and load none
 * before it has stored it.  Whole pages among them (ROAM_PAGE_SIZE) are not fetched, and what other
 * nodes store there meanwhile does not make the function begin anew: all bytes of these pages are
 * replaced when it is committed, also those that are the same.  The processor tells roam of no load
 * from a page that can be stored to, so nothing can be said of parts of pages, which are as
 * without the call, and a load of what was not stored yet is not noticed: it gets any bytes, and
 * bytes that are never stored get any value.  Errors: ROAM_EINVAL, ROAM_ENOTOURS, ROAM_ESTATE (in
 * no transaction).
 */
enum roam_err roam_tx_writes(void *addr, size_t bytes);

/* Whether the calling thread is in a transaction. */
bool roam_tx_inside(void);

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
 *
 * With ROAM_STORE functions of roam_tx_on_commit are called when the transaction is durable, and
 * with it all that it has read: by the thread's next roam_tx, roam_tx_or_else or roam_tx_durable
 * that finds it so, before or behind that call's own transaction, in the order of the transactions;
 * by roam_tx_durable, roam_thread_fini, roam_wait_for_end, roam_finish, exit and the return of
 * CREATE's function all that are left, which wait for the disk, and so does a commit behind 4,096
 * of them.
 */
enum roam_err roam_tx_on_commit(roam_tx_fn *fn, void *arg);
enum roam_err roam_tx_on_abort(roam_tx_fn *fn, void *arg);

/*
 * With ROAM_STORE: waits until all that this node has committed, hence all that its transactions
 * have read, is on the disk of the page server, so that it is there after any crash of nodes, of
 * the job or of the server.  Other threads of the node go on.  Errors: ROAM_EUNSUPPORTED (there is
 * no ROAM_STORE), ROAM_ELOST (the server is gone: what was not durable before may not be there),
 * ROAM_ESTATE (in a transaction).
 */
ROAM_RESULT enum roam_err roam_tx_durable(void);

#ifdef __cplusplus
}
#endif

#endif
