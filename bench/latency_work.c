/*
 * What a computer does that answers messages beside it, as in the paper: it multiplies two matrices
 * of 512 x 512, by tiles that the cache holds.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "floor.h"
#include "latency.h"

#define SIDE 512u
#define TILE 64u

static double a[SIDE][SIDE], b[SIDE][SIDE], product[SIDE][SIDE];

static void work_fill(void)
{
	for (unsigned i = 0; i < SIDE; i++)
		for (unsigned k = 0; k < SIDE; k++) {
			a[i][k] = (double)(i + k) / SIDE;
			b[i][k] = (double)(i * 3 + k) / SIDE;
		}
}

static void work_tile(unsigned i0, unsigned k0, unsigned j0)
{
	for (unsigned i = i0; i < i0 + TILE; i++)
		for (unsigned k = k0; k < k0 + TILE; k++) {
			double factor = a[i][k];

			for (unsigned j = j0; j < j0 + TILE; j++)
				product[i][j] += factor * b[k][j];
		}
}

/* In us. */
static double work_once(double ticks_per_us)
{
	uint64_t start = floor_begin();

	memset(product, 0, sizeof(product));
	for (unsigned i = 0; i < SIDE; i += TILE)
		for (unsigned k = 0; k < SIDE; k += TILE)
			for (unsigned j = 0; j < SIDE; j += TILE)
				work_tile(i, k, j);
	/* The product of one element, so that it is made. */
	if (product[0][0] <= 0)
		abort();
	return (double)(floor_end() - start) / ticks_per_us;
}

double latency_work_alone(unsigned cpu, double ticks_per_us)
{
	double sum = 0;

	floor_pin(cpu);
	work_fill();
	work_once(ticks_per_us);
	for (unsigned time = 0; time < LATENCY_TIMES; time++)
		sum += work_once(ticks_per_us);
	return sum / LATENCY_TIMES;
}

void latency_work(struct latency_shared *shared, unsigned cpu, double ticks_per_us)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	floor_pin(cpu);
	work_fill();
	for (unsigned time = 0; time < LATENCY_TIMES; time++) {
		while (atomic_load(&shared->began) <= time)
			usleep(100);
		shared->work_us[time] = work_once(ticks_per_us);
		atomic_store(&shared->works, time + 1);
	}
	_exit(0);
}
