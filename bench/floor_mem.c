/* Floors: copies and compares. */
#include <string.h>

#include "floor.h"

static uint8_t *page_of(uint8_t *memory, uint32_t page)
{
	return memory + (size_t)page * FLOOR_PAGE;
}

/* Side 0 writes all of its memory, then side 1 goes on. */
static bool rewritten(struct floor_pair *pair)
{
	if (pair->side == 0)
		memset(pair->mem[0], (int)(pair->value++ & 0x7f), (size_t)FLOOR_PAGES * FLOOR_PAGE);
	floor_meet(pair);
	return pair->side == 1;
}

void floor_get(struct floor_pair *pair, struct floor_out *out)
{
	if (!rewritten(pair))
		return;
	for (unsigned i = 0; i < pair->samples; i++) {
		uint32_t page = pair->order[i];
		uint64_t start = floor_begin();

		memcpy(page_of(pair->mem[1], page), page_of(pair->mem[0], page), FLOOR_PAGE);
		floor_note(out, floor_end() - start, 1);
	}
}

void floor_put(struct floor_pair *pair, struct floor_out *out)
{
	if (!rewritten(pair))
		return;
	for (unsigned i = 0; i < pair->samples; i++) {
		uint32_t page = pair->order[i];
		uint64_t start = floor_begin();

		memcpy(page_of(pair->mem[0], page), page_of(pair->mem[1], page), FLOOR_PAGE);
		floor_note(out, floor_end() - start, 1);
	}
}

void floor_stream(struct floor_pair *pair, struct floor_out *out)
{
	unsigned passes = (pair->samples + 127) / 128;

	for (unsigned pass = 0; pass < passes; pass++) {
		uint64_t start;

		if (rewritten(pair)) {
			start = floor_begin();
			for (uint32_t page = 0; page < FLOOR_PAGES; page++)
				memcpy(page_of(pair->mem[1], page), page_of(pair->mem[0], page),
				       FLOOR_PAGE);
			floor_note(out, floor_end() - start, FLOOR_PAGES);
		}
		floor_meet(pair);
	}
}

void floor_twin(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side != 1)
		return;
	for (unsigned i = 0; i < pair->samples; i++) {
		uint32_t page = pair->order[i];
		uint64_t start = floor_begin();

		memcpy(page_of(pair->twins, i), page_of(pair->mem[1], page), FLOOR_PAGE);
		floor_note(out, floor_end() - start, 1);
	}
}

/* A twin is made and the last word changed: the compare reads both pages whole. */
static void compare_prepare(struct floor_pair *pair, uint32_t page)
{
	uint8_t *bytes = page_of(pair->mem[1], page);

	memcpy(page_of(pair->twins, page), bytes, FLOOR_PAGE);
	bytes[FLOOR_PAGE - 1] = (uint8_t)(bytes[FLOOR_PAGE - 1] + 1);
	floor_clobber();
}

static volatile int compare_result;

static void compare_pages(struct floor_pair *pair, struct floor_out *out, unsigned pages,
			  unsigned samples)
{
	for (unsigned i = 0; i < samples; i++) {
		uint32_t first = pair->order[i] & ~(pages - 1);
		uint64_t start;

		for (uint32_t page = first; page < first + pages; page++)
			compare_prepare(pair, page);
		start = floor_begin();
		for (uint32_t page = first; page < first + pages; page++)
			compare_result = memcmp(page_of(pair->mem[1], page),
						page_of(pair->twins, page), FLOOR_PAGE);
		floor_note(out, floor_end() - start, 1);
	}
}

void floor_compare(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side == 1)
		compare_pages(pair, out, 1, pair->samples);
}

void floor_compare_64(struct floor_pair *pair, struct floor_out *out)
{
	if (pair->side == 1)
		compare_pages(pair, out, FLOOR_BATCH, (pair->samples + 7) / 8);
}

void floor_store(struct floor_pair *pair, struct floor_out *out)
{
	unsigned passes = (pair->samples + 63) / 64;

	if (pair->side != 1)
		return;
	for (unsigned pass = 0; pass < passes; pass++) {
		uint64_t start = floor_begin();

		for (unsigned i = 0; i < FLOOR_PAGES; i++)
			*(volatile uint64_t *)(void *)page_of(pair->mem[1], pair->order[i]) = i;
		floor_note(out, floor_end() - start, FLOOR_PAGES);
	}
}

uint64_t floor_memcmp_ticks(const void *a, const void *b, size_t bytes, unsigned turns)
{
	uint64_t start = floor_begin();

	for (unsigned i = 0; i < turns; i++) {
		compare_result = memcmp(a, b, bytes);
		floor_clobber();
	}
	return floor_end() - start;
}

uint64_t floor_memcpy_ticks(void *to, const void *from, size_t bytes, unsigned turns)
{
	uint64_t start = floor_begin();

	for (unsigned i = 0; i < turns; i++) {
		memcpy(to, from, bytes);
		floor_clobber();
	}
	return floor_end() - start;
}
