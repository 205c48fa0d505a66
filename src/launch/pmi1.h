/*
 * A client of PMI-1, the wire protocol of mpiexec.hydra and `srun --mpi=pmi2`: lines of key=value
 * over a connection that the launcher has made, or that it waits for.  What comes from there is
 * checked.
 */
#ifndef ROAMI_PMI1_H
#define ROAMI_PMI1_H

#include "launch/bind.h"

#define ROAMI_PMI1_LINE 4096u
#define ROAMI_PMI1_NAME 257u

struct roami_pmi1 {
	int fd;
	unsigned round;             /* of gatherings */
	size_t part;                /* bytes of a blob in one value */
	size_t have, used;          /* of `in` */
	char name[ROAMI_PMI1_NAME]; /* of the job's space of keys */
	char line[ROAMI_PMI1_LINE];
	char in[ROAMI_PMI1_LINE];
};

/* The conversation up to the first gathering over `pmi->fd`; bound->me and ->nodes are known. */
bool roami_pmi1_begin(struct roami_bound *bound, struct roami_pmi1 *pmi);

/* A process that connects to a port and gives its PMI number is told which node it is. */
bool roami_pmi1_ack(struct roami_bound *bound, struct roami_pmi1 *pmi, unsigned number);

bool roami_pmi1_gather(struct roami_bound *bound, struct roami_pmi1 *pmi, const void *mine,
		       size_t bytes, struct roami_blob *all);

#endif
