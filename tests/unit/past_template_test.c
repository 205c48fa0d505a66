/*
 * Templates: which texts are one, their canonical text and size, which bytes are a tuple of one,
 * and what X-functions make of two tuples.
 */
#include "pastset/xfunc.h"

#include <string.h>

#include "unit.h"

struct good {
	const char *text, *canonical;
	uint32_t bytes;
};

static const struct good goods[] = {
	{"u8", "u8", 1},
	{" i32 , f64 [ 16 ] ", "i32,f64[16]", 132},
	{"u8[]", "u8[]", 0},
	{"(i32,f32[3])[10]", "(i32,f32[3])[10]", 160},
	{"( i64, u8[] )[]", "(i64,u8[])[]", 0},
	{"((u16)[2],i8)[3]", "((u16)[2],i8)[3]", 15},
	{"i8,i16,i32,i64,u8,u16,u32,u64,f32,f64", "i8,i16,i32,i64,u8,u16,u32,u64,f32,f64", 42},
	{"((((((((u8))))))))", "((((((((u8))))))))", 1},
	{"u8[61184]", "u8[61184]", 61184},
};

struct bad {
	const char *text, *says;
};

static const struct bad bads[] = {
	{"", "character 1"},
	{"i32,", "character 5: a field"},
	{"i32 f64", "character 5: ,"},
	{"i31", "character 1: no type"},
	{"f16", "no type"},
	{"i320", "no type"},
	{"int", "no type"},
	{"i32[", "a number or ]"},
	{"i32[x]", "a number or ]"},
	{"i32[0]", "at least one"},
	{"i32[4", "a number or ]"},
	{"(i32", ", or )"},
	{"()", "character 2: a"},
	{"(i32))", "character 6: ,"},
	{"i32]", "character 4"},
	{"u8[61185]", "at most 61184 bytes"},
	{"u8[61184],u8", "at most"},
	{"(u64[100])[100]", "at most"},
	{"u8[18446744073709551617]", "at most"},
	{"(((((((((u8)))))))))", "more than 8 nested"},
};

static void test_good(void)
{
	struct roami_template template;
	char why[700];

	for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(
			roami_template_parse(&template, goods[i].text, why, sizeof(why)), ROAM_OK);
		CU_ASSERT_STRING_EQUAL(template.text, goods[i].canonical);
		CU_ASSERT_EQUAL(template.bytes, goods[i].bytes);
	}
}

static void test_bad(void)
{
	struct roami_template template;
	char why[700], text[2 * ROAM_PS_TEMPLATE_MAX];

	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		why[0] = '\0';
		CU_ASSERT_EQUAL(roami_template_parse(&template, bads[i].text, why, sizeof(why)),
				ROAM_EINVAL);
		if (strstr(why, bads[i].says) == NULL) {
			printf("\n%s: %s\n", bads[i].text, why);
			CU_FAIL("says something else");
		}
	}
	memset(text, 'u', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	CU_ASSERT_EQUAL(roami_template_parse(&template, text, why, sizeof(why)), ROAM_EINVAL);
	for (unsigned i = 0; i < ROAM_PS_FIELDS_MAX + 1; i++)
		memcpy(text + 3 * i, "u8,", 4);
	text[3 * (ROAM_PS_FIELDS_MAX + 1) - 1] = '\0';
	CU_ASSERT_EQUAL(roami_template_parse(&template, text, why, sizeof(why)), ROAM_EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "more than 64 fields"));
	text[3 * ROAM_PS_FIELDS_MAX - 1] = '\0';
	CU_ASSERT_EQUAL(roami_template_parse(&template, text, why, sizeof(why)), ROAM_OK);
}

/* Writes a random tuple of the fields; returns its length. */
static size_t tuple_random(const struct roami_field *fields, unsigned count, uint8_t *out,
			   uint64_t *random)
{
	uint8_t *at = out;

	for (unsigned i = 0; i < count; i += 1u + fields[i].fields) {
		uint32_t items = fields[i].count;

		if (items == 0) {
			items = (uint32_t)unit_below(random, 4);
			memcpy(at, &items, sizeof(items));
			at += sizeof(items);
		}
		for (; items > 0; items--)
			at += fields[i].kind == '('
				      ? tuple_random(&fields[i + 1], fields[i].fields, at, random)
				      : fields[i].item;
	}
	return (size_t)(at - out);
}

/* A tuple fits; one byte more or less does not. */
static void test_fits(void)
{
	static const char *const texts[] = {"i32,f64[3]",           "u8[]",
					    "(i64,u8[])[]",         "u8[],u16[],f64",
					    "((u8[],i8)[2],u32)[]", "(u8[])[3],(f64,f32)[]"};
	uint64_t random = unit_seed();
	uint8_t tuple[4096];
	char why[700];

	memset(tuple, 0, sizeof(tuple));
	for (unsigned round = 0; round < 3000; round++) {
		struct roami_template template;
		size_t bytes;

		roami_template_parse(&template, texts[round % 6], why, sizeof(why));
		bytes = tuple_random(template.fields, template.count, tuple, &random);
		CU_ASSERT(roami_template_fits(&template, tuple, bytes));
		CU_ASSERT_FALSE(roami_template_fits(&template, tuple, bytes + 1));
		CU_ASSERT_FALSE(roami_template_fits(&template, tuple, bytes - 1));
		memset(tuple, 0, sizeof(tuple));
	}
}

/* Counts that lie. */
static void test_lies(void)
{
	struct roami_template template;
	uint8_t tuple[16];
	char why[700];

	memset(tuple, 0xff, sizeof(tuple));
	roami_template_parse(&template, "u64[]", why, sizeof(why));
	CU_ASSERT_FALSE(roami_template_fits(&template, tuple, sizeof(tuple)));
	roami_template_parse(&template, "(u8[])[]", why, sizeof(why));
	CU_ASSERT_FALSE(roami_template_fits(&template, tuple, sizeof(tuple)));
	CU_ASSERT_FALSE(roami_template_fits(&template, tuple, 3));
	CU_ASSERT_FALSE(roami_template_fits(&template, tuple, 0));
}

/* Compares every X-function on every type with what C does. */
static const struct roami_function *function_of(const char *name)
{
	const struct roami_function *at = roami_functions;

	while (strcmp(at->name, name) != 0)
		at++;
	return at;
}

#define COMBINES(type, text, name, expression)                                                 \
	do {                                                                                   \
		type a, b, c;                                                                  \
                                                                                               \
		memcpy(&a, bytes, sizeof(a));                                                  \
		memcpy(&b, bytes + 8, sizeof(b));                                              \
		c = (type)(expression);                                                        \
		CU_ASSERT_EQUAL_FATAL(roami_template_parse(&template, text, why, sizeof(why)), \
				      ROAM_OK);                                                \
		CU_ASSERT(roami_function_fits(function_of(name), &template, 2));                  \
		roami_function_combine(function_of(name), &template, &a, &b);                  \
		CU_ASSERT(memcmp(&a, &c, sizeof(a)) == 0);                                     \
	} while (0)

#define COMBINES_ALL(type, text)                    \
	COMBINES(type, text, "sum", a + b);         \
	COMBINES(type, text, "product", a *b);      \
	COMBINES(type, text, "min", a < b ? a : b); \
	COMBINES(type, text, "max", a < b ? b : a)

#define COMBINES_WHOLE(type, text)         \
	COMBINES_ALL(type, text);          \
	COMBINES(type, text, "and", a &b); \
	COMBINES(type, text, "or", a | b)

static void test_functions(void)
{
	struct roami_template template;
	uint64_t random = unit_seed();
	char why[700];

	for (unsigned round = 0; round < 2000; round++) {
		uint8_t bytes[16];
		uint64_t one = unit_random(&random), two = unit_random(&random);

		memcpy(bytes, &one, 8);
		memcpy(bytes + 8, &two, 8);
		COMBINES_WHOLE(uint8_t, "u8");
		COMBINES_WHOLE(int8_t, "i8");
		COMBINES_WHOLE(int16_t, "i16");
		COMBINES_WHOLE(uint32_t, "(u32)");
		COMBINES_WHOLE(uint64_t, "u64[1]");
		one = (uint64_t)(int64_t)((int32_t)one % 1000);
		memcpy(bytes, &one, 8);
		two = (uint64_t)(int64_t)((int32_t)two % 1000);
		memcpy(bytes + 8, &two, 8);
		COMBINES_WHOLE(int32_t, "i32");
		COMBINES_WHOLE(int64_t, "i64");
		memcpy(bytes, &(double){(double)(int64_t)one / 7}, 8);
		memcpy(bytes + 8, &(double){(double)(int64_t)two / 3}, 8);
		COMBINES_ALL(double, "f64");
		memcpy(bytes, &(float){(float)(int64_t)one / 7}, 4);
		memcpy(bytes + 8, &(float){(float)(int64_t)two / 3}, 4);
		COMBINES_ALL(float, "f32");
	}
	roami_template_parse(&template, "i32, f32", why, sizeof(why));
	CU_ASSERT_FALSE(roami_function_fits(function_of("and"), &template, 2));
	roami_template_parse(&template, "i32[]", why, sizeof(why));
	CU_ASSERT_FALSE(roami_function_fits(function_of("sum"), &template, 2));
	CU_ASSERT(roami_function_fits(function_of("match"), &template, 0));
	CU_ASSERT_FALSE(roami_function_fits(function_of("match"), &template, 2));
}

static bool alike(const struct roami_template *template, uint64_t fields, const char *one,
		  const char *other)
{
	return roami_template_match(template, fields, one, strlen(one), other, strlen(other));
}

/* Fields of any size are compared one by one; a truncated tuple matches nothing. */
static void test_match(void)
{
	struct roami_template template;
	char why[80];
	const uint32_t one = 1, two = 2;
	char ones[20] = "aaxxxxbyyyyccc", twos[20] = "aaxxxxbbyyyydd";

	roami_template_parse(&template, "u8[2], (u16, i8)[1], u8, i32", why, sizeof(why));
	CU_ASSERT(alike(&template, 0, "aabbbcdddd", "eefffghhhh"));
	CU_ASSERT(alike(&template, 1, "aabbbcdddd", "aafffghhhh"));
	CU_ASSERT(alike(&template, 2 | 8, "aabbbcdddd", "aebbbgdddd"));
	CU_ASSERT_FALSE(alike(&template, 2 | 8, "aabbbcdddd", "aabbecdddd"));
	CU_ASSERT_FALSE(alike(&template, 15, "aabbbcdddd", "aabbbcddde"));
	CU_ASSERT_FALSE(alike(&template, 8, "aabbbcdddd", "aabbbcddd"));
	CU_ASSERT(alike(&template, ~0ull, "aabbbcdddd", "aabbbcdddd"));
	roami_template_parse(&template, "u16, u8[], u8[3]", why, sizeof(why));
	memcpy(ones + 2, &one, 4);
	memcpy(twos + 2, &two, 4);
	CU_ASSERT(roami_template_match(&template, 1, ones, 10, twos, 11));
	CU_ASSERT_FALSE(roami_template_match(&template, 2, ones, 10, twos, 11));
	CU_ASSERT_FALSE(roami_template_match(&template, 4, ones, 10, twos, 10));
	memcpy(ones + 7, twos + 8, 3);
	CU_ASSERT(roami_template_match(&template, 4 | 1, ones, 10, twos, 11));
}

static CU_TestInfo tests[] = {
	{"texts that are templates", test_good},       {"texts that are none, and why", test_bad},
	{"bytes that are a tuple", test_fits},         {"counts that lie", test_lies},
	{"X-functions on every type", test_functions}, {"tuples that are alike", test_match},
	CU_TEST_INFO_NULL};

int main(int argc, char **argv)
{
	return unit_main("past_template", tests, argc, argv);
}
