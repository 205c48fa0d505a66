#include "os/inside.h"

#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unwind.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* More than the part of a thread's record that begins it, in any C library. */
#define RECORD_BYTES 2048u

__thread struct roami_inside roami_inside;
struct roami_inside_record roami_inside_record;

static uint8_t inside_byte(uint32_t at, int type)
{
	int before;

	pthread_setcanceltype(type, &before);
	return roami_inside_byte(at);
}

/* The bits there that the type of cancellation changes; others may change by themselves, once. */
static uint8_t inside_bits(uint32_t at)
{
	uint8_t bits[2];

	for (unsigned i = 0; i < COUNT(bits); i++)
		bits[i] = inside_byte(at, PTHREAD_CANCEL_DEFERRED) ^
			  inside_byte(at, PTHREAD_CANCEL_ASYNCHRONOUS);
	return bits[0] == bits[1] ? bits[0] : 0;
}

void roami_inside_begin(void)
{
	struct roami_inside_record record = {0};
	int state, type;

	if (roami_inside_record.bits != 0)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	while (record.at < RECORD_BYTES && (record.bits = inside_bits(record.at)) == 0)
		record.at++;
	if (record.bits != 0) {
		record.now = inside_byte(record.at, PTHREAD_CANCEL_ASYNCHRONOUS) & record.bits;
		roami_inside_record = record;
	}
	pthread_setcanceltype(type, NULL);
	pthread_setcancelstate(state, NULL);
}

void roami_inside_signals(sigset_t *set)
{
	static const int now[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

	sigfillset(set);
	for (unsigned i = 0; i < COUNT(now); i++)
		sigdelset(set, now[i]);
}

/* A cancellation point, at whose end glibc waits for the signal; the thread may end here. */
void roami_cancel_await(void)
{
	poll(NULL, 0, 0);
}

static bool inside_handled(int number)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) != 0)
		return false;
	return (action.sa_flags & SA_SIGINFO) != 0 ||
	       (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

/* The signals of timers and users that the program has a handler for. */
static void inside_held(sigset_t *set)
{
	static const int timers[] = {SIGALRM, SIGVTALRM, SIGUSR1, SIGUSR2};

	sigemptyset(set);
	for (unsigned i = 0; i < COUNT(timers); i++)
		if (inside_handled(timers[i])) {
			sigaddset(set, timers[i]);
			roami_inside.blocked = true;
		}
}

void roami_inside_defer(void)
{
	sigset_t set, before;

	if (roami_inside.deferred || roami_inside.call == NULL)
		return;
	if (roami_inside.fault) {
		roami_inside.late = true;
		return;
	}
	roami_inside.deferred = true;
	inside_held(&set);
	if (!roami_inside.blocked)
		return;
	pthread_sigmask(SIG_BLOCK, &set, &before);
	memcpy(&roami_inside.before, &before, sizeof(roami_inside.before));
}

void roami_inside_mask(uint64_t *mask)
{
	uint64_t held;
	sigset_t set;

	inside_held(&set);
	memcpy(&held, &set, sizeof(held));
	roami_inside.late = false;
	roami_inside.deferred = true;
	roami_inside.before = *mask;
	*mask |= held;
}

/* A handler may jump out of here. */
void roami_inside_admit(void)
{
	bool blocked = roami_inside.blocked;
	sigset_t before;

	if (roami_inside.then != NULL)
		roami_inside_end();
	roami_inside.deferred = roami_inside.blocked = false;
	sigemptyset(&before);
	memcpy(&before, &roami_inside.before, sizeof(roami_inside.before));
	if (blocked)
		pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void roami_inside_overdue(int number)
{
	sigset_t pending, one;

	if (sigpending(&pending) != 0)
		return;
	for (int signal = 1; signal < SIGSYS; signal++) {
		if (sigismember(&pending, signal) != 1 ||
		    (signal != number && inside_handled(signal)))
			continue;
		sigemptyset(&one);
		sigaddset(&one, signal);
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
		pthread_sigmask(SIG_BLOCK, &one, NULL);
	}
}

/* ------------------------------------------------------------------- the end, within a handler */

#define QUOTE(number)  QUOTED(number)
#define QUOTED(number) #number

struct inside_frames {
	uintptr_t sp;        /* of the frame before */
	ucontext_t *context; /* of the innermost signal; NULL: none */
};

/* The kernel's trampoline, which the handler returns to, has the context on top of its stack. */
static _Unwind_Reason_Code inside_frame(struct _Unwind_Context *frame, void *arg)
{
	struct inside_frames *frames = arg;
	ucontext_t *context = (ucontext_t *)frames->sp;
	int before = 0;
	uintptr_t ip = _Unwind_GetIPInfo(frame, &before);

	if (before != 0 && context != NULL &&
	    (uintptr_t)context->uc_mcontext.gregs[REG_RIP] == ip) {
		frames->context = context;
		return _URC_END_OF_STACK;
	}
	frames->sp = _Unwind_GetCFA(frame);
	return _URC_NO_REASON;
}

/* Returns to what the signal has interrupted, as its handler would. */
__attribute__((noreturn)) static void inside_return(ucontext_t *context)
{
	__asm__ volatile("movq %0, %%rsp\n\tmovl $" QUOTE(__NR_rt_sigreturn) ", %%eax\n\tsyscall"
			 :
			 : "r"(context)
			 : "memory");
	__builtin_unreachable();
}

void roami_inside_later(void (*then)(void *arg), void *arg)
{
	struct inside_frames frames = {0};
	sigset_t set;

	if (roami_inside.call == NULL || roami_inside.rests)
		return;
	_Unwind_Backtrace(inside_frame, &frames);
	if (frames.context == NULL || frames.context == roami_inside.passed)
		return;
	roami_inside.then = then;
	roami_inside.arg = arg;
	roami_inside.deferred = true; /* the call's end looks */
	roami_inside_signals(&set);
	/* The kernel's set is shorter than the C library's. */
	memcpy(&frames.context->uc_sigmask, &set, sizeof(uint64_t));
	inside_return(frames.context);
}

void roami_inside_end(void)
{
	void (*then)(void *arg) = roami_inside.then;

	roami_inside.then = NULL;
	then(roami_inside.arg);
}
