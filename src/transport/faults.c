/* The option of the faulty layer.  It comes from the environment: not trusted. */
#include <stdio.h>
#include <string.h>

#include "faulty.h"

#define WORD_MAX 23

struct field {
	const char *name;
	bool (*read)(struct roami_faults *faults, const char *value, size_t offset);
	size_t offset;
	const char *takes;
};

/* A number with at most six digits behind a point, times a million; moves *at behind it. */
static bool read_number(const char **at, uint64_t *millionths_p)
{
	const char *text = *at;
	uint64_t value = 0, scale = 1000000;
	bool point = false, digit = false;

	for (; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		digit = true;
		if (value > UINT64_MAX / 100000000 || (point && scale == 1))
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		if (point)
			scale /= 10;
	}
	*at = text;
	*millionths_p = value * scale;
	return digit;
}

static bool read_percent(const char **at, uint32_t *millionths_p)
{
	uint64_t number;

	if (!read_number(at, &number) || **at != '%' || number > 100000000)
		return false;
	(*at)++;
	*millionths_p = (uint32_t)(number / 100);
	return true;
}

static bool read_time(const char **at, uint64_t *ns_p)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
	uint64_t number;

	if (!read_number(at, &number) || number > (uint64_t)3600 * 1000000 * 1000)
		return false;
	for (unsigned i = 0; i < 3; i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(*at, units[i].name, length) != 0)
			continue;
		*at += length;
		*ns_p = number / 1000 * units[i].ns / 1000;
		return *ns_p <= (uint64_t)3600 * 1000000000;
	}
	return false;
}

static bool field_percent(struct roami_faults *faults, const char *value, size_t offset)
{
	return read_percent(&value, (void *)((char *)faults + offset)) && *value == '\0';
}

static bool field_delay(struct roami_faults *faults, const char *value, size_t offset)
{
	return read_percent(&value, (void *)((char *)faults + offset)) && *value++ == ':' &&
	       read_time(&value, &faults->delay_ns) && *value == '\0';
}

static bool field_seed(struct roami_faults *faults, const char *value, size_t offset)
{
	uint64_t number;

	(void)offset;
	if (!read_number(&value, &number) || *value != '\0')
		return false;
	faults->seed = number / 1000000;
	return true;
}

static bool read_node(const char **at, unsigned *node_p)
{
	uint64_t number;

	if (!read_number(at, &number) || number % 1000000 != 0 || number / 1000000 > 1023)
		return false;
	*node_p = (unsigned)(number / 1000000);
	return true;
}

static bool field_cut(struct roami_faults *faults, const char *value, size_t offset)
{
	struct roami_cut cut = {0, 0, 0, UINT64_MAX};
	bool both;

	(void)offset;
	if (!read_node(&value, &cut.from) || (*value != '-' && *value != '>'))
		return false;
	both = *value++ == '-';
	if (!read_node(&value, &cut.to))
		return false;
	if (*value == '@') {
		value++;
		if (!read_time(&value, &cut.begin_ns))
			return false;
	}
	if (*value == '+') {
		value++;
		if (!read_time(&value, &cut.end_ns))
			return false;
		cut.end_ns += cut.begin_ns;
	}
	if (*value != '\0' || faults->cuts + (both ? 2 : 1) > ROAMI_CUTS_MAX)
		return false;
	faults->cut[faults->cuts++] = cut;
	if (both)
		faults->cut[faults->cuts++] = (struct roami_cut){cut.to, cut.from, cut.begin_ns,
								 cut.end_ns};
	return true;
}

static const struct field fields[] = {
	{"drop", field_percent, offsetof(struct roami_faults, drop), "a share like 5%"},
	{"repeat", field_percent, offsetof(struct roami_faults, repeat), "a share like 5%"},
	{"reorder", field_percent, offsetof(struct roami_faults, reorder), "a share like 5%"},
	{"corrupt", field_percent, offsetof(struct roami_faults, corrupt), "a share like 5%"},
	{"delay", field_delay, offsetof(struct roami_faults, delay),
	 "a share and a time like 5%:2ms"},
	{"cut", field_cut, 0, "nodes and times like 1-2 (both ways), 1>2@500ms or 1>2@1s+200ms"},
	{"seed", field_seed, 0, "a number"},
};

#define FIELDS (sizeof(fields) / sizeof(fields[0]))

/* Letters in common at the same places, or one place on; enough for seven short words. */
static unsigned word_likeness(const char *a, const char *b)
{
	unsigned same = 0;
	size_t b_length = strlen(b);

	for (size_t i = 0; a[i] != '\0'; i++)
		for (size_t j = i == 0 ? 0 : i - 1; j <= i + 1 && j < b_length; j++)
			if (a[i] == b[j]) {
				same++;
				break;
			}
	return same;
}

static void word_unknown(const char *word, char *why, size_t why_bytes)
{
	const char *near = NULL;
	unsigned best = 1;

	for (size_t i = 0; i < FIELDS; i++)
		if (word_likeness(word, fields[i].name) > best) {
			best = word_likeness(word, fields[i].name);
			near = fields[i].name;
		}
	if (near != NULL)
		snprintf(why, why_bytes, "no fault %s; did you mean %s?", word, near);
	else
		snprintf(why, why_bytes,
			 "no fault %s; known are drop, repeat, reorder, corrupt, delay, cut, seed",
			 word);
}

static bool faults_field(struct roami_faults *faults, const char *word, const char *value,
			 char *why, size_t why_bytes)
{
	for (size_t i = 0; i < FIELDS; i++) {
		if (strcmp(fields[i].name, word) != 0)
			continue;
		if (fields[i].read(faults, value, fields[i].offset))
			return true;
		snprintf(why, why_bytes, "%s takes %s", word, fields[i].takes);
		return false;
	}
	word_unknown(word, why, why_bytes);
	return false;
}

/* Copies at most `bytes` - 1 printable characters. */
static void word_copy(char *to, size_t bytes, const char *from, size_t length)
{
	size_t at = 0;

	for (; at < length && at + 1 < bytes; at++)
		to[at] = from[at] < ' ' || from[at] > '~' ? '?' : from[at];
	to[at] = '\0';
}

bool roami_faults_read(struct roami_faults *faults, const char *text, char *why, size_t why_bytes)
{
	char word[WORD_MAX + 1], value[64];

	*faults = (struct roami_faults){.seed = 1};
	while (*text != '\0') {
		size_t length = strcspn(text, ","), name = strcspn(text, "=,");

		word_copy(word, sizeof(word), text, name);
		value[0] = '\0';
		if (name < length)
			word_copy(value, sizeof(value), text + name + 1, length - name - 1);
		if (!faults_field(faults, word, value, why, why_bytes))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}
