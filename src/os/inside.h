/*
 * A thread inside a call of the library, where it may hold what others wait for.  Its cancellation
 * waits until it has left; so do, once it waits for long, the signals that programs jump out of
 * waits by.  To block them for every call would cost more than most calls do: a handler that has
 * jumped out of one is found by the thread's next call, or at its end.
 */
#ifndef ROAMI_INSIDE_H
#define ROAMI_INSIDE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct roami_inside {
	const char *call; /* its name; NULL: in none */
	int cancel;       /* the thread's state before it */
	bool deferred;    /* roami_inside_defer has looked, */
	bool blocked;     /* and blocked some; */
	uint64_t before;  /* these were before: a thread has little room of its own */
};

extern __thread struct roami_inside roami_inside;

/*
 * Before a long wait inside a call: blocks, until the call is left, the signals of timers and of
 * users that the program has a handler for.  Not others: by default they end the program, and
 * handlers of SIGINT and SIGTERM do.
 */
void roami_inside_defer(void);
void roami_inside_admit(void);

/* This call blocks none: the program heeds signals while it waits, and then ends the wait. */
static inline void roami_inside_open(void)
{
	roami_inside.deferred = true;
}

/* A call begins.  The name of one that the thread is still in: it was jumped out of.  Else NULL. */
static inline const char *roami_inside_enter(const char *call)
{
	const char *still = roami_inside.call;

	if (__builtin_expect(still == NULL, 1)) {
		roami_inside.call = call;
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &roami_inside.cancel);
	}
	return still;
}

static inline void roami_inside_leave(void)
{
	roami_inside.call = NULL;
	pthread_setcancelstate(roami_inside.cancel, NULL);
	if (__builtin_expect(roami_inside.deferred, 0))
		roami_inside_admit();
}

/* The signals that a process may send: all but those that an instruction brings about. */
void roami_inside_signals(sigset_t *set);

/*
 * For a thread that blocks all signals, now and then: where all others block them, too, in faults,
 * brings about what the default action of a pending one is; and of `number`, whose handler may run
 * on any thread, 0: none.
 */
void roami_inside_overdue(int number);

#endif
