/* The synchronisation of random programs on nodes of this process, simulated or with threads. */
#ifndef ROAM_TESTS_RANDOM_NODE_H
#define ROAM_TESTS_RANDOM_NODE_H

#include "core/node.h"
#include "random.h"

/* What a thread's `self` begins with. */
struct random_member {
	struct roami_node *node;
	void (*doing)(void *self, const char *what,
		      uint64_t number); /* before each call; may be NULL */
};

/* Fills in all that is about synchronisation objects; the rest is the harness's. */
void random_node_ops(struct random_ops *ops);

/* The id, an address, of a program's object. */
enum random_object_kind { RANDOM_ID_LOCK, RANDOM_ID_COND, RANDOM_ID_FLAG, RANDOM_ID_BARRIER };
uint64_t random_node_id(enum random_object_kind kind, unsigned which);

#endif
