/*
 * Frames of launch/control.h over TCP, between the launcher and the agents on other hosts: a
 * sealed channel (link/channel.h) with the job's key.  Bytes of a side that has not the key are
 * dropped by its first check.
 */
#ifndef ROAMI_WIRE_H
#define ROAMI_WIRE_H

#include "launch/control.h"
#include "link/channel.h"
#include "os/os.h"

#define ROAMI_WIRE_FRAME (ROAMI_CHANNEL_EXTRA + sizeof(struct roami_frame))

struct roami_wire {
	int fd;
	bool agent; /* which side this is */
	bool keyed; /* the other's hello has come */
	uint8_t key[ROAMI_CHANNEL_KEY];
	struct roami_channel channel;
	size_t have;
	uint8_t in[ROAMI_WIRE_FRAME];
};

/* Takes a connected socket, makes it non-blocking for reading, and sends hello. */
bool roami_wire_open(struct roami_wire *wire, int fd, bool agent, const uint8_t *key);
void roami_wire_close(struct roami_wire *wire);

/* Blocks, some seconds at most; false: the other side is lost.  Only once `keyed`. */
bool roami_wire_send(struct roami_wire *wire, uint32_t kind, uint32_t node, const void *data,
		     size_t bytes);

/*
 * Returns what was received.  ROAMI_OS_LOST: the connection is closed, or the other side does not
 * have the key.
 */
enum roami_os_got roami_wire_receive(struct roami_wire *wire, struct roami_frame *frame);

#endif
