/*
 * Rooms: 64 KiB of memory above a guard page, for the stack of a fault and for what is too large
 * for a stack.  A room is somebody's for a short while and is then used again.  Includes nothing
 * of ours.
 */
#ifndef ROAMI_ROOM_H
#define ROAMI_ROOM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ROAMI_ROOM_BYTES ((size_t)64 * 1024)
#define ROAMI_ROOMS_MAX  1024u

struct roami_room {
	_Alignas(64) _Atomic uint32_t held;
	uint8_t *bytes; /* the lowest; NULL: never used yet */
};

/* Those of one owner.  Zero bytes are none used yet. */
struct roami_rooms {
	struct roami_room rooms[ROAMI_ROOMS_MAX];
};

/*
 * A free room, number *hint_p if that one is, which then says which; waits while all are held.
 * NULL: no memory.  Async-signal-safe.  A forked child has copies of its parent's; those that
 * another thread held there are lost to it.
 */
struct roami_room *roami_room_take(struct roami_rooms *rooms, uint32_t *hint_p);

static inline void roami_room_give(struct roami_room *room)
{
	atomic_store_explicit(&room->held, 0, memory_order_release);
}

/* Unmaps all; nobody holds one. */
void roami_rooms_free(struct roami_rooms *rooms);

/* Of those used as stacks: the most bytes that were ever in use of one, for tests. */
size_t roami_rooms_depth(const struct roami_rooms *rooms);

/*
 * Runs fn(arg) on a room as the stack, and returns when it does.  Debuggers and unwinders see
 * through it.
 */
void roami_room_run(const struct roami_room *room, void (*fn)(void *arg), void *arg);

#endif
