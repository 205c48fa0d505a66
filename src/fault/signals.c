/*
 * Signal handlers get no argument, so the table of ranges and the older handlers are the process's.
 * Handlers read it without locks; changes are made under `lock`.
 */
#include "fault/signals.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault/signals_stack.h"
#include "os/inside.h"

/* Bits of the x86 page fault error code. */
#define FAULT_WRITE 2
#define FAULT_FETCH 16

/* Signals by which an error of the program ends it; engines answer the first two. */
static const int signals_known[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
#define SIGNALS (sizeof(signals_known) / sizeof(signals_known[0]))

/* Between the frame pointer and what the kernel has put behind the return address. */
#define CONTEXT_ABOVE_FRAME 16

/* By which glibc's pthread_cancel interrupts a thread. */
#define SIGNAL_CANCEL 32

#define OLDER_MAX 8
#define OLDER_ROOMS 4

/*
 * A range.  Read with a sequence count: a handler that finds it odd or changed skips the range,
 * because no thread may fault there just then.
 */
struct signals_area {
	_Atomic uint32_t serial;
	_Atomic int signal; /* 0: free */
	_Atomic uintptr_t start;
	_Atomic uintptr_t end;
	_Atomic(roami_signal_fn *) fn;
	void *_Atomic arg;
	pid_t pid; /* under the lock */
};

struct signals_found {
	roami_signal_fn *fn;
	void *arg;
};

/*
 * The handlers that were installed before ours, newest last.  More than one if another library took
 * the signal and passes faults on to this handler: they must reach the handler before that
 * library's, not that library's again.
 */
struct signals_older {
	unsigned count;
	struct sigaction actions[OLDER_MAX];
	_Atomic bool spent[OLDER_MAX]; /* had SA_RESETHAND and was called: now SIG_DFL */
};

/*
 * Published as a whole; an entry is reused only three changes later, and a change requires that
 * another library takes the signal.
 */
struct signals_chain {
	struct signals_older rooms[OLDER_ROOMS];
	unsigned room;
	_Atomic(struct signals_older *) now;
};

static struct signals_process {
	_Atomic uint32_t lock;
	_Atomic uint32_t areas_used; /* slots ever used */
	struct signals_area areas[ROAMI_SIGNALS_AREAS];
	struct signals_chain chains[SIGNALS];
	_Atomic(roami_signals_last_fn *) last; /* NULL: only the signals of ranges are taken */
	void *_Atomic last_arg;
	_Atomic(_Atomic uint32_t *) heard;
	pid_t pid; /* that of the word; it is not inherited */
	_Atomic bool reported; /* a handler that was installed over ours */
} roami_signals;

/*
 * The foreign fault that this thread is passing on.  A handler called by this one may call it again
 * with the same context from further down the stack.  After a longjmp out of it the next fault
 * starts at or above the old frame.
 */
struct signals_passing {
	const void *context;
	uintptr_t frame;
	unsigned depth;
};

static __thread struct signals_passing signals_passing;

static __thread uintptr_t signals_last_own; /* the address of the thread's last fault of ours */

static void signals_handler(int signal, siginfo_t *info, void *context);

static bool signals_try_lock(void)
{
	return atomic_exchange_explicit(&roami_signals.lock, 1, memory_order_acquire) == 0;
}

static void signals_lock(void)
{
	while (!signals_try_lock())
		sched_yield();
}

static void signals_unlock(void)
{
	atomic_store_explicit(&roami_signals.lock, 0, memory_order_release);
}

static struct signals_chain *signals_chain(int signal)
{
	unsigned i = 0;

	while (i < SIGNALS - 1 && signals_known[i] != signal)
		i++;
	return &roami_signals.chains[i];
}

/* -------------------------------------------------------------------- in the signal handler */

static bool signals_lookup(int signal, uintptr_t address, struct signals_found *found_p)
{
	uint32_t used = atomic_load_explicit(&roami_signals.areas_used, memory_order_acquire);

	for (uint32_t i = 0; i < used; i++) {
		struct signals_area *area = &roami_signals.areas[i];
		uint32_t serial = atomic_load_explicit(&area->serial, memory_order_acquire);
		struct signals_found found;

		if (atomic_load_explicit(&area->signal, memory_order_relaxed) != signal ||
		    address < atomic_load_explicit(&area->start, memory_order_relaxed) ||
		    address >= atomic_load_explicit(&area->end, memory_order_relaxed))
			continue;
		found.fn = atomic_load_explicit(&area->fn, memory_order_relaxed);
		found.arg = atomic_load_explicit(&area->arg, memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if ((serial & 1) != 0 ||
		    atomic_load_explicit(&area->serial, memory_order_relaxed) != serial)
			continue;
		*found_p = found;
		return true;
	}
	return false;
}

/* The calling thread is about to end the process: by what it did, or by a signal to it alone. */
static void signals_last(const siginfo_t *info)
{
	roami_signals_last_fn *fn = atomic_load(&roami_signals.last);

	if (fn != NULL && (info->si_code > 0 || info->si_code == SI_TKILL))
		fn(atomic_load(&roami_signals.last_arg));
}

/*
 * Restores the default action: the instruction is retried and the kernel ends the process. `roam
 * run --gdb` has a breakpoint here.
 */
__attribute__((noinline)) static void signals_default(int signal, const siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	signals_last(info);
	sigaction(signal, &action, NULL);
	/* Sent by a process, or raised behind the instruction: nothing will repeat it. */
	if (info->si_code <= 0 || signal == SIGTRAP || signal == SIGSYS)
		syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), signal);
}

static bool signals_is_default(int signal)
{
	struct sigaction now;

	return sigaction(signal, NULL, &now) != 0 || now.sa_handler == SIG_DFL;
}

/*
 * Calls a handler with the signals blocked that the kernel would have blocked for it: not those
 * that roam's handler blocks, unless it was not the kernel that called that handler.
 */
static void signals_call(const struct sigaction *action, int signal, siginfo_t *info, void *context,
			 bool by_kernel)
{
	sigset_t blocked = action->sa_mask, before;
	uint64_t *word = (uint64_t *)(void *)&blocked;

	if ((action->sa_flags & SA_NODEFER) == 0)
		*word |= (uint64_t)1 << (signal - 1);
	if (by_kernel)
		*word |= roami_signals_mask(context);
	pthread_sigmask(by_kernel ? SIG_SETMASK : SIG_BLOCK, &blocked, &before);
	if ((action->sa_flags & SA_SIGINFO) != 0)
		action->sa_sigaction(signal, info, context);
	else
		action->sa_handler(signal);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Passes a fault to the older handler number `depth`, 0 the newest. */
static void signals_pass_to(unsigned depth, int signal, siginfo_t *info, void *context,
			    bool by_kernel)
{
	struct signals_older *older = atomic_load(&signals_chain(signal)->now);
	struct sigaction action = {.sa_handler = SIG_DFL};

	if (older != NULL && depth < older->count) {
		unsigned i = older->count - 1 - depth;

		action = older->actions[i];
		if (atomic_load(&older->spent[i]))
			action.sa_handler = SIG_DFL;
		else if ((action.sa_flags & (int)SA_RESETHAND) != 0)
			atomic_store(&older->spent[i], true);
	}
	if (action.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	/*
	 * A real fault cannot be ignored, whatever the program asked; the kernel does not ignore
	 * one either.
	 */
	if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
		signals_default(signal, info);
	else
		signals_call(&action, signal, info, context, by_kernel);
}

/* Says in the process's word, if there is one, whether the signal will be, or was, heard of. */
static void signals_hears(int signal, bool will)
{
	_Atomic uint32_t *heard = atomic_load(&roami_signals.heard);

	if (heard == NULL || roami_signals.pid != getpid())
		return;
	if (will)
		atomic_fetch_or(heard, ROAMI_SIGNALS_BIT(signal));
	else
		atomic_fetch_and(heard, ~ROAMI_SIGNALS_BIT(signal));
}

static void signals_pass(int signal, siginfo_t *info, void *context, uintptr_t frame)
{
	struct signals_passing before = signals_passing;
	bool again = before.context == context && frame < before.frame;

	signals_passing.context = context;
	signals_passing.frame = frame;
	roami_inside.passed = context;
	signals_passing.depth = again ? before.depth + 1 : 0;
	signals_hears(signal, false);
	signals_pass_to(signals_passing.depth, signal, info, context,
			frame + CONTEXT_ABOVE_FRAME == (uintptr_t)context);
	/* It goes on. */
	if (atomic_load(&roami_signals.heard) != NULL && !signals_is_default(signal))
		signals_hears(signal, true);
	signals_passing = before;
	roami_inside.passed = before.context;
}

/*
 * Says why the process will end, if it raised the signal itself and the thread's last fault was one
 * of ours that did not come here: another handler got it, put ours back and raised it anew.
 */
__attribute__((noinline)) static void signals_explain(int signal, const siginfo_t *info,
						      const ucontext_t *context)
{
	static const char text[] =
		"roam: a handler of SIGSEGV or SIGBUS that was installed after roam_start got a "
		"fault of the shared heap, and raised the signal anew. Install such handlers "
		"(faulthandler.enable() of Python) before roam_start\n";
	uintptr_t address = (uintptr_t)context->uc_mcontext.gregs[REG_CR2];
	struct signals_found found;

	if ((info->si_code != SI_TKILL && info->si_code != SI_USER) || info->si_pid != getpid() ||
	    address == signals_last_own || !signals_lookup(signal, address, &found))
		return;
	if (!atomic_exchange(&roami_signals.reported, true) &&
	    write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		return;
}

static void signals_handler(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	const void *outer;
	struct signals_found found;
	bool ours = info->si_code > 0 &&
		    signals_lookup(signal, (uintptr_t)info->si_addr, &found);

	if (ours) {
		outer = roami_signals_enter(context);
		signals_last_own = (uintptr_t)info->si_addr;
		ours = found.fn(found.arg, info, context);
		roami_signals_enter(outer);
	} else if (info->si_code <= 0) {
		signals_explain(signal, info, context);
	}
	if (!ours)
		signals_pass(signal, info, context, (uintptr_t)__builtin_frame_address(0));
	errno = saved;
}

/* ----------------------------------------------------------- installing, all under the lock */

static bool signals_is_ours(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == signals_handler;
}

/* Makes `action` the newest of the older handlers; each is listed once. */
static void signals_push(struct signals_chain *chain, const struct sigaction *action)
{
	struct signals_older *now = atomic_load(&chain->now);
	struct signals_older *next = &chain->rooms[++chain->room % OLDER_ROOMS];
	unsigned first = now != NULL && now->count == OLDER_MAX;

	next->count = 0;
	for (unsigned i = first; now != NULL && i < now->count; i++) {
		if (now->actions[i].sa_sigaction == action->sa_sigaction)
			continue;
		next->actions[next->count] = now->actions[i];
		atomic_store(&next->spent[next->count++], atomic_load(&now->spent[i]));
	}
	next->actions[next->count] = *action;
	atomic_store(&next->spent[next->count++], false);
	atomic_store(&chain->now, next);
}

/*
 * All signals that may be sent.  A signal raised by an instruction kills the process if it is
 * blocked; glibc's own two signals serve cancellation and setuid, which must not wait.
 */
static void signals_defer(sigset_t *set)
{
	roami_inside_signals(set);
	*(uint64_t *)(void *)set |= (uint64_t)1 << (SIGNAL_CANCEL - 1);
}

/* Returns whether a system call failed; *stolen_p: whether our handler was not installed. */
static enum roam_err signals_install(int signal, bool *stolen_p)
{
	struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	struct sigaction before;

	ours.sa_sigaction = signals_handler;
	signals_defer(&ours.sa_mask);
	if (sigaction(signal, NULL, &before) != 0)
		return ROAM_ESYSTEM;
	*stolen_p = !signals_is_ours(&before);
	if (!*stolen_p)
		return ROAM_OK;
	/* Listed before roam's handler is installed: a foreign fault may come at once. */
	signals_push(signals_chain(signal), &before);
	return sigaction(signal, &ours, NULL) == 0 ? ROAM_OK : ROAM_ESYSTEM;
}

static void signals_restore(int signal)
{
	struct signals_chain *chain = signals_chain(signal);
	struct signals_older *older = atomic_load(&chain->now);
	struct sigaction now;

	if (older == NULL || sigaction(signal, NULL, &now) != 0 || !signals_is_ours(&now))
		return;
	now = older->actions[older->count - 1];
	if (atomic_load(&older->spent[older->count - 1]))
		now = (struct sigaction){.sa_handler = SIG_DFL};
	sigaction(signal, &now, NULL);
	atomic_store(&chain->now, NULL);
}

static void signals_area_set(struct signals_area *area, int signal, uintptr_t start, size_t bytes,
			     struct signals_found found)
{
	uint32_t serial = atomic_load_explicit(&area->serial, memory_order_relaxed);

	atomic_store_explicit(&area->serial, serial + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&area->signal, signal, memory_order_relaxed);
	atomic_store_explicit(&area->start, start, memory_order_relaxed);
	atomic_store_explicit(&area->end, start + bytes, memory_order_relaxed);
	atomic_store_explicit(&area->fn, found.fn, memory_order_relaxed);
	atomic_store_explicit(&area->arg, found.arg, memory_order_relaxed);
	atomic_store_explicit(&area->serial, serial + 2, memory_order_release);
	area->pid = getpid();
}

static void signals_area_clear(struct signals_area *area)
{
	signals_area_set(area, 0, 0, 0, (struct signals_found){NULL, NULL});
}

/* Returns a free slot; on the way forgets ranges of a parent process. */
static struct signals_area *signals_area_new(void)
{
	struct signals_area *free = NULL;
	pid_t pid = getpid();

	for (uint32_t i = ROAMI_SIGNALS_AREAS; i-- > 0;) {
		struct signals_area *area = &roami_signals.areas[i];

		if (area->signal != 0 && area->pid != pid)
			signals_area_clear(area);
		if (area->signal == 0)
			free = area;
	}
	return free;
}

enum roam_err roami_signals_add(int signal, const void *start, size_t bytes, roami_signal_fn *fn,
				void *arg)
{
	struct signals_area *area;
	enum roam_err err;
	uint32_t used;
	bool stolen;

	signals_lock();
	area = signals_area_new();
	if (area == NULL) {
		signals_unlock();
		return ROAM_ENOMEM;
	}
	signals_area_set(area, signal, (uintptr_t)start, bytes, (struct signals_found){fn, arg});
	used = (uint32_t)(area - roami_signals.areas) + 1;
	if (used > atomic_load(&roami_signals.areas_used))
		atomic_store(&roami_signals.areas_used, used);
	err = signals_install(signal, &stolen);
	if (err == ROAM_OK && !roami_signals_warm())
		err = ROAM_ENOMEM;
	if (err != ROAM_OK)
		signals_area_clear(area);
	signals_unlock();
	return err;
}

void roami_signals_orphan(const void *start, size_t bytes, roami_signal_fn *fn)
{
	signals_unlock(); /* its holder is a thread of the parent */
	roami_signals_add(SIGSEGV, start, bytes, fn, NULL);
}

/* Puts the older handler back if nothing is left that needs ours. */
static void signals_leave(int signal)
{
	if (atomic_load(&roami_signals.last) != NULL)
		return;
	for (uint32_t i = 0; i < ROAMI_SIGNALS_AREAS; i++)
		if (roami_signals.areas[i].signal == signal)
			return;
	signals_restore(signal);
}

void roami_signals_remove(int signal, const void *arg)
{
	bool found = false;

	signals_lock();
	for (uint32_t i = 0; i < ROAMI_SIGNALS_AREAS; i++) {
		struct signals_area *area = &roami_signals.areas[i];

		if (area->signal != signal || area->arg != arg)
			continue;
		signals_area_clear(area);
		found = true;
	}
	if (found)
		signals_leave(signal);
	signals_unlock();
}

enum roam_err roami_signals_last(roami_signals_last_fn *fn, void *arg)
{
	enum roam_err err = ROAM_OK;
	bool stolen;

	signals_lock();
	atomic_store(&roami_signals.last_arg, arg);
	atomic_store(&roami_signals.last, fn);
	for (unsigned i = 0; i < SIGNALS && err == ROAM_OK; i++)
		if (fn != NULL)
			err = signals_install(signals_known[i], &stolen);
		else
			signals_leave(signals_known[i]);
	signals_unlock();
	return err;
}

bool roami_signals_check(int signal)
{
	bool stolen = false;

	if (!signals_try_lock())
		return true; /* the range is being changed */
	signals_install(signal, &stolen);
	signals_unlock();
	return !stolen;
}

void roami_signals_heard(_Atomic uint32_t *heard)
{
	_Atomic uint32_t *was;

	signals_lock();
	was = atomic_load(&roami_signals.heard);
	if (was != NULL && roami_signals.pid == getpid()) /* else it is the parent's */
		atomic_store(was, 0);
	atomic_store(&roami_signals.heard, NULL);
	roami_signals.pid = getpid();
	if (heard != NULL)
		atomic_store(heard, 0);
	atomic_store(&roami_signals.heard, heard);
	for (uint32_t i = 0; i < ROAMI_SIGNALS_AREAS; i++)
		if (roami_signals.areas[i].signal != 0 &&
		    roami_signals.areas[i].pid == roami_signals.pid)
			signals_hears(roami_signals.areas[i].signal, true);
	signals_unlock();
}

void *roami_signals_find(int signal, uintptr_t address)
{
	struct signals_found found;

	return signals_lookup(signal, address, &found) ? found.arg : NULL;
}

/* ------------------------------------------------------------------------------ the context */

static bool signals_error_has(const void *context, greg_t bit)
{
	const ucontext_t *user = context;

	return (user->uc_mcontext.gregs[REG_ERR] & bit) != 0;
}

bool roami_signals_is_write(const void *context)
{
	return signals_error_has(context, FAULT_WRITE);
}

bool roami_signals_is_fetch(const void *context)
{
	return signals_error_has(context, FAULT_FETCH);
}

bool roami_signals_no_memory(void *arg, siginfo_t *info, const void *context)
{
	static const char text[] =
		"roam: the system has no memory for the page of the shared heap at 0x";
	static const char digits[] = "0123456789abcdef";
	uintptr_t address = (uintptr_t)info->si_addr;
	char line[sizeof(text) + 17];
	size_t length = sizeof(text) - 1;

	(void)arg;
	(void)context;
	if (info->si_code != BUS_ADRERR)
		return false; /* for example broken memory */
	memcpy(line, text, length);
	for (int shift = 60; shift >= 0; shift -= 4)
		line[length++] = digits[(address >> shift) & 15];
	line[length++] = '\n';
	if (write(STDERR_FILENO, line, length) < 0)
		return false;
	return false;
}
