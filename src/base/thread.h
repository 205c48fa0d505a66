/*
 * What the core keeps of each thread that uses a node, by its number (env->thread).  A number is
 * used again when its thread has ended (run/seat.c).
 */
#ifndef ROAMI_THREAD_H
#define ROAMI_THREAD_H

#include "base/node.h"

/* Memory of one thread for one use: see roami_thread_buffer. */
struct roami_thread_buffer {
	uint8_t *at; /* NULL: not asked for yet */
	size_t bytes;
};

struct roami_threads {
	_Atomic uint32_t top; /* those from here on were never used */
	struct roami_thread_buffer *buffers; /* of each thread, by number */
	struct roami_thread threads[ROAMI_THREADS_MAX];
};

static inline struct roami_threads *threads_of(const struct roami_node *node)
{
	return node->rooms[ROAMI_ROOM_THREADS].state;
}

/* The calling thread's. */
struct roami_thread *roami_thread_self(struct roami_node *node);

/*
 * Memory of the calling thread's own, `bytes` for each use: room 0 is where pages land, 1 + the
 * number of a region the scratch of its protocol.  Fails the job if there is none.
 */
uint8_t *roami_thread_buffer(struct roami_node *node, unsigned room, size_t bytes);

/* The thread of this number has ended: nothing of it is left there. */
void roami_thread_forget(struct roami_node *node, unsigned number);

#endif
