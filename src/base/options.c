/*
 * The parser of options.  The environment is not trusted: every length, range and overflow is
 * checked, and values are printed with control characters replaced.
 */
#include "base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/transports.h"

#define PREFIX "ROAM_"
#define WARNINGS_MAX 8
#define NEAR_MAX 3 /* edits between a variable and the one suggested; fewer if it is short */
#define VARIABLE_MAX 32

#define OPTION_LINE(field, variable, type, value, allowed, meaning, internal) \
	{variable, ROAMI_OPTION_##type, internal, value, allowed, meaning,                         \
	 offsetof(struct roami_options, field)},

const struct roami_option roami_options_table[] = {
#define OPTION(...) OPTION_LINE(__VA_ARGS__, false)
#define OPTION_INTERNAL(...) OPTION_LINE(__VA_ARGS__, true)
#include "base/options.def"
#undef OPTION_INTERNAL
#undef OPTION
	{NULL, ROAMI_OPTION_NAME, false, NULL, NULL, NULL, 0},
};

#define TABLE_OPTIONS (sizeof(roami_options_table) / sizeof(roami_options_table[0]) - 1)

_Static_assert(ROAM_TRANSPORT_TEXT == ROAMI_OPTION_NAME_MAX, "a transport's text is a NAME");

/* A transport's option as a line of the table; its value is the `at`th of struct roami_options. */
static struct roami_option option_of(const struct roam_transport_option *own, unsigned at)
{
	enum roami_option_type type = ROAMI_OPTION_CHOICE;
	size_t offset = offsetof(struct roam_transport_value, word);

	if (own->allowed[0] == '\0') {
		type = ROAMI_OPTION_NAME;
		offset = offsetof(struct roam_transport_value, text);
	} else if (strstr(own->allowed, "..") != NULL) {
		type = ROAMI_OPTION_UNSIGNED;
		offset = offsetof(struct roam_transport_value, number);
	}
	return (struct roami_option){.variable = own->variable,
				     .type = type,
				     .value = own->value,
				     .allowed = own->allowed,
				     .meaning = own->meaning,
				     .offset = offsetof(struct roami_options, transports) +
					       at * sizeof(struct roam_transport_value) + offset};
}

bool roami_option_at(unsigned index, struct roami_option *option_p)
{
	unsigned at = 0;

	if (index < TABLE_OPTIONS) {
		*option_p = roami_options_table[index];
		return true;
	}
	for (unsigned i = 0; roami_transports[i] != NULL; i++) {
		const struct roam_transport_option *own = roami_transports[i]->options;

		for (; own != NULL && own->variable != NULL; own++, at++) {
			if (at >= ROAMI_TRANSPORT_OPTIONS_MAX)
				return false;
			if (at != index - TABLE_OPTIONS)
				continue;
			*option_p = option_of(own, at);
			return true;
		}
	}
	return false;
}

/* ------------------------------------------------------------------------------------- messages */

__attribute__((format(printf, 2, 3))) static void option_say(int fd, const char *format, ...)
{
	char line[512];
	va_list args;
	int length;
	size_t bytes;

	if (fd < 0)
		return;
	va_start(args, format);
	length = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (length < 0)
		return;
	bytes = (size_t)length < sizeof(line) - 2 ? (size_t)length : sizeof(line) - 2;
	line[bytes++] = '\n';
	if (write(fd, line, bytes) < 0)
		return; /* nowhere to say it */
}

/* Copies foreign text for a message: nothing that moves a cursor, and not too much of it. */
static const char *option_clean(char *text, size_t bytes, const char *foreign, size_t length)
{
	size_t at = 0;

	for (; at < length && at + 4 < bytes; at++)
		text[at] = foreign[at] < ' ' || foreign[at] > '~' ? '?' : foreign[at];
	if (at < length) {
		memcpy(text + at, "...", 3);
		at += 3;
	}
	text[at] = '\0';
	return text;
}

/* -------------------------------------------------------------------------------------- parsing */

static int option_digit(char c, unsigned base)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (base == 16 && c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (base == 16 && c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The power of two a suffix stands for; -1: no such suffix. */
static int option_shift(const char *suffix, size_t length)
{
	static const char letters[] = "KMGT";
	const char *letter;

	if (length == 0)
		return 0;
	if (length > 1)
		return -1;
	letter = memchr(letters, suffix[0] & ~0x20, sizeof(letters) - 1);
	return letter == NULL ? -1 : (int)(10 * (letter - letters + 1));
}

/* A number of exactly `length` characters; no sign, no space. */
static bool option_number(const char *text, size_t length, bool suffix, uint64_t *value_p)
{
	bool hex = !suffix && length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	unsigned base = hex ? 16 : 10;
	size_t first = hex ? 2 : 0, at = first;
	uint64_t value = 0;
	int digit, shift = 0;

	for (; at < length && (digit = option_digit(text[at], base)) >= 0; at++)
		if (__builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit, &value))
			return false;
	if (at == first)
		return false;
	if (suffix)
		shift = option_shift(text + at, length - at);
	else if (at < length)
		return false;
	if (shift < 0 || (shift > 0 && value >> (64 - shift) != 0))
		return false;
	*value_p = value << shift;
	return true;
}

/* Behind "auto|" of a table line, which stands for 0. */
static const char *option_numbers(const struct roami_option *option, bool *automatic_p)
{
	*automatic_p = strncmp(option->allowed, "auto|", 5) == 0;
	return option->allowed + (*automatic_p ? 5 : 0);
}

/* The limits of a table line, "least..most". */
static void option_limits(const struct roami_option *option, uint64_t *least_p, uint64_t *most_p)
{
	bool suffix = option->type == ROAMI_OPTION_SIZE, automatic;
	const char *numbers = option_numbers(option, &automatic);
	const char *dots = strstr(numbers, "..");

	*least_p = 0;
	*most_p = UINT64_MAX;
	if (dots == NULL)
		return;
	option_number(numbers, (size_t)(dots - numbers), suffix, least_p);
	option_number(dots + 2, strlen(dots + 2), suffix, most_p);
}

/* The index of a word in "a|b|c"; -1 if it is not there. */
static int option_word(const char *words, const char *value)
{
	size_t length = strlen(value);

	for (int index = 0;; index++) {
		size_t word = strcspn(words, "|");

		if (word == length && memcmp(words, value, length) == 0)
			return index;
		if (words[word] == '\0')
			return -1;
		words += word + 1;
	}
}

/* "a,b" among the words behind the first one, which stands for none of them. */
static bool option_list(const char *words, const char *value, unsigned *bits_p)
{
	unsigned bits = 0;

	for (;;) {
		char word[ROAMI_OPTION_NAME_MAX];
		size_t length = strcspn(value, ",");
		int index;

		if (length >= sizeof(word))
			return false;
		memcpy(word, value, length);
		word[length] = '\0';
		index = option_word(words, word);
		if (index < 0 || (index == 0 && (bits != 0 || value[length] != '\0')))
			return false;
		bits |= index > 0 ? 1u << (index - 1) : 0;
		if (value[length] == '\0')
			break;
		value += length + 1;
	}
	*bits_p = bits;
	return true;
}

static bool option_bool(const char *value, bool *value_p)
{
	int word = option_word("0|1|no|yes|off|on|false|true", value);

	if (word < 0)
		return false;
	*value_p = word % 2 == 1;
	return true;
}

static bool option_text(const char *value, char *field, size_t bytes)
{
	size_t length = strlen(value);

	if (length >= bytes)
		return false;
	memcpy(field, value, length + 1);
	return true;
}

static bool option_output(const char *value, char *field)
{
	bool on;

	if (value[0] == '/' || (value[0] == '.' && value[1] == '/'))
		return option_text(value, field, ROAMI_OPTION_OUTPUT_MAX);
	if (!option_bool(value, &on))
		return false;
	return option_text(on ? "1" : "", field, ROAMI_OPTION_OUTPUT_MAX);
}

static bool option_range(const struct roami_option *option, const char *value, uint64_t *value_p)
{
	uint64_t number, least, most;
	bool automatic;

	option_numbers(option, &automatic);
	if (automatic && strcmp(value, "auto") == 0) {
		*value_p = 0;
		return true;
	}
	if (!option_number(value, strlen(value), option->type == ROAMI_OPTION_SIZE, &number))
		return false;
	option_limits(option, &least, &most);
	if (number < least || number > most)
		return false;
	if (option->type == ROAMI_OPTION_SIZE)
		number = (number + ROAM_PAGE_SIZE - 1) / ROAM_PAGE_SIZE * ROAM_PAGE_SIZE;
	*value_p = number;
	return true;
}

/* Sets one field; false, and the field unchanged, if the value is not allowed. */
static bool option_set(const struct roami_option *option, const char *value,
		       struct roami_options *options)
{
	void *field = (char *)options + option->offset;
	int word;

	switch (option->type) {
	case ROAMI_OPTION_NAME:
		return option_text(value, field, ROAMI_OPTION_NAME_MAX);
	case ROAMI_OPTION_WORD:
		return option_word(option->allowed, value) >= 0 &&
		       option_text(value, field, ROAMI_OPTION_NAME_MAX);
	case ROAMI_OPTION_CHOICE:
		word = option_word(option->allowed, value);
		if (word < 0)
			return false;
		*(unsigned *)field = (unsigned)word;
		return true;
	case ROAMI_OPTION_LIST:
		return option_list(option->allowed, value, field);
	case ROAMI_OPTION_SIZE:
	case ROAMI_OPTION_UNSIGNED:
		return option_range(option, value, field);
	case ROAMI_OPTION_BOOL:
		return option_bool(value, field);
	case ROAMI_OPTION_TEXT:
		return option_text(value, field, ROAMI_OPTION_TEXT_MAX);
	case ROAMI_OPTION_OUTPUT:
		return option_output(value, field);
	}
	return false;
}

/* ------------------------------------------------------------------------------ the environment */

/* The value of a variable as getenv finds it; NULL: not set. */
static const char *option_lookup(char *const *env, const char *variable)
{
	size_t length = strlen(variable);

	for (; *env != NULL; env++)
		if (strncmp(*env, variable, length) == 0 && (*env)[length] == '=')
			return *env + length + 1;
	return NULL;
}

static bool option_known(const char *variable, size_t length)
{
	struct roami_option option;

	for (unsigned i = 0; roami_option_at(i, &option); i++)
		if (strlen(option.variable) == length &&
		    memcmp(option.variable, variable, length) == 0)
			return true;
	return false;
}

/* The edit distance of two names, at most VARIABLE_MAX long. */
static unsigned option_distance(const char *a, const char *b)
{
	unsigned row[VARIABLE_MAX + 1];
	size_t b_length = strlen(b);

	for (unsigned j = 0; j <= b_length; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1] != '\0'; i++) {
		unsigned corner = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			unsigned best = corner + (a[i - 1] != b[j - 1]);

			corner = row[j];
			if (corner + 1 < best)
				best = corner + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[b_length];
}

bool roami_option_near(const char *variable, struct roami_option *near_p)
{
	struct roami_option option;
	bool found = false;
	size_t length = strlen(variable), prefix = strlen(PREFIX);
	unsigned least = NEAR_MAX + 1;

	if (length > VARIABLE_MAX)
		return false;
	if (length < prefix + 2 * NEAR_MAX)
		least = (unsigned)(length > prefix ? (length - prefix) / 2 : 0) + 1;
	for (unsigned i = 0; roami_option_at(i, &option); i++) {
		unsigned distance = option_distance(variable, option.variable);

		if (!option.internal && distance < least) {
			least = distance;
			*near_p = option;
			found = true;
		}
	}
	return found;
}

static void option_warn(const char *variable, size_t length, int err_fd)
{
	char name[VARIABLE_MAX * 2];
	struct roami_option near;

	option_clean(name, sizeof(name), variable, length);
	if (roami_option_near(name, &near))
		option_say(err_fd, "roam: warning: unknown variable %s; did you mean %s?", name,
			   near.variable);
	else
		option_say(err_fd,
			   "roam: warning: unknown variable %s; `roam info` lists the known ones",
			   name);
}

static void options_warn(char *const *env, int err_fd)
{
	unsigned unknown = 0;

	for (; *env != NULL; env++) {
		size_t length = strcspn(*env, "=");

		if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0 || option_known(*env, length))
			continue;
		if (++unknown <= WARNINGS_MAX)
			option_warn(*env, length, err_fd);
	}
	if (unknown > WARNINGS_MAX)
		option_say(err_fd, "roam: warning: and %u more", unknown - WARNINGS_MAX);
}

static void option_refuse(const struct roami_option *option, const char *value, int err_fd)
{
	char shown[80], allowed[160];

	roami_option_allowed(option, allowed, sizeof(allowed));
	option_say(err_fd, "roam: %s=%s: must be %s", option->variable,
		   option_clean(shown, sizeof(shown), value, strlen(value)), allowed);
}

void roami_options_default(struct roami_options *options)
{
	struct roami_option option;

	memset(options, 0, sizeof(*options));
	for (unsigned i = 0; roami_option_at(i, &option); i++)
		option_set(&option, option.value, options); /* a unit test shows all are good */
}

void roami_options_of(const struct roami_options *options, const struct roam_transport *transport,
		      struct roam_transport_value values[ROAMI_TRANSPORT_OPTIONS_MAX])
{
	const struct roam_transport_option *own;
	unsigned at = 0, count = 0;
	bool listed = false;

	for (unsigned i = 0; roami_transports[i] != NULL && !listed; i++) {
		listed = roami_transports[i] == transport;
		own = roami_transports[i]->options;
		for (; !listed && own != NULL && own->variable != NULL; own++)
			at++;
	}
	own = transport->options;
	for (; own != NULL && own->variable != NULL && count < ROAMI_TRANSPORT_OPTIONS_MAX; own++) {
		struct roami_options fresh = {.transports = {{0}}};
		struct roami_option option = option_of(own, 0);

		option_set(&option, own->value, &fresh);
		values[count] = fresh.transports[0];
		if (listed && at + count < ROAMI_TRANSPORT_OPTIONS_MAX)
			values[count] = options->transports[at + count];
		count++;
	}
}

/* Node 0's, or a process's that is alone; as far as launchers say. */
static bool options_first(char *const *env)
{
	static const char *const ranks[] = {"PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
	bool first = true;

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		const char *rank = option_lookup(env, ranks[i]);

		first = first && (rank == NULL || strcmp(rank, "0") == 0);
	}
	return first;
}

enum roam_err roami_options_read(struct roami_options *options, char *const *env, int err_fd)
{
	struct roami_option option;
	enum roam_err err = ROAM_OK;

	roami_options_default(options);
	for (unsigned i = 0; roami_option_at(i, &option); i++) {
		const char *value = option_lookup(env, option.variable);

		if (value == NULL || value[0] == '\0' || option_set(&option, value, options))
			continue;
		option_refuse(&option, value, err_fd);
		err = ROAM_EINVAL;
	}
	if (options->boot[0] == '\0' && options->log >= ROAMI_LEVEL_WARN && options_first(env))
		options_warn(env, err_fd);
	return err;
}

enum roam_err roami_options_number(const char *text, uint64_t *value_p, int err_fd)
{
	const struct roami_option *option = roami_options_table;
	size_t length = strcspn(text, "=");

	while (option->variable != NULL && (strlen(option->variable) != length ||
					    memcmp(option->variable, text, length) != 0))
		option++;
	if (option->variable == NULL || text[length] == '\0')
		return ROAM_EINVAL;
	if (option_range(option, text + length + 1, value_p))
		return ROAM_OK;
	option_refuse(option, text + length + 1, err_fd);
	return ROAM_EINVAL;
}

/* ------------------------------------------------------------------------------------- in words */

/* "a|b|c" as "a, b or c". */
static void option_words(const char *words, char *text, size_t bytes)
{
	size_t at = 0;

	for (; *words != '\0' && at + 4 < bytes; words++) {
		if (*words != '|') {
			text[at++] = *words;
			continue;
		}
		memcpy(text + at, strchr(words + 1, '|') != NULL ? ",   " : " or ", 4);
		at += strchr(words + 1, '|') != NULL ? 2 : 4;
	}
	text[at] = '\0';
}

void roami_option_allowed(const struct roami_option *option, char *text, size_t bytes)
{
	bool automatic;
	const char *numbers = option_numbers(option, &automatic);
	const char *dots = strstr(numbers, "..");
	int least = dots == NULL ? 0 : (int)(dots - numbers);

	switch (option->type) {
	case ROAMI_OPTION_NAME:
		snprintf(text, bytes, "a name of at most %d characters", ROAMI_OPTION_NAME_MAX - 1);
		break;
	case ROAMI_OPTION_WORD:
	case ROAMI_OPTION_CHOICE:
		option_words(option->allowed, text, bytes);
		break;
	case ROAMI_OPTION_LIST:
		option_words(option->allowed, text, bytes);
		snprintf(text + strlen(text), bytes - strlen(text),
			 ", several with commas between");
		break;
	case ROAMI_OPTION_SIZE:
		snprintf(text, bytes, "a size from %.*s to %s", least, numbers, dots + 2);
		break;
	case ROAMI_OPTION_UNSIGNED:
		snprintf(text, bytes, "%sa number from %.*s to %s", automatic ? "auto or " : "",
			 least, numbers, dots + 2);
		break;
	case ROAMI_OPTION_BOOL:
		snprintf(text, bytes, "0 or 1");
		break;
	case ROAMI_OPTION_TEXT:
		snprintf(text, bytes, "a text of at most %d characters", ROAMI_OPTION_TEXT_MAX - 1);
		break;
	case ROAMI_OPTION_OUTPUT:
		snprintf(text, bytes, "0, 1, or a path that begins with / or ./");
		break;
	}
}

static void option_show_size(uint64_t size, char *text, size_t bytes)
{
	static const char letters[] = "KMGT";
	unsigned unit = 0;

	while (unit < 4 && size != 0 && size % 1024 == 0) {
		size /= 1024;
		unit++;
	}
	snprintf(text, bytes, "%llu%.*s", (unsigned long long)size, unit > 0,
		 letters + unit - (unit > 0));
}

static void option_show_list(const char *words, unsigned bits, char *text, size_t bytes)
{
	size_t used = 0;

	if (bits == 0)
		snprintf(text, bytes, "%.*s", (int)strcspn(words, "|"), words);
	for (; bits != 0 && used < bytes; bits >>= 1) {
		words += strcspn(words, "|") + 1;
		if (bits & 1)
			used += (size_t)snprintf(text + used, bytes - used, "%s%.*s",
						 used > 0 ? "," : "",
						 (int)strcspn(words, "|"), words);
	}
}

void roami_option_show(const struct roami_option *option, const struct roami_options *options,
		       char *text, size_t bytes)
{
	const void *field = (const char *)options + option->offset;
	const char *word = option->allowed;

	switch (option->type) {
	case ROAMI_OPTION_NAME:
	case ROAMI_OPTION_WORD:
	case ROAMI_OPTION_TEXT:
		snprintf(text, bytes, "%s", (const char *)field);
		break;
	case ROAMI_OPTION_CHOICE:
		for (unsigned i = *(const unsigned *)field; i > 0; i--)
			word += strcspn(word, "|") + 1;
		snprintf(text, bytes, "%.*s", (int)strcspn(word, "|"), word);
		break;
	case ROAMI_OPTION_LIST:
		option_show_list(word, *(const unsigned *)field, text, bytes);
		break;
	case ROAMI_OPTION_SIZE:
		option_show_size(*(const uint64_t *)field, text, bytes);
		break;
	case ROAMI_OPTION_UNSIGNED:
		if (*(const uint64_t *)field == 0 && strncmp(option->allowed, "auto|", 5) == 0)
			snprintf(text, bytes, "auto");
		else
			snprintf(text, bytes, "%llu", *(const unsigned long long *)field);
		break;
	case ROAMI_OPTION_BOOL:
		snprintf(text, bytes, "%d", *(const bool *)field);
		break;
	case ROAMI_OPTION_OUTPUT:
		snprintf(text, bytes, "%s",
			 *(const char *)field != '\0' ? (const char *)field : "0");
		break;
	}
}
