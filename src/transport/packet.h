/*
 * packet: raw Ethernet frames, past the protocol stack, as in Directed Point.  Nothing is promised:
 * the reliable layer stands over it.  packet.c has peers, frames and what they say; packet_lane.c
 * an interface with its rings, which the kernel fills and empties.
 */
#ifndef ROAMI_PACKET_TRANSPORT_H
#define ROAMI_PACKET_TRANSPORT_H

#include <net/if.h>
#include <stdatomic.h>

#include "ear.h"
#include "know.h"
#include "roam/transport.h"

#define PACKET_NODES_MAX 64u
#define PACKET_DATAGRAM  9216u /* longest datagram without its head */
#define PACKET_STANDARD  1500u /* bytes of a frame that every Ethernet takes */
#define PACKET_PARTS_MAX 16u
#define PACKET_MAC       6u

/*
 * Stands behind the Ethernet header.  The endpoint is a random number of the receiving process, by
 * which the kernel finds its ring; `mark`, another one, keeps out frames of an earlier job (rule
 * 10.2).
 */
struct packet_head {
	uint32_t endpoint; /* in network order */
	uint32_t mark;
	uint16_t to, from; /* nodes */
	uint16_t bytes;    /* payload behind the head: Ethernet makes short frames longer */
	uint16_t kind;
	uint32_t number;   /* number of the datagram to which this piece belongs */
	uint16_t offset;   /* in the datagram */
	uint16_t length;   /* length of the datagram; of a probe: its own */
};

_Static_assert(sizeof(struct packet_head) == 24, "what stands behind the Ethernet header");

enum packet_kind {
	PACKET_WHOLE = 1, /* a datagram */
	PACKET_PIECE,     /* a piece of a datagram longer than frames known to arrive */
	PACKET_PROBE,     /* asks whether a frame as long as the link takes arrives */
	PACKET_PROVEN     /* it did */
};

#define PACKET_ETHERNET 14u /* bytes of its header */

/* ---- lanes */

/* One direction of a lane's ring. */
struct packet_slots {
	uint8_t *base;
	unsigned count;
	unsigned at; /* the next one; `in`: the polling thread's, `out`: under the lock */
};

struct packet_lane;
struct packet_frame;

/* How frames leave and arrive; of what packet.c calls, below. */
struct packet_lane_ops {
	bool (*ready)(const struct packet_lane *lane);
	bool (*next)(struct packet_lane *lane, struct packet_frame *frame);
	void (*done)(struct packet_lane *lane);
	bool (*room)(struct packet_lane *lane, unsigned frames);
	uint8_t *(*slot)(struct packet_lane *lane, const uint8_t mac[PACKET_MAC]);
	void (*filled)(struct packet_lane *lane, size_t bytes);
	bool (*push)(struct packet_lane *lane);
	void (*revive)(struct packet_lane *lane);
	void (*idle)(struct packet_lane *lane); /* NULL: nothing to do */
	void (*close)(struct packet_lane *lane);
};

/* An interface, or one of two ways past the protocol stack that it has. */
struct packet_lane {
	int fd; /* -1: not there */
	int alone; /* a socket for frames that leave one at a time; 0: there is none */
	const struct packet_lane_ops *ops;
	bool far; /* it leads to other hosts */
	char name[IFNAMSIZ];
	uint8_t mac[PACKET_MAC];
	unsigned mtu;
	uint16_t type; /* EtherType, network order */
	size_t slot;   /* bytes of each */
	struct packet_slots in, out;
	uint8_t *ring;
	size_t ring_bytes;
	_Atomic uint32_t held;   /* the lock of the sending side */
	_Atomic uint32_t waits;  /* there are frames that the kernel has not taken yet */
	_Atomic uint32_t refused; /* how often in a row the link did not take a frame */
	struct xdp_socket *xdp; /* NULL: it has rings of AF_PACKET, above */
};

/* A frame in a ring, behind its Ethernet header. */
struct packet_frame {
	const uint8_t *source; /* the sender's address */
	const struct packet_head *head;
	size_t bytes; /* with the head */
};

/* Finds an Ethernet, or, if not `far`, lo; false: `why` says what is wrong with it. */
bool packet_lane_find(struct packet_lane *lane, const char *name, bool far, char *why,
		      size_t why_bytes);

/* The interface that has an IPv4 address, host byte order; false: none has. */
bool packet_lane_of(uint32_t address, char name[IFNAMSIZ]);

/*
 * Opens rings of AF_PACKET for frames of one type that are for `endpoint`.  ROAM_ESYSTEM: with
 * errno.
 */
enum roam_err packet_lane_open(struct packet_lane *lane, uint16_t type, uint32_t endpoint,
			       unsigned in, unsigned out);
extern const struct packet_lane_ops packet_rings; /* what that sets */

/* Writes an Ethernet header; returns what is behind it, not aligned. */
uint8_t *packet_lane_ethernet(const struct packet_lane *lane, uint8_t *at,
			      const uint8_t mac[PACKET_MAC]);

static inline void packet_lane_close(struct packet_lane *lane)
{
	if (lane->fd >= 0)
		lane->ops->close(lane);
}

/* Whether a frame has arrived.  Any thread. */
static inline bool packet_lane_ready(const struct packet_lane *lane)
{
	return lane->ops->ready(lane);
}

/*
 * The next frame that has arrived; false: none has.  A frame without a head has `head` NULL.  The
 * same again, until it is done with.
 */
static inline bool packet_lane_next(struct packet_lane *lane, struct packet_frame *frame)
{
	return lane->ops->next(lane, frame);
}

static inline void packet_lane_done(struct packet_lane *lane)
{
	lane->ops->done(lane);
}

/* Whether so many slots are free.  The lock is held. */
static inline bool packet_lane_room(struct packet_lane *lane, unsigned frames)
{
	return lane->ops->room(lane, frames);
}

/*
 * A slot for a frame that is to leave: returns where its head goes, not aligned; NULL: none is
 * free. The lock is held.
 */
static inline uint8_t *packet_lane_slot(struct packet_lane *lane, const uint8_t mac[PACKET_MAC])
{
	return lane->ops->slot(lane, mac);
}

/* Marks the slot as filled: `bytes` with the head. */
static inline void packet_lane_filled(struct packet_lane *lane, size_t bytes)
{
	lane->ops->filled(lane, bytes);
}

/* Hands filled slots to the kernel; false: the interface is down or gone.  Any thread. */
static inline bool packet_lane_push(struct packet_lane *lane)
{
	return lane->ops->push(lane);
}

/* Must be called after an interface went down, because its file stays readable until then. */
static inline void packet_lane_revive(struct packet_lane *lane)
{
	if (lane->fd >= 0)
		lane->ops->revive(lane);
}

/* Called where no frame has arrived: a card may have to be asked for one. */
static inline void packet_lane_idle(struct packet_lane *lane)
{
	if (lane->ops->idle != NULL)
		lane->ops->idle(lane);
}

/*
 * Opens `alone`, a socket without a ring, by which nothing arrives: the kernel has less to do for a
 * frame there.  `past`: past queues and those that listen to all frames.  The lane can do without.
 */
void packet_lane_alone(struct packet_lane *lane, bool past);
void packet_lane_alone_close(struct packet_lane *lane);

/* Sends a frame by `alone`, which is there, or loses it; false: there is no room.  Any thread. */
bool packet_lane_send(const struct packet_lane *lane, const uint8_t mac[PACKET_MAC],
		      const struct packet_head *head, const struct iovec *parts, unsigned count);

void packet_lane_lock(struct packet_lane *lane);
void packet_lane_unlock(struct packet_lane *lane);

/* ---- the transport */

#define PACKET_OPEN     1u
#define PACKET_HAS_FAST 2u

struct packet_card {
	_Atomic uint64_t endpoint; /* and the mark << 32 */
	/* Address of the interface << 16 | PACKET_OPEN, PACKET_HAS_FAST; 0: not open. */
	_Atomic uint64_t where;
};

struct packet_peer {
	struct roami_known known;
	uint32_t endpoint, mark;
	uint8_t mac[PACKET_MAC];
	struct packet_lane *lane;

	/* Whether frames longer than PACKET_STANDARD arrive there; under the lane's lock. */
	_Atomic uint32_t proven, heard;
	unsigned probes;
	uint64_t probe_due;
	uint32_t number; /* numbers the datagrams that were cut */

	/* The datagram that pieces are joined to; only the polling thread uses it. */
	uint32_t joining;
	uint16_t have, length;
	uint8_t *joined; /* PACKET_DATAGRAM bytes */
};

/* PACKET_FAST: past AF_PACKET, where the transport is xdp and the interface lets it. */
enum { PACKET_FAST, PACKET_LINK, PACKET_NEAR, PACKET_LANES };

struct packet_state {
	struct roam_transport_params params;
	/* Opens PACKET_FAST, the other way over PACKET_LINK's interface; NULL: there is none. */
	enum roam_err (*fast)(struct packet_state *packet,
			      const struct roam_transport_value *options);
	char line[200]; /* what open() leaves for the user to be told; "": nothing */
	bool lacks;     /* it is that PACKET_FAST is not there: not told if a node beside has it */
	struct packet_lane lanes[PACKET_LANES]; /* to other hosts, twice; to this host: lo */
	int both;      /* an epoll of all lanes; -1: there is one lane */
	struct roami_ear ear;
	uint32_t endpoint, mark; /* this node's */
	size_t limit;  /* bytes of a datagram */
	unsigned frames_in;
	struct packet_card *card;
	uint8_t *memory; /* holds the peers' `joined` */
	size_t memory_bytes;
	_Atomic uint64_t narrow; /* bits: peers of which the user is to be told */
	uint64_t reported;       /* bits: peers that were reported to the user */
	struct packet_peer peers[PACKET_NODES_MAX];
	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
};

/* In the order of the table: options of all transports whose frames are packet's. */
enum { PACKET_INTERFACE, PACKET_TYPE, PACKET_IN, PACKET_OUT, PACKET_OPTIONS };

/* The other functions of roam_transport, for these. */
enum roam_err packet_open(void *state, const struct roam_transport_params *params);
void packet_close(void *state);
enum roam_err packet_send(void *state, unsigned to, const struct iovec *parts, unsigned count);
unsigned packet_send_many(void *state, unsigned to, const struct iovec *messages, unsigned count);
unsigned packet_poll(void *state, roam_deliver_fn *deliver, void *arg, unsigned max, int *bad_peer);
bool packet_pending(const void *state);
bool packet_probe(const struct roam_transport_value *options, char *why, size_t why_bytes);
size_t packet_limit(const void *state);
size_t packet_room(const void *state);
void packet_wait(void *state, enum roam_sleeper who, uint64_t timeout_ns);
void packet_wake(void *state, enum roam_sleeper who);
void packet_listen(void *state, bool on);
int packet_file(const void *state);

/* What the transports that send these frames have in common. */
#define PACKET_OPERATIONS                                                                       \
	.caps = ROAM_CAP_HOSTS | ROAM_CAP_NAMED, .cost_ns = 3000, .message_max = PACKET_DATAGRAM, \
	.card_bytes = sizeof(struct packet_card), .close = packet_close, .send = packet_send,   \
	.send_many = packet_send_many, .poll = packet_poll, .pending = packet_pending,          \
	.limit = packet_limit, .room = packet_room, .wait = packet_wait, .wake = packet_wake,   \
	.listen = packet_listen, .file = packet_file

/* Says why open() fails. */
__attribute__((format(printf, 2, 3))) void packet_say(const struct packet_state *packet,
						      const char *format, ...);

#endif
