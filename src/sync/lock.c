/*
 * Distributed queue locks (rule 5.1): request -> home (swap of the tail) -> the previous tail ->
 * grant straight to the requester. A node that holds the token serves its own threads without a
 * message, those first that came before a forward arrived.
 *
 * The queue of nodes is kept in a record in shared memory (lock_shm.c) or by messages (lock_msg.c);
 * the turns of a node's own threads, grants, and the handlers are here.
 *
 * Under ScC the token brings the lock's list of notices instead of a clock (scope.h), always by
 * message.
 */
#include "sync/lock.h"

#include <pthread.h>
#include <string.h>

#include "msg/msg.h"
#include "sync/log.h"
#include "sync/sync.h"

#define KEEP_NS     3000u  /* a token kept by a node that does not take it again so long is free */
#define PATIENCE_NS 10000u /* so long a waiting thread lets others have the lock again and again */

static unsigned lock_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= LOCK_BUSY);
	return roami_type(node, ROAMI_ROOM_LOCKS, message);
}

/* What request and forward carry, before the requester's clock. */
struct lock_request {
	uint64_t id;
	uint32_t node;
	uint32_t trying; /* the requester wants to hear if it must wait for a section */
	uint64_t number; /* the last notice of the lock's list that it has */
	uint64_t told;   /* what its clock is encoded against, see roami_log_told */
};

/* What a grant carries, before the granter's clock. */
struct lock_grant {
	uint64_t id;
	uint64_t number; /* of the newest notice that was ever in the lock's list */
};

struct lock_wait {
	struct roami_node *node;
	struct roami_lock *lock;
	uint32_t ticket;
	uint32_t grants; /* of the record, when it looked last */
	uint64_t until;  /* of env->now; ROAMI_FOREVER */
	uint64_t patient; /* until then, of env->now; 0: no more */
	uint64_t kept;    /* the record's word when it looked last, */
	uint64_t ripe;    /* and when the token may be taken that is kept by it */
};

/* A ticket that its thread has given up: no thread waits for its turn. */
struct lock_left {
	uint32_t thread;
	uint32_t ticket;
};

size_t roami_lock_item_bytes(unsigned nodes)
{
	return sizeof(struct roami_lock) + nodes * sizeof(uint64_t);
}

void roami_lock_make(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;

	roami_contract(roami_spin_held(&sync_of(node)->locks.lock));
	lock->tail = (uint16_t)roami_sync_home(node, lock->id);
	lock->next = ROAM_NOBODY;
}

void roami_lock_fini(void *item)
{
	struct roami_lock *lock = item;

	roami_scope_fini(&lock->scope);
	roami_os_vec_free(&lock->left, sizeof(struct lock_left));
}

static struct roami_lock *lock_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->locks, id);
}

/* Grants of the token so far; a lock that goes by messages does not count them. */
static uint32_t record_grants(const struct roami_lock *lock)
{
	return lock->record == NULL
		       ? 0
		       : atomic_load_explicit(&lock->record->grants, memory_order_relaxed);
}

/* -------------------------------------------------------------------------------------- grants */

/* Sends the token to `next`, with the notices it lacks; the lock's spin is held.  Any thread. */
static void lock_grant(struct roami_node *node, struct roami_lock *lock)
{
	static const struct roami_vclock nothing;
	struct lock_grant grant = {lock->id, lock->scope.number};
	struct roam_part part = {&grant, sizeof(grant)};
	unsigned next = lock->next;
	struct roami_vclock clock;

	roami_contract(roami_spin_held(&lock->spin));
	roami_assert(lock->token && next != ROAM_NOBODY);
	memcpy(clock.at, lock->next_clock, node->nodes * sizeof(clock.at[0]));
	if (lock->record != NULL)
		atomic_store_explicit(&lock->record->grants, record_grants(lock) + 1,
				      memory_order_relaxed);
	lock->token = false;
	lock->next = ROAM_NOBODY;
	roami_log_know(node, next, &clock);
	if (roami_scoped(node)) {
		roami_scope_send(node, next, lock_type(node, LOCK_NOTICES),
				 lock->id, &lock->scope, lock->next_number);
		roami_log_send_upto(node, next, &nothing, &nothing,
				    lock_type(node, LOCK_GRANT), &part, 1);
		return;
	}
	roami_log_send(node, next, &clock, lock_type(node, LOCK_GRANT), &part, 1);
}

void roami_lock_send(struct roami_node *node, const struct roami_lock *lock, unsigned to,
		     unsigned message, bool trying)
{
	struct lock_request request = {lock->id, node->me, trying, lock->scope.number, 0};
	struct roami_vclock_wire wire;
	struct roam_part parts[2] = {{&request, sizeof(request)}, {&wire, 0}};
	struct roami_vclock clock, told;

	roami_contract(roami_spin_held(&lock->spin));
	request.told = roami_log_told(node, &told);
	roami_log_clock(node, &clock);
	parts[1].bytes = roami_vclock_encode(&clock, &told, node->nodes, &wire);
	roami_msg_send(node, to, lock_type(node, message), parts, 2);
}

/* Finds out where the queue is kept.  The lock's spin is held. */
static void lock_resolve(struct roami_node *node, struct roami_lock *lock)
{
	unsigned home = roami_sync_home(node, lock->id);

	roami_contract(roami_spin_held(&lock->spin));
	if (lock->mode != NULL)
		return;
	if (node->nodes > 1 && !roami_scoped(node))
		lock->record = roami_resolve_record(node, home, &sync_of(node)->lock_records,
						    lock->id);
	lock->token = lock->record == NULL && home == node->me;
	lock->mode = lock->record != NULL ? &roami_lock_in_record
						: &roami_lock_by_messages;
}

/* The first use at this node. */
static void lock_ready(struct roami_node *node, struct roami_lock *lock)
{
	roami_spin_lock(node, &lock->spin);
	lock_resolve(node, lock);
	roami_spin_unlock(&lock->spin);
	roami_object_tell(node, lock->id, &lock->told);
}

/* Whether the thread with this ticket may hold the lock now.  The spin is held. */
static bool lock_may_hold(const struct roami_lock *lock, uint32_t ticket)
{
	roami_contract(roami_spin_held(&lock->spin));
	return lock->token && lock->serving == ticket && lock->holder == 0 &&
	       !(lock->next != ROAM_NOBODY && ticket == lock->next_after);
}

static bool lock_late(const struct lock_wait *wait)
{
	return wait->until != ROAMI_FOREVER && wait->node->env->now(wait->node) >= wait->until;
}

/* Patience has come to its end, which is still to be said. */
static bool lock_impatient(const struct lock_wait *wait)
{
	return wait->patient != 0 && wait->node->env->now(wait->node) >= wait->patient;
}

/* The threads of this node that came before have had the lock. */
static bool lock_next(void *arg)
{
	struct lock_wait *wait = arg;

	return atomic_load(&wait->lock->serving) == wait->ticket || lock_late(wait);
}

/* When the thread has to look again though nothing changes. */
static uint64_t lock_alarm(const struct lock_wait *wait)
{
	return wait->patient != 0 && wait->patient < wait->until ? wait->patient : wait->until;
}

/*
 * A token lies in the record for this node, and has lain there long enough, or this thread has
 * waited long enough.  The spin is held.
 */
static bool lock_ripe(struct lock_wait *wait)
{
	const struct roami_lock *lock = wait->lock;
	uint64_t now, kept;

	roami_contract(roami_spin_held(&lock->spin));
	if (!lock->asked || lock->record == NULL)
		return false;
	if (wait->patient == 0 && !lock->hurried)
		return true;
	kept = roami_lock_kept_for(wait->node, lock);
	if (kept == 0)
		return false;
	now = wait->node->env->now(wait->node);
	if (kept != wait->kept)
		wait->ripe = now + KEEP_NS;
	wait->kept = kept;
	return lock->hurried || now >= wait->ripe;
}

/*
 * Also true when others had their turn: the wait begins anew.  A thread that slept while the lock
 * goes round would cost each round a wake-up.
 */
static bool lock_turn(void *arg)
{
	struct lock_wait *wait = arg;
	bool turn;

	if (record_grants(wait->lock) != wait->grants || lock_late(wait) || lock_impatient(wait))
		return true;
	roami_spin_lock(wait->node, &wait->lock->spin);
	turn = lock_may_hold(wait->lock, wait->ticket) || lock_ripe(wait);
	roami_spin_unlock(&wait->lock->spin);
	return turn;
}

/* ------------------------------------------------------------------------------------- tickets */

/*
 * A ticket for the calling thread.  A thread that gave up a ticket whose turn has not come gets
 * that one again: so no thread leaves more than one behind.  The spin is held.
 */
static uint32_t lock_ticket(struct roami_node *node, struct roami_lock *lock)
{
	struct lock_left *left = (void *)lock->left.items;
	uint32_t thread = node->env->thread(node), ticket;

	roami_contract(roami_spin_held(&lock->spin));
	for (size_t i = 0; i < lock->left.count; i++)
		if (left[i].thread == thread) {
			ticket = left[i].ticket;
			left[i] = left[--lock->left.count];
			return ticket;
		}
	return lock->tickets++;
}

/* Passes over tickets given up whose turn has come, up to the turn of `next`.  The spin is held. */
static void lock_skip(struct roami_lock *lock)
{
	struct lock_left *left = (void *)lock->left.items;
	size_t i = 0;

	roami_contract(roami_spin_held(&lock->spin));
	while (i < lock->left.count) {
		if (left[i].ticket != lock->serving ||
		    (lock->next != ROAM_NOBODY && lock->serving == lock->next_after)) {
			i++;
			continue;
		}
		left[i] = left[--lock->left.count];
		lock->serving++;
		i = 0;
	}
}

/*
 * The token is here and no thread holds the lock: passes it on.  Grants the token to the next node
 * if it is that node's turn.  Returns whether own threads wait.  The spin is held.
 */
static bool lock_pass_on(struct roami_node *node, struct roami_lock *lock)
{
	bool waiters;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	lock_skip(lock);
	waiters = lock->tickets != lock->serving;
	lock->mode->pass(node, lock, waiters);
	if (lock->next == ROAM_NOBODY || lock->serving != lock->next_after)
		return waiters;
	if (!waiters && lock->mode->keep(node, lock))
		return false;
	lock_grant(node, lock);
	lock->asked = false;
	lock_skip(lock);
	waiters = lock->tickets != lock->serving;
	if (waiters) {
		lock->mode->ask(node, lock, false);
		if (lock->asked)
			lock->mode->seize(node, lock, true); /* they have waited already */
	}
	return waiters;
}

/* The calling thread no longer waits for the turn of its ticket. */
static void lock_leave(struct roami_node *node, struct roami_lock *lock, uint32_t ticket)
{
	struct lock_left *left;
	bool waiters;

	roami_spin_lock(node, &lock->spin);
	if (ticket == lock->serving &&
	    !(lock->next != ROAM_NOBODY && ticket == lock->next_after)) {
		lock->serving++;
	} else {
		left = roami_os_vec_grow(&lock->left, sizeof(*left), 1);
		if (left == NULL)
			roami_node_fail(node, "no memory for threads that gave up a lock");
		*left = (struct lock_left){node->env->thread(node), ticket};
		lock->left.count++;
	}
	if (lock->asked && !lock->token) /* perhaps no thread looks any more */
		lock->mode->seize(node, lock, true);
	if (lock->token && lock->holder == 0) {
		waiters = lock_pass_on(node, lock);
	} else {
		lock_skip(lock);
		waiters = lock->tickets != lock->serving;
	}
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
}

/* --------------------------------------------------------------------------------------- calls */

/*
 * Takes the lock for the calling thread if its turn has come; the acquire is still to be done if
 * *fresh_p.  The spin is held.
 */
static bool lock_take_now(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
			  bool *fresh_p)
{
	roami_contract(lock->holder != node->env->thread(node) + 1);
	if (!lock_may_hold(lock, ticket))
		return false;
	lock->holder = node->env->thread(node) + 1;
	*fresh_p = lock->fresh;
	lock->fresh = false;
	return true;
}

static bool lock_take(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
		      bool *fresh_p)
{
	bool mine;

	roami_spin_lock(node, &lock->spin);
	mine = lock_take_now(node, lock, ticket, fresh_p);
	roami_spin_unlock(&lock->spin);
	return mine;
}

/* The token came from another node: acquires. */
static void lock_begin(struct roami_node *node, struct roami_lock *lock,
		       const struct roam_sync *sync)
{
	roami_contract(lock->holder == node->env->thread(node) + 1);
	if (roami_scoped(node))
		roami_acquire_scope(node, sync, &lock->scope);
	else
		roami_acquire(node, sync);
}

/*
 * Returns the lock, with its spin held, if it may be taken or freed the short way; else NULL.
 * Under ScC, and for the race detector, sections begin and end with more steps.  A lock that
 * another node had last is refused soon, because the long way would do everything here again.
 */
static struct roami_lock *lock_short(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock;

	if (roami_scoped(node) || roami_race_checked(node))
		return NULL;
	lock = roami_table_find(&sync_of(node)->locks, id);
	if (lock == NULL || atomic_load_explicit(&lock->told, memory_order_acquire) == 0)
		return NULL;
	roami_step(node);
	if (lock->record != NULL && !roami_lock_last_here(node, lock))
		return NULL;
	return roami_spin_try(&lock->spin) ? lock : NULL;
}

bool roami_lock_quick(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = lock_short(node, id);
	bool taken;

	if (lock == NULL)
		return false;
	if (!lock->token && !lock->asked && lock->record != NULL && lock->kept == 0 &&
	    lock->tickets == lock->serving)
		lock->mode->ask(node, lock, true);
	/* A token that has something to acquire waits here for roami_lock. */
	taken = !lock->fresh && lock_may_hold(lock, lock->tickets);
	if (taken) {
		lock->tickets++;
		lock->holder = node->env->thread(node) + 1;
	}
	roami_spin_unlock(&lock->spin);
	if (taken)
		ROAMI_COUNT(node->stats, lock_acquires, 1);
	return taken;
}

/*
 * Grants the token to a node that has just queued.  Sending must not be a cancellation point here.
 */
static void lock_give_late(struct roami_node *node, struct roami_lock *lock)
{
	int was;

	roami_contract(lock->next != ROAM_NOBODY);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	lock_pass_on(node, lock);
	pthread_setcancelstate(was, NULL);
}

bool roami_unlock_quick(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock;
	bool given;

	if (node->nodes > 1 && !roami_release_needless(node))
		return false;
	lock = lock_short(node, id);
	if (lock == NULL)
		return false;
	given = lock->holder == node->env->thread(node) + 1 &&
		lock->tickets == lock->serving + 1 &&
		(node->nodes == 1 || lock->mode->follower(node, lock) == ROAM_NOBODY);
	if (given) {
		lock->holder = 0;
		lock->serving++;
		lock->mode->pass(node, lock, false);
		if (lock->next != ROAM_NOBODY)
			lock_give_late(node, lock);
	}
	roami_spin_unlock(&lock->spin);
	return given;
}

/* The lock that a call wants, ready to be requested. */
static struct roami_lock *lock_wanted(struct roami_node *node, const struct roam_sync *sync)
{
	struct roami_lock *lock = lock_make(node, sync->id);

	if (atomic_load_explicit(&lock->told, memory_order_acquire) == 0)
		lock_ready(node, lock);
	if (roami_scoped(node)) { /* what was written before belongs to no section of this lock */
		roami_release(node, sync);
		roami_release_rest(node);
	}
	return lock;
}

/* Called when the thread holds the lock: begins to see what the last holders wrote. */
static enum roam_err lock_hold(struct roami_node *node, struct roami_lock *lock, bool fresh,
			       const struct roam_sync *sync)
{
	ROAMI_COUNT(node->stats, lock_acquires, 1);
	if (fresh) {
		ROAMI_COUNT(node->stats, lock_remote, 1);
		lock_begin(node, lock, sync);
	}
	if (roami_scoped(node))
		roami_scope_enter(node, &lock->scope);
	return ROAM_OK;
}

/* What ends by itself is no hang. */
static void lock_wait_shown(const struct lock_wait *wait)
{
	bool ends = lock_alarm(wait) != ROAMI_FOREVER;

	roami_node_waits(wait->node, ROAM_SYNC_LOCK + 1, wait->lock->id,
			 ends ? ROAMI_WAITS_ENDS : 0);
}

/* Takes the token if it lies in the record for long enough, and the lock if its turn has come. */
static bool lock_take_kept(struct lock_wait *wait, bool *fresh_p)
{
	struct roami_node *node = wait->node;
	struct roami_lock *lock = wait->lock;
	bool mine;

	roami_spin_lock(node, &lock->spin);
	if (lock_impatient(wait)) {
		wait->patient = 0;
		lock_wait_shown(wait);
	}
	if (lock_ripe(wait))
		lock->mode->seize(node, lock, wait->patient == 0);
	mine = lock_take_now(node, lock, wait->ticket, fresh_p);
	roami_spin_unlock(&lock->spin);
	return mine;
}

/* Waits for the turn of wait->ticket and takes the lock; false: it is too late. */
static bool lock_await(struct lock_wait *wait, bool *fresh_p)
{
	struct roami_node *node = wait->node;
	struct roami_lock *lock = wait->lock;
	uint64_t start = roami_os_cycles();
	bool forever = wait->until == ROAMI_FOREVER, mine;

	lock_wait_shown(wait);
	if (!forever)
		roami_wait_until(node, wait->until);
	roami_wait_ticket(node, wait->ticket, lock_next, wait);
	if (lock->record != NULL)
		wait->patient = node->env->now(node) + PATIENCE_NS;
	lock_wait_shown(wait);
	do {
		roami_wait_until(node, lock_alarm(wait));
		wait->grants = record_grants(lock);
		roami_wait(node, lock_turn, wait);
		mine = lock_take_kept(wait, fresh_p);
	} while (!mine && !lock_late(wait));
	roami_wait_until(node, ROAMI_FOREVER);
	roami_node_waits_no_more(node);
	ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	return mine;
}

enum roam_err roami_lock_until(struct roami_node *node, uint64_t id, uint64_t until)
{
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	struct roami_lock *lock = lock_wanted(node, &sync);
	struct lock_wait wait = {.node = node, .lock = lock, .until = until};
	bool fresh = false, mine;

	roami_spin_lock(node, &lock->spin);
	if (lock->holder == node->env->thread(node) + 1) {
		roami_spin_unlock(&lock->spin);
		return ROAM_ESTATE;
	}
	wait.ticket = lock_ticket(node, lock);
	if (!lock->token && !lock->asked)
		lock->mode->ask(node, lock, false);
	mine = lock_take_now(node, lock, wait.ticket, &fresh);
	roami_spin_unlock(&lock->spin);
	if (!mine && !lock_await(&wait, &fresh)) {
		lock_leave(node, lock, wait.ticket);
		return ROAM_ETIMEDOUT;
	}
	return lock_hold(node, lock, fresh, &sync);
}

enum roam_err roami_lock(struct roami_node *node, uint64_t id)
{
	if (roami_lock_quick(node, id))
		return ROAM_OK;
	return roami_lock_until(node, id, ROAMI_FOREVER);
}

/* The previous node of the queue has granted the token, or said that its section goes on. */
static bool lock_told(void *arg)
{
	struct lock_wait *wait = arg;
	bool told;

	roami_spin_lock(wait->node, &wait->lock->spin);
	told = wait->lock->busy || !wait->lock->asked;
	roami_spin_unlock(&wait->lock->spin);
	return told;
}

enum roam_err roami_lock_try(struct roami_node *node, uint64_t id)
{
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	struct roami_lock *lock = lock_wanted(node, &sync);
	struct lock_wait wait = {.node = node, .lock = lock, .until = ROAMI_FOREVER};
	bool fresh = false, asks = false;

	roami_spin_lock(node, &lock->spin);
	if (lock->asked || lock->tickets != lock->serving || lock->next != ROAM_NOBODY) {
		roami_spin_unlock(&lock->spin);
		return ROAM_EBUSY;
	}
	wait.ticket = lock->tickets++;
	if (!lock->token) {
		lock->mode->ask(node, lock, true);
		asks = lock->asked;
	}
	roami_spin_unlock(&lock->spin);
	if (asks)
		roami_wait(node, lock_told, &wait);
	if (!lock_take(node, lock, wait.ticket, &fresh)) {
		lock_leave(node, lock, wait.ticket);
		return ROAM_EBUSY;
	}
	return lock_hold(node, lock, fresh, &sync);
}

bool roami_lock_held(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, id);

	return lock != NULL && lock->holder == node->env->thread(node) + 1;
}

/* Frees the lock and passes it on.  Returns whether own threads wait.  The spin is held. */
static bool lock_let_go(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	lock->holder = 0;
	lock->serving++;
	return lock_pass_on(node, lock);
}

enum roam_err roami_unlock(struct roami_node *node, uint64_t id)
{
	return roami_unlock_quick(node, id) ? ROAM_OK : roami_unlock_whole(node, id);
}

enum roam_err roami_unlock_whole(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(&sync_of(node)->locks, id);
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	bool waiters;

	if (lock == NULL || lock->holder != node->env->thread(node) + 1)
		return ROAM_ENOTHELD;
	roami_release(node, &sync);
	if (roami_scoped(node))
		roami_scope_leave(node, &lock->scope);
	roami_spin_lock(node, &lock->spin);
	waiters = lock_let_go(node, lock);
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
	roami_release_rest(node);
	return ROAM_OK;
}

/* ------------------------------------------------------------------------------------ handlers */

/* Fails if this node has ended holding the lock, so that `next` waits for ever. */
static void lock_abandoned(struct roami_node *node, const struct roami_lock *lock, unsigned next)
{
	roami_contract(roami_spin_held(&lock->spin));
	if (lock->holder != 0 && next != ROAM_NOBODY && atomic_load(&node->self->ctl->returned))
		roami_node_fail(node, "ended holding lock %#llx, which node %u waits for",
				(unsigned long long)lock->id, next);
}

void roami_lock_check_end(struct roami_node *node)
{
	struct roami_table *table = &sync_of(node)->locks;

	roami_assert(atomic_load(&node->self->ctl->returned) != 0);
	for (uint32_t i = 0; i < table->count; i++) {
		struct roami_lock *lock = roami_table_item(table, i);

		roami_spin_lock(node, &lock->spin);
		if (lock->mode != NULL)
			lock_abandoned(node, lock, lock->mode->follower(node, lock));
		roami_spin_unlock(&lock->spin);
	}
}

bool roami_lock_holds(struct roami_node *node, unsigned thread)
{
	struct roami_table *table = &sync_of(node)->locks;
	bool holds = false;

	roami_assert(thread < ROAMI_THREADS_MAX);
	for (uint32_t i = 0; i < table->count && !holds; i++) {
		struct roami_lock *lock = roami_table_item(table, i);

		roami_spin_lock(node, &lock->spin);
		holds = lock->holder == thread + 1;
		roami_spin_unlock(&lock->spin);
	}
	return holds;
}

void roami_lock_forget(struct roami_node *node, void *item)
{
	struct roami_lock *lock = item;

	atomic_store(&lock->told, 0);
	roami_spin_lock(node, &lock->spin);
	if (lock->holder != 0 && lock_let_go(node, lock))
		roami_changed_ticket(node, lock->serving);
	roami_spin_unlock(&lock->spin);
}

static void lock_parse(struct roami_node *node, const struct roam_request *request,
		       struct lock_request *ask, struct roami_vclock *clock)
{
	size_t clock_bytes = request->bytes - sizeof(*ask);

	roami_contract(roami_msg_polling(node));
	if (request->bytes <= sizeof(*ask))
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
	memcpy(ask, request->data, sizeof(*ask));
	roami_log_bases(node, ask->told, clock, NULL);
	if (ask->node >= node->nodes ||
	    roami_vclock_decode(clock, node->nodes, (const uint8_t *)request->data + sizeof(*ask),
				clock_bytes) != clock_bytes)
		roami_node_fail(node, "node %u sent a malformed lock request", request->from);
}

static void lock_handle_request(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roam_part part = {request->data, request->bytes};
	struct roami_lock *lock;
	unsigned tail;

	lock_parse(node, request, &ask, &clock);
	lock = lock_make(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	lock_resolve(node, lock);
	if (lock->record != NULL)
		roami_node_fail(node, "node %u requests lock %#llx by message, not in its record",
				request->from, (unsigned long long)ask.id);
	tail = roami_lock_swap_tail(lock, ask.node);
	roami_spin_unlock(&lock->spin);
	roami_msg_send(node, tail, lock_type(node, LOCK_FORWARD), &part, 1);
}

static void lock_handle_forward(struct roami_node *node, const struct roam_request *request)
{
	struct lock_request ask;
	struct roami_vclock clock;
	struct roami_lock *lock;

	lock_parse(node, request, &ask, &clock);
	lock = lock_make(node, ask.id);
	roami_spin_lock(node, &lock->spin);
	lock_abandoned(node, lock, ask.node);
	if (lock->record != NULL) { /* linked: only told because this node has ended */
		roami_spin_unlock(&lock->spin);
		return;
	}
	if (lock->next != ROAM_NOBODY || ask.node == node->me)
		roami_node_fail(node, "lock %#llx: two nodes follow this one in its queue",
				(unsigned long long)ask.id);
	lock->next = (uint16_t)ask.node;
	memcpy(lock->next_clock, clock.at, node->nodes * sizeof(clock.at[0]));
	lock->next_number = ask.number;
	lock->next_after = lock->tickets;
	if (lock->token && lock->serving == lock->tickets) {
		lock_grant(node, lock);
		lock->asked = false;
	} else if (ask.trying != 0) {
		struct roam_part part = {&ask.id, sizeof(ask.id)};

		roami_msg_send(node, ask.node, lock_type(node, LOCK_BUSY), &part, 1);
	}
	roami_spin_unlock(&lock->spin);
}

/* The lock that this node tried to get does not come at once. */
static void lock_handle_busy(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes != sizeof(id))
		roami_node_fail(node, "node %u sent a malformed answer about a lock",
				request->from);
	memcpy(&id, request->data, sizeof(id));
	lock = lock_make(node, id);
	roami_spin_lock(node, &lock->spin);
	lock->busy = true;
	roami_spin_unlock(&lock->spin);
}

static void lock_handle_notices(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes < sizeof(id))
		roami_node_fail(node, "node %u sent malformed lock notices", request->from);
	memcpy(&id, request->data, sizeof(id));
	lock = lock_make(node, id);
	roami_spin_lock(node, &lock->spin);
	roami_scope_learn(node, &lock->scope, request, sizeof(id));
	roami_spin_unlock(&lock->spin);
}

static void lock_handle_grant(struct roami_node *node, const struct roam_request *request)
{
	struct roami_vclock clock = {{0}};
	struct roami_lock *lock;
	struct lock_grant grant;
	bool waiters = false;

	roami_contract(roami_msg_polling(node));
	if (request->bytes <= sizeof(grant) ||
	    roami_vclock_decode(&clock, node->nodes, (const uint8_t *)request->data + sizeof(grant),
				request->bytes - sizeof(grant)) != request->bytes - sizeof(grant))
		roami_node_fail(node, "node %u sent a malformed lock grant", request->from);
	memcpy(&grant, request->data, sizeof(grant));
	roami_log_saw(node, &clock);
	lock = lock_make(node, grant.id);
	roami_spin_lock(node, &lock->spin);
	if (lock->token || !lock->asked)
		roami_node_fail(node, "node %u granted lock %#llx, which was not requested",
				request->from, (unsigned long long)grant.id);
	lock->scope.number = grant.number;
	lock->token = true;
	lock->asked = false;
	lock->fresh = true;
	roami_lock_calm(node, lock);
	if (lock->serving == lock->tickets ||
	    (lock->next != ROAM_NOBODY && lock->serving == lock->next_after))
		waiters = lock_pass_on(node, lock); /* those it was for have given up */
	roami_spin_unlock(&lock->spin);
	if (waiters)
		roami_changed_ticket(node, lock->serving);
}

static const struct roam_message locks_messages[] = {
	[LOCK_REQUEST] = {"lock request", lock_handle_request, 1024},
	[LOCK_FORWARD] = {"lock forward", lock_handle_forward, 1024},
	[LOCK_NOTICES] = {"lock notices", lock_handle_notices, ROAMI_MSG_MAX},
	[LOCK_GRANT] = {"lock grant", lock_handle_grant, 1024},
	[LOCK_BUSY] = {"lock busy", lock_handle_busy, 8},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_locks = {.name = "locks", .messages = locks_messages};
