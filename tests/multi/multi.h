/* What the programs of this directory share. */
#ifndef MULTI_H
#define MULTI_H

#include <roam/roam.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRONG 3 /* exit status: the program saw something that must not be */

/* Checks that a call succeeds. */
#define must(call) must_be((call), ROAM_OK, #call, __LINE__)

/* Checks that a call fails with just this error. */
#define must_fail(call, err) must_be((call), (err), #call, __LINE__)

static inline void must_be(enum roam_err got, enum roam_err wanted, const char *call, int line)
{
	if (got == wanted)
		return;
	fprintf(stderr, "line %d: %s: %s, expected: %s\n", line, call, roam_strerror(got),
		roam_strerror(wanted));
	exit(WRONG);
}

/* Checks a condition that must hold. */
#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so on node %u: %s\n", __LINE__, roam_node(), \
				#condition);                                                       \
			exit(WRONG);                                                               \
		}                                                                                  \
	} while (0)

static inline void *must_alloc(size_t bytes)
{
	void *block = roam_alloc(bytes);

	if (block == NULL)
		must(roam_errno());
	return block;
}

static inline double now_ms(void)
{
	return (double)roam_clock_us() / 1e3;
}

/* Reads an argument that is a number. */
static inline unsigned number(const char *text)
{
	return (unsigned)strtoul(text, NULL, 10);
}

#endif
