/*
 * A server of elements: the sockets of the programs that are attached to it, and one thread for all
 * of them.
 */
#ifndef ROAMI_PAST_HOST_H
#define ROAMI_PAST_HOST_H

#include "pastset/attached/guest.h"

struct roami_host;

/* Usually: rule 11.7; all that one program may not have heard. */
#define ROAMI_HOST_KEEP_S   60
#define ROAMI_HOST_KEEP_MIB 64

/*
 * Listens at an address for clients with the key; `keep`: what is remembered of those cut off.
 * `at`: the address as clients may use it.  Errors: ROAM_EINVAL (an address
 * that makes no sense), ROAM_ENOMEM, ROAM_ESYSTEM; `why` says why.
 */
enum roam_err roami_host_open(struct roami_host **host_p, struct roami_past *past,
			      const char *address, const uint8_t *key,
			      const struct roami_keep *keep, char *at, size_t at_bytes,
			      char *why, size_t why_bytes);

/* Serves until `stop` can be read from.  ROAM_ESYSTEM. */
enum roam_err roami_host_serve(struct roami_host *host, int stop);

/* In a child of fork(), which has got copies of the sockets, but not the thread: closes them. */
void roami_host_forsake(struct roami_host *host);

/* Drops all clients, and frees the host; NULL is ignored. */
void roami_host_close(struct roami_host *host);

#endif
