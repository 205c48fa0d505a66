/*
 * Condition variables (rule 5.4): wait = unlock, wait for a hint, lock; signals carry nothing.
 * The waiter enters the queue at the condition's home before it unlocks, so a signal sent under the
 * lock finds it.  Threads of the home use the queue themselves: between them there is no message.
 */
#include <string.h>

#include "msg/msg.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { COND_ENTER, COND_WAKE, COND_POST, COND_LEAVE };

static unsigned cond_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= COND_LEAVE);
	return roami_type(node, ROAMI_ROOM_CONDS, message);
}

struct cond_message {
	uint64_t id;
	uint32_t slot; /* of the waiting thread; of a post: 1 = all */
	uint32_t turn;
};

struct cond_wait {
	struct roami_node *node;
	_Atomic uint32_t *done;
	uint32_t turn;
	uint64_t until; /* of env->now; ROAMI_FOREVER */
};

static struct roami_cond *cond_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->conds, id);
}

static bool cond_signalled(const struct cond_wait *wait)
{
	return atomic_load(wait->done) == wait->turn;
}

static bool cond_woken(void *arg)
{
	struct cond_wait *wait = arg;

	return cond_signalled(wait) || (wait->until != ROAMI_FOREVER &&
					wait->node->env->now(wait->node) >= wait->until);
}

/* ----------------------------------------------------------------------------------- the queue */

/* At the condition's home: a thread of `origin` waits. */
static void queue_enter(struct roami_node *node, const struct cond_message *message,
			unsigned origin)
{
	struct roami_cond *cond = cond_make(node, message->id);
	struct roami_waiter *slot;

	roami_spin_lock(node, &cond->spin);
	slot = roami_os_vec_grow(&cond->waiters, sizeof(*slot), 1);
	if (slot == NULL)
		roami_node_fail(node, "no memory for threads that wait for a condition");
	*slot = (struct roami_waiter){(uint16_t)origin, 0, message->slot, message->turn};
	cond->waiters.count++;
	roami_spin_unlock(&cond->spin);
}

/* Wakes a waiting thread; whether it is one of this node. */
static bool queue_wake(struct roami_node *node, uint64_t id, const struct roami_waiter *waiter)
{
	struct cond_message wake = {id, waiter->slot, waiter->turn};
	struct roam_part part = {&wake, sizeof(wake)};

	if (waiter->node == node->me) {
		atomic_store(&sync_of(node)->cond_done[waiter->slot], waiter->turn);
		return true;
	}
	roami_msg_send(node, waiter->node, cond_type(node, COND_WAKE), &part, 1);
	return false;
}

static void queue_post(struct roami_node *node, const struct cond_message *message)
{
	struct roami_cond *cond = cond_make(node, message->id);
	struct roami_waiter *waiters;
	bool here = false;
	size_t count;

	roami_spin_lock(node, &cond->spin);
	waiters = (void *)cond->waiters.items;
	count = cond->waiters.count == 0 || message->slot ? cond->waiters.count : 1;
	for (size_t i = 0; i < count; i++)
		here |= queue_wake(node, message->id, &waiters[i]);
	cond->waiters.count -= count;
	if (cond->waiters.count > 0)
		memmove(waiters, waiters + count, cond->waiters.count * sizeof(*waiters));
	roami_spin_unlock(&cond->spin);
	if (here)
		roami_changed(node, node->me);
}

static void queue_leave(struct roami_node *node, const struct cond_message *message,
			unsigned origin)
{
	struct roami_cond *cond = cond_make(node, message->id);
	struct roami_waiter *waiters;

	roami_spin_lock(node, &cond->spin);
	waiters = (void *)cond->waiters.items;
	for (size_t i = 0; i < cond->waiters.count; i++)
		if (waiters[i].node == origin && waiters[i].slot == message->slot &&
		    waiters[i].turn == message->turn) {
			cond->waiters.count--;
			memmove(&waiters[i], &waiters[i + 1],
				(cond->waiters.count - i) * sizeof(*waiters));
			break;
		}
	roami_spin_unlock(&cond->spin);
}

/* --------------------------------------------------------------------------------------- calls */

/* Done at the home, here or there, when it returns. */
static void cond_tell(struct roami_node *node, unsigned what, const struct cond_message *message)
{
	struct roam_part part = {message, sizeof(*message)};
	unsigned home = roami_sync_home(node, message->id);

	if (home != node->me)
		roami_msg_call(node, home, cond_type(node, what), &part, 1, NULL, 0);
	else if (what == COND_ENTER)
		queue_enter(node, message, node->me);
	else
		queue_leave(node, message, node->me);
}

/*
 * Waits for a signal.  A thread that gives up leaves the queue at the home: else it would take a
 * signal that is for another thread.  A signal sent before it left has come when the home answers.
 */
static enum roam_err cond_await(struct cond_wait *wait, const struct cond_message *enter)
{
	struct roami_node *node = wait->node;
	bool forever = wait->until == ROAMI_FOREVER;

	/* What ends by itself is no hang. */
	roami_node_waits(node, ROAM_SYNC_COND + 1, enter->id, forever ? 0 : ROAMI_WAITS_ENDS);
	if (!forever)
		roami_wait_until(node, wait->until);
	roami_wait(node, cond_woken, wait);
	if (!forever)
		roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	if (!cond_signalled(wait))
		cond_tell(node, COND_LEAVE, enter);
	return cond_signalled(wait) ? ROAM_OK : ROAM_ETIMEDOUT;
}

enum roam_err roami_cond_wait_until(struct roami_node *node, uint64_t id, uint64_t lock,
				    uint64_t until)
{
	unsigned slot = node->env->thread(node);
	uint32_t turn = atomic_fetch_add(&sync_of(node)->cond_turn[slot], 1) + 1;
	struct cond_message enter = {id, slot, turn};
	struct cond_wait wait = {node, &sync_of(node)->cond_done[slot], turn, until};
	enum roam_err woken, locked;
	uint64_t start;

	roami_contract(slot < ROAMI_THREADS_MAX);
	if (!roami_lock_held(node, lock)) /* queued, this thread would take another one's signal */
		return ROAM_ENOTHELD;
	roami_object_tell(node, id, &cond_make(node, id)->told);
	cond_tell(node, COND_ENTER, &enter);
	roami_unlock(node, lock);
	start = roami_os_cycles();
	woken = cond_await(&wait, &enter);
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
	struct cond_message post = {id, all, 0};
	struct roam_part part = {&post, sizeof(post)};
	unsigned home = roami_sync_home(node, id);

	if (home == node->me)
		queue_post(node, &post);
	else
		roami_msg_send(node, home, cond_type(node, COND_POST), &part, 1);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

void roami_cond_forget(struct roami_node *node, void *item)
{
	struct roami_cond *cond = item;

	atomic_store(&cond->told, 0);
	roami_spin_lock(node, &cond->spin);
	cond->waiters.count = 0;
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

	cond_parse(node, request, &message);
	queue_enter(node, &message, request->origin);
	roami_reply(node, request, NULL, 0);
}

static void cond_handle_post(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	queue_post(node, &message);
}

static void cond_handle_leave(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	queue_leave(node, &message, request->origin);
	roami_reply(node, request, NULL, 0);
}

static void cond_handle_wake(struct roami_node *node, const struct roam_request *request)
{
	struct cond_message message;

	cond_parse(node, request, &message);
	if (message.slot >= ROAMI_THREADS_MAX)
		roami_node_fail(node, "node %u woke thread %u", request->from, message.slot);
	atomic_store(&sync_of(node)->cond_done[message.slot], message.turn);
}

static const struct roam_message conds_messages[] = {
	[COND_ENTER] = {"cond enter", cond_handle_enter, 512},
	[COND_WAKE] = {"cond wake", cond_handle_wake, 512},
	[COND_POST] = {"cond post", cond_handle_post, 512},
	[COND_LEAVE] = {"cond leave", cond_handle_leave, 512},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_conds = {.name = "conds", .messages = conds_messages};
