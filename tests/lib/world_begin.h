/* Worlds whose counts begin just below the values at which they outgrow fewer bits, or wrap. */
#ifndef ROAM_TESTS_WORLD_BEGIN_H
#define ROAM_TESTS_WORLD_BEGIN_H

#include "base/node.h"
#include "world.h"

/* The time at which such a world begins. */
uint64_t world_begin_now(uint64_t seed);

/*
 * Called before any node, all of which are open, has done anything.  With begin_epochs homes move
 * only a few times and then stay for good.
 */
void world_begin(struct roami_node *const *nodes, const struct world_config *config);

#endif
