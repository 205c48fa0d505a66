/*
 * MPI_Allreduce of one int, for roam bench past, which starts it by mpirun: CPU0 CPU1 SAMPLES
 * TURNS.  The first rank prints the ticks of each sample, which is TURNS operations.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "floor.h"

int main(int argc, char **argv)
{
	int rank, mine, sum;
	long samples, turns;

	if (argc != 5)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	floor_pin((unsigned)atoi(argv[1 + rank % 2]));
	samples = atol(argv[3]);
	turns = atol(argv[4]);
	mine = rank;
	for (long i = 0; i < samples; i++) {
		uint64_t start = floor_begin();

		for (long turn = 0; turn < turns; turn++)
			MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%llu\n", (unsigned long long)(floor_end() - start));
	}
	MPI_Finalize();
	return 0;
}
