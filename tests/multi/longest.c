/* An X-function for `roam past serve --functions`: the greatest tuple, as bytes. */
#include <roam/pastset.h>
#include <string.h>

extern const struct roam_ps_function roam_ps_functions[];

static void longest(void *arg, void *sum, const void *tuple, size_t bytes)
{
	(void)arg;
	if (memcmp(tuple, sum, bytes) > 0)
		memcpy(sum, tuple, bytes);
}

const struct roam_ps_function roam_ps_functions[] = {{"longest", longest, NULL},
						     {NULL, NULL, NULL}};
