/*
 * A call that can be left from anywhere below it on the same stack, and then returns as if by
 * itself: with the registers that a function must keep, and with the control words of both
 * floating-point units, as they were when it began.  The C library's longjmp checks where it goes,
 * and ends the program where roam jumps.  Includes nothing of ours.
 */
#ifndef ROAMI_RESTART_H
#define ROAMI_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define ROAMI_RESTART_LIBRARY 1 /* ThreadSanitizer follows no other jump */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROAMI_RESTART_LIBRARY 1
#endif
#endif

#ifdef ROAMI_RESTART_LIBRARY
#include <setjmp.h>
#endif

struct roami_restart {
	void *sp; /* of the call's frame, which lies above all that it calls */
#ifdef ROAMI_RESTART_LIBRARY
	jmp_buf jump;
	int value;
#endif
};

/* fn(arg); returns 0 when that has returned, or what roami_restart_leave says. */
int roami_restart_run(struct roami_restart *restart, void (*fn)(void *arg), void *arg);

/* Whether that is the code which calls fn: the return address of a call that can be left. */
bool roami_restart_is(uintptr_t code);

/*
 * Leaves the call under way, on its thread, for good.  `value` is not 0.  Functions in between end
 * without a word: no cleanup of theirs runs.  Signals stay blocked as they are.
 */
__attribute__((noreturn)) void roami_restart_leave(struct roami_restart *restart, int value);

#endif
