#include "roam_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/hang.h"
#include "job/local.h"
#include "os/os.h"
#include "roam_tool.h"

static int child_not(struct child *child, int status, const char *what, int error)
{
	snprintf(child->why, sizeof(child->why), "cannot %s: %s%s", what, strerror(error),
		 error == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
	return status;
}

static bool child_input(int from)
{
	int fd = from;

	if (from == -1)
		return true;
	if (from == CHILD_NO_INPUT)
		fd = roami_os_fd(open("/dev/null", O_RDONLY));
	if (fd < 0 || dup2(fd, STDIN_FILENO) < 0)
		return false;
	close(fd);
	return true;
}

/* Sets up, in the new process, what the program needs.  False with errno. */
static bool child_prepare(const struct child_plan *plan, const int pipes[2])
{
	for (int i = 0; i < 2; i++)
		if (plan->within != NULL && dup2(pipes[i], STDOUT_FILENO + i) < 0)
			return false;
	if (!child_input(plan->input))
		return false;
	if (plan->keep >= 0 && fcntl(plan->keep, F_SETFD, 0) != 0)
		return false;
	if (plan->undisturbed)
		signal(SIGINT, SIG_IGN);
	/*
	 * Statics name locks, so they must lie at the same address on every node, which the library
	 * checks.
	 */
	personality((unsigned long)personality(0xffffffff) | ADDR_NO_RANDOMIZE);
	return setenv("ROAM_BOOT", plan->boot, 1) == 0 &&
	       sigprocmask(SIG_SETMASK, plan->mask, NULL) == 0;
}

__attribute__((noreturn)) static void child_exec(const struct child_plan *plan, pid_t parent,
						 const int pipes[2], int report)
{
	int error;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(TOOL_FAILED);
	if (child_prepare(plan, pipes))
		execvp(plan->argv[0], plan->argv);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		_exit(TOOL_CANNOT_EXEC);
	_exit(TOOL_NOT_FOUND);
}

int child_signals(sigset_t *mask_p)
{
	static const int taken[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		sigaddset(&set, taken[i]);
	/* An inherited SIG_IGN would hide the exits of children from the launcher. */
	signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_BLOCK, &set, mask_p);
	sigdelset(mask_p, SIGCHLD);
	fd = roami_os_fd(signalfd(-1, &set, SFD_CLOEXEC));
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE); /* the reader may have closed its end */
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (fd < 0)
		tool_say("run: signalfd: %s", strerror(errno));
	return fd;
}

int child_start(struct child *child, const struct child_plan *plan)
{
	int report[2], error = 0, pipes[2] = {-1, -1};
	pid_t parent = getpid();
	char what[128];
	ssize_t got;

	if ((plan->within != NULL &&
	     !tag_open(child->out, plan->within, plan->node, false, pipes)) ||
	    !roami_os_pipe(report, 0))
		return child_not(child, TOOL_FAILED, "make a pipe", errno);
	child->pid = fork();
	if (child->pid < 0)
		return child_not(child, TOOL_FAILED, "fork a node", errno);
	if (child->pid == 0)
		child_exec(plan, parent, pipes, report[1]);
	child->runs = true;
	for (int i = 0; i < 2; i++)
		if (pipes[i] >= 0)
			close(pipes[i]);
	close(report[1]);
	do
		got = read(report[0], &error, sizeof(error));
	while (got < 0 && errno == EINTR);
	close(report[0]);
	if (got <= 0)
		return 0;
	snprintf(what, sizeof(what), "run %s", plan->argv[0]);
	return child_not(child, error == ENOENT ? TOOL_NOT_FOUND : TOOL_CANNOT_EXEC, what, error);
}

void child_signal(const struct child *child, int signal, uint32_t number)
{
	if (!child->runs)
		return;
	if (signal == SIGQUIT)
		sigqueue(child->pid, signal, roami_hang_passed(number));
	else
		kill(child->pid, signal);
}

/* gdb's command: signals of page faults pass; other faults stop gdb at signals_default. */
static const char *child_faults(void)
{
	static struct roami_options options;
	const struct roami_fault_engine *engine = NULL;

	if (roami_options_read(&options, environ, STDERR_FILENO) == ROAM_OK &&
	    roami_boot_check(&options, &engine) == ROAM_OK && strcmp(engine->name, "sigsegv") == 0)
		return "handle SIGSEGV SIGBUS nostop noprint pass";
	return "handle SIGBUS nostop noprint pass";
}

char **child_gdb(char **argv, bool talks)
{
	const char *always[] = {"gdb", "-q",
				"-ex", "set startup-with-shell off",
				"-ex", child_faults(),
				"-ex", "set breakpoint pending on",
				"-ex", "break signals_default"};
	static const char *const alone[] = {"-batch", "-return-child-result",         "-ex", "run",
					    "-ex",    "thread apply all -s backtrace"};
	size_t first = sizeof(always) / sizeof(always[0]);
	size_t more = talks ? 0 : sizeof(alone) / sizeof(alone[0]), count = 0;
	const char **all;

	while (argv[count] != NULL)
		count++;
	all = calloc(first + more + 1 + count + 1, sizeof(*all));
	if (all == NULL)
		return NULL;
	memcpy(all, always, sizeof(always));
	if (more > 0)
		memcpy(all + first, alone, sizeof(alone));
	all[first + more] = "--args";
	memcpy(all + first + more + 1, argv, count * sizeof(*argv));
	return (char **)(uintptr_t)all;
}

int child_place(const int *fds, unsigned count, int above)
{
	int base = above + 1;

	for (unsigned i = 0; i < count; i++)
		base = fds[i] >= base ? fds[i] + 1 : base;
	for (unsigned i = 0; i < count; i++) {
		if (dup2(fds[i], base + (int)i) < 0)
			return -1;
		close(fds[i]);
	}
	return base;
}

bool child_sweep(void)
{
	char path[64];
	FILE *children;
	int pid;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	children = roami_os_file(path);
	if (children == NULL)
		return false;
	while (fscanf(children, "%d", &pid) == 1)
		found = kill(pid, SIGKILL) == 0 || found;
	fclose(children);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return found;
}
