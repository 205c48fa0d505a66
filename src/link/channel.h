/*
 * A sealed channel between two processes that know one key: each side begins with a hello in the
 * clear; from both hellos and the key each side derives a key for each direction, and every frame
 * is encrypted and authenticated under its number.  Nothing here touches a socket.
 *
 * A frame on the way: its length without this word, the bytes encrypted, a tag.
 */
#ifndef ROAMI_CHANNEL_H
#define ROAMI_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roam/protocol.h"

#define ROAMI_CHANNEL_KEY   32u
#define ROAMI_CHANNEL_MAGIC 8u
#define ROAMI_CHANNEL_NONCE 24u
#define ROAMI_CHANNEL_HELLO (ROAMI_CHANNEL_MAGIC + ROAMI_CHANNEL_NONCE)
#define ROAMI_CHANNEL_TAG   16u
#define ROAMI_CHANNEL_EXTRA (sizeof(uint32_t) + ROAMI_CHANNEL_TAG) /* a frame beyond its data */

struct roami_channel {
	uint8_t nonce[ROAMI_CHANNEL_NONCE];
	uint8_t send_key[ROAMI_CHANNEL_KEY], receive_key[ROAMI_CHANNEL_KEY];
	uint64_t sent, received; /* frames */
};

/* Begins a channel; `magic` says what for.  false: there is no randomness. */
bool roami_channel_init(struct roami_channel *channel, const char *magic,
			uint8_t hello[ROAMI_CHANNEL_HELLO]);

/*
 * Takes the other side's hello; `first` is true on one side only.  false: its magic is another one.
 */
bool roami_channel_handshake(struct roami_channel *channel, const char *magic, const uint8_t *key,
			     bool first, const uint8_t hello[ROAMI_CHANNEL_HELLO]);

/*
 * Writes the next frame to `out`, which has room for ROAMI_CHANNEL_EXTRA more bytes; returns its
 * size.
 */
size_t roami_channel_close(struct roami_channel *channel, const struct roam_part *parts,
			   unsigned count, uint8_t *out);

/*
 * Opens the next frame in place: `frame` is its length word, with `length` bytes behind it.
 * Returns where its data is, length - ROAMI_CHANNEL_TAG bytes; NULL: the other side did not close
 * this frame.
 */
uint8_t *roami_channel_open(struct roami_channel *channel, uint8_t *frame, uint32_t length);

void roami_channel_fini(struct roami_channel *channel);

#endif
