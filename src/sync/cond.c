/*
 * Condition variables (rule 5.4): wait = unlock, wait for a hint, lock; signals carry nothing.
 * The waiter enters the queue at the condition's home before it unlocks, so a signal sent under the
 * lock finds it.  Threads of the home use the queue themselves: between them there is no message.
 *
 * Another node has one entry in that queue for all its threads that wait, which have a queue of
 * their own there (rule 5.8).  A signal takes the entry and wakes one of them; for the others the
 * node enters again, and the home then says whether signals came meanwhile that found no entry.
 */
#include <string.h>

#include "msg/msg.h"
#include "page/page.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { COND_ENTER, COND_AGAIN, COND_WAKE, COND_POST, COND_LEAVE };

#define COND_ALL ROAMI_THREADS_MAX /* threads to wake: as many as wait */

static unsigned cond_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= COND_LEAVE);
	return roami_type(node, ROAMI_ROOM_CONDS, message);
}

struct cond_message {
	uint64_t id;
	uint32_t turn;   /* the node's entry */
	uint32_t count;  /* wake, post: so many threads */
	uint32_t missed; /* wake, again: the home's count of signals that found no entry */
	uint32_t owed;   /* a wake by a signal: another node's thread takes it if none here does */
};

struct cond_wait {
	struct roami_node *node;
	struct roami_cond *cond;
	unsigned slot;
	uint32_t turn;
	uint64_t until; /* of env->now; ROAMI_FOREVER */
};

static struct roami_cond *cond_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->conds, id);
}

static bool cond_signalled(const struct cond_wait *wait)
{
	return atomic_load(&sync_of(wait->node)->cond_done[wait->slot]) == wait->turn;
}

static bool cond_woken(void *arg)
{
	struct cond_wait *wait = arg;

	return cond_signalled(wait) || (wait->until != ROAMI_FOREVER &&
					wait->node->env->now(wait->node) >= wait->until);
}

/* --------------------------------------------------------------- the queues; the spin is held */

static void cond_push(struct roami_node *node, struct roami_cond *cond, struct roami_waiter waiter)
{
	struct roami_waiter *slot;

	roami_contract(roami_spin_held(&cond->spin));
	slot = roami_os_vec_grow(&cond->waiters, sizeof(*slot), 1);
	if (slot == NULL)
		roami_node_fail(node, "no memory for threads that wait for a condition");
	*slot = waiter;
	cond->waiters.count++;
}

static void cond_cut(struct roami_cond *cond, size_t at, size_t count)
{
	struct roami_waiter *waiters = (void *)cond->waiters.items;

	roami_contract(roami_spin_held(&cond->spin) && at + count <= cond->waiters.count);
	if (count == 0)
		return; /* there may be no items at all */
	cond->waiters.count -= count;
	memmove(&waiters[at], &waiters[at + count],
		(cond->waiters.count - at) * sizeof(*waiters));
}

/* The place of a node's entry, or of a thread of this node; the number of waiters: it has none. */
static size_t cond_find(const struct roami_cond *cond, unsigned node, uint32_t slot)
{
	const struct roami_waiter *waiters = (const void *)cond->waiters.items;
	size_t at = 0;

	roami_contract(roami_spin_held(&cond->spin));
	while (at < cond->waiters.count && (waiters[at].node != node || waiters[at].slot != slot))
		at++;
	return at;
}

/*
 * Wakes the first `count` of this node's threads, of a queue that has no others; returns how many.
 */
static size_t own_wake(struct roami_node *node, struct roami_cond *cond, uint32_t count)
{
	const struct roami_waiter *waiters = (const void *)cond->waiters.items;
	size_t woken = cond->waiters.count < count ? cond->waiters.count : count;

	roami_contract(roami_spin_held(&cond->spin));
	for (size_t i = 0; i < woken; i++)
		atomic_store(&sync_of(node)->cond_done[waiters[i].slot], waiters[i].turn);
	cond_cut(cond, 0, woken);
	return woken;
}

/* At the condition's home: a node's threads wait.  Its newest entry counts; messages overtake. */
static void queue_enter(struct roami_node *node, struct roami_cond *cond, unsigned from,
			uint32_t turn)
{
	size_t at = cond_find(cond, from, 0);
	struct roami_waiter *waiters = (void *)cond->waiters.items;

	roami_contract(from != node->me);
	if (at == cond->waiters.count)
		cond_push(node, cond, (struct roami_waiter){(uint16_t)from, 0, 0, turn});
	else if ((int32_t)(turn - waiters[at].turn) > 0)
		waiters[at].turn = turn;
}

/* Wakes a thread of this node, or those of a node; returns whether it is one of this node. */
static bool queue_wake(struct roami_node *node, struct roami_cond *cond,
		       const struct roami_waiter *waiter, uint32_t count)
{
	struct cond_message wake = {cond->id, waiter->turn, count, cond->missed,
				    count < COND_ALL};
	struct roam_part part = {&wake, sizeof(wake)};

	roami_contract(roami_spin_held(&cond->spin));
	if (waiter->node == node->me) {
		atomic_store(&sync_of(node)->cond_done[waiter->slot], waiter->turn);
		return true;
	}
	roami_msg_send(node, waiter->node, cond_type(node, COND_WAKE), &part, 1);
	return false;
}

/* ------------------------------------------------------------------------------- at their home */

/* A signal, or a broadcast, which no node that is about to enter again may miss. */
static void queue_post(struct roami_node *node, uint64_t id, uint32_t count)
{
	struct roami_cond *cond = cond_make(node, id);
	bool here = false, all = count >= COND_ALL;
	struct roami_waiter *waiters;
	size_t found;

	roami_spin_lock(node, &cond->spin);
	waiters = (void *)cond->waiters.items;
	found = all || cond->waiters.count < count ? cond->waiters.count : count;
	cond->missed += all ? COND_ALL : count - (uint32_t)found;
	for (size_t i = 0; i < found; i++)
		here |= queue_wake(node, cond, &waiters[i], all ? COND_ALL : 1);
	cond_cut(cond, 0, found);
	roami_spin_unlock(&cond->spin);
	if (here)
		roami_changed(node, node->me);
}

/* A node's threads wait no longer, as far as this entry is concerned. */
static void queue_leave(struct roami_node *node, const struct cond_message *message, unsigned from)
{
	struct roami_cond *cond = roami_table_find(&sync_of(node)->conds, message->id);
	const struct roami_waiter *waiters;
	size_t at;

	if (cond == NULL)
		return;
	roami_spin_lock(node, &cond->spin);
	at = cond_find(cond, from, 0);
	waiters = (const void *)cond->waiters.items;
	if (at < cond->waiters.count && waiters[at].turn == message->turn)
		cond_cut(cond, at, 1);
	roami_spin_unlock(&cond->spin);
}

/* -------------------------------------------------------------------- where the home is another */

/* Whether the last thread of the queue has gone, and the node's entry is to leave the home's. */
static bool own_leave(struct roami_cond *cond, struct cond_message *leave)
{
	bool leaves = cond->entered && cond->waiters.count == 0;

	roami_contract(roami_spin_held(&cond->spin));
	leave->id = cond->id;
	leave->turn = cond->turns;
	cond->entered &= !leaves;
	return leaves;
}

/* Enters the queue of this node, and that of the home unless the home has said that it is there. */
static void own_enter(struct roami_node *node, unsigned home, struct roami_cond *cond,
		      struct roami_waiter waiter)
{
	struct cond_message enter = {.id = cond->id};
	struct roam_part part = {&enter, sizeof(enter)};
	bool joins;

	roami_spin_lock(node, &cond->spin);
	cond_push(node, cond, waiter);
	joins = cond->entered && cond->sure;
	if (!joins) {
		enter.turn = ++cond->turns;
		cond->entered = true;
		cond->sure = false;
	}
	roami_spin_unlock(&cond->spin);
	if (joins)
		return;
	roami_msg_call(node, home, cond_type(node, COND_ENTER), &part, 1, NULL, 0);
	roami_spin_lock(node, &cond->spin);
	if (cond->turns == enter.turn)
		cond->sure = true;
	roami_spin_unlock(&cond->spin);
}

/*
 * A signal has taken this node's entry, or one that it had before.  Threads that still wait have a
 * new entry: its message says which signals the node knows of.
 */
static void own_woken(struct roami_node *node, unsigned home, const struct cond_message *wake)
{
	struct roami_cond *cond = cond_make(node, wake->id);
	struct cond_message more = {.id = wake->id, .missed = wake->missed, .count = 1};
	struct roam_part part = {&more, sizeof(more)};
	bool again = false;
	size_t woken;

	roami_spin_lock(node, &cond->spin);
	woken = own_wake(node, cond, wake->count);
	if (cond->entered && cond->turns == wake->turn) {
		again = cond->waiters.count > 0;
		cond->entered = again;
		cond->sure = again; /* the home learns of signals that come before the message */
		more.turn = cond->turns += again;
	}
	roami_spin_unlock(&cond->spin);
	if (again)
		roami_msg_send(node, home, cond_type(node, COND_AGAIN), &part, 1);
	else if (woken == 0 && wake->owed != 0)
		roami_msg_send(node, home, cond_type(node, COND_POST), &part, 1);
}

/* Wakes a thread of this node for one of this node, without a message if others go on waiting. */
static bool own_post(struct roami_node *node, unsigned home, struct roami_cond *cond)
{
	struct cond_message leave = {0};
	struct roam_part part = {&leave, sizeof(leave)};
	bool woken, leaves = false;

	roami_spin_lock(node, &cond->spin);
	woken = own_wake(node, cond, 1) != 0;
	if (woken)
		leaves = own_leave(cond, &leave);
	roami_spin_unlock(&cond->spin);
	if (woken)
		roami_changed(node, node->me);
	if (leaves)
		roami_msg_send(node, home, cond_type(node, COND_LEAVE), &part, 1);
	return woken;
}

/* --------------------------------------------------------------------------------------- calls */

static void cond_enter(struct roami_node *node, struct roami_cond *cond, struct roami_waiter waiter)
{
	unsigned home = roami_sync_home(node, cond->id);

	roami_contract(waiter.node == node->me);
	if (home != node->me) {
		own_enter(node, home, cond, waiter);
		return;
	}
	roami_spin_lock(node, &cond->spin);
	cond_push(node, cond, waiter);
	roami_spin_unlock(&cond->spin);
}

/*
 * A thread that gives up leaves the queue: else it would take a signal that is for another thread.
 * A signal that took the node's entry before it left, and finds no thread here, goes back.
 */
static void cond_leave(const struct cond_wait *wait)
{
	struct roami_node *node = wait->node;
	struct cond_message leave = {0};
	struct roam_part part = {&leave, sizeof(leave)};
	unsigned home = roami_sync_home(node, wait->cond->id);
	bool leaves = false;
	size_t at;

	roami_spin_lock(node, &wait->cond->spin);
	at = cond_find(wait->cond, node->me, wait->slot);
	if (at < wait->cond->waiters.count) {
		cond_cut(wait->cond, at, 1);
		leaves = home != node->me && own_leave(wait->cond, &leave);
	}
	roami_spin_unlock(&wait->cond->spin);
	if (leaves)
		roami_msg_send(node, home, cond_type(node, COND_LEAVE), &part, 1);
}

/* Waits for a signal. */
static enum roam_err cond_await(struct cond_wait *wait)
{
	struct roami_node *node = wait->node;
	bool forever = wait->until == ROAMI_FOREVER;

	/* What ends by itself is no hang. */
	roami_node_waits(node, ROAM_SYNC_COND + 1, wait->cond->id, forever ? 0 : ROAMI_WAITS_ENDS);
	if (!forever)
		roami_wait_until(node, wait->until);
	roami_wait(node, cond_woken, wait);
	if (!forever)
		roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	if (!cond_signalled(wait))
		cond_leave(wait);
	return cond_signalled(wait) ? ROAM_OK : ROAM_ETIMEDOUT;
}

enum roam_err roami_cond_wait_until(struct roami_node *node, uint64_t id, uint64_t lock,
				    uint64_t until)
{
	unsigned slot = node->env->thread(node);
	uint32_t turn = atomic_fetch_add(&sync_of(node)->cond_turn[slot], 1) + 1;
	struct roami_cond *cond = cond_make(node, id);
	struct cond_wait wait = {node, cond, slot, turn, until};
	enum roam_err woken, locked;
	uint64_t start;

	roami_contract(slot < ROAMI_THREADS_MAX);
	if (!roami_lock_held(node, lock)) /* queued, this thread would take another one's signal */
		return ROAM_ENOTHELD;
	roami_object_announce(node, id, &cond->announced);
	cond_enter(node, cond, (struct roami_waiter){(uint16_t)node->me, 0, slot, turn});
	roami_unlock_to_wait(node, lock);
	start = roami_os_cycles();
	woken = cond_await(&wait);
	roami_hear(node); /* the thread that signalled may have cleared a flag before */
	ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	ROAMI_COUNT(node->stats, conds, 1);
	locked = roami_lock(node, lock);
	return locked != ROAM_OK ? locked : woken;
}

enum roam_err roami_cond_wait(struct roami_node *node, uint64_t id, uint64_t lock)
{
	return roami_cond_wait_until(node, id, lock, ROAMI_FOREVER);
}

enum roam_err roami_cond_post(struct roami_node *node, uint64_t id, bool all)
{
	struct cond_message post = {.id = id, .count = all ? COND_ALL : 1};
	struct roam_part part = {&post, sizeof(post)};
	unsigned home = roami_sync_home(node, id);

	if (home == node->me)
		queue_post(node, id, post.count);
	else if (all || !own_post(node, home, cond_make(node, id)))
		roami_msg_send(node, home, cond_type(node, COND_POST), &part, 1);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

void roami_cond_forget(struct roami_node *node, void *item)
{
	struct roami_cond *cond = item;

	atomic_store(&cond->announced, 0);
	roami_spin_lock(node, &cond->spin);
	cond->waiters.count = 0;
	cond->entered = false;
	roami_spin_unlock(&cond->spin);
}

static void cond_parse(struct roami_node *node, const struct roam_request *request,
		       struct cond_message *message)
{
	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(*message))
		roami_node_fail(node, "node %u sent a malformed condition message", request->from);
	memcpy(message, request->data, sizeof(*message));
}

static void cond_handle_enter(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;
	struct roami_cond *cond;

	cond_parse(node, request, &message);
	cond = cond_make(node, message.id);
	roami_spin_lock(node, &cond->spin);
	queue_enter(node, cond, request->origin, message.turn);
	roami_spin_unlock(&cond->spin);
	roami_reply(node, request, NULL, 0);
}

/* What the node has missed since a signal took its entry wakes so many of its threads. */
static void cond_handle_again(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;
	struct roam_part part = {&message, sizeof(message)};
	struct roami_cond *cond;

	cond_parse(node, request, &message);
	cond = cond_make(node, message.id);
	roami_spin_lock(node, &cond->spin);
	message.count = cond->missed - message.missed;
	message.missed = cond->missed;
	message.owed = 0;
	if (message.count == 0)
		queue_enter(node, cond, request->origin, message.turn);
	roami_spin_unlock(&cond->spin);
	if (message.count != 0)
		roami_msg_send(node, request->origin, cond_type(node, COND_WAKE), &part, 1);
}

static void cond_handle_post(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	queue_post(node, message.id, message.count);
}

static void cond_handle_leave(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	queue_leave(node, &message, request->origin);
}

static void cond_handle_wake(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	own_woken(node, request->origin, &message);
}

static const struct roam_message conds_messages[] = {
	[COND_ENTER] = {"cond enter", cond_handle_enter, 512},
	[COND_AGAIN] = {"cond again", cond_handle_again, 512},
	[COND_WAKE] = {"cond wake", cond_handle_wake, 512},
	[COND_POST] = {"cond post", cond_handle_post, 512},
	[COND_LEAVE] = {"cond leave", cond_handle_leave, 512},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_conds = {.name = "conds", .messages = conds_messages};
