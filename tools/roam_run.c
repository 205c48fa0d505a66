/*
 * roam run: starts a program on several nodes of this host (several hosts: roam_far.c), passes on
 * signals and the exit status, and ends all nodes when one dies or does not join.  Nodes die with
 * the launcher (PR_SET_PDEATHSIG), and their memory is freed then: there is nothing to clean up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/node.h"
#include "base/options.h"
#include "base/transports.h"
#include "job/input.h"
#include "job/local.h"
#include "os/os.h"
#include "roam_child.h"
#include "roam_far.h"
#include "roam_run.h"
#include "roam_tool.h"

#define MS          UINT64_C(1000000)
#define GRACE_NS    (100 * MS)  /* after a failure: others may be about to end, too */
#define TERM_NS     (1000 * MS) /* from SIGTERM to SIGKILL */
#define LOOK_MS     100 /* how often to look whether others wait for a node that never joined */
#define DRAIN_NS    (200 * MS) /* for the last output, if something holds ended nodes' pipes open */

struct run {
	struct run_args args;
	bool talks; /* gdb has the terminal */
	int memory;  /* the first memfd; the others follow it, and then the lifeline */
	int signals;
	sigset_t mask; /* from before this process blocked signals */
	struct child children[ROAMI_NODES_MAX];
	bool copies; /* every node has a copy of our input; else one has it */
	struct roami_input input;
	struct roami_input_pipe inputs[ROAMI_NODES_MAX];
	struct tag_stream *within[2]; /* streams whose unfinished line is on stdout and stderr */
	unsigned running;
	uint64_t oom_kills; /* the kernel's count before the nodes began */
	int status;         /* the exit status; -1: nobody has failed */
	uint32_t quits;     /* SIGQUITs passed on */
	int forwarded;      /* the last signal passed on that ends programs; 0: none */
	int absent;         /* a node that never joined and ended in order; -1: none */
	uint64_t end_at;    /* --timeout; 0: none */
	uint64_t term_at;   /* 0: not yet */
	uint64_t kill_at;
};

/* -------------------------------------------------------------------------------------- options */

static bool run_options(const struct run *run, struct roami_options *options)
{
	const struct roami_fault_engine *engine;

	if (roami_options_read(options, environ, STDERR_FILENO) != ROAM_OK)
		return false;
	if (run->args.nodes > options->nodes_max) {
		tool_say("run: -n %u: ROAM_NODES_MAX allows %u nodes", run->args.nodes,
			 (unsigned)options->nodes_max);
		return false;
	}
	/* Reported once, by the launcher, instead of by every node. */
	return roami_boot_check(options, &engine) == ROAM_OK;
}

/*
 * Checks a transport that the user names: it serves all nodes, so it must reach other hosts.
 * *share_p: nodes of one host share memory.
 */
static bool run_far_options(const struct run *run, const struct roami_options *options,
			    bool *share_p)
{
	const char *named = options->transport;
	char reach[160], why[240];

	if (run->args.hosts.count > 1 && !roami_boot_apart(options, why, sizeof(why))) {
		tool_say("run: %s", why);
		return false;
	}
	*share_p = !roami_transports_named(named);
	if (*share_p || (roami_transport_find(named)->caps & ROAM_CAP_HOSTS) != 0)
		return true;
	roami_transports_far(reach, sizeof(reach));
	tool_say("run: ROAM_TRANSPORT=%s: it does not reach other hosts; %s does", named, reach);
	return false;
}

/* --------------------------------------------------------------------------------------- memory */

static bool run_make_memory(struct run *run, const struct roami_options *options)
{
	int fds[ROAMI_NODES_MAX + 1], lifeline[2] = {-1, -1};

	if (roami_boot_memory(options, roami_nodeset_first(run->args.nodes).bits, fds) != ROAM_OK)
		return false; /* it has reported why */
	/*
	 * Only the launcher has the writing end of this pipe, and it never writes: nodes see its
	 * end by it.
	 */
	if (!roami_os_pipe(lifeline, 0)) {
		tool_say("run: cannot make a pipe: %s%s", strerror(errno),
			 errno == EMFILE ? " (raise the limit of open files, ulimit -n)" : "");
		return false;
	}
	fds[run->args.nodes] = lifeline[0];
	/* Nodes expect the memfds, and behind them the lifeline, as consecutive descriptors. */
	run->memory = child_place(fds, run->args.nodes + 1, lifeline[1]);
	if (run->memory < 0)
		tool_say("run: too few file descriptors: %s (raise the limit, ulimit -n)",
			 strerror(errno));
	return run->memory >= 0;
}

/* ------------------------------------------------------------------------------------- starting */

/* Starts one node and waits until it runs the program; returns 0, or the exit status. */
static int run_start(struct run *run, unsigned node)
{
	char boot[64];
	struct child_plan plan = {.node = node,
				  .argv = run->args.argv,
				  .boot = boot,
				  .mask = &run->mask,
				  .within = run->args.tag ? run->within : NULL,
				  .input = -1,
				  .keep = -1};
	int status;

	if (run->args.gdb == (int)node) {
		plan.argv = child_gdb(run->args.argv, run->talks);
		if (plan.argv == NULL)
			return TOOL_FAILED;
	}
	if (run->talks) { /* the terminal is gdb's */
		plan.input = run->args.gdb == (int)node ? -1 : CHILD_NO_INPUT;
		plan.undisturbed = run->args.gdb != (int)node;
	}
	if (run->copies && !roami_input_pipe_open(&run->inputs[node], &plan.input)) {
		tool_say("run: cannot make a pipe: %s", strerror(errno));
		return TOOL_FAILED;
	}
	snprintf(boot, sizeof(boot), "local:%u:%u:%d", node, run->args.nodes, run->memory);
	status = child_start(&run->children[node], &plan);
	if (run->copies)
		close(plan.input);
	if (status != 0)
		tool_say("run: %s", run->children[node].why);
	run->running += run->children[node].runs;
	return status;
}

/* --------------------------------------------------------------------------------------- ending */

static void run_signal(struct run *run, int signal)
{
	run->quits += signal == SIGQUIT;
	for (unsigned i = 0; i < run->args.nodes; i++)
		child_signal(&run->children[i], signal, run->quits);
}

/* Ends the job: nodes that are left get SIGTERM at `term_at`, and SIGKILL later. */
static void run_fail(struct run *run, int status, uint64_t grace_ns)
{
	if (run->status >= 0)
		return;
	run->status = status;
	if (run->kill_at == 0) /* otherwise they got it before */
		run->term_at = roami_os_now_ns() + grace_ns;
}

/* Maps the beginning of a node's memory, to be unmapped by the caller; NULL: it cannot be seen. */
static const struct roami_ctl *run_ctl(const struct run *run, unsigned node)
{
	void *ctl = mmap(NULL, sizeof(struct roami_ctl), PROT_READ, MAP_SHARED,
			 run->memory + (int)node, 0);

	return ctl == MAP_FAILED ? NULL : ctl;
}

static void run_ctl_close(const struct roami_ctl *ctl)
{
	munmap((void *)(uintptr_t)ctl, sizeof(*ctl));
}

/* Says what the other nodes waited for when this one died: "; node 0 waited at barrier 0x..." */
static void run_waits(const struct run *run, unsigned dead, char *text, size_t bytes)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];

	for (unsigned i = 0; i < run->args.nodes; i++)
		ctls[i] = i != dead ? run_ctl(run, i) : NULL;
	roami_boot_waits(ctls, run->args.nodes, text, bytes);
	for (unsigned i = 0; i < run->args.nodes; i++)
		if (ctls[i] != NULL)
			run_ctl_close(ctls[i]);
}

/* Whether a node has joined the job: 0: not, 1: it has, 2: and left it in order. */
static unsigned child_joined(const struct run *run, unsigned node)
{
	const struct roami_ctl *ctl = run_ctl(run, node);
	unsigned joined = 0;

	if (ctl != NULL) {
		joined = atomic_load(&ctl->joined);
		run_ctl_close(ctl);
	}
	return joined;
}

/* Whether a node has itself reported why it could not start. */
static bool run_reported(const struct run *run)
{
	const struct roami_ctl *ctl = run_ctl(run, 0);
	bool reported;

	if (ctl == NULL)
		return false;
	reported = atomic_load(&ctl->reported) != 0;
	run_ctl_close(ctl);
	return reported;
}

static void child_killed(struct run *run, unsigned node, int signal, const char *waits,
			 const char *thread)
{
	const struct roami_ctl *ctl = run_ctl(run, node);

	if (signal != run->forwarded)
		tool_say("node %u (pid %d) was killed by signal %d (%s)%s%s%s", node,
			 (int)run->children[node].pid, signal, strsignal(signal), thread,
			 roami_boot_why(ctl, signal, run->oom_kills), waits);
	if (ctl != NULL)
		run_ctl_close(ctl);
	run_fail(run, 128 + signal, 0);
}

/* Says which thread ended the node, if the node has noted it. */
static void run_dying(const struct run *run, unsigned node, char text[ROAMI_DYING_BYTES])
{
	const struct roami_ctl *ctl = run_ctl(run, node);

	roami_boot_dying(ctl != NULL ? atomic_load(&ctl->dying) : 0, text);
	if (ctl != NULL)
		run_ctl_close(ctl);
}

static void child_died(struct run *run, unsigned node, int wait_status)
{
	char waits[ROAMI_WAITS_BYTES], thread[ROAMI_DYING_BYTES];
	pid_t pid = run->children[node].pid;

	if (run->status >= 0)
		return; /* a consequence */
	run_waits(run, node, waits, sizeof(waits));
	run_dying(run, node, thread);
	if (WIFSIGNALED(wait_status)) {
		child_killed(run, node, WTERMSIG(wait_status), waits, thread);
		return;
	}
	if (WEXITSTATUS(wait_status) == ROAMI_EXIT_REPORTED) {
		run_fail(run, TOOL_FAILED, 0);
		return;
	}
	if (WEXITSTATUS(wait_status) != 0 && run_reported(run)) {
		run_fail(run, WEXITSTATUS(wait_status), GRACE_NS);
		return;
	}
	tool_say("node %u (pid %d) exited with status %d%s%s%s", node, (int)pid,
		 WEXITSTATUS(wait_status),
		 WEXITSTATUS(wait_status) == 0 ? " before the job's end" : "", thread, waits);
	run_fail(run, WEXITSTATUS(wait_status) != 0 ? WEXITSTATUS(wait_status) : TOOL_FAILED,
		 GRACE_NS);
}

/*
 * Fails the job if a node that has joined waits for one that ended without joining; a program that
 * does not use roam may end at any time.
 */
static void run_check_absent(struct run *run)
{
	char waits[ROAMI_WAITS_BYTES];

	if (run->absent < 0 || run->status >= 0)
		return;
	for (unsigned i = 0; i < run->args.nodes; i++) {
		if (child_joined(run, i) == 0)
			continue;
		run_waits(run, (unsigned)run->absent, waits, sizeof(waits));
		tool_say("node %d (pid %d) exited with status 0 and never called roam_start%s",
			 run->absent, (int)run->children[run->absent].pid, waits);
		run_fail(run, TOOL_FAILED, 0);
		return;
	}
}

/* Handles a node that ended with status 0: in order, or while others wait for it. */
static void child_left(struct run *run, unsigned node, int wait_status)
{
	unsigned joined = child_joined(run, node);

	if (joined == ROAMI_JOINED_READY)
		child_died(run, node, wait_status);
	if (joined == 0)
		run->absent = (int)node;
}

static void run_reap(struct run *run)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (unsigned i = 0; i < run->args.nodes; i++) {
			struct child *child = &run->children[i];

			if (!child->runs || child->pid != pid)
				continue;
			child->runs = false;
			run->running--;
			if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
				child_left(run, i, status);
			else
				child_died(run, i, status);
		}
}

/*
 * Passes a signal on.  If it was typed at the terminal, the nodes have it already, and a gdb there
 * stops its node with it.
 */
static void run_pass_on(struct run *run, int signal, bool typed)
{
	if (run->talks && typed && signal == SIGINT)
		return;
	if (!typed)
		run_signal(run, signal);
	if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGQUIT)
		return;
	/* The second such signal kills at once. */
	run->kill_at = roami_os_now_ns() + (run->forwarded == 0 ? STOP_S * 1000 * MS : 0);
	run->forwarded = signal;
}

static void run_take_signal(struct run *run)
{
	struct signalfd_siginfo info;

	if (read(run->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return;
	if (info.ssi_signo == SIGCHLD) {
		run_reap(run);
		return;
	}
	run_pass_on(run, (int)info.ssi_signo, info.ssi_code == SI_KERNEL);
}

/* --timeout has passed. */
static void run_late(struct run *run)
{
	char waits[ROAMI_WAITS_BYTES];

	run->end_at = 0;
	if (run->status >= 0)
		return; /* it ends already */
	run_waits(run, ROAMI_NODES_MAX, waits, sizeof(waits));
	tool_say(TOOL_LATE "%s", run->args.timeout, waits);
	run_fail(run, TOOL_TIMEOUT, 0);
}

static bool run_wants_input(const struct run *run)
{
	return run->copies && roami_input_wanted(&run->input, run->inputs, run->args.nodes);
}

/* Does what is due; returns the milliseconds until something is due again, -1: nothing is. */
static int run_due(struct run *run)
{
	uint64_t now = roami_os_now_ns(), next = 0;

	if (run->term_at != 0 && now >= run->term_at) {
		run_signal(run, SIGTERM);
		run_signal(run, SIGCONT); /* a stopped node would not notice SIGTERM */
		run->kill_at = now + TERM_NS;
		run->term_at = 0;
	}
	if (run->end_at != 0 && now >= run->end_at)
		run_late(run);
	if (run->kill_at != 0 && now >= run->kill_at) {
		if (run->status < 0)
			run->status = 128 + run->forwarded;
		run_signal(run, SIGKILL);
		run->kill_at = 0;
	}
	run_check_absent(run);
	next = run->term_at != 0 ? run->term_at : run->kill_at;
	if (run->end_at != 0 && (next == 0 || next > run->end_at))
		next = run->end_at;
	/* No signal tells that this process has the terminal back, so it looks again. */
	if ((run->absent >= 0 || (run_wants_input(run) && !roami_input_may_read(STDIN_FILENO))) &&
	    (next == 0 || next > now + LOOK_MS * MS))
		next = now + LOOK_MS * MS;
	return roami_os_poll_ms(next == 0 ? UINT64_MAX : next);
}

#define POLLS_MAX (2 + 3 * ROAMI_NODES_MAX)

/* Polls for the output of nodes. */
static nfds_t run_poll_output(struct run *run, struct pollfd *polls, struct tag_stream **streams)
{
	nfds_t count = 0;

	for (unsigned i = 0; i < 2 * run->args.nodes; i++) {
		struct tag_stream *stream = run->children[i / 2].out[i % 2];

		if (stream == NULL || stream->from < 0)
			continue;
		streams[count] = stream;
		polls[count++] = (struct pollfd){stream->from, POLLIN, 0};
	}
	return count;
}

/*
 * Waits for output, input, signals and timers.  False: `timeout_ms` passed, or no output can come
 * any more.
 */
static bool run_turn(struct run *run, int timeout_ms)
{
	struct pollfd polls[POLLS_MAX] = {{run->signals, POLLIN, 0}};
	struct tag_stream *streams[2 * ROAMI_NODES_MAX];
	nfds_t outputs = run_poll_output(run, polls + 1, streams);
	struct pollfd *input = polls + 1 + outputs;
	nfds_t inputs = 0;

	if (run->copies && run->running > 0)
		inputs = roami_input_polls(&run->input, run->inputs, run->args.nodes, input);

	if ((run->running == 0 && outputs == 0) ||
	    poll(polls, 1 + outputs + inputs, timeout_ms) == 0)
		return false;
	if (polls[0].revents != 0)
		run_take_signal(run);
	for (nfds_t i = 0; i < outputs; i++)
		if (polls[1 + i].revents != 0)
			tag_pump(streams[i]);
	if (inputs > 0 &&
	    !roami_input_copy(&run->input, run->inputs, run->args.nodes, input->revents != 0)) {
		run->copies = false;
		run_fail(run, TOOL_FAILED, 0);
	}
	return true;
}

/* Runs until all nodes have ended and their output is passed on; returns the exit status. */
static int run_watch(struct run *run)
{
	uint64_t end;

	while (run->running > 0)
		run_turn(run, run_due(run));
	end = roami_os_now_ns() + DRAIN_NS;
	while (run->status >= 0 && child_sweep() && roami_os_now_ns() < end)
		usleep(1000);
	while (run_turn(run, (int)(DRAIN_NS / MS)) && roami_os_now_ns() < end)
		;
	return run->status >= 0 ? run->status : 0;
}

/* ---------------------------------------------------------------------------------- the command */

static bool run_block_signals(struct run *run)
{
	run->signals = child_signals(&run->mask);
	return run->signals >= 0;
}

static int run_across(struct run *run, struct roami_options *options)
{
	struct far_job job = {.nodes = run->args.nodes,
			      .tag = run->args.tag,
			      .argv = run->args.argv,
			      .hosts = &run->args.hosts,
			      .gdb = run->args.gdb,
			      .timeout = run->args.timeout};

	return run_far_options(run, options, &job.share) ? tool_far(&job, options) : TOOL_USAGE;
}

int tool_run(int argc, char **argv)
{
	static struct run run; /* large */
	static struct roami_options options;
	int status;

	run.status = -1;
	run.absent = -1;
	run.args.gdb = -1;
	status = run_parse(&run.args, argc, argv);
	if (status >= 0)
		return status;
	if (!run_options(&run, &options))
		return TOOL_USAGE;
	if (run.args.far)
		return run_across(&run, &options);
	if (!run_make_memory(&run, &options) || !run_block_signals(&run))
		return TOOL_FAILED;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	run.oom_kills = roami_os_oom_kills();
	run.talks = run.args.gdb >= 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	run.copies = run.args.nodes > 1 && !run.talks;
	for (unsigned i = 0; i < run.args.nodes; i++)
		run.inputs[i].to = -1;
	if (run.copies && !roami_input_open(&run.input, STDIN_FILENO)) {
		tool_say("run: cannot make a memfd: %s", strerror(errno));
		return TOOL_FAILED;
	}
	if (run.args.timeout > 0)
		run.end_at = roami_os_now_ns() + run.args.timeout * 1000 * MS;
	for (unsigned i = 0; i < run.args.nodes; i++) {
		status = run_start(&run, i);
		if (status == 0)
			continue;
		run_fail(&run, status, 0);
		break;
	}
	return run_watch(&run);
}
