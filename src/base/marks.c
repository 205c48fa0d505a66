#include "base/marks.h"

#define GRAIN 64u /* bytes of a bit */

static uint64_t mark_bit(uint64_t offset)
{
	return UINT64_C(1) << (offset % ROAMI_PAGE / GRAIN);
}

void roami_marks_set(struct roami_segment *segment, uint64_t offset, uint64_t bytes, bool fresh)
{
	uint64_t last = (offset + bytes - 1) / GRAIN * GRAIN;

	/* Other blocks may lie before and behind it in its first and its last page. */
	for (uint64_t page = offset / ROAMI_PAGE; !fresh && page <= last / ROAMI_PAGE; page++) {
		uint64_t bits = UINT64_MAX;

		if (page == offset / ROAMI_PAGE)
			bits &= ~(mark_bit(offset) - 1);
		if (page == last / ROAMI_PAGE)
			bits &= mark_bit(last) | (mark_bit(last) - 1);
		if ((atomic_load_explicit(&segment->ends[page], memory_order_relaxed) & bits) != 0)
			atomic_fetch_and(&segment->ends[page], ~bits);
	}
	atomic_fetch_or(&segment->ends[last / ROAMI_PAGE], mark_bit(last));
	atomic_fetch_or(&segment->blocks[offset / ROAMI_PAGE], mark_bit(offset));
}

bool roami_marks_take(struct roami_segment *segment, uint64_t offset)
{
	uint64_t bit = mark_bit(offset);

	return offset % GRAIN == 0 &&
	       (atomic_fetch_and(&segment->blocks[offset / ROAMI_PAGE], ~bit) & bit) != 0;
}

uint64_t roami_marks_end(const struct roami_segment *segment, const struct roami_layout *layout,
			 uint64_t offset)
{
	uint64_t page = offset / ROAMI_PAGE;
	uint64_t bits = atomic_load(&segment->ends[page]) & ~(mark_bit(offset) - 1);

	while (bits == 0 && ++page < layout->pages)
		bits = atomic_load(&segment->ends[page]);
	return bits == 0 ? layout->heap_bytes
			 : page * ROAMI_PAGE + ((uint64_t)__builtin_ctzll(bits) + 1) * GRAIN;
}

bool roami_marks_any(const struct roami_segment *segment, const struct roami_layout *layout,
		     uint64_t from, uint64_t first, uint64_t end)
{
	uint64_t page = end / ROAMI_PAGE, bits = 0, last;

	/* The last block that begins before `end` is the only one that may reach into the range. */
	while (bits == 0 && page > from / ROAMI_PAGE)
		bits = atomic_load(&segment->blocks[--page]);
	if (bits == 0)
		return false;
	last = page * ROAMI_PAGE + (63u - (uint64_t)__builtin_clzll(bits)) * GRAIN;
	return roami_marks_end(segment, layout, last) > first;
}

void roami_marks_copy(struct roami_segment *to, const struct roami_segment *from,
		      const struct roami_layout *layout, uint64_t first, uint64_t end)
{
	for (uint64_t page = first / ROAMI_PAGE; page < end / ROAMI_PAGE; page++) {
		uint64_t bits = atomic_load(&from->blocks[page]);

		for (; bits != 0; bits &= bits - 1) {
			uint64_t offset =
				page * ROAMI_PAGE + (uint64_t)__builtin_ctzll(bits) * GRAIN;

			roami_marks_set(to, offset, roami_marks_end(from, layout, offset) - offset,
					false);
		}
	}
}
