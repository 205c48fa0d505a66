/*
 * The queue of a lock on one host (rule 5.1).  The requester itself swaps the tail, in the lock's
 * record at the home, and links itself behind the previous tail, which looks at its link when it
 * unlocks.  A token that no node asked for goes back to the record, with the clock that its holder
 * had seen; the next node then takes it without any other node's CPU.
 *
 * A lock that each thread takes again soon would go to and fro at each unlock, with the pages that
 * are written under it.  So a node keeps it for a while when another one is queued: the token lies
 * in the record, for both.  The one that follows takes it when it has lain there for KEEP_NS, or
 * when it has waited for PATIENCE_NS (lock.c); then it says that it has hurry, and from then on, as
 * before it sleeps for good, the token is granted to it at the next unlock.  A token that was kept
 * in vain makes the node keep the lock less often.
 */
#include "sync/lock.h"
#include "sync/log.h"

#define LOST_MAX 6u /* of lock->lost: 2 to this power turns without keeping the token */

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
 * previous tail, which it returns; `trying`: it queues not.  The spin is held.
 */
static unsigned record_take(struct roami_node *node, struct roami_lock *lock, bool trying)
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
		if (trying && (word & WORD_TAKEN) != 0)
			return tail;
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

/* Puts into the record what this node has seen.  The spin is held. */
static void record_teach(struct roami_node *node, struct roami_lock *lock)
{
	struct roami_vclock seen;

	roami_contract(roami_spin_held(&lock->spin));
	roami_log_seen(node, &seen);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		atomic_store_explicit(&lock->record->clock[peer], seen.at[peer],
				      memory_order_relaxed);
	roami_step(node);
}

/*
 * Puts the token back, after the release, unless another node is queued behind this one.  The clock
 * must be in the record before the token is.  The spin is held.
 */
static void record_free(struct roami_node *node, struct roami_lock *lock)
{
	uint32_t word = WORD_TAKEN | node->me;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	if (atomic_load_explicit(&lock->record->word, memory_order_relaxed) != word)
		return;
	record_teach(node, lock);
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

static uint64_t hurry_bit(unsigned node)
{
	_Static_assert(ROAMI_NODES_MAX <= 64, "a bit for each node");
	return (uint64_t)1 << node;
}

/* Takes a token from the record that is kept as `word` says, unless the other node has done so. */
static bool record_unkeep(struct roami_node *node, struct roami_lock *lock, uint64_t word)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(!lock->token && (word & KEPT_FOR) != 0);
	roami_step(node);
	if (!atomic_compare_exchange_strong(&lock->record->kept, &word,
					    word & ~(uint64_t)KEPT_FOR))
		return false;
	lock->token = true;
	return true;
}

/* The token that was kept is here again; the turn of the next node comes after this one's. */
static bool record_retake(struct roami_node *node, struct roami_lock *lock)
{
	uint64_t word = lock->kept;

	lock->kept = 0;
	if (word == 0 || !record_unkeep(node, lock, word))
		return false;
	lock->next = (uint16_t)((word & KEPT_FOR) - 1);
	lock->next_after = lock->tickets;
	return true;
}

/*
 * The word is stored before the bit is looked at, and the other node sets the bit before it looks
 * at the word: one of them sees that the other has come.
 */
static bool record_keep(struct roami_node *node, struct roami_lock *lock)
{
	struct roami_lock_record *record = lock->record;
	uint64_t hurry = hurry_bit(lock->next), word = atomic_load(&record->kept);

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0 && (word & KEPT_FOR) == 0);
	if ((atomic_load(&record->hurry) & hurry) != 0)
		return false;
	if (lock->grant_now > 0) {
		lock->grant_now--;
		return false;
	}
	record_teach(node, lock);
	lock->kept = word + KEPT_NEXT + lock->next + 1;
	lock->token = false;
	lock->next = ROAM_NOBODY;
	atomic_store(&record->kept, lock->kept);
	roami_step(node);
	return (atomic_load(&record->hurry) & hurry) == 0 || !record_retake(node, lock);
}

void roami_lock_calm(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin) && lock->token);
	if (lock->hurried)
		atomic_fetch_and(&lock->record->hurry, ~hurry_bit(node->me));
	lock->hurried = false;
}

static bool record_seize(struct roami_node *node, struct roami_lock *lock, bool hurry)
{
	uint64_t word;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->asked && !lock->token);
	if (hurry && !lock->hurried) {
		lock->hurried = true;
		atomic_fetch_or(&lock->record->hurry, hurry_bit(node->me));
		roami_step(node);
	}
	word = roami_lock_kept_for(node, lock);
	if (word == 0 || !record_unkeep(node, lock, word))
		return false;
	lock->asked = false;
	atomic_fetch_add(&lock->record->grants, 1);
	record_learn(node, lock);
	roami_lock_calm(node, lock);
	return true;
}

/* Takes back the token that this node has kept, if it did; notes whether that was worth it. */
static bool record_again(struct roami_node *node, struct roami_lock *lock)
{
	bool again;

	if (lock->kept == 0)
		return false;
	again = record_retake(node, lock);
	if (again)
		lock->lost = 0;
	else if (lock->lost < LOST_MAX)
		lock->lost++;
	if (!again)
		lock->grant_now = 1u << lock->lost;
	return again;
}

static void record_ask(struct roami_node *node, struct roami_lock *lock, bool trying)
{
	unsigned tail;

	roami_contract(lock->record != NULL);
	if (record_again(node, lock))
		return;
	tail = record_take(node, lock, trying);
	if (tail == ROAM_NOBODY || trying)
		return;
	lock->asked = true;
	if (record_follow(node, lock, tail))
		roami_lock_send(node, lock, tail, LOCK_FORWARD, false);
}

const struct roami_lock_mode roami_lock_in_record = {record_ask, record_pass, record_keep,
						      record_seize, record_follower};
