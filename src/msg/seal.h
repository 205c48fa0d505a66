/*
 * The one place where a datagram is closed before it leaves and opened when it arrives.  Now a
 * checksum against bytes changed on the way, which UDP's own 16 bits do not exclude; it protects
 * from nobody who means it.
 */
#ifndef ROAMI_SEAL_H
#define ROAMI_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "msg/packet.h"

/* Fills in `check`; `bytes` with the header, which stands at an address divisible by 8. */
void roami_seal_close(struct roami_packet *packet, size_t bytes, unsigned from, unsigned to);

/* Whether node `from` closed these bytes for node `to`. */
bool roami_seal_open(const struct roami_packet *packet, size_t bytes, unsigned from, unsigned to);

#endif
