/*
 * Fibers: threads of control with their own stack that give the CPU away only where they say so.
 * For the simulated world.  Includes nothing of ours.
 */
#ifndef ROAMI_FIBER_H
#define ROAMI_FIBER_H

#include <stddef.h>

struct roami_fiber;

/* Stands for the thread that calls, so that fibers can switch back to it.  NULL: no memory. */
struct roami_fiber *roami_fiber_thread(void);

/*
 * A fiber that runs fn(arg) when first switched to, on a stack of at least `stack_bytes` with a
 * guard page below.  fn must not return: it ends with roami_fiber_exit.  NULL: no memory.
 */
struct roami_fiber *roami_fiber_create(size_t stack_bytes, void (*fn)(void *arg), void *arg);

/* Goes on in `to`; returns when something switches to `from`, the running fiber. */
void roami_fiber_switch(struct roami_fiber *from, struct roami_fiber *to);

/* roami_fiber_switch for the last time: `from` has ended. */
__attribute__((noreturn)) void roami_fiber_exit(struct roami_fiber *from, struct roami_fiber *to);

/* Of a fiber that does not run, whether it ended or not.  NULL is ignored. */
void roami_fiber_destroy(struct roami_fiber *fiber);

#endif
