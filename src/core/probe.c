#include "core/probe.h"

#include <string.h>
#include <unistd.h>

#include "core/far.h"
#include "core/sync.h"
#include "msg/msg.h"

struct probe_ask {
	uint32_t token; /* 0: say what all wait for */
	uint32_t spare;
};

/* The slots in use of roami_ctl.waits follow. */
struct probe_told {
	uint32_t token;
	uint32_t serial;
	uint32_t quiet;
	int32_t pid;
	uint64_t sent;
	uint64_t received;
	uint32_t count;
	uint32_t spare;
	char place[ROAMI_PLACE_BYTES];
};

struct probe_wait {
	uint64_t id;
	uint32_t kind;
	uint32_t of;
	uint32_t turn;
	uint32_t seen;
	uint32_t number; /* of the slot */
	uint32_t spare;
	uint64_t label[ROAMI_LABEL_WORDS];
};

_Static_assert(sizeof(struct probe_told) + ROAMI_WAITS_MAX * sizeof(struct probe_wait) <=
		       ROAMI_MSG_MAX,
	       "all of it is one message");

static void probe_send(struct roami_node *node, unsigned to, unsigned type,
		       const struct roam_part *parts, unsigned count)
{
	roami_count_one(&node->msg.aside_sent);
	roami_msg_send(node, to, ROAMI_TYPE_SYNC + type, parts, count);
}

void roami_probe_ask(struct roami_node *node, unsigned to, uint32_t token)
{
	struct probe_ask ask = {token, 0};
	struct roam_part part = {&ask, sizeof(ask)};

	probe_send(node, to, ROAMI_SYNC_PROBE, &part, 1);
}

static struct probe_wait probe_wait(const struct roami_waiting *waiting, uint32_t number)
{
	struct probe_wait wait = {
		.id = atomic_load(&waiting->id),
		.kind = atomic_load(&waiting->kind),
		.of = atomic_load(&waiting->of),
		.turn = atomic_load(&waiting->turn),
		.seen = atomic_load(&waiting->seen),
		.number = number,
	};

	for (unsigned i = 0; i < ROAMI_LABEL_WORDS; i++)
		wait.label[i] = atomic_load(&waiting->label[i]);
	return wait;
}

void roami_probe_tell(struct roami_node *node, unsigned to, uint32_t token)
{
	struct roami_ctl *ctl = node->self->ctl;
	struct probe_wait waits[ROAMI_WAITS_MAX];
	struct probe_told told = {.token = token,
				  .serial = atomic_load(&ctl->probed.serial),
				  .quiet = atomic_load(&ctl->probed.quiet),
				  .pid = (int32_t)getpid(),
				  .sent = atomic_load(&ctl->probed.sent),
				  .received = atomic_load(&ctl->probed.received)};
	struct roam_part parts[2] = {{&told, sizeof(told)}, {waits, 0}};

	memcpy(told.place, ctl->probed.place, sizeof(told.place));
	for (uint32_t i = 0; i < ROAMI_WAITS_MAX; i++)
		if (atomic_load(&ctl->waits[i].turn) != 0)
			waits[told.count++] = probe_wait(&ctl->waits[i], i);
	parts[1].bytes = told.count * sizeof(waits[0]);
	probe_send(node, to, ROAMI_SYNC_PROBED, parts, 2);
}

void roami_probe_count(struct roami_node *node, uint64_t *sent_p, uint64_t *received_p)
{
	*sent_p = -atomic_load(&node->msg.aside_sent);
	for (unsigned to = 0; to < node->nodes; to++)
		*sent_p += atomic_load(&node->msg.sent[to]);
	*received_p = atomic_load(&node->msg.received) - atomic_load(&node->msg.aside_received);
}

void roami_probe_forget(struct roami_ctl *far)
{
	for (unsigned i = 0; i < ROAMI_WAITS_MAX; i++)
		atomic_store(&far->waits[i].kind, 0);
}

/* The token comes last: who answers all that came answers it after it has seen the count. */
void roami_probe_handle_ask(struct roami_node *node, const struct roam_request *request)
{
	struct roami_ctl *ctl = node->self->ctl;
	struct probe_ask ask;

	roami_count_one(&node->msg.aside_received);
	if (!roami_is_far(node, request->from) || request->bytes != sizeof(ask))
		roami_node_fail(node, "node %u sent a malformed probe", request->from);
	memcpy(&ask, request->data, sizeof(ask));
	if (ask.token == 0) {
		atomic_store(&ctl->ask, ROAMI_ASK_FAR);
	} else {
		atomic_fetch_add(&ctl->probe, 1);
		atomic_store(&ctl->tokens[request->from], ask.token);
	}
	atomic_fetch_add(&ctl->look, 1);
	roami_os_futex_wake(&ctl->look, INT32_MAX);
}

static void probe_take(struct roami_ctl *far, const struct probe_told *told,
		       const struct probe_wait *waits)
{
	for (uint32_t i = 0; i < told->count; i++) {
		struct roami_waiting *waiting = &far->waits[waits[i].number];

		atomic_store(&waiting->id, waits[i].id);
		atomic_store(&waiting->of, waits[i].of);
		atomic_store(&waiting->turn, waits[i].turn);
		atomic_store(&waiting->seen, waits[i].seen);
		for (unsigned word = 0; word < ROAMI_LABEL_WORDS; word++)
			atomic_store(&waiting->label[word], waits[i].label[word]);
		atomic_store(&waiting->kind, waits[i].kind);
	}
	atomic_store(&far->pid, told->pid);
	atomic_store(&far->probed.serial, told->serial);
	atomic_store(&far->probed.quiet, told->quiet);
	atomic_store(&far->probed.sent, told->sent);
	atomic_store(&far->probed.received, told->received);
	memcpy(far->probed.place, told->place, sizeof(far->probed.place));
	far->probed.place[sizeof(far->probed.place) - 1] = '\0';
	atomic_store(&far->probe, told->token);
}

void roami_probe_handle_tell(struct roami_node *node, const struct roam_request *request)
{
	struct probe_wait waits[ROAMI_WAITS_MAX];
	struct probe_told told;
	bool good = roami_is_far(node, request->from) && request->bytes >= sizeof(told);

	roami_count_one(&node->msg.aside_received);
	if (good) {
		memcpy(&told, request->data, sizeof(told));
		good = told.count <= ROAMI_WAITS_MAX &&
		       request->bytes == sizeof(told) + told.count * sizeof(waits[0]);
	}
	if (good)
		memcpy(waits, (const uint8_t *)request->data + sizeof(told),
		       told.count * sizeof(waits[0]));
	for (uint32_t i = 0; good && i < told.count; i++)
		good = waits[i].number < ROAMI_WAITS_MAX;
	if (!good)
		roami_node_fail(node, "node %u sent a malformed answer to a probe", request->from);
	if (told.token == atomic_load(&node->self->ctl->token)) /* else it comes too late */
		probe_take(node->segments[request->from].ctl, &told, waits);
}
