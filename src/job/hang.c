#include "job/hang.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/layers.h"
#include "fault/signals.h"
#include "job/job.h"
#include "job/local.h"
#include "os/inside.h"
#include "page/page.h"
#include "run/probe.h"

#define TICK_NS   UINT64_C(1000000000)
#define OTHERS_US 100000u /* time in which others pass on the same signal: nodes of this host, */
#define REPORT_NS   TICK_NS /* nodes of another host */
#define SAMPLE_US 1000u   /* between two looks whether a thread has told where it is */
#define BLOCKED_MAX 20u   /* such looks in a row at a thread that blocks the signal */
#define HANG_NEEDED (sizeof((struct roami_hang){0}.needed) / sizeof(struct roami_fd_mark))
#define SKIP_MAX  31u     /* ticks without a probe, which would wake all threads */

/* What the handler of SIGQUIT needs; a signal handler gets no argument. */
static struct {
	_Atomic(struct roami_ctl *) ctl; /* of this process's node; NULL: none */
	pid_t pid;
	_Atomic pid_t sampling; /* the thread that is to get our own signal; 0: none */
	_Atomic uintptr_t pc;   /* where that thread was when the signal came */
	_Atomic uint32_t sent;  /* our own signals that have not arrived yet; some arrive late */
	_Atomic uint32_t typed; /* SIGQUITs of the terminal that have come */
} roami_hang_signal;

/* --------------------------------------------------------------------------------- the signal */

/* Notes that SIGQUIT has come: a numbered one is reported once, by whichever node it reaches. */
static void hang_quit(struct roami_ctl *ctl, const siginfo_t *info)
{
	uint64_t value = (uintptr_t)info->si_value.sival_ptr;

	if (info->si_code == SI_QUEUE && (value & ~(uint64_t)UINT32_MAX) == ROAMI_HANG_PASSED)
		roami_probe_quit(ctl, ROAMI_QUIT_PASSED, (uint32_t)value);
	else if (info->si_code == SI_KERNEL)
		roami_probe_quit(ctl, ROAMI_QUIT_TYPED,
				 atomic_fetch_add(&roami_hang_signal.typed, 1) + 1);
	else
		atomic_store(&ctl->ask, ROAMI_ASK_NEAR);
	roami_look_at(ctl);
}

static void hang_asked(int signal, siginfo_t *info, void *context)
{
	struct roami_ctl *ctl = atomic_load(&roami_hang_signal.ctl);
	const ucontext_t *at = context;

	if (ctl == NULL || getpid() != roami_hang_signal.pid)
		return;
	if (info->si_code == SI_TKILL && info->si_pid == roami_hang_signal.pid &&
	    atomic_load(&roami_hang_signal.sent) != 0) {
		atomic_fetch_sub(&roami_hang_signal.sent, 1);
		if (atomic_load(&roami_hang_signal.sampling) != roami_os_tid())
			return;
		atomic_store(&roami_hang_signal.pc, (uintptr_t)at->uc_mcontext.gregs[REG_RIP]);
		atomic_store(&roami_hang_signal.sampling, 0);
		return;
	}
	if (signal == SIGQUIT)
		hang_quit(ctl, info);
}

/* Whether SIGQUIT has our handler in this process. */
static bool hang_handles(void)
{
	struct sigaction now;

	return sigaction(SIGQUIT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
	       now.sa_sigaction == hang_asked;
}

static void hang_action(struct sigaction *ours)
{
	*ours = (struct sigaction){.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
	ours->sa_sigaction = hang_asked;
	sigemptyset(&ours->sa_mask);
}

/* A signal without a handler, to be used for a moment; 0: there is none. */
static int hang_borrow(void)
{
	struct sigaction ours, now;

	hang_action(&ours);
	for (int number = SIGRTMAX; number >= SIGRTMIN; number--)
		if (sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
		    now.sa_handler == SIG_DFL)
			return sigaction(number, &ours, NULL) == 0 ? number : 0;
	return 0;
}

/* Where a thread is.  It is asked by SIGQUIT if that has our handler, else by a borrowed signal. */
const void *roami_hang_sample(pid_t tid, uint64_t until)
{
	bool own = hang_handles();
	int number = own ? SIGQUIT : hang_borrow();

	if (number == 0)
		return NULL;
	atomic_store(&roami_hang_signal.pc, 0);
	atomic_store(&roami_hang_signal.sampling, tid);
	atomic_fetch_add(&roami_hang_signal.sent, 1);
	if (syscall(SYS_tgkill, getpid(), tid, number) != 0)
		atomic_fetch_sub(&roami_hang_signal.sent, 1);
	/*
	 * A thread without a processor tells when it gets one again; one that blocks the signal for
	 * a moment, as the handler does that has asked for this look, when it has returned.
	 */
	for (unsigned blocked = 0; atomic_load(&roami_hang_signal.sampling) != 0 &&
				   roami_os_now_ns() < until && blocked < BLOCKED_MAX;) {
		blocked = roami_os_blocks(tid, number) ? blocked + 1 : 0;
		usleep(SAMPLE_US);
	}
	atomic_store(&roami_hang_signal.sampling, 0);
	if (!own) {
		signal(number, SIG_IGN); /* a thread that blocks the signal must not get it later */
		signal(number, SIG_DFL);
		atomic_store(&roami_hang_signal.sent, 0);
	}
	return (const void *)atomic_load(&roami_hang_signal.pc);
}

/* If the program handles SIGQUIT itself, its handler stays in place. */
static void hang_handle(struct roami_ctl *ctl)
{
	struct sigaction ours, now;

	roami_hang_signal.pid = getpid();
	atomic_store(&roami_hang_signal.ctl, ctl);
	hang_action(&ours);
	if (sigaction(SIGQUIT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
	    now.sa_handler == SIG_DFL)
		sigaction(SIGQUIT, &ours, NULL);
}

static void hang_unhandle(void)
{
	if (hang_handles())
		signal(SIGQUIT, SIG_DFL);
	atomic_store(&roami_hang_signal.ctl, NULL);
}

/* ----------------------------------------------------------------------------------- the report */

static void hang_ctls(const struct roami_node *node, const struct roami_ctl **ctls)
{
	for (unsigned peer = 0; peer < node->nodes; peer++)
		ctls[peer] = node->segments[peer].ctl;
}

/* Writes "node 1 on host b (pid 4711)", as far as it is known. */
static void hang_who(const struct roami_node *node, unsigned peer, char *text, size_t bytes)
{
	int pid = (int)atomic_load(&node->segments[peer].ctl->pid);
	size_t used = (size_t)snprintf(text, bytes, "node %u", peer);

	if (node->host_names != NULL && used < bytes)
		used += (size_t)snprintf(text + used, bytes - used, " on host %s",
					 node->host_names[peer]);
	if (pid != 0 && used < bytes)
		snprintf(text + used, bytes - used, " (pid %d)", pid);
}

/* Writes a line of the report to stderr, or to `roam where`, which leaves out what has no room. */
__attribute__((format(printf, 2, 3))) static void hang_say(struct roami_hang *hang,
							   const char *format, ...)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	uint32_t used = atomic_load(&ctl->where_bytes);
	char line[300 + ROAMI_WAIT_BYTES + ROAMI_POSITIONS * ROAMI_POSITION_BYTES];
	va_list args;
	size_t length;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	length = strlen(line);
	if (!hang->where) {
		if (write(STDERR_FILENO, line, length) < 0)
			return; /* stderr is closed */
	} else if (length <= sizeof(ctl->report) - used) {
		memcpy(ctl->report + used, line, length);
		atomic_store(&ctl->where_bytes, used + (uint32_t)length);
	}
}

/* Writes ", at A, B": where threads of the node compute, as far as it is known. */
static void hang_positions(const struct roami_probed *probed, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0;
	     i < ROAMI_POSITIONS && probed->positions[i][0] != '\0' && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s %s", i == 0 ? ", at" : ",",
					 probed->positions[i]);
}

/* Writes a line for each object that threads of the node wait for. */
static void hang_line(struct roami_hang *hang, const struct roami_ctl *const *ctls, unsigned peer)
{
	const struct roami_node *node = hang->node;
	const struct roami_ctl *ctl = ctls[peer];
	struct roami_wait_group groups[ROAMI_WAIT_GROUPS];
	unsigned threads = atomic_load(&ctl->threads), waiting, said = 0;
	unsigned count = roami_wait_groups(ctl, groups, &waiting);
	char who[120], what[ROAMI_WAIT_BYTES];
	char positions[ROAMI_POSITIONS * (ROAMI_POSITION_BYTES + 4)];

	hang_who(node, peer, who, sizeof(who));
	hang_positions(&ctl->probed, positions, sizeof(positions));
	for (unsigned i = 0; i < count; i++) {
		roami_boot_wait(ctls, node->nodes, &groups[i], what, sizeof(what));
		hang_say(hang, "roam: %s waits %s\n", who, what);
		said += groups[i].threads;
	}
	if (said < waiting)
		hang_say(hang, "roam: %s waits in %u more threads\n", who, waiting - said);
	if (waiting < threads)
		hang_say(hang, "roam: %s computes in %u of %u threads%s\n", who, threads - waiting,
			 threads, positions);
}

/* ROAM_CHECK=statics: names what node 0 has written that others may wait for. */
static void hang_statics(struct roami_hang *hang)
{
	const struct roami_job *job = roami_job_of(hang->node->env_state);
	char text[200 + ROAMI_WAIT_BYTES];

	for (size_t at = 0; job->me == 0 && roami_statics_written(job, &at, text, sizeof(text));)
		hang_say(hang, "roam: %s\n", text);
}

/*
 * Reports what each thread of every node waits for, or that it computes.  A node that does not
 * answer may be stopped; if it is on this host, its control page tells what it waits for.
 */
static void hang_report(struct roami_hang *hang)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];
	struct roami_node *node = hang->node;
	char who[120];

	roami_look_all(hang);
	hang_ctls(node, ctls);
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		hang_who(node, peer, who, sizeof(who));
		if (!roami_look_answered(hang, peer))
			hang_say(hang, "roam: %s does not answer\n", who);
		if (!hang->look[peer]->copied || roami_look_answered(hang, peer))
			hang_line(hang, ctls, peer);
	}
	hang_statics(hang);
	roami_look_forget(hang);
}

/* ---------------------------------------------------------------------------------- the verdict */

/*
 * Counts the waits begun on this host, or (`far`) on the others; *still_p: all threads here wait
 * that barriers count.
 */
static uint64_t turns_begun(const struct roami_hang *hang, bool far, bool *still_p)
{
	const struct roami_node *node = hang->node;
	uint64_t turns = 0;

	*still_p = true;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		const struct roami_ctl *ctl = node->segments[peer].ctl;

		if (hang->look[peer]->copied != far)
			continue;
		for (unsigned i = 0; !far && i < atomic_load(&ctl->seats); i++)
			turns += atomic_load(&ctl->waits[i].turn);
		turns += far ? atomic_load(&ctl->probed.turns) : 0;
		*still_p &= roami_look_waiting(ctl) >= atomic_load(&ctl->threads);
	}
	return turns;
}

/*
 * Whether all nodes answered that nothing is under way, and the messages sent equal those received.
 */
static bool probe_quiet(const struct roami_node *node, uint64_t *sent_p, uint64_t *received_p)
{
	bool quiet = true;

	*sent_p = *received_p = 0;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		const struct roami_probed *probed = &node->segments[peer].ctl->probed;

		quiet &= atomic_load(&probed->quiet) != 0;
		*sent_p += atomic_load(&probed->sent);
		*received_p += atomic_load(&probed->received);
	}
	return quiet && *sent_p == *received_p;
}

/* Whether each waiting thread has found, after these looks, that it still has to wait. */
static bool probe_seen(const struct roami_node *node, const uint32_t *looked)
{
	for (unsigned peer = 0; peer < node->nodes; peer++)
		for (unsigned i = 0; i < atomic_load(&node->segments[peer].ctl->seats); i++) {
			const struct roami_waiting *waiting = &node->segments[peer].ctl->waits[i];

			if (atomic_load(&waiting->kind) != 0 &&
			    (int32_t)(atomic_load(&waiting->seen) - looked[peer]) < 0)
				return false;
		}
	return true;
}

__attribute__((noreturn)) static void hang_over(struct roami_hang *hang)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];
	char text[400 + ROAMI_WAITS_BYTES], waits[ROAMI_WAITS_BYTES], positions[300] = "";
	struct roami_node *node = hang->node;

	hang_statics(hang);
	hang_ctls(node, ctls);
	roami_boot_waits(ctls, node->nodes, waits, sizeof(waits));
	for (unsigned peer = 0; peer < node->nodes; peer++)
		roami_boot_positions(ctls[peer], positions, sizeof(positions));
	snprintf(text, sizeof(text), "no thread of the job can go on%s%s", waits, positions);
	node->env->fail(node, text);
}

/*
 * Compares two looks, a second apart, at a job all of whose threads wait.  The job hangs if between
 * them no thread left its wait, each found anew that it has to wait, and no message was sent,
 * received, handled, or under way on any host: nothing has changed, and nothing is left that could.
 * The nodes need not be looked at in one moment: what a node did after its first look shows at its
 * second.
 */
static void hang_probe(struct roami_hang *hang)
{
	bool was = hang->probing, here, there;
	uint32_t looked[ROAMI_NODES_MAX];
	uint64_t sent, received, turns;

	hang->probing = false;
	if (hang->skip > 0) {
		hang->skip--;
		return;
	}
	memcpy(looked, hang->looked, sizeof(looked));
	if (!roami_look_all(hang) || !probe_quiet(hang->node, &sent, &received)) {
		hang->skip = hang->skipped = hang->skipped < SKIP_MAX ? 2 * hang->skipped + 1
								      : SKIP_MAX;
		roami_look_forget(hang);
		return;
	}
	turns = turns_begun(hang, false, &here) + turns_begun(hang, true, &there);
	if (was && here && there && turns == hang->probed_turns && sent == hang->sent &&
	    received == hang->received && probe_seen(hang->node, looked))
		hang_over(hang);
	hang->probing = here && there;
	hang->probed_turns = turns;
	hang->sent = sent;
	hang->received = received;
	roami_look_forget(hang);
}

/* ------------------------------------------------------------------------------- once a second */

/* Whether nodes of other hosts have begun a wait since the last call. */
static bool hang_far_moves(struct roami_hang *hang)
{
	bool still, moves;
	uint64_t turns;

	if (!hang->apart)
		return false;
	roami_look_all(hang);
	turns = turns_begun(hang, true, &still);
	roami_look_forget(hang);
	moves = !hang->far_noted || turns != hang->far_turns;
	hang->far_turns = turns;
	hang->far_noted = true;
	return moves;
}

/* ROAM_HANG: reports once whenever nothing has changed for that long. */
static void hang_late(struct roami_hang *hang, uint64_t now)
{
	uint64_t after = hang->node->options->hang * UINT64_C(1000000000);

	if (after == 0 || hang->reported)
		return;
	if (!hang->far_noted)
		hang_far_moves(hang);
	if (now - hang->still_since < after)
		return;
	if (hang_far_moves(hang)) {
		hang->still_since = now;
		return;
	}
	hang->reported = true;
	hang_report(hang);
}

static void hang_tick(struct roami_hang *hang)
{
	uint64_t now = roami_os_now_ns();
	bool still;
	uint64_t turns = turns_begun(hang, false, &still);

	if (turns != hang->turns || hang->still_since == 0) {
		hang->turns = turns;
		hang->still_since = now;
		hang->reported = hang->probing = hang->far_noted = false;
		hang->skip = hang->skipped = 0;
		return;
	}
	if (still)
		hang_probe(hang);
	else
		hang->probing = false;
	hang_late(hang, now);
}

/* --------------------------------------------------------------------------------------- life */

/* If `roam where` asks this node, the node reports for the whole job. */
static void hang_where(struct roami_hang *hang)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	uint32_t where = atomic_load(&ctl->where);

	if (where == atomic_load(&ctl->where_reported))
		return;
	hang->where = true;
	atomic_store(&ctl->where_bytes, 0);
	hang_report(hang);
	hang->where = false;
	atomic_store(&ctl->where_reported, where);
}

/* Whether a numbered SIGQUIT has come since the last call. */
static bool hang_numbered(struct roami_hang *hang)
{
	bool newer = false;

	for (unsigned i = 0; i < ROAMI_QUITS; i++) {
		uint32_t number = atomic_load(&hang->node->self->ctl->quits[i]);

		newer |= number != hang->quits[i];
		hang->quits[i] = number;
	}
	return newer;
}

/* Other nodes may pass a signal without a number on, too, which somebody has sent to all. */
static void hang_gather(struct roami_hang *hang)
{
	usleep(OTHERS_US);
	atomic_store(&hang->node->self->ctl->ask, ROAMI_ASK_NONE);
	hang_numbered(hang);
	hang->reported_at = roami_os_now_ns();
}

/* If a signal of this node, or another node, asks for a report, node 0 makes it, once for all. */
static void hang_pass(struct roami_hang *hang)
{
	struct roami_node *node = hang->node;
	uint32_t by = atomic_exchange(&node->self->ctl->ask, ROAMI_ASK_NONE);
	bool numbered = hang_numbered(hang);

	if (by == ROAMI_ASK_NONE && !numbered)
		return;
	if (node->me != 0) {
		hang->look[0]->pass(node, by);
		return;
	}
	if (!numbered && by == ROAMI_ASK_FAR && roami_os_now_ns() - hang->reported_at <= REPORT_NS)
		return;
	if (by != ROAMI_ASK_NONE)
		hang_gather(hang);
	hang_report(hang);
}

/* A lone node needs none of them. */
static void hang_descriptors(const struct roami_hang *hang)
{
	for (unsigned i = 0; i < HANG_NEEDED && hang->node->nodes > 1; i++)
		if (hang->needed[i].fd >= 0 && !roami_os_fd_marked(&hang->needed[i]))
			roami_node_fail(hang->node, ROAMI_HANG_CLOSED);
}

static void *hang_main(void *arg)
{
	struct roami_hang *hang = arg;
	struct roami_ctl *ctl = hang->node->self->ctl;
	bool first = hang->node->me == 0;
	uint64_t next = roami_os_now_ns() + TICK_NS, now;

	if (hang->apart)
		roami_seat_aside(hang->node); /* it sends messages */
	while (atomic_load(&hang->stop) == 0) {
		uint32_t value = atomic_load(&ctl->look);

		hang_pass(hang);
		hang_where(hang);
		roami_look_answer(hang);
		now = roami_os_now_ns();
		if (now >= next) {
			hang_descriptors(hang);
			roami_inside_overdue(hang_handles() ? SIGQUIT : 0);
			roami_last_look(hang->real);
			if (first)
				hang_tick(hang);
			next = now + TICK_NS;
		}
		if (atomic_load(&hang->stop) == 0)
			roami_os_futex_wait(&ctl->look, value, next > now ? next - now : 1);
	}
	return NULL;
}

static int hang_engine_file(const struct roami_node *node)
{
	const struct roami_fault_engine *engine = pages_of(node)->engine;

	return engine->file != NULL ? engine->file(pages_of(node)->engine_state) : -1;
}

void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real,
		      int fd)
{
	roami_assert(!hang->runs);
	memset(hang, 0, sizeof(*hang));
	roami_os_fd_mark(&hang->needed[0], fd);
	roami_os_fd_mark(&hang->needed[1], hang_engine_file(node));
	roami_os_fd_mark(&hang->needed[2], roami_layers_file(node));
	hang->node = node;
	hang->real = real;
	hang->answered = atomic_load(&node->self->ctl->probed.serial);
	hang_numbered(hang); /* those of an earlier round */
	roami_look_init(hang);
	hang->runs = roami_os_helper(&hang->thread, hang_main, hang);
	atomic_fetch_add(&real->helpers, hang->runs);
	hang_handle(node->self->ctl);
	roami_signals_heard(&node->self->ctl->heard);
}

void roami_hang_stop(struct roami_hang *hang)
{
	if (hang->runs)
		hang_descriptors(hang);
	if (hang->node != NULL) {
		hang_unhandle();
		roami_signals_heard(NULL);
	}
	if (!hang->runs)
		return;
	atomic_fetch_sub(&hang->real->helpers, 1);
	atomic_store(&hang->stop, 1);
	roami_look_at(hang->node->self->ctl);
	pthread_join(hang->thread, NULL);
	hang->runs = false;
}
