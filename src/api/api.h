/* The default job, for the parts of the public API that are not in roam.c. */
#ifndef ROAMI_API_H
#define ROAMI_API_H

#include "core/node.h"

/*
 * This process's node, ready to work with others, and the number of times that the job has opened
 * one: what was made for another number is gone.
 */
enum roam_err roami_api_node(struct roami_node **node_p, uint64_t *round_p);

/* The node as it is, nothing is started; NULL: there is none that works with others. */
struct roami_node *roami_api_node_now(void);

#endif
