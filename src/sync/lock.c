/*
 * Distributed queue locks (rule 5.1): request -> home (swap of the tail) -> the previous tail ->
 * grant straight to the requester. A node that holds the token serves its own threads without a
 * message, those first that came before a forward arrived.
 *
 * On one host the requester itself swaps the tail, in the lock's record at the home, and links
 * itself behind the previous tail, which looks at its link when it unlocks.  A token that no node
 * asked for goes back to the record, with the clock that its holder had seen; the next node then
 * takes it without any other node's CPU.
 *
 * Under ScC the token brings the lock's list of notices instead of a clock (scope.h), always by
 * message.
 */
#include <string.h>

#include "msg/msg.h"
#include "sync/log.h"
#include "sync/sync.h"
#include "sync/sync_state.h"

/* Messages. */
enum { LOCK_REQUEST, LOCK_FORWARD, LOCK_NOTICES, LOCK_GRANT };

static unsigned lock_type(const struct roami_node *node, unsigned message)
{
	roami_contract(message <= LOCK_GRANT);
	return roami_type(node, ROAMI_ROOM_LOCKS, message);
}

/* What request and forward carry, before the requester's clock. */
struct lock_request {
	uint64_t id;
	uint32_t node;
	uint32_t spare;
	uint64_t number; /* the last notice of the lock's list that it has */
	uint64_t told;   /* what its clock is encoded against, see roami_log_told */
};

/* What a grant carries, before the granter's clock. */
struct lock_grant {
	uint64_t id;
	uint64_t number; /* of the newest notice that was ever in the lock's list */
};

/* A record's word: the tail, and whether a node has the token or waits for it.  New: 0. */
#define WORD_TAIL  0xffffu
#define WORD_TAKEN 0x10000u

struct lock_wait {
	struct roami_node *node;
	struct roami_lock *lock;
	uint32_t ticket;
	uint32_t grants;   /* of the record, when it looked last */
};

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
}

static struct roami_lock *lock_make(struct roami_node *node, uint64_t id)
{
	return roami_table_make(node, &sync_of(node)->locks, id);
}

/* -------------------------------------------------------------------------------- the lock word */

/* The token lies in the record: takes what its last holder had seen.  The spin is held. */
static void record_learn(struct roami_node *node, struct roami_lock *lock)
{
	struct roami_vclock clock;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	for (unsigned peer = 0; peer < node->nodes; peer++) {
		clock.at[peer] = atomic_load_explicit(&lock->record->clock[peer],
						      memory_order_relaxed);
		roami_step(node);
	}
	roami_log_saw(node, &clock);
	lock->fresh = true;
}

/*
 * Takes the token if it lies in the record, and returns ROAM_NOBODY; else queues behind the
 * previous tail, which it returns.  The spin is held.
 */
static unsigned record_take(struct roami_node *node, struct roami_lock *lock)
{
	uint32_t word = atomic_load_explicit(&lock->record->word, memory_order_relaxed);
	unsigned tail;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(!lock->token && !lock->asked);
	do {
		roami_step(node);
		tail = word & WORD_TAIL;
		if (tail >= node->nodes || ((word & WORD_TAKEN) != 0 && tail == node->me))
			roami_node_fail(node, "the word of lock %#llx is corrupt",
					(unsigned long long)lock->id);
	} while (!atomic_compare_exchange_weak(&lock->record->word, &word, WORD_TAKEN | node->me));
	if ((word & WORD_TAKEN) != 0)
		return tail;
	lock->token = true;
	if (tail != node->me)
		record_learn(node, lock);
	return ROAM_NOBODY;
}

/* Where the node that follows `behind` in the queue links itself: its number + 1. */
static _Atomic uint32_t *record_link(const struct roami_node *node, const struct roami_lock *lock,
				     unsigned behind)
{
	_Atomic uint32_t *links = (void *)&lock->record->clock[node->nodes];

	roami_contract(behind < node->nodes);
	return links + behind;
}

/*
 * Puts the token back, after the release, unless another node is queued behind this one.  The clock
 * must be in the record before the token is.  The spin is held.
 */
static void record_free(struct roami_node *node, struct roami_lock *lock)
{
	uint32_t word = WORD_TAKEN | node->me;
	struct roami_vclock seen;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	if (atomic_load_explicit(&lock->record->word, memory_order_relaxed) != word)
		return;
	roami_log_seen(node, &seen);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		atomic_store_explicit(&lock->record->clock[peer], seen.at[peer],
				      memory_order_relaxed);
	roami_step(node);
	if (atomic_compare_exchange_strong(&lock->record->word, &word, node->me))
		lock->token = false;
}

/*
 * At an unlock: finds the next node; if there is none and no own thread waits, the token goes back.
 * A node that has swapped the tail is about to link itself, so spin for it.  The spin is held.
 */
static void record_pass(struct roami_node *node, struct roami_lock *lock, bool waiters)
{
	_Atomic uint32_t *link = record_link(node, lock, node->me);
	uint32_t next = atomic_load(link);

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	if (lock->next != ROAM_NOBODY)
		return;
	if (next == 0 && !waiters) {
		record_free(node, lock);
		for (unsigned turn = 0; lock->token && (next = atomic_load(link)) == 0; turn++)
			node->env->spin(node, turn);
	}
	if (next == 0)
		return;
	if (next > node->nodes || next == node->me + 1)
		roami_node_fail(node, "a link of lock %#llx is corrupt",
				(unsigned long long)lock->id);
	atomic_store(link, 0);
	lock->next = (uint16_t)(next - 1);
	lock->next_after = lock->tickets;
}

/*
 * Links this node behind node `tail`.  True if that node has ended without passing the token on: it
 * will not look at its link, so the caller tells it by message.
 */
static bool record_follow(struct roami_node *node, struct roami_lock *lock, unsigned tail)
{
	_Atomic uint32_t *link = record_link(node, lock, tail);

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(tail < node->nodes && tail != node->me);
	roami_step(node);
	atomic_store(link, node->me + 1);
	return atomic_load(&node->segments[tail].ctl->returned) != 0 &&
	       atomic_load(link) == node->me + 1;
}

static unsigned record_follower(struct roami_node *node, const struct roami_lock *lock)
{
	uint32_t link = atomic_load(record_link(node, lock, node->me));

	roami_contract(roami_spin_held(&lock->spin));
	return link != 0 ? link - 1 : lock->next;
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

	roami_contract(roami_spin_held(&lock->spin));
	roami_assert(lock->token && next != ROAM_NOBODY);
	if (lock->record != NULL)
		atomic_store_explicit(&lock->record->grants, record_grants(lock) + 1,
				      memory_order_relaxed);
	lock->token = false;
	lock->next = ROAM_NOBODY;
	roami_log_know(node, next, &lock->next_clock);
	if (roami_scoped(node)) {
		roami_scope_send(node, next, lock_type(node, LOCK_NOTICES),
				 lock->id, &lock->scope, lock->next_number);
		roami_log_send_upto(node, next, &nothing, &nothing,
				    lock_type(node, LOCK_GRANT), &part, 1);
		return;
	}
	roami_log_send(node, next, &lock->next_clock, lock_type(node, LOCK_GRANT), &part, 1);
}

/* A request by this node: the lock, and up to where this node has its notices. */
struct lock_ask {
	struct lock_request request;
	struct roami_vclock_wire wire;
	struct roam_part parts[2];
};

static void lock_ask_fill(struct roami_node *node, const struct roami_lock *lock,
			  struct lock_ask *ask)
{
	struct roami_vclock clock, told;

	roami_contract(roami_spin_held(&lock->spin));
	ask->request = (struct lock_request){lock->id, node->me, 0, lock->scope.number, 0};
	ask->request.told = roami_log_told(node, &told);
	roami_log_clock(node, &clock);
	ask->parts[0] = (struct roam_part){&ask->request, sizeof(ask->request)};
	ask->parts[1] = (struct roam_part){
		&ask->wire, roami_vclock_encode(&clock, &told, node->nodes, &ask->wire)};
}

static void record_ask(struct roami_node *node, struct roami_lock *lock)
{
	unsigned tail = record_take(node, lock);
	struct lock_ask ask;

	roami_contract(lock->record != NULL);
	if (tail == ROAM_NOBODY)
		return;
	lock->asked = true;
	if (!record_follow(node, lock, tail))
		return;
	lock_ask_fill(node, lock, &ask);
	roami_msg_send(node, tail, lock_type(node, LOCK_FORWARD), ask.parts, 2);
}

static void messages_ask(struct roami_node *node, struct roami_lock *lock)
{
	unsigned home = roami_sync_home(node, lock->id), tail = lock->tail;
	struct lock_ask ask;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(!lock->token && !lock->asked);
	lock->asked = true;
	lock_ask_fill(node, lock, &ask);
	if (home != node->me) {
		roami_msg_send(node, home, lock_type(node, LOCK_REQUEST), ask.parts, 2);
		return;
	}
	/* The tail is this node's to swap: the request goes straight to the previous one. */
	roami_assert(tail != node->me);
	lock->tail = (uint16_t)node->me;
	roami_msg_send(node, tail, lock_type(node, LOCK_FORWARD), ask.parts, 2);
}

/* A node that follows says so by message, before the unlock or after it. */
static void messages_pass(struct roami_node *node, struct roami_lock *lock, bool waiters)
{
	(void)node;
	(void)waiters;
	roami_contract(roami_spin_held(&lock->spin) && lock->record == NULL);
}

static unsigned messages_follower(struct roami_node *node, const struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	(void)node;
	return lock->next;
}

static const struct roami_lock_mode lock_record = {record_ask, record_pass, record_follower};
static const struct roami_lock_mode lock_messages = {messages_ask, messages_pass,
						     messages_follower};

/* Finds out where the queue is kept.  The lock's spin is held. */
static void lock_resolve(struct roami_node *node, struct roami_lock *lock)
{
	unsigned home = roami_sync_home(node, lock->id);

	roami_contract(roami_spin_held(&lock->spin));
	if (lock->mode != NULL)
		return;
	lock->record = roami_resolve_record(
		node, home, roami_scoped(node) ? NULL : &sync_of(node)->lock_records, lock->id);
	lock->token = lock->record == NULL && home == node->me;
	lock->mode = lock->record != NULL ? &lock_record : &lock_messages;
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

/* The threads of this node that came before have had the lock. */
static bool lock_next(void *arg)
{
	struct lock_wait *wait = arg;

	return atomic_load(&wait->lock->serving) == wait->ticket;
}

/*
 * Also true when others had their turn: the wait begins anew.  A thread that slept while the lock
 * goes round would cost each round a wake-up.
 */
static bool lock_turn(void *arg)
{
	struct lock_wait *wait = arg;
	bool turn;

	if (record_grants(wait->lock) != wait->grants)
		return true;
	roami_spin_lock(wait->node, &wait->lock->spin);
	turn = lock_may_hold(wait->lock, wait->ticket);
	roami_spin_unlock(&wait->lock->spin);
	return turn;
}

/* --------------------------------------------------------------------------------------- calls */

/*
 * Takes the lock for the calling thread if its turn has come; the acquire is still to be done if
 * *fresh_p.
 */
static bool lock_take(struct roami_node *node, struct roami_lock *lock, uint32_t ticket,
		      bool *fresh_p)
{
	bool mine;

	roami_spin_lock(node, &lock->spin);
	roami_contract(lock->holder != node->env->thread(node) + 1);
	mine = lock_may_hold(lock, ticket);
	if (mine) {
		lock->holder = node->env->thread(node) + 1;
		*fresh_p = lock->fresh;
		lock->fresh = false;
	}
	roami_spin_unlock(&lock->spin);
	return mine;
}

/* The token came from another node. */
static void lock_begin(struct roami_node *node, struct roami_lock *lock,
		       const struct roam_sync *sync)
{
	roami_contract(lock->holder == node->env->thread(node) + 1);
	if (roami_scoped(node))
		roami_acquire_scope(node, sync, &lock->scope);
	else
		roami_acquire(node, sync);
}

enum roam_err roami_lock(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = lock_make(node, id);
	struct roam_sync sync = {ROAM_SYNC_LOCK, false, id, false};
	struct lock_wait wait = {node, lock, 0, 0};
	bool fresh = false;

	if (atomic_load_explicit(&lock->told, memory_order_acquire) == 0)
		lock_ready(node, lock);
	if (roami_scoped(node)) { /* what was written before belongs to no section of this lock */
		roami_release(node, &sync);
		roami_release_rest(node);
	}
	roami_spin_lock(node, &lock->spin);
	if (lock->holder == node->env->thread(node) + 1) {
		roami_spin_unlock(&lock->spin);
		return ROAM_ESTATE;
	}
	wait.ticket = lock->tickets++;
	if (!lock->token && !lock->asked)
		lock->mode->ask(node, lock);
	roami_spin_unlock(&lock->spin);
	if (!lock_take(node, lock, wait.ticket, &fresh)) {
		uint64_t start = roami_os_cycles();

		roami_node_waits(node, ROAM_SYNC_LOCK + 1, lock->id, 0);
		roami_wait_ticket(node, wait.ticket, lock_next, &wait);
		do {
			wait.grants = record_grants(lock);
			roami_wait(node, lock_turn, &wait);
		} while (!lock_take(node, lock, wait.ticket, &fresh));
		roami_node_waits_no_more(node);
		ROAMI_TIME(node->stats, lock, roami_os_cycles() - start);
	}
	ROAMI_COUNT(node->stats, lock_acquires, 1);
	if (fresh) {
		ROAMI_COUNT(node->stats, lock_remote, 1);
		lock_begin(node, lock, &sync);
	}
	if (roami_scoped(node))
		roami_scope_enter(node, &lock->scope);
	return ROAM_OK;
}

bool roami_lock_held(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(node, &sync_of(node)->locks, id);

	return lock != NULL && lock->holder == node->env->thread(node) + 1;
}

/* Frees the lock, and grants the token to the next node.  Whether own threads wait; spin held. */
static bool lock_let_go(struct roami_node *node, struct roami_lock *lock)
{
	bool waiters;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	lock->holder = 0;
	lock->serving++;
	waiters = lock->tickets != lock->serving;
	lock->mode->pass(node, lock, waiters);
	if (lock->next != ROAM_NOBODY && lock->serving == lock->next_after) {
		lock_grant(node, lock);
		lock->asked = false;
		if (waiters)
			lock->mode->ask(node, lock);
	}
	return waiters;
}

enum roam_err roami_unlock(struct roami_node *node, uint64_t id)
{
	struct roami_lock *lock = roami_table_find(node, &sync_of(node)->locks, id);
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
		roami_node_fail(node, "node %u asks for lock %#llx by message", request->from,
				(unsigned long long)ask.id);
	tail = lock->tail;
	lock->tail = (uint16_t)ask.node;
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
		roami_node_fail(node, "lock %#llx: two nodes were told to come next",
				(unsigned long long)ask.id);
	lock->next = (uint16_t)ask.node;
	roami_vclock_copy(&lock->next_clock, &clock, node->nodes);
	lock->next_number = ask.number;
	lock->next_after = lock->tickets;
	if (lock->token && lock->serving == lock->tickets) {
		lock_grant(node, lock);
		lock->asked = false;
	}
	roami_spin_unlock(&lock->spin);
}

static void lock_handle_notices(struct roami_node *node, const struct roam_request *request)
{
	struct roami_lock *lock;
	uint64_t id;

	roami_contract(roami_msg_polling(node));
	if (request->bytes < sizeof(id))
		roami_node_fail(node, "node %u sent malformed notices", request->from);
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

	roami_contract(roami_msg_polling(node));
	if (request->bytes <= sizeof(grant) ||
	    roami_vclock_decode(&clock, node->nodes, (const uint8_t *)request->data + sizeof(grant),
				request->bytes - sizeof(grant)) != request->bytes - sizeof(grant))
		roami_node_fail(node, "node %u sent a malformed grant", request->from);
	memcpy(&grant, request->data, sizeof(grant));
	roami_log_saw(node, &clock);
	lock = lock_make(node, grant.id);
	roami_spin_lock(node, &lock->spin);
	if (lock->token || !lock->asked)
		roami_node_fail(node, "node %u granted lock %#llx unasked", request->from,
				(unsigned long long)grant.id);
	lock->scope.number = grant.number;
	lock->token = true;
	lock->asked = false;
	lock->fresh = true;
	roami_spin_unlock(&lock->spin);
}

static const struct roam_message locks_messages[] = {
	[LOCK_REQUEST] = {"lock request", lock_handle_request, 1024},
	[LOCK_FORWARD] = {"lock forward", lock_handle_forward, 1024},
	[LOCK_NOTICES] = {"lock notices", lock_handle_notices, ROAMI_MSG_MAX},
	[LOCK_GRANT] = {"lock grant", lock_handle_grant, 1024},
	{NULL, NULL, 0},
};

const struct roami_room roami_room_locks = {.name = "locks", .messages = locks_messages};
