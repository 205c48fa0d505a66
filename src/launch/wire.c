#include "launch/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"

#define MAGIC     "roamtcp1"
#define FRAME_MIN (ROAMI_CHANNEL_TAG + ROAMI_FRAME_HEAD)
#define FRAME_MAX (ROAMI_CHANNEL_TAG + sizeof(struct roami_frame))
#define IDLE_S    1
#define LOST_MS   5000 /* nothing acknowledged for so long: the other host is gone */

_Static_assert(ROAMI_KEY_BYTES == ROAMI_CHANNEL_KEY, "a job's key is one of a channel");

/*
 * Keep-alive probes end the connection to a host that is down or cut off; a stopped process still
 * answers them.
 */
static void wire_options(int fd)
{
	const struct timeval patience = {LOST_MS / 1000, 0};

	roami_os_tcp_watch(fd, IDLE_S, LOST_MS);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

bool roami_wire_open(struct roami_wire *wire, int fd, bool agent, const uint8_t *key)
{
	uint8_t hello[ROAMI_CHANNEL_HELLO];

	memset(wire, 0, sizeof(*wire));
	wire->fd = fd;
	wire->agent = agent;
	if (!roami_channel_init(&wire->channel, MAGIC, hello))
		return false;
	memcpy(wire->key, key, sizeof(wire->key));
	wire_options(fd);
	return roami_os_send(fd, hello, sizeof(hello));
}

void roami_wire_close(struct roami_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	sodium_memzero(wire, sizeof(*wire));
	wire->fd = -1;
}

bool roami_wire_send(struct roami_wire *wire, uint32_t kind, uint32_t node, const void *data,
		     size_t bytes)
{
	struct roami_frame head = {kind, node, (uint32_t)bytes, 0, {0}};
	const struct roam_part parts[] = {{&head, ROAMI_FRAME_HEAD}, {data, bytes}};
	uint8_t out[ROAMI_WIRE_FRAME];

	if (!wire->keyed || bytes > ROAMI_FRAME_PAYLOAD)
		return false;
	return roami_os_send(wire->fd, out, roami_channel_close(&wire->channel, parts, 2, out));
}

/* Reads until there are `want` bytes; ROAMI_WIRE_GOT: they are there. */
static enum roami_wire_got wire_fill(struct roami_wire *wire, size_t want)
{
	while (wire->have < want) {
		ssize_t got = recv(wire->fd, wire->in + wire->have, want - wire->have,
				   MSG_DONTWAIT);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return ROAMI_WIRE_NOTHING;
		if (got <= 0)
			return ROAMI_WIRE_LOST;
		wire->have += (size_t)got;
	}
	return ROAMI_WIRE_GOT;
}

/* Opens the frame of that length in `in`; false: it is forged or damaged. */
static bool wire_open(struct roami_wire *wire, uint32_t length, struct roami_frame *frame)
{
	const uint8_t *text = roami_channel_open(&wire->channel, wire->in, length);

	if (text == NULL)
		return false;
	memcpy(frame, text, length - ROAMI_CHANNEL_TAG);
	return frame->bytes == length - FRAME_MIN;
}

enum roami_wire_got roami_wire_receive(struct roami_wire *wire, struct roami_frame *frame)
{
	enum roami_wire_got got = ROAMI_WIRE_GOT;
	uint32_t length;

	if (!wire->keyed) {
		got = wire_fill(wire, ROAMI_CHANNEL_HELLO);
		if (got != ROAMI_WIRE_GOT)
			return got;
		if (!roami_channel_handshake(&wire->channel, MAGIC, wire->key, wire->agent,
					     wire->in))
			return ROAMI_WIRE_LOST;
		wire->keyed = true;
		wire->have = 0;
	}
	got = wire_fill(wire, 4);
	if (got != ROAMI_WIRE_GOT)
		return got;
	memcpy(&length, wire->in, sizeof(length));
	if (length < FRAME_MIN || length > FRAME_MAX)
		return ROAMI_WIRE_LOST;
	got = wire_fill(wire, 4 + (size_t)length);
	if (got != ROAMI_WIRE_GOT)
		return got;
	wire->have = 0;
	return wire_open(wire, length, frame) ? ROAMI_WIRE_GOT : ROAMI_WIRE_LOST;
}
