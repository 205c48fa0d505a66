/* X-functions for `roam past serve --functions`: the greatest tuple, as bytes; a filter. */
#include <roam/pastset.h>
#include <string.h>

extern const struct roam_ps_function roam_ps_functions[];

static void longest(void *arg, void *sum, const void *tuple, size_t bytes)
{
	(void)arg;
	if (memcmp(tuple, sum, bytes) > 0)
		memcpy(sum, tuple, bytes);
}

/* Whether the tuple's first byte has the remainder that the pattern asks for. */
static bool alike(void *arg, uint64_t number, const void *pattern, size_t pattern_bytes,
		  const void *tuple, size_t tuple_bytes)
{
	const uint8_t *wanted = pattern, *had = tuple;

	(void)arg;
	return pattern_bytes > 0 && tuple_bytes > 0 && wanted[0] % number == had[0] % number;
}

const struct roam_ps_function roam_ps_functions[] = {{.name = "longest", .combine = longest},
						     {.name = "alike", .match = alike},
						     {.name = NULL}};
