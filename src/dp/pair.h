/*
 * Two programs that have met at an address: a node of two in each, without a heap to speak of,
 * whose only use is its endpoints.  The connection by which they met stays, and shows when one has
 * gone.
 */
#ifndef ROAMI_DP_PAIR_H
#define ROAMI_DP_PAIR_H

#include "dp/dp.h"

struct roam_dp_pair;

struct roami_dp_meeting {
	const char *address;
	const uint8_t *key; /* ROAMI_CHANNEL_KEY bytes */
	bool listens;
	uint64_t until; /* by roami_os_now_ns; ROAMI_FOREVER */
};

/* `why` says more about an error. */
enum roam_err roami_dp_meet(const struct roami_dp_meeting *ask, struct roam_dp_pair **pair_p,
			    char *why, size_t why_bytes);
void roami_dp_part(struct roam_dp_pair *pair);

struct roami_node *roami_dp_pair_node(const struct roam_dp_pair *pair);

#endif
