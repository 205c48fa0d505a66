#include "packet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/gather.h"
#include "os/os.h"

#define PROBES       6u       /* probes without an answer until the user is told */
#define PROBE_NS     1000000u /* from the first probe to the second; then twice as long each time */
#define PROBE_MAX_NS 1000000000u

static const struct roam_transport_option packet_options[] = {
	ROAM_TRANSPORT_OPTION("ROAM_PACKET_INTERFACE", "auto", "",
			      "the interface that the packet transport sends frames by to other "
			      "hosts; auto: the one with the address by which this host was "
			      "reached"),
	ROAM_TRANSPORT_OPTION("ROAM_PACKET_ETHERTYPE", "34997", "1536..65535",
			      "the EtherType of the packet transport's frames; the default, "
			      "0x88b5, is one that IEEE 802 keeps free for experiments"),
	ROAM_TRANSPORT_OPTION("ROAM_PACKET_IN", "256", "16..65536",
			      "frames that can wait at a node's packet transport until they are "
			      "taken, at each of its interfaces"),
	ROAM_TRANSPORT_OPTION("ROAM_PACKET_OUT", "64", "16..65536",
			      "frames that can wait there to leave"),
	{.variable = NULL}};

/* Refuses types that the kernel, or every network, uses for something else. */
static const uint16_t packet_taken[] = {0x0800, 0x0806, 0x8100, 0x86dd, 0x8863,
					0x8864, 0x888e, 0x88a8, 0x88cc};

/* -------------------------------------------------------------------------------------- opening */

void packet_say(const struct packet_state *packet, const char *format, ...)
{
	va_list args;

	if (packet->params.why == NULL)
		return;
	va_start(args, format);
	vsnprintf(packet->params.why, packet->params.why_bytes, format, args);
	va_end(args);
}

/* In the names of its options. */
static const char *packet_name(const struct packet_state *packet)
{
	return packet->fast != NULL ? "XDP" : "PACKET";
}

/* Finds the interface for frames to other hosts; false: it has said why there is none. */
static bool packet_interface(struct packet_state *packet, const char *named,
			     struct packet_lane *lane)
{
	const struct roam_transport_params *params = &packet->params;
	char name[ROAM_TRANSPORT_TEXT];

	snprintf(name, sizeof(name), "%s", named);
	if (strcmp(named, "auto") == 0 && !packet_lane_of(params->address, name)) {
		packet_say(packet, "no interface has the address by which this host was reached: "
				   "ROAM_%s_INTERFACE", packet_name(packet));
		return false;
	}
	return packet_lane_find(lane, name, true, params->why, params->why_bytes);
}

static bool packet_type_free(const struct packet_state *packet, uint64_t type)
{
	for (unsigned i = 0; i < sizeof(packet_taken) / sizeof(packet_taken[0]); i++)
		if (packet_taken[i] == type) {
			packet_say(packet, "ROAM_%s_ETHERTYPE=0x%04x is another protocol's",
				   packet_name(packet), packet_taken[i]);
			return false;
		}
	return true;
}

/* What a refused socket lacks, for the user. */
static const char *packet_hint(int error)
{
	if (error == EPERM || error == EACCES)
		return " (raw frames need CAP_NET_RAW)";
	return error == EAFNOSUPPORT ? " (the kernel lacks CONFIG_PACKET)" : "";
}

static enum roam_err packet_lane(struct packet_state *packet, struct packet_lane *lane,
				 const struct roam_transport_value *options)
{
	enum roam_err err =
		packet_lane_open(lane, htons((uint16_t)options[PACKET_TYPE].number),
				 packet->endpoint, (unsigned)options[PACKET_IN].number,
				 (unsigned)options[PACKET_OUT].number);
	unsigned mtu = lane->mtu;

	if (err != ROAM_OK) {
		packet_say(packet, "frames by %s%s", lane->name, packet_hint(errno));
		return err;
	}
	if (packet->params.mtu > 0 && packet->params.mtu < mtu)
		mtu = packet->params.mtu;
	if (packet->limit == 0 || packet->limit > mtu - sizeof(struct packet_head))
		packet->limit = mtu - sizeof(struct packet_head);
	return ROAM_OK;
}

/* Frames to nodes of this host use lo, because a switch never sends them back. */
static enum roam_err packet_lanes(struct packet_state *packet,
				  const struct roam_transport_value *options)
{
	struct packet_lane *link = &packet->lanes[PACKET_LINK], *near = &packet->lanes[PACKET_NEAR];
	bool named = strcmp(options[PACKET_INTERFACE].text, "auto") != 0;
	bool far = packet->params.address != 0;
	enum roam_err err = ROAM_OK;

	if (!packet_type_free(packet, options[PACKET_TYPE].number))
		return ROAM_EINVAL;
	if (((far || named) && !packet_interface(packet, options[PACKET_INTERFACE].text, link)) ||
	    !packet_lane_find(near, "lo", false, packet->params.why, packet->params.why_bytes))
		return ROAM_EUNSUPPORTED;
	if (far)
		err = packet_lane(packet, link, options);
	if (far && err == ROAM_OK && packet->fast != NULL)
		err = packet->fast(packet, options);
	return err == ROAM_OK ? packet_lane(packet, near, options) : err;
}

/* Makes the descriptor that becomes readable when any frame arrives. */
static int packet_pollable(struct packet_state *packet)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (packet->lanes[PACKET_LINK].fd < 0)
		return packet->lanes[PACKET_NEAR].fd;
	packet->both = roami_os_fd(epoll_create1(EPOLL_CLOEXEC));
	for (unsigned i = 0; i < PACKET_LANES; i++)
		if (packet->lanes[i].fd >= 0 &&
		    (packet->both < 0 || epoll_ctl(packet->both, EPOLL_CTL_ADD,
						   packet->lanes[i].fd, &event) != 0))
			return -1;
	return packet->both;
}

static enum roam_err packet_memory(struct packet_state *packet)
{
	packet->memory_bytes = (size_t)packet->params.nodes * PACKET_DATAGRAM;
	packet->memory = roami_os_reserve_sparse(packet->memory_bytes);
	if (packet->memory == NULL)
		return ROAM_ENOMEM;
	for (unsigned i = 0; i < packet->params.nodes; i++)
		packet->peers[i].joined = packet->memory + (size_t)i * PACKET_DATAGRAM;
	return ROAM_OK;
}

static uint64_t packet_where(const uint8_t mac[PACKET_MAC])
{
	uint64_t where = PACKET_OPEN;

	for (unsigned i = 0; i < PACKET_MAC; i++)
		where |= (uint64_t)mac[i] << (16 + 8 * i);
	return where;
}

enum roam_err packet_open(void *state, const struct roam_transport_params *params)
{
	struct packet_state *packet = state;
	const struct packet_lane *seen = &packet->lanes[PACKET_NEAR];
	uint64_t random = roami_os_random();
	enum roam_err err;
	int file;

	packet->both = -1;
	for (unsigned i = 0; i < PACKET_LANES; i++)
		packet->lanes[i].fd = -1;
	roami_ear_init(&packet->ear);
	if (params->nodes > PACKET_NODES_MAX)
		return ROAM_ENODES;
	packet->params = *params;
	packet->endpoint = (uint32_t)random;
	packet->mark = (uint32_t)(random >> 32);
	packet->frames_in = (unsigned)params->options[PACKET_IN].number;
	err = packet_memory(packet);
	if (err == ROAM_OK)
		err = packet_lanes(packet, params->options);
	if (err != ROAM_OK)
		return err;
	file = packet_pollable(packet);
	if (file < 0 || roami_ear_open(&packet->ear, params, file) != ROAM_OK)
		return ROAM_ESYSTEM;
	if (packet->lanes[PACKET_LINK].fd >= 0)
		seen = &packet->lanes[PACKET_LINK];
	packet->card = params->memory[params->node].base;
	atomic_store(&packet->card->endpoint, random);
	atomic_store(&packet->card->where,
		     packet_where(seen->mac) |
			     (packet->lanes[PACKET_FAST].fd >= 0 ? PACKET_HAS_FAST : 0));
	return ROAM_OK;
}

void packet_close(void *state)
{
	struct packet_state *packet = state;

	if (packet->card != NULL)
		atomic_store(&packet->card->where, 0);
	roami_ear_close(&packet->ear);
	if (packet->both >= 0)
		close(packet->both);
	packet->both = -1;
	for (unsigned i = 0; i < PACKET_LANES; i++)
		packet_lane_close(&packet->lanes[i]);
	if (packet->memory != NULL)
		roami_os_unmap(packet->memory, packet->memory_bytes);
	packet->memory = NULL;
}

/* ---------------------------------------------------------------------------------------- peers */

/* Whether a node is where the card of another one says. */
static bool packet_at(uint64_t where, const struct packet_lane *lane)
{
	return (where & ~(uint64_t)PACKET_HAS_FAST) == packet_where(lane->mac);
}

/* A peer with the address of this host's interface is on this host. */
static struct packet_lane *packet_lane_to(struct packet_state *packet, uint64_t where)
{
	struct packet_lane *link = &packet->lanes[PACKET_LINK], *fast = &packet->lanes[PACKET_FAST];

	if (link->fd >= 0 && !packet_at(where, link))
		return fast->fd >= 0 ? fast : link;
	return &packet->lanes[PACKET_NEAR];
}

static void packet_note(void *state, unsigned peer, uint64_t where)
{
	struct packet_state *packet = state;
	const struct packet_card *card = packet->params.memory[peer].base;
	struct packet_peer *there = &packet->peers[peer];
	uint64_t endpoint = atomic_load(&card->endpoint);

	there->endpoint = htonl((uint32_t)endpoint);
	there->mark = (uint32_t)(endpoint >> 32);
	there->lane = packet_lane_to(packet, where);
	for (unsigned i = 0; i < PACKET_MAC; i++)
		there->mac[i] = (uint8_t)(where >> (16 + 8 * i));
	if (there->lane == &packet->lanes[PACKET_NEAR]) {
		memcpy(there->mac, there->lane->mac, PACKET_MAC);
		atomic_store(&there->proven, 1);
	}
}

/* Whether this node knows how to reach a peer.  Any thread. */
static bool packet_know(struct packet_state *packet, unsigned peer)
{
	const struct packet_card *card = packet->params.memory[peer].base;

	return roami_know(&packet->peers[peer].known, &card->where, packet_note, packet, peer);
}

/* -------------------------------------------------------------------------------------- leaving */

/* Fills in for which node a frame is, and from which. */
static void packet_address(const struct packet_state *packet, unsigned to, struct packet_head *head)
{
	head->endpoint = packet->peers[to].endpoint;
	head->mark = packet->peers[to].mark;
	head->to = (uint16_t)to;
	head->from = (uint16_t)packet->params.node;
}

/* Fills a free slot, which there is; `reader` NULL: with zeroes. */
static void packet_fill(const struct packet_state *packet, const struct packet_peer *peer,
			unsigned to, struct packet_head head, struct roami_gather *reader)
{
	uint8_t *slot = packet_lane_slot(peer->lane, peer->mac);

	packet_address(packet, to, &head);
	memcpy(slot, &head, sizeof(head));
	if (reader != NULL)
		roami_gather_copy(reader, slot + sizeof(head), head.bytes);
	else
		memset(slot + sizeof(head), 0, head.bytes);
	packet_lane_filled(peer->lane, sizeof(head) + head.bytes);
}

/*
 * Probes whether frames as long as the link takes arrive at a peer: switches drop longer ones than
 * they take, without saying so.
 */
static void packet_probe_peer(struct packet_state *packet, struct packet_peer *peer, unsigned to)
{
	uint64_t now = packet->params.now(packet->params.now_arg), pause = PROBE_NS;
	struct packet_head head = {.kind = PACKET_PROBE};

	if (now < peer->probe_due || !packet_lane_room(peer->lane, 1))
		return;
	if (atomic_exchange(&peer->heard, 0) != 0)
		peer->probes++; /* the last probe was not answered, though the peer was heard */
	if (peer->probes == PROBES)
		atomic_fetch_or(&packet->narrow, (uint64_t)1 << to);
	pause <<= peer->probes < 10 ? peer->probes : 10;
	peer->probe_due = now + (pause < PROBE_MAX_NS ? pause : PROBE_MAX_NS);
	head.bytes = head.length = (uint16_t)packet->limit;
	packet_fill(packet, peer, to, head, NULL);
}

/* Sends a datagram in pieces that every Ethernet takes.  false: there is no room. */
static bool packet_cut(const struct packet_state *packet, struct packet_peer *peer, unsigned to,
		       struct roami_gather *reader, size_t bytes)
{
	const size_t each = PACKET_STANDARD - sizeof(struct packet_head);
	struct packet_head head = {.kind = PACKET_PIECE,
				   .number = ++peer->number,
				   .length = (uint16_t)bytes};

	if (!packet_lane_room(peer->lane, (unsigned)((bytes + each - 1) / each)))
		return false;
	for (size_t at = 0; at < bytes; at += each) {
		head.offset = (uint16_t)at;
		head.bytes = (uint16_t)(bytes - at < each ? bytes - at : each);
		packet_fill(packet, peer, to, head, reader);
	}
	return true;
}

/* Whether a datagram goes in one frame. */
static bool packet_whole(const struct packet_peer *peer, size_t bytes)
{
	return bytes <= PACKET_STANDARD - sizeof(struct packet_head) ||
	       atomic_load_explicit(&peer->proven, memory_order_relaxed) != 0;
}

/* Puts one datagram into the ring.  false: there is no room.  The lane's lock is held. */
static bool packet_put(struct packet_state *packet, unsigned to, const struct iovec *parts,
		       unsigned count)
{
	struct packet_peer *peer = &packet->peers[to];
	struct packet_head head = {.kind = PACKET_WHOLE};
	struct roami_gather reader = {parts, 0};
	size_t bytes = roami_gather_bytes(parts, count);

	if (bytes > packet->limit)
		return true; /* as good as lost */
	if (!packet_whole(peer, bytes)) {
		packet_probe_peer(packet, peer, to);
		return packet_cut(packet, peer, to, &reader, bytes);
	}
	if (!packet_lane_room(peer->lane, 1))
		return false;
	head.bytes = head.length = (uint16_t)bytes;
	packet_fill(packet, peer, to, head, &reader);
	return true;
}

/* Sends one datagram past the ring, if nothing waits there; false: it must go by the ring. */
static bool packet_alone(struct packet_state *packet, unsigned to, const struct iovec *parts,
			 unsigned count)
{
	const struct packet_peer *peer = &packet->peers[to];
	size_t bytes = roami_gather_bytes(parts, count);
	struct packet_head head = {.kind = PACKET_WHOLE};

	if (peer->lane->alone <= 0 || bytes > packet->limit || !packet_whole(peer, bytes) ||
	    atomic_load_explicit(&peer->lane->waits, memory_order_relaxed) != 0)
		return false;
	head.bytes = head.length = (uint16_t)bytes;
	packet_address(packet, to, &head);
	return packet_lane_send(peer->lane, peer->mac, &head, parts, count);
}

/*
 * Sends datagrams of so many parts each; returns how many were taken.  Where the ring is full and
 * the interface is down they are as good as lost.
 */
static unsigned packet_leave(struct packet_state *packet, unsigned to, const struct iovec *parts,
			     unsigned each, unsigned count)
{
	struct packet_lane *lane;
	unsigned taken = 0;
	bool up;

	if (!packet_know(packet, to))
		return 0;
	if (count == 1 && packet_alone(packet, to, parts, each))
		return 1;
	lane = packet->peers[to].lane;
	packet_lane_lock(lane);
	while (taken < count && packet_put(packet, to, parts + taken * each, each))
		taken++;
	packet_lane_unlock(lane);
	up = packet_lane_push(lane);
	return up ? taken : count;
}

enum roam_err packet_send(void *state, unsigned to, const struct iovec *parts, unsigned count)
{
	if (count > PACKET_PARTS_MAX)
		return ROAM_EINVAL;
	return packet_leave(state, to, parts, count, 1) == 1 ? ROAM_OK : ROAM_EAGAIN;
}

unsigned packet_send_many(void *state, unsigned to, const struct iovec *messages, unsigned count)
{
	return packet_leave(state, to, messages, 1, count);
}

/* ------------------------------------------------------------------------------------- arriving */

static void packet_stranger(const struct packet_state *packet)
{
	if (packet->params.stranger != NULL)
		packet->params.stranger(packet->params.now_arg);
}

/* Whether a frame comes from a node of the job and has a sound head. */
static bool packet_ours(struct packet_state *packet, const struct packet_lane *lane,
			const struct packet_frame *frame)
{
	const struct packet_head *head = frame->head;
	const struct packet_peer *peer;

	if (head == NULL || head->mark != packet->mark || head->to != packet->params.node ||
	    head->from >= packet->params.nodes ||
	    (packet->params.others >> head->from & 1) != 0 ||
	    head->bytes > frame->bytes - sizeof(*head) || head->bytes > PACKET_DATAGRAM ||
	    !packet_know(packet, head->from))
		return false;
	peer = &packet->peers[head->from];
	return peer->lane->far == lane->far && memcmp(frame->source, peer->mac, PACKET_MAC) == 0;
}

/*
 * Joins pieces, which must come in order, or the datagram is as good as lost.  false: it cannot be
 * taken now.
 */
static bool packet_piece(struct packet_state *packet, struct packet_peer *peer,
			 const struct packet_head *head)
{
	if (head->offset == 0) {
		peer->joining = head->number;
		peer->length = head->length <= PACKET_DATAGRAM ? head->length : 0;
		peer->have = 0;
	}
	if (head->number != peer->joining || head->offset != peer->have ||
	    head->length != peer->length || head->bytes > peer->length - peer->have)
		return true;
	if (head->bytes < peer->length - peer->have) {
		memcpy(peer->joined + peer->have, head + 1, head->bytes);
		peer->have = (uint16_t)(peer->have + head->bytes);
		return true;
	}
	memcpy(peer->joined + peer->have, head + 1, head->bytes);
	if (!packet->deliver(packet->deliver_arg, head->from, peer->joined, peer->length))
		return false;
	peer->length = 0;
	return true;
}

/* A probe arrived, so its sender may send such long frames. */
static void packet_answer(struct packet_state *packet, struct packet_peer *peer,
			  const struct packet_head *probe)
{
	struct packet_head head = {.kind = PACKET_PROVEN, .length = probe->length};

	packet_lane_lock(peer->lane);
	if (packet_lane_room(peer->lane, 1))
		packet_fill(packet, peer, probe->from, head, NULL);
	packet_lane_unlock(peer->lane);
	packet_lane_push(peer->lane);
}

/* Handles a frame; false: it cannot be taken now. */
static bool packet_arrived(struct packet_state *packet, const struct packet_lane *lane,
			   const struct packet_frame *frame)
{
	const struct packet_head *head = frame->head;
	struct packet_peer *peer;

	if (!packet_ours(packet, lane, frame)) {
		packet_stranger(packet);
		return true;
	}
	peer = &packet->peers[head->from];
	if (atomic_load_explicit(&peer->heard, memory_order_relaxed) == 0)
		atomic_store_explicit(&peer->heard, 1, memory_order_relaxed);
	switch (head->kind) {
	case PACKET_WHOLE:
		return packet->deliver(packet->deliver_arg, head->from, head + 1, head->bytes);
	case PACKET_PIECE:
		return packet_piece(packet, peer, head);
	case PACKET_PROBE:
		if (head->bytes == head->length)
			packet_answer(packet, peer, head);
		return true;
	case PACKET_PROVEN:
		if (head->length == packet->limit)
			atomic_store(&peer->proven, 1);
		return true;
	default:
		packet_stranger(packet);
		return true;
	}
}

/* Tells the user that long frames do not arrive at a peer. */
static void packet_tell_of(const struct packet_state *packet, unsigned peer)
{
	char line[200];

	snprintf(line, sizeof(line),
		 "%s: frames of %zu bytes do not arrive at node %u, though %s takes them: what "
		 "is between drops them; frames of %u bytes are sent in their place",
		 packet->fast != NULL ? "xdp" : "packet",
		 packet->limit + sizeof(struct packet_head), peer, packet->peers[peer].lane->name,
		 PACKET_STANDARD);
	if (packet->params.notice != NULL)
		packet->params.notice(packet->params.now_arg, line);
}

/* Tells the user of each such peer, once. */
static void packet_tell(struct packet_state *packet)
{
	uint64_t narrow = atomic_exchange(&packet->narrow, 0) & ~packet->reported;

	packet->reported |= narrow;
	for (; narrow != 0; narrow &= narrow - 1)
		packet_tell_of(packet, (unsigned)__builtin_ctzll(narrow));
}

/* Tells the user the line that open() left; of what is shared not before all nodes are open. */
static void packet_tell_line(struct packet_state *packet)
{
	const struct roam_transport_params *params = &packet->params;
	bool shared = false;

	for (unsigned i = 0; packet->lacks && i < params->nodes; i++) {
		const struct packet_card *card = params->memory[i].base;
		uint64_t where;

		if (card == NULL || (params->others >> i & 1) != 0)
			continue;
		where = atomic_load(&card->where);
		if (where == 0)
			return;
		shared |= (where & PACKET_HAS_FAST) != 0 &&
			  packet_at(where, &packet->lanes[PACKET_LINK]);
	}
	if (!shared && params->notice != NULL)
		params->notice(params->now_arg, packet->line);
	packet->line[0] = '\0';
}

unsigned packet_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max, int *bad_peer)
{
	struct packet_state *packet = state;
	struct packet_frame frame;
	unsigned taken = 0, before;

	(void)bad_peer;
	packet->deliver = deliver;
	packet->deliver_arg = arg;
	for (unsigned i = 0; i < PACKET_LANES; i++) {
		struct packet_lane *lane = &packet->lanes[i];

		if (lane->fd < 0)
			continue;
		before = taken;
		for (; taken < max && packet_lane_next(lane, &frame); taken++) {
			if (!packet_arrived(packet, lane, &frame))
				break;
			packet_lane_done(lane);
		}
		if (taken == before)
			packet_lane_idle(lane);
		if (atomic_load_explicit(&lane->waits, memory_order_relaxed) != 0) {
			atomic_store_explicit(&lane->waits, 0, memory_order_relaxed);
			packet_lane_push(lane);
		}
	}
	if (atomic_load_explicit(&packet->narrow, memory_order_relaxed) != 0)
		packet_tell(packet);
	if (packet->line[0] != '\0')
		packet_tell_line(packet);
	return taken;
}

bool packet_pending(const void *state)
{
	const struct packet_state *packet = state;

	for (unsigned i = 0; i < PACKET_LANES; i++)
		if (packet->lanes[i].fd >= 0 && packet_lane_ready(&packet->lanes[i]))
			return true;
	return false;
}

size_t packet_limit(const void *state)
{
	return ((const struct packet_state *)state)->limit;
}

/* The room in frames, not bytes: a short frame takes a whole slot, too. */
size_t packet_room(const void *state)
{
	const struct packet_state *packet = state;

	return packet->frames_in * packet->limit;
}

/* ------------------------------------------------------------------------------------- sleeping */

void packet_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns)
{
	struct packet_state *packet = state;

	roami_ear_wait(&packet->ear, who, timeout_ns);
	for (unsigned i = 0; i < PACKET_LANES; i++)
		packet_lane_revive(&packet->lanes[i]);
}

void packet_wake(void *state, enum roam_sleeper who)
{
	roami_ear_wake(&((struct packet_state *)state)->ear, who);
}

void packet_listen(void *state, bool on)
{
	roami_ear_listen(&((struct packet_state *)state)->ear, on);
}

int packet_file(const void *state)
{
	return ((const struct packet_state *)state)->ear.file;
}

/* ---------------------------------------------------------------------------------------- probe */

bool packet_probe(const struct roam_transport_value *options, char *why, size_t why_bytes)
{
	struct packet_lane lane = {.fd = -1};
	int fd = roami_os_fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
	int version = TPACKET_V2;
	bool good = fd >= 0 &&
		    setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) == 0;

	if (!good)
		snprintf(why, why_bytes, "a socket of AF_PACKET: %s%s", strerror(errno),
			 packet_hint(errno));
	if (fd >= 0)
		close(fd);
	if (good && options != NULL && strcmp(options[PACKET_INTERFACE].text, "auto") != 0)
		good = packet_lane_find(&lane, options[PACKET_INTERFACE].text, true, why,
					why_bytes);
	return good;
}

const struct roam_transport roami_transport_packet = {
	.name = "packet",
	PACKET_OPERATIONS,
	.state_size = sizeof(struct packet_state),
	.options = packet_options,
	.open = packet_open,
	.probe = packet_probe,
};
