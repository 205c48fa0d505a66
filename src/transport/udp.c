#include "udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "os/os.h"

#define ROOM_WANTED (4 << 20)
#define HEADERS     28u /* of IPv4 and UDP */
#define MTU_MIN     576u
#define RUN_MAX     65000u /* bytes of datagrams that leave as one */

#ifdef ROAMI_HAVE_LIBURING
#define UDP_WORDS "auto|plain|uring"
#else
#define UDP_WORDS "auto|plain"
#endif

static const struct roam_transport_option udp_options_table[] = {
	ROAM_TRANSPORT_OPTION("ROAM_UDP", "auto", UDP_WORDS,
			      "how the udp transport takes datagrams: plain by calls of the "
			      "kernel, uring by io_uring; auto: plain"),
	{.variable = NULL}};

/* -------------------------------------------------------------------------------------- opening */

/* Says more about why it does not open. */
__attribute__((format(printf, 2, 3))) static void udp_say(const struct udp_state *udp,
							  const char *format, ...)
{
	va_list args;

	if (udp->params.why == NULL)
		return;
	va_start(args, format);
	vsnprintf(udp->params.why, udp->params.why_bytes, format, args);
	va_end(args);
}

/* The MTU of the route to `address`, as far as the kernel knows it; 0: unknown. */
static unsigned udp_path_mtu(const struct sockaddr_in *address)
{
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), mtu = 0;
	socklen_t length = sizeof(mtu);

	if (fd < 0)
		return 0;
	if (connect(fd, (const void *)address, sizeof(*address)) != 0 ||
	    getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length) != 0 || mtu < 0)
		mtu = 0;
	close(fd);
	return (unsigned)mtu;
}

/*
 * The MTU of the interface that has `address`: the kernel itself reaches it by the loopback device.
 */
static unsigned udp_link_mtu(int fd, uint32_t address)
{
	struct ifaddrs *all, *at;
	struct ifreq request = {0};
	unsigned mtu = 0;

	if (getifaddrs(&all) != 0)
		return 0;
	for (at = all; at != NULL && mtu == 0; at = at->ifa_next) {
		const struct sockaddr_in *have = (const void *)at->ifa_addr;

		if (have == NULL || have->sin_family != AF_INET ||
		    have->sin_addr.s_addr != htonl(address))
			continue;
		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", at->ifa_name);
		if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
			mtu = (unsigned)request.ifr_mtu;
	}
	freeifaddrs(all);
	return mtu;
}

/* Between hosts the kernel finds links with a smaller MTU, and fragments datagrams for them. */
static void udp_options(struct udp_state *udp)
{
	int room = ROOM_WANTED;
	int whole = udp->params.address != 0 ? IP_PMTUDISC_WANT : IP_PMTUDISC_DO;
	socklen_t length = sizeof(room);

	setsockopt(udp->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(udp->fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	setsockopt(udp->fd, IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole));
	if (getsockopt(udp->fd, SOL_SOCKET, SO_RCVBUF, &room, &length) != 0 || room < 0)
		room = 0;
	udp->room = (size_t)room / 2; /* the rest is for what the kernel adds to each datagram */
}

static enum roam_err udp_socket(struct udp_state *udp)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(udp->params.address != 0
								       ? udp->params.address
								       : INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	unsigned mtu;

	udp->fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (udp->fd < 0 || bind(udp->fd, (void *)&address, sizeof(address)) != 0 ||
	    getsockname(udp->fd, (void *)&address, &length) != 0) {
		if (errno == EADDRINUSE)
			udp_say(udp, "no UDP port is free: net.ipv4.ip_local_port_range");
		return ROAM_ESYSTEM;
	}
	udp_options(udp);
	atomic_store(&udp->cuts, 1);
	mtu = udp->params.mtu;
	if (mtu == 0)
		mtu = udp->params.address != 0 ? udp_link_mtu(udp->fd, udp->params.address)
					       : udp_path_mtu(&address);
	if (mtu < MTU_MIN) {
		udp_say(udp, "the MTU of its network is %u, less than %u", mtu, MTU_MIN);
		return ROAM_EUNSUPPORTED;
	}
	udp->limit = mtu - HEADERS < UDP_DATAGRAM ? mtu - HEADERS : UDP_DATAGRAM;
	udp->limit -= sizeof(struct udp_mark);
	atomic_store(&udp->card->mark, udp->mark);
	atomic_store(&udp->card->address,
		     (uint64_t)ntohl(address.sin_addr.s_addr) << 16 | ntohs(address.sin_port));
	return ROAM_OK;
}

/*
 * The backends that ROAM_UDP names, in the order of its words behind auto; the better ones
 * first.
 */
static const struct udp_backend *const udp_backends[] = {
	&roami_udp_plain,
#ifdef ROAMI_HAVE_LIBURING
	&roami_udp_uring,
#endif
};

#define UDP_BACKENDS (sizeof(udp_backends) / sizeof(udp_backends[0]))

static enum roam_err udp_backend_open(struct udp_state *udp)
{
	unsigned wanted = udp->params.options != NULL ? udp->params.options[0].word : 0;

	for (unsigned i = 0; i < UDP_BACKENDS; i++) {
		udp->backend = udp_backends[i];
		if ((wanted == 0 || wanted == i + 1) && udp->backend->open(udp) == ROAM_OK)
			return ROAM_OK;
	}
	if (wanted != 0)
		udp_say(udp, "ROAM_UDP=%s does not work here: `roam info machine`",
			udp_backends[wanted - 1]->name);
	udp->backend = NULL;
	return ROAM_EUNSUPPORTED;
}

static enum roam_err udp_open(void *state, const struct roam_transport_params *params)
{
	struct udp_state *udp = state;
	enum roam_err err;

	udp->fd = -1;
	roami_ear_init(&udp->ear);
	if (params->nodes > UDP_NODES_MAX)
		return ROAM_ENODES;
	udp->params = *params;
	udp->mark = roami_os_random() & (((uint64_t)1 << 48) - 1);
	udp->card = params->memory[params->node].base;
	err = udp_socket(udp);
	if (err == ROAM_OK)
		err = udp_backend_open(udp);
	if (err != ROAM_OK)
		return err;
	return roami_ear_open(&udp->ear, params, udp->backend->pollable(udp));
}

static void udp_close(void *state)
{
	struct udp_state *udp = state;

	if (udp->backend != NULL)
		udp->backend->close(udp);
	udp->backend = NULL;
	if (udp->card != NULL)
		atomic_store(&udp->card->address, 0);
	roami_ear_close(&udp->ear);
	if (udp->fd >= 0)
		close(udp->fd);
	udp->fd = -1;
}

static void udp_note(void *state, unsigned peer, uint64_t address)
{
	struct udp_state *udp = state;
	const struct udp_card *card = udp->params.memory[peer].base;
	struct udp_peer *there = &udp->peers[peer];

	there->mark = atomic_load(&card->mark);
	there->address = (struct sockaddr_in){.sin_family = AF_INET,
					      .sin_port = htons((uint16_t)address),
					      .sin_addr.s_addr = htonl((uint32_t)(address >> 16))};
}

/* Whether it is known how to reach a peer.  Any thread. */
static bool udp_know(struct udp_state *udp, unsigned peer)
{
	const struct udp_card *card = udp->params.memory[peer].base;

	return roami_know(&udp->peers[peer].known, &card->address, udp_note, udp, peer);
}

/* -------------------------------------------------------------------------------------- traffic */

static enum roam_err udp_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	struct udp_state *udp = state;
	struct udp_mark mark = {0, (uint16_t)udp->params.node};
	struct iovec vec[UDP_PARTS_MAX + 1] = {{&mark, sizeof(mark)}};
	struct msghdr message = {
		.msg_namelen = sizeof(struct sockaddr_in), .msg_iov = vec, .msg_iovlen = count + 1};

	if (count > UDP_PARTS_MAX)
		return ROAM_EINVAL;
	if (!udp_know(udp, to))
		return ROAM_EAGAIN;
	mark.mark = udp->peers[to].mark & (((uint64_t)1 << 48) - 1);
	message.msg_name = &udp->peers[to].address;
	memcpy(vec + 1, parts, count * sizeof(*parts));
	if (sendmsg(udp->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return ROAM_OK;
	/* All else is as good as a lost datagram. */
	return errno == EAGAIN || errno == ENOBUFS ? ROAM_EAGAIN : ROAM_OK;
}

/* How many of `messages` the kernel can split, sent at a time: all but the last have one length. */
static unsigned udp_run_length(const struct udp_state *udp, const struct iovec *messages,
			       unsigned count)
{
	size_t each = messages[0].iov_len, bytes = each + sizeof(struct udp_mark);
	unsigned run = 1;

	/* They may arrive joined, one behind the other: each must begin at a multiple of 8. */
	if (atomic_load_explicit(&udp->cuts, memory_order_relaxed) == 0 || each % 8 != 0)
		return 1;
	while (run < count && messages[run].iov_len <= each &&
	       bytes + messages[run].iov_len + sizeof(struct udp_mark) <= RUN_MAX) {
		bytes += messages[run].iov_len + sizeof(struct udp_mark);
		if (messages[run++].iov_len < each)
			break;
	}
	return run;
}

/* Tells the kernel the length of each datagram that it splits off. */
static void udp_run_cut(struct msghdr *header, void *beside, size_t room, size_t each)
{
	struct cmsghdr *head;
	uint16_t bytes = (uint16_t)each;

	header->msg_control = beside;
	header->msg_controllen = room;
	head = CMSG_FIRSTHDR(header);
	head->cmsg_level = SOL_UDP;
	head->cmsg_type = UDP_SEGMENT;
	head->cmsg_len = CMSG_LEN(sizeof(bytes));
	memcpy(CMSG_DATA(head), &bytes, sizeof(bytes));
}

static unsigned udp_send_many(void *state, unsigned to, const struct iovec *messages,
			      unsigned count)
{
	struct udp_state *udp = state;
	struct udp_mark mark = {0, (uint16_t)udp->params.node};
	struct mmsghdr headers[ROAM_SEND_MANY];
	struct iovec parts[ROAM_SEND_MANY][2];
	_Alignas(struct cmsghdr) uint8_t beside[ROAM_SEND_MANY][CMSG_SPACE(sizeof(uint16_t))];
	unsigned runs[ROAM_SEND_MANY], used = 0, taken = 0;
	int sent;

	if (count > ROAM_SEND_MANY || !udp_know(udp, to))
		return 0;
	mark.mark = udp->peers[to].mark & (((uint64_t)1 << 48) - 1);
	for (unsigned i = 0; i < count; i++) {
		parts[i][0] = (struct iovec){&mark, sizeof(mark)};
		parts[i][1] = messages[i];
	}
	for (unsigned i = 0; i < count; i += runs[used++]) {
		runs[used] = udp_run_length(udp, messages + i, count - i);
		headers[used] =
			(struct mmsghdr){.msg_hdr = {.msg_name = &udp->peers[to].address,
						     .msg_namelen = sizeof(struct sockaddr_in),
						     .msg_iov = parts[i],
						     .msg_iovlen = 2 * (size_t)runs[used]}};
		if (runs[used] > 1)
			udp_run_cut(&headers[used].msg_hdr, beside[used], sizeof(beside[used]),
				    messages[i].iov_len + sizeof(mark));
	}
	sent = sendmmsg(udp->fd, headers, used, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (int i = 0; i < sent; i++)
		taken += runs[i];
	if (sent > 0)
		return taken;
	if (errno == EAGAIN || errno == ENOBUFS)
		return 0;
	if (runs[0] > 1) /* it does not cut here: the next ones leave one by one */
		atomic_store(&udp->cuts, 0);
	/* An error is of the first one, which is as good as lost. */
	return runs[0];
}

bool roami_udp_joined(struct udp_state *udp)
{
	int on = 1;

	return setsockopt(udp->fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) == 0;
}

size_t roami_udp_each(struct msghdr *header)
{
	for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL; at = CMSG_NXTHDR(header, at)) {
		int each;

		if (at->cmsg_level != SOL_UDP || at->cmsg_type != UDP_GRO ||
		    at->cmsg_len < CMSG_LEN(sizeof(each)))
			continue;
		memcpy(&each, CMSG_DATA(at), sizeof(each));
		return each > 0 ? (size_t)each : 0;
	}
	return 0;
}

void roami_udp_arrived(struct udp_state *udp, const struct sockaddr_in *source, const void *data,
		       size_t bytes)
{
	struct udp_mark mark;
	const struct udp_peer *peer;

	if (bytes < sizeof(mark))
		goto stranger;
	memcpy(&mark, data, sizeof(mark));
	if (mark.mark != udp->mark || mark.from >= udp->params.nodes ||
	    (udp->params.others >> mark.from & 1) != 0 || !udp_know(udp, mark.from))
		goto stranger;
	peer = &udp->peers[mark.from];
	if (source->sin_port != peer->address.sin_port ||
	    source->sin_addr.s_addr != peer->address.sin_addr.s_addr)
		goto stranger;
	udp->deliver(udp->deliver_arg, mark.from, (const uint8_t *)data + sizeof(mark),
		     bytes - sizeof(mark));
	return;
stranger:
	if (udp->params.stranger != NULL)
		udp->params.stranger(udp->params.now_arg);
}

static unsigned udp_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max,
			 int *bad_peer)
{
	struct udp_state *udp = state;

	(void)bad_peer;
	udp->deliver = deliver;
	udp->deliver_arg = arg;
	return udp->backend->poll(udp, max);
}

static bool udp_pending(const void *state)
{
	const struct udp_state *udp = state;

	return udp->backend->pending(udp);
}

static size_t udp_limit(const void *state)
{
	return ((const struct udp_state *)state)->limit;
}

static size_t udp_room(const void *state)
{
	return ((const struct udp_state *)state)->room;
}

/* ------------------------------------------------------------------------------------- sleeping */

static void udp_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns)
{
	roami_ear_wait(&((struct udp_state *)state)->ear, who, timeout_ns);
}

static void udp_wake(void *state, enum roam_sleeper who)
{
	roami_ear_wake(&((struct udp_state *)state)->ear, who);
}

static void udp_listen(void *state, bool on)
{
	roami_ear_listen(&((struct udp_state *)state)->ear, on);
}

static int udp_file(const void *state)
{
	const struct udp_state *udp = state;

	return udp->backend->pollable(udp);
}

/* --------------------------------------------------------------------------------------- probe */

/* A port that is not free at the moment is no reason here: opening reports it. */
static bool udp_probe(const struct roam_transport_value *options, char *why, size_t why_bytes)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	const char *failed = NULL;

	(void)options;
	if (fd < 0)
		failed = "a UDP socket";
	else if (bind(fd, (void *)&address, sizeof(address)) != 0 && errno != EADDRINUSE)
		failed = "a UDP port of 127.0.0.1";
	if (failed != NULL)
		snprintf(why, why_bytes, "%s: %s", failed, strerror(errno));
	if (fd >= 0)
		close(fd);
	return failed == NULL;
}

const struct roam_transport roami_transport_udp = {
	.name = "udp",
	.caps = ROAM_CAP_HOSTS,
	.cost_ns = 5000,
	.state_size = sizeof(struct udp_state),
	.message_max = UDP_DATAGRAM - sizeof(struct udp_mark),
	.card_bytes = sizeof(struct udp_card),
	.options = udp_options_table,
	.open = udp_open,
	.close = udp_close,
	.send = udp_send,
	.send_many = udp_send_many,
	.poll = udp_poll,
	.pending = udp_pending,
	.probe = udp_probe,
	.limit = udp_limit,
	.room = udp_room,
	.wait = udp_wait,
	.wake = udp_wake,
	.listen = udp_listen,
	.file = udp_file,
};
