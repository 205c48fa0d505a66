/*
 * The queue of a lock in a job of one node: there is no other node to ask, and as long as no thread
 * waits the token lies in the lock's word (lock_thin.h), where threads take it and put it back by
 * one instruction each (rule 5.7).  A thread that finds it taken moves the holder into struct
 * roami_lock, which has turns, and waits there; the unlock after which no thread waits moves the
 * token back.
 */
#include "sync/lock_thin.h"

#include "os/os.h"
#include "page/race.h"
#include "sync/lock.h"

/* Gives the lock a word, which is free; NULL: its window is full. */
static struct roami_thin *thin_make(struct roami_node *node, uint64_t id)
{
	struct roami_thin *thin = roami_thin_window(sync_of(node)->thin, id);

	for (unsigned i = 0; i < THIN_WINDOW; i++) {
		uint64_t none = 0;

		roami_step(node);
		if (atomic_compare_exchange_strong(&thin[i].id, &none, id))
			return &thin[i];
	}
	return NULL;
}

/* The holder's ticket is the one whose turn it is: while the lock is thin none is out. */
void roami_thin_whole(struct roami_node *node, struct roami_lock *lock)
{
	uint32_t word;

	roami_contract(roami_spin_held(&lock->spin));
	if (lock->thin == NULL || lock->token)
		return;
	roami_contract(lock->holder == 0 && lock->tickets == lock->serving);
	word = atomic_load_explicit(&lock->thin->word, memory_order_relaxed);
	do
		roami_step(node);
	while (!atomic_compare_exchange_weak(&lock->thin->word, &word, THIN_WHOLE));
	roami_contract(word != THIN_WHOLE);
	lock->token = true;
	lock->holder = word;
	lock->tickets += word != 0;
}

uint32_t roami_lock_holder(const struct roami_lock *lock)
{
	roami_contract(roami_spin_held(&lock->spin));
	return lock->thin == NULL || lock->token
		       ? lock->holder
		       : atomic_load_explicit(&lock->thin->word, memory_order_relaxed);
}

/* Never needed: roami_thin_whole has brought the token. */
static void thin_ask(struct roami_node *node, struct roami_lock *lock, enum roami_lock_ask how)
{
	(void)how;
	roami_node_fail(node, "lock %#llx has left this node, which is alone",
			(unsigned long long)lock->id);
}

/*
 * A lock that was forgotten, because its block is reused, stays whole until it was told of
 * (roami_object_announce) once more: threads that use its word do not tell.
 */
static void thin_pass(struct roami_node *node, struct roami_lock *lock, bool waiters, bool again)
{
	(void)again;
	roami_contract(roami_spin_held(&lock->spin));
	roami_contract(lock->token && lock->holder == 0);
	if (waiters || atomic_load_explicit(&lock->announced, memory_order_relaxed) == 0)
		return;
	lock->token = false;
	if (lock->thin != NULL) {
		atomic_store_explicit(&lock->thin->word, 0, memory_order_release);
		return;
	}
	lock->thin = thin_make(node, lock->id); /* may be taken at once */
	if (lock->thin != NULL)
		return;
	lock->token = true;
	lock->mode = &roami_lock_by_messages;
}

/* No other node waits. */
static void thin_ends(struct roami_node *node, struct roami_lock *lock)
{
	(void)node;
	roami_contract(roami_spin_held(&lock->spin) && lock->next == ROAM_NOBODY);
}

/* Never needed: no node follows. */
static void thin_give(struct roami_node *node, struct roami_lock *lock)
{
	roami_node_fail(node, "lock %#llx is to leave this node, which is alone",
			(unsigned long long)lock->id);
}

/* The token has gone back to the word by thin_pass, or its holder's unlock will see to it. */
static void thin_left(struct roami_node *node, struct roami_lock *lock)
{
	(void)node;
	roami_contract(roami_spin_held(&lock->spin) && lock->next == ROAM_NOBODY);
}

const struct roami_lock_mode roami_lock_thin = {
	.ask = thin_ask, .pass = thin_pass, .give = thin_give, .left = thin_left,
	.ends = thin_ends, .due = roami_lock_due_here, .seek = roami_lock_seek_nothing};

enum roam_err roami_thin_init(struct roami_node *node, unsigned nodes)
{
	if (nodes > 1 || roami_scoped(node) || roami_race_checked(node))
		return ROAM_OK;
	sync_of(node)->thin = roami_os_reserve(THIN_TABLE * sizeof(struct roami_thin));
	return sync_of(node)->thin != NULL ? ROAM_OK : ROAM_ENOMEM;
}

void roami_thin_fini(struct roami_node *node)
{
	if (sync_of(node)->thin != NULL)
		roami_os_unmap(sync_of(node)->thin, THIN_TABLE * sizeof(struct roami_thin));
	sync_of(node)->thin = NULL;
}
