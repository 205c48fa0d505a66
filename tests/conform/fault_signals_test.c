/*
 * What every fault engine must leave alone: other handlers, real crashes, errno, children of fork.
 */
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_rig.h"

/* ------------------------------------------------------------------------------ other handlers */

static sigjmp_buf foreign_return;
static volatile uintptr_t foreign_address;
static volatile int foreign_signal;

static void foreign_info(int number, siginfo_t *info, void *context)
{
	(void)context;
	foreign_signal = number;
	foreign_address = (uintptr_t)info->si_addr;
	siglongjmp(foreign_return, 1);
}

static void foreign_plain(int number)
{
	foreign_signal = number;
	foreign_address = 0;
	siglongjmp(foreign_return, 1);
}

static struct sigaction before_ours[2];

static void foreign_install(bool with_info)
{
	struct sigaction action = {.sa_flags = with_info ? SA_SIGINFO : 0};

	if (with_info)
		action.sa_sigaction = foreign_info;
	else
		action.sa_handler = foreign_plain;
	sigaction(SIGSEGV, &action, &before_ours[0]);
	sigaction(SIGBUS, &action, &before_ours[1]);
}

static void foreign_remove(void)
{
	sigaction(SIGSEGV, &before_ours[0], NULL);
	sigaction(SIGBUS, &before_ours[1], NULL);
}

/* An address at which an access raises `number`: without access, or beyond the end of a file. */
static uint8_t *foreign_page(int number)
{
	int fd = number == SIGBUS ? roami_os_memfd("empty", 0) : -1;
	uint8_t *page = mmap(NULL, PAGE, number == SIGBUS ? PROT_READ | PROT_WRITE : PROT_NONE,
			     number == SIGBUS ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);

	if (fd >= 0)
		close(fd);
	return page;
}

/* A foreign fault reaches the foreign handler, as if the engine were not there. */
static void foreign_fault(int number, bool with_info)
{
	uint8_t *volatile page = foreign_page(number);

	foreign_signal = 0;
	if (sigsetjmp(foreign_return, 1) == 0) {
		*(volatile uint8_t *)(page + 40) = 1;
		CU_FAIL("no fault");
	}
	CU_ASSERT_EQUAL(foreign_signal, number);
	CU_ASSERT_EQUAL(foreign_address, with_info ? (uintptr_t)page + 40 : 0);
	munmap(page, PAGE);
}

static bool foreign_is_installed(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	return now.sa_sigaction == foreign_info || now.sa_handler == foreign_plain;
}

static void chain_under(const struct roami_fault_engine *engine, bool with_info)
{
	struct rig rig;

	foreign_install(with_info);
	CU_ASSERT_EQUAL(rig_open(&rig, engine, 8), ROAM_OK);
	for (size_t round = 0; round < 3; round++) {
		foreign_fault(SIGSEGV, with_info);
		foreign_fault(SIGBUS, with_info);
		rig_store(&rig, round * PAGE, 1);
		CU_ASSERT_EQUAL(rig_faults(&rig), rig_write_faults(&rig));
	}
	CU_ASSERT(rig.engine->check_handlers(rig.state));
	rig_close(&rig);
	CU_ASSERT(foreign_is_installed(SIGSEGV));
	CU_ASSERT(foreign_is_installed(SIGBUS));
	foreign_remove();
}

/* Faults outside the heap go to the handlers that were there before, and close restores these. */
static void test_chain(void)
{
	for (size_t i = 0; roami_fault_engines[i] != NULL; i++) {
		if (strcmp(roami_fault_engines[i]->name, "soft") == 0 ||
		    !rig_engine_usable(roami_fault_engines[i]))
			continue;
		chain_under(roami_fault_engines[i], true);
		chain_under(roami_fault_engines[i], false);
	}
}

static void stolen(struct rig *rig)
{
	CU_ASSERT(rig->engine->check_handlers(rig->state));
	foreign_install(true);
	CU_ASSERT_FALSE(rig->engine->check_handlers(rig->state));
	CU_ASSERT(rig->engine->check_handlers(rig->state));
	rig_store(rig, 0, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), rig_write_faults(rig));
	foreign_fault(SIGSEGV, true);
	foreign_fault(SIGBUS, true);
	rig_load(rig, PAGE);
	CU_ASSERT_EQUAL(rig_faults(rig), 1);
	foreign_remove(); /* ours */
	CU_ASSERT(rig->engine->check_handlers(rig->state));
	rig->engine->close(rig->state);
	CU_ASSERT(foreign_is_installed(SIGBUS)); /* the new handler gets its way */
}

/*
 * A handler that takes our signal loses it at the next check, and then gets the faults that are not
 * ours.
 */
static void test_stolen(void)
{
	struct sigaction before[2];

	sigaction(SIGSEGV, NULL, &before[0]);
	sigaction(SIGBUS, NULL, &before[1]);
	rig_each_engine(4, true, stolen);
	sigaction(SIGSEGV, &before[0], NULL);
	sigaction(SIGBUS, &before[1], NULL);
}

/*
 * What the fault function sees of its thread; static, because it has no other way to pass this on.
 */
static struct rig *seen_rig;
static sigset_t seen_mask;
static stack_t seen_stack;
static int seen_cancel;
static bool seen_program; /* an unwinder reaches the program's frames */

static void seen_fault(void *arg, uint32_t page, bool write, bool known)
{
	void *frames[32];
	int count = backtrace(frames, 32);

	seen_program = false;
	for (int i = 0; i < count; i++)
		seen_program |= (uintptr_t)frames[i] - (uintptr_t)rig_store < 256;
	pthread_sigmask(SIG_SETMASK, NULL, &seen_mask);
	sigaltstack(NULL, &seen_stack);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &seen_cancel);
	rig_fault(arg, page, write, known);
	if (page == 2) /* a fault within a fault */
		rig_store(seen_rig, 3 * PAGE, 33);
}

/* Opens a heap like the rig's whose faults are looked at. */
static void seen_open(struct rig *mine, const struct rig *like)
{
	enum roam_err err = rig_open(mine, like->engine, 8);

	mine->engine->close(mine->state);
	memset(mine->state, 0, mine->engine->state_size);
	if (err == ROAM_OK)
		err = mine->engine->open(mine->state, &mine->view, seen_fault, mine);
	CU_ASSERT_EQUAL(err, ROAM_OK);
	seen_rig = mine;
}

/* An alternate stack of `bytes` above a guard page, full of 0xa5. */
static uint8_t *alternate_set(size_t bytes, stack_t *before)
{
	uint8_t *room = mmap(NULL, bytes + PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = room + PAGE, .ss_size = bytes};

	mprotect(room, PAGE, PROT_NONE);
	memset(room + PAGE, 0xa5, bytes);
	sigaltstack(&stack, before);
	return room + PAGE;
}

static void alternate_end(uint8_t *room, size_t bytes, const stack_t *before)
{
	sigaltstack(before, NULL);
	munmap(room - PAGE, bytes + PAGE);
}

static size_t alternate_used(uint8_t *room, size_t bytes)
{
	size_t unused = 0;

	while (unused < bytes && room[unused] == 0xa5)
		unused++;
	memset(room, 0xa5, bytes);
	return bytes - unused;
}

static void nothing(int number)
{
	(void)number;
}

/* What the kernel needs of an alternate stack, plus a handler that does nothing. */
static size_t frame_bytes(uint8_t *room, size_t bytes)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_ONSTACK}, before;

	sigaction(SIGUSR1, &action, &before);
	raise(SIGUSR1);
	sigaction(SIGUSR1, &before, NULL);
	return alternate_used(room, bytes);
}

/* What libsigsegv's own handler takes before it calls ours: rule 1.4 leaves that to it. */
#ifdef ROAMI_HAVE_LIBSIGSEGV
#define LIBRARY_BYTES 4096u
#else
#define LIBRARY_BYTES 0u
#endif

#define SMALL ((size_t)8192)

static void small_stack(struct rig *rig)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGPROF, SIGURG};
	static const int stays[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	stack_t before, after;
	uint8_t *room = alternate_set(SMALL, &before);
	size_t frame = frame_bytes(room, SMALL);
	struct rig mine;
	sigset_t mask;
	int cancel;

	seen_open(&mine, rig);
	errno = ENOTTY;
	rig_store(&mine, 0, 1);
	CU_ASSERT_EQUAL(errno, ENOTTY);
	CU_ASSERT(alternate_used(room, SMALL) <= frame + 1024 + LIBRARY_BYTES);
	CU_ASSERT(mine.last_stack < (uintptr_t)room || mine.last_stack > (uintptr_t)room + SMALL);
	for (unsigned i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		CU_ASSERT(sigismember(&seen_mask, ends[i]));
	for (unsigned i = 0; i < sizeof(stays) / sizeof(stays[0]); i++)
		CU_ASSERT_FALSE(sigismember(&seen_mask, stays[i]));
	CU_ASSERT_EQUAL(seen_stack.ss_flags & SS_DISABLE, SS_DISABLE);
	CU_ASSERT_EQUAL(seen_cancel, PTHREAD_CANCEL_DISABLE);
	CU_ASSERT(seen_program);

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	CU_ASSERT_FALSE(sigismember(&mask, SIGALRM));
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
	CU_ASSERT_EQUAL(cancel, PTHREAD_CANCEL_ENABLE);
	sigaltstack(NULL, &after);
	CU_ASSERT_PTR_EQUAL(after.ss_sp, room);
	CU_ASSERT_EQUAL(after.ss_size, SMALL);
	CU_ASSERT_EQUAL(after.ss_flags, 0);

	rig_store(&mine, 2 * PAGE, 22);
	CU_ASSERT_EQUAL(mine.view.runtime[2 * PAGE], 22);
	CU_ASSERT_EQUAL(mine.view.runtime[3 * PAGE], 33);
	CU_ASSERT(alternate_used(room, SMALL) <= frame + 1024 + LIBRARY_BYTES);
	rig_close(&mine);
	alternate_end(room, SMALL, &before);
}

/*
 * A fault leaves errno, the signal mask, cancellation and the alternate stack as they were, is not
 * hindered by them, and needs 1 KiB of the stack it comes on; so does a fault within a fault.
 */
static void test_small_stack(void)
{
	if (WITH_ASAN)
		unit_skip("small stack", "AddressSanitizer makes frames larger");
	else
		rig_each_engine(4, true, small_stack);
}

/* ------------------------------------------------------------------------ crashes, in children */

/* Runs `body` in a child and returns its wait status; its stderr goes to `text`. */
static int in_child(struct rig *rig, void (*body)(struct rig *rig), char *text, size_t text_bytes)
{
	struct rlimit no_core = {0, 0};
	int status = 0, out[2];
	ssize_t got;
	pid_t pid;

	if (pipe(out) != 0 || (pid = fork()) < 0)
		abort();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		alarm(20); /* so that an endlessly repeated fault ends */
		dup2(out[1], STDERR_FILENO);
		body(rig);
		_exit(0);
	}
	close(out[1]);
	got = read(out[0], text, text_bytes - 1);
	text[got > 0 ? got : 0] = '\0';
	close(out[0]);
	waitpid(pid, &status, 0);
	return status;
}

static bool died_of(struct rig *rig, void (*body)(struct rig *rig), int number)
{
	char text[256];
	int status = in_child(rig, body, text, sizeof(text));

	return WIFSIGNALED(status) && WTERMSIG(status) == number;
}

/* A child must make a heap of its own; no other process uses this one. */
static void child_open(struct rig *mine, const struct rig *parent)
{
	if (rig_open(mine, parent->engine, 8) != ROAM_OK)
		_exit(1);
	rig_store(mine, 0, 1);
	rig_load(mine, PAGE);
}

static void child_wild_segv(struct rig *rig)
{
	struct rig mine;

	child_open(&mine, rig);
	*(volatile uint8_t *)foreign_page(SIGSEGV) = 1;
}

static void child_wild_bus(struct rig *rig)
{
	struct rig mine;

	child_open(&mine, rig);
	*(volatile uint8_t *)foreign_page(SIGBUS) = 1;
}

static void child_killed(struct rig *rig)
{
	struct rig mine;

	child_open(&mine, rig);
	kill(getpid(), SIGSEGV);
}

static void child_ignores(struct rig *rig)
{
	struct rig mine;

	signal(SIGSEGV, SIG_IGN);
	child_open(&mine, rig);
	kill(getpid(), SIGSEGV); /* ignored */
	*(volatile uint8_t *)foreign_page(SIGSEGV) = 1;
}

static void child_jumps(struct rig *rig)
{
	struct rig mine;
	void (*nowhere)(void);
	void *page;

	child_open(&mine, rig);
	page = mine.view.app + PAGE;
	memcpy(&nowhere, &page, sizeof(page));
	nowhere();
}

static void once(int number)
{
	(void)number;
}

static void child_once(struct rig *rig)
{
	struct sigaction action = {.sa_flags = (int)SA_RESETHAND};
	struct rig mine;

	action.sa_handler = once;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	child_open(&mine, rig);
	*(volatile uint8_t *)foreign_page(rig->last_page == 0 ? SIGSEGV : SIGBUS) = 1;
}

static struct sigaction thief_before[2];

static void thief(int number, siginfo_t *info, void *context)
{
	const struct sigaction *before = &thief_before[number == SIGBUS];

	if ((before->sa_flags & SA_SIGINFO) != 0)
		before->sa_sigaction(number, info, context);
	else
		sigaction(number, before, NULL);
}

/* Another handler has taken the signals, and passes on to us what we pass on to it. */
static void child_thief(struct rig *rig)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO};
	struct rig mine;

	child_open(&mine, rig);
	action.sa_sigaction = thief;
	sigaction(SIGSEGV, &action, &thief_before[0]);
	sigaction(SIGBUS, &action, &thief_before[1]);
	rig_store(&mine, 2 * PAGE, 1);
	if (mine.engine->check_handlers(mine.state))
		_exit(2);
	rig_store(&mine, 3 * PAGE, 1);
	*(volatile uint8_t *)foreign_page(SIGBUS) = 1;
}

/* The signal by which the engine learns of faults. */
static int own_signal(const struct rig *rig)
{
	return strcmp(rig->engine->name, "uffd") == 0 ? SIGBUS : SIGSEGV;
}

static void raiser(int number)
{
	sigaction(number, &thief_before[number == SIGBUS], NULL);
	raise(number);
}

/* A handler like that of Python's faulthandler: it puts ours back and raises the signal anew. */
static void child_raises(struct rig *rig)
{
	struct sigaction action = {.sa_flags = (int)SA_NODEFER};
	int own = own_signal(rig);
	struct rig mine;

	child_open(&mine, rig);
	action.sa_handler = raiser;
	sigaction(own, &action, &thief_before[own == SIGBUS]);
	rig_store(&mine, 2 * PAGE, 1);
}

static void child_raises_own(struct rig *rig)
{
	struct rig mine;

	child_open(&mine, rig);
	raise(own_signal(rig));
}

/* The process dies either way; where a handler took a fault of the heap, it is told why. */
static void raises(struct rig *rig)
{
	static const char cure[] = "Install such handlers";
	int own = own_signal(rig), status;
	char text[512];

	status = in_child(rig, child_raises, text, sizeof(text));
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == own);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, cure));
	status = in_child(rig, child_raises_own, text, sizeof(text));
	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == own);
	CU_ASSERT_PTR_NULL(strstr(text, cure));
}

/*
 * Recurses deeper than the stack of a fault.  The compiler is not told what becomes of a frame:
 * clang would keep only the byte of it that is used, and turn the calls into a loop.
 */
__attribute__((noinline)) static void deep(unsigned depth)
{
	uint8_t frame[1024];

	frame[0] = (uint8_t)depth;
	__asm__ volatile("" : : "r"(frame) : "memory");
	if (depth > 0)
		deep(depth - 1);
	__asm__ volatile("" : : "r"(frame) : "memory");
}

static void deep_fault(void *arg, uint32_t page, bool write, bool known)
{
	deep(page == 1 ? 60 : 70);
	rig_fault(arg, page, write, known);
}

/* No byte beyond the stack of a fault is written: the memory next to it may be in use. */
static void child_deep(struct rig *rig)
{
	struct rig mine;

	if (rig_open(&mine, rig->engine, 8) != ROAM_OK)
		_exit(1);
	mine.engine->close(mine.state);
	memset(mine.state, 0, mine.engine->state_size);
	if (mine.engine->open(mine.state, &mine.view, deep_fault, &mine) != ROAM_OK)
		_exit(1);
	rig_store(&mine, PAGE, 1);
	if (rig->last_page == 0)
		_exit(0);
	rig_store(&mine, 2 * PAGE, 1);
}

static void wild_fault(void *arg, uint32_t page, bool write, bool known)
{
	if (page == 1)
		*(volatile uint8_t *)foreign_page(SIGSEGV) = 1;
	rig_fault(arg, page, write, known);
}

/* A handler that jumps out of an error of the library. */
static void child_jumps_out(struct rig *rig)
{
	struct rig mine;

	foreign_install(true);
	if (rig_open(&mine, rig->engine, 8) != ROAM_OK)
		_exit(1);
	mine.engine->close(mine.state);
	memset(mine.state, 0, mine.engine->state_size);
	if (mine.engine->open(mine.state, &mine.view, wild_fault, &mine) != ROAM_OK)
		_exit(1);
	if (sigsetjmp(foreign_return, 1) == 0)
		rig_store(&mine, PAGE, 1);
	rig_store(&mine, 2 * PAGE, 1);
}

static void jumps_out(struct rig *rig)
{
	char text[256];
	int status = in_child(rig, child_jumps_out, text, sizeof(text));

	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "a signal handler has jumped out of a page fault"));
}

static void crashes(struct rig *rig)
{
	char text[256];

	atomic_store(&rig->last_page, 0);
	CU_ASSERT_EQUAL(in_child(rig, child_deep, text, sizeof(text)), 0);
	atomic_store(&rig->last_page, 1);
	CU_ASSERT(died_of(rig, child_deep, SIGSEGV));
	jumps_out(rig);
	CU_ASSERT(died_of(rig, child_wild_segv, SIGSEGV));
	CU_ASSERT(died_of(rig, child_wild_bus, SIGBUS));
	CU_ASSERT(died_of(rig, child_killed, SIGSEGV));
	CU_ASSERT(died_of(rig, child_ignores, SIGSEGV));
	CU_ASSERT(died_of(rig, child_jumps, SIGSEGV));
	atomic_store(&rig->last_page, 0);
	CU_ASSERT(died_of(rig, child_once, SIGSEGV));
	atomic_store(&rig->last_page, 1);
	CU_ASSERT(died_of(rig, child_once, SIGBUS));
	CU_ASSERT(died_of(rig, child_thief, SIGBUS));
	raises(rig);
}

/* A real crash looks as it would without roam: the process dies by the right signal. */
static void test_crashes(void)
{
	if (WITH_ASAN)
		unit_skip("crashes", "AddressSanitizer takes the signals");
	else
		rig_each_engine(8, true, crashes);
}

static void child_no_memory(struct rig *rig)
{
	struct rig mine;

	(void)rig;
	if (rig_open(&mine, rig->engine, 8) != ROAM_OK)
		_exit(1);
	/* Replaces the runtime view by a shorter file, which the kernel cannot extend. */
	mmap(mine.view.runtime, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	     roami_os_memfd("empty", 0), 0);
	*(volatile uint8_t *)(mine.view.runtime + 8) = 1;
}

static void no_memory(struct rig *rig)
{
	char text[256];
	int status = in_child(rig, child_no_memory, text, sizeof(text));

	CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "no memory for the page of the shared heap at 0x"));
}

/* When the system has no memory for a page of the heap, a message comes before the SIGBUS. */
static void test_no_memory(void)
{
	if (WITH_ASAN)
		unit_skip("no memory", "AddressSanitizer takes the signals");
	else
		rig_each_engine(8, true, no_memory);
}

/* ---------------------------------------------------------------------------------------- fork */

static void child_touches(struct rig *rig)
{
	*(volatile uint8_t *)rig->view.app = 99;
}

/*
 * What a node made by fork does: it forgets the parent's heap, and makes its own in the same place.
 */
static void child_own_heap(struct rig *rig)
{
	struct rig mine = *rig; /* faults counted before used the parent's state */
	struct roami_view *view = &mine.view;

	view->fd = roami_os_memfd("child", view->bytes);
	view->app = roami_os_map_fd(rig->view.app, view->bytes, view->fd, 0);
	view->runtime = roami_os_map_fd(rig->view.runtime, view->bytes, view->fd, 0);
	if (view->app == NULL || view->runtime == NULL)
		_exit(1);
	if (rig->last_page == 1)
		rig->engine->close(rig->state);
	mine.state = calloc(1, rig->engine->state_size);
	memset((void *)mine.access, 0, mine.pages);
	if (mine.engine->open(mine.state, view, rig_fault, &mine) != ROAM_OK)
		_exit(2);
	if (rig->last_page == 2) /* makes the new heap late, in the same place */
		rig->engine->close(rig->state);
	if (rig_load(&mine, 0) != 0 || rig_faults(&mine) != 1)
		_exit(3);
	rig_store(&mine, 5 * PAGE, 77);
	if (rig_faults(&mine) != rig_write_faults(&mine) || view->runtime[5 * PAGE] != 77)
		_exit(4);
	if (!mine.engine->check_handlers(mine.state))
		_exit(5);
	mine.engine->close(mine.state);
}

static void forks(struct rig *rig)
{
	char text[256];

	rig_store(rig, 0, 11);
	rig_load(rig, PAGE);
	rig_faults(rig);
	if (!WITH_ASAN)
		CU_ASSERT(died_of(rig, child_touches, SIGSEGV));
	CU_ASSERT_EQUAL(rig->view.runtime[0], 11);
	for (uint32_t variant = 0; variant < 3; variant++) {
		atomic_store(&rig->last_page, variant);
		CU_ASSERT_EQUAL(in_child(rig, child_own_heap, text, sizeof(text)), 0);
	}
	CU_ASSERT_EQUAL(system("true"), 0);

	/* Checks that the parent's heap is as before. */
	CU_ASSERT_EQUAL(rig_load(rig, 0), 11);
	rig_store(rig, 0, 12);
	CU_ASSERT_EQUAL(rig_faults(rig), 0);
	CU_ASSERT_EQUAL(rig_load(rig, 5 * PAGE), 0);
	rig_store(rig, PAGE, 1);
	CU_ASSERT_EQUAL(rig_faults(rig), 2);
}

/* A forked child does not have the parent's heap, may make its own there, and does the parent's no
 * harm. */
static void test_fork(void)
{
	rig_each_engine(8, true, forks);
}

static CU_TestInfo tests[] = {
	{"small alternate stack", test_small_stack},
	{"older handlers", test_chain},
	{"stolen handlers", test_stolen},
	{"crashes", test_crashes},
	{"no memory", test_no_memory},
	{"fork", test_fork},
	CU_TEST_INFO_NULL,
};

int main(int argc, char **argv)
{
	return unit_main("fault_signals", tests, argc, argv);
}
