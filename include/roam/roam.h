/*
 * roam: page-based distributed shared memory.
 *
 * Programs link with -lroam and share one heap: every byte from roam_alloc() has the same address
 * on every node, and plain loads and stores reach it.  What one node wrote becomes visible to
 * another when they synchronise (locks, barriers, flags, reductions), as the consistency model of
 * the chosen protocol says (docs/consistency.md, installed below share/doc/roam).  A program
 * without data races gets the same answer under every protocol whose model it satisfies.
 *
 * Start.  Three ways to get several nodes, on one host or several:
 *
 *	roam run -n 4 ./prog          an SPMD program: each node runs main() and calls roam_start()
 *	roam_create_all(fn, 4)        fork style: one process initialises, then four run fn(); `roam
 *	                              run -n 4`, mpirun and srun start such a program, too
 *	the PARMACS macros            include/roam/parmacs.m4: fork style, too
 *
 * Errors.  Calls return enum roam_err; ROAM_OK is 0.  A node that cannot go on (a peer died, memory
 * ran out in a page fault) prints one line to stderr and ends the job: a page fault has no caller
 * to return an error to.
 *
 * Threads as nodes.  With ROAM_THREADS=T (`roam run --threads T`) what roam_create and
 * roam_create_all make are threads, T of which share a process: for programs that also run on
 * POSIX threads, as those with PARMACS macros do.  Statics are then those of the process.  Calls
 * here number such threads as nodes: thread t of process n is node n * T + t of roam_node(), and
 * roam_nodes() counts all of them.  Messages and reports number the processes.  Such a thread may
 * call what the thread that started roam may, but for roam_wait_for_end and roam_finish, which are
 * the node's first thread's; exit() by another one ends the job with a line.  Their number is
 * fixed: roam_thread_init and roam_thread_fini are errors.
 *
 * After roam_finish() nothing of the job is left.  A call that needs the job returns ROAM_ESTATE;
 * roam_alloc() returns NULL, and roam_errno() is ROAM_ESTATE; a call that returns no error does
 * nothing, or returns 0.  The heap's addresses become memory of this process alone, so that what
 * still runs at exit() may use them: loads find what this node had there last, which may be old or
 * 0, and no other node sees a store.  With ROAM_STRICT=1 such a load or store is a SIGSEGV, with a
 * line on stderr.
 *
 * Threads.  Any thread may touch the heap and call everything here unless a call says otherwise; a
 * thread that synchronises must be the one that started roam or have called roam_thread_init().  At
 * most 2,000 threads of a node may use roam at a time; one more ends the job with a line on stderr.
 * A thread that ends makes room for another one.  Signal handlers of the program must not call
 * anything here and must not touch the heap: while the thread waits, a page may be on its way to
 * another node, and a handler's write to it would be lost.
 *
 * Stacks.  A fault needs 1 KiB of the thread's stack or alternate stack, in addition to what the
 * kernel needs for a signal: PTHREAD_STACK_MIN, or sigaltstack() with 8 KiB, is enough for threads
 * that only touch the heap.  A thread that calls roam_lock(), roam_barrier() and the like needs
 * 64 KiB.  A build with libsigsegv is exempt under ROAM_FAULT=sigsegv: that library's handler runs
 * on the stack on which the signal comes, before roam leaves it, and needs room in addition.
 *
 * Signals and cancellation in a fault.  Signals that a process or thread may send, and
 * cancellation, are held back until the access has been made: a handler may jump out of any load or
 * store, and a thread may be cancelled in one.  Signals that the instruction itself raises are not
 * held back.  A program's own handler of SIGSEGV or SIGBUS gets the faults outside of the heap,
 * with the flags it was installed with.
 *
 * Signals and cancellation in a call of roam.  A cancelled thread ends when the call is complete:
 * after roam_lock() it holds the lock.  Once a call has waited for long, SIGALRM, SIGVTALRM,
 * SIGUSR1 and SIGUSR2 are held back likewise if the program has handlers for them, so these may
 * jump; they are not held back in an operation that can be cancelled (roam_ps_cancel()).  A handler
 * that does run during a call must return or end the program: if it jumps out of the call, the
 * thread's next call, or its end, ends the job with a line on stderr.  roam_read() and the like
 * behave as the system calls do: they are cancellation points, and signals interrupt them.
 *
 * What the library needs of the process.  A program must not close descriptors that it did not
 * open: a job whose program closes all of them ends with a line.  mlockall() gives memory to the
 * whole heap unless it has MCL_ONFAULT.
 *
 * System calls do not fault pages in: read(2) into a page to which this node has no access returns
 * EFAULT, and access may be withdrawn at any time.  Use roam_read(), roam_write() and the like, or
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

/* Every error: its name, value and text (roam_strerror). */
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
	X(EMISMATCH, 18, "one of this name exists, with another template, X-function or size") \
	X(ETOOBIG, 19, "larger than its buffer, or than a tuple may be")           \
	X(EKEY, 20, "the server has another key")                                  \
	X(ELOST, 21, "the server, or a participant of an X-function, is gone or out of reach") \
	X(EBUSY, 22, "the lock is held, or the endpoint open")                     \
	X(ECHECKPOINT, 23, "no checkpoint that this program can load")             \
	X(EREADONLY, 24, "the server lets this program only read")

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

/* Marks calls whose result a program must not ignore: the compiler warns if it does. */
#if defined(__GNUC__) || defined(__clang__)
#define ROAM_RESULT __attribute__((warn_unused_result))
#else
#define ROAM_RESULT
#endif

/* ---------------------------------------------------------------------------- starting, ending */

/*
 * Joins the job.  Under `roam run` this process becomes one of the job's nodes; the first
 * synchronisation waits for all of them.  Otherwise the process is a job of one node, to which
 * roam_create() may add more.  Options come from the environment (ROAM_PROTOCOL, ROAM_FAULT, ...:
 * `roam info` lists them).  A second call does nothing.  roam_alloc() and every synchronisation
 * call start roam themselves if need be.  Call it before other threads exist.  Errors: ROAM_EINVAL
 * (an option's value), ROAM_EUNKNOWN (an unknown protocol, engine or transport), ROAM_ENOMEM,
 * ROAM_ESYSTEM; each is reported on stderr in one line before the call returns.
 *
 * A launched program that calls roam_start runs main on every node: roam_create is then an error,
 * and after roam_create_all, which all nodes call, only node 0 goes on in main.  A launched program
 * that begins with another call (roam_alloc, roam_lock_init, roam_home, roam_distribute,
 * roam_needs) may still be of either kind.  roam_create or roam_create_all shows that the program
 * creates its nodes: from there on everything is as after roam_start_main.  roam_node, roam_nodes
 * or a call that synchronises shows that main goes on on every node: that call waits for all nodes,
 * the output that nodes above 0 have held back is printed, and what each node has stored is in the
 * heap.  No other thread may use the heap during that call.
 */
ROAM_RESULT enum roam_err roam_start(void);

/*
 * Joins the job as roam_start() does, for a program that creates its nodes by roam_create or
 * roam_create_all; the PARMACS macros call it.  If a launcher has started all processes of the job,
 * each of them executes main up to CREATE (roam_create or roam_create_all): on a heap of its own,
 * with a copy of the standard input from this call on, and on nodes above 0 with its output thrown
 * away.  All of them must do the same up to CREATE.  From CREATE on only node 0's heap counts; the
 * other nodes run the function and end when it returns.  Until then roam_node() is 0 everywhere.  A
 * program that calls roam_node, or synchronises, before it creates its nodes needs this call; for
 * other programs see roam_start.  Without a launcher roam_start_main() is roam_start().
 */
ROAM_RESULT enum roam_err roam_start_main(void);

/*
 * Leaves the job.  A full barrier: blocks until every node has called it or ended.  Afterwards the
 * heap is not shared any more (above).  exit() calls it if the program did not.  As POSIX has it,
 * pthread_exit in main ends only that thread: the process ends as by exit(0) after its last thread,
 * and roam's do not count.
 */
enum roam_err roam_finish(void);

/* This node's number, 0 .. roam_nodes() - 1.  Before CREATE: 0. */
unsigned roam_node(void);

/*
 * The number of nodes of the job.  It is fixed once the job is sealed (roam_create_all, or the
 * first synchronisation after roam_create).
 */
unsigned roam_nodes(void);

/*
 * The consistency that a protocol promises to programs (docs/consistency.md), strongest first:
 * sequential, release, scope consistency.  ROAM_MODEL_TX is reserved: no protocol promises it
 * (plurix, which has transactions, promises sequential consistency), and roam_needs returns
 * ROAM_EINVAL for it.
 */
enum roam_model { ROAM_MODEL_SC, ROAM_MODEL_RC, ROAM_MODEL_SCC, ROAM_MODEL_TX };

/*
 * Declares the model that the program needs.  Call it at the start, before the program creates
 * nodes; under `roam run` on every node, with the same model.  Starts roam if need be.  If the
 * protocol in use promises less, the job prints one warning and goes on; with ROAM_STRICT=1 it ends
 * there with status 1.  If it is called several times, the strongest model counts.  Errors:
 * ROAM_EINVAL, and those of roam_start.
 */
enum roam_err roam_needs(enum roam_model model);

/*
 * Forks one more node, which runs fn() and then serves the others until the job ends; in the caller
 * roam_create returns right away.  fn may also end by exit(0), in which the process stays until the
 * job ends, and by pthread_exit, except on node 0, where roam_create_all runs it.  An exit with
 * another status, _exit, and a barrier that counts a node which has ended, end the job with a line.
 * The new node inherits private variables as they are now and shares the heap.  The number of nodes
 * is fixed (the job is sealed) at the caller's next synchronisation; with ROAM_THREADS nodes are
 * forked only there, and inherit private variables as they are then, which ROAM_CHECK=statics
 * reports if it makes a difference.  Only node 0 may call it, and only while it has a single
 * thread.  Errors: ROAM_ENODES (more than ROAM_NODES_MAX), ROAM_ESTATE (the job is sealed already,
 * or main goes on on all nodes of a launcher: see roam_start_main), ROAM_ESYSTEM.
 */
ROAM_RESULT enum roam_err roam_create(void (*fn)(void));

/*
 * Forks `nodes` - 1 nodes, seals the job, and runs fn() on all of them, this one included.  Returns
 * when fn() has returned here.  Under a launcher the nodes are those that it has started, and
 * `nodes` must be their number; on nodes other than node 0 the call does not return.  Errors as
 * roam_create.
 */
ROAM_RESULT enum roam_err roam_create_all(void (*fn)(void), unsigned nodes);

/*
 * Copies node 0's value of `variable`, `bytes` of a static at the same address on every node, to
 * all nodes: the value that it has at CREATE or, under `roam run` without CREATE, at the first
 * synchronisation.  It is for values that may differ between processes that execute the same main,
 * such as a time or a host's name.  Every node calls it, before that moment; forked nodes inherit
 * all statics anyway.  Errors: ROAM_EINVAL, ROAM_ESTATE (too late), ROAM_ENOMEM.
 */
ROAM_RESULT enum roam_err roam_distribute(void *variable, size_t bytes);

/*
 * Blocks until the functions of all other nodes have returned, and ends those nodes.  Afterwards
 * this node owns the whole heap again and may create nodes anew.  A main that ends without it is
 * right if it has waited in another way, as by a barrier, or looks at no result; so no line is
 * printed, and one that has forgotten it prints what is there at that moment.  The process serves
 * the other nodes until they have ended, too.  Errors: ROAM_ESTATE (a thread of ROAM_THREADS that
 * is not its node's first).
 */
enum roam_err roam_wait_for_end(void);

/*
 * roam_thread_init registers the calling thread as one that synchronises: roam_barrier_all counts
 * it.  It also unblocks the thread's fault signals.  roam_thread_fini, or the thread's end, undoes
 * the registration.  The thread that started roam is registered from then on.  Errors: ROAM_ESTATE,
 * with a line on stderr: the thread is registered already (init), or is not (fini), which is said
 * once as wrong use of a lock is; or the threads of nodes are fixed (ROAM_THREADS; both).
 */
ROAM_RESULT enum roam_err roam_thread_init(void);
enum roam_err roam_thread_fini(void);

/*
 * The program promises that it registers no thread of its own: every node has the threads that it
 * began with.  Then the number of threads of a roam_barrier tells all nodes whether it is a full
 * barrier, and with ROAM_BARRIER=tree all full barriers gather arrivals along the tree; without the
 * promise only roam_barrier_all does.  roam_thread_init then returns ROAM_ESTATE, with a line on
 * stderr.  Every process that executes main calls it, before it creates nodes or first
 * synchronises; the PARMACS macros do (MAIN_INITENV).  Starts roam if need be.  Errors: ROAM_ESTATE
 * (too late), those of roam_start.
 */
enum roam_err roam_threads_fixed(void);

/* -------------------------------------------------------------------------------------- memory */

/* Which node is the home of a block's pages, that is, holds their master copies. */
enum roam_place {
	ROAM_PLACE_FIRST_TOUCH, /* the first node that touches the page once the job is sealed
				   (default) */
	ROAM_PLACE_BLOCK,       /* equal contiguous parts, in node order */
	ROAM_PLACE_CYCLIC,      /* page i at node i mod n */
	ROAM_PLACE_NODE         /* all pages at one given node */
};

/*
 * Allocates zeroed shared memory, aligned to 64 bytes, or to a page if it is a page or larger.  Any
 * node may call it at any time.  The block belongs to all nodes; pass its address to others through
 * shared memory.  Under `roam run`, blocks that every node allocates in the same order before its
 * first synchronisation are the same blocks.  Returns NULL if `bytes` is 0 or the heap cannot hold
 * the block (roam_errno() says which).  If this is the first call and roam cannot be started, the
 * process ends with status 1 after a line that says why; call roam_start() first to handle that
 * error yourself.
 */
ROAM_RESULT void *roam_alloc(size_t bytes);

/*
 * roam_alloc with a placement.  `node` is used by ROAM_PLACE_NODE only; `name` (may be NULL;
 * copied) appears in reports.
 */
ROAM_RESULT void *roam_alloc_placed(size_t bytes, enum roam_place place, unsigned node,
				    const char *name);

/* Properties of a block; a member that is 0 or NULL has the value that roam_alloc uses. */
struct roam_region {
	const char *protocol;  /* of its pages, one that `roam info` lists; NULL: the job's */
	enum roam_place place; /* place, node, name: as in roam_alloc_placed */
	unsigned node;
	const char *name;
	/*
	 * An option of the protocol for these pages alone, in the form of the environment variable
	 * that sets it for all: "ROAM_MIRAGE_DELTA=500", the only one so far.  The block then gets
	 * whole pages.
	 */
	const char *option;
};

/*
 * roam_alloc with a protocol for this block, so that two structures of one program can be under
 * different protocols at the same time: for example a table that all nodes read, and a queue that
 * moves from node to node.  Blocks under different protocols share no page.  All blocks under one
 * protocol other than the job's have a sixteenth of ROAM_HEAP together, in addition to ROAM_HEAP.
 *
 * Locks, barriers and flags cover the blocks of all protocols.  The program may rely on the weakest
 * model of the protocols in use (docs/consistency.md); roam_needs is compared with each.  Errors,
 * besides those of roam_alloc: ROAM_EUNKNOWN (no such protocol, or the protocol has no such option:
 * a line on stderr names those known), ROAM_EINVAL (also the option's value: the line says what is
 * allowed), ROAM_EUNSUPPORTED (the protocol cannot run here, or not beside the job's: a line says
 * so).
 */
ROAM_RESULT void *roam_alloc_region(size_t bytes, const struct roam_region *region);

/*
 * Frees a block, from any node.  The caller must not race with users of the block.  A free is a
 * release, and the memory is reused only by a node that has acquired it.  NULL is ignored.  Errors:
 * ROAM_ENOTOURS (not the address of a block).
 */
enum roam_err roam_free(void *block);

/*
 * A block of `bytes` with the first bytes of `block`, which had `old_bytes` and is freed; new bytes
 * are zero.  (realloc of the C library knows how long a block is; in roam only one of the nodes
 * knows it.)  The block always moves: its caller must not race with users of the block.  A NULL
 * block is an empty one.  Returns NULL on an error, and `block` stays as it is; roam_errno() says
 * which: those of roam_alloc and roam_free, ROAM_EINVAL if a length is 0.
 */
ROAM_RESULT void *roam_realloc(void *block, size_t old_bytes, size_t bytes);

/*
 * The block of this name, the same one on all nodes: the first call makes it, `bytes` of zeroes
 * aligned as roam_alloc aligns them, and later ones, from whichever node, find it.  So no address
 * has to be passed on:
 *
 *	struct queue *queue = roam_root("queue", sizeof(*queue), ROAM_WRITE);
 *
 *	roam_once(&queue->once, queue_fill);
 *
 * With ROAM_READ the block is only found.  A name has 1 to ROAM_ROOT_NAME_MAX bytes.  The block
 * lasts as long as the heap: roam_free refuses it.  Parts of a program that use the same name get
 * the same block, if they pass the same number of bytes; with ROAM_READ that may be 0, for any.
 * For a checkpoint (roam/save.h) node 0 has to make the block, as it has all others.
 *
 * The call takes and releases one lock for all names, so it belongs before a loop, not into it.  It
 * synchronises as roam_lock does, except in a launched program's main before the first
 * synchronisation: there, as with roam_alloc, all nodes make the same calls, one thread of each.
 * Returns NULL on an error, which roam_errno() returns: those of roam_alloc and roam_lock,
 * ROAM_EINVAL (name, bytes or access), ROAM_EUNKNOWN (ROAM_READ: there is none), ROAM_EMISMATCH
 * (the block has another number of bytes), ROAM_ESTATE (in a transaction).
 */
#define ROAM_ROOT_NAME_MAX 47
enum roam_access { ROAM_NONE, ROAM_READ, ROAM_WRITE };
ROAM_RESULT void *roam_root(const char *name, size_t bytes, enum roam_access access);

/* Why the calling thread's last call that returns the address of a block returned NULL. */
enum roam_err roam_errno(void);

/*
 * Puts a static variable into the shared heap: all nodes use one copy, under the job's protocol, by
 * the variable's name.  The first word of the variable's definition, in any file of the program or
 * of a library that it loads before CREATE:
 *
 *	ROAM_SHARED static struct tree *root;
 *	ROAM_SHARED double view[3] = {0, 0, 1};
 *
 * Other files declare it as any other variable (extern double view[3];); the macro may stand before
 * a declaration, too.  Until roam starts it is an ordinary static; then its value, node 0's on all
 * nodes, moves into the heap, and from there on the variable is as a block that was allocated at
 * that moment: accesses follow the rules of the protocol and need synchronisation, system calls on
 * it return EFAULT, and a child that the program itself forks does not have it.  After roam_finish
 * each process has a copy of its own, with what the node had seen.
 *
 * Limits.  The variables of a file share whole pages with each other, and with nothing else.  Not
 * for const or thread-local variables; a C++ object with a constructor is constructed before roam
 * starts, on every node.  Zeroes are stored in the program's file.  roam does not start, and says
 * why, if a program that is not compiled with -fPIC names a variable that a library defines (it
 * would use a copy: use a function or a pointer), and if link-time optimisation has split the
 * program so that the padding of pages is lost.
 */
#define ROAM_SHARED                                                               \
	__asm__(".pushsection .note.roam,\"a\",@note\n"                             \
		".balign 4\n"                                                        \
		".long 5, 8, 1\n"                                                    \
		".asciz \"roam\"\n"                                                  \
		".balign 4\n"                                                        \
		".hidden __start_roam_shared\n"                                      \
		".hidden __stop_roam_shared\n"                                       \
		".long __start_roam_shared - .\n"                                    \
		".long __stop_roam_shared - .\n"                                     \
		".popsection\n"                                                      \
		".pushsection roam_shared,\"aw\",@progbits\n"                        \
		".balign 4096\n"                                                     \
		".popsection\n"                                                      \
		".pushsection roam_shared,1,\"aw\",@progbits\n"                      \
		".balign 4096\n"                                                     \
		".popsection\n");                                                    \
	__attribute__((section("roam_shared")))

/*
 * Makes [addr, addr + bytes) accessible to this node now, so that a system call may use it.  Blocks
 * while pages are fetched.  Another node may take the access away at the next synchronisation;
 * under SC protocols at any time.  Under direct, where all nodes have one heap, every page is
 * always accessible.  Errors: ROAM_ENOTOURS.
 */
enum roam_err roam_touch(const void *addr, size_t bytes, enum roam_access access);

/*
 * A private copy of a range of the heap, for a system call or other code that must not meet a page
 * fault.  The copy has `bytes` bytes and the same offset within a page.
 *
 * ROAM_READ: roam_pin fills the copy by plain loads; unpin it with `written` 0.  ROAM_WRITE:
 * roam_unpin copies the first `written` bytes into the heap by plain stores.  These loads and
 * stores are the program's accesses; what other nodes write after roam_pin does not appear in the
 * copy.  Nothing is blocked meanwhile: other nodes use the pages under every protocol,
 * ROAM_CACHE_PAGES does not matter, and the thread may synchronise or wait for others.  Any thread
 * may pin any number of ranges at a time, and another thread may unpin them.
 *
 * roam_pin returns NULL on an error, which roam_errno() returns: ROAM_EINVAL, ROAM_ENOTOURS,
 * ROAM_ENOMEM.  roam_unpin returns ROAM_EINVAL if `written` is too large; the range then stays
 * pinned.  After roam_finish roam_unpin frees the memory and writes nothing.
 */
void *roam_pin(const void *addr, size_t bytes, enum roam_access access);
enum roam_err roam_unpin(void *pinned, size_t written);

/*
 * The system and library calls of these names (read, write, ...) on buffers in the heap, from any
 * thread.  Results and errno are those of the call; if there is no private memory for the bytes,
 * errno is ENOMEM, and roam_fread and roam_fwrite return 0.  Each makes one such call, but on
 * regular files roam_read and roam_write transfer a megabyte at a time.  Buffers outside of the
 * heap are passed on unchanged.
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
 * Hint: [addr, addr + bytes) will be read soon.  Fetches the pages it can without claiming homes.
 * Never fails.
 */
void roam_prefetch(const void *addr, size_t bytes);

/*
 * Hint: make `node` the home of those pages of the range that have none yet.  Best called between
 * roam_alloc and the first use.  Errors: ROAM_EINVAL, ROAM_ENOTOURS.
 */
enum roam_err roam_home(const void *addr, size_t bytes, unsigned node);

/* ----------------------------------------------------------------------------- synchronisation */
/*
 * A synchronisation object is named by an address; the bytes there are never read or written.  The
 * address must be the same on all nodes: in the shared heap, or that of a static.  Until it is
 * used, every address is a free lock, a condition without waiters and a flag that is not set: no
 * call is needed before.  Freeing a block resets the objects in it: in the next block at this
 * address no lock is held and no flag is set.  CREATE and WAIT_FOR_END reset all objects.  A job
 * may use 16 million of each kind: an address counts once, and takes memory on each node that uses
 * it until the nodes end, about 300 bytes as a lock, and as a barrier 4 KiB and 1 KiB for each
 * node of the job at most, whether or not its block was freed.
 *
 * Wrong use of a lock (an unlock or a wait by a thread that does not hold it, a second lock by the
 * thread that does) returns its error and changes nothing.  The first misuse of each kind in the
 * job, or on each of its hosts, prints one line that says where; under ROAM_STRICT=1 it ends the
 * job.
 */

/*
 * Does nothing, even to a lock in use: it is for programs that declare their locks.  Errors:
 * ROAM_EINVAL (no address), those of roam_start().
 */
enum roam_err roam_lock_init(const void *lock);

/*
 * Acquires the lock.  Blocks until it is free.  Between hosts, and wherever locks go by messages,
 * nodes get it in the order in which they asked.  On one host nodes that run get it in any order,
 * but one that has waited for about 2 ms and is the first in the queue gets it next.  Not
 * recursive: ROAM_ESTATE if this thread holds it.
 */
enum roam_err roam_lock(const void *lock);

/*
 * roam_trylock takes the lock if that is possible without waiting for the section of another
 * thread; else it returns ROAM_EBUSY, also if this thread holds it.  It waits at most for an answer
 * of another node, which a thread of the library gives.  ROAM_EBUSY may also mean that the lock is
 * on its way from one node to another, is left to one that has waited for long, or is kept for the
 * threads of a node that come to their first lock together (ROAM_THREADS; 10 ms at most).
 *
 * roam_lock_until waits like roam_lock and gives up when roam_clock_us() has reached `until_us`:
 * ROAM_ETIMEDOUT.  If that is over already it takes the lock if roam_trylock would not have to ask
 * another node.  Waits given up since the node had the lock last count for those about 2 ms.
 *
 * Both are acquires, as roam_lock is, if they return ROAM_OK, and nothing otherwise.
 */
ROAM_RESULT enum roam_err roam_trylock(const void *lock);
ROAM_RESULT enum roam_err roam_lock_until(const void *lock, uint64_t until_us);

/*
 * Releases the lock: what this node wrote is visible to later holders of the lock.  ROAM_ENOTHELD
 * if this thread does not hold it.
 */
enum roam_err roam_unlock(const void *lock);

/*
 * Blocks until `threads` threads of the job have arrived; then all go on and see everything written
 * before.  All callers pass the same number.  With the number of all registered threads it is a
 * full barrier, which is cheaper.
 */
enum roam_err roam_barrier(const void *barrier, unsigned threads);

/* The full barrier of all registered threads. */
enum roam_err roam_barrier_all(void);

/*
 * Condition variables.  roam_cond_wait unlocks `lock`, blocks until it is signalled, and locks
 * again; call it in a loop that tests the condition, because a wake-up may be spurious.  Its caller
 * must hold the lock: else it returns ROAM_ENOTHELD at once.  roam_cond_signal wakes a thread that
 * waits: of the threads of one node the one that has waited longest, and the caller's node may come
 * first.  roam_cond_broadcast wakes all.  roam_cond_init does nothing, like roam_lock_init.
 *
 * roam_cond_wait_until gives up when roam_clock_us() has reached `until_us`: ROAM_ETIMEDOUT.  Then,
 * too, it locks again first, for which it waits as long as roam_lock does.  A signal is never lost
 * to a thread that has given up.
 */
enum roam_err roam_cond_init(const void *cond);
enum roam_err roam_cond_wait(const void *cond, const void *lock);
ROAM_RESULT enum roam_err roam_cond_wait_until(const void *cond, const void *lock,
					       uint64_t until_us);
enum roam_err roam_cond_signal(const void *cond);
enum roam_err roam_cond_broadcast(const void *cond);

/*
 * Reader-writer locks: any number of threads hold one for reading, or one thread for writing.  A
 * struct roam_rwlock lies in the heap and is zero at first; programs must not read or write its
 * members, and must not pass its address to other calls.  Readers that come while a writer waits go
 * after it.  Errors, besides those of roam_lock and roam_unlock: ROAM_ENOTOURS (not in the heap),
 * ROAM_EBUSY (tryrdlock, trywrlock: held, or just being taken or released by another thread),
 * ROAM_ETIMEDOUT (until: not taken when roam_clock_us() reached `until_us`; as with
 * roam_cond_wait_until the call may take as long as roam_lock), ROAM_ENOTHELD (rwunlock).  A thread
 * that holds the lock for reading must not ask for it again: the thread could wait for itself.
 *
 * Taking the lock is an acquire of all that its writers wrote in their sections.  rwunlock is a
 * release; under scope consistency only a writer's is.  The lock is made of another lock and two
 * conditions: a reader takes and releases that lock once to begin reading and once to end it, and
 * each of these short sections fetches a page if the last one was on another node.  So a
 * reader-writer lock is worth its price where readers' sections are long.
 */
struct roam_rwlock {
	uint32_t readers; /* that hold it */
	uint32_t waiting; /* readers that wait */
	uint32_t writers; /* that wait */
	uint32_t spare;
};

enum roam_err roam_rdlock(struct roam_rwlock *rwlock);
enum roam_err roam_wrlock(struct roam_rwlock *rwlock);
ROAM_RESULT enum roam_err roam_tryrdlock(struct roam_rwlock *rwlock);
ROAM_RESULT enum roam_err roam_trywrlock(struct roam_rwlock *rwlock);
ROAM_RESULT enum roam_err roam_rdlock_until(struct roam_rwlock *rwlock, uint64_t until_us);
ROAM_RESULT enum roam_err roam_wrlock_until(struct roam_rwlock *rwlock, uint64_t until_us);
enum roam_err roam_rwunlock(struct roam_rwlock *rwlock);

/*
 * Calls fn() if no thread of the job has done so with this `once`, which lies in the heap and is
 * zero at first; the others wait until it has returned, and see what it wrote.  It is a section of
 * the lock with its address: fn must not call roam_once for it, which is ROAM_ESTATE, and must
 * return; a thread is not cancelled in it.  Errors, also: ROAM_EINVAL (fn), ROAM_ENOTOURS.
 */
enum roam_err roam_once(uint32_t *once, void (*fn)(void));

/*
 * A latched flag (PARMACS PAUSE).  roam_flag_set is a release; roam_flag_wait blocks until the flag
 * is set and is an acquire; roam_flag_clear resets the flag.  A wait does not see a clear of which
 * its thread has learnt by other ways than locks, barriers, flags, conditions, reductions and
 * endpoints only: such as tuples, or the program's own sockets.
 */
enum roam_err roam_flag_set(const void *flag);
enum roam_err roam_flag_wait(const void *flag);
enum roam_err roam_flag_clear(const void *flag);

/*
 * Combines `count` values (ROAM_REDUCE_MAX at most) of all nodes in place; every node gets the
 * result.  Also a full barrier.  One thread of each node calls it; with ROAM_THREADS all do.
 */
enum roam_type { ROAM_INT32, ROAM_INT64, ROAM_DOUBLE };
enum roam_op { ROAM_SUM, ROAM_PRODUCT, ROAM_MIN, ROAM_MAX, ROAM_AND, ROAM_OR };
#define ROAM_REDUCE_MAX 64
enum roam_err roam_reduce(void *values, unsigned count, enum roam_type type, enum roam_op op);

/* ----------------------------------------------------------------------------------- measuring */

/*
 * A counter of this node, by its name in `roam info` ("read_faults", "fetches", "bytes_sent", ...);
 * 0 if the name is unknown.
 */
uint64_t roam_counter(const char *name);

/*
 * Prints this node's table of counters and times to the descriptor, as ROAM_STATS=1 does at the end
 * of a job.
 */
void roam_stats_print(int fd);

/*
 * The region of interest: what the counters and times of a node count (ROAM_STATS, roam_counter).
 * Without these calls it is the node's life.  With them it is what lies between a roam_roi_begin
 * and the next roam_roi_end, in as many pieces as there are pairs; if several threads of the node
 * call them, from the first one's begin to the last one's end.  Each acts on the calling node:
 * nodes that a program creates after roam_roi_begin count from their start, and a program that
 * marks a part of its parallel phase calls both on every node, best behind a barrier.  A
 * roam_roi_end without a roam_roi_begin ends a region that began with the node.  Neither blocks nor
 * synchronises; before roam starts they do nothing.  ROAM_STATS_AFTER is a roam_roi_begin that the
 * user sets: what came before that barrier is left out, with or without these calls in the program.
 */
void roam_roi_begin(void);
void roam_roi_end(void);

/* Microseconds of a monotonic clock. */
uint64_t roam_clock_us(void);

#ifdef __cplusplus
}
#endif

#endif
