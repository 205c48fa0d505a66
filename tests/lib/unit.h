/*
 * What every unit test needs: a main for an array of CU_TestInfo, seeded random numbers, and
 * honest skipping. A test file is
 *
 *	static CU_TestInfo tests[] = { {"what it shows", test_function}, CU_TEST_INFO_NULL };
 *	int main(int argc, char **argv) { return unit_main("diff", tests, argc, argv); }
 */
#ifndef ROAM_TESTS_UNIT_H
#define ROAM_TESTS_UNIT_H

#include <CUnit/CUnit.h>
#include <stdint.h>

/*
 * Runs the tests, those whose name contains argv[1] if given, and prints CUnit's summary.
 * Returns the exit status: 0 if every assertion held and at least one test ran, else 1.
 */
int unit_main(const char *suite, const CU_TestInfo *tests, int argc, char **argv);

/*
 * The seed of this run: ROAM_SEED, else 1, so that runs are repeatable by default. unit_main prints
 * it.
 */
uint64_t unit_seed(void);

/* How many seeds: ROAM_SEEDS, or a few. */
uint64_t unit_seeds(uint64_t few);

/* The next random number of a sequence; *state is its position, any value may start it. */
uint64_t unit_random(uint64_t *state);

/* A random number below limit, which is not 0. */
uint64_t unit_below(uint64_t *state, uint64_t limit);

/* Prints one line, "skip: what: why": something is not tested on this machine. */
void unit_skip(const char *what, const char *why);

#endif
