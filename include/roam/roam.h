/*
 * roam: page-based distributed shared memory.
 *
 * Programs link with -lroam and share one heap: every byte from roam_alloc() has the same address
 * on every node, and plain loads and stores reach it.  What one node wrote becomes visible to
 * another when they synchronise (locks, barriers, flags, reductions), as the consistency model of
 * the chosen protocol says (docs/consistency.md, installed below share/doc/roam).  A program
 * without data races gets the same answer under every protocol whose model it satisfies.
 *
 * Start.  Three ways to get several nodes, all on one host:
 *
 *	roam run -n 4 ./prog          an SPMD program: each node runs main() and calls roam_start()
 *	roam_create_all(fn, 4)        fork style: one process initialises, then four run fn(); `roam
 *	                              run -n 4`, mpirun and srun start such a program, too
 *	the PARMACS macros            include/roam/parmacs.m4, which are the second way
 *
 * Errors.  Calls return enum roam_err; ROAM_OK is 0.  A node that cannot go on (a peer died, memory
 * ran out in a page fault) prints one line to stderr and ends the job: a page fault has no caller
 * to return an error to.
 *
 * After roam_finish() nothing of the job is left: every call that needs it returns ROAM_ESTATE, or,
 * where there is no error to return, does nothing or 0; roam_alloc() returns NULL, for that reason.
 *
 * Threads.  Any thread may touch the heap and call everything here unless a call says otherwise; a
 * thread that synchronises must be the one that started roam or have called roam_thread_init().
 * A node can have 2,000 threads that use roam at a time; more end the job, with a line.  When a
 * thread ends, what roam kept of it is free for the next one.
 * Signal handlers of the program call nothing here and leave the heap alone: a page may be on its
 * way to another node while its thread waits, and what a handler writes to it is lost.
 *
 * Stacks.  A fault needs 1 KiB, besides what the kernel needs for a signal, of the thread's stack
 * or of its alternate one: for threads that only touch the heap PTHREAD_STACK_MIN, or sigaltstack()
 * with 8 KiB, will do.  A thread that calls roam_lock(), roam_barrier() and the like needs 64 KiB.
 *
 * Signals and cancellation.  In a fault all signals wait that somebody may send, and cancellation
 * does, until the access is made: a handler may jump, and a thread may be cancelled, out of any
 * load or store.  Signals of an instruction do not wait.  A program's own handler of SIGSEGV or
 * SIGBUS gets the faults that are not in the heap, as it asked for them.
 * A thread that is cancelled in a call of roam ends when the call has done what it does: after
 * roam_lock() with the lock.  Once a call has waited for long SIGALRM, SIGVTALRM, SIGUSR1 and
 * SIGUSR2 wait likewise, where the program has handlers for them: these may jump.  They do not wait
 * in an operation that can be cancelled (roam_ps_cancel()).  Handlers that run there, and those of
 * other signals in any call, must return, or end the program: if one jumps out of a call, the
 * thread's next call, or its end, ends the job with a line.  roam_read() and the like are as the
 * system calls: a cancellation point, and signals interrupt them.
 *
 * System calls do not fault pages in: read(2) into a page this node has no access to returns
 * EFAULT, and a page may go at any time.  Use roam_read(), roam_write() and the like, or
 * roam_pin().
 */
#ifndef ROAM_ROAM_H
#define ROAM_ROAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROAM_VERSION_MAJOR 0
#define ROAM_VERSION_MINOR 1
#define ROAM_VERSION_PATCH 0

/* Bytes of a page: the unit of coherence. */
#define ROAM_PAGE_SIZE 4096

/* Every error, its name and its text (roam_strerror). */
#define ROAM_ERRORS(X)                                                                   \
	X(OK, 0, "no error")                                                             \
	X(EINVAL, 1, "argument out of range")                                            \
	X(ENOMEM, 2, "the shared heap or the memory behind it is exhausted")             \
	X(ENOTOURS, 3, "address is not in the shared heap, or not the start of a block") \
	X(ENOTHELD, 4, "unlock of a lock this thread does not hold")                     \
	X(ENOTINIT, 5, "not initialised")                                                \
	X(ENODES, 6, "more nodes than allowed")                                          \
	X(ESTATE, 7, "call not allowed at this point of the program")                    \
	X(EUNSUPPORTED, 8, "not supported by this kernel, build or protocol")            \
	X(EUNKNOWN, 9, "unknown name")                                                   \
	X(EAGAIN, 10, "queue full, try again")                                           \
	X(ESYSTEM, 11, "a system call failed")                                           \
	X(EPEER, 12, "another node of the job failed")                                   \
	X(EPROTO, 13, "malformed message")                                               \
	X(ENOSPC, 14, "the memory for tuples is used up")                                \
	X(EGONE, 15, "the tuple was truncated, or the server forgot this program")       \
	X(ETIMEDOUT, 16, "not done within the time given")                               \
	X(ECANCELED, 17, "cancelled")                                                    \
	X(EMISMATCH, 18, "an element of this name is another one")                 \
	X(ETOOBIG, 19, "larger than its buffer, or than a tuple may be")           \
	X(EKEY, 20, "the server has another key")                                  \
	X(ELOST, 21, "the server, or a participant of an X-function, is gone or out of reach")

#define ROAM_ERR_ENUM(name, value, text) ROAM_##name = value,
enum roam_err { ROAM_ERRORS(ROAM_ERR_ENUM) };
#undef ROAM_ERR_ENUM
#ifndef __cplusplus
typedef enum roam_err roam_err;
#endif

/* The text of an error; never NULL, static.  Async-signal-safe. */
const char *roam_strerror(enum roam_err err);

/* The library's version, "major.minor.patch". */
const char *roam_version(void);

/* Of calls whose result no program can do without: the compiler warns of those that ignore it. */
#if defined(__GNUC__) || defined(__clang__)
#define ROAM_RESULT __attribute__((warn_unused_result))
#else
#define ROAM_RESULT
#endif

/* ---------------------------------------------------------------------------- starting, ending */

/*
 * Joins the job.  Under `roam run` this process becomes one of its nodes; the first synchronisation
 * waits for all.  Otherwise it is a job of one node, which roam_create() may enlarge.  Options
 * come from the environment (ROAM_PROTOCOL, ROAM_FAULT, ...: `roam info` lists them).  A second
 * call does nothing.  roam_alloc() and every synchronisation call start roam by themselves if need
 * be.  Call it before other threads exist. Errors: ROAM_EINVAL (an option's value), ROAM_EUNKNOWN
 * (an unknown protocol, engine or transport), ROAM_ENOMEM, ROAM_ESYSTEM.  Each is reported on
 * stderr in one line before the call returns.
 *
 * A launched program that calls it runs main on every node: roam_create then is an error, and
 * after roam_create_all, which all nodes call, only node 0 goes on in main.  One that begins with
 * another call (roam_alloc, roam_lock_init, roam_home, roam_distribute, roam_needs) may be of
 * either kind.  roam_create or roam_create_all shows that it creates its nodes: then all is as
 * after roam_start_main.  roam_node, roam_nodes or a call that synchronises shows that main goes
 * on everywhere; that call waits for all nodes, what nodes above 0 have printed by then comes out,
 * and what each has stored is in the heap.  No other thread may use the heap during that call.
 */
ROAM_RESULT enum roam_err roam_start(void);

/*
 * The same for a program that creates its nodes by roam_create or roam_create_all; what the PARMACS
 * macros call.  Where a launcher has started all processes of a job, each executes main up to
 * there: alike, on a heap of its own, with a copy of the standard input from this call on, nodes
 * above 0 with their output thrown away.  Then only node 0's heap counts, the others run the
 * function, and end when it returns.  Until then roam_node() is 0 everywhere.  A program that asks
 * for it, or synchronises, before it creates its nodes needs this call; for others see roam_start.
 * Without a launcher it is roam_start().
 */
ROAM_RESULT enum roam_err roam_start_main(void);

/*
 * Leaves the job.  A full barrier: returns when every node has called it or ended; after it the
 * heap is gone. Called by exit() if the program did not.
 */
enum roam_err roam_finish(void);

/* This node's number, 0 .. roam_nodes() - 1.  Before CREATE: 0. */
unsigned roam_node(void);

/*
 * Nodes of the job.  Fixed once the job is sealed (roam_create_all, or the first synchronisation
 * after roam_create).
 */
unsigned roam_nodes(void);

/*
 * What a protocol promises to programs (docs/consistency.md), the strongest first: sequential,
 * release, scope consistency.  TX, transactions, is not to be asked for.
 */
enum roam_model { ROAM_MODEL_SC, ROAM_MODEL_RC, ROAM_MODEL_SCC, ROAM_MODEL_TX };

/*
 * Declares the model that the program needs: at its start, before it creates nodes; under `roam
 * run` on every node alike.  Starts roam if need be.  If the protocol in use promises less, the job
 * warns in one line, once, and goes on; with ROAM_STRICT=1 it ends there, with status 1.  Of
 * several calls the strongest counts.  Errors: ROAM_EINVAL, and those of roam_start.
 */
enum roam_err roam_needs(enum roam_model model);

/*
 * Forks one more node, which runs fn() and then serves until the job ends; returns in the caller at
 * once.  The new node inherits private variables as they are now and shares the heap.  The number
 * of nodes is fixed ("sealed") at the caller's next synchronisation.  Only node 0 may call it, from
 * its only thread. Errors: ROAM_ENODES (ROAM_NODES_MAX), ROAM_ESTATE (already sealed, or main goes
 * on on all of a launcher's nodes: roam_start_main), ROAM_ESYSTEM.
 */
ROAM_RESULT enum roam_err roam_create(void (*fn)(void));

/*
 * Forks nodes - 1 nodes, seals the job, and runs fn() on all of them, this one included; returns
 * when fn() returned here.  Under a launcher the nodes are those that it has started, and `nodes`
 * must be as many; elsewhere than on node 0 it does not return.  Errors as roam_create.
 */
ROAM_RESULT enum roam_err roam_create_all(void (*fn)(void), unsigned nodes);

/*
 * Gives `variable`, `bytes` of a static at the same address on every node, node 0's value on all of
 * them: as it is at CREATE, or, under `roam run` without one, at the first synchronisation.  For
 * what processes that execute main alike do not find alike: a time, a host's name.  Called before
 * that on every node; nodes that are forked inherit all statics anyway.  Errors: ROAM_EINVAL,
 * ROAM_ESTATE (too late), ROAM_ENOMEM.
 */
ROAM_RESULT enum roam_err roam_distribute(void *variable, size_t bytes);

/*
 * Waits until the functions of all other nodes have returned and ends those nodes.  Afterwards this
 * node owns the whole heap again and may create nodes anew.
 */
enum roam_err roam_wait_for_end(void);

/*
 * Registers the calling thread as one that synchronises (counted by roam_barrier_all), and unblocks
 * its fault signals.  fini takes that back; so does the thread's end.  ROAM_ESTATE, with a line:
 * the thread is registered already, or is not.  The one that started roam is, from then on.
 */
ROAM_RESULT enum roam_err roam_thread_init(void);
enum roam_err roam_thread_fini(void);

/* -------------------------------------------------------------------------------------- memory */

/* Who is the home of a block's pages: the node that holds the master copy. */
enum roam_place {
	ROAM_PLACE_FIRST_TOUCH, /* the first node that touches the page once the job is sealed
				   (default) */
	ROAM_PLACE_BLOCK,       /* equal contiguous parts, in node order */
	ROAM_PLACE_CYCLIC,      /* page i at node i mod n */
	ROAM_PLACE_NODE         /* all at one given node */
};

/*
 * Allocates zeroed shared memory, 64-byte aligned, page-aligned from one page on.  On any node, at
 * any time.  The block belongs to all nodes; pass its address to others through shared memory.
 * Under `roam run`, blocks that every node allocates in the same order before its first
 * synchronisation are the same blocks.  NULL when bytes is 0 or the heap cannot hold it
 * (roam_errno() says which).  If it is the first call and roam cannot be started, the process ends
 * with status 1 after the line that says why; call roam_start() first to deal with that yourself.
 */
ROAM_RESULT void *roam_alloc(size_t bytes);

/*
 * The same with a placement; `node` is used by ROAM_PLACE_NODE only; `name` (may be NULL, copied)
 * appears in reports.
 */
ROAM_RESULT void *roam_alloc_placed(size_t bytes, enum roam_place place, unsigned node,
				    const char *name);

/* What a block is to be like; what is 0 or NULL: as roam_alloc does. */
struct roam_region {
	const char *protocol;  /* of its pages, one that `roam info` lists; NULL: the job's */
	enum roam_place place; /* as in roam_alloc_placed */
	unsigned node;
	const char *name;
	/*
	 * An option of the protocol for these pages alone, as the environment has it for all:
	 * "ROAM_MIRAGE_DELTA=500".  Only mirage has one, this.  The block gets whole pages.
	 */
	const char *option;
};

/*
 * The same with a protocol of its own, so that two structures of one program can be under different
 * ones at a time: a table that all read under one, a queue that wanders under another.  Such blocks
 * share no page with those of other protocols.  All blocks under one protocol other than the job's
 * together have a sixteenth of ROAM_HEAP, in addition to it.
 *
 * Locks, barriers and flags cover them all; what the program may rely on is the weakest model of
 * the protocols in use (docs/consistency.md), and roam_needs is held against each.  Errors, besides
 * those of roam_alloc: ROAM_EUNKNOWN (no such protocol, or not an option of it: a line on stderr
 * names those known), ROAM_EINVAL (also the option's value: the line says what is allowed),
 * ROAM_EUNSUPPORTED (the protocol cannot run here).
 */
ROAM_RESULT void *roam_alloc_region(size_t bytes, const struct roam_region *region);

/*
 * Frees a block, from any node.  The caller must not race with users of the block: free is a
 * release, and reuse waits for it.  NULL is ignored.  Errors: ROAM_ENOTOURS for anything roam_alloc
 * did not return.
 */
enum roam_err roam_free(void *block);

/* Why the calling thread's last roam_alloc returned NULL. */
enum roam_err roam_errno(void);

/*
 * Makes [addr, addr + bytes) accessible to this node now, so that a system call may use it.  Blocks
 * while pages travel. Another node may take the access away at the next synchronisation (SC
 * protocols: at any time).  Errors: ROAM_ENOTOURS.
 */
enum roam_access { ROAM_NONE, ROAM_READ, ROAM_WRITE };
enum roam_err roam_touch(const void *addr, size_t bytes, enum roam_access access);

/*
 * A range of the heap for any system call, or other code that must not meet a page fault: private
 * memory of `bytes`, at the same place within a page.  ROAM_READ: it holds the range's bytes as
 * they are now, by plain loads.  ROAM_WRITE: what is written there comes into the heap at unpin, by
 * plain stores of the first `written` bytes (of ROAM_READ: 0).  So nothing is held up: other nodes
 * go on with the pages under every protocol, whatever ROAM_CACHE_PAGES is, and the thread may
 * synchronise meanwhile, or wait for others; what they write after roam_pin it does not see, and
 * the program's order between them is that of the loads and stores.  Any number at a time, of any
 * thread; another one may unpin.  NULL: roam_errno() says why, ROAM_EINVAL, ROAM_ENOTOURS,
 * ROAM_ENOMEM.  roam_unpin: ROAM_EINVAL, and the range stays pinned, if `written` is too large;
 * after roam_finish the memory is freed, and nothing is written.
 */
void *roam_pin(const void *addr, size_t bytes, enum roam_access access);
enum roam_err roam_unpin(void *pinned, size_t written);

/*
 * The calls of the same name on shared buffers, any thread: results and errno are theirs, ENOMEM
 * also where there is no private memory for the bytes.  Each is one such call; of regular files
 * read and write take a megabyte at a time.  Other buffers are passed on as they are.  roam_fread
 * and roam_fwrite return 0 without memory.
 */
ssize_t roam_read(int fd, void *buf, size_t bytes);
ssize_t roam_write(int fd, const void *buf, size_t bytes);
ssize_t roam_recv(int fd, void *buf, size_t bytes, int flags);
ssize_t roam_send(int fd, const void *buf, size_t bytes, int flags);
struct iovec;
ssize_t roam_readv(int fd, const struct iovec *parts, int count);
ssize_t roam_writev(int fd, const struct iovec *parts, int count);
size_t roam_fread(void *buf, size_t size, size_t count, FILE *file);
size_t roam_fwrite(const void *buf, size_t size, size_t count, FILE *file);

/*
 * Hint: [addr, addr + bytes) will be read soon.  Fetches what it can without claiming homes; never
 * fails.
 */
void roam_prefetch(const void *addr, size_t bytes);

/*
 * Hint: make `node` the home of those pages of the range that have none yet.  Best between
 * roam_alloc and first use. Errors: ROAM_EINVAL, ROAM_ENOTOURS.
 */
enum roam_err roam_home(const void *addr, size_t bytes, unsigned node);

/* ----------------------------------------------------------------------------- synchronisation */
/*
 * A synchronisation object is named by an address; its bytes are never read or written.  The
 * address must be the same on all nodes: in the shared heap, or a static.  Any address is a free
 * lock, a condition that nobody waits for, or a flag that is not set, until it is used: nothing has
 * to be called before.  Freeing a block forgets the objects in it: in the next block there no lock
 * is held and no flag set.  CREATE and WAIT_FOR_END forget all.  Up to 100,000 objects and more.
 *
 * Wrong use of a lock (an unlock or a wait by a thread that does not hold it, a second lock by the
 * one that does) returns its error and changes nothing.  The first of each kind in the job, or on
 * each host of it, prints one line that says where; under ROAM_STRICT=1 it ends the job.
 */

/*
 * Does nothing, also to a lock that is in use: for programs that say what is a lock.  Errors:
 * ROAM_EINVAL (no address), those of roam_start().
 */
enum roam_err roam_lock_init(const void *lock);

/*
 * Acquires.  Blocks; first come, first served between nodes.  Not recursive: ROAM_ESTATE if this
 * thread holds it.
 */
enum roam_err roam_lock(const void *lock);

/*
 * Releases: what this node wrote is visible to the lock's later holders.  ROAM_ENOTHELD if this
 * thread does not hold it.
 */
enum roam_err roam_unlock(const void *lock);

/*
 * Waits until `threads` threads of the job have arrived, then all go on, seeing everything written
 * before.  All callers pass the same number.  The number of all registered threads makes it a full
 * barrier, which is cheaper.
 */
enum roam_err roam_barrier(const void *barrier, unsigned threads);

/* The full barrier of all registered threads. */
enum roam_err roam_barrier_all(void);

/*
 * Condition variables.  wait: unlock, wait for a signal, lock; call it in a loop that tests the
 * condition, for a wake-up may come without cause.  signal wakes the longest waiter, broadcast all.
 * The caller of wait holds the lock, else it gets ROAM_ENOTHELD and waits for nothing.  init does
 * nothing, as that of locks.
 */
enum roam_err roam_cond_init(const void *cond);
enum roam_err roam_cond_wait(const void *cond, const void *lock);
enum roam_err roam_cond_signal(const void *cond);
enum roam_err roam_cond_broadcast(const void *cond);

/*
 * A latched flag (PARMACS PAUSE).  set is a release, wait blocks until set and is an acquire, clear
 * resets.
 */
enum roam_err roam_flag_set(const void *flag);
enum roam_err roam_flag_wait(const void *flag);
enum roam_err roam_flag_clear(const void *flag);

/*
 * Combines `count` values of all nodes in place; every node gets the result.  Also a full barrier.
 * One thread a node.
 */
enum roam_type { ROAM_INT32, ROAM_INT64, ROAM_DOUBLE };
enum roam_op { ROAM_SUM, ROAM_PRODUCT, ROAM_MIN, ROAM_MAX, ROAM_AND, ROAM_OR };
#define ROAM_REDUCE_MAX 64
enum roam_err roam_reduce(void *values, unsigned count, enum roam_type type, enum roam_op op);

/* ----------------------------------------------------------------------------------- measuring */

/*
 * One counter of this node by its name in `roam info` ("read_faults", "fetches", "bytes_sent",
 * ...); 0 if unknown.
 */
uint64_t roam_counter(const char *name);

/*
 * Prints this node's table of counters and times to the descriptor; what ROAM_STATS=1 does at the
 * end of a job.
 */
void roam_stats_print(int fd);

/* Microseconds of a monotonic clock. */
uint64_t roam_clock_us(void);

#ifdef __cplusplus
}
#endif

#endif
