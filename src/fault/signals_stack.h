/* What fault/signals.c needs of the stacks on which faults are handled; others see signals.h. */
#ifndef ROAMI_FAULT_SIGNALS_STACK_H
#define ROAMI_FAULT_SIGNALS_STACK_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/*
 * The calling thread handles a fault with this context, or, NULL or an earlier one, no longer does.
 * Returns the context before.
 */
const void *roami_signals_enter(const void *context);

/*
 * Calls once what the handler calls on a stack that may be small: the first call of a library's
 * function may need as much stack as a fault, for symbol resolution.  false: there is no memory.
 */
bool roami_signals_warm(void);

/*
 * The signals that were blocked where the signal came.  The kernel's set is shorter than the
 * library's.
 */
static inline uint64_t roami_signals_mask(const ucontext_t *context)
{
	uint64_t blocked;

	memcpy(&blocked, &context->uc_sigmask, sizeof(blocked));
	return blocked;
}

#endif
