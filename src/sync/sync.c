#include "sync/sync.h"
#include "home/reach.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "msg/msg.h"
#include "sync/lock_thin.h"
#include "sync/log.h"
#include "sync/sync_state.h"

#define TABLE_ITEMS_MAX ((uint32_t)1 << 24)
#define FIRST_BITS      6 /* items of a table's first block */
#define SLOTS_BITS      9 /* of a table at first */
#define DUMP_BYTES      ((size_t)1 << 16) /* of a table, into core files at once */

unsigned roami_sync_home(const struct roami_node *node, uint64_t id)
{
	roami_contract(node->nodes > 0);
	return (unsigned)((id / 8 * 0x9e3779b97f4a7c15u >> 32) * node->nodes >> 32);
}

void roami_sync_name(uint64_t id, const char *prefix, char text[ROAMI_SYNC_NAME_BYTES])
{
	static const char *const own[] = {[ROAMI_END_ID / 8] = "at the end of the job",
					  [ROAMI_REDUCE_ID / 8] = "in roam_reduce",
					  [ROAMI_ALL_ID / 8] = "at roam_barrier_all",
					  [ROAMI_SEAL_ID / 8] = "at its first synchronisation"};

	if (id / 8 < sizeof(own) / sizeof(own[0]) && own[id / 8] != NULL)
		snprintf(text, ROAMI_SYNC_NAME_BYTES, "%s", own[id / 8]);
	else
		snprintf(text, ROAMI_SYNC_NAME_BYTES, "%s%#llx", prefix, (unsigned long long)id);
}

/* -------------------------------------------------------------------------------------- tables */

/* Where an item is. */
struct table_slot {
	unsigned block;
	uint32_t items; /* that the block has room for */
	uint32_t at;
};

/*
 * Blocks are an eighth of what precedes them, at least 64 items, so that address space is reserved
 * for what is used: it may be limited (RLIMIT_AS).
 */
static struct table_slot table_slot(uint32_t index)
{
	unsigned bits = index < 8u << FIRST_BITS ? FIRST_BITS
						 : 28 - (unsigned)__builtin_clz(index);

	return (struct table_slot){(bits - FIRST_BITS) * 8 + (index >> bits), 1u << bits,
				    index & ((1u << bits) - 1)};
}
_Static_assert(ROAMI_TABLE_BLOCKS == (24 - 3 - FIRST_BITS + 1) * 8, "room for all items");

/* Core files contain the objects that exist, but not the room for more. */
static void table_dump(uint8_t *block, const struct table_slot *slot, size_t bytes)
{
	size_t from = (slot->at * bytes + DUMP_BYTES - 1) & ~(DUMP_BYTES - 1);
	size_t to = ((slot->at + 1) * bytes + DUMP_BYTES - 1) & ~(DUMP_BYTES - 1);

	if (to > slot->items * bytes)
		to = slot->items * bytes;
	if (to > from)
		roami_os_dump(block + from, to - from);
}

void *roami_table_item(const struct roami_table *table, uint32_t index)
{
	struct table_slot slot = table_slot(index);

	roami_contract(index < table->count);
	return table->blocks[slot.block] + slot.at * table->item_bytes;
}

static uint64_t *table_item(const struct roami_table *table, uint32_t index)
{
	return roami_table_item(table, index);
}

/* Room for one more; the table's lock is held. */
static void *table_room(struct roami_node *node, struct roami_table *table)
{
	struct table_slot slot = table_slot(table->count);
	uint8_t **block_p = &table->blocks[slot.block];

	roami_contract(roami_spin_held(&table->lock));
	if (*block_p == NULL)
		*block_p = roami_os_reserve_sparse(slot.items * table->item_bytes);
	if (*block_p == NULL)
		roami_node_fail(node, "no memory for more than %u synchronisation objects",
				table->count);
	table_dump(*block_p, &slot, table->item_bytes);
	return *block_p + slot.at * table->item_bytes;
}

static size_t slots_bytes(unsigned bits)
{
	return sizeof(struct roami_slots) + (sizeof(uint64_t *) << bits);
}

static struct roami_slots *slots_make(unsigned bits, struct roami_slots *before)
{
	struct roami_slots *slots = roami_os_reserve_sparse(slots_bytes(bits));

	if (slots != NULL) {
		slots->before = before;
		slots->bits = bits;
	}
	return slots;
}

/* Called where no thread looks yet, or with the table's lock held. */
static void slots_add(struct roami_slots *slots, uint64_t *item)
{
	size_t mask = ((size_t)1 << slots->bits) - 1, at = roami_slot(slots, *item);

	while (atomic_load_explicit(&slots->at[at], memory_order_relaxed) != NULL)
		at = (at + 1) & mask;
	atomic_store_explicit(&slots->at[at], item, memory_order_release);
}

/* Slots for one more item; the table's lock is held. */
static struct roami_slots *table_slots(struct roami_node *node, struct roami_table *table)
{
	struct roami_slots *slots = atomic_load(&table->slots), *more;

	roami_contract(roami_spin_held(&table->lock));
	if (table->count < (size_t)1 << (slots->bits - 1))
		return slots;
	more = slots_make(slots->bits + 2, slots);
	if (more == NULL)
		roami_node_fail(node, "no memory for more than %u synchronisation objects",
				table->count);
	for (uint32_t i = 0; i < table->count; i++)
		slots_add(more, table_item(table, i));
	atomic_store_explicit(&table->slots, more, memory_order_release);
	return more;
}

static enum roam_err table_init(struct roami_table *table, size_t item_bytes)
{
	roami_assert(item_bytes > 0);
	table->item_bytes = (item_bytes + 63) & ~(size_t)63;
	atomic_store(&table->slots, slots_make(SLOTS_BITS, NULL));
	return atomic_load(&table->slots) == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_table_fini(struct roami_table *table)
{
	struct roami_slots *slots = atomic_load(&table->slots), *before;

	for (uint32_t i = 0; i < table->count; i += table_slot(i).items)
		roami_os_unmap(table->blocks[table_slot(i).block],
			       table_slot(i).items * table->item_bytes);
	memset(table->blocks, 0, sizeof(table->blocks));
	for (; slots != NULL; slots = before) {
		before = slots->before;
		roami_os_unmap(slots, slots_bytes(slots->bits));
	}
	atomic_store(&table->slots, NULL);
}

void *roami_table_make(struct roami_node *node, struct roami_table *table, uint64_t id)
{
	uint64_t *item = roami_table_find(table, id);
	struct roami_slots *slots;

	roami_contract(id != 0);
	if (item != NULL)
		return item;
	roami_spin_lock(node, &table->lock);
	item = roami_table_find(table, id);
	if (item == NULL) {
		if (table->count == TABLE_ITEMS_MAX)
			roami_node_fail(node, "more than %u synchronisation objects of a kind",
					TABLE_ITEMS_MAX);
		slots = table_slots(node, table);
		item = table_room(node, table);
		*item = id;
		if (table->make != NULL)
			table->make(node, item);
		table->count++; /* now that the item is whole: others look at all counted */
		slots_add(slots, item);
	}
	roami_spin_unlock(&table->lock);
	return item;
}

/* Looks each id up, or, if those are more than there are objects, each object. */
void roami_table_each(struct roami_node *node, struct roami_table *table, uint64_t first,
		      uint64_t end, void (*fn)(struct roami_node *node, void *item))
{
	uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire);
	struct roami_slots *slots = atomic_load_explicit(&table->slots, memory_order_acquire);
	size_t mask = ((size_t)1 << slots->bits) - 1;

	roami_contract(first < end);
	for (uint32_t i = 0; i < count && (end - first) / 8 >= count; i++) {
		uint64_t *item = table_item(table, i);

		if (*item >= first && *item < end)
			fn(node, item);
	}
	for (uint64_t at = first; at < end && (end - first) / 8 < count; at += 8)
		for (size_t slot = roami_slot(slots, at);; slot = (slot + 1) & mask) {
			uint64_t *item =
				atomic_load_explicit(&slots->at[slot], memory_order_acquire);

			if (item == NULL)
				break;
			if (*item / 8 == at / 8)
				fn(node, item);
		}
}

/* ------------------------------------------------------------------- records in shared memory */

#define RECORD_WINDOW 64u /* slots in a row that an id may take */

void *roami_record_find(struct roami_node *node, unsigned home, const struct roami_records *records,
			uint64_t id, bool make, bool *full_p)
{
	uint8_t *base = node->segments[home].base + records->at;
	uint64_t hash = id / 8 * 0xbf58476d1ce4e5b9u >> 32;
	uint32_t first = (uint32_t)(hash * records->slots >> 32);

	roami_contract(home < node->nodes && id != 0 && records->item_bytes > 0);
	*full_p = false;
	for (uint32_t turn = 0; turn < RECORD_WINDOW && turn < records->slots; turn++) {
		size_t slot = (first + turn) % records->slots;
		_Atomic uint64_t *at = (void *)(base + slot * records->item_bytes);
		uint64_t found = atomic_load_explicit(at, memory_order_acquire);

		roami_step(node);
		if (found == 0) {
			if (!make)
				return NULL;
			if (atomic_compare_exchange_strong(at, &found, id))
				return (void *)at;
		}
		if (found == id)
			return (void *)at;
	}
	*full_p = true;
	return NULL;
}

static void *resolve_record(struct roami_node *node, unsigned home,
			    const struct roami_records *records, uint64_t id)
{
	void *record;
	bool full = false;

	roami_contract(home < node->nodes);
	if (records == NULL)
		return NULL;
	record = roami_record_find(node, home, records, id, true, &full);
	if (full)
		ROAMI_COUNT(node->stats, sync_unrecorded, 1);
	return record;
}

static void *resolve_messages(struct roami_node *node, unsigned home,
			      const struct roami_records *records, uint64_t id)
{
	roami_contract(home < node->nodes && id != 0);
	(void)node, (void)home, (void)records, (void)id;
	return NULL;
}

static void ended_messages(struct roami_node *node)
{
	(void)node;
}

/* The records of a job's only node lie in its own memory. */
static const struct roami_record_mode mode_records = {resolve_record, roami_barrier_shm_ended};
static const struct roami_record_mode mode_messages = {resolve_messages, ended_messages};

void *roami_resolve_record(struct roami_node *node, unsigned home,
			   const struct roami_records *records, uint64_t id)
{
	roami_contract(home < node->nodes && id != 0);
	return sync_of(node)->record_mode->resolve(node, home, records, id);
}

/* ---------------------------------------------------------------------------------------- life */

static enum roam_err sync_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_sync_state *sync = sync_of(node);

	sync->record_mode = roami_reach_choose(node, &mode_records, &mode_messages);
	sync->lock_records = (struct roami_records){params->layout.locks, params->layout.lock_slots,
						    (uint32_t)roami_lock_bytes(params->nodes)};
	sync->barrier_records = (struct roami_records){
		params->layout.barriers_at, params->layout.barrier_slots,
		(uint32_t)(roami_barrier_record_bytes(params->nodes) +
			   roami_departure_bytes(params->nodes))};
	sync->locks.make = roami_lock_make;
	if (table_init(&sync->locks, roami_lock_item_bytes(params->nodes)) != ROAM_OK ||
	    table_init(&sync->barriers, roami_barrier_item_bytes(params->nodes)) != ROAM_OK ||
	    table_init(&sync->conds, sizeof(struct roami_cond)) != ROAM_OK ||
	    table_init(&sync->flags, sizeof(struct roami_flag)) != ROAM_OK)
		return ROAM_ENOMEM;
	if (roami_thin_init(node, params->nodes) != ROAM_OK)
		return ROAM_ENOMEM;
	sync->team = 1;
	return roami_objects_init(node);
}

static void sync_fini(struct roami_node *node)
{
	struct roami_sync_state *sync = sync_of(node);

	for (uint32_t i = 0; i < sync->locks.count; i++)
		roami_lock_fini(table_item(&sync->locks, i));
	roami_table_fini(&sync->locks);
	roami_thin_fini(node);
	roami_table_fini(&sync->barriers);
	roami_table_fini(&sync->conds);
	roami_table_fini(&sync->flags);
	free(sync->team_values);
	roami_objects_fini(node);
}

const struct roami_room roami_room_sync = {
	.name = "sync",
	.state_size = sizeof(struct roami_sync_state),
	.init = sync_init,
	.fini = sync_fini,
};
