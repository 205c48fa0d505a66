#include "pastset/xfunc.h"

#include <string.h>

/* ----------------------------------------------------------------------------- number by number */

enum fold { FOLD_SUM, FOLD_PRODUCT, FOLD_MIN, FOLD_MAX, FOLD_AND, FOLD_OR };

/* Integers of both kinds: sums and products have the same bits. */
static uint64_t fold_whole(enum fold fold, bool is_signed, uint64_t a, uint64_t b)
{
	bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;

	switch (fold) {
	case FOLD_SUM:
		return a + b;
	case FOLD_PRODUCT:
		return a * b;
	case FOLD_MIN:
		return less ? a : b;
	case FOLD_MAX:
		return less ? b : a;
	case FOLD_AND:
		return a & b;
	case FOLD_OR:
		return a | b;
	}
	return 0;
}

static double fold_real(enum fold fold, double a, double b)
{
	switch (fold) {
	case FOLD_SUM:
		return a + b;
	case FOLD_PRODUCT:
		return a * b;
	case FOLD_MIN:
		return a < b ? a : b;
	default:
		return a < b ? b : a;
	}
}

static void fold_float(enum fold fold, uint32_t bytes, uint8_t *sum, const uint8_t *tuple)
{
	double a, b;
	float small[2];

	if (bytes == sizeof(a)) {
		memcpy(&a, sum, sizeof(a));
		memcpy(&b, tuple, sizeof(b));
		a = fold_real(fold, a, b);
		memcpy(sum, &a, sizeof(a));
		return;
	}
	memcpy(&small[0], sum, sizeof(float));
	memcpy(&small[1], tuple, sizeof(float));
	small[0] = (float)fold_real(fold, (double)small[0], (double)small[1]);
	memcpy(sum, &small[0], sizeof(float));
}

static uint64_t whole_load(bool is_signed, uint32_t bytes, const uint8_t *at)
{
	unsigned above = 64 - 8 * bytes;
	uint64_t value = 0;

	memcpy(&value, at, bytes);
	return is_signed ? (uint64_t)((int64_t)(value << above) >> above) : value;
}

static void fold_number(enum fold fold, const struct roami_field *field, uint8_t *sum,
			const uint8_t *tuple)
{
	bool is_signed = field->kind == 'i';
	uint64_t result;

	if (field->kind == 'f') {
		fold_float(fold, field->item, sum, tuple);
		return;
	}
	result = fold_whole(fold, is_signed, whole_load(is_signed, field->item, sum),
			    whole_load(is_signed, field->item, tuple));
	memcpy(sum, &result, field->item);
}

/* How many bytes the fields take. */
static size_t fold_fields(enum fold fold, const struct roami_field *fields, unsigned count,
			  uint8_t *sum, const uint8_t *tuple)
{
	size_t at = 0;

	for (unsigned i = 0; i < count; i += 1u + fields[i].fields)
		for (uint32_t item = 0; item < fields[i].count; item++) {
			if (fields[i].kind == '(')
				fold_fields(fold, &fields[i + 1], fields[i].fields, sum + at,
					    tuple + at);
			else
				fold_number(fold, &fields[i], sum + at, tuple + at);
			at += fields[i].item;
		}
	return at;
}

#define FUNCTION(name, fold)                                                         \
	static void name##_combine(const struct roami_template *template, void *sum, \
				   const void *tuple)                                \
	{                                                                            \
		fold_fields(fold, template->fields, template->count, sum, tuple);    \
	}

FUNCTION(sum, FOLD_SUM)
FUNCTION(product, FOLD_PRODUCT)
FUNCTION(min, FOLD_MIN)
FUNCTION(max, FOLD_MAX)
FUNCTION(and, FOLD_AND)
FUNCTION(or, FOLD_OR)

const struct roami_function roami_functions[] = {
	{.name = "sum", .combine = sum_combine},
	{.name = "product", .combine = product_combine},
	{.name = "min", .combine = min_combine},
	{.name = "max", .combine = max_combine},
	{.name = "and", .combine = and_combine, .whole = true},
	{.name = "or", .combine = or_combine, .whole = true},
	{.name = "match", .match = true},
	{.name = "bitmap", .packs = true},
	{.name = ""},
};

/* ------------------------------------------------------------------------------------ functions */

bool roami_function_fits(const struct roami_function *function,
			 const struct roami_template *template, uint32_t participants)
{
	if (function->packs || roami_function_matches(function))
		return participants == 0;
	if (template->bytes == 0 || participants == 0)
		return false;
	for (uint32_t i = 0; i < template->count; i++)
		if (function->whole && template->fields[i].kind == 'f')
			return false;
	return true;
}

bool roami_function_match(const struct roami_function *function,
			  const struct roami_template *template, uint64_t number,
			  const void *pattern, size_t pattern_bytes, const void *tuple,
			  size_t tuple_bytes)
{
	if (function->match)
		return roami_template_match(template, number, pattern, pattern_bytes, tuple,
					    tuple_bytes);
	return function->user.match(function->user.arg, number, pattern, pattern_bytes, tuple,
				    tuple_bytes);
}

void roami_function_combine(const struct roami_function *function,
			    const struct roami_template *template, void *sum, const void *tuple)
{
	if (function->combine != NULL)
		function->combine(template, sum, tuple);
	else
		function->user.combine(function->user.arg, sum, tuple, template->bytes);
}
