#include "sync/notice_ring.h"

#include "sync/log.h"
#include "sync/log_state.h"
#include "sync/sync_state.h"

#define CHUNK 32u /* runs copied at a time */

static _Atomic uint64_t *ring_run(const struct roami_node *node, unsigned writer, uint64_t at)
{
	roami_contract(writer < node->nodes);
	return node->segments[writer].ring->words[at & (node->layout.ring_runs - 1)];
}

void roami_notice_ring_add(struct roami_node *node, const struct roami_run *run)
{
	struct roami_notice_ring *ring = node->self->ring;
	uint64_t at = log_of(node)->published;
	_Atomic uint64_t *words = ring_run(node, node->me, at);

	roami_contract(log_locked(node));
	roami_contract(run->interval > log_of(node)->clock.at[node->me]);
	atomic_store_explicit(&ring->begun, at + 1, memory_order_relaxed);
	/* Readers that find new words here must find `begun` raised. */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&words[0], run->page | (uint64_t)run->count << 32,
			      memory_order_relaxed);
	roami_step(node);
	atomic_store_explicit(&words[1], run->interval, memory_order_relaxed);
	atomic_store_explicit(&words[2], run->version, memory_order_relaxed);
	atomic_store_explicit(&words[3], run->ref.word, memory_order_relaxed);
	atomic_store_explicit(&ring->head, at + 1, memory_order_release);
	log_of(node)->published = at + 1;
}

/*
 * The first run beyond `since`, or one that is overwritten.  Runs overwritten meanwhile are newer,
 * so the search goes on behind them.
 */
static uint64_t ring_find(struct roami_node *node, unsigned writer, uint64_t since, uint64_t head)
{
	uint64_t at = head;

	roami_contract(writer != node->me);
	while (at > 0 && head - at <= node->layout.ring_runs &&
	       atomic_load_explicit(&ring_run(node, writer, at - 1)[1], memory_order_relaxed) >
		       since)
		at--;
	return at;
}

/* Copies [first, first + count); false: the writer came round meanwhile. */
static bool ring_copy(struct roami_node *node, unsigned writer, uint64_t first, uint32_t count,
		      struct roami_run *runs)
{
	roami_contract(count > 0 && count <= CHUNK);
	for (uint32_t i = 0; i < count; i++) {
		_Atomic uint64_t *words = ring_run(node, writer, first + i);
		uint64_t pages = atomic_load_explicit(&words[0], memory_order_relaxed);

		runs[i].page = (uint32_t)pages;
		runs[i].count = (uint32_t)(pages >> 32);
		runs[i].interval = atomic_load_explicit(&words[1], memory_order_relaxed);
		runs[i].version = atomic_load_explicit(&words[2], memory_order_relaxed);
		runs[i].ref.word = atomic_load_explicit(&words[3], memory_order_relaxed);
		roami_step(node);
	}
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&node->segments[writer].ring->begun, memory_order_relaxed) <=
	       first + node->layout.ring_runs;
}

bool roami_notice_ring_read(struct roami_node *node, unsigned writer, uint64_t since, uint64_t upto)
{
	size_t before = release_of(node)->apply_work.count;
	struct roami_run runs[CHUNK];
	uint64_t head, at;

	roami_contract(roami_interval_entered(node));
	roami_contract(writer != node->me && since < upto);
	head = atomic_load_explicit(&node->segments[writer].ring->head, memory_order_acquire);
	roami_step(node);
	for (at = ring_find(node, writer, since, head); at < head;) {
		uint32_t count = head - at < CHUNK ? (uint32_t)(head - at) : CHUNK;

		if (!ring_copy(node, writer, at, count, runs)) {
			release_of(node)->apply_work.count = before;
			return false;
		}
		for (uint32_t i = 0; i < count && runs[i].interval <= upto; i++)
			roami_log_collect_run(node, writer, &runs[i], upto);
		at += count;
	}
	return true;
}
