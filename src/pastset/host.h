/*
 * A server of elements: the sockets of the programs that are attached to it, and one thread for all
 * of them.
 */
#ifndef ROAMI_PAST_HOST_H
#define ROAMI_PAST_HOST_H

#include "pastset/guest.h"

struct roami_host;

#define ROAMI_HOST_KEEP_S 60 /* usually; RULES 11.7 */

/*
 * Listens at an address for those who know the key; who is cut off is remembered for keep_ns.
 * `at`: the address as clients may use it.  Errors: ROAM_ENOMEM, ROAM_ESYSTEM; `why` says why.
 */
enum roam_err roami_host_open(struct roami_host **host_p, struct roami_past *past,
			      const char *address, const uint8_t *key, uint64_t keep_ns, char *at,
			      size_t at_bytes, char *why, size_t why_bytes);

/* Serves until `stop` can be read from.  ROAM_ESYSTEM. */
enum roam_err roami_host_serve(struct roami_host *host, int stop);

/* Drops them all; NULL is ignored. */
void roami_host_close(struct roami_host *host);

#endif
