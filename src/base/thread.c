#include "base/thread.h"

#include "os/os.h"

#define KEEPERS 64u /* the first so many numbers keep their memory for the next thread */

struct roami_thread *roami_thread_self(struct roami_node *node)
{
	uint32_t number = node->env->thread(node);
	uint32_t top = atomic_load_explicit(&threads_of(node)->top, memory_order_relaxed);

	while (number >= top &&
	       !atomic_compare_exchange_weak(&threads_of(node)->top, &top, number + 1))
		;
	return &threads_of(node)->threads[number];
}

static unsigned thread_buffer_count(const struct roami_node *node)
{
	return 1 + node->region_count;
}

static size_t thread_buffers_bytes(const struct roami_node *node)
{
	return (size_t)ROAMI_THREADS_MAX * thread_buffer_count(node) *
	       sizeof(struct roami_thread_buffer);
}

static struct roami_thread_buffer *thread_buffers(struct roami_node *node, uint32_t number)
{
	return &threads_of(node)->buffers[(size_t)number * thread_buffer_count(node)];
}

static enum roam_err threads_open(struct roami_node *node, const struct roami_node_params *params)
{
	(void)params;
	threads_of(node)->buffers = roami_os_reserve_sparse(thread_buffers_bytes(node));
	return threads_of(node)->buffers != NULL ? ROAM_OK : ROAM_ENOMEM;
}

uint8_t *roami_thread_buffer(struct roami_node *node, unsigned room, size_t bytes)
{
	struct roami_thread *self = roami_thread_self(node);
	uint32_t number = (uint32_t)(self - threads_of(node)->threads);
	struct roami_thread_buffer *mine = &thread_buffers(node, number)[room];

	if (mine->at != NULL)
		return mine->at;
	mine->at = roami_os_reserve_sparse(bytes);
	if (mine->at == NULL)
		roami_node_fail(node, "no memory for a receive buffer of a thread");
	mine->bytes = bytes;
	return mine->at;
}

static void thread_buffers_free(struct roami_node *node, uint32_t number)
{
	struct roami_thread_buffer *buffers = thread_buffers(node, number);

	for (unsigned i = 0; i < thread_buffer_count(node); i++)
		if (buffers[i].at != NULL) {
			roami_os_unmap(buffers[i].at, buffers[i].bytes);
			buffers[i] = (struct roami_thread_buffer){0};
		}
}

void roami_thread_forget(struct roami_node *node, unsigned number)
{
	struct roami_thread *thread = &threads_of(node)->threads[number];

	if (number >= KEEPERS)
		thread_buffers_free(node, number);
	/* At these other threads may be looking: */
	atomic_store(&thread->registered, false);
	atomic_store(&thread->strange, false);
	atomic_store(&thread->needs, 0);
	for (unsigned i = 0; i < ROAMI_TOUCHED; i++)
		atomic_store_explicit(&thread->touched[i], 0, memory_order_relaxed);
	thread->mate = 0;
	thread->came = false;
	thread->reads = (struct roami_streams){.turn = 0};
	thread->claims = (struct roami_streams){.turn = 0};
	thread->returns = (struct roami_returns){.next = 0};
}

static void threads_close(struct roami_node *node)
{
	uint32_t top = atomic_load(&threads_of(node)->top);

	if (threads_of(node)->buffers == NULL)
		return;
	for (uint32_t i = 0; i < top; i++)
		thread_buffers_free(node, i);
	roami_os_unmap(threads_of(node)->buffers, thread_buffers_bytes(node));
}

const struct roami_room roami_room_threads = {
	.name = "threads",
	.state_size = sizeof(struct roami_threads),
	.init = threads_open,
	.fini = threads_close,
};
