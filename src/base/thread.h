/*
 * What the core keeps of each thread that uses a node, by its number (env->thread).  A number is
 * used again when its thread has ended (run/seat.c); then nothing of the thread is left there.
 */
#ifndef ROAMI_THREAD_H
#define ROAMI_THREAD_H

#include "base/node.h"

/* Makes room for what threads will have; the node has its domains. */
enum roam_err roami_threads_open(struct roami_node *node);

/* The calling thread's. */
struct roami_thread *roami_thread_self(struct roami_node *node);

/*
 * Memory of the calling thread's own, `bytes` for each use: room 0 is where pages land, 1 + the
 * number of a domain the scratch of its protocol.  Fails the job if there is none.
 */
uint8_t *roami_thread_room(struct roami_node *node, unsigned room, size_t bytes);

/* The calling thread is counted by the barriers of all threads, or no more.  ROAM_ESTATE: again. */
enum roam_err roami_thread_register(struct roami_node *node, bool on);

/*
 * The thread of this number has ended, or ends and calls it: forgets what it was.  False: the
 * number must not be used again, for locks are its own for ever.  May block where it was
 * registered.
 */
bool roami_thread_end(struct roami_node *node, unsigned number);

/* Frees the memory of all; no thread may be in a call. */
void roami_threads_close(struct roami_node *node);

#endif
