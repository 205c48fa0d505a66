/* Where the objects of a random program lie. */
#include "random_program.h"
#include "rng.h"

static void layout_object(struct random_program *program, uint32_t *at, unsigned bytes)
{
	if (*at % ROAM_PAGE_SIZE + bytes > ROAM_PAGE_SIZE)
		*at = (*at / ROAM_PAGE_SIZE + 1) * ROAM_PAGE_SIZE;
	if (*at / ROAM_PAGE_SIZE >= program->params.heap_pages ||
	    program->object_count == RANDOM_OBJECTS_MAX)
		return;
	program->objects[program->object_count++] = (struct random_object){*at, (uint16_t)bytes, 0};
	*at += bytes;
}

static void layout_block(struct random_program *program, struct rng *rng, uint32_t bytes)
{
	static const uint8_t sizes[] = {1, 2, 4, 8, 8, 16};
	struct random_block *block = &program->blocks[program->block_count++];
	uint32_t slots = bytes / 16, count = slots < 3 ? slots : 3;

	block->bytes = bytes;
	block->first = (uint16_t)program->object_count;
	block->copy = program->copy_bytes;
	program->copy_bytes += bytes;
	for (uint32_t i = 0; i < count; i++) {
		uint8_t size = sizes[rng_below(rng, sizeof(sizes))];
		uint32_t slot = i > 0 && i + 1 == count ? slots - 1 : i;

		program->objects[program->object_count++] = (struct random_object){
			slot * 16 + rng_below(rng, 17u - size), size,
			(uint8_t)program->block_count};
	}
	block->count = (uint16_t)count;
}

/* There are few sizes, so that one block's memory becomes another's. */
static void layout_blocks(struct random_program *program, struct rng *rng)
{
	static const uint16_t sizes[] = {16, 24, 64, 64, 200, 1000, 2000, 4096, 5000};
	uint32_t count = rng_range(rng, 3, RANDOM_BLOCKS_MAX), kinds[2];

	if (!program->params.allocates || rng_one_in(rng, 3))
		return;
	kinds[0] = sizes[rng_below(rng, sizeof(sizes) / sizeof(sizes[0]))];
	kinds[1] = sizes[rng_below(rng, sizeof(sizes) / sizeof(sizes[0]))];
	for (uint32_t i = 0; i < count; i++)
		layout_block(program, rng, kinds[rng_below(rng, 2)]);
}

/* Long objects are drawn apart, so that programs without them stay as they are. */
static unsigned layout_bytes(struct rng *rng, struct rng *apart, bool longs)
{
	static const uint8_t sizes[] = {1, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 8, 12, 16};
	static const uint16_t long_sizes[] = {200, 500, 1000, 2000, 2048, 3000, ROAM_PAGE_SIZE};
	unsigned bytes = sizes[rng_below(rng, sizeof(sizes))];

	if (!longs || rng_one_in(apart, 2))
		return bytes;
	return long_sizes[rng_below(apart, sizeof(long_sizes) / sizeof(long_sizes[0]))];
}

/* Packs objects on few pages, or puts one or two on each of many. */
uint32_t random_layout(struct random_program *program, struct rng *rng, unsigned counters)
{
	static const uint16_t gaps[] = {0, 0, 0, 0, 1, 3, 8, 60, 200};
	struct rng apart = {program->params.seed ^ 0x1096};
	bool longs = rng_one_in(&apart, 3), dense = rng_one_in(&apart, 4);
	uint32_t pages = program->params.heap_pages - (longs ? 2 : 0);
	uint32_t wanted = rng_range(rng, 12, 110);
	bool wide = rng_one_in(rng, 3);
	uint32_t stride = rng_range(rng, 1, 3),
		 at = rng_below(rng, pages / 2) * ROAM_PAGE_SIZE + rng_below(rng, 64);
	uint32_t per_page = wide ? rng_range(rng, 1, 3) : rng_range(rng, 4, 30);
	uint32_t here = 0;
	const struct random_object *last;
	uint32_t behind, shared;

	for (uint32_t i = 0; i < wanted && at / ROAM_PAGE_SIZE < pages; i++) {
		layout_object(program, &at, layout_bytes(rng, &apart, longs));
		at += gaps[rng_below(rng, sizeof(gaps) / sizeof(gaps[0]))];
		if (++here % per_page == 0 && !dense)
			at = (at / ROAM_PAGE_SIZE + stride) * ROAM_PAGE_SIZE +
			     (rng_one_in(rng, 2) ? 0 : rng_below(rng, 4000));
	}
	last = &program->objects[program->object_count - 1];
	behind = last->offset + (last->bytes < 16 ? 16 : last->bytes);
	layout_blocks(program, rng);
	shared = program->object_count;
	/*
	 * Places the counters: among the other objects if there is room, else at the heap's start.
	 */
	at = behind;
	if (at / ROAM_PAGE_SIZE + 1 >= program->params.heap_pages || rng_one_in(rng, 2))
		at = 0;
	if (at == 0 && program->objects[0].offset < counters * 8)
		at = behind;
	for (unsigned i = 0; i < counters; i++)
		layout_object(program, &at, 8);
	return shared;
}
