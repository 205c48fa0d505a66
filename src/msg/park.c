/* Requests that wait: for a page that is pending (roami_park), or for a time (roami_delay). */
#include <string.h>

#include "msg/msg_state.h"

void roami_msg_keep(struct roami_node *node, const struct roam_request *request, uint32_t page,
		    uint64_t when)
{
	struct roami_msg *msg = msg_of(node);
	struct roami_parked *parked;
	uint8_t *at;
	size_t size = sizeof(*parked) + ((request->bytes + 7u) & ~7u);

	roami_contract(page < node->layout.pages || (page == UINT32_MAX && when != 0));
	roami_spin_lock(node, &msg->parked_lock);
	at = roami_os_vec_grow(&msg->parked, 1, size);
	if (at == NULL)
		roami_node_fail(node, "no memory for parked requests");
	parked = (void *)at;
	*parked = (struct roami_parked){page, (uint32_t)size, when, *request};
	if (request->bytes > 0)
		memcpy(parked + 1, request->data, request->bytes);
	msg->parked.count += size;
	if (when != 0 && when < atomic_load(&msg->delay_next))
		atomic_store(&msg->delay_next, when);
	roami_spin_unlock(&msg->parked_lock);
}

void roami_delay(struct roami_node *node, const struct roam_request *request, uint64_t ns)
{
	roami_msg_keep(node, request, UINT32_MAX, node->env->now(node) + ns);
}

void roami_msg_unpark(struct roami_node *node, uint32_t page)
{
	struct roami_msg *msg = msg_of(node);

	roami_contract(page < node->layout.pages);
	roami_spin_lock(node, &msg->parked_lock);
	for (size_t at = 0; at < msg->parked.count;) {
		struct roami_parked *parked = (void *)(msg->parked.items + at);

		if (parked->page == page)
			parked->when = 1;
		at += parked->bytes;
	}
	atomic_store(&msg->delay_next, 1);
	roami_spin_unlock(&msg->parked_lock);
	node->env->sleep->sent(node, node->me, false);
}

bool roami_msg_parked_take(struct roami_node *node, struct roami_vec *copy)
{
	struct roami_msg *msg = msg_of(node);
	uint64_t now, next = atomic_load(&msg->delay_next);
	bool found = false;

	roami_contract(roami_msg_polling(node));
	if (next == UINT64_MAX || (now = node->env->now(node)) < next)
		return false;
	next = UINT64_MAX;
	roami_spin_lock(node, &msg->parked_lock);
	for (size_t at = 0; at < msg->parked.count;) {
		struct roami_parked *parked = (void *)(msg->parked.items + at);
		size_t size = parked->bytes;

		if (!found && parked->when != 0 && parked->when <= now) {
			copy->count = 0;
			if (roami_os_vec_grow(copy, 1, size) == NULL)
				roami_node_fail(node, "no memory for parked requests");
			memcpy(copy->items, parked, size);
			msg->parked.count -= size;
			memmove(parked, (uint8_t *)parked + size, msg->parked.count - at);
			found = true;
			continue;
		}
		if (parked->when != 0 && parked->when < next)
			next = parked->when;
		at += size;
	}
	atomic_store(&msg->delay_next, next);
	roami_spin_unlock(&msg->parked_lock);
	return found;
}
