/* Datagrams by calls of the kernel: recvmmsg takes a batch at a time. */
#include <stdlib.h>
#include <string.h>

#include "udp.h"

#define BATCH 16u

struct plain_state {
	unsigned batch; /* datagrams asked for: looking for one more that is not there costs time */
	bool filled;    /* the last look found as many */
	size_t room;    /* bytes for each */
	struct mmsghdr headers[BATCH];
	struct iovec parts[BATCH];
	struct sockaddr_in sources[BATCH];
	_Alignas(64) uint8_t beside[BATCH][(UDP_BESIDE + 63) & ~(size_t)63];
	_Alignas(64) uint8_t one[(UDP_DATAGRAM + 63) & ~63u]; /* that came at an odd place */
	_Alignas(64) uint8_t data[BATCH][UDP_JOINED];
};

static enum roam_err plain_open(struct udp_state *udp)
{
	struct plain_state *plain = aligned_alloc(64, sizeof(*plain));

	if (plain == NULL)
		return ROAM_ENOMEM;
	plain->room = roami_udp_joined(udp) ? UDP_JOINED : UDP_DATAGRAM;
	for (unsigned i = 0; i < BATCH; i++) {
		plain->parts[i] = (struct iovec){plain->data[i], plain->room};
		plain->headers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &plain->parts[i],
								 .msg_iovlen = 1,
								 .msg_name = &plain->sources[i],
								 .msg_control = plain->beside[i]}};
	}
	plain->batch = 1;
	plain->filled = false;
	udp->backend_state = plain;
	return ROAM_OK;
}

static void plain_close(struct udp_state *udp)
{
	free(udp->backend_state);
	udp->backend_state = NULL;
}

/* Hands on the datagrams of one entry, which the kernel may have joined; returns how many. */
static unsigned plain_arrived(struct udp_state *udp, struct plain_state *plain, unsigned i)
{
	struct msghdr *header = &plain->headers[i].msg_hdr;
	size_t bytes = plain->headers[i].msg_len, each = roami_udp_each(header);
	unsigned count = 0;

	if (each == 0 || each > bytes)
		each = bytes;
	for (size_t at = 0; at < bytes || count == 0; at += each, count++) {
		size_t some = bytes - at < each ? bytes - at : each;
		const uint8_t *data = plain->data[i] + at;

		if (at % 8 != 0 && some <= UDP_DATAGRAM)
			data = memcpy(plain->one, data, some);
		if (some <= UDP_DATAGRAM)
			roami_udp_arrived(udp, &plain->sources[i], data, some);
	}
	return count;
}

/*
 * Receives at most `max` datagrams.  For one, recvfrom costs less than recvmmsg, even if none has
 * come.
 */
static int plain_receive(struct udp_state *udp, struct plain_state *plain, unsigned max)
{
	ssize_t bytes;

	if (max > 1)
		return recvmmsg(udp->fd, plain->headers, max, MSG_DONTWAIT, NULL);
	bytes = recvmsg(udp->fd, &plain->headers[0].msg_hdr, MSG_DONTWAIT);
	if (bytes < 0)
		return -1;
	plain->headers[0].msg_len = (unsigned)bytes;
	return 1;
}

static unsigned plain_poll(struct udp_state *udp, unsigned max)
{
	struct plain_state *plain = udp->backend_state;
	unsigned taken = 0;
	int got;

	if (max > plain->batch)
		max = plain->batch;
	for (unsigned i = 0; i < max; i++) {
		plain->headers[i].msg_hdr.msg_namelen = sizeof(plain->sources[i]);
		plain->headers[i].msg_hdr.msg_controllen = UDP_BESIDE;
	}
	got = plain_receive(udp, plain, max);
	if (got < (int)max)
		plain->batch = got > 1 ? (unsigned)got : 1;
	else if (plain->batch == max && plain->filled)
		plain->batch = 2 * max < BATCH ? 2 * max : BATCH;
	plain->filled = got == (int)max; /* a single datagram is no burst */
	for (int i = 0; i < got; i++) {
		const struct msghdr *header = &plain->headers[i].msg_hdr;

		if ((header->msg_flags & MSG_TRUNC) == 0 &&
		    header->msg_namelen == sizeof(struct sockaddr_in))
			taken += plain_arrived(udp, plain, (unsigned)i);
		else
			taken++;
	}
	return taken;
}

static bool plain_pending(const struct udp_state *udp)
{
	uint8_t nothing;

	return recv(udp->fd, &nothing, 0, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static int plain_pollable(const struct udp_state *udp)
{
	return udp->fd;
}

const struct udp_backend roami_udp_plain = {
	.name = "plain",
	.open = plain_open,
	.close = plain_close,
	.poll = plain_poll,
	.pending = plain_pending,
	.pollable = plain_pollable,
};
