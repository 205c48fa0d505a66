#include "sync/state.h"

#include <string.h>

#include "home/reach.h"
#include "msg/msg.h"
#include "sync/sync_state.h"

enum { STATE_CHANGE, STATE_BANK, STATE_STATS };

static unsigned state_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= STATE_STATS);
	return roami_type(node, ROAMI_ROOM_STATE, message);
}

struct state_change {
	uint32_t state;
	uint32_t spare;
	uint64_t value;
};

static void state_apply(struct roami_ctl *ctl, const struct state_change *change)
{
	roami_contract(change->state < ROAMI_STATES);
	switch ((enum roami_state)change->state) {
	case ROAMI_STATE_THREADS:
		atomic_fetch_add(&ctl->threads, (uint32_t)change->value);
		break;
	case ROAMI_STATE_RETURNED:
		atomic_store(&ctl->returned, (uint32_t)change->value);
		break;
	case ROAMI_STATE_ALLOC_HASH:
		atomic_store(&ctl->alloc_hash, change->value);
		break;
	case ROAMI_STATE_JOINED:
		atomic_store(&ctl->joined, (uint32_t)change->value);
		break;
	case ROAMI_STATES:
		break;
	}
}

void roami_state_set(struct roami_node *node, enum roami_state state, uint64_t value, bool at_once)
{
	struct state_change change = {state, 0, value};
	struct roam_part part = {&change, sizeof(change)};
	struct roami_call *calls[ROAMI_NODES_MAX];

	roami_assert(state < ROAMI_STATES);
	state_apply(node->self->ctl, &change);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		calls[peer] = node->reach[peer]->tell(
			node, peer, state_type(node, STATE_CHANGE), &part, at_once);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (calls[peer] != NULL)
			roami_msg_call_end(node, calls[peer]);
}

static void state_handle(struct roami_node *node, const struct roam_request *request)
{
	struct state_change change;
	struct roami_ctl *ctl = roami_reach_copy(node, request->from);

	if (request->bytes != sizeof(change))
		roami_node_fail(node, "node %u sent a malformed state change", request->from);
	memcpy(&change, request->data, sizeof(change));
	if (change.state >= ROAMI_STATES)
		roami_node_fail(node, "node %u sent an unknown state", request->from);
	state_apply(ctl, &change);
	if (change.state == ROAMI_STATE_RETURNED)
		roami_barrier_ended(node);
	if (request->call != 0)
		roami_reply(node, request, NULL, 0);
}

/* What a thread of a node counted, or threads that share a bank. */
struct state_bank {
	uint32_t bank;
	uint32_t mate; /* see struct roami_stats_bank */
	uint64_t values[ROAMI_STATS_COUNT];
};

struct state_sums {
	uint64_t threads;
	uint64_t types[ROAMI_STATS_TYPES_MAX];
	uint64_t wall_ns;
	uint64_t wall_cycles;
	uint64_t peak_kb;
};

/* A bank in which nothing was counted is not sent. */
static void bank_send(struct roami_node *node, unsigned bank)
{
	struct state_bank sent = {bank, atomic_load(&node->stats->banks[bank].mate), {0}};
	struct roam_part part = {&sent, sizeof(sent)};
	uint64_t any = sent.mate;

	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		any |= sent.values[i] = roami_stats_of(node->stats, bank, i);
	if (any != 0)
		node->reach[0]->tell(node, 0, state_type(node, STATE_BANK), &part, false);
}

static void bank_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_stats *stats = &roami_reach_copy(node, request->from)->stats;
	struct state_bank sent;

	if (request->bytes != sizeof(sent))
		roami_node_fail(node, "node %u sent malformed counters", request->from);
	memcpy(&sent, request->data, sizeof(sent));
	if (sent.bank >= ROAMI_STATS_BANKS)
		roami_node_fail(node, "node %u sent malformed counters", request->from);
	for (unsigned i = 0; i < ROAMI_STATS_COUNT; i++)
		atomic_store(&stats->banks[sent.bank].values[i], sent.values[i]);
	atomic_store(&stats->banks[sent.bank].mate, sent.mate);
	roami_stats_banks_use(stats, sent.bank + 1);
}

void roami_state_stats(struct roami_node *node)
{
	const struct roami_stats *stats = node->stats;
	struct state_sums sums;
	struct roam_part part = {&sums, sizeof(sums)};

	for (unsigned bank = 0; bank < roami_stats_banks(stats); bank++)
		bank_send(node, bank);
	sums.threads = atomic_load(&stats->threads);
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		sums.types[i] = roami_stats_sum_type(stats, i);
	sums.wall_ns = atomic_load(&stats->wall_ns);
	sums.wall_cycles = atomic_load(&stats->wall_cycles);
	sums.peak_kb = atomic_load(&stats->peak_kb);
	node->reach[0]->tell(node, 0, state_type(node, STATE_STATS), &part, false);
}

static void stats_handle(struct roami_node *node, const struct roam_request *request)
{
	struct state_sums sums;
	struct roami_stats *stats = &roami_reach_copy(node, request->from)->stats;

	if (request->bytes != sizeof(sums))
		roami_node_fail(node, "node %u sent malformed counters", request->from);
	memcpy(&sums, request->data, sizeof(sums));
	atomic_store(&stats->threads, (uint32_t)sums.threads);
	for (unsigned i = 0; i < ROAMI_STATS_TYPES_MAX; i++)
		atomic_store(&stats->banks[0].types[i], sums.types[i]);
	atomic_store(&stats->start_ns, 1);
	atomic_store(&stats->wall_ns, sums.wall_ns);
	atomic_store(&stats->wall_cycles, sums.wall_cycles);
	atomic_store(&stats->peak_kb, sums.peak_kb);
}

static const struct roam_message state_messages[] = {
	[STATE_CHANGE] = {"state", state_handle, sizeof(struct state_change)},
	[STATE_BANK] = {"bank", bank_handle, sizeof(struct state_bank)},
	[STATE_STATS] = {"stats", stats_handle, sizeof(struct state_sums)},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_state = {.name = "state", .messages = state_messages};
