/* The rounds that bench_fault.c measures over shm, and bench_fault_udp.c over udp. */
#ifndef FAULT_ROUNDS_H
#define FAULT_ROUNDS_H

#include "bench.h"

#define BYTES ((size_t)FLOOR_PAGES * FLOOR_PAGE)

#define SCENARIO(identifier, title, options, function, value) \
	static const struct rig_scenario identifier = {       \
		.name = title,                                \
		.nodes = 2,                                   \
		.roam = true,                                 \
		.env = options,                               \
		.bytes = BYTES,                               \
		.argument = value,                            \
		.prepare = scenario_prepare,                  \
		.begin = scenario_share,                      \
		.round = function,                            \
	}

void fault_fetch_round(struct rig_run *run);
void fault_stream_round(struct rig_run *run);
void fault_release_1_round(struct rig_run *run);
void fault_release_64_round(struct rig_run *run);
void fault_release_sparse_round(struct rig_run *run);

extern const struct rig_scenario fault_floors; /* of the engine in use */

extern const struct plan bench_fault_udp;

#endif
