/*
 * xdp: the packet transport whose frames to other hosts go by a socket of AF_XDP, past the network
 * stack.  The frames are packet's, so that nodes of both kinds talk to each other: where an
 * interface has no room for such a socket, the node sends and receives by packet's rings alone.
 * What the socket does not take, frames of other queues and frames longer than it has room for,
 * goes up the stack and arrives in these rings, too.
 *
 * xdp.c has the transport, xdp_lane.c the socket with its rings, xdp_attach.c the program that the
 * kernel runs for each frame of the interface.
 */
#ifndef ROAMI_XDP_TRANSPORT_H
#define ROAMI_XDP_TRANSPORT_H

#include <linux/if_xdp.h>

#include "packet.h"

#define XDP_CHUNK    4096u /* of the memory that the kernel shares with us */
#define XDP_KERNEL   256u  /* bytes before a frame that arrives are the kernel's own */
#define XDP_ALIGN    2u    /* and so many more, so that datagrams are aligned */
#define XDP_FRAME_IN (XDP_CHUNK - XDP_KERNEL - XDP_ALIGN) /* of a frame in one chunk */
#define XDP_CHUNKS_MAX 3u /* of a frame */
#define XDP_QUEUE_MAX  1023u

_Static_assert((XDP_KERNEL + XDP_ALIGN + PACKET_ETHERNET + sizeof(struct packet_head)) % 8 == 0,
	       "datagrams are aligned");
_Static_assert(XDP_CHUNKS_MAX * XDP_FRAME_IN >=
		       PACKET_ETHERNET + sizeof(struct packet_head) + PACKET_DATAGRAM,
	       "the longest frame");

/* How frames come to the socket, and whether it shares memory with the card. */
enum xdp_mode { XDP_AUTO, XDP_ZERO_COPY, XDP_NATIVE, XDP_GENERIC };

struct xdp_ring {
	uint32_t *producer, *consumer, *flags;
	void *slots; /* struct xdp_desc, or addresses */
	uint32_t count, at; /* `at`: our side's counter */
	void *map;
	size_t bytes;
};

struct xdp_socket {
	int link;        /* the program's: the kernel detaches it when this is closed */
	pid_t pid;       /* the process that has opened it: one that was forked has its files */
	enum xdp_mode mode;
	bool joins;      /* frames may be longer than a chunk */
	uint8_t *memory; /* chunks of frames that arrive, then slots of frames that leave */
	size_t bytes;
	struct xdp_ring fill, in, out, sent;
	unsigned chunks_in;
	unsigned slot_chunks, slots; /* of frames that leave */
	unsigned spare;              /* slots that are free: the first ones of `free` */
	uint16_t *free;
	uint8_t *left;    /* by slot: chunks that the kernel has not given back */
	uint8_t *joined;  /* a frame that came in several chunks, or not aligned */
	unsigned taking;  /* chunks of the frame that is being looked at */
	uint32_t busy_us; /* how long a look at an empty ring polls the card; 0: it does not */
};

struct xdp_plan {
	enum xdp_mode mode;
	bool joins;
	unsigned queue, in, out; /* frames that can wait */
	uint32_t busy_us;
};

/*
 * Opens a socket on the interface of `lane`, for frames of its type that are for `endpoint`, the
 * number in network order.  On failure: errno, and what was refused in *what.
 */
bool xdp_lane_open(struct packet_lane *lane, struct xdp_socket *xdp, uint32_t endpoint,
		   const struct xdp_plan *plan, const char **what);

/*
 * Whether a process may have such a socket, with so much memory, here where no interface is named:
 * with `joins`, for the longest frames.
 * On failure as above; *bytes: of the memory.
 */
bool xdp_lane_probe(const struct xdp_plan *plan, size_t *bytes, const char **what);

extern const struct packet_lane_ops xdp_rings; /* what that sets */

/* ---- the program */

/* A map of sockets; -1 with errno. */
int xdp_map_make(unsigned queue);
bool xdp_map_put(int map, unsigned queue, int socket);
/*
 * A program that hands the frames of one type and endpoint to the socket of their queue, and lets
 * all others pass, and so those that are longer than `longest`, if it is not 0; -1 with errno.
 */
int xdp_program_make(int map, uint16_t type, uint32_t endpoint, unsigned longest);
/* Attaches it: a link for roami_bpf_close; -1 with errno. */
int xdp_program_attach(int program, int interface, enum xdp_mode mode);

#endif
