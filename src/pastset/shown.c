#include "pastset/shown.h"

#include <string.h>

#include "pastset/kernel.h"

/* The number of the tuple that observe-last returns to all that ask; 0: it may depend, or wait. */
static uint64_t shown_number(const struct roami_element *element)
{
	const struct roami_tuples *tuples = &element->tuples;

	if (element->broken || element->paged || element->function != NULL ||
	    tuples->oldest > tuples->last)
		return 0;
	return tuples->last;
}

/* Writes what has changed. */
static void shown_write(struct roami_element *element, struct roami_shown *shown, uint64_t number)
{
	roami_record record = 0;
	uint32_t turn, bytes = 0;

	if (number != 0) {
		record = roami_tuples_find(element->buddy, &element->tuples, number);
		bytes = roami_record_bytes(element->buddy, record);
		if (bytes > ROAMI_SHOWN_BYTES)
			number = 0;
	}
	turn = atomic_load_explicit(&shown->turn, memory_order_relaxed);
	atomic_store_explicit(&shown->turn, turn + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	shown->number = number;
	shown->bytes = bytes;
	if (number != 0)
		memcpy(shown->tuple, roami_record_data(element->buddy, record), bytes);
	atomic_store_explicit(&shown->turn, turn + 2, memory_order_release);
}

void roami_shown_put(struct roami_past *past, struct roami_element *element)
{
	size_t index = (size_t)(element - past->elements);
	uint64_t number;

	roami_contract(roami_spin_held(&element->lock));
	if (past->shown == NULL || index >= ROAMI_SHOWN_ELEMENTS)
		return;
	number = shown_number(element);
	if (past->shown[index].number != number)
		shown_write(element, &past->shown[index], number);
}
