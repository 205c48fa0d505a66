/*
 * What a node tells of itself when another one looks for a hang: nodes of its host read its control
 * page, those of other hosts ask by message (run/probe.h).
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/thread.h"
#include "home/reach.h"
#include "job/hang.h"
#include "msg/msg.h"
#include "msg/msg_state.h"
#include "run/probe.h"

#define ANSWER_MS  20u  /* time given to nodes to answer, */
#define ANSWERS    100u /* so often */
#define LOCK_TRIES 50u
#define LOCK_US    100u

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

struct roami_ctl *roami_look_near(const struct roami_node *node, unsigned peer)
{
	return roami_reach_ctl(node, peer);
}

void roami_look_at(struct roami_ctl *ctl)
{
	atomic_fetch_add(&ctl->look, 1);
	roami_os_futex_wake(&ctl->look, INT32_MAX);
}

/* ---------------------------------------------------------------------------------- answering */

/* Whether every thread of the process is known: threads that wait, and the library's own. */
static bool node_known(const struct roami_hang *hang)
{
	unsigned waiting = roami_look_waiting(hang->node->self->ctl), links = 0;
	int tasks = roami_os_tasks();

	if (tasks >= 0) {
		links = roami_os_links(tasks);
		close(tasks);
	}
	return waiting == atomic_load(&hang->node->self->ctl->threads) && !roami_os_traced() &&
	       links == 2 + waiting + atomic_load(&hang->real->helpers);
}

/* Locks out handlers of messages: the one that woke this thread may still run. */
static bool node_lock(struct roami_node *node)
{
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (roami_spin_try(&msg_of(node)->poll_lock))
			return true;
		usleep(LOCK_US);
	}
	return false;
}

/*
 * Whether only waiting threads could do anything on this node, and no message is being handled or
 * kept until later.  Also counts the messages, none of them in the middle of its handling.
 */
static bool node_quiet(struct roami_hang *hang, uint64_t *sent_p, uint64_t *received_p)
{
	struct roami_node *node = hang->node;
	bool quiet = node_known(hang);

	*sent_p = *received_p = 0;
	if (!node_lock(node))
		return false;
	quiet &= msg_of(node)->parked.count == 0 && atomic_load(&msg_of(node)->out_waiting) == 0;
	roami_probe_count(node, sent_p, received_p);
	roami_spin_unlock(&msg_of(node)->poll_lock);
	return quiet;
}

/* Where a thread is; a running thread is asked by our signal. */
static uintptr_t thread_pc(pid_t tid)
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
		pc = (uintptr_t)roami_hang_sample(tid);
	return pc;
}

/* Adds a place, unless it is there already. */
static unsigned place_add(struct roami_probed *probed, unsigned count, uintptr_t pc)
{
	char *text = probed->places[count];
	unsigned at = 0;

	roami_os_place((const void *)pc, text);
	while (strcmp(probed->places[at], text) != 0)
		at++;
	return at == count ? count + 1 : count;
}

/* Notes where the threads are that barriers count and that do not wait. */
static void node_places(struct roami_hang *hang)
{
	struct roami_ctl *ctl = hang->node->self->ctl;
	struct roami_probed *probed = &ctl->probed;
	unsigned count = 0;

	for (unsigned i = 0; i < atomic_load(&ctl->seats) && count < ROAMI_PLACES; i++) {
		pid_t tid = atomic_load(&hang->real->seats.tids[i]);
		uintptr_t pc = 0;

		if (tid != 0 && threads_of(hang->node)->threads[i].registered &&
		    atomic_load(&ctl->waits[i].kind) == 0)
			pc = thread_pc(tid);
		if (pc != 0)
			count = place_add(probed, count, pc);
	}
	for (; count < ROAMI_PLACES; count++)
		probed->places[count][0] = '\0';
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
	node_places(hang);
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

/*
 * Whether a node has answered: a near one's serial has grown, or a far one's copy has the token of
 * this look.
 */
bool roami_look_answered(const struct roami_hang *hang, unsigned peer)
{
	const struct roami_ctl *near = roami_look_near(hang->node, peer);

	if (near != NULL)
		return (int32_t)(atomic_load(&near->probed.serial) - hang->asked[peer]) >= 0;
	return atomic_load(&hang->node->segments[peer].ctl->probe) == hang->asked[peer];
}

static void look_ask(struct roami_hang *hang, unsigned peer, uint32_t token)
{
	struct roami_ctl *near = roami_look_near(hang->node, peer);

	if (near != NULL) {
		hang->asked[peer] = atomic_fetch_add(&near->probe, 1) + 1;
		roami_look_at(near);
		return;
	}
	hang->asked[peer] = token;
	roami_probe_forget(hang->node->segments[peer].ctl);
	roami_probe_ask(hang->node, peer, token);
}

void roami_look_forget(struct roami_hang *hang)
{
	atomic_fetch_add(&hang->node->self->ctl->token, 1); /* answers still to come are too late */
	for (unsigned peer = 0; hang->apart && peer < hang->node->nodes; peer++)
		if (roami_look_near(hang->node, peer) == NULL)
			roami_probe_forget(hang->node->segments[peer].ctl);
}

bool roami_look_all(struct roami_hang *hang)
{
	struct roami_node *node = hang->node;
	uint32_t token = atomic_load(&node->self->ctl->token) + 1;
	bool all = false;

	token += token == 0;
	atomic_store(&node->self->ctl->token, token);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		look_ask(hang, peer, token);
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
