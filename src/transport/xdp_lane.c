/* A socket of AF_XDP: memory in chunks, and four rings that the kernel shares with us. */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/bpf.h"
#include "os/os.h"
#include "xdp.h"

/* Linux 6.6 */
#ifndef XDP_USE_SG
#define XDP_USE_SG    (1 << 4)
#define XDP_PKT_CONTD (1 << 0)
#endif

/* Linux 5.11 */
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#define SO_BUSY_POLL_BUDGET 70
#endif

#define XDP_BATCH   32u   /* TX_BATCH_SIZE of the kernel */
#define BUSY_BUDGET 64
#define BUSY_MS     1000u /* how long the queue of a process that has just ended may be busy */
#define BUSY_STEP   5u

/* ---------------------------------------------------------------------------------------- rings */

static uint32_t ring_load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void ring_store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static bool ring_wants_call(const struct xdp_ring *ring)
{
	return (__atomic_load_n(ring->flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) != 0;
}

static struct xdp_desc *ring_desc(const struct xdp_ring *ring, uint32_t at)
{
	return (struct xdp_desc *)ring->slots + (at & (ring->count - 1));
}

static uint64_t *ring_address(const struct xdp_ring *ring, uint32_t at)
{
	return (uint64_t *)ring->slots + (at & (ring->count - 1));
}

/* Chunks that the kernel may fill. */
static void ring_give(struct xdp_ring *fill, uint64_t address)
{
	*ring_address(fill, fill->at) = address;
	ring_store(fill->producer, ++fill->at);
}

static uint32_t ring_round(uint32_t count)
{
	return count < 2 ? 2 : 1u << (32 - __builtin_clz(count - 1));
}

static bool ring_make(int fd, int which, struct xdp_ring *ring, unsigned count)
{
	ring->count = ring_round(count);
	return setsockopt(fd, SOL_XDP, which, &ring->count, sizeof(ring->count)) == 0;
}

static bool ring_map(int fd, struct xdp_ring *ring, const struct xdp_ring_offset *at,
		     uint64_t where, size_t each)
{
	uint8_t *map;

	ring->bytes = at->desc + ring->count * each;
	map = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		   (off_t)where);
	if (map == MAP_FAILED)
		return false;
	roami_os_dontfork(map, ring->bytes);
	ring->map = map;
	ring->producer = (void *)(map + at->producer);
	ring->consumer = (void *)(map + at->consumer);
	ring->flags = (void *)(map + at->flags);
	ring->slots = map + at->desc;
	return true;
}

static void ring_close(struct xdp_ring *ring)
{
	if (ring->map != NULL)
		munmap(ring->map, ring->bytes);
	ring->map = NULL;
}

/* In the ring of frames that have arrived each chunk of a frame takes a place. */
static bool rings_make(int fd, struct xdp_socket *xdp)
{
	return ring_make(fd, XDP_UMEM_FILL_RING, &xdp->fill, xdp->chunks_in) &&
	       ring_make(fd, XDP_UMEM_COMPLETION_RING, &xdp->sent,
			 xdp->slots * xdp->slot_chunks) &&
	       ring_make(fd, XDP_RX_RING, &xdp->in, xdp->chunks_in) &&
	       ring_make(fd, XDP_TX_RING, &xdp->out, xdp->slots * xdp->slot_chunks);
}

static bool rings_map(int fd, struct xdp_socket *xdp)
{
	struct xdp_mmap_offsets at;
	socklen_t bytes = sizeof(at);

	return getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &bytes) == 0 &&
	       bytes == sizeof(at) &&
	       ring_map(fd, &xdp->fill, &at.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t)) &&
	       ring_map(fd, &xdp->sent, &at.cr, XDP_UMEM_PGOFF_COMPLETION_RING,
			sizeof(uint64_t)) &&
	       ring_map(fd, &xdp->in, &at.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc)) &&
	       ring_map(fd, &xdp->out, &at.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
}

/* --------------------------------------------------------------------------------------- memory */

static size_t memory_round(size_t bytes)
{
	return (bytes + XDP_CHUNK - 1) / XDP_CHUNK * XDP_CHUNK;
}

/* Chunks, and behind them what only this side uses. */
static bool memory_make(struct xdp_socket *xdp)
{
	size_t chunks = (size_t)xdp->chunks_in + (size_t)xdp->slots * xdp->slot_chunks;
	size_t join = memory_round(XDP_CHUNKS_MAX * XDP_CHUNK);

	xdp->bytes = chunks * XDP_CHUNK + join +
		     memory_round(xdp->slots * (sizeof(*xdp->free) + sizeof(*xdp->left)));
	xdp->memory = roami_os_reserve(xdp->bytes);
	if (xdp->memory == NULL)
		return false;
	roami_os_dontfork(xdp->memory, xdp->bytes);
	xdp->joined = xdp->memory + chunks * XDP_CHUNK;
	xdp->free = (void *)(xdp->joined + join);
	xdp->left = (void *)(xdp->free + xdp->slots);
	for (unsigned i = 0; i < xdp->slots; i++)
		xdp->free[i] = (uint16_t)(xdp->slots - 1 - i);
	xdp->spare = xdp->slots;
	return true;
}

static bool memory_share(int fd, const struct xdp_socket *xdp)
{
	struct xdp_umem_reg memory = {.addr = (uintptr_t)xdp->memory,
				      .len = (uint64_t)(xdp->joined - xdp->memory),
				      .chunk_size = XDP_CHUNK,
				      .headroom = XDP_ALIGN};

	return setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof(memory)) == 0;
}

/* ------------------------------------------------------------------------------------- arriving */

static bool xdp_ready(const struct packet_lane *lane)
{
	const struct xdp_ring *in = &lane->xdp->in;

	return ring_load(in->producer) != in->at;
}

/* The bytes of a chunk that is filled; NULL: the kernel says what cannot be. */
static const uint8_t *chunk_at(const struct xdp_socket *xdp, const struct xdp_desc *desc)
{
	if (desc->addr / XDP_CHUNK >= xdp->chunks_in || desc->len > XDP_CHUNK ||
	    desc->addr % XDP_CHUNK > XDP_CHUNK - desc->len)
		return NULL;
	return xdp->memory + desc->addr;
}

/* Where a frame of `count` chunks lies, and its bytes; NULL: it is none. */
static const uint8_t *chunks_join(struct xdp_socket *xdp, unsigned count, size_t *bytes)
{
	const uint8_t *at = NULL;

	*bytes = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct xdp_desc *desc = ring_desc(&xdp->in, xdp->in.at + i);

		at = chunk_at(xdp, desc);
		if (at == NULL || *bytes + desc->len > XDP_CHUNKS_MAX * XDP_CHUNK - XDP_ALIGN)
			return NULL;
		if (count == 1 && ((uintptr_t)at + PACKET_ETHERNET) % 8 == 0) {
			*bytes = desc->len;
			return at;
		}
		memcpy(xdp->joined + XDP_ALIGN + *bytes, at, desc->len);
		*bytes += desc->len;
	}
	return xdp->joined + XDP_ALIGN;
}

static bool xdp_next(struct packet_lane *lane, struct packet_frame *frame)
{
	struct xdp_socket *xdp = lane->xdp;
	uint32_t have = ring_load(xdp->in.producer) - xdp->in.at;
	unsigned count = 1;
	const uint8_t *at;
	size_t bytes;

	if (have == 0)
		return false;
	while ((ring_desc(&xdp->in, xdp->in.at + count - 1)->options & XDP_PKT_CONTD) != 0)
		if (++count > have)
			return false; /* the rest is on its way */
	xdp->taking = count;
	at = chunks_join(xdp, count, &bytes);
	frame->head = NULL;
	if (at == NULL || bytes < PACKET_ETHERNET + sizeof(*frame->head))
		return true;
	frame->source = at + PACKET_MAC;
	frame->head = (const void *)(at + PACKET_ETHERNET);
	frame->bytes = bytes - PACKET_ETHERNET;
	return true;
}

static void xdp_done(struct packet_lane *lane)
{
	struct xdp_socket *xdp = lane->xdp;

	for (; xdp->taking > 0; xdp->taking--) {
		uint64_t address = ring_desc(&xdp->in, xdp->in.at++)->addr;

		if (address / XDP_CHUNK < xdp->chunks_in)
			ring_give(&xdp->fill, address / XDP_CHUNK * XDP_CHUNK);
	}
	ring_store(xdp->in.consumer, xdp->in.at);
}

/* -------------------------------------------------------------------------------------- leaving */

/* Takes back the slots of frames that have left. */
static void slots_take(struct xdp_socket *xdp)
{
	uint32_t end = ring_load(xdp->sent.producer);

	if (xdp->sent.at == end)
		return;
	for (; xdp->sent.at != end; xdp->sent.at++) {
		uint64_t chunk = *ring_address(&xdp->sent, xdp->sent.at) / XDP_CHUNK;
		uint64_t slot = (chunk - xdp->chunks_in) / xdp->slot_chunks;

		if (chunk >= xdp->chunks_in && slot < xdp->slots && xdp->left[slot] > 0 &&
		    --xdp->left[slot] == 0)
			xdp->free[xdp->spare++] = (uint16_t)slot;
	}
	ring_store(xdp->sent.consumer, xdp->sent.at);
}

/* The ring has a place for each chunk, so it is never full. */
static bool xdp_room(struct packet_lane *lane, unsigned frames)
{
	struct xdp_socket *xdp = lane->xdp;

	if (xdp->spare < frames || xdp->spare < xdp->slots / 2)
		slots_take(xdp);
	return xdp->spare >= frames;
}

static uint64_t slot_address(const struct xdp_socket *xdp)
{
	return ((uint64_t)xdp->chunks_in +
		(uint64_t)xdp->free[xdp->spare - 1] * xdp->slot_chunks) * XDP_CHUNK;
}

static uint8_t *xdp_slot(struct packet_lane *lane, const uint8_t mac[PACKET_MAC])
{
	struct xdp_socket *xdp = lane->xdp;

	if (xdp->spare == 0)
		return NULL;
	return packet_lane_ethernet(lane, xdp->memory + slot_address(xdp), mac);
}

static void xdp_filled(struct packet_lane *lane, size_t bytes)
{
	struct xdp_socket *xdp = lane->xdp;
	uint64_t at = slot_address(xdp);
	unsigned slot = xdp->free[--xdp->spare];

	for (bytes += PACKET_ETHERNET; bytes > 0; at += XDP_CHUNK) {
		uint32_t some = bytes < XDP_CHUNK ? (uint32_t)bytes : XDP_CHUNK;

		bytes -= some;
		*ring_desc(&xdp->out, xdp->out.at++) =
			(struct xdp_desc){at, some, bytes > 0 ? XDP_PKT_CONTD : 0};
		xdp->left[slot]++;
	}
	ring_store(xdp->out.producer, xdp->out.at);
}

/* A call sends XDP_BATCH frames at most; more wait at once where many are sent together. */
static bool xdp_push(struct packet_lane *lane)
{
	struct xdp_socket *xdp = lane->xdp;
	unsigned calls = xdp->slots / XDP_BATCH + 1;

	do {
		if (!ring_wants_call(&xdp->out) ||
		    sendto(lane->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) >= 0)
			return true;
	} while (errno == EAGAIN && --calls > 0 &&
		 ring_load(xdp->out.producer) != ring_load(xdp->out.consumer));
	if (errno != EAGAIN && errno != EBUSY && errno != ENOBUFS)
		return false;
	atomic_store_explicit(&lane->waits, 1, memory_order_relaxed);
	return true;
}

/* ------------------------------------------------------------------------------------- sleeping */

/* The card may stop when it has no chunk to fill, until it is called. */
static void xdp_revive(struct packet_lane *lane)
{
	struct xdp_socket *xdp = lane->xdp;

	if (xdp->mode == XDP_ZERO_COPY && ring_wants_call(&xdp->fill))
		recv(lane->fd, NULL, 0, MSG_DONTWAIT);
}

static void xdp_idle(struct packet_lane *lane)
{
	struct xdp_socket *xdp = lane->xdp;

	if (xdp->busy_us > 0)
		recv(lane->fd, NULL, 0, MSG_DONTWAIT);
	else
		xdp_revive(lane);
}

/* ----------------------------------------------------------------------------- opening, closing */

static void xdp_close(struct packet_lane *lane)
{
	struct xdp_socket *xdp = lane->xdp;

	packet_lane_alone_close(lane);
	if (xdp->link >= 0)
		roami_bpf_close(xdp->link, xdp->pid == getpid());
	xdp->link = -1;
	ring_close(&xdp->fill);
	ring_close(&xdp->sent);
	ring_close(&xdp->in);
	ring_close(&xdp->out);
	if (lane->fd >= 0)
		close(lane->fd);
	lane->fd = -1;
	if (xdp->memory != NULL)
		roami_os_unmap(xdp->memory, xdp->bytes);
	xdp->memory = NULL;
}

const struct packet_lane_ops xdp_rings = {
	.ready = xdp_ready,
	.next = xdp_next,
	.done = xdp_done,
	.room = xdp_room,
	.slot = xdp_slot,
	.filled = xdp_filled,
	.push = xdp_push,
	.revive = xdp_revive,
	.idle = xdp_idle,
	.close = xdp_close,
};

/* How many chunks there are: more, where frames are joined. */
static void xdp_sizes(struct xdp_socket *xdp, const struct packet_lane *lane,
		      const struct xdp_plan *plan)
{
	size_t frame = PACKET_ETHERNET + lane->mtu;
	unsigned in = plan->joins ? (unsigned)((frame + XDP_FRAME_IN - 1) / XDP_FRAME_IN) : 1;

	xdp->mode = plan->mode;
	xdp->joins = plan->joins;
	xdp->slot_chunks = plan->joins ? (unsigned)((frame + XDP_CHUNK - 1) / XDP_CHUNK) : 1;
	xdp->slots = plan->out < UINT16_MAX ? plan->out : UINT16_MAX;
	xdp->chunks_in = plan->in * in;
}

/* Attaches a program for a map of sockets; returns the map, or -1. */
static int xdp_attach(struct xdp_socket *xdp, const struct packet_lane *lane, uint32_t endpoint,
		      unsigned queue, const char **what)
{
	int map = xdp_map_make(queue), program = -1, error;

	*what = "a map of sockets";
	if (map < 0)
		return -1;
	*what = "a program";
	program = xdp_program_make(map, lane->type, endpoint, xdp->joins ? 0 : XDP_FRAME_IN);
	if (program >= 0) {
		*what = "attaching a program";
		xdp->link = xdp_program_attach(program, (int)if_nametoindex(lane->name), xdp->mode);
	}
	error = errno;
	if (program >= 0)
		close(program);
	if (xdp->link >= 0)
		return map;
	close(map);
	errno = error;
	return -1;
}

static bool xdp_bind(int fd, const struct xdp_socket *xdp, const struct packet_lane *lane,
		     unsigned queue)
{
	struct sockaddr_xdp at = {.sxdp_family = AF_XDP,
				  .sxdp_ifindex = if_nametoindex(lane->name),
				  .sxdp_queue_id = queue};

	at.sxdp_flags = xdp->mode == XDP_ZERO_COPY ? XDP_ZEROCOPY : XDP_COPY;
	at.sxdp_flags |= XDP_USE_NEED_WAKEUP;
	if (xdp->joins)
		at.sxdp_flags |= XDP_USE_SG;
	/* The kernel gives up the queue of a process some time after that has ended. */
	for (unsigned ms = 0; bind(fd, (void *)&at, sizeof(at)) != 0; ms += BUSY_STEP) {
		if (errno != EBUSY || ms >= BUSY_MS)
			return false;
		poll(NULL, 0, BUSY_STEP);
		errno = EBUSY;
	}
	return true;
}

/* Lets a call for an empty ring poll the card, where that is allowed. */
static void xdp_busy(int fd, struct xdp_socket *xdp, uint32_t busy_us)
{
	int on = 1, budget = BUSY_BUDGET, us = (int)busy_us;

	if (busy_us > 0 && xdp->mode != XDP_GENERIC &&
	    setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget)) == 0)
		xdp->busy_us = busy_us;
}

/* Opens a socket with its memory and its rings, of no interface yet. */
static bool xdp_socket_open(struct packet_lane *lane, struct xdp_socket *xdp, const char **what)
{
	*what = "a socket of AF_XDP";
	lane->fd = roami_os_fd(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
	if (lane->fd < 0)
		return false;
	*what = "memory to share with the kernel";
	if (!memory_make(xdp) || !memory_share(lane->fd, xdp))
		return false;
	*what = "rings of a socket of AF_XDP";
	return rings_make(lane->fd, xdp);
}

static bool xdp_socket_bind(const struct packet_lane *lane, struct xdp_socket *xdp,
			    const struct xdp_plan *plan, const char **what)
{
	if (!rings_map(lane->fd, xdp))
		return false;
	for (unsigned i = 0; i < xdp->chunks_in; i++)
		ring_give(&xdp->fill, (uint64_t)i * XDP_CHUNK);
	*what = "binding a socket of AF_XDP";
	if (!xdp_bind(lane->fd, xdp, lane, plan->queue))
		return false;
	xdp_busy(lane->fd, xdp, plan->busy_us);
	return true;
}

bool xdp_lane_probe(const struct xdp_plan *plan, size_t *bytes, const char **what)
{
	struct xdp_socket xdp = {.link = -1};
	struct packet_lane lane = {.mtu = plan->joins ? PACKET_DATAGRAM : PACKET_STANDARD,
				   .xdp = &xdp};
	bool good;
	int error;

	xdp_sizes(&xdp, &lane, plan);
	good = xdp_socket_open(&lane, &xdp, what);
	error = errno;
	*bytes = xdp.bytes;
	xdp_close(&lane);
	errno = error;
	return good;
}

bool xdp_lane_open(struct packet_lane *lane, struct xdp_socket *xdp, uint32_t endpoint,
		   const struct xdp_plan *plan, const char **what)
{
	int map, error;
	bool good;

	*xdp = (struct xdp_socket){.link = -1, .pid = getpid()};
	lane->ops = &xdp_rings;
	lane->xdp = xdp;
	lane->fd = -1;
	xdp_sizes(xdp, lane, plan);
	map = xdp_attach(xdp, lane, endpoint, plan->queue, what);
	good = map >= 0 && xdp_socket_open(lane, xdp, what) &&
	       xdp_socket_bind(lane, xdp, plan, what);
	if (good) {
		*what = "the map of sockets";
		good = xdp_map_put(map, plan->queue, lane->fd);
	}
	error = errno;
	if (map >= 0)
		close(map);
	if (!good)
		xdp_close(lane);
	else if (xdp->mode != XDP_ZERO_COPY)
		packet_lane_alone(lane, true); /* the kernel copies in either case */
	errno = error;
	return good;
}
