/*
 * The stacks on which a process's faults in roam's ranges are handled, and what such a fault has
 * interrupted.
 */
#include "fault/signals_stack.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault/signals.h"
#include "os/inside.h"
#include "os/slab.h"

/* Of a stack, where the caller of a function of a library is looked for. */
#define CODE_WORDS 128u
#define STACK_PAGE 4096u

/* Of the x86-64 calling convention. */
#define RED_ZONE       128
#define FLAG_DIRECTION 0x400

static struct roami_slabs roami_signals_rooms;

/* The calling thread's faults in roam's ranges, nested. */
struct signals_own {
	const ucontext_t *context; /* of the one that is looked at */
	const struct roami_slab *room;
	unsigned depth;
	uint32_t hint; /* the entry it used last */
};

static __thread struct signals_own signals_own;

const void *roami_signals_enter(const void *context)
{
	const void *outer = signals_own.context;

	signals_own.context = context;
	return outer;
}

/*
 * The kernel does not know the stack of a fault: a signal caused by an error here would begin at
 * the top of the program's alternate stack, over the frame by which the handler returns.  So the
 * alternate stack is disabled meanwhile; the return from the signal enables it again.  The kernel
 * refuses that while the thread is on it.
 */
static void signals_disarm(const ucontext_t *context)
{
	static const stack_t none = {.ss_flags = SS_DISABLE};

	if ((context->uc_stack.ss_flags & SS_DISABLE) == 0)
		sigaltstack(&none, NULL);
}

static void signals_die(const char *why, size_t length)
{
	ssize_t ignored = write(STDERR_FILENO, why, length);

	(void)ignored;
	signal(SIGABRT, SIG_DFL);
	abort();
}

struct signals_touch {
	roami_fault_fn *fn;
	void *arg;
	uint32_t page;
	bool write;
	bool kind_known;
	const ucontext_t *context; /* of the first of several */
	int cancel;                /* the state before it */
};

static void signals_touch(const struct signals_touch *touch)
{
	touch->fn(touch->arg, touch->page, touch->write, touch->kind_known);
}

static void signals_outer(void *arg)
{
	struct signals_touch *touch = arg;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &touch->cancel);
	signals_disarm(touch->context);
	signals_touch(touch);
}

/* Only the fault under way runs on its stack. */
static void signals_inner(const struct signals_own *own, const struct signals_touch *touch)
{
	static const char jumped[] =
		"roam: a signal handler has jumped out of a page fault, which cannot go on\n";
	uintptr_t sp = (uintptr_t)own->context->uc_mcontext.gregs[REG_RSP];

	if (sp - (uintptr_t)own->room->bytes > ROAMI_SLAB_BYTES)
		signals_die(jumped, sizeof(jumped) - 1);
	signals_touch(touch);
}

/* The fault of a call has waited for long: the return from the signal blocks what a wait blocks. */
static void signals_late(const ucontext_t *context)
{
	uint64_t blocked = roami_signals_mask(context);

	roami_inside_mask(&blocked);
	memcpy((void *)(uintptr_t)&context->uc_sigmask, &blocked, sizeof(blocked));
}

void roami_signals_fault(roami_fault_fn *fn, void *arg, uint32_t page, bool write, bool kind_known)
{
	static const char empty[] =
		"roam: the system has no memory for the stack of a page fault\n";
	struct signals_own *own = &signals_own;
	struct signals_touch touch = {fn, arg, page, write, kind_known, own->context, 0};
	struct roami_slab *room;

	if (own->depth++ > 0) {
		signals_inner(own, &touch);
		own->depth--;
		return;
	}
	room = roami_slab_take(&roami_signals_rooms, &own->hint);
	if (room == NULL)
		signals_die(empty, sizeof(empty) - 1);
	own->room = room;
	roami_inside.fault = true;
	roami_slab_run(room, signals_outer, &touch);
	roami_inside.fault = false;
	roami_slab_give(room);
	if (roami_inside.late)
		signals_late(touch.context);
	own->depth--;
	pthread_setcancelstate(touch.cancel, NULL);
}

/* AddressSanitizer does not allow what it reads: frames of others. */
__attribute__((no_sanitize("address"))) uintptr_t roami_signals_code(uintptr_t text, uintptr_t end)
{
	const ucontext_t *context = signals_own.context;
	uintptr_t code, sp;

	if (context == NULL)
		return 0;
	code = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	sp = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
	/* Within one page of the stack, which is there. */
	for (unsigned i = 0; code - text >= end - text && i < CODE_WORDS && sp % 8 == 0; i++) {
		if (i > 0 && sp % STACK_PAGE == 0)
			return 0;
		code = *(const volatile uintptr_t *)sp; /* NOLINT: an address */
		code--; /* in the call, not behind it */
		sp += sizeof(code);
	}
	return code - text < end - text ? code : 0;
}

void roami_signals_leave(void *context, void (*at)(void *arg), void *arg)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	registers[REG_RSP] = ((registers[REG_RSP] - RED_ZONE) & ~(greg_t)15) - 8;
	registers[REG_RIP] = (greg_t)(uintptr_t)at;
	registers[REG_RDI] = (greg_t)(uintptr_t)arg;
	registers[REG_EFL] &= ~(greg_t)FLAG_DIRECTION;
}

bool roami_signals_divert(void (*at)(void *arg), void *arg)
{
	if (signals_own.context == NULL || signals_own.depth == 0)
		return false;
	roami_signals_leave((void *)(uintptr_t)signals_own.context, at, arg);
	return true;
}

size_t roami_signals_depth(void)
{
	return roami_slabs_depth(&roami_signals_rooms);
}

bool roami_signals_warm(void)
{
	uint32_t first = 0;
	struct roami_slab *room = roami_slab_take(&roami_signals_rooms, &first);
	sigset_t now;

	pthread_sigmask(SIG_SETMASK, NULL, &now);
	sched_yield();
	if (room != NULL)
		roami_slab_give(room);
	return room != NULL;
}
