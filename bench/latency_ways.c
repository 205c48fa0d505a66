#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <roam/dp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "floor.h"
#include "latency.h"

#define ETHERNET  14u
#define SPIN_US   50u /* of adaptive sockets: about twice what it takes to wake a thread */
#define SPIN_LONG  "1000000" /* of roam's threads that only spin */
#define SPIN_SHORT "1"       /* of those that do not: as short as can be */
#define ENDPOINT  1u
#define MEET_NS   UINT64_C(20000000000)
#define PORT      7078

void latency_fail(struct latency_run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->shared->error, sizeof(run->shared->error), format, args);
	va_end(args);
	_exit(1);
}

/* -------------------------------------------------------------------------------------- sockets */

static struct sockaddr_in socket_address(const struct latency_run *run, unsigned side,
					 unsigned port)
{
	uint32_t host = run->apart ? UINT32_C(0x0a4e0001) + side : INADDR_LOOPBACK;

	return (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htons((uint16_t)port),
				    .sin_addr.s_addr = htonl(host)};
}

/* A socket with a port; it notices within seconds that the other side is gone. */
static int socket_bound(struct latency_run *run, int type)
{
	struct sockaddr_in own = socket_address(run, run->side, 0);
	struct timeval most = {5, 0};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (void *)&own, sizeof(own)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) != 0)
		latency_fail(run, "a socket: %s", strerror(errno));
	return fd;
}

static unsigned socket_port(struct latency_run *run, int fd)
{
	struct sockaddr_in own;
	socklen_t bytes = sizeof(own);

	if (getsockname(fd, (void *)&own, &bytes) != 0)
		latency_fail(run, "getsockname: %s", strerror(errno));
	return ntohs(own.sin_port);
}

/* Side 1 waits for the port of side 0. */
static unsigned socket_await(const struct latency_run *run)
{
	uint32_t port;

	while ((port = atomic_load(&run->shared->ready)) == 0)
		usleep(1000);
	return port;
}

static void tcp_open(struct latency_run *run)
{
	int fd = socket_bound(run, SOCK_STREAM), on = 1;

	if (run->side == 0) {
		if (listen(fd, 1) != 0)
			latency_fail(run, "listen: %s", strerror(errno));
		atomic_store(&run->shared->ready, socket_port(run, fd));
		run->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		close(fd);
	} else {
		struct sockaddr_in to = socket_address(run, 0, socket_await(run));

		run->fd = fd;
		if (connect(fd, (void *)&to, sizeof(to)) != 0)
			latency_fail(run, "connect: %s", strerror(errno));
	}
	if (run->fd < 0 ||
	    setsockopt(run->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		latency_fail(run, "a connection: %s", strerror(errno));
}

static void socket_send(struct latency_run *run)
{
	if (send(run->fd, run->buffer, run->bytes, MSG_NOSIGNAL) != (ssize_t)run->bytes)
		latency_fail(run, "send: %s", strerror(errno));
}

/* More bytes of a message; false: none. */
static bool socket_more(struct latency_run *run, size_t bytes, bool wait)
{
	ssize_t got = recv(run->fd, run->buffer + run->have, bytes - run->have,
			   wait ? 0 : MSG_DONTWAIT);

	if (got > 0)
		run->have += (size_t)got;
	else if (got == 0 || wait || errno != EAGAIN)
		latency_fail(run, "receive: %s", got == 0 ? "it ended" : strerror(errno));
	return got > 0;
}

static bool tcp_take(struct latency_run *run, bool wait)
{
	while (run->have < run->bytes)
		if (!socket_more(run, run->bytes, wait))
			return false;
	run->have = 0;
	return true;
}

static bool datagram_take(struct latency_run *run, bool wait)
{
	run->have = 0;
	return socket_more(run, sizeof(run->buffer), wait);
}

static void socket_close(struct latency_run *run)
{
	close(run->fd);
}

static void udp_open(struct latency_run *run)
{
	run->fd = socket_bound(run, SOCK_DGRAM);
	if (run->side == 1) {
		struct sockaddr_in to = socket_address(run, 0, socket_await(run));

		if (connect(run->fd, (void *)&to, sizeof(to)) != 0)
			latency_fail(run, "connect: %s", strerror(errno));
		socket_send(run); /* tells side 0 where this one is */
	} else {
		struct sockaddr_in from;
		socklen_t bytes = sizeof(from);

		atomic_store(&run->shared->ready, socket_port(run, run->fd));
		if (recvfrom(run->fd, run->buffer, sizeof(run->buffer), 0, (void *)&from,
			     &bytes) < 0 ||
		    connect(run->fd, (void *)&from, bytes) != 0)
			latency_fail(run, "the first datagram: %s", strerror(errno));
	}
}

/* The floor of a job on one host. */
static void unix_open(struct latency_run *run)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval most = {5, 0};

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/socket", run->where);
	run->fd = fd;
	if (run->side == 0) {
		if (bind(fd, (void *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0)
			latency_fail(run, "listen: %s", strerror(errno));
		atomic_store(&run->shared->ready, 1);
		run->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		close(fd);
	} else {
		socket_await(run);
		if (connect(fd, (void *)&at, sizeof(at)) != 0)
			latency_fail(run, "connect: %s", strerror(errno));
	}
	if (run->fd < 0 || setsockopt(run->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) != 0)
		latency_fail(run, "a connection: %s", strerror(errno));
}

/* --------------------------------------------------------------------------------------- frames */

/* Tells the other side this one's address, and waits for the other one's. */
static void frames_meet(struct latency_run *run, const uint8_t *mac)
{
	memcpy(run->shared->mac[run->side], mac, 6);
	atomic_fetch_or(&run->shared->macs, 1u << run->side);
	while (atomic_load(&run->shared->macs) != 3)
		usleep(1000);
}

void latency_frames_open(struct latency_run *run)
{
	struct timeval most = {5, 0};
	struct ifreq request = {.ifr_name = LATENCY_DEVICE};
	struct sockaddr_ll own = {.sll_family = AF_PACKET, .sll_protocol = htons(LATENCY_TYPE)};
	uint16_t type = htons(LATENCY_TYPE);

	run->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	own.sll_ifindex = (int)if_nametoindex(LATENCY_DEVICE);
	if (run->fd < 0 || ioctl(run->fd, SIOCGIFHWADDR, &request) != 0 ||
	    bind(run->fd, (void *)&own, sizeof(own)) != 0 ||
	    setsockopt(run->fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) != 0)
		latency_fail(run, "a packet socket: %s", strerror(errno));
	frames_meet(run, (const uint8_t *)request.ifr_hwaddr.sa_data);
	memcpy(run->buffer + 12, &type, sizeof(type));
}

/* What came is sent back with the addresses exchanged, as `buffer` has them at its start. */
void latency_frames_send(struct latency_run *run)
{
	size_t bytes = ETHERNET + run->bytes;

	memcpy(run->buffer, run->shared->mac[1 - run->side], 6);
	memcpy(run->buffer + 6, run->shared->mac[run->side], 6);
	if (send(run->fd, run->buffer, bytes, 0) != (ssize_t)bytes)
		latency_fail(run, "a frame of %zu bytes: %s", bytes, strerror(errno));
}

/*
 * Bare rings of AF_PACKET, as the packet transport's, whose slots are filled in place: the paper's
 * static buffers.
 */
static void ring_open(struct latency_run *run)
{
	uint32_t endpoint = htonl(PORT); /* only such frames come into the ring */
	char why[160];

	if (!packet_lane_find(&run->lane, LATENCY_DEVICE, true, why, sizeof(why)))
		latency_fail(run, "%s", why);
	if (packet_lane_open(&run->lane, htons(LATENCY_TYPE), PORT, 64, 64) != ROAM_OK)
		latency_fail(run, "rings of AF_PACKET: %s", strerror(errno));
	memcpy(run->buffer + offsetof(struct packet_head, endpoint), &endpoint, sizeof(endpoint));
	run->fd = run->lane.fd;
	frames_meet(run, run->lane.mac);
}

/* A bare socket of AF_XDP, opened as the xdp transport's over veth. */
static void xdp_open(struct latency_run *run)
{
	struct xdp_plan plan = {.mode = XDP_GENERIC, .in = 64, .out = 64};
	const char *what = "an interface";
	char why[160];

	if (!packet_lane_find(&run->lane, LATENCY_DEVICE, true, why, sizeof(why)))
		latency_fail(run, "%s", why);
	run->lane.type = htons(LATENCY_TYPE);
	plan.joins = ETHERNET + run->lane.mtu > XDP_FRAME_IN;
	if (!xdp_lane_open(&run->lane, &run->xdp, 0, &plan, &what))
		latency_fail(run, "%s: %s", what, strerror(errno));
	run->fd = run->lane.fd;
	frames_meet(run, run->lane.mac);
}

static void lane_send(struct latency_run *run)
{
	uint8_t *slot;

	while (!packet_lane_room(&run->lane, 1))
		packet_lane_push(&run->lane);
	slot = packet_lane_slot(&run->lane, run->shared->mac[1 - run->side]);
	memcpy(slot, run->buffer, run->bytes);
	packet_lane_filled(&run->lane, run->bytes);
	if (!packet_lane_push(&run->lane))
		latency_fail(run, "send: %s", strerror(errno));
}

static bool lane_take(struct latency_run *run, bool wait)
{
	struct pollfd at = {run->fd, POLLIN, 0};
	struct packet_frame frame;

	while (!packet_lane_next(&run->lane, &frame)) {
		if (!wait)
			return false;
		if (poll(&at, 1, 5000) < 1)
			latency_fail(run, "no frame has come");
	}
	if (frame.head == NULL || frame.bytes < run->bytes)
		latency_fail(run, "a frame is too short");
	memcpy(run->buffer, frame.head, run->bytes);
	packet_lane_done(&run->lane);
	return true;
}

static void lane_close(struct latency_run *run)
{
	packet_lane_close(&run->lane);
}

/* ----------------------------------------------------------------------------------------- roam */

static void roam_must(struct latency_run *run, enum roam_err err, const char *what)
{
	if (err != ROAM_OK)
		latency_fail(run, "%s: %s", what, roam_strerror(err));
}

static void roam_options(const struct latency_run *run)
{
	setenv("ROAM_TRANSPORT", run->way->transport, 1);
	setenv("ROAM_SEAL", run->way->seal, 1);
	if (run->wait == LATENCY_SPINNING)
		setenv("ROAM_SPIN_US", SPIN_LONG, 1);
	if (run->wait == LATENCY_BLOCKING)
		setenv("ROAM_SPIN_US", SPIN_SHORT, 1);
}

/* The file of an endpoint, where one is used: it costs two system calls a message. */
static void dp_file(struct latency_run *run)
{
	if (run->wait == LATENCY_POLL)
		run->file = roam_dp_file(run->dp);
}

static void pair_open(struct latency_run *run)
{
	char key[256], path[256];

	roam_options(run);
	snprintf(key, sizeof(key), "%s/key", run->where);
	snprintf(path, sizeof(path), "%s/socket", run->where);
	if (run->apart)
		snprintf(path, sizeof(path), "10.78.0.1:%u", PORT);
	if (run->side == 1) /* the other side makes the key */
		while (access(key, R_OK) != 0)
			usleep(1000);
	roam_must(run, roam_dp_meet(path, key, run->side == 0, MEET_NS, &run->pair), "meeting");
	roam_must(run, roam_dp_open_pair(run->pair, ENDPOINT, &run->dp), "an endpoint");
	dp_file(run);
}

static void pair_close(struct latency_run *run)
{
	roam_dp_close(run->dp);
	roam_dp_part(run->pair);
}

static void dp_send(struct latency_run *run)
{
	enum roam_err err;

	/* At first the other side may not have its endpoint open. */
	while ((err = roam_dp_send(run->dp, 1 - run->side, ENDPOINT, run->buffer, run->bytes,
				   0)) == ROAM_EUNKNOWN)
		usleep(1000);
	roam_must(run, err, "send");
}

static bool dp_take(struct latency_run *run, bool wait)
{
	enum roam_err err = roam_dp_receive(run->dp, run->buffer, sizeof(run->buffer),
					    wait ? 0 : ROAM_DP_TRY, NULL);

	if (wait || err != ROAM_ETIMEDOUT)
		roam_must(run, err, "receive");
	return err == ROAM_OK;
}

static void job_open(struct latency_run *run)
{
	roam_must(run, roam_dp_open(ENDPOINT, &run->dp), "an endpoint");
	dp_file(run);
	roam_must(run, roam_barrier_all(), "a barrier");
}

static void job_close(struct latency_run *run)
{
	roam_must(run, roam_barrier_all(), "a barrier");
	roam_dp_close(run->dp);
}

static struct latency_run *job_run;

static void job_work(void)
{
	job_run->side = roam_node();
	job_open(job_run);
	latency_trips(job_run);
	job_close(job_run);
}

void latency_job(struct latency_run *run)
{
	roam_options(run);
	setenv("ROAM_PIN", "1", 1);
	job_run = run;
	roam_must(run, roam_create_all(job_work, 2), "a job");
	roam_must(run, roam_wait_for_end(), "the end of a job");
}

/* Of roam's ways between two programs: sealed ones are authenticated. */
#define PAIR                                                                                \
	.open = pair_open, .send = dp_send, .take = dp_take, .spins = true, .close = pair_close

const struct latency_way latency_ways[] = {
	{.name = "tcp", .open = tcp_open, .send = socket_send, .take = tcp_take,
	 .close = socket_close},
	{.name = "udp", .open = udp_open, .send = socket_send, .take = datagram_take,
	 .close = socket_close},
	{.name = "packet socket", .frames = LATENCY_FRAMES, .open = latency_frames_open,
	 .send = latency_frames_send, .take = datagram_take, .close = socket_close},
	{.name = "packet ring", .frames = LATENCY_FRAMES, .open = ring_open, .send = lane_send,
	 .take = lane_take, .close = lane_close},
	{.name = "xdp socket", .frames = LATENCY_XDP, .open = xdp_open, .send = lane_send,
	 .take = lane_take, .close = lane_close},
	{.name = "unix", .open = unix_open, .send = socket_send, .take = tcp_take,
	 .close = socket_close},
	{.name = "roam/packet", .transport = "packet", .seal = "off", .frames = LATENCY_FRAMES,
	 PAIR},
	{.name = "roam/xdp", .transport = "xdp", .seal = "off", .frames = LATENCY_XDP, PAIR},
	{.name = "roam/udp", .transport = "udp", .seal = "off", PAIR},
	{.name = "sealed packet", .transport = "packet", .seal = "auth",
	 .frames = LATENCY_FRAMES, PAIR},
	{.name = "sealed xdp", .transport = "xdp", .seal = "auth", .frames = LATENCY_XDP, PAIR},
	{.name = "sealed udp", .transport = "udp", .seal = "auth", PAIR},
	{.name = "roam/shm", .transport = "shm", .seal = "off", .near = true, .open = job_open,
	 .send = dp_send, .take = dp_take, .spins = true, .close = job_close},
	{.name = "to kernel", .frames = LATENCY_KERNEL, .open = latency_echo_open,
	 .send = latency_echo_send, .take = datagram_take, .close = socket_close,
	 .trips = latency_bpf_trips},
	{.name = "to interrupt", .frames = LATENCY_DRIVER, .open = latency_echo_open,
	 .send = latency_echo_send, .take = datagram_take, .close = socket_close,
	 .trips = latency_bpf_trips},
	{.name = "kernel", .frames = LATENCY_KERNEL, .open = latency_inside_open,
	 .close = socket_close, .trips = latency_bpf_trips, .inside = true},
	{.name = "interrupt", .frames = LATENCY_DRIVER, .open = latency_inside_open,
	 .close = socket_close, .trips = latency_bpf_trips, .inside = true},
	{.name = NULL}};

/* ---------------------------------------------------------------------------------------- trips */

/* Takes a message that is there, or comes soon. */
static bool take_soon(struct latency_run *run)
{
	uint64_t start = floor_begin(), most = SPIN_US * 2000u; /* cycles: about so long */

	while (run->wait == LATENCY_SPINNING || floor_begin() - start < most) {
		if (run->way->take(run, false))
			return true;
		__builtin_ia32_pause();
	}
	return false;
}

static void trip_take(struct latency_run *run)
{
	struct pollfd at = {run->file, POLLIN, 0};

	if (run->wait == LATENCY_POLL) {
		while (poll(&at, 1, -1) < 1 || !run->way->take(run, false))
			;
		return;
	}
	if (!run->way->spins && run->wait != LATENCY_BLOCKING && take_soon(run))
		return;
	while (!run->way->take(run, true))
		;
}

/* Whether this was a run's last trip, of side 1: all have been made, or the matrices are done. */
static bool trips_over(const struct latency_run *run, unsigned time, uint32_t trips)
{
	if (!run->busy)
		return trips == LATENCY_WARM + run->trips;
	return trips > LATENCY_WARM && atomic_load(&run->shared->works) > time;
}

/* The side that measures. */
static void trips_measure(struct latency_run *run, unsigned time)
{
	struct latency_shared *shared = run->shared;
	uint32_t trips = 0;

	for (bool last = false; !last;) {
		uint64_t start;

		if (++trips == LATENCY_WARM + 1)
			atomic_store(&shared->began, time + 1);
		last = trips_over(run, time, trips);
		if (last)
			atomic_store(&shared->last, trips);
		start = floor_begin();
		run->way->send(run);
		trip_take(run);
		if (trips > LATENCY_WARM && trips <= LATENCY_WARM + LATENCY_TRIPS_MAX)
			shared->ticks[time][trips - LATENCY_WARM - 1] =
				(float)(floor_end() - start);
	}
	shared->trips[time] = trips - LATENCY_WARM;
	atomic_store(&shared->last, 0);
	atomic_store(&shared->done, time + 1);
}

/* The side that answers: how many trips there are it learns with the last one. */
static void trips_answer(struct latency_run *run)
{
	uint32_t trips = 0, last;

	do {
		trip_take(run);
		last = atomic_load(&run->shared->last); /* the answer may end it */
		run->way->send(run);
	} while (++trips != last);
}

void latency_trips(struct latency_run *run)
{
	if (run->way->transport == NULL)
		run->file = run->fd;
	for (unsigned time = 0; time < LATENCY_TIMES; time++)
		if (run->side == 1)
			trips_measure(run, time);
		else
			trips_answer(run);
}
