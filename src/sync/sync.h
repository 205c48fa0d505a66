/*
 * Synchronisation: intervals, locks, barriers, conditions, flags, reductions.  An object is named
 * by a 64-bit id, the address; its home is the node that the id hashes to.
 *
 * Keeps rules 1.6, 1.9, 2.5, 3.2, 5.1, 5.2, 5.4, 5.5, 5.6, 6.2, 6.5 and 6.8.
 */
#ifndef ROAMI_SYNC_H
#define ROAMI_SYNC_H

#include "base/node.h"
#include "page/race.h"

/* Ids of the library's own objects; no object of a program has so low an address. */
#define ROAMI_END_ID    8u /* the barrier of the end */
#define ROAMI_REDUCE_ID 16u
#define ROAMI_ALL_ID    24u /* roam_barrier_all */
#define ROAMI_SEAL_ID   32u

_Static_assert(ROAMI_SEAL_ID < ROAMI_SYNCED_OWN, "reports of races tell them apart");

/*
 * The name of an object in reports: `prefix` and the address, or, of one of the library's own, the
 * call that uses it, as "at roam_barrier_all".
 */
#define ROAMI_SYNC_NAME_BYTES 48
void roami_sync_name(uint64_t id, const char *prefix, char text[ROAMI_SYNC_NAME_BYTES]);

unsigned roami_sync_home(const struct roami_node *node, uint64_t id);

/*
 * roami_release ends the open interval and makes its writes findable; the calling thread polls for
 * messages until roami_release_rest, which must follow.  roami_acquire drops the copies that the
 * notices in the log make stale.  app, may block.
 */
void roami_release(struct roami_node *node, const struct roam_sync *sync);
void roami_acquire(struct roami_node *node, const struct roam_sync *sync);

/*
 * The part of a release that no other node waits for, after they have been told: other threads take
 * over polling, and the few pages that were written lose write access.  These pages are then
 * compared once more, as other threads may have written them meanwhile.  app, may block.
 */
void roami_release_rest(struct roami_node *node);

/* After the acquire of a full barrier: calls `met` of the protocols.  app, may block. */
void roami_met(struct roami_node *node);

/* The cycle at which roami_release_rest began last, for benchmarks. */
uint64_t roami_release_announced(const struct roami_node *node);

/* Whether roami_release would find nothing that it must do. */
bool roami_release_needless(struct roami_node *node);

struct roami_scope;

/* roami_acquire under ScC, of the notices that came with a lock's token.  By the lock's holder. */
void roami_acquire_scope(struct roami_node *node, const struct roam_sync *sync,
			 struct roami_scope *scope);

/* At most one thread of the node is in a release or acquire: the others sleep in _enter. */
void roami_interval_enter(struct roami_node *node);
void roami_interval_leave(struct roami_node *node);

#define ROAMI_TABLE_BLOCKS 128u

/* A hash table by open addressing.  When half of its slots are taken, a larger one replaces it. */
struct roami_slots {
	struct roami_slots *before; /* the table that it replaced: threads may still look there */
	unsigned bits;              /* 1 << bits slots */
	_Atomic(uint64_t *) at[];   /* the item's id; NULL: free */
};

/* Objects by id: items never move, finding takes no lock. */
struct roami_table {
	struct roami_spin lock;
	_Atomic(struct roami_slots *) slots;
	uint8_t *blocks[ROAMI_TABLE_BLOCKS]; /* of items, each of which begins with its id */
	size_t item_bytes;
	_Atomic uint32_t count;
	void (*make)(struct roami_node *node, void *item); /* NULL: nothing to do */
};

/* Where to begin to look: one slot for all ids within eight bytes. */
static inline size_t roami_slot(const struct roami_slots *slots, uint64_t id)
{
	return id / 8 * 0xbf58476d1ce4e5b9u >> (64 - slots->bits);
}

/* The records of one kind in a segment, by id; none leaves the table before the job ends. */
struct roami_records {
	size_t at;
	uint32_t slots;
	uint32_t item_bytes;
};

/* ---- tables of objects, by id; never shrink */
void *roami_table_item(const struct roami_table *table, uint32_t index);
static inline void *roami_table_find(struct roami_table *table, uint64_t id)
{
	struct roami_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
	size_t mask = ((size_t)1 << slots->bits) - 1;

	for (size_t at = roami_slot(slots, id);; at = (at + 1) & mask) {
		uint64_t *item = atomic_load_explicit(&slots->at[at], memory_order_acquire);

		if (item == NULL || *item == id)
			return item;
	}
}

void *roami_table_make(struct roami_node *node, struct roami_table *table, uint64_t id);
void roami_table_fini(struct roami_table *table);

/*
 * An object's record in the segment of `home`, its id first, the rest zero when new.  NULL: it has
 * none; *full_p: it never will, and every node finds so.  `make`: give it one if there is room.
 */
void *roami_record_find(struct roami_node *node, unsigned home, const struct roami_records *records,
			uint64_t id, bool make, bool *full_p);

/*
 * Locks and barriers keep their state in a record in shared memory, or at nodes that are sent
 * messages: each has an object of functions for either (struct roami_lock_mode, struct
 * roami_barrier_mode).  Resolves which, for all nodes alike, at the first use at this node; the
 * object's spin is held.  The record that it has or is given; NULL: it goes by messages.
 * `records` NULL: it never has one.
 */
void *roami_resolve_record(struct roami_node *node, unsigned home,
			   const struct roami_records *records, uint64_t id);

/* ---- the objects; may block unless they are handlers.  All app. */
enum roam_err roami_lock(struct roami_node *node, uint64_t id);
/* Gives up when env->now is `until`: ROAM_ETIMEDOUT. */
enum roam_err roami_lock_until(struct roami_node *node, uint64_t id, uint64_t until);
/* Waits for answers of other nodes, never for their sections: ROAM_EBUSY. */
enum roam_err roami_lock_try(struct roami_node *node, uint64_t id);
enum roam_err roami_unlock(struct roami_node *node, uint64_t id);

/*
 * As roami_lock and roami_unlock, which begin with these, where the lock is free, its token at
 * hand, no other thread or node waits, and there is nothing to acquire or to release.  False:
 * nothing is done.  They never wait, and are no cancellation points.
 */
bool roami_lock_quick(struct roami_node *node, uint64_t id);
bool roami_unlock_quick(struct roami_node *node, uint64_t id);

/* As roami_unlock, of a thread that is about to wait for something else. */
enum roam_err roami_unlock_to_wait(struct roami_node *node, uint64_t id);

/* As roami_unlock, where roami_unlock_quick has returned false. */
enum roam_err roami_unlock_whole(struct roami_node *node, uint64_t id);

/* Whether the calling thread holds it. */
bool roami_lock_held(struct roami_node *node, uint64_t id);

/* Whether `thread` of this node, which has ended, holds any lock. */
bool roami_lock_holds(struct roami_node *node, unsigned thread);

/* Whether any thread of this node does. */
bool roami_locks_held(struct roami_node *node);

/* This node has ended (ctl->returned): fails if it holds a lock that another node waits for. */
void roami_lock_check_end(struct roami_node *node);

/*
 * Whether no thread registers on any node (roam_threads_fixed): then each node has one, and all
 * nodes know a barrier of all from its number.  Alike on all nodes, before their first barrier.
 */
void roami_barrier_fix(struct roami_node *node, bool fixed);

/*
 * From now on each node of the job has so many threads, whoever is registered, and each of them has
 * its number (struct roami_thread): they are fixed before any of them runs.  1: as many as are
 * registered.  ROAM_ENOMEM.
 */
enum roam_err roami_team_set(struct roami_node *node, unsigned threads);

/*
 * The calling thread of a team has come to a lock or a barrier, or ends: no other thread waits for
 * it at its own first lock any more.  Returns how many have not come, if any may still be waited
 * for and the caller comes for the first time; else 0.
 */
unsigned roami_team_came(struct roami_node *node);

/* `threads` 0: all threads of the job, those of teams or else the registered ones. */
enum roam_err roami_barrier(struct roami_node *node, uint64_t id, unsigned threads);
/* By all threads of the job's teams, or else by one thread of each node. */
enum roam_err roami_reduce(struct roami_node *node, void *values, unsigned count,
			   enum roam_type type, enum roam_op op);

enum roam_err roami_cond_wait(struct roami_node *node, uint64_t id, uint64_t lock);
/* Gives up when env->now is `until`: ROAM_ETIMEDOUT; the lock is held then, too. */
enum roam_err roami_cond_wait_until(struct roami_node *node, uint64_t id, uint64_t lock,
				    uint64_t until);
enum roam_err roami_cond_post(struct roami_node *node, uint64_t id, bool all);

enum roam_err roami_flag_set(struct roami_node *node, uint64_t id);
enum roam_err roami_flag_clear(struct roami_node *node, uint64_t id);
enum roam_err roami_flag_wait(struct roami_node *node, uint64_t id);

/*
 * ---- objects in blocks of the heap.  Any address is a free object until it is used, so what a
 * block's last user left in it, a lock that is held, a flag that is set, must be gone before the
 * next one has it.  Where in the heap there are objects, every node is told before the first use.
 */

/*
 * Before a thread of this node uses object `id`; *announced_p is this node's mark of it.  app, may
 * block.
 */
void roami_object_announce(struct roami_node *node, uint64_t id, _Atomic uint32_t *announced_p);

/*
 * A block that was used before is handed out again, before any node learns of its new use: all
 * nodes forget the objects in it.  app, may block.
 */
void roami_objects_forget(struct roami_node *node, uint64_t offset, size_t bytes);

/* Calls fn for each object with an id in [first, end).  Any thread. */
void roami_table_each(struct roami_node *node, struct roami_table *table, uint64_t first,
		      uint64_t end, void (*fn)(struct roami_node *node, void *item));

#endif
