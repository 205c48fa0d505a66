/*
 * Bytes that a node leaves in its segment for others, which read them without asking it.  What they
 * are is the protocol's: to the node each is a mark and some bytes.  They lie in a bounded ring of
 * words, where the newest overwrite the oldest.  A reference is the number, since the beginning, of
 * the first word, + 1.
 */
#include <string.h>

#include "home/home_state.h"
#include "home/reach.h"

struct post_head {
	uint32_t mark;
	uint32_t bytes;
};

#define POST_WORDS(bytes) (((bytes) + 7u) / 8)

static uint64_t posts_room(const struct roami_node *node)
{
	return node->layout.posts_bytes / 8;
}

bool roami_posts_on(struct roami_node *node)
{
	return home_of(node)->posts_on;
}

uint64_t roami_post(struct roami_node *node, uint32_t mark, const void *data, size_t bytes)
{
	struct roami_posts *posts = node->self->posts;
	struct post_head head = {mark, (uint32_t)bytes};
	uint64_t words = 1 + POST_WORDS(bytes), room = posts_room(node),
		 at = home_of(node)->posts_head;
	uint64_t word = 0;

	roami_assert(bytes <= UINT32_MAX);
	if (!roami_posts_on(node) || words > room / 2)
		return 0;
	if (at % room + words > room)
		at += room - at % room;
	home_of(node)->posts_head = at + words;
	atomic_store_explicit(&posts->begun, at + words, memory_order_relaxed);
	/* Readers that find new words here must find `begun` raised. */
	atomic_thread_fence(memory_order_release);
	memcpy(&word, &head, sizeof(word));
	atomic_store_explicit(&posts->words[at % room], word, memory_order_relaxed);
	for (size_t i = 0; i < bytes; i += 8) {
		memcpy(&word, (const uint8_t *)data + i, bytes - i < 8 ? bytes - i : 8);
		atomic_store_explicit(&posts->words[at % room + 1 + i / 8], word,
				      memory_order_relaxed);
		if (i % 512 == 0)
			roami_step(node);
	}
	atomic_thread_fence(memory_order_release);
	return at + 1;
}

bool roami_near_post_read(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
			  void *data, size_t *bytes_p)
{
	const struct roami_posts *posts = node->segments[writer].posts;
	uint64_t room = posts_room(node), word, at, begun;
	struct post_head head;

	roami_contract(writer != node->me && posts != NULL);
	begun = atomic_load_explicit(&posts->begun, memory_order_acquire);
	at = ref - 1;
	if (at >= begun)
		return false;
	word = atomic_load_explicit(&posts->words[at % room], memory_order_relaxed);
	memcpy(&head, &word, sizeof(head));
	if (begun - at > room || head.mark != mark || head.bytes > *bytes_p ||
	    at % room + 1 + POST_WORDS(head.bytes) > room)
		return false;
	for (size_t i = 0; i < head.bytes; i += 8) {
		word = atomic_load_explicit(&posts->words[at % room + 1 + i / 8],
					    memory_order_relaxed);
		memcpy((uint8_t *)data + i, &word, head.bytes - i < 8 ? head.bytes - i : 8);
		if (i % 512 == 0)
			roami_step(node);
	}
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&posts->begun, memory_order_relaxed) - at > room)
		return false;
	ROAMI_COUNT(node->stats, bytes_fetched, head.bytes);
	*bytes_p = head.bytes;
	return true;
}

bool roami_post_read(struct roami_node *node, unsigned writer, uint64_t ref, uint32_t mark,
		     void *data, size_t *bytes_p)
{
	roami_assert(writer < node->nodes && ref != 0);
	return node->reach[writer]->post_read(node, writer, ref, mark, data, bytes_p);
}
