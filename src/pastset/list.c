#include "pastset/list.h"

#include <string.h>

#include "pastset/names.h"

static void list_one(struct roami_past *past, uint32_t number, struct roami_listing *entry)
{
	const struct roami_element *element = roami_past_element(past, number);
	struct roami_op op = {.ask = {.op = ROAM_PS_STATE, .element = number, .from = number},
			      .lax = true};

	memset(entry, 0, sizeof(*entry));
	roami_past_run(past, &op, NULL);
	entry->state = op.state;
	roami_name_of(past, number, entry->name, sizeof(entry->name));
	if (element->function != NULL)
		strcpy(entry->function, element->function->name);
}

size_t roami_list_fill(struct roami_past *past, uint32_t first, struct roami_listings *all)
{
	struct roami_listed *head = &all->head;

	memset(head, 0, sizeof(*head));
	head->elements = atomic_load(&past->element_count);
	for (uint32_t at = first; at < head->elements && head->count < ROAMI_LISTINGS_MAX; at++)
		list_one(past, at, &all->entries[head->count++]);
	return sizeof(*head) + head->count * sizeof(all->entries[0]);
}
