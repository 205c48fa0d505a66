/* Worlds whose counts begin just below where they would not fit into fewer bits, or would wrap. */
#ifndef ROAM_TESTS_WORLD_BEGIN_H
#define ROAM_TESTS_WORLD_BEGIN_H

#include "base/node.h"
#include "world.h"

/* What time it is then. */
uint64_t world_begin_now(uint64_t seed);

/*
 * Before any of the nodes, which all are open, has done anything.  With begin_epochs homes move a
 * few times only, for good.
 */
void world_begin(struct roami_node *const *nodes, const struct world_config *config);

#endif
