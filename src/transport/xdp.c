#include "xdp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/os.h"

#define NAME "xdp: "

/* In the order of the table, behind packet's. */
enum { XDP_MODE = PACKET_OPTIONS, XDP_QUEUE, XDP_BUSY };

static const struct roam_transport_option xdp_options[] = {
	ROAM_TRANSPORT_OPTION("ROAM_XDP_INTERFACE", "auto", "",
			      "the interface that the xdp transport sends frames by to other "
			      "hosts; auto: the one with the address by which this host was "
			      "reached"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_ETHERTYPE", "34997", "1536..65535",
			      "the EtherType of the xdp transport's frames"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_IN", "256", "16..65536",
			      "frames that can wait at a node's xdp transport until they are "
			      "taken, at each of its sockets"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_OUT", "64", "16..65535",
			      "frames that can wait there to leave"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_MODE", "auto", "auto|zero-copy|native|generic",
			      "where the xdp transport's program sees frames: native, in the "
			      "driver; zero-copy, in the driver, whose card shares our memory; "
			      "generic, behind the driver; auto: the first of these that the "
			      "interface has, over veth generic before native"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_QUEUE", "0", "0..1023",
			      "the queue of the interface whose frames the xdp transport takes; "
			      "those of others come to it more slowly"),
	ROAM_TRANSPORT_OPTION("ROAM_XDP_BUSY_POLL", "0", "0..10000",
			      "microseconds for which the xdp transport polls a card whose driver "
			      "it is native in, when no frame has arrived; 0: interrupts are "
			      "enough"),
	{.variable = NULL}};

struct xdp_state {
	struct packet_state packet; /* first: packet.c is told of it */
	struct xdp_socket socket;
};

/* -------------------------------------------------------------------------------------- opening */

/* Locked memory that a process may have; its socket needs some. */
static void xdp_memlock(char *text, size_t bytes, size_t wanted)
{
	struct rlimit limit;

	text[0] = '\0';
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		snprintf(text, bytes, " (RLIMIT_MEMLOCK is %llu KiB, and %zu KiB are needed)",
			 (unsigned long long)limit.rlim_cur >> 10, wanted >> 10);
}

/* What a call that was refused lacks, for the user. */
static void xdp_hint(int error, const char *what, size_t wanted, char *text, size_t bytes)
{
	text[0] = '\0';
	if (error == ENOBUFS)
		xdp_memlock(text, bytes, wanted);
	else if (error == EPERM && strcmp(what, "a socket of AF_XDP") == 0)
		snprintf(text, bytes, " (it needs CAP_NET_RAW)");
	else if (error == EPERM || error == EACCES)
		snprintf(text, bytes, " (it needs CAP_BPF and CAP_NET_ADMIN)");
	else if (error == EAFNOSUPPORT)
		snprintf(text, bytes, " (the kernel lacks CONFIG_XDP_SOCKETS)");
	else if (error == ENOSYS)
		snprintf(text, bytes, " (the kernel lacks CONFIG_BPF_SYSCALL)");
}

/*
 * Over veth a frame that is native costs a thread more on its way: a round trip of 64 B took 2.4
 * to 2.6 us, and 1.9 us by generic.
 */
static bool xdp_is_veth(const char *name)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (void *)&driver};
	int fd = roami_os_fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	bool veth;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	veth = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0 &&
	       strcmp(driver.driver, "veth") == 0;
	if (fd >= 0)
		close(fd);
	return veth;
}

/* Whether the interface, or its queue, has a program or a socket already. */
static bool xdp_taken(int error)
{
	return error == EBUSY || error == EEXIST;
}

/* Tries one mode; frames longer than a chunk are joined where the kernel can do that. */
static bool xdp_try(struct xdp_state *xdp, struct packet_lane *lane, struct xdp_plan *plan,
		    const char **what)
{
	uint32_t endpoint = htonl(xdp->packet.endpoint);

	plan->joins = PACKET_ETHERNET + lane->mtu > XDP_FRAME_IN;
	if (xdp_lane_open(lane, &xdp->socket, endpoint, plan, what))
		return true;
	if (!plan->joins || xdp_taken(errno))
		return false;
	plan->joins = false;
	return xdp_lane_open(lane, &xdp->socket, endpoint, plan, what);
}

static bool xdp_try_modes(struct xdp_state *xdp, struct packet_lane *lane, struct xdp_plan *plan,
			  const char **what)
{
	static const enum xdp_mode cards[] = {XDP_ZERO_COPY, XDP_NATIVE, XDP_GENERIC};
	static const enum xdp_mode veth[] = {XDP_GENERIC, XDP_NATIVE};
	bool is_veth = xdp_is_veth(lane->name);
	const enum xdp_mode *modes = is_veth ? veth : cards;

	if (plan->mode != XDP_AUTO)
		return xdp_try(xdp, lane, plan, what);
	for (unsigned i = 0; i < (is_veth ? 2 : 3); i++) {
		plan->mode = modes[i];
		if (xdp_try(xdp, lane, plan, what))
			return true;
		if (xdp_taken(errno))
			break;
	}
	return false;
}

/* The interface has no room: says so, and the node goes on with packet's rings. */
static void xdp_without(struct packet_state *packet, const char *interface, const char *what,
			int error)
{
	packet->lacks = true;
	snprintf(packet->line, sizeof(packet->line),
		 NAME "%s: %s: %s; this node's frames go by sockets of AF_PACKET", interface, what,
		 xdp_taken(error) ? "another program or node has it" : strerror(error));
}

/* Opens the other way over the interface. */
static enum roam_err xdp_fast(struct packet_state *packet,
			      const struct roam_transport_value *options)
{
	struct xdp_state *xdp = (struct xdp_state *)packet;
	const struct packet_lane *link = &packet->lanes[PACKET_LINK];
	struct packet_lane *lane = &packet->lanes[PACKET_FAST];
	struct xdp_plan plan = {.mode = (enum xdp_mode)options[XDP_MODE].word,
				.queue = (unsigned)options[XDP_QUEUE].number,
				.in = (unsigned)options[PACKET_IN].number,
				.out = (unsigned)options[PACKET_OUT].number,
				.busy_us = (uint32_t)options[XDP_BUSY].number};
	bool named = plan.mode != XDP_AUTO;
	const char *what = "";
	char hint[100];
	int error;

	*lane = *link;
	lane->ring = NULL;
	lane->alone = 0;
	if (xdp_try_modes(xdp, lane, &plan, &what)) {
		if (!xdp->socket.joins && packet->limit > XDP_FRAME_IN - PACKET_ETHERNET -
								  sizeof(struct packet_head))
			packet->limit = XDP_FRAME_IN - PACKET_ETHERNET - sizeof(struct packet_head);
		if (plan.busy_us > 0 && xdp->socket.busy_us == 0)
			snprintf(packet->line, sizeof(packet->line),
				 NAME "%s: ROAM_XDP_BUSY_POLL has no effect here", lane->name);
		return ROAM_OK;
	}
	error = errno;
	lane->fd = -1;
	if (!xdp_taken(error) && (named || error == EPERM || error == EACCES || error == ENOBUFS)) {
		xdp_hint(error, what, xdp->socket.bytes, hint, sizeof(hint));
		packet_say(packet, "%s: %s: %s%s", link->name, what, strerror(error), hint);
		return ROAM_EUNSUPPORTED;
	}
	xdp_without(packet, link->name, what, error);
	return ROAM_OK;
}

static enum roam_err xdp_open(void *state, const struct roam_transport_params *params)
{
	((struct xdp_state *)state)->packet.fast = xdp_fast;
	return packet_open(state, params);
}

/* ---------------------------------------------------------------------------------------- probe */

/* Makes all that needs no interface, and nothing that others see. */
static bool xdp_probe_calls(const struct xdp_plan *plan, char *why, size_t why_bytes)
{
	const char *what = "a map of sockets";
	int map = xdp_map_make(0), program = -1, error;
	size_t bytes = 0;
	bool good = false;
	char hint[100];

	if (map >= 0) {
		what = "a program of XDP";
		program = xdp_program_make(map, 0, 0, XDP_FRAME_IN);
	}
	if (program >= 0)
		good = xdp_lane_probe(plan, &bytes, &what);
	error = errno;
	if (map >= 0)
		close(map);
	if (program >= 0)
		close(program);
	if (good)
		return true;
	xdp_hint(error, what, bytes, hint, sizeof(hint));
	snprintf(why, why_bytes, "%s: %s%s", what, strerror(error), hint);
	return false;
}

static bool xdp_probe(const struct roam_transport_value *options, char *why, size_t why_bytes)
{
	struct xdp_plan plan = {.mode = XDP_GENERIC, .in = 16, .out = 16};

	if (options != NULL) {
		plan.in = (unsigned)options[PACKET_IN].number;
		plan.out = (unsigned)options[PACKET_OUT].number;
	}
	return packet_probe(options, why, why_bytes) && xdp_probe_calls(&plan, why, why_bytes);
}

const struct roam_transport roami_transport_xdp = {
	.name = "xdp",
	PACKET_OPERATIONS,
	.state_size = sizeof(struct xdp_state),
	.options = xdp_options,
	.open = xdp_open,
	.probe = xdp_probe,
};
