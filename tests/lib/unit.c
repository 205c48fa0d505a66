/*
 * A main for unit tests.
 */
#include "unit.h"

#include <CUnit/Basic.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t unit_seed(void)
{
	const char *seed = getenv("ROAM_SEED");

	return seed == NULL ? 1 : strtoull(seed, NULL, 0);
}

uint64_t unit_seeds(uint64_t few)
{
	const char *seeds = getenv("ROAM_SEEDS");

	return seeds == NULL ? few : strtoull(seeds, NULL, 0);
}

/* splitmix64: every state is good, so seeds may be small numbers. */
uint64_t unit_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t unit_below(uint64_t *state, uint64_t limit)
{
	return unit_random(state) % limit;
}

void unit_skip(const char *what, const char *why)
{
	printf("skip: %s: %s\n", what, why);
}

/* Adds the tests asked for to CUnit's registry; returns how many, or -1. */
static int unit_register(const char *suite_name, const CU_TestInfo *tests, const char *wanted)
{
	CU_pSuite suite = CU_add_suite(suite_name, NULL, NULL);
	int count = 0;

	if (suite == NULL)
		return -1;
	for (; tests->pName != NULL; tests++) {
		if (wanted != NULL && strstr(tests->pName, wanted) == NULL)
			continue;
		if (CU_add_test(suite, tests->pName, tests->pTestFunc) == NULL)
			return -1;
		count++;
	}
	return count;
}

int unit_main(const char *suite, const CU_TestInfo *tests, int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : NULL;
	unsigned failures;
	int count;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%s: seed %" PRIu64 "\n", suite, unit_seed());
	if (CU_initialize_registry() != CUE_SUCCESS)
		return EXIT_FAILURE;
	count = unit_register(suite, tests, wanted);
	if (count <= 0) {
		fprintf(stderr, "%s: %s\n", suite, count < 0 ? CU_get_error_msg() : "no such test");
		CU_cleanup_registry();
		return EXIT_FAILURE;
	}
	CU_basic_set_mode(CU_BRM_VERBOSE);
	failures = CU_basic_run_tests() == CUE_SUCCESS ? CU_get_number_of_failure_records() : 1;
	if (CU_get_number_of_tests_run() != (unsigned)count)
		failures++;
	CU_cleanup_registry();
	return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
