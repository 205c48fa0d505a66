/*
 * What a node tells of itself when another one looks for a hang: nodes of its host read its control
 * page, those of other hosts ask by message (run/probe.h).
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "home/reach.h"
#include "job/hang.h"
#include "msg/msg.h"
#include "run/probe.h"

#define ANSWER_MS  20u  /* time given to nodes to answer, */
#define ANSWERS    100u /* so often */
#define PLACES_NS   UINT64_C(1000000000) /* for a node's threads to say where they compute */
#define COUNT_TRIES 50u
#define COUNT_US    100u

unsigned roami_look_waiting(const struct roami_ctl *ctl)
{
	unsigned count = 0;

	for (unsigned i = 0; i < atomic_load(&ctl->seats); i++) {
		uint32_t kind = atomic_load(&ctl->waits[i].kind);
		uint32_t ends = kind == ROAMI_WAITS_TUPLE ? ROAMI_TUPLE_ENDS : ROAMI_WAITS_ENDS;

		count += kind != 0 && (atomic_load(&ctl->waits[i].of) & ends) == 0;
	}
	return count;
}

void roami_look_at(struct roami_ctl *ctl)
{
	atomic_fetch_add(&ctl->look, 1);
	roami_os_futex_wake(&ctl->look, INT32_MAX);
}

/* ---------------------------------------------------------------------------------- answering */

static bool node_seats(const struct roami_hang *hang, pid_t tid)
{
	for (unsigned i = 0; i < atomic_load(&hang->node->self->ctl->seats); i++)
		if (atomic_load(&hang->real->seats.tids[i]) == tid)
			return true;
	return false;
}

/*
 * How many threads that roam does not know sleep until another thread of this process wakes them,
 * as those of a library's pool do.  *sleeps: how often they have gone to sleep, all together.
 */
static unsigned node_dormant(const struct roami_hang *hang, uint64_t *sleeps)
{
	int tasks = roami_os_tasks();
	DIR *directory = tasks >= 0 ? fdopendir(tasks) : NULL;
	struct dirent *entry;
	unsigned count = 0;
	uint64_t its;

	*sleeps = 0;
	if (directory == NULL && tasks >= 0)
		close(tasks);
	while (directory != NULL && (entry = readdir(directory)) != NULL) {
		pid_t tid = atoi(entry->d_name); /* 0: "." and ".." */

		if (tid == 0 || node_seats(hang, tid) || !roami_os_dormant(tid, &its))
			continue;
		count++;
		*sleeps += its;
	}
	if (directory != NULL)
		closedir(directory);
	return count;
}

/*
 * Whether the process's threads beyond the `known` ones can do nothing until one of these does: at
 * one moment, between two looks at each of them, all slept, each for another thread of the process.
 */
static bool node_others_sleep(const struct roami_hang *hang, unsigned known)
{
	unsigned threads = roami_os_threads(), others = threads - known;
	uint64_t before, after;

	return threads == known ||
	       (threads > known && node_dormant(hang, &before) == others &&
		node_dormant(hang, &after) == others && before == after);
}

/* Whether the threads that wait, and the library's own, are all that could do anything. */
static bool node_known(const struct roami_hang *hang)
{
	unsigned waiting = roami_look_waiting(hang->node->self->ctl);
	unsigned known = waiting + atomic_load(&hang->real->helpers);

	return waiting == atomic_load(&hang->node->self->ctl->threads) +
				  roami_last_waits(hang->real) &&
	       !roami_os_traced() &&
	       node_others_sleep(hang, known + roami_last_threads(hang->real));
}

/*
 * Whether only waiting threads could do anything on this node, and no message is being handled or
 * kept until later.  Also counts the messages.  The handler that woke this thread may still run.
 */
static bool node_quiet(struct roami_hang *hang, uint64_t *sent_p, uint64_t *received_p)
{
	bool quiet = node_known(hang), kept = true;

	*sent_p = *received_p = 0;
	for (unsigned i = 0; i < COUNT_TRIES; i++) {
		if (roami_msg_count(hang->node, sent_p, received_p, &kept))
			break;
		usleep(COUNT_US);
	}
	return quiet && !kept;
}

/* Where a thread is; a running thread is asked by our signal. */
static uintptr_t thread_pc(pid_t tid, uint64_t until)
{
	char path[64], text[200];
	uintptr_t pc = 0;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	fd = roami_os_fd(open(path, O_RDONLY | O_CLOEXEC));
	bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	if (strncmp(text, "running", 7) != 0 && strrchr(text, ' ') != NULL)
		sscanf(strrchr(text, ' '), " %lx", &pc);
	else
		pc = (uintptr_t)roami_hang_sample(tid, until);
	return pc;
}

/* Adds a position, unless it is there already. */
static unsigned position_add(struct roami_probed *probed, unsigned count, uintptr_t pc)
{
	char *text = probed->positions[count];
	unsigned at = 0;

	roami_os_position((const void *)pc, text);
	while (strcmp(probed->positions[at], text) != 0)
		at++;
	return at == count ? count + 1 : count;
}

/* Notes where the threads are that barriers count and that do not wait. */
static void node_positions(struct roami_hang *hang)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	struct roami_probed *probed = &ctl->probed;
	uint64_t until = roami_os_now_ns() + PLACES_NS;
	unsigned count = 0;

	for (unsigned i = 0; i < atomic_load(&ctl->seats) && count < ROAMI_POSITIONS; i++) {
		pid_t tid = atomic_load(&hang->real->seats.tids[i]);
		uintptr_t pc = 0;

		if (tid != 0 && threads_of(hang->node)->threads[i].registered &&
		    atomic_load(&ctl->waits[i].kind) == 0)
			pc = thread_pc(tid, until);
		if (pc != 0)
			count = position_add(probed, count, pc);
	}
	for (; count < ROAMI_POSITIONS; count++)
		probed->positions[count][0] = '\0';
}

/* Takes the requests of far nodes; false: none has asked. */
static bool look_asked(const struct roami_hang *hang, uint32_t *tokens)
{
	bool asked = false;

	for (unsigned peer = 0; hang->apart && peer < hang->node->nodes; peer++) {
		tokens[peer] = atomic_exchange(&hang->node->self->ctl->tokens[peer], 0);
		asked |= tokens[peer] != 0;
	}
	return asked;
}

/* The serial is read after the tokens, because the nodes that left these have counted it up. */
void roami_look_answer(struct roami_hang *hang)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	uint32_t tokens[ROAMI_NODES_MAX] = {0}, serial;
	bool asked = look_asked(hang, tokens);
	uint64_t sent, received;

	serial = atomic_load(&ctl->probe);
	if (serial == hang->answered && !asked)
		return;
	hang->answered = serial;
	node_positions(hang);
	atomic_store(&ctl->probed.quiet, node_quiet(hang, &sent, &received));
	atomic_store(&ctl->probed.sent, sent);
	atomic_store(&ctl->probed.received, received);
	/*
	 * Waiting threads look again after this, when the messages handled have had their effect.
	 */
	atomic_store(&ctl->probed.serial, serial);
	roami_wake_all(hang->node);
	for (unsigned peer = 0; asked && peer < hang->node->nodes; peer++)
		if (tokens[peer] != 0)
			roami_probe_tell(hang->node, peer, tokens[peer]);
}

/* ------------------------------------------------------------------------------------- asking */

/* The serial of a peer that is asked in its control page grows when it has answered. */
static void mapped_ask(struct roami_hang *hang, unsigned peer, uint32_t token)
{
	struct roami_ctl *ctl = hang->node->segments[peer].ctl;

	(void)token;
	hang->asked[peer] = atomic_fetch_add(&ctl->probe, 1) + 1;
	roami_look_at(ctl);
}

static bool mapped_answered(const struct roami_hang *hang, unsigned peer)
{
	const struct roami_ctl *ctl = hang->node->segments[peer].ctl;

	return (int32_t)(atomic_load(&ctl->probed.serial) - hang->asked[peer]) >= 0;
}

static void mapped_forget(struct roami_hang *hang, unsigned peer)
{
	(void)hang, (void)peer;
}

static void mapped_pass(struct roami_node *node, uint32_t by)
{
	roami_probe_quits(node->segments[0].ctl, node->self->ctl);
	if (by != ROAMI_ASK_NONE)
		atomic_store(&node->segments[0].ctl->ask, by);
	roami_look_at(node->segments[0].ctl);
}

/* The copy of the control page of a peer that is asked by message has the token of its answer. */
static void copied_ask(struct roami_hang *hang, unsigned peer, uint32_t token)
{
	hang->asked[peer] = token;
	roami_probe_forget(hang->node->segments[peer].ctl);
	roami_probe_ask(hang->node, peer, token);
}

static bool copied_answered(const struct roami_hang *hang, unsigned peer)
{
	return atomic_load(&hang->node->segments[peer].ctl->probe) == hang->asked[peer];
}

static void copied_forget(struct roami_hang *hang, unsigned peer)
{
	roami_probe_forget(hang->node->segments[peer].ctl);
}

static void copied_pass(struct roami_node *node, uint32_t by)
{
	roami_probe_pass(node, by != ROAMI_ASK_NONE);
}

static const struct roami_look look_mapped = {false, mapped_ask, mapped_answered, mapped_forget,
					      mapped_pass};
static const struct roami_look look_copied = {true, copied_ask, copied_answered, copied_forget,
					      copied_pass};

void roami_look_init(struct roami_hang *hang)
{
	const struct roami_node *node = hang->node;

	for (unsigned peer = 0; peer < node->nodes; peer++) {
		hang->look[peer] =
			roami_reach_choose_ctl(node, peer, &look_mapped, &look_copied);
		hang->apart |= hang->look[peer]->copied;
	}
}

bool roami_look_answered(const struct roami_hang *hang, unsigned peer)
{
	return hang->look[peer]->answered(hang, peer);
}

void roami_look_forget(struct roami_hang *hang)
{
	atomic_fetch_add(&hang->node->self->ctl->token, 1); /* answers still to come are too late */
	for (unsigned peer = 0; hang->apart && peer < hang->node->nodes; peer++)
		hang->look[peer]->forget(hang, peer);
}

bool roami_look_all(struct roami_hang *hang)
{
	struct roami_node *node = hang->node;
	uint32_t token = atomic_load(&node->self->ctl->token) + 1;
	bool all = false;

	token += token == 0;
	atomic_store(&node->self->ctl->token, token);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		hang->look[peer]->ask(hang, peer, token);
	for (unsigned turn = 0; !all && turn < ANSWERS; turn++) {
		if (turn > 0)
			usleep(ANSWER_MS * 1000);
		roami_look_answer(hang); /* for this node's look, and for others' looks */
		all = true;
		for (unsigned peer = 0; peer < node->nodes; peer++)
			all &= roami_look_answered(hang, peer);
		if (atomic_load(&hang->stop) != 0)
			return false;
	}
	for (unsigned peer = 0; peer < node->nodes; peer++)
		hang->looked[peer] = atomic_load(&node->segments[peer].ctl->probed.serial);
	return all;
}
