/* The layer that joins several transports, each of which reaches some of the peers. */
#ifndef ROAMI_MIXED_H
#define ROAMI_MIXED_H

#include "roam/transport.h"

extern const struct roam_transport roami_transport_mixed;

#endif
