/*
 * The cursor: what it writes is a tuple of the template, and is read back; too little room, of
 * every size, is refused and not overrun; so are tuples that end too early, and wrong counts.
 */
#include <string.h>

#include "pastset/template.h"
#include "unit.h"

#define BYTES 47u /* 4 + 4 + 5 + 4 + (8 + 4 + 3) + (8 + 4 + 0) + 3 */

static const int64_t keys[2] = {-7, INT64_MAX};
static const char *const texts[2] = {"abc", ""};

static enum roam_err write_tuple(uint8_t *tuple, size_t limit, size_t *bytes_p)
{
	const uint32_t number = 0x01020304;
	struct roam_ps_cursor cursor;

	roam_ps_cursor_begin(&cursor, tuple, limit);
	roam_ps_put(&cursor, &number, sizeof(number));
	roam_ps_put_items(&cursor, "hello", 5, 1);
	roam_ps_put_items(&cursor, NULL, 2, 0);
	for (unsigned i = 0; i < 2; i++) {
		roam_ps_put(&cursor, &keys[i], sizeof(keys[i]));
		roam_ps_put_items(&cursor, texts[i], (uint32_t)strlen(texts[i]), 1);
	}
	roam_ps_put(&cursor, "end", 3);
	return roam_ps_cursor_end(&cursor, bytes_p);
}

/* Reads the tuple; returns whether all of it was there. */
static enum roam_err read_tuple(uint8_t *tuple, size_t bytes, size_t *bytes_p)
{
	struct roam_ps_cursor cursor;
	uint32_t number = 0, count, records;
	const void *items;
	char end[3] = "";

	roam_ps_cursor_begin(&cursor, tuple, bytes);
	roam_ps_get(&cursor, &number, sizeof(number));
	items = roam_ps_get_items(&cursor, &count, 1);
	CU_ASSERT((items == NULL && count == 0) || (count == 5 && memcmp(items, "hello", 5) == 0));
	roam_ps_get_items(&cursor, &records, 0);
	CU_ASSERT(records == 2 || cursor.at == NULL);
	for (unsigned i = 0; i < records; i++) {
		int64_t key = keys[i];

		roam_ps_get(&cursor, &key, sizeof(key));
		items = roam_ps_get_items(&cursor, &count, 1);
		CU_ASSERT(key == keys[i]);
		CU_ASSERT((items == NULL && count == 0) ||
			  (count == strlen(texts[i]) && memcmp(items, texts[i], count) == 0));
	}
	roam_ps_get(&cursor, end, sizeof(end));
	CU_ASSERT(cursor.at == NULL || (number == 0x01020304 && memcmp(end, "end", 3) == 0));
	return roam_ps_cursor_end(&cursor, bytes_p);
}

static void test_forth_and_back(void)
{
	uint8_t tuple[BYTES + 1];
	struct roami_template template;
	size_t bytes = 0;
	char why[80];

	CU_ASSERT(write_tuple(tuple, sizeof(tuple), &bytes) == ROAM_OK && bytes == BYTES);
	roami_template_parse(&template, "u32, u8[], (i64, u8[])[], u8[3]", why, sizeof(why));
	CU_ASSERT(roami_template_fits(&template, tuple, bytes));
	CU_ASSERT(read_tuple(tuple, bytes, &bytes) == ROAM_OK && bytes == BYTES);
	CU_ASSERT(write_tuple(tuple, BYTES, NULL) == ROAM_OK);
}

static void test_too_short(void)
{
	for (size_t limit = 0; limit < BYTES; limit++) {
		uint8_t tuple[BYTES + 1], behind[BYTES + 1];
		size_t bytes = 99;

		memset(tuple, 0xee, sizeof(tuple));
		memset(behind, 0xee, sizeof(behind));
		CU_ASSERT(write_tuple(tuple, limit, &bytes) == ROAM_ETOOBIG && bytes == 99);
		CU_ASSERT(memcmp(tuple + limit, behind + limit, sizeof(tuple) - limit) == 0);
		write_tuple(tuple, sizeof(tuple), NULL);
		CU_ASSERT(read_tuple(tuple, limit, &bytes) == ROAM_ETOOBIG && bytes == 99);
	}
}

/* A count so large that the number of bytes does not fit into 32 bits. */
static void test_lies(void)
{
	const uint32_t lie = UINT32_MAX;
	struct roam_ps_cursor cursor;
	uint8_t tuple[16] = {0};
	uint32_t count = 1;

	memcpy(tuple, &lie, sizeof(lie));
	roam_ps_cursor_begin(&cursor, tuple, sizeof(tuple));
	CU_ASSERT(roam_ps_get_items(&cursor, &count, 8) == NULL && count == 0);
	CU_ASSERT(roam_ps_cursor_end(&cursor, NULL) == ROAM_ETOOBIG);
}

static CU_TestInfo tests[] = {{"forth and back", test_forth_and_back},
			      {"too little room, tuples cut short", test_too_short},
			      {"counts that lie", test_lies},
			      CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("past_cursor", tests, argc, argv);
}
