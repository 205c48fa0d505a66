/*
 * Datagrams by io_uring: one request stays armed and fills buffers of ours as datagrams arrive, so
 * that looking for one takes a load and no call of the kernel.
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "udp.h"

#define BUFFERS  256u
#define GROUP    0
#define HEADROOM (sizeof(struct io_uring_recvmsg_out) + sizeof(struct sockaddr_in))
#define BUFFER   ((UDP_DATAGRAM + HEADROOM + 63) & ~(size_t)63)
#define MEMORY   (BUFFERS * (sizeof(struct io_uring_buf) + BUFFER))

_Static_assert(HEADROOM % 8 == 0, "datagrams are aligned to 8");

struct uring_state {
	struct io_uring ring;
	struct io_uring_buf_ring *buffers;
	uint8_t *data;
	struct msghdr shape; /* of what is received: an address, no control messages */
	bool armed;
};

static uint8_t *uring_buffer(const struct uring_state *uring, unsigned index)
{
	return uring->data + index * BUFFER;
}

static void uring_give(struct uring_state *uring, unsigned index)
{
	io_uring_buf_ring_add(uring->buffers, uring_buffer(uring, index), (unsigned)BUFFER,
			      (unsigned short)index, io_uring_buf_ring_mask(BUFFERS), 0);
	io_uring_buf_ring_advance(uring->buffers, 1);
}

/* Returns false if the kernel lacks this. */
static bool uring_arm(struct udp_state *udp, struct uring_state *uring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&uring->ring);

	if (sqe == NULL)
		return false;
	io_uring_prep_recvmsg_multishot(sqe, udp->fd, &uring->shape, MSG_TRUNC);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	uring->armed = io_uring_submit(&uring->ring) == 1;
	return uring->armed;
}

static void uring_close(struct udp_state *udp)
{
	struct uring_state *uring = udp->backend_state;

	if (uring == NULL)
		return;
	if (uring->ring.ring_fd > 0)
		io_uring_queue_exit(&uring->ring);
	roami_os_unmap(uring->buffers, MEMORY);
	free(uring);
	udp->backend_state = NULL;
}

static bool uring_begin(struct udp_state *udp, struct uring_state *uring)
{
	struct io_uring_params params = {.flags = IORING_SETUP_CQSIZE, .cq_entries = 4 * BUFFERS};
	struct io_uring_buf_reg reg = {.ring_entries = BUFFERS, .bgid = GROUP};
	unsigned held = roami_os_fds_hold();
	bool made = io_uring_queue_init_params(8, &uring->ring, &params) == 0;

	roami_os_fds_release(held);
	if (!made) {
		uring->ring.ring_fd = 0;
		return false;
	}
	uring->buffers = roami_os_reserve(MEMORY);
	if (uring->buffers == NULL)
		return false;
	uring->data = (uint8_t *)uring->buffers + BUFFERS * sizeof(struct io_uring_buf);
	reg.ring_addr = (uintptr_t)uring->buffers;
	if (io_uring_register_buf_ring(&uring->ring, &reg, 0) != 0)
		return false;
	io_uring_buf_ring_init(uring->buffers);
	for (unsigned i = 0; i < BUFFERS; i++)
		uring_give(uring, i);
	uring->shape.msg_namelen = sizeof(struct sockaddr_in);
	return uring_arm(udp, uring);
}

/* On a kernel that does not know this kind of request, it fails as soon as it is armed. */
static bool uring_works(const struct uring_state *uring)
{
	struct io_uring_cqe *cqe;

	return io_uring_peek_cqe((struct io_uring *)(uintptr_t)&uring->ring, &cqe) != 0 ||
	       cqe->res >= 0;
}

static enum roam_err uring_open(struct udp_state *udp)
{
	struct uring_state *uring = calloc(1, sizeof(*uring));

	if (uring == NULL)
		return ROAM_ENOMEM;
	udp->backend_state = uring;
	if (uring_begin(udp, uring) && uring_works(uring))
		return ROAM_OK;
	uring_close(udp);
	return ROAM_EUNSUPPORTED;
}

static void uring_take(struct udp_state *udp, struct uring_state *uring,
		       const struct io_uring_cqe *cqe)
{
	unsigned index = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	struct io_uring_recvmsg_out *out;

	if ((cqe->flags & IORING_CQE_F_MORE) == 0)
		uring->armed = false; /* out of buffers, or the thread that armed it has ended */
	if (cqe->res < 0 || (cqe->flags & IORING_CQE_F_BUFFER) == 0 || index >= BUFFERS)
		return;
	out = io_uring_recvmsg_validate(uring_buffer(uring, index), cqe->res, &uring->shape);
	if (out != NULL && (out->flags & MSG_TRUNC) == 0 &&
	    out->namelen == sizeof(struct sockaddr_in))
		roami_udp_arrived(udp, io_uring_recvmsg_name(out),
				  io_uring_recvmsg_payload(out, &uring->shape),
				  io_uring_recvmsg_payload_length(out, cqe->res, &uring->shape));
	uring_give(uring, index);
}

static unsigned uring_poll(struct udp_state *udp, unsigned max)
{
	struct uring_state *uring = udp->backend_state;
	struct io_uring_cqe *cqe;
	unsigned taken = 0;

	while (taken < max && io_uring_peek_cqe(&uring->ring, &cqe) == 0) {
		uring_take(udp, uring, cqe);
		io_uring_cqe_seen(&uring->ring, cqe);
		taken++;
	}
	if (!uring->armed)
		uring_arm(udp, uring);
	return taken;
}

static bool uring_pending(const struct udp_state *udp)
{
	const struct uring_state *uring = udp->backend_state;

	return io_uring_cq_ready(&uring->ring) > 0;
}

static int uring_pollable(const struct udp_state *udp)
{
	return ((const struct uring_state *)udp->backend_state)->ring.ring_fd;
}

const struct udp_backend roami_udp_uring = {
	.name = "uring",
	.open = uring_open,
	.close = uring_close,
	.poll = uring_poll,
	.pending = uring_pending,
	.pollable = uring_pollable,
};
