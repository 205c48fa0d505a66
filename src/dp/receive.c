/* This node's endpoints: what arrives is put into the share of their memory that its sender has. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dp/dp.h"

#define ORDER_MAX (ROAM_DP_ROOM / sizeof(struct roami_dp_kept)) /* messages of a sender */
#define TELL      (ROAM_DP_ROOM / 4) /* received and not reported: what a sender may lack */

_Static_assert(ROAM_DP_ROOM % sizeof(struct roami_dp_kept) == 0, "what stands first never wraps");
_Static_assert(ROAM_DP_MESSAGE_MAX + sizeof(struct roami_dp_kept) + TELL <= ROAM_DP_ROOM,
	       "what was not told never keeps a message from being sent");

__attribute__((noreturn)) static void dp_malformed(struct roami_node *node, unsigned from)
{
	roami_node_fail(node, "node %u sent a malformed message to an endpoint", from);
}

/* The endpoint of a number; NULL: it is not open.  The list's lock is held. */
static struct roam_dp *dp_find(const struct roami_dp_node *all, uint32_t number)
{
	roami_contract(roami_spin_held(&all->lock));
	for (unsigned i = 0; i < ROAM_DP_OPEN_MAX; i++)
		if (all->open[i] != NULL && all->open[i]->number == number)
			return all->open[i];
	return NULL;
}

/* ----------------------------------------------------------------------------- opening, closing */

static bool dp_memory(struct roam_dp *dp)
{
	unsigned nodes = dp->node->nodes;
	size_t rings = nodes * ROAM_DP_ROOM;

	dp->memory_bytes = rings + nodes * ORDER_MAX;
	dp->memory = roami_os_reserve_sparse(dp->memory_bytes);
	if (dp->memory == NULL)
		return false;
	for (unsigned i = 0; i < nodes; i++)
		dp->inboxes[i].ring = dp->memory + i * ROAM_DP_ROOM;
	dp->order = dp->memory + rings;
	return true;
}

/* Puts an endpoint on the list, if its number and a place are free. */
static enum roam_err dp_list(struct roami_dp_node *all, struct roam_dp *dp)
{
	enum roam_err err = ROAM_ENOSPC;

	roami_spin_lock(dp->node, &all->lock);
	if (dp_find(all, dp->number) != NULL)
		err = ROAM_EBUSY;
	for (unsigned i = 0; i < ROAM_DP_OPEN_MAX && err == ROAM_ENOSPC; i++)
		if (all->open[i] == NULL) {
			if (++all->generations == 0)
				all->generations = 1;
			dp->generation = all->generations;
			all->open[i] = dp;
			err = ROAM_OK;
		}
	roami_spin_unlock(&all->lock);
	return err;
}

enum roam_err roami_dp_open(struct roami_node *node, uint32_t number, struct roam_dp **dp_p)
{
	struct roam_dp *dp = calloc(1, sizeof(*dp));
	enum roam_err err = ROAM_ENOMEM;

	if (dp == NULL)
		return ROAM_ENOMEM;
	dp->node = node;
	dp->pid = getpid();
	dp->number = number;
	dp->file = -1;
	if (dp_memory(dp))
		err = dp_list(roami_dp_of(node), dp);
	if (err == ROAM_OK) {
		*dp_p = dp;
		return ROAM_OK;
	}
	roami_dp_forget(dp);
	roami_dp_close(dp);
	return err;
}

static void dp_file_raise(const struct roam_dp *dp)
{
	uint64_t one = 1;

	if (dp->file >= 0 && write(dp->file, &one, sizeof(one)) < 0)
		return; /* it is full, and so it is readable */
}

/* In a forked process, of its parent's node: calls under way are the parent's. */
static bool dp_copied(const struct roami_node *node)
{
	return node->self == NULL;
}

void roami_dp_end(struct roam_dp *dp)
{
	struct roami_node *node = dp->node;
	uint32_t mine = roami_inside.uses == dp; /* a signal handler within it ends the node */

	atomic_store(&dp->over, ROAMI_DP_ENDS);
	for (unsigned turn = 0; !dp_copied(node) && atomic_load(&dp->users) > mine; turn++) {
		roami_changed(node, node->me);
		node->env->spin(node, turn);
	}
}

void roami_dp_forget(struct roam_dp *dp)
{
	bool copied = dp_copied(dp->node);

	roami_dp_end(dp);
	if (dp->memory != NULL)
		roami_os_unmap(dp->memory, dp->memory_bytes);
	dp->memory = NULL;
	dp->node = NULL;
	if (!copied)
		dp_file_raise(dp); /* for a program that waits there */
	atomic_store(&dp->over, ROAMI_DP_OVER); /* the program may free it from here on */
}

/* Tells those that may send that nothing will be received any more. */
static void dp_tell_gone(struct roami_node *node, const struct roam_dp *dp)
{
	struct roami_dp_status status = {dp->number, dp->generation, 0};
	struct roam_part part = {&status, sizeof(status)};

	for (unsigned peer = 0; peer < node->nodes; peer++)
		if (dp->inboxes[peer].asked)
			roami_msg_send(node, peer, roami_dp_of(node)->types + ROAMI_DP_GONE, &part,
				       1);
}

void roami_dp_close(struct roam_dp *dp)
{
	struct roami_node *node = dp->node;

	if (node != NULL) {
		struct roami_dp_node *all = roami_dp_of(node);

		roami_spin_lock(node, &all->lock);
		for (unsigned i = 0; i < ROAM_DP_OPEN_MAX; i++)
			if (all->open[i] == dp)
				all->open[i] = NULL;
		roami_spin_lock(node, &dp->lock); /* no handler uses it any more */
		roami_spin_unlock(&dp->lock);
		roami_spin_unlock(&all->lock);
		dp_tell_gone(node, dp);
		roami_dp_forget(dp);
	}
	if (dp->file >= 0)
		close(dp->file);
	free(dp);
}

/* ------------------------------------------------------------------------------------- arriving */

/* Copies bytes to or from a sender's share, which begins anew behind its end. */
static void inbox_put(struct roami_dp_inbox *inbox, uint64_t at, const void *data, size_t bytes)
{
	size_t offset = at % ROAM_DP_ROOM, first = ROAM_DP_ROOM - offset;

	if (first > bytes)
		first = bytes;
	memcpy(inbox->ring + offset, data, first);
	memcpy(inbox->ring, (const uint8_t *)data + first, bytes - first);
}

static void inbox_get(const struct roami_dp_inbox *inbox, uint64_t at, void *data, size_t bytes)
{
	size_t offset = at % ROAM_DP_ROOM, first = ROAM_DP_ROOM - offset;

	if (bytes == 0)
		return; /* `data` may be NULL */
	if (first > bytes)
		first = bytes;
	memcpy(data, inbox->ring + offset, first);
	memcpy((uint8_t *)data + first, inbox->ring, bytes - first);
}

/* Adds a part to the message that is coming; false: it does not continue it, or has no room. */
static bool inbox_part(struct roami_dp_inbox *inbox, const struct roami_dp_part *part,
		       const void *data, size_t bytes)
{
	struct roami_dp_kept kept = {.bytes = part->length, .from = part->from};

	if (part->length > ROAM_DP_MESSAGE_MAX || part->offset != inbox->have ||
	    (inbox->have > 0 && part->length != inbox->length) ||
	    bytes > part->length - inbox->have || (bytes == 0 && part->length > 0) ||
	    inbox->put - inbox->got + roami_dp_room(part->length) > ROAM_DP_ROOM)
		return false;
	if (inbox->have == 0)
		inbox_put(inbox, inbox->put, &kept, sizeof(kept));
	inbox_put(inbox, inbox->put + sizeof(kept) + inbox->have, data, bytes);
	inbox->length = part->length;
	inbox->have += (uint32_t)bytes;
	return true;
}

/* A message is whole: it waits to be received.  The endpoint's lock is held. */
static void dp_arrived(struct roam_dp *dp, unsigned from)
{
	struct roami_dp_inbox *inbox = &dp->inboxes[from];

	roami_contract(roami_spin_held(&dp->lock));
	inbox->put += roami_dp_room(inbox->length);
	inbox->have = inbox->length = 0;
	dp->order[dp->order_put++ % (dp->node->nodes * ORDER_MAX)] = (uint8_t)from;
	if (atomic_fetch_add(&dp->waiting, 1) == 0)
		dp_file_raise(dp);
}

void roami_dp_find_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_dp_node *all = roami_dp_of(node);
	struct roami_dp_status status = {.generation = 0};
	struct roam_part part = {&status, sizeof(status)};
	struct roam_dp *dp;

	if (request->bytes != sizeof(status.endpoint))
		dp_malformed(node, request->from);
	memcpy(&status.endpoint, request->data, sizeof(status.endpoint));
	roami_spin_lock(node, &all->lock);
	dp = dp_find(all, status.endpoint);
	if (dp != NULL) {
		status.generation = dp->generation;
		dp->inboxes[request->from].asked = true;
	}
	/* Before the lock is free: what tells that the endpoint closes must not overtake this. */
	roami_msg_send(node, request->from, all->types + ROAMI_DP_FOUND, &part, 1);
	roami_spin_unlock(&all->lock);
}

/* The endpoint that a part is for, locked; NULL: it is not open any more. */
static struct roam_dp *part_for(struct roami_node *node, const struct roami_dp_part *part)
{
	struct roami_dp_node *all = roami_dp_of(node);
	struct roam_dp *dp;

	roami_spin_lock(node, &all->lock);
	dp = dp_find(all, part->endpoint);
	if (dp != NULL && dp->generation != part->generation)
		dp = NULL;
	if (dp != NULL)
		roami_spin_lock(node, &dp->lock);
	roami_spin_unlock(&all->lock);
	return dp;
}

void roami_dp_part_handle(struct roami_node *node, const struct roam_request *request)
{
	struct roami_dp_part part;
	struct roami_dp_status status;
	struct roam_part answer = {&status, sizeof(status)};
	struct roam_dp *dp;
	bool good, whole, wakes;

	if (request->bytes < sizeof(part))
		dp_malformed(node, request->from);
	memcpy(&part, request->data, sizeof(part));
	dp = part_for(node, &part);
	if (dp == NULL) {
		status = (struct roami_dp_status){part.endpoint, part.generation, 0};
		roami_msg_send(node, request->from, roami_dp_of(node)->types + ROAMI_DP_GONE,
			       &answer, 1);
		return;
	}
	good = inbox_part(&dp->inboxes[request->from], &part,
			  (const uint8_t *)request->data + sizeof(part),
			  request->bytes - sizeof(part));
	whole = good && dp->inboxes[request->from].have == part.length;
	if (whole)
		dp_arrived(dp, request->from);
	wakes = whole && atomic_load(&dp->sleepers) > 0;
	roami_spin_unlock(&dp->lock); /* it may be closed from here on */
	if (!good)
		dp_malformed(node, request->from);
	if (wakes)
		roami_changed(node, node->me);
}

/* ------------------------------------------------------------------------------------ receiving */

struct receive_wait {
	struct roam_dp *dp;
	uint64_t until;
};

static bool receive_looks(void *arg)
{
	const struct receive_wait *wait = arg;
	struct roami_node *node = wait->dp->node;

	if (atomic_load(&wait->dp->receiving) == 0 &&
	    (atomic_load(&wait->dp->waiting) > 0 || atomic_load(&roami_dp_of(node)->lost) != 0))
		return true;
	if (atomic_load(&wait->dp->over) != 0)
		return true;
	return wait->until != ROAMI_FOREVER && node->env->now(node) >= wait->until;
}

/* Takes the turn to receive the oldest message; false: there is none, or another thread's turn. */
static bool receive_begin(struct roam_dp *dp)
{
	bool mine;

	roami_spin_lock(dp->node, &dp->lock);
	mine = atomic_load(&dp->waiting) > 0 && atomic_load(&dp->receiving) == 0;
	if (mine)
		atomic_store(&dp->receiving, 1);
	roami_spin_unlock(&dp->lock);
	return mine;
}

/* Whether the wait is over without a message, and why. */
static enum roam_err receive_ends(const struct receive_wait *wait)
{
	const struct roam_dp *dp = wait->dp;

	if (atomic_load(&dp->over) != 0)
		return ROAM_ESTATE;
	if (atomic_load(&dp->waiting) == 0 && atomic_load(&roami_dp_of(dp->node)->lost) != 0)
		return ROAM_ELOST;
	if (wait->until != ROAMI_FOREVER && dp->node->env->now(dp->node) >= wait->until)
		return ROAM_ETIMEDOUT;
	return ROAM_OK;
}

/* Takes the turn to receive, and waits for a message. */
static enum roam_err receive_await(struct roam_dp *dp, uint64_t timeout_ns)
{
	struct receive_wait wait = {dp, 0};
	enum roam_err err = ROAM_OK;

	if (receive_begin(dp))
		return ROAM_OK;
	if (timeout_ns == ROAM_DP_TRY) {
		roami_msg_poll(dp->node);
		return receive_begin(dp) ? ROAM_OK : receive_ends(&wait);
	}
	wait.until = roami_dp_until(dp->node, timeout_ns);
	atomic_fetch_add(&dp->sleepers, 1);
	while (!receive_begin(dp) && (err = receive_ends(&wait)) == ROAM_OK)
		roami_dp_await(dp->node, (uint64_t)dp->number << 1, wait.until, receive_looks,
			       &wait);
	atomic_fetch_sub(&dp->sleepers, 1);
	return err;
}

/* The oldest message was received; returns whether its sender is to be told so. */
static bool receive_drop(struct roam_dp *dp, struct roami_dp_inbox *inbox, uint64_t room)
{
	uint64_t seen;
	bool tell;

	inbox->got += room;
	dp->order_got++;
	/* The eventfd is readable while any message waits, or when none will come any more. */
	if (atomic_fetch_sub(&dp->waiting, 1) == 1 && dp->file >= 0 &&
	    atomic_load(&roami_dp_of(dp->node)->lost) == 0 &&
	    read(dp->file, &seen, sizeof(seen)) < 0)
		roami_contract(false);
	tell = inbox->got - inbox->reported >= TELL;
	if (tell)
		inbox->reported = inbox->got;
	return tell;
}

enum roam_err roami_dp_receive(struct roam_dp *dp, void *buffer, size_t limit, uint64_t timeout_ns,
			       struct roam_dp_message *message)
{
	struct roami_node *node = dp->node;
	struct roami_dp_status status = {dp->number, dp->generation, 0};
	struct roam_part part = {&status, sizeof(status)};
	struct roami_dp_inbox *inbox;
	struct roami_dp_kept kept;
	enum roam_err err = receive_await(dp, timeout_ns);
	bool fits, tell = false;

	if (err != ROAM_OK)
		return err;
	message->node = dp->order[dp->order_got % (node->nodes * ORDER_MAX)];
	inbox = &dp->inboxes[message->node];
	inbox_get(inbox, inbox->got, &kept, sizeof(kept));
	message->bytes = kept.bytes;
	message->endpoint = kept.from;
	fits = kept.bytes <= limit;
	if (fits) /* a touch of the buffer may fault: no lock is held */
		inbox_get(inbox, inbox->got + sizeof(kept), buffer, kept.bytes);
	roami_spin_lock(node, &dp->lock);
	if (fits)
		tell = receive_drop(dp, inbox, roami_dp_room(kept.bytes));
	status.taken = inbox->got;
	atomic_store(&dp->receiving, 0);
	roami_spin_unlock(&dp->lock);
	if (tell)
		roami_msg_send(node, message->node, roami_dp_of(node)->types + ROAMI_DP_ROOM, &part,
			       1);
	if (atomic_load(&dp->sleepers) > 0)
		roami_changed(node, node->me);
	return fits ? ROAM_OK : ROAM_ETOOBIG;
}

int roami_dp_file(struct roam_dp *dp)
{
	int file, made = roami_os_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));

	roami_spin_lock(dp->node, &dp->lock);
	if (dp->file < 0 && made >= 0) {
		dp->file = made;
		if (atomic_load(&dp->waiting) > 0 ||
		    atomic_load(&roami_dp_of(dp->node)->lost) != 0)
			dp_file_raise(dp);
	}
	file = dp->file;
	roami_spin_unlock(&dp->lock);
	if (file != made && made >= 0)
		close(made);
	return file;
}

void roami_dp_lose(struct roami_node *node)
{
	struct roami_dp_node *all = roami_dp_of(node);

	atomic_store(&all->lost, 1);
	roami_spin_lock(node, &all->lock);
	for (unsigned i = 0; i < ROAM_DP_OPEN_MAX; i++) {
		struct roam_dp *dp = all->open[i];

		if (dp == NULL)
			continue;
		roami_spin_lock(node, &dp->lock);
		dp_file_raise(dp);
		roami_spin_unlock(&dp->lock);
	}
	roami_spin_unlock(&all->lock);
	roami_changed(node, node->me);
}
