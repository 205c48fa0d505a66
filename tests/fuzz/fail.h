/* What a fuzzed room calls when it refuses a message: the input is over.  An assertion is found. */
#ifndef FUZZ_FAIL_H
#define FUZZ_FAIL_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/node.h"

static jmp_buf fuzz_failed;

void roami_node_fail(struct roami_node *node, const char *format, ...)
{
	(void)node;
	if (strstr(format, "%u") == NULL)
		abort(); /* names nobody */
	longjmp(fuzz_failed, 1);
}

void roami_assert_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, condition);
	abort();
}

#endif
