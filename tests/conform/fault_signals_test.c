/*
 * What every fault engine must leave alone: other handlers, real crashes, errno, children of fork.
 */
#include <errno.h>
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

/* An address whose touch gives `number`: no access, or beyond the end of a file. */
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

/* Faults outside the heap go to the handlers that were there before, and close puts these back. */
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
	CU_ASSERT(foreign_is_installed(SIGBUS)); /* the newcomer has its way */
}

/* Who takes our signal loses it at the next check, and is passed what is not ours. */
static void test_stolen(void)
{
	struct sigaction before[2];

	sigaction(SIGSEGV, NULL, &before[0]);
	sigaction(SIGBUS, NULL, &before[1]);
	rig_each_engine(4, true, stolen);
	sigaction(SIGSEGV, &before[0], NULL);
	sigaction(SIGBUS, &before[1], NULL);
}

static void errno_and_stack(struct rig *rig)
{
	size_t bytes = 64 * 1024;
	uint8_t *room = malloc(bytes);
	stack_t stack = {.ss_sp = room, .ss_size = bytes}, before;

	sigaltstack(&stack, &before);
	errno = ENOTTY;
	rig_store(rig, 0, 1);
	CU_ASSERT_EQUAL(errno, ENOTTY);
	CU_ASSERT(rig->last_stack > (uintptr_t)room && rig->last_stack < (uintptr_t)room + bytes);
	sigaltstack(&before, NULL);
	free(room);
}

/* A fault leaves errno alone and runs on the alternate stack if there is one. */
static void test_errno_and_stack(void)
{
	rig_each_engine(4, true, errno_and_stack);
}

/* ------------------------------------------------------------------------ crashes, in children */

/* Runs `body` in a child and returns its wait status; what it printed to stderr goes to `text`. */
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
		alarm(20); /* a fault repeated for ever must end */
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

/* A child must make a heap of its own; this one is in no process's way. */
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

/* Somebody took the signals and passes on to us what we pass on to him. */
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

static void crashes(struct rig *rig)
{
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
}

/* A real crash looks as it would without us: the process dies, of the right signal. */
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
	/* The file that the kernel cannot extend: a shorter one in place of the runtime view. */
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

/* When the system has no memory for a page of the heap there is a message before the SIGBUS. */
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

/* What a node made by fork does: forget the parent's heap, make its own in the same place. */
static void child_own_heap(struct rig *rig)
{
	struct rig mine = *rig; /* faults counted there went by the parent's state */
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
	if (rig->last_page == 2) /* late, with the new heap in the same place */
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

	/* The parent's heap is as before. */
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
	{"errno and alternate stack", test_errno_and_stack},
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
