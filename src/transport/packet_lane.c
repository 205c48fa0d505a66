/* An interface, and two rings of frames that the kernel shares with us (TPACKET_V2). */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/gather.h"
#include "os/os.h"
#include "packet.h"

#define MTU_MIN     576u
#define SLOT_ROUND  512u
#define BLOCK_SLOTS 8u /* slots of one size lie in blocks of whole pages */
#define IN_EXTRA    96u /* bytes before a frame that has arrived */
#define OUT_EXTRA   sizeof(struct tpacket2_hdr) /* bytes before one that is to leave */
#define SEND_ROOM   (4 << 20)
#define ALONE_COPY  512u /* a frame that is no longer is copied: several parts take longer */
#define REFUSED     4u /* how often in a row the link may refuse a frame */

_Static_assert(SLOT_ROUND * BLOCK_SLOTS % 4096 == 0, "blocks are whole pages");
_Static_assert(OUT_EXTRA % TPACKET_ALIGNMENT == 0, "the kernel rounds it up");

/* ---------------------------------------------------------------------------------- interfaces */

static bool lane_ask(int fd, const char *name, unsigned long what, struct ifreq *request)
{
	*request = (struct ifreq){0};
	snprintf(request->ifr_name, sizeof(request->ifr_name), "%s", name);
	return ioctl(fd, what, request) == 0;
}

/* What is wrong with an interface; NULL: nothing.  `far`: it leads to other hosts. */
static const char *lane_look(struct packet_lane *lane, int fd, const char *name, bool far)
{
	struct ifreq request;

	if (strlen(name) >= IFNAMSIZ || !lane_ask(fd, name, SIOCGIFINDEX, &request))
		return "there is no such interface";
	if (!lane_ask(fd, name, SIOCGIFFLAGS, &request))
		return strerror(errno);
	if ((request.ifr_flags & IFF_UP) == 0)
		return "the interface is down";
	if (!lane_ask(fd, name, SIOCGIFHWADDR, &request))
		return strerror(errno);
	if (request.ifr_hwaddr.sa_family != (far ? ARPHRD_ETHER : ARPHRD_LOOPBACK))
		return "the interface is no Ethernet";
	memcpy(lane->mac, request.ifr_hwaddr.sa_data, PACKET_MAC);
	if (!lane_ask(fd, name, SIOCGIFMTU, &request))
		return strerror(errno);
	lane->mtu = request.ifr_mtu > 0 ? (unsigned)request.ifr_mtu : 0;
	if (lane->mtu < MTU_MIN)
		return "its MTU is less than 576";
	snprintf(lane->name, sizeof(lane->name), "%s", name);
	lane->far = far;
	return NULL;
}

bool packet_lane_find(struct packet_lane *lane, const char *name, bool far, char *why,
		      size_t why_bytes)
{
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const char *wrong = fd < 0 ? strerror(errno) : lane_look(lane, fd, name, far);

	if (fd >= 0)
		close(fd);
	if (wrong != NULL && why != NULL)
		snprintf(why, why_bytes, "%.*s: %s", IFNAMSIZ, name, wrong);
	return wrong == NULL;
}

bool packet_lane_of(uint32_t address, char name[IFNAMSIZ])
{
	struct ifaddrs *all, *at;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (at = all; at != NULL && !found; at = at->ifa_next) {
		const struct sockaddr_in *have = (const void *)at->ifa_addr;

		found = have != NULL && have->sin_family == AF_INET &&
			have->sin_addr.s_addr == htonl(address);
		if (found)
			snprintf(name, IFNAMSIZ, "%s", at->ifa_name);
	}
	freeifaddrs(all);
	return found;
}

/* ---------------------------------------------------------------------------------------- rings */

/* Lets only frames for this endpoint into the ring, so that those for others do not fill it. */
static bool lane_filter(const struct packet_lane *lane, uint32_t endpoint)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 PACKET_ETHERNET + offsetof(struct packet_head, endpoint)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, endpoint, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return setsockopt(lane->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

static bool lane_ring(const struct packet_lane *lane, int which, unsigned slots)
{
	struct tpacket_req request = {
		.tp_block_size = (unsigned)lane->slot * BLOCK_SLOTS,
		.tp_block_nr = slots / BLOCK_SLOTS,
		.tp_frame_size = (unsigned)lane->slot,
		.tp_frame_nr = slots,
	};

	return setsockopt(lane->fd, SOL_PACKET, which, &request, sizeof(request)) == 0;
}

static bool lane_rings(struct packet_lane *lane, unsigned in, unsigned out)
{
	in = (in + BLOCK_SLOTS - 1) / BLOCK_SLOTS * BLOCK_SLOTS;
	out = (out + BLOCK_SLOTS - 1) / BLOCK_SLOTS * BLOCK_SLOTS;
	if (!lane_ring(lane, PACKET_RX_RING, in) || !lane_ring(lane, PACKET_TX_RING, out))
		return false;
	lane->ring_bytes = lane->slot * ((size_t)in + out);
	lane->ring = mmap(NULL, lane->ring_bytes, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, lane->fd, 0);
	if (lane->ring == MAP_FAILED) {
		lane->ring = NULL;
		return false;
	}
	roami_os_dontfork(lane->ring, lane->ring_bytes);
	lane->in = (struct packet_slots){.base = lane->ring, .count = in};
	lane->out = (struct packet_slots){.base = lane->ring + lane->slot * in, .count = out};
	return true;
}

/* No frame arrives before the socket is bound, so every frame has passed the filter. */
static bool lane_socket(struct packet_lane *lane, uint32_t endpoint, unsigned in, unsigned out)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_protocol = lane->type,
				      .sll_ifindex = (int)if_nametoindex(lane->name)};
	int version = TPACKET_V2, on = 1, room = SEND_ROOM;

	lane->fd = roami_os_fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (lane->fd < 0 || address.sll_ifindex == 0)
		return false;
	/* A frame that the kernel will not send must not hold up those behind it. */
	setsockopt(lane->fd, SOL_PACKET, PACKET_LOSS, &on, sizeof(on));
	setsockopt(lane->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return setsockopt(lane->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) == 0 &&
	       lane_filter(lane, endpoint) && lane_rings(lane, in, out) &&
	       bind(lane->fd, (void *)&address, sizeof(address)) == 0;
}

void packet_lane_alone(struct packet_lane *lane, bool past)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET,
				      .sll_ifindex = (int)if_nametoindex(lane->name)};
	int fd = roami_os_fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int on = past;

	if (fd > 0 && past)
		setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	if (fd > 0 && address.sll_ifindex != 0 &&
	    bind(fd, (void *)&address, sizeof(address)) == 0)
		lane->alone = fd;
	else if (fd >= 0)
		close(fd);
}

void packet_lane_alone_close(struct packet_lane *lane)
{
	if (lane->alone > 0)
		close(lane->alone);
	lane->alone = 0;
}

static void rings_close(struct packet_lane *lane)
{
	packet_lane_alone_close(lane);
	if (lane->ring != NULL)
		munmap(lane->ring, lane->ring_bytes);
	lane->ring = NULL;
	if (lane->fd >= 0)
		close(lane->fd);
	lane->fd = -1;
}

enum roam_err packet_lane_open(struct packet_lane *lane, uint16_t type, uint32_t endpoint,
			       unsigned in, unsigned out)
{
	size_t frame = lane->mtu;
	int error;

	if (frame > PACKET_DATAGRAM + sizeof(struct packet_head))
		frame = PACKET_DATAGRAM + sizeof(struct packet_head);
	lane->mtu = (unsigned)frame;
	lane->type = type;
	lane->ops = &packet_rings;
	lane->slot = (PACKET_ETHERNET + frame + IN_EXTRA + SLOT_ROUND - 1) / SLOT_ROUND *
		     SLOT_ROUND;
	if (lane_socket(lane, endpoint, in, out)) {
		packet_lane_alone(lane, false);
		return ROAM_OK;
	}
	error = errno;
	rings_close(lane);
	errno = error;
	return ROAM_ESYSTEM;
}

static struct tpacket2_hdr *slots_at(const struct packet_lane *lane,
				     const struct packet_slots *slots)
{
	return (void *)(slots->base + lane->slot * slots->at);
}

static void slots_advance(struct packet_slots *slots)
{
	slots->at = slots->at + 1 < slots->count ? slots->at + 1 : 0;
}

static uint32_t slot_status(const struct tpacket2_hdr *slot)
{
	return __atomic_load_n(&slot->tp_status, __ATOMIC_ACQUIRE);
}

/* ------------------------------------------------------------------------------------- arriving */

static bool rings_ready(const struct packet_lane *lane)
{
	return (slot_status(slots_at(lane, &lane->in)) & TP_STATUS_USER) != 0;
}

/*
 * Fetches the beginning of a frame, which another processor has written, and the next slot's, at
 * once: between one look at a frame and the next lie locks, which would make its lines come one
 * after the other.
 */
static void slots_fetch(const struct packet_lane *lane, const uint8_t *at)
{
	struct packet_slots after = lane->in;

	for (size_t line = 64; line < 320; line += 64)
		__builtin_prefetch(at + line);
	slots_advance(&after);
	__builtin_prefetch(slots_at(lane, &after));
}

static bool rings_next(struct packet_lane *lane, struct packet_frame *frame)
{
	const struct tpacket2_hdr *slot = slots_at(lane, &lane->in);
	const uint8_t *at = (const uint8_t *)slot;

	if ((slot_status(slot) & TP_STATUS_USER) == 0)
		return false;
	slots_fetch(lane, at);
	/* A frame longer than a slot, or too short to be ours, is ignored. */
	frame->head = NULL;
	if (slot->tp_len != slot->tp_snaplen ||
	    slot->tp_net != slot->tp_mac + PACKET_ETHERNET || slot->tp_net % 8 != 0 ||
	    slot->tp_snaplen < PACKET_ETHERNET + sizeof(*frame->head) ||
	    slot->tp_mac + slot->tp_snaplen > lane->slot)
		return true;
	frame->source = at + slot->tp_mac + PACKET_MAC;
	frame->head = (const void *)(at + slot->tp_net);
	frame->bytes = slot->tp_snaplen - PACKET_ETHERNET;
	return true;
}

static void rings_done(struct packet_lane *lane)
{
	__atomic_store_n(&slots_at(lane, &lane->in)->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
	slots_advance(&lane->in);
}

/* -------------------------------------------------------------------------------------- leaving */

void packet_lane_lock(struct packet_lane *lane)
{
	roami_os_lock(&lane->held);
}

void packet_lane_unlock(struct packet_lane *lane)
{
	roami_os_unlock(&lane->held);
}

uint8_t *packet_lane_ethernet(const struct packet_lane *lane, uint8_t *at,
			      const uint8_t mac[PACKET_MAC])
{
	memcpy(at, mac, PACKET_MAC);
	memcpy(at + PACKET_MAC, lane->mac, PACKET_MAC);
	memcpy(at + 2 * (size_t)PACKET_MAC, &lane->type, sizeof(lane->type));
	return at + PACKET_ETHERNET;
}

static bool slot_free(const struct tpacket2_hdr *slot)
{
	return (slot_status(slot) & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING)) == 0;
}

/* The kernel may give slots back in any order. */
static bool rings_room(struct packet_lane *lane, unsigned frames)
{
	struct packet_slots slots = lane->out;

	for (unsigned i = 0; i < frames; i++, slots_advance(&slots))
		if (i >= slots.count || !slot_free(slots_at(lane, &slots)))
			return false;
	return true;
}

static uint8_t *rings_slot(struct packet_lane *lane, const uint8_t mac[PACKET_MAC])
{
	struct tpacket2_hdr *slot = slots_at(lane, &lane->out);
	uint8_t *at = (uint8_t *)slot + OUT_EXTRA;

	if (!slot_free(slot))
		return NULL;
	return packet_lane_ethernet(lane, at, mac);
}

static void rings_filled(struct packet_lane *lane, size_t bytes)
{
	struct tpacket2_hdr *slot = slots_at(lane, &lane->out);

	slot->tp_len = (uint32_t)(PACKET_ETHERNET + bytes);
	__atomic_store_n(&slot->tp_status, TP_STATUS_SEND_REQUEST, __ATOMIC_RELEASE);
	slots_advance(&lane->out);
}

/*
 * The link refuses the next frame again and again, as veth does with a frame too long for the other
 * side, and each time the kernel puts it in front.  Only its head is sent in its place: the rest is
 * as good as lost.
 */
static void lane_shorten(struct packet_lane *lane)
{
	const struct packet_head nothing = {.endpoint = 0}; /* which is nobody's */
	struct packet_slots slots;
	struct tpacket2_hdr *slot;

	packet_lane_lock(lane);
	slots = lane->out;
	for (unsigned i = 0; i < slots.count; i++, slots_advance(&slots)) {
		slot = slots_at(lane, &slots);
		if (slot_status(slot) != TP_STATUS_SEND_REQUEST)
			continue;
		memcpy((uint8_t *)slot + OUT_EXTRA + PACKET_ETHERNET, &nothing, sizeof(nothing));
		slot->tp_len = PACKET_ETHERNET + sizeof(nothing);
		break;
	}
	packet_lane_unlock(lane);
}

static bool rings_push(struct packet_lane *lane)
{
	int error;

	if (send(lane->fd, NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
		if (atomic_load_explicit(&lane->refused, memory_order_relaxed) != 0)
			atomic_store_explicit(&lane->refused, 0, memory_order_relaxed);
		return true;
	}
	error = errno;
	if (error == ENOBUFS && atomic_fetch_add(&lane->refused, 1) + 1 >= REFUSED) {
		atomic_store_explicit(&lane->refused, 0, memory_order_relaxed);
		lane_shorten(lane);
	}
	if (error != EAGAIN && error != ENOBUFS)
		return false;
	atomic_store_explicit(&lane->waits, 1, memory_order_relaxed);
	return true;
}

bool packet_lane_send(const struct packet_lane *lane, const uint8_t mac[PACKET_MAC],
		      const struct packet_head *head, const struct iovec *parts, unsigned count)
{
	uint8_t frame[ALONE_COPY];
	struct iovec pieces[PACKET_PARTS_MAX + 1];
	size_t front = PACKET_ETHERNET + sizeof(*head);
	ssize_t sent;

	memcpy(packet_lane_ethernet(lane, frame, mac), head, sizeof(*head));
	if (front + head->bytes <= sizeof(frame)) {
		struct roami_gather reader = {parts, 0};

		roami_gather_copy(&reader, frame + front, head->bytes);
		sent = send(lane->alone, frame, front + head->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		struct msghdr whole = {.msg_iov = pieces, .msg_iovlen = count + 1};

		pieces[0] = (struct iovec){frame, front};
		memcpy(pieces + 1, parts, count * sizeof(*parts));
		sent = sendmsg(lane->alone, &whole, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
	return sent >= 0 || (errno != EAGAIN && errno != ENOBUFS); /* the ring keeps it then */
}

static void rings_revive(struct packet_lane *lane)
{
	int error;
	socklen_t length = sizeof(error);

	if (getsockopt(lane->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
		return; /* there was none */
}

const struct packet_lane_ops packet_rings = {
	.ready = rings_ready,
	.next = rings_next,
	.done = rings_done,
	.room = rings_room,
	.slot = rings_slot,
	.filled = rings_filled,
	.push = rings_push,
	.revive = rings_revive,
	.close = rings_close,
};
