#include "core/thread.h"

#include <string.h>

#include "core/far.h"
#include "core/sync.h"
#include "os/os.h"

#define KEEPERS 64u /* the first so many numbers keep their memory for the next thread */

struct roami_thread *roami_thread_self(struct roami_node *node)
{
	uint32_t number = node->env->thread(node);
	uint32_t top = atomic_load_explicit(&node->threads_top, memory_order_relaxed);

	while (number >= top &&
	       !atomic_compare_exchange_weak(&node->threads_top, &top, number + 1))
		;
	return &node->threads[number];
}

uint8_t *roami_thread_room(struct roami_node *node, unsigned room, size_t bytes)
{
	struct roami_room *mine = &roami_thread_self(node)->rooms[room];

	if (mine->at != NULL)
		return mine->at;
	mine->at = roami_os_reserve_sparse(bytes);
	if (mine->at == NULL)
		roami_node_fail(node, "no memory for what a thread receives");
	mine->bytes = bytes;
	return mine->at;
}

enum roam_err roami_thread_register(struct roami_node *node, bool on)
{
	struct roami_thread *thread = roami_thread_self(node);

	if (thread->registered == on)
		return ROAM_ESTATE;
	thread->registered = on;
	roami_state_set(node, ROAMI_STATE_THREADS, on ? 1 : UINT64_MAX, true);
	return ROAM_OK;
}

static void thread_rooms_free(struct roami_thread *thread)
{
	for (unsigned i = 0; i < ROAMI_ROOMS_MAX; i++)
		if (thread->rooms[i].at != NULL)
			roami_os_unmap(thread->rooms[i].at, thread->rooms[i].bytes);
	memset(thread->rooms, 0, sizeof(thread->rooms));
}

bool roami_thread_end(struct roami_node *node, unsigned number)
{
	struct roami_thread *thread = &node->threads[number];
	struct roami_room rooms[ROAMI_ROOMS_MAX];

	if (thread->registered)
		roami_state_set(node, ROAMI_STATE_THREADS, UINT64_MAX, true);
	thread->registered = false;
	if (roami_lock_holds(node, number))
		return false;
	if (number >= KEEPERS)
		thread_rooms_free(thread);
	memcpy(rooms, thread->rooms, sizeof(rooms));
	memset(thread, 0, sizeof(*thread));
	memcpy(thread->rooms, rooms, sizeof(rooms));
	return true;
}

void roami_threads_close(struct roami_node *node)
{
	uint32_t top = atomic_load(&node->threads_top);

	for (uint32_t i = 0; i < top; i++)
		thread_rooms_free(&node->threads[i]);
}
