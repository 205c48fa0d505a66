/*
 * Interruption of a thread wherever it computes, by a signal: what it runs is left for good, as by
 * a jump.  Only where nothing but functions of the program would be left: a function of a library
 * may hold a lock, or be in the middle of a list.  Otherwise the signal comes again a little later.
 */
#ifndef ROAMI_FAULT_INTERRUPT_H
#define ROAMI_FAULT_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One thread of a process at a time. */
struct roami_interrupt {
	pid_t pid, tid; /* the process, and the thread in it */
	void *const *top; /* the stack pointer of the call that may be left, with what it calls */
	/*
	 * In the signal handler, on the thread: whether it is to be left; and whether it may be
	 * now.  If not, the signal comes again a little later.
	 */
	bool (*wanted)(void *arg);
	bool (*allowed)(void *arg);
	void (*at)(void *arg); /* called in its place, as if from there; does not return */
	/*
	 * It is being left already, here or elsewhere: there is no frame to look at below `at`,
	 * where the next signal may find it.
	 */
	_Atomic bool left;
	/*
	 * In the signal handler, on another thread: whether its interrupted instruction is the
	 * program's own, and a number for the instruction and the stack.
	 */
	void (*other)(void *arg, bool own, uintptr_t where);
	void *arg;
};

/*
 * Takes a signal for it: the last real-time one without a handler.  Does nothing more where the
 * program cannot be told from its libraries (one that is linked statically with the C library, or
 * that has its own malloc).  Again: does nothing.
 */
void roami_interrupt_open(void);

/* Whether it has one. */
bool roami_interrupt_ready(void);

/* Unblocks the signal for this thread, which may have blocked all; *now_p: what it blocks. */
void roami_interrupt_unblock(sigset_t *now_p);

/* From now on `of`, which must stay there, is the calling thread's; NULL: none is. */
void roami_interrupt_of(struct roami_interrupt *of);

/* Sends the signal.  Any thread; async-signal-safe. */
void roami_interrupt_send(const struct roami_interrupt *of);

enum { ROAMI_INTERRUPT_OTHERS = 2048 };

/*
 * Has of->other called on another thread of this process, `number` of ROAMI_INTERRUPT_OTHERS.  Does
 * nothing while the last signal to that thread is on its way: the kernel queues each one, and a
 * thread that blocks them would fill up what the user may have.  False: there is no such thread.
 */
bool roami_interrupt_other(const struct roami_interrupt *of, unsigned number, pid_t tid);

/* No signal is on its way to the thread of this number, which is another one from now on. */
void roami_interrupt_forget(unsigned number);

#endif
