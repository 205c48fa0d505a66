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

/* How a thread could be cancelled: the C library's state and type. */
struct roami_cancel {
	uint8_t state, type;
};

struct roami_inside {
	const char *call; /* its name; NULL: in none */
	const void *uses; /* the endpoint that the call uses; NULL: none */
	struct roami_cancel cancel; /* before it */
	bool deferred;    /* roami_inside_defer has looked, */
	bool blocked;     /* and blocked some; */
	bool fault;       /* the thread is in a fault, which blocks them all, */
	bool late;        /* and has waited for long there */
	uint64_t before;  /* these were before: a thread has little room of its own */
	bool free;        /* it may end in any wait: it has nothing that others need; */
	bool needed;      /* it may in none */
	bool rests;       /* it sleeps where it may */
	const void *passed; /* context of a fault that a handler of the program has now; NULL */
	void (*then)(void *arg); /* of roami_inside_later; NULL: none */
	void *arg;
};

extern __thread struct roami_inside roami_inside;

/*
 * Where the C library notes that a thread may be cancelled at any instruction: in its record of the
 * thread, at that distance from the thread pointer.  A byte that is `now` under `bits` says so, and
 * so does every byte until roami_inside_begin has found the place.
 */
struct roami_inside_record {
	uint32_t at;
	uint8_t bits, now;
};

extern struct roami_inside_record roami_inside_record;

/* Called before a process's other threads call anything; any number of times. */
void roami_inside_begin(void);

static inline uint8_t roami_inside_byte(uintptr_t at)
{
	uint8_t byte;

	__asm__ volatile("movb %%fs:(%1), %0" : "=q"(byte) : "r"(at));
	return byte;
}

/*
 * Whether the calling thread's cancellation is asynchronous: it may end within a function that is
 * not a cancellation point.  pthread_setcanceltype, the only call that tells, takes too long for
 * what is to be quick.
 */
static inline bool roami_inside_asynchronous(void)
{
	const struct roami_inside_record *record = &roami_inside_record;

	return (roami_inside_byte(record->at) & record->bits) == record->now;
}

/*
 * Before a long wait inside a call: blocks, until the call is left, the signals of timers and of
 * users that the program has a handler for.  Not others: by default they end the program, and
 * handlers of SIGINT and SIGTERM do.
 */
void roami_inside_defer(void);
void roami_inside_admit(void);

/*
 * roami_inside_defer for a fault in a call, when that is over and was late: adds the signals to the
 * mask that the thread goes on with.
 */
void roami_inside_mask(uint64_t *mask);

/* This call blocks none: the program heeds signals while it waits, and then ends the wait. */
static inline void roami_inside_open(void)
{
	roami_inside.deferred = true;
}

/* After cancellation was disabled: a signal of pthread_cancel that was on its way comes here. */
void roami_cancel_await(void);

/*
 * Disables cancellation.  Not by the state alone: where the type is asynchronous, as glibc makes it
 * for each system call that is a cancellation point, a signal of pthread_cancel that was on its way
 * ends the thread even if it has disabled cancellation meanwhile (glibc 2.36).
 */
static inline struct roami_cancel roami_cancel_shut(void)
{
	int state, type = PTHREAD_CANCEL_DEFERRED;

	if (__builtin_expect(roami_inside_asynchronous(), 0))
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (__builtin_expect(type != PTHREAD_CANCEL_DEFERRED, 0))
		roami_cancel_await();
	return (struct roami_cancel){(uint8_t)state, (uint8_t)type};
}

static inline void roami_cancel_open(struct roami_cancel before)
{
	pthread_setcancelstate(before.state, NULL);
	if (__builtin_expect(before.type != PTHREAD_CANCEL_DEFERRED, 0))
		pthread_setcanceltype(before.type, NULL);
}

/*
 * A call begins.  The name of one that the thread is still in: it was jumped out of.  Else NULL.
 * It begins when the thread cannot be cancelled any more.
 */
static inline const char *roami_inside_enter(const char *call)
{
	const char *still = roami_inside.call;

	if (__builtin_expect(still == NULL, 1)) {
		roami_inside.cancel = roami_cancel_shut();
		roami_inside.call = call;
	}
	return still;
}

/* Sets a call aside while it calls the program: its cancellation and signals go on to wait. */
static inline struct roami_inside roami_inside_aside(void)
{
	struct roami_inside call = roami_inside;

	roami_inside = (struct roami_inside){0};
	return call;
}

static inline void roami_inside_leave(void)
{
	roami_inside.call = NULL;
	__asm__ volatile("" ::: "memory"); /* later than here a handler ends the program at once */
	roami_cancel_open(roami_inside.cancel);
	if (__builtin_expect(roami_inside.deferred, 0))
		roami_inside_admit();
}

/*
 * The end of the program, within a handler.  In a call the thread may have what others wait for:
 * locks of the library, or a message half sent.  In a function that a handler has called:
 * then(arg), which must not return, is called when the thread has left the call, or rests in it;
 * until then what the signal has interrupted goes on, with signals blocked, and the handler is left
 * for good.  Returns if the thread is in no call, or rests; and if it cannot be found out what was
 * interrupted, or it was a fault, which would only come again.
 */
void roami_inside_later(void (*then)(void *arg), void *arg);

/* Calls it.  `then` is not NULL. */
void roami_inside_end(void);

/* The thread is about to sleep, where it may end if `on`; or has slept. */
static inline void roami_inside_rest(bool on)
{
	roami_inside.rests = on;
	__asm__ volatile("" ::: "memory"); /* a signal of this thread may come from here on */
	if (on && __builtin_expect(roami_inside.then != NULL, 0))
		roami_inside_end();
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
