#include "store/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "os/os.h"

static size_t have_bytes(uint64_t heap_bytes)
{
	return (heap_bytes / ROAMI_STORE_PAGE + 63) / 64 * sizeof(uint64_t);
}

static size_t changed_bytes(uint64_t heap_bytes)
{
	return heap_bytes / ROAMI_STORE_PAGE * sizeof(uint64_t);
}

bool roami_state_make(struct roami_store_state *state, uint64_t heap_bytes)
{
	state->heap = roami_os_reserve_sparse(heap_bytes);
	state->have = roami_os_reserve_sparse(have_bytes(heap_bytes));
	state->changed = roami_os_reserve_sparse(changed_bytes(heap_bytes));
	if (state->heap == NULL || state->have == NULL || state->changed == NULL) {
		state->heap_bytes = heap_bytes;
		roami_state_free(state);
		return false;
	}
	state->heap_bytes = heap_bytes;
	return true;
}

void roami_state_free(struct roami_store_state *state)
{
	if (state->heap != NULL)
		roami_os_unmap(state->heap, state->heap_bytes);
	if (state->have != NULL)
		roami_os_unmap(state->have, have_bytes(state->heap_bytes));
	if (state->changed != NULL)
		roami_os_unmap(state->changed, changed_bytes(state->heap_bytes));
	for (uint32_t i = 0; i < state->name_count; i++)
		free(state->names[i]);
	memset(state, 0, sizeof(*state));
}

/* -------------------------------------------------------------------------------------- entries */

static bool name_fits(const struct roami_store_entry *entry, const uint8_t *data)
{
	return entry->where == 0 && entry->from > 0 && entry->from <= ROAMI_STORE_KEY_MAX &&
	       entry->from <= entry->bytes &&
	       entry->bytes - entry->from <= ROAMI_STORE_VALUE_MAX &&
	       memchr(data, '\0', entry->from) == NULL;
}

static bool entry_fits(const struct roami_store_state *state,
		       const struct roami_store_entry *entry, const uint8_t *data)
{
	switch (entry->kind) {
	case ROAMI_STORE_BYTES:
		return entry->where < state->heap_bytes / ROAMI_STORE_PAGE &&
		       entry->from < ROAMI_STORE_PAGE &&
		       entry->bytes <= ROAMI_STORE_PAGE - entry->from;
	case ROAMI_STORE_NAME:
		return name_fits(entry, data);
	case ROAMI_STORE_NO_NAME:
		return name_fits(entry, data) && entry->from == entry->bytes;
	default:
		return false;
	}
}

bool roami_state_fits(const struct roami_store_state *state, const uint8_t *entries, size_t bytes)
{
	struct roami_store_entry entry;

	while (bytes > 0) {
		if (bytes < sizeof(entry))
			return false;
		memcpy(&entry, entries, sizeof(entry));
		if (entry.bytes > bytes - sizeof(entry) ||
		    roami_store_entry_bytes(&entry) > bytes ||
		    !entry_fits(state, &entry, entries + sizeof(entry)))
			return false;
		entries += roami_store_entry_bytes(&entry);
		bytes -= roami_store_entry_bytes(&entry);
	}
	return true;
}

/* Where the name is; name_count: nowhere. */
static uint32_t name_find(const struct roami_store_state *state, const uint8_t *name,
			  uint32_t bytes)
{
	uint32_t at = 0;

	while (at < state->name_count &&
	       (state->names[at]->name_bytes != bytes ||
		memcmp(state->names[at]->text, name, bytes) != 0))
		at++;
	return at;
}

uint32_t roami_state_new_names(const struct roami_store_state *state, const uint8_t *entries,
			       size_t bytes)
{
	struct roami_store_entry entry;
	uint32_t count = 0;

	for (size_t at = 0; at < bytes; at += roami_store_entry_bytes(&entry)) {
		memcpy(&entry, entries + at, sizeof(entry));
		count += entry.kind == ROAMI_STORE_NAME &&
			 name_find(state, entries + at + sizeof(entry), entry.from) ==
				 state->name_count;
	}
	return count;
}

static bool name_apply(struct roami_store_state *state, const struct roami_store_entry *entry,
		       const uint8_t *data)
{
	uint32_t at = name_find(state, data, entry->from);
	struct roami_store_name *name;

	if (entry->kind == ROAMI_STORE_NO_NAME) {
		if (at == state->name_count)
			return true;
		free(state->names[at]);
		state->names[at] = state->names[--state->name_count];
		return true;
	}
	if (at == ROAMI_STORE_NAMES_MAX)
		return false;
	name = malloc(sizeof(*name) + entry->bytes);
	if (name == NULL)
		return false;
	name->name_bytes = entry->from;
	name->bytes = entry->bytes;
	memcpy(name->text, data, entry->bytes);
	if (at < state->name_count)
		free(state->names[at]);
	else
		state->name_count++;
	state->names[at] = name;
	return true;
}

static void page_apply(struct roami_store_state *state, uint64_t serial,
		       const struct roami_store_entry *entry, const uint8_t *data)
{
	state->changed[entry->where] = serial;
	state->pages += !roami_state_has(state, entry->where);
	state->have[entry->where / 64] |= UINT64_C(1) << entry->where % 64;
	memcpy(state->heap + (size_t)entry->where * ROAMI_STORE_PAGE + entry->from, data,
	       entry->bytes);
}

bool roami_state_apply(struct roami_store_state *state, uint64_t serial, const uint8_t *entries,
		       size_t bytes)
{
	struct roami_store_entry entry;

	for (size_t at = 0; at < bytes; at += roami_store_entry_bytes(&entry)) {
		memcpy(&entry, entries + at, sizeof(entry));
		if (entry.kind == ROAMI_STORE_BYTES) {
			page_apply(state, serial, &entry, entries + at + sizeof(entry));
			continue;
		}
		state->named = serial;
		if (!name_apply(state, &entry, entries + at + sizeof(entry)))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------------------------- listings */

uint32_t roami_state_next(const struct roami_store_state *state, uint32_t page)
{
	uint32_t end = roami_state_heap_pages(state);

	while (page < end && !roami_state_has(state, page)) {
		uint64_t rest = state->have[page / 64] >> page % 64;

		if (rest == 0)
			page += 64 - page % 64;
		else
			page += (uint32_t)__builtin_ctzll(rest);
	}
	return page < end ? page : end;
}

static void entry_write(uint8_t *to, const struct roami_store_entry *entry, const void *data)
{
	memcpy(to, entry, sizeof(*entry));
	memcpy(to + sizeof(*entry), data, entry->bytes);
	memset(to + sizeof(*entry) + entry->bytes, 0,
	       roami_store_entry_bytes(entry) - sizeof(*entry) - entry->bytes);
}

/* The first page from there on that a commit behind `since` changed. */
static uint32_t pages_next(const struct roami_store_state *state, uint64_t since, uint32_t page)
{
	page = roami_state_next(state, page);
	while (page < roami_state_heap_pages(state) && state->changed[page] <= since)
		page = roami_state_next(state, page + 1);
	return page;
}

size_t roami_state_pages(const struct roami_store_state *state, uint64_t since, uint32_t first,
			 uint32_t end, uint8_t *entries, size_t room, uint32_t *next_p)
{
	struct roami_store_entry entry = {.kind = ROAMI_STORE_BYTES, .bytes = ROAMI_STORE_PAGE};
	size_t bytes = 0;

	first = pages_next(state, since, first);
	while (first < end && first < roami_state_heap_pages(state) &&
	       roami_store_entry_bytes(&entry) <= room - bytes) {
		entry.where = first;
		entry_write(entries + bytes, &entry,
			    state->heap + (size_t)first * ROAMI_STORE_PAGE);
		bytes += roami_store_entry_bytes(&entry);
		first = pages_next(state, since, first + 1);
	}
	*next_p = first < end && first < roami_state_heap_pages(state) ? first : end;
	return bytes;
}

size_t roami_state_names(const struct roami_store_state *state, uint32_t first, uint8_t *entries,
			 size_t room, uint32_t *next_p)
{
	size_t bytes = 0;

	for (; first < state->name_count; first++) {
		const struct roami_store_name *name = state->names[first];
		struct roami_store_entry entry = {.kind = ROAMI_STORE_NAME,
						  .bytes = name->bytes,
						  .from = name->name_bytes};

		if (roami_store_entry_bytes(&entry) > room - bytes)
			break;
		entry_write(entries + bytes, &entry, name->text);
		bytes += roami_store_entry_bytes(&entry);
	}
	*next_p = first < state->name_count ? first : UINT32_MAX;
	return bytes;
}
