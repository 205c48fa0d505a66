/*
 * faulty: a layer that does to the messages of any transport what bad networks do, as an option
 * says, seeded.  ROAM_FAULTY="drop=5%,reorder=2%,repeat=1%,corrupt=0.1%,delay=10%:2ms,cut=1>2@1s".
 */
#ifndef ROAMI_FAULTY_H
#define ROAMI_FAULTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/transport.h"

#define ROAMI_CUTS_MAX 8u

/* No message goes from one node to another in a stretch of time since the start. */
struct roami_cut {
	unsigned from, to;
	uint64_t begin_ns, end_ns;
};

struct roami_faults {
	uint32_t drop, repeat, reorder, corrupt, delay; /* of a million messages */
	uint64_t delay_ns;
	uint64_t seed;
	unsigned cuts;
	struct roami_cut cut[ROAMI_CUTS_MAX];
};

/* Reads the option; false: `why` says what is wrong with it. */
bool roami_faults_read(struct roami_faults *faults, const char *text, char *why, size_t why_bytes);

extern const struct roam_transport roami_transport_faulty;

#endif
