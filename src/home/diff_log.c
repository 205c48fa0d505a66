/*
 * The diff log: diffs that a node leaves in its segment for other nodes, so that a copy that lacks
 * a few of them can be updated without fetching the page.  It is a bounded ring; for a diff that
 * was overwritten the page is fetched.  A diff's place, in its write notice, is its first word's
 * number since the beginning, + 1.
 */
#include <string.h>

#include "base/region.h"
#include "home/home_state.h"
#include "home/reach.h"
#include "page/page.h"

struct diff_log_item {
	uint32_t page;
	uint32_t bytes;
};

#define DIFF_LOG_WORDS(bytes) (((bytes) + 7u) / 8)

static uint64_t diff_log_words(const struct roami_node *node)
{
	return node->layout.diff_log_bytes / 8;
}

bool roami_diff_log_on(struct roami_node *node)
{
	return home_of(node)->diff_log_on;
}

uint64_t roami_diff_log_leave(struct roami_node *node, uint32_t page, const uint8_t *diff,
			      size_t bytes)
{
	struct roami_diff_log *diff_log = node->self->diff_log;
	struct diff_log_item item = {page, (uint32_t)bytes};
	uint64_t words = 1 + DIFF_LOG_WORDS(bytes), room = diff_log_words(node),
		 at = home_of(node)->diff_log_head;
	uint64_t word = 0;

	roami_contract_pending(node, page);
	roami_assert(bytes <= ROAM_DIFF_MAX);
	if (!roami_diff_log_on(node) || words > room / 2)
		return 0;
	if (at % room + words > room)
		at += room - at % room;
	home_of(node)->diff_log_head = at + words;
	atomic_store_explicit(&diff_log->begun, at + words, memory_order_relaxed);
	/* Readers that find new words here must find `begun` raised. */
	atomic_thread_fence(memory_order_release);
	memcpy(&word, &item, sizeof(word));
	atomic_store_explicit(&diff_log->words[at % room], word, memory_order_relaxed);
	for (size_t i = 0; i < bytes; i += 8) {
		memcpy(&word, diff + i, bytes - i < 8 ? bytes - i : 8);
		atomic_store_explicit(&diff_log->words[at % room + 1 + i / 8], word,
				      memory_order_relaxed);
		if (i % 512 == 0)
			roami_step(node);
	}
	atomic_thread_fence(memory_order_release);
	return at + 1;
}

/* Notes that a diff was read: a home whose diffs no node reads makes no more. */
static void diff_log_say_read(struct roami_header *header)
{
	uint32_t where = atomic_load_explicit(&header->where, memory_order_relaxed);
	uint64_t version = atomic_load_explicit(&header->version, memory_order_relaxed);

	if ((where & ROAMI_HEADER_TWIN) != 0 && (version & ROAMI_VERSION_READ) == 0)
		atomic_fetch_or(&header->version, ROAMI_VERSION_READ);
}

bool roami_near_diff_log_follow(struct roami_node *node, unsigned writer, uint64_t place,
				uint32_t page, uint8_t *diff, size_t *bytes_p)
{
	const struct roami_diff_log *diff_log = node->segments[writer].diff_log;
	uint64_t room = diff_log_words(node), word, at, begun;
	struct diff_log_item item;

	roami_contract(writer != node->me && diff_log != NULL);
	begun = atomic_load_explicit(&diff_log->begun, memory_order_acquire);
	at = place - 1;
	if (at >= begun)
		return false;
	word = atomic_load_explicit(&diff_log->words[at % room], memory_order_relaxed);
	memcpy(&item, &word, sizeof(item));
	if (begun - at > room || item.page != page || item.bytes > ROAM_DIFF_MAX ||
	    at % room + 1 + DIFF_LOG_WORDS(item.bytes) > room)
		return false;
	for (size_t i = 0; i < item.bytes; i += 8) {
		word = atomic_load_explicit(&diff_log->words[at % room + 1 + i / 8],
					    memory_order_relaxed);
		memcpy(diff + i, &word, item.bytes - i < 8 ? item.bytes - i : 8);
		if (i % 512 == 0)
			roami_step(node);
	}
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&diff_log->begun, memory_order_relaxed) - at > room)
		return false;
	roami_assert(roami_homes_of(node, page) == ROAM_HOMES_TAKEN);
	diff_log_say_read(&node->segments[writer].headers[page]);
	ROAMI_COUNT(node->stats, bytes_fetched, item.bytes);
	*bytes_p = item.bytes;
	return true;
}

bool roami_diff_log_follow(struct roami_node *node, unsigned writer, uint64_t place, uint32_t page,
			   uint8_t *diff, size_t *bytes_p)
{
	roami_assert(writer < node->nodes && place != 0);
	roami_contract_owned(node, page);
	return node->reach[writer]->diff_log_follow(node, writer, place, page, diff, bytes_p);
}
