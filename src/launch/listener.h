/*
 * A port that others connect to.  A connection that shows the key is accepted (launch/wire.h);
 * connections that do not cannot keep it out.
 */
#ifndef ROAMI_LISTENER_H
#define ROAMI_LISTENER_H

#include <poll.h>

#include "launch/wire.h"

#define ROAMI_LISTENER_STRANGERS \
	(ROAMI_NODES_MAX + 16u) /* connections that have not shown the key yet */
#define ROAMI_LISTENER_POLLS (1 + ROAMI_LISTENER_STRANGERS)

struct roami_listener {
	int listener; /* -1: shut */
	uint8_t key[ROAMI_KEY_BYTES];
	struct roami_stranger {
		struct roami_wire *wire; /* NULL: none */
		uint64_t until;
	} strangers[ROAMI_LISTENER_STRANGERS];
};

/* Listens at a port of all addresses; false with errno. */
bool roami_listener_open(struct roami_listener *listener, const uint8_t *key, uint16_t *port_p);

/* No more connections are accepted. */
void roami_listener_shut(struct roami_listener *listener);

/* Fills the descriptors to poll: ROAMI_LISTENER_POLLS. */
void roami_listener_polls(const struct roami_listener *listener, struct pollfd *polls);

/*
 * After that: a connection that has shown the key, the caller's to close and free, and its first
 * frame.  NULL: none has.
 */
struct roami_wire *roami_listener_turn(struct roami_listener *listener, const struct pollfd *polls,
				       struct roami_frame *frame);

/*
 * Closes connections that take too long; when to call it again, of roami_os_now_ns, UINT64_MAX:
 * never.
 */
uint64_t roami_listener_due(struct roami_listener *listener);

/* Closes and frees a connection, or NULL; NULL. */
struct roami_wire *roami_listener_hang_up(struct roami_wire *wire);

/* The longest time that roami_listener_reach takes. */
#define ROAMI_LISTENER_REACH_NS UINT64_C(4000000000)

/* Connects to such a place at an IPv4 address (host byte order); `frame` is for what comes. */
bool roami_listener_reach(struct roami_wire *wire, uint32_t address, uint16_t port,
			  const uint8_t *key, struct roami_frame *frame);

#endif
