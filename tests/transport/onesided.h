/* Tests of one-sided operations: onesided.c. */
#ifndef ROAM_TESTS_ONESIDED_H
#define ROAM_TESTS_ONESIDED_H

#include <stdbool.h>
#include <stddef.h>

void test_onesided(void);

/* Whether this process may register what the test needs; else says why not. */
bool test_onesided_possible(char *why, size_t bytes);

/* After the nodes have closed. */
void test_onesided_end(void);

#endif
