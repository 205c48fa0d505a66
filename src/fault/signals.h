/*
 * SIGSEGV and SIGBUS, shared by all engines and heaps of this process; and, where it is to be known
 * which thread ended the process, the other signals by which an error does.
 *
 * An engine adds the address ranges it answers for.  A fault inside one goes to the range's
 * function; everything else goes to the handler that was installed before; if there was none, the
 * process dies as if roam did not exist: right signal, right address, core file.  Our handler runs
 * with SA_SIGINFO | SA_ONSTACK | SA_NODEFER, with all signals blocked that may be sent, keeps
 * errno, and takes less than 1 KiB of the stack it comes on, which may be a small alternate one: a
 * fault in a range is handled on another stack (rule 1.4).
 */
#ifndef ROAMI_FAULT_SIGNALS_H
#define ROAMI_FAULT_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/engine.h"
#include "roam/roam.h"

/* Ranges per process, of all heaps and both signals. */
#define ROAMI_SIGNALS_AREAS 128

/*
 * Called in the signal handler of the thread that faulted inside the range, on its stack.  Returns
 * false for a fault that it has not caused, which goes to the older handler; true when the access
 * may be retried.
 */
typedef bool roami_signal_fn(void *arg, siginfo_t *info, const void *context);

/*
 * Answers for `signal` in [start, start + bytes) and installs our handler if it is not installed.
 * Ranges inherited from a parent process are forgotten first.  Not in handlers.  ROAM_ENOMEM:
 * ROAMI_SIGNALS_AREAS reached; ROAM_ESYSTEM.
 */
enum roam_err roami_signals_add(int signal, const void *start, size_t bytes, roami_signal_fn *fn,
				void *arg);

/*
 * In a process that fork() has just made, which is no node: `fn` hears of a touch of what it has
 * not inherited, which then ends it.
 */
void roami_signals_orphan(const void *start, size_t bytes, roami_signal_fn *fn);

/*
 * Forgets the ranges of `signal` added with `arg`; with the last one of all heaps the older handler
 * is put back, unless another library's is installed now.  No thread touches the range any more.
 * Not in handlers.  Unknown: does nothing.
 */
void roami_signals_remove(int signal, const void *arg);

/*
 * Called in the signal handler of a thread that is about to end this process, by an error that no
 * handler of the program takes, or by abort.
 */
typedef void roami_signals_last_fn(void *arg);

/*
 * From now on fn(arg) hears of that; NULL: nothing does.  One for the process.  Not in handlers.
 * ROAM_ESYSTEM.
 */
enum roam_err roami_signals_last(roami_signals_last_fn *fn, void *arg);

/*
 * Whether our handler of `signal` is installed.  If not, the handler found becomes the one to which
 * foreign faults are passed, roam's is installed again, and the result is false.  One system call.
 * Not in handlers.
 */
bool roami_signals_check(int signal);

/*
 * Keeps in *heard a bit (ROAMI_SIGNALS_BIT) for each signal with a range, except while a fault is
 * passed on: the process that has died by a signal whose bit is set had blocked, ignored or reset
 * it, or its handler had no stack.  NULL: forgets the word.  Not in handlers.
 */
void roami_signals_heard(_Atomic uint32_t *heard);

#define ROAMI_SIGNALS_BIT(signal) ((signal) == SIGBUS ? 2u : (signal) == SIGSEGV ? 1u : 0u)

/*
 * For a range's function: calls fn(arg, page, write, kind_known) on a stack of ROAMI_SLAB_BYTES,
 * with no alternate stack, and with cancellation of the thread disabled.  Within such a call it
 * goes on on the same stack.
 */
void roami_signals_fault(roami_fault_fn *fn, void *arg, uint32_t page, bool write, bool kind_known);

/*
 * The instruction that the fault under way of the calling thread interrupted, if it lies between
 * `text` and `end`; else in the innermost call there on the stack, most likely of the function that
 * faulted.  0: neither, or no fault is under way.  Async-signal-safe.
 */
uintptr_t roami_signals_code(uintptr_t text, uintptr_t end);

/*
 * In a call of roami_signals_fault: when the fault under way of the calling thread is over, the
 * access is not made, and at(arg) is called in its place, on the stack of the code that faulted and
 * with its signals, as if it had been called there.  `at` must not return.  false: no fault is
 * under way.
 */
bool roami_signals_divert(void (*at)(void *arg), void *arg);

/*
 * In a signal handler, which has this context: when it returns, at(arg) is called in place of what
 * it has interrupted, as above.
 */
void roami_signals_leave(void *context, void (*at)(void *arg), void *arg);

/* The most bytes that fn has needed of such a stack, for tests. */
size_t roami_signals_depth(void);

/* The `arg` of the range that holds `address`; NULL if none does.  Async-signal-safe. */
void *roami_signals_find(int signal, uintptr_t address);

/* Whether the access was a write or an instruction fetch, from the processor's error code.
 * Async-signal-safe. */
bool roami_signals_is_write(const void *context);
bool roami_signals_is_fetch(const void *context);

/*
 * A range function for SIGBUS in memory that should never fail: says in one line on stderr that the
 * system has no memory for the page, and returns false.
 */
bool roami_signals_no_memory(void *arg, siginfo_t *info, const void *context);

#endif
