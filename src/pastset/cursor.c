/* Tuples written and read field by field. */
#include <string.h>

#include "roam/pastset.h"

void roam_ps_cursor_begin(struct roam_ps_cursor *cursor, void *tuple, size_t bytes)
{
	cursor->begin = cursor->at = tuple;
	cursor->end = cursor->at + bytes;
}

enum roam_err roam_ps_cursor_end(const struct roam_ps_cursor *cursor, size_t *bytes_p)
{
	if (cursor->at == NULL)
		return ROAM_ETOOBIG;
	if (bytes_p != NULL)
		*bytes_p = (size_t)(cursor->at - cursor->begin);
	return ROAM_OK;
}

/* Goes over `count` items; where they are, NULL if not all are there. */
static uint8_t *cursor_take(struct roam_ps_cursor *cursor, size_t count, size_t item_bytes)
{
	uint8_t *at = cursor->at;

	if (at == NULL)
		return NULL;
	if (item_bytes != 0 && count > (size_t)(cursor->end - at) / item_bytes)
		cursor->at = NULL;
	else
		cursor->at = at + count * item_bytes;
	return cursor->at != NULL ? at : NULL;
}

void roam_ps_put(struct roam_ps_cursor *cursor, const void *fields, size_t bytes)
{
	uint8_t *at = cursor_take(cursor, 1, bytes);

	if (at != NULL && bytes != 0)
		memcpy(at, fields, bytes);
}

void roam_ps_get(struct roam_ps_cursor *cursor, void *fields, size_t bytes)
{
	const uint8_t *at = cursor_take(cursor, 1, bytes);

	if (at != NULL && bytes != 0)
		memcpy(fields, at, bytes);
}

void roam_ps_put_items(struct roam_ps_cursor *cursor, const void *items, uint32_t count,
		       size_t item_bytes)
{
	roam_ps_put(cursor, &count, sizeof(count)); /* little-endian, as this machine is */
	if (items != NULL) {
		uint8_t *at = cursor_take(cursor, count, item_bytes);

		if (at != NULL && count != 0)
			memcpy(at, items, count * item_bytes);
	}
}

const void *roam_ps_get_items(struct roam_ps_cursor *cursor, uint32_t *count_p, size_t item_bytes)
{
	const uint8_t *items;

	*count_p = 0;
	roam_ps_get(cursor, count_p, sizeof(*count_p));
	items = cursor_take(cursor, *count_p, item_bytes);
	if (items == NULL)
		*count_p = 0;
	return items;
}
