/*
 * What the core keeps of each thread that uses a node, by its number (env->thread).  A number is
 * used again when its thread has ended (run/seat.c).
 */
#ifndef ROAMI_THREAD_H
#define ROAMI_THREAD_H

#include "base/node.h"

/* The calling thread's. */
struct roami_thread *roami_thread_self(struct roami_node *node);

/*
 * Memory of the calling thread's own, `bytes` for each use: room 0 is where pages land, 1 + the
 * number of a domain the scratch of its protocol.  Fails the job if there is none.
 */
uint8_t *roami_thread_room(struct roami_node *node, unsigned room, size_t bytes);

/* The thread of this number has ended: nothing of it is left there. */
void roami_thread_forget(struct roami_node *node, unsigned number);

#endif
