#include "launch/wire.h"

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

/* Opens the frame of that length in `in`; false: it is forged or damaged. */
static bool wire_open(struct roami_wire *wire, uint32_t length, struct roami_frame *frame)
{
	const uint8_t *text = roami_channel_open(&wire->channel, wire->in, length);

	if (text == NULL)
		return false;
	memcpy(frame, text, length - ROAMI_CHANNEL_TAG);
	return frame->bytes == length - FRAME_MIN;
}

enum roami_os_got roami_wire_receive(struct roami_wire *wire, struct roami_frame *frame)
{
	enum roami_os_got got = ROAMI_OS_GOT;
	uint32_t length;

	if (!wire->keyed) {
		got = roami_os_receive(wire->fd, wire->in, &wire->have, ROAMI_CHANNEL_HELLO);
		if (got != ROAMI_OS_GOT)
			return got;
		if (!roami_channel_handshake(&wire->channel, MAGIC, wire->key, wire->agent,
					     wire->in))
			return ROAMI_OS_LOST;
		wire->keyed = true;
		wire->have = 0;
	}
	got = roami_os_receive(wire->fd, wire->in, &wire->have, 4);
	if (got != ROAMI_OS_GOT)
		return got;
	memcpy(&length, wire->in, sizeof(length));
	if (length < FRAME_MIN || length > FRAME_MAX)
		return ROAMI_OS_LOST;
	got = roami_os_receive(wire->fd, wire->in, &wire->have, 4 + (size_t)length);
	if (got != ROAMI_OS_GOT)
		return got;
	wire->have = 0;
	return wire_open(wire, length, frame) ? ROAMI_OS_GOT : ROAMI_OS_LOST;
}
