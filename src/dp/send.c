/* What this node sends to endpoints: as much as there is room for. */
#include <string.h>

#include "dp/dp.h"

#define PART (ROAMI_MSG_MAX - sizeof(struct roami_dp_part))

_Static_assert(PART <= ROAMI_SLAB_BYTES, "a part is copied to a slab");

/* ---------------------------------------------------------------------------------------- links */

/* Whether a link can become that to another endpoint: its own is not open any more. */
static bool link_idle(const struct roami_dp_link *link)
{
	return link->users == 0 && atomic_load(&link->generation) == 0 &&
	       atomic_load(&link->asks) == 0;
}

/*
 * The link to an endpoint, or one that can become it; NULL: none.  Links are never taken off the
 * list, but change to other endpoints: so the search goes on to one that was never used.  The lock
 * is held.
 */
static struct roami_dp_link *link_look(const struct roami_dp_node *all, unsigned node,
				       uint32_t endpoint)
{
	uint32_t at = (endpoint * 2654435761u + node * 40503u) % ROAM_DP_PEERS_MAX;
	struct roami_dp_link *idle = NULL;

	roami_contract(roami_spin_held(&all->lock));
	if (endpoint == UINT32_MAX) /* no program's, see roami_dp_drain: it has one of its own */
		return &all->links[ROAM_DP_PEERS_MAX];
	for (unsigned i = 0; i < ROAM_DP_PEERS_MAX; i++) {
		struct roami_dp_link *link = &all->links[(at + i) % ROAM_DP_PEERS_MAX];

		if (link->used && link->node == node && link->endpoint == endpoint)
			return link;
		if (!link->used)
			return idle != NULL ? idle : link;
		if (idle == NULL && link_idle(link))
			idle = link;
	}
	return idle;
}

/* The link to an endpoint, made at first use.  NULL: *err_p says why.  The lock is held. */
static struct roami_dp_link *link_find(struct roami_dp_node *all, unsigned node, uint32_t endpoint,
				       enum roam_err *err_p)
{
	struct roami_dp_link *link = NULL;

	roami_contract(roami_spin_held(&all->lock));
	if (all->links == NULL)
		all->links = roami_os_reserve(ROAMI_DP_LINKS_BYTES);
	*err_p = all->links == NULL ? ROAM_ENOMEM : ROAM_ENOSPC;
	if (all->links != NULL)
		link = link_look(all, node, endpoint);
	if (link != NULL) {
		link->used = true;
		link->users++;
		link->node = node;
		link->endpoint = endpoint;
	}
	return link;
}

/* The link of which a peer speaks, whatever the generation; NULL: this node never sent there. */
static struct roami_dp_link *link_asked(struct roami_node *node, const struct roam_request *request,
					struct roami_dp_status *status)
{
	struct roami_dp_node *all = roami_dp_of(node);
	struct roami_dp_link *link = NULL;

	if (request->bytes != sizeof(*status))
		roami_node_fail(node, "node %u sent a malformed message about an endpoint",
				request->from);
	memcpy(status, request->data, sizeof(*status));
	roami_spin_lock(node, &all->lock);
	if (all->links != NULL)
		link = link_look(all, request->from, status->endpoint);
	if (link != NULL && (!link->used || link->node != request->from ||
			     link->endpoint != status->endpoint))
		link = NULL;
	roami_spin_unlock(&all->lock);
	return link;
}

/* That link, if it is of the generation; else NULL. */
static struct roami_dp_link *link_current(struct roami_node *node,
					  const struct roam_request *request,
					  struct roami_dp_status *status)
{
	struct roami_dp_link *link = link_asked(node, request, status);

	return link != NULL && atomic_load(&link->generation) == status->generation ? link : NULL;
}

static void link_changed(struct roami_node *node)
{
	if (atomic_load(&roami_dp_of(node)->senders) > 0)
		roami_changed(node, node->me);
}

void roami_dp_found_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_dp_status status;
	struct roami_dp_link *link = link_asked(node, request, &status);

	if (link == NULL || atomic_load(&link->asks) == 0)
		roami_node_fail(node, "node %u tells of an endpoint that nobody asked for",
				request->from);
	atomic_store(&link->generation, status.generation);
	atomic_store(&link->asks, 0);
	link_changed(node);
}

void roami_dp_room_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_dp_status status;
	struct roami_dp_link *link = link_current(node, request, &status);

	if (link == NULL)
		return;
	if (status.taken > atomic_load(&link->sent))
		roami_node_fail(node, "node %u has received more from an endpoint than was sent",
				request->from);
	if (status.taken <= atomic_load(&link->taken))
		return; /* another thread there has received more, and told it first */
	atomic_store(&link->taken, status.taken);
	link_changed(node);
}

void roami_dp_gone_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_dp_status status;
	struct roami_dp_link *link = link_current(node, request, &status);
	uint32_t generation = status.generation;

	if (link != NULL && atomic_compare_exchange_strong(&link->generation, &generation, 0))
		link_changed(node);
}

/* -------------------------------------------------------------------------------------- sending */

struct send_wait {
	struct roami_node *node;
	const struct roam_dp *dp; /* by which it sends; NULL: by none */
	struct roami_dp_link *link;
	uint32_t generation;
	uint64_t room; /* that is wanted */
	uint64_t until;
};

static bool send_late(const struct send_wait *wait)
{
	return wait->until != ROAMI_FOREVER && wait->node->env->now(wait->node) >= wait->until;
}

static bool send_lost(const struct send_wait *wait)
{
	return atomic_load(&roami_dp_of(wait->node)->lost) != 0;
}

/* The endpoint by which it sends is of a node that closes. */
static bool send_over(const struct send_wait *wait)
{
	return wait->dp != NULL && atomic_load(&wait->dp->over) != 0;
}

/* Whether the wait ends without what it waits for, and why. */
static enum roam_err send_ends(const struct send_wait *wait)
{
	if (send_over(wait))
		return ROAM_ESTATE;
	if (send_lost(wait))
		return ROAM_ELOST;
	return send_late(wait) ? ROAM_ETIMEDOUT : ROAM_OK;
}

static bool send_idle(void *arg)
{
	const struct send_wait *wait = arg;

	return atomic_load(&wait->link->busy) == 0 || send_ends(wait) != ROAM_OK;
}

static bool send_fits(const struct send_wait *wait)
{
	uint64_t sent = atomic_load(&wait->link->sent);

	return sent + wait->room - atomic_load(&wait->link->taken) <= ROAM_DP_ROOM;
}

static bool send_roomy(void *arg)
{
	const struct send_wait *wait = arg;

	return send_fits(wait) || atomic_load(&wait->link->generation) != wait->generation ||
	       send_ends(wait) != ROAM_OK;
}

static void send_await(const struct send_wait *wait, bool (*condition)(void *arg))
{
	struct roami_dp_node *all = roami_dp_of(wait->node);

	if (condition((void *)(uintptr_t)wait))
		return;
	atomic_fetch_add(&all->senders, 1);
	roami_dp_await(wait->node, (uint64_t)wait->link->endpoint << 1 | 1, wait->until, condition,
		       (void *)(uintptr_t)wait);
	atomic_fetch_sub(&all->senders, 1);
}

/* Takes the link, on which one thread sends at a time. */
static enum roam_err send_begin(const struct send_wait *wait)
{
	enum roam_err err;

	while (atomic_exchange(&wait->link->busy, 1) != 0) {
		err = send_ends(wait);
		if (err != ROAM_OK)
			return err;
		send_await(wait, send_idle);
	}
	return ROAM_OK;
}

static bool send_answered(void *arg)
{
	const struct send_wait *wait = arg;

	return atomic_load(&wait->link->asks) == 0 || send_ends(wait) != ROAM_OK;
}

/*
 * Asks whether the endpoint is open, unless a call that was timed out has.  The answer comes behind
 * all that was sent there before.
 */
static enum roam_err send_ask(const struct send_wait *wait)
{
	struct roami_dp_link *link = wait->link;
	struct roam_part part = {&link->endpoint, sizeof(link->endpoint)};

	if (atomic_load(&link->asks) == 0) {
		atomic_store(&link->sent, 0);
		atomic_store(&link->taken, 0);
		atomic_store(&link->asks, 1);
		roami_msg_send(wait->node, link->node,
			       roami_dp_of(wait->node)->types + ROAMI_DP_FIND, &part, 1);
	}
	if (wait->until != ROAMI_FOREVER)
		roami_msg_poll(wait->node);
	send_await(wait, send_answered);
	return atomic_load(&link->asks) == 0 ? ROAM_OK : send_ends(wait);
}

/* The endpoint may have opened since a call that was timed out has asked. */
static enum roam_err send_learn(const struct send_wait *wait)
{
	bool early = atomic_load(&wait->link->asks) != 0;
	enum roam_err err = send_ask(wait);

	if (early && err == ROAM_OK && atomic_load(&wait->link->generation) == 0)
		err = send_ask(wait);
	return err;
}

/* Sends a message, for which there is room, in parts. */
static void send_parts(const struct send_wait *wait, uint32_t from, const uint8_t *data,
		       size_t bytes, bool heap)
{
	struct roami_node *node = wait->node;
	struct roami_slab *room = heap ? roami_node_slab(node) : NULL;
	struct roami_dp_part head = {.endpoint = wait->link->endpoint,
				     .generation = wait->generation,
				     .from = from,
				     .length = (uint32_t)bytes};
	struct roam_part parts[2] = {{&head, sizeof(head)}, {data, 0}};

	do {
		parts[1].bytes = bytes - head.offset < PART ? bytes - head.offset : PART;
		parts[1].data = data + head.offset;
		if (room != NULL) { /* a touch may fault, which no lock must see */
			memcpy(room->bytes, data + head.offset, parts[1].bytes);
			parts[1].data = room->bytes;
		}
		roami_msg_send(node, wait->link->node, roami_dp_of(node)->types + ROAMI_DP_PART,
			       parts, 2);
		head.offset += (uint32_t)parts[1].bytes;
	} while (head.offset < bytes);
	if (room != NULL)
		roami_slab_give(room);
}

/* The link is this thread's. */
static enum roam_err send_message(struct send_wait *wait, uint32_t from, const void *data,
				  size_t bytes, bool heap)
{
	enum roam_err err = ROAM_OK;

	if (send_over(wait))
		return ROAM_ESTATE;
	if (send_lost(wait))
		return ROAM_ELOST;
	if (atomic_load(&wait->link->generation) == 0)
		err = send_learn(wait);
	if (err != ROAM_OK)
		return err;
	wait->generation = atomic_load(&wait->link->generation);
	if (wait->generation == 0)
		return send_lost(wait) ? ROAM_ELOST : ROAM_EUNKNOWN;
	if (wait->until != ROAMI_FOREVER && !send_fits(wait))
		roami_msg_poll(wait->node);
	send_await(wait, send_roomy);
	if (send_lost(wait))
		return ROAM_ELOST;
	if (atomic_load(&wait->link->generation) != wait->generation)
		return ROAM_EUNKNOWN;
	if (!send_fits(wait))
		return send_ends(wait);
	atomic_fetch_add(&wait->link->sent, wait->room);
	send_parts(wait, from, data, bytes, heap);
	return ROAM_OK;
}

static void link_leave(struct roami_dp_node *all, const struct send_wait *wait)
{
	roami_spin_lock(wait->node, &all->lock);
	wait->link->users--;
	roami_spin_unlock(&all->lock);
}

enum roam_err roami_dp_send(struct roam_dp *dp, unsigned node, uint32_t endpoint, const void *data,
			    size_t bytes, bool heap, uint64_t timeout_ns)
{
	struct roami_dp_node *all = roami_dp_of(dp->node);
	struct send_wait wait = {.node = dp->node,
				 .dp = dp,
				 .room = roami_dp_room(bytes),
				 .until = roami_dp_until(dp->node, timeout_ns)};
	enum roam_err err;

	roami_spin_lock(dp->node, &all->lock);
	wait.link = link_find(all, node, endpoint, &err);
	roami_spin_unlock(&all->lock);
	if (wait.link == NULL)
		return err;
	err = send_begin(&wait);
	if (err == ROAM_OK) {
		err = send_message(&wait, dp->number, data, bytes, heap);
		atomic_store(&wait.link->busy, 0);
		link_changed(dp->node);
	}
	link_leave(all, &wait);
	return err;
}

void roami_dp_drain(struct roami_node *node, unsigned peer)
{
	struct roami_dp_node *all = roami_dp_of(node);
	struct send_wait wait = {.node = node, .until = ROAMI_FOREVER};
	enum roam_err err;

	roami_spin_lock(node, &all->lock);
	wait.link = link_find(all, peer, UINT32_MAX, &err);
	roami_spin_unlock(&all->lock);
	if (wait.link == NULL)
		return;
	if (!send_lost(&wait) && send_begin(&wait) == ROAM_OK) {
		send_ask(&wait);
		atomic_store(&wait.link->busy, 0);
	}
	link_leave(all, &wait);
}
