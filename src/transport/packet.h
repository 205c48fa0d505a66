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
#include "roam/transport.h"

#define PACKET_NODES_MAX 64u
#define PACKET_DATAGRAM  9216u /* longest datagram without its head */
#define PACKET_STANDARD  1500u /* bytes of a frame that every Ethernet takes */
#define PACKET_PARTS_MAX 16u
#define PACKET_MAC       6u

/*
 * Stands behind the Ethernet header.  The endpoint is a random number of the receiving process, by
 * which the kernel finds its ring; `mark`, another one, keeps out frames of an earlier job.
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

/* An interface. */
struct packet_lane {
	int fd; /* -1: not there */
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

/* Opens rings for frames of one type that are for `endpoint`.  ROAM_ESYSTEM: with errno. */
enum roam_err packet_lane_open(struct packet_lane *lane, uint16_t type, uint32_t endpoint,
			       unsigned in, unsigned out);
void packet_lane_close(struct packet_lane *lane);

/* The next frame that has arrived; false: none has.  A frame without a head has `head` NULL. */
bool packet_lane_next(const struct packet_lane *lane, struct packet_frame *frame);
void packet_lane_done(struct packet_lane *lane);

/*
 * A slot for a frame that is to leave: returns where its head goes, not aligned; NULL: none is
 * free. The lock is held.
 */
uint8_t *packet_lane_slot(struct packet_lane *lane, const uint8_t mac[PACKET_MAC]);
/* Marks the slot as filled: `bytes` with the head. */
void packet_lane_filled(struct packet_lane *lane, size_t bytes);
/* Hands filled slots to the kernel; false: the interface is down or gone.  Any thread. */
bool packet_lane_push(struct packet_lane *lane);

/* Whether so many slots are free.  The lock is held. */
bool packet_lane_room(const struct packet_lane *lane, unsigned frames);

void packet_lane_lock(struct packet_lane *lane);
void packet_lane_unlock(struct packet_lane *lane);

/* Must be called after an interface went down, because its file stays readable until then. */
void packet_lane_settle(struct packet_lane *lane);

/* ---- the transport */

struct packet_card {
	_Atomic uint64_t endpoint; /* and the mark << 32 */
	_Atomic uint64_t where;    /* address of the interface << 16 | 1; 0: not open */
};

struct packet_peer {
	_Atomic uint32_t known;
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

enum { PACKET_LINK, PACKET_NEAR, PACKET_LANES };

struct packet_state {
	struct roam_transport_params params;
	struct packet_lane lanes[PACKET_LANES]; /* to other hosts; to this host: lo */
	int both;      /* an epoll of both lanes; -1: there is one lane */
	struct roami_ear ear;
	uint32_t endpoint, mark; /* this node's */
	size_t limit;  /* bytes of a datagram */
	unsigned frames_in;
	struct packet_card *card;
	uint8_t *memory; /* holds the peers' `joined` */
	size_t memory_bytes;
	_Atomic uint32_t narrow; /* 1 + a peer of which the user is to be told */
	uint64_t told;   /* bits: peers of which the user was told */
	struct packet_peer peers[PACKET_NODES_MAX];
	roam_deliver_fn *deliver; /* of the poll under way */
	void *deliver_arg;
};

#endif
