/*
 * The queue of a lock on one host (rule 5.1), in the lock's record at the home.  The token lies
 * there while no node holds it, with the clock that its last holder had seen.  A node takes it by
 * itself, without any other node's CPU, and puts it back at its unlock.  A node that finds it taken
 * swaps the tail and links itself behind the previous one.
 *
 * The queue says who goes first, not who goes next: a node that has no processor at the moment
 * keeps nobody waiting.  The head takes the token as soon as it sees it, unless its last holder is
 * about to take it again, for KEEP_NS; any node that finds the token may take it before the head
 * does:
 *
 *	WORD_CALLED	the head looks at the word, or a call is on its way to it: else the
 *			node that frees the token calls it by message
 *	WORD_EAGER	the head looks, and has waited for EAGER_NS: others that wait leave the
 *			token to it, until it has lain there for OTHERS_NS, because then the head
 *			has lost its processor; trials, which do not wait, take it
 *	WORD_DUE	the head has waited for LIMIT_NS: no other node takes the token
 *	WORD_KEPT	the last holder is about to take the token again, or has done so
 *	WORD_NAPS	the head sleeps until a time that it knows: a holder that is about to
 *			take the token again does not call it.  It was called twice when such a
 *			holder had the token already; each nap is as long as its wait until then,
 *			up to LIMIT_NS
 *
 * So a head that has waited for LIMIT_NS and looks gets the token after at most the section that
 * goes on, and those of the holder's own threads that have come before that.
 *
 * The time counts over the waits of threads that gave up, from when the node had the token last.
 * It does not expire: a node whose waits are short and far apart would never be due, and what it
 * has waited too much is worth one turn.
 *
 * A node that took the token out of turn keeps its place in the queue.  If no thread of it waits
 * when it comes to the head, it is called and leaves; nodes behind it that sleep are called after
 * that, others take the token meanwhile.  A head that gives up leaves, too, but keeps its place
 * while others change the word faster than it can: then it is called at the next unlock.
 */
#include <pthread.h>

#include "msg/msg.h"
#include "sync/lock_word.h"
#include "sync/log.h"

/* ---------------------------------------------------------------------------------- the record */

/* Where the node that follows `behind` in the queue links itself: its number + 1. */
static _Atomic uint32_t *record_link(const struct roami_node *node, const struct roami_lock *lock,
				     unsigned behind)
{
	_Atomic uint32_t *links = (void *)&lock->record->clock[node->nodes];

	roami_contract(behind < node->nodes);
	return links + behind;
}

/* Takes what the last holder had seen.  The spin is held, and the token is here. */
static void record_learn(struct roami_node *node, struct roami_lock *lock)
{
	struct roami_vclock clock;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	roami_step(node);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		clock.at[peer] = atomic_load_explicit(&lock->record->clock[peer],
						      memory_order_relaxed);
	roami_log_saw(node, &clock);
	lock->fresh = true;
}

/* Leaves what this node has seen.  The spin is held, and the token is here. */
static void record_teach(struct roami_node *node, struct roami_lock *lock)
{
	struct roami_vclock seen;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token);
	roami_log_seen(node, &seen);
	for (unsigned peer = 0; peer < node->nodes; peer++)
		atomic_store_explicit(&lock->record->clock[peer], seen.at[peer],
				      memory_order_relaxed);
	roami_step(node);
}

bool roami_record_change(struct roami_node *node, struct roami_lock *lock, uint64_t *word_p,
			 uint64_t to)
{
	bool leaves = word_head(*word_p) == node->me && word_head(to) != node->me;

	roami_contract(roami_spin_held(&lock->spin));
	roami_step(node);
	if (!atomic_compare_exchange_strong(&lock->record->word, word_p, to))
		return false;
	if (leaves) { /* no node links itself behind this one before it queues again */
		atomic_store(record_link(node, lock, node->me), 0);
		lock->queued = false;
	}
	return true;
}

/*
 * The word when this node, at the head, leaves the queue.  It stays there if the node behind it has
 * not linked itself yet.  The spin is held.
 */
static uint64_t record_behind(struct roami_node *node, const struct roami_lock *lock, uint64_t word)
{
	uint64_t to = word & ~(WORD_OF_HEAD | WORD_KEPT), next;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(word_head(word) == node->me);
	if (word_tail(word) == node->me)
		return to & ~(WORD_HEAD | WORD_TAIL);
	next = atomic_load(record_link(node, lock, node->me));
	if (next > node->nodes || next == node->me + 1)
		roami_node_fail(node, "a link of lock %#llx is corrupt",
				(unsigned long long)lock->id);
	return next == 0 ? to : (to & ~WORD_HEAD) | next << WORD_HEAD_AT;
}

/*
 * Tells the head that the token lies in the record, which it would sleep over, or is with a node
 * that has ended.  The spin is held.
 */
static void record_call(struct roami_node *node, const struct roami_lock *lock, unsigned head)
{
	struct roam_part part = {&lock->id, sizeof(lock->id)};
	int was;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(head < node->nodes && head != node->me);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was); /* an unlock is none */
	roami_msg_send(node, head, roami_lock_type(node, LOCK_CALL), &part, 1);
	pthread_setcancelstate(was, NULL);
}

/* The head of a word under which the token will be free, if it has to be called; *to_p says so. */
static unsigned word_calls(uint64_t *to_p)
{
	unsigned head = word_head(*to_p);

	roami_contract(word_free(*to_p));
	if (head == ROAM_NOBODY || (*to_p & WORD_CALLED) != 0)
		return ROAM_NOBODY;
	*to_p |= WORD_CALLED;
	return head;
}

/* ------------------------------------------------------------------------------- taken and free */

/* The word when this node takes the token.  The spin is held. */
static uint64_t record_taken(struct roami_node *node, const struct roami_lock *lock, uint64_t word)
{
	uint64_t lost = word_holder(word) == node->me ? 0 : WORD_KEPT;
	uint64_t to = word & ~(WORD_HOLDER | WORD_EAGER | lost);

	roami_contract(roami_spin_held(&lock->spin));
	to = (to | WORD_TAKEN | node->me) + WORD_SERIAL;
	return word_head(word) == node->me ? record_behind(node, lock, to) : to;
}

/* The token has been taken; the word was `word` before.  The spin is held. */
static void record_has(struct roami_node *node, struct roami_lock *lock, uint64_t word)
{
	roami_contract(roami_spin_held(&lock->spin) && !lock->token);
	lock->token = true;
	lock->waited = 0;
	if (word_holder(word) != node->me)
		record_learn(node, lock);
}

bool roami_record_take(struct roami_node *node, struct roami_lock *lock, uint64_t *word_p)
{
	roami_contract(!lock->token && word_free(*word_p));
	if (!roami_record_change(node, lock, word_p, record_taken(node, lock, *word_p)))
		return false;
	record_has(node, lock, *word_p);
	return true;
}

/*
 * Takes the token if it lies there and no node waits: the usual case, and most of it is here.  The
 * spin is held.
 */
static bool record_take_alone(struct roami_node *node, struct roami_lock *lock)
{
	uint64_t word = roami_lock_word(lock);

	roami_contract(roami_spin_held(&lock->spin) && !lock->token);
	if (word_without_serial(word) > WORD_HOLDER || word_holder(word) >= node->nodes)
		return false;
	roami_step(node);
	if (!atomic_compare_exchange_strong(
		    &lock->record->word, &word,
		    ((word & ~WORD_HOLDER) | WORD_TAKEN | node->me) + WORD_SERIAL))
		return false;
	record_has(node, lock, word);
	return true;
}

/*
 * Notes whether this node wants the token again so soon that it is worth to keep it at an unlock.
 * The spin is held.
 */
static void record_wants(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	if (lock->freed == 0)
		return;
	lock->keeps = node->env->now(node) - lock->freed < KEEP_NS;
	lock->freed = 0;
}

/* Puts the token back if no node waits.  The spin is held. */
static bool record_free_alone(const struct roami_node *node, struct roami_lock *lock, uint64_t word)
{
	roami_contract(roami_spin_held(&lock->spin));
	if (word_without_serial(word) != (WORD_TAKEN | node->me) ||
	    !atomic_compare_exchange_strong(&lock->record->word, &word, word & ~WORD_TAKEN))
		return false;
	lock->token = false;
	return true;
}

/*
 * Puts the token back, after the release.  The clock must be in the record before the token is.
 * `again`: this node may take it again soon.  A node that has swapped the tail is about to link
 * itself, so spin for it.  The spin is held.
 */
static void record_free(struct roami_node *node, struct roami_lock *lock, bool again)
{
	uint64_t word = roami_lock_word(lock), to;
	unsigned call, turn = 0;
	bool keeps;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	record_teach(node, lock);
	if (record_free_alone(node, lock, word))
		return;
	word = roami_lock_word(lock);
	again = again && word_head(word) != ROAM_NOBODY && word_head(word) != node->me;
	do {
		while (word_head(word) == node->me &&
		       word_head(record_behind(node, lock, word)) == node->me) {
			node->env->spin(node, turn++);
			word = roami_lock_word(lock);
		}
		to = word & ~(WORD_TAKEN | WORD_KEPT);
		if (word_head(word) == node->me)
			to = record_behind(node, lock, to);
		keeps = again && lock->keeps && (to & (WORD_EAGER | WORD_DUE)) == 0;
		if (keeps)
			to |= WORD_KEPT;
		call = keeps && (to & WORD_NAPS) != 0 ? ROAM_NOBODY : word_calls(&to);
	} while (!roami_record_change(node, lock, &word, to));
	lock->token = false;
	if (call != ROAM_NOBODY)
		record_call(node, lock, call);
	lock->freed = again ? node->env->now(node) : 0;
}

/* ----------------------------------------------------------------------------------- the queue */

/* Whether the token is with a node that has ended, so that nobody gets it any more. */
static bool record_ended(const struct roami_node *node, uint64_t word)
{
	return !word_free(word) &&
	       atomic_load(&node->segments[word_holder(word)].ctl->returned) != 0;
}

/* The word when this node queues. */
static uint64_t word_queued(const struct roami_node *node, uint64_t word)
{
	uint64_t me = node->me + 1;

	roami_contract(word_head(word) != node->me);
	if (word_head(word) == ROAM_NOBODY)
		word |= me << WORD_HEAD_AT | WORD_CALLED; /* its thread is about to look */
	return (word & ~WORD_TAIL) | me << WORD_TAIL_AT;
}

/*
 * This node has queued; the word was `word` before.  A holder that has ended will not look at the
 * queue, so it is told by message.  The spin is held.
 */
static void record_follow(struct roami_node *node, struct roami_lock *lock, uint64_t word)
{
	unsigned tail = word_tail(word);

	roami_contract(roami_spin_held(&lock->spin));
	lock->queued = true;
	roami_step(node);
	if (tail != ROAM_NOBODY)
		atomic_store(record_link(node, lock, tail), node->me + 1);
	if (record_ended(node, word))
		roami_lock_send(node, lock, word_holder(word), LOCK_FORWARD, false);
}

/* Fails if this node, which has not the token, cannot make anything of the word. */
static void record_check(struct roami_node *node, const struct roami_lock *lock, uint64_t word)
{
	unsigned head = word_head(word), tail = word_tail(word);

	if (word_holder(word) >= node->nodes || (head == ROAM_NOBODY) != (tail == ROAM_NOBODY) ||
	    (head != ROAM_NOBODY && (head >= node->nodes || tail >= node->nodes)) ||
	    (!word_free(word) && word_holder(word) == node->me))
		roami_node_fail(node, "the word of lock %#llx is corrupt",
				(unsigned long long)lock->id);
}

/* Whether a call that asks in this way may take the token, which lies there or not. */
static bool ask_may_take(const struct roami_node *node, enum roami_lock_ask how, uint64_t word)
{
	if (how == ROAMI_ASK_TRY)
		return word_free(word) && (word_head(word) == node->me || (word & WORD_DUE) == 0);
	return how != ROAMI_ASK_LATER && word_open(node, word);
}

static void record_ask(struct roami_node *node, struct roami_lock *lock, enum roami_lock_ask how)
{
	uint64_t word = roami_lock_word(lock);
	bool done = false;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(!lock->token && !lock->asked && lock->record != NULL);
	record_wants(node, lock);
	if (how != ROAMI_ASK_LATER && record_take_alone(node, lock))
		return;
	if (lock->queued && lock->tickets - lock->serving > 1)
		return; /* another thread looks */
	while (!done) {
		record_check(node, lock, word);
		if (ask_may_take(node, how, word))
			done = roami_record_take(node, lock, &word);
		else if (how == ROAMI_ASK_TRY || how == ROAMI_ASK_QUICK || lock->queued)
			done = true;
		else if ((done = roami_record_change(node, lock, &word, word_queued(node, word))))
			record_follow(node, lock, word);
	}
}

/*
 * This node, at the head, could not leave, because others change the word meanwhile.  It may keep
 * its place if the token is taken: it says no more that it looks, so that the node that frees
 * the token calls it.  The spin is held.
 */
static bool record_stays(struct roami_node *node, const struct roami_lock *lock,
			 uint64_t *word_p)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_step(node);
	*word_p = atomic_fetch_and(&lock->record->word, ~WORD_OF_HEAD) & ~WORD_OF_HEAD;
	roami_contract(word_head(*word_p) == node->me);
	return !word_free(*word_p) && !record_ended(node, *word_p);
}

/*
 * This node, at the head, leaves the queue with nothing taken, or is called in order to.  The next
 * one is told if the token is free, or will never be.  The spin is held.
 */
static void record_leave(struct roami_node *node, struct roami_lock *lock)
{
	uint64_t word = roami_lock_word(lock), to;
	unsigned call, turn = 0;

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->queued);
	for (;;) {
		to = record_behind(node, lock, word);
		call = word_free(to) ? word_calls(&to) : ROAM_NOBODY;
		if (word_head(to) == node->me) {
			node->env->spin(node, turn++);
			word = roami_lock_word(lock);
		} else if (roami_record_change(node, lock, &word, to)) {
			break;
		} else if (record_stays(node, lock, &word)) {
			return;
		}
	}
	roami_step(node);
	if (record_ended(node, to))
		call = word_head(to);
	if (call != ROAM_NOBODY)
		record_call(node, lock, call);
}

static void record_left(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	if (lock->queued && !lock->token && word_head(roami_lock_word(lock)) == node->me)
		record_leave(node, lock);
}

void roami_lock_called(struct roami_node *node, struct roami_lock *lock)
{
	uint64_t word = roami_lock_word(lock);

	roami_contract(roami_msg_polling(node));
	if (lock->tickets == lock->serving)
		record_left(node, lock);
	else if (!lock->token && record_ended(node, word))
		roami_lock_send(node, lock, word_holder(word), LOCK_FORWARD, false);
}

/*
 * The head of the queue may have a place that no thread needs any more: it is called, and says by
 * LOCK_FORWARD if a thread waits.
 */
static void record_ends(struct roami_node *node, struct roami_lock *lock)
{
	uint64_t word = atomic_load(&lock->record->word);

	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder != 0);
	if (word_head(word) == node->me)
		record_leave(node, lock);
	else if (word_head(word) != ROAM_NOBODY)
		record_call(node, lock, word_head(word));
}

/* A node that waits, other than this one; ROAM_NOBODY. */
static unsigned record_follower(struct roami_node *node, const struct roami_lock *lock)
{
	uint64_t word = roami_lock_word(lock);

	roami_contract(roami_spin_held(&lock->spin));
	if (word_head(word) != node->me)
		return word_head(word);
	return word_tail(word) == node->me ? ROAM_NOBODY : word_tail(word);
}

static void record_pass(struct roami_node *node, struct roami_lock *lock, bool waiters, bool again)
{
	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	if (lock->next != ROAM_NOBODY)
		return;
	if (!waiters) {
		record_free(node, lock, again);
		return;
	}
	lock->next = (uint16_t)record_follower(node, lock);
	lock->next_after = lock->tickets;
}

static void record_give(struct roami_node *node, struct roami_lock *lock)
{
	roami_contract(lock->next != ROAM_NOBODY);
	lock->next = ROAM_NOBODY;
	record_free(node, lock, false);
}

const struct roami_lock_mode roami_lock_in_record = {
	.ask = record_ask, .pass = record_pass, .give = record_give, .left = record_left,
	.ends = record_ends, .due = roami_record_due, .seek = roami_record_seek};
