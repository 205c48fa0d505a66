/*
 * The bounded store: memory cut into equal blocks, where a record is a chain of blocks.  So no room
 * is lost between records, and a record fits whenever enough blocks are free.
 */
#include "lrc_store.h"

#include <string.h>

#define BLOCK 256u
#define BODY  (BLOCK - sizeof(uint32_t))
#define FIRST (BODY - LRC_STORE_HEAD)

/* The bytes come first, because a record's head has 64-bit numbers. */
struct store_block {
	uint8_t bytes[BODY];
	uint32_t next; /* 0: the last */
};

_Static_assert(sizeof(struct store_block) == BLOCK, "a block");

/* Lies at the beginning of the memory, in place of the block number 0, which means none. */
struct lrc_store {
	uint32_t total;
	uint32_t used;
	uint32_t fresh; /* the last block that was ever used */
	uint32_t free;  /* chained */
};

_Static_assert(sizeof(struct lrc_store) <= BLOCK, "what the store begins with");

static struct lrc_store *store_of(struct roami_node *node)
{
	return roami_memory(node);
}

static struct store_block *store_block(struct lrc_store *store, uint32_t at)
{
	roami_assert(at != 0 && at <= store->total);
	return (struct store_block *)(void *)store + at;
}

void lrc_store_open(struct roami_node *node, uint64_t store_bytes)
{
	uint32_t total = (uint32_t)(store_bytes / BLOCK);
	struct lrc_store *store = roami_memory_open(node, ((size_t)total + 1) * BLOCK);

	store->total = total;
}

uint64_t lrc_store_need(size_t bytes)
{
	return BLOCK * (1 + (bytes > FIRST ? (bytes - FIRST + BODY - 1) / BODY : 0));
}

uint64_t lrc_store_left(struct roami_node *node)
{
	struct lrc_store *store = store_of(node);

	return (uint64_t)(store->total - store->used) * BLOCK;
}

static uint32_t store_take(struct lrc_store *store)
{
	uint32_t at = store->free;

	roami_assert(store->used < store->total);
	if (at != 0)
		store->free = store_block(store, at)->next;
	else
		at = ++store->fresh;
	store->used++;
	store_block(store, at)->next = 0;
	return at;
}

/* Copies `bytes` bytes of a record, from behind its head, block by block; `in`: into the record. */
static void store_copy(struct lrc_store *store, uint32_t record, uint8_t *data, size_t bytes,
		       bool in)
{
	struct store_block *block = store_block(store, record);
	uint8_t *body = block->bytes + LRC_STORE_HEAD;
	size_t room = FIRST;

	while (bytes > 0) {
		size_t some = bytes < room ? bytes : room;

		if (in)
			memcpy(body, data, some);
		else
			memcpy(data, body, some);
		data += some;
		bytes -= some;
		if (bytes == 0)
			break;
		if (in)
			block->next = store_take(store);
		block = store_block(store, block->next);
		body = block->bytes;
		room = BODY;
	}
}

uint32_t lrc_store_put(struct roami_node *node, const void *data, size_t bytes)
{
	struct lrc_store *store = store_of(node);
	uint32_t record;

	if (lrc_store_left(node) < lrc_store_need(bytes))
		return 0;
	record = store_take(store);
	store_copy(store, record, (uint8_t *)(uintptr_t)data, bytes, true);
	return record;
}

void *lrc_store_head(struct roami_node *node, uint32_t record)
{
	return store_block(store_of(node), record)->bytes;
}

void lrc_store_get(struct roami_node *node, uint32_t record, void *data, size_t bytes)
{
	store_copy(store_of(node), record, data, bytes, false);
}

void lrc_store_drop(struct roami_node *node, uint32_t record)
{
	struct lrc_store *store = store_of(node);

	while (record != 0) {
		struct store_block *block = store_block(store, record);
		uint32_t next = block->next;

		roami_assert(store->used > 0);
		roami_memory_spoil(node, block->bytes, sizeof(block->bytes));
		block->next = store->free;
		store->free = record;
		store->used--;
		record = next;
	}
}
