/* Datagrams by calls of the kernel: recvmmsg takes a batch at a time. */
#include <stdlib.h>
#include <string.h>

#include "udp.h"

#define BATCH 16u

struct plain_state {
	unsigned batch; /* datagrams asked for: looking for one more that is not there costs time */
	struct mmsghdr headers[BATCH];
	struct iovec parts[BATCH];
	struct sockaddr_in sources[BATCH];
	_Alignas(64) uint8_t data[BATCH][(UDP_DATAGRAM + 63) & ~63u];
};

static enum roam_err plain_open(struct udp_state *udp)
{
	struct plain_state *plain = aligned_alloc(64, sizeof(*plain));

	if (plain == NULL)
		return ROAM_ENOMEM;
	for (unsigned i = 0; i < BATCH; i++) {
		plain->parts[i] = (struct iovec){plain->data[i], UDP_DATAGRAM};
		plain->headers[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &plain->parts[i],
								 .msg_iovlen = 1,
								 .msg_name = &plain->sources[i]}};
	}
	plain->batch = 1;
	udp->way_state = plain;
	return ROAM_OK;
}

static void plain_close(struct udp_state *udp)
{
	free(udp->way_state);
	udp->way_state = NULL;
}

static unsigned plain_poll(struct udp_state *udp, unsigned max)
{
	struct plain_state *plain = udp->way_state;
	int got;

	if (max > plain->batch)
		max = plain->batch;
	for (unsigned i = 0; i < max; i++)
		plain->headers[i].msg_hdr.msg_namelen = sizeof(plain->sources[i]);
	got = recvmmsg(udp->fd, plain->headers, max, MSG_DONTWAIT, NULL);
	if (got < (int)max)
		plain->batch = got > 1 ? (unsigned)got : 1;
	else if (plain->batch == max)
		plain->batch = 2 * max < BATCH ? 2 * max : BATCH;
	for (int i = 0; i < got; i++) {
		const struct msghdr *header = &plain->headers[i].msg_hdr;

		if ((header->msg_flags & MSG_TRUNC) == 0 &&
		    header->msg_namelen == sizeof(struct sockaddr_in))
			roami_udp_arrived(udp, &plain->sources[i], plain->data[i],
					  plain->headers[i].msg_len);
	}
	return got < 0 ? 0 : (unsigned)got;
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

const struct udp_way roami_udp_plain = {
	.name = "plain",
	.open = plain_open,
	.close = plain_close,
	.poll = plain_poll,
	.pending = plain_pending,
	.pollable = plain_pollable,
};
