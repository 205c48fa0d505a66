#include "base/segment.h"

#include <assert.h>

#define RING_BYTES    (256u * 1024)
#define POSTS_BYTES ((size_t)4 << 20)
#define RING_RUNS      (64u * 1024)
#define LOCK_SLOTS    (128u * 1024)
#define BARRIER_SLOTS  4096u
#define HUGE_PAGE     ((size_t)2 << 20)
#define HUGE_LEAST    (8 * HUGE_PAGE) /* of a heap; tests have smaller ones */

_Static_assert(sizeof(struct roami_header) == 16, "a page header is two words");

static size_t segment_round(size_t bytes)
{
	return (bytes + ROAMI_PAGE - 1) & ~(ROAMI_PAGE - 1);
}

void roami_layout_make(struct roami_layout *layout, size_t heap_bytes, unsigned nodes_max)
{
	roami_layout_make_regions(layout, heap_bytes, nodes_max, 0, 0, ROAMI_PAGE);
}

/* Where everything lies; the heap's bytes and regions are set. */
static void layout_place(struct roami_layout *layout, unsigned nodes_max)
{
	size_t at = segment_round(sizeof(struct roami_ctl));
	size_t pages = layout->pages;

	layout->nodes_max = nodes_max;
	layout->pool = at;
	at += segment_round((1 + layout->regions) * sizeof(struct roami_heap_parts));
	layout->blocks = at;
	at += segment_round(pages * sizeof(uint64_t));
	layout->ends = at;
	at += segment_round(pages * sizeof(uint64_t));
	layout->rings = at;
	layout->ring_bytes = RING_BYTES;
	at += (size_t)nodes_max * RING_BYTES;
	layout->ring = at;
	layout->ring_runs = RING_RUNS;
	at += segment_round(sizeof(struct roami_notice_ring) +
			    RING_RUNS * ROAMI_NOTICE_RING_WORDS * sizeof(uint64_t));
	layout->posts = at;
	layout->posts_bytes = POSTS_BYTES;
	at += segment_round(sizeof(struct roami_posts) + POSTS_BYTES);
	layout->locks = at;
	layout->lock_slots = LOCK_SLOTS;
	at += segment_round(LOCK_SLOTS * roami_lock_bytes(nodes_max));
	layout->barriers_at = at;
	layout->barrier_slots = BARRIER_SLOTS;
	at += segment_round(BARRIER_SLOTS * (roami_barrier_record_bytes(nodes_max) +
					     roami_departure_bytes(nodes_max)));
	layout->reductions = at;
	at += segment_round(2 * (size_t)nodes_max * ROAM_REDUCE_MAX * sizeof(uint64_t));
	layout->objects = at;
	at += segment_round(pages * sizeof(uint64_t));
	layout->headers = at;
	at += segment_round(pages * sizeof(struct roami_header));
	layout->directory = at;
	at += segment_round(pages * sizeof(uint64_t));
	layout->tails = at;
	at += segment_round(nodes_max * sizeof(struct roami_shared_tail));
	layout->slots = at;
	at += segment_round((size_t)nodes_max * roami_share_slots(layout) * sizeof(uint32_t));
	if (layout->heap_bytes >= HUGE_LEAST) /* the app view's own pages begin at a huge one */
		at += (0 - (at + (size_t)layout->own_first * ROAMI_PAGE)) % HUGE_PAGE;
	layout->heap = at;
	layout->total = at + layout->heap_bytes;
}

void roami_layout_make_regions(struct roami_layout *layout, size_t heap_bytes, unsigned nodes_max,
			       unsigned regions, size_t region_bytes, size_t part)
{
	size_t own_first = (regions * region_bytes + part - 1) / part * part;

	layout->regions = regions;
	layout->region_pages = (uint32_t)(region_bytes / ROAMI_PAGE);
	layout->own_first = (uint32_t)(own_first / ROAMI_PAGE);
	layout->heap_bytes = own_first + heap_bytes;
	assert(layout->heap_bytes / ROAMI_PAGE <= UINT32_MAX);
	layout->pages = (uint32_t)(layout->heap_bytes / ROAMI_PAGE);
	layout_place(layout, nodes_max);
}

void roami_segment_point(struct roami_segment *segment, const struct roami_layout *layout,
			 void *base)
{
	uint8_t *at = base;

	segment->base = at;
	segment->bytes = layout->total;
	segment->ctl = (void *)at;
	segment->pool = (void *)(at + layout->pool);
	segment->blocks = (void *)(at + layout->blocks);
	segment->ends = (void *)(at + layout->ends);
	segment->ring = (void *)(at + layout->ring);
	segment->posts = (void *)(at + layout->posts);
	segment->objects = (void *)(at + layout->objects);
	segment->headers = (void *)(at + layout->headers);
	segment->directory = (void *)(at + layout->directory);
	segment->tails = (void *)(at + layout->tails);
	segment->slots = (void *)(at + layout->slots);
	segment->heap = at + layout->heap;
}
