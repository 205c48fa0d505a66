#include "run/probe.h"

#include <string.h>
#include <unistd.h>

#include "home/reach.h"
#include "msg/msg.h"

/* Messages. */
enum { PROBE_ASK, PROBE_TELL };

struct probe_ask {
	uint32_t token; /* 0: a SIGQUIT has come, */
	uint32_t asks;  /* that has no number: say what all wait for */
	uint32_t quits[ROAMI_QUITS];
};

/* Groups follow. */
struct probe_answer {
	uint32_t token;
	uint32_t serial;
	uint32_t quiet;
	int32_t pid;
	uint64_t sent;
	uint64_t received;
	uint64_t turns;
	char positions[ROAMI_POSITIONS][ROAMI_POSITION_BYTES];
};

_Static_assert(sizeof(struct probe_answer) + ROAMI_WAIT_GROUPS * sizeof(struct roami_wait_group) <=
		       ROAMI_PROBED_MAX,
	       "all of it is one message");

/* ------------------------------------------------------------------------------------- groups */

static struct roami_wait_group group_of(const struct roami_waiting *waiting)
{
	struct roami_wait_group group = {.id = atomic_load(&waiting->id),
					 .kind = atomic_load(&waiting->kind),
					 .of = atomic_load(&waiting->of),
					 .threads = 1,
					 .seen = atomic_load(&waiting->seen)};

	for (unsigned i = 0; group.kind == ROAMI_WAITS_TUPLE && i < ROAMI_LABEL_WORDS; i++)
		group.label[i] = atomic_load(&waiting->label[i]);
	return group;
}

unsigned roami_wait_groups(const struct roami_ctl *ctl, struct roami_wait_group *groups,
			   unsigned *waiting_p)
{
	unsigned seats = atomic_load(&ctl->seats), count = 0, at;

	*waiting_p = 0;
	for (unsigned i = 0; i < seats && i < ROAMI_WAITS_MAX; i++) {
		struct roami_wait_group one = group_of(&ctl->waits[i]);

		if (one.kind == 0)
			continue;
		++*waiting_p;
		for (at = 0; at < count && (groups[at].id != one.id || groups[at].of != one.of ||
					    groups[at].kind != one.kind);)
			at++;
		if (at == ROAMI_WAIT_GROUPS)
			continue;
		if (at == count) {
			groups[count++] = one;
			continue;
		}
		groups[at].threads++;
		if ((int32_t)(one.seen - groups[at].seen) < 0)
			groups[at].seen = one.seen;
	}
	return count;
}

bool roami_wait_groups_take(struct roami_ctl *far, const void *groups, size_t bytes)
{
	struct roami_wait_group group;
	unsigned seat = 0;

	for (size_t at = 0; at + sizeof(group) <= bytes; at += sizeof(group)) {
		memcpy(&group, (const uint8_t *)groups + at, sizeof(group));
		if (group.threads > ROAMI_WAITS_MAX - seat)
			return false;
		group.label[ROAMI_LABEL_WORDS - 1] &= UINT64_MAX >> 8; /* its end */
		for (unsigned i = 0; i < group.threads; i++) {
			struct roami_waiting *waiting = &far->waits[seat++];

			atomic_store(&waiting->id, group.id);
			atomic_store(&waiting->of, group.of);
			atomic_store(&waiting->seen, group.seen);
			for (unsigned word = 0; word < ROAMI_LABEL_WORDS; word++)
				atomic_store(&waiting->label[word], group.label[word]);
			atomic_store(&waiting->kind, group.kind);
		}
	}
	atomic_store(&far->seats, seat);
	return bytes % sizeof(group) == 0;
}

/* ----------------------------------------------------------------------------- asking, telling */

static void probe_send(struct roami_node *node, unsigned to, unsigned type,
		       const struct roam_part *parts, unsigned count)
{
	roami_msg_send_aside(node, to, roami_type(node, ROAMI_ROOM_PROBE, type), parts, count);
}

void roami_probe_ask(struct roami_node *node, unsigned to, uint32_t token)
{
	struct probe_ask ask = {.token = token};
	struct roam_part part = {&ask, sizeof(ask)};

	probe_send(node, to, PROBE_ASK, &part, 1);
}

void roami_probe_pass(struct roami_node *node, bool asks)
{
	struct probe_ask ask = {.asks = asks};
	struct roam_part part = {&ask, sizeof(ask)};

	for (unsigned i = 0; i < ROAMI_QUITS; i++)
		ask.quits[i] = atomic_load(&node->self->ctl->quits[i]);
	probe_send(node, 0, PROBE_ASK, &part, 1);
}

void roami_probe_quit(struct roami_ctl *ctl, enum roami_quit quit, uint32_t number)
{
	uint32_t known = atomic_load(&ctl->quits[quit]);

	while ((int32_t)(number - known) > 0 &&
	       !atomic_compare_exchange_weak(&ctl->quits[quit], &known, number))
		;
}

void roami_probe_quits(struct roami_ctl *ctl, const struct roami_ctl *from)
{
	for (unsigned i = 0; i < ROAMI_QUITS; i++)
		roami_probe_quit(ctl, i, atomic_load(&from->quits[i]));
}

static uint64_t probe_turns(const struct roami_ctl *ctl)
{
	uint32_t seats = atomic_load(&ctl->seats);
	uint64_t turns = 0;

	for (unsigned i = 0; i < seats; i++)
		turns += atomic_load(&ctl->waits[i].turn);
	return turns;
}

void roami_probe_tell(struct roami_node *node, unsigned to, uint32_t token)
{
	struct roami_ctl *ctl = node->self->ctl;
	struct roami_wait_group groups[ROAMI_WAIT_GROUPS];
	struct probe_answer answer = {.token = token,
				      .serial = atomic_load(&ctl->probed.serial),
				      .quiet = atomic_load(&ctl->probed.quiet),
				      .pid = (int32_t)getpid(),
				      .sent = atomic_load(&ctl->probed.sent),
				      .received = atomic_load(&ctl->probed.received),
				      .turns = probe_turns(ctl)};
	struct roam_part parts[2] = {{&answer, sizeof(answer)}, {groups, 0}};
	unsigned waiting, said = 0, count = roami_wait_groups(ctl, groups, &waiting);

	for (unsigned i = 0; i < count; i++)
		said += groups[i].threads;
	answer.quiet = answer.quiet != 0 && said == waiting;
	memcpy(answer.positions, ctl->probed.positions, sizeof(answer.positions));
	parts[1].bytes = count * sizeof(groups[0]);
	probe_send(node, to, PROBE_TELL, parts, 2);
}

void roami_probe_forget(struct roami_ctl *far)
{
	atomic_store(&far->seats, 0);
}

/* The token comes last: a node that answers messages in order answers it after the count. */
static void probe_handle_ask(struct roami_node *node, const struct roam_request *request)
{
	struct roami_ctl *ctl = node->self->ctl;
	struct probe_ask ask;

	roami_msg_aside(node);
	roami_reach_copy(node, request->from);
	if (request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u sent a malformed probe", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.token == 0) {
		for (unsigned i = 0; i < ROAMI_QUITS; i++)
			roami_probe_quit(ctl, i, ask.quits[i]);
		if (ask.asks != 0)
			atomic_store(&ctl->ask, ROAMI_ASK_FAR);
	} else {
		atomic_fetch_add(&ctl->probe, 1);
		atomic_store(&ctl->tokens[request->from], ask.token);
	}
	atomic_fetch_add(&ctl->look, 1);
	roami_os_futex_wake(&ctl->look, INT32_MAX);
}

static void probe_take(struct roami_ctl *far, const struct probe_answer *answer)
{
	atomic_store(&far->pid, answer->pid);
	atomic_store(&far->probed.serial, answer->serial);
	atomic_store(&far->probed.quiet, answer->quiet);
	atomic_store(&far->probed.sent, answer->sent);
	atomic_store(&far->probed.received, answer->received);
	atomic_store(&far->probed.turns, answer->turns);
	memcpy(far->probed.positions, answer->positions, sizeof(far->probed.positions));
	for (unsigned i = 0; i < ROAMI_POSITIONS; i++)
		far->probed.positions[i][ROAMI_POSITION_BYTES - 1] = '\0';
	atomic_store(&far->probe, answer->token);
}

/* An answer to another probe, which comes too late, is ignored. */
static void probe_handle_tell(struct roami_node *node, const struct roam_request *request)
{
	struct roami_ctl *far = roami_reach_copy(node, request->from);
	struct probe_answer answer = {.token = 0};
	bool good = request->bytes >= sizeof(answer);

	roami_msg_aside(node);
	if (good)
		memcpy(&answer, request->data, sizeof(answer));
	if (good && answer.token != atomic_load(&node->self->ctl->token))
		return;
	if (!good || !roami_wait_groups_take(far, (const uint8_t *)request->data + sizeof(answer),
					     request->bytes - sizeof(answer)))
		roami_node_fail(node, "node %u sent a malformed answer to a probe", request->from);
	probe_take(far, &answer);
}

static const struct roam_message probe_messages[] = {
	[PROBE_ASK] = {"probe", probe_handle_ask, sizeof(struct probe_ask)},
	[PROBE_TELL] = {"probed", probe_handle_tell, ROAMI_PROBED_MAX},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_probe = {.name = "probe", .messages = probe_messages};
