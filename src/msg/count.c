/* Counts of a node's messages, for code that looks whether any is under way. */
#include "msg/msg_state.h"

void roami_msg_send_aside(struct roami_node *node, unsigned to, unsigned type,
			  const struct roam_part *parts, unsigned count)
{
	roami_contract(to < node->nodes);
	roami_count_one(&msg_of(node)->aside_sent);
	roami_msg_send(node, to, type, parts, count);
}

void roami_msg_aside(struct roami_node *node)
{
	roami_contract(roami_msg_polling(node));
	roami_count_one(&msg_of(node)->aside_received);
}

void roami_msg_reads(struct roami_node *node, int change)
{
	atomic_fetch_add(&msg_of(node)->reading, (uint32_t)change);
}

/* poll_lock is held: no handler runs. */
static void counts_read(const struct roami_node *node, uint64_t *sent_p, uint64_t *received_p)
{
	const struct roami_msg *msg = msg_of(node);

	roami_contract(roami_msg_polling(node));
	*sent_p = -atomic_load(&msg->aside_sent);
	for (unsigned to = 0; to < node->nodes; to++)
		*sent_p += atomic_load(&msg->sent[to]);
	*received_p = atomic_load(&msg->received) - atomic_load(&msg->aside_received);
}

bool roami_msg_count(struct roami_node *node, uint64_t *sent_p, uint64_t *received_p, bool *kept_p)
{
	struct roami_msg *msg = msg_of(node);

	if (!roami_spin_try(&msg->poll_lock))
		return false;
	*kept_p = msg->parked.count != 0 || atomic_load(&msg->out_waiting) != 0 ||
		  atomic_load(&msg->reading) != 0;
	counts_read(node, sent_p, received_p);
	roami_spin_unlock(&msg->poll_lock);
	return true;
}
