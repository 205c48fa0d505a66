/*
 * The sealed layer: over a transport that loses, repeats and reorders nothing, every message is
 * closed before it leaves and opened when it arrives (seal.h), in pieces as long as a datagram. A
 * message that was changed on its way cannot be sent again, so it ends the job.
 */
#ifndef ROAMI_SEALED_H
#define ROAMI_SEALED_H

#include "roam/transport.h"

extern const struct roam_transport roami_transport_sealed;

#endif
