/* PastSet in worlds whose counts begin just below their ends: world_begin.h. */
#ifndef ROAM_TESTS_WORLD_PAST_H
#define ROAM_TESTS_WORLD_PAST_H

#include "base/node.h"
#include "rng.h"
#include "roam/pastset.h"

/* `tuples` is the number before an element's first tuple, the same on all nodes. */
void world_past_begin(struct roami_node *node, uint64_t tuples, struct rng *rng);

/* Calls an operation on an element, with numbers as if its first tuple had number 1. */
enum roam_err world_past_call(struct roam_ps_element *element, struct roam_ps_request *request);

#endif
