/*
 * transports: which transports a job may use, and by which of them a node reaches a peer.  They are
 * chosen by what they declare (roam/transport.h): no code outside src/transport knows their names.
 */
#ifndef ROAMI_TRANSPORTS_H
#define ROAMI_TRANSPORTS_H

#include "roam/transport.h"

#define ROAMI_TRANSPORTS_MAX ROAM_STACKS_MAX /* that a job may use */

/* Where a peer is, as far as a transport cares. */
enum roami_where {
	ROAMI_WHERE_MAPPED, /* on this host, its segment mapped */
	ROAMI_WHERE_HERE,   /* on this host */
	ROAMI_WHERE_AWAY
};

/* The build's list; ends with NULL. */
extern const struct roam_transport *const roami_transports[];

/* What in a transport contradicts itself or is missing, for tests; NULL: nothing. */
const char *roami_transport_wrong(const struct roam_transport *transport);

/* By name; NULL if there is none. */
const struct roam_transport *roami_transport_find(const char *name);

/*
 * Whether ROAM_TRANSPORT names one; else all of the build are allowed that need not be named, per
 * peer the cheapest.
 */
bool roami_transports_named(const char *option);

/* Whether it works here, and with its options if they are given; else `why` says why not. */
bool roami_transport_works(const struct roam_transport *transport,
			   const struct roam_transport_value *options, char *why, size_t bytes);

/*
 * The transports that ROAM_TRANSPORT allows, of auto's those that work here, with `bare` even if
 * the seal does not cover them; `allowed` ends with NULL.  What works must be alike on all hosts of
 * a job, else ROAM_TRANSPORT is to name one that does.
 */
void roami_transports_allowed(const char *option, bool bare,
			      const struct roam_transport *allowed[ROAMI_TRANSPORTS_MAX + 1]);

/*
 * The cheapest of `among` that reaches a peer there; NULL: none does.  Each node of a job finds the
 * same for the same two nodes.
 */
const struct roam_transport *roami_transport_for(const struct roam_transport *const *among,
						 enum roami_where where);

/* Where the card of a transport begins in a node's: the same on all nodes of a job. */
unsigned roami_transport_card_at(const struct roam_transport *transport);

/* Why transports of the build do not work here: "a: no b; c: no d". */
void roami_transports_missing(char *text, size_t bytes);

/* The build's transports that reach other hosts, as a message names them: "a", "a or b". */
void roami_transports_far(char *text, size_t bytes);

#endif
