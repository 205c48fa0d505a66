/* The synchronisation of random programs on nodes of this process, simulated or with threads. */
#ifndef ROAM_TESTS_RANDOM_NODE_H
#define ROAM_TESTS_RANDOM_NODE_H

#include "base/node.h"
#include "heap/alloc.h"
#include "random.h"

/* The allocators of all nodes, each over an equal slice of the heap from `first` on. */
struct random_slices {
	struct roami_alloc *allocs[ROAMI_NODES_MAX];
	unsigned nodes;
	uint64_t first, each; /* offset, bytes */
	void (*store)(void *self, uint64_t offset, const void *in, size_t bytes);
};

void random_slices_open(struct random_slices *slices, unsigned nodes, uint64_t first,
			uint64_t each);
void random_slices_close(struct random_slices *slices);

/* The beginning of a thread's `self`. */
struct random_member {
	struct roami_node *node;
	void (*doing)(void *self, const char *what,
		      uint64_t number); /* before each call; may be NULL */
	struct random_slices *slices;
};

/* Fills in all functions about synchronisation objects and blocks; the others are the harness's. */
void random_node_ops(struct random_ops *ops);

/* The id (an address) of a program's object. */
enum random_object_kind { RANDOM_ID_LOCK, RANDOM_ID_COND, RANDOM_ID_FLAG, RANDOM_ID_BARRIER };
uint64_t random_node_id(enum random_object_kind kind, unsigned which);

#endif
