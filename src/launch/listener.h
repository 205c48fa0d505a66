/*
 * A port that others connect to.  A connection that shows the key is accepted (launch/wire.h);
 * connections that do not cannot keep it out.
 */
#ifndef ROAMI_DOOR_H
#define ROAMI_DOOR_H

#include <poll.h>

#include "launch/wire.h"

#define ROAMI_DOOR_STRANGERS \
	(ROAMI_NODES_MAX + 16u) /* connections that have not shown the key yet */
#define ROAMI_DOOR_POLLS (1 + ROAMI_DOOR_STRANGERS)

struct roami_door {
	int listener; /* -1: shut */
	uint8_t key[ROAMI_KEY_BYTES];
	struct roami_stranger {
		struct roami_wire *wire; /* NULL: none */
		uint64_t until;
	} strangers[ROAMI_DOOR_STRANGERS];
};

/* Listens at a port of all addresses; false with errno. */
bool roami_door_open(struct roami_door *door, const uint8_t *key, uint16_t *port_p);

/* No more connections are accepted. */
void roami_door_shut(struct roami_door *door);

/* What to poll: ROAMI_DOOR_POLLS. */
void roami_door_polls(const struct roami_door *door, struct pollfd *polls);

/*
 * After that: a connection that has shown the key, the caller's to close and free, and its first
 * frame.  NULL: none has.
 */
struct roami_wire *roami_door_turn(struct roami_door *door, const struct pollfd *polls,
				   struct roami_frame *frame);

/*
 * Closes connections that take too long; when to call it again, of roami_os_now_ns, UINT64_MAX:
 * never.
 */
uint64_t roami_door_due(struct roami_door *door);

/* Closes and frees a connection, or NULL; NULL. */
struct roami_wire *roami_door_hang_up(struct roami_wire *wire);

/* That roami_door_reach takes at most. */
#define ROAMI_DOOR_REACH_NS UINT64_C(4000000000)

/* Connects to such a place at an IPv4 address (host byte order); `frame` is for what comes. */
bool roami_door_reach(struct roami_wire *wire, uint32_t address, uint16_t port, const uint8_t *key,
		      struct roami_frame *frame);

#endif
