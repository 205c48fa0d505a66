/* A bare UDP ping-pong and a stream of pages over the loopback, both sides spinning. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "floor.h"

int floor_udp_open(uint32_t *port_p)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (void *)&address, length) != 0 ||
	    getsockname(fd, (void *)&address, &length) != 0)
		return -1;
	*port_p = ntohs(address.sin_port);
	return fd;
}

#define STREAM_BATCH 8u
#define STREAM_BYTES (4096u + 64u)
#define STREAM_SPINS 50000000u

static struct sockaddr_in udp_peer(uint32_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* A batch of pages, to be sent or received. */
struct udp_batch {
	struct mmsghdr headers[STREAM_BATCH];
	struct iovec parts[STREAM_BATCH];
	uint8_t data[STREAM_BATCH][STREAM_BYTES];
};

static void udp_batch_init(struct udp_batch *batch, struct sockaddr_in *peer)
{
	memset(batch, 0, sizeof(*batch));
	for (unsigned i = 0; i < STREAM_BATCH; i++) {
		batch->parts[i] = (struct iovec){batch->data[i], STREAM_BYTES};
		batch->headers[i].msg_hdr = (struct msghdr){.msg_iov = &batch->parts[i],
							    .msg_iovlen = 1,
							    .msg_name = peer,
							    .msg_namelen = sizeof(*peer)};
	}
}

/* The number of pages that have arrived, as told by the other side. */
static bool udp_told(int fd, uint32_t *arrived)
{
	for (unsigned spin = 0; spin < STREAM_SPINS; spin++)
		if (recv(fd, arrived, sizeof(*arrived), 0) == sizeof(*arrived))
			return true;
	return false;
}

static bool udp_stream_send(int fd, struct sockaddr_in *peer, unsigned pages)
{
	static struct udp_batch batch;
	uint32_t sent = 0, arrived = 0;

	udp_batch_init(&batch, peer);
	if (!udp_told(fd, &arrived))
		return false;
	while (sent < pages) {
		unsigned may = pages - sent < STREAM_BATCH ? pages - sent : STREAM_BATCH;
		int some;

		while (sent + may - arrived > FLOOR_UDP_AHEAD)
			if (!udp_told(fd, &arrived))
				return false;
		some = sendmmsg(fd, batch.headers, may, 0);
		if (some <= 0)
			return false;
		sent += (unsigned)some;
	}
	while (arrived < pages)
		if (!udp_told(fd, &arrived))
			return false;
	return true;
}

static bool udp_stream_receive(int fd, struct sockaddr_in *peer, unsigned pages)
{
	static struct udp_batch batch;
	uint32_t arrived = 0, told = 0;

	udp_batch_init(&batch, NULL);
	for (unsigned i = 0; i < STREAM_BATCH; i++)
		batch.headers[i].msg_hdr.msg_namelen = 0;
	if (sendto(fd, &arrived, sizeof(arrived), 0, (void *)peer, sizeof(*peer)) < 0)
		return false;
	for (unsigned spin = 0; arrived < pages; spin++) {
		int some = recvmmsg(fd, batch.headers, STREAM_BATCH, MSG_DONTWAIT, NULL);

		if (some > 0) {
			arrived += (unsigned)some;
			spin = 0;
		} else if (spin > STREAM_SPINS) {
			return false;
		}
		if (arrived - told < STREAM_BATCH && arrived < pages)
			continue;
		told = arrived;
		if (sendto(fd, &told, sizeof(told), 0, (void *)peer, sizeof(*peer)) < 0)
			return false;
	}
	return true;
}

bool floor_udp_stream(int fd, uint32_t port, unsigned side, unsigned pages)
{
	struct sockaddr_in peer = udp_peer(port);

	return side == 0 ? udp_stream_send(fd, &peer, pages) : udp_stream_receive(fd, &peer, pages);
}

bool floor_udp_turns(int fd, uint32_t port, unsigned side, unsigned turns, uint32_t out,
		     uint32_t back)
{
	struct sockaddr_in peer = udp_peer(port);
	static uint8_t data[8192];
	uint32_t mine = side == 1 ? out : back;

	for (unsigned i = 0; i < turns; i++) {
		if (side == 1 &&
		    sendto(fd, data, mine, 0, (void *)&peer, sizeof(peer)) != (ssize_t)mine)
			return false;
		while (recv(fd, data, sizeof(data), 0) < 0)
			;
		if (side == 0 &&
		    sendto(fd, data, mine, 0, (void *)&peer, sizeof(peer)) != (ssize_t)mine)
			return false;
	}
	return true;
}
