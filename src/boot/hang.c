#include "boot/hang.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "boot/local.h"
#include "core/sync.h"
#include "msg/msg.h"
#include "os/inside.h"

#define TICK_NS   UINT64_C(1000000000)
#define ANSWER_US 20000u /* that the nodes of this host get to answer, */
#define ANSWERS   25u    /* so often */
#define SKIP_MAX  31u    /* ticks, where somebody unknown may help: to look wakes all */

/* A signal handler gets no argument: what SIGQUIT is for. */
static struct {
	_Atomic(struct roami_ctl *) ctl; /* of this process's node; NULL: none */
	pid_t pid;
	_Atomic uint32_t sampling; /* the signal is our own */
	_Atomic uintptr_t pc;      /* where the first thread was when it came */
} hang_signal;

/* --------------------------------------------------------------------------------- the signal */

static void look_at(struct roami_ctl *ctl)
{
	atomic_fetch_add(&ctl->look, 1);
	roami_os_futex_wake(&ctl->look, INT32_MAX);
}

static void hang_asked(int signal, siginfo_t *info, void *context)
{
	struct roami_ctl *ctl = atomic_load(&hang_signal.ctl);
	const ucontext_t *at = context;

	(void)signal;
	(void)info;
	if (ctl == NULL || getpid() != hang_signal.pid)
		return;
	if (roami_os_tid() == hang_signal.pid)
		atomic_store(&hang_signal.pc, (uintptr_t)at->uc_mcontext.gregs[REG_RIP]);
	if (atomic_exchange(&hang_signal.sampling, 0) != 0)
		return;
	atomic_store(&ctl->ask, 1);
	look_at(ctl);
}

static bool hang_handles(void)
{
	struct sigaction now;

	return sigaction(SIGQUIT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
	       now.sa_sigaction == hang_asked;
}

/* What the program does with SIGQUIT itself stays as it is. */
static void hang_handle(struct roami_ctl *ctl)
{
	struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK}, now;

	hang_signal.pid = getpid();
	atomic_store(&hang_signal.ctl, ctl);
	ours.sa_sigaction = hang_asked;
	sigemptyset(&ours.sa_mask);
	if (sigaction(SIGQUIT, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
	    now.sa_handler == SIG_DFL)
		sigaction(SIGQUIT, &ours, NULL);
}

static void hang_unhandle(void)
{
	if (hang_handles())
		signal(SIGQUIT, SIG_DFL);
	atomic_store(&hang_signal.ctl, NULL);
}

/* ------------------------------------------------------------------------------ one node's part */

/* Threads of the node that wait for other threads of the job. */
static unsigned waiting_count(const struct roami_ctl *ctl)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ROAMI_WAITS_MAX; i++) {
		uint32_t kind = atomic_load(&ctl->waits[i].kind);

		count += kind != 0 && kind != ROAMI_WAITS_TUPLE;
	}
	return count;
}

/*
 * Whether only threads that wait could do anything here: all that the process has are known, and
 * registered; nothing is being handled, or kept until later.
 */
static bool node_quiet(struct roami_hang *hang)
{
	struct roami_node *node = hang->node;
	unsigned waiting = waiting_count(node->self->ctl);
	unsigned links = hang->real->tasks > 0 ? roami_os_links(hang->real->tasks) : 0;
	bool quiet = waiting == atomic_load(&node->self->ctl->threads) && !roami_os_traced() &&
		     links == 2 + waiting + atomic_load(&hang->real->helpers);

	if (!roami_spin_try(&node->msg.poll_lock))
		return false;
	quiet &= node->msg.parked.count == 0 && atomic_load(&node->msg.out_waiting) == 0;
	roami_spin_unlock(&node->msg.poll_lock);
	return quiet;
}

/* Where the first thread is, if it runs; a thread that does is asked by our signal. */
static void node_place(struct roami_probed *probed)
{
	char path[64], text[200];
	uintptr_t pc = 0;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)getpid());
	fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	if (strncmp(text, "running", 7) != 0 && strrchr(text, ' ') != NULL) {
		sscanf(strrchr(text, ' '), " %lx", &pc);
	} else if (hang_handles()) {
		atomic_store(&hang_signal.pc, 0);
		atomic_store(&hang_signal.sampling, 1);
		syscall(SYS_tgkill, getpid(), getpid(), SIGQUIT);
		for (unsigned i = 0; i < 20 && atomic_load(&hang_signal.sampling) != 0; i++)
			usleep(1000);
		pc = atomic_load(&hang_signal.pc);
	}
	probed->place[0] = '\0';
	if (pc != 0)
		roami_os_place((const void *)pc, probed->place);
}

static void node_answer(struct roami_hang *hang)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	uint32_t serial = atomic_load(&ctl->probe);
	uint64_t sent = 0;

	if (serial == hang->answered)
		return;
	hang->answered = serial;
	if (waiting_count(ctl) == 0)
		node_place(&ctl->probed);
	for (unsigned to = 0; to < hang->node->nodes; to++)
		sent += atomic_load(&hang->node->msg.sent[to]);
	atomic_store(&ctl->probed.sent, sent);
	atomic_store(&ctl->probed.received, atomic_load(&hang->node->msg.received));
	atomic_store(&ctl->probed.quiet, node_quiet(hang));
	/* Who waits looks again, after the above: what was handled has had its effect then. */
	atomic_store(&ctl->probed.serial, serial);
	roami_wake_all(hang->node);
}

/* ---------------------------------------------------------------------- the host's first node */

/* Of this host, as this node looks at it; NULL: it has none. */
static struct roami_ctl *near_ctl(const struct roami_node *node, unsigned peer)
{
	return node->segments[peer].base != NULL ? node->segments[peer].ctl : NULL;
}

static unsigned first_near(const struct roami_node *node)
{
	unsigned peer = 0;

	while (near_ctl(node, peer) == NULL)
		peer++;
	return peer;
}

static bool all_near(const struct roami_node *node)
{
	unsigned peer = 0;

	while (peer < node->nodes && near_ctl(node, peer) != NULL)
		peer++;
	return peer == node->nodes;
}

/* Asks the nodes of this host; false: one of them has not answered in time. */
static bool probe_all(struct roami_hang *hang)
{
	struct roami_node *node = hang->node;
	bool all = false;

	hang->serial++;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		struct roami_ctl *ctl = near_ctl(node, peer);

		if (ctl == NULL)
			continue;
		atomic_store(&ctl->probe, hang->serial);
		look_at(ctl);
	}
	node_answer(hang);
	for (unsigned turn = 0; turn < ANSWERS && !all; turn++) {
		all = true;
		for (unsigned peer = 0; peer < node->nodes; peer++)
			if (near_ctl(node, peer) != NULL)
				all &= atomic_load(&near_ctl(node, peer)->probed.serial) ==
				       hang->serial;
		if (!all)
			usleep(ANSWER_US);
	}
	return all;
}

static void hang_line(const struct roami_ctl *const *ctls, const struct roami_node *node,
		      unsigned peer)
{
	const struct roami_ctl *ctl = ctls[peer];
	unsigned threads = atomic_load(&ctl->threads), waiting = 0;
	char line[300], what[ROAMI_WAIT_BYTES];
	int length, pid = (int)atomic_load(&ctl->pid);

	for (unsigned i = 0; i < ROAMI_WAITS_MAX; i++) {
		if (!roami_boot_wait(ctls, node->nodes, &ctl->waits[i], what, sizeof(what)))
			continue;
		waiting++;
		length = snprintf(line, sizeof(line), "roam: node %u (pid %d) waits %s\n", peer,
				  pid, what);
		if (write(STDERR_FILENO, line, (size_t)length) < 0)
			return;
	}
	if (waiting >= threads)
		return;
	length = snprintf(line, sizeof(line),
			  "roam: node %u (pid %d) computes in %u of %u threads%s%s\n", peer, pid,
			  threads - waiting, threads,
			  waiting == 0 && ctl->probed.place[0] != '\0' ? ", at " : "",
			  waiting == 0 ? ctl->probed.place : "");
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

/* Says what each thread of this host's nodes waits for, or that it computes. */
static void hang_report(struct roami_hang *hang)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];
	struct roami_node *node = hang->node;

	probe_all(hang);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		ctls[peer] = near_ctl(node, peer);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (ctls[peer] != NULL)
			hang_line(ctls, node, peer);
}

/* Waits begun by all threads of this host; *still_p: all registered ones are in one. */
static uint64_t turns_begun(const struct roami_node *node, bool *still_p)
{
	uint64_t turns = 0;

	*still_p = true;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		const struct roami_ctl *ctl = near_ctl(node, peer);

		for (unsigned i = 0; ctl != NULL && i < ROAMI_WAITS_MAX; i++)
			turns += atomic_load(&ctl->waits[i].turn);
		if (ctl != NULL)
			*still_p &= waiting_count(ctl) == atomic_load(&ctl->threads);
	}
	return turns;
}

/* All have answered that nothing is under way, and what they answer sums up. */
static bool probe_quiet(const struct roami_node *node, uint64_t *sent_p, uint64_t *received_p)
{
	bool quiet = true;

	*sent_p = *received_p = 0;
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		const struct roami_probed *probed = &near_ctl(node, peer)->probed;

		quiet &= atomic_load(&probed->quiet) != 0;
		*sent_p += atomic_load(&probed->sent);
		*received_p += atomic_load(&probed->received);
	}
	return quiet && *sent_p == *received_p;
}

/* Each thread that waits has found, since that probe, that it has to. */
static bool probe_seen(const struct roami_node *node, uint32_t serial)
{
	for (unsigned peer = 0; peer < node->nodes; peer++)
		for (unsigned i = 0; i < ROAMI_WAITS_MAX; i++) {
			const struct roami_waiting *waiting = &near_ctl(node, peer)->waits[i];

			if (atomic_load(&waiting->kind) != 0 &&
			    atomic_load(&waiting->seen) != serial)
				return false;
		}
	return true;
}

__attribute__((noreturn)) static void hang_over(struct roami_hang *hang)
{
	const struct roami_ctl *ctls[ROAMI_NODES_MAX];
	char text[400 + ROAMI_WAITS_BYTES], waits[ROAMI_WAITS_BYTES];
	struct roami_node *node = hang->node;

	for (unsigned peer = 0; peer < node->nodes; peer++)
		ctls[peer] = near_ctl(node, peer);
	roami_boot_waits(ctls, node->nodes, waits, sizeof(waits));
	snprintf(text, sizeof(text), "no thread of the job can go on%s", waits);
	node->env->fail(node, text);
}

/*
 * Two looks, a second apart, at a job all of whose threads wait.  Between them no thread left its
 * wait, each found anew that it has to, and no message was sent, received, under way or being
 * handled: nothing has changed, and nothing is left that could.
 */
static void hang_probe(struct roami_hang *hang, uint64_t turns)
{
	bool was = hang->probing && probe_seen(hang->node, hang->serial), still;
	uint64_t sent, received;

	hang->probing = false;
	if (hang->skip > 0) {
		hang->skip--;
		return;
	}
	if (!probe_all(hang) || !probe_quiet(hang->node, &sent, &received)) {
		hang->skip = hang->skipped = hang->skipped < SKIP_MAX ? 2 * hang->skipped + 1
								      : SKIP_MAX;
		return;
	}
	if (was && sent == hang->sent && received == hang->received &&
	    turns_begun(hang->node, &still) == turns && still)
		hang_over(hang);
	hang->probing = true;
	hang->sent = sent;
	hang->received = received;
}

/* Once a second. */
static void hang_tick(struct roami_hang *hang)
{
	uint64_t after = hang->node->options->hang * UINT64_C(1000000000);
	uint64_t now = roami_os_now_ns();
	bool still;
	uint64_t turns = turns_begun(hang->node, &still);

	if (turns != hang->turns || hang->still_since == 0) {
		hang->turns = turns;
		hang->still_since = now;
		hang->told = hang->probing = false;
		hang->skip = hang->skipped = 0;
		return;
	}
	if (still && all_near(hang->node))
		hang_probe(hang, turns);
	else
		hang->probing = false;
	if (after != 0 && !hang->told && now - hang->still_since >= after) {
		hang->told = true;
		hang_report(hang);
	}
}

/* --------------------------------------------------------------------------------------- life */

/* Asked by this node's signal: the first of the host says it for all, once. */
static void hang_pass(struct roami_hang *hang, bool first)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	struct roami_ctl *to = near_ctl(hang->node, first_near(hang->node));

	if (atomic_exchange(&ctl->ask, 0) == 0)
		return;
	if (!first) {
		atomic_store(&to->ask, 1);
		look_at(to);
		return;
	}
	usleep(5 * ANSWER_US); /* the launcher has sent it to others, too */
	atomic_store(&ctl->ask, 0);
	hang_report(hang);
}

static void *hang_main(void *arg)
{
	struct roami_hang *hang = arg;
	struct roami_ctl *ctl = hang->node->self->ctl;
	bool first = first_near(hang->node) == hang->node->me;
	uint64_t next = roami_os_now_ns() + TICK_NS, now;

	while (atomic_load(&hang->stop) == 0) {
		uint32_t value = atomic_load(&ctl->look);

		hang_pass(hang, first);
		node_answer(hang);
		now = roami_os_now_ns();
		if (now >= next) {
			roami_inside_overdue(hang_handles() ? SIGQUIT : 0);
			if (first)
				hang_tick(hang);
			next = now + TICK_NS;
		}
		if (atomic_load(&hang->stop) == 0)
			roami_os_futex_wait(&ctl->look, value, next > now ? next - now : 1);
	}
	return NULL;
}

void roami_hang_start(struct roami_hang *hang, struct roami_node *node, struct roami_real *real)
{
	memset(hang, 0, sizeof(*hang));
	hang->node = node;
	hang->real = real;
	hang->answered = atomic_load(&node->self->ctl->probe);
	hang->serial = hang->answered;
	hang->runs = roami_os_helper(&hang->thread, hang_main, hang);
	atomic_fetch_add(&real->helpers, hang->runs);
	hang_handle(node->self->ctl);
}

void roami_hang_stop(struct roami_hang *hang)
{
	if (!hang->runs)
		return;
	hang_unhandle();
	atomic_store(&hang->stop, 1);
	look_at(hang->node->self->ctl);
	pthread_join(hang->thread, NULL);
	atomic_fetch_sub(&hang->real->helpers, 1);
	hang->runs = false;
}
