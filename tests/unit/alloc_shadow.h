/* What the tests of the allocator share: both variants, and a shadow that knows what is right. */
#ifndef ALLOC_SHADOW_H
#define ALLOC_SHADOW_H

#include "heap/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#define GRAIN 64u
#define PAGE ((uint64_t)ROAM_PAGE_SIZE)
#define MIB (UINT64_C(1) << 20)
#define FIRST (16 * PAGE)

/* ---- both variants */

static inline bool jemalloc_built_in(void)
{
#ifdef ROAMI_HAVE_JEMALLOC
	return true;
#else
	return false;
#endif
}

static inline void both(void (*test)(bool own))
{
	test(true);
	if (jemalloc_built_in())
		test(false);
}

#define BOTH(name, test)       \
	static void name(void) \
	{                      \
		both(test);    \
	}

static inline struct roami_alloc *open_slice(uint64_t bytes, bool own)
{
	struct roami_alloc *alloc = NULL;

	CU_ASSERT_EQUAL_FATAL(roami_alloc_open(&alloc, FIRST, FIRST + bytes, own), ROAM_OK);
	return alloc;
}

static inline struct roami_alloc *open_sealed(uint64_t bytes, bool own)
{
	struct roami_alloc *alloc = open_slice(bytes, own);

	roami_alloc_seal(alloc);
	CU_ASSERT_STRING_EQUAL(roami_alloc_name(alloc), own ? "own" : "jemalloc");
	return alloc;
}

/* ---- the shadow: what the allocator should know; a byte for each grain of the slice. */

enum { NEVER, BEFORE, LIVE };

struct block {
	uint64_t offset;
	size_t bytes;
};

struct shadow {
	uint8_t *grains;
	uint64_t bytes;
	struct block *blocks;
	size_t count;
	size_t fresh;
	size_t stale;
	size_t wrong;
};

static inline struct shadow shadow_new(uint64_t bytes)
{
	struct shadow shadow = {.bytes = bytes};

	shadow.grains = calloc(bytes / GRAIN, 1);
	shadow.blocks = calloc(bytes / GRAIN, sizeof(struct block));
	CU_ASSERT_FATAL(shadow.grains != NULL && shadow.blocks != NULL);
	return shadow;
}

static inline void shadow_free(struct shadow *shadow)
{
	CU_ASSERT_EQUAL(shadow->wrong, 0);
	free(shadow->grains);
	free(shadow->blocks);
}

static inline size_t shadow_grains(const struct shadow *shadow, struct block block, uint8_t state)
{
	size_t count = 0;

	for (uint64_t i = 0; i < block.bytes / GRAIN; i++)
		count += shadow->grains[(block.offset - FIRST) / GRAIN + i] == state;
	return count;
}

static inline void shadow_mark(struct shadow *shadow, struct block block, uint8_t state)
{
	memset(shadow->grains + (block.offset - FIRST) / GRAIN, state, block.bytes / GRAIN);
}

/* Takes a block and checks everything that must hold for it. */
static inline enum roam_err shadow_take(struct shadow *shadow, struct roami_alloc *alloc,
					size_t bytes)
{
	struct block block = {0, 0};
	bool fresh = false;
	enum roam_err err = roami_alloc_take(alloc, bytes, &block.offset, &fresh);

	if (err != ROAM_OK)
		return err;
	block.bytes = roami_alloc_bytes(alloc, block.offset);
	shadow->wrong += block.bytes < bytes || block.bytes % GRAIN != 0;
	shadow->wrong += block.offset % (bytes >= PAGE ? PAGE : GRAIN) != 0;
	if (block.offset < FIRST || block.offset + block.bytes > FIRST + shadow->bytes) {
		shadow->wrong++;
		return ROAM_ENOTOURS;
	}
	shadow->wrong += shadow_grains(shadow, block, LIVE) != 0;
	if (fresh)
		shadow->wrong += shadow_grains(shadow, block, BEFORE) != 0;
	*(fresh ? &shadow->fresh : &shadow->stale) += 1;
	shadow_mark(shadow, block, LIVE);
	shadow->blocks[shadow->count++] = block;
	return ROAM_OK;
}

static inline void shadow_give(struct shadow *shadow, struct roami_alloc *alloc, size_t at)
{
	struct block block = shadow->blocks[at];

	shadow->wrong += roami_alloc_bytes(alloc, block.offset) != block.bytes;
	shadow->wrong += roami_alloc_give(alloc, block.offset) != ROAM_OK;
	shadow_mark(shadow, block, BEFORE);
	shadow->blocks[at] = shadow->blocks[--shadow->count];
}

#endif
