/* What a false roami_assert does. */
#include <stdio.h>
#include <stdlib.h>

#include "os/os.h"

void roami_assert_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "roam: internal error: %s (%s:%d)\n", condition, file, line);
	abort();
}
