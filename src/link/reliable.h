/*
 * The reliable layer: over a transport that loses, repeats or reorders messages or cuts them short,
 * every message arrives once, and those of one sender in order (rule 4).  Sequence numbers,
 * selective acks, resending with an estimate of the round trip, fragments, credit so that a slow
 * node is not drowned, and a window that losses narrow.
 *
 * It is a transport over `lower` of its parameters.  All memory is taken at open.
 */
#ifndef ROAMI_RELIABLE_H
#define ROAMI_RELIABLE_H

#include "roam/transport.h"

extern const struct roam_transport roami_transport_reliable;

#endif
