/*
 * libFuzzer: the parser of options, fed with an environment: the input, cut at its zero bytes.
 * Whatever stands there, every field holds a value that its line of the table allows, which reads
 * back as it shows; a value that was refused leaves the default.
 */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/transports.h"

/* The build's transports: one, with options of either kind. */
static const struct roam_transport_option own_options[] = {
	ROAM_TRANSPORT_OPTION("ROAM_OWN", "b", "a|b|c", "a word"),
	ROAM_TRANSPORT_OPTION("ROAM_OWN_SIZE", "7", "1..99", "a number"),
	{.variable = NULL}};
static const struct roam_transport own = {.name = "own", .options = own_options};
const struct roam_transport *const roami_transports[] = {&own, NULL};

#define VARIABLES_MAX 32u
#define TEXT_MAX      (ROAMI_OPTION_OUTPUT_MAX + 64)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Each in a block of its own, so that an address checker sees a read beyond its end. */
static unsigned environment_cut(const uint8_t *data, size_t size, char **environment)
{
	unsigned count = 0;

	while (size > 0 && count < VARIABLES_MAX) {
		const uint8_t *end = memchr(data, 0, size);
		size_t length = end == NULL ? size : (size_t)(end - data);
		char *text = malloc(length + 1);

		if (text == NULL)
			abort();
		memcpy(text, data, length);
		text[length] = '\0';
		environment[count++] = text;
		length += length < size;
		data += length;
		size -= length;
	}
	environment[count] = NULL;
	return count;
}

/* What an option shows means the same again. */
static void option_again(const struct roami_option *option, const struct roami_options *options)
{
	char assignment[TEXT_MAX], shown[TEXT_MAX], again_shown[TEXT_MAX], allowed[200];
	char *environment[] = {assignment, NULL};
	size_t length = strlen(option->variable);
	struct roami_options again;

	roami_option_show(option, options, shown, sizeof(shown));
	memcpy(assignment, option->variable, length);
	assignment[length] = '=';
	strcpy(assignment + length + 1, shown);
	if (roami_options_read(&again, environment, -1) != ROAM_OK)
		abort();
	roami_option_show(option, &again, again_shown, sizeof(again_shown));
	/* Empty counts as unset. */
	if (shown[0] != '\0' && strcmp(shown, again_shown) != 0)
		abort();
	roami_option_allowed(option, allowed, sizeof(allowed));
	if (allowed[0] == '\0' || strlen(allowed) >= sizeof(allowed))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *environment[VARIABLES_MAX + 1];
	unsigned count = environment_cut(data, size, environment);
	struct roami_options options, defaults;
	struct roami_option option;
	enum roam_err err = roami_options_read(&options, environment, -1);

	if (err != ROAM_OK && err != ROAM_EINVAL)
		abort();
	for (unsigned i = 0; roami_option_at(i, &option); i++)
		option_again(&option, &options);
	for (unsigned i = 0; i < count; i++) {
		roami_option_near(environment[i], &option);
		free(environment[i]);
	}
	roami_options_default(&defaults);
	if (count == 0 && memcmp(&defaults, &options, sizeof(options)) != 0)
		abort();
	return 0;
}
