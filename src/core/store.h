/* The bounded store of a protocol; its interface is in roam/protocol.h. */
#ifndef ROAMI_STORE_H
#define ROAMI_STORE_H

#include "core/node.h"

void roami_store_close(struct roami_store *store);

#endif
