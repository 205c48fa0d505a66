#include "boot/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"

#define HELLO_MAGIC "roamtcp1"
#define HELLO_BYTES (8 + ROAMI_HELLO_NONCE)
#define TAG_BYTES   crypto_aead_chacha20poly1305_ietf_ABYTES
#define FRAME_MIN   (TAG_BYTES + ROAMI_FRAME_HEAD)
#define FRAME_MAX   (TAG_BYTES + sizeof(struct roami_frame))
#define LOST_MS     5000 /* nothing acknowledged for so long: the other host is gone */

_Static_assert(4 + FRAME_MAX == ROAMI_WIRE_FRAME, "one frame fits");

/* A host that is cut off or down shows as a lost connection; one that is only stopped does not. */
static void wire_options(int fd)
{
	const int on = 1, idle_s = 1, every_s = 1, times = 4, lost_ms = LOST_MS;
	const struct timeval patience = {LOST_MS / 1000, 0};

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof(times));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

bool roami_wire_open(struct roami_wire *wire, int fd, bool agent, const uint8_t *key)
{
	uint8_t hello[HELLO_BYTES];

	memset(wire, 0, sizeof(*wire));
	wire->fd = fd;
	wire->agent = agent;
	if (sodium_init() < 0)
		return false;
	memcpy(wire->key, key, sizeof(wire->key));
	randombytes_buf(wire->nonce, sizeof(wire->nonce));
	wire_options(fd);
	memcpy(hello, HELLO_MAGIC, 8);
	memcpy(hello + 8, wire->nonce, sizeof(wire->nonce));
	return roami_os_send(fd, hello, sizeof(hello));
}

void roami_wire_close(struct roami_wire *wire)
{
	if (wire->fd >= 0)
		close(wire->fd);
	sodium_memzero(wire, sizeof(*wire));
	wire->fd = -1;
}

/* The key of the direction that begins at the agent, or at the launcher. */
static void wire_key(const struct roami_wire *wire, const uint8_t *other, bool from_agent,
		     uint8_t *key)
{
	crypto_generichash_state state;
	const uint8_t *agent = wire->agent ? wire->nonce : other;
	const uint8_t *launcher = wire->agent ? other : wire->nonce;
	const uint8_t direction = from_agent;

	crypto_generichash_init(&state, wire->key, sizeof(wire->key), ROAMI_KEY_BYTES);
	crypto_generichash_update(&state, (const uint8_t *)HELLO_MAGIC, 8);
	crypto_generichash_update(&state, &direction, 1);
	crypto_generichash_update(&state, agent, ROAMI_HELLO_NONCE);
	crypto_generichash_update(&state, launcher, ROAMI_HELLO_NONCE);
	crypto_generichash_final(&state, key, ROAMI_KEY_BYTES);
}

static bool wire_keyed(struct roami_wire *wire)
{
	if (memcmp(wire->in, HELLO_MAGIC, 8) != 0)
		return false;
	wire_key(wire, wire->in + 8, wire->agent, wire->send_key);
	wire_key(wire, wire->in + 8, !wire->agent, wire->receive_key);
	wire->keyed = true;
	return true;
}

static void wire_count(uint64_t count, uint8_t *nonce)
{
	memset(nonce, 0, crypto_aead_chacha20poly1305_ietf_NPUBBYTES);
	memcpy(nonce, &count, sizeof(count));
}

bool roami_wire_send(struct roami_wire *wire, uint32_t kind, uint32_t node, const void *data,
		     size_t bytes)
{
	uint8_t out[ROAMI_WIRE_FRAME], nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];
	struct roami_frame frame = {kind, node, (uint32_t)bytes, 0, {0}};
	uint32_t length = (uint32_t)(TAG_BYTES + ROAMI_FRAME_HEAD + bytes);

	if (!wire->keyed || bytes > ROAMI_FRAME_PAYLOAD)
		return false;
	if (bytes > 0)
		memcpy(frame.payload, data, bytes);
	memcpy(out, &length, sizeof(length));
	wire_count(wire->sent++, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(out + 4, NULL, (const uint8_t *)&frame,
						  ROAMI_FRAME_HEAD + bytes, out, 4, NULL, nonce,
						  wire->send_key);
	return roami_os_send(wire->fd, out, 4 + length);
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

static bool wire_decrypt(struct roami_wire *wire, uint32_t length, struct roami_frame *frame)
{
	uint8_t nonce[crypto_aead_chacha20poly1305_ietf_NPUBBYTES];

	wire_count(wire->received++, nonce);
	return crypto_aead_chacha20poly1305_ietf_decrypt((uint8_t *)frame, NULL, NULL, wire->in + 4,
							 length, wire->in, 4, nonce,
							 wire->receive_key) == 0 &&
	       frame->bytes == length - FRAME_MIN;
}

enum roami_wire_got roami_wire_receive(struct roami_wire *wire, struct roami_frame *frame)
{
	enum roami_wire_got got = ROAMI_WIRE_GOT;
	uint32_t length;

	if (!wire->keyed) {
		got = wire_fill(wire, HELLO_BYTES);
		if (got == ROAMI_WIRE_GOT && !wire_keyed(wire))
			return ROAMI_WIRE_LOST;
		if (got != ROAMI_WIRE_GOT)
			return got;
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
	return wire_decrypt(wire, length, frame) ? ROAMI_WIRE_GOT : ROAMI_WIRE_LOST;
}
