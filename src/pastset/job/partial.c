#include "pastset/job/partial.h"

#include <string.h>

#include "msg/msg.h"
#include "pastset/job/server.h"

static void partial_send(struct roami_past *past, unsigned to, uint32_t element, uint64_t round,
			 enum roami_partial_step step)
{
	const struct roami_partial_head head = {round, element, step};
	struct roam_part part = {&head, sizeof(head)};

	roami_msg_send(past->node, to, roami_past_type(past, ROAMI_PAST_PARTIAL), &part, 1);
}

/* ----------------------------------------------------------------------- at the element's node */

void roami_partial_give(struct roami_past *past, uint32_t element,
			const struct roami_partial *partial)
{
	const struct roami_partial_head head = {partial->round, element, ROAMI_PARTIAL_GIVEN};
	struct roam_part parts[2] = {{&head, sizeof(head)}, {partial->tuple, partial->bytes}};

	roami_assert(partial->round != 0 && partial->partner != 0);
	roami_msg_send_awaited(past->node, partial->partner - 1,
			       roami_past_type(past, ROAMI_PAST_PARTIAL), parts, 2);
}

void roami_partial_recall(struct roami_past *past, unsigned partner, uint32_t element,
			  uint64_t round)
{
	partial_send(past, partner, element, round, ROAMI_PARTIAL_RECALLED);
}

/* ----------------------------------------------------------------------- at the partner's node */

/* The lock of all is held. */
static struct roami_taker *taker_find(struct roami_takers *all, uint32_t owner, uint32_t element)
{
	roami_assert(roami_spin_held(&all->lock));
	for (uint32_t i = 0; i < all->count; i++)
		if (all->takers[i].owner == owner && all->takers[i].element == element)
			return &all->takers[i];
	return NULL;
}

struct roami_taker *roami_taker_open(struct roami_past *past, uint32_t owner, uint32_t element,
				     uint32_t bytes)
{
	struct roami_takers *all = &roami_past_job(past)->takers;
	struct roami_taker *taker;

	roami_spin_lock(past->node, &all->lock);
	taker = taker_find(all, owner, element);
	if (taker == NULL && all->count < ROAMI_TAKERS_MAX) {
		taker = &all->takers[all->count++];
		taker->owner = owner;
		taker->element = element;
		taker->bytes = bytes;
	}
	roami_spin_unlock(&all->lock);
	return taker;
}

bool roami_taker_want(struct roami_past *past, struct roami_taker *taker, uint64_t round)
{
	struct roami_takers *all = &roami_past_job(past)->takers;
	bool may;

	roami_spin_lock(past->node, &all->lock);
	may = taker->returned < round;
	if (may && taker->wanted < round)
		taker->wanted = round;
	roami_spin_unlock(&all->lock);
	roami_step(past->node);
	return may;
}

const void *roami_taker_given(const struct roami_taker *taker, uint64_t round)
{
	const struct roami_given *given = &taker->given[round & 1];

	if (atomic_load_explicit(&given->round, memory_order_acquire) != round)
		return NULL;
	return given->tuple;
}

/* A partial has come: keeps it, unless it was returned and is not wanted. */
static void taker_give(struct roami_taker *taker, uint64_t round, const void *tuple, size_t bytes)
{
	struct roami_given *given = &taker->given[round & 1];

	if (taker->returned >= round && taker->wanted < round)
		return;
	memcpy(given->tuple, tuple, bytes);
	atomic_store_explicit(&given->round, round, memory_order_release);
}

/* true: it will not be used, also if it has not come yet. */
static bool taker_recall(struct roami_taker *taker, uint64_t round)
{
	if (taker->wanted >= round)
		return false;
	taker->returned = round;
	return true;
}

void roami_partial_heard(struct roami_node *node, const struct roam_request *request)
{
	struct roami_past *past = roami_past_of(node);
	struct roami_takers *all = &roami_past_job(past)->takers;
	struct roami_partial_head head = {.step = ROAMI_PARTIAL_GIVEN};
	struct roami_taker *taker = NULL;
	size_t bytes = request->bytes - sizeof(head);
	bool returned = false;

	if (request->bytes >= sizeof(head))
		memcpy(&head, request->data, sizeof(head));
	if (head.step == ROAMI_PARTIAL_RETURNED && bytes == 0 &&
	    roami_past_element(past, head.element) != NULL) {
		roami_past_returned(past, head.element, request->from, head.round);
		return;
	}
	roami_spin_lock(node, &all->lock);
	taker = taker_find(all, request->from, head.element);
	if (taker != NULL && head.step == ROAMI_PARTIAL_GIVEN && bytes == taker->bytes)
		taker_give(taker, head.round, (const uint8_t *)request->data + sizeof(head), bytes);
	else if (taker != NULL && head.step == ROAMI_PARTIAL_RECALLED && bytes == 0)
		returned = taker_recall(taker, head.round);
	else
		taker = NULL;
	roami_spin_unlock(&all->lock);
	if (taker == NULL)
		roami_node_fail(node, "node %u sent a malformed PastSet message", request->from);
	if (returned)
		partial_send(past, request->from, head.element, head.round, ROAMI_PARTIAL_RETURNED);
}
