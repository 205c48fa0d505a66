/*
 * What two nodes tell each other when they connect, in the private data of the connection manager.
 * A stranger that reaches the port may send anything: only verbs_hello_check looks at the data
 * (rule 10.2).
 */
#ifndef ROAMI_VERBS_HELLO_H
#define ROAMI_VERBS_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERBS_MAGIC "roamvb1"

enum { VERBS_MAY_BE_SILENT = 1 }; /* the sender sends no signs of life */

struct verbs_hello {
	char magic[8];
	uint64_t mark; /* mark of the node that the hello is for */
	uint16_t from;
	uint16_t flags;
	uint32_t buffers; /* buffers that the sender has for this peer */
	uint32_t bytes;   /* of each */
	/*
	 * The number of its queue pair for reads << VERBS_ANSWERS_BITS | the reads that it answers
	 * at a time; 0: it has none.
	 */
	uint32_t reads;
};

#define VERBS_ANSWERS_BITS 8

_Static_assert(sizeof(struct verbs_hello) == 32, "fits the private data of every manager");

/* What a hello must say. */
struct verbs_expected {
	uint64_t mark; /* of this node */
	uint32_t nodes;
	uint32_t node;   /* this one */
	uint64_t others; /* bits: nodes that this transport does not reach */
	uint32_t bytes;
	uint32_t buffers_min, buffers_max;
};

/* Whether a node of the job has sent these bytes; copies them to `hello`. */
bool verbs_hello_check(const void *data, size_t bytes, const struct verbs_expected *expected,
		       struct verbs_hello *hello);

#endif
