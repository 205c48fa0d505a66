/*
 * Frames of boot/control.h over TCP, between the launcher and the agents on other hosts.  Both know
 * the job's key.  Each side begins with a hello in the clear; from the two hellos and the key come
 * a key for each direction, and every frame is encrypted and authenticated (docs/wire.md).  Nothing
 * of a stranger's goes further than the check.
 */
#ifndef ROAMI_WIRE_H
#define ROAMI_WIRE_H

#include "boot/control.h"

#define ROAMI_HELLO_NONCE 24
#define ROAMI_WIRE_FRAME  (4 + 16 + sizeof(struct roami_frame)) /* length, tag, frame */

struct roami_wire {
	int fd;
	bool agent; /* which side this is */
	bool keyed; /* the other's hello has come */
	uint8_t nonce[ROAMI_HELLO_NONCE];
	uint8_t key[ROAMI_KEY_BYTES];
	uint8_t send_key[ROAMI_KEY_BYTES], receive_key[ROAMI_KEY_BYTES];
	uint64_t sent, received; /* frames */
	size_t have;
	uint8_t in[ROAMI_WIRE_FRAME];
};

/* Takes a connected socket, which it makes non-blocking for reading, and says hello. */
bool roami_wire_open(struct roami_wire *wire, int fd, bool agent, const uint8_t *key);
void roami_wire_close(struct roami_wire *wire);

/* Blocks, some seconds at most; false: the other side is lost.  Only once `keyed`. */
bool roami_wire_send(struct roami_wire *wire, uint32_t kind, uint32_t node, const void *data,
		     size_t bytes);

/* What has come.  WIRE_LOST: closed, or not from who has the key. */
enum roami_wire_got { ROAMI_WIRE_NOTHING, ROAMI_WIRE_GOT, ROAMI_WIRE_LOST };
enum roami_wire_got roami_wire_receive(struct roami_wire *wire, struct roami_frame *frame);

#endif
