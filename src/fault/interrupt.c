/*
 * The frames that would be left are found by the unwinder, which reads tables that compilers write
 * for every function; where it finds none the function is not left.  It takes no lock here: the
 * interrupted instruction is not in the loader.
 */
#include "fault/interrupt.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "fault/signals.h"
#include "os/inside.h"
#include "os/os.h"
#include "os/restart.h"

#define LATER_NS   300000
#define FRAMES_MAX 1000u

static struct interrupt_process {
	pthread_once_t once;
	_Atomic int signal;     /* 0: none is taken */
	uintptr_t text, end;    /* of the program */
	_Atomic(struct roami_interrupt *) of;
	int timer;              /* the kernel's, which signals the thread `tid` */
	pid_t pid, tid;         /* 0: there is no timer */
	/* Threads to which a signal is on its way, by their numbers. */
	_Atomic pid_t sent[ROAMI_INTERRUPT_OTHERS];
} roami_interrupts = {.once = PTHREAD_ONCE_INIT};

/* ---------------------------------------------------------------------------------- the frames */

struct interrupt_frames {
	uintptr_t ip;  /* of the interrupted instruction */
	uintptr_t top;
	unsigned count;
	bool begun; /* the frame of that is reached: those before are of the handler */
	bool all;   /* all frames below `top` are of functions of the program */
};

static bool interrupt_own(uintptr_t code)
{
	return code - roami_interrupts.text < roami_interrupts.end - roami_interrupts.text;
}

static _Unwind_Reason_Code interrupt_frame(struct _Unwind_Context *context, void *arg)
{
	struct interrupt_frames *frames = arg;
	int before = 0;
	uintptr_t ip = _Unwind_GetIPInfo(context, &before), sp = _Unwind_GetCFA(context);

	frames->begun = frames->begun || ip == frames->ip;
	if (!frames->begun)
		return _URC_NO_REASON;
	frames->all = sp == frames->top && roami_restart_is(ip);
	if (sp >= frames->top || !interrupt_own(before != 0 ? ip : ip - 1) ||
	    ++frames->count == FRAMES_MAX)
		return _URC_END_OF_STACK;
	return _URC_NO_REASON;
}

static bool interrupt_may(const struct roami_interrupt *of, const ucontext_t *context)
{
	struct interrupt_frames frames = {
		.ip = (uintptr_t)context->uc_mcontext.gregs[REG_RIP],
		.top = (uintptr_t)*of->top,
	};

	if (!interrupt_own(frames.ip) ||
	    (uintptr_t)context->uc_mcontext.gregs[REG_RSP] >= frames.top)
		return false;
	_Unwind_Backtrace(interrupt_frame, &frames);
	return frames.all;
}

/* ---------------------------------------------------------------------------------- the signal */

static void interrupt_later(void)
{
	const struct itimerspec soon = {.it_value = {.tv_nsec = LATER_NS}};

	if (roami_interrupts.tid != 0) /* else there is no timer */
		syscall(SYS_timer_settime, roami_interrupts.timer, 0, &soon, NULL);
}

/* The signal to the other thread has come, whatever it is good for now. */
static void interrupt_came(const siginfo_t *info)
{
	unsigned other = (unsigned)info->si_value.sival_int;

	if (info->si_code == SI_QUEUE && info->si_pid == getpid() &&
	    other < ROAMI_INTERRUPT_OTHERS)
		atomic_store(&roami_interrupts.sent[other], 0);
}

static void interrupt_handler(int number, siginfo_t *info, void *context)
{
	struct roami_interrupt *of = atomic_load(&roami_interrupts.of);
	int saved = errno;

	(void)number;
	interrupt_came(info);
	if (of != NULL && of->tid != roami_os_tid()) {
		const greg_t *at = ((const ucontext_t *)context)->uc_mcontext.gregs;

		of->other(of->arg, interrupt_own((uintptr_t)at[REG_RIP]),
			  (uintptr_t)at[REG_RIP] ^ (uintptr_t)at[REG_RSP] << 20);
	} else if (of != NULL && !atomic_load(&of->left) && of->wanted(of->arg)) {
		if (of->allowed(of->arg) && interrupt_may(of, context)) {
			atomic_store(&of->left, true);
			roami_signals_leave(context, of->at, of->arg);
		} else {
			interrupt_later();
		}
	}
	errno = saved;
}

/* The first object is the program; another one has the C library. */
static int interrupt_text(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	unsigned *objects = arg;

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum && *objects == 0; i++) {
		const Elf64_Phdr *head = &info->dlpi_phdr[i];

		if (head->p_type != PT_LOAD || (head->p_flags & PF_X) == 0)
			continue;
		roami_interrupts.text = (uintptr_t)info->dlpi_addr + head->p_vaddr;
		roami_interrupts.end = roami_interrupts.text + head->p_memsz;
	}
	return ++*objects > 1;
}

static _Unwind_Reason_Code interrupt_warm(struct _Unwind_Context *context, void *arg)
{
	(void)context;
	(void)arg;
	return _URC_NO_REASON;
}

static void interrupt_open(void)
{
	struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK}, now;
	unsigned objects = 0;

	dl_iterate_phdr(interrupt_text, &objects);
	if (objects < 2 || interrupt_own((uintptr_t)malloc))
		return;
	_Unwind_Backtrace(interrupt_warm, NULL); /* what it does once it must not do in a handler */
	ours.sa_sigaction = interrupt_handler;
	roami_inside_signals(&ours.sa_mask);
	for (int number = SIGRTMAX; number >= SIGRTMIN; number--)
		if (sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
		    now.sa_handler == SIG_DFL) {
			if (sigaction(number, &ours, NULL) == 0)
				atomic_store(&roami_interrupts.signal, number);
			return;
		}
}

void roami_interrupt_open(void)
{
	pthread_once(&roami_interrupts.once, interrupt_open);
}

/* ---------------------------------------------------------------------------------- the thread */

/* A timer is not inherited by a process, and signals one thread. */
static void interrupt_timer(pid_t pid, pid_t tid)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID};

	if (roami_interrupts.tid == tid && roami_interrupts.pid == pid)
		return;
	if (roami_interrupts.tid != 0 && roami_interrupts.pid == pid)
		syscall(SYS_timer_delete, roami_interrupts.timer);
	event.sigev_signo = atomic_load(&roami_interrupts.signal);
	event._sigev_un._tid = tid;
	roami_interrupts.pid = pid;
	roami_interrupts.tid = tid;
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &roami_interrupts.timer) != 0)
		roami_interrupts.tid = 0;
}

void roami_interrupt_of(struct roami_interrupt *of)
{
	if (atomic_load(&roami_interrupts.signal) == 0)
		return;
	if (of != NULL)
		interrupt_timer(of->pid, of->tid);
	atomic_store(&roami_interrupts.of, of);
}

bool roami_interrupt_ready(void)
{
	return atomic_load(&roami_interrupts.signal) != 0;
}

void roami_interrupt_unblock(sigset_t *now_p)
{
	int number = atomic_load(&roami_interrupts.signal);
	sigset_t one;

	sigemptyset(&one);
	if (number != 0)
		sigaddset(&one, number);
	pthread_sigmask(SIG_UNBLOCK, &one, now_p);
	if (number != 0)
		sigdelset(now_p, number);
}

void roami_interrupt_forget(unsigned number)
{
	atomic_store(&roami_interrupts.sent[number], 0);
}

bool roami_interrupt_other(const struct roami_interrupt *of, unsigned number, pid_t tid)
{
	int signal = atomic_load(&roami_interrupts.signal);
	siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
	bool there = true;

	if (signal == 0 || atomic_load(&roami_interrupts.of) != of ||
	    atomic_exchange(&roami_interrupts.sent[number], tid) == tid)
		return true;
	info.si_pid = of->pid;
	info.si_value.sival_int = (int)number;
	if (syscall(SYS_rt_tgsigqueueinfo, of->pid, tid, signal, &info) != 0) {
		there = errno != ESRCH;
		roami_interrupt_forget(number);
	}
	return there;
}

void roami_interrupt_send(const struct roami_interrupt *of)
{
	int number = atomic_load(&roami_interrupts.signal);

	if (number != 0 && atomic_load(&roami_interrupts.of) == of)
		syscall(SYS_tgkill, of->pid, of->tid, number);
}
