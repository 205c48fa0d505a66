#include "sync/sync.h"
#include "home/home_state.h"

#include <stdio.h>
#include <string.h>

#include "msg/msg.h"
#include "sync/log.h"
#include "sync/sync_state.h"

#define TABLE_ITEMS_MAX (ROAMI_TABLE_BLOCKS * ROAMI_TABLE_BLOCK)
#define TABLE_SLOTS     (2 * TABLE_ITEMS_MAX)
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

static uint32_t table_slot(uint64_t id, uint32_t turn)
{
	return ((uint32_t)(id / 8 * 0xbf58476d1ce4e5b9u >> 40) + turn) % TABLE_SLOTS;
}

/* Core files contain the objects that exist, but not the room for more. */
static void table_dump(uint8_t *block, size_t at, size_t bytes)
{
	size_t from = (at + DUMP_BYTES - 1) & ~(DUMP_BYTES - 1);
	size_t to = (at + bytes + DUMP_BYTES - 1) & ~(DUMP_BYTES - 1);

	if (to > ROAMI_TABLE_BLOCK * bytes)
		to = ROAMI_TABLE_BLOCK * bytes;
	if (to > from)
		roami_os_dump(block + from, to - from);
}

void *roami_table_item(const struct roami_table *table, uint32_t index)
{
	roami_contract(index < table->count);
	return table->blocks[index / ROAMI_TABLE_BLOCK] +
	       index % ROAMI_TABLE_BLOCK * table->item_bytes;
}

static uint64_t *table_item(const struct roami_table *table, uint32_t index)
{
	return roami_table_item(table, index);
}

/* Room for one more; the table's lock is held. */
static void *table_room(struct roami_node *node, struct roami_table *table)
{
	uint8_t **block_p = &table->blocks[table->count / ROAMI_TABLE_BLOCK];
	size_t from = table->count % ROAMI_TABLE_BLOCK * table->item_bytes;

	roami_contract(roami_spin_held(&table->lock));
	if (*block_p == NULL)
		*block_p = roami_os_reserve_sparse(ROAMI_TABLE_BLOCK * table->item_bytes);
	if (*block_p == NULL)
		roami_node_fail(node, "no memory for more than %u synchronisation objects",
				table->count);
	table_dump(*block_p, from, table->item_bytes);
	return table_item(table, table->count++);
}

static enum roam_err table_init(struct roami_table *table, size_t item_bytes)
{
	roami_assert(item_bytes > 0);
	table->item_bytes = (item_bytes + 63) & ~(size_t)63;
	table->slots = roami_os_reserve_sparse(TABLE_SLOTS * sizeof(uint32_t));
	return table->slots == NULL ? ROAM_ENOMEM : ROAM_OK;
}

void roami_table_fini(struct roami_table *table)
{
	for (uint32_t i = 0; i < ROAMI_TABLE_BLOCKS && table->blocks[i] != NULL; i++)
		roami_os_unmap(table->blocks[i], ROAMI_TABLE_BLOCK * table->item_bytes);
	memset(table->blocks, 0, sizeof(table->blocks));
	roami_os_unmap((void *)table->slots, TABLE_SLOTS * sizeof(uint32_t));
	table->slots = NULL;
}

void *roami_table_find(struct roami_node *node, struct roami_table *table, uint64_t id)
{
	(void)node;
	for (uint32_t turn = 0;; turn++) {
		uint32_t index = atomic_load_explicit(&table->slots[table_slot(id, turn)],
						      memory_order_acquire);

		if (index == 0)
			return NULL;
		if (*table_item(table, index - 1) == id)
			return table_item(table, index - 1);
	}
}

void *roami_table_make(struct roami_node *node, struct roami_table *table, uint64_t id)
{
	uint64_t *item = roami_table_find(node, table, id);
	uint32_t turn = 0;

	roami_contract(id != 0);
	if (item != NULL)
		return item;
	roami_spin_lock(node, &table->lock);
	item = roami_table_find(node, table, id);
	if (item == NULL) {
		if (table->count == TABLE_ITEMS_MAX)
			roami_node_fail(node, "more than %u synchronisation objects of a kind",
					TABLE_ITEMS_MAX);
		while (atomic_load(&table->slots[table_slot(id, turn)]) != 0)
			turn++;
		item = table_room(node, table);
		*item = id;
		if (table->make != NULL)
			table->make(node, item);
		atomic_store_explicit(&table->slots[table_slot(id, turn)], table->count,
				      memory_order_release);
	}
	roami_spin_unlock(&table->lock);
	return item;
}

/* Looks each id up, or, if those are more than there are objects, each object. */
void roami_table_each(struct roami_node *node, struct roami_table *table, uint64_t first,
		      uint64_t end, void (*fn)(struct roami_node *node, void *item))
{
	uint32_t count = atomic_load_explicit(&table->count, memory_order_acquire);

	roami_contract(first < end);
	for (uint32_t i = 0; i < count && (end - first) / 8 >= count; i++) {
		uint64_t *item = table_item(table, i);

		if (*item >= first && *item < end)
			fn(node, item);
	}
	for (uint64_t at = first; at < end && (end - first) / 8 < count; at += 8)
		for (uint32_t turn = 0;; turn++) { /* those of eight bytes begin at one slot */
			uint32_t index = atomic_load_explicit(&table->slots[table_slot(at, turn)],
							      memory_order_acquire);

			if (index == 0)
				break;
			if (*table_item(table, index - 1) / 8 == at / 8)
				fn(node, table_item(table, index - 1));
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

void *roami_resolve_record(struct roami_node *node, unsigned home,
			   const struct roami_records *records, uint64_t id)
{
	bool full;

	roami_contract(home < node->nodes);
	if (!home_of(node)->records || records == NULL)
		return NULL;
	return roami_record_find(node, home, records, id, true, &full);
}

/* ---------------------------------------------------------------------------------------- life */

static enum roam_err sync_init(struct roami_node *node, const struct roami_node_params *params)
{
	struct roami_sync_state *sync = sync_of(node);

	sync->lock_records = (struct roami_records){params->layout.locks, params->layout.lock_slots,
						    (uint32_t)roami_lock_bytes(params->nodes)};
	sync->barrier_records = (struct roami_records){
		params->layout.barriers_at, params->layout.barrier_slots,
		(uint32_t)(roami_barrier_record_bytes(params->nodes) +
			   roami_departure_bytes(params->nodes))};
	sync->locks.make = roami_lock_make;
	if (table_init(&sync->locks, sizeof(struct roami_lock)) != ROAM_OK ||
	    table_init(&sync->barriers, sizeof(struct roami_barrier)) != ROAM_OK ||
	    table_init(&sync->conds, sizeof(struct roami_cond)) != ROAM_OK ||
	    table_init(&sync->flags, sizeof(struct roami_flag)) != ROAM_OK)
		return ROAM_ENOMEM;
	return roami_objects_init(node);
}

static void sync_fini(struct roami_node *node)
{
	struct roami_sync_state *sync = sync_of(node);

	for (uint32_t i = 0; i < sync->locks.count; i++)
		roami_lock_fini(table_item(&sync->locks, i));
	roami_table_fini(&sync->locks);
	roami_table_fini(&sync->barriers);
	roami_table_fini(&sync->conds);
	roami_table_fini(&sync->flags);
	roami_objects_fini(node);
}

const struct roami_room roami_room_sync = {
	.name = "sync",
	.state_size = sizeof(struct roami_sync_state),
	.init = sync_init,
	.fini = sync_fini,
};
