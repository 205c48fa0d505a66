#include "pastset/template.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------- parse */

struct parse {
	struct roami_template *template;
	const char *text, *at;
	size_t used; /* of template->text */
	char *why;
	size_t why_bytes;
};

__attribute__((format(printf, 2, 3))) static bool parse_fail(struct parse *parse,
							     const char *format, ...)
{
	va_list args;
	int said = snprintf(parse->why, parse->why_bytes,
			    "template %s: at character %zu: ", parse->text,
			    (size_t)(parse->at - parse->text) + 1);

	if (said < 0 || (size_t)said >= parse->why_bytes)
		return false;
	va_start(args, format);
	vsnprintf(parse->why + said, parse->why_bytes - (size_t)said, format, args);
	va_end(args);
	return false;
}

static char parse_peek(struct parse *parse)
{
	while (isspace((unsigned char)*parse->at))
		parse->at++;
	return *parse->at;
}

/* Takes one character of the canonical text, which has room for all of the text. */
static void parse_take(struct parse *parse)
{
	parse->template->text[parse->used++] = *parse->at++;
}

/* Nothing that is fixed may be longer than a tuple. */
static bool parse_add(struct parse *parse, uint32_t *sum, const struct roami_field *field)
{
	uint64_t bytes = (uint64_t)field->item * field->count;

	if (bytes > ROAM_PS_TUPLE_MAX || *sum + bytes > ROAM_PS_TUPLE_MAX)
		return parse_fail(parse, "a tuple has at most %u bytes", ROAM_PS_TUPLE_MAX);
	*sum += (uint32_t)bytes;
	return true;
}

/* i8 to f64. */
static bool parse_number(struct parse *parse, struct roami_field *field)
{
	static const char *const widths[] = {"8", "16", "32", "64"};

	field->kind = *parse->at;
	for (unsigned i = field->kind == 'f' ? 2 : 0; i < 4; i++) {
		size_t length = strlen(widths[i]);

		if (strncmp(parse->at + 1, widths[i], length) != 0 ||
		    isalnum((unsigned char)parse->at[1 + length]))
			continue;
		for (size_t taken = 0; taken <= length; taken++)
			parse_take(parse);
		field->item = 1u << i;
		return true;
	}
	return parse_fail(parse, "no type; there are i8 to i64, u8 to u64, f32 and f64");
}

/* [16], [], or nothing. */
static bool parse_count(struct parse *parse, struct roami_field *field)
{
	uint64_t count = 0;

	field->count = 1;
	if (parse_peek(parse) != '[')
		return true;
	parse_take(parse);
	field->count = 0;
	if (parse_peek(parse) == '0')
		return parse_fail(parse, "an array has at least one item");
	while (isdigit((unsigned char)parse_peek(parse))) {
		count = count * 10 + (unsigned)(*parse->at - '0');
		if (count > ROAM_PS_TUPLE_MAX)
			return parse_fail(parse, "a tuple has at most %u bytes", ROAM_PS_TUPLE_MAX);
		parse_take(parse);
	}
	if (*parse->at != ']')
		return parse_fail(parse, "a number or ] should follow");
	parse_take(parse);
	field->count = (uint32_t)count;
	return true;
}

/* Fields up to `end`; *bytes_p: of all, 0 if that varies. */
static bool parse_fields(struct parse *parse, char end, unsigned depth, uint32_t *bytes_p)
{
	struct roami_template *template = parse->template;
	bool varies = false;
	uint32_t sum = 0;

	for (;;) {
		struct roami_field *field = &template->fields[template->count];

		if (template->count == ROAM_PS_FIELDS_MAX)
			return parse_fail(parse, "more than %u fields", ROAM_PS_FIELDS_MAX);
		template->count++;
		if (parse_peek(parse) == '(') {
			if (depth == ROAM_PS_NESTED_MAX)
				return parse_fail(parse, "more than %u nested groups", depth);
			field->kind = '(';
			parse_take(parse);
			if (!parse_fields(parse, ')', depth + 1, &field->item))
				return false;
			field->fields = (uint16_t)(&template->fields[template->count] - field - 1);
		} else if (strchr("iuf", *parse->at) == NULL || *parse->at == '\0') {
			return parse_fail(parse, "a field should follow");
		} else if (!parse_number(parse, field)) {
			return false;
		}
		if (!parse_count(parse, field) || !parse_add(parse, &sum, field))
			return false;
		varies |= field->count == 0 || field->item == 0;
		if (parse_peek(parse) != ',')
			break;
		parse_take(parse);
	}
	if (*parse->at != end)
		return parse_fail(parse, end == ')' ? ", or ) should follow" : ", should follow");
	if (end != '\0')
		parse_take(parse);
	*bytes_p = varies ? 0 : sum;
	return true;
}

enum roam_err roami_template_parse(struct roami_template *template, const char *text, char *why,
				   size_t why_bytes)
{
	struct parse parse = {template, text, text, 0, why, why_bytes};

	memset(template, 0, sizeof(*template));
	if (strnlen(text, ROAM_PS_TEMPLATE_MAX + 1) > ROAM_PS_TEMPLATE_MAX) {
		snprintf(why, why_bytes, "a template has at most %u characters",
			 ROAM_PS_TEMPLATE_MAX);
		return ROAM_EINVAL;
	}
	return parse_fields(&parse, '\0', 0, &template->bytes) ? ROAM_OK : ROAM_EINVAL;
}

/* ---------------------------------------------------------------------------------------- fits */

static const uint8_t *fields_end(const struct roami_field *fields, unsigned count,
				 const uint8_t *at, const uint8_t *end);

/* Where the field that begins at `at` ends; NULL: beyond `end`. */
static const uint8_t *field_end(const struct roami_field *field, const uint8_t *at,
				const uint8_t *end)
{
	uint32_t items = field->count;

	if (items == 0) {
		if (end - at < (ptrdiff_t)sizeof(items))
			return NULL;
		memcpy(&items, at, sizeof(items)); /* little-endian, as this machine is */
		at += sizeof(items);
	}
	if (field->item != 0)
		return (uint64_t)(end - at) < (uint64_t)items * field->item
			       ? NULL
			       : at + (size_t)items * field->item;
	for (; items > 0 && at != NULL; items--) /* each has a byte at least */
		at = fields_end(field + 1, field->fields, at, end);
	return at;
}

static const uint8_t *fields_end(const struct roami_field *fields, unsigned count,
				 const uint8_t *at, const uint8_t *end)
{
	for (unsigned i = 0; i < count && at != NULL; i += 1u + fields[i].fields)
		at = field_end(&fields[i], at, end);
	return at;
}

bool roami_template_fits(const struct roami_template *template, const void *tuple, size_t bytes)
{
	const uint8_t *at = tuple;

	if (template->bytes != 0)
		return bytes == template->bytes;
	return fields_end(template->fields, template->count, at, at + bytes) == at + bytes;
}

bool roami_template_match(const struct roami_template *template, uint64_t fields, const void *one,
			  size_t one_bytes, const void *other, size_t other_bytes)
{
	const uint8_t *at[2] = {one, other};
	const uint8_t *const ends[2] = {at[0] + one_bytes, at[1] + other_bytes};

	for (uint32_t i = 0; fields != 0 && i < template->count; fields >>= 1) {
		const struct roami_field *field = &template->fields[i];
		const uint8_t *next[2];

		for (unsigned k = 0; k < 2; k++) {
			next[k] = field_end(field, at[k], ends[k]);
			if (next[k] == NULL)
				return false;
		}
		if ((fields & 1) != 0 && (next[0] - at[0] != next[1] - at[1] ||
					  memcmp(at[0], at[1], (size_t)(next[0] - at[0])) != 0))
			return false;
		at[0] = next[0];
		at[1] = next[1];
		i += 1u + field->fields;
	}
	return true;
}
