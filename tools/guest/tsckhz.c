/* Prints the rate of the time stamp counter, in thousand ticks per second. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define MEASURED_NS 20000000

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(void)
{
	int64_t start = now_ns(), end = start;
	uint64_t ticks = __builtin_ia32_rdtsc();

	while (end - start < MEASURED_NS)
		end = now_ns();
	ticks = __builtin_ia32_rdtsc() - ticks;
	printf("%.0f\n", (double)ticks * 1e6 / (double)(end - start));
	return 0;
}
