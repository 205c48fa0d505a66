/* Tests of one-sided operations: onesided.c. */
#ifndef ROAM_TESTS_ONESIDED_H
#define ROAM_TESTS_ONESIDED_H

void test_onesided(void);

/* After the nodes have closed. */
void test_onesided_end(void);

#endif
