/*
 * The ways to start a job of several processes: a file and a name in the list of starts.c each.
 *
 * The room keeps rules 2.4 (processes that execute main again, or may yet create nodes) and 10.3
 * (where the job's key travels).
 */
#ifndef ROAMI_STARTS_H
#define ROAMI_STARTS_H

#include "job/start.h"

/* In the order in which they are tried, up to NULL; the last one fits any process. */
extern const struct roami_start *const roami_starts[];

/* roam run -H, by an agent on each host; roam run on one host; mpirun, srun, mpiexec.hydra. */
extern const struct roami_start roami_start_agent, roami_start_local, roami_start_binding;

#endif
