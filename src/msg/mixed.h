/* The layer that joins a transport between hosts with one on this host. */
#ifndef ROAMI_MIXED_H
#define ROAMI_MIXED_H

#include "roam/transport.h"

extern const struct roam_transport roami_transport_mixed;

#endif
