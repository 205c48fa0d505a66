/* How a thread that waits for a lock looks at the lock's record (lock_shm.c). */
#include "sync/lock_word.h"

#define EAGER_NS  10000u
#define OTHERS_NS 8000u
#define LOOK_NS   30000u /* so long a thread looks before it may sleep */
#define LIMIT_NS  2000000u
#define MISSES    2u /* calls in vain after which a thread naps */

/* What changes when the token goes. */
#define WORD_TOKEN (WORD_HOLDER | WORD_TAKEN | ~(WORD_SERIAL - 1))

/* So long the token has to lie in the record before this node takes it. */
static uint64_t look_patience(const struct roami_node *node, uint64_t word)
{
	if (word_head(word) != node->me)
		return OTHERS_NS;
	return (word & (WORD_KEPT | WORD_EAGER | WORD_DUE)) == WORD_KEPT ? KEEP_NS : 0;
}

/* Whether the token lies there for this node, sooner or later. */
static bool look_hopes(const struct roami_node *node, uint64_t word)
{
	return word_free(word) && (word_head(word) == node->me || (word & WORD_DUE) == 0);
}

/* Whether the thread may take the token now. */
static bool look_ripe(const struct roami_lock_wait *wait, uint64_t word, uint64_t now)
{
	uint64_t since = ((word ^ wait->word) & WORD_TOKEN) == 0 ? wait->since : now;

	return look_hopes(wait->node, word) && now - since >= look_patience(wait->node, word);
}

/* When the thread has to look again though nothing changes. */
static uint64_t look_alarm(const struct roami_lock_wait *wait)
{
	uint64_t eager = wait->start + EAGER_NS, ripe, alarm = wait->doze;

	if (wait->doze == 0)
		return wait->nap != 0 ? wait->nap : ROAMI_FOREVER;
	if (wait->now < eager && eager < alarm)
		alarm = eager;
	ripe = wait->since + look_patience(wait->node, wait->word);
	return look_hopes(wait->node, wait->word) && ripe < alarm ? ripe : alarm;
}

/* Whether a head that looks has to say once more that it has waited for EAGER_NS. */
static bool look_lacks_eager(const struct roami_lock_wait *wait, uint64_t word, uint64_t now)
{
	return word_head(word) == wait->node->me && (word & WORD_EAGER) == 0 &&
	       now - wait->start >= EAGER_NS;
}

/*
 * Also true when another node has taken the token: the wait begins anew.  A thread that slept while
 * the lock goes round would cost each round a wake-up.
 */
bool roami_record_due(struct roami_lock_wait *wait)
{
	const struct roami_node *node = wait->node;
	uint64_t word = roami_lock_word(wait->lock), now = node->env->now(wait->node);
	uint64_t changed = word ^ wait->word;

	if (!word_free(word) && word_holder(word) == node->me)
		return roami_lock_due_here(wait);
	if ((changed & WORD_TOKEN) != 0)
		wait->since = now;
	wait->word = word;
	if (word_holder(word) != wait->holder || now >= wait->alarm)
		return true;
	if (wait->doze != 0 && look_lacks_eager(wait, word, now))
		return true;
	if (wait->doze != 0)
		return look_ripe(wait, word, now) ||
		       (word_head(word) == node->me && (word & WORD_CALLED) == 0);
	return look_hopes(node, word) || (word_head(word) == node->me && (word & WORD_CALLED) != 0);
}

/* Whether its last holder has taken the token again at once. */
static bool look_kept(uint64_t word)
{
	return (word & (WORD_TAKEN | WORD_KEPT)) == (WORD_TAKEN | WORD_KEPT);
}

static bool look_called(const struct roami_lock_wait *wait, uint64_t word)
{
	return word_head(word) == wait->node->me && (word & WORD_CALLED) != 0;
}

/* What the thread does next: it looks, or it may sleep, if the word is changed so. */
static uint64_t look_doze(const struct roami_lock_wait *wait, uint64_t word, uint64_t now)
{
	bool rested = wait->nap != 0 && now >= wait->nap;

	if (wait->doze == 0)
		return look_hopes(wait->node, word) || look_called(wait, word) || rested
			       ? now + LOOK_NS
			       : 0;
	if (now < wait->doze)
		return wait->doze;
	return word_head(word) == wait->node->me && word_free(word) ? now + LOOK_NS : 0;
}

/*
 * How long a thread that may sleep naps: it was called in vain, so the next calls would hardly come
 * in time either.  Each nap is as long as the wait before it.
 */
static uint64_t look_nap(const struct roami_lock_wait *wait, uint64_t word, uint64_t doze,
			 uint64_t now)
{
	uint64_t nap = now + (now - wait->start), due = wait->start + LIMIT_NS;

	if (doze != 0 || wait->missed < MISSES || word_head(word) != wait->node->me ||
	    (word & WORD_DUE) != 0)
		return 0;
	if (now < wait->nap)
		return wait->nap;
	return nap < due ? nap : due;
}

/* The word with what this node, at the head, has to say. */
static uint64_t look_says(const struct roami_lock_wait *wait, uint64_t word, uint64_t doze,
			  uint64_t nap)
{
	roami_contract(word_head(word) == wait->node->me);
	word &= ~(WORD_CALLED | WORD_EAGER | WORD_NAPS);
	if (doze == 0)
		return nap == 0 ? word : word | WORD_NAPS;
	return word | WORD_CALLED | (wait->now - wait->start >= EAGER_NS ? WORD_EAGER : 0);
}

/*
 * At the head, a node that has waited for too long says so, whatever others do to the word
 * meanwhile: no other node can take it from the head.  The spin is held.
 */
static uint64_t look_insists(const struct roami_lock_wait *wait, uint64_t word, uint64_t now)
{
	roami_contract(roami_spin_held(&wait->lock->spin));
	if (word_head(word) != wait->node->me || (word & WORD_DUE) != 0 ||
	    now - wait->start < LIMIT_NS)
		return word;
	roami_step(wait->node);
	return atomic_fetch_or(&wait->lock->record->word, WORD_DUE) | WORD_DUE;
}

/* The thread begins to look.  What threads that gave up have waited counts, too. */
static void look_begin(struct roami_lock_wait *wait, uint64_t word)
{
	if (wait->start != 0)
		return;
	wait->since = wait->now;
	wait->start = wait->now - wait->lock->waited;
	wait->doze = wait->now + LOOK_NS;
	wait->word = word;
}

/*
 * Takes the token if it is ripe, else says what this node has to say.  False: the word has changed
 * meanwhile.  The spin is held.
 */
static bool look_once(struct roami_lock_wait *wait, uint64_t word)
{
	struct roami_node *node = wait->node;
	uint64_t doze = look_doze(wait, word, wait->now), to = word;
	uint64_t nap = look_nap(wait, word, doze, wait->now);
	bool misses = wait->doze == 0 && look_called(wait, word) && look_kept(word);

	roami_contract(roami_spin_held(&wait->lock->spin));
	if (look_ripe(wait, word, wait->now))
		return roami_record_take(node, wait->lock, &word);
	if (word_head(word) == node->me)
		to = look_says(wait, word, doze, nap);
	if (to != word && !roami_record_change(node, wait->lock, &word, to))
		return false;
	wait->missed += misses;
	wait->doze = doze;
	wait->nap = nap;
	return true;
}

void roami_record_seek(struct roami_lock_wait *wait)
{
	uint64_t word = roami_lock_word(wait->lock);
	bool done;

	roami_contract(roami_spin_held(&wait->lock->spin));
	roami_contract(atomic_load(&wait->lock->serving) == wait->ticket);
	if (wait->lock->token)
		return;
	wait->now = wait->node->env->now(wait->node);
	look_begin(wait, word);
	wait->lock->waited = wait->now - wait->start;
	word = look_insists(wait, word, wait->now);
	done = look_once(wait, word);
	if (((word ^ wait->word) & WORD_TOKEN) != 0)
		wait->since = wait->now;
	wait->word = word;
	wait->holder = word_holder(word);
	wait->alarm = done ? look_alarm(wait) : wait->now;
}
