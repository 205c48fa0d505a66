/* Faults that come as a signal that another handler has raised (rule 1.9). */
#ifndef ROAMI_FAULT_PASSED_H
#define ROAMI_FAULT_PASSED_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a fault: what was touched, and by which instruction. */
struct roami_passed_fault {
	uintptr_t address, code;
};

struct roami_passed {
	bool (*ours)(int signal, uintptr_t address); /* whether our handler answers there */
	struct roami_passed_fault last; /* the thread's last fault that came to our handler */
	const void *context; /* found: what the other handler got; NULL: it has returned */
	int signal;
	uintptr_t address; /* of the thread's last fault */
	uintptr_t distance, sp;
};

/*
 * In a handler that got `signal` with this context: whether this thread has raised the signal, most
 * likely in place of a fault of its own that did not come here.  Async-signal-safe.
 */
bool roami_passed_find(struct roami_passed *passed, int signal, const siginfo_t *info,
		       const void *context);

#endif
