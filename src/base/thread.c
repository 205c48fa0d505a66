#include "base/thread.h"

#include <string.h>

#include "home/far.h"
#include "os/os.h"
#include "sync/sync.h"

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

static unsigned thread_room_count(const struct roami_node *node)
{
	return 1 + node->domain_count;
}

static size_t thread_rooms_bytes(const struct roami_node *node)
{
	return (size_t)ROAMI_THREADS_MAX * thread_room_count(node) * sizeof(struct roami_room);
}

static struct roami_room *thread_rooms(struct roami_node *node, uint32_t number)
{
	return &node->rooms[(size_t)number * thread_room_count(node)];
}

enum roam_err roami_threads_open(struct roami_node *node)
{
	node->rooms = roami_os_reserve_sparse(thread_rooms_bytes(node));
	return node->rooms != NULL ? ROAM_OK : ROAM_ENOMEM;
}

uint8_t *roami_thread_room(struct roami_node *node, unsigned room, size_t bytes)
{
	struct roami_thread *self = roami_thread_self(node);
	struct roami_room *mine = &thread_rooms(node, (uint32_t)(self - node->threads))[room];

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

static void thread_rooms_free(struct roami_node *node, uint32_t number)
{
	struct roami_room *rooms = thread_rooms(node, number);

	for (unsigned i = 0; i < thread_room_count(node); i++)
		if (rooms[i].at != NULL) {
			roami_os_unmap(rooms[i].at, rooms[i].bytes);
			rooms[i] = (struct roami_room){0};
		}
}

bool roami_thread_end(struct roami_node *node, unsigned number)
{
	struct roami_thread *thread = &node->threads[number];

	if (thread->registered)
		roami_state_set(node, ROAMI_STATE_THREADS, UINT64_MAX, true);
	thread->registered = false;
	if (roami_lock_holds(node, number))
		return false;
	if (number >= KEEPERS)
		thread_rooms_free(node, number);
	memset(thread, 0, sizeof(*thread));
	return true;
}

void roami_threads_close(struct roami_node *node)
{
	uint32_t top = atomic_load(&node->threads_top);

	if (node->rooms == NULL)
		return;
	for (uint32_t i = 0; i < top; i++)
		thread_rooms_free(node, i);
	roami_os_unmap(node->rooms, thread_rooms_bytes(node));
}
